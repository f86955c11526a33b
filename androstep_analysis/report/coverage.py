"""How far a report can be trusted: how much of the I/O it can speak of, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from androstep_analysis import population
from androstep_analysis.markup import Element, el
from androstep_analysis.report import cells, section

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(capture: Capture, *, of_requests: bool) -> list[Element]:
    """What is missing, and with `of_requests` how much of the I/O the report can speak of, in words."""
    told = population.sentence(capture.population, capture.losses, capture.lost_events)
    losses = [el("li", f"{loss.message} ({loss.count:,})") for loss in capture.losses]
    if capture.lost_events:
        losses.insert(
            0, el("li", f"The recorder lost {capture.lost_events:,} events: what they would have told is missing.")
        )
    return [
        el("h2", "How far it can be trusted"),
        *([el("p", told), *_coverage(capture), *section.definitions(("coverage", "counted"))] if of_requests else []),
        el("ul", *losses, class_="losses")
        if losses
        else el("p", "The recorder reports no lost event, and everything in its files could be read."),
    ]


def _coverage(capture: Capture) -> list[Element]:
    """The shares of each operation as a table."""
    if capture.coverage.is_empty():
        return []
    wide = capture.coverage.pivot("metric", index="op", values="value", maintain_order=True)
    titles = {
        "matched": "Issue and completion seen",
        "mapped": "File or block type known",
        "inferred": "inferred",
        "owned": "Owner known",
    }
    shown = wide.select(
        pl.col("op").cast(pl.String).alias("Of the bytes of each operation"),
        *(cells.formatted(name, cells.per_cent).alias(title) for name, title in titles.items() if name in wide.columns),
    )
    return [cells.table(shown, 1)]
