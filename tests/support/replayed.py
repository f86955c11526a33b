"""Make replay programs and results from rows that a test lists, in the files of androstep and ioreplay."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import schema
from androstep_analysis.replay.program import Program
from androstep_analysis.replay.read import PROBE
from support.made import table
from support.record_writer import Field, Type
from support.record_writer import write as write_records

_STORED = {"int32": "int32", "int64": "int64", "string": "string", "enum": "string", "bool": "int32"}

_RUN: dict[str, Any] = {
    **{
        "run_id": "a",
        "program": "0" * 64,
        "mode": "as_recorded",
        "scale_ppm": None,
        "ts_ns": 1000,
        "realtime_ns": 2000,
    },
    **{"duration_ns": 1_000_000, "recorded_ns": 800_000, "threads": 1, "files": 0, "files_bytes": 0},
    **{"fs_type": "ext4", "device": "/dev/loop0", "cold": True, "cpu_user_ns": 1000, "cpu_system_ns": 3000},
    **{"interrupted": False, "result": 0},
}


def operation(number: int, **known: Any) -> dict[str, Any]:
    """Return a row of replay_ops: by default a read with the recorded result at its time."""
    return {
        **{
            "run_id": "a",
            "operation": number,
            "thread": 0,
            "call": "pread",
            "inserted": False,
            "due_ns": number * 1000,
        },
        **{"start_ns": number * 1000, "waited_ns": 0, "latency_ns": 100, "bytes": None, "result": 0},
        "divergence": "none",
    } | known


def tables(operations: Iterable[dict[str, Any]], **known: Any) -> dict[str, pl.DataFrame]:
    """Return table replay_ops, and table replay_runs with one consistent row that `known` overrides."""
    rows = [row | {"run_id": known.get("run_id", "a")} for row in operations]
    asked = [row for row in rows if not row["inserted"]]
    counted = {
        **{"operations": len(asked), "done": len(asked), "inserted": len(rows) - len(asked)},
        "diverged": sum(row["divergence"] not in ("none", "unknown") for row in asked),
    }
    return {
        "replay_runs": pl.DataFrame([{**_RUN, **counted, **known}], schema=schema.table("replay_runs").polars),
        "replay_ops": pl.DataFrame(rows, schema=schema.table("replay_ops").polars),
    }


def write(path: Path, operations: Iterable[dict[str, Any]], **known: Any) -> Path:
    """Write `tables` as ioreplay would, and return `path`."""
    made = tables(operations, **known)
    write_records(
        path,
        PROBE,
        "1",
        [
            (_type("replay_run", "replay_runs", ()), _stored(made["replay_runs"])),
            (_type("replay_op", "replay_ops", ("run_id",)), _stored(made["replay_ops"]).drop("run_id")),
        ],
    )
    return path


def program(path: Path, writes: int = 6, gap_ns: int = 200_000) -> Program:
    """Write a program of two threads: one appends and syncs, the other reads the file and looks up a missing one.

    In the recording, its last operation failed with ENOENT, and the read of the other thread returned all bytes.
    """
    rows: list[dict[str, Any]] = [
        {"call": "open", "path": "a/x.db", "descriptor": 0, "file": 0, "flags": 0o102, "mode": 0o600},
        *({"call": "write", "descriptor": 0, "file": 0, "bytes": 4096, "result": 4096} for _ in range(writes)),
        {"call": "fsync", "descriptor": 0, "file": 0},
        {"call": "open", "path": "a/x.db", "descriptor": 1, "file": 0, "flags": 0, "thread": 1, "inserted": True},
        {"call": "pread", "descriptor": 1, "file": 0, "bytes": 4096, "result": 4096, "offset_bytes": 0, "thread": 1},
        {"call": "close", "descriptor": 0, "file": 0},
        {"call": "stat", "path": "a/none", "failed": True, "result": -2, "thread": 1},
    ]
    usual = {"duration_ns": 1000, "thread": 0, "inserted": False, "failed": False, "result": 0}
    operations = [{"operation": number, "ts_ns": number * gap_ns, **usual, **row} for number, row in enumerate(rows)]
    made = Program.make(
        table("operations", operations),
        table("replay_files", [{"path": "a", "inode_type": "directory"}]),
        table("replay_threads", [{"thread": 0, "tid": 10, "comm": "writer"}, {"thread": 1, "tid": 11}]),
        duration_ns=len(rows) * gap_ns,
    )
    made.write(path)
    return made


def file(path: str, number: int) -> dict[str, Any]:
    """Return a row of replay_files for an empty file."""
    return {"path": path, "inode_type": "file", "file": number, "size_bytes": 0, "size_from": "stat"}


def _type(name: str, of: str, without: Iterable[str]) -> Type:
    columns = [column for column in schema.table(of).columns if column.name not in without]
    fields = [Field(c.name, _STORED[c.dtype], c.meaning, c.nullable, c.unit) for c in columns]
    return Type(name, schema.table(of).description, tuple(fields), of)


def _stored(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col(pl.Boolean).cast(pl.Int32))
