"""Read the binary traces of blktrace, as blktrace, its server and ``blkparse -d`` write them.

blktrace writes a file ``NAME.blktrace.N`` for each CPU. Given any of them, the set is read. A single file is a set of
one: the output of ``blkparse -d``, or the stream of ``blktrace -o -``, in which the CPUs alternate.

Records are ``struct blk_io_trace`` (version 7) and, since Linux 6.19, ``struct blk_io_trace2`` (version 8), of either
endianness (include/uapi/linux/blktrace_api.h). Payloads that may cross machines (remap, split, unplug) are always
big-endian.

Table `block_events` equals the one that `blkparse` produces from blkparse's text of the same files, with these
differences:

- Times are those of the kernel, not relative to the first event.
- Events without a length have a sector, as in the kernel's tracepoints. Completions of passthrough requests have a
  length.
- Events that blkparse 1.2.0 does not print have rows: driver data and aborts (action ``other``), and events of control
  groups.
- Zone events have the names that blkparse uses since Linux 6.19 (``ZP``, ``ZU``), and ``ZA`` if a device reports the
  location of a zone append.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from androstep_analysis import native
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import tasks
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import FLAGS, Staging

_MEMBER = re.compile(r"(?P<base>.+)\.blktrace\.(?P<cpu>[0-9]{1,6})(?:\.(?:gz|xz|zst|zip))?")
"""The name of a file in a set."""

_MAGIC = re.compile(rb"[\x07\x08]tae|eat[\x07\x08]")
_HEADER_BYTES = {7: 48, 8: 64}

_TABLE_ROWS = 1 << 16
_FED_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_LEAST_PIECE_BYTES = 1 << 18
"""Bytes in memory at once: `_FED_BYTES` for all streams, and `_PIECE_BYTES` at most and `_LEAST_PIECE_BYTES` at least
for one stream. A record has up to 65,599 bytes.
"""

_NO_TIME = -(1 << 63)


def sniff(head: bytes) -> bool:
    """Return whether `head` begins with a record, or contains two consecutive ones.

    The beginning may be damaged.
    """
    return any(match.start() == 0 or _follows(head, match) for match in _MAGIC.finditer(head))


def _follows(head: bytes, match: re.Match[bytes]) -> bool:
    """Return whether a record begins where the record at `match` ends."""
    is_little = match[0].endswith(b"tae")
    version = match[0][0 if is_little else 3]
    end = match.start() + _HEADER_BYTES[version]
    length = head[end - 2 : end] if version == 7 else head[end - 14 : end - 12]
    return _MAGIC.match(head, end + int.from_bytes(length, "little" if is_little else "big")) is not None


def first_members(path: Path) -> list[Path]:
    """Return one file of each set at `path`: the common name of a set, a directory of sets, or a file of a set.

    It is the first non-empty file of the set. blktrace leaves empty files for idle CPUs.
    """
    directory = path if path.is_dir() else path.parent
    if not directory.is_dir():
        return []
    this = _MEMBER.fullmatch(path.name)
    wanted = None if path.is_dir() else this["base"] if this else path.name.removesuffix(".blktrace")
    sets: dict[str, tuple[bool, int, str]] = {}
    for file in directory.iterdir():
        if (member := _MEMBER.fullmatch(file.name)) and wanted in (None, member["base"]) and file.is_file():
            rank = (file.stat().st_size == 0, int(member["cpu"]), file.name)
            sets[member["base"]] = min(sets.get(member["base"], rank), rank)
    return [directory / name for _, (_, _, name) in sorted(sets.items())]


def read(source: Source, spool: Spool) -> Staging:
    """Read the events of all CPUs. `events` counts them by blkparse's letters.

    `clock` is the monotonic clock of the kernel. In a file from ``blkparse -d``, times are relative to the first event,
    whose own time is not recorded. Clock and `realtime_offset_ns` are then unknown.

    `lost_events` counts the gaps in the sequence numbers of each CPU.
    """
    files, losses = _set(source)
    trace = _Trace(files)
    trace.survey()
    report = trace.report
    is_rebased = report.earliest_ns != _NO_TIME and report.earliest_ns <= 0
    # blkparse -d does not shift the times of notes. The first note precedes the first event by some milliseconds.
    trace.merge(spool, report.first_name_ns if is_rebased and report.first_name_ns != _NO_TIME else 0)
    has_offset = report.clock_ns != _NO_TIME and not is_rebased
    return Staging(
        format="blktrace",
        events=trace.counts(),
        first_ns=None if report.first_ns == _NO_TIME else report.first_ns,
        last_ns=None if report.last_ns == _NO_TIME else report.last_ns,
        tasks=trace.tasks(),
        clock="unknown" if is_rebased else "mono",
        realtime_offset_ns=report.realtime_ns - report.clock_ns if has_offset else None,
        lost_events=report.missing,
        losses=(*losses, *_losses(report, trace.counts().get("unknown", 0))),
        flags=FLAGS,
    )


def members(source: Source) -> tuple[str, ...]:
    """Return the names of the files in the set of `source`, by CPU."""
    return tuple(_names(source).values())


def _names(source: Source) -> dict[int, str]:
    """Return the file of each CPU. If a CPU has several (packed and not), prefer `source`, else the first by name."""
    this = _MEMBER.fullmatch(source.path.name)
    if this is None:
        return {0: source.path.name}
    names = {int(this["cpu"]): source.path.name}
    for name in source.siblings:
        member = _MEMBER.fullmatch(name)
        if member is not None and member["base"] == this["base"]:
            names.setdefault(int(member["cpu"]), name)
    return dict(sorted(names.items()))


def _set(source: Source) -> tuple[list[Source], tuple[Loss, ...]]:
    """Return the files in the set of `source` by CPU, and their losses."""
    names = _names(source)
    files = [source if name == source.path.name else source.load_sibling(name) for name in names.values()]
    losses = [
        Loss(loss.kind, loss.count, f"{printable(file.path.name)}: {loss.message}")
        for file in files
        if file is not source
        for loss in file.losses
    ]
    missing = [cpu for cpu in range(max(names)) if cpu not in names] if _MEMBER.fullmatch(source.path.name) else []
    if missing:
        named = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        losses.append(Loss("missing", len(missing), f"files of the set are missing: those of CPU {named}"))
    return files, tuple(losses)


def _losses(report: _Report, unknown: int) -> Iterator[Loss]:
    counted = (
        ("torn", report.torn, "records are incomplete"),
        ("unreadable", report.gaps, f"gaps hold bytes that are not records ({report.gap_bytes} bytes in total)"),
        ("unreadable", unknown, "records have an unknown action"),
        ("unreadable", report.names_left, "names of threads exceed the capacity"),
        ("dropped", report.missing, "events are missing by their sequence numbers"),
    )
    return (Loss(kind, count, f"{count} {what}") for kind, count, what in counted if count)


# --- the decoder -----------------------------------------------------------------------------------------------------


class _Report(ctypes.Structure):
    """``struct blktrace_report`` of native/decode/blktrace/state.h."""

    _fields_ = (
        ("counts", ctypes.c_uint64 * 23),
        ("first_ns", ctypes.c_int64),
        ("last_ns", ctypes.c_int64),
        ("torn", ctypes.c_uint64),
        ("gaps", ctypes.c_uint64),
        ("gap_bytes", ctypes.c_uint64),
        ("missing", ctypes.c_uint64),
        ("names_left", ctypes.c_uint64),
        ("clock_ns", ctypes.c_int64),
        ("realtime_ns", ctypes.c_int64),
        ("first_name_ns", ctypes.c_int64),
        ("earliest_ns", ctypes.c_int64),
        ("is_disordered", ctypes.c_uint32),
    )


_library = native.library


@dataclass
class _Stream:
    """A file that is being read.

    `data` is the buffer passed to C, which begins at `offset`. `is_last`: it is the end of the file.
    """

    source: Source
    offset: int = 0
    data: bytes = b""
    is_last: bool = False


@dataclass(eq=False)
class _Trace:
    """The compiled decoder with the files of a set."""

    files: Sequence[Source]
    strings: native.Strings = field(default_factory=native.Strings)

    def __post_init__(self) -> None:
        self._library = _library()
        self._handle = native.owned(
            self, self._library.blktrace_free, self._library.blktrace_new(self.strings.handle, len(self.files))
        )
        self._streams = [_Stream(source) for source in self.files]
        self._piece = max(_LEAST_PIECE_BYTES, min(_PIECE_BYTES, _FED_BYTES // len(self.files)))

    @property
    def report(self) -> _Report:
        """The counters and clocks of the decoder so far."""
        return _Report.from_address(self._library.blktrace_report(self._handle))

    def counts(self) -> dict[str, int]:
        """Return the number of events of each kind, by name."""
        names = [self._library.blktrace_event(number).decode() for number in range(len(self.report.counts))]
        return {name: count for name, count in sorted(zip(names, self.report.counts, strict=True)) if name and count}

    def survey(self) -> None:
        """Read the names of threads in all files."""
        for number, stream in enumerate(self._streams):
            while self._feed(number):
                self._library.blktrace_survey(self._handle, number)
            self._streams[number] = _Stream(stream.source)

    def merge(self, spool: Spool, shift_ns: int) -> None:
        """Append the rows of all files in order of time.

        `shift_ns` is the lead of the times of names over those of events.
        """
        self._library.blktrace_surveyed(self._handle, shift_ns)
        is_ordered = not self.report.is_disordered
        table = native.Table("block_events", _TABLE_ROWS, self.strings)
        end = len(self._streams)
        number = -1
        while number != end:
            number = self._library.blktrace_merge(self._handle, table.pointer)
            if number < end:
                self._feed(number)
            elif table.rows:
                if is_ordered:
                    spool.settle("block_events", int(table.column("ts_ns")[-1]))
                spool.append("block_events", table.arrow())
                table.clear()

    def _feed(self, number: int) -> bool:
        """Pass the next piece of a file to C. Return False if the file had already ended."""
        stream = self._streams[number]
        if stream.is_last:
            return False
        if stream.data:
            stream.offset += self._library.blktrace_used(self._handle, number)
        stream.data = stream.source.read(stream.offset, self._piece)
        stream.is_last = stream.offset + len(stream.data) >= stream.source.size or len(stream.data) < self._piece
        self._library.blktrace_feed(self._handle, number, stream.data, len(stream.data), stream.is_last)
        return True

    def tasks(self) -> pl.DataFrame:
        """Return table `tasks`: the threads whose names the kernel noted, and the remaining threads."""
        nr_names = self._library.blktrace_nr_names(self._handle)
        pids = np.empty(self._library.blktrace_nr_threads(self._handle), np.uint32)
        named, ts_ns = np.empty(nr_names, np.uint32), np.empty(nr_names, np.int64)
        strings = np.empty(nr_names, np.uint32)
        self._library.blktrace_threads(
            self._handle, pids.ctypes.data, named.ctypes.data, ts_ns.ctypes.data, strings.ctypes.data
        )
        texts = pa.DictionaryArray.from_arrays(_array(pa.int32(), strings), self.strings.array())
        seen = tasks.Seen(is_noted=True)
        seen.add(_threads(named, ts_ns, texts.cast(pa.string())))
        seen.add(_threads(pids, np.zeros(pids.size, np.int64), pa.nulls(pids.size, pa.string())))
        return seen.table()


def _threads(pids: npt.NDArray[np.uint32], ts_ns: npt.NDArray[np.int64], comm: pa.Array[Any]) -> pl.DataFrame:
    """Return the threads as rows for `tasks.Seen`, without invalid thread ids."""
    rows = {"ts_ns": _array(pa.int64(), ts_ns), "tid": _array(pa.uint32(), pids), "comm": comm}
    is_thread = pl.col("tid") <= np.iinfo(np.int32).max
    frame = pl.DataFrame(pa.table(rows)).filter(is_thread)
    return frame.with_columns(pl.col("tid").cast(pl.Int32), pl.col("comm").cast(pl.String), pid=pl.lit(None, pl.Int32))


def _array(dtype: pa.DataType, values: npt.NDArray[np.generic]) -> pa.Array[Any]:
    """Return an Arrow array of these values without importing pandas, as polars and pyarrow would."""
    return pa.Array.from_buffers(dtype, values.size, [None, pa.py_buffer(values.data)])
