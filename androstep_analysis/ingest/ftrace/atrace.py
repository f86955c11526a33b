"""Read atrace's own output: ``TRACE:`` followed by the ftrace text, plain or, with ``-z``, as a zlib stream."""

from __future__ import annotations

import re
from dataclasses import replace

from androstep_analysis.ingest.compression import Deflate
from androstep_analysis.ingest.ftrace import text
from androstep_analysis.ingest.source import Source, unpacked
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

# "capturing trace... done" may precede it (frameworks/native/cmds/atrace/atrace.cpp).
_START = re.compile(rb"\A(?:[^\n]{0,200}\n){0,8}?(?:[^\n]{0,200} )?TRACE:\r?\n")


def sniff(head: bytes) -> bool:
    """Return whether one of the first few lines is ``TRACE:``."""
    return _START.match(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the trace after the line ``TRACE:``."""
    start = _START.match(source.head)
    begin = start.end() if start else 0
    body = source.part(begin)
    if _is_zlib(body.read(0, 2)):
        body = unpacked(body, "zlib", lambda: Deflate(source, 15, begin))
    staging = text.parse(body.pieces(), spool, "atrace")
    return replace(staging, losses=body.losses[len(source.losses) :] + staging.losses)


def _is_zlib(data: bytes) -> bool:
    """Return whether `data` begins with a zlib header (RFC 1950, 2.2): deflate, and big-endian divisible by 31."""
    return len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
