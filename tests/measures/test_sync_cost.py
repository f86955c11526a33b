"""Costs of fsync and of SQLite transactions, compared with plain Python and worked by hand."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from support.cost import oracle
from support.cost.tables import EXT4, F2FS, PAGE, recording, table

from androstep_analysis import measures
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.sync_cost import transactions as found

Row = dict[str, Any]


def with_syncs(seed: int) -> tuple[dict[str, pl.DataFrame], list[Row]]:
    """Draw a recording with threads of requests and calls of fsync, some of them with an event that has the file."""
    draw = random.Random(seed)
    tables = recording(seed)
    threads = [draw.choice([1, 2, 3, 99, None]) for _ in range(tables["requests"].height)]
    tables["requests"] = tables["requests"].with_columns(submit_tid=pl.Series(threads, dtype=pl.Int32))
    calls, begun = [], []
    for tid in (1, 2, 3):
        edges = sorted(draw.sample(range(1000), 8))
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            name = draw.choice(["fsync", "fdatasync", "sync"])
            calls.append({"ts_ns": begin, "duration_ns": end - begin, "tid": tid, "pid": tid, "comm": f"t{tid}",
                          "call": name, "state": "whole", "result": draw.choice([0, 0, 0, -5])})  # fmt: skip
            event, dev = draw.choice([("ext4_sync_file_enter", EXT4), ("f2fs_sync_file_enter", F2FS), ("", None)])
            if event:
                begun.append({"ts_ns": begin, "event": event, "dev": dev, "ino": 5, "tid": tid, "pid": tid})
    events = pl.concat([tables["fs_events"], table("fs_events", begun)]).sort("ts_ns", maintain_order=True)
    return tables | {"fs_events": events, "syscalls": table("syscalls", calls)}, calls


def by_oracle(tables: dict[str, pl.DataFrame], calls: list[Row]) -> Counter[tuple[str | None, int | None, str]]:
    """Return bytes by call, process and part."""
    requests, io, events = (tables[name].rows(named=True) for name in ("requests", "io", "fs_events"))
    of_request = {row["request_id"]: row for row in requests}
    made = [call for call in calls if call["result"] == 0 and call["call"] in ("fsync", "fdatasync")]
    for call in made:
        begun = [row for row in events if row["event"].endswith("sync_file_enter") and row["tid"] == call["tid"]]
        own = [row for row in begun if row["ts_ns"] == call["ts_ns"]]
        call["dev"] = own[0]["dev"] if own else None
    committing = {(row["dev"], row["tid"]) for row in events if row["event"] == "jbd2_start_commit"}
    tids = {tid for _, tid in committing}
    pieces = [{**row, "part_dev": of_request[row["request_id"]]["part_dev"], "time": row["queue_ns"]} for row in io]
    rules = oracle.Rules(pieces, events)
    found: Counter[tuple[str | None, int | None, str]] = Counter()
    for piece in pieces:
        tid, shares = of_request[piece["request_id"]]["submit_tid"], rules.of(piece)
        parts = Counter({part: sum(count for _, kind, count in shares if kind == part) for _, part, _ in shares})
        during = [call for call in made if call["ts_ns"] <= piece["time"] <= call["ts_ns"] + call["duration_ns"]]
        own = [call for call in during if call["tid"] == tid]
        is_moved = piece["owner_via"] in ("handle", "filesystem") or tid in tids
        waiting = [call for call in during if call["dev"] == piece["part_dev"]] if is_moved and not own else []
        for part, count in parts.items():
            on = own or sorted(waiting, key=lambda call: call["ts_ns"])
            for nth, call in enumerate(on):
                share = count * (nth + 1) // len(on) - count * nth // len(on)
                found[call["call"], call["pid"], part] += share
            if not on:
                found[None, None, part] += count
    return +found


def test_calls_cost_what_the_oracle_says() -> None:
    for seed in range(20):
        tables, calls = with_syncs(seed)
        result = measures.sync_cost(tables, by=("owner_pid",), page_bytes=PAGE, recorded=tracepoints.CREATIONS)
        result = result.filter(metric="cost")
        found = Counter({row[:3]: int(row[3]) for row in result.select("call", "owner_pid", "part", "value").rows()})
        expected = by_oracle(tables, calls)
        assert found == (expected if any(call for call, _, _ in found) else found), seed
        assert sum(found.values()) in (0, sum(expected.values())), seed


def test_a_column_that_calls_are_not_told_by_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^dev: calls of fsync can be grouped by owner_pid"):
        measures.sync_cost(recording(1), by=("dev",))


# -- transactions -----------------------------------------------------------------------------------------------------

JOURNAL, WAL, NONE = "journal", "wal", "none"


def transactions(*calls: tuple[str, int, int] | str) -> list[tuple[str, int, int, int]]:
    """(log, begin, end, syncs) of calls one after the other: a write (kind, offset, length) or the sync of a kind."""
    rows = [
        {"ts_ns": 10 * at, "end_ns": 10 * at, "database": "db", "owner_pid": 1, "kind": call if is_sync else call[0],
         "is_sync": is_sync, "offset_bytes": None if is_sync else call[1], "nr_bytes": None if is_sync else call[2]}
        for at, call in enumerate(calls) for is_sync in [isinstance(call, str)]
    ]  # fmt: skip
    return found(pl.DataFrame(rows)).select("log", "begin_ns", "end_ns", "syncs").rows()


def rollback(*end: tuple[str, int, int] | str) -> list[tuple[str, int, int] | str]:
    """Return a transaction with a journal that ends in this way."""
    header, count = (JOURNAL, 0, 512), (JOURNAL, 0, 12)
    return [header, (JOURNAL, 512, 4104), JOURNAL, count, JOURNAL, (NONE, 4096, 4096), NONE, *end]


def test_a_journal_begins_each_transaction() -> None:
    """As DELETE or TRUNCATE leave it, and as PERSIST does, which zeroes the header behind the sync of the database."""
    assert transactions(*rollback(), *rollback()) == [(JOURNAL, 0, 70, 3), (JOURNAL, 70, 131, 3)]
    zeroed = ((JOURNAL, 0, 28), JOURNAL)
    assert transactions(*rollback(*zeroed), *rollback(*zeroed)) == [(JOURNAL, 0, 90, 4), (JOURNAL, 90, 171, 4)]


def test_a_sync_of_the_wal_ends_each_transaction_and_a_checkpoint_belongs_to_the_one_before() -> None:
    frame = [(WAL, 32, 24), (WAL, 56, 4096)]
    first = [(WAL, 0, 32), WAL, *frame, WAL]
    assert transactions(*first, *frame, WAL) == [(WAL, 0, 50, 2), (WAL, 50, 71, 1)]
    checkpoint = [WAL, (NONE, 0, 4096), NONE]
    assert transactions(*first, *checkpoint, *frame, WAL) == [(WAL, 0, 80, 4), (WAL, 80, 101, 1)]


def test_a_checkpoint_of_frames_from_before_another_one_begins_none() -> None:
    """Two processes have one database: the second checkpoint copies what was logged before the first one's sync."""
    frame = [(WAL, 32, 24), (WAL, 56, 4096), WAL]
    assert transactions(*frame, (NONE, 0, 4096), NONE, (NONE, 4096, 4096), NONE) == [(WAL, 0, 61, 3)]


