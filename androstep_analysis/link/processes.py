"""The process of every thread that an event names, and whether it acts for itself."""

from __future__ import annotations

import polars as pl

from androstep_analysis.ingest import tasks as kinds

OTHERS_BYTES = ("writeback", "journal", "gc", "kernel")
"""Kinds of thread that move bytes which other processes made."""

_FILESYSTEM = ("journal", "gc")
"""Kinds of thread that belong to the filesystem itself."""


def of_threads(threads: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """The process of each thread (tid, pid, comm, as an event names it).

    Adds owner_pid, owner_comm and owner_package (null for threads that only move what others made), is_process and
    is_filesystem (a thread of the filesystem's own: journal, checkpoint, garbage collection). `tasks` supplies the
    process of a thread and the name of one that the trace no longer knew.
    """
    only = [_only("pid").alias("task_pid"), _only("comm").alias("task_comm"), _only("package")]
    known_threads = tasks.group_by("tid", maintain_order=True).agg(only)
    leaders = known_threads.filter(pl.col("tid") == pl.col("task_pid"))
    leaders = leaders.select("task_pid", process_comm="task_comm", process_package="package")
    table = (
        threads.join(known_threads, on="tid", how="left", maintain_order="left")
        .with_columns(task_pid=pl.coalesce("pid", "task_pid"), task_comm=pl.coalesce("comm", "task_comm"))
        .join(leaders, on="task_pid", how="left", maintain_order="left")
        .with_columns(kind=kinds.kind(pl.col("task_comm")))
    )
    moves_others = pl.col("kind").is_in(OTHERS_BYTES).fill_null(False)
    is_process = pl.col("task_comm").is_not_null() & ~moves_others
    own = pl.col("kind").is_in(_FILESYSTEM) | pl.col("task_comm").str.starts_with("f2fs_")
    return table.with_columns(is_process=is_process, is_filesystem=own.fill_null(False) & ~is_process).select(
        "tid",
        "pid",
        "comm",
        "is_process",
        "is_filesystem",
        owner_pid=pl.when("is_process").then("task_pid"),
        owner_comm=pl.when("is_process").then(pl.coalesce("process_comm", "task_comm")),
        owner_package=pl.when("is_process").then(pl.coalesce("process_package", "package")),
    )


def _only(column: str) -> pl.Expr:
    """The one value a thread had, or null where it had several: a reused thread id must not name another program."""
    values = pl.col(column).drop_nulls().unique()
    return pl.when(values.len() == 1).then(values.first())
