"""The report's section on the slowest operations, with the blocks of `androstep slow`."""

from __future__ import annotations

from androstep_analysis.common.markup import Element
from androstep_analysis.present.blocks import element
from androstep_analysis.present.headline import slow
from androstep_analysis.present.report.section import Context


def elements(context: Context, *, has_figures: bool) -> list[Element]:
    """Return the slowest waits, linked to figures over time if the page has them; empty without durations."""
    waits = slow.blocks(context.results["slow"].lazy().collect())
    drawn = [element(block, is_linked=has_figures) for block in waits]
    return [*drawn, *context.glossary.fold(("slow", "stage"))] if drawn else []
