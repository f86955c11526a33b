"""`androstep advise` on real workloads with one trait each, and on variants without it (traits.py)."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import polars as pl
import pytest
import traits
from recorded import recorded
from support import corpus

import androstep_analysis as androstep

# Other programs may be in a call when the recording ends.
pytestmark = pytest.mark.filterwarnings("ignore:.*calls have no result")


def cache_drops() -> int:
    """Return how many times the page cache of this machine was dropped."""
    lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return sum(int(value) for name, value in lines if name.startswith("drop_"))


def assert_syncs_are_counted(advice: pl.DataFrame) -> None:
    """Check the counts of traits.py: 61 syncs, the first 60 after a write each."""
    (row,) = advice.filter(trigger="syncs").iter_rows(named=True)
    assert (row["path"], row["times"]) == ("/records", 61)
    assert row["bytes"] == 60 * traits.PAGE
    assert 0 < row["took_ns"] <= row["end_ns"] - row["begin_ns"]
    assert 61 - 3 <= row["saved_times"] <= 60  # within one second or, across their bounds, few


def assert_writes_in_the_background_are_counted(advice: pl.DataFrame) -> None:
    """Check that only the three rounds of 8 blocks count: data modified in the foreground does not."""
    (row,) = advice.filter(trigger="background").iter_rows(named=True)
    assert (row["times"], row["saved_times"], row["bytes"]) == (3, 2, 24 * traits.PAGE)
    assert row["path"] in {"/round0", "/round1", "/round2"}
    assert row["value"] == pytest.approx(24 / (24 + 48 + 5))


COUNTED = {"syncs": assert_syncs_are_counted, "background": assert_writes_in_the_background_are_counted}


@pytest.mark.prove
@pytest.mark.root
@pytest.mark.parametrize("kind", ["yes", "no"])
@pytest.mark.parametrize("name", traits.TRAITS)
def test_each_trait_is_found_where_it_is(tmp_path: Path, name: str, kind: str) -> None:
    bad = kind == "yes"
    advice = androstep.advise(recorded(tmp_path, name, bad=bad))
    # Files that the workload created are read from the device only if another program dropped the page cache.
    is_read_again = pl.col("trigger").is_in(["pieces", "pages"]) & ~pl.col("path").is_in(traits.READ)
    found = advice.filter(~is_read_again, status="found")
    assert set(found["trigger"]) == set(traits.TRAITS[name][1 if bad else 2])
    assert advice.filter(trigger=name, status="cannot tell").is_empty()
    if bad and name in COUNTED:
        COUNTED[name](advice)


@pytest.mark.prove
def test_rewrites_are_those_of_what_the_disk_got(tmp_path: Path) -> None:
    """Compare with the log of a guest's disk, which identifies each block by its content."""
    place = corpus.path("kernel/ext4_guest_6.1/final.img.zst").parent
    subprocess.run(["zstd", "-dqf", place / "final.img.zst", "-o", tmp_path / "image"], check=True)
    capture = androstep.open(place / "trace.dat.zst").with_filesystem(after=tmp_path / "image")
    (row,) = androstep.advise(capture).filter(trigger="rewrites", status="found").iter_rows(named=True)
    logged = json.loads(gzip.decompress((place / "ground_truth.json.gz").read_bytes()))["writes"]
    last: dict[tuple[int, int], int] = {}
    again = 0
    for one in sorted(logged, key=lambda one: one["ts"]):
        if one["kind"] == "data" and one["names"] == [row["path"].lstrip("/")]:
            block = (one["ino"], one["lblk"])
            again += one["ts"] - last.get(block, -(1 << 62)) <= 5 * 10**9
            last[block] = one["ts"]
    assert row["times"] == again
