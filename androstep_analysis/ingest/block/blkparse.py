"""Read the text that blkparse prints by default.

A line is (blktrace: blkparse_fmt.c, ``process_default``)::

    major,minor cpu sequence seconds.nanoseconds tid action rwbs tail

The tail depends on the action: ``sector + n [comm]`` for most, ``[error]`` for completions, ``<- (dev) sector`` for
remaps, ``sector / new sector`` for splits, ``bytes (command)`` for passthrough requests. A summary follows at the end.

The compiled reader of the lines is native/decode/text/blkparse.c.
"""

from __future__ import annotations

import re
import weakref

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import clock, lines
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging

ACTIONS = {
    "Q": "queue",
    "G": "getrq",
    "I": "insert",
    "D": "issue",
    "C": "complete",
    "M": "backmerge",
    "F": "frontmerge",
    "A": "remap",
    "X": "split",
    "R": "requeue",
    "P": "plug",
    "U": "unplug",
    "UT": "unplug",
    "B": "bounce",
    "S": "sleep",
}
"""The action of a block event for each action letter of blkparse. Messages (``m``) are not block events."""

DEFAULT_OUTPUT = "open the files of blktrace, or the output of blkparse -i DEVICE without -f"
"""What to open instead of output of blkparse in a form of the user."""

_EVENT_IN_HEAD = re.compile(rb"(?m)^ *\d+,\d+ +\d+ +\d+ +\d+\.\d{9} +\d+ +(?:[A-Z]{1,2}|m) +[A-Z]+")


def sniff(head: bytes) -> bool:
    """Return whether `head` contains an event line."""
    return _EVENT_IN_HEAD.search(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the events of one or several devices. blkparse prints the CPUs one after the other.

    `events` counts lines by action letter. `lost_events` is the number of events that the summary reports as skipped.

    Events of other CPUs may be from before the start of the trace. blkparse counts their times modulo 2^64 ns and then
    truncates the seconds to 32 bits (blkparse_fmt.c: ``(int) SECONDS(t->time)``). The last nanosecond before the start
    is therefore printed as 1266874889.709551615. Times up to a day before that value are converted to negative times.

    blkparse 1.2 prints errors without their sign (65531 is -5).
    """
    reader, handle = _reader(spool)
    truncated = reader.read(source.pieces(), lambda: _library().blkparse_text_end(handle))
    totals = reader.totals
    first_ns, last_ns = totals.span
    return Staging(
        format="blkparse_text",
        events=reader.events,
        first_ns=first_ns,
        last_ns=last_ns,
        lost_events=totals.lost,
        jumps=totals.setback_times,
        losses=(
            *truncated,
            *clock.set_back(totals),
            *wrapped(totals.before_start),
            *skipped(totals.lost),
            *totals.refused[lines.LINES].losses("blkparse events"),
            *totals.refused[lines.BLOCK].losses(_form(spool)),
        ),
        flags=FLAGS,
    )


def _reader(spool: Spool) -> tuple[lines.Reader, int]:
    """Return a reader with the actions registered, and its C structure."""
    names = native.Strings()
    handle: int = _library().blkparse_text_new(names.handle)
    reader = lines.Reader(handle, spool, ("block_events",), names)
    weakref.finalize(reader, _library().blkparse_text_free, handle)
    steps = schema.table("block_events").column("action").values
    for letters, action in ACTIONS.items():
        _library().blkparse_text_action(handle, letters.encode(), len(letters), steps.index(action))
    return reader, handle


def _form(spool: Spool) -> str:
    """Return what the lines of events cannot be read as, and advice if none can."""
    advice = "" if spool.rows("block_events") else f" (if option -f made them, {DEFAULT_OUTPUT})"
    return f"events of a known form{advice}"


def wrapped(count: int) -> tuple[Loss, ...]:
    """Return the `Loss` for `count` repaired times. blkparse itself never prints negative ones."""
    if not count:
        return ()
    message = f"{count} events from before the start of the trace had wrapped times, now negative"
    return (Loss("wrapped", count, message, ()),)


def skipped(count: int) -> tuple[Loss, ...]:
    """Return the `Loss` for `count` events that are missing by their sequence numbers."""
    return (Loss("dropped", count, f"the recorder dropped {count} events (blkparse: skips)"),) if count else ()


_library = native.library
