"""Tables of cells, and how numbers stand in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from androstep_analysis import quantities, units
from androstep_analysis.markup import Element, el

TOP: Final = 10
"""Rows of a table of who moved most, at most."""


def table(rows: pl.DataFrame, names: int) -> Element:
    """A frame of text as a table; the first `names` columns hold names, the others numbers. Null is unknown."""

    def cell(tag: str, column: int, text: str | None, **attributes: str) -> Element:
        kind = {} if column < names else {"class": "number"}
        empty = el("i", "unknown") if column < names else "–"
        return Element(tag, (empty if text is None else text,), {**attributes, **kind})

    head = [cell("th", i, name, scope="col") for i, name in enumerate(rows.columns)]
    body = [el("tr", *(cell("td", i, text) for i, text in enumerate(row))) for row in rows.iter_rows()]
    return el("table", el("thead", el("tr", *head)), el("tbody", *body))


def first(rows: pl.DataFrame, names: int) -> list[Element]:
    """The `TOP` first rows of a table (`table`), and how many more there are."""
    more = rows.height - TOP
    rest = [el("p", f"{more:,} more are not shown.")] if more > 0 else []
    return [table(rows.head(TOP), names), *rest] if rows.height else []


def formatted(column: str, format_: Callable[[float], str]) -> pl.Expr:
    """A column of numbers as text under its name; null stays null."""
    return pl.col(column).map_elements(format_, return_dtype=pl.String)


count, size, duration, per_cent = quantities.count, quantities.size, quantities.duration, quantities.per_cent


def bytes_share(ratio: float | None) -> str:
    return "an unknown share of the bytes" if ratio is None else f"{per_cent(ratio)} of the bytes"


def ratio(value: float) -> str:
    """Per cent with one decimal, rounded."""
    return f"{value:.1%}"


def seconds(value: float) -> str:
    return f"{value:,.2f} s"


def device(dev: float) -> str:
    """A number of a device as MAJ:MIN."""
    return units.format_dev(int(dev))
