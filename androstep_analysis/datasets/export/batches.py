"""Tables piece by piece, and lines of text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from androstep_analysis.common import units

BATCH_ROWS = 1 << 17
"""Rows in memory at once."""


def batches(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows of `table` in order, up to `BATCH_ROWS` at a time; nothing for an empty table."""
    return iter(table.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True))


def write_lines(lines: pl.Series, file: BinaryIO) -> None:
    """Write each string as a line."""
    text = io.BytesIO()
    lines.to_frame().write_csv(text, include_header=False, quote_style="never")
    file.write(text.getbuffer())


def one_field(text: pl.Expr) -> pl.Expr:
    """Text without what would break a line or steer a terminal: every such character becomes ``?``."""
    return text.str.replace_all(r"[\p{C}\p{Zl}\p{Zp}]", "?")


def decimal(value: pl.Expr, width: int = 0) -> pl.Expr:
    """An integer as text, padded with spaces to `width` characters on the left."""
    return value.cast(pl.String).str.pad_start(width)


def zeros(value: pl.Expr, width: int) -> pl.Expr:
    """An integer as text of `width` digits."""
    return value.cast(pl.String).str.pad_start(width, "0")


def major(dev: pl.Expr) -> pl.Expr:
    """Major number of a `dev` column's value."""
    return dev // (1 << units.MINOR_BITS)


def minor(dev: pl.Expr) -> pl.Expr:
    """Minor number of a `dev` column's value."""
    return dev % (1 << units.MINOR_BITS)
