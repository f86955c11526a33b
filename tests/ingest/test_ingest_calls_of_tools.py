"""System calls as perf trace and io-tracer print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import androstep_analysis as androstep
from androstep_analysis.capture import Capture

pytestmark = pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")


def opened(tmp_path: Path, text: str, codec: str = "utf-8") -> Capture:
    path = tmp_path / "calls.txt"
    path.write_bytes(text.encode(codec))
    return androstep.open(path)


def rows(capture: Capture, *columns: str) -> list[tuple[Any, ...]]:
    return capture.syscalls.sort("line").select(columns).collect().rows()


PERF = """\
     0.000 ( 0.006 ms): cat/1234 read(fd: 3</a b>, buf: 0x7ffd, count: 832)                 = 832
     0.100 (         ): my, app/12/1235 fsync(fd: 4</db>) ...
     0.200 ( 0.002 ms): :77/77 openat(dfd: CWD, filename: "/etc/x, y", flags: RDONLY|CLOEXEC) = 3
     0.300 ( 0.002 ms): cat/1234 openat(dfd: CWD, filename: 0x1234, flags: WRONLY|CREAT) = -1 ENOENT (No such file)
     0.100 (12.345 ms): my, app/12/1235  ... [continued]: fsync())                 = 0
     0.400 ( 0.004 ms): abcdefghijklmn/9 pwrite64(fd: 3, buf: 0x1, count: 4096, pos: 8192) = -1 EIO Input/output error
     0.500 (         ): cat/1234 exit_group() = ?
LOST 12 events!
     0.600 (         ): cat/1234 fdatasync(fd: 4) ...
     0.800 ( 0.001 ms): cat/1234 mmap(len: 8192, prot: READ, flags: PRIVATE, fd: 3) = 0x10
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_calls_of_perf_trace(codec: str, end: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, PERF.replace("\n", end), codec)
    assert rows(capture, "line", "ts_ns", "duration_ns", "tid", "comm", "call", "state") == [
        (1, 0, 6_000, 1234, "cat", "read", "whole"),
        (2, 100_000, 12_345_000, 1235, "my, app/12", "fsync", "whole"),
        (3, 200_000, 2_000, 77, None, "openat", "whole"),
        (4, 300_000, 2_000, 1234, "cat", "openat", "whole"),
        (6, 400_000, 4_000, 9, "abcdefghijklmn…", "pwrite64", "whole"),
        (9, 600_000, None, 1234, "cat", "fdatasync", "unfinished"),
        (10, 800_000, 1_000, 1234, "cat", "mmap", "whole"),
    ]
    assert rows(capture, "fd", "fd_path", "path", "bytes", "offset_bytes", "result", "error") == [
        (3, "/a b", None, 832, None, 832, None),
        (4, "/db", None, None, None, 0, None),
        (-100, None, "/etc/x, y", None, None, 3, None),
        (-100, None, None, None, None, -2, "ENOENT"),
        (3, None, None, 4096, 8192, -5, "EIO"),
        (4, None, None, None, None, None, None),
        (3, None, None, 8192, None, 16, None),
    ]
    assert [flags for (flags,) in rows(capture, "flags")][2:4] == ["O_RDONLY|O_CLOEXEC", "O_WRONLY|O_CREAT"]
    assert [(loss["kind"], loss["count"]) for loss in capture.about["losses"]] == [("dropped", 12)]


def test_other_events_of_perf_trace_are_counted(tmp_path: Path) -> None:
    text = PERF.splitlines(keepends=True)[0] + "     0.700 block:block_rq_issue:8,0 R 4096 () 8 + 8 [cat]\n"
    capture = opened(tmp_path, text)
    assert [(loss["kind"], loss["count"]) for loss in capture.about["losses"]] == [("unreadable", 1)]
    assert len(rows(capture, "call")) == 1 and capture.about["rows"]["requests"] == 0


def test_the_end_of_a_call_without_its_begin_has_no_arguments(tmp_path: Path) -> None:
    capture = opened(tmp_path, PERF.splitlines(keepends=True)[4])
    assert rows(capture, "call", "fd", "fd_path", "result", "duration_ns") == [("fsync", None, None, 0, 12_345_000)]


HEADER = "timestamp,operation,pid,command,filename,size,inode,flags,offset,tid\n"
IO_TRACER = """\
2024-01-15 10:30:45.123456,READ,12,a b,/x,4096,5,O_RDONLY,8192,13
2024-01-15 10:30:45.2,RENAME,12,mv,/a, b -> /c,0,5,,,12
2024-01-15 10:30:45.3,MMAP,12,mv,"/a,b",4096,5,"PROT_READ,MAP_SHARED",,12
2024-01-15 10:30:45.4,FSYNC,12,mv,[decode_error],0,5,O_RDWR,,12
2024-01-15 10:30:45.5,OPEN,12,mv,/n,0,5,O_RDWR|O_CREAT,,12
"""


@pytest.mark.parametrize("header", [HEADER, ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_calls_of_io_tracer(header: str, end: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, (header + IO_TRACER).replace("\n", end))
    assert rows(
        capture, "call", "pid", "tid", "comm", "fd_path", "path", "path2", "bytes", "offset_bytes", "flags"
    ) == [
        ("read", 12, 13, "a b", "/x", None, None, 4096, 8192, None),
        ("rename", 12, 12, "mv", None, "/a, b", "/c", None, None, None),
        ("mmap", 12, 12, "mv", "/a,b", None, None, 4096, None, None),
        ("fsync", 12, 12, "mv", None, None, None, None, None, None),
        ("open", 12, 12, "mv", None, "/n", None, None, None, "O_RDWR|O_CREAT"),
    ]
    assert rows(capture, "duration_ns", "result") == [(None, None)] * 5
    assert rows(capture, "ts_ns")[0] == (1_705_314_645_123_456_000,)
    assert capture.about["losses"] == []


def test_older_calls_of_io_tracer_have_no_thread(tmp_path: Path) -> None:
    text = "".join(f"{line.rsplit(',', 2)[0]},0\n" for line in IO_TRACER.splitlines())
    capture = opened(tmp_path, text.replace(" -> ", "->"))
    assert rows(capture, "call", "tid", "offset_bytes") == [
        (call, None, None) for call in ("read", "rename", "mmap", "fsync", "open")
    ]
    assert rows(capture, "path", "path2")[1] == ("/a, b", "/c")


@pytest.mark.parametrize("row", ["2024-13-45,READ", "2024-13-45 10:30:45.1,READ,12,a,/x,1,5,,,13"])
def test_a_row_of_io_tracer_that_cannot_be_read_is_counted(row: str, tmp_path: Path) -> None:
    capture = opened(tmp_path, f"{HEADER}{IO_TRACER}{row}\n")
    assert [(loss["kind"], loss["count"]) for loss in capture.about["losses"]] == [("unreadable", 1)]
