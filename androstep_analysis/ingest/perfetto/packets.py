"""Read the rare packets of a Perfetto trace: clocks, processes, packages, counters, and the recorder's statistics.

They are parsed here field by field. The events, which are numerous, are read in C (native/decode/perfetto/perfetto.c).
Field numbers are those of protos/perfetto/trace and protos/perfetto/common of github.com/google/perfetto, v58.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest.perfetto.fields import MEMINFO, VMSTAT

Value = int | memoryview

BOOTTIME, REALTIME = 6, 1
"""Numbers of clocks (BuiltinClock)."""

_NO_TIME = 1 << 62
_LOCAL_CLOCKS = range(64, 128)
"""Clocks that are defined per packet sequence."""

_KTHREADD = 2
"""The parent process of kernel threads."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield number and value of the fields of a message, up to its end or damage. Fields with a length are bytes."""
    return ((number, value) for number, value, _ in walk(message))


def walk(message: memoryview) -> Iterator[tuple[int, Value, int]]:
    """Yield the fields as `fields` does, each with its end offset."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if position < 0 or not number:
            return
        value: Value
        if kind == 0:
            value, position = _varint(message, position)
            if position < 0:
                return
        elif kind in (1, 5):
            value = int.from_bytes(message[position : position + (8 if kind == 1 else 4)], "little")
            position += 8 if kind == 1 else 4
        elif kind == 2:
            length, position = _varint(message, position)
            if position < 0:
                return
            value = message[position : position + length]
            position += length
        else:
            return
        if position > len(message):
            return
        yield number, value, position


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the number at `position` and its end offset, -1 if it is truncated."""
    value = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
        shift += 7
    return 0, -1


def _text(value: Value) -> str:
    return bytes(value).decode(errors="backslashreplace") if isinstance(value, memoryview) else ""


def _number(value: Value) -> int:
    """Return the signed number, or 0 for bytes."""
    if isinstance(value, memoryview):
        return 0
    return value - (1 << 64) if value >> 63 else value


def _messages(message: Value, *path: int) -> Iterator[memoryview]:
    """Yield the messages in the nested fields of `path`."""
    if not isinstance(message, memoryview):
        return
    if not path:
        yield message
        return
    for number, value in fields(message):
        if number == path[0]:
            yield from _messages(value, *path[1:])


def _singles(message: Value) -> dict[int, Value]:
    """Return the last value of each field of a message."""
    return dict(fields(message)) if isinstance(message, memoryview) else {}


# --- clocks ----------------------------------------------------------------------------------------------------------


@dataclass
class Clocks:
    """The offsets of clocks: CLOCK_BOOTTIME minus each clock, from the first snapshot that contains it."""

    before_boot: dict[int, int] = field(default_factory=dict)

    def read(self, snapshot: memoryview) -> None:
        """Add a ClockSnapshot."""
        times: dict[int, int] = {}
        for clock in _messages(snapshot, 1):
            of = _singles(clock)
            if 1 in of and 2 in of and _number(of[1]) not in _LOCAL_CLOCKS:
                times[_number(of[1])] = _number(of[2]) * max(_number(of.get(4, 1)), 1)
        if BOOTTIME in times:
            for clock_id, time in times.items():
                self.before_boot.setdefault(clock_id, times[BOOTTIME] - time)

    def to_boot(self, clock: int, time: int) -> int | None:
        """Return CLOCK_BOOTTIME at `time` of `clock` (0: unset); None if that is unknown or overflows."""
        offset = 0 if clock in (0, BOOTTIME) else self.before_boot.get(clock)
        return time + offset if offset is not None and abs(time + offset) < _NO_TIME else None

    @property
    def realtime_offset_ns(self) -> int | None:
        """CLOCK_REALTIME minus CLOCK_BOOTTIME."""
        return -self.before_boot[REALTIME] if REALTIME in self.before_boot else None


# --- processes -------------------------------------------------------------------------------------------------------


