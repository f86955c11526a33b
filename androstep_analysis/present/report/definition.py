"""Render the text of a definition (schemas/definitions.toml), which has paragraphs and lists, as elements of a page."""

from __future__ import annotations

import re
from itertools import groupby

from androstep_analysis.common.markup import Element, el

_ITEM = re.compile(r"(-|\d+\.) ")
_LISTS = {"-": "ul", ".": "ol"}


def blocks(text: str) -> list[Element]:
    """Return the paragraphs and lists of a text. Lines that begin with "- " or "1. " are items of a list."""
    lines = [(_list_of(line), line) for line in text.splitlines() if line]
    rendered: list[Element] = []
    for tag, group in groupby(lines, key=lambda line: line[0]):
        if tag == "p":
            rendered += [el("p", line) for _, line in group]
        else:
            rendered.append(el(tag, *(el("li", _ITEM.sub("", line, count=1)) for _, line in group)))
    return rendered


def _list_of(line: str) -> str:
    mark = _ITEM.match(line)
    return _LISTS[mark[1][-1]] if mark else "p"
