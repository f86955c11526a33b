"""The report's section on completeness: losses, and the share of the I/O that the results cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from androstep_analysis.capture import population
from androstep_analysis.common import losses
from androstep_analysis.common.markup import Element, el
from androstep_analysis.link import unrecorded
from androstep_analysis.present.report import cells, requests, section
from androstep_analysis.present.report.section import Context
from androstep_analysis.present.sheets import Column

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(context: Context, *, of_requests: bool) -> list[Element]:
    """Return losses and unrecorded events, and with `of_requests` the coverage of the results."""
    capture = context.capture
    notes = [*capture.compared, *([unrecorded.in_words(capture.lacking)] if of_requests and capture.lacking else [])]
    compared = [el("li", f"{line[:1].upper()}{line[1:]}.") for line in notes]
    lost = [el("li", f"{loss.message} ({loss.count:,}{losses.hurts(loss, ', of ')})") for loss in capture.losses]
    if capture.lost_events:
        lost.insert(0, el("li", f"The recorder lost {capture.lost_events:,} events; their information is missing."))
    of_numbers = [
        el("p", population.sentence(capture.population, capture.losses, capture.lost_events)),
        *_coverage(capture),
        *context.glossary.fold(("coverage", "counted")),
    ]
    return [
        *(of_numbers if of_requests else []),
        *([el("ul", *compared)] if compared else []),
        el("ul", *lost, class_="losses")
        if lost
        else el("p", "The recorder reports no lost event, and everything in its files could be read."),
        *(one for part in requests.EVIDENCE if of_requests for one in section.elements(part, context)),
    ]


def _coverage(capture: Capture) -> list[Element]:
    """Return a table of the coverage of each operation."""
    if capture.coverage.is_empty():
        return []
    wide = capture.coverage.pivot("metric", index="op", values="value", maintain_order=True)
    titles = {
        "matched": "Issue and completion recorded",
        "mapped": "File or block type known",
        "inferred": "inferred",
        "owned": "Owner known",
    }
    shares = {name: Column(title, cells.per_cent) for name, title in titles.items() if name in wide.columns}
    return [cells.table(wide, {"op": Column("Of the bytes of each operation"), **shares}, "Coverage")]
