"""Recognise recordings that hold the same events twice, as after `cat trace trace` or an export that prints twice."""

from __future__ import annotations

from typing import Final

import polars as pl

from androstep_analysis.common.errors import Loss

_SAME: Final = ("ts_ns", "action", "dev", "sector", "nr_sectors", "rwbs", "tid", "cpu")
_TICK_NS: Final = 1_000_000
"""A clock that counts milliseconds or more may give different events the same time."""

_LEAST_SHARE: Final = 4
"""One of so many events must repeat the one before. Few equal ones may be different I/O within a microsecond."""


def repeated(block_events: pl.LazyFrame) -> tuple[Loss, ...]:
    """Return the `Loss` for block events that equal the previous one in every respect, if there are many.

    No event is dropped.
    """
    is_same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift()) for name in _SAME)
    has_fine_times = (pl.col("ts_ns") % _TICK_NS != 0).any()
    sums = block_events.select(count=is_same.sum(), rows=pl.len(), is_fine=has_fine_times)
    count, rows, is_fine = sums.collect().row(0)
    if not is_fine or count * _LEAST_SHARE < rows or not count:
        return ()
    message = (
        f"{count} of {rows} block events repeat the one before, with its time, location and thread, as if the "
        "recording held its events twice; all count: open it without the copies"
    )
    return (Loss("repeated", count, message, ()),)
