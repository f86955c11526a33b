"""The stored results in datasets/bench: whole, valid, and what they are said to be."""

from __future__ import annotations

import hashlib
import json

import pytest
from tree import ROOT

from androstep_analysis import bench

STORED = ROOT / "datasets" / "bench"
RECORDED = json.loads((STORED / "recorded.json").read_text("utf-8"))
FILES = [(place, name) for place, recorded in RECORDED["places"].items() for name in recorded["sha256"]]


def test_every_file_is_named() -> None:
    assert sorted((path.parent.name, path.name) for path in STORED.glob("*/*.rec.xz")) == sorted(FILES)


@pytest.mark.parametrize(("place", "name"), FILES)
def test_results_are_those_that_were_recorded(place: str, name: str) -> None:
    path = STORED / place / name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == RECORDED["places"][place]["sha256"][name]
    results = bench.read(path)
    assert not results.losses
    runs = results.tables["bench_runs"]
    assert runs["valid"].all()
    assert set(runs["fs_type"]) == {place.split("_")[0]}
    assert set(runs["repeat"]) == set(range(5))
