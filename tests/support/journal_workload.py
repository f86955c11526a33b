"""Write, sync and delete small files on a real ext4 on a loop device, and note the blocks of each."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from support import loops

_GETVERSION = 0x80087601
_FIEMAP = 0xC020660B
_NR_EXTENTS = 64


@dataclass
class Note:
    """A file's state between two times: its blocks by their number in the file."""

    path: str
    ino: int
    generation: int
    size_bytes: int
    blocks: dict[int, int]
    written_ns: int
    deleted_ns: int | None = None


def make(image: Path, mkfs: list[str], options: str, nr_files: int, nr_mib: int = 48) -> list[Note]:
    """Write the image and, while it is still mounted, a copy ``*.live``; return the notes."""
    loops.make_ext4(image, mkfs, nr_mib)
    with loops.mounted(image, options) as filesystem:
        notes = work(filesystem.top, nr_files)
        shutil.copyfile(image, image.with_suffix(".live"))
    return notes


def work(root: Path, nr_files: int) -> list[Note]:
    rng = random.Random(nr_files)
    block_bytes = os.statvfs(root).f_bsize
    notes: list[Note] = []
    alive: list[Note] = []
    (root / "a" / "b").mkdir(parents=True)
    (root / "c").mkdir()
    for number in range(nr_files):
        path = root / rng.choice(["a", "a/b", "c"]) / f"f{number:04d}"
        with path.open("wb") as file:
            # in data=journal these blocks begin with the magic number, which the log must escape
            for part in range(rng.choice([1, 1, 3])):
                file.seek(part * 16 * block_bytes)
                file.write(b"\xc0\x3b\x39\x98" + rng.randbytes(rng.randrange(30_000 if part == 0 else 4000)))
            file.flush()
            os.fsync(file.fileno())
            notes.append(_note(root, path, file.fileno(), block_bytes))
        alive.append(notes[-1])
        if rng.random() < 0.5 and len(alive) > 3:
            gone = alive.pop(rng.randrange(len(alive)))
            gone.deleted_ns = time.time_ns()
            (root / gone.path.lstrip("/")).unlink()
        if rng.random() < 0.3:
            time.sleep(0.015)
            os.sync()
    return notes


def _note(root: Path, path: Path, file: int, block_bytes: int) -> Note:
    stat = os.fstat(file)
    version = fcntl.ioctl(file, _GETVERSION, bytes(8))
    blocks = fiemap(file, block_bytes)
    name = "/" + path.relative_to(root).as_posix()
    return Note(name, stat.st_ino, struct.unpack("I", version[:4])[0], stat.st_size, blocks, time.time_ns())


def fiemap(file: int, block_bytes: int) -> dict[int, int]:
    """Return the blocks of an open file by their number in it."""
    buffer = bytearray(struct.pack("=QQLLLL", 0, 1 << 62, 0, 0, _NR_EXTENTS, 0) + bytes(56 * _NR_EXTENTS))
    fcntl.ioctl(file, _FIEMAP, buffer, True)
    (count,) = struct.unpack_from("=L", buffer, 20)
    assert 0 < count < _NR_EXTENTS
    blocks = {}
    for number in range(count):
        logical, physical, length = struct.unpack_from("=QQQ", buffer, 32 + 56 * number)
        for at in range(0, length, block_bytes):
            blocks[(logical + at) // block_bytes] = (physical + at) // block_bytes
    return blocks
