"""Calls of fsync by process and file: their number and their latency (definitions.toml, fsync_calls)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.fs.tracepoints import SYNC_BEGINS, SYNC_ENDS
from androstep_analysis.link.evidence import inodes
from androstep_analysis.link.owner.processes import Processes
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy
from androstep_analysis.measures.write_causes import FILE, OWNER

BY: Final = ("dev", *OWNER, *FILE)
NAMES: Final = ("owner_comm", "ino", "path")
"""The default grouping."""

_COLUMNS: Final = ("ts_ns", "tid", "pid", "comm", "event", "dev", "ino", "error")
_OF_FILES: Final = {*FILE} - {"ino", "incarnation"}
_QUANTILES: Final = {"latency_p50": 0.5, "latency_p99": 0.99, "latency_max": 1.0}


def fsyncs(tables: Mapping[str, Table], *, by: Sequence[str] = NAMES, lost: Losses | None = None) -> pl.DataFrame:
    """Return number and latency of the calls that sync a file to the device: fsync, fdatasync, msync and synced writes.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `fs_events`, `files` and `tasks` of one capture (`Capture.tables`).
    by : sequence of str
        The columns to group by: any of dev, owner_pid, owner_comm, owner_package (the caller; null for a kernel
        thread), ino, path, file_type, package (of the file). ino also adds dev and incarnation, since several files may
        have the same inode number.
    lost : Losses, optional
        The losses of the recording. A call has no latency if events may be missing between its two ends.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics calls and failed [count], latency_p50, latency_p99 and latency_max [ns] (nearest rank;
        null if no call has a known end). `n` is the number of calls, `coverage` the share of all calls with a known
        end, `inferred` the share of a row's calls with an inferred file name. There are no rows if the recording has no
        such events.

    Raises
    ------
    ValueError
        If calls cannot be grouped by a column in `by`.

    References
    ----------
    ``schemas/definitions.toml``, fsync_calls; Linux 6.18, include/trace/events/ext4.h and f2fs.h.

    Examples
    --------
    >>> measures.fsyncs(capture.tables).is_empty()  # no such events were recorded
    True
    """
    if strange := [name for name in by if name not in BY]:
        raise ValueError(f"{', '.join(strange)}: calls of fsync can be grouped by {', '.join(BY)}")
    by = [*dict.fromkeys(column for name in by for column in (inodes.FILE if name == "ino" else [name]))]
    events = lazy(tables["fs_events"], ("fs_events",)).filter(pl.col("event").is_in([*SYNC_BEGINS, *SYNC_ENDS]))
    found = calls(events.select(_COLUMNS).collect(), lost or Losses())
    tasks = lazy(tables["tasks"], ("tasks",)).collect()
    of_files = ("dev", *FILE, "valid_from_ns", "valid_to_ns", "source")
    files = lazy(tables["files"], ("files",)).select(of_files).collect()
    named = inodes.at_time(Processes(tasks).of_threads(found), files)
    latency = pl.col("latency_ns").drop_nulls()
    groups = named.group_by(by, maintain_order=True).agg(
        n=pl.len().cast(pl.Int64),
        calls=pl.len().cast(pl.Int64),
        inferred=(pl.col("source") == "inferred").mean(),
        failed=(pl.col("error") < 0).sum().cast(pl.Int64),
        **{name: latency.quantile(share, "equiprobable") for name, share in _QUANTILES.items()},
    )
    ended = found["latency_ns"].count() / found.height if found.height else None
    table = groups.with_columns(coverage=pl.lit(ended, pl.Float64)).sort(
        "n", *by, descending=[True, *(False for _ in by)]
    )
    units = {"calls": "count", "failed": "count", **dict.fromkeys(_QUANTILES, "ns")}
    rows = columns_as_rows(table, list(by), units)
    if _OF_FILES.isdisjoint(by):
        return rows
    return rows.join(table.select(*by, "inferred"), on=list(by), how="left", nulls_equal=True, maintain_order="left")


def calls(events: pl.DataFrame, lost: Losses) -> pl.DataFrame:
    """Return the calls in order of time: ts_ns, tid, pid, comm, dev, ino, error, latency_ns.

    A call ends with the next event of its thread, provided that this is an end event of the same file.
    """
    rows = events.with_columns(pl.col("event").cast(pl.String)).sort("ts_ns", maintain_order=True)
    following = {name: pl.col(name).shift(-1).over("tid").alias(f"end_{name}") for name in ("ts_ns", "event", "error")}
    same_file = pl.all_horizontal(pl.col(name).shift(-1).over("tid") == pl.col(name) for name in ("dev", "ino"))
    rows = rows.with_columns(*following.values(), same_file=same_file).filter(pl.col("event").is_in(SYNC_BEGINS))
    is_ended = (pl.col("same_file") & pl.col("end_event").is_in(SYNC_ENDS)).fill_null(False)
    is_known = is_ended & ~pl.lit(lost.between(rows["ts_ns"], rows["end_ts_ns"], rows["dev"], "fs_events"))
    return rows.select(
        *("ts_ns", "tid", "pid", "comm", "dev", "ino"),
        error=pl.when(is_known).then("end_error"),
        latency_ns=pl.when(is_known).then(pl.col("end_ts_ns") - pl.col("ts_ns")),
    )


FSYNCS: Final = Measure(
    "calls of fsync by process and file, and their latency",
    ("fs_events", "files", "tasks"),
    lambda t, by, recording: fsyncs(t, by=by, lost=recording.losses),
    by=NAMES,
    takes=BY,
    has_windows=False,
    asks_recording=True,
    applied=Applied.RESULT,
    worse="higher",
)