@dataclass
class Processes:
    """Processes and threads: process and name of each thread, user and command line of each process.

    A reading holds for the process that had the id at that time (CLOCK_BOOTTIME; None if unknown).
    """

    tgids: dict[tuple[int, int], tuple[int | None, int | None]] = field(default_factory=dict)
    """The first and the last time when a thread was read to be of a process."""
    names: dict[int, str] = field(default_factory=dict)
    users: list[tuple[int, int | None, str | None, int | None]] = field(default_factory=list)
    """A process, the time, its command line and its user."""
    packages: dict[int, str] = field(default_factory=dict)
    """Packages by user."""

    def read_tree(self, tree: memoryview, boot_ns: int | None) -> None:
        """Add a ProcessTree of this time."""
        for number, value in fields(tree):
            if number == 1 and isinstance(value, memoryview):
                self._read_process(value, boot_ns)
            elif number == 2:
                thread = _singles(value)
                tid = _tid(thread.get(1, 0))
                self._read_thread(tid, _tid(thread.get(3, 0)), boot_ns)
                if 2 in thread:
                    self.names[tid] = _text(thread[2])

    def _read_process(self, process: memoryview, boot_ns: int | None) -> None:
        singles = _singles(process)
        words = [_text(value) for number, value in fields(process) if number == 3]
        pid = _tid(singles.get(1, 0))
        self._read_thread(pid, pid, boot_ns)
        is_kernel = bool(singles.get(8)) or _KTHREADD in (pid, singles.get(2))
        if words and (is_kernel or singles.get(9)):
            self.names[pid] = words[0]
            words = []
        if words or 5 in singles:
            uid = _tid(singles[5]) if 5 in singles else None
            self.users.append((pid, boot_ns, " ".join(words) or None, uid))

    def _read_thread(self, tid: int, pid: int, boot_ns: int | None) -> None:
        first_ns, _ = self.tgids.get((tid, pid), (boot_ns, None))
        self.tgids[tid, pid] = first_ns, boot_ns

    def read_statistics(self, statistics: memoryview, boot_ns: int | None) -> None:
        """Add a ProcessStats of this time, which lists the threads of processes."""
        for process in _messages(statistics, 1):
            pid = _tid(_singles(process).get(1, 0))
            for tid in (pid, *(_tid(_singles(thread).get(1, 0)) for thread in _messages(process, 11))):
                self._read_thread(tid, pid, boot_ns)

    def read_packages(self, packages: memoryview) -> None:
        """Add a PackagesList. Of several packages with the same user, the first is used."""
        for package in _messages(packages, 1):
            singles = _singles(package)
            self.packages.setdefault(_tid(singles.get(2, 0)), _text(singles.get(1, memoryview(b""))))

    def processes(self, boot_offset: int) -> pl.DataFrame:
        """Return the readings of `tgids` for `threads.versions`, in the clock that is `boot_offset` behind."""
        read = [(tid, time, pid) for (tid, pid), times in self.tgids.items() for time in times]
        rows = pl.DataFrame(read, {"tid": pl.Int32, "ts_ns": pl.Int64, "saved": pl.Int32}, orient="row")
        return rows.with_columns(pl.col("ts_ns") - boot_offset).unique(maintain_order=True)

    def attributes(self, boot_offset: int) -> pl.DataFrame:
        """Return the readings of `users`: pid, ts_ns, cmdline, uid, package."""
        columns = {"pid": pl.Int32, "ts_ns": pl.Int64, "cmdline": pl.String, "uid": pl.Int32}
        packages = pl.Series(
            [uid if uid is None else self.packages.get(_app(uid)) for *_, uid in self.users], dtype=pl.String
        )
        rows = pl.DataFrame(self.users, columns, orient="row")
        return rows.with_columns(pl.col("ts_ns") - boot_offset, package=packages)


_PER_USER = 100_000
"""The number of Linux users per Android user (AID_USER_OFFSET). Packages are listed for the first Android user."""


def _app(uid: int) -> int:
    return uid % _PER_USER


def _tid(value: Value) -> int:
    """Return a thread, process or user id as Int32."""
    number = _number(value) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


# --- counters --------------------------------------------------------------------------------------------------------

