"""The tables of benchmark results, and the groups of their columns: configuration, machine and outcome."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.results import Results, fit

TABLES: Final = ("bench_runs", "bench", "bench_series", "bench_ops")

RUN: Final = ("run_id", "repeat")
"""The columns that identify a repetition in every table."""

JOB: Final = (
    *("workload", "test", "sync_mode", "block_bytes", "file_bytes", "journal_mode", "synchronous", "threads"),
    *("processes", "shared", "engine", "depth", "after_every", "read_percent", "layout", "overlap_percent", "loops"),
    *("ops_asked", "duration_asked_ns", "warmup_ns", "rate_asked", "think_ns", "final_sync", "cache_asked"),
    *("compat_rng", "compress_percent", "dedupe_percent", "checkpoint", "rows", "prefilled", "value_bytes"),
    *("page_bytes", "tables", "databases", "random_order", "mix", "postmark_files", "postmark_transactions"),
    *("postmark_least_bytes", "postmark_most_bytes", "postmark_read_bytes", "postmark_write_bytes"),
    *("postmark_bias_read", "postmark_bias_create", "postmark_subdirectories", "postmark_buffered"),
)
"""Columns of bench_runs with the requested configuration."""

MACHINE: Final = (
    *("fs_type", "device_model", "device", "kernel", "machine", "mount_options", "tool", "tool_version"),
    *("sqlite_library", "sqlite_version"),
)
"""Columns of bench_runs with the hardware and software that were used."""

OUTCOME: Final = (
    *("run_id", "repeat", "point", "ts_ns", "realtime_ns", "duration_ns", "valid", "invalid", "interrupted"),
    *("steady_from_ns", "command", "directory", "seed", "interval_ns", "repeats", "dev", "mount_point"),
    *("rows_expected", "rows_found", "busy", "rows_changed", "cache_found", "cache_resident_bytes", "cache_bytes"),
    *("cache_by", "cache_dropped", "cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns", "cpu_steal_ns", "device_reads"),
    *("device_read_bytes", "device_writes", "device_write_bytes", "device_discard_bytes", "device_flushes"),
    *("device_busy_ns", "process_read_bytes", "process_write_bytes", "pressure_some_ns", "pressure_full_ns"),
    *("filesystem_write_bytes", "ops_not_logged"),
)
"""The other columns of bench_runs: outcomes, and properties that may differ between repetitions of one
configuration."""

ALWAYS: Final = ("test", "sync_mode", "block_bytes", "journal_mode", "synchronous", "threads", "fs_type")
"""Columns that every result has, even if they have a single value."""


@dataclass(frozen=True)
class Part:
    """A row of table bench from the output of a foreign tool, without the columns of its run (see `foreign`)."""

    part: str
    thread: int = -1
    ops: int | None = None
    bytes: int | None = None
    known: dict[str, Any] = field(default_factory=dict)


def names(origin: bytes) -> Iterator[str]:
    """Yield names for the runs in a file, derived from its bytes `origin`."""
    digest = hashlib.sha256(origin).hexdigest()[:16]
    return (f"{digest}-{number}" for number in itertools.count())


def foreign(format: str, runs: list[dict[str, Any]], parts: list[list[Part]], losses: tuple[Loss, ...]) -> Results:
    """Return the results of a tool other than iobench, from rows of bench_runs with their rows of table bench.

    Missing columns are null, except those that the schema requires. `point` is the index of the run, `repeat` is 0, and
    the cache's state is unknown.
    """
    defaults = {"repeat": 0, "interrupted": False, "cache_asked": "unknown", "cache_found": "unknown"}
    rows = [{**defaults, "point": number, **run} for number, run in enumerate(runs)]
    shared = [
        column.name for column in schema.table("bench").columns if column.name in schema.table("bench_runs").polars
    ]
    results = [
        {name: run.get(name) for name in shared}
        | {"part": part.part, "thread": part.thread, "ops": part.ops, "bytes": part.bytes}
        | part.known
        for run, found in zip(rows, parts, strict=True)
        for part in found
    ]
    tables = {
        "bench_runs": fit(_frame(rows, "bench_runs"), "bench_runs"),
        "bench": fit(_frame(results, "bench"), "bench"),
        "bench_series": schema.empty("bench_series"),
        "bench_ops": schema.empty("bench_ops"),
    }
    return Results(format, tables, losses)


def _frame(rows: list[dict[str, Any]], name: str) -> pl.DataFrame:
    columns = {column.name: column.polars for column in schema.table(name).columns}
    present = {key for row in rows for key in row}
    try:
        return pl.DataFrame(rows, schema={key: dtype for key, dtype in columns.items() if key in present})
    except pl.exceptions.PolarsError:
        raise ValueError("a number is larger than 64 bits hold") from None
