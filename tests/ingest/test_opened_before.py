"""Files that were open before a recording, as rows of table `syscalls`, and their use by the cleaner."""

from __future__ import annotations

import polars as pl

from androstep_analysis import replay, schema
from androstep_analysis.ingest.syscalls import opened_before

RECORDER, COMMAND, APP = 10, 20, 30
REGULAR, DIRECTORY, PIPE = 0o100644, 0o040755, 0o010600
WRITES, CLOEXEC, APPENDS = 1, 0o2000000, 0o2000

LISTED = [
    (RECORDER, -100, None, DIRECTORY, 1, "/home"),
    (RECORDER, 1, WRITES | APPENDS, REGULAR, 2, "/home/out"),
    (RECORDER, 3, CLOEXEC, REGULAR, 3, "/home/own"),
    (COMMAND, 4, 0, REGULAR, 9, "/a/process/of/that/number/before"),
    (APP, 5, 2, REGULAR, 4, "/data/db"),
    (APP, 6, 0, REGULAR, 5, "/data/shared"),
    (APP, 7, 0, REGULAR, 5, "/data/shared"),
    (APP, 8, 0, REGULAR, 6, "/data/gone (deleted)"),
    (APP, 9, 0, PIPE, 7, "pipe:[7]"),
]


def rows() -> pl.DataFrame:
    columns = {"pid": pl.Int32, "fd": pl.Int32, "flags": pl.Int32, "mode": pl.Int32, "ino": pl.Int64, "path": pl.String}
    listed = pl.DataFrame(LISTED, columns, orient="row")
    listed = listed.with_columns(dev=pl.lit(1, pl.UInt32), position=pl.lit(100, pl.Int64))
    return opened_before.rows(listed, "x86_64", RECORDER, COMMAND)


def test_the_command_has_what_its_maker_had() -> None:
    told = rows().filter(pid=COMMAND)
    assert told.select("call", "state", "result", "result_path", "flags").rows() == [
        ("openat", "resumed", 1, "/home/out", "O_WRONLY|O_APPEND"),
        ("lseek", "resumed", 100, None, None),
        ("chdir", "resumed", 0, None, None),
    ]
    assert told["path"].to_list() == [None, None, "/home"]


def test_places_are_told_of_files_that_are_open_once() -> None:
    told = rows().filter(pid=APP)
    assert dict(told.filter(call="openat").select("result", "result_path").rows()) == {
        **{5: "/data/db", 6: "/data/shared", 7: "/data/shared", 8: None, 9: "pipe:[7]"}
    }
    assert told.filter(call="lseek").select("fd", "result").rows() == [(5, 100), (8, 100)]


def test_a_program_opens_what_is_used_and_stands_where_it_stood() -> None:
    before = opened_before.of_processes(rows(), [COMMAND, APP], 0)
    types = schema.table("syscalls").polars
    calls = [
        {"call": "write", "tid": APP, "fd": 5, "bytes": 10, "result": 10},
        {"call": "write", "tid": COMMAND, "fd": 1, "bytes": 7, "result": 7},
        {"call": "mkdir", "tid": COMMAND, "path": "made", "result": 0},
        {"call": "read", "tid": APP, "fd": 9, "bytes": 3, "result": 3},
    ]
    done = [{"ts_ns": 10 * (n + 1), "duration_ns": 1, "state": "whole", **call} for n, call in enumerate(calls)]
    recorded = schema.complete(
        pl.DataFrame(done, {name: types[name] for name in done[0] | done[2] | done[3]}), "syscalls"
    )
    cleaned = replay.clean(pl.concat([before, recorded]), schema.empty("tasks"))
    columns = ("call", "inserted", "path", "flags", "offset_bytes")
    assert [row for row in cleaned.program.operations.select(columns).rows() if row[0] != "close"] == [
        ("open", True, "home/out", WRITES | APPENDS, None),
        ("lseek", True, None, None, 100),
        ("open", True, "data/db", WRITES, None),
        ("lseek", True, None, None, 100),
        ("write", False, None, None, 100),
        ("write", False, None, None, None),
        ("mkdir", False, "home/made", None, None),
    ]
    left = cleaned.left_out.filter(pl.col("reason") == "pipe").select("call", "count").rows()
    assert left == [("read", 1)]
