"""The overview at the top of a report: key figures, completeness, and the largest causes of I/O."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis.common.markup import Element, el
from androstep_analysis.ingest import clock
from androstep_analysis.present import headline
from androstep_analysis.present.headline import Sentence
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.section import Results

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_MINUTES: Final = 5
"""Recordings of at least this many minutes have their length in minutes or hours."""

SHOWN: Final = frozenset({"complete", "pattern"})
"""Sentences of a headline that the overview replaces by bars and tiles."""


def frames(results: Results) -> dict[str, pl.DataFrame]:
    """Return the results that a headline needs."""
    return {name: _frame(results, name) for name in headline.RESULTS}


def sentences(content: Iterable[Sentence]) -> Element:
    """Render sentences of a headline. Sentences in a row on one subject share its label."""
    rows = []
    for about, members in itertools.groupby(content, lambda one: one.about):
        rows += [el("dt", about), *(el("dd", *_words(one), class_=one.kind) for one in members)]
    return el("dl", *rows, class_="told")


def _words(sentence: Sentence) -> list[str | Element]:
    """Return the words of a sentence. Text in backticks becomes code."""
    words = str(sentence).split("`")
    return [el("code", word) if number % 2 else word for number, word in enumerate(words)]


def tile(title: str, value: str, *notes: str, is_bad: bool = False) -> Element:
    """Return a figure with its title and notes."""
    lost = {"class_": "lost"} if is_bad else {}
    return el("div", el("dt", title), el("dd", value), *(el("dd", note) for note in notes), **lost)


def tiles(*known: Element) -> Element:
    return el("dl", *known, class_="tiles")


def length(capture: Capture) -> str | None:
    """Return the length of the recording without its gaps, or None if it has no times."""
    if capture.first_ns is None or capture.last_ns is None:
        return None
    return duration(clock.continued(capture.last_ns, capture.jumps) - capture.first_ns)


def duration(ns: int) -> str:
    """Return a duration, of some minutes or more in minutes."""
    if ns < _MINUTES * 60 * 10**9:
        return cells.duration(ns)
    minutes, seconds = divmod(round(ns / 10**9), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def numbers(capture: Capture, results: Results) -> Element:
    """Return the key figures. Unknown figures are omitted."""
    shown = []
    if (time := length(capture)) is not None:
        events = sum(capture.events.values())
        counted = f"{events:,} event{'s' if events != 1 else ''}"
        parts = f"in {len(capture.jumps) + 1} parts" if capture.jumps else counted
        shown.append(tile("Recorded", time, parts))
    for op, title in (("read", "Read"), ("write", "Written"), ("discard", "Discarded")):
        of_op = _values(results, "mix", op=op)
        if of_op.get("count"):
            number = f"{cells.count(of_op['count'])} request{'s' if of_op['count'] != 1 else ''}"
            shown.append(tile(title, cells.size(of_op["bytes"]), number))
    sync = _values(results, "sync", **{"class": "sync"})
    if sync.get("count"):
        share = f"{cells.per_cent(sync['count_ratio'])} of the writes"
        shown.append(tile("Synchronous", cells.per_cent(sync["bytes_ratio"]), f"of the bytes written, {share}"))
    random = {
        op: _values(results, "locality", op=op, **{"class": "random"}).get("count_ratio") for op in ("write", "read")
    }
    shown += _of_both("Random {}", {op: cells.per_cent(share) for op, share in random.items() if share is not None})
    fraction = _values(results, "metadata_fraction", op="write")
    if "bytes_ratio" in fraction:
        journal = f"of known bytes written, journal {cells.per_cent(fraction['journal_bytes_ratio'])}"
        shown.append(tile("Metadata", cells.per_cent(fraction["bytes_ratio"]), journal))
    latency = _frame(results, "latency").filter(pl.col("step").cast(pl.String) == "D2C")
    took = {}
    for op in ("write", "read"):
        rows = latency.filter(pl.col("op").cast(pl.String) == op)
        quantiles = dict(rows.select(pl.col("quantile").cast(pl.String), "value").iter_rows())
        if {"p50", "p99"} <= quantiles.keys():
            took[op] = f"{cells.duration(quantiles['p50'])}|p99 {cells.duration(quantiles['p99'])}"
    shown += _of_both("Median of {}", took)
    if capture.lost_events:
        shown.append(tile("Lost events", cells.count(capture.lost_events), "by the recorder's count", is_bad=True))
    return tiles(*shown)


def _of_both(title: str, values: dict[str, str]) -> list[Element]:
    """Return a tile of writes with reads as a note, or of reads alone. Text after | becomes a separate note."""
    if not values:
        return []
    (op, value), *others = values.items()
    number, *notes = value.split("|")
    notes += [f"{other}s: {of_other.replace('|', ', ')}" for other, of_other in others]
    return [tile(title.format(f"{op}s"), number, *notes)]


def completeness(capture: Capture, content: Iterable[Sentence]) -> list[Element]:
    """Return a bar for each known share of reads and writes. The missing part is red, and also given as a number."""
    titles = {"matched": "Issue and completion", "mapped": "File or block type", "owned": "Owner"}
    rows = []
    for metric, title in titles.items():
        for op in ("read", "write"):
            share = capture.coverage.filter(
                pl.col("metric").cast(pl.String) == metric, pl.col("op").cast(pl.String) == op
            )
            if share.is_empty() or share["value"][0] is None:
                continue
            known = share["value"][0]
            name = f"{title} of {'reads' if op == 'read' else 'writes'}"
            missing = [el("span", cells.per_cent(1 - known), class_="missing")] if known < 1 else ["nothing"]
            rows.append(
                el(
                    "tr",
                    el("th", name, scope="row"),
                    el("td", _bar(known, 1 - known), class_="share"),
                    el("td", *missing, class_="number"),
                )
            )
    head = el("tr", *(el("th", title, scope="col") for title in ("Known, of the bytes", "Share", "Missing")))
    table = el("table", el("thead", head), el("tbody", *rows), class_="complete", aria_label="How complete it is")
    notes = [el("p", *_words(one)) for one in content if one.about == "complete"]
    return [
        el(
            "div",
            el("h2", "How complete is it?"),
            *([table] if rows else []),
            *notes,
            el("p", el("a", "What was lost or is unknown", href="#trust")),
        )
    ]


def _bar(share: float, missing: float = 0.0) -> Element:
    """Return a bar for the share that stands next to it as text."""
    known = el("rect", width=f"{share:.2%}", height="100%")
    lacking = [el("rect", x=f"{share:.2%}", width=f"{missing:.2%}", height="100%", class_="missing")] if missing else []
    return el("svg", known, *lacking, class_="bar", aria_hidden="true")


def _frame(results: Results, name: str) -> pl.DataFrame:
    return results[name].lazy().collect()


def _values(results: Results, name: str, **dims: str) -> dict[str, float]:
    """Return the metrics of a result with these values of its dimensions."""
    rows = _frame(results, name).filter(*(pl.col(dim).cast(pl.String) == value for dim, value in dims.items()))
    return {metric: value for metric, value in rows.select("metric", "value").iter_rows() if value is not None}
