"""Export a Perfetto trace of requests and their pieces (google/perfetto: protos/perfetto/trace, fields as of v55).

- Requests are slices on the tracks of their device, from issue to completion. A counter next to them shows the number
  of requests at the driver.
- Pieces are slices on the tracks of their owner process, one for each file, from queueing to completion. Arrows lead
  from pieces to their requests.
- An owner of whom only the name is known has tracks under that name. Pieces without owner have separate tracks.
- Every column of tables requests and io is an argument of its slice.
- A request or piece that never completed is an instant.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import measures, native
from androstep_analysis.capture import Capture
from androstep_analysis.common import quantities, schema, units
from androstep_analysis.datasets.export.batches import batches, major, minor
from androstep_analysis.measures.owners import Processes
from androstep_analysis.measures.tables import is_inferred

_CLOCKS = {"boot": 6, "mono": 3}
_REALTIME = 1
_NONE = np.iinfo(np.int64).min
_ROOM = 4 << 20

_PIECES, _REQUESTS = "io", "requests"
_ROOTS = ("block devices", "filesystem", "owners known by name", "owner unknown")


def write(capture: Capture, file: BinaryIO) -> None:
    """Write slices and counters of all requests and pieces.

    Times are those of the capture's clock. If they begin below 0 (blkparse's text of events from before the start), all
    are moved to begin at 0. The arguments ``queue_ns``, ``issue_ns`` and ``complete_ns`` are as in the tables.
    """
    trace = _Trace(capture, file)
    for requests, pieces in _together(capture, trace.processes):
        trace.add_pieces(pieces)
        trace.add_requests(requests, pieces)
    trace.end()


def _together(capture: Capture, processes: Processes) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield batches of requests with all their pieces. Both tables are sorted by request_id."""
    owned = processes.of_owners(measures.counted(capture.io))
    pieces = batches(owned)
    held = owned.collect_schema().to_frame()
    for requests in batches(measures.counted(capture.requests)):
        last = requests["request_id"][-1]
        while held.is_empty() or held["request_id"][-1] <= last:
            following = next(pieces, None)
            if following is None:
                break
            held = pl.concat([held, following])
        cut = int(held["request_id"].search_sorted(last, "right"))
        yield requests, held[:cut]
        held = held[cut:]


def _processes(capture: Capture) -> Processes:
    """Return the processes of the capture, which distinguish owners whose pid was reused."""
    tables = {
        name: capture.tables[name].collect() if name in capture.tables else schema.empty(name)
        for name in ("importance", "tasks")
    }
    return Processes(tables["importance"], tables["tasks"])


