"""The recorded data: as its manifest says, and what predictions made of it are worth."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import polars as pl
import pytest
from support.tree import ROOT

sys.path.append(str(ROOT / "datasets" / "whatif"))
from programs import programs

from androstep_analysis import bench, schema, whatif
from androstep_analysis.replay import device
from androstep_analysis.whatif.model import ACCESSES, FUA

STORED = ROOT / "datasets" / "whatif"
RECORDED = json.loads((STORED / "recorded.json").read_text())
MODELS = [name for name in RECORDED["parts"] if name.startswith("model_")]


def traced(name: str) -> dict[str, pl.LazyFrame]:
    return {table: pl.scan_parquet(STORED / name / f"{table}.parquet") for table in ("requests", "io", "extents")}


def written(requests: pl.DataFrame | pl.LazyFrame) -> dict[str, int]:
    """Return bytes by operation, and the number of flushes."""
    rows = requests.lazy().group_by("op").agg(bytes=pl.col("nr_sectors").sum() * 512, n=pl.len()).collect()
    by_op = {op: (size, count) for op, size, count in rows.rows()}
    return {"read": by_op["read"][0], "write": by_op["write"][0], "flushes": by_op["flush"][1]}


def test_every_file_is_the_one_of_the_manifest() -> None:
    listed = {
        f"{part}/{name}": digest
        for part, known in RECORDED["parts"].items()
        for name, digest in known["sha256"].items()
    }
    parts = [path for path in STORED.iterdir() if path.is_dir() and path.name != "__pycache__"]
    files = {path for part in parts for path in part.rglob("*") if path.is_file()}
    assert {str(path.relative_to(STORED)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == listed
    assert max(path.stat().st_size for path in files) < 1 << 20
    assert sum(path.stat().st_size for path in files) < 3 << 20


@pytest.mark.parametrize("name", ["messages", "messages_no_journal", "messages_no_sync"])
def test_tables_are_those_of_the_schemas(name: str) -> None:
    for table, rows in traced(name).items():
        schema.complete(rows.collect(), table)


@pytest.mark.parametrize("name", MODELS)
def test_models_know_every_size_and_flushes(name: str) -> None:
    model = whatif.fit(bench.read(*sorted((STORED / name).glob("*.xz"))).tables)
    sizes = {
        kind: set(size) for kind, size in model.group_by(pl.col("access").cast(pl.String)).agg("block_bytes").rows()
    }
    assert set(sizes) == {*ACCESSES, *FUA.values(), "flush"}
    assert all(sizes[access] == {4096 << step for step in range(9)} for access in ACCESSES)
    assert all(sizes[access] >= {4096, 65536, 1 << 20} for access in FUA.values())
    assert sizes["flush"] >= {4096, 65536, 1 << 20}
    assert model.filter(pl.col("access") != "flush")["depth"].null_count() == 0


def test_without_fsync_is_what_an_app_without_fsync_did() -> None:
    """The same app recorded with and without: the model's remaining requests equal the real ones."""
    tables = traced("messages")
    made = whatif.without_fsync(tables["requests"], tables["io"], tables["extents"])
    predicted, real = written(made.requests), written(traced("messages_no_sync")["requests"])
    assert predicted["read"] == real["read"]
    assert predicted["write"] == pytest.approx(real["write"], rel=0.05)
    assert abs(predicted["flushes"] - real["flushes"]) <= 2


def test_without_journal_leaves_less_than_there_really_was() -> None:
    """The documented error: inodes that an fsync writes in place are not modelled."""
    tables = traced("messages")
    before = written(tables["requests"])
    predicted = written(whatif.without_journal(tables["requests"], tables["io"]).requests)
    real = written(traced("messages_no_journal")["requests"])
    assert predicted["write"] < real["write"] < before["write"]
    assert predicted["write"] / real["write"] > 0.6
    assert predicted["flushes"] < real["flushes"] < before["flushes"]


@pytest.mark.parametrize("part", [name for name in RECORDED["parts"] if name.startswith("replays_")])
def test_replays_are_of_the_programs_that_are_made_today(part: str) -> None:
    made = programs(part.removeprefix("replays_"), STORED / "messages")
    operations = {change: device.program(rows).operations["inserted"].not_().sum() for change, rows, _ in made}
    measured = pl.read_csv(STORED / part / "measured.csv").filter(trace="messages", metric="elapsed")
    assert dict(measured.select("change", "n").unique().rows()) == operations


@pytest.mark.prove
def test_the_page_of_predictions_is_up_to_date() -> None:
    written = subprocess.run(
        [sys.executable, ROOT / "tools" / "predictions.py"], capture_output=True, check=True, encoding="utf-8"
    ).stdout
    assert (ROOT / "docs" / "predictions.md").read_text("utf-8") == written, "run `make tables`"


def test_a_prediction_for_the_disk_is_of_the_measured_order() -> None:
    """Recorded once, so the same on every machine: predicted over measured, of the trace as it was."""
    model = whatif.fit(bench.read(*sorted((STORED / "model_disk").glob("*.xz"))).tables)
    totals = whatif.predict(device.program(traced("messages")["requests"]), model).totals
    measured = pl.read_csv(STORED / "replays_disk" / "measured.csv", schema_overrides={"quantile": pl.String})
    one = measured.filter(trace="messages", change="before", mode="as_fast").rename({"value_ns": "value"})
    found = whatif.accuracy(totals, one).filter(metric="elapsed")
    assert found["n"].to_list() == [6]
    assert 0.5 < found["value"][0] < 2
    assert found["agrees"].to_list() == [True]
