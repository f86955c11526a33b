"""Read the logs of strace, made with any options.

A line is ``[thread] [time] [number] [instruction pointer] call(arguments) = result [<duration>]`` (strace 6.1:
syscall.c, ``syscall_entering_trace``, and strace.c, ``printleader``). A call that another thread interrupts takes two
lines. The first ends in ``<unfinished ...>``, the second begins with ``<... call resumed>``.
native/decode/strace/pending.c joins them.

A log written by ``-ff -o name`` is a set of files ``name.TID``, one per thread. Given any of them, the set is read.

Times depend on the options:

- ``-ttt``: CLOCK_REALTIME.
- ``-t``, ``-tt``: nanoseconds since the midnight before the first line, in the recorder's time zone. They continue
  after the next midnight.
- ``-r``: relative to the first line.
- None of them: `ts_ns` is null, and rows are in the order of their lines.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import tasks
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.native import Strings, Table, frame
from androstep_analysis.native import library as _native

PIECE_BYTES = 1 << 20
ROOT_BYTES = 8 << 20
"""The number of bytes that are searched for the id of the first thread."""

LINE_BYTES = 64 << 20
"""A longer line is not a recorded call and is skipped."""

ROWS = 1 << 17
STRINGS_BYTES = 64 << 20
"""The size at which the strings of a table are discarded, since a log may contain new paths without end."""

_LATE_NS = 2_000_000_000
"""A call that takes longer may be appended out of order. Waiting for it would keep all later calls in memory."""

_NO_INT32 = -(1 << 31)
_NO_INT64 = -(1 << 63)
_ROWS_OF_A_LINE = 4
_THREAD, _PROCESS = 1, 2

_TIME = rb"(?:\d\d:\d\d:\d\d(?:\.\d+)?|\d+\.\d+|\d{9,10}) (?:\(\+ *\d+\.\d+\) )?"
_TASK = rb"(?:\[pid +\d+(?:<[^\n]*?>)?\] |\d+(?:<[^\n]*?>)? +)"
_BODY = (
    rb"(?:[a-z_][a-z_0-9]*\([^\n]*(?:\) *\t* *= (?:\?|-?\d|0x)|<unfinished \.\.\.>$)"
    rb"|<\.\.\. [a-z_0-9]+ resumed>|\+\+\+ (?:exited with|killed by) |--- SIG[A-Z0-9]+ \{)"
)
_LINE = re.compile(rb"(?m)^(?P<task>" + _TASK + rb")? *(?P<time>" + _TIME + rb")?(?:\[[^\]\n]*\] )*" + _BODY)
_OF_THREAD = re.compile(r"^(?P<set>.+)\.(?P<tid>\d{1,7})$")
_NAMED = re.compile(rb"(?m)^\[pid +(\d+)")
_CHILD = re.compile(rb"(?m)(?:(?:fork|clone3?)(?:\(| resumed>)|^(?:, | => ))[^\n]*\) += (\d+)")


class _Counts(ctypes.Structure):
    """``struct strace_counts`` of native/decode/strace/strace.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("lines", "unreadable", "torn", "unfinished", "resumed", "forgotten")),
        *((name, ctypes.c_int64) for name in ("first_ns", "last_ns", "pending_ns")),
        ("is_timed", ctypes.c_uint8),
        ("first", ctypes.c_uint8 * 80),
        ("first_length", ctypes.c_uint32),
    )


def sniff(head: bytes) -> bool:
    """Return whether `head` contains a line of a log."""
    return _LINE.search(head) is not None


def read(source: Source, spool: Spool) -> Staging:
    """Read the calls of one log, or of a set of logs with one file per thread.

    `events` counts calls by name, and also signals and ends of threads (``--- SIGCHLD``, ``+++ exited``).
    """
    log = _Log(spool)
    for part, tid in _members(source):
        log.read(part, tid)
    return log.staging()


def _members(source: Source) -> Iterator[tuple[Source, int]]:
    """Yield the files of a log with their threads. The thread is `_NO_INT32` if the lines contain it."""
    name = _OF_THREAD.match(source.path.name)
    if name is None or not _is_of_one_thread(source.head):
        yield source, _root(source)
        return
    matches = (_OF_THREAD.match(Path(other).name) for other in source.siblings)
    tids = {int(other["tid"]) for other in matches if other is not None and other["set"] == name["set"]}
    for tid in sorted(tids | {int(name["tid"])}):
        member = source if tid == int(name["tid"]) else source.load_sibling(f"{name['set']}.{tid}")
        if member is source or _is_of_one_thread(member.head):
            yield member, tid


