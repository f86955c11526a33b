"""Find the file of each call of fsync, for which a system call records only the descriptor.

1. The filesystem's event of the call has the inode (ext4_sync_file_enter, f2fs_sync_file_enter).
2. If that was not recorded, the last write call of the process to the same descriptor is used. The filesystem's write
   event within that call has the inode. This requires that the descriptor cannot have been closed since.
3. Otherwise the file is unknown.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints

_WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
_OPENS: Final = ("open", "openat", "openat2", "creat", "dup", "dup2", "dup3", "fcntl", "pidfd_getfd")
"""Calls that return a descriptor. Before, it was closed or referred to another file."""
_CLOSES_MANY: Final = ("close_range", "execve", "execveat", "unshare")

_FILE: Final = ("dev", "ino")
_DESCRIPTOR: Final = ("pid", "fd")


def with_files(
    syncs: pl.DataFrame, calls: pl.LazyFrame, fs_events: pl.LazyFrame, tasks: pl.LazyFrame, lost: Losses
) -> pl.DataFrame:
    """Return the `syncs` (ts_ns, end_ns, tid, pid, fd; in order of ts_ns) with dev and ino of the file, or null.

    named_ns (Int64) is the time of the event that has the inode number; the number may be reused at other times.
    `calls` is table `syscalls`. The process ids of `calls` and `tasks` are those of the trace.
    """
    of_processes = calls.filter(pl.col("pid").is_in(syncs["pid"].drop_nulls().unique().implode())).drop_nulls("ts_ns")
    end_ns = pl.col("ts_ns") + pl.col("duration_ns").fill_null(0)
    written = of_processes.filter(pl.col("call").is_in(_WRITES)).select("tid", *_DESCRIPTOR, "ts_ns", end_ns=end_ns)
    writing = written.collect().sort("ts_ns")
    threads = pl.concat([syncs["tid"], writing["tid"]]).unique().implode()
    kinds = [*tracepoints.SYNC_BEGINS, *tracepoints.WRITES]
    events = fs_events.filter(pl.col("event").is_in(kinds), pl.col("tid").is_in(threads))
    named = events.select("event", "ts_ns", "tid", *_FILE).drop_nulls().collect().sort("ts_ns")
    is_sync = pl.col("event").is_in(tracepoints.SYNC_BEGINS)
    rows = syncs.with_row_index("row")
    begun = _within(named.filter(is_sync), rows).unique("row", keep="first")
    begun = begun.select("row", *_FILE, named_ns="ts_ns")
    wrote = _within(named.filter(~is_sync), writing).select(*_DESCRIPTOR, *_FILE, "ts_ns")
    of_descriptors = _last_written(syncs, wrote, of_processes, tasks, lost)
    by_event = rows.select("row").join(begun, on="row", how="left", maintain_order="left")
    has_event = by_event["ino"].is_not_null()
    both = {name: by_event[name].zip_with(has_event, of_descriptors[name]) for name in of_descriptors.columns}
    return syncs.with_columns(**both)


def _within(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the events of a thread during one of its calls, with the columns of the call."""
    found = events.join_asof(calls, on="ts_ns", by="tid", check_sortedness=False)
    return found.filter(pl.col("ts_ns") <= pl.col("end_ns"))


def _last_written(
    syncs: pl.DataFrame, wrote: pl.DataFrame, calls: pl.LazyFrame, tasks: pl.LazyFrame, lost: Losses
) -> pl.DataFrame:
    """Return dev, ino and named_ns of the file that was last written through each sync's descriptor, or null.

    `wrote` (pid, fd, dev, ino, ts_ns) are the writes to descriptors. The descriptors of a process change when it
    begins, or executes another program.
    """
    opened = calls.filter(pl.col("call").is_in(_OPENS)).select("pid", pl.col("result").cast(pl.Int32), "ts_ns")
    ends = [calls.filter(call="close").select(*_DESCRIPTOR, "ts_ns"), opened.rename({"result": "fd"})]
    begins = [
        calls.filter(pl.col("call").is_in(_CLOSES_MANY)).select("pid", "ts_ns"),
        tasks.filter(pl.col("tid") == pl.col("pid")).select("pid", ts_ns="valid_from_ns"),
    ]
    closed, begun = (pl.concat(parts).drop_nulls().collect().sort("ts_ns") for parts in (ends, begins))
    found = syncs.select("ts_ns", *_DESCRIPTOR)
    for name, times, by in (("named", wrote, _DESCRIPTOR), ("closed", closed, _DESCRIPTOR), ("begun", begun, ("pid",))):
        dated = times.with_columns(pl.col("ts_ns").alias(f"{name}_ns"))
        found = found.join_asof(dated, on="ts_ns", by=list(by), check_sortedness=False)
    since = pl.max_horizontal("closed_ns", "begun_ns").fill_null(pl.col("named_ns") - 1)
    is_whole = ~pl.lit(lost.between(found["named_ns"], found["ts_ns"], found["dev"], "syscalls", "fs_events"))
    is_open = pl.col("named_ns") > since
    return found.select(pl.when(is_open & is_whole).then(name).alias(name) for name in (*_FILE, "named_ns"))
