"""The headline of a capture as terminal text: labelled sentences, and the tables below them."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from androstep_analysis.common.markup import visible
from androstep_analysis.present import headline
from androstep_analysis.present.headline import Amount, Grid, Headline, Name, Part, Sentence
from androstep_analysis.present.sheets import Sheet
from androstep_analysis.present.terminal.text import GLUE, sheet, shortened, table, wrapped

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_LABEL: Final = 10
"""Minimum width of the column of labels, including the space after it."""

_NAME: Final = 44
"""Maximum width of a name in a sentence."""

_STYLES: Final = {"fact": "", "unknown": "2", "unusual": "33"}
"""Text attributes of each kind of sentence, as parameters of the escape sequence SGR."""


def summary(capture: Capture, path: str | None = None) -> str:
    """Return the headline of a capture, and the commands to try next if its `path` is given.

    The width is that of the terminal, and colours are used if the terminal has them.
    """
    coloured = has_colours()
    content = headline.of(capture)
    answers = shown(content, coloured=coloured)
    if path is None:
        return answers
    label = _painted("next".ljust(_LABEL), "1", coloured)
    commands = f"\n{' ' * _LABEL}".join(_next(capture, content, visible(shlex.quote(path))))
    return f"{answers}\n\n{label}{commands}"


def _next(capture: Capture, content: Headline, path: str) -> Iterator[str]:
    """Yield commands that a reader of the summary may try next."""
    if any(isinstance(part, Sentence) and part.about == "slowest" for part in content.parts):
        yield f"androstep slow {path}"
    if capture.about["rows"]["requests"]:
        yield f"androstep advise {path}"
        yield f"androstep compare {path} OTHER"
    yield f"androstep report {path} -o report.html"


def has_colours() -> bool:
    """Return whether standard output is a terminal with colours, and NO_COLOR is not set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shown(content: Headline, *, coloured: bool = False) -> str:
    """Return the headline as text: lines of sentences, and tables separated by empty lines."""
    parts = []
    for kind, members in itertools.groupby(content.parts, type):
        if kind is Sentence:
            parts.append("\n".join(_lines([one for one in members if isinstance(one, Sentence)], coloured)))
        else:
            parts += [_table(one) for one in members if not isinstance(one, Sentence)]
    return "\n\n".join(filter(None, parts))


def _lines(sentences: Sequence[Sentence], coloured: bool) -> Iterator[str]:
    before, width = "", max(_LABEL, *(len(sentence.about) + 1 for sentence in sentences))
    for sentence in sentences:
        label = "" if sentence.about == before else sentence.about
        before = sentence.about
        for line in wrapped("".join(map(_text, sentence.parts)), width):
            yield f"{_painted(label.ljust(width), '1', coloured)}{_painted(line, _STYLES[sentence.kind], coloured)}"
            label = ""


def _text(part: Part) -> str:
    """Format a part of a sentence. Numbers and names are not broken across lines."""
    if isinstance(part, Name):
        return shortened(visible(part.text), _NAME).replace(" ", GLUE) or "(empty)"
    return str(part).replace(" ", GLUE) if isinstance(part, Amount) else visible(str(part))


def _table(content: Grid | Sheet) -> str:
    """Return a table as text; an empty string if it has no rows."""
    if isinstance(content, Sheet):
        return sheet(content)
    return _grid(content) if content.rows else ""


def _grid(grid: Grid) -> str:
    rows = [["–" if cell is None else str(cell) for cell in row] for row in grid.rows]
    note = ["", *wrapped(grid.note)] if grid.note else []
    return "\n".join([table(grid.header, rows), *note[1:]])


def _painted(text: str, style: str, coloured: bool) -> str:
    return f"\033[{style}m{text}\033[0m" if coloured and style and text.strip() else text
