"""Text layout for a terminal: width, shortening, wrapping and tables.

Control characters are escaped first, so a file name cannot control the terminal.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Sequence

from androstep_analysis.common.markup import visible
from androstep_analysis.present.sheets import Sheet

_LEAST, _DEFAULT, _MOST = 80, 100, 140
"""Width of the output in columns: minimum, without a terminal, maximum."""

NUMBER = frozenset("-0123456789<>")

GLUE = "\0"
"""A non-breaking space. `visible` escapes this character, so no displayed text contains it."""


def terminal_width() -> int:
    """Return the width of the output in columns."""
    return min(max(shutil.get_terminal_size((_DEFAULT, 0)).columns, _LEAST), _MOST)


def columns(text: str) -> int:
    """Return the width of a text in columns: 2 for wide characters, 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if character == "\ufe0f":  # makes the character before it an emoji, two columns wide
        return 1
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, most: int) -> str:
    """Shorten a text to at most `most` columns by replacing its middle by an ellipsis."""
    if columns(text) <= most:
        return text
    head = _cut(text, (most - 1) // 3)
    tail = _cut(text[::-1], most - 1 - columns(head))[::-1]
    return f"{head}…{tail}"


def _cut(characters: str, most: int) -> str:
    """Return the longest prefix of at most `most` columns."""
    used = 0
    for at, character in enumerate(characters):
        used += _columns(character)
        if used > most:
            return characters[:at]
    return characters


def wrapped(text: str, indent: int = 0) -> list[str]:
    """Wrap a text into lines that fit the terminal after `indent` columns. Longer words are shortened."""
    lines: list[str] = []
    most = terminal_width() - indent
    for word in (shortened(word, most) for word in text.split(" ") if word):
        if lines and columns(lines[-1]) + 1 + columns(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line.replace(GLUE, " ") for line in lines]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, is_whole: bool = False) -> str:
    """Return aligned columns with a rule below the header. Columns of numbers are right-aligned.

    The table fits the terminal: names are shortened, and if that is not enough, further columns follow below, with the
    names at the begin of the rows repeated. With `is_whole`, nothing is shortened: use it for sentences and for names
    to copy.
    """
    cells = [[visible(cell) for cell in row] for row in (header, *rows)]
    width = terminal_width()
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
        for part in _parts(least, right, width)
    )


def sheet(shown: Sheet, *, top: int | None = None, is_whole: bool = False) -> str:
    """Return the first rows of a table with its title and note; an empty string if it has no rows.

    Columns of numbers without a value in these rows are omitted, and minor columns in a terminal of less than 100
    columns. `is_whole` is that of `table`.
    """
    if not shown.rows.height:
        return ""
    rest = top is not None and shown.rows.height > top
    title = f"{shown.title} (top {top} of {shown.rows.height:,})" if rest else shown.title
    is_narrow = terminal_width() < _DEFAULT
    columns_here = [name for name, column in shown.columns.items() if not (is_narrow and column.is_minor)]
    texts = {name: shown.texts(name)[:top] for name in columns_here}
    kept = [name for name in columns_here if shown.columns[name].format is None or any(texts[name])]
    unknown = {name: "–" if shown.columns[name].format else "unknown" for name in kept}
    rows = zip(*([unknown[name] if cell is None else cell for cell in texts[name]] for name in kept), strict=True)
    drawn = table([_heading(shown.columns[name].title) for name in kept], rows, is_whole=is_whole)
    return "\n".join([title, drawn, *wrapped(shown.note)])


def _heading(title: str) -> str:
    """Begin with a lower-case letter, unless the word is a name or an abbreviation."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


_LEAST_NAME = 12
"""Minimum width of a column of names."""

_NUMBER = 24
"""Maximum width of a number. A wider cell that begins like a number is a name."""


def _parts(least: Sequence[int], right: Sequence[bool], width: int) -> list[list[int]]:
    """Split the columns into groups that fit the width. Each begins with the names that identify a row.

    These are the columns before the first number, if they leave half of the width to others; else the first column.
    """
    keys = list(range(max(1, right.index(True) if True in right else 1)))
    if sum(least[i] + 2 for i in keys) > width // 2:
        keys = keys[:1]
    parts = [keys]
    for i in range(len(keys), len(least)):
        if sum(least[j] + 2 for j in parts[-1]) + least[i] > width and len(parts[-1]) > len(keys):
            parts.append(keys)
        parts[-1] = [*parts[-1], i]
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
    """Return the columns that can be made narrower."""
    return [i for i, is_number in enumerate(right) if not is_number and widths[i] > _LEAST_NAME]


def _placed(cell: str, width: int, is_number: bool) -> str:
    shown = shortened(cell, width)
    padding = " " * (width - columns(shown))
    return f"{padding}{shown}" if is_number else f"{shown}{padding}"
