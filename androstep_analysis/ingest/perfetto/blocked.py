"""Build table `blocked` from the scheduler's events of a Perfetto trace."""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema


def blocked(events: pl.LazyFrame) -> pl.DataFrame:
    """Return table `blocked` from table `switch_events`, which is sorted by time.

    A sleep ends when the thread runs next. The reason, if there is one, comes in between. A sleep that is followed by
    another sleep has lost its end, and is left out.
    """
    following = {
        f"{name}_{number}": pl.col(name).shift(-number).over("thread")
        for number in (1, 2)
        for name in ("ts_ns", "change", "io_wait")
    }
    has_reason = pl.col("change_1") == "reason"
    rows = (
        events.with_columns(**following)
        .filter(pl.col("change") == "sleep")
        .select(
            "ts_ns",
            end_ns=pl.when(has_reason).then("ts_ns_2").otherwise("ts_ns_1"),
            last=pl.when(has_reason).then("change_2").otherwise("change_1"),
            tid="thread",
            is_io=pl.when(has_reason).then(pl.col("io_wait_1") != 0),
        )
    )
    ended = rows.filter(pl.col("last") == "run").drop("last")
    return schema.conform(ended.collect(), "blocked")
