"""Pair the enter and exit events of system calls into rows of table `syscalls`.

A reader appends rows to table `call_events` in the order in which each thread made the calls. `Pairs` combines them
while the reader continues. Only one call of each thread is in memory.

The work is done by native/syscalls/pairs.c and native/syscalls/rows.c, which receive the tables of `arguments`, `words`
and `numbers`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.syscalls import arguments
from androstep_analysis.ingest.syscalls import numbers as syscall_numbers
from androstep_analysis.ingest.syscalls import words as syscall_words
from androstep_analysis.ingest.syscalls.opened_before import of_processes

TABLE = "call_events"
_FILLS = "syscalls"

_ROWS = 1 << 16
_STRINGS_BYTES = 16 << 20
_LATE_NS = 2_000_000_000
"""A call that takes longer may be appended out of order. Waiting for it would keep all later calls in memory."""

_NO_INT64 = -(1 << 63)
_LAST_INT64 = (1 << 63) - 1
_NO_NUMBER = (1 << 32) - 1
_REGISTERS = 6
_MMAP2_BYTES = 4096
"""The unit of the offset of mmap2, regardless of the page size (mmap2(2))."""
_ALL_BITS = (1 << 64) - 1
_INT_BITS = (1 << 32) - 1

_DESCRIPTOR, _NUMBER, _SIGNED, _LOW_HIGH, _PAGES, _MODE, _WORDS, _DECIMAL, _PATH = range(9)
_ALWAYS, _IF_EQUAL, _IF_ANY, _UNLESS_EQUAL = range(4)
_OPENS, _MAKES, _NO_RETURN, _FLAGS_BY_TASK, _PAIR, _RECEIVES = 1, 2, 4, 8, 16, 32

_READINGS = {
    "64": _LOW_HIGH,
    "low_high": _LOW_HIGH,
    "high_low": _LOW_HIGH,
    "pages": _PAGES,
    "signed": _SIGNED,
    "decimal": _DECIMAL,
    "pointer": _NUMBER,
    "mapped": _DESCRIPTOR,
    "created": _MODE,
}
"""How the arguments are read that have no set of words (`arguments`)."""

_KINDS = {"fd": _DESCRIPTOR, "fd2": _DESCRIPTOR, "path": _PATH, "path2": _PATH, "mode": _MODE}
"""How the arguments of a column are read by default. All remaining columns are numbers."""

_COLUMNS = {
    "fd": "fd",
    "fd2": "fd2",
    "path": "path",
    "path2": "path2",
    "flags": "flags",
    "request": "request",
    "mode": "mode",
    "offset": "offset_bytes",
    "bytes": "bytes",
    "address": "address",
}


@dataclass(frozen=True)
class Machine:
    """The recorded machine: its name as in ``uname -m`` (None if unknown) and the bytes of a long."""

    name: str | None
    long_bytes: int

    @classmethod
    def of(cls, name: str | None, long_bytes: int | None = None) -> Machine:
        """Return the machine with this `uname` name (armv8l, i686, …), and with longs of `long_bytes` if that is known.

        A 64-bit machine may report the name of a 32-bit machine to 32-bit programs.
        """
        name = name or ""
        if name in ("x86_64", "i386", "i486", "i586", "i686"):
            names = {8: "x86_64", 4: "i386"}
        elif name.startswith(("aarch64", "arm")):
            names = {8: "aarch64", 4: "arm"}
        else:
            return cls(None, long_bytes or 8)
        word_bytes = long_bytes or (8 if name.startswith(names[8]) else 4)  # aarch64_be, too
        return cls(names.get(word_bytes), word_bytes)


# --- tables for C ----------------------------------------------------------------------------------------------------


class _Step(ctypes.Structure):
    """``struct step`` of native/syscalls/rows.c."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("column", ctypes.c_uint8),
        ("argument", ctypes.c_uint8),
        ("high", ctypes.c_uint8),
        ("condition", ctypes.c_uint8),
        ("tested", ctypes.c_uint8),
        ("words", ctypes.c_uint16),
        ("operand", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_uint32),
        ("first", ctypes.c_uint32),
        ("count", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
    )


