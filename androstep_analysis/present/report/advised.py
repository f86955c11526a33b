"""The report's section on avoidable I/O: findings of `advise`, each with a link to its time in the figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.markup import Element, el
from androstep_analysis.ingest import clock
from androstep_analysis.present import advice
from androstep_analysis.present.advice import words

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

MOST_EVENTS: Final = 1_000_000
"""With more filesystem events than this, a page has no findings and no costs of writing: they take 1 KiB of memory
for each event."""


def elements(capture: Capture) -> list[Element]:
    """Return the findings by trigger, the most costly first, with at most `words.MOST` findings of each."""
    if capture.about["rows"].get("fs_events", 0) > MOST_EVENTS:
        text = f"Not computed for a page: there are more than {MOST_EVENTS:,} filesystem events. Run "
        return [el("p", text, el("code", "androstep advise CAPTURE"), " to compute it.", class_="unknown")]
    table = advice.advise(capture)
    named = {trigger.name: trigger for trigger in advice.triggers()}
    found = [
        element
        for (name,), rows in table.filter(status="found").group_by("trigger", maintain_order=True)
        for element in _of_trigger(named[str(name)], rows, capture)
    ]
    without = {"nothing": "No findings", "cannot tell": "Undecided, because the recording lacks data"}
    for status, intro in without.items():
        titles = [named[name].title for name in table.filter(status=status)["trigger"]]
        kind = {"class_": "unknown"} if status == "cannot tell" else {}
        found += [el("p", f"{intro}: {'; '.join(titles)}.", **kind)] if titles else []
    return found


def _of_trigger(trigger: advice.Trigger, rows: pl.DataFrame, capture: Capture) -> Iterator[Element]:
    yield el("h3", trigger.title[:1].upper() + trigger.title[1:])
    shown = rows.head(words.MOST)
    items = [el("li", *_finding(trigger, row, capture)) for row in shown.iter_rows(named=True)]
    if more := rows.height - shown.height:
        items.append(el("li", f"and {more:,} more that cost less"))
    yield el("ul", *items)
    yield el("p", f"→ {trigger.do}")


def _finding(trigger: advice.Trigger, row: dict[str, Any], capture: Capture) -> Iterator[str | Element]:
    """Yield the words of a finding, after a link to its time (page.js handles the link)."""
    if row["begin_ns"] is not None and capture.first_ns is not None:
        ends = (row["begin_ns"], row["begin_ns"] if row["end_ns"] is None else row["end_ns"])
        begin, end = (clock.continued(time, capture.jumps) - capture.first_ns for time in ends)
        yield el("a", f"at {quantities.duration(begin)}", href=f"#t={begin},{end}")
        yield ": "
    yield "".join(map(str, words.finding(trigger, row)))
