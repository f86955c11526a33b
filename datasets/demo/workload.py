"""A miniature of the file I/O of apps in /data on an Android phone, recorded by record.py.

    python workload.py populate ROOT          lay out the files that exist before the recording
    python workload.py APP ROOT --rounds N    be one of the APPS for N rounds

ROOT is a directory whose subdirectory `data` is the filesystem. The process makes ROOT its root directory, so that its
paths, and the mount point that ext4 stores in its superblock, are those of a phone and not of this machine. Needs root
and Linux. The written data follow from the constants below; only the timing differs from run to run.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import mmap
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

KIB = 1024
PAGE = 4 * KIB
SEED = 20130614
JOURNAL_MODES = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")

MAIL = Path("/data/data/com.example.mail")
BROWSER = Path("/data/data/com.example.brows")
GAME = Path("/data/data/com.example.game")
DCIM = Path("/data/media/0/DCIM/Camera")
OBB = Path("/data/media/0/Android/obb/com.example.game/main.1.com.example.game.obb")
APP = Path("/data/app")
# The slash makes this a file in a directory. A report that prints the path unescaped would still run it.
HOSTILE = GAME / "files/<script>alert(1)</script>.txt"

# Magic bytes of file types. The rest of each payload has no meaning (see `payload`).
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
MP4 = b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
ZIP = b"PK\x03\x04\x14\x00\x00\x08"
ELF = b"\x7fELF\x02\x01\x01\x00"
VDEX = b"vdex027\x00"

_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "lagoon")
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NAME = 15
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


def payload(rng: random.Random, size: int, magic: bytes = b"") -> bytes:
    """Return `size` bytes that begin with `magic`: 64 random bytes and zeros in each 4 KiB, so that images compress."""
    pages = (rng.randbytes(64).ljust(PAGE, b"\0") for _ in range(-(-size // PAGE)))
    return magic + b"".join(pages)[len(magic) : size]


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def set_comm(name: str) -> None:
    """Set the calling thread's name of at most 15 bytes, as Android does for its processes."""
    _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def write(path: Path, data: bytes, *, sync: bool = False, append: bool = False) -> None:
    """Write through the page cache in 64 KiB calls; fsync at the end if `sync`."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    fd = os.open(path, flags, 0o600)
    for start in range(0, len(data), 64 * KIB):
        os.write(fd, data[start : start + 64 * KIB])
    if sync:
        os.fsync(fd)
    os.close(fd)


def write_atomically(path: Path, data: bytes) -> None:
    """Write like Android's AtomicFile: a new file next to the old one, fsync, rename."""
    new = path.with_name(f"{path.name}.new")
    write(new, data, sync=True)
    new.rename(path)


def write_direct(path: Path, data: bytes) -> None:
    """Write with O_DIRECT in 128 KiB calls; `data` must be whole pages."""
    buffer = mmap.mmap(-1, len(data))  # O_DIRECT needs aligned memory
    buffer.write(data)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)
    view = memoryview(buffer)
    for start in range(0, len(data), 128 * KIB):
        os.pwrite(fd, view[start : start + 128 * KIB], start)
    os.close(fd)
    view.release()
    buffer.close()


def read_direct(path: Path, offset: int, size: int) -> None:
    buffer = mmap.mmap(-1, size)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.preadv(fd, [buffer], offset)
    os.close(fd)
    buffer.close()


