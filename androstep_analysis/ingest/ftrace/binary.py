"""Recordings of ftrace in binary form: pages of the kernel's ring buffer and what was saved of tracefs beside them.

The pages of all CPUs are read piece by piece and their records taken in order of time, twice: first all are counted and
what tells names of threads is collected, then the rows of tables are made, which need the names. Both are done by the
compiled decoder (native/decode/ftrace/ftrace.c); memory does not depend on how long the recording is.
"""

from __future__ import annotations

import ctypes
import functools
import re
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import losses
from androstep_analysis.common.errors import EVER, Loss, Span
from androstep_analysis.ingest import clock, threads
from androstep_analysis.ingest.ftrace import block, commands, event_format, fs_events, importance
from androstep_analysis.ingest.ftrace import calls as ftrace_calls
from androstep_analysis.ingest.ftrace import programs as ftrace_programs
from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.pages import CLayout, CTotals, Layout
from androstep_analysis.ingest.ftrace.programs import CCode, CField, Code, CProgram, Rows, c_field
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.ingest.syscalls.pairs import Machine, Pairs

UNKNOWN_CPU = -1
"""In place of a CPU's number, where nothing tells it."""

_NO_NANOSECONDS = ("counter", "uptime", "x86-tsc", "ppc-tb")
"""Trace clocks that count events, jiffies or cycles (Linux, Documentation/trace/ftrace.rst)."""

TABLE_ROWS = 1 << 16
"""Rows that are made at a time."""

_PIECES_BYTES = 32 << 20
_LARGEST_PIECE, _SMALLEST_PIECE = 1 << 20, 1 << 16
"""How much of all CPUs is in memory at a time, and the bounds of what that makes for one of them."""

_LARGEST_STRINGS = 1 << 20
"""Bytes of the strings of a table from which on they are begun anew."""

_TASK_EVENT_ROWS = 1 << 14

_MOST_SPANS = 1000
"""Spans within which records are missing; of more than these the last ones count as one."""

_TABLES = (block, fs_events, commands, importance)
"""What turns events into rows of a table that a capture holds; an event is in one of these at most."""


@dataclass(frozen=True)
class Stream:
    """The pages of one CPU of one instance: `pieces` gives them, about as many bytes at a time as it is asked for."""

    cpu: int
    layout: Layout
    pieces: Callable[[int], Iterator[bytes]]


@dataclass
class Recording(ABC):
    """What a recording says of itself.

    `formats` holds (system, format file) of every event; `tsc` multiplier and shift that make nanoseconds of a
    clock that counts cycles; `offset_ns` what is to be added to every time. `machine` is what ``uname -m`` told, and
    `mounts` has where the filesystem on a device is mounted; `narrow` are the processes of 32-bit programs on a machine
    of 64 bits. `opened` has rows of `syscalls` for what was open before (`opened_before`). `losses` counts by kind and
    says of the first of each kind what it is; it may grow while pages are read.
    """

    name: str
    big_endian: bool
    long_bytes: int
    header_page: str = ""
    formats: list[tuple[str, str]] = field(default_factory=list)
    cmdlines: str = ""
    tgids: str = ""
    kernel: str | None = None
    machine: str | None = None
    mounts: Mapping[int, str] = field(default_factory=dict)
    narrow: frozenset[int] = frozenset()
    opened: pl.DataFrame | None = None
    clock: str = "unknown"
    realtime_offset_ns: int | None = None
    offset_ns: int = 0
    tsc: tuple[int, int] | None = None
    cpu_stats: list[str] = field(default_factory=list)
    losses: dict[str, tuple[int, str]] = field(default_factory=dict)

    def lose(self, kind: str, message: str) -> None:
        """Counts one more loss of a kind; the message of the first is kept."""
        count, first = self.losses.get(kind, (0, message))
        self.losses[kind] = (count + 1, first)

    @property
    @abstractmethod
    def kernel_page_bytes(self) -> int | None:
        """Size of a page of the kernel, where the recording tells it."""

    @abstractmethod
    def streams(self) -> list[Stream]:
        """The pages of all CPUs of all instances, from the start."""


