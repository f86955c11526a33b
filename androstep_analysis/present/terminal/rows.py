"""Rows of a table of a capture, with units."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from androstep_analysis.common import quantities, schema, units
from androstep_analysis.common.markup import visible
from androstep_analysis.present.terminal.text import shortened, table, wrapped

MOST: Final = 20
"""Maximum number of rows."""

_TEXT: Final = 60
"""Maximum width of a text cell."""

_DURATION: Final = re.compile(r"duration|paused|latency|waited|warmup|think|interval|cpu|pressure|busy|hist|quantile")
"""Columns in ns that are durations. The others are points in time, printed with all digits."""


def rows(name: str, whole: pl.LazyFrame) -> str:
    """Return the first rows of a table, without the columns that are empty in them."""
    shown = whole.head(MOST).collect()
    columns = [column for column in schema.table(name).columns if shown[column.name].null_count() < shown.height]
    cells = [
        [
            shortened(visible(cell(column.name, column.unit, value)), _TEXT)
            for column, value in zip(columns, row, strict=True)
        ]
        for row in _values(shown, columns)
    ]
    empty = [column for column in shown.columns if column not in {column.name for column in columns}]
    parts = [table([column.name for column in columns], cells)] if cells else ["no rows"]
    if cells and empty:
        parts.append("\n".join(wrapped(f"without a value in these rows: {', '.join(empty)}")))
    return "\n\n".join(parts)


def _values(shown: pl.DataFrame, kept: list[schema.Column]) -> list[tuple[object, ...]]:
    return shown.select(column.name for column in kept).rows()


def cell(name: str, unit: str | None, value: object) -> str:
    """Format a value of a column of this name and unit. Null becomes the empty string."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if name.endswith("dev"):
            return units.format_dev(value)
        if unit == "B":
            return quantities.size(value)
        if unit == "ns":
            return quantities.duration(value) if _DURATION.search(name) else _point(value)
    if isinstance(value, list):
        return f"{len(value):,} values"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _point(ns: int) -> str:
    """Format a point in time in seconds, with all digits."""
    sign, (seconds, rest) = "-" if ns < 0 else "", divmod(abs(ns), 10**9)
    return f"{sign}{seconds:,}.{rest:09} s"
