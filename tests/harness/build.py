"""The programs of the harness, compiled into build/harness."""

from __future__ import annotations

import fcntl
import hashlib
import io
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
OUT = SOURCES.parents[1] / "build" / "harness"

SQLITE_CRATE = "https://static.crates.io/crates/libsqlite3-sys/libsqlite3-sys-0.39.1.crate"
SQLITE_SHA256 = "14a5f01b87b92705d07b433c06f96cbc764637d81a0bffb5734ce17cf0f9a2b3"

WORKLOAD = ("workload", "roles_files", "roles_sqlite", "files", "stamp", "oplog", "sqlite_vfs")
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
    """Directory with sqlite3.c and sqlite3.h, from the Rust package that carries them; `OSError` without network."""
    directory = OUT / "sqlite"
    if (directory / "sqlite3.c").exists():
        return directory
    with urllib.request.urlopen(SQLITE_CRATE, timeout=60) as response:
        crate = response.read()
    digest = hashlib.sha256(crate).hexdigest()
    if digest != SQLITE_SHA256:
        raise ValueError(f"{SQLITE_CRATE}: sha256 is {digest}, expected {SQLITE_SHA256}")
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(crate)) as files:
        for name in ("sqlite3.h", "sqlite3.c"):
            member = files.extractfile(f"libsqlite3-sys-0.39.1/sqlite3/{name}")
            assert member is not None
            _replace(directory / name, member.read())
    return directory


def workload() -> Path:
    """The workload, linked statically: it runs on the host and in a guest without libraries."""
    sources = [SOURCES / f"{name}.c" for name in WORKLOAD]
    target = OUT / "workload"
    with exclusive():
        if _is_older(target, sources):
            sqlite = sqlite_source()
            amalgamation = OUT / "sqlite3.o"
            if not amalgamation.exists():
                _compile(amalgamation, "-c", *SQLITE_FLAGS, str(sqlite / "sqlite3.c"))
            _compile(target, *FLAGS, "-static", f"-I{sqlite}", *map(str, sources), str(amalgamation), "-lm")
    return target


def disklog() -> Path:
    """The disk that logs its writes."""
    source = SOURCES / "disklog.c"
    target = OUT / "disklog"
    with exclusive():
        if _is_older(target, [source]):
            _compile(target, *FLAGS, str(source))
    return target


def _is_older(target: Path, sources: list[Path]) -> bool:
    headers = list(SOURCES.glob("*.h"))
    return not target.exists() or target.stat().st_mtime < max(path.stat().st_mtime for path in [*sources, *headers])


def _compile(target: Path, *arguments: str) -> None:
    """Compiles beside the target and moves it there: who interrupts it leaves no half program."""
    part = target.with_name(f".{target.name}")
    subprocess.run(["gcc", "-D_GNU_SOURCE", *arguments, "-o", str(part)], check=True)
    part.replace(target)


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    part.write_bytes(content)
    part.replace(path)