def read(recording: Recording, spool: Spool, title: str) -> Staging:
    """The events of all instances of a recording; `title` is the name of its format.

    `lost_events` is what the kernel counted: in the headers of the pages, or in the statistics saved with them,
    whichever is more, and what it could not record at all.
    """
    events = formats(recording)
    counted = census(recording, events)
    names = threads.versions(counted.task_events, counted.seen, pairs(recording.cmdlines), tgids(recording.tgids))
    wanted = _wanted({number: event for number in counted.kinds if (event := events.get(number))})
    calls: tuple[Loss, ...] = ()
    if wanted:
        before = dict(recording.losses)
        calls = _make_tables(recording, spool, events, wanted, names)
        recording.losses = before  # the same pages were read again
    lost_events, lost = _losses(recording, counted)
    return Staging(
        format=title,
        events=dict(sorted(counted.events.items())),
        first_ns=counted.first_ns,
        last_ns=counted.last_ns,
        tasks=threads.table(names),
        clock=recording.clock,
        realtime_offset_ns=recording.realtime_offset_ns,
        lost_events=lost_events,
        losses=(*lost, *calls),
        facts={
            **({"kernel": recording.kernel} if recording.kernel else {}),
            **({"page_bytes": pages} if (pages := recording.kernel_page_bytes) else {}),
        },
    )


def formats(recording: Recording) -> dict[int, Event]:
    """The events that the recording describes, by their number in the records."""
    parsed = (event_format.parse(form, system, recording.long_bytes) for system, form in recording.formats)
    return {event.id: event for event in parsed if event is not None}


def _wanted(events: Mapping[int, Event]) -> dict[int, Rows]:
    """The rows that are made of each event, by its number; nothing for one that is only counted.

    Events that tell something of calls count only where calls were recorded.
    """
    of_calls = {number: ftrace_calls.steps(event) for number, event in events.items()}
    has_calls = any(ftrace_calls.is_call(event) for event in events.values())
    wanted: dict[int, Rows] = {}
    for number, event in events.items():
        rows = [(table.TABLE, steps) for table in _TABLES if (steps := table.steps(event))][:1]
        if has_calls and of_calls[number]:
            rows.append((ftrace_calls.TABLE, of_calls[number]))
        if rows:
            wanted[number] = rows
    return wanted


def pairs(saved: str) -> dict[int, str]:
    """Thread and name on each line of tracefs' ``saved_cmdlines``; without those it had forgotten."""
    lines = re.finditer(r"^ *(\d{1,9}) (.+)$", saved, re.MULTILINE)
    return {int(line[1]): line[2] for line in lines if line[2] != "<...>"}


def tgids(saved: str) -> dict[int, int]:
    """Thread and process on each line of tracefs' ``saved_tgids``."""
    return {tid: int(pid) for tid, pid in pairs(saved).items() if re.fullmatch(r"\d{1,9}", pid)}


def clock_in_use(text: str) -> str:
    """The clock that tracefs' ``trace_clock`` (``local [mono] boot``) or its bare name tells; ``unknown`` for none."""
    match = re.search(r"\[([\w-]+)\]", text) or re.match(r"\s*([\w-]+)", text)
    return match[1] if match else "unknown"


# --- the compiled decoder ----------------------------------------------------------------------------------------


class _CClock(ctypes.Structure):
    _fields_ = (("multiplier", ctypes.c_uint32), ("shift", ctypes.c_uint32), ("offset_ns", ctypes.c_int64))


class _CTaskEvents(ctypes.Structure):
    _fields_ = (("rows", ctypes.c_void_p), ("count", ctypes.c_uint64), ("room", ctypes.c_uint64))


