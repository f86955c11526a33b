"""Every call of a program with every path that could lead out of its directory: each fails with the error of Linux.

Files are found by openat2, and on kernels without it component by component; both ways give the same results.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import built
from support.replay_emulator import Emulator, random_operation, tree
from support.replay_programs import command, program, results
from support.tree import ROOT

from androstep_analysis.replay import program as replay_program

WAYS: dict[str, list[str | Path]] = {
    "openat2": [],
    "walk": [sys.executable, ROOT / "tests" / "support" / "attacker.py", "without-openat2"],
}
PATH_MAX = 4096
O_DIRECTORY, O_NOFOLLOW, O_PATH, O_TMPFILE = 0o200000, 0o400000, 0o10000000, 0o20200000
NOREPLACE, EXCHANGE = 1, 2

CALLS: dict[str, dict[str, Any]] = {
    "open to read": {"call": "open", "flags": 0},
    "open to write": {"call": "open", "flags": 0o1101, "mode": 0o666},
    "open exclusively": {"call": "open", "flags": 0o302, "mode": 0o666},
    "open a directory": {"call": "open", "flags": O_DIRECTORY | O_NOFOLLOW},
    "open a path": {"call": "open", "flags": O_PATH | O_NOFOLLOW},
    "open without a name": {"call": "open", "flags": O_TMPFILE | 2, "mode": 0o600},
    "lstat": {"call": "lstat"},
    "access": {"call": "access", "request": 4},
    "readlink": {"call": "readlink"},
    "statfs": {"call": "statfs"},
    "truncate": {"call": "truncate", "bytes": 3},
    "mkdir": {"call": "mkdir", "mode": 0o777},
    "rmdir": {"call": "rmdir"},
    "unlink": {"call": "unlink"},
    "rename": {"call": "rename", "path2": "moved"},
    "rename to": {"call": "rename", "path": "spare", "flags": NOREPLACE},
    "exchange": {"call": "rename", "path2": "spare", "flags": EXCHANGE},
    "link": {"call": "link", "path2": "another"},
    "link to": {"call": "link", "path": "spare"},
    "symlink": {"call": "symlink", "path2": "../outside"},
    "chmod": {"call": "chmod", "mode": 0o7777},
    "utimens": {"call": "utimens"},
}
"""Calls by name. The tested path is `path`, or `path2` of those that have another `path`."""

LINKS = {
    "link-file": "../outside/secret",
    "link-directory": "../outside",
    "link-dangling": "../outside/new",
    "link-root": "/",
    "link-process": "/proc/self/root",
    "link-loop": "link-loop",
    "link-inside": "directory",
}
LONG_NAME = "n" * 256
REFUSED = {
    **dict.fromkeys(("..", "../outside/secret", "/", "/etc/passwd", "directory/.."), errno.EXDEV),
    **dict.fromkeys(("directory/../../outside/secret", "directory/../file", "nowhere/../file"), errno.EXDEV),
    **dict.fromkeys(("", "directory//file", "directory/", "directory/.", "./file"), errno.EINVAL),
    **dict.fromkeys(("link-directory/secret", "link-directory/directory/inner", "link-absolute/inner"), errno.ELOOP),
    **dict.fromkeys(("link-root/etc/passwd", "link-process/etc/passwd", "link-loop/file"), errno.ELOOP),
    **dict.fromkeys(("link-dangling/file", "link-inside/file"), errno.ELOOP),
    **{"file/inner": errno.ENOTDIR, "nowhere/file": errno.ENOENT},
    **dict.fromkeys((LONG_NAME, f"directory/{LONG_NAME}", ("d/" * PATH_MAX)[:PATH_MAX]), errno.ENAMETOOLONG),
}
"""The error of every call with such a path."""

LAST: list[tuple[str, str, int]] = [
    *((call, "link-file", errno.ELOOP) for call in ("open to read", "open to write", "access", "truncate", "chmod")),
    *((call, "link-directory", errno.ELOOP) for call in ("open to read", "open a directory", "open a path", "statfs")),
    ("open without a name", "link-directory", errno.ELOOP),
    ("open to read", "link-process", errno.ELOOP),
    ("open to write", "link-dangling", errno.ELOOP),
    *((call, "link-dangling", errno.EEXIST) for call in ("open exclusively", "mkdir", "link to", "symlink")),
    ("rename to", "link-directory", errno.EEXIST),
    ("rmdir", "link-directory", errno.ENOTDIR),
    *((call, "link-file", 0) for call in ("lstat", "readlink", "utimens")),
    ("lstat", "link-dangling", 0),
    ("readlink", "file", errno.EINVAL),
    ("readlink", "directory", errno.EINVAL),
    *(("open to read", ".", 0), ("lstat", ".", 0), ("chmod", ".", errno.EPERM), ("link", ".", errno.EPERM)),
    *((call, ".", errno.EISDIR) for call in ("open to write", "open exclusively", "truncate")),
    *((call, ".", errno.EEXIST) for call in ("mkdir", "symlink", "link to")),
    *((call, ".", errno.EBUSY) for call in ("rmdir", "unlink", "rename", "exchange")),
    ("link", "directory", errno.EPERM),
    ("open to write", "directory", errno.EISDIR),
    *((call, "file", errno.ENOTDIR) for call in ("open a directory", "open without a name", "rmdir")),
    ("unlink", "directory", errno.EISDIR),
    ("rmdir", "directory", errno.ENOTEMPTY),
    *(("link", "link-file", 0), ("rename", "link-absolute", 0), ("exchange", "link-directory", 0)),
    ("unlink", "link-process", 0),
]
"""The error of calls with a path that ends in a link or a directory. The last ones move or remove the link itself."""

PLANTED: list[tuple[str, str, int]] = [
    *((call, kind, errno.ENXIO) for call in ("open to read", "open to write", "open a path") for kind in ("pipe",)),
    *((call, kind, errno.ENXIO) for call in ("open to read", "open to write") for kind in ("socket", "device")),
    *(("truncate", "pipe", errno.ENXIO), ("truncate", "device", errno.ENXIO), ("unlink", "pipe", 0)),
    *((call, "mounted/secret", errno.EXDEV) for call in CALLS),
    *((call, "other/secret", errno.EXDEV) for call in CALLS),
]


def row(call: str, path: str, **known: Any) -> dict[str, Any]:
    known = CALLS[call] | known
    return {**known, "path2" if "path" in known else "path": path, "failed": None, "result": None}


def files(outside: Path) -> list[dict[str, Any]]:
    links = LINKS | {"link-absolute": str(outside / "directory")}
    return [
        *({"path": name, "inode_type": "symlink", "target": target} for name, target in links.items()),
        {"path": "directory", "inode_type": "directory"},
        *({"path": name, "inode_type": "file", "size_bytes": 6} for name in ("directory/file", "file", "spare")),
    ]


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Return a directory that must not change."""
    directory = tmp_path / "outside"
    (directory / "directory").mkdir(parents=True)
    (directory / "secret").write_text("canary")
    (directory / "directory" / "inner").write_text("canary")
    before = state(directory)
    yield directory
    assert state(directory) == before


