"""System calls recorded by ftrace, compared with strace's log of the same run and with counts by grep."""

from __future__ import annotations

import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import corpus, perfetto_messages, syscall_recording

from androstep_analysis import ingest, native, schema
from androstep_analysis.common.errors import Loss, LossWarning
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.ingest import load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.syscalls import arguments as syscall_arguments
from androstep_analysis.ingest.syscalls import numbers as syscall_numbers
from androstep_analysis.ingest.syscalls import words
from androstep_analysis.ingest.syscalls.pairs import Machine, Pairs

pytestmark = pytest.mark.sanitized

X86_64 = Machine("x86_64", 8)
NATIVE = Path(native.__file__).parent

TOLD_BY_STRACE_ONLY = {
    **{call: {"bytes"} for call in ("readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2")},
    **{call: {"mode", "size", "dev", "ino"} for call in ("stat", "lstat", "fstat", "newfstatat", "statx")},
    **{call: {"request"} for call in ("setxattr", "getxattr", "removexattr", "memfd_create")},
    "openat2": {"flags", "mode"},
    "fcntl": {"offset_bytes", "bytes", "flags"},
    "pipe2": {"fd", "fd2"},
    "socketpair": {"fd", "fd2"},
    "sendfile": {"offset2_bytes"},
    "futex": {"address", "request"},
}
"""Columns with values in the memory of the caller, which tracepoints do not read. For fcntl, those of locks."""

PLACES_IN_MEMORY = ("sendfile", "copy_file_range", "splice")
"""Calls with file offsets in the memory of the caller, where only strace reads them. Their `address` shows that."""

COMPARED = (
    *("fd", "fd2", "request", "flags", "mode", "offset_bytes", "offset2_bytes", "bytes", "address"),
    *("size", "dev", "ino", "result", "error"),
)


