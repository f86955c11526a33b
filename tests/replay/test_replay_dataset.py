"""The stored recordings and replays in datasets/replay: whole, alike, and what they are said to be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import bench, replay

STORED = ROOT / "datasets" / "replay"
RECORDED = json.loads((STORED / "recorded.json").read_text("utf-8"))
PLACES = RECORDED["places"]
REPEATS = int(RECORDED["fsync"].split("--repeats ")[1].split()[0])
"""Of the replays and of the benchmark."""


def test_every_file_is_named_and_as_it_was_recorded() -> None:
    stated = {STORED / name: digest for name, digest in RECORDED["app"]["sha256"].items()}
    stated |= {
        STORED / place / name: digest for place, told in PLACES.items() for name, digest in told["sha256"].items()
    }
    assert set(stated) == {*STORED.glob("*.xz"), *STORED.glob("*/*")}
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in stated} == stated


def test_every_replay_did_the_whole_program_without_a_divergence(tmp_path: Path) -> None:
    capture = androstep.open(STORED / "app.strace.xz")
    program = replay.clean(capture.syscalls, capture.tables["tasks"]).program
    asked = program.operations.filter(~program.operations["inserted"]).height
    programs = set()
    for place in PLACES:
        found = replay.read(*sorted((STORED / place).glob("replay-*.rec.xz")))
        assert not found.losses
        runs = found.tables["replay_runs"]
        assert runs.height == REPEATS and set(runs["fs_type"]) == {place.split("_")[0]}
        assert set(runs["done"]) == {asked} and set(runs["diverged"]) == {0} and set(runs["mode"]) == {"as_recorded"}
        programs |= set(runs["program"])
        assert replay.metrics(found.tables, program)["run_id"].n_unique() == REPEATS
    assert len(programs) == 1


@pytest.mark.parametrize("place", PLACES)
def test_the_benchmarks_are_valid(place: str) -> None:
    found = bench.read(STORED / place / "fsync.rec.xz")
    runs = found.tables["bench_runs"]
    assert not found.losses and runs["valid"].all() and runs.height == REPEATS
    assert set(runs["sync_mode"]) == {"fsync"} and set(runs["fs_type"]) == {place.split("_")[0]}
