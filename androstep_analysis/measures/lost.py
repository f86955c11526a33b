"""Lost time: spans in which events may be missing, and expressions that exclude them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import polars as pl

Lost: TypeAlias = Sequence[tuple[int | None, int | None]]
"""Times (ns, both ends included, without overlaps) in which events may be missing. None means from the beginning, or to
the end."""

_FAR: Final = 1 << 61


def touched(begin: str, end: str, lost: Lost) -> pl.Expr:
    """Return whether the time from column `begin` to column `end` (ns, both included) overlaps lost time."""
    if not lost:
        return pl.lit(False)
    starts, ends = _bounds(lost)
    # More spans start until the end than end before the begin.
    return pl.lit(starts).search_sorted(pl.col(end), "right") > pl.lit(ends).search_sorted(pl.col(begin), "left")


def length(begin: str, end: str, lost: Lost) -> pl.Expr:
    """Return the length of lost time between columns `begin` and `end` (ns)."""
    if not lost:
        return pl.lit(0, pl.Int64)
    starts, ends = _bounds(lost)
    before = (ends - starts).cum_sum().shift(1, fill_value=0)

    def until(time: str) -> pl.Expr:
        """Return the length of lost time up to a column, which starts with the first span."""
        row = pl.lit(starts).search_sorted(pl.col(time), "right").cast(pl.Int64) - 1
        at = row.clip(0)
        inside = pl.min_horizontal(pl.col(time), pl.lit(ends).gather(at)) - pl.lit(starts).gather(at)
        return pl.when(row >= 0).then(pl.lit(before).gather(at) + inside).otherwise(0)

    return until(end) - until(begin)


def _bounds(lost: Lost) -> tuple[pl.Series, pl.Series]:
    """Return the starts and the ends of the spans, in order, with times before and after all others for None."""
    spans = sorted((-_FAR if first is None else first, _FAR if last is None else last) for first, last in lost)
    starts, ends = ([span[at] for span in spans] for at in (0, 1))
    return pl.Series(starts, dtype=pl.Int64), pl.Series(ends, dtype=pl.Int64)