def state(directory: Path) -> list[tuple[Any, ...]]:
    found = [(path, path.lstat()) for path in [directory, *sorted(directory.rglob("*"))]]
    return [(path, about.st_mode, about.st_nlink, about.st_mtime_ns, about.st_ctime_ns) for path, about in found]


def done(top: Path, way: str, rows: Sequence[dict[str, Any]], made: list[dict[str, Any]]) -> list[int]:
    """Return the results of operations in directory `box` of `top`."""
    program(rows, made).write(top / "program.rec")
    words = [*WAYS[way], *command(), "-o", top / "results.rec", "--mode", "as-fast", top / "program.rec", top / "box"]
    built.run(*words)
    return results(top / "results.rec")[1]["result"].to_list()


def failures(asked: Sequence[tuple[str, str, int]], found: list[int]) -> list[tuple[str, str, str]]:
    """Return the calls with another result than expected. readlink and the like return more than 0."""
    return [
        (call, path[:40], os.strerror(max(-result, 0)))
        for (call, path, error), result in zip(asked, found, strict=True)
        if min(result, 0) != -error
    ]


@pytest.mark.parametrize("way", WAYS)
def test_no_call_leads_out(way: str, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_program, "PATH_BYTES", 2 * PATH_MAX)  # as an attacker might write a program
    asked = [(call, path, error) for path, error in REFUSED.items() for call in CALLS]
    asked.append(("lstat", ("d/" * PATH_MAX)[: PATH_MAX - 1], errno.ENOENT))
    found = done(tmp_path, way, [row(call, path) for call, path, _ in asked], files(outside))
    assert failures(asked, found) == []