class _CVersions(ctypes.Structure):
    _fields_ = (
        ("tids", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("from_ns", ctypes.c_void_p),
        ("pids", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
    )


_DONE, _FULL = -1, -2
_KINDS = 1 << 16


@functools.cache
def _library() -> ctypes.CDLL:
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    return native.declared(
        ("ftrace_new", pointer, (size, pointer, pointer, pointer)),
        ("ftrace_free", None, (pointer,)),
        ("ftrace_stream", None, (pointer, size, pointer, ctypes.c_int32)),
        ("ftrace_program", None, (pointer, ctypes.c_uint16, ctypes.c_uint16)),
        ("ftrace_code", None, (pointer, pointer, pointer)),
        ("ftrace_census", None, (pointer, pointer, pointer)),
        ("ftrace_versions", ctypes.c_bool, (pointer, pointer)),
        ("ftrace_feed", None, (pointer, size, ctypes.c_char_p, size)),
        ("ftrace_totals", ctypes.POINTER(CTotals), (pointer,)),
        ("ftrace_counts", ctypes.POINTER(ctypes.c_uint64), (pointer,)),
        ("ftrace_threads", size, (pointer, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32)))),
        ("ftrace_gaps", size, (pointer, ctypes.POINTER(ctypes.POINTER(number)))),
        ("ftrace_span", None, (pointer, ctypes.POINTER(number), ctypes.POINTER(number))),
        ("ftrace_run", number, (pointer,)),
    )


