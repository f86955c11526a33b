"""Test ext4 journals with blocks that move between files, and with block maps that change while the inode does not."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from support import journal_workload, loops

from androstep_analysis import fs
from androstep_analysis.fs.ext4 import journal

BLOCK = 4096
NAMES = "abcd"
FILE_BLOCKS = 48
STEPS = 24
EXTENTS = "none,has_journal,extent,ext_attr,dir_index,filetype,sparse_super,large_file"
INDIRECT = EXTENTS.replace("extent,", "")

_MOVE_EXT = 0xC028660F
_PUNCH_HOLE, _COLLAPSE_RANGE = 3, 8
_SETTLED_S = 0.03
"""Longer than a kernel clock tick, the resolution of commit times."""

Blocks = dict[int, tuple[int, int]]
"""Inode and file offset of each block of the device."""


def fallocate(file: int, mode: int, first: int, count: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(file, mode, ctypes.c_int64(first * BLOCK), ctypes.c_int64(count * BLOCK)):
        raise OSError(ctypes.get_errno(), "fallocate")


def move(chance: random.Random, top: Path) -> None:
    """Exchange blocks between two files (e4defrag does so with a new file)."""
    names = chance.sample(NAMES, 2)
    files = [os.open(top / name, os.O_RDWR) for name in names]
    first = chance.randrange(FILE_BLOCKS - 4)
    count = chance.randint(1, 4)
    fcntl.ioctl(files[0], _MOVE_EXT, bytearray(struct.pack("=LLQQQQ", 0, files[1], first, first, count, 0)))
    for file in files:
        os.close(file)


def refill(chance: random.Random, top: Path) -> None:
    """Free blocks in the middle of a file, and allocate new ones in another file."""
    loser, getter = (os.open(top / name, os.O_RDWR) for name in chance.sample(NAMES, 2))
    first, count = chance.randrange(FILE_BLOCKS - 4), chance.randint(1, 4)
    fallocate(loser, _PUNCH_HOLE, first, count)
    os.fsync(loser)
    fallocate(getter, _PUNCH_HOLE, first, 1)
    os.pwrite(getter, bytes(BLOCK * count), first * BLOCK)
    os.pwrite(loser, bytes(BLOCK * count), first * BLOCK)
    for file in (loser, getter):
        os.fsync(file)
        os.close(file)


def collapse(chance: random.Random, top: Path) -> None:
    """Remove a range within a file, which moves its end forward, and append to it."""
    file = os.open(top / chance.choice(NAMES), os.O_RDWR)
    fallocate(file, _COLLAPSE_RANGE, chance.randint(1, FILE_BLOCKS // 2), 2)
    os.pwrite(file, bytes(2 * BLOCK), (FILE_BLOCKS - 2) * BLOCK)
    os.close(file)


def rewrite(chance: random.Random, top: Path) -> None:
    """Truncate a file and write it again."""
    file = os.open(top / chance.choice(NAMES), os.O_RDWR)
    kept = chance.randrange(FILE_BLOCKS)
    os.ftruncate(file, kept * BLOCK)
    os.fsync(file)
    os.pwrite(file, bytes((FILE_BLOCKS - kept) * BLOCK), kept * BLOCK)
    os.close(file)


def lying(top: Path) -> Blocks:
    """Return the blocks of all files after a sync."""
    os.sync()
    found: Blocks = {}
    for name in NAMES:
        with (top / name).open("rb") as file:
            ino = os.fstat(file.fileno()).st_ino
            for logical, block in journal_workload.fiemap(file.fileno(), BLOCK).items():
                found[block] = ino, logical * BLOCK
    return found


def work(top: Path, seed: int, steps: tuple[Callable[[random.Random, Path], None], ...]) -> list[tuple[int, Blocks]]:
    """Change files, and return the blocks of all files at several times of CLOCK_REALTIME in ns."""
    chance, known = random.Random(seed), []
    for name in NAMES:  # every other block first, so that the maps have nodes
        with (top / name).open("wb") as file:
            for block in (*range(0, FILE_BLOCKS, 2), *range(1, FILE_BLOCKS, 2)):
                os.pwrite(file.fileno(), bytes(BLOCK), block * BLOCK)
                os.fsync(file.fileno())
    for _ in range(STEPS):
        chance.choice(steps)(chance, top)
        where = lying(top)
        time.sleep(_SETTLED_S)
        known.append((time.time_ns(), where))
        time.sleep(_SETTLED_S)
    return known


@pytest.mark.parametrize(
    ("features", "steps"),
    [(EXTENTS, (move, refill, collapse, rewrite)), (EXTENTS, (move,)), (INDIRECT, (refill, rewrite))],
    ids=["extents", "moved", "indirect"],
)
@pytest.mark.parametrize("seed", [pytest.param(1), pytest.param(2, marks=pytest.mark.prove)])
def test_no_block_belongs_to_two_files_at_a_time(
    features: str, steps: tuple[Callable[[random.Random, Path], None], ...], seed: int, tmp_path: Path
) -> None:
    """The journal's statement about a block at a time agrees with FIEMAP, unless the block was free."""
    image = tmp_path / "disk.img"
    loops.make_ext4(image, ["-O", features, "-b", str(BLOCK)])
    with loops.mounted(image) as disk:
        known = work(disk.top, seed, steps)
    past = journal.read(image, fs.read(image, dev=1, source="image_after"))
    assert past is not None
    content = past.extents.filter(pl.col("file_offset_bytes").is_not_null(), pl.col("block_type") == "data")
    right, wrong = 0, []
    for at, where in known:
        holds = (pl.col("valid_from_epoch_ns") <= at) & (pl.col("valid_to_epoch_ns") > at).fill_null(True)
        for row in content.filter(holds).iter_rows(named=True):
            for inside in range(row["nr_sectors"] * 512 // BLOCK):
                block = row["sector"] * 512 // BLOCK + inside
                said = row["ino"], row["file_offset_bytes"] + inside * BLOCK
                right += said == where.get(block)
                wrong += [] if where.get(block) in (said, None) else [(at, block, said, where[block])]
    assert not wrong, f"{len(wrong)} beside {right} right: {wrong[:5]}"
    assert right > STEPS * FILE_BLOCKS