@pytest.mark.parametrize("way", WAYS)
def test_links_at_the_end_of_a_path_are_not_followed(way: str, tmp_path: Path, outside: Path) -> None:
    found = done(tmp_path, way, [row(call, path) for call, path, _ in LAST], files(outside))
    assert failures(LAST, found) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_path_of_the_programs_files_leads_nowhere(way: str, tmp_path: Path, outside: Path) -> None:
    program([{"call": "sync"}], [{"path": "../outside/new", "inode_type": "directory"}]).write(tmp_path / "program.rec")
    refused = built.run(*WAYS[way], *command(), tmp_path / "program.rec", tmp_path / "box", status=1)
    assert b"box/../outside/new: Invalid cross-device link; it cannot be made" in refused.stderr


@pytest.mark.parametrize("way", WAYS)
def test_modes_are_permissions_only_and_the_top_stays_closed(way: str, tmp_path: Path, outside: Path) -> None:
    rows = [
        {"call": "open", "path": "f", "flags": 0o102, "mode": 0o6711, "descriptor": 0},
        {"call": "mkdir", "path": "d", "mode": 0o7711},
        {"call": "open", "path": "g", "flags": 0o102, "mode": 0, "descriptor": 1},
        {"call": "chmod", "path": "g", "mode": 0o7640},
        {"call": "fchmod", "descriptor": 0, "mode": 0o6600},
        {"call": "open", "path": ".", "flags": 0, "descriptor": 2},
        {"call": "fchmod", "descriptor": 2, "mode": 0o777},
        {"call": "rename", "path": "f", "path2": "h", "flags": 4},
    ]
    program(rows).write(tmp_path / "program.rec")
    words = [*WAYS[way], *command(), "-o", tmp_path / "results.rec", "--keep", tmp_path / "program.rec"]
    built.run(*words, tmp_path / "box", umask=0)
    found = results(tmp_path / "results.rec")[1]["result"].to_list()
    assert found == [0] * 6 + [-errno.EPERM, -errno.EINVAL]
    modes = {path.name: path.stat().st_mode & 0o7777 for path in [tmp_path / "box", *(tmp_path / "box").iterdir()]}
    assert modes == {"box": 0o700, "f": 0o600, "d": 0o711, "g": 0o640}


def test_without_openat2_a_random_program_comes_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "naive").mkdir()
    rng, emulator = random.Random(7), Emulator(tmp_path / "naive")
    rows = [emulator.attempt(random_operation(rng, list(emulator.descriptors), 1)) for _ in range(400)]
    emulator.end()
    program(rows).write(tmp_path / "program.rec")
    words = [*command(), "-o", tmp_path / "results.rec", "--mode", "as-fast", "--keep", tmp_path / "program.rec"]
    built.run(*WAYS["walk"], *words, tmp_path / "box")
    assert results(tmp_path / "results.rec")[1]["result"].to_list() == [row["result"] for row in rows]
    assert tree(tmp_path / "box") == tree(tmp_path / "naive")


def plant(box: Path, outside: Path) -> None:
    """Create special files and mounts once the first file of the replay is there."""
    while not (box / "ready").exists():
        time.sleep(0.01)
    os.mkfifo(box / "pipe")
    os.mknod(box / "socket", 0o666 | stat.S_IFSOCK)
    os.mknod(box / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    for name, options in (("mounted", ["--bind", outside]), ("other", ["-t", "tmpfs", "none"])):
        (box / name).mkdir()
        subprocess.run(["mount", *options, box / name], check=True)
    (box / "other" / "secret").write_text("canary")


@pytest.mark.root
@pytest.mark.parametrize("way", WAYS)
def test_special_files_are_not_opened_and_mounts_not_entered(way: str, tmp_path: Path, outside: Path) -> None:
    begin = {"call": "open", "path": "ready", "flags": 0o102, "mode": 0o600}
    rows = [begin, *(row(call, path, ts_ns=3 * 10**9) for call, path, _ in PLANTED)]
    program(rows, files(outside)).write(tmp_path / "program.rec")
    words = [*WAYS[way], *command(), "-o", tmp_path / "results.rec", tmp_path / "program.rec", tmp_path / "box"]
    planter = threading.Thread(target=plant, args=(tmp_path / "box", outside))
    planter.start()
    try:
        ended = built.run(*words, status=1)  # what lies in other mounts is not removed
        planter.join()
        assert b"remove it yourself" in ended.stderr
        assert failures(PLANTED, results(tmp_path / "results.rec")[1]["result"].to_list()[1:]) == []
        assert (tmp_path / "box" / "other" / "secret").read_text() == "canary"
    finally:
        planter.join()
        for name in ("mounted", "other"):
            subprocess.run(["umount", "-l", tmp_path / "box" / name], check=True)