def read_sequentially(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(64 * KIB):
            pass


def read_randomly(rng: random.Random, path: Path, count: int) -> None:
    """Read `count` single pages with the kernel's readahead off, like a database."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    pages = os.fstat(fd).st_size // PAGE
    for _ in range(count):
        os.pread(fd, PAGE, rng.randrange(pages) * PAGE)
    os.close(fd)


def punch_hole(path: Path, offset: int, size: int) -> None:
    fd = os.open(path, os.O_RDWR)
    mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if _LIBC.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(size)):
        raise OSError(ctypes.get_errno(), "fallocate(PUNCH_HOLE) failed", os.fspath(path))
    os.close(fd)


def sync_filesystem(path: Path) -> None:
    """Have the kernel's flusher threads write back all dirty data of this filesystem."""
    fd = os.open(path, os.O_RDONLY)
    if _LIBC.syncfs(fd):
        raise OSError(ctypes.get_errno(), "syncfs failed", os.fspath(path))
    os.close(fd)


def connect(path: Path, journal_mode: str) -> sqlite3.Connection:
    """Open a database with a table of messages and synchronous=FULL."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={journal_mode}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=40")
    connection.execute("CREATE TABLE IF NOT EXISTS messages(id INTEGER PRIMARY KEY, subject TEXT, body TEXT)")
    return connection


keep_open = functools.cache(connect)
"""As `connect`, but one connection for the whole process, as apps do. Its -wal and -shm files outlive the process."""


def exchange_messages(connection: sqlite3.Connection, rng: random.Random, transactions: int) -> None:
    """Run transactions of four inserts each; every third also updates and deletes."""
    for number in range(transactions):
        connection.execute("BEGIN")
        rows = [(text(rng, 5), text(rng, 40)) for _ in range(4)]
        connection.executemany("INSERT INTO messages(subject, body) VALUES (?, ?)", rows)
        if number % 3 == 2:
            connection.execute("UPDATE messages SET body = ? WHERE id % 7 = 0", (text(rng, 45),))
            connection.execute("DELETE FROM messages WHERE id = (SELECT min(id) FROM messages)")
        connection.execute("COMMIT")


def mail(rng: random.Random, number: int) -> None:
    """Use one database per journal mode, a pool thread with a separate database, and preferences."""
    pool_rng = random.Random(rng.random())

    def pool_thread() -> None:
        set_comm("pool-1-thread-1")
        connection = connect(MAIL / "databases/attachments.db", "TRUNCATE")
        exchange_messages(connection, pool_rng, 3)
        connection.close()

    thread = threading.Thread(target=pool_thread)
    thread.start()
    for mode in JOURNAL_MODES:
        exchange_messages(keep_open(MAIL / f"databases/{mode.lower()}.db", mode), rng, 4)
    thread.join()
    xml = f'<?xml version="1.0" encoding="utf-8"?>\n<map><int name="round" value="{number}" /></map>\n'
    write_atomically(MAIL / "shared_prefs/settings.xml", xml.encode())


def camera(rng: random.Random, number: int) -> None:
    """Take a photo with its thumbnail, record a video with direct I/O, and read both like a gallery."""
    photo, video = DCIM / f"IMG_{number:04}.jpg", DCIM / f"VID_{number:04}.mp4"
    write(photo, payload(rng, 180 * KIB, JPEG), sync=True)
    write(DCIM.parent / ".thumbnails" / f"{number}.jpg", payload(rng, 9 * KIB, JPEG))
    write_direct(video, payload(rng, 512 * KIB, MP4))
    read_direct(video, 0, 64 * KIB)
    read_sequentially(DCIM / "IMG_stored.jpg")
    if number % 3 == 2:
        (DCIM / f"IMG_{number - 1:04}.jpg").unlink()


def browser(rng: random.Random, number: int) -> None:
    """Use a cache of small files of which half are deleted, a database without a suffix, and local storage."""
    cache = BROWSER / "cache/Cache"
    for index in range(12):
        magic = rng.choice((JPEG, PNG, b"<!DOCTYPE html>", b""))
        write(cache / f"f_{number:02}{index:04}", payload(rng, rng.randrange(600, 20_000), magic))
    for index in range(0, 12, 2):
        (cache / f"f_{number:02}{index:04}").unlink()
    profile = BROWSER / "app_chrome/Default"
    exchange_messages(keep_open(profile / "Cookies", "DELETE"), rng, 3)
    exchange_messages(keep_open(profile / "Local Storage/http_example.org_0.localstorage", "DELETE"), rng, 1)
    download = BROWSER / "files/report.pdf.crdownload"
    write(download, payload(rng, 60 * KIB, b"%PDF-1.7\n"))
    download.rename(BROWSER / f"files/report-{number}.pdf")


def install(rng: random.Random, number: int) -> None:
    """Update an app: stage, fsync, compile, rename into place, and remove the previous version."""
    staging = APP / f"vmdl{number}.tmp"
    (staging / "lib/arm64").mkdir(parents=True)
    (staging / "oat/arm64").mkdir(parents=True)
    write(staging / "base.apk", payload(rng, 700 * KIB, ZIP), sync=True)
    write(staging / "lib/arm64/libgame.so", payload(rng, 150 * KIB, ELF), sync=True)
    write(staging / "oat/arm64/base.odex", payload(rng, 120 * KIB, ELF))
    write(staging / "oat/arm64/base.vdex", payload(rng, 160 * KIB, VDEX))
    os.link(staging / "base.apk", staging / "split_config.apk")
    staging.rename(APP / f"com.example.game-{number}")
    sync_filesystem(APP)
    if number:
        remove_tree(APP / f"com.example.game-{number - 1}")


def game(rng: random.Random, number: int) -> None:
    """Read assets randomly and sequentially; use a mapped save file, a log, truncation, a hole and a hostile name."""
    read_randomly(rng, OBB, 60)
    if number % 2:
        read_sequentially(OBB)
    save = GAME / "files/save.dat"
    with save.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        for _ in range(8):
            offset = rng.randrange(len(mapped) // PAGE) * PAGE
            mapped[offset : offset + 64] = rng.randbytes(64)
        if number % 2:
            mapped.flush()
    for _ in range(10):
        write(GAME / "files/game.log", f"{number} {text(rng, 12)}\n".encode(), sync=True, append=True)
    replay = GAME / "files/replay.bin"
    write(replay, payload(rng, 96 * KIB), sync=True)
    os.truncate(replay, 40 * KIB)
    punch_hole(replay, 8 * KIB, 16 * KIB)
    write(HOSTILE, text(rng, 200).encode(), sync=True)


APPS: dict[str, Callable[[random.Random, int], None]] = {
    ".example.mail": mail,
    ".example.camera": camera,
    ".example.brows": browser,
    "installd": install,
    ".example.game": game,
}


def remove_tree(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()


def populate() -> None:
    """Create the files that exist before the recording."""
    rng = random.Random(SEED)
    directories = (
        MAIL / "databases",
        MAIL / "shared_prefs",
        BROWSER / "cache/Cache",
        BROWSER / "app_chrome/Default/Local Storage",
        BROWSER / "files",
        HOSTILE.parent,
        DCIM,
        DCIM.parent / ".thumbnails",
        OBB.parent,
        APP,
    )
    for directory in directories:
        directory.mkdir(parents=True)
    write(OBB, payload(rng, 3072 * KIB, ZIP))
    write(DCIM / "IMG_stored.jpg", payload(rng, 600 * KIB, JPEG))
    write(GAME / "files/save.dat", payload(rng, 256 * KIB))
    exchange_messages(connect(MAIL / "databases/delete.db", "DELETE"), rng, 6)
    exchange_messages(connect(BROWSER / "app_chrome/Default/Cookies", "DELETE"), rng, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="Be one app of the demo workload.")
    parser.add_argument("role", choices=["populate", *APPS])
    parser.add_argument("root", type=Path, help="directory whose subdirectory `data` is the filesystem")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    with Path("/proc/sys/vm/drop_caches").open("w", buffering=1) as drop_caches:
        os.chroot(arguments.root)
        os.chdir("/")
        if arguments.role == "populate":
            populate()
            return
        set_comm(arguments.role)
        for number in range(arguments.rounds):
            if arguments.role == ".example.game" and number % 3 == 0:
                drop_caches.write("3\n")  # so that the following reads reach the device
            started = time.monotonic()
            APPS[arguments.role](random.Random(f"{SEED} {arguments.role} {number}"), number)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - started)))
    os._exit(0)  # like Android's kill of an app: databases are not closed


if __name__ == "__main__":
    main()