def read(path: Path) -> pl.DataFrame:
    """Return table `syscalls` of a recording."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        table = ingest.read(path).syscalls.collect()
    return schema.conform(table, "syscalls")


# --- against strace --------------------------------------------------------------------------------------------------


def of_workload(table: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """Return the calls of each thread since the start of the workload, which is the first execve."""
    first = table.filter((pl.col("call") == "execve") & (pl.col("result") == 0)).sort("ts_ns")["tid"][0]
    starts = table.filter((pl.col("call") == "execve") & (pl.col("result") == 0) & (pl.col("tid") == first))["ts_ns"]
    rows = table.filter(pl.col("ts_ns") >= starts.max())
    return {int(tid): rows.filter(tid=tid) for tid in rows["tid"].unique().sort()}


def assert_equal_to_strace(traced: pl.DataFrame, log: pl.DataFrame) -> None:
    """Assert that every thread made the same calls in the same order, with equal arguments.

    Arguments in memory are excluded.
    """
    traces, logs = of_workload(traced), of_workload(log)
    assert traces.keys() == logs.keys()
    for tid, rows in traces.items():
        assert rows["call"].to_list() == logs[tid]["call"].to_list()
        for row, expected in zip(rows.iter_rows(named=True), logs[tid].iter_rows(named=True), strict=True):
            assert_call(row, expected)


def assert_call(row: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for column in COMPARED:
        if column in TOLD_BY_STRACE_ONLY.get(row["call"], ()) and row[column] is None:
            continue
        if column == "address" and row["call"] in PLACES_IN_MEMORY:
            has_place = expected["offset_bytes"] is not None or expected["offset2_bytes"] is not None
            assert (row["address"] is not None) == has_place, (row, expected)
            continue
        if column in ("result", "error") and expected["result"] is None:  # strace saw the thread die within the call
            continue
        assert row[column] == expected[column], (column, row, expected)
    assert row["state"] == expected["state"]
    assert row["duration_ns"] is None or row["duration_ns"] >= 0


@pytest.fixture(scope="module")
def strace_log() -> pl.DataFrame:
    return read(syscall_recording.DATA / "strace.log.zst")


def test_pages_equal_strace(strace_log: pl.DataFrame) -> None:
    traced = read(syscall_recording.DATA / "pages.tar.zst")
    assert_equal_to_strace(traced, strace_log)
    kinds = {call for rows in of_workload(traced).values() for call in rows["call"]}
    assert len(kinds) > 90


def test_the_kernels_text_equals_strace(strace_log: pl.DataFrame) -> None:
    """Flags of open are excluded, since text does not state the machine."""
    traced = read(syscall_recording.DATA / "trace.txt.zst")
    traces, logs = of_workload(traced), of_workload(strace_log)
    assert traces.keys() == logs.keys()
    for tid, rows in traces.items():
        assert rows["call"].to_list() == logs[tid]["call"].to_list()
        for row, expected in zip(rows.iter_rows(named=True), logs[tid].iter_rows(named=True), strict=True):
            if row["flags"] is not None and re.search(r"0x(?:4|8|1|2|3)0000|0x4000|0x8000", row["flags"]):
                row["flags"] = expected["flags"]
            assert_call(row, expected)


def test_text_and_pages_tell_the_same() -> None:
    """Text and pages of the same calls are equal, except that text is rounded to microseconds."""
    pages = read(syscall_recording.DATA / "pages.tar.zst")
    text = read(syscall_recording.DATA / "trace.txt.zst")
    columns = [
        "tid",
        "pid",
        "call",
        "state",
        "fd",
        "fd2",
        "bytes",
        "offset_bytes",
        "mode",
        "address",
        "result",
        "error",
    ]
    sort = ["tid", "ts_ns"]
    assert_frame_equal(
        pages.sort(sort, maintain_order=True).select(columns), text.sort(sort, maintain_order=True).select(columns)
    )


def test_tasks_have_processes() -> None:
    """Threads and processes created during the recording have the same processes as in strace's log."""
    traced = ingest.read(syscall_recording.DATA / "pages.tar.zst")
    log = ingest.read(syscall_recording.DATA / "strace.log.zst")
    assert traced.tasks is not None and log.tasks is not None
    of_trace, of_log = (dict(tasks.select("tid", "pid").rows()) for tasks in (traced.tasks, log.tasks))
    known = {tid: pid for tid, pid in of_log.items() if pid is not None}
    assert len(known) > 4
    assert {tid: of_trace[tid] for tid in known} == known
    assert traced.syscalls.filter(pl.col("pid").is_null()).collect().is_empty()


@pytest.mark.root
@pytest.mark.parametrize("group", ["syscalls", "raw_syscalls"])
def test_recorded_here(group: str, tmp_path: Path) -> None:
    if not (shutil.which("strace") and shutil.which("gcc")):
        pytest.skip("needs strace and gcc")
    recorded = syscall_recording.record(tmp_path, group)
    assert_equal_to_strace(read(recorded.pages), read(recorded.log))


# --- the corpus ------------------------------------------------------------------------------------------------------


def test_corpus_text() -> None:
    """Counts by grep: a call for each line with a beginning, and for each end without a beginning."""
    path = corpus.path("ftrace_text/tracecompass_ftrace_syscalls.txt")
    lines = path.read_text(errors="replace")
    begun, ended = re.findall(r": sys_(\w+)\(", lines), re.findall(r": sys_(\w+) -> ", lines)
    table = read(path)
    names = {"newstat": "stat", "newfstat": "fstat"}
    assert Counter(table.filter(pl.col("state") != "resumed")["call"]) == Counter(names.get(x, x) for x in begun)
    with_end = table.filter(pl.col("result").is_not_null())
    made = sum(1 for line in lines.splitlines() if re.search(r"sys_clone -> 0x0\s*$", line))
    assert with_end.height == len(ended) - made
    assert (table["result"] == -11).sum() == lines.count("-> 0xfffffffffffffff5")


