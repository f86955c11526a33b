"""Times in which events may be missing: what touches them is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

Lost: TypeAlias = Sequence[tuple[int | None, int | None]]
"""Times (ns, both ends, without overlaps) in which events may be missing; None is from the beginning, or to the end."""


def touched(begin: str, end: str, lost: Lost) -> pl.Expr:
    """Whether the time between columns `begin` and `end` (ns, both ends) has any lost time in it."""
    spans = (
        (True if last is None else pl.col(begin) <= last) & (True if first is None else pl.col(end) >= first)
        for first, last in lost
        if (first, last) != (None, None)
    )
    return pl.any_horizontal(pl.lit((None, None) in lost), *spans)


def length(begin: str, end: str, lost: Lost) -> pl.Expr:
    """How much of the time between columns `begin` and `end` is lost (ns)."""
    bounds = pl.col(begin), pl.col(end)
    spans = (
        (bounds[1] if last is None else pl.lit(last).clip(*bounds))
        - (bounds[0] if first is None else pl.lit(first).clip(*bounds))
        for first, last in lost
    )
    return pl.sum_horizontal(pl.lit(0, pl.Int64), *spans)
