"""The directory of a replay: nothing outside of it is modified, whatever a program contains and others create there.

test_ioreplay_paths.py tries every call with every path that could lead out. Here other processes interfere, and
strace checks the calls.
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
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import built, confined, loops, made, replayed
from support.replay_programs import command, opened, replay, results
from support.replay_programs import program as listed
from support.tree import ROOT

from androstep_analysis.replay.program import Program

WAYS = ["openat2", "walk"]
SECONDS = 3
ATTACKER = ROOT / "tests" / "support" / "attacker.py"


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
    return [] if way == "openat2" else [sys.executable, ATTACKER, "without-openat2"]


def traced(log: Path) -> list[str | Path]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    return [*confined.STRACE, "-o", log]


@contextlib.contextmanager
def planting(sandbox: Path, target: str) -> Iterator[None]:
    """Start a process that creates links, pipes and devices in the sandbox and moves them."""
    command = [sys.executable, ATTACKER, "plant", sandbox, target, str(SECONDS - 1)]
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
    paths = ("flip/secret", "flip/new", "link/secret", "d/file", "../outside/secret", "/etc/passwd")
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
    for name in ("pipe", "socket", "device"):  # these are only opened: others create them
        calls += [{"call": "open", "path": name, "flags": 0}, {"call": "truncate", "path": name, "bytes": 3}] * rounds
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
    assert calls.count("ELOOP") > 100 if way == "openat2" else re.search(r'flip>, "", {st_mode=S_IFLNK', calls)
    for call in ("mkdirat", "unlinkat", "renameat", "linkat", "symlinkat", "readlinkat", "utimensat", "fchmodat"):
        assert f" {call}(" in calls, call
    for kind in ("pipe", "socket", "device"):
        opened_ones = [line for line in calls.splitlines() if re.search(rf"openat2?\(.* = \d+<.*/{kind}>", line)]
        assert len(opened_ones) > 10
        assert all("O_PATH" in line for line in opened_ones)


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


FILES: list[dict[str, Any]] = [
    {"path": ".", "inode_type": "directory", "mode": 0o755},
    {"path": "d", "inode_type": "directory", "mode": 0o500},
    {"path": "d/file", "inode_type": "file", "size_bytes": 10_001, "mode": 0o400, "file": 2},
    {"path": "link", "inode_type": "symlink", "target": "/etc/passwd", "mode": 0o777},
    {"path": "empty", "inode_type": "file", "size_bytes": 0},
    {"path": "d/second", "inode_type": "file", "size_bytes": 10_001, "mode": 0o400, "file": 2},
    {"path": "d/inner", "inode_type": "directory"},
    {"path": "d/inner/big", "inode_type": "file", "size_bytes": 5 << 20, "mode": 0o4777},
]
MODES = {".": 0o700, "d": 0o500, "d/file": 0o400, "empty": 0o600, "d/inner": 0o700, "d/inner/big": 0o777}


def test_files_have_the_recorded_names_modes_and_sizes(tmp_path: Path) -> None:
    """Modes are the recorded ones, or the user's only; never setuid. The contents do not compress."""
    found = replay(tmp_path, listed([opened(0, "empty")], FILES), "--keep")
    assert found.run["cold"] == 1
    assert {name: (found.directory / name).stat().st_mode & 0o7777 for name in MODES} == MODES
    assert (found.directory / "d/file").samefile(found.directory / "d/second")
    assert (found.directory / "link").readlink() == Path("/etc/passwd")
    contents, small = (found.directory / "d/inner/big").read_bytes(), (found.directory / "d/file").read_bytes()
    assert (len(contents), len(small), (found.directory / "empty").stat().st_size) == (5 << 20, 10_001, 0)
    assert len(zlib.compress(contents, 9)) > 0.999 * len(contents)
    blocks = {contents[at : at + 4096] for at in range(0, len(contents), 4096)}
    assert len(blocks) == len(contents) // 4096 and small[:4096] not in blocks


def test_a_signal_while_files_are_made_leaves_nothing(tmp_path: Path) -> None:
    listed([{"call": "sync"}], [{**FILES[7], "path": "big", "size_bytes": 1 << 30}]).write(tmp_path / "program.rec")
    words = [*command("native"), tmp_path / "program.rec", tmp_path / "box"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "box" / "big").exists() and process.poll() is None:
            time.sleep(0.001)
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert b"a signal ended it while it created files; nothing was replayed" in stderr
    assert process.returncode == 1 and not (tmp_path / "box").exists()


def test_memory_is_never_cold(tmp_path: Path) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        assert replay(Path(directory), listed([{"call": "sync"}], FILES)).run["cold"] == 0


