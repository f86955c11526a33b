"""The recorded runs of apps: complete, consistent with recorded.json, and without names of the recording machine."""

from __future__ import annotations

import hashlib
import json
import re

import polars as pl
import pytest
from support.tree import ROOT

from androstep_analysis import bench, schema

STORED = ROOT / "datasets" / "apps"
RECORDED = json.loads((STORED / "recorded.json").read_text("utf-8"))
PARTS = RECORDED["parts"]
RECORDINGS = [name for name, part in PARTS.items() if "devices" in part]
RUNS = {
    "kim": {(app, place): 3 for app in ("web", "install") for place in ("disk", "memory", "card")},
    "luo": {
        (app, place): count
        for app, count in (("web", 5), ("messages", 5), ("install", 3))
        for place in ("default", "no_sync", "no_journal", "both")
    },
    "luo_paused": {("web", ""): 1},
}
"""How often each app ran in each place, according to README.md."""
NAMES_OF_HOSTS = re.compile(r"/(work|tmp|home|root|dev/shm|var/tmp)\b|127\.0\.0\.1|androstep-|://")


def tables(part: str) -> dict[str, pl.DataFrame]:
    return {path.stem: pl.read_parquet(path) for path in sorted((STORED / part).glob("*.parquet"))}


def test_every_file_is_the_one_of_the_manifest() -> None:
    listed = {f"{part}/{name}": digest for part, known in PARTS.items() for name, digest in known["sha256"].items()}
    files = [path for part in PARTS for path in (STORED / part).iterdir()]
    found = {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == listed
    assert {path.name for path in STORED.iterdir() if path.is_dir()} - {"__pycache__"} == set(PARTS)
    assert max(path.stat().st_size for path in files) < 1 << 20
    assert sum(path.stat().st_size for path in files) < 6 << 20


@pytest.mark.parametrize("part", RECORDINGS)
def test_a_recording_is_what_it_is_said_to_be(part: str) -> None:
    found = tables(part)
    assert set(found) >= {"requests", "io", "steps", "samples"}
    for name, table in found.items():
        schema.complete(table, name)  # later versions added columns
    assert set(found["requests"]["dev"]) == set(PARTS[part]["devices"].values())
    assert set(found["samples"]["scope"].cast(pl.String)) == {"system"}
    steps = found["steps"]
    assert set(steps["outcome"].cast(pl.String)) == {"completed"}
    counted = steps.group_by("workload").agg(pl.col("repeat").n_unique()).rows()
    assert {(app, place): count for name, count in counted for app, _, place in [name.partition(" ")]} == RUNS[part]
    # All steps lie within the sampled and traced time.
    assert steps["ts_ns"].min() > found["samples"]["ts_ns"].min()
    assert steps["end_ns"].max() < max(found["samples"]["ts_ns"].max(), found["requests"]["complete_ns"].max())


@pytest.mark.parametrize("part", [part for part in RECORDINGS if "packages" in PARTS[part]])
def test_the_packages_are_those_that_were_installed(part: str) -> None:
    installed = tables(part)["steps"].filter(pl.col("what").cast(pl.String) == "install")["label"].unique()
    assert {label.split("_")[0] for label in installed} == {package["name"] for package in PARTS[part]["packages"]}
    assert installed.len() == 10


def test_without_sync_or_journal_there_is_less_of_it() -> None:
    """The configurations take effect: no journal is written without one, and an app without sync flushes less."""
    found, devices = tables("luo"), PARTS["luo"]["devices"]
    journal = found["io"].filter(pl.col("block_type").cast(pl.String) == "journal")
    assert set(journal["dev"]) == {devices["default"], devices["no_sync"]}
    synced = found["requests"].filter(op="flush").group_by("dev").len()
    flushes = {place: synced.filter(dev=dev)["len"].sum() for place, dev in devices.items()}
    assert flushes["no_sync"] < flushes["default"] / 2
    assert flushes["both"] < flushes["no_journal"] / 2


@pytest.mark.parametrize("part", [part for part in PARTS if part not in RECORDINGS])
def test_results_of_iobench_are_valid(part: str) -> None:
    results = bench.read(*sorted((STORED / part).glob("*.rec.xz")))
    assert not results.losses
    assert results.tables["bench_runs"]["valid"].all()
    assert set(results.tables["bench_runs"]["fs_type"]) == {"ext4"}


@pytest.mark.parametrize("part", RECORDINGS)
def test_nothing_names_the_machine(part: str) -> None:
    for table in tables(part).values():
        for column in table.select(pl.col(pl.String)):
            named = [value for value in column.unique() if value is not None and NAMES_OF_HOSTS.search(value)]
            assert named == [], column.name
    assert not NAMES_OF_HOSTS.search(json.dumps(RECORDED))
