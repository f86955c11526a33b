"""The page of a comparison: differences in words and figures, and the tests behind them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis.common import files
from androstep_analysis.common.markup import Element, el
from androstep_analysis.compare import words
from androstep_analysis.compare.groups import label
from androstep_analysis.compare.overview import Overview
from androstep_analysis.compare.result import Result
from androstep_analysis.present import changes, plot
from androstep_analysis.present.report import cells, document, overview, provenance, section
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Glossary
from androstep_analysis.present.sheets import Column, in_unit

_DEFINITIONS: Final = ("compare_windows", "compare_verdict", "compare_rank")

_MOST_FIGURES: Final = 24

_MOST_DIFFERENCES: Final = 40
"""Maximum number of rows in a figure of differences; more would be unreadable."""


def write(result: Result, path: Path) -> None:
    """Write the page of `result` to `path`. Missing directories are created, an existing file is replaced."""
    groups = list(dict.fromkeys(label(group) for group in result.ranked.select(result.by).iter_rows()))
    title = f"{result.measure}: {', '.join(groups)}" if groups else result.measure
    several = len(groups) > 1
    glossary = Glossary()
    parts = [
        Part(
            "gate",
            "Is the change within its limit?",
            [] if result.gated is None else _gate(result.gated, result.dims, glossary),
        ),
        Part("shown", "How large are the differences?", _differences(result) if several else []),
        Part("values", "What are the values?", _values(result, glossary)),
        Part(
            "tested",
            "How was it tested?",
            [el("p", line) for line in words.assumptions(result.compared)] if several else [],
        ),
        Part("recordings", "What was compared?", _recordings(result)),
        Part("made", "How was this page made?", [provenance.sentence(provenance.made_by())]),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, document.page(title, _first(result, several=several), parts))


def write_overview(found: Overview, path: Path) -> None:
    """Write the page of the differences between two sides to `path`, like `write`."""
    shown = found.table.head(changes.MOST_ROWS)
    figure = plot.compare_overview(shown)
    caption = (
        "B as a multiple of A, with intervals that hold together with 95 %. Right of the line, B is higher. What only "
        "one side has is not drawn."
    )
    parts = [
        Part(
            "shown",
            "What is different?",
            [cells.sheet(changes.sheet(found)), *section.grid([section.figure_of(figure, caption)])],
        ),
        Part("rest", "What cannot be decided?", [el("p", line) for line in changes.last_lines(found)]),
        Part("made", "How was this page made?", [provenance.sentence(provenance.made_by())]),
    ]
    first = [el("ul", *(el("li", line) for line in changes.first_lines(found)))]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, document.page(f"{found.first} and {found.second}", first, parts))


def _first(result: Result, *, several: bool) -> list[Element]:
    """Return the overview: findings in sentences, the number of comparisons by verdict, and caveats."""
    compared = result.compared
    caveats = [el("li", f"{line.removesuffix('.')}.") for line in result.caveats()]
    missing = [el("ul", *caveats, class_="losses")] if caveats else []
    if not several:
        return [el("p", "One group: there is nothing to compare it with."), *missing]
    sentences = words.sentences(compared, result.dims)
    shown = [el("ul", *(el("li", line) for line in sentences))] if sentences else [el("p", "No difference is shown.")]
    verdicts = compared.group_by("verdict").len().sort("verdict")
    tiles = [
        overview.tile(str(verdict).capitalize(), f"{count:,}", "comparisons") for verdict, count in verdicts.iter_rows()
    ]
    gates = (
        []
        if result.gated is None
        else [
            overview.tile(f"Gate: {gate}", f"{count:,}", "changes", is_bad=gate == "beyond")
            for gate, count in result.gated.group_by("gate").len().sort("gate").iter_rows()
        ]
    )
    return [overview.tiles(*gates, *tiles), el("h2", "What is shown"), *shown, *missing]


def _gate(gated: pl.DataFrame, dims: Sequence[str], glossary: Glossary) -> list[Element]:
    columns = {
        **_keys(dims),
        "group_first": Column("First"),
        "group_second": Column("Second"),
        "gate": Column("The change is", pick=True),
        **{f"said_{side}": Column(f"{side.capitalize()} is", by=side) for side in ("first", "second")},
        "p_gate": Column("p", _p),
    }
    return [cells.table(_rows(gated, dims, ("first", "second")), columns, "Gate"), *glossary.fold(("compare_gate",))]


def _differences(result: Result) -> list[Element]:
    """Return every comparison, as figures and as a table."""
    numbers = ("first", "second", "difference", "difference_lo", "difference_hi")
    titles = ("First is", "Second is", "Difference", "from", "to")
    columns = {
        **_keys(result.dims),
        "group_first": Column("First"),
        "group_second": Column("Second"),
        "said_verdict": Column("The second is", pick=True),
        **{f"said_{name}": Column(title, by=name) for name, title in zip(numbers, titles, strict=True)},
        "ratio": Column("Ratio", "{:.3g}".format),
        "p_adjusted": Column("p", _p),
    }
    verdicts = pl.Series(
        "said_verdict", [words.verdict(row) for row in result.compared.iter_rows(named=True)], pl.String
    )
    rows = _rows(result.compared, result.dims, numbers).with_columns(verdicts)
    return [
        el("p", f"{rows.height:,} comparisons: {words.counts(result.compared)}."),
        *_figures(_forests(result.compared)),
        *cells.unless_empty(rows, columns, "Comparisons"),
    ]


def _forests(compared: pl.DataFrame) -> Iterator[tuple[Axes, str]]:
    """Yield a figure for each metric, with its largest effects."""
    for metric in compared["metric"].unique(maintain_order=True):
        of_metric = compared.filter(pl.col("metric") == metric, pl.col("difference").is_not_null())
        if of_metric.is_empty():
            continue
        largest = of_metric.sort(pl.col("effect").abs(), descending=True, nulls_last=True).head(_MOST_DIFFERENCES)
        more = of_metric.height - largest.height
        caption = f"{plot.paper.words(metric)}: differences with 95 % intervals"
        yield (
            plot.compare_differences(largest, metric=metric),
            f"{caption}; {more:,} smaller effects are in the table" if more else caption,
        )


def _values(result: Result, glossary: Glossary) -> list[Element]:
    if result.ranked.is_empty():
        return []
    numbers = {"value": "Value", "lo": "from", "hi": "to"}
    columns = {
        **_keys(result.dims),
        **{name: Column(name, pick=True) for name in result.by},
        **{f"said_{name}": Column(title, by=name) for name, title in numbers.items()},
        "n": Column("n", cells.count),
        "n_effective": Column("Effective n", cells.count),
        "rank": Column("Rank", by="rank_from"),
    }
    ranks = pl.Series("rank", [words.rank(row) for row in result.ranked.iter_rows(named=True)], pl.String)
    rows = _rows(result.ranked, result.dims, tuple(numbers)).with_columns(ranks)
    return [*_figures(_groups(result)), cells.table(rows, columns, "Values"), *glossary.fold(_DEFINITIONS)]


def _groups(result: Result) -> Iterator[tuple[Axes, str]]:
    """Yield a figure for each metric and combination of dimensions. The last dimension is shown by colour instead."""
    group = pl.concat_str(pl.col(result.by).cast(pl.String).fill_null("None"), separator=" / ")
    ranked = result.ranked.with_columns(group=group).drop(name for name in result.by if name != "group")
    keys = ["metric", *result.dims[:-1]]
    series = result.dims[-1] if result.dims else None
    for key, of_key in itertools.islice(ranked.group_by(keys, maintain_order=True), _MOST_FIGURES):
        of_series = of_key if series is None else of_key.with_columns(pl.col(series).cast(pl.String).fill_null("–"))
        ax = plot.compare_groups(of_series, metric=key[0], group="group", series=series)
        yield ax, ", ".join([plot.paper.words(key[0]), *("–" if one is None else str(one) for one in key[1:])])


def _recordings(result: Result) -> list[Element]:
    """Return the table of recordings, with the facts that any of them has."""
    facts = {"device": "Device", "android_release": "Android", "workload": "Workload", "capture_id": "Capture"}
    rows = pl.DataFrame(
        {"title": [one.title for one in result.recordings]}
        | {name: [_text(one.facts.get(name)) for one in result.recordings] for name in facts},
        schema=dict.fromkeys(("title", *facts), pl.String),
    )
    columns = {name: Column(title) for name, title in facts.items() if rows[name].count()}
    return [cells.table(rows, {"title": Column("Recording"), **columns}, "Recordings")]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _figures(drawn: Iterator[tuple[Axes, str]]) -> list[Element]:
    return section.grid([section.figure_of(ax, caption) for ax, caption in drawn])


def _keys(dims: Sequence[str]) -> dict[str, Column]:
    """Return the columns that identify a row."""
    return {name: Column(plot.paper.words(name).capitalize(), pick=True) for name in ("metric", *dims)}


def _rows(rows: pl.DataFrame, dims: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    """Return the rows with these numbers in their unit. A dimension that does not apply to a row becomes a dash."""
    return in_unit(rows, numbers).with_columns(pl.col(dims).cast(pl.String).fill_null("–"))


def _p(value: float) -> str:
    return f"{value:.2g}"
