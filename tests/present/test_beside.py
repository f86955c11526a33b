"""The table of what processes wrote, read and synced."""

from __future__ import annotations

from support import made
from support.tree import ROOT

from androstep_analysis import capture, measures
from androstep_analysis.present import beside
from androstep_analysis.present.terminal.text import sheet

KEYS = ("owner_comm", "dev", "ino", "incarnation", "path")


def test_files_add_up_to_the_measure() -> None:
    of = capture.open(ROOT / "datasets/demo")
    rows = beside.files(of).rows
    moved = measures.file_io(of.tables, by=KEYS, page_bytes=of.facts["page_bytes"])
    for name in ("written", "read"):
        assert rows[name].sum() == moved.filter(metric=name)["value"].sum() > 0
    size = rows["written"].fill_null(0) + rows["read"].fill_null(0)
    assert size.to_list() == sorted(size, reverse=True)
    assert rows["calls"].is_null().all()  # the demo has no fsync events


def test_calls_of_fsync_stand_with_the_bytes_of_their_file() -> None:
    of = made.capture()
    at = {"dev": made.DEV, "ino": 7, "tid": 5, "pid": 5, "comm": "app"}
    events = [
        {"event": "ext4_da_write_begin", "ts_ns": 1, "offset_bytes": 0, "nr_bytes": 100, **at},
        {"event": "ext4_da_write_end", "ts_ns": 2, "offset_bytes": 0, "nr_bytes": 100, **at},
        {"event": "ext4_sync_file_enter", "ts_ns": 10, **at},
        {"event": "ext4_sync_file_exit", "ts_ns": 25, "error": 0, **at},
        {"event": "ext4_sync_file_enter", "ts_ns": 30, **{**at, "ino": 8}},
    ]
    of.tables["fs_events"] = made.table("fs_events", events).lazy()
    shown = beside.files(of)
    found = shown.rows.select("owner_comm", "file", "written", "calls", "latency_max").rows()
    assert found == [("app", "inode 7", 100, 1, 15), ("app", "inode 8", None, 1, None)]
    assert "fsync calls" in sheet(shown) and "inode 8" in sheet(shown)


def test_without_events_of_files_there_is_no_table() -> None:
    of = made.capture()
    assert beside.files(of).rows.height == 0 and sheet(beside.files(of)) == ""
