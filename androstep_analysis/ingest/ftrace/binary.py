"""Read binary recordings of ftrace: pages of the kernel's ring buffer with the files of tracefs that describe them.

The pages of all CPUs are read in pieces, and their records are merged by time. This is done twice. The first pass
counts all records and collects the names of threads. The second pass, which needs these names, fills the tables. The
compiled decoder does both (native/decode/ftrace/ftrace.c). Memory does not depend on the length of the recording.
"""

from __future__ import annotations

import ctypes
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import losses
from androstep_analysis.common.errors import EVER, Loss, Span
from androstep_analysis.ingest import clock, threads
from androstep_analysis.ingest.ftrace import block, commands, counters, event_format, fs_events, importance
from androstep_analysis.ingest.ftrace import calls as ftrace_calls
from androstep_analysis.ingest.ftrace import programs as ftrace_programs
from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.pages import CLayout, CTotals, Layout
from androstep_analysis.ingest.ftrace.programs import CCode, CField, Code, CProgram, Rows, c_field
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging
from androstep_analysis.ingest.syscalls.pairs import Machine, Pairs

UNKNOWN_CPU = -1
"""The CPU of pages whose CPU is unknown."""

_NO_NANOSECONDS = ("counter", "uptime", "x86-tsc", "ppc-tb")
"""Trace clocks that count events, jiffies or cycles (Linux, Documentation/trace/ftrace.rst)."""

TABLE_ROWS = 1 << 16
"""The number of rows that are decoded at once."""

_PIECES_BYTES = 32 << 20
_LARGEST_PIECE, _SMALLEST_PIECE = 1 << 20, 1 << 16
"""Bytes in memory at once: `_PIECES_BYTES` for all CPUs, and the limits for a single CPU."""

_LARGEST_STRINGS = 1 << 20
"""The size in bytes at which the strings of a table are discarded."""

_TASK_EVENT_ROWS = 1 << 14

_MOST_SPANS = 1000
"""The number of spans with missing records that are kept. The last span covers all further ones."""

_TABLES = (block, fs_events, commands, importance)
"""The modules that turn events into rows of the tables of a capture. An event belongs to at most one of these
tables.
"""


@dataclass(frozen=True)
class Stream:
    """The pages of one CPU of one instance. `pieces` yields them in pieces of about the requested number of bytes."""

    cpu: int
    layout: Layout
    pieces: Callable[[int], Iterator[bytes]]


@dataclass
class Recording(ABC):
    """The description in a recording.

    Attributes
    ----------
    formats
        System and format file of every event.
    tsc
        Multiplier and shift that convert a clock in cycles to nanoseconds.
    offset_ns
        Is added to every time.
    machine
        The output of ``uname -m``.
    mounts
        The mount point of the filesystem on each device.
    narrow
        The processes of 32-bit programs on a 64-bit machine.
    opened
        Rows of `syscalls` for files that were open before the recording (`opened_before`).
    losses
        Count and first message of each kind of loss. It may grow while pages are read.
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
        """Count a loss of this kind. The message of the first one is stored."""
        count, first = self.losses.get(kind, (0, message))
        self.losses[kind] = (count + 1, first)

    @property
    @abstractmethod
    def kernel_page_bytes(self) -> int | None:
        """The page size of the kernel; None if unknown."""

    @abstractmethod
    def streams(self) -> list[Stream]:
        """Return the pages of all CPUs of all instances, from the start."""


def read(recording: Recording, spool: Spool, title: str) -> Staging:
    """Read the events of all instances of a recording. `title` is the name of its format.

    `lost_events` is what the kernel counted: the larger of the counts in page headers and in the saved statistics, plus
    the events that it could not record at all.
    """
    events = formats(recording)
    counted = census(recording, events)
    saved = pairs(recording.cmdlines)
    names = threads.versions(
        counted.task_events, threads.until_saved(counted.seen, saved), saved, threads.ended(tgids(recording.tgids))
    )
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
        flags=FLAGS,
    )


def formats(recording: Recording) -> dict[int, Event]:
    """Return the events that the recording describes, by their number in the records."""
    parsed = (event_format.parse(form, system, recording.long_bytes) for system, form in recording.formats)
    return {event.id: event for event in parsed if event is not None}


def _wanted(events: Mapping[int, Event]) -> dict[int, Rows]:
    """Return the rows to build from each event, by its number. Events that are only counted are left out.

    Events that supplement system calls count only if system calls were recorded.
    """
    of_calls = {number: ftrace_calls.steps(event) for number, event in events.items()}
    has_calls = any(ftrace_calls.is_call(event) for event in events.values())
    wanted: dict[int, Rows] = {}
    for number, event in events.items():
        rows = [(table.TABLE, steps) for table in _TABLES if (steps := table.steps(event))][:1]
        rows += counters.rows(event)
        if has_calls and of_calls[number]:
            rows.append((ftrace_calls.TABLE, of_calls[number]))
        if rows:
            wanted[number] = rows
    return wanted


def pairs(saved: str) -> dict[int, str]:
    """Return thread and name on each line of tracefs' ``saved_cmdlines``, without names that were discarded."""
    lines = re.finditer(r"^ *(\d{1,9}) (.+)$", saved, re.MULTILINE)
    return {int(line[1]): line[2] for line in lines if line[2] != "<...>"}


