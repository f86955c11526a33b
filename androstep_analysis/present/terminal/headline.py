"""The headline of a capture on a terminal: a question, its answer, and the small table below."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from androstep_analysis.common.markup import visible
from androstep_analysis.present import headline
from androstep_analysis.present.headline import Amount, Grid, Headline, Name, Part, Sentence
from androstep_analysis.present.terminal.text import GLUE, WIDTH, shortened, table, wrapped

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_LABEL: Final = 10
"""Columns of the questions, with the space behind them."""

_NAME: Final = 44
"""Columns of a name within a sentence."""

_STYLES: Final = {"fact": "", "unknown": "2", "unusual": "33"}
"""How sentences are drawn, by their kind: as parameters of the terminal's sequence SGR."""


def summary(capture: Capture) -> str:
    """What a capture answers, in about ten lines of at most `WIDTH` columns; coloured where a terminal has colours."""
    return shown(headline.of(capture), coloured=has_colours())


def has_colours() -> bool:
    """Whether standard output is a terminal that has colours, and nobody asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shown(told: Headline, *, coloured: bool = False) -> str:
    """The headline as text."""
    parts = ["\n".join(_lines(told.sentences, coloured))]
    if told.grid is not None and told.grid.rows:
        parts.append(_grid(told.grid))
    return "\n\n".join(parts)


def _lines(sentences: tuple[Sentence, ...], coloured: bool) -> Iterator[str]:
    before = ""
    for sentence in sentences:
        label = "" if sentence.about == before else sentence.about
        before = sentence.about
        for line in wrapped("".join(map(_text, sentence.parts)), WIDTH - _LABEL):
            yield f"{_painted(label.ljust(_LABEL), '1', coloured)}{_painted(line, _STYLES[sentence.kind], coloured)}"
            label = ""


def _text(part: Part) -> str:
    """A part of a sentence; numbers and names stay on one line."""
    if isinstance(part, Name):
        return shortened(visible(part.text), _NAME).replace(" ", GLUE) or "(empty)"
    return str(part).replace(" ", GLUE) if isinstance(part, Amount) else visible(str(part))


def _grid(grid: Grid) -> str:
    rows = [["–" if cell is None else str(cell) for cell in row] for row in grid.rows]
    note = ["", *wrapped(grid.note, WIDTH)] if grid.note else []
    return "\n".join([table(grid.header, rows), *note[1:]])


def _painted(text: str, style: str, coloured: bool) -> str:
    return f"\033[{style}m{text}\033[0m" if coloured and style and text.strip() else text
