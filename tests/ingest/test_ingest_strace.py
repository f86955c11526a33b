"""Logs of strace, compared with a program's own account of its calls, with a slow parser, and for each kind of line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import compiling, corpus, readers
from support.oracles import strace as strace_oracle
from support.tree import ROOT

from androstep_analysis import schema
from androstep_analysis.ingest import Staging, load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.syscalls import strace

Row = Mapping[str, Any]

CORPUS = (
    "strace/15023-com.android.externalstorage.txt",
    "strace/15101-com.android.traceur.txt",
    "strace/17461-com.android.settings.txt",
    "strace/linux_multithread_strace1.log",
)


def read(path: Path) -> tuple[Staging, pl.DataFrame]:
    """Return the log and its table `syscalls`."""
    spool = Spool()
    staging = strace.read(load(path), spool)
    table = spool.table("syscalls").collect()
    schema.conform(table, "syscalls")
    notes = sum(count for name, count in staging.events.items() if name[:3] in ("---", "+++", "???"))
    assert table.height == sum(staging.events.values()) - notes
    return staging, table


def of_text(tmp_path: Path, text: str | bytes, name: str = "log") -> tuple[Staging, pl.DataFrame]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path)


def one(tmp_path: Path, line: str | bytes) -> dict[str, Any]:
    """Return the only call of a log without null columns."""
    raw = line.encode() if isinstance(line, str) else line
    staging, table = of_text(tmp_path, raw + b"\n")
    assert table.height == 1 and not staging.losses
    return {name: value for name, value in table.row(0, named=True).items() if value is not None}


def test_a_task_that_is_killed_as_a_call_begins_loses_nothing(tmp_path: Path) -> None:
    """strace 6.1 cannot see the call of a thread that is killed by another thread's exit_group."""
    staging, table = of_text(
        tmp_path,
        "7 1700000000.000000 close(3) = 0\n"
        "8 1700000000.000010 ???( <unfinished ...>\n"
        "7 1700000000.000020 exit_group(0) = ?\n"
        "8 1700000000.000030 <... ??? resumed>) = ? <unavailable>\n"
        "8 1700000000.000040 +++ exited with 0 +++\n"
        "7 1700000000.000050 +++ exited with 0 +++\n",
    )
    assert not staging.losses and staging.events["???"] == 2
    assert table["call"].cast(pl.String).to_list() == ["close", "exit_group"]


def test_the_header_has_the_columns_of_the_schema() -> None:
    header = Path(strace.__file__).parents[2] / "native" / "syscalls" / "columns.h"
    columns = re.findall(r"^    SYSCALL_([A-Z0-9_]+),$", header.read_text(), re.MULTILINE)
    assert [name.lower() for name in columns] == [column.name for column in schema.table("syscalls").columns]
    for column, prefix in (("state", "STATE"), ("fd_kind", "FD_KIND")):
        values = re.findall(rf"\b{prefix}_([A-Z]+)\b", header.read_text())
        assert tuple(value.lower() for value in values) == schema.table("syscalls").column(column).values


# --- the corpus ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORPUS)
def test_corpus_equals_the_slow_parser(name: str) -> None:
    _, table = read(corpus.path(name))
    assert_equal_to_the_slow_parser(table, corpus.path(name).read_bytes())


def assert_equal_to_the_slow_parser(table: pl.DataFrame, log: bytes) -> None:
    expected = strace_oracle.calls(log)
    columns = ["line", "tid", "call", "state", "result", "error"]
    assert table.select(columns).rows() == [tuple(call[name] for name in columns) for call in expected]
    for call, row in zip(expected, table.iter_rows(named=True), strict=True):
        for column, value in strace_oracle.told(call).items():
            assert row[column] == value, (column, call)


# --- recordings of a program that logs its calls ---------------------------------------------------------------------

OPTIONS = {
    "plain": ["-f"],
    "terminal": ["-f"],
    "time of day": ["-f", "-t"],
    "microseconds, durations": ["-f", "-tt", "-T"],
    "unix time, files": ["-f", "-ttt", "-T", "-y"],
    "unix time, all of files": ["-f", "-ttt", "-yy", "-v"],
    "relative": ["-f", "-r"],
    "relative and time of day": ["-f", "-r", "-tt"],
    "nanoseconds": ["-f", "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"],
    "whole seconds": ["-f", "--absolute-timestamps=format:unix,precision:s"],
    "hex strings": ["-f", "-x"],
    "all strings in hex": ["-f", "-xx"],
    "short strings": ["-f", "-ttt", "-s", "8"],
    "long strings": ["-f", "-ttt", "-s", "100000"],
    "numbers and pointers": ["-f", "-n", "-i", "-tt"],
    "names": ["-f", "-Y", "-ttt"],
    "summary": ["-f", "-C"],
    "stacks": ["-f", "-k", "-tt"],
    "many files": ["-ff", "-ttt", "-T"],
    "many files without times": ["-ff"],
    "many files with files": ["-ff", "-tt", "-yy", "-xx"],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("strace") and shutil.which("gcc")):
        pytest.skip("strace and gcc are not installed")
    path = tmp_path_factory.mktemp("strace") / "workload"
    source = ROOT / "tests" / "support" / "strace_workload.c"
    compiling.gcc("-std=c11", "-pthread", source, "-o", path)
    return path


