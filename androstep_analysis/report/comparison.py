"""The page of a comparison: what is shown, in words and figures, and what that rests on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import plot
from androstep_analysis.compare import words
from androstep_analysis.compare.groups import label
from androstep_analysis.compare.result import Result
from androstep_analysis.markup import Element, el
from androstep_analysis.report import cells, document, provenance, section

_DEFINITIONS: Final = ("compare_windows", "compare_verdict", "compare_rank")

_MOST_FIGURES: Final = 24

_MOST_DIFFERENCES: Final = 40
"""Rows of a figure of differences: more cannot be read."""


def write(result: Result, path: Path) -> None:
    """Write the page of `result` to `path`; missing directories are made, an existing file is replaced."""
    groups = list(dict.fromkeys(label(group) for group in result.ranked.select(result.by).iter_rows()))
    title = f"{result.measure}: {', '.join(groups)}" if groups else result.measure
    body = [
        el("h1", title),
        *(el("p", f"{line.removesuffix('.')}.") for line in result.caveats()),
        *([] if result.gated is None else _gate(result.gated, result.dims)),
        *(_shown(result) if len(groups) > 1 else [el("p", "One group: there is nothing to compare it with.")]),
        *_values(result),
        *_recordings(result),
        el("h2", "Provenance"),
        provenance.sentence(provenance.made_by()),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document.page(title, body), encoding="utf-8")


def _gate(gated: pl.DataFrame, dims: Sequence[str]) -> list[Element]:
    rows = [
        [
            *words.key(row, dims),
            *(row[f"group_{side}"] for side in ("first", "second")),
            row["gate"],
            *(words.in_unit(row[side], row["unit"]) for side in ("first", "second")),
            _p(row["p_gate"]),
        ]
        for row in gated.iter_rows(named=True)
    ]
    names = [*_titles(dims), "First", "Second", "The change is"]
    table = _table([*names, "First is", "Second is", "p"], rows, len(names))
    return [el("h2", "Gate"), *section.definitions(("compare_gate",)), table]


def _shown(result: Result) -> list[Element]:
    """What the comparisons show."""
    compared, dims = result.compared, result.dims
    sentences = words.sentences(compared, dims)
    said = [el("ul", *(el("li", line) for line in sentences))] if sentences else [el("p", "No difference is shown.")]
    rows = [
        [
            *words.key(row, dims),
            *(row[f"group_{side}"] for side in ("first", "second")),
            words.verdict(row),
            *(
                words.in_unit(row[name], row["unit"])
                for name in ("first", "second", "difference", "difference_lo", "difference_hi")
            ),
            "–" if row["ratio"] is None else f"{row['ratio']:.3g}",
            _p(row["p_adjusted"]),
        ]
        for row in compared.iter_rows(named=True)
    ]
    names = [*_titles(dims), "First", "Second", "The second is"]
    numbers = ["First is", "Second is", "Difference", "from", "to", "Ratio", "p"]
    return [
        el("h2", "What is shown"),
        *said,
        el("p", f"{compared.height:,} comparisons: {words.counts(compared)}."),
        *(el("p", line) for line in words.assumptions(compared)),
        _figures(_differences(compared)),
        _table([*names, *numbers], rows, len(names)),
    ]


def _differences(compared: pl.DataFrame) -> Iterator[tuple[Axes, str]]:
    """A figure for each metric, of its largest effects where there are many."""
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


def _values(result: Result) -> list[Element]:
    if result.ranked.is_empty():
        return []
    dims = result.dims
    rows = [
        [
            *words.key(row, dims),
            *(str(row[name]) for name in result.by),
            *(words.in_unit(row[name], row["unit"]) for name in ("value", "lo", "hi")),
            f"{row['n']:,}",
            "–" if row["n_effective"] is None else f"{row['n_effective']:,.0f}",
            words.rank(row),
        ]
        for row in result.ranked.iter_rows(named=True)
    ]
    names = [*_titles(dims), *result.by]
    return [
        el("h2", "Values"),
        *section.definitions(_DEFINITIONS),
        _figures(_groups(result)),
        _table([*names, "Value", "from", "to", "n", "Effective n", "Rank"], rows, len(names)),
    ]


def _groups(result: Result) -> Iterator[tuple[Axes, str]]:
    """A figure for each metric and value of the dimensions but the last, which is told apart by colour."""
    group = pl.concat_str(pl.col(result.by).cast(pl.String).fill_null("None"), separator=" / ")
    ranked = result.ranked.with_columns(group=group).drop(name for name in result.by if name != "group")
    keys = ["metric", *result.dims[:-1]]
    series = result.dims[-1] if result.dims else None
    for key, of_key in itertools.islice(ranked.group_by(keys, maintain_order=True), _MOST_FIGURES):
        of_series = of_key if series is None else of_key.with_columns(pl.col(series).cast(pl.String).fill_null("–"))
        ax = plot.compare_groups(of_series, metric=key[0], group="group", series=series)
        yield ax, ", ".join([plot.paper.words(key[0]), *("–" if one is None else str(one) for one in key[1:])])


def _recordings(result: Result) -> list[Element]:
    """The recordings by the facts that any of them tells."""
    facts = ("device", "android_release", "workload", "capture_id")
    rows = [[one.title, *(_text(one.facts.get(name)) for name in facts)] for one in result.recordings]
    told = [0, *(at for at in range(1, len(facts) + 1) if any(row[at] is not None for row in rows))]
    names = ["Recording", "Device", "Android", "Workload", "Capture"]
    return [
        el("h2", "Recordings"),
        _table([names[at] for at in told], [[row[at] for at in told] for row in rows], len(told)),
    ]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _figures(drawn: Iterator[tuple[Axes, str]]) -> Element:
    return el("div", *(section.figure_of(ax, caption) for ax, caption in drawn), class_="figures")


def _titles(dims: Sequence[str]) -> list[str]:
    return ["Metric", *(plot.paper.words(name) for name in dims)]


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str | None]], texts: int) -> Element:
    return cells.table(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row"), texts)