class _Word(ctypes.Structure):
    _fields_ = (
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("name", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
    )


class _WordSet(ctypes.Structure):
    _fields_ = (("first", ctypes.c_uint32), ("count", ctypes.c_uint32))


class _CKnowledge(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("sets", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("nr_numbers", ctypes.c_uint64),
        ("nr_calls", ctypes.c_uint64),
        ("names", ctypes.c_void_p),
        ("task_words", ctypes.c_uint32),
        ("passed", ctypes.c_uint32),
        ("mount_devs", ctypes.c_void_p),
        ("mounts", ctypes.c_void_p),
        ("nr_mounts", ctypes.c_uint64),
        ("long_bytes", ctypes.c_uint64),
    )


class _Counts(ctypes.Structure):
    """``struct pair_counts``."""

    forgotten: int
    nameless: int
    narrow: int
    pending_ns: int
    forgotten_ns: int
    forgotten_call: int
    forgotten_tid: int
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("forgotten", "nameless", "narrow")),
        ("pending_ns", ctypes.c_int64),
        ("forgotten_ns", ctypes.c_int64),
        ("forgotten_call", ctypes.c_uint32),
        ("forgotten_tid", ctypes.c_int32),
    )


class _Knowledge:
    """The system calls of a machine as tables for C."""

    def __init__(self, machine: Machine, mounts: Mapping[int, str]) -> None:
        self._machine = machine
        self.names = native.Strings()
        self._words: list[_Word] = []
        self._sets: dict[str, _WordSet] = {}
        self._texts: list[str] = []
        self._steps: list[_Step] = []
        aliases = dict(arguments.KERNEL_NAMES)
        if machine.long_bytes == 4:
            aliases = {name: of for name, of in aliases.items() if name not in arguments.KERNEL_NAMES_32}
        names = dict.fromkeys(
            (*arguments.CALLS, *arguments.OTHERS, *syscall_numbers.names(machine.name or ""), *aliases)
        )
        call_numbers = {name: self.names.add(name.encode()) for name in names if name is not None}
        kernel_names = {name: aliases.get(name, name) for name in call_numbers}
        self._calls = [self._call(self.names.add(of.encode()), of) for of in kernel_names.values()]
        self._task_words = self._set("clone")
        for word, text in zip(self._words, self._texts, strict=True):
            word.name = self.names.add(text.encode())  # after the names of calls, whose indices equal those of calls
        numbers = [call_numbers.get(name or "", _NO_NUMBER) for name in syscall_numbers.names(machine.name or "")]
        self._arrays = (
            (_Call * len(self._calls))(*self._calls),
            (_Step * len(self._steps))(*self._steps),
            (_Word * len(self._words))(*self._words),
            (_WordSet * len(self._sets))(*self._sets.values()),
            (ctypes.c_uint32 * max(len(numbers), 1))(*numbers),
        )
        devs = (ctypes.c_uint32 * max(len(mounts), 1))(*mounts)
        texts = [self.names.add(mount_point.rstrip("/").encode()) for mount_point in mounts.values()]
        points = (ctypes.c_uint32 * max(len(mounts), 1))(*texts)
        self._mount_arrays = (devs, points)
        self.c = _CKnowledge(
            *(ctypes.addressof(array) for array in self._arrays),
            len(numbers),
            len(call_numbers),
            self.names.handle,
            self._task_words,
            self.names.add(b"SCM_RIGHTS"),
            ctypes.addressof(devs),
            ctypes.addressof(points),
            len(mounts),
            machine.long_bytes,
        )

    def _call(self, number: int, name: str) -> _Call:
        first = len(self._steps)
        self._steps += self._arguments(name)
        flags = _OPENS * (name in arguments.OPENING) | _MAKES * (name in arguments.CREATING_TASKS)
        flags |= _NO_RETURN * (name in arguments.NEVER_RETURNING)
        flags |= _FLAGS_BY_TASK * (name in arguments.FLAGS_BY_TASK)
        flags |= _PAIR * (name in arguments.PAIRING) | _RECEIVES * (name in arguments.RECEIVING)
        return _Call(number, first, len(self._steps) - first, flags)

    def _arguments(self, name: str) -> Iterator[_Step]:
        """Yield the steps for the arguments of a call."""
        register = paths = 0
        for argument in arguments.CALLS.get(name, "").split():
            column, _, how = argument.partition("=")
            is_wide = how == "64" and self._machine.long_bytes == 4
            if is_wide and self._machine.name == "arm":
                register += register % 2
            if column != "-":
                yield from self._steps_of(column, how, register, paths)
            paths += column in ("path", "path2")
            register += 2 if is_wide or how in ("low_high", "high_low") else 1

    def _steps_of(self, column: str, how: str, register: int, path: int) -> Iterator[_Step]:
        if how == "command":
            yield from self._command(register)
        if how and how not in _READINGS:
            yield self._words_step(column, how, register)
            return
        kind = _READINGS.get(how, _KINDS.get(column, _NUMBER))
        is_split = how == "high_low" or (how in ("64", "low_high") and self._machine.long_bytes == 4)
        if kind == _LOW_HIGH and not is_split:
            kind = _KINDS.get(column, _NUMBER)
        step = self._step(kind, column, register, number=path if kind == _PATH else _MMAP2_BYTES)
        if kind == _LOW_HIGH:
            step.argument, step.high = (register + 1, register) if how == "high_low" else (register, register + 1)
        elif how == "mapped":
            step.condition, step.tested, step.operand = _UNLESS_EQUAL, register, _INT_BITS
        elif how == "pointer":
            step.condition, step.tested, step.operand = _IF_ANY, register, _ALL_BITS
        elif how == "created":
            step.condition, step.tested = _IF_ANY, register - 1
            step.operand = syscall_words.CREATE | syscall_words.TMPFILE
        yield step

    def _step(self, kind: int, column: str, register: int, number: int = 0) -> _Step:
        columns = [described.name for described in schema.table("syscalls").columns]
        return _Step(kind, columns.index(_COLUMNS[column]), register, _REGISTERS, _ALWAYS, 0, 0, 0, number)

    def _words_step(self, column: str, how: str, register: int) -> _Step:
        # All flags except those of clone are ints. The upper half of the register is undefined for them.
        step = self._step(_WORDS, column, register, _ALL_BITS if how == "clone" else _INT_BITS)
        step.words = self._set(how)
        return step

    def _command(self, register: int) -> Iterator[_Step]:
        """Yield the steps for the last argument of fcntl, which depends on the command."""
        for how, commands in arguments.COMMANDS.items():
            for command in commands:
                step = (
                    self._step(_DECIMAL, "flags", register + 1)
                    if how == "decimal"
                    else self._words_step("flags", how, register + 1)
                )
                step.condition, step.tested, step.operand = _IF_EQUAL, register, command
                yield step

    def _set(self, name: str) -> int:
        """Return the index of a set of words."""
        if name not in self._sets:
            words = syscall_words.words(name, self._machine.name)
            self._sets[name] = _WordSet(len(self._words), len(words))
            self._words += [_Word(word.mask, word.value, 0, 0) for word in words]
            self._texts += [word.name for word in words]
        return list(self._sets).index(name)


