"""What was read and never asked for, of a program that knows what it asked for, beside mincore and pagemap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.compare.measures import Recording

NAMES = ("whole", "odd", "huge", "head", "dropped", "single", "around", "strict", "written", "direct")
PAGE = os.sysconf("SC_PAGESIZE")


@pytest.mark.slow
@pytest.mark.root
def test_what_a_program_asked_for(tmp_path: Path) -> None:
    needs_probe("iotrace")
    if not Path("/sys/kernel/tracing/events/filemap/mm_filemap_get_pages").exists():
        pytest.skip("this kernel has no events of what is asked for, or no tracefs is mounted")
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
        assert asked <= was_in
        assert sum(parts.values()) == len(was_in), name
        left = len(was_in - asked - mapped)
        assert parts.get("dropped" if log[name]["is_dropped"] else "pending", 0) == left, name
        # Of mapped pages it is not known which were touched; of a call that had to wait, not where it began.
        assert parts.get("mapped", 0) <= len(mapped), name
        assert parts.get("asked", 0) + parts.get("mapped", 0) + parts.get("unknown", 0) == len(asked | mapped), name
        if name != "odd":
            assert "unknown" not in parts, name
    for name in ("whole", "huge", "head", "dropped", "single", "strict", "written"):
        assert found[name]["asked"] == len(log[name]["asked"]), name
