"""The directory of a replay: nothing outside of it is modified, whatever a program contains and others create there.

probes/ioreplay/tests/test_sandbox.c tries every call with every path that could lead out. Here other processes
interfere, and strace checks the calls.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import built, confined, loops, made, replayed

from androstep_analysis.replay.program import Program

WAYS = ["openat2", "walk"]
SECONDS = 3


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return a directory that must not change."""
    directory = tmp_path / "outside"
    (directory / "directory").mkdir(parents=True)
    (directory / "secret").write_text("canary")
    (directory / "directory" / "inner").write_text("canary")
    return directory


def digest(directory: Path) -> str:
    """Return a digest of names, contents, modes, owners and times of the files in a directory."""
    seen = hashlib.sha256()
    for path in [directory, *sorted(directory.rglob("*"))]:
        about = path.lstat()
        seen.update(repr((path, about.st_mode, about.st_nlink, about.st_uid)).encode("utf-8", "surrogateescape"))
        seen.update(repr((about.st_size, about.st_mtime_ns, about.st_ctime_ns)).encode())
        seen.update(path.read_bytes() if path.is_file() else b"")
    return seen.hexdigest()


def by(way: str) -> list[str | Path]:
    """Return the words before a command with which it finds files in this way."""
    return [] if way == "openat2" else [built.program("test_sandbox"), "without-openat2"]


def traced(log: Path) -> list[str | Path]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    return [*confined.STRACE, "-o", log]


@contextlib.contextmanager
def planting(sandbox: Path, target: str) -> Iterator[None]:
    """Start a process that creates links, pipes and devices in the sandbox and moves them."""
    command = [built.program("test_sandbox"), "plant", sandbox, target, str(SECONDS - 1)]
    with subprocess.Popen(command) as planter:
        try:
            yield
        finally:
            planter.kill()


def run_among_others(*command: str | Path) -> None:
    """Run a command while others interfere, who may also create files in a directory that is being removed."""
    # Leaks are looked for by tracing, which strace does already.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300)
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
    assert done.returncode == 0 or done.stderr.endswith(b"; remove it yourself\n"), done.stderr.decode()


# -- others plant --------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("way", WAYS)
def test_strace_sees_nothing_outside(way: str, tmp_path: Path, canary: Path) -> None:
    before, sandbox, log = digest(canary), tmp_path / "box", tmp_path / "log"
    with planting(sandbox, "../outside"):
        run_among_others(*by(way), *traced(log), built.program("test_sandbox"), "operate", sandbox, str(SECONDS))
    assert confined.outside(log, sandbox) == []
    assert digest(canary) == before
    calls = log.read_text("utf-8", "surrogateescape")
    assert (calls.count("RESOLVE_BENEATH") > 1) == (way == "openat2")
    assert calls.count("ELOOP") > 100 if way == "openat2" else re.search(r'flip>, "", {st_mode=S_IFLNK', calls)
    for kind in ("pipe", "socket", "device"):
        opened = [line for line in calls.splitlines() if re.search(rf"openat2?\(.* = \d+<.*/{kind}>", line)]
        assert len(opened) > 10
        assert all("O_PATH" in line for line in opened)


# -- the witness itself --------------------------------------------------------------------------------------------

BOX = "/tmp/box"
ENTERED = f'7 openat(4</tmp>, "box", O_RDONLY|O_DIRECTORY) = 5<{BOX}>\n7 flock(5<{BOX}>, LOCK_EX|LOCK_NB) = 0\n'
OPENED = f'7 openat(5<{BOX}>, "d", O_RDONLY|O_CLOEXEC|O_NOFOLLOW|O_PATH|O_DIRECTORY) = 6<{BOX}/d>\n'
BENEATH = "resolve=RESOLVE_NO_XDEV|RESOLVE_NO_MAGICLINKS|RESOLVE_NO_SYMLINKS|RESOLVE_BENEATH"


