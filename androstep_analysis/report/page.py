"""The report of a capture: its parts in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from androstep_analysis import waits
from androstep_analysis.markup import el
from androstep_analysis.report import (
    beside,
    coverage,
    document,
    provenance,
    recorded,
    replays,
    requests,
    section,
    waiting,
)

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def write(capture: Capture, path: Path, *, figures: Path | None = None) -> None:
    """Write the report of `capture` to `path`; with `figures`, also every figure into that directory (`plot.save`).

    Missing directories are made, existing files replaced.
    """
    words, results = requests.results(capture)
    others = beside.elements(capture)
    waited = waits.of(capture)
    has_more = bool(others or capture.about["replay"] or waited)
    parts = () if has_more and not section.has_rows(results["points"]) else requests.SECTIONS
    if capture.about["replay"]:
        parts = (replays.SECTION, *parts)
        results |= replays.results(capture)
    if waited:
        parts = (waiting.section(waited), *parts)
        results |= waiting.results(capture, waited)
    origin = provenance.found(capture)
    page = document.page(
        capture.title,
        [
            el("h1", capture.title),
            *recorded.elements(capture),
            *coverage.elements(capture, of_requests=bool(capture.about["rows"]["requests"]) or not has_more),
            *others,
            *(
                element
                for part in parts
                for element in section.elements(part, results, words, origin, capture, figures)
            ),
            *provenance.elements(origin),
        ],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
