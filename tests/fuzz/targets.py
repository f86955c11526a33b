"""Prepare the fuzzers: tables, and the calls by which the readers set their decoders up.

The setup calls of a reader are recorded once and repeated on the decoder of each input (fuzz.h). Calling the reader
itself for each input would take 0.2 ms (lines) to 2 ms (Perfetto, 1,496 calls).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from androstep_analysis import native
from androstep_analysis.ingest import Spool, source
from androstep_analysis.ingest.block import blkparse, csv, most, opencas
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.ftrace import programs as ftrace_programs
from androstep_analysis.ingest.ftrace import text as ftrace_text
from androstep_analysis.ingest.perfetto import block_io, decoder
from androstep_analysis.ingest.syscalls import arguments as syscall_arguments
from androstep_analysis.ingest.syscalls import pairs
from androstep_analysis.replay.words import FLAGS

ROWS = 32
"""Capacity of a table, so small that it is often full."""

MOST_ROWS_OF_LINE = 64
"""The counters of an event in text: at most one for each step of a form (native/decode/text/forms.h, MAX_STEPS)."""

_DEMO = Path(__file__).resolve().parents[2] / "datasets" / "demo" / "raw" / "trace.dat.zst"
_MAX_TABLES, _MAX_SETUPS, _MAX_EXTRA, _MAX_ARGUMENTS = 8, 8, 8, 7


class _SetupCall(ctypes.Structure):
    _fields_ = (("function", ctypes.c_void_p), ("arguments", ctypes.c_uint64 * _MAX_ARGUMENTS))


def _setup_call(function: Any, *arguments: int) -> _SetupCall:
    return _SetupCall(ctypes.cast(function, ctypes.c_void_p), (ctypes.c_uint64 * _MAX_ARGUMENTS)(*arguments))


class _Prepared(ctypes.Structure):
    """``struct prepared`` of fuzz.h."""

    _fields_ = (
        ("tables", ctypes.c_void_p * _MAX_TABLES),
        ("setups", ctypes.c_void_p * _MAX_SETUPS),
        ("nr_setup_calls", ctypes.c_size_t * _MAX_SETUPS),
        ("nr_setups", ctypes.c_size_t),
        ("extra", ctypes.c_void_p * _MAX_EXTRA),
    )


@dataclass
class Preparation:
    """Data for a fuzzer. `references` keeps the objects alive that C has addresses of."""

    tables: list[native.Table] = field(default_factory=list)
    setups: list[list[_SetupCall]] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    references: list[object] = field(default_factory=list)

    def table(self, name: str, rows: int = ROWS) -> native.Table:
        """Add an empty table. Its strings belong to C."""
        made = native.Table(name, rows)
        made._c.strings = native.library().strings_new()
        self.tables.append(made)
        return made

    def record_setup(self, module: ModuleType, configure: Callable[[], object]) -> None:
        """Add the sequence of calls that `configure` makes on a handle through the library of `module`."""
        library, calls = module._library(), list[_SetupCall]()
        module._library = lambda: _Recorder(library, calls, self.references)  # type: ignore[attr-defined]
        try:
            self.references.append(configure())
        finally:
            module._library = lambda: library  # type: ignore[attr-defined]
        self.setups.append(calls)

    def publish(self) -> object:
        """Copy the addresses to C and return the object that keeps them valid."""
        prepared = _Prepared.in_dll(native.library(), "prepared")
        for number, table in enumerate(self.tables):
            prepared.tables[number] = table.address
        for number, setup in enumerate(self.setups):
            array = (_SetupCall * max(len(setup), 1))(*setup)
            self.references.append(array)
            prepared.setups[number], prepared.nr_setup_calls[number] = ctypes.addressof(array), len(setup)
        prepared.nr_setups = len(self.setups)
        for number, address in enumerate(self.extra):
            prepared.extra[number] = address
        return self


class _Recorder:
    """A library that records the calls on a handle, without the handle itself."""

    def __init__(self, library: Any, calls: list[_SetupCall], references: list[object]) -> None:
        self._library, self._calls, self._references = library, calls, references

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> Any:
            if not name.endswith(("_new", "_free", "_slot")):
                self._calls.append(
                    _setup_call(function, *(_as_number(argument, self._references) for argument in arguments[1:]))
                )
            return function(*arguments)

        return call


def _as_number(argument: Any, references: list[object]) -> int:
    """Return an argument as the integer that is passed to C: its value or its address."""
    if isinstance(argument, int):
        return argument & (1 << 64) - 1
    if isinstance(argument, bytes):
        argument = ctypes.create_string_buffer(argument)
    references.append(argument)
    return ctypes.addressof(argument)


# --- decoders --------------------------------------------------------------------------------------------------------


def _ftrace_text(prepared: Preparation) -> None:
    _lines(prepared)
    prepared.table("syscalls")
    prepared.record_setup(ftrace_text, lambda: ftrace_text._Trace(has_fences=False))
    for machine in (("x86_64", 8), ("aarch64", 8), ("arm", 4), (None, 8)):
        knowledge = pairs._Knowledge(pairs.Machine(*machine), {8 << 20: "/data"})
        prepared.references.append(knowledge)
        prepared.extra.append(ctypes.addressof(knowledge.c))


def _lines(prepared: Preparation) -> None:
    for name in ("block_events", "fs_events", "commands", "importance", "samples", "tasks", pairs.TABLE):
        prepared.table(name, MOST_ROWS_OF_LINE)


def _blkparse_text(prepared: Preparation) -> None:
    _lines(prepared)
    prepared.record_setup(blkparse, lambda: blkparse._reader(Spool()))


def _most_po(prepared: Preparation) -> None:
    _lines(prepared)
    prepared.record_setup(most, lambda: most._reader(Spool(), (), has_classes=False))


COLUMNS = (
    "time:us,op,dev,offset:B,size:B,response:us",
    "time:s,task,op,dev,offset:sectors,size:sectors",
    "time:filetime,host,dev,op,offset:4096,size:B,response:filetime",
    " time:ns,pid,comm,offset:sectors,size:sectors,op,major,minor,-",
    "dev,cpu,tid,offset:sectors,size:B,op:0=R;1=W,time:ms,...",
    "done:s,comm,pid,dev,op,offset:sectors,size:B,wait:ms,response:ms",
)


def _block_csv(prepared: Preparation) -> None:
    _lines(prepared)
    for words in COLUMNS:
        columns = csv.Columns.parse(words)
        reader = partial(csv._reader, Spool(), columns, csv.NO_HEADER, 0, native.Strings(), False)
        prepared.record_setup(csv, reader)
        separator = ctypes.create_string_buffer(columns.separator.encode())
        prepared.references.append(separator)
        prepared.extra.append(ctypes.addressof(separator))


def _perfetto(prepared: Preparation) -> None:
    for name in decoder.TABLES:
        prepared.table(name, 8 * ROWS)  # an event of counters makes many rows
    actions = block_io.actions(dict.fromkeys(ftrace_text.ACTIONS, 1))
    decoder._ROWS = ROWS
    prepared.record_setup(decoder, decoder.Decoder)
    prepared.record_setup(decoder, lambda: decoder.Decoder(actions))


def _octf(prepared: Preparation) -> None:
    prepared.table("block_events")
    prepared.extra.append(opencas._Octf.is_full.offset)


def _of_tables(*names: str) -> Callable[[Preparation], None]:
    def prepare(prepared: Preparation) -> None:
        for name in names:
            prepared.table(name)

    return prepare


def _ftrace_pages(prepared: Preparation) -> None:
    events = binary.formats(tracedat_file.open_container(source.load(_DEMO)))
    listening = {number: program for number, event in events.items() if (program := binary._listen(event))}
    code = ftrace_programs.Code(binary._wanted(events), ["one", "two"])
    for places in (dict(zip(listening, itertools.count())), code.places):
        program = binary._library().ftrace_program
        prepared.setups.append([_setup_call(program, number, place) for number, place in places.items()])
    names = pl.DataFrame(
        {"tid": [1, 1, 7, 9], "from_ns": [0, 50, 0, 0], "comm": ["one", "two", None, "one"], "pid": [1, None, 7, 8]},
        {"tid": pl.Int32, "from_ns": pl.Int64, "comm": pl.String, "pid": pl.Int32},
    )
    programs = (ftrace_programs.CProgram * max(len(listening), 1))(*listening.values())
    versions, held = binary._versions(names, code)
    tables = {name: prepared.table(name) for name in code.tables}
    c_code, kept = code.bound(tables)
    for table in tables.values():  # their strings belong to C and must contain the names of the programs
        for text in code.names:
            native.library().strings_add(table._c.strings, text.encode(), len(text.encode()))
    prepared.references += [programs, versions, held, tables, c_code, kept, code]
    addresses = (programs, c_code, versions, code.programs)
    prepared.extra += [ctypes.addressof(made) for made in addresses]


def _calls(prepared: Preparation) -> None:
    for name in ("operations", "replay_files", "replay_threads"):
        prepared.table(name, 1 << 11)
    names = (*syscall_arguments.CALLS, *syscall_arguments.OTHERS, "nothing")
    numbers = bytes(native.library().calls_number(name.encode()) for name in names)
    words = ("O_RDONLY", "O_WRONLY|O_CREAT", "O_RDWR|O_CREAT|O_TRUNC", "O_RDWR|O_CREAT|O_EXCL", "O_DIRECTORY")
    more = ("CLONE_FILES|CLONE_VM", "AT_SYMLINK_FOLLOW", "MAP_SHARED", "RENAME_EXCHANGE", "SEEK_SET", "SEEK_END")
    known = [FLAGS.number(word) for word in (*words, *more)]
    flags = (ctypes.c_int64 * 16)(*known, -1, 1 << 40, 0xFFFFFFFF, -(1 << 63), 2)
    array = ctypes.create_string_buffer(numbers)
    prepared.references += [flags, array]
    prepared.extra += [ctypes.addressof(array), len(numbers), ctypes.addressof(flags)]


@dataclass(frozen=True)
class Target:
    """A fuzzer: the function that prepares it, and the files of the corpus that seed it."""

    prepare: Callable[[Preparation], None]
    seeds: tuple[str, ...] = ()


TARGETS = {
    "ftrace_text": Target(_ftrace_text, ("androstep/ftrace_sqlite.txt", "ftrace_text/*", "kernel/*/trace.txt.gz")),
    "blkparse_text": Target(_blkparse_text, ("blkparse_text/*.txt",)),
    "most_po": Target(_most_po, ("androstep/*.po",)),
    "block_csv": Target(_block_csv, ("block_csv/*.csv.gz",)),
    "strace": Target(_of_tables("syscalls"), ("strace/*.txt", "strace/*.log")),
    "blktrace": Target(_of_tables("block_events"), ("blktrace_bin/centos7/*", "blktrace_bin/*")),
    "octf": Target(_octf, ("block_csv/opencas_sample_trace.tar.xz",)),
    "perfetto": Target(_perfetto, ("perfetto/*.pb", "perfetto/*.pftrace")),
    "ftrace_pages": Target(_ftrace_pages),
    "linker": Target(_of_tables("requests", "bios")),
    "calls": Target(_calls),
    "dependencies": Target(lambda prepared: None),
    "repetitions": Target(lambda prepared: None),
    "incarnations": Target(lambda prepared: None),
    "infer": Target(lambda prepared: None),
    "intervals": Target(lambda prepared: None),
}
"""The fuzzer of each decoder."""

BROKEN = "broken"
"""A fuzzer with an error on purpose, for the test that errors are found. It needs no preparation."""


def prepared(name: str) -> object:
    """Prepare fuzzer `name`. The result must live as long as the fuzzer runs."""
    preparation = Preparation()
    if name != BROKEN:
        TARGETS[name].prepare(preparation)
    return preparation.publish()


SEED_BYTES, MAX_BYTES = 1 << 12, (1 << 12) + (1 << 8)
_SEEDS_OF_A_FILE = 4


def plant(name: str, corpus: Path, directory: Path) -> None:
    """Write the seeds of a fuzzer into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(_seeds(name, corpus)):
        (directory / f"seed-{number}").write_bytes(data)


def _seeds(name: str, corpus: Path) -> Iterable[bytes]:
    """Yield chunks of the recordings in the corpus."""
    if name == "ftrace_pages":
        container = tracedat_file.open_container(source.load(_DEMO))
        for stream in container.streams():
            pages = next(stream.pieces(1 << 14), b"")
            yield from (
                pages[at : at + SEED_BYTES] + bytes(3) + b"\2" for at in range(0, min(len(pages), 1 << 14), 4096)
            )
    for pattern in TARGETS[name].seeds:
        for path in sorted(corpus.glob(pattern)):
            if path.suffix == ".json" or not path.is_file():
                continue
            data = source.load(path)
            step = max(data.size // _SEEDS_OF_A_FILE, 1)
            for at in range(0, min(data.size, step * _SEEDS_OF_A_FILE), step):
                piece = data.read(at, SEED_BYTES)
                yield (piece if at == 0 or b"\n" not in piece else piece[piece.index(b"\n") + 1 :]) + bytes(8)
