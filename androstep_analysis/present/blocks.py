"""HTML of the slowest operations, for a page and for a notebook."""

from __future__ import annotations

import itertools

from androstep_analysis.common.markup import Element, el
from androstep_analysis.present.headline.slow import Block


def element(block: Block, *, is_linked: bool = False) -> Element:
    """Return a block as HTML.

    If `is_linked`, its duration links to its time in the figures of the page (page.js handles the link).
    """
    cells: list[Element] = []
    for about, members in itertools.groupby(block.sentences, lambda one: one.about):
        is_link = is_linked and not cells
        cells.append(el("dt", el("a", about, href="#t={},{}".format(*block.span_ns)) if is_link else about))
        for one in members:
            words = el("code", block.bar) if one.parts == (block.bar,) else str(one)
            cells.append(el("dd", words, class_=one.kind))
    return el("dl", *cells, class_="told")
