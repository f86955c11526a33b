"""A section of the report: definitions of what it measures, tables, and figures with captions."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import plot, schema
from androstep_analysis.markup import Element, el

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

Results = Mapping[str, pl.DataFrame | pl.LazyFrame]
"""Result tables under the names that sections use."""


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` is given the result called `result`. The caption may hold `{bin}` and `{device}`.

    `whole` gives the table to be saved with it where the result has only what is drawn.
    """

    name: str
    result: str
    draw: Callable[..., Axes]
    caption: str
    options: Mapping[str, Any] = field(default_factory=dict)
    in_time: bool = False
    whole: Callable[[Capture], pl.DataFrame] | None = None


@dataclass(frozen=True)
class Section:
    """A part of the report: `definitions` name entries of schemas/definitions.toml, which are printed as they are."""

    title: str
    definitions: tuple[str, ...]
    tables: tuple[tuple[str, Callable[[pl.DataFrame], list[Element]]], ...]
    figures: tuple[Figure, ...]


def elements(
    part: Section,
    results: Results,
    words: Mapping[str, str],
    provenance: Mapping[str, Any],
    capture: Capture,
    figures: Path | None,
) -> list[Element]:
    """The part with everything that is known of it; with `figures`, its figures are also saved there (`plot.save`)."""
    tables = [(results[name].lazy().collect(), render) for name, render in part.tables if has_rows(results[name])]
    known = [figure for figure in part.figures if has_rows(results[figure.result])]
    if not tables and not known:
        return [el("h2", part.title), el("p", "Nothing of this is known in this capture.")]
    drawn = []
    for figure in known:
        table = results[figure.result]
        origin = {"origin_ns": capture.first_ns} if figure.in_time else {}
        ax = figure.draw(table, **figure.options, **origin)
        caption = figure.caption.format_map(words)
        if figures is not None:
            about = {"figure": figure.name, "caption": caption, "definitions": _texts(part.definitions)}
            saved = table if figure.whole is None else figure.whole(capture)
            plot.save(ax, figures / figure.name, table=saved, provenance={**about, **provenance})
        drawn.append(figure_of(ax, caption))
    told = [element for table, render in tables for element in render(table)]
    return [el("h2", part.title), *definitions(part.definitions), *told, el("div", *drawn, class_="figures")]


def has_rows(table: pl.DataFrame | pl.LazyFrame) -> bool:
    """Whether there is anything in a result."""
    return not table.lazy().head(1).collect().is_empty()


def figure_of(ax: Axes, caption: str) -> Element:
    """A figure with its caption, in the page itself."""
    image = base64.b64encode(plot.png(ax)).decode("ascii")
    return el("figure", el("img", src=f"data:image/png;base64,{image}", alt=caption), el("figcaption", caption))


def definitions(names: Sequence[str]) -> list[Element]:
    """The definitions as schemas/definitions.toml words them."""
    if not names:
        return []
    entries = []
    for name in names:
        definition = schema.definitions()[name]
        source = f" [{definition['source']}]" if "source" in definition else ""
        entries += [el("dt", definition["title"]), el("dd", definition["text"] + source)]
    return [el("dl", *entries)]


def _texts(names: Sequence[str]) -> dict[str, str]:
    return {name: schema.definitions()[name]["text"] for name in names}
