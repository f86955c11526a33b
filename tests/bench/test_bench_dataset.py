"""The stored results in datasets/bench: whole, valid, and what they are said to be."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from harness import guest
from support.needs import needs
from support.tree import ROOT

from androstep_analysis import bench

STORED = ROOT / "datasets" / "bench"
RECORDED = json.loads((STORED / "recorded.json").read_text("utf-8"))
PEERS = "ext4_peers"
"""Where iobench and fio took turns: a file for each round."""
REPEATS = {command.split("--repeats ")[1].split()[0] for command in RECORDED["commands"].values()}
FILES = [(place, name) for place, recorded in RECORDED["places"].items() for name in recorded["sha256"]]


def test_every_file_is_named() -> None:
    assert sorted((path.parent.name, path.name) for path in STORED.glob("*/*.xz")) == sorted(FILES)


@pytest.mark.prove
@pytest.mark.parametrize(("place", "name"), FILES)
def test_results_are_those_that_were_recorded(place: str, name: str) -> None:
    path = STORED / place / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == RECORDED["places"][place]["sha256"][name]
    results = bench.read(path)
    assert not results.losses
    runs = results.tables["bench_runs"]
    assert runs["valid"].all()
    if name.endswith(".rec.xz"):
        assert set(runs["fs_type"]) == {place.split("_")[0]}
    else:
        assert set(runs["tool"]) == {"fio"}
    (repeats,) = REPEATS
    assert set(runs["repeat"]) == set(range(1 if place == PEERS else int(repeats)))


@pytest.mark.parametrize("experiment", ["reads", "writes"])
def test_both_tools_did_the_same(experiment: str) -> None:
    """Of iobench and fio: as many rounds of the same tests, of as many operations and bytes each."""
    results = bench.read(*(STORED / place / name for place, name in FILES if place == PEERS and experiment in name))
    whole = results.tables["bench"].filter(thread=-1, part="op").select("run_id", "repeat", "ops", "bytes")
    configuration = ("test", "sync_mode", "block_bytes", "file_bytes", "threads")
    runs = results.tables["bench_runs"].select("run_id", "repeat", "tool", *configuration)
    done = runs.join(whole, on=["run_id", "repeat"]).group_by("tool", *configuration, "ops", "bytes").len()
    of_iobench, of_fio = (done.filter(tool=tool).drop("tool").sort(pl.all()) for tool in ("iobench", "fio"))
    assert of_iobench.equals(of_fio)
    rounds = [name for place, name in FILES if place == PEERS and name.startswith(experiment) and ".rec." in name]
    assert set(done["len"]) == {len(rounds)} and len(rounds) >= 6


@needs("qemu")
def measured_in_guests(out: Path, *words: str) -> None:
    if why := guest.missing():
        pytest.skip(why)
    subprocess.run([sys.executable, STORED / "matrix.py", "-o", out, *words], check=True, stdout=subprocess.PIPE)


@pytest.mark.prove
def test_one_command_measures_filesystems_in_guests(tmp_path: Path) -> None:
    """On F2FS, which needs no journal of SQLite, a transaction is two pages of data and two nodes in every mode."""
    job = "sqlite -T 1 -n 20 -d update --sweep journal-mode=DELETE,PERSIST -q"
    measured_in_guests(tmp_path, "--filesystems", "f2fs", "vfat", "--", *job.split())
    results = bench.read(*sorted(tmp_path.glob("*.rec"))).tables
    assert results["bench_runs"]["valid"].all()
    written = bench.written(results, by=["fs_type", "journal_mode"]).filter(metric="written_per_op")
    cost = {(fs_type, mode): value for _, fs_type, mode, value, *_ in written.iter_rows()}
    assert cost["f2fs", "DELETE"] == cost["f2fs", "PERSIST"] == 16384
    assert cost["vfat", "DELETE"] != cost["vfat", "PERSIST"]
    assert {path.name for path in tmp_path.glob("*.png")} == {"rate.png", "written.png"}
