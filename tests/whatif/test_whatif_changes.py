"""Traces without the filesystem's journal and without SQLite's fsyncs: removed and kept requests, and no lost bytes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made import capture, table

from androstep_analysis import measures, schema, whatif
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError

MS, S = 1_000_000, 1_000_000_000
PAGE = 8


def write(at: int, sector: int, block_type: str, file_type: str | None = None, **known: Any) -> dict[str, Any]:
    """Return a synchronous write of a page that takes a millisecond."""
    own = {"op": "write", "sync": True, "sector": sector, "nr_sectors": PAGE, "rwbs": "WS", "error": 0}
    times = {"queue_ns": at, "issue_ns": at, "complete_ns": at + MS}
    return {**own, **times, "block_type": block_type, "file_type": file_type, **known}


def flush(at: int) -> dict[str, Any]:
    """Return a flush as recorded on Linux, without a queue event."""
    own = {
        "op": "flush",
        "sector": None,
        "nr_sectors": 0,
        "rwbs": "FF",
        "sync": False,
        "preflush": True,
        "error": 0,
        "block_type": None,
    }
    return {**own, "issue_ns": at, "complete_ns": at + MS}


def commit(at: int, sector: int, pages: int = 2) -> list[dict[str, Any]]:
    """Return a commit of jbd2: its blocks, a flush, the record, and the flush that replaces REQ_FUA."""
    record = write(at + 2 * MS, sector + pages * PAGE, "journal", preflush=True, fua=True, rwbs="WSM")
    return [
        write(at, sector, "journal", nr_sectors=pages * PAGE, meta=True, rwbs="WSM"),
        flush(at + 2 * MS + 1),
        record | {"issue_ns": at + 4 * MS, "complete_ns": at + 5 * MS},
        flush(at + 6 * MS),
    ]


def made(rows: list[dict[str, Any]]) -> Capture:
    asked = schema.table("requests").polars
    pieces = [{"request_id": number, **row} for number, row in enumerate(rows)]
    return capture([{name: value for name, value in row.items() if name in asked} for row in rows], pieces)


def account(changed: whatif.Changed, effect: str) -> dict[tuple[str, str], tuple[int, int]]:
    rows = changed.account.filter(pl.col("effect") == effect)
    return {(change, op): (count, size) for _, change, op, count, size in rows.rows()}


def conserved(changed: whatif.Changed) -> bool:
    """Before − removed + added = after, for requests and bytes of every operation."""
    sign = {"before": 1, "removed": -1, "added": 1, "after": -1, "moved": 0, "unknown": 0}
    signed = pl.col("effect").cast(pl.String).replace_strict(sign, return_dtype=pl.Int64)
    left = changed.account.group_by("op").agg((pl.col("count") * signed).sum(), (pl.col("bytes") * signed).sum())
    return not left.select((pl.col("count") != 0).any() | (pl.col("bytes") != 0).any()).item()


# -- the journal ------------------------------------------------------------------------------------------------------


def test_the_journal_goes_and_each_asked_commit_leaves_one_flush() -> None:
    rows = [write(0, 8000, "data", "other"), *commit(2 * MS, 0), *commit(100 * MS, 100), *commit(6 * S, 200)]
    rows.append(flush(7 * S))
    changed = whatif.without_journal(*tables(made(rows)))
    assert changed.requests.select("op", "sector", "issue_ns").rows() == [
        ("write", 8000, 0),
        ("flush", None, 8 * MS),  # of the first commit, which may have come by itself
        ("flush", None, 106 * MS),  # asked for: 98 ms after the first
        ("flush", None, 7 * S),  # a commit without an owner
    ]
    assert account(changed, "removed") == {
        ("written to the journal", "write"): (6, 9 * 4096),
        ("flush of a commit", "flush"): (4, 0),
    }
    assert account(changed, "moved") == {("flush of a commit, kept as the fsync's own", "flush"): (2, 0)}
    assert conserved(changed)


def test_a_flush_that_also_serves_others_stays() -> None:
    own = commit(0, 0)
    shared = write(own[1]["issue_ns"], 900, "data", "other", preflush=True) | {
        "issue_ns": 4 * MS,
        "complete_ns": 5 * MS,
    }
    changed = whatif.without_journal(*tables(made([*own, shared])))
    assert changed.requests["op"].to_list() == ["flush", "write", "flush"]


def test_a_request_of_journal_and_data_is_cut() -> None:
    row = write(0, 80, "journal", nr_sectors=32, part_sector=16)
    pieces = [
        {"request_id": 0, **row, "piece": number, "sector": sector, "nr_sectors": length, "block_type": kind}
        for number, (sector, length, kind) in enumerate([(80, 8, "data"), (88, 16, "journal"), (104, 8, "data")])
    ]
    asked = {name: value for name, value in row.items() if name in schema.table("requests").polars}
    changed = whatif.without_journal(*tables(capture([asked], pieces)))
    assert changed.requests.select("sector", "nr_sectors", "part_sector").rows() == [(80, 8, 16), (104, 8, 40)]
    assert conserved(changed)


@pytest.mark.parametrize("rows", [[], [write(0, 8, "data", "sqlite_db")]])
def test_no_journal_is_told(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="write a filesystem's journal"):
        whatif.without_journal(*tables(made(rows)))


def test_unknown_blocks_are_kept_and_counted() -> None:
    changed = whatif.without_journal(*tables(made([*commit(0, 0), write(S, 800, "unknown", None)])))
    assert account(changed, "unknown") == {("written, of unknown block type", "write"): (1, 4096)}
    assert 800 in changed.requests["sector"].to_list()


# -- SQLite -----------------------------------------------------------------------------------------------------------


def without_fsync(rows: list[dict[str, Any]], extents: list[dict[str, Any]] | None = None) -> whatif.Changed:
    ended = table("extents", extents or [])
    return whatif.without_fsync(*tables(made(rows)), ended)


def tables(opened: Capture) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    return opened.requests, opened.io


def test_rewritten_pages_are_written_once_when_they_expire() -> None:
    database = [write(second * S, 800, "data", "sqlite_db", ino=12) for second in range(3)]
    flushes = [flush(second * S + 2 * MS) for second in range(3)]
    changed = without_fsync([*database, *flushes, write(S, 1600, "data", "other", ino=13)])
    assert changed.requests.select("op", "sector", "issue_ns", "sync", "rwbs").rows() == [
        ("write", 1600, S, True, "WS"),
        ("flush", None, S + 2 * MS, False, "FF"),  # also another file was synced before it
        ("write", 800, 30 * S, False, "W"),
    ]
    assert account(changed, "removed") == {
        ("written out by an fsync of SQLite", "write"): (3, 3 * 4096),
        ("flush of SQLite", "flush"): (2, 0),
    }
    assert account(changed, "moved") == {
        ("of what was written out: overwritten before writeback", "write"): (2, 2 * 4096)
    }
    assert account(changed, "unknown") == {("flush or commit of unknown or several causes", "flush"): (1, 0)}
    assert conserved(changed)


def test_writeback_takes_all_of_a_file_and_joins_neighbours() -> None:
    rows = [
        write(S, 800, "data", "sqlite_db", ino=12, nr_sectors=16),
        write(34 * S, 816, "data", "sqlite_db", ino=12),  # goes with the first, which is due at 35 s
        write(36 * S, 816, "data", "sqlite_db", ino=12),  # too late for it
        write(2 * S, 4000, "data", "sqlite_wal", ino=14),
    ]
    changed = without_fsync(rows)
    assert changed.requests.select("sector", "nr_sectors", "issue_ns").rows() == [
        (800, 16, 35 * S),  # not longer than the longest write there was
        (816, 8, 35 * S),
        (4000, 8, 35 * S),
        (816, 8, 70 * S),
    ]


def test_what_is_freed_before_is_never_written() -> None:
    rows = [write(S, 800, "data", "sqlite_journal", ino=12), write(2 * S, 800, "data", "sqlite_db", ino=13)]
    gone = {
        "sector": 792,
        "nr_sectors": 64,
        "block_type": "data",
        "ino": 12,
        "valid_from_ns": 0,
        "valid_to_ns": 2 * S - 1,
    }
    changed = without_fsync(rows, [gone | {"dev": 8 << 20, "source": "tracepoint"}])
    assert changed.requests.select("sector", "issue_ns").rows() == [(800, 35 * S)]
    assert account(changed, "moved") == {("of what was written out: freed before writeback", "write"): (1, 4096)}


def test_reads_of_waiting_pages_come_from_the_cache() -> None:
    read = {"op": "read", "sync": False, "rwbs": "R"}
    rows = [
        write(S, 800, "data", "sqlite_db", ino=12),
        write(2 * S, 800, "data", "sqlite_db", ino=12, **read),
        write(3 * S, 800, "data", "sqlite_db", ino=12, nr_sectors=16, **read),  # half of it only
        write(50 * S, 800, "data", "sqlite_db", ino=12, **read),  # written out by then
    ]
    changed = without_fsync(rows)
    assert changed.requests.filter(pl.col("op") == "read")["issue_ns"].to_list() == [3 * S, 50 * S]
    assert account(changed, "removed")["read of pages that wait in the cache", "read"] == (1, 4096)


def test_of_sqlites_commits_the_largest_in_five_seconds_stays() -> None:
    rows: list[dict[str, Any]] = []
    for second, pages in ((1, 2), (2, 5), (3, 3), (6, 1)):
        rows += [
            write(second * S, 8000, "data", "sqlite_db", ino=12),
            *commit(second * S + 2 * MS, 100 * second, pages),
        ]
    changed = without_fsync(rows)
    journal = changed.requests.filter(pl.col("rwbs") == "WSM").select("sector", "queue_ns").rows()
    assert journal == [(200, 5 * S), (240, 5 * S + 2 * MS), (600, 10 * S), (608, 10 * S + 2 * MS)]
    assert changed.requests.filter(pl.col("op") == "flush").height == 4
    assert conserved(changed)


def test_a_commit_after_no_write_belongs_to_a_process_that_syncs_nothing_but_sqlite() -> None:
    owned = {"owner_pid": 7, "owner_via": "handle"}
    other = {"owner_pid": 8, "owner_via": "handle"}
    rows = [write(S, 8000, "data", "sqlite_db", ino=12, owner_pid=7), flush(S + 2 * MS)]
    rows += [row | (owned if row["op"] == "write" else {}) for row in commit(2 * S, 0)]
    rows += [row | (other if row["op"] == "write" else {}) for row in commit(3 * S, 400)]
    changed = without_fsync(rows)
    moved = changed.requests.filter(pl.col("rwbs") == "WSM").select("sector", "queue_ns").rows()
    assert moved == [(400, 3 * S), (416, 3 * S + 2 * MS), (0, 5 * S), (16, 5 * S + 2 * MS)]
    assert account(changed, "unknown")["flush or commit of unknown or several causes", "write"] == (2, 3 * 4096)


def test_synchronous_writes_of_unknown_files_are_kept_and_counted() -> None:
    rows = [
        write(S, 800, "data", "sqlite_db", ino=12),
        write(S, 900, "data", "unknown", ino=13),
        write(S, 1000, "unknown", None),
    ]
    changed = without_fsync(rows)
    assert account(changed, "unknown") == {("synchronous write, of unknown file", "write"): (2, 8192)}
    assert changed.requests["sector"].to_list() == [900, 1000, 800]


@pytest.mark.parametrize("rows", [[], [write(0, 8, "data", "sqlite_db", sync=False, rwbs="W")]])
def test_no_fsync_of_sqlite_is_told(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="SQLite"):
        without_fsync(rows)


# -- no byte is lost --------------------------------------------------------------------------------------------------


@st.composite
def anything(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw requests of any kind in any order, at least one of the journal and one of SQLite."""
    rows = [write(0, 0, "journal"), write(0, 80, "data", "sqlite_db", ino=1)]
    for _ in range(draw(st.integers(0, 25))):
        at, sector = draw(st.integers(0, 70)) * S // 2, draw(st.integers(0, 60))
        kind, file_type = draw(
            st.sampled_from(
                [("journal", None), ("data", "sqlite_db"), ("data", "sqlite_wal"), ("data", "other"), ("unknown", None)]
            )
        )
        flags = {name: draw(st.booleans()) for name in ("sync", "preflush", "fua")}
        op = draw(st.sampled_from(["write", "write", "write", "read", "flush", "discard"]))
        row = write(at, sector, kind, file_type, nr_sectors=draw(st.integers(1, 40)), ino=draw(st.integers(1, 3)))
        rows.append(flush(at) if op == "flush" else row | flags | {"op": op})
    return rows