@pytest.mark.parametrize(
    "line",
    [
        'openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 7</etc/passwd>',
        'openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = -1 ENOENT (No such file or directory)',
        'open("/tmp/box/file", O_RDONLY) = 7</tmp/box/file>',
        'openat(AT_FDCWD</tmp/box>, "/tmp/box/file", O_RDONLY|O_NOFOLLOW) = 7</tmp/box/file>',
        'openat(5</tmp/box>, "file", O_RDONLY) = 7</tmp/box/file>',
        'openat(5</tmp/box>, "d/file", O_RDONLY|O_NOFOLLOW) = 7</tmp/box/d/file>',
        'openat(5</tmp/box>, "file", O_RDONLY|O_NOFOLLOW) = 7</tmp/outside>',
        'openat(5</tmp/boxer>, "file", O_RDONLY|O_NOFOLLOW) = 7</tmp/boxer/file>',
        'openat(5</tmp/box>, "../file", O_RDONLY|O_NOFOLLOW) = -1 ENOENT (No such file or directory)',
        'openat(5</tmp/box>, "..", O_RDONLY|O_NOFOLLOW) = -1 ENOENT (No such file or directory)',
        'openat2(5</tmp/box>, "d/file", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = 7</tmp/box/d/file>',
        f'openat2(5</tmp/box>, "../x", {{flags=O_RDONLY, {BENEATH}}}, 24) = -1 EXDEV (Invalid cross-device link)',
        'openat(3</proc/7/fd>, "4", O_RDONLY) = 7</tmp>',
        'openat(3</proc/7/fd>, "9", O_RDONLY) = 7</tmp/box/file>',
        'openat(3</proc/7/fd>, "6", O_RDONLY) = 7</tmp/other>',
        'unlinkat(4</tmp>, "other", 0) = 0',
        'unlinkat(4</tmp>, "box", 0) = 0',
        'unlink("file") = 0',
        'renameat(5</tmp/box>, "file", 4</tmp>, "file") = 0',
        'renameat2(4</tmp>, "file", 5</tmp/box>, "file", RENAME_EXCHANGE) = 0',
        'linkat(5</tmp/box>, "file", 5</tmp/box>, "new", AT_SYMLINK_FOLLOW) = 0',
        'linkat(3</proc/7/fd>, "4", 5</tmp/box>, "file", AT_SYMLINK_FOLLOW) = -1 EPERM (Operation not permitted)',
        'symlinkat("a, 5</tmp/box>, \\"b\\"", 4</tmp>, "c") = 0',
        'fchmodat(5</tmp/box>, "file", 0600) = 0',
        'utimensat(5</tmp/box>, "file", [UTIME_NOW, UTIME_NOW], 0) = 0',
        'newfstatat(5</tmp/box>, "file", {st_mode=S_IFREG|0644, st_size=0, ...}, 0) = 0',
        'chdir("/") = 0',
        'mount("/tmp", "/tmp/box/d", NULL, MS_BIND, NULL) = 0',
        'openat(AT_FDCWD</>, "/proc/self/fd/4", O_RDONLY) = 7</tmp>',
        'access("/proc/self/fd/4", W_OK) = 0',
        'unlink("/proc/self/cwd/file") = 0',
        'openat(AT_FDCWD</>, "/proc/sys/vm/drop_caches", O_WRONLY) = 7</proc/sys/vm/drop_caches>',
    ],
)
def test_the_witness_catches(line: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{ENTERED}{OPENED}7 {line}\n")
    assert confined.outside(log, Path(BOX)) == [line]
    begun, rest = line.rsplit(")", 1)
    log.write_text(
        f"{ENTERED}{OPENED}7 1.5 {begun} <unfinished ...>\n8 1.6 close(9) = 0\n7 1.7 <... x resumed>){rest}\n"
    )
    assert len(confined.outside(log, Path(BOX))) == 1
    log.write_text(f"7 {line}\n{ENTERED}")
    assert confined.outside(log, Path(BOX)) == []


@pytest.mark.parametrize(
    "line",
    [
        f'openat2(5</tmp/box>, "d/file", {{flags=O_RDONLY, {BENEATH}}}, 24) = 7</tmp/box/d/file>',
        'openat(5</tmp/box>, "file", O_RDONLY|O_NOFOLLOW) = 7</tmp/box/file>',
        'openat(6</tmp/box/d>(deleted), "file", O_RDONLY|O_NOFOLLOW) = -1 ENOENT (No such file or directory)',
        'openat(3</proc/7/fd>, "6", O_RDONLY) = 7</tmp/box/d>',
        'fchmodat(3</proc/7/fd>, "6", 0600) = 0',
        'symlinkat("/etc/passwd", 5</tmp/box>, "link") = 0',
        'renameat(5</tmp/box>, "file", 6</tmp/box/d>, "file") = 0',
        'linkat(5</tmp/box>, "file", 6</tmp/box/d>, "file", 0) = 0',
        'linkat(3</proc/7/fd>, "6", 5</tmp/box>, "file", AT_SYMLINK_FOLLOW) = -1 EPERM (Operation not permitted)',
        'unlinkat(4</tmp>, "box", AT_REMOVEDIR) = 0',
        'newfstatat(1</dev/null>, "", {st_mode=S_IFCHR|0666, ...}, AT_EMPTY_PATH) = 0',
        'openat(AT_FDCWD</>, "/proc/self/mountinfo", O_RDONLY|O_CLOEXEC) = 7</proc/7/mountinfo>',
        'access("/proc/self/fd/6", W_OK) = 0',
        'readlink("/proc/self/fd/4", "/tmp", 4095) = 4',
        'write(1</dev/null>, "/etc/passwd", 11) = 11',
        "getdents64(5</tmp/box>, 0x5 /* 2 entries */, 32768) = 48",
    ],
)
def test_the_witness_lets_pass(line: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{ENTERED}{OPENED}7 {line}\n")
    assert confined.outside(log, Path(BOX)) == []


def test_the_witness_wants_to_have_seen_it_entered(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('7 openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 7</etc/passwd>\n')
    with pytest.raises(ValueError, match="nobody entered /tmp/box"):
        confined.outside(tmp_path / "log", Path(BOX))


def test_the_witness_catches_a_program_that_follows_links(tmp_path: Path, canary: Path) -> None:
    sandbox, log = tmp_path / "box", tmp_path / "log"
    sandbox.mkdir()
    (sandbox / "link").symlink_to("../outside")
    stray = (
        "import fcntl, os; box = os.open('box', os.O_DIRECTORY); fcntl.flock(box, fcntl.LOCK_EX);"
        "os.open('link/secret', os.O_RDONLY, dir_fd=box); os.mkdir('new', dir_fd=box)"
    )
    built.run(*traced(log), sys.executable, "-c", stray, cwd=tmp_path)
    (line,) = (line for line in confined.outside(log, sandbox) if "box" in line)
    assert '"link/secret"' in line and str(canary / "secret") in line


# -- a replay ------------------------------------------------------------------------------------------------------


def program(path: Path, rounds: int = 40) -> None:
    """Write a program that makes every call with a path repeatedly, on names that `planting` exchanges too."""
    paths = ("flip/secret", "flip/new", "link/secret", "pipe", "device", "d/file")
    calls: list[dict[str, Any]] = [
        {"call": "mkdir", "path": "d", "mode": 0o755},
        {"call": "open", "path": "spare", "flags": 0o102, "mode": 0o644},
        {"call": "open", "path": "d/file", "flags": 0o102, "mode": 0o644},
    ]
    for _ in range(rounds):
        for name in paths:
            calls += [
                {"call": "open", "path": name, "flags": 0o1102, "mode": 0o644},
                *({"call": call, "path": name} for call in ("stat", "lstat", "readlink", "statfs", "rmdir", "utimens")),
                {"call": "access", "path": name, "request": 4},
                {"call": "truncate", "path": name, "bytes": 3},
                {"call": "mkdir", "path": name, "mode": 0o755},
                {"call": "chmod", "path": name, "mode": 0o777},
                {"call": "rename", "path": name, "path2": "d/other"},
                {"call": "rename", "path": "d/other", "path2": name},
                {"call": "link", "path": name, "path2": "d/link"},
                {"call": "link", "path": "d/link", "path2": name},
                {"call": "symlink", "path": name, "path2": "../outside"},
                {"call": "unlink", "path": name},
                {"call": "unlink", "path": "d/link"},
                {"call": "open", "path": "d/file", "flags": 0o102, "mode": 0o644},
            ]
    usual = {"duration_ns": 1000, "thread": 0, "inserted": False}
    rows = [{"operation": number, "ts_ns": number * 500_000, **usual, **call} for number, call in enumerate(calls)]
    descriptors = 0
    for row in rows:
        if row["call"] == "open":
            row["descriptor"] = descriptors
            descriptors += 1
    Program.make(
        made.table("operations", rows),
        made.table("replay_files", []),
        made.table("replay_threads", [{"thread": 0}]),
        duration_ns=len(rows) * 500_000,
    ).write(path)


@pytest.mark.prove
@pytest.mark.parametrize("way", WAYS)
def test_a_replay_keeps_to_its_directory(way: str, tmp_path: Path, canary: Path) -> None:
    before, sandbox, log = digest(canary), tmp_path / "box", tmp_path / "log"
    program(tmp_path / "app.rec")
    with planting(sandbox, "../outside"):
        run_among_others(*by(way), *traced(log), built.program("ioreplay", "native"), tmp_path / "app.rec", sandbox)
    assert confined.outside(log, sandbox) == []
    assert digest(canary) == before
    calls = log.read_text("utf-8", "surrogateescape")
    assert (calls.count("RESOLVE_BENEATH") > 1) == (way == "openat2")
    for call in ("mkdirat", "unlinkat", "renameat", "linkat", "symlinkat", "readlinkat", "utimensat", "fchmodat"):
        assert f" {call}(" in calls, call


def test_the_device_build_keeps_to_its_directory(tmp_path: Path, canary: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64-static is not installed")
    before, sandbox = digest(canary), tmp_path / "box"
    program(tmp_path / "app.rec", 10)
    with planting(sandbox, "../outside"):
        run_among_others(emulator, built.program("ioreplay", "aarch64-linux-musl"), tmp_path / "app.rec", sandbox)
    assert digest(canary) == before


# -- its files -----------------------------------------------------------------------------------------------------


def test_a_directory_that_is_refused_stays_as_it_was(tmp_path: Path, canary: Path) -> None:
    replayed.program(tmp_path / "program.rec")
    before = digest(canary)
    built.run(built.program("ioreplay"), tmp_path / "program.rec", canary, status=1)
    assert digest(canary) == before


def test_contents_do_not_compress(tmp_path: Path) -> None:
    nr_bytes = 5 << 20
    built.run(built.program("test_sandbox"), "populate", tmp_path / "box", str(nr_bytes))
    contents = (tmp_path / "box" / "d" / "inner" / "big").read_bytes()
    assert len(contents) == nr_bytes
    assert len(zlib.compress(contents, 9)) > 0.999 * nr_bytes
    blocks = {contents[at : at + 4096] for at in range(0, nr_bytes, 4096)}
    assert len(blocks) == nr_bytes // 4096
    assert (tmp_path / "box" / "d" / "file").read_bytes()[:4096] not in blocks


def test_memory_is_never_cold(tmp_path: Path) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        done = built.run(built.program("test_sandbox"), "populate", Path(directory) / "box", "1000000")
    assert done.stdout == b"0\n"


@pytest.mark.root
def test_a_filesystem_of_its_own(tmp_path: Path) -> None:
    loops.make_ext4(tmp_path / "image", nr_mib=16)
    tool = built.program("test_sandbox")
    with loops.mounted(tmp_path / "image") as filesystem:
        built.run(tool, "operate", filesystem.top, "1")
        assert [path.name for path in filesystem.top.iterdir()] == ["lost+found"]
        told = built.run(tool, "populate", filesystem.top, str(16 << 20), status=1).stderr.decode()
        assert re.search(r": \d+ bytes are free, but the program's files need \d+; make room\n", told)
        assert [path.name for path in filesystem.top.iterdir()] == ["lost+found"]
        (filesystem.top / "lost+found" / "#12").touch()
        told = built.run(tool, "operate", filesystem.top, "1", status=1).stderr.decode()
        assert "is not empty" in told
        assert (filesystem.top / "lost+found" / "#12").exists()


@pytest.mark.root
def test_a_filesystem_without_inodes(tmp_path: Path) -> None:
    loops.make_ext4(tmp_path / "image", ["-N", "16"], nr_mib=16)
    with loops.mounted(tmp_path / "image") as filesystem:
        told = built.run(built.program("test_sandbox"), "populate", filesystem.top, "1", status=1).stderr.decode()
    assert re.search(r": \d more files can be made, but the program needs 8; ", told)


@pytest.mark.root
def test_an_ordinary_user_finds_the_same(tmp_path: Path) -> None:
    """Root may do what modes forbid; this one may not."""
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, 65534, 65534)  # also where the directory above is only root's to write to
        tool = shutil.copy(built.program("test_sandbox"), directory)
        own = {**os.environ, "TMPDIR": directory}
        built.run(tool, cwd="/", env=own, user=65534, group=65534, extra_groups=[])
