"""HTML tables and number formats of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from androstep_analysis.common import quantities, units
from androstep_analysis.common.markup import Element, el, island
from androstep_analysis.present.sheets import Column, Sheet

TOP: Final = 10
"""Maximum number of rows in a figure of the largest processes, apps or files."""

PAGE: Final = 25
"""Rows of a table that are visible at a time (page.js has the same constant)."""


_LONG: Final = 30
"""A table with names longer than this in its first column gets the full width."""


def table(rows: pl.DataFrame, columns: Mapping[str, Column], label: str) -> Element:
    """Render columns of a frame as a table with title `label`, like `sheet`."""
    return sheet(Sheet(label, rows, columns))


def sheet(shown: Sheet) -> Element:
    """Render a table. The page's script sorts, filters and pages it.

    All rows are in the page as JSON, and those of the first page also as HTML.
    """
    rows, columns, label = shown.rows, shown.columns, shown.title
    texts = [shown.texts(name) for name in columns]
    values = [_numbers(rows, name, column) for name, column in columns.items()]
    head = [el("th", column.title, scope="col", **_kind(column)) for column in columns.values()]
    first = zip(*(of_column[:PAGE] for of_column in texts), strict=True)
    body = [
        el("tr", *(_cell(i, text, column) for i, (text, column) in enumerate(zip(row, columns.values(), strict=True))))
        for row in first
    ]
    parts = zip(columns.values(), texts, values, strict=True)
    more = rows.height - PAGE
    rest = [el("noscript", el("p", f"{more:,} more rows are shown where scripts run."))] if more > 0 else []
    return el(
        "div",
        el(
            "div",
            el("table", el("thead", el("tr", *head)), el("tbody", *body), aria_label=label),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label=f"{label}: table",
        ),
        *rest,
        *([el("p", shown.note)] if shown.note else []),
        island([{"pick": column.pick, "texts": one, "values": other} for column, one, other in parts]),
        class_="sheet wide" if any(len(text or "") > _LONG for text in texts[0][:PAGE]) else "sheet",
    )


def unless_empty(rows: pl.DataFrame, columns: Mapping[str, Column], label: str) -> list[Element]:
    """Return `table`, or an empty list if there are no rows."""
    return [table(rows, columns, label)] if rows.height else []


def _numbers(rows: pl.DataFrame, name: str, column: Column) -> list[float] | None:
    """Return the numbers by which a column is sorted, or None if it is sorted as text."""
    by = name if column.format is not None else column.by
    return None if by is None else rows[by].to_list()


def _kind(column: Column) -> dict[str, str]:
    return {"class": "number"} if column.format or column.by else {}


def _cell(index: int, text: str | None, column: Column) -> Element:
    kind = _kind(column)
    empty = "–" if kind else el("i", "unknown")
    inside = [empty] if text is None else _breakable(text)
    return el("td", *inside, **kind) if index else el("th", *inside, scope="row", **kind)


def _breakable(text: str) -> list[Element | str]:
    """Return the text so that a path may continue on the next line after any slash (page.js has the same)."""
    first, *rest = text.split("/")
    return [first, *(part for name in rest for part in ("/", el("wbr"), name))]


count, size, duration, per_cent = quantities.count, quantities.size, quantities.duration, quantities.per_cent


def bytes_share(ratio: float | None) -> str:
    return "an unknown share of the bytes" if ratio is None else f"{per_cent(ratio)} of the bytes"


def seconds(value: float) -> str:
    return f"{value:,.2f} s"


def device(dev: float) -> str:
    """Format a device number as MAJ:MIN."""
    return units.format_dev(int(dev))
