"""Recordings and programs made to do harm: each is done in its directory, or refused in one sentence; nothing else.

`RECORDINGS`, `MOBIGEN` and `PROGRAMS` are the table of what a user sees.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import built, confined
from support.made import table
from support.replay_programs import CREATE, READ_WRITE, opened, program

from androstep_analysis import cli
from androstep_analysis.replay.program import Program, read

EMPTY = "contains no operations on files; record the app while it uses files\n"
MEMORY_BYTES = 4 << 30
SECONDS = 60
LONG = "/".join(["n" * 200] * 25)
EIB = 1 << 60

OPEN = 'openat(AT_FDCWD, "/f", O_RDWR|O_CREAT, 0644) = 3'
DONE = r", (\d+) of \1 operations done by"
ROOM = r"\d+ bytes are free, but \d+ are needed; make room\n"
NOTHING = ", 0 of 0 operations done by"


def lines(*calls: str) -> str:
    """Return a log of strace in which one thread makes these calls, 1 µs apart."""
    return "".join(f"1 1700000000.{number:06} {call} <0.000001>\n" for number, call in enumerate(calls))


def threads(count: int) -> str:
    """Return the same as `lines`, with a thread for each of `count` calls on one file."""
    made = [
        f"1 1700000000.{number:06} clone(flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_THREAD) = {number + 2} <0.000001>\n"
        for number in range(count)
    ]
    used = [
        f'{number + 2} 1700000001.{number:06} pwrite64(3, "x", 1, {number}) = 1 <0.000001>\n' for number in range(count)
    ]
    return lines(OPEN) + "".join(made + used)


RECORDINGS = {
    "paths with ..": (
        lines(
            'openat(AT_FDCWD, "/../../../outside/secret", O_RDWR|O_TRUNC) = 3',
            'unlink("../outside/secret") = 0',
            'rename("/a/../../outside/directory", "/../moved") = 0',
            'rmdir("/../../outside") = -1 ENOTEMPTY (Directory not empty)',
        ),
        DONE,
    ),
    "absolute paths": (
        lines('openat(AT_FDCWD, "CANARY/secret", O_RDWR|O_TRUNC) = 3', 'unlink("CANARY/secret") = 0'),
        DONE,
    ),
    "links that lead out": (
        lines(
            'symlink("CANARY", "/l") = 0',
            'openat(AT_FDCWD, "/l/secret", O_RDWR|O_TRUNC) = 3',
            'symlink("../outside", "/m") = 0',
            'unlink("/m/secret") = 0',
            'chmod("/m", 0777) = 0',
        ),
        DONE,
    ),
    "links in circles": (
        lines(
            'symlink("/t", "/s") = 0',
            'symlink("/s", "/t") = 0',
            'stat("/s", 0x7f) = -1 ELOOP (Too many levels of symbolic links)',
            'openat(AT_FDCWD, "/t/x", O_RDWR|O_CREAT, 0600) = 3',
        ),
        DONE,
    ),
    "renames in circles": (
        lines(
            'mkdir("/a", 0777) = 0',
            'mkdir("/a/b", 0777) = 0',
            'rename("/a", "/a/b/c") = 0',
            'renameat2(AT_FDCWD, "/a/b", AT_FDCWD, "/a", RENAME_EXCHANGE) = 0',
            'rename("/a/b", "/a") = 0',
        ),
        DONE,
    ),
    "a directory linked into itself": (
        lines('link("/a", "/a/b") = 0', 'stat("/a/b/b/b", 0x7f) = 0', 'rename("/c", "/a/b/b") = 0', OPEN),
        DONE,
    ),
    "one inode on two levels": (
        lines(
            'stat("/a", 0x7f) = 0',
            'stat("/a/b", {st_dev=makedev(0x8, 0x1), st_ino=5, ...}) = 0',
            'stat("/a", {st_dev=makedev(0x8, 0x1), st_ino=5, ...}) = 0',
            'rename("/c", "/a/b/d") = 0',
            'stat("/a/b/d", 0x7f) = 0',
        ),
        DONE,
    ),
    "a process that is its own parent": (
        lines(OPEN, "clone(child_stack=NULL, flags=SIGCHLD) = 1", 'write(3, "x", 1) = 1'),
        DONE,
    ),
    "names of control characters": (
        lines(
            r'openat(AT_FDCWD, "/a\n\33[31mb\r\t\177", O_RDWR|O_CREAT, 0600) = 3',
            r'stat("/\xff\xfe\x80", 0x7f) = -1 ENOENT (No such file or directory)',
            r'mkdir("/\342\200\256x", 0777) = 0',
        ),
        DONE,
    ),
    "names with NUL": (lines(r'openat(AT_FDCWD, "/a\0b", O_RDWR|O_CREAT, 0600) = 3', r'unlink("\0") = 0'), DONE),
    "a path of 5000 bytes": (
        lines(f'openat(AT_FDCWD, "/{LONG}", O_RDWR|O_CREAT, 0600) = 3', f'mkdir("/{LONG}/x", 0777) = 0'),
        EMPTY,
    ),
    "descriptors that cannot be": (
        lines(
            'write(2147483648, "x", 1) = 1',
            'write(-1, "x", 1) = 1',
            "dup2(3, 2147483647) = 2147483647",
            "close_range(0, 4294967295, 0) = 0",
            "close(99999999999999999999) = 0",
        ),
        EMPTY,
    ),
    "descriptors used anew meanwhile": (
        lines(OPEN, "clone(flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_THREAD) = 2")
        + '2 1700000000.000010 write(3, "x"..., 4096 <unfinished ...>\n'
        + "1 1700000000.000011 close(3) = 0 <0.000001>\n"
        + '1 1700000000.000012 openat(AT_FDCWD, "/g", O_RDWR|O_CREAT, 0644) = 3 <0.000001>\n'
        + "2 1700000000.000013 <... write resumed>) = 4096 <0.000003>\n"
        + '2 1700000000.000014 write(3, "x", 1) = 1 <0.000001>\n',
        DONE,
    ),
    "offsets at the end of all": (
        lines(
            OPEN,
            'pwrite64(3, "x", 1, 9223372036854775807) = 1',
            'pwrite64(3, "x", 1, 4611686018427387904) = 1',
            "lseek(3, 9223372036854775807, SEEK_SET) = 9223372036854775807",
            'write(3, "x", 1) = 1',
            "ftruncate(3, 1152921504606846976) = 0",
            "readahead(3, 0, 9223372036854775807) = 0",
        ),
        DONE,
    ),
    "lengths of 1 TiB": (
        lines(
            OPEN,
            'write(3, "x"..., 1099511627776) = 1099511627776',
            'read(3, ""..., 1099511627776) = 0',
            "mmap(NULL, 1152921504606846976, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_POPULATE, 3, 0) = 0x7f0000000000",
            "copy_file_range(3, [0], 3, [1099511627776], 9223372036854775807, 0) = 0",
        ),
        DONE,
    ),
    "1 PiB allocated": (lines(OPEN, "fallocate(3, 0, 0, 1125899906842624) = 0"), ROOM),
    "1 EiB allocated": (lines(OPEN, "fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 1152921504606846976) = 0"), ROOM),
    "a file of 1 EiB": (
        lines(
            'stat("/f", {st_mode=S_IFREG|0644, st_size=1152921504606846976, ...}) = 0',
            'openat(AT_FDCWD, "/f", O_RDONLY) = 3',
        ),
        ROOM,
    ),
    "files of 20 EiB": (
        lines(*(f'stat("/f{number}", {{st_mode=S_IFREG|0644, st_size={EIB}, ...}}) = 0' for number in range(20))),
        ROOM,
    ),
    "cut in a line": (lines(OPEN, 'write(3, "x"..., 4096) = 4096', 'write(3, "x"..., 4096) = 4096')[:-30], DONE),
    "10,000 threads": (
        threads(10_000),
        r", 1\d,\d+ of|by 1\d,?\d+ threads|by 10,?\d+ threads|10001? threads",
    ),
}
"""Recordings (CANARY: the directory that must stay as it is), and what is said of each: by ioreplay, or, where no
program can be made of it, by `androstep program`."""


MOBIGEN = {
    "paths with ..": ("1 0 open ../../outside/secret O_RDWR 3\n1 5 unlink /../outside/secret 0\n"),
    "numbers that cannot be": (
        "1 0 open /f O_RDONLY 3\n1 5 pread 3 99999999999999999999 9223372036854775807 1\n1 6 read -1 2147483648 1\n"
    ),
    "cut in a line": "1 0 open /f O_RDONLY 3\n1 5 read 3 10",
    "bytes": "\x00\x01\xff 1 2\n",
}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return a directory that must not change."""
    directory = tmp_path / "outside"
    (directory / "directory").mkdir(parents=True)
    (directory / "secret").write_text("canary")
    return directory


