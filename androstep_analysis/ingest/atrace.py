"""atrace's own output: ``TRACE:`` and the ftrace text, plain or, with ``-z``, as a zlib stream."""

from __future__ import annotations

import re
from dataclasses import replace

from androstep_analysis.errors import Loss
from androstep_analysis.ingest import ftrace_text
from androstep_analysis.ingest.source import Deflate, Source, drain
from androstep_analysis.ingest.staging import Staging

# "capturing trace... done" may precede it (frameworks/native/cmds/atrace/atrace.cpp).
_START = re.compile(rb"\A(?:[^\n]{0,200}\n){0,8}?(?:[^\n]{0,200} )?TRACE:\r?\n")


def sniff(head: bytes) -> bool:
    """Whether a line ``TRACE:`` stands in the first few lines."""
    return _START.match(head) is not None


def read(source: Source) -> Staging:
    """The trace after the line ``TRACE:``."""
    start = _START.match(source.data)
    body = source.data[start.end() if start else 0 :]
    losses: tuple[Loss, ...] = ()
    if _is_zlib(body):
        body, losses = drain(source.name, "zlib", lambda: Deflate(body, 15))
    staging = ftrace_text.parse(body, "atrace")
    return replace(staging, losses=losses + staging.losses)


def _is_zlib(data: bytes) -> bool:
    """Whether `data` starts with a zlib header (RFC 1950, 2.2): deflate, and a multiple of 31 as a big-endian word."""
    return len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
