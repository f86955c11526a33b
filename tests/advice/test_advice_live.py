"""`androstep advise` on real workloads made to have one trait each, and made not to (traits.py)."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import traits
from support import corpus
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep

# Programs beside the workload may be in a call when the recording ends.
pytestmark = pytest.mark.filterwarnings("ignore:.*calls have no result")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("kind", ["yes", "no"])
@pytest.mark.parametrize("name", traits.TRAITS)
def test_each_trait_is_found_where_it_is(tmp_path: Path, name: str, kind: str) -> None:
    bad = kind == "yes"
    advice = androstep.advise(_recorded(tmp_path, name, bad=bad))
    assert set(advice.filter(status="found")["trigger"]) == set(traits.TRAITS[name][1 if bad else 2])
    assert advice.filter(trigger=name, status="cannot tell").is_empty()


def _recorded(place: Path, name: str, *, bad: bool) -> androstep.Capture:
    needs_probe("iotrace")
    make_ext4(place / "image", ["-b", "4096"], 256)
    with mounted(place / "image") as first:
        traits.prepare(first.top)
    with mounted(place / "image", traits.options(name, bad=bad)) as disk:
        record = ["record", "--on", "local", "-o", str(place / "capture"), "--preset", "block+fs+syscalls"]
        workload = [sys.executable, traits.__file__, name, "yes" if bad else "no", str(disk.top)]
        command = [sys.executable, "-m", "androstep_analysis", *record, "--device", disk.device, "--", *workload]
        subprocess.run(command, check=True, capture_output=True)
    # The image tells what is metadata: without it, of workloads that write little, most could be data.
    described = androstep.Description(image_after=place / "image")
    return androstep.create([place / "capture" / "raw"], place / "whole", described)


@pytest.mark.slow
@pytest.mark.root
def test_what_a_finding_says_is_what_was_done(tmp_path: Path) -> None:
    """The counts that traits.py makes: 61 syncs, whose first 60 follow a write each."""
    advice = androstep.advise(_recorded(tmp_path, "syncs", bad=True))
    (row,) = advice.filter(trigger="syncs").iter_rows(named=True)
    assert (row["path"], row["times"]) == ("/records", 61)
    assert row["bytes"] == 60 * traits.PAGE
    assert 0 < row["took_ns"] <= row["end_ns"] - row["begin_ns"]
    assert 61 - 3 <= row["saved_times"] <= 60  # within one second or, across their bounds, few


@pytest.mark.slow
def test_rewrites_are_those_of_what_the_disk_got(tmp_path: Path) -> None:
    """Beside the log of a guest's disk, which knows each block by its content."""
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
