"""Test the file of an inode number at a time, with hand-made cases and against a search through all files."""

from __future__ import annotations

import random

import polars as pl
import pytest

from androstep_analysis import schema
from androstep_analysis.link.evidence import inodes
from androstep_analysis.measures import write_shares
from androstep_analysis.measures.sync_cost import syncs

DEV = 8 << 20
LIVES = {"dev": pl.UInt32, "ino": pl.Int64, "incarnation": pl.Int32, "first_ns": pl.Int64}


def of_schema(name: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    types = schema.table(name).polars
    known = {column: dtype for column, dtype in types.items() if any(column in row for row in rows)}
    return schema.complete(pl.DataFrame(rows, schema=known), name)


def files(*rows: tuple[int, int, str]) -> pl.DataFrame:
    """Return table files of (ino, incarnation, path)."""
    known = [
        {"dev": DEV, "ino": ino, "incarnation": number, "path": path, "names": [path], "name_encrypted": False,
         "file_type": "other", "source": "tracepoint"}
        for ino, number, path in rows
    ]  # fmt: skip
    return of_schema("files", known)


def lives(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame([(DEV, *row) for row in rows], schema=LIVES, orient="row")


def paths(table: pl.DataFrame, *asked: tuple[int, int]) -> list[str | None]:
    rows = pl.DataFrame([(DEV, *one) for one in asked], schema={"dev": pl.UInt32, "ino": pl.Int64, "ts_ns": pl.Int64},
                        orient="row").with_row_index("nth")  # fmt: skip
    return inodes.at_time(rows, table).sort("nth")["path"].to_list()


def test_a_number_is_of_one_file_after_the_other() -> None:
    table = inodes.with_spans(
        files((12, 0, "/old"), (12, 1, "/journal"), (12, 3, "/pic"), (13, 0, "/other"), (14, 1, "/later")),
        lives((12, 0, 5), (12, 1, 100), (12, 2, 200), (12, 3, 300)),
        last_ns=400,
    )
    assert paths(table, (12, 0), (12, 99), (12, 100), (12, 199)) == ["/old", "/old", "/journal", "/journal"]
    assert paths(table, (12, 200), (12, 300), (12, 999)) == [None, "/pic", "/pic"], "the second file has no name"
    assert paths(table, (13, 0), (14, 400), (14, 401), (15, 5)) == ["/other", None, "/later", None]


@pytest.mark.parametrize("seed", range(20))
def test_the_file_is_that_of_the_last_incarnation_that_began(seed: int) -> None:
    chance = random.Random(seed)
    begun = [(ino, number, 10 * chance.randint(1, 9) + 100 * number) for ino in (11, 12) for number in range(4)]
    known = [(ino, number, f"/{ino}.{number}") for ino, number, _ in begun if chance.random() < 0.7]
    table = inodes.with_spans(files(*known), lives(*begun), last_ns=1000)
    asked = [(chance.choice([11, 12]), chance.randint(0, 600)) for _ in range(50)]
    want = []
    for ino, ts_ns in asked:
        number = max((number for one, number, begin in begun if one == ino and number and begin <= ts_ns), default=0)
        want.append(next((path for one, nth, path in known if (one, nth) == (ino, number)), None))
    assert paths(table, *asked) == want


def recording() -> dict[str, pl.DataFrame]:
    """Return a recording of three journals with one inode number, each synced and deleted, then a picture."""
    events, calls, now = [], [], 0
    for number in range(4):
        now = 1_000 * (number + 1)
        caller = {"tid": 7, "pid": 7, "comm": "app", "dev": DEV, "ino": 12}
        size = 8192 if number == 3 else 4096
        events.append({"ts_ns": now, "event": "ext4_allocate_inode", **caller})
        events.append(
            {"ts_ns": now + 10, "event": "ext4_da_write_begin", **caller, "offset_bytes": 0, "nr_bytes": size}
        )
        if number < 3:
            call = {"tid": 7, "pid": 7, "comm": "app", "fd": 3, "state": "whole"}
            calls.append({"ts_ns": now + 5, "duration_ns": 10, "call": "pwrite64", "result": 4096, **call})
            calls.append({"ts_ns": now + 20, "duration_ns": 5, "call": "fsync", "result": 0, **call})
            events.append({"ts_ns": now + 30, "event": "ext4_free_inode", **caller})
    table = inodes.with_spans(
        files(*((12, number + 1, "/x.db-journal") for number in range(3)), (12, 4, "/pic.jpg")),
        lives(*((12, number + 1, 1_000 * (number + 1)) for number in range(4))),
        last_ns=now + 100,
    )
    tables = {name: of_schema(name, rows) for name, rows in {"fs_events": events, "syscalls": calls}.items()}
    return {**tables, "files": table, **{name: schema.empty(name) for name in ("requests", "io", "tasks")}}


def test_writers_and_syncs_are_of_the_file_that_had_the_number_then() -> None:
    tables = recording()
    known = write_shares.write_data(tables, 4096, None, None)
    wrote = known.causes.writers.group_by("path").agg(pl.sum("kept") + pl.sum("dropped") + pl.sum("unknown"))
    assert dict(wrote.rows()) == {"/x.db-journal": 12288, "/pic.jpg": 8192}
    calls = known.causes.named(syncs(known, tables), "named_ns")
    assert calls["path"].to_list() == ["/x.db-journal"] * 3


def test_a_sync_is_of_the_file_that_was_written_not_of_the_one_that_has_its_number_by_then() -> None:
    tables = recording()
    late = tables["syscalls"].tail(1).with_columns(ts_ns=pl.lit(4_005, pl.Int64))
    tables["syscalls"] = pl.concat([tables["syscalls"], late])
    known = write_shares.write_data(tables, 4096, None, None)
    calls = known.causes.named(syncs(known, tables), "named_ns")
    assert calls["path"].to_list() == ["/x.db-journal"] * 4
