"""Run the compiled readers of text formats, and report what they count."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.syscalls import pairs
from androstep_analysis.ingest.syscalls.pairs import Pairs

_ROWS = 1 << 16
"""The capacity of a table in rows. A full table is passed to the spool."""

_LAST_ROWS = 1 << 10
"""The capacity of a table that is made after the last line. Few rows follow, or none."""

_CALL_ROWS = 1 << 14
"""The capacity of the table of system call events."""

_QUOTED = 64
MAX_SETBACKS = 8
"""How often a clock may be set back. If it goes back more often, there are several clocks
(native/decode/text/lines.h).
"""

NO_TIME = -(1 << 63)
"""An unknown time (native/core/table.h: NO_INT64)."""


class Refused(ctypes.Structure):
    """``struct refused`` of native/decode/text/lines.h: the lines that cannot be read."""

    count: int
    length: int
    first: ctypes.Array[ctypes.c_uint8]
    _fields_ = (("count", ctypes.c_uint64), ("length", ctypes.c_uint32), ("first", ctypes.c_uint8 * _QUOTED))

    def losses(self, what: str) -> tuple[Loss, ...]:
        """Return these lines as a `Loss`; nothing if there are none."""
        if not self.count:
            return ()
        count = "1 line" if self.count == 1 else f"{self.count} lines"
        message = f"{count} cannot be read as {what}; the first: {_quoted(bytes(self.first)[: self.length])}"
        return (Loss("unreadable", self.count, message),)


class Totals(ctypes.Structure):
    """``struct totals`` of native/decode/text/lines.h: the counters of a reader."""

    first_ns: int
    last_ns: int
    events: int
    lost: int
    gaps: int
    buffered: int
    written: int
    before_start: int
    rounded: int
    realtime_offset_ns: int
    setbacks: int
    setback_ns: ctypes.Array[ctypes.Array[ctypes.c_int64]]
    refused: ctypes.Array[Refused]
    _fields_ = (
        ("first_ns", ctypes.c_int64),
        ("last_ns", ctypes.c_int64),
        ("events", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("gaps", ctypes.c_uint64),
        ("buffered", ctypes.c_uint64),
        ("written", ctypes.c_uint64),
        ("before_start", ctypes.c_uint64),
        ("rounded", ctypes.c_uint64),
        ("realtime_offset_ns", ctypes.c_int64),
        ("setbacks", ctypes.c_uint64),
        ("setback_ns", (ctypes.c_int64 * 2) * MAX_SETBACKS),
        ("refused", Refused * 7),
    )

    @property
    def span(self) -> tuple[int | None, int | None]:
        """The first and the last time; None without events."""
        return (self.first_ns, self.last_ns) if self.events else (None, None)

    @property
    def setback_times(self) -> tuple[tuple[int, int], ...]:
        """Where the clock was set back: the last time before, and the time assigned to the next line."""
        return tuple((before, after) for before, after in self.setback_ns[: min(self.setbacks, MAX_SETBACKS)])


LINES, BLOCK, FS, COMMANDS, CALLS, IMPORTANCE, COUNTERS = range(7)
"""Indices in `Totals.refused`: unknown lines, and events with an unknown layout by the table that they belong to."""


library = native.library


class Reader:
    """A compiled reader.

    Parameters
    ----------
    handle
        Its C structure, which begins with ``struct reader`` of native/decode/text/lines.h.
    spool
        Receives the rows of the tables `tables`.
    names_of_events
        The strings with which the C structure was created.
    threads
        Whether to collect the names of threads (`seen`).
    calls
        Receives the events of system calls.
    """

    def __init__(
        self,
        handle: int,
        spool: Spool,
        tables: tuple[str, ...],
        names_of_events: native.Strings,
        threads: bool = False,
        calls: Pairs | None = None,
    ) -> None:
        if not handle:
            raise MemoryError
        self._handle = handle
        self._spool = spool
        self._names = names_of_events
        self._tables = {name: native.Table(name, _ROWS) for name in tables}
        self._calls = calls
        self._call_events = native.Table(pairs.TABLE, _CALL_ROWS) if calls is not None else None
        self._comms = native.Strings()
        self._threads = native.Table("tasks", _ROWS, self._comms) if threads else None
        self._seen: list[pl.DataFrame] = []
        self._set_tables()

    @property
    def totals(self) -> Totals:
        """The counters so far."""
        return Totals.from_address(library().text_totals(self._handle))

    @property
    def events(self) -> dict[str, int]:
        """The number of events of each name, in alphabetical order."""
        counts = library().text_counts(self._handle)
        names: list[str] = [str(name) for name in self._names.array().to_pylist()]
        return {name: counts[number] for number, name in sorted(enumerate(names), key=lambda x: x[1]) if counts[number]}

    def read(self, pieces: Iterable[bytes], end: Callable[[], object] = lambda: None) -> tuple[Loss, ...]:
        """Read the whole text. `end` is called after the last piece.

        An incomplete last line is dropped and returned as a `Loss`.
        """
        for piece in pieces:
            data, done = np.frombuffer(piece, np.uint8), 0
            while done < len(data):
                done += library().text_read(self._handle, data.ctypes.data + done, len(data) - done)
                self._hand_on(only_full=done == len(data))
        end()
        last_line = ctypes.create_string_buffer(_QUOTED)
        length = library().text_torn(self._handle, last_line)
        self._hand_on(is_end=True)
        if not length:
            return ()
        message = f"the last line has no end and was dropped: {_quoted(last_line.raw[:length])}"
        return (Loss("torn", 1, message),)

    def seen(self) -> pl.DataFrame:
        """Return the rows at which a thread had a new name, in file order. The columns are ts_ns, tid, pid and comm."""
        while not library().text_threads(self._handle):
            self._hand_on(is_end=True)
        self._hand_on(is_end=True)
        return pl.concat(self._seen)

    def _hand_on(self, *, only_full: bool = False, is_end: bool = False) -> None:
        """Pass rows to the spool and begin new tables, which are small if `is_end`.

        With `only_full`, do so only for tables that are more than half full.
        """
        limit = _ROWS // 2 if only_full else 0
        for name, table in self._tables.items():
            if table.rows > limit:
                self._spool.append(name, table.arrow())
                # Tools print a few lines of each CPU in turn, so that later lines are seldom older than all of these.
                if name != "samples":  # to which procmon may append earlier rows
                    self._spool.settle(name, int(table.column("ts_ns").min()))
                self._tables[name] = native.Table(name, _LAST_ROWS if is_end else _ROWS)
        if self._calls is not None and self._call_events is not None and self._call_events.rows:
            self._calls.take(self._call_events)
            self._call_events.clear()
        if self._threads is not None and (self._threads.rows > limit or not (self._seen or only_full)):
            rows = pl.DataFrame(self._threads.arrow())
            self._seen.append(
                rows.select(pl.col("valid_from_ns").alias("ts_ns"), "tid", "pid", pl.col("comm").cast(pl.String))
            )
            self._threads = native.Table("tasks", _ROWS, self._comms)
        self._set_tables()

    def _set_tables(self) -> None:
        tables = [self._tables.get(name) for name in ("block_events", "fs_events", "commands")]
        tables += [self._threads, self._call_events, self._tables.get("importance"), self._tables.get("samples")]
        library().text_tables(self._handle, *(None if table is None else table.pointer for table in tables))


LOST = re.compile(rb"(?im)^.{0,40}?\blost (\d{1,18}) (?:samples|events)\b.*$\n?")
"""The message of tools of bcc and libbpf-tools when a buffer overflowed (bcc: src/python/bcc/table.py, ``lost_cb``)."""

NOTE = re.compile(rb"(?im)^ *(?:tracing .*|(?:ending|detaching|exiting)\b.*|)\r?$\n?")
"""Lines that these tools print in addition to the trace, and empty lines."""

_INTERRUPTED = re.compile(rb"(?m)^\^C")


def without_interrupt(text: bytes) -> bytes:
    """Return `text` without the ^C that a terminal prints when the user ends a tool."""
    return _INTERRUPTED.sub(b"", text)


def whole(source: Source) -> Iterator[bytes]:
    """Yield the whole lines of a text, several at once. An incomplete last line is left out (`truncated`)."""
    incomplete = bytearray()
    for piece in source.pieces():
        lines, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield bytes(incomplete + lines)
            incomplete.clear()
        incomplete += rest


def truncated(source: Source) -> tuple[Loss, ...]:
    """Return the `Loss` for an incomplete last line."""
    if source.read(source.size - 1, 1) == b"\n":
        return ()
    return (Loss("torn", 1, "the last line has no end and was dropped"),)


def dropped(count: int) -> tuple[Loss, ...]:
    """Return the events that a tool reported as lost (`LOST`) as a `Loss`."""
    return (Loss("dropped", count, f"the recording tool lost {count} events"),) if count else ()


def _quoted(text: bytes) -> str:
    """Return the start of a line, quoted for messages."""
    shown = printable(text[:60].decode(errors="backslashreplace"))
    return f"“{shown}{'…' if len(text) > 60 else ''}”"
