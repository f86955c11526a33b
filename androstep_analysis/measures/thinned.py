"""A rising step line as a figure of so many columns shows it: what lies between is not to be seen."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def column(position: pl.Expr, least: pl.Expr, greatest: pl.Expr, columns: int) -> pl.Expr:
    """In which of so many columns of equal width, from the least position of a line to its greatest, a row lies."""
    at, least, greatest = (one.cast(pl.Float64) for one in (position, least, greatest))
    number = ((at - least) / (greatest - least) * columns).floor()
    return number.fill_nan(0).clip(0, columns - 1).cast(pl.Int64)


def is_edge(number: str, line: Sequence[str] = ()) -> pl.Expr:
    """Whether a row, of a table in order, is the first or the last of its line in its column, which has this name.

    A line that rises does so within one column between these rows: drawn with them alone it looks the same.
    """
    here = pl.col(number)
    before, behind = here.shift(1, fill_value=-1), here.shift(-1, fill_value=-1)
    return (here != before.over(line)) | (here != behind.over(line)) if line else (here != before) | (here != behind)
