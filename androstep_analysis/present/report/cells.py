"""Tables of cells, and how numbers stand in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from androstep_analysis.common import quantities, units
from androstep_analysis.common.markup import Element, el, island
from androstep_analysis.present.sheets import Column, Sheet

TOP: Final = 10
"""Rows of a figure of who moved most, at most."""

PAGE: Final = 25
"""Rows of a table that are seen at once; the page's script turns to the others (page.js knows the number as well)."""


_LONG: Final = 30
"""Names longer than this get room, however many columns there are."""


def table(rows: pl.DataFrame, columns: Mapping[str, Column], label: str) -> Element:
    """Show columns of a frame as a table called `label`, as `sheet` does."""
    return sheet(Sheet(label, rows, columns))


def sheet(shown: Sheet) -> Element:
    """Draw a table, which the page's script sorts, searches and turns the pages of.

    All rows are in the page, those of the first page as HTML.
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
    """`table` where there are rows."""
    return [table(rows, columns, label)] if rows.height else []


def _numbers(rows: pl.DataFrame, name: str, column: Column) -> list[float] | None:
    """The numbers that a column is sorted by; None where it is sorted as text."""
    by = name if column.format is not None else column.by
    return None if by is None else rows[by].to_list()


def _kind(column: Column) -> dict[str, str]:
    return {"class": "number"} if column.format or column.by else {}


def _cell(place: int, text: str | None, column: Column) -> Element:
    kind = _kind(column)
    empty = "–" if kind else el("i", "unknown")
    inside = empty if text is None else text
    return el("td", inside, **kind) if place else el("th", inside, scope="row", **kind)


count, size, duration, per_cent = quantities.count, quantities.size, quantities.duration, quantities.per_cent


def bytes_share(ratio: float | None) -> str:
    return "an unknown share of the bytes" if ratio is None else f"{per_cent(ratio)} of the bytes"


def seconds(value: float) -> str:
    return f"{value:,.2f} s"


def device(dev: float) -> str:
    """A number of a device as MAJ:MIN."""
    return units.format_dev(int(dev))
