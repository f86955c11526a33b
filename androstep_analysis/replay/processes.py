"""The processes of a recorded command: itself and its descendants."""

from __future__ import annotations

import polars as pl

_CALLS = ("clone", "clone3", "fork", "vfork")


def descendants(syscalls: pl.LazyFrame, tasks: pl.LazyFrame, pid: int) -> list[int]:
    """Return `pid` and every process that it or one of its threads started, in order.

    Processes are found by the results of clone and fork.
    """
    of_tids = (
        tasks.drop_nulls(["tid", "pid"]).select("tid", process="pid").unique().unique("tid", keep="none").collect()
    )
    # Threads are made by the same calls, and belong to the process of their creator.
    made = (
        syscalls.filter(pl.col("call").is_in(list(_CALLS)) & (pl.col("result") > 0))
        .select("tid", "pid", child=pl.col("result").cast(pl.Int32, strict=False))
        .collect()
        .join(of_tids, on="tid", how="left", maintain_order="left")
        .select(parent=pl.coalesce("pid", "process", "tid"), child="child")
        .join(of_tids.rename({"tid": "child", "process": "of"}), on="child", how="left", maintain_order="left")
        .select("parent", child=pl.coalesce("of", "child"))
        .drop_nulls()
    )
    known = {pid}
    while new := set(made.filter(pl.col("parent").is_in(list(known)))["child"]) - known:
        known |= new
    return sorted(known)