@pytest.mark.prove
@settings(max_examples=60)
@given(anything())
def test_every_change_tells_of_every_byte(rows: list[dict[str, Any]]) -> None:
    opened = made(rows)
    extents = table("extents", [])
    bytes_of = pl.col("nr_sectors").sum() * 512
    journal = opened.io.filter(pl.col("block_type") == "journal", pl.col("op") == "write").select(bytes_of)
    before = opened.requests.select(bytes_of).collect().item()
    without = whatif.without_journal(*tables(opened))
    assert conserved(without)
    assert without.requests.select(bytes_of).item() == before - journal.collect().item()
    if opened.io.filter(file_type="sqlite_db", op="write", sync=True).collect().is_empty():
        return
    late = whatif.without_fsync(*tables(opened), extents)
    assert conserved(late)
    # The last version of every sector that SQLite wrote is on the device in the end.
    of_sqlite = pl.col("file_type").cast(pl.String).str.starts_with("sqlite")
    own = opened.io.filter(pl.col("op") == "write", "sync", pl.col("block_type") == "data", of_sqlite)
    wanted = sectors(own.collect())
    assert wanted <= sectors(late.requests.filter(pl.col("op") == "write"))


def sectors(rows: pl.DataFrame) -> set[int]:
    """Return every sector in a table."""
    return {
        sector
        for first, length in rows.select("sector", "nr_sectors").rows()
        for sector in range(first, first + length)
    }


def test_changes_one_after_the_other_keep_the_pieces() -> None:
    rows = [write(S, 8000, "data", "sqlite_db", ino=12), *commit(S + 2 * MS, 0), write(2 * S, 9000, "data", "other")]
    first = without_fsync(rows)
    second = whatif.without_journal(first.requests, first.io)
    assert second.requests.filter(pl.col("op") == "write")["sector"].to_list() == [9000, 8000]
    assert measures.mix(second.requests).height
