"""Calls that overlap: what each returned holds in every order that a replay may take."""

from __future__ import annotations

import errno
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replay_emulator import Emulator
from support.replay_programs import CREATE, EXCLUSIVE, READ_WRITE

from androstep_analysis import schema
from androstep_analysis.replay import overlaps
from androstep_analysis.replay.dependencies import dependencies

FILES = ["a", "b", "d/a", "d/b"]
NOTHING = pl.Series([], dtype=pl.String)


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Table `operations` of rows in the order of their beginnings."""
    full = [{"operation": number, "inserted": False} | row for number, row in enumerate(rows)]
    names = {name for row in full for name in row}
    types = schema.table("operations").polars
    return schema.complete(pl.DataFrame(full, {name: types[name] for name in names}), "operations")


def chosen(choose: random.Random, moves: str) -> dict[str, Any]:
    """Draw an operation on a name, which may fail."""
    name, other = choose.choice(FILES), choose.choice(["a", "b"])
    made = {"path": name, "mode": 0o600}
    return choose.choice(
        [
            {"call": "open", **made, "flags": READ_WRITE | CREATE},
            {"call": "open", **made, "flags": READ_WRITE | CREATE | EXCLUSIVE},
            {"call": "open", **made, "flags": READ_WRITE},
            {"call": "stat", "path": name},
            {"call": "stat", "path": "d"},
            {"call": "unlink", "path": name},
            {"call": "mkdir", "path": "d", "mode": 0o700},
            {"call": "rmdir", "path": "d"},
            {"call": moves, "path": name, "path2": other},
        ]
    )


def result(emulator: Emulator, row: dict[str, Any]) -> int:
    done = emulator.attempt(row)
    if row["call"] == "open" and not done["failed"]:
        emulator.do_close({"descriptor": done["descriptor"]})
    return int(done["result"])


def history(top: Path, choose: random.Random, count: int) -> list[dict[str, Any]]:
    """Draw operations of threads on names, each at one moment between its begin and its end.

    There are links or renames, not both: what a rename of a name of the same file does is no matter of names alone.
    """
    emulator, rows, now, moves = Emulator(top), [], 0, choose.choice(["rename", "link"])
    free = [0] * choose.randrange(2, 5)
    for _ in range(count):
        row = chosen(choose, moves)
        thread = choose.randrange(len(free))
        now = max(now, free[thread]) + choose.randrange(3)
        returned = result(emulator, row)
        if returned == -errno.ENOTEMPTY:  # it is unknown which of its names keeps a directory
            continue
        begin = choose.randrange(free[thread], now + 1)
        free[thread] = now + 1 + choose.randrange(8)
        told = {"failed": returned < 0, "result": returned}
        rows.append(row | told | {"thread": thread, "ts_ns": begin, "duration_ns": free[thread] - begin})
    return sorted(rows, key=lambda row: row["ts_ns"])


def orders(operations: pl.DataFrame, choose: random.Random) -> Iterator[dict[str, Any]]:
    """Return the operations in one of the orders in which a replay as fast as possible may run them."""
    waits: dict[int, set[int]] = {number: set() for number in operations["operation"]}
    for later, earlier in dependencies(operations).iter_rows():
        waits[later].add(earlier)
    queues = [rows.to_dicts() for rows in operations.partition_by("thread")]
    done: set[int] = set()
    while queues:
        ready = [queue for queue in queues if waits[queue[0]["operation"]] <= done]
        row = choose.choice(ready).pop(0)
        done.add(row["operation"])
        yield row
        queues = [queue for queue in queues if queue]


@pytest.mark.prove
@settings(max_examples=50)
@given(st.integers(0, 1 << 32))
def test_each_returns_again_what_it_returned(seed: int) -> None:
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as recorded:
        operations = table(history(Path(recorded), choose, choose.choice([6, 30, 120])))
    settled = overlaps.settled(operations, NOTHING)
    assert settled["ts_ns"].is_sorted() and settled["operation"].to_list() == list(range(operations.height))
    ended = (pl.col("ts_ns") + pl.col("duration_ns")).alias("ended")
    same = ["thread", "call", "path", "result", ended]
    assert settled.select(same).sort(pl.all()).equals(operations.select(same).sort(pl.all()))
    for _ in range(5):
        with tempfile.TemporaryDirectory() as top:
            emulator = Emulator(Path(top))
            for row in orders(settled, choose):
                assert result(emulator, row) == row["result"], row


def test_deep_paths_take_no_more_memory_than_they_are_long() -> None:
    """All directories of these thousand paths are 4 GB of text."""
    rows = [
        {"thread": number % 2, "call": "mkdir", "path": f"{number}" + "/x" * 2000, "failed": False, "result": 0}
        | {"ts_ns": 10 * number, "duration_ns": 15}
        for number in range(1000)
    ]
    assert not overlaps.tells(table(rows)).any()


def test_of_very_many_that_overlap_the_rest_stays_as_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is created and removed alternately, and all calls begin at the same time, creations first in the table."""
    makes = {"call": "open", "flags": READ_WRITE | CREATE | EXCLUSIVE, "result": 3}
    rows = [
        {"thread": number, "path": "a", "failed": False, "ts_ns": 0, "duration_ns": 1000 + number}
        | (makes if number < 50 else {"call": "unlink", "result": 0})
        for number in range(100)
    ]
    operations = table(rows)
    calls = pl.col("call").cast(pl.String)
    assert overlaps.settled(operations, NOTHING).select(calls)["call"].to_list() == ["open", "unlink"] * 50
    monkeypatch.setattr(overlaps, "_MOST_SEEN", 0)
    monkeypatch.setattr(overlaps, "_SEEN_PER_CALL", 40)
    assert overlaps.settled(operations, NOTHING).equals(operations)
