"""Restore the spaces of a text that was copied from a web page, a table or a mail.

On the way, spaces become tabs or non-breaking spaces, and each line gets a mark of quotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from androstep_analysis.ingest.source import HEAD_BYTES, Source, unpacked

_SPACES: Final = re.compile(rb"\t|\xc2\xa0")
_MARKS: Final = re.compile(rb"(?m)^[ >]+")


def restored(source: Source) -> Source | None:
    """Return the text with spaces for tabs and non-breaking spaces, without marks of quotation and indentation.

    Returns None if that is the text itself.
    """
    if b"\0" in source.head or _restored(source.head) == source.head:
        return None
    return unpacked(source, "text", lambda: _Stream(source))


def _restored(lines: bytes) -> bytes:
    return _MARKS.sub(b"", _SPACES.sub(b" ", lines))


class _Stream:
    """The text as a `compression.Stream`."""

    def __init__(self, source: Source) -> None:
        self._pieces = _whole_lines(source)
        self._ready = b""

    def read(self, size: int) -> bytes:
        while not self._ready and (lines := next(self._pieces, b"")):
            self._ready = _restored(lines)
        ready, self._ready = self._ready[:size], self._ready[size:]
        return ready


def _whole_lines(source: Source) -> Iterator[bytes]:
    """Yield pieces that end with a line, apart from lines that are longer than `HEAD_BYTES`."""
    rest = b""
    for piece in source.pieces():
        lines, newline, rest = (rest + piece).rpartition(b"\n")
        if len(rest) > HEAD_BYTES:
            lines, newline, rest = lines + newline + rest, b"", b""
        if lines or newline:
            yield lines + newline
    if rest:
        yield rest
