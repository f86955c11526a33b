"""The report of a capture: an overview, then one section for each question."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from androstep_analysis import slowest
from androstep_analysis.common import files, units
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import headline, sheets, waits
from androstep_analysis.present.report import (
    advised,
    benchmarks,
    beside,
    cells,
    coverage,
    document,
    overview,
    provenance,
    recorded,
    replays,
    requests,
    section,
    slow,
    starts,
    timeline,
    waiting,
)
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Context, Glossary

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def write(capture: Capture, path: Path, *, figures: Path | None = None) -> None:
    """Write the report of `capture` to `path`.

    With `figures`, also save every figure in that directory (`plot.save`).

    Missing directories are created, existing files are replaced.
    """
    words, results = requests.results(capture)
    has_requests = section.has_rows(results["points"])
    waited = waits.of(capture)
    for kind in (replays, benchmarks):
        if capture.about[kind.ROLE]:
            results |= kind.results(capture)
    if waited:
        results |= waiting.results(capture, waited)
    results["slow"] = slowest.slow(capture, top=headline.WAITS)
    origin = provenance.found(capture)
    context = Context(capture, results, words, origin, figures, Glossary())
    parts: list[Part] = []
    if waited:
        parts.append(Part("waits", "What did the user wait for?", section.elements(waiting.section(waited), context)))
    parts.append(Part("starts", "How long did the app take to start?", starts.elements(capture, context.glossary)))
    if capture.about["bench"]:
        parts += benchmarks.parts(context)
    if capture.about["replay"]:
        parts.append(Part("replay", "How did the replays go?", section.elements(replays.SECTION, context)))
    drawn = None
    if has_requests:
        windows = list(waited.windows.select("start_ns", "end_ns").iter_rows()) if waited else []
        windows = windows if len(windows) <= waiting.SHADED else []
        drawn = timeline.data(capture, units.parse_dev(words["device"]), windows)
        parts += [
            Part(name, title, _answer(name, sections, context, drawn))
            for name, (title, sections) in requests.QUESTIONS.items()
        ]
    parts.append(Part("slow", "What was slow, and why?", slow.elements(context, has_figures=drawn is not None)))
    if has_requests:
        parts.append(Part("advice", "Which I/O could be avoided?", advised.elements(capture)))
    parts += beside.parts(capture, context.glossary)
    parts += [
        Part("trust", "What was lost or is unknown?", coverage.elements(context, of_requests=has_requests)),
        Part("recording", "What was recorded?", recorded.elements(capture)),
        Part("made", "How was this page made?", provenance.elements(origin)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, document.page(capture.title, _first(context, drawn, has_requests=has_requests), parts))


def _first(context: Context, drawn: Element | None, *, has_requests: bool) -> list[Element]:
    """Return the overview."""
    capture, results = context.capture, context.results
    found = overview.frames(results) if has_requests else None
    sentences = headline.of(capture, found, results["slow"].lazy().collect()).sentences
    if not has_requests:
        about = overview.sentences(sentences)
        for kind in (benchmarks, replays):
            if capture.about[kind.ROLE]:
                return [about, *kind.first(context)]
        return [about, overview.numbers(capture, results)]
    over_time = [
        el("div", el("h2", "Over time"), timeline.chart("rate", "Bytes per second over time", _RATE), drawn)
        if drawn is not None
        else el("div")
    ]
    causes = sheets.causes(*(results[name].lazy().collect() for name in ("causes", "mix")))
    in_words = [one for one in sentences if one.about not in overview.SHOWN]
    is_first = [one.about in ("recorded", "missing") for one in in_words]
    return [
        overview.sentences(itertools.compress(in_words, is_first)),
        el("div", *(element for one in causes for element in (el("h2", one.title), cells.sheet(one)))),
        overview.sentences(one for one, first in zip(in_words, is_first, strict=True) if not first),
        overview.numbers(capture, results),
        el("div", *over_time, *overview.completeness(capture, sentences), class_="columns"),
    ]


_RATE = (
    "Bytes completed per second, read above and written below the line. Drag to zoom in, double-click for all. Keys: "
    "arrows, + and −, 0 for all."
)


def _answer(name: str, sections: tuple[section.Section, ...], context: Context, drawn: Element | None) -> list[Element]:
    """Return the elements of a question. The access pattern begins with a figure of every request over time."""
    elements = [element for part in sections for element in section.elements(part, context)]
    if name != "pattern" or drawn is None:
        return elements
    caption = (
        f"Requests on device {context.words['device']} (the one with the most requests) over time of issue. A circle "
        "is a read, a square a write, a bar anything else."
    )
    return [
        el("h3", "Where, how large, how long"),
        timeline.chart("requests", "Requests over time", caption),
        *elements,
    ]