_CPU_TIMES = {2: "user", 3: "nice", 4: "system", 5: "idle", 6: "iowait", 7: "irq", 8: "softirq", 9: "steal"}
_DISK = {
    2: ("read_sectors", "512 B sectors"),
    3: ("read_ticks", "ms"),
    4: ("write_sectors", "512 B sectors"),
    5: ("write_ticks", "ms"),
    6: ("discard_sectors", "512 B sectors"),
    7: ("discard_ticks", "ms"),
    8: ("flush_ios", "I/Os"),
    9: ("flush_ticks", "ms"),
}
_PRESSURE = {1: "cpu.some", 2: "cpu.full", 3: "io.some", 4: "io.full", 5: "memory.some", 6: "memory.full"}
_TOTALS = {4: "processes", 5: "intr", 7: "softirq"}


@dataclass
class Samples:
    """Rows of table `samples` under construction."""

    rows: list[tuple[int, str, str | None, str, int, str]] = field(default_factory=list)

    def read(self, counters: memoryview, ts_ns: int) -> None:
        """Add a SysStats with this time. Disks have only names: the packet has no device numbers."""
        for number, value in fields(counters):
            for scope, instance, counter, amount, unit in _counters(number, value):
                if amount < 1 << 63:
                    self.rows.append((ts_ns, scope, instance, counter, amount, unit))

    def take(self) -> pl.DataFrame:
        """Return the rows so far and clear them."""
        return _cleared(self.rows, "samples", ("ts_ns", "scope", "instance", "counter", "value", "unit"))


@dataclass
class Readings:
    """Rows of table `importance` under construction, from the recorder's readings of /proc/PID/oom_score_adj."""

    rows: list[tuple[int, str, int, int]] = field(default_factory=list)

    def read(self, statistics: memoryview, ts_ns: int) -> None:
        """Add a ProcessStats with this time. It contains only values that changed since the previous one."""
        for process in _messages(statistics, 1):
            singles = _singles(process)
            if 10 in singles and -_MOST_SCORE <= (score := _number(singles[10])) <= _MOST_SCORE:
                self.rows.append((ts_ns, "reading", _tid(singles.get(1, 0)), score))

    def take(self) -> pl.DataFrame:
        """Return the rows so far and clear them."""
        return _cleared(self.rows, "importance", ("ts_ns", "event", "task", "oom_score_adj"))


_MOST_SCORE = 1000
"""OOM_SCORE_ADJ_MAX (include/uapi/linux/oom.h)."""


def _cleared(rows: list[Any], table: str, names: Sequence[str]) -> pl.DataFrame:
    """Return rows with these columns as a table, and clear the list."""
    types = schema.table(table).polars
    frame = pl.DataFrame(rows, schema={name: types[name] for name in names}, orient="row")
    rows.clear()
    return schema.complete(frame, table)


def _counters(number: int, value: Value) -> Iterator[tuple[str, str | None, str, int, str]]:
    """Yield scope, instance, counter, value and unit in a field of SysStats, with the counter names of procmon."""
    singles = _singles(value)
    if number == 1 and (counter := MEMINFO.get(_number(singles.get(1, 0)))):
        yield "system", None, f"meminfo.{counter}", _number(singles.get(2, 0)), "kB"
    elif number == 2 and (counter := VMSTAT.get(_number(singles.get(1, 0)))):
        yield "system", None, f"vmstat.{counter}", _number(singles.get(2, 0)), "count"
    elif number == 3:
        for field_number, time in _CPU_TIMES.items():
            if field_number in singles:
                yield "cpu", str(_number(singles.get(1, 0))), f"stat.{time}", _number(singles[field_number]), "ns"
    elif number in _TOTALS:
        yield "system", None, f"stat.{_TOTALS[number]}", _number(value), "count"
    elif number == 13:
        for field_number, (name, unit) in _DISK.items():
            if field_number in singles:
                yield "device", _text(singles.get(1, 0)), f"diskstats.{name}", _number(singles[field_number]), unit
    elif number == 14 and (counter := _PRESSURE.get(_number(singles.get(1, 0)))):
        yield "system", None, f"pressure.{counter}", _number(singles.get(2, 0)), "ns"


