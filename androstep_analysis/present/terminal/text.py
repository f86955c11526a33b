"""Text in the columns of a terminal: how wide it is, shortened, wrapped, in a table.

Everything is made visible first: a file name cannot steer the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from androstep_analysis.common.markup import visible
from androstep_analysis.present.sheets import Sheet

WIDTH = 80
"""Columns that all that is printed fits in."""

NUMBER = frozenset("-0123456789<>")

GLUE = "\0"
"""A space at which no line is broken. `visible` leaves no such character in what is shown."""


def columns(text: str) -> int:
    """How many columns a terminal gives the text, which is visible: two for wide letters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if character == "\ufe0f":  # which makes the letter before it an emoji of two columns
        return 1
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, most: int) -> str:
    """The text in at most so many columns: what is too much of its middle becomes an ellipsis."""
    if columns(text) <= most:
        return text
    head = _cut(text, (most - 1) // 3)
    tail = _cut(text[::-1], most - 1 - columns(head))[::-1]
    return f"{head}…{tail}"


def _cut(characters: str, most: int) -> str:
    """The first characters that together have at most so many columns."""
    taken = 0
    for at, character in enumerate(characters):
        taken += _columns(character)
        if taken > most:
            return characters[:at]
    return characters


def wrapped(text: str, most: int) -> list[str]:
    """Lines of at most so many columns; a word that is longer is shortened."""
    lines: list[str] = []
    for word in (shortened(word, most) for word in text.split(" ") if word):
        if lines and columns(lines[-1]) + 1 + columns(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line.replace(GLUE, " ") for line in lines]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, is_whole: bool = False, width: int = WIDTH) -> str:
    """Aligned columns with a rule below the header; columns of numbers are aligned to the right.

    It fits `width`: names are shortened, and where that is not enough, further columns stand below, beside the first
    one once more. One that `is_whole` is as wide as what it says, for sentences, and names to be copied.
    """
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(columns(row[i]) for row in cells) for i in range(len(header))]
    right = [
        widths[i] <= _NUMBER and all(row[i][:1] in NUMBER or row[i] in ("", "–") for row in cells[1:])
        for i in range(len(header))
    ]
    least = [width if is_number else min(width, _LEAST_NAME) for width, is_number in zip(widths, right, strict=True)]
    if is_whole:
        return _aligned(cells, widths, right)
    return "\n\n".join(
        _fitting([[row[i] for i in part] for row in cells], [widths[i] for i in part], [right[i] for i in part], width)
        for part in _parts(least, width)
    )


def sheet(shown: Sheet, *, top: int | None = None, width: int = WIDTH, is_whole: bool = False) -> str:
    """Return the first rows of a table under its title, and its note; nothing where it has no rows.

    One that `is_whole` is as in `table`.

    Columns of numbers without a value in any of these rows are left out.
    """
    if not shown.rows.height:
        return ""
    rest = top is not None and shown.rows.height > top
    title = f"{shown.title} (top {top} of {shown.rows.height:,})" if rest else shown.title
    texts = {name: shown.texts(name)[:top] for name in shown.columns}
    kept = [name for name, column in shown.columns.items() if column.format is None or any(texts[name])]
    unknown = {name: "–" if shown.columns[name].format else "unknown" for name in kept}
    rows = zip(*([unknown[name] if cell is None else cell for cell in texts[name]] for name in kept), strict=True)
    drawn = table([_heading(shown.columns[name].title) for name in kept], rows, width=width, is_whole=is_whole)
    return "\n".join([title, drawn, *wrapped(shown.note, width)])


def _heading(title: str) -> str:
    """Begin with a small letter, unless the word is a name or an abbreviation."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


_LEAST_NAME = 12
"""Columns that a name keeps, at least."""

_NUMBER = 24
"""Columns of the widest number; what is wider is a name that begins like one."""


def _parts(least: Sequence[int], width: int) -> list[list[int]]:
    """The columns that stand beside each other, each time with the first one."""
    parts, taken = [[0]], least[0]
    for i in range(1, len(least)):
        if taken + 2 + least[i] > width and len(parts[-1]) > 1:
            parts.append([0])
            taken = least[0]
        parts[-1].append(i)
        taken += 2 + least[i]
    return parts


def _fitting(cells: Sequence[Sequence[str]], widths: list[int], right: Sequence[bool], width: int) -> str:
    while sum(widths) + 2 * (len(widths) - 1) > width and (names := _names(widths, right)):
        widths[max(names, key=lambda i: widths[i])] -= 1
    return _aligned(cells, widths, right)


def _aligned(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> str:
    lines = [
        "  ".join(_placed(cell, w, r) for cell, w, r in zip(row, widths, right, strict=True)).rstrip() for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _names(widths: Sequence[int], right: Sequence[bool]) -> list[int]:
    """The columns that can be narrower."""
    return [i for i, is_number in enumerate(right) if not is_number and widths[i] > _LEAST_NAME]


def _placed(cell: str, width: int, is_number: bool) -> str:
    shown = shortened(cell, width)
    room = " " * (width - columns(shown))
    return f"{room}{shown}" if is_number else f"{shown}{room}"