class _Slices(ctypes.Structure):
    """``struct slices`` of native/export/perfetto.c."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("group", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("first_flow", ctypes.c_void_p),
        ("nr_flows", ctypes.c_void_p),
        ("nr_arguments", ctypes.c_size_t),
        ("argument_names", ctypes.c_void_p),
        ("argument_kinds", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("category", ctypes.c_uint32),
        ("flows_end", ctypes.c_uint32),
    )


_library = native.library


class _Trace:
    """A trace that is being written."""

    def __init__(self, capture: Capture, file: BinaryIO) -> None:
        self._file = file
        self.processes = _processes(capture)
        salt = int(capture.manifest.capture_id, 16)
        self._sequence = salt % ((1 << 31) - 1) + 1
        self._track = functools.partial(_library().trace_number, salt ^ _TRACKS_OF_THEIR_OWN)
        self._handle = native.owned(self, _library().trace_free, _library().trace_new(self._sequence, salt))
        self._out = np.empty(_ROOM, np.uint8)
        self._texts: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._arguments: dict[str, int] = {}
        self._parents: dict[object, int] = {}
        self._groups: dict[tuple[object, ...], int] = {}
        self._depths: dict[int, _Depth] = {}
        self._flows = 0
        self._shift = -min(0, _first_ns(capture))
        self._begin(capture)

    def _begin(self, capture: Capture) -> None:
        """Write the initial packets: clocks, categories, the top-level tracks."""
        clock = _CLOCKS.get(capture.about["clock"])
        defaults = _message(59, _number(58, clock or _CLOCKS["boot"]))
        categories = b"".join(
            _message(1, _number(1, iid) + _bytes(2, name.encode())) for iid, name in enumerate((_PIECES, _REQUESTS), 1)
        )
        self._packet(_number(13, 1) + _message(12, categories) + defaults)
        if clock is not None and capture.first_ns is not None:
            at = capture.first_ns + self._shift
            clocks = _message(1, _number(1, clock) + _number(2, at))
            offset = capture.about["realtime_offset_ns"]
            if offset is not None and at + offset >= 0:
                clocks += _message(1, _number(1, _REALTIME) + _number(2, at + offset))
            self._packet(_message(6, clocks + _number(2, clock)))
        for name in _ROOTS:
            self._new_track(name, _bytes(2, name.encode()))

    def add_pieces(self, io: pl.DataFrame) -> None:
        """Write slices of pieces, on tracks by owner and file."""
        if io.is_empty():
            return
        rows = io.with_columns(
            _dev("dev"),
            is_filesystem=pl.col("owner_via").cast(pl.String) == "filesystem",
            label=_label(),
            title=_title(),
        )
        name = pl.coalesce("owner_package", "owner_comm")
        rows = rows.with_columns(owner_name=pl.when(pl.col("owner_pid").is_null()).then(name))
        keys = ["owner_pid", "process", "owner_comm", "is_filesystem", "owner_name", "label"]
        packages = pl.col("owner_package").drop_nulls().first()
        groups = rows.group_by(keys, maintain_order=True).agg(packages)
        numbers = [
            self._piece_group(pid, process, comm, is_filesystem, name, label, package or comm)
            for pid, process, comm, is_filesystem, name, label, package in groups.iter_rows()
        ]
        group = _numbered(rows, groups.select(keys), numbers)
        begin = pl.coalesce("queue_ns", "issue_ns", "complete_ns")
        arguments = [name for name in io.columns if name != "process"]
        flows = np.arange(self._flows, self._flows + rows.height, dtype=np.uint64)
        self._flows += rows.height
        self._slices(rows, begin, group, flows, np.ones(rows.height, np.uint32), arguments, category=1, flows_end=False)

    def _piece_group(
        self,
        pid: int | None,
        process: int | None,
        comm: str | None,
        is_filesystem: bool,
        name: str | None,
        label: str,
        process_name: str | None,
    ) -> int:
        """Return the track group of a file below its owner: a process, a bare name, the filesystem, or unknown."""
        called = name if pid is None else self._distinct(process, comm)
        key = (pid, process, is_filesystem and pid is None, called, label)
        if key not in self._groups:
            if pid is not None:
                parent = self._process(pid, process, comm, process_name)
            elif is_filesystem:
                parent = self._parents["filesystem"]
            else:
                parent = self._parents["owner unknown"] if name is None else self._named(name)
            self._groups[key] = self._new_group(parent, label)
        return self._groups[key]

    def _named(self, name: str) -> int:
        key = ("named", name)
        if key not in self._parents:
            self._new_track(key, _bytes(2, name.encode()), self._parents["owners known by name"])
        return self._parents[key]

    def _process(self, pid: int, process: int | None, comm: str | None, name: str | None) -> int:
        """Return the track of a process. A later process with a reused pid gets a track of its own."""
        key = ("process", pid, process, self._distinct(process, comm))
        if key not in self._parents:
            first = ("process", pid)
            if first in self._parents:
                self._new_track(key, _bytes(2, f"{pid} {name or ''}".encode()))
            else:
                named = b"" if name is None else _bytes(6, name.encode())
                self._parents[key] = self._new_track(first, _message(3, _number(1, pid) + named))
        return self._parents[key]

    def _distinct(self, process: int | None, comm: str | None) -> str | None:
        """Return the name if it distinguishes processes with one pid: their creations are unknown."""
        return None if self.processes.has_creations and process is not None else comm

    def add_requests(self, requests: pl.DataFrame, io: pl.DataFrame) -> None:
        """Write slices of requests, on tracks by device, and the queue depth of each device."""
        facts = io.group_by("request_id", maintain_order=True).agg(
            pl.len().alias("pieces"), *(_common(name) for name in _OF_PIECES)
        )
        rows = requests.join(facts, on="request_id", how="left", maintain_order="left").with_columns(
            _dev("dev"),
            _dev("part_dev"),
            number="dev",
            bytes=pl.col("nr_sectors") * units.SECTOR_BYTES,
            title=pl.col("op").cast(pl.String),
            pieces=pl.col("pieces").fill_null(0).cast(pl.Int64),
        )
        devices = rows.select("number", "dev").unique(maintain_order=True)
        numbers = [self._device_group(number, name) for number, name in devices.iter_rows()]
        group = _numbered(rows, devices.select("number"), numbers)
        counts = rows["pieces"].to_numpy().astype(np.uint32)
        flows = np.uint64(self._flows) - np.uint64(counts.sum()) + np.cumsum(counts, dtype=np.uint64) - counts
        begin = pl.coalesce("issue_ns", "queue_ns", "complete_ns")
        arguments = [*requests.columns, "bytes", "pieces", *_OF_PIECES]
        self._slices(rows, begin, group, flows, counts, arguments, category=2, flows_end=True)
        for number, _ in devices.iter_rows():
            self._counters(number, *self._depths[number].add(requests.filter(dev=number)))

    def _device_group(self, dev: int, name: str) -> int:
        key = ("device", dev)
        if key not in self._groups:
            parent = self._new_track(key, _bytes(2, name.encode()), self._parents["block devices"])
            self._new_track(("depth", dev), _bytes(2, b"queue depth") + _message(8, _number(3, 2)), parent)
            self._groups[key] = self._new_group(parent, "requests")
            self._depths[dev] = _Depth()
        return self._groups[key]

    def end(self) -> None:
        """Write the last values of the counters."""
        for dev, depth in self._depths.items():
            self._counters(dev, *depth.rest())

    def _slices(
        self,
        rows: pl.DataFrame,
        begin: pl.Expr,
        group: npt.NDArray[np.uint32],
        first_flow: npt.NDArray[np.uint64],
        nr_flows: npt.NDArray[np.uint32],
        arguments: Sequence[str],
        *,
        category: int,
        flows_end: bool,
    ) -> None:
        end = pl.when(pl.col("complete_ns").is_not_null() & (begin < pl.col("complete_ns"))).then("complete_ns")
        same = pl.when(pl.col("complete_ns").is_not_null() & pl.coalesce("queue_ns", "issue_ns").is_not_null())
        times = rows.select(begin=begin + self._shift, end=pl.coalesce(end, same.then(begin)) + self._shift)
        names = self._interned(rows["title"], self._names, field=2)
        columns = [self._argument(rows[name]) for name in arguments]
        values = [np.ascontiguousarray(column) for column, _ in columns]
        pointers = np.array([value.ctypes.data for value in values], np.uintp)
        iids = self._interned(pl.Series(arguments), self._arguments, field=3).astype(np.uint32)
        kinds = np.array([kind for _, kind in columns], np.uint8)
        arrays: list[npt.NDArray[Any]] = [_int64(times["begin"]), _int64(times["end"]), group]
        arrays += [names.astype(np.uint32), first_flow, nr_flows]
        slices = _Slices(
            rows.height,
            *(array.ctypes.data for array in arrays),
            len(arguments),
            iids.ctypes.data,
            kinds.ctypes.data,
            pointers.ctypes.data,
            category,
            flows_end,
        )
        row = ctypes.c_size_t(0)
        while row.value < rows.height:
            count = _library().trace_slices(
                self._handle, ctypes.byref(slices), ctypes.byref(row), self._out.ctypes.data, _ROOM
            )
            if not count:
                raise MemoryError
            self._file.write(self._out[:count].data)

    def _argument(self, values: pl.Series) -> tuple[npt.NDArray[np.int64], int]:
        """Return a column as integers, and its kind in native/export/perfetto.c: 0 integer, 1 text id, 2 Boolean."""
        if isinstance(values.dtype, pl.String | pl.Enum):
            return self._interned(values.cast(pl.String), self._texts, field=29), 1
        return _int64(values.cast(pl.Int64)), 2 if values.dtype == pl.Boolean else 0

    def _interned(self, texts: pl.Series, known: dict[str, int], field: int) -> npt.NDArray[np.int64]:
        """Return the id of each text, from 1, and `_NONE` for null; write new texts as interned data."""
        distinct = texts.drop_nulls().unique(maintain_order=True).to_list()
        new = [text for text in distinct if text not in known]
        for text in new:
            known[text] = len(known) + 1
        if new:
            entries = (_message(field, _number(1, known[text]) + _bytes(2, text.encode())) for text in new)
            self._packet(_message(12, b"".join(entries)))
        numbers = texts.replace_strict(distinct, [known[text] for text in distinct], return_dtype=pl.Int64)
        return _int64(numbers)

    def _counters(self, dev: int, times: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> None:
        row = ctypes.c_size_t(0)
        times = times + self._shift
        track = self._parents["depth", dev]
        while row.value < len(times):
            count = _library().trace_counters(
                *(self._handle, track, ctypes.byref(row), len(times), times.ctypes.data, values.ctypes.data),
                *(self._out.ctypes.data, _ROOM),
            )
            self._file.write(self._out[:count].data)

    def _new_track(self, key: object, described: bytes, parent: int | None = None) -> int:
        uuid = int(self._track(len(self._parents)))
        self._parents[key] = uuid
        below = b"" if parent is None else _number(5, parent)
        self._packet(_message(60, _number(1, uuid) + below + described))
        return uuid

    def _new_group(self, parent: int, name: str) -> int:
        text = name.encode()
        group = int(_library().trace_group(self._handle, parent, text, len(text)))
        if group == np.iinfo(np.uint32).max:
            raise MemoryError
        return group

    def _packet(self, fields: bytes) -> None:
        self._file.write(_message(1, _number(10, self._sequence) + fields))


_TRACKS_OF_THEIR_OWN = 0x5DEECE66D
"""Keeps the ids of parent tracks distinct from those of lanes."""

_OF_PIECES = ("block_type", "path", "file_type", "owner_pid", "owner_comm", "owner_package")
"""Columns of a request's pieces that become arguments of the request if all pieces agree."""


