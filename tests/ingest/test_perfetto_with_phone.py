"""A Perfetto trace that a phone recorded in addition to a recording of its kernel's events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.perfetto_messages import bundle, trace

from androstep_analysis import ingest
from androstep_analysis.common.errors import InputError

BOOT = 6
WRITE = {"dev": 8 << 20, "sector": 8, "nr_sector": 8, "rwbs": "W"}


def write(ts_ns: int) -> dict[str, Any]:
    return {"timestamp": ts_ns, "pid": 7, "block_rq_issue": {**WRITE, "comm": "mail"}}


def switch(ts_ns: int, before: int, state: int, following: int) -> dict[str, Any]:
    fields = {"prev_comm": "", "prev_pid": before, "prev_state": state, "next_comm": "", "next_pid": following}
    return {"timestamp": ts_ns, "pid": before, "sched_switch": fields}


def phone(place: Path) -> Path:
    """Write a trace with a request, a sleep, a frame and a process."""
    frame = {"actual_surface_frame_start": {"cookie": 1, "token": 2, "pid": 7}}
    (place / "phone.pftrace").write_bytes(
        trace(
            bundle(write(10), switch(20, 7, 2, 0), switch(30, 0, 0, 7)),
            {"timestamp": 40, "timestamp_clock_id": BOOT, "frame_timeline_event": frame},
            {"process_tree": {"processes": [{"pid": 7, "ppid": 1, "cmdline": ["org.example.app"], "uid": 10123}]}},
            {"packages_list": {"packages": [{"name": "org.example.app", "uid": 10123}]}},
        )
    )
    return place / "phone.pftrace"


def test_only_what_the_recording_lacks_is_added(tmp_path: Path) -> None:
    (tmp_path / "main.pftrace").write_bytes(trace(bundle(write(11), write(12))))
    found = ingest.read(tmp_path / "main.pftrace", phone=[phone(tmp_path)])
    assert found.block.collect()["ts_ns"].to_list() == [11, 12]
    assert found.frames.collect().select("ts_ns", "pid").rows() == [(40, 7)]
    assert found.blocked.collect().rows() == [(20, 30, 7, None)]
    assert found.tasks is not None and "org.example.app" in found.tasks["package"].to_list()
    assert found.events["block_rq_issue"] == 2 and found.events["sched_switch"] == 2
    assert (found.first_ns, found.last_ns) == (11, 12)


def test_another_clock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.pftrace").write_bytes(trace(bundle(write(11), ftrace_clock=3)))
    with pytest.raises(InputError, match="its clock is boot and that of the recording is local"):
        ingest.read(tmp_path / "main.pftrace", phone=[phone(tmp_path)])


def test_losses_of_the_phone_concern_its_own_tables(tmp_path: Path) -> None:
    (tmp_path / "main.pftrace").write_bytes(trace(bundle(write(11))))
    path = phone(tmp_path)
    path.write_bytes(
        path.read_bytes()
        + trace({"ftrace_stats": {"phase": 2, "unknown_ftrace_events": ["a/b"]}})
        + trace(bundle(write(50), lost_events=True))
    )
    with pytest.warns(match="1 times the kernel lost events"):
        found = ingest.read(tmp_path / "main.pftrace", phone=[path])
    assert {loss.kind: loss.tables for loss in found.losses} == {
        "missing": (),
        "overwritten": ("frames", "blocked", "tasks"),
    }