def tgids(saved: str) -> dict[int, int]:
    """Return thread and process on each line of tracefs' ``saved_tgids``."""
    return {tid: int(pid) for tid, pid in pairs(saved).items() if re.fullmatch(r"\d{1,9}", pid)}


def clock_in_use(text: str) -> str:
    """Return the clock in tracefs' ``trace_clock`` (``local [mono] boot``) or in its bare name, else ``unknown``."""
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


_library = native.library


class _Decoder:
    """One pass of the compiled decoder over a recording."""

    def __init__(self, recording: Recording, events: Mapping[int, Event]) -> None:
        self.streams = recording.streams()
        common = next(iter(events.values())).fields if events else {}
        kind = CField(common["common_type"].offset if "common_type" in common else 0, 2, 0, 0, 1, 0)
        tid = CField(common["common_pid"].offset if "common_pid" in common else 4, 4, 0, 0, 1, 0)
        multiplier, shift = recording.tsc or (0, 0)
        clock = _CClock(multiplier, shift, _wrapped(recording.offset_ns))
        self._library = _library()
        self.handle = native.owned(
            self,
            self._library.ftrace_free,
            self._library.ftrace_new(len(self.streams), ctypes.byref(kind), ctypes.byref(tid), ctypes.byref(clock)),
        )
        for number, stream in enumerate(self.streams):
            layout = CLayout.of(stream.layout)
            self._library.ftrace_stream(self.handle, number, ctypes.byref(layout), stream.cpu)
        piece_bytes = min(max(_PIECES_BYTES // max(len(self.streams), 1), _SMALLEST_PIECE), _LARGEST_PIECE)
        self._pieces = [stream.pieces(piece_bytes) for stream in self.streams]
        self._held: list[bytes] = [b""] * len(self.streams)
        self._last = [0] * len(self.streams)
        self.setbacks = 0

    def run(self, when_full: Callable[[], None]) -> None:
        """Process all records. `when_full` is called to empty the tables when one is full."""
        while (number := self._library.ftrace_run(self.handle)) != _DONE:
            if number == _FULL:
                when_full()
                continue
            piece = next(self._pieces[number], b"")
            if rest := len(piece) % self.streams[number].layout.page_bytes:
                # Pad the last page with zeros, which contain no records.
                piece += bytes(self.streams[number].layout.page_bytes - rest)
            self._held[number] = piece
            if self.streams[number].cpu != UNKNOWN_CPU:
                self._watch_clock(number, piece)
            self._library.ftrace_feed(self.handle, number, piece, len(piece))

    def _watch_clock(self, number: int, piece: bytes) -> None:
        """Count the pages that are earlier than the previous page of the same CPU, which indicates a wrong clock."""
        layout = self.streams[number].layout
        words = np.frombuffer(piece, ">u8" if layout.big_endian else "<u8")
        times = words[:: layout.page_bytes // words.itemsize].astype(np.uint64)
        times = times[times > 0]  # missing bytes of a page read as zeros
        if len(times):
            before = np.append(np.uint64(self._last[number]), times[:-1])
            self.setbacks += int(np.count_nonzero(before > times))
            self._last[number] = int(times[-1])


def _wrapped(number: int) -> int:
    """Return the number as a signed number of 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


# --- first pass: counts and names --------------------------------------------------------------------------------

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
"""For each task event, the fields with the thread, its name and its flags."""


@dataclass
class Census:
    """The counts over all pages of a recording, and the names of threads.

    Attributes
    ----------
    events, kinds, per_cpu
        The number of events by name, by event number, and by CPU.
    task_events, seen
        Task events, and names in other events, as arguments of `threads.versions`.
    lost
        The number of records that were overwritten.
    broken
        The number of pages that could not be followed to their end.
    unknown
        The number of events without a format.
    setbacks
        How often a page is earlier than the previous page of its CPU.
    gaps
        The times of the CPU's records before and after each gap.
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
    """Count all records and collect the names of threads."""
    decoder = _Decoder(recording, events)
    library, handle = _library(), decoder.handle
    listening = {number: program for number, event in events.items() if (program := _listen(event))}
    programs = (CProgram * max(len(listening), 1))(*listening.values())
    library.ftrace_code(handle, programs, ctypes.byref(CCode()))
    for index, number in enumerate(listening):
        library.ftrace_program(handle, number, index)
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
    totals = ctypes.cast(library.ftrace_totals(handle), ctypes.POINTER(CTotals))
    for index, stream in enumerate(decoder.streams):
        counted.per_cpu[stream.cpu] += totals[index].records
        counted.lost += totals[index].lost
        counted.broken += totals[index].broken
    counted.per_cpu = +counted.per_cpu
    counted.gaps = _gaps(handle)
    counted.setbacks = decoder.setbacks
    if counted.kinds:
        first, last = ctypes.c_int64(), ctypes.c_int64()
        library.ftrace_span(handle, ctypes.byref(first), ctypes.byref(last))
        counted.first_ns, counted.last_ns = first.value, last.value
    counted.task_events, counted.seen = _task_events(np.concatenate(parts), names, _last_seen(handle))
    return counted


def _listen(event: Event) -> CProgram | None:
    """Return how to get names of threads from an event. A block event contains the name of the running thread."""
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
    """Return the times at which records of any CPU are missing."""
    gaps = ctypes.POINTER(ctypes.c_int64)()
    count = _library().ftrace_gaps(handle, ctypes.byref(gaps))
    rows = np.ctypeslib.as_array(gaps, (count, 2)).tolist() if count else []
    return losses.merged(((begin, end) for begin, end in rows), _MOST_SPANS)


def _last_seen(handle: int) -> pl.DataFrame:
    """Return all threads, sorted, with the index of the name under which each was last seen, and the time."""
    tids, names, ts_ns = (ctypes.POINTER(kind)() for kind in (ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64))
    count = _library().ftrace_threads(handle, ctypes.byref(tids))
    _library().ftrace_last_seen(handle, ctypes.byref(names), ctypes.byref(ts_ns))
    columns = {"tid": tids, "name": names, "ts_ns": ts_ns}
    arrays = {name: np.ctypeslib.as_array(values, (count,)).copy() for name, values in columns.items() if count}
    empty = pl.DataFrame(schema={"tid": pl.Int32, "name": pl.UInt32, "ts_ns": pl.Int64})
    return native.frame(arrays).sort("tid") if count else empty


def _task_events(
    rows: npt.NDArray[np.void], names: native.Strings, last_seen: pl.DataFrame
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Return the task events, and the names in other events together with all threads."""
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
    last = last_seen.filter(pl.col("name") < len(texts))
    last = last.select("ts_ns", "tid", comm=texts.gather(last["name"]), order=pl.lit(rows.size, pl.Int64))
    named = {event: rows for event, rows in events.items() if rows.height}
    return named, pl.concat([seen, last, last_seen.select("tid")], how="diagonal")


# --- second pass: tables -----------------------------------------------------------------------------------------


def _make_tables(
    recording: Recording,
    spool: Spool,
    events: Mapping[int, Event],
    wanted: Mapping[int, Rows],
    names: pl.DataFrame,
) -> tuple[Loss, ...]:
    """Append rows for all `wanted` events. `names` supplies names and processes (`threads.versions`).

    Returns the losses of system calls.
    """
    decoder = _Decoder(recording, events)
    library, handle = _library(), decoder.handle
    code = Code(wanted, names["comm"].drop_nulls().unique(maintain_order=True).to_list())
    for number, index in code.places.items():
        library.ftrace_program(handle, number, index)
    machine = Machine.of(recording.machine, recording.long_bytes)
    calls = Pairs(spool, machine, recording.mounts, recording.narrow, recording.opened)
    versions, held = _versions(names, code)
    if not library.ftrace_versions(handle, ctypes.byref(versions)):
        raise MemoryError
    tables: dict[str, native.Table] = {}
    bound: list[object] = [held]

    def bind() -> None:
        """Create new tables with empty string pools."""
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
                if name != counters.TABLE:  # to which procmon may append earlier rows
                    spool.settle(name, last)  # records come in order of time
                table.clear()
        if any(table.strings.nr_bytes > _LARGEST_STRINGS for table in tables.values()):
            bind()

    bind()
    decoder.run(empty)
    empty()
    return calls.finish()


def _versions(names: pl.DataFrame, code: Code) -> tuple[_CVersions, object]:
    """Return `names` as a C structure, and the arrays that it points to."""
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
    """Return the number of events that the kernel lost, and all losses.

    The buffers hold events of every kind. The pages show when events were overwritten, but not when they were dropped
    (overwrite=0).
    """
    overwritten = max(counted.lost, _stat(recording, "overrun"))
    of_pages = counted.gaps if counted.lost == overwritten else EVER
    dropped = _stat(recording, "dropped events") + _stat(recording, "commit overrun")
    counts = (
        ("overwritten", overwritten, "events were overwritten before they were read", of_pages),
        ("dropped", dropped, "events were dropped by the kernel: its buffer was full", EVER),
        ("unreadable", counted.broken, "pages are damaged; their events from the damage on are lost", counted.gaps),
        ("unreadable", counted.unknown, "events cannot be decoded: their formats are not recorded", EVER),
    )
    lost = [
        Loss(kind, count, message + (f" (and {count - 1} more)" if count > 1 else ""))
        for kind, (count, message) in recording.losses.items()
    ]
    lost += [Loss(kind, n, f"{n} {what}", spans=spans) for kind, n, what, spans in counts if n]
    lost += clock.mixed(counted.setbacks)
    if recording.clock in _NO_NANOSECONDS and recording.tsc is None:
        message = (
            f"the clock {recording.clock} does not count nanoseconds, and its unit is not recorded: all times are wrong"
        )
        lost.append(Loss("clock", 1, message, ()))
    return overwritten + dropped, tuple(lost)


def _stat(recording: Recording, name: str) -> int:
    """Return the sum over all CPUs of a line in tracefs' ``per_cpu/cpu*/stats``."""
    matches = (re.search(rf"^{name}: (\d{{1,18}})$", stats, re.MULTILINE) for stats in recording.cpu_stats)
    return sum(int(match[1]) for match in matches if match)
