"""The operations that can be slow: requests, and calls that wait until data is on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs.tracepoints import SYNC_BEGINS, SYNC_ENDS
from androstep_analysis.link.evidence import inodes
from androstep_analysis.link.owner.processes import Processes
from androstep_analysis.measures import synced_files
from androstep_analysis.measures.fsyncs import calls as traced_calls
from androstep_analysis.measures.tables import counted, is_interchangeable

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

CALLS: Final = ("fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range")
"""System calls that wait until data is on the device."""

_TIMES: Final = ("queue_ns", "issue_ns", "complete_ns")
_OF_REQUESTS: Final = ("request_id", "dev", "part_dev", "submit_tid", *_TIMES)
_OF_EVENTS: Final = ("ts_ns", "tid", "pid", "comm", "event", "dev", "ino", "error")
_CALL: Final = ("call", "begin_ns", "end_ns", "tid", "pid", "comm", "dev", "ino", "named_ns", "path", "error")
_HAS_PATH: Final = ("path", "deleted")


def table(capture: Capture, name: str) -> pl.LazyFrame:
    """Return a table of the capture; an empty one if the capture lacks it."""
    return capture.tables.get(name, schema.empty(name).lazy())


def requests(capture: Capture) -> pl.DataFrame:
    """Return the counted requests: `_OF_REQUESTS`, op, times, duration_ns, is_awaited, is_barrier, is_interchangeable.

    A request begins at its queueing, else at its issue. The duration is null if an end is missing, or precedes the
    begin. Discards and writes that are not synchronous have no waiter, so `is_awaited` is false.
    """
    begin, end = pl.coalesce("queue_ns", "issue_ns"), pl.col("complete_ns")
    is_synchronous = pl.any_horizontal(pl.col(name).fill_null(True) for name in ("sync", "fua", "preflush"))
    op = pl.col("op").cast(pl.String)
    rows = counted(capture.requests)
    rows = rows.select(
        *_OF_REQUESTS,
        op=op,
        begin_ns=begin,
        end_ns=end,
        duration_ns=pl.when(end >= begin).then(end - begin),
        is_interchangeable=is_interchangeable(rows),
        is_awaited=pl.when(op == "write").then(is_synchronous).otherwise(~op.is_in(["discard", "secure_erase"])),
        is_barrier=pl.col("preflush").fill_null(False) | pl.col("fua").fill_null(False),
    )
    return rows.collect()


def calls(capture: Capture, lost: Losses) -> pl.DataFrame:
    """Return the completed calls that wait until data is on the device, with their process and file.

    Columns are op, call (null if only the filesystem's own event was recorded), begin_ns, end_ns, duration_ns, error,
    and for the caller and the file the columns of ``schemas/slow.json`` and incarnation.
    """
    of_system, of_filesystems = _system_calls(capture, lost), _filesystem_calls(capture, lost)
    if of_system.height:
        of_filesystems = _outside(of_filesystems, of_system)
    both = pl.concat([of_system, of_filesystems])
    names = table(capture, "files").select(
        *inodes.FILE, "valid_from_ns", "valid_to_ns", known_path="path", source="source"
    )
    named = inodes.at_time(both, names.collect(), "named_ns")
    threads = Processes(table(capture, "tasks").collect()).of_threads(named.with_columns(ts_ns="begin_ns"))
    path = pl.coalesce("path", "known_path")
    is_inferred = pl.col("path").is_null() & (pl.col("source") == "inferred").fill_null(False)
    is_known = pl.any_horizontal(pl.col(name).is_not_null() for name in ("tid", "pid", "comm"))
    return threads.select(
        op=pl.lit("fsync"),
        call="call",
        begin_ns="begin_ns",
        end_ns="end_ns",
        duration_ns=pl.col("end_ns") - pl.col("begin_ns"),
        tid="tid",
        pid=pl.coalesce("owner_pid", "pid"),
        comm=pl.coalesce("owner_comm", "comm"),
        package="owner_package",
        dev="dev",
        ino="ino",
        incarnation="incarnation",
        path=path,
        role=pl.when(is_known).then(pl.lit("caller")),
        process_certainty=pl.when(is_known).then(pl.lit("fact")).otherwise(pl.lit("unknown")),
        file_certainty=pl.when(path.is_null() & pl.col("ino").is_null())
        .then(pl.lit("unknown"))
        .when(is_inferred)
        .then(pl.lit("inferred"))
        .otherwise(pl.lit("fact")),
        error="error",
    )


def _system_calls(capture: Capture, lost: Losses) -> pl.DataFrame:
    calls = table(capture, "syscalls")
    # A call with duration 0 comes from a format that does not record durations (MobiGen).
    is_whole = (pl.col("state") == "whole") & (pl.col("duration_ns") > 0)
    rows = calls.filter(pl.col("call").is_in(CALLS), is_whole).drop_nulls("ts_ns").select(
        *("call", "ts_ns", "tid", "pid", "comm", "fd"),
        end_ns=pl.col("ts_ns") + pl.col("duration_ns"),
        path=pl.when(pl.col("fd_kind").is_in(_HAS_PATH)).then("fd_path"),
        error=pl.when(pl.col("result") < 0).then("result").otherwise(0).cast(pl.Int32),
    ).collect()  # fmt: skip
    named = synced_files.with_files(
        rows.sort("ts_ns"), calls, table(capture, "fs_events"), table(capture, "tasks"), lost
    )
    return named.rename({"ts_ns": "begin_ns"}).select(_CALL)


def _filesystem_calls(capture: Capture, lost: Losses) -> pl.DataFrame:
    events = table(capture, "fs_events").filter(pl.col("event").is_in([*SYNC_BEGINS, *SYNC_ENDS])).select(_OF_EVENTS)
    found = traced_calls(events.collect(), lost).drop_nulls("latency_ns")
    return found.select(
        "tid", "pid", "comm", "dev", "ino", "error",
        call=pl.lit(None, pl.String),
        begin_ns="ts_ns",
        end_ns=pl.col("ts_ns") + pl.col("latency_ns"),
        named_ns="ts_ns",
        path=pl.lit(None, pl.String),
    ).select(_CALL)  # fmt: skip


def _outside(inner: pl.DataFrame, outer: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that are not within one of the thread's `outer` calls, which would be the same call."""
    begun = outer.drop_nulls("tid").select("tid", "begin_ns", outer_end_ns="end_ns").sort("begin_ns")
    found = inner.sort("begin_ns").join_asof(begun, on="begin_ns", by="tid", check_sortedness=False)
    is_within = (pl.col("begin_ns") <= pl.col("outer_end_ns")).fill_null(False)
    return found.filter(~is_within).select(_CALL)
