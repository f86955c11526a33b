"""Compile the programs of the harness into build/harness."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
ROOT = SOURCES.parents[1]
OUT = ROOT / "build" / "harness"

WORKLOAD = (
    "workload",
    "roles_churn",
    "roles_drops",
    "roles_files",
    "roles_sqlite",
    "files",
    "stamp",
    "oplog",
    "sqlite_vfs",
)
FLAGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
COMPILERS = {
    "amd64": ("gcc",),
    "arm64": (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-fno-sanitize=all"),
}
"""Compilers by Debian architecture of the target."""

SQLITE_FLAGS = ("-O1", "-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION")


@contextmanager
def exclusive() -> Iterator[None]:
    """Lock out other tests that fetch or compile at the same time."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sqlite_source() -> Path:
    """Return the directory with sqlite3.c and sqlite3.h. Raises `OSError` without network."""
    directory = ROOT / "build" / "sqlite"
    if not (directory / "sqlite3.c").exists():
        command = [sys.executable, ROOT / "tools" / "fetch_sqlite.py", directory]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise OSError(fetched.stderr.strip())
    return directory


def workload(architecture: str = "amd64") -> Path:
    """Build the workload, linked statically for a guest without libraries."""
    sources = [SOURCES / f"{name}.c" for name in WORKLOAD]
    target = _out(architecture) / "workload"
    with exclusive():
        if _is_older(target, sources):
            flags = (*FLAGS, "-static", f"-I{sqlite_source()}", *map(str, sources))
            _compile(target, *flags, str(_sqlite(architecture)), "-lm", compiler=COMPILERS[architecture])
    return target


def tool(name: str, architecture: str) -> Path:
    """Build a small program of a guest: mapper or locker."""
    source = SOURCES / f"{name}.c"
    target = _out(architecture) / name
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, "-static", str(source), compiler=COMPILERS[architecture])
    return target


def callers() -> Path:
    """Build the program that makes every kind of call, linked statically."""
    return _of_one_file("callers")


def app() -> Path:
    """Build the small app that was recorded for datasets/replay, linked statically."""
    return _of_one_file("app")


def _of_one_file(name: str) -> Path:
    source = SOURCES / f"{name}.c"
    target = OUT / name
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, "-static", f"-I{sqlite_source()}", str(source), str(_sqlite()), "-lm", "-pthread")
    return target


def disklog() -> Path:
    """Build the FUSE disk that logs its writes."""
    source = SOURCES / "disklog.c"
    target = OUT / "disklog"
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, str(source))
    return target


def _out(architecture: str) -> Path:
    return OUT if architecture == "amd64" else OUT / architecture


def _sqlite(architecture: str = "amd64") -> Path:
    """Compile SQLite. The caller must hold the lock."""
    amalgamation = _out(architecture) / "sqlite3.o"
    if not amalgamation.exists():
        flags = ("-c", *SQLITE_FLAGS, str(sqlite_source() / "sqlite3.c"))
        _compile(amalgamation, *flags, compiler=COMPILERS[architecture])
    return amalgamation


def _is_older(target: Path, sources: list[Path]) -> bool:
    headers = list(SOURCES.glob("*.h"))
    return not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in [*sources, *headers])


def _compile(target: Path, *arguments: str, compiler: Sequence[str] = COMPILERS["amd64"]) -> None:
    """Compile into a temporary file and rename it, so that an interrupt leaves no partial program."""
    target.parent.mkdir(exist_ok=True)
    part = target.with_name(f".{target.name}")
    caches = {f"ZIG_{kind}_CACHE_DIR": str(ROOT / "build" / "zig") for kind in ("LOCAL", "GLOBAL")}
    command = [*compiler, "-D_GNU_SOURCE", *arguments, "-o", str(part)]
    subprocess.run(command, check=True, env=os.environ | caches)
    part.replace(target)