_library = native.library


# --- pairing ---------------------------------------------------------------------------------------------------------


class Pairs:
    """Pairs the system call events of one recording and appends rows to table `syscalls` of a spool."""

    def __init__(
        self,
        spool: Spool,
        machine: Machine,
        mounts: Mapping[int, str] = MappingProxyType({}),
        narrow: Collection[int] = (),
        opened: pl.DataFrame | None = None,
    ) -> None:
        """Create the pairing.

        Parameters
        ----------
        mounts
            The mount point of the filesystem on each device, by `dev`.
        narrow
            Processes that ran 32-bit programs on a 64-bit machine when the recording began. Their call numbers have
            other meanings, so that events with only a number are left out.
        opened
            Rows for files that were already open (`opened_before`). They precede the calls of their processes.
        """
        self._spool = spool
        self._narrow = narrow
        self._machine = machine
        self._mounts = mounts
        self._opened = opened
        self._work: _Work | None = None

    def take(self, events: native.Table) -> None:
        """Add all rows of table `call_events`. The caller empties the table."""
        if events.rows:
            self._work = self._work or _Work(self._spool, _Knowledge(self._machine, self._mounts), self._narrow)
            self._work.take(events)

    def take_frame(self, rows: pl.DataFrame) -> None:
        """Add rows as `take` does, from a DataFrame."""
        events = native.Table(TABLE, rows.height)
        events.fill(rows)
        self.take(events)

    def finish(self) -> tuple[Loss, ...]:
        """Append the remaining rows, including calls that did not return, and return the losses."""
        if self._work is None:
            return ()
        counts = self._work.finish()
        if self._opened is not None and self._work.pids:
            before_ns = self._work.first_ns - 1
            self._spool.append("syscalls", of_processes(self._opened, sorted(self._work.pids), before_ns))
        return tuple(self._losses(self._work, counts))

    def _losses(self, work: _Work, counts: _Counts) -> Iterator[Loss]:
        if counts.forgotten:
            first = f"{work.call_name(counts.forgotten_call)} of thread {counts.forgotten_tid}"
            message = (
                f"{counts.forgotten} calls have no result: their exit events were not recorded "
                f"(the first: {first}, {counts.forgotten_ns / 1e9:.6f} s)"
            )
            yield Loss("missing", counts.forgotten, message, (_FILLS,))
        if counts.nameless:
            message = f"{counts.nameless} events have call numbers that {self._machine.name} does not have"
            if self._machine.name is None:
                message = f"{counts.nameless} events identify calls only by number, and the machine is unknown"
            yield Loss("unreadable", counts.nameless, message, (_FILLS,))
        if counts.narrow:
            message = (
                f"{counts.narrow} events are calls of 32-bit programs, which have other numbers; they are left out"
            )
            yield Loss("unreadable", counts.narrow, message, (_FILLS,))


