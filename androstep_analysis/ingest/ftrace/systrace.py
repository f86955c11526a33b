"""Read systrace's HTML reports: a viewer of several megabytes with the ftrace text in a script element."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.ftrace import text
from androstep_analysis.ingest.source import PIECE_BYTES, Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_PAGE = re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE)
_PARTS = (
    # Since 2014, one element per part: the trace, the process list, JSON of systrace itself.
    (re.compile(rb'<script class="trace-data"[^>\n]{0,1000}>\n?'), re.compile(rb"</script>")),
    # Before that, one JavaScript string; each line of the trace ends in an escaped newline and a backslash.
    (re.compile(rb'var linuxPerfData = "\\\n'), re.compile(rb'\n\\n";')),
)
_LONGEST = 1 << 12
"""An upper bound for the length of a match of these patterns."""


def sniff(head: bytes) -> bool:
    """Return whether `head` begins an HTML page. The trace is far behind the head."""
    return _PAGE.match(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the trace in the page."""
    traces = [part for part in _parts(source) if text.sniff(part.source.head)]
    if not traces:
        message = "an HTML page without a systrace recording in it; was it saved completely?"
        return Staging("systrace_html", {}, None, None, losses=(Loss("missing", 1, message),))
    return text.parse(itertools.chain.from_iterable(part.pieces() for part in traces), spool, "systrace_html")


@dataclass(frozen=True)
class _Part:
    """Data in the page. `is_whole` is False if the page is truncated within it."""

    source: Source
    is_whole: bool

    def pieces(self) -> Iterator[bytes]:
        yield from self.source.pieces()
        if self.is_whole:
            yield b"\n"  # the end tag may directly follow the last line


def _parts(page: Source) -> Iterator[_Part]:
    for start, end in _PARTS:
        position = 0
        while (begin := _search(page, start, position)) is not None:
            stop = _search(page, end, begin[1])
            yield _Part(page.part(begin[1], None if stop is None else stop[0]), stop is not None)
            if stop is None:
                break
            position = stop[1]


def _search(page: Source, pattern: re.Pattern[bytes], position: int) -> tuple[int, int] | None:
    """Return begin and end of the first match of `pattern` from `position` on."""
    while True:
        data = page.read(position, PIECE_BYTES)
        is_last = len(data) < PIECE_BYTES
        match = pattern.search(data)
        # A match in the last bytes of a piece might extend into the next piece.
        if match is not None and (is_last or match.start() < len(data) - _LONGEST):
            return position + match.start(), position + match.end()
        if is_last:
            return None
        position += len(data) - _LONGEST