class _Decoder:
    """The compiled decoder on its way through a recording once."""

    def __init__(self, recording: Recording, events: Mapping[int, Event]) -> None:
        self.streams = recording.streams()
        common = next(iter(events.values())).fields if events else {}
        kind = CField(common["common_type"].offset if "common_type" in common else 0, 2, 0, 0, 1, 0)
        tid = CField(common["common_pid"].offset if "common_pid" in common else 4, 4, 0, 0, 1, 0)
        multiplier, shift = recording.tsc or (0, 0)
        clock = _CClock(multiplier, shift, _wrapped(recording.offset_ns))
        self._library = _library()
        self.handle = self._library.ftrace_new(
            len(self.streams), ctypes.byref(kind), ctypes.byref(tid), ctypes.byref(clock)
        )
        if not self.handle:
            raise MemoryError
        weakref.finalize(self, self._library.ftrace_free, self.handle)
        for number, stream in enumerate(self.streams):
            layout = CLayout.of(stream.layout)
            self._library.ftrace_stream(self.handle, number, ctypes.byref(layout), stream.cpu)
        room = min(max(_PIECES_BYTES // max(len(self.streams), 1), _SMALLEST_PIECE), _LARGEST_PIECE)
        self._pieces = [stream.pieces(room) for stream in self.streams]
        self._held: list[bytes] = [b""] * len(self.streams)
        self._last = [0] * len(self.streams)
        self.setbacks = 0

    def run(self, when_full: Callable[[], None]) -> None:
        """Goes through all records; `when_full` makes room whenever there is none."""
        while (number := self._library.ftrace_run(self.handle)) != _DONE:
            if number == _FULL:
                when_full()
                continue
            piece = next(self._pieces[number], b"")
            if rest := len(piece) % self.streams[number].layout.page_bytes:
                # What is missing from the last page reads as zeros, which hold no records.
                piece += bytes(self.streams[number].layout.page_bytes - rest)
            self._held[number] = piece
            if self.streams[number].cpu != UNKNOWN_CPU:
                self._watch_clock(number, piece)
            self._library.ftrace_feed(self.handle, number, piece, len(piece))

    def _watch_clock(self, number: int, piece: bytes) -> None:
        """Counts where the time at a page's head is before that of an earlier page of its CPU: none can be."""
        layout = self.streams[number].layout
        words = np.frombuffer(piece, ">u8" if layout.big_endian else "<u8")
        times = words[:: layout.page_bytes // words.itemsize].astype(np.uint64)
        times = times[times > 0]  # what is missing of a page reads as zeros
        if len(times):
            before = np.append(np.uint64(self._last[number]), times[:-1])
            self.setbacks += int(np.count_nonzero(before > times))
            self._last[number] = int(times[-1])


def _wrapped(number: int) -> int:
    """As a signed number of 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


# --- first: counts and names -------------------------------------------------------------------------------------

_OTHER_EVENT, _TASK_EVENTS = 0, {"task_newtask": 2, "sched_process_fork": 3, "task_rename": 4, "sched_process_exec": 5}

_TASK_EVENT = np.dtype(
    [
        ("ts_ns", np.int64),
        ("order", np.int64),
        ("flags", np.uint64),
        ("tid", np.int32),
        ("subject", np.int32),
        ("name", np.uint32),
        ("new_name", np.uint32),
        ("kind", np.uint32),
        ("pad", np.uint32),
    ]
)

_TASK_FIELDS: dict[str, dict[str, str]] = {
    "task_newtask": {"subject": "pid", "name": "comm", "flags": "clone_flags"},
    "sched_process_fork": {"subject": "child_pid", "name": "child_comm"},
    "task_rename": {"subject": "pid", "name": "oldcomm", "new_name": "newcomm"},
    "sched_process_exec": {"subject": "pid", "name": "filename"},
}
"""For each event that tells of threads, the field that holds the thread, what it is called and its flags."""


@dataclass
class Census:
    """What all pages of a recording hold.

    `events` counts all events by name, `kinds` by number, `per_cpu` by CPU. `task_events` are those about threads,
    and `seen` the names that others tell, as `threads.versions` takes them. `lost` records were overwritten, `broken`
    pages could not be followed to their end, and `unknown` events have no format; `setbacks` is how often a CPU's page
    is of an earlier time than the one before. `gaps` has for each place where
    records are missing the time of the CPU's record before and of that behind it.
    """

    events: Counter[str] = field(default_factory=Counter)
    kinds: Counter[int] = field(default_factory=Counter)
    per_cpu: Counter[int] = field(default_factory=Counter)
    task_events: dict[str, pl.DataFrame] = field(default_factory=dict)
    seen: pl.DataFrame = field(default_factory=pl.DataFrame)
    first_ns: int | None = None
    last_ns: int | None = None
    lost: int = 0
    broken: int = 0
    unknown: int = 0
    setbacks: int = 0
    gaps: tuple[Span, ...] = ()


def census(recording: Recording, events: Mapping[int, Event]) -> Census:
    """Counts all records and collects what they tell of threads."""
    decoder = _Decoder(recording, events)
    library, handle = _library(), decoder.handle
    listening = {number: program for number, event in events.items() if (program := _listen(event))}
    programs = (CProgram * max(len(listening), 1))(*listening.values())
    library.ftrace_code(handle, programs, ctypes.byref(CCode()))
    for place, number in enumerate(listening):
        library.ftrace_program(handle, number, place)
    names = native.Strings()
    rows = np.zeros(_TASK_EVENT_ROWS, _TASK_EVENT)
    buffer = _CTaskEvents(rows.ctypes.data, 0, _TASK_EVENT_ROWS)
    library.ftrace_census(handle, ctypes.byref(buffer), names.handle)
    parts: list[npt.NDArray[np.void]] = []

    def collect() -> None:
        parts.append(rows[: buffer.count].copy())
        buffer.count = 0

    decoder.run(collect)
    collect()
    counted = Census()
    counts = np.ctypeslib.as_array(library.ftrace_counts(handle), (_KINDS,))
    counted.kinds = Counter({number: int(counts[number]) for number in np.flatnonzero(counts).tolist()})
    for number, count in counted.kinds.items():
        event = events.get(number)
        counted.events[event.name if event else f"event {number}"] += count
        counted.unknown += 0 if event else count
    totals = library.ftrace_totals(handle)
    for place, stream in enumerate(decoder.streams):
        counted.per_cpu[stream.cpu] += totals[place].records
        counted.lost += totals[place].lost
        counted.broken += totals[place].broken
    counted.per_cpu = +counted.per_cpu
    counted.gaps = _gaps(handle)
    counted.setbacks = decoder.setbacks
    if counted.kinds:
        first, last = ctypes.c_int64(), ctypes.c_int64()
        library.ftrace_span(handle, ctypes.byref(first), ctypes.byref(last))
        counted.first_ns, counted.last_ns = first.value, last.value
    counted.task_events, counted.seen = _task_events(np.concatenate(parts), names, _tids(handle))
    return counted


def _listen(event: Event) -> CProgram | None:
    """What an event tells of threads: block events the name of the one that was running."""
    text, number = ftrace_programs.text, ftrace_programs.number
    if event.name in _TASK_EVENTS:
        fields = _TASK_FIELDS[event.name]
        program = CProgram(kind=_TASK_EVENTS[event.name], subject=c_field(number(event, fields["subject"])))
        program.flags = c_field(number(event, fields.get("flags", "")))
        program.name = c_field(text(event, fields["name"]))
        program.new_name = c_field(text(event, fields.get("new_name", "")))
        return program
    if block.steps(event) and (name := text(event, "comm")):
        return CProgram(kind=_OTHER_EVENT, name=c_field(name))
    return None


def _gaps(handle: int) -> tuple[Span, ...]:
    """When records of any CPU are missing."""
    gaps = ctypes.POINTER(ctypes.c_int64)()
    count = _library().ftrace_gaps(handle, ctypes.byref(gaps))
    rows = np.ctypeslib.as_array(gaps, (count, 2)).tolist() if count else []
    return losses.merged(((begin, end) for begin, end in rows), _MOST_SPANS)


def _tids(handle: int) -> list[int]:
    """All threads, sorted."""
    tids = ctypes.POINTER(ctypes.c_int32)()
    count = _library().ftrace_threads(handle, ctypes.byref(tids))
    return sorted(np.ctypeslib.as_array(tids, (count,)).tolist()) if count else []


def _task_events(
    rows: npt.NDArray[np.void], names: native.Strings, tids: Sequence[int]
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """The events that tell of threads, and the names that others tell, with all threads."""
    texts = pl.Series("text", names.array(), pl.String)

    def frame(kind: int, columns: Mapping[str, str]) -> pl.DataFrame:
        some = rows[rows["kind"] == kind]
        series = []
        for source, name in columns.items():
            values = pl.Series(name, some[source])
            if source in ("name", "new_name"):
                values = texts.gather(values.set(values >= len(texts), None)).alias(name)
            series.append(values)
        return pl.DataFrame(series)

    common = {"order": "common_order", "ts_ns": "common_ts_ns", "tid": "common_pid"}
    events = {event: frame(kind, {**common, **_TASK_FIELDS[event]}) for event, kind in _TASK_EVENTS.items()}
    seen = frame(_OTHER_EVENT, {"ts_ns": "ts_ns", "order": "order", "tid": "tid", "name": "comm"})
    others = pl.DataFrame({"tid": tids}, schema={"tid": pl.Int32})
    return {event: rows for event, rows in events.items() if rows.height}, pl.concat([seen, others], how="diagonal")


# --- then: tables ------------------------------------------------------------------------------------------------


def _make_tables(
    recording: Recording,
    spool: Spool,
    events: Mapping[int, Event],
    wanted: Mapping[int, Rows],
    names: pl.DataFrame,
) -> tuple[Loss, ...]:
    """Rows for all events that are `wanted`, with the names and processes that `names` tells (`threads.versions`).

    Returns what is missing of calls.
    """
    decoder = _Decoder(recording, events)
    library, handle = _library(), decoder.handle
    code = Code(wanted, names["comm"].drop_nulls().unique(maintain_order=True).to_list())
    for number, place in code.places.items():
        library.ftrace_program(handle, number, place)
    machine = Machine.of(recording.machine, recording.long_bytes)
    calls = Pairs(spool, machine, recording.mounts, recording.narrow, recording.opened)
    versions, held = _versions(names, code)
    if not library.ftrace_versions(handle, ctypes.byref(versions)):
        raise MemoryError
    tables: dict[str, native.Table] = {}
    bound: list[object] = [held]

    def bind() -> None:
        """New tables with strings of their own."""
        tables.update({name: native.Table(name, TABLE_ROWS) for name in code.tables})
        c_code, pointees = code.bound(tables)
        bound[1:] = [c_code, pointees]
        library.ftrace_code(handle, code.programs, ctypes.byref(c_code))

    def empty() -> None:
        for name, table in tables.items():
            if name == ftrace_calls.TABLE:
                calls.take(table)
                table.clear()
            elif table.rows:
                last = int(table.column("ts_ns")[-1])
                spool.append(name, table.arrow())
                spool.settle(name, last)  # records come in order of time
                table.clear()
        if any(table.strings.nr_bytes > _LARGEST_STRINGS for table in tables.values()):
            bind()

    bind()
    decoder.run(empty)
    empty()
    return calls.finish()


def _versions(names: pl.DataFrame, code: Code) -> tuple[_CVersions, object]:
    """`names` for C, and what it points to."""
    tids, starts = np.unique(names["tid"].to_numpy(), return_index=True)
    starts = np.append(starts, names.height).astype(np.uint32)
    from_ns = np.ascontiguousarray(names["from_ns"].to_numpy())
    pids = np.ascontiguousarray(names["pid"].fill_null(-(1 << 31)).to_numpy())
    indexes = pl.Series(range(len(code.names)), dtype=pl.UInt32)
    numbered = names["comm"].replace_strict(code.names, indexes, default=None, return_dtype=pl.UInt32)
    numbers = np.ascontiguousarray(numbered.fill_null((1 << 32) - 1).to_numpy())
    tids = np.ascontiguousarray(tids, np.int32)
    pointers = (tids.ctypes.data, starts.ctypes.data, len(tids), from_ns.ctypes.data, pids.ctypes.data)
    return _CVersions(*pointers, numbers.ctypes.data), (tids, starts, from_ns, pids, numbers)


# --- losses ------------------------------------------------------------------------------------------------------


def _losses(recording: Recording, counted: Census) -> tuple[int, tuple[Loss, ...]]:
    """How many events the kernel lost, and that and what could not be read, in sentences.

    The buffers hold events of every kind. When events were overwritten stand in the pages; when they were dropped
    (overwrite=0) does not.
    """
    overwritten = max(counted.lost, _stat(recording, "overrun"))
    of_pages = counted.gaps if counted.lost == overwritten else EVER
    dropped = _stat(recording, "dropped events") + _stat(recording, "commit overrun")
    counts = (
        ("overwritten", overwritten, "events were overwritten before they were read", of_pages),
        ("dropped", dropped, "events were dropped by the kernel: its buffer was full", EVER),
        ("unreadable", counted.broken, "pages are damaged; their events from the damage on are lost", counted.gaps),
        ("unreadable", counted.unknown, "events cannot be read: the file does not say what they hold", EVER),
    )
    lost = [
        Loss(kind, count, message + (f" (and {count - 1} more)" if count > 1 else ""))
        for kind, (count, message) in recording.losses.items()
    ]
    lost += [Loss(kind, n, f"{n} {what}", spans=spans) for kind, n, what, spans in counts if n]
    lost += clock.mixed(counted.setbacks)
    if recording.clock in _NO_NANOSECONDS and recording.tsc is None:
        message = f"the clock {recording.clock} counts no nanoseconds, and the file does not say what: no time is right"
        lost.append(Loss("clock", 1, message, ()))
    return overwritten + dropped, tuple(lost)


def _stat(recording: Recording, name: str) -> int:
    """The sum over all CPUs of a line of tracefs' ``per_cpu/cpu*/stats``."""
    matches = (re.search(rf"^{name}: (\d{{1,18}})$", stats, re.MULTILINE) for stats in recording.cpu_stats)
    return sum(int(match[1]) for match in matches if match)
