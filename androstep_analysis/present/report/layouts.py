"""Renderers for measures of requests, each with a note on coverage."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import sheets
from androstep_analysis.present.report import cells

Render = Callable[[pl.DataFrame], list[Element]]


def shares(title: str, *dims: str) -> Render:
    """Return a renderer of count, bytes and their shares, with one row for each combination of `dims`."""
    return lambda table: [cells.sheet(sheets.shares(title, dims, table)), *known(table)]


def fraction(table: pl.DataFrame) -> list[Element]:
    """Render `measures.metadata_fraction`."""
    return [cells.sheet(sheets.fraction(table))]


def quantiles(table: pl.DataFrame) -> list[Element]:
    """Render `measures.latency`."""
    return [cells.sheet(sheets.quantiles("Quantiles of latency", table))]


def volume(what: str, title: str) -> Render:
    """Return a renderer of `measures.volume`, with one row for each `what`."""
    return lambda table: [cells.sheet(sheets.volume(title, what, table)), *known(table)]


def known(table: pl.DataFrame) -> list[Element]:
    """Return a note on the coverage of a result, by operation if possible; empty if all of it is covered."""
    rows = table.drop_nulls("coverage")
    if rows.is_empty() or (rows["coverage"] == 1).all():
        return []
    if "op" in table.columns:
        of_op = rows.select(pl.col("op").cast(pl.String), "coverage").unique(maintain_order=True).sort("op")
        listed = ", ".join(f"{op} {cells.per_cent(value)}" for op, value in of_op.iter_rows())
        return [el("p", f"Known, of the bytes of each operation: {listed}.", class_="note")]
    values = rows["coverage"].unique()
    return [el("p", f"Known for {cells.bytes_share(values[0])}.", class_="note")] if len(values) == 1 else []