def _is_of_one_thread(head: bytes) -> bool:
    line = _LINE.search(head)
    return line is not None and line["task"] is None


def _root(source: Source) -> int:
    """Return the thread of the first lines, or `_NO_INT32`.

    With ``-f`` and without ``-o``, strace prints no thread id while there is only one thread. Later lines name the
    first thread, and no call creates it.
    """
    first = source.read(0, ROOT_BYTES)
    roots = set(_NAMED.findall(first))
    if roots:
        roots -= set(_CHILD.findall(first))
    return int(roots.pop()) if len(roots) == 1 else _NO_INT32


class _Log:
    """A log that is being read."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._untimed: Spool | None = None
        self._notes = Strings()
        self._table = Table("syscalls", ROWS)
        self._events: Counter[str] = Counter()
        self._tasks: list[pl.DataFrame] = []
        self._names = tasks.Seen()
        self._spans: list[int] = []
        self._counts: Counter[str] = Counter()
        self._first_unreadable = b""
        self._order = 0
        self._clock: str | None = None

    def read(self, source: Source, tid: int) -> None:
        """Read one file."""
        handle = _native().strace_new(tid, self._order, self._notes.handle)
        if not handle:
            raise MemoryError
        try:
            self._decode(source, handle)
            while not _native().strace_finish(handle, self._table.pointer):
                self._flush(handle)
            self._flush(handle)
            self._add(source, handle)
        finally:
            _native().strace_free(handle)

    def _decode(self, source: Source, handle: int) -> None:
        position, size = 0, PIECE_BYTES
        while position < source.size:
            piece = source.read(position, size)
            is_last = position + len(piece) >= source.size
            start, done = np.frombuffer(piece, np.uint8).ctypes.data, 0
            while True:
                done += _native().strace_decode(handle, start + done, len(piece) - done, is_last, self._table.pointer)
                if done == len(piece) or self._table.capacity - self._table.rows >= _ROWS_OF_A_LINE:
                    break
                self._flush(handle)
            position += done
            size = PIECE_BYTES
            if not done and (len(piece) >= LINE_BYTES or not piece):
                self._counts["overlong"] += 1
                position = _next_line(source, position + len(piece))
            elif not done:
                size = 2 * len(piece)

    def _flush(self, handle: int) -> None:
        counts = _Counts.from_address(_native().strace_counts(handle))
        if self._table.rows:
            pending = np.empty(int(_native().strace_pending(handle, 0, None)), np.int64)
            _native().strace_pending(handle, len(pending), pending.ctypes.data)
            rows = _without(self._table.arrow(), np.sort(pending))
            texts = self._table.strings.array()
            numbers = np.bincount(np.delete(self._table.column("call"), pending))
            for number in np.flatnonzero(numbers):
                self._events[str(texts[int(number)])] += int(numbers[number])
            if counts.is_timed:
                self._spool.append("syscalls", rows)
                named = pl.DataFrame(rows.select(["ts_ns", "tid", "pid", "comm"])).with_columns(
                    pl.col("comm").cast(pl.String)
                )
                self._names.add(named.drop_nulls("comm"))
                settled = counts.last_ns - _LATE_NS
                self._spool.settle(
                    "syscalls", settled if counts.pending_ns == _NO_INT64 else max(counts.pending_ns, settled)
                )
            else:
                self._untimed = self._untimed or Spool()
                self._untimed.append("syscalls", rows)
                if counts.pending_ns == _NO_INT64:
                    self._untimed.settle("syscalls", self._order + counts.lines)
        if self._table.strings.nr_bytes > STRINGS_BYTES:
            self._table = Table("syscalls", ROWS)
        else:
            self._table.clear()

    def _add(self, source: Source, handle: int) -> None:
        """Add the counters, threads and notes of a file."""
        counts = _Counts.from_address(_native().strace_counts(handle))
        self._order += counts.lines
        for name in ("unreadable", "torn", "unfinished", "resumed", "forgotten"):
            self._counts[name] += getattr(counts, name)
        if counts.unreadable and not self._first_unreadable:
            self._first_unreadable = bytes(counts.first[: counts.first_length])
        if counts.is_timed and counts.first_ns != _NO_INT64:
            self._spans += [counts.first_ns, counts.last_ns]
        self._tasks.append(_tasks(handle, self._notes))
        for number, note in enumerate(self._notes.array().to_pylist()):
            if count := int(_native().strace_note_count(handle, number)):
                self._events[str(note)] += count
        if self._clock is None:
            self._clock = _clock(source.head)

    def staging(self) -> Staging:
        """Return the result of the reader after the last file."""
        self._append_untimed()
        return Staging(
            format="strace",
            events=dict(sorted(self._events.items())),
            first_ns=min(self._spans, default=None),
            last_ns=max(self._spans, default=None),
            tasks=_table(pl.concat(self._tasks), self._names.table()),
            clock=self._clock or "unknown",
            realtime_offset_ns=0 if self._clock == "realtime" else None,
            losses=self._losses(),
        )

    def _append_untimed(self) -> None:
        """Append the rows without times.

        They were sorted by line number, so that long calls are at the position of their start.
        """
        if self._untimed is not None:
            for rows in self._untimed.table("syscalls").collect_batches():
                self._spool.append("syscalls", rows.with_columns(ts_ns=pl.lit(None, pl.Int64)))

    def _losses(self) -> tuple[Loss, ...]:
        shown = printable(self._first_unreadable.decode(errors="backslashreplace"))
        texts = {
            "unreadable": ("unreadable", f"lines are not in the format of strace; the first: “{shown}”"),
            "overlong": ("unreadable", f"lines are longer than {LINE_BYTES >> 20} MiB"),
            "torn": ("torn", "files end within a line, which was dropped"),
            "forgotten": ("missing", "calls have no result: too many had begun and not returned"),
        }
        return tuple(
            Loss(kind, self._counts[name], f"{self._counts[name]} {text}")
            for name, (kind, text) in texts.items()
            if self._counts[name]
        )


def _without(rows: pa.Table, left_out: npt.NDArray[np.int64]) -> pa.Table:
    """Return `rows` without those at the sorted indices `left_out`."""
    starts = np.concatenate(([0], left_out + 1))
    ends = np.concatenate((left_out, [rows.num_rows]))
    return pa.concat_tables([rows.slice(int(start), int(end - start)) for start, end in zip(starts, ends, strict=True)])


def _next_line(source: Source, position: int) -> int:
    """Return the offset of the next line after `position`."""
    while piece := source.read(position, PIECE_BYTES):
        newline = piece.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(piece)
    return position


def _clock(head: bytes) -> str:
    """Return the clock of the times in a log."""
    line = _LINE.search(head)
    time = (line["time"] or b"").split(b" ")[0] if line is not None else b""
    if not time:
        return "none"
    if b":" in time:
        return "time of day"
    return "relative" if len(time.split(b".")[0]) < len("100000000") else "realtime"


# --- threads ---------------------------------------------------------------------------------------------------------


def _tasks(handle: int, notes: Strings) -> pl.DataFrame:
    """Return the threads in one file: tid, the thread that created it, whether it is a process, and its name."""
    count = int(_native().strace_tasks(handle, 0, None, None, None, None))
    dtypes = {"tid": np.int32, "parent": np.int32, "kind": np.uint8, "comm": np.uint32}
    columns = {name: np.empty(count, dtype) for name, dtype in dtypes.items()}
    _native().strace_tasks(handle, count, *(values.ctypes.data for values in columns.values()))
    names = pl.DataFrame({"name": notes.array().to_pylist()}, {"name": pl.String}).with_row_index("comm")
    return (
        frame(columns)
        .join(names, on="comm", how="left", maintain_order="left")
        .filter(pl.col("tid") != _NO_INT32)
        .select("tid", pl.when(pl.col("parent") != _NO_INT32).then("parent"), "kind", comm="name")
    )


def _table(threads: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return table `tasks`, with the names of each thread over time (`names`) if the calls have times and names.

    A thread belongs to the process of the thread that created it with CLONE_THREAD.
    """
    merged = threads.group_by("tid").agg(
        pl.col("kind").max(), pl.col("parent").drop_nulls().first(), pl.col("comm").drop_nulls().first()
    )
    parents = {tid: (kind, parent) for tid, kind, parent, _ in merged.rows()}
    pids = [_process(tid, parents) for tid in merged["tid"].to_list()]
    table = (
        merged.select("tid", "comm", pid=pl.Series(pids, dtype=pl.Int32))
        .join(names.select("tid", "valid_from_ns", "valid_to_ns", name="comm"), on="tid", how="left")
        .with_columns(comm=pl.coalesce("name", "comm"))
        .with_columns(tasks.kind(pl.col("comm").fill_null("")))
    )
    return schema.complete(table.drop("name").sort("tid", "valid_from_ns"), "tasks")


def _process(tid: int, parents: dict[int, tuple[int, int | None]]) -> int | None:
    """Return the process of thread `tid`; None if the log does not contain it."""
    seen = set()
    while tid not in seen:
        seen.add(tid)
        kind, parent = parents.get(tid, (0, None))
        if kind == _PROCESS:
            return tid
        if kind != _THREAD or parent is None:
            return None
        tid = parent
    return None