def test_without_a_log_a_sync_of_the_database_ends_each() -> None:
    pages = [(NONE, 0, 4096), (NONE, 8192, 4096)]
    assert transactions(*pages, NONE, *pages, NONE) == [(NONE, 0, 30, 1), (NONE, 30, 51, 1)]


def test_writes_without_syncs_are_no_transactions() -> None:
    assert transactions((NONE, 0, 4096), (NONE, 4096, 4096)) == []
    assert transactions(NONE, NONE) == []


def test_two_filesystems_do_not_share_a_commit() -> None:
    """A call that waits for another filesystem has no share in the journal of this one."""
    by = {"tid": 1, "pid": 1, "comm": "t1"}
    wrote = {"event": "f2fs_write_begin", "dev": F2FS, "ino": 5, "ts_ns": 1, "offset_bytes": 0, "nr_bytes": 9, **by}
    piece = {"request_id": 0, "piece": 0, "dev": 8 << 20, "part_dev": EXT4, "sector": 0, "nr_sectors": 8, "bytes": 4096,
             "op": "write", "block_type": "journal", "owner_via": "filesystem", "queue_ns": 50, "issue_ns": 50,
             "nr_bios": 1, "matched": "full"}  # fmt: skip
    call = {"ts_ns": 10, "duration_ns": 90, "call": "fsync", "state": "whole", "result": 0, **by}
    tables = {name: table(name, [piece]) for name in ("requests", "io")}
    tables |= {"fs_events": table("fs_events", [wrote]), "syscalls": table("syscalls", [call])}
    found = measures.sync_cost(tables, page_bytes=PAGE).filter(metric="cost")
    assert found.select("call", "part", "value", "n").rows() == [(None, "journal", 4096.0, 0)]