def recorded(program: Path, tmp_path: Path, options: list[str], to_terminal: bool = False) -> tuple[Path, Path]:
    """Record a log of the program, and return it with the working directory."""
    place = tmp_path / 'place > "of" ) = 5, <unfinished ...>'
    place.mkdir()
    if to_terminal:
        log = tmp_path / "log"
        with log.open("wb") as output:
            subprocess.run(["strace", *options, program, place], stderr=output, check=True)
        return log, place
    log = tmp_path / "log"
    subprocess.run(["strace", *options, "-o", log, program, place], check=True)
    return (next(iter(sorted(tmp_path.glob("log.*")))) if "-ff" in options else log), place


def account(place: Path, tid: int) -> list[dict[str, Any]]:
    """Return the calls that thread `tid` reported."""
    lines = (place / f"account.{tid}").read_text().replace("}\n", "}\x00").split("\x00")
    calls: list[dict[str, Any]] = [json.loads(line if line.endswith("}") else line + "}") for line in lines]
    for call in calls:
        for name in ("path", "path2"):
            if name in call:
                call[name] = bytes.fromhex(call[name]).decode(errors="backslashreplace")
    return calls


@pytest.mark.prove
@pytest.mark.parametrize("name", OPTIONS)
def test_a_log_tells_what_the_program_did(name: str, program: Path, tmp_path: Path) -> None:
    log, place = recorded(program, tmp_path, OPTIONS[name], name == "terminal")
    staging, table = read(log)
    assert not staging.losses
    tids = in_order_of_birth(int(path.suffix[1:]) for path in place.glob("account.*"))
    assert len(tids) == 5
    if "-ff" not in OPTIONS[name] or "-ttt" in OPTIONS[name]:
        assert set(tids) <= set(table["tid"].to_list())
    for tid in tids:
        assert_as_accounted(table.filter(tid=tid), account(place, tid), place, "-y" in " ".join(OPTIONS[name]))
    assert_times(table, OPTIONS[name])
    pids = dict(staging.tasks.select("tid", "pid").rows()) if staging.tasks is not None else {}
    root, child = tids[0], tids[-1]
    assert [pids[tid] for tid in tids] == [root, root, root, root, child]
    assert staging.events["--- SIGURG"] == staging.events["--- SIGCHLD"] == 1
    assert staging.events["+++ exited"] == 5
    if "-Y" in OPTIONS[name]:
        assert table["comm"].to_list() == ["strace" if row == 0 else "workload" for row in range(table.height)]


def in_order_of_birth(tids: Iterable[int]) -> list[int]:
    """Sort thread ids by creation. They were assigned in quick succession and restart after the largest."""
    ascending, largest = sorted(tids), int(Path("/proc/sys/kernel/pid_max").read_text())
    first = max(range(len(ascending)), key=lambda at: (ascending[at] - ascending[at - 1]) % largest)
    return ascending[first:] + ascending[:first]


def assert_as_accounted(rows: pl.DataFrame, expected: list[dict[str, Any]], place: Path, has_files: bool) -> None:
    known = {call["call"] for call in expected}
    is_ours = pl.col("call").is_in(list(known)) & ~((pl.col("call") == "mmap") & pl.col("fd").is_null())
    is_between = (pl.col("path") == "begin").fill_null(False).cum_max() & ~(
        (pl.col("path") == "end").fill_null(False).shift(1, fill_value=False).cum_max()
    )
    told = rows.filter(is_between).filter(is_ours).rows(named=True)
    told = [row for row in told if not is_of_libc(row)]
    assert [row["call"] for row in told] == [call["call"] for call in expected]
    for row, call in zip(told, expected, strict=True):
        if row["bytes"] is None and call["call"].endswith("v"):  # strace -s leaves buffers out
            call = call | {"bytes": None}
        if row["path2"] is None and call["call"] == "readlink":  # and what the link says
            call = call | {"path2": None}
        assert {name: row[name] for name in call} == call
        assert row["state"] == "whole"
        assert (row["error"] is not None) == (call["result"] < 0)
        if has_files and call["call"] == "openat" and call["result"] >= 0 and call["path"] != "/dev/null":
            assert row["fd_path"] == str(place)
            assert row["result_path"] == str(place / call["path"])


def is_of_libc(row: Row) -> bool:
    """Return whether a call is from calloc or free, which map and unmap large blocks."""
    return row["call"] in ("mmap", "munmap") and row["bytes"] >= 1 << 20


def assert_times(table: pl.DataFrame, options: list[str]) -> None:
    words = " ".join(options)
    has_times = any(option in words for option in ("-t", "-r", "timestamps"))
    assert table["ts_ns"].null_count() == (0 if has_times else table.height)
    if not has_times:
        if "-ff" not in options:
            assert table["line"].is_sorted()
        return
    assert table["ts_ns"].is_sorted()
    first, last = table["ts_ns"][0], table["ts_ns"][-1]
    assert last - first < 60_000_000_000
    if "-ttt" in options or "unix" in words:
        assert 1_700_000_000 < first / 1e9 < 4_000_000_000
    elif "-t" in words:
        assert 0 <= first < 86_400_000_000_000
    else:
        assert first == 0
    if "-T" in options or "syscall-times" in words:
        returned = table.filter(pl.col("result").is_not_null() & ~pl.col("call").str.starts_with("exit"))
        assert returned["duration_ns"].null_count() == 0
    assert (table["duration_ns"].drop_nulls() >= 0).all()


