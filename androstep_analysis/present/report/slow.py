"""What a report tells of the slowest operations: a block for each, as `androstep slow` has them."""

from __future__ import annotations

from typing import Final

from androstep_analysis import slowest
from androstep_analysis.common.markup import Element
from androstep_analysis.present.headline import slow
from androstep_analysis.present.report.section import Context

TOP: Final = 5
"""Operations on a page."""


def elements(context: Context, *, has_figures: bool) -> list[Element]:
    """Return the slowest waits, with links to figures over time if the page has them; nothing without durations."""
    blocks = slow.blocks(slowest.slow(context.capture, top=TOP))
    told = [slow.element(block, is_linked=has_figures) for block in blocks]
    return [*told, *context.glossary.fold(("slow", "stage"))] if told else []