# --- the recorder ----------------------------------------------------------------------------------------------------

_START, _END = 1, 2
_LOST = {3: "overrun", 4: "commit overrun", 8: "dropped"}
_BUFFER = {3: "overwritten", 18: "discarded", 19: "packets lost", 6: "patches failed", 9: "violations"}


_SYSTEM = {2: "build_fingerprint", 9: "soc", 11: "storage_model"}


@dataclass
class Recorder:
    """The recorder's statistics: events that the kernel lost on each CPU, and losses in the recorder's own buffers."""

    cpus: dict[int, dict[tuple[int, str], int]] = field(default_factory=lambda: defaultdict(dict))
    buffers: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    facts: dict[str, str | int] = field(default_factory=dict)
    machine: str | None = None

    def read_ftrace_statistics(self, statistics: memoryview) -> None:
        """Add an FtraceStats from the start or the end of the recording."""
        entries = list(fields(statistics))
        phase = next((_number(value) for number, value in entries if number == 1), _END)
        for number, value in entries:
            if number == 2:
                of = _singles(value)
                for field_number, name in _LOST.items():
                    self.cpus[_number(of.get(1, 0))][phase, name] = _number(of.get(field_number, 0))
            elif number in (6, 7):
                self.refused.add(_text(value).split("/")[-1])

    def read_trace_statistics(self, statistics: memoryview) -> None:
        """Add a TraceStats. Its counts are cumulative, so that the last one counts."""
        counts = dict.fromkeys(_BUFFER.values(), 0)
        for buffer in _messages(statistics, 1):
            for number, value in fields(buffer):
                if number in _BUFFER:
                    counts[_BUFFER[number]] += _number(value)
        self.buffers = counts

    def read_system(self, system: memoryview) -> None:
        """Add a SystemInfo: kernel, Android build, chip models."""
        singles = _singles(system)
        kernel = _singles(singles.get(1, 0))
        if 3 in kernel:
            self.facts["kernel"] = _text(kernel[3])
        self.machine = _text(kernel.get(4, 0)) or self.machine
        for number, name in _SYSTEM.items():
            if text := _text(singles.get(number, 0)):
                self.facts[name] = text
        if 0 < (sdk := _number(singles.get(5, 0))) < 1 << 31:
            self.facts["sdk"] = sdk
        if 0 < (page_bytes := _number(singles.get(6, 0))) < 1 << 31:
            self.facts["page_bytes"] = page_bytes

    def lost(self, name: str) -> int:
        """Return how many events all CPUs lost in this way during the recording."""
        counts = ((cpu.get((_START, name), 0), cpu.get((_END, name), 0)) for cpu in self.cpus.values())
        return sum(max(after - before, 0) for before, after in counts)

    def losses(self) -> Iterator[Loss]:
        """Yield the losses between the kernel and the file."""
        overrun, dropped = self.lost("overrun"), self.lost("dropped") + self.lost("commit overrun")
        if overrun:
            yield Loss("overwritten", overrun, f"{overrun} events were overwritten before they were read")
        if dropped:
            yield Loss("dropped", dropped, f"{dropped} events were dropped by the kernel: its buffer was full")
        if count := self.buffers.get("overwritten", 0):
            yield Loss("wrapped", count, f"{count} chunks of the recorder's buffer were overwritten by later ones")
        if count := self.buffers.get("discarded", 0) + self.buffers.get("packets lost", 0):
            yield Loss("dropped", count, f"{count} packets did not fit into the recorder's buffers")
        if count := self.buffers.get("patches failed", 0) + self.buffers.get("violations", 0):
            yield Loss(
                "unreadable", count, f"{count} fragments of packets came too late for the recorder, or were damaged"
            )
        if self.refused:
            names = printable(", ".join(sorted(self.refused)[:20]))
            message = f"{len(self.refused)} requested events could not be recorded: {names}"
            yield Loss("missing", len(self.refused), message, ())
