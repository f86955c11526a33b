"""The slowest operations in a report: a block for each, as `androstep slow` has them."""

from __future__ import annotations

from androstep_analysis.common.markup import Element
from androstep_analysis.present.blocks import element
from androstep_analysis.present.headline import slow
from androstep_analysis.present.report.section import Context


def elements(context: Context, *, has_figures: bool) -> list[Element]:
    """Return the slowest waits, with links to figures over time if the page has them; nothing without durations."""
    waits = slow.blocks(context.results["slow"].lazy().collect())
    drawn = [element(block, is_linked=has_figures) for block in waits]
    return [*drawn, *context.glossary.fold(("slow", "stage"))] if drawn else []