def _common(name: str) -> pl.Expr:
    """Return the value that all pieces of a request share; null if they differ."""
    value = pl.col(name)
    return pl.when(value.n_unique() == 1).then(value.first()).alias(name)


class _Depth:
    """The queue depth of a device: requests issued and not yet completed. Those that never completed do not count."""

    def __init__(self) -> None:
        self._pending = np.empty(0, np.int64)
        self._depth = 0

    def add(self, requests: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return times and depths that no later request can change (requests are in order of issue)."""
        both = requests.drop_nulls(["issue_ns", "complete_ns"])
        if both.is_empty():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        issued = both["issue_ns"].to_numpy()
        ends = np.sort(np.concatenate([self._pending, np.maximum(both["complete_ns"].to_numpy(), issued)]))
        is_over = ends <= issued.max()
        self._pending = ends[~is_over]
        return self._changed(issued, ends[is_over])

    def rest(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the completions after the last issue."""
        ends, self._pending = self._pending, np.empty(0, np.int64)
        return self._changed(np.empty(0, np.int64), ends)

    def _changed(
        self, issued: npt.NDArray[np.int64], ended: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        times = np.concatenate([issued, ended])
        steps = np.concatenate([np.ones(len(issued), np.int64), np.full(len(ended), -1)])
        order = np.argsort(times, kind="stable")
        times, depths = times[order], self._depth + np.cumsum(steps[order])
        self._depth += len(issued) - len(ended)
        is_last = np.append(times[1:] != times[:-1], True)[: len(times)]
        return np.ascontiguousarray(times[is_last]), np.ascontiguousarray(depths[is_last])


def _first_ns(capture: Capture) -> int:
    """Return the earliest time in the trace."""
    times = ("queue_ns", "issue_ns", "complete_ns")
    first = [table.select(pl.min_horizontal(pl.col(times).min())) for table in (capture.requests, capture.io)]
    return min((table.collect().item() or 0 for table in first), default=0)


def _dev(column: str) -> pl.Expr:
    """Format a device as ``MAJ:MIN``."""
    return pl.format("{}:{}", major(pl.col(column)), minor(pl.col(column))).alias(column)


def _label() -> pl.Expr:
    """Return the name of a track of pieces: the path, or else what is known about the blocks."""
    later = pl.when(pl.col("incarnation") > 0).then(pl.format(", file {} with that number", pl.col("incarnation") + 1))
    block_type = pl.col("block_type").cast(pl.String)
    subtype = pl.col("subtype").cast(pl.String)
    what = (
        pl.when(pl.col("op").cast(pl.String) == "flush")
        .then(pl.lit("flush"))
        .when(pl.col("ino").is_not_null() & block_type.is_in(["data", "directory"]))
        .then(pl.format("inode {}", "ino") + later.fill_null(""))
        .otherwise(pl.concat_str(block_type.fill_null("unknown"), subtype, separator=" ", ignore_nulls=True))
    )
    dev = pl.format("{}:{}", major(pl.col("dev")), minor(pl.col("dev")))
    return pl.coalesce("path", pl.format("{} on {}", what, dev))


def _title() -> pl.Expr:
    """Return the name of a piece's slice: operation, block type, and marks for inferred names."""
    columns = ("map_source", "owner_via")
    said = ["op", "block_type"]
    likely = {"file": is_inferred(["path"], columns) | is_inferred(["ino"], columns)}
    likely |= {"type": is_inferred(["block_type"], columns) & ~likely["file"]}
    likely |= {"owner": is_inferred(["owner_comm"], columns)}
    marks = [pl.when(one).then(pl.lit(quantities.marked(name, 1))) for name, one in likely.items()]
    parts = [pl.concat_str(*(pl.col(name).cast(pl.String) for name in said), separator=" ", ignore_nulls=True), *marks]
    return pl.concat_str(*parts, separator=", ", ignore_nulls=True)


def _numbered(rows: pl.DataFrame, keys: pl.DataFrame, numbers: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Return for each row the number of its key."""
    table = keys.with_columns(number_of=pl.Series(numbers, dtype=pl.UInt32))
    joined = rows.select(keys.columns).join(table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["number_of"].to_numpy()


def _int64(values: pl.Series) -> npt.NDArray[np.int64]:
    """Return the values as Int64, with `_NONE` for null."""
    return np.ascontiguousarray(values.fill_null(_NONE).to_numpy(), np.int64)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


_message = _bytes
"""A nested message is encoded like bytes."""
