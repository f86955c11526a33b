"""The programs of the harness, compiled into build/harness."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
ROOT = SOURCES.parents[1]
OUT = ROOT / "build" / "harness"

WORKLOAD = ("workload", "roles_drops", "roles_files", "roles_sqlite", "files", "stamp", "oplog", "sqlite_vfs")
FLAGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
SQLITE_FLAGS = ("-O1", "-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION")


@contextmanager
def exclusive() -> Iterator[None]:
    """Tests that run at the same time fetch and compile one after the other."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sqlite_source() -> Path:
    """Directory with sqlite3.c and sqlite3.h; `OSError` without network."""
    directory = ROOT / "build" / "sqlite"
    if not (directory / "sqlite3.c").exists():
        command = [sys.executable, ROOT / "tools" / "fetch_sqlite.py", directory]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise OSError(fetched.stderr.strip())
    return directory


def workload() -> Path:
    """The workload, linked statically: it runs on the host and in a guest without libraries."""
    sources = [SOURCES / f"{name}.c" for name in WORKLOAD]
    target = OUT / "workload"
    with exclusive():
        if _is_older(target, sources):
            _compile(target, *FLAGS, "-static", f"-I{sqlite_source()}", *map(str, sources), str(_sqlite()), "-lm")
    return target


def callers() -> Path:
    """The program that makes every kind of call, linked statically as the workload is."""
    return _of_one_file("callers")


def app() -> Path:
    """The small app whose I/O datasets/replay has recorded, linked statically as the workload is."""
    return _of_one_file("app")


def _of_one_file(name: str) -> Path:
    source = SOURCES / f"{name}.c"
    target = OUT / name
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, "-static", f"-I{sqlite_source()}", str(source), str(_sqlite()), "-lm", "-pthread")
    return target


def disklog() -> Path:
    """The disk that logs its writes."""
    source = SOURCES / "disklog.c"
    target = OUT / "disklog"
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, str(source))
    return target


def _sqlite() -> Path:
    """SQLite, compiled; the caller holds the lock."""
    amalgamation = OUT / "sqlite3.o"
    if not amalgamation.exists():
        _compile(amalgamation, "-c", *SQLITE_FLAGS, str(sqlite_source() / "sqlite3.c"))
    return amalgamation


def _is_older(target: Path, sources: list[Path]) -> bool:
    headers = list(SOURCES.glob("*.h"))
    return not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in [*sources, *headers])


def _compile(target: Path, *arguments: str) -> None:
    """Compiles beside the target and moves it there: who interrupts it leaves no half program."""
    part = target.with_name(f".{target.name}")
    subprocess.run(["gcc", "-D_GNU_SOURCE", *arguments, "-o", str(part)], check=True)
    part.replace(target)
