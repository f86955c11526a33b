"""Read the tables of MOST: tab-separated blkparse output with block types and paths (``.po`` files).

MOST (Jeong et al., USENIX ATC 2013) reads ``blkparse -f "%5T.%9t\\t%a\\t%d\\t%8S\\t%4n\\t%4p\\t%20C\\n"``. It writes
each line with ``\\tD``, ``\\tJ`` or ``\\tM`` appended, and for data the path. Both files are read here: the input as
format ``most_blkparse``, the output as ``most_po``. Neither names the device.

MOST's M is any block that it found in no file, including free blocks and blocks of deleted files.

The compiled reader of the lines is native/decode/text/most.c.
"""

from __future__ import annotations

import re
import weakref

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.block import blkparse
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging

_LINE_IN_HEAD = re.compile(rb"(?m)^ *\d+\.\d{9}\t[A-Za-z]{1,2}\t[A-Z]*\t *\d+\t *\d+\t *\d+\t")


def sniff(head: bytes) -> bool:
    """Return whether `head` contains a line of at least seven tab-separated fields in the format of MOST's README."""
    return _LINE_IN_HEAD.search(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the events. `events` counts lines by action letter.

    MOST's kernel adds 100,000 times the class of the file name to a pid. It is subtracted only if every large number in
    the file can be such a sum, because later kernels have pids above 100,000 themselves. Therefore all lines are read
    twice.
    """
    first, first_handle = _reader(spool, (), has_classes=False)
    first.read(source.pieces())
    reader, handle = _reader(spool, ("block_events",), has_classes=not _library().most_po_later(first_handle))
    truncated = reader.read(source.pieces())
    totals = reader.totals
    first_ns, last_ns = totals.span
    return Staging(
        format="most_po" if _library().most_po_analysed(handle) else "most_blkparse",
        events=reader.events,
        first_ns=first_ns,
        last_ns=last_ns,
        lost_events=totals.lost,
        jumps=totals.setback_times,
        losses=(
            *truncated,
            *clock.set_back(totals),
            *blkparse.wrapped(totals.before_start),
            *blkparse.skipped(totals.lost),
            *totals.refused[lines.LINES].losses("blkparse events"),
        ),
        flags=FLAGS,
    )


def _reader(spool: Spool, tables: tuple[str, ...], has_classes: bool) -> tuple[lines.Reader, int]:
    """Return a reader of these tables, and its C structure."""
    names = native.Strings()
    handle: int = _library().most_po_new(names.handle, has_classes)
    reader = lines.Reader(handle, spool, tables, names)
    weakref.finalize(reader, _library().most_po_free, handle)
    steps = schema.table("block_events").column("action").values
    for letters, action in blkparse.ACTIONS.items():
        _library().most_po_action(handle, letters.encode(), len(letters), steps.index(action))
    return reader, handle


_library = native.library