def test_corpus_numbers_of_an_unknown_machine() -> None:
    path = corpus.path("ftrace_text/tracecompass_trace-android-sched-irq-syscall")
    lines = path.read_text(errors="replace")
    numbers = Counter(f"syscall_{int(number):#x}" for number in re.findall(r"sys_enter: NR (\d+)", lines))
    table = read(path)
    assert Counter(table.filter(pl.col("state") != "resumed")["call"]) == numbers
    assert table.filter(call="syscall_0x127", error="ENOENT").height == len(re.findall(r"NR 295 = -2\b", lines))
    with pytest.warns(LossWarning, match="the machine is unknown"):
        ingest.read(path)


# --- event by event --------------------------------------------------------------------------------------------------

Row = Mapping[str, Any]


def paired(
    events: Iterable[Row],
    machine: Machine = X86_64,
    mounts: Mapping[int, str] | None = None,
    narrow: Collection[int] = (),
) -> tuple[pl.DataFrame, tuple[Loss, ...]]:
    """Return the calls paired from events (columns of `call_events`), and the losses."""
    rows = [{"ts_ns": number, "tid": 1, **event} for number, event in enumerate(events)]
    types = schema.table("call_events").polars
    frame = schema.complete(
        pl.DataFrame(rows, {name: types[name] for name in {key for r in rows for key in r}}), "call_events"
    )
    spool = Spool()
    pairs = Pairs(spool, machine, mounts or {}, narrow)
    pairs.take_frame(frame)
    losses = pairs.finish()
    return spool.table("syscalls").collect(), losses


def enter(call: str, *arguments: int | None, **more: Any) -> Row:
    return {"phase": "enter", "call": call, **{f"argument{n}": value for n, value in enumerate(arguments)}, **more}


def leave(call: str, result: int | None, **more: Any) -> Row:
    return {"phase": "exit", "call": call, "result": result, **more}


