"""Run the compiled decoder of Perfetto traces (native/decode/perfetto): it turns bytes into tables and rare packets."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.ingest.ftrace import fs_events
from androstep_analysis.ingest.perfetto import fields
from androstep_analysis.ingest.perfetto.fields import CALLS, COMMANDS, EVENTS, IMPORTANCE, PACKETS, REASONS, TASKS
from androstep_analysis.native import Strings, Table

TABLES = (
    *("block_events", "fs_events", "commands", "call_events", "frame_events", "importance", "switch_events"),
    "samples",
)
"""The tables that events and frames fill, in the order of ``enum target``."""

_TARGETS = {
    name: number for number, name in enumerate(("nothing", *TABLES, "new", "fork", "rename", "exec", "switch", "wake"))
}
_DONE, _FULL, _COMPRESSED = range(3)
_IS_FINAL, _IS_INNER = 1, 2
_DEFLATE, _ZSTD = 50, 133
_NOTES = 4096
_ROWS = 1 << 16
_INFLATED_BYTES = 4 << 20

_NOTE = np.dtype(
    [
        *((name, np.uint64) for name in ("offset", "length", "timestamp")),
        *((name, np.uint32) for name in ("number", "clock", "sequence", "is_timed")),
    ]
)
_TASK = np.dtype(
    [
        ("ts_ns", np.int64),
        ("order", np.int64),
        ("flags", np.uint64),
        ("tid", np.int32),
        ("thread", np.int32),
        *((name, np.uint32) for name in ("comm", "old_comm", "step", "unused")),
    ]
)
SEEN, NEW, FORK, RENAME, EXEC = range(5)
"""``enum task_step``: a name that was seen, and the task events."""


class Totals(ctypes.Structure):
    """``struct totals``: the counters over all packets."""

    first_ns: int
    last_ns: int
    events: int
    settled_ns: int
    lost_bundles: int
    unreadable_events: int
    unreadable_packets: int
    torn: int
    dropped: int
    stateless: int
    foreign: int
    page_errors: int
    clock: int
    mixed_clocks: int
    boot_offset: int
    bundles: int
    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("first_ns", "last_ns", "events", "settled_ns", "lost_bundles", "unreadable_events"),
            *("unreadable_packets", "torn", "dropped", "stateless", "foreign", "page_errors", "clock"),
            *("mixed_clocks", "boot_offset", "bundles"),
        )
    )


class _Output(ctypes.Structure):
    _fields_ = (
        ("tables", ctypes.c_void_p * (1 + len(TABLES))),
        ("notes", ctypes.c_void_p),
        ("nr_notes", ctypes.c_size_t),
        ("note_places", ctypes.c_size_t),
    )


class _Versions(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("tids", "from_ns", "comms", "pids")),
        ("count", ctypes.c_size_t),
    )


_library = native.library


@dataclass(frozen=True)
class Packet:
    """A packet that is not read in C: the field number and bytes of its data, its time, and the clock of the time."""

    number: int
    data: memoryview
    timestamp: int | None
    clock: int


class Decoder:
    """Decodes one trace from start to end.

    Without `actions`, it only collects names, counts and rare packets. With `actions` (the action of each block event),
    it also appends events to tables.
    """

    def __init__(self, actions: Mapping[str, str] | None = None) -> None:
        self.strings = Strings()
        self._handle = native.owned(self, _library().perfetto_free, _library().perfetto_new(self.strings.handle))
        self.tables = {name: Table(name, _ROWS, self.strings) for name in TABLES} if actions is not None else {}
        self.unreadable_packets = 0
        self._notes = np.zeros(_NOTES, _NOTE)
        self._tasks: list[npt.NDArray[np.void]] = []
        self._output = _Output(notes=self._notes.ctypes.data, note_places=_NOTES)
        for number, table in enumerate(self.tables.values(), 1):
            self._output.tables[number] = table.address
        self._version_columns: tuple[object, ...] = ()
        self._declare(actions or {})

    # --- declaration of events ---------------------------------------------------------------------------------------

    def _declare(self, actions: Mapping[str, str]) -> None:
        for target, name in enumerate(TABLES, 1):
            for index, column in enumerate(schema.table(name).columns):
                slot = _library().perfetto_slot(column.name.encode())
                if slot >= 0:
                    _library().perfetto_column(self._handle, target, slot, index)
        for slot, column_name in (("kernel_dev", "dev"), ("bdi", "dev")):
            index = [column.name for column in schema.table("fs_events").columns].index(column_name)
            _library().perfetto_column(self._handle, TABLES.index("fs_events") + 1, _slot(slot), index)
        for event, action in actions.items():
            code = schema.table("block_events").column("action").values.index(action)
            roles = fields.block_roles(event)
            if event == "block_io_done" and action == "complete":
                del roles["nr_sector"]
            self._event(event, "block_events", code, roles)
        for event in (*fs_events.FIELDS, *fs_events.PROBES):
            name = fs_events.PROBES.get(event, event)
            code = schema.table("fs_events").column("event").values.index(name)
            self._event(event, "fs_events", code, fields.fs_roles(event))
        for event, roles in COMMANDS.items():
            code = schema.table("commands").column("event").values.index(event)
            self._event(event, "commands", code, roles)
        for event, (phase, roles) in CALLS.items():
            code = schema.table("call_events").column("phase").values.index(phase)
            self._event(event, "call_events", code, roles)
        for event, roles in IMPORTANCE.items():
            code = schema.table("importance").column("event").values.index(event)
            self._event(event, "importance", code, roles)
        for event, roles in REASONS.items():
            self._event(event, "switch_events", 0, roles)
        for event in EVENTS.values():
            self._count(event)
        for event, (target_name, roles) in TASKS.items():
            self._event(event, target_name, 0, roles)
        for number, event in EVENTS.items():
            names = fields.event_fields(event)
            _library().perfetto_number(self._handle, number, event.encode(), names.encode())

    def _event(self, event: str, target: str, code: int, roles: Mapping[str, str]) -> None:
        _library().perfetto_event(self._handle, event.encode(), _TARGETS[target], code)
        for field, role in roles.items():
            self._field(event, field, _slot(role))

    def _count(self, event: str) -> None:
        counters = fields.counters(event)
        if not counters:
            return
        self._event(event, "samples", 0, {"dev": "dev"})
        for field, unit in counters.items():
            name = f"{event}.{field}"
            role = _library().perfetto_counter(self._handle, name.encode(), unit.encode())
            self._field(event, field, role)

    def _field(self, event: str, field: str, role: int) -> None:
        if role < 0 or not _library().perfetto_field(self._handle, event.encode(), field.encode(), role):
            raise ValueError(f"native/decode/perfetto/perfetto.c has no room for field {field} of {event}")

    def name_threads(self, versions: pl.DataFrame) -> None:
        """Use names and processes from `versions` (threads.versions) for rows, and stop collecting names."""
        comms = versions["comm"].unique(maintain_order=True)
        numbers = {text: self.strings.add(text.encode()) for text in comms if text is not None} | {None: 0xFFFFFFFF}
        columns = (
            versions["tid"].to_numpy(),
            versions["from_ns"].to_numpy(),
            np.array([numbers[comm] for comm in versions["comm"]], np.uint32),
            versions["pid"].fill_null(-(1 << 31)).to_numpy(),
        )
        arrays = tuple(np.ascontiguousarray(column) for column in columns)
        self._version_columns = arrays
        pointers = _Versions(*(column.ctypes.data for column in arrays), len(versions))
        if not _library().perfetto_names(self._handle, ctypes.byref(pointers)):
            raise MemoryError

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, pieces: Iterable[bytes], full: Callable[[], None], other: Callable[[Packet], None]) -> None:
        """Read the trace in `pieces`.

        `full` is called to empty the tables; `other` receives the packets that are not read here.
        """
        self._read(pieces, 0, full, other)

    def _read(
        self, pieces: Iterable[bytes], flags: int, full: Callable[[], None], other: Callable[[Packet], None]
    ) -> None:
        rest = b""
        for piece, is_last in _with_end(pieces):
            data = rest + piece if rest else piece
            used = self._decode(data, flags | (_IS_FINAL if is_last else 0), full, other)
            rest = data[used:]

    def _decode(self, data: bytes, flags: int, full: Callable[[], None], other: Callable[[Packet], None]) -> int:
        """Return how many bytes of `data` were consumed."""
        start = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        position, used, status = 0, ctypes.c_size_t(), _FULL
        while status != _DONE:
            status = _library().perfetto_decode(
                self._handle,
                start + position,
                len(data) - position,
                flags,
                ctypes.byref(self._output),
                ctypes.byref(used),
            )
            self._gather_tasks()
            for packet in self._packets(memoryview(data)[position:]):
                if packet.number in (_DEFLATE, _ZSTD):
                    self._read(self._inflated(packet), _IS_INNER, full, other)
                else:
                    other(packet)
            position += used.value
            if status == _FULL:
                full()
        return position

    def _packets(self, data: memoryview) -> list[Packet]:
        notes = self._notes[: self._output.nr_notes]
        self._output.nr_notes = 0
        return [
            Packet(number, data[offset : offset + length], timestamp if is_timed else None, clock)
            for offset, length, timestamp, number, clock, _, is_timed in notes.tolist()
        ]

    def _inflated(self, packet: Packet) -> Iterator[bytes]:
        """Yield the contents of a compressed packet in pieces, up to its end or damage."""
        try:
            if packet.number == _ZSTD:
                stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packet.data)), "zstd")
                while piece := stream.read(_INFLATED_BYTES):
                    yield piece
                return
            inflate = zlib.decompressobj()
            piece = inflate.decompress(packet.data, _INFLATED_BYTES)
            while piece:
                yield piece
                piece = inflate.decompress(inflate.unconsumed_tail, _INFLATED_BYTES)
            if not inflate.eof:
                self.unreadable_packets += 1
        except (zlib.error, OSError):
            self.unreadable_packets += 1

    def _gather_tasks(self) -> None:
        rows = ctypes.c_size_t()
        start = _library().perfetto_tasks(self._handle, ctypes.byref(rows))
        if rows.value:
            self._tasks.append(np.frombuffer(ctypes.string_at(start, rows.value * _TASK.itemsize), _TASK))

    def take(self, name: str, until_ns: int | None) -> pa.Table | None:
        """Remove and return the rows of table `name` before `until_ns` (None: all), sorted; None if there are none.

        Events arrive CPU by CPU. Sorting here, while the rows are in the cache, saves merging later. A table that is
        full of later rows is returned as a whole.
        """
        table = self.tables[name]
        times = table.column("ts_ns")
        order = np.argsort(times, kind="stable")
        rows = len(times) if until_ns is None else int(np.searchsorted(times, until_ns, sorter=order))
        if until_ns is not None and 2 * rows < table.capacity and 2 * table.rows > table.capacity:
            rows = len(times)
        if not rows:
            return None
        taken = table.arrow(order[:rows])
        table.keep(np.sort(order[rows:]))
        return taken

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def totals(self) -> Totals:
        """The counters so far."""
        return Totals.from_address(_library().perfetto_totals(self._handle))

    def events(self) -> dict[str, int]:
        """Return the number of events by name."""
        counts: dict[str, int] = {}
        count, number = ctypes.c_uint64(), 0
        while (name := _library().perfetto_counted(self._handle, number, ctypes.byref(count))) is not None:
            if count.value:
                counts[name.decode(errors="backslashreplace")] = count.value
            number += 1
        return counts

    def packets(self) -> dict[str, int]:
        """Return the number of packets by type."""
        counts = _library().perfetto_packets(self._handle)
        return {name: counts[number] for number, name in PACKETS.items() if counts[number]}

    def tasks(self) -> pl.DataFrame:
        """Return the rows about names of threads: ts_ns, order, flags, tid (running), thread, comm, old_comm, step."""
        _library().perfetto_last_seen(self._handle)
        self._gather_tasks()
        rows = np.concatenate(self._tasks) if self._tasks else np.zeros(0, _TASK)
        texts = pl.Series(self.strings.array().cast(pa.large_string()), dtype=pl.String)
        frame = native.frame({name: rows[name] for name in _TASK.names or () if name != "unused"})
        named = [
            texts.gather(frame[name].replace({0xFFFFFFFF: None})).alias(name) if len(texts) else frame[name]
            for name in ("comm", "old_comm")
        ]
        return frame.with_columns(named)


def _with_end(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each piece, and whether it is the last."""
    before: bytes | None = None
    for piece in pieces:
        if before is not None:
            yield before, False
        before = piece
    if before is not None:
        yield before, True


def _slot(name: str) -> int:
    slot: int = _library().perfetto_slot(name.encode())
    if slot < 0:
        raise ValueError(f"native/decode/perfetto/perfetto.c knows no {name}")
    return slot