class _Work:
    """``struct pairs`` with the table that it fills.

    `pids` are the processes that made calls. `first_ns` is the start of the first call.
    """

    def __init__(self, spool: Spool, knowledge: _Knowledge, narrow: Collection[int]) -> None:
        self._spool = spool
        self._knowledge = knowledge
        self._handle = native.owned(self, _library().pairs_free, _library().pairs_new(ctypes.byref(knowledge.c)))
        self._calls = native.Table("syscalls", _ROWS)
        self._events: native.Table | None = None
        self._last_ns = _NO_INT64
        self.first_ns = _LAST_INT64
        self.pids: set[int] = set()
        for pid in narrow:
            if not _library().pairs_narrow(self._handle, pid):
                raise MemoryError
        _library().pairs_output(self._handle, self._calls.pointer)

    def take(self, events: native.Table) -> None:
        if events is not self._events:  # emptying a table keeps its strings
            self._events = events
            _library().pairs_input(self._handle, events.pointer)
        self._last_ns = max(self._last_ns, int(events.column("ts_ns")[-1]))
        row = 0
        while (row := int(_library().pairs_take(self._handle, row))) < events.rows:
            self._flush()
        if 2 * self._calls.rows > _ROWS:
            self._flush()

    def finish(self) -> _Counts:
        """Append rows for the calls that did not return, and return the counters."""
        while not _library().pairs_finish(self._handle):
            self._flush()
        self._flush()
        return self._counts()

    def call_name(self, number: int) -> str:
        """Return the name of a call by its index in the counters."""
        return str(self._knowledge.names.array()[number])

    def _counts(self) -> _Counts:
        return _Counts.from_address(_library().pairs_counts(self._handle))

    def _flush(self) -> None:
        """Pass the rows to the spool. No later row starts before the oldest pending call."""
        if self._calls.rows:
            self.first_ns = min(self.first_ns, int(self._calls.column("ts_ns").min()))
            self.pids.update(np.unique(self._calls.column("pid")).tolist())
            self._spool.append("syscalls", self._calls.arrow())
            pending_ns, settled_ns = self._counts().pending_ns, self._last_ns - _LATE_NS
            self._spool.settle("syscalls", self._last_ns if pending_ns == _NO_INT64 else max(pending_ns, settled_ns))
        if self._calls.strings.nr_bytes > _STRINGS_BYTES:
            self._calls = native.Table("syscalls", _ROWS)
            _library().pairs_output(self._handle, self._calls.pointer)
        else:
            self._calls.clear()
