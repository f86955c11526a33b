"""Lost time: spans in which events may be missing, and expressions that exclude them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

Lost: TypeAlias = Sequence[tuple[int | None, int | None]]
"""Times (ns, both ends included, without overlaps) in which events may be missing. None means from the beginning, or to
the end."""


def touched(begin: str, end: str, lost: Lost) -> pl.Expr:
    """Return whether the time from column `begin` to column `end` (ns, both included) overlaps lost time."""
    spans = (
        (True if last is None else pl.col(begin) <= last) & (True if first is None else pl.col(end) >= first)
        for first, last in lost
        if (first, last) != (None, None)
    )
    return pl.any_horizontal(pl.lit((None, None) in lost), *spans)


def length(begin: str, end: str, lost: Lost) -> pl.Expr:
    """Return the length of lost time between columns `begin` and `end` (ns)."""
    bounds = pl.col(begin), pl.col(end)
    spans = (
        (bounds[1] if last is None else pl.lit(last).clip(*bounds))
        - (bounds[0] if first is None else pl.lit(first).clip(*bounds))
        for first, last in lost
    )
    return pl.sum_horizontal(pl.lit(0, pl.Int64), *spans)
