"""Tables of cells, and how numbers stand in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from androstep_analysis import units
from androstep_analysis.markup import Element, el
from androstep_analysis.plot import paper

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


def count(value: float) -> str:
    return f"{value:,.0f}"


def size(value: float) -> str:
    """Bytes in the unit that suits them."""
    return paper.size(value)


def per_cent(ratio: float) -> str:
    """Per cent with one decimal; what is not all is never rounded to all, what is something never to nothing."""
    if 0.9995 <= ratio < 1:
        return "> 99.9 %"
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{ratio:.1%}".replace("%", " %")


def bytes_share(ratio: float | None) -> str:
    return "an unknown share of the bytes" if ratio is None else f"{per_cent(ratio)} of the bytes"


def ratio(value: float) -> str:
    """Per cent with one decimal, rounded."""
    return f"{value:.1%}"


def seconds(value: float) -> str:
    return f"{value:,.2f} s"


def duration(ns: float) -> str:
    """A time in ns in the unit that suits it."""
    for divisor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= divisor:
            return f"{ns / divisor:,.4g} {unit}" if ns < 10**13 else f"{ns / divisor:,.0f} {unit}"
    return f"{ns:.0f} ns"


def device(dev: float) -> str:
    """A number of a device as MAJ:MIN."""
    return units.format_dev(int(dev))
