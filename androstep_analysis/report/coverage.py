"""How far a report can be trusted: how much of the I/O it can speak of, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from androstep_analysis import losses
from androstep_analysis.markup import Element, el
from androstep_analysis.report import cells, section

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(capture: Capture, *, of_requests: bool) -> list[Element]:
    """What is missing, and with `of_requests` how much of the I/O the report can speak of, in words."""
    statements = [
        el("li", _COVERAGE.get(metric, "{} (" + metric + ").").format(cells.bytes_share(value)))
        for metric, value in capture.coverage.select("metric", "value").iter_rows()
    ]
    statements += [el("li", f"{line[:1].upper()}{line[1:]}.") for line in capture.compared]
    lost = [el("li", f"{loss.message} ({loss.count:,}{losses.hurts(loss, ', of ')})") for loss in capture.losses]
    return [
        el("h2", "How far it can be trusted"),
        *([el("ul", *statements), *section.definitions(("coverage", "counted"))] if of_requests else []),
        el("ul", *lost, class_="losses")
        if lost
        else el("p", "The recorder reports no lost event, and everything in its files could be read."),
    ]


_COVERAGE = {
    "matched": "Issue and completion were both seen for {}.",
    "mapped": "What the blocks held is known as a fact for {}.",
    "inferred": "It is inferred from an image taken at another time for {}.",
    "owned": "The process on whose behalf they moved is known for {}.",
}
