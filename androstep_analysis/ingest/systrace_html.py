"""systrace's HTML reports: a viewer of several megabytes with the ftrace text in a script element."""

from __future__ import annotations

import re
from collections.abc import Iterator

from androstep_analysis.errors import InputError
from androstep_analysis.ingest import ftrace_text
from androstep_analysis.ingest.source import HEAD_BYTES, Source
from androstep_analysis.ingest.staging import Staging

_PAGE = re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE)
_PARTS = (
    # Since 2014 one element per part: the trace, the process list, JSON of systrace itself.
    (re.compile(rb'<script class="trace-data"[^>\n]*>\n?'), b"</script>"),
    # Before that, one JavaScript string; each line of the trace ends in an escaped newline and a backslash.
    (re.compile(rb'var linuxPerfData = "\\\n'), b'\n\\n";'),
)


def sniff(head: bytes) -> bool:
    """Whether `head` is the start of an HTML page; the trace stands far behind the head."""
    return _PAGE.match(head) is not None


def read(source: Source) -> Staging:
    """The trace in the page; `InputError` if the page has none."""
    traces = [part for part in _parts(source.data) if ftrace_text.sniff(part[:HEAD_BYTES])]
    if not traces:
        raise InputError(f"{source.name}: an HTML page without a systrace recording in it; was it saved completely?")
    return ftrace_text.parse(b"".join(traces), "systrace_html")


def _parts(page: bytes) -> Iterator[bytes]:
    """What stands in the page as data; the last part of a page that was cut short goes to its end."""
    for start, end in _PARTS:
        for match in start.finditer(page):
            stop = page.find(end, match.end())
            if stop < 0:
                yield page[match.end() :]
            else:
                # A page that is whole ends each line; the end tag may be indented.
                yield page[match.end() : stop].rstrip(b" \t\n") + b"\n"
