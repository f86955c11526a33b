"""Bytes that were read and never requested by a program with known requests, compared with mincore and pagemap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from support import tracing
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.capture import Capture
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.recording import Recording

NAMES = ("whole", "odd", "huge", "head", "dropped", "single", "around", "strict", "written", "direct")
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.mark.prove
@pytest.mark.root
def test_what_a_program_asked_for(tmp_path: Path) -> None:
    needs_probe("iotrace")
    with tracing.mounted(tmp_path) as tracefs:
        if not (tracefs / "events/filemap/mm_filemap_get_pages").exists():
            pytest.skip("this kernel has no events of what is asked for")
    make_ext4(tmp_path / "image", ["-b", "4096"], 256)
    with mounted(tmp_path / "image") as place:
        for name in NAMES:
            (place.top / name).write_bytes(os.urandom(8 << 20))
    with mounted(tmp_path / "image") as place:
        reads = [sys.executable, Path(__file__).with_name("reads.py"), place.top, tmp_path / "log"]
        record = ["record", "--on", "local", "--readahead", "-o", tmp_path / "capture", "--device", place.device]
        command = [sys.executable, "-m", "androstep_analysis", *record, "--", *reads]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    capture = androstep.open(tmp_path / "capture")
    recording = Recording.of(capture)
    table = measures.readahead(
        capture.tables,
        by=("path",),
        page_bytes=capture.facts["page_bytes"],
        recorded=recording.events,
        lost=recording.losses,
    ).filter(metric="bytes")
    log = json.loads((tmp_path / "log").read_text())
    found = {
        name: {part: value / PAGE for part, value in table.filter(path=f"/{name}").select("part", "value").rows()}
        for name in NAMES
    }
    assert found.pop("direct") == {"direct": (1 << 19) / PAGE}
    for name, parts in found.items():
        asked, was_in, mapped = (set(log[name][kind]) for kind in ("asked", "was_in", "mapped"))
        gone = pages_gone(capture, f"/{name}")
        was_in |= gone
        # A fault may map what is there of the 16 pages around; the kernel passes over those that are locked.
        around = {near for page in asked if mapped for near in range(page // 16 * 16, page // 16 * 16 + 16)} & was_in
        assert asked | mapped <= was_in
        assert sum(parts.values()) == len(was_in), name
        # The touched pages among the mapped ones are unknown, and so is the begin of a call that had to wait.
        used = parts.get("asked", 0) + parts.get("mapped", 0) + parts.get("unknown", 0)
        assert len(asked | mapped) <= used <= len(asked | around), name
        assert parts.get("asked", 0) <= len(asked), name
        assert parts.get("pending", 0) == 0 if log[name]["is_dropped"] else parts.get("dropped", 0) <= len(gone), name
        if name not in ("whole", "odd", "huge"):
            assert "unknown" not in parts, name
    for name in ("head", "dropped", "single", "strict", "written"):
        assert found[name]["asked"] == len(log[name]["asked"]), name
    assert sum(parts.get("unknown", 0) for parts in found.values()) < 0.1 * sum(
        len(one["was_in"]) for one in log.values()
    )


def pages_gone(capture: Capture, path: str) -> set[int]:
    """Return the pages of the file that left the cache: dropped by the program, or reclaimed by the kernel (DAMON)."""
    gone = capture.table("fs_events").filter(pl.col("event") == tracepoints.UNCACHED)
    of_file = capture.table("io").filter(path=path).select("ino").unique()
    rows = gone.join(of_file, on="ino", how="semi").select("page", pl.col("page_order").fill_null(0)).collect().rows()
    return {page + at for page, order in rows for at in range(1 << order)}