@pytest.mark.root
def test_a_filesystem_of_its_own(tmp_path: Path) -> None:
    loops.make_ext4(tmp_path / "image", nr_mib=16)
    small, large = tmp_path / "small.rec", tmp_path / "large.rec"
    listed([opened(0, "file")], FILES).write(small)
    listed([opened(0, "file")], [{**FILES[7], "path": "big", "size_bytes": 16 << 20}]).write(large)
    with loops.mounted(tmp_path / "image") as filesystem:
        built.run(*command(), small, filesystem.top)
        assert [path.name for path in filesystem.top.iterdir()] == ["lost+found"]
        told = built.run(*command(), large, filesystem.top, status=1).stderr.decode()
        assert re.search(r": \d+ bytes are free, but \d+ are needed; make room\n", told)
        assert [path.name for path in filesystem.top.iterdir()] == ["lost+found"]
        (filesystem.top / "lost+found" / "#12").touch()
        told = built.run(*command(), small, filesystem.top, status=1).stderr.decode()
        assert "is not empty" in told
        assert (filesystem.top / "lost+found" / "#12").exists()


@pytest.mark.root
def test_a_filesystem_without_inodes(tmp_path: Path) -> None:
    loops.make_ext4(tmp_path / "image", ["-N", "16"], nr_mib=16)
    listed([opened(0, "file")], FILES).write(tmp_path / "program.rec")
    with loops.mounted(tmp_path / "image") as filesystem:
        told = built.run(*command(), tmp_path / "program.rec", filesystem.top, status=1).stderr.decode()
    assert re.search(r": \d more files can be made, but the program needs 8; ", told)


@pytest.mark.root
def test_an_ordinary_user_leaves_nothing(tmp_path: Path) -> None:
    """Root may do what modes forbid; this user may not, but can remove files in directories that are closed to it."""
    closed = [{**FILES[1], "path": "c", "mode": 0}, {**FILES[2], "path": "c/file", "mode": 0, "file": None}]
    with tempfile.TemporaryDirectory() as directory:
        listed([{"call": "chmod", "path": "d/inner", "mode": 0o500}], [*FILES, *closed]).write(
            Path(directory) / "program.rec"
        )
        os.chown(directory, 65534, 65534)  # also where the directory above is only root's to write to
        Path(directory).chmod(0o777)
        tool = shutil.copy(built.program("ioreplay"), directory)
        words = ("-o", "results.rec", "program.rec", "box")
        built.run(tool, *words, cwd=directory, user=65534, group=65534, extra_groups=[])
        assert results(Path(directory) / "results.rec")[0]["cold"] is None
        assert not (Path(directory) / "box").exists()


def test_a_deep_tree_is_removed(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"call": "mkdir", "path": "deep"}, {"call": "mkdir", "path": ".removed-0"}]
    for _ in range(3000):
        rows += [
            {"call": "mkdir", "path": "deeper"},
            {"call": "open", "path": "deeper/file", "flags": 0o102},
            {"call": "rename", "path": "deep", "path2": "deeper/deep"},
            {"call": "rename", "path": "deeper", "path2": "deep"},
        ]
    rows += [
        {"call": "open", "path": ".removed-1", "flags": 0o102},
        {"call": "open", "path": ".removed-0/f", "flags": 0o102},
    ]
    found = replay(tmp_path, listed(rows))
    assert set(found.results) == {0} and not found.directory.exists()


# -- directories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["/", "//", "", "full", "full/file", "none/box", "link"])
def test_a_directory_is_refused(where: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    (tmp_path / "link").symlink_to("full")
    listed([opened(0, "f")]).write(tmp_path / "program.rec")
    built.run(*command(), "program.rec", where, status=1, cwd=tmp_path)
    assert (tmp_path / "full" / "file").read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"full", "link", "program.rec"}


@pytest.mark.root
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    listed([opened(0, "f")]).write(tmp_path / "program.rec")
    (tmp_path / "box").mkdir()
    os.chown(tmp_path / "box", 65534, 65534)
    done = built.run(*command(), tmp_path / "program.rec", tmp_path / "box", status=1)
    assert b"belongs to another user" in done.stderr


def test_a_directory_is_closed_and_locked_during_a_replay_and_given_back_as_it_was(tmp_path: Path) -> None:
    rows = [opened(0, "f"), {"call": "close", "descriptor": 0, "ts_ns": 3600 * 10**9}]
    listed(rows).write(tmp_path / "program.rec")
    (tmp_path / "box").mkdir()
    (tmp_path / "box").chmod(0o775)
    words = [*command(), tmp_path / "program.rec", f"{tmp_path}/box//"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "box" / "f").exists() and process.poll() is None:
            time.sleep(0.01)
        assert (tmp_path / "box").stat().st_mode & 0o7777 == 0o700
        assert b"is in use by another replay" in built.run(*words, status=1).stderr
        process.terminate()
    assert (tmp_path / "box").stat().st_mode & 0o7777 == 0o775 and not list((tmp_path / "box").iterdir())