def test_any_file_of_a_set_opens_it(program: Path, tmp_path: Path) -> None:
    recorded(program, tmp_path, ["-ff", "-ttt"])
    (tmp_path / "log.12").write_text("this is no log\n")
    (tmp_path / "log.1.old").write_text("close(1) = 0\n")
    members = sorted(tmp_path.glob("log.*"))
    tables = [read(path)[1] for path in members if path.name not in ("log.12", "log.1.old")]
    assert len(tables) == 5
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0]["tid"].n_unique() == 5


def test_recordings_equal_the_slow_parser(program: Path, tmp_path: Path) -> None:
    log, _ = recorded(program, tmp_path, ["-f"])
    assert_equal_to_the_slow_parser(read(log)[1], log.read_bytes())


@pytest.mark.parametrize("size", [64, 1000, 4096])
def test_pieces_do_not_matter(size: int, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = recorded(program, tmp_path, ["-f", "-ttt"])
    staging, table = read(log)
    monkeypatch.setattr(strace, "PIECE_BYTES", size)
    monkeypatch.setattr(strace, "ROWS", 7)
    monkeypatch.setattr(strace, "STRINGS_BYTES", 500)
    cut, pieces = read(log)
    assert pieces.equals(table)
    assert cut.events == staging.events


# --- shapes ----------------------------------------------------------------------------------------------------------

SHAPES: dict[str, dict[str, Any]] = {
    'open("/a", O_RDONLY) = 3': {"call": "open", "path": "/a", "flags": "O_RDONLY", "result": 3},
    'openat(AT_FDCWD</home/a>, "b", O_RDONLY|O_CLOEXEC) = 3</home/a/b>': {
        "call": "openat",
        "fd": -100,
        "fd_path": "/home/a",
        "fd_kind": "path",
        "path": "b",
        "flags": "O_RDONLY|O_CLOEXEC",
        "result": 3,
        "result_path": "/home/a/b",
    },
    'openat2(4</d>, "x", {flags=O_RDWR|O_CREAT, mode=0600, resolve=RESOLVE_BENEATH}, 24) = -1 EXDEV (Invalid link)': {
        "call": "openat2",
        "fd": 4,
        "fd_path": "/d",
        "fd_kind": "path",
        "path": "x",
        "flags": "O_RDWR|O_CREAT",
        "mode": 0o600,
        "result": -18,
        "error": "EXDEV",
    },
    'read(3</a\\76b, c\\74>, "a)\\" = 5"..., 5000) = 7 <0.000123>': {
        "call": "read",
        "fd": 3,
        "fd_path": "/a>b, c<",
        "fd_kind": "path",
        "bytes": 5000,
        "result": 7,
        "duration_ns": 123_000,
    },
    "close(3</old>name, x>) = 0": {
        "call": "close",
        "fd": 3,
        "fd_path": "/old>name, x",
        "fd_kind": "path",
        "result": 0,
    },
    'write(1</dev/pts/0<char 136:0>>, "x", 1) = 1': {
        "call": "write",
        "fd": 1,
        "fd_path": "/dev/pts/0",
        "fd_kind": "char",
        "bytes": 1,
        "result": 1,
    },
    "fsync(3</dev/sda1<block 8:1>>) = 0": {
        "call": "fsync",
        "fd": 3,
        "fd_path": "/dev/sda1",
        "fd_kind": "block",
        "result": 0,
    },
    "close(5</tmp/gone>(deleted)) = 0": {
        "call": "close",
        "fd": 5,
        "fd_path": "/tmp/gone",
        "fd_kind": "deleted",
        "result": 0,
    },
    "close(5</tmp/gone (deleted)>) = 0": {
        "call": "close",
        "fd": 5,
        "fd_path": "/tmp/gone",
        "fd_kind": "deleted",
        "result": 0,
    },
    "ftruncate(6</memfd:x>(deleted), 10) = 0": {
        "call": "ftruncate",
        "fd": 6,
        "fd_path": "/memfd:x",
        "fd_kind": "memfd",
        "bytes": 10,
        "result": 0,
    },
    'write(4<TCP:[127.0.0.1:43210->127.0.0.1:80]>, "GET / HTTP/1.1\\r\\n", 16) = 16': {
        "call": "write",
        "fd": 4,
        "fd_path": "TCP:[127.0.0.1:43210->127.0.0.1:80]",
        "fd_kind": "socket",
        "bytes": 16,
        "result": 16,
    },
    'recvfrom(4<UNIX-STREAM:[12->13, @"/tmp/.X11-unix/X0"]>, 0x55, 4096, 0, NULL, NULL) = -1 EAGAIN (Try again)': {
        "call": "recvfrom",
        "fd": 4,
        "fd_path": 'UNIX-STREAM:[12->13, @"/tmp/.X11-unix/X0"]',
        "fd_kind": "socket",
        "bytes": 4096,
        "flags": "0",
        "result": -11,
        "error": "EAGAIN",
    },
    "read(7<pipe:[1234]>, 0x7ffe, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)": {
        "call": "read",
        "fd": 7,
        "fd_path": "pipe:[1234]",
        "fd_kind": "pipe",
        "bytes": 1,
        "result": -512,
        "error": "ERESTARTSYS",
    },
    "epoll_ctl(5<anon_inode:[eventpoll]>, EPOLL_CTL_ADD, 8<socket:[99]>, {events=EPOLLIN, data={u32=8}}) = 0": {
        "call": "epoll_ctl",
        "fd": 5,
        "fd_path": "anon_inode:[eventpoll]",
        "fd_kind": "anon",
        "request": "EPOLL_CTL_ADD",
        "fd2": 8,
        "fd2_path": "socket:[99]",
        "result": 0,
    },
    'writev(3, [{iov_base="a\\"}, {", iov_len=5}, {iov_base="b", iov_len=7}], 2) = 12': {
        "call": "writev",
        "fd": 3,
        "bytes": 12,
        "result": 12,
    },
    'writev(3, [{"abc", 5}, {"b"..., 700}], 2) = 705': {"call": "writev", "fd": 3, "bytes": 705, "result": 705},
    'writev(3, [{iov_base="abc", iov_len=5}, ...], 2) = 12': {"call": "writev", "fd": 3, "result": 12},
    'pwritev2(3, [{iov_base="x", iov_len=1}], 1, 4096, RWF_DSYNC) = 1': {
        "call": "pwritev2",
        "fd": 3,
        "bytes": 1,
        "offset_bytes": 4096,
        "flags": "RWF_DSYNC",
        "result": 1,
    },
    "_llseek(3, 4294967296, [4294967296], SEEK_SET) = 0": {
        "call": "_llseek",
        "fd": 3,
        "offset_bytes": 1 << 32,
        "request": "SEEK_SET",
        "result": 0,
    },
    "sendfile64(1, 3, [0] => [4096], 8192) = 4096": {
        "call": "sendfile64",
        "fd": 1,
        "fd2": 3,
        "offset2_bytes": 0,
        "bytes": 8192,
        "result": 4096,
    },
    "splice(3, NULL, 5, [7], 100, SPLICE_F_MOVE) = 100": {
        "call": "splice",
        "fd": 3,
        "fd2": 5,
        "offset2_bytes": 7,
        "bytes": 100,
        "flags": "SPLICE_F_MOVE",
        "result": 100,
    },
    "fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=1073741824, l_len=1}) = 0": {
        "call": "fcntl",
        "fd": 3,
        "request": "F_SETLK",
        "flags": "F_WRLCK",
        "offset_bytes": 1 << 30,
        "bytes": 1,
        "result": 0,
    },
    "fcntl64(3, F_GETFL) = 0x8402 (flags O_RDWR|O_APPEND|O_LARGEFILE)": {
        "call": "fcntl64",
        "fd": 3,
        "request": "F_GETFL",
        "result": 0x8402,
    },
    'stat("/a", {st_dev=makedev(0xfd, 0x1), st_ino=12, st_mode=S_IFREG|S_ISUID|0755, st_size=99}) = 0': {
        "call": "stat",
        "path": "/a",
        "dev": 0xFD << 20 | 1,
        "ino": 12,
        "mode": 0o104755,
        "size": 99,
        "result": 0,
    },
    "fstat(1, {st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0), ...}) = 0": {
        "call": "fstat",
        "fd": 1,
        "mode": 0o20620,
        "result": 0,
    },
    'statx(AT_FDCWD, "/a", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFDIR|0700, stx_ino=7, '
    "stx_size=10, stx_dev_major=8, stx_dev_minor=2}) = 0": {
        "call": "statx",
        "fd": -100,
        "path": "/a",
        "flags": "AT_STATX_SYNC_AS_STAT",
        "request": "STATX_ALL",
        "mode": 0o40700,
        "ino": 7,
        "size": 10,
        "dev": 8 << 20 | 2,
        "result": 0,
    },
    'renameat2(3</a>, "x", AT_FDCWD, "y", RENAME_NOREPLACE) = 0': {
        "call": "renameat2",
        "fd": 3,
        "fd_path": "/a",
        "fd_kind": "path",
        "path": "x",
        "fd2": -100,
        "path2": "y",
        "flags": "RENAME_NOREPLACE",
        "result": 0,
    },
    "mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0xb6f00000": {
        "call": "mmap2",
        "bytes": 4096,
        "request": "PROT_READ",
        "flags": "MAP_PRIVATE|MAP_ANONYMOUS",
        "offset_bytes": 0,
        "result": 0xB6F00000,
    },
    "mmap(0x7f0000000000, 8192, PROT_READ, MAP_SHARED, 3</a>, 0x3000) = 0x7f0000000000": {
        "call": "mmap",
        "address": 0x7F0000000000,
        "bytes": 8192,
        "request": "PROT_READ",
        "flags": "MAP_SHARED",
        "fd": 3,
        "fd_path": "/a",
        "fd_kind": "path",
        "offset_bytes": 0x3000,
        "result": 0x7F0000000000,
    },
    "clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 123": {
        "call": "clone",
        "flags": "CLONE_CHILD_CLEARTID|SIGCHLD",
        "result": 123,
    },
    "clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, exit_signal=0, stack=0x7f}, 88) = 124": {
        "call": "clone3",
        "flags": "CLONE_VM|CLONE_FS|CLONE_FILES",
        "result": 124,
    },
    "clone3({flags=CLONE_VM|CLONE_FILES, exit_signal=0} => {parent_tid=[125]}, 88) = 125": {
        "call": "clone3",
        "flags": "CLONE_VM|CLONE_FILES",
        "result": 125,
    },
    'execve("/bin/sh", ["sh", "-c", "a, b) = 3"], 0x7ffe /* 12 vars */) = 0': {
        "call": "execve",
        "path": "/bin/sh",
        "result": 0,
    },
    'sendmsg(5, {msg_name=NULL, msg_iov=[{iov_base="x", iov_len=1}], msg_iovlen=1, msg_control=[{cmsg_len=20, '
    "cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[7</b>]}], msg_controllen=24, msg_flags=0}, 0) = 1": {
        "call": "sendmsg",
        "fd": 5,
        "bytes": 1,
        "fd2": 7,
        "fd2_path": "/b",
        "request": "SCM_RIGHTS",
        "flags": "0",
        "result": 1,
    },
    "pipe([3<pipe:[1]>, 4<pipe:[1]>]) = 0": {
        "call": "pipe",
        "fd": 3,
        "fd_path": "pipe:[1]",
        "fd_kind": "pipe",
        "fd2": 4,
        "fd2_path": "pipe:[1]",
        "result": 0,
    },
    "ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x45, 0x20, 0x8), 0x7ff) = -1 ENOTTY (Inappropriate ioctl for device)": {
        "call": "ioctl",
        "fd": 3,
        "request": "_IOC(_IOC_READ|_IOC_WRITE, 0x45, 0x20, 0x8)",
        "result": -25,
        "error": "ENOTTY",
    },
    "umask(077) = 022": {"call": "umask", "mode": 0o77, "result": 0o22},
    "exit_group(0) = ?": {"call": "exit_group", "request": "0"},
    "poll([{fd=3, events=POLLIN}], 1, 100) = 0 (Timeout)": {"call": "poll", "result": 0},
    "select(5, [3 4], NULL, NULL, {tv_sec=1, tv_usec=0}) = 1 (in [3], left {tv_sec=0, tv_usec=9}) <1.5>": {
        "call": "select",
        "result": 1,
        "duration_ns": 1_500_000_000,
    },
    "fsync(3) = -1 EIO (Input/output error) (INJECTED)": {"call": "fsync", "fd": 3, "result": -5, "error": "EIO"},
    "foo(1) = -1 (errno 4000)": {"call": "foo", "result": -4000},
    "foo(1) = -1 ENOTSUPP (Unknown error 524)": {"call": "foo", "result": -524, "error": "ENOTSUPP"},
    "syscall_0x1b5(0x1, 0x2) = -1 ENOSYS (Function not implemented)": {
        "call": "syscall_0x1b5",
        "result": -38,
        "error": "ENOSYS",
    },
    "restart_syscall(<... resuming interrupted read ...>) = 0": {"call": "restart_syscall", "result": 0},
    "brk(0xffff800000000000) = 0xffff800000000000": {
        "call": "brk",
        "address": -(1 << 47),
        "result": -(1 << 47),
    },
    "read(3, 0x7f, 18446744073709551615) = -1 EFAULT (Bad address)": {
        "call": "read",
        "fd": 3,
        "result": -14,
        "error": "EFAULT",
    },
    "lseek(-1, 99999999999999999999, SEEK_SET) = -1 EBADF (Bad file descriptor)": {
        "call": "lseek",
        "fd": -1,
        "request": "SEEK_SET",
        "result": -9,
        "error": "EBADF",
    },
    'openat(0xffffff9c, 0x7ffe /* "/x" */, 0x80000 /* O_RDONLY|O_CLOEXEC */) = 3': {
        "call": "openat",
        "fd": -100,
        "flags": "0x80000 /* O_RDONLY|O_CLOEXEC */",
        "result": 3,
    },
    'getcwd("/home/x", 4096) = 8': {"call": "getcwd", "path": "/home/x", "bytes": 4096, "result": 8},
    'access("/caf\\303\\251 \\x41\\n\\377", F_OK) = 0': {
        "call": "access",
        "path": "/café A\n\\xff",
        "flags": "F_OK",
        "result": 0,
    },
}


def test_shapes(tmp_path: Path) -> None:
    for line, shape in SHAPES.items():
        assert one(tmp_path, line) == {"line": 1, "state": "whole", **shape}, line


BEGINNINGS: dict[str, dict[str, Any]] = {
    "": {},
    "123 ": {"tid": 123},
    "1234567 ": {"tid": 1_234_567},
    "[pid   123] ": {"tid": 123},
    "[pid 123<a name>] ": {"tid": 123, "comm": "a name"},
    "123<sh>   ": {"tid": 123, "comm": "sh"},
    "12:34:56 ": {"ts_ns": 45_296_000_000_000},
    "123 12:34:56.000007 ": {"tid": 123, "ts_ns": 45_296_000_007_000},
    "1700000000.123456 ": {"ts_ns": 1_700_000_000_123_456_000},
    "1700000000 ": {"ts_ns": 1_700_000_000_000_000_000},
    "5 1700000000.123456789 ": {"tid": 5, "ts_ns": 1_700_000_000_123_456_789},
    "     0.000001 ": {"ts_ns": 1000},
    "77        0.000001 ": {"tid": 77, "ts_ns": 1000},
    "12:34:56.5 (+     0.000001) ": {"ts_ns": 45_296_500_000_000},
    "[   3] ": {},
    "[00007f1020b7a409] ": {},
    "9 12:34:56 [   3] [????????????????] ": {"tid": 9, "ts_ns": 45_296_000_000_000},
}
"""Beginnings of lines, and the columns they set."""


def test_beginnings_of_lines(tmp_path: Path) -> None:
    call = {"line": 1, "state": "whole", "call": "close", "fd": 3, "result": 0}
    for beginning, said in BEGINNINGS.items():
        assert one(tmp_path, f"{beginning}close(3) = 0") == call | said, beginning


# --- logs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [4, 5, 6, 1 << 17])
def test_calls_that_others_interrupt(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table may also be emptied between the beginning and the end of a call."""
    monkeypatch.setattr(strace, "ROWS", rows)
    staging, table = of_text(
        tmp_path,
        "5 1700000000.000000 read(3,  <unfinished ...>\n"
        "6 1700000000.000010 <... futex resumed>) = 0\n"
        "7 1700000000.000020 fsync(9 <unfinished ...>\n"
        '5 1700000000.000030 <... read resumed>"abc", 10) = 3\n'
        "8 1700000000.000040 close(1 <unfinished ...>\n"
        "7 1700000000.000050 +++ killed by SIGKILL +++\n"
        "9 1700000000.000060 ppoll(NULL, 0, NULL, NULL, 0 <unfinished ...>\n"
        "9 1700000000.000070 <... ppoll resumed> <unfinished ...>) = ?\n"
        '10 1700000000.000080 write(1, "a", 1 <unfinished ...>\n'
        "10 1700000000.000090 close(2) = 0\n",
    )
    start = 1_700_000_000_000_000_000
    assert table.select("ts_ns", "duration_ns", "line", "tid", "call", "state", "fd", "bytes", "result").rows() == [
        (start, 30_000, 1, 5, "read", "whole", 3, 10, 3),
        (start + 10_000, None, 2, 6, "futex", "resumed", None, None, 0),
        (start + 20_000, None, 3, 7, "fsync", "unfinished", 9, None, None),
        (start + 40_000, None, 5, 8, "close", "unfinished", 1, None, None),
        (start + 60_000, None, 7, 9, "ppoll", "unfinished", None, None, None),
        (start + 80_000, None, 9, 10, "write", "unfinished", 1, 1, None),
        (start + 90_000, None, 10, 10, "close", "whole", 2, None, 0),
    ]
    assert staging.events == {"+++ killed": 1, "close": 2, "fsync": 1, "futex": 1, "ppoll": 1, "read": 1, "write": 1}
    assert (staging.first_ns, staging.last_ns) == (start, start + 90_000)
    assert not staging.losses


def test_calls_that_never_returned_fill_several_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them has texts of its own."""
    monkeypatch.setattr(strace, "ROWS", 4)
    monkeypatch.setattr(strace, "STRINGS_BYTES", 0)
    calls = ["close", "fsync", "close", "fdatasync", "fsync", "close", "syncfs", "fsync", "close"]
    lines = (f"{tid} 1700000000.0000{tid} {call}(3 <unfinished ...>\n" for tid, call in enumerate(calls, 10))
    staging, table = of_text(tmp_path, "".join(lines))
    assert table.select("tid", "call", "state").rows() == [
        (tid, call, "unfinished") for tid, call in enumerate(calls, 10)
    ]
    assert staging.events == Counter(calls)


def test_what_was_joined_before_does_not_count(tmp_path: Path) -> None:
    """Both ends are joined with their beginnings in the same memory.

    The first, longer line has a `<` right after the position where the second one ends.
    """
    short = '"a", 1) = 1 <0.000005>'
    long = '"' + "x" * (len(short) - 1) + '<yyyyy", 99) = 9 <0.000007>'
    _, table = of_text(
        tmp_path,
        "5 1700000000.000000 read(3, <unfinished ...>\n6 1700000000.000010 close(1) = 0 <0.000001>\n"
        f"5 1700000000.000020 <... read resumed>{long}\n"
        "5 1700000000.000030 read(3, <unfinished ...>\n6 1700000000.000040 close(1) = 0 <0.000001>\n"
        f"5 1700000000.000050 <... read resumed>{short}\n",
    )
    assert table.filter(call="read").select("duration_ns", "result").rows() == [(7000, 9), (5000, 1)]


def test_without_times_rows_are_in_the_order_of_their_lines(tmp_path: Path) -> None:
    _, table = of_text(tmp_path, '5 read(3,  <unfinished ...>\n6 close(1) = 0\n5 <... read resumed>"", 1) = 0\n')
    assert table.select("line", "tid", "ts_ns").rows() == [(1, 5, None), (2, 6, None)]


def test_midnight(tmp_path: Path) -> None:
    staging, table = of_text(tmp_path, "23:59:59.9 close(1) = 0\n00:00:00.1 close(2) = 0\n00:00:00.0 close(3) = 0\n")
    day = 86_400_000_000_000
    assert table["ts_ns"].to_list() == [day - 100_000_000, day, day + 100_000_000]
    assert (staging.clock, staging.realtime_offset_ns) == ("time of day", None)


def test_relative_times_add_up(tmp_path: Path) -> None:
    log = "     0.000000 close(1) = 0\n     0.000100 --- SIGINT {si_signo=SIGINT} ---\n     1.000001 close(2) = 0\n"
    staging, table = of_text(tmp_path, log)
    assert table["ts_ns"].to_list() == [0, 1_000_101_000]
    assert staging.clock == "relative"


def test_clock(tmp_path: Path) -> None:
    staging, _ = of_text(tmp_path, "1700000000.5 close(1) = 0\n")
    assert (staging.clock, staging.realtime_offset_ns) == ("realtime", 0)
    staging, _ = of_text(tmp_path, "close(1) = 0\n")
    assert (staging.clock, staging.first_ns, staging.last_ns) == ("none", None, None)


def test_what_the_program_prints_is_counted(tmp_path: Path) -> None:
    staging, table = of_text(
        tmp_path,
        "hello\n"
        'write(1, "hello\\n", 6hello\n'
        ")                  = 6\n"
        "foo(bar\n"
        "close(1) = 0\n"
        "strace: Process 7 attached\n"
        "Process 8 attached\n"
        "[ Process PID=9 runs in 32 bit mode. ]\n"
        "\n"
        "this is f(x) = y\n",
    )
    assert table.select("line", "call", "bytes", "result").rows() == [(3, "write", 6, 6), (5, "close", None, 0)]
    (loss,) = staging.losses
    assert (loss.kind, loss.count) == ("unreadable", 3)
    assert "“hello”" in loss.message


def test_strace_speaks_in_the_middle_of_a_line(tmp_path: Path) -> None:
    staging, table = of_text(
        tmp_path,
        "clone(child_stack=NULL, flags=SIGCHLDstrace: Process 77 attached\n"
        ", child_tidptr=0x7f) = 77\n"
        "[pid    77] close(1) = 0\n"
        "[pid    70] close(2) = 0\n"
        "[pid    77] +++ exited with 0 +++\n"
        "close(3) = 0\n",
    )
    assert table.select("tid", "call", "flags", "result").rows() == [
        (70, "clone", "SIGCHLD", 77),
        (77, "close", None, 0),
        (70, "close", None, 0),
        (70, "close", None, 0),
    ]
    assert not staging.losses


@pytest.mark.prove
@pytest.mark.parametrize("name", ["plain", "microseconds, durations", "relative", "numbers and pointers", "stacks"])
def test_strace_may_speak_behind_any_argument(name: str, program: Path, tmp_path: Path) -> None:
    """strace reports a new thread after it has written the beginning of another thread's call."""
    log, _ = recorded(program, tmp_path, OPTIONS[name])
    lines = log.read_text().splitlines()
    staging, table = read(log)
    torn = tmp_path / "torn"
    random = Random(1)
    for number in range(20):
        torn.write_text("".join(_torn(line, random, number % 3 + 1) + "\n" for line in lines))
        torn_staging, torn_table = read(torn)
        assert not torn_staging.losses
        assert torn_table.drop("line").equals(table.drop("line"))
        assert torn_staging.events == staging.events


def _torn(line: str, random: Random, messages: int) -> str:
    """Return the line with that many messages of strace after one of its arguments, if it is a call."""
    places = [
        match.start()
        for match in re.finditer(r"(?<=[(])|(?<=, )|(?=[)])|(?= <unfinished )", line)
        if _is_between_arguments(line[: match.start()])
    ]
    if not places:
        return line
    place = random.choice(places)
    return line[:place] + "strace: Process 99 attached\n" * messages + line[place:]


def _is_between_arguments(beginning: str) -> bool:
    """Return whether a call has begun, and no text, bracket or other part of an argument is open."""
    call = re.search(r"(?<![\w<])[a-z_]\w*[(]", beginning)
    if call is None or beginning.startswith(" > "):
        return False
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", beginning[call.end() :])
    return '"' not in rest and all(rest.count(pair[0]) == rest.count(pair[1]) for pair in ("()", "[]", "{}"))


def test_summary_is_no_call(tmp_path: Path) -> None:
    staging, table = of_text(
        tmp_path,
        "close(1) = 0\n"
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000010          10         1           close\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000010          10         1           total\n"
        "close(2) = 0\n",
    )
    assert table.height == 2 and not staging.losses


@pytest.mark.parametrize(
    ("end", "rows", "torn"), [("close(2) = 0", 1, 1), ("+++ exited with 0 +++", 1, 0), ("clo", 1, 1)]
)
def test_a_last_line_without_an_end(end: str, rows: int, torn: int, tmp_path: Path) -> None:
    staging, table = of_text(tmp_path, f"close(1) = 0\n{end}")
    assert table.height == rows
    assert sum(loss.count for loss in staging.losses if loss.kind == "torn") == torn


def test_a_log_without_times_is_read_without_pandas(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("close(1) = 0\n")
    code = "import sys; from androstep_analysis import ingest; ingest.read(sys.argv[1]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True, check=True).stdout
    assert {"pandas", "numpy.ma"}.isdisjoint(loaded.split())


def test_a_line_without_end_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strace, "PIECE_BYTES", 100)
    monkeypatch.setattr(strace, "LINE_BYTES", 1000)
    staging, table = of_text(tmp_path, 'close(1) = 0\nwrite(1, "' + 5000 * "x" + '", 5000) = 5000\nclose(2) = 0\n')
    assert table["fd"].to_list() == [1, 2]
    assert [loss.kind for loss in staging.losses] == ["unreadable"]


@pytest.mark.parametrize(
    "text",
    [
        b"# a shell script\nclose 3\n",
        b"  8,0    1        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n",
        b"bash-1977 [000] .... 17284.993652: sys_close(fd: 3)\n",
        b"int main(void)\n{\n    return f(3);\n}\n",
        b"",
        b"\0" * 1000,
    ],
)
def test_other_text_is_no_log(text: bytes) -> None:
    assert not strace.sniff(text)


# --- unseen inputs ---------------------------------------------------------------------------------------------------

PATHS = st.binary(min_size=1, max_size=40).filter(lambda path: b"\0" not in path)


def quoted(path: bytes, hexadecimal: bool) -> str:
    """Return a path as strace prints it, with octal or hexadecimal escapes."""
    if hexadecimal:
        return '"' + "".join(f"\\x{byte:02x}" for byte in path) + '"'
    plain = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}
    parts = [plain.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in path]
    return '"' + "".join(parts) + '"'


@given(st.lists(st.tuples(PATHS, PATHS, st.integers(-1, (1 << 31) - 1), st.booleans()), min_size=1, max_size=20))
@settings(max_examples=25)
def test_any_path(tmp_path_factory: pytest.TempPathFactory, renames: list[tuple[bytes, bytes, int, bool]]) -> None:
    lines = [f"rename({quoted(old, in_hex)}, {quoted(new, in_hex)}) = {n}\n" for old, new, n, in_hex in renames]
    staging, table = of_text(tmp_path_factory.mktemp("path"), "".join(lines))
    assert not staging.losses
    assert table.select("path", "path2", "result").rows() == [
        (old.decode(errors="backslashreplace"), new.decode(errors="backslashreplace"), result)
        for old, new, result, _ in renames
    ]


ARGUMENTS = st.recursive(
    st.one_of(
        st.integers(-(1 << 63), (1 << 64) - 1).map(str),
        st.integers(0, (1 << 64) - 1).map(hex),
        PATHS.map(lambda path: quoted(path, False)),
        PATHS.map(lambda path: quoted(path, False) + "..."),
        st.sampled_from(
            ["NULL", "O_RDONLY|O_CLOEXEC", "0644", "...", "AT_FDCWD</a>", "3<TCP:[1->2]>", "0x1 /* X, ) */"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]"),
        st.lists(inner, max_size=3).map(lambda parts: "{" + ", ".join(f"f={part}" for part in parts) + "}"),
        inner.map(lambda part: f"makedev({part}, 1)"),
    ),
    max_leaves=8,
)


CALLS = st.tuples(
    st.sampled_from(["read", "openat", "mmap", "writev", "statx", "clone"]), st.lists(ARGUMENTS, max_size=7)
)


@given(st.lists(CALLS, min_size=1, max_size=20))
@settings(max_examples=25)
def test_any_arguments(tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, list[str]]]) -> None:
    lines = [f"{call}({', '.join(arguments)}) = {number}\n" for number, (call, arguments) in enumerate(calls)]
    staging, table = of_text(tmp_path_factory.mktemp("arguments"), "".join(lines))
    assert not staging.losses
    assert table.select("call", "result").rows() == [(call, number) for number, (call, _) in enumerate(calls)]


