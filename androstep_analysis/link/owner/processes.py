"""The process of every thread that an event names, and whether it acts for itself."""

from __future__ import annotations

import polars as pl

from androstep_analysis.ingest import tasks as kinds

OTHERS_BYTES = ("writeback", "journal", "gc", "kernel")
"""Kinds of thread that move bytes which other processes made."""

_FILESYSTEM = ("journal", "gc")
"""Kinds of thread that belong to the filesystem itself."""

_ALWAYS = -(1 << 62)

_START_NS = 10_000_000
"""How much earlier than the trace a listing dates the start of a thread: /proc counts in 1/100 s (USER_HZ)."""


def of_threads(threads: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """The rows of `threads` (columns ts_ns, tid, pid, comm, as an event names a thread, and any other) in their order.

    Adds owner_pid, owner_comm and owner_package (null for threads that only move what others made), is_process and
    is_filesystem (a thread of the filesystem's own: journal, checkpoint, garbage collection). `tasks` supplies the
    process of a thread, and the name of one that the trace no longer knew. A process is called what its first thread
    was called at the time; if that is not known, what the thread is called.
    """
    keys = ["change", "tid", "pid", "comm"]
    changes = tasks["valid_from_ns"].drop_nulls().unique().sort()
    rows = threads.with_columns(change=changes.search_sorted(threads["ts_ns"], "right"))
    rows = rows.with_columns(change=pl.when(pl.col("ts_ns").is_not_null()).then("change"))
    # What is told of a thread changes only when a task does: most rows are alike.
    alike = rows.select("ts_ns", *keys).unique(keys, maintain_order=True)
    attributed = _of_each(alike, tasks).drop("ts_ns")
    return rows.join(attributed, on=keys, how="left", nulls_equal=True, maintain_order="left").drop("change")


def _of_each(threads: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """`of_threads` for each row by itself."""
    # Only a listing knows users. What it says is the name at one time, not from the start of the thread on.
    is_listed = pl.col("uid").is_not_null()
    traced, listed = tasks.filter(~is_listed), tasks.filter(is_listed)
    table = _called(threads, "tid", traced, listed).with_columns(
        task_pid=pl.coalesce("pid", "thread_pid"), task_comm=pl.coalesce("comm", "thread_comm")
    )
    table = table.drop("thread_pid", "thread_comm")
    first = _called(table, "task_pid", traced, listed)
    is_first = pl.col("tid") == pl.col("task_pid")
    is_other = (pl.col("thread_pid") != pl.col("task_pid")).fill_null(False)
    table = first.with_columns(
        process_comm=pl.when(is_first).then("task_comm").when(~is_other).then("thread_comm"),
        kind=kinds.kind(pl.col("task_comm")),
    )
    packages = listed.select("tid", "comm", "valid_from_ns", listed_package="package")
    table = _at(table, ["task_pid", "process_comm"], packages, ["tid", "comm"])
    moves_others = pl.col("kind").is_in(OTHERS_BYTES).fill_null(False)
    is_process = pl.col("task_comm").is_not_null() & ~moves_others
    own = pl.col("kind").is_in(_FILESYSTEM) | pl.col("task_comm").str.starts_with("f2fs_")
    return table.with_columns(is_process=is_process, is_filesystem=own.fill_null(False) & ~is_process).select(
        *threads.columns,
        "is_process",
        "is_filesystem",
        owner_pid=pl.when("is_process").then("task_pid"),
        owner_comm=pl.when("is_process").then(pl.coalesce("process_comm", "task_comm")),
        owner_package=pl.when("is_process").then("listed_package"),
    )


def _called(rows: pl.DataFrame, tid: str, traced: pl.DataFrame, listed: pl.DataFrame) -> pl.DataFrame:
    """The rows with thread_comm and thread_pid, name and process of thread `tid` at ts_ns.

    What the trace tells is asked first; a listing only of the same life of the thread.
    """
    columns = ("tid", "valid_from_ns")
    table = _at(
        rows, [tid], traced.select(*columns, traced_ns="valid_from_ns", traced_comm="comm", traced_pid="pid"), ["tid"]
    )
    listings = listed.select(*columns, listed_ns="valid_from_ns", listed_comm="comm", listed_pid="pid")
    table = _at(table, [tid], listings, ["tid"])
    since, listed_since = (pl.col(name).fill_null(_ALWAYS) for name in ("traced_ns", "listed_ns"))
    is_same = pl.when(listed_since >= since - _START_NS)
    return table.with_columns(
        pl.coalesce(f"traced_{name}", is_same.then(f"listed_{name}")).alias(f"thread_{name}")
        for name in ("comm", "pid")
    ).select(*rows.columns, "thread_comm", "thread_pid")


def _at(rows: pl.DataFrame, keys: list[str], tasks: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """The rows with the other columns of `tasks` (a part of table tasks with valid_from_ns), as they were at ts_ns.

    The latest before it counts; where several are of one time, or the time of the row is not known, only what all of
    them say. `keys` of the rows are columns `of` of the tasks.
    """
    values = [name for name in tasks.columns if name not in (*of, "valid_from_ns")]
    one = [pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name) for name in values]
    tasks = tasks.with_columns(pl.col("valid_from_ns").fill_null(_ALWAYS)).drop_nulls(of)
    dated = tasks.group_by(*of, "valid_from_ns").agg(one).sort("valid_from_ns")
    rows = rows.with_row_index("nth")
    is_dated = pl.col("ts_ns").is_not_null()
    timed = rows.filter(is_dated).sort("ts_ns").join_asof(
        dated, left_on="ts_ns", right_on="valid_from_ns", by_left=keys, by_right=of, check_sortedness=False
    )  # fmt: skip
    timeless = rows.filter(~is_dated).join(tasks.group_by(of).agg(one), left_on=keys, right_on=of, how="left")
    columns = [*rows.columns, *values]
    return pl.concat([timed.select(columns), timeless.select(columns)]).sort("nth").drop("nth")
