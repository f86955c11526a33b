"""Submitter to owner: on whose behalf the bytes moved (definitions.toml, owner)."""

from __future__ import annotations

import polars as pl

from androstep_analysis import schema
from androstep_analysis.ingest import tasks as kinds

OTHERS_BYTES = ("writeback", "journal", "gc", "kernel")
"""Kinds of thread that move bytes which other processes made."""

FILESYSTEM = ("journal", "gc")
"""Kinds of thread that belong to the filesystem itself."""


def owners(bios: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Owner of each bio, a row for each row of `bios` and in its order.

    `bios` has submit_tid, submit_pid and submit_comm; `tasks` is table tasks, used to find the process of a thread
    and the name of a thread that the trace no longer knew. Columns: owner_pid, owner_comm, owner_package,
    owner_count, owner_via, as in table io. A bio without submitter has no owner.
    """
    names = [_only("pid"), _only("comm"), _only("package")]
    threads = tasks.group_by("tid", maintain_order=True).agg(names)
    leaders = threads.filter(pl.col("tid") == pl.col("pid"))
    processes = leaders.select("pid", process_comm="comm", process_package="package")
    known = (
        bios.select(tid="submit_tid", submit_pid="submit_pid", submit_comm="submit_comm")
        .join(threads, on="tid", how="left", maintain_order="left")
        .with_columns(pid=pl.coalesce("submit_pid", "pid"), comm=pl.coalesce("submit_comm", "comm"))
        .join(processes, on="pid", how="left", maintain_order="left")
    )
    kind = kinds.kind(pl.col("comm"))
    named = pl.col("comm").is_not_null() & ~kind.is_in(OTHERS_BYTES).fill_null(False)
    return known.with_columns(named=named, kind=kind).select(
        owner_pid=pl.when("named").then("pid"),
        owner_comm=pl.when("named").then(pl.coalesce("process_comm", "comm")),
        owner_package=pl.when("named").then(pl.coalesce("process_package", "package")),
        owner_count=pl.col("named").cast(pl.Int32),
        owner_via=pl.when("named")
        .then(pl.lit("submitter"))
        .when(pl.col("kind").is_in(FILESYSTEM))
        .then(pl.lit("filesystem"))
        .otherwise(pl.lit("unknown"))
        .cast(schema.enum("io", "owner_via")),
    )


def _only(column: str) -> pl.Expr:
    """The one value a thread had, or null where it had several: a reused thread id must not name another program."""
    values = pl.col(column).drop_nulls().unique()
    return pl.when(values.len() == 1).then(values.first()).alias(column)