def told(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows without their times and without null columns."""
    left_out = ("ts_ns", "duration_ns", "tid")
    return [
        {name: value for name, value in row.items() if value is not None and name not in left_out}
        for row in table.iter_rows(named=True)
    ]


def test_the_header_has_the_columns_of_the_schema() -> None:
    header = (NATIVE / "syscalls" / "call_events.h").read_text()
    columns = re.findall(r"^    CALL_EVENT_([A-Z0-9_]+),$", header, re.MULTILINE)
    assert [name.lower() for name in columns] == [column.name for column in schema.table("call_events").columns]
    phases = re.findall(r"\bPHASE_([A-Z]+)\b", header)
    assert tuple(phase.lower() for phase in phases) == schema.table("call_events").column("phase").values


def test_paths_by_pointer_in_any_order() -> None:
    table, _ = paired(
        [
            enter("renameat2", (1 << 32) - 100, 0x7000, 5, 0x8000, 1),
            {"phase": "path", "argument0": 0x8000, "path": "new"},
            {"phase": "path", "argument0": 0x9000, "path": "another's"},
            {"phase": "path", "argument0": 0x7000, "path": "old"},
            {"phase": "path", "argument0": 0x7000, "path": "too late"},
            leave("renameat2", -17),
        ]
    )
    assert told(table) == [
        {
            **{"call": "renameat2", "state": "whole", "fd": -100, "path": "old", "fd2": 5, "path2": "new"},
            **{"flags": "RENAME_NOREPLACE", "result": -17, "error": "EEXIST"},
        }
    ]


def test_a_path_that_could_not_be_read_is_unknown() -> None:
    table, _ = paired([enter("unlink", 0x7000), {"phase": "path", "argument0": 0, "path": None}, leave("unlink", -14)])
    assert told(table) == [{"call": "unlink", "state": "whole", "result": -14, "error": "EFAULT"}]


def test_paths_that_the_event_tells_itself() -> None:
    """Kernels since 6.19 record paths in the order of arguments. Paths from probes without pointers are used, too."""
    both = {"path": "old", "path2": "new"}
    table, _ = paired(
        [enter("rename", 1, 2, **both), leave("rename", 0), enter("rename", 3, 4), {"phase": "path", **both}]
    )
    assert table.select("path", "path2").rows() == [("old", "new")] * 2


def test_files_behind_descriptors() -> None:
    dev = 254 << 20 | 1
    table, _ = paired(
        [
            enter("openat", (1 << 32) - 100, 0x10, 0o2000000, 0o777),
            {"phase": "file", "dev": dev, "ino": 7, "path": "/not/wanted"},
            {**descriptor(3, 0o100644, 12, dev, 8), "path": "/a/b"},
            leave("openat", 3),
            enter("openat", 4, 0x10, 0),
            {**descriptor(4, 0o100644, 0, 3, 9), "path": "/"},
            leave("openat", 4),
            enter("pipe2", 0x10, 0),
            descriptor(5, 0o010600, 0, 13, 77),
            descriptor(6, 0o010600, 0, 13, 77),
            leave("pipe2", 0),
            enter("recvmsg", 9, 0x10, 0),
            {**descriptor(11, 0o600, 0, 14, 78), "path": "[eventfd]"},
            leave("recvmsg", 10),
            enter("dup", 3),
            {**descriptor(12, 0o100644, 12, dev, 8), "path": "/a/b"},
            leave("dup", 12),
        ],
        mounts={dev: "/data", 3: "/"},
    )
    opened = {"call": "openat", "state": "whole", "flags": "O_RDONLY", "mode": 0o100644}
    assert told(table) == [
        {
            **opened,
            **{"fd": -100, "flags": "O_RDONLY|O_CLOEXEC", "dev": dev, "ino": 8, "size": 12, "result": 3},
            "result_path": "/data/a/b",
        },
        {**opened, "fd": 4, "dev": 3, "ino": 9, "size": 0, "result": 4, "result_path": "/"},
        {
            **{"call": "pipe2", "state": "whole", "fd": 5, "fd_path": "pipe:[77]", "fd2": 6, "fd2_path": "pipe:[77]"},
            **{"flags": "0", "result": 0},
        },
        {
            **{"call": "recvmsg", "state": "whole", "fd": 9, "fd2": 11, "fd2_path": "anon_inode:[eventfd]"},
            **{"request": "SCM_RIGHTS", "flags": "0", "result": 10},
        },
        {"call": "dup", "state": "whole", "fd": 3, "result": 12, "result_path": "/data/a/b"},
    ]


def descriptor(fd: int, mode: int, size: int, dev: int, ino: int) -> dict[str, Any]:
    return {"phase": "descriptor", "argument0": fd, "argument1": mode, "argument2": size, "dev": dev, "ino": ino}


def test_a_call_that_failed_opened_nothing() -> None:
    table, _ = paired(
        [enter("open", 1, 0o100, 0o644), {"phase": "file", "dev": 1, "ino": 2, "path": "/x"}, leave("open", -13)]
    )
    assert told(table) == [
        {
            **{"call": "open", "state": "whole", "flags": "O_RDONLY|O_CREAT", "mode": 0o644},
            **{"result": -13, "error": "EACCES"},
        }
    ]


def test_calls_that_do_not_return() -> None:
    table, losses = paired(
        [
            enter("read", 1, 2, 3),
            enter("write", 4, 5, 6),  # the end of the read is missing
            leave("fsync", 0),  # and that of the write, and a beginning
            enter("exit_group", 3),
            enter("read", 1, 2, 3, tid=2),
        ]
    )
    assert [(row["call"], row["state"], row.get("request")) for row in told(table)] == [
        ("read", "unfinished", None),
        ("write", "unfinished", None),
        ("fsync", "resumed", None),
        ("exit_group", "whole", "3"),
        ("read", "unfinished", None),
    ]
    assert [(loss.kind, loss.count) for loss in losses] == [("missing", 2)]


def test_a_made_task_begins_where_its_call_ends() -> None:
    table, losses = paired(
        [
            enter("clone3", 0x10, 88),
            {"phase": "task", "argument0": 0x10F00},
            leave("clone3", 0, tid=2),
            enter("getpid", tid=2),
            leave("clone3", 2),
            leave("getpid", 2, tid=2),
            enter("clone", 0x1200000 | 17, 0),
            {"phase": "task", "argument0": 0x1200000},
            leave("clone", 3),
        ]
    )
    assert told(table) == [
        {
            **{"call": "clone3", "state": "whole", "result": 2},
            "flags": "CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD",
        },
        {"call": "getpid", "state": "whole", "result": 2},
        {
            **{"call": "clone", "state": "whole", "result": 3},
            "flags": "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD",
        },
    ]
    assert not losses


@pytest.mark.parametrize(
    ("result", "error"),
    [(-512, "ERESTARTSYS"), (-516, "ERESTART_RESTARTBLOCK"), (-11, "EAGAIN"), (-300, "?"), (-5000, None)],
)
def test_results_inside_the_kernel(result: int, error: str | None) -> None:
    table, _ = paired([enter("read", 0, 0, 0), leave("read", result)])
    assert table.select("result", "error").row(0) == (result, error)


def test_machines_differ_in_flags() -> None:
    flags = [0o200000, 0o40000, 0o100000, 0o400000, 0o20040002]
    names = {}
    for machine in (Machine("x86_64", 8), Machine("aarch64", 8), Machine("arm", 4), Machine(None, 8)):
        events = [x for bits in flags for x in (enter("open", 0, bits), leave("open", 1))]
        names[machine.name] = paired(events, machine)[0]["flags"].to_list()
    assert names["x86_64"] == [
        *("O_RDONLY|O_DIRECTORY", "O_RDONLY|O_DIRECT", "O_RDONLY|O_LARGEFILE", "O_RDONLY|O_NOFOLLOW"),
        "O_RDWR|O_DIRECT|__O_TMPFILE",
    ]
    assert (
        names["aarch64"]
        == names["arm"]
        == [
            *("O_RDONLY|O_DIRECT", "O_RDONLY|O_DIRECTORY", "O_RDONLY|O_NOFOLLOW", "O_RDONLY|O_LARGEFILE"),
            "O_RDWR|O_TMPFILE",
        ]
    )
    assert names[None] == [
        *("O_RDONLY|0x10000", "O_RDONLY|0x4000", "O_RDONLY|0x8000", "O_RDONLY|0x20000"),
        "O_RDWR|__O_TMPFILE|0x4000",
    ]


@pytest.mark.parametrize(
    ("machine", "call", "arguments", "expected"),
    [
        ("arm", "pread64", (3, 0, 9, 0, 5, 1), {"fd": 3, "bytes": 9, "offset_bytes": 1 << 32 | 5}),
        ("i386", "pread64", (3, 0, 9, 5, 1), {"fd": 3, "bytes": 9, "offset_bytes": 1 << 32 | 5}),
        ("arm", "ftruncate64", (3, 0, 0, 2), {"fd": 3, "bytes": 2 << 32}),
        ("arm", "fallocate", (3, 1, 4096, 0, 5, 1), {"flags": "FALLOC_FL_KEEP_SIZE", "offset_bytes": 4096}),
        ("arm", "arm_fadvise64_64", (3, 4, 1, 2, 3, 4), {"request": "POSIX_FADV_DONTNEED", "bytes": 4 << 32 | 3}),
        ("arm", "preadv", (3, 0, 1, 7, 1), {"offset_bytes": 1 << 32 | 7}),
        ("arm", "_llseek", (3, 1, 7, 0, 2), {"offset_bytes": 1 << 32 | 7, "request": "SEEK_END"}),
        ("arm", "lseek", (3, (1 << 32) - 5, 2), {"offset_bytes": -5, "request": "SEEK_END"}),
        ("arm", "read", (3, 0, 1 << 31), {"bytes": 1 << 31}),
        ("arm", "mmap2", (0, 4096, 1, 2, 5, 3), {"offset_bytes": 3 * 4096, "fd": 5, "flags": "MAP_PRIVATE"}),
        ("arm", "sync_file_range2", (3, 2, 1, 0, 9, 0), {"flags": "SYNC_FILE_RANGE_WRITE", "bytes": 9}),
    ],
)
def test_registers_of_32_bits(machine: str, call: str, arguments: tuple[int, ...], expected: Row) -> None:
    table, _ = paired([enter(call, *arguments), leave(call, (1 << 32) - 22)], Machine(machine, 4))
    row = told(table)[0]
    assert {name: row[name] for name in expected} == expected
    assert (row["result"], row["error"]) == (-22, "EINVAL")


def test_an_offset_that_the_kernel_did_not_record_is_unknown() -> None:
    """On arm, events of group syscalls have as many registers as arguments, which truncates the offset of pread64."""
    table, _ = paired([enter("pread64", 3, 0, 9, 0), leave("pread64", 9)], Machine("arm", 4))
    assert told(table) == [{"call": "pread64", "state": "whole", "fd": 3, "bytes": 9, "result": 9}]


def test_an_argument_in_no_register_is_unknown() -> None:
    events = [enter("sync_file_range", 3, 0, 1, 0, 2, 0), leave("sync_file_range", 0)]
    table, _ = paired(events, Machine("arm", 4))
    assert table["flags"].to_list() == [None]


def test_nothing_is_told_by_a_command_that_is_not_recorded() -> None:
    """A missing command is not treated as 0, which would be F_DUPFD with a number as argument."""
    table, _ = paired([enter("fcntl", 3, None, 7), leave("fcntl", 0)], X86_64)
    assert table.select("request", "flags").row(0) == (None, None)


@pytest.mark.parametrize(("begun_ns", "ended_ns"), [(9, 5), (-(1 << 63) + 1, (1 << 63) - 1)])
def test_times_that_cannot_be_tell_no_duration(begun_ns: int, ended_ns: int) -> None:
    events = [{**enter("close", 3), "ts_ns": begun_ns}, {**leave("close", 0), "ts_ns": ended_ns}]
    table, _ = paired(events, X86_64)
    assert table.select("ts_ns", "duration_ns", "result").row(0) == (begun_ns, None, 0)


def test_memory_of_32_bits_is_no_error() -> None:
    table, _ = paired([enter("mmap2", 0, 1), leave("mmap2", 0xB6F00000)], Machine("arm", 4))
    assert table.select("result", "error").row(0) == (0xB6F00000, None)


@pytest.mark.parametrize(
    ("told_name", "long_bytes", "expected"),
    [
        ("x86_64", 8, Machine("x86_64", 8)),
        ("armv8l", 8, Machine("aarch64", 8)),  # the name for a program of 32 bits
        ("armv7l", 4, Machine("arm", 4)),
        ("armv7l", None, Machine("arm", 4)),
        ("aarch64", None, Machine("aarch64", 8)),
        ("aarch64_be", None, Machine("aarch64", 8)),
        ("i686", 4, Machine("i386", 4)),
        ("riscv64", 8, Machine(None, 8)),
        (None, 4, Machine(None, 4)),
    ],
)
def test_machines(told_name: str | None, long_bytes: int | None, expected: Machine) -> None:
    assert Machine.of(told_name, long_bytes) == expected


def test_numbers() -> None:
    known = {"x86_64": (0, 257), "aarch64": (63, 56), "arm": (3, 322), "i386": (3, 295)}
    for machine, (read_number, openat_number) in known.items():
        names = syscall_numbers.names(machine)
        assert (names[read_number], names[openat_number]) == ("read", "openat")
    assert syscall_numbers.names("vax") == []
    events = [
        {"phase": "enter", "number": 56},
        {"phase": "exit", "number": 56, "result": 1},
        {"phase": "enter", "number": 999},
    ]
    table, losses = paired(events, Machine("aarch64", 8))
    assert table["call"].to_list() == ["openat", "syscall_0x3e7"]
    assert [(loss.kind, loss.count) for loss in losses] == [("unreadable", 1)]


def test_calls_of_narrow_programs_are_left_out() -> None:
    """Calls of 32-bit programs and of their children are left out, until another program is executed."""
    read_by_number = {"phase": "enter", "number": 0}
    events = [
        {**read_by_number, "pid": 7, "tid": 7},
        {"phase": "task", "pid": 7, "tid": 7, "argument0": 17, "argument1": 8},
        {**read_by_number, "pid": 8, "tid": 8},
        {"phase": "exec", "pid": 8, "tid": 8},
        {**read_by_number, "pid": 8, "tid": 8},
        {**read_by_number, "pid": 9, "tid": 9},
    ]
    table, losses = paired(events, narrow={7})
    assert table.select("call", "tid").rows() == [("read", 8), ("read", 9)]
    assert [(loss.kind, loss.count) for loss in losses] == [("unreadable", 2)]


def test_every_argument_is_of_a_column_and_known_words() -> None:
    readings = {"", "signed", "64", "low_high", "high_low", "pages"}
    readings |= {"decimal", "pointer", "mapped", "created", "command"}
    for arguments in syscall_arguments.CALLS.values():
        for argument in arguments.split():
            how = argument.partition("=")[2]
            if how not in readings:
                words.words(how, "x86_64")
    with pytest.raises(KeyError):
        words.words("none", None)


def test_many_threads_equal_a_slow_pairing() -> None:
    """Random events of many threads, with some lost, are read in pieces."""
    chance = random.Random(11)
    calls = ("read", "write", "fsync", "exit_group", "clone", "openat")
    events: list[dict[str, Any]] = []
    for ts_ns in range(60_000):
        phase = chance.choice(("enter", "exit"))
        event = {"ts_ns": ts_ns, "tid": chance.randrange(40), "phase": phase, "call": chance.choice(calls)}
        events.append(event | ({"argument0": ts_ns} if phase == "enter" else {"result": chance.randrange(-3, 3)}))
    spool, frame = Spool(), schema.complete(pl.DataFrame(events).with_columns(_typed(events)), "call_events")
    pairs = Pairs(spool, Machine("x86_64", 8))
    for piece in frame.iter_slices(7_001):
        pairs.take_frame(piece)
    losses = pairs.finish()
    expected, forgotten = _slow(events)
    table = spool.table("syscalls").collect()
    columns = ["ts_ns", "tid", "call", "state", "duration_ns", "result"]
    assert sorted(table.select(columns).rows(), key=str) == sorted(expected, key=str)
    assert table["ts_ns"].is_sorted()
    assert losses[0].count == len(forgotten)
    first = f"{forgotten[0]['call']} of thread {forgotten[0]['tid']}, {forgotten[0]['ts_ns'] / 1e9:.6f} s"
    assert first in losses[0].message


def _typed(events: list[dict[str, Any]]) -> list[pl.Expr]:
    types = schema.table("call_events").polars
    return [pl.col(name).cast(types[name]) for name in {key for event in events for key in event}]


def _slow(events: list[dict[str, Any]]) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    rows: list[tuple[Any, ...]] = []
    pending: dict[int, dict[str, Any]] = {}
    forgotten: list[dict[str, Any]] = []

    def give_up(event: dict[str, Any]) -> None:
        state = "whole" if event["call"] == "exit_group" else "unfinished"
        rows.append((event["ts_ns"], event["tid"], event["call"], state, None, None))

    for event in events:
        begun = pending.get(event["tid"])
        if begun is not None and (event["phase"] == "enter" or begun["call"] != event["call"]):
            give_up(begun)
            if begun["call"] != "exit_group":
                forgotten.append(begun)
            del pending[event["tid"]]
            begun = None
        if event["phase"] == "enter":
            pending[event["tid"]] = event
        elif begun is not None:
            duration = event["ts_ns"] - begun["ts_ns"]
            rows.append((begun["ts_ns"], event["tid"], event["call"], "whole", duration, event["result"]))
            del pending[event["tid"]]
        elif event["call"] != "clone" or event["result"]:
            rows.append((event["ts_ns"], event["tid"], event["call"], "resumed", None, event["result"]))
    for event in pending.values():
        give_up(event)
    return rows, forgotten


@pytest.mark.prove
def test_damaged_pages(tmp_path: Path) -> None:
    """Calls from damaged pages conform to the schema, and times do not decrease."""
    packed = load(syscall_recording.DATA / "pages.tar.zst").data
    (tmp_path / "pages.tar").write_bytes(packed)
    unpack(tmp_path / "pages.tar", tmp_path, len(packed))
    pages = {file: file.read_bytes() for file in tmp_path.glob("cpu*.raw")}
    for seed in range(25):
        chance = random.Random(seed)
        for file, data in pages.items():
            damaged = bytearray(data)
            for _ in range(chance.choice((1, 20, 400))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            file.write_bytes(damaged)
        table = read(tmp_path)
        assert table["ts_ns"].is_sorted()
        assert set(table["state"].unique()) <= {"whole", "unfinished", "resumed"}


# --- other formats ---------------------------------------------------------------------------------------------------


def test_text_of_trace_cmd(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text(
        "cpus=2\n"
        "  cat-12 [000]   100.000001: sys_enter_pwrite64: fd: 0x00000003, buf: 0x7f, count: 0x0000000a, pos: 0x14\n"
        "     cat-12    [001]   100.000003: sys_exit_pwrite64:    0xa\n"
        "     cat-12    [001]   100.000004: sys_enter:            NR 1 (3, 7ffd, a, 0, 0, 0)\n"
        "     cat-12    [001]   100.000005: sys_exit:             NR 1 = -9\n"
        "     cat-12    [001]   100.000006: sys_read(unsigned int fd: 0xa, char * buf: 1, size_t count: zz)\n"
        "     cat-12    [001]   100.000007: sys_read -> 0xfffffffffffffff7\n"
        "     cat-12    [001]   100.000008: sys_write what\n"
    )
    with pytest.warns(LossWarning, match="1 line cannot be read as system calls"):
        table = ingest.read(path).syscalls.collect()
    assert told(table.drop("comm")) == [
        {"call": "pwrite64", "state": "whole", "fd": 3, "bytes": 10, "offset_bytes": 20, "result": 10},
        {"call": "syscall_0x1", "state": "whole", "result": -9, "error": "EBADF"},
        {"call": "read", "state": "whole", "fd": 10, "result": -9, "error": "EBADF"},
    ]
    assert table["duration_ns"].to_list() == [2000, 1000, 1000]


def test_perfetto(tmp_path: Path) -> None:
    """A call begins on one CPU and ends on another, and the end comes first in the file."""
    path = tmp_path / "trace.pftrace"
    pwrite64, buffer = 68, 0xFFFF_FFFF_FFFF_FFFF
    packets: list[dict[str, Any]] = [{"system_info": {"utsname": {"machine": "aarch64"}}}]
    ends = [{"sys_exit": {"id": pwrite64, "ret": -5 if n % 2 else 33}, **at(1000 * n + 500)} for n in range(100)]
    begins = [
        {"sys_enter": {"id": pwrite64, "args": [3, buffer, 33, 4096 * n, 0, 0]}, **at(1000 * n)} for n in range(100)
    ]
    packets += [perfetto_messages.bundle(*ends, cpu=1), perfetto_messages.bundle(*begins, cpu=0)]
    path.write_bytes(perfetto_messages.trace(*packets))
    table = ingest.read(path).syscalls.collect()
    assert table.height == 100
    assert table["duration_ns"].unique().to_list() == [500]
    assert table["offset_bytes"].to_list() == [4096 * number for number in range(100)]
    row = {
        "call": "pwrite64",
        "state": "whole",
        "fd": 3,
        "bytes": 33,
        "offset_bytes": 4096,
        "result": -5,
        "error": "EIO",
    }
    assert told(table)[1] == row


def at(ts_ns: int) -> dict[str, int]:
    return {"timestamp": ts_ns, "pid": 77}
