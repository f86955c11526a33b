"""System calls: their number, failures, duration and bytes, by call, path and thread name."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy

READS = ("read", "pread", "pread64", "readv", "preadv", "preadv2", "mapped_pread")
WRITES = ("write", "pwrite", "pwrite64", "writev", "pwritev", "pwritev2", "mapped_pwrite")
"""The calls that move bytes between memory and a descriptor. The last of each are page faults in traces of ioshark."""

FAILED = (pl.col("result") < 0).fill_null(False) | pl.col("error").is_not_null()
"""Whether a call failed."""

MOVED = pl.coalesce("result", pl.when((pl.col("state") == "whole") & FAILED.not_()).then("bytes")).clip(lower_bound=0)
"""Bytes that were moved. If results are not recorded (ioshark), the requested bytes."""


SPENT = pl.when(pl.col("duration_ns").count() > 0).then(pl.col("duration_ns").sum())
"""Time spent in the calls with a known duration; null if there is none."""


def calls(syscalls: Table) -> pl.DataFrame:
    """Return the number of calls and failures of each system call, its duration and its bytes.

    Parameters
    ----------
    syscalls : Table
        Table `syscalls`: call, state, bytes, result, error, duration_ns.

    Returns
    -------
    polars.DataFrame
        A row for each system call, the most frequent first. Columns: call, count (Int64: a resumed call counts once),
        failed (Int64), bytes (Int64: read or written, null for other calls), duration_ns (Int64: sum over the calls
        with a known duration, null without any).

    Examples
    --------
    >>> made = pl.DataFrame({"call": ["pwrite64", "pwrite64", "fsync"], "state": "whole", "bytes": [4096, 4096, None],
    ...                      "result": [4096, -5, 0], "error": [None, "EIO", None], "duration_ns": [10, 20, 300]})
    >>> measures.calls(made).rows()
    [('pwrite64', 2, 1, 4096, 30), ('fsync', 1, 0, None, 300)]
    """
    began = pl.col("state") != "resumed"
    return (
        lazy(syscalls, ("syscalls",))
        .group_by("call")
        .agg(
            count=began.sum().cast(pl.Int64),
            failed=FAILED.sum().cast(pl.Int64),
            bytes=pl.when(pl.col("call").first().is_in(READS + WRITES)).then(MOVED.sum()),
            duration_ns=SPENT,
        )
        .filter(pl.col("count") > 0)
        .sort("count", "call", descending=[True, False])
        .collect()
    )


def called_paths(syscalls: Table) -> pl.DataFrame:
    """Return the number of calls on each path, and the bytes read from it and written to it.

    The path of a call is that of its descriptor if recorded, else its first path argument.

    Parameters
    ----------
    syscalls : Table
        Table `syscalls`: call, state, fd_path, path, bytes, result, error, duration_ns.

    Returns
    -------
    polars.DataFrame
        A row for each known path, those with most bytes first, then those with most calls. Columns: path, count (Int64:
        calls), read and written (Int64, bytes; null if the path has no such call), duration_ns (Int64: sum over the
        calls with a known duration; null without any).

    Examples
    --------
    >>> made = pl.DataFrame({"call": ["pwrite64", "fsync"], "state": "whole", "fd_path": "/a", "path": None,
    ...                      "bytes": [4096, None], "result": [4096, 0], "error": None,
    ...                      "duration_ns": [20, 300]})
    >>> measures.called_paths(made).rows()
    [('/a', 2, None, 4096, 320)]
    """
    path = pl.coalesce("fd_path", pl.when(pl.col("path") != "").then("path"))
    return (
        lazy(syscalls, ("syscalls",))
        .select("call", "duration_ns", moved=MOVED, path=path, began=pl.col("state") != "resumed")
        .filter(pl.col("path").is_not_null())
        .group_by("path")
        .agg(
            count=pl.col("began").sum().cast(pl.Int64),
            read=_sum_of(READS),
            written=_sum_of(WRITES),
            duration_ns=SPENT,
        )
        .sort(pl.sum_horizontal("read", "written"), "count", "path", descending=[True, True, False])
        .collect()
    )


def callers(syscalls: Table) -> pl.DataFrame:
    """Return the number and duration of the system calls of threads with each name.

    Parameters
    ----------
    syscalls : Table
        Table `syscalls`: comm, state, duration_ns.

    Returns
    -------
    polars.DataFrame
        A row for each name, those that spent most time first. Columns: comm, count (Int64: calls), duration_ns (Int64:
        as in `calls`). There are no rows if the format does not name the thread of each call.

    Examples
    --------
    >>> made = pl.DataFrame({"comm": ["cron", "cron", "bash"], "state": "whole", "duration_ns": [10, 20, 7]})
    >>> measures.callers(made).rows()
    [('cron', 2, 30), ('bash', 1, 7)]
    """
    return (
        lazy(syscalls, ("syscalls",))
        .filter(pl.col("comm").is_not_null())
        .group_by("comm")
        .agg(count=(pl.col("state") != "resumed").sum().cast(pl.Int64), duration_ns=SPENT)
        .sort("duration_ns", "count", "comm", descending=[True, True, False], nulls_last=True)
        .collect()
    )


def _sum_of(calls: tuple[str, ...]) -> pl.Expr:
    """Return the bytes of these calls; null if there is none."""
    moved = pl.col("moved").filter(pl.col("call").is_in(calls))
    return pl.when(moved.len() > 0).then(moved.sum())
