"""Building blocks of a section of the report: definitions, tables, figures with captions, and notes on unknown data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis.common import schema
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import plot
from androstep_analysis.present.report import definition

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_TALL: Final = 12
"""A table with more rows than this is about as high as two figures."""

Results = Mapping[str, pl.DataFrame | pl.LazyFrame]
"""Result tables by the names that sections use."""


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` is called with the result named `result`. The caption may contain `{bin}` and `{device}`.

    `draw` also gets the origin of the time axis if the figure is `in_time`, and the colours of the user's own types of
    files if it is `by_file_type`. If the result has only the displayed part, `whole` returns the table to save with the
    figure. A figure that is not `on_page` is only saved: the page displays the data in another way.
    """

    name: str
    result: str
    draw: Callable[..., Axes]
    caption: str
    options: Mapping[str, Any] = field(default_factory=dict)
    in_time: bool = False
    by_file_type: bool = False
    whole: Callable[[Capture], pl.DataFrame] | None = None
    on_page: bool = True


@dataclass(frozen=True)
class Section:
    """A part of the report. `definitions` are entries of schemas/definitions.toml.

    The sentence `unknown` replaces the section if no row of the first table has a value in column `key`, or if there
    are no rows and `unknown_if_empty` is set. A section without rows and without such a sentence is omitted.
    """

    title: str
    definitions: tuple[str, ...]
    tables: tuple[tuple[str, Callable[[pl.DataFrame], list[Element]]], ...]
    figures: tuple[Figure, ...]
    key: str | None = None
    unknown: str = ""
    unknown_if_empty: bool = False


class Glossary:
    """Definitions on a page. Each is printed where it is needed first; later uses link to it."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def fold(self, names: Sequence[str]) -> list[Element]:
        """Return a fold with the texts of the definitions, from schemas/definitions.toml."""
        if not names:
            return []
        known = schema.definitions()
        new = [name for name in names if name not in self._given]
        self._given.update(new)
        entries: list[Element] = []
        for name in new:
            source = [el("p", f"[{known[name]['source']}]")] if "source" in known[name] else []
            meaning = el("dd", *definition.blocks(known[name]["text"]), *source)
            entries += [el("dt", known[name]["title"], id=f"means-{name}"), meaning]
        links = [el("li", el("a", known[name]["title"], href=f"#means-{name}")) for name in names if name not in new]
        return [
            el(
                "details",
                el("summary", f"What is meant: {', '.join(known[name]['title'] for name in names)}"),
                *([el("dl", *entries)] if entries else []),
                *([el("ul", *links)] if links else []),
            )
        ]


@dataclass(frozen=True)
class Context:
    """The input of sections: results, words for captions, and the directory for saved figures, if any."""

    capture: Capture
    results: Results
    words: Mapping[str, str]
    provenance: Mapping[str, Any]
    figures: Path | None
    glossary: Glossary


def elements(part: Section, context: Context) -> list[Element]:
    """Return the elements of a section. Also save its figures if figures are saved."""
    tables = [(context.results[name].lazy().collect(), render) for name, render in part.tables]
    if part.unknown and not _is_known(tables[0][0], part):
        return [el("p", part.unknown, class_="unknown")]
    tables = [(table, render) for table, render in tables if not table.is_empty()]
    known = [figure for figure in part.figures if has_rows(context.results[figure.result])]
    drawn = [drawing for figure in known if (drawing := _figure(figure, part, context)) is not None]
    rendered = [element for table, render in tables for element in render(table)]
    if not rendered and not drawn:
        return []
    is_tall = any(table.height > _TALL for table, _ in tables)
    is_beside = rendered and drawn and (len(drawn) == 1 or is_tall)
    answer = (
        [el("div", el("div", *rendered), *grid(drawn), class_="answer")] if is_beside else [*rendered, *grid(drawn)]
    )
    return [el("h3", part.title), *answer, *context.glossary.fold(part.definitions)]


def grid(drawn: Sequence[Element]) -> list[Element]:
    """Return figures side by side."""
    return [el("div", *drawn, class_="figures")] if drawn else []


def _is_known(table: pl.DataFrame, part: Section) -> bool:
    """Return whether the section has known values, or needs none."""
    if table.is_empty() or part.key is None:
        return not (table.is_empty() and part.unknown_if_empty)
    values = table[part.key].cast(pl.String)
    return bool((values.is_not_null() & (values != "unknown")).any())


def _figure(figure: Figure, part: Section, context: Context) -> Element | None:
    """Return a figure for the page, or None if it is not on the page. Also save it if figures are saved."""
    if context.figures is None and not figure.on_page:
        return None
    table = context.results[figure.result]
    of_capture: dict[str, Any] = {"origin_ns": context.capture.first_ns} if figure.in_time else {}
    if figure.by_file_type:
        of_capture["colours"] = context.capture.classes.colours
    ax = figure.draw(table, **figure.options, **of_capture)
    caption = figure.caption.format_map(context.words)
    saved = figure.whole(context.capture) if figure.whole and context.figures else table
    save(ax, figure.name, caption, saved, part.definitions, context)
    return figure_of(ax, caption) if figure.on_page else None


def save(
    ax: Axes,
    name: str,
    caption: str,
    table: pl.DataFrame | pl.LazyFrame,
    definitions: Sequence[str],
    context: Context,
) -> None:
    """Save a figure with its table, if figures are saved."""
    if context.figures is not None:
        about = {"figure": name, "caption": caption, "definitions": _texts(definitions)}
        plot.save(ax, context.figures / name, table=table, provenance={**about, **context.provenance})


def has_rows(table: pl.DataFrame | pl.LazyFrame) -> bool:
    """Return whether a result has any row."""
    return bool(table.lazy().head(1).select(pl.len()).collect().item())  # reads no more columns than it must


def figure_of(ax: Axes, caption: str) -> Element:
    """Return a figure with its caption. The image is embedded in the page."""
    image = base64.b64encode(plot.svg(ax)).decode("ascii")
    return el("figure", el("img", src=f"data:image/svg+xml;base64,{image}", alt=caption), el("figcaption", caption))


def _texts(names: Sequence[str]) -> dict[str, str]:
    return {name: schema.definitions()[name]["text"] for name in names}
