"""Read tables in batches, and format lines of text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from androstep_analysis.common import units

BATCH_ROWS = 1 << 17
"""Number of rows in memory at once."""


def batches(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows of `table` in order, up to `BATCH_ROWS` at a time; nothing for an empty table."""
    return iter(table.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True))


def write_lines(lines: pl.Series, file: BinaryIO) -> None:
    """Write each string as a line."""
    text = io.BytesIO()
    lines.to_frame().write_csv(text, include_header=False, quote_style="never")
    file.write(text.getbuffer())


def one_field(text: pl.Expr) -> pl.Expr:
    """Replace each control or line-breaking character by ``?``."""
    return text.str.replace_all(r"[\p{C}\p{Zl}\p{Zp}]", "?")


def decimal(value: pl.Expr, width: int = 0) -> pl.Expr:
    """Format an integer, padded with spaces on the left to `width` characters."""
    return value.cast(pl.String).str.pad_start(width)


def zeros(value: pl.Expr, width: int) -> pl.Expr:
    """Format an integer with leading zeros to `width` digits."""
    return value.cast(pl.String).str.pad_start(width, "0")


def major(dev: pl.Expr) -> pl.Expr:
    """Return the major number of a `dev` column's value."""
    return dev // (1 << units.MINOR_BITS)


def minor(dev: pl.Expr) -> pl.Expr:
    """Return the minor number of a `dev` column's value."""
    return dev % (1 << units.MINOR_BITS)
