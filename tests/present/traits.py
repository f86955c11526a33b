"""Workloads that have the trait a trigger looks for, and similar workloads without it.

``python traits.py NAME yes|no DIRECTORY`` runs one in a directory of a filesystem of its own. Call `prepare` and
remount before, so that the files to read are not cached. `TRAITS` lists the triggers that each workload must set off.
"""

from __future__ import annotations

import mmap
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

PAGE = 4096
READ = ("/large", "/lib.so")
"""Files of `READ_BYTES` that workloads read but do not create."""
READ_BYTES = 1 << 20


def syncs(place: Path, *, bad: bool) -> None:
    """Write 60 records, and sync each, or all at once."""
    with (place / "records").open("wb", buffering=0) as file:
        for _ in range(60):
            file.write(os.urandom(PAGE))
            if bad:
                os.fsync(file)
        os.fsync(file)


def _transactions(path: Path, mode: str, number: int, extra: str = "PRAGMA synchronous=FULL") -> None:
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute(extra)
        database.execute(f"PRAGMA journal_mode={mode}")
        database.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB)")
        for key in range(number):
            database.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (key % 5, os.urandom(100)))
    database.close()


def rollback(place: Path, *, bad: bool) -> None:
    """Run 30 transactions with a rollback journal, or with a WAL that is synced only by checkpoints."""
    _transactions(place / "a.db", "DELETE" if bad else "WAL", 30, f"PRAGMA synchronous={'FULL' if bad else 'NORMAL'}")


def journals(place: Path, *, bad: bool) -> None:
    """Run 30 transactions, each appended to the log, or one transaction of the same size."""
    if bad:
        _transactions(place / "a.db", "WAL", 30)
        return
    with sqlite3.connect(place / "a.db", isolation_level=None) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (v BLOB)")
        database.execute("BEGIN")
        for _ in range(400):
            database.execute("INSERT INTO t VALUES (?)", (os.urandom(3000),))
        database.execute("COMMIT")
    database.close()


def wal(place: Path, *, bad: bool) -> None:
    """Write 12 MiB into a WAL whose checkpoints a reader blocks, or that is checkpointed as usual."""
    _transactions(place / "a.db", "WAL", 1, "PRAGMA synchronous=OFF")
    reader = sqlite3.connect(place / "a.db", isolation_level=None)
    writer = sqlite3.connect(place / "a.db", isolation_level=None)
    writer.execute("PRAGMA synchronous=NORMAL")
    if bad:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchall()
    for _ in range(8):
        time.sleep(0.4)  # checkpoints sync too; without pauses they would be a burst of syncs
        writer.execute("BEGIN")
        for _ in range(375):
            writer.execute("INSERT INTO t (v) VALUES (?)", (os.urandom(3900),))
        writer.execute("COMMIT")
    os.sync()
    time.sleep(0.2)  # the recording ends with the database open, as an app's would
    os._exit(0)


def rewrites(place: Path, *, bad: bool) -> None:
    """Write and sync the same 16 blocks 8 times, or 128 different blocks."""
    with (place / "state").open("wb", buffering=0) as file:
        for turn in range(8):
            os.pwrite(file.fileno(), os.urandom(16 * PAGE), 0 if bad else turn * 16 * PAGE)
            if turn % 3 == 0 or bad:
                os.fsync(file)


def temporary(place: Path, *, bad: bool) -> None:
    """Write 20 files of 64 KiB and delete them after they are on the device, or before."""
    for number in range(20):
        path = place / f"part{number}.tmp"
        with path.open("wb", buffering=0) as file:
            file.write(os.urandom(1 << 16))
            if bad and number % 7 == 0:
                os.sync()
        if not bad:
            path.unlink()
    os.sync()
    if bad:
        for number in range(20):
            (place / f"part{number}.tmp").unlink()
        os.sync()


def direct(place: Path, *, bad: bool) -> None:
    """Write with direct I/O in units of 512 bytes, or of 64 KiB."""
    size = 512 if bad else 1 << 16
    block = mmap.mmap(-1, size)
    file = os.open(place / "direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    for number in range(100):
        os.pwrite(file, block, number * size)
    os.close(file)


def pieces(place: Path, *, bad: bool) -> None:
    """Read 1 MiB sequentially in units of 4 KiB with POSIX_FADV_RANDOM, or without it."""
    file = os.open(place / "large", os.O_RDONLY)
    if bad:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    while os.read(file, PAGE):
        pass
    os.close(file)


def pages(place: Path, *, bad: bool) -> None:
    """Fault in every other page of a library, from the end, without read-ahead, or after MADV_WILLNEED."""
    with (place / "lib.so").open("rb") as file:
        code = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        code.madvise(mmap.MADV_RANDOM if bad else mmap.MADV_WILLNEED)
        sum(code[page * PAGE] for page in reversed(range(0, len(code) // PAGE, 2)))
        code.close()


def logs(place: Path, *, bad: bool) -> None:
    """Append 100 lines to a log and sync every twelfth, or none."""
    with (place / "app.log").open("ab", buffering=0) as file:
        for number in range(100):
            file.write(b"%060d something happened\n" % number)
            if bad and number % 12 == 0:
                os.fdatasync(file)


def background(place: Path, *, bad: bool) -> None:
    """Save 5 blocks and leave 48 dirty while going to the background, then write 3 rounds of 8 blocks.

    The rounds are written in the background, or in the foreground again.
    """

    def score(value: int) -> None:
        Path("/proc/self/oom_score_adj").write_text(str(value))

    def write(name: str, blocks: int, *, sync: bool) -> None:
        with (place / name).open("wb", buffering=0) as file:
            file.write(os.urandom(blocks * PAGE))
            if sync:
                os.fsync(file)

    score(0)
    write("left", 48, sync=False)
    score(900)
    write("saved", 5, sync=True)
    time.sleep(12)
    os.sync()
    if not bad:
        score(200)
    for number in range(3):
        time.sleep(1.5)
        write(f"round{number}", 8, sync=True)


TRAITS: Final[dict[str, tuple[Callable[..., None], tuple[str, ...], tuple[str, ...]]]] = {
    "syncs": (syncs, ("syncs",), ()),
    "rollback": (rollback, ("rollback", "syncs", "journals"), ()),
    "journals": (journals, ("journals", "syncs"), ()),
    "wal": (wal, ("wal",), ()),
    "rewrites": (rewrites, ("rewrites",), ()),
    "temporary": (temporary, ("temporary",), ()),
    "direct": (direct, ("direct",), ()),
    "pieces": (pieces, ("pieces",), ()),
    "pages": (pages, ("pages",), ()),
    "logs": (logs, ("logs",), ()),
    "background": (background, ("background",), ()),
}
"""For each workload: its function, the triggers it must set off, and the triggers its harmless variant must set off."""


def prepare(place: Path) -> None:
    """Create the files that workloads read or delete."""
    for path in READ:
        (place / path[1:]).write_bytes(os.urandom(READ_BYTES))


if __name__ == "__main__":
    TRAITS[sys.argv[1]][0](Path(sys.argv[3]), bad=sys.argv[2] == "yes")