@pytest.mark.prove
@given(st.binary(max_size=300))
@example(b"clone(flags=) = 5\n[pid 5] <... clone resumed>) = 4")
@example(b'write(1, "\\')
@settings(max_examples=50)
def test_garbage(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    text = b"5 close(1) = 0\n" + garbage + b"\n5 close(2) = 0\n"
    staging, table = of_text(tmp_path_factory.mktemp("garbage"), text)
    assert table.height >= 1
    assert table.height <= text.count(b"\n")
    assert sum(loss.count for loss in staging.losses) <= text.count(b"\n")


@pytest.mark.prove
def test_cut_anywhere(program: Path, tmp_path: Path) -> None:
    log, _ = recorded(program, tmp_path, ["-f", "-ttt"])
    data = log.read_bytes()
    whole = read(log)[1].filter(state="whole")
    known = {row["line"]: row for row in whole.iter_rows(named=True)}
    for place in range(0, len(data), max(1, len(data) // 60)):
        (tmp_path / "cut").write_bytes(data[:place])
        for row in read(tmp_path / "cut")[1].filter(state="whole").iter_rows(named=True):
            assert row == known[row["line"]]


def test_forks_that_others_interrupt_make_any_number_of_threads_known(tmp_path: Path) -> None:
    forks = "".join(
        f"{tid}  vfork( <unfinished ...>\n{tid}  <... vfork resumed>) = {tid + 1}\n" for tid in range(1, 1000)
    )
    staging, table = of_text(tmp_path, forks)
    assert table["state"].unique().to_list() == ["whole"]
    assert table["result"].to_list() == list(range(2, 1001))
    assert staging.tasks is not None
    assert sorted(staging.tasks["tid"].to_list()) == list(range(1, 1001))


NAMED = """\
100<old> 1700000000.000001 read(3, "x", 1) = 1 <0.000001>
100<old> 1700000001.000001 prctl(PR_SET_NAME, "new") = 0 <0.000001>
101<worker> 1700000001.500001 read(3, "x", 1) = 1 <0.000001>
100<new> 1700000002.000001 read(3, "x", 1) = 1 <0.000001>
100<old> 1700000003.000001 read(3, "x", 1) = 1 <0.000001>
"""


def test_names_of_a_thread_follow_time(tmp_path: Path) -> None:
    """Each name is valid from the call at which it was first printed until the last one; without times, the first."""
    (tmp_path / "log").write_text(NAMED)
    calls = readers.read(tmp_path / "log").syscalls
    threads = readers.read(tmp_path / "log").tasks
    second_ns = 10**9
    first_ns = 1_700_000_000 * second_ns + 1000
    assert threads.select("tid", "comm", "valid_from_ns", "valid_to_ns").rows() == [
        (100, "old", None, first_ns + second_ns + 1),
        (100, "new", first_ns + 2 * second_ns, first_ns + 2 * second_ns + 1),
        (100, "old", first_ns + 3 * second_ns, None),
        (101, "worker", None, None),
    ]
    for tid, comm, ts_ns in calls.select("tid", "comm", "ts_ns").rows():
        valid = [
            name
            for task, name, begin, end in threads.select("tid", "comm", "valid_from_ns", "valid_to_ns").rows()
            if task == tid and (begin or 0) <= ts_ns < (end or ts_ns + 1)
        ]
        assert valid == [comm]
    (tmp_path / "untimed").write_text(re.sub(r" \d{10}\.\d+", "", NAMED))
    assert readers.read(tmp_path / "untimed").tasks["tid"].to_list() == [100, 101]
