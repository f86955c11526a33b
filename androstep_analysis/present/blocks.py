"""HTML of the slowest operations, for a page and for a notebook."""

from __future__ import annotations

from androstep_analysis.common.markup import Element, el
from androstep_analysis.present.headline.slow import Block


def element(block: Block, *, is_linked: bool = False) -> Element:
    """Return a block as HTML.

    If `is_linked`, its duration links to its time in the figures of the page (page.js handles the link).
    """
    cells: list[Element] = []
    for one in block.sentences:
        about = el("a", one.about, href="#t={},{}".format(*block.span_ns)) if is_linked and not cells else one.about
        words = el("code", block.bar) if one.parts == (block.bar,) else str(one)
        cells += [el("dt", about), el("dd", words, class_=one.kind)]
    return el("dl", *cells, class_="told")
