"""Read traces of Open-CAS' iotrace (standalone-linux-io-tracer), in the layout of its framework OCTF.

A trace is a directory: ``octf.trace.N`` for each queue N, which is a CPU, and ``octf.summary`` with the counters of the
recorder in JSON. Given any of the files, the whole trace is read, also inside a tar archive.

native/decode/opencas/octf.c decodes the messages (open-cas-telemetry-framework, source/octf/proto/trace.proto). An io
becomes a `queue` event, its completion a `complete` event. iotrace writes the file of an io after the io. Names are
therefore collected from the whole trace first, and the path is the last one of the file.

Times are CLOCK_MONOTONIC (the module's ``ktime_get_ns``).
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging
from androstep_analysis.native import Table
from androstep_analysis.native import library as _native

PIECE_BYTES = 8 << 20
MESSAGE_BYTES = 1 << 20
"""A limit above the size of any message. If a message claims to be longer, the rest of the file is lost."""

ROWS = 1 << 17

SUMMARY = "octf.summary"
_QUEUE = re.compile(r"^octf\.trace\.(\d{1,5})$")
_KINDS = {
    2: "io",
    3: "deviceDescription",
    4: "filesystemMeta",
    5: "ioCompletion",
    6: "filesystemFileName",
    7: "filesystemFileEvent",
}
"""Fields of message Event, with the names in trace.proto."""


class _Octf(ctypes.Structure):
    """The beginning of ``struct octf`` of native/decode/opencas/octf.c."""

    _fields_ = (
        ("kinds", ctypes.c_uint64 * 8),
        ("damaged", ctypes.c_uint64),
        ("first_ns", ctypes.c_int64),
        ("last_ns", ctypes.c_int64),
        ("is_full", ctypes.c_uint8),
    )


def sniff(head: bytes) -> bool:
    """Return whether `head` is the summary of a trace, or begins a queue with the description of a device."""
    return _is_summary(head) or _FIRST_EVENT.match(head) is not None


_FIRST_EVENT = re.compile(
    rb"(?s)^[\x10-\x7f]\x0a[\x02-\x16]\x08.{1,20}?\x1a[\x08-\x7f]\x08[\x80-\xff]{1,9}[\x00-\x7f]\x12"
)
"""A length, the field header with a sequence number, and the field deviceDescription with number and name of the
device.
"""


def _is_summary(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"tracePath"' in head and b'"queueCount"' in head


@dataclass(frozen=True)
class _Summary:
    """The counters in the summary of a trace."""

    events: int | None
    dropped: int
    version: int


def read(source: Source, spool: Spool) -> Staging:
    """Read all queues of a trace. `source` is one of them, or the summary."""
    names = {name for name in (*source.siblings, source.path.name) if _QUEUE.match(name)}
    queues = [(int(name.rsplit(".", 1)[1]), _member(source, name)) for name in sorted(names, key=_number)]
    queues = queues or [(0, source)]
    summary = _summary(source)
    octf = _native().octf_new(summary is None or summary.version > 0)
    if not octf:
        raise MemoryError
    try:
        for _, queue in queues:
            _pieces(queue, lambda data: int(_native().octf_names(octf, data, len(data))))
        table = Table("block_events", ROWS)
        leftover = sum(_decode(octf, queue, cpu, table, spool) for cpu, queue in queues)
        spool.append("block_events", table.arrow())
        return _staging(_Octf.from_address(octf), summary, leftover)
    finally:
        _native().octf_free(octf)


def _number(name: str) -> int:
    return int(name.rsplit(".", 1)[1])


def _member(source: Source, name: str) -> Source:
    return source if name == source.path.name else source.load_sibling(name)


def _summary(source: Source) -> _Summary | None:
    """Return the contents of `SUMMARY`; None if it is missing or cannot be read."""
    if source.path.name != SUMMARY and SUMMARY not in source.siblings:
        return None
    try:
        parsed: Any = json.loads(_member(source, SUMMARY).data)
        events = parsed.get("tracedEvents")
        return _Summary(
            None if events is None else int(events), int(parsed.get("droppedEvents", 0)), int(parsed.get("version", 0))
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def _decode(octf: int, queue: Source, cpu: int, table: Table, spool: Spool) -> int:
    """Append the events of one queue to `table`, which goes to `spool` when it is full.

    Return the bytes that are no event.
    """

    def step(data: bytes) -> int:
        done = 0
        while True:
            rest = data[done:] if done else data
            done += int(_native().octf_decode(octf, rest, len(rest), cpu, table.pointer))
            if not _Octf.from_address(octf).is_full:
                return done
            spool.append("block_events", table.arrow())
            table.clear()

    return _pieces(queue, step)


def _pieces(queue: Source, step: Callable[[bytes], int]) -> int:
    """Call `step` with piece after piece of a queue, and return the number of bytes left over at the end.

    `step` returns how many bytes it has consumed.
    """
    position = 0
    while position < queue.size:
        piece = queue.read(position, PIECE_BYTES)
        done = step(piece)
        position += done
        if not piece or (len(piece) - done > MESSAGE_BYTES or position + len(piece) - done >= queue.size):
            break
    return queue.size - position


def _staging(octf: _Octf, summary: _Summary | None, leftover: int) -> Staging:
    events = {name: int(octf.kinds[number]) for number, name in _KINDS.items() if octf.kinds[number]}
    losses = []
    if leftover:
        losses.append(Loss("torn", leftover, f"queues end with {leftover} bytes of incomplete events"))
    if octf.damaged:
        losses.append(Loss("unreadable", int(octf.damaged), f"{octf.damaged} messages cannot be decoded"))
    dropped = summary.dropped if summary is not None else 0
    if dropped:
        losses.append(Loss("dropped", dropped, f"the recorder dropped {dropped} events"))
    missing = summary.events - sum(events.values()) if summary is not None and summary.events is not None else 0
    if missing > 0:
        losses.append(
            Loss("missing", missing, f"{missing} of {summary.events if summary else 0} events are not in the queues")
        )
    has_events = bool(events)
    return Staging(
        format="opencas",
        events=events,
        first_ns=int(octf.first_ns) if has_events else None,
        last_ns=int(octf.last_ns) if has_events else None,
        clock="mono",
        lost_events=dropped,
        losses=tuple(losses),
        flags=FLAGS - {"sync"},  # Open-CAS has no letter for REQ_SYNC
    )