def digest(directory: Path) -> str:
    """Return a digest of names, contents, modes and times in the directory."""
    seen = hashlib.sha256()
    for path in [directory, *sorted(directory.rglob("*"))]:
        about = path.lstat()
        seen.update(repr((path, about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns)).encode())
        seen.update(path.read_bytes() if path.is_file() else b"")
    return seen.hexdigest()


def bounded(variant: str) -> Any:
    """Return the limit of a process's memory. Sanitizers need the whole address space."""
    return None if variant == "sanitized" else lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES,) * 2)


def replayed(top: Path, log: Path | None = None, variant: str = "sanitized") -> subprocess.CompletedProcess[bytes]:
    """ioreplay of program.rec in directory `box` of `top`, within bounds, traced to a log."""
    traced: list[str | Path] = [] if log is None else [*confined.STRACE, "-o", log]
    command = [*traced, built.program("ioreplay", variant), "--mode", "as-fast", top / "program.rec", top / "box"]
    environment = os.environ | ({"ASAN_OPTIONS": "detect_leaks=0"} if traced else {})
    done = subprocess.run(
        command, capture_output=True, timeout=SECONDS, env=environment, preexec_fn=bounded(variant), check=False
    )
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr.decode()
    return done


def check_left_alone(top: Path, canary: Path, before: str) -> None:
    assert digest(canary) == before
    assert not (top / "box").exists()
    assert {path.name for path in top.iterdir()} <= {"outside", "a.strace", "mobigen.out.a", "program.rec", "log"}


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the output of a completed replay, or the message of one that was refused."""
    if done.returncode == 0:
        return done.stdout.decode()
    assert done.returncode == 1
    (sentence,) = (line for line in done.stderr.decode().splitlines(True) if not re.match(r"ioreplay: \d+ % ", line))
    return sentence


@pytest.mark.prove
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording(name: str, tmp_path: Path, canary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, expected = RECORDINGS[name]
    (tmp_path / "a.strace").write_text(text.replace("CANARY", str(canary)))
    before = digest(canary)
    status = cli.main(["program", str(tmp_path / "a.strace"), "-o", str(tmp_path / "program.rec")])
    told = capsys.readouterr()
    assert not re.search(r"[\0-\x08\x0b-\x1f\x7f]", told.out)
    if status:
        (sentence,) = told.err.splitlines(True)
        assert re.search(expected, sentence)
        check_left_alone(tmp_path, canary, before)
        return
    is_large = name == "10,000 threads"
    log = None if is_large or shutil.which("strace") is None else tmp_path / "log"
    done = replayed(tmp_path, log, "native" if is_large else "sanitized")
    assert re.search(expected, said(done)), said(done)
    assert not re.search(rb"[\0-\x08\x0b-\x0c\x0e-\x1f\x7f]", done.stdout)
    if log and done.returncode == 0:
        assert confined.outside(log, tmp_path / "box") == []
    check_left_alone(tmp_path, canary, before)


@pytest.mark.parametrize(
    "name", ["1 PiB allocated", "offsets at the end of all", "lengths of 1 TiB", "a file of 1 EiB"]
)
def test_memory_is_bounded(name: str, tmp_path: Path, canary: Path) -> None:
    text, expected = RECORDINGS[name]
    (tmp_path / "a.strace").write_text(text)
    assert cli.main(["program", str(tmp_path / "a.strace"), "-o", str(tmp_path / "program.rec")]) == 0
    assert re.search(expected, said(replayed(tmp_path, variant="native")))


@pytest.mark.parametrize("name", MOBIGEN)
def test_a_script_of_mobigen(name: str, tmp_path: Path, canary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mobigen.out.a").write_bytes(MOBIGEN[name].encode("latin-1"))
    before = digest(canary)
    status = cli.main(["program", str(tmp_path / "mobigen.out.a"), "-o", str(tmp_path / "program.rec")])
    if status == 0:
        assert re.search(DONE, said(replayed(tmp_path)))
    else:
        (sentence,) = capsys.readouterr().err.splitlines()
        assert str(tmp_path / "mobigen.out.a") in sentence
    check_left_alone(tmp_path, canary, before)


# -- programs ------------------------------------------------------------------------------------------------------


def sized(*sizes: int) -> Program:
    files = [
        {"path": f"f{n}", "inode_type": "file", "size_bytes": size, "size_from": "stat"} for n, size in enumerate(sizes)
    ]
    return program([{"call": "sync"}], files)


PROGRAMS = {
    "files of 2^64 bytes": (sized((1 << 63) - 1, (1 << 63) - 1, 5), ROOM),
    "the largest number of a file": (
        program([{"call": "sync"}], [{"path": "f", "inode_type": "file", "file": (1 << 31) - 2}]),
        DONE,
    ),
    "a hole punched in 1 EiB": (
        program([opened(0, "f"), {"call": "fallocate", "descriptor": 0, "offset_bytes": 0, "bytes": EIB, "flags": 3}]),
        DONE,
    ),
    "written results beyond all numbers": (
        program(
            [
                opened(0, "f"),
                *({"call": "copy_file_range", "descriptor": 0, "descriptor2": 0, "bytes": 1, "result": (1 << 63) - 1},)
                * 3,
            ]
        ),
        DONE,
    ),
    "a link instead of a directory": (
        program(
            [opened(0, "l/secret", READ_WRITE | CREATE), {"call": "unlink", "path": "l/secret"}],
            [{"path": "l", "inode_type": "symlink", "target": "../outside"}],
        ),
        DONE,
    ),
}
"""Programs that no recording gives, and what ioreplay says of each."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str, tmp_path: Path, canary: Path) -> None:
    made, expected = PROGRAMS[name]
    made.write(tmp_path / "program.rec")
    before = digest(canary)
    dry = built.run(built.program("ioreplay"), "--dry-run", tmp_path / "program.rec")
    assert b"-" not in dry.stdout.partition(b"made before")[2]
    assert re.search(expected, said(replayed(tmp_path)))
    check_left_alone(tmp_path, canary, before)


def test_a_thread_that_is_not_told_of(tmp_path: Path) -> None:
    made = program([{"call": "sync"}])
    replace(made, threads=table("replay_threads", [])).write(tmp_path / "program.rec")
    assert "operation 0: the number of a thread" in said(replayed(tmp_path))


def test_names_of_unnamed_files_that_were_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.strace").write_text(
        lines('stat("/.unnamed/0", 0x7f) = 0', 'pread64(9, "x", 1, 0) = 1', 'pread64(8, "x", 1, 0) = 1')
    )
    assert cli.main(["program", str(tmp_path / "a.strace"), "-o", str(tmp_path / "program.rec")]) == 0
    assert read(tmp_path / "program.rec").files["path"].to_list().count(".unnamed") == 1
    assert re.search(DONE, said(replayed(tmp_path)))
