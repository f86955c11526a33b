"""Thinning out a rising step line to the rows that are visible in a figure of a given width."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def column(position: pl.Expr, least: pl.Expr, greatest: pl.Expr, columns: int) -> pl.Expr:
    """Return the column of a row. Columns divide the range from the least to the greatest position equally."""
    at, least, greatest = (one.cast(pl.Float64) for one in (position, least, greatest))
    number = ((at - least) / (greatest - least) * columns).floor()
    return number.fill_nan(0).clip(0, columns - 1).cast(pl.Int64)


def is_edge(number: str, line: Sequence[str] = ()) -> pl.Expr:
    """Return whether a row of an ordered table is the first or the last of its line in its column.

    Within a column, a rising line stays between these two rows. Drawn with them alone it looks the same.
    """
    here = pl.col(number)
    before, after = here.shift(1, fill_value=-1), here.shift(-1, fill_value=-1)
    return (here != before.over(line)) | (here != after.over(line)) if line else (here != before) | (here != after)
