"""Read the directory entries of F2FS, in blocks and in inodes, and join them to paths.

A directory block consists of a bitmap, entries, and 8-byte slots for names. An entry uses as many consecutive slots as
its name needs. Inline directories have the same parts, sized to the space in the inode.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.fs import pieces
from androstep_analysis.fs.f2fs.layout import Superblock
from androstep_analysis.fs.f2fs.nodes import ADDRESSES_BYTE, CONTENT, INLINE_DENTRY
from androstep_analysis.fs.image import Image
from androstep_analysis.fs.pieces import MAX_PATH_LENGTH, has_type, max_characters

_ENTRY = np.dtype([("hash", "<u4"), ("ino", "<u4"), ("length", "<u2"), ("file_type", "u1")])
_SLOT_BYTES = 8
_MAX_NAME_BYTES = 255
_BLOCKS_AT_ONCE = 1 << 12

ENTRIES = pl.Schema({"parent": pl.Int64, "ino": pl.Int64, "name": pl.String})
"""A directory entry. Bytes of the name that are not UTF-8 become ``\\xNN``."""


@dataclass(frozen=True)
class _Layout:
    """The layout of a directory block of `room` bytes."""

    room: int

    @property
    def slots(self) -> int:
        """Number of entries (NR_DENTRY_IN_BLOCK, NR_INLINE_DENTRY)."""
        return self.room * 8 // ((_ENTRY.itemsize + _SLOT_BYTES) * 8 + 1)

    @property
    def names(self) -> int:
        """Offset of the name slots, at the end of the block."""
        return self.room - self.slots * _SLOT_BYTES

    @property
    def entries(self) -> int:
        """Offset of the entries, directly before the names."""
        return self.names - self.slots * _ENTRY.itemsize


def read_entries(
    image: Image, superblock: Superblock, inodes: np.ndarray, claims: np.ndarray
) -> tuple[pl.DataFrame, np.ndarray]:
    """Return all directory entries except ``.`` and ``..`` (`ENTRIES`), and the numbers of damaged directories.

    `inodes` have dtype `nodes.INODE`. `claims` are sorted by block and do not overlap.
    """
    parts, bad = [pl.DataFrame(schema=ENTRIES)], [np.empty(0, np.int64)]
    directories = inodes[has_type(inodes, stat.S_IFDIR)]
    for owners, raw in (
        *_blocks(image, superblock, directories, claims),
        *_inline(image, superblock, directories[(directories["inline"] & INLINE_DENTRY) != 0]),
    ):
        entries, damaged = _entries(owners, raw)
        parts.append(entries)
        bad.append(damaged)
    return pl.concat(parts), np.unique(np.concatenate(bad))


def _blocks(
    image: Image, superblock: Superblock, directories: np.ndarray, claims: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield directory blocks as (inode of each, contents)."""
    mine = claims[(claims["kind"] == CONTENT) & np.isin(claims["ino"], directories["ino"])]
    length = mine["end"] - mine["start"]
    owner = np.repeat(mine["ino"], length)
    block = np.arange(len(owner)) + np.repeat(mine["start"] - (np.cumsum(length) - length), length)
    for at in range(0, len(block), _BLOCKS_AT_ONCE):
        some = slice(at, at + _BLOCKS_AT_ONCE)
        yield owner[some], image.blocks(block[some], superblock.block_bytes)


def _inline(image: Image, superblock: Superblock, directories: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield inline directories, grouped by their size, as (inode of each, contents)."""
    directories = directories[directories["nr_slots"] > 1]
    shape = directories["first_slot"] << 16 | directories["nr_slots"]
    for both in np.unique(shape).tolist():
        first, count = both >> 16, both & 0xFFFF
        alike = np.flatnonzero(shape == both)
        begin = ADDRESSES_BYTE + 4 * (first + 1)  # the first slot is reserved
        for at in range(0, len(alike), _BLOCKS_AT_ONCE):
            some = directories[alike[at : at + _BLOCKS_AT_ONCE]]
            yield some["ino"], image.blocks(some["block"], superblock.block_bytes)[:, begin : begin + 4 * (count - 1)]


def _entries(owners: np.ndarray, raw: np.ndarray) -> tuple[pl.DataFrame, np.ndarray]:
    """Return (entries, damaged directories) of directory blocks with one layout.

    The loop runs over slots and handles each slot of all blocks at once.
    """
    layout = _Layout(raw.shape[1])
    used = np.unpackbits(raw[:, : -(-layout.slots // 8)], axis=1, bitorder="little", count=layout.slots)
    table = np.ascontiguousarray(raw[:, layout.entries : layout.names]).view(_ENTRY)
    length = table["length"].astype(np.int64)
    taken = -(-length // _SLOT_BYTES)
    next_slot = np.zeros(len(raw), np.int64)
    begins = np.zeros(used.shape, dtype=bool)
    bad = np.zeros(len(raw), dtype=bool)
    for slot in range(layout.slots):
        here = (next_slot == slot) & (used[:, slot] != 0) & (length[:, slot] > 0)
        wrong = here & ((length[:, slot] > _MAX_NAME_BYTES) | (slot + taken[:, slot] > layout.slots))
        bad |= wrong
        begins[:, slot] = here & ~wrong
        next_slot = np.where(
            wrong, layout.slots, np.where(here, slot + taken[:, slot], np.maximum(next_slot, slot + 1))
        )
    row, column = np.nonzero(begins)
    start = layout.names + column * _SLOT_BYTES
    names = [
        raw[block, first:end].tobytes()
        for block, first, end in zip(row.tolist(), start.tolist(), (start + length[row, column]).tolist(), strict=True)
    ]
    frame = pl.DataFrame(
        {
            "parent": owners[row],
            "ino": table["ino"][row, column].astype(np.int64),
            "name": [name.decode("utf-8", "backslashreplace") for name in names],
        },
        schema=ENTRIES,
    )
    return frame.filter(~pl.col("name").is_in([".", ".."])), owners[bad]


def paths(
    superblock: Superblock, inodes: np.ndarray, entries: pl.DataFrame, damaged: np.ndarray
) -> tuple[pl.DataFrame, list[Loss]]:
    """Return all paths, as DataFrame(ino Int64, path String, encrypted Boolean), and losses for unnamed files.

    A directory has several names only on a damaged filesystem. It is then entered by one of them.
    """
    has_inode = entries["ino"].is_in(inodes["ino"])
    dangling = int((~has_inode).sum())
    entries = entries.filter(has_inode)
    directories = inodes[has_type(inodes, stat.S_IFDIR)]
    prefixes, deep = _prefixes(superblock.root_inode, directories, entries)
    named = entries.join(prefixes, on="parent")
    length = pl.col("prefix").str.len_bytes() + pl.col("name").str.len_bytes()
    fitting = named.filter(length.cast(pl.Int64).cum_sum() <= max_characters(len(inodes)))
    deep += named.height - fitting.height
    paths = fitting.select("ino", path=pl.col("prefix") + pl.col("name"), encrypted="sealed")
    root = pl.DataFrame({"ino": [superblock.root_inode], "path": ["/"], "encrypted": [False]})
    return pl.concat([root, paths]), list(_losses(damaged, dangling, deep))


def _prefixes(root: int, directories: np.ndarray, entries: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return DataFrame(parent, prefix of its paths, sealed: with ciphertext), and the number of omitted directories."""
    encrypted = dict(zip(directories["ino"].tolist(), directories["encrypted"].tolist(), strict=True))
    below: dict[int, list[tuple[int, str]]] = {}
    for parent, child, name in (
        entries.filter(pl.col("ino").is_in(directories["ino"])).select(ENTRIES.names()).iter_rows()
    ):
        below.setdefault(parent, []).append((child, name))
    prefixes = {root: ("/", encrypted.get(root, False))}
    pending = [root]
    deep = 0
    while pending:
        parent = pending.pop()
        prefix, sealed = prefixes[parent]
        for child, name in below.get(parent, ()):
            if child in prefixes:
                continue
            if len(prefix) > MAX_PATH_LENGTH:
                deep += 1
                continue
            prefixes[child] = (f"{prefix}{name}/", sealed or encrypted[child])
            pending.append(child)
    rows = [(ino, prefix, sealed) for ino, (prefix, sealed) in prefixes.items()]
    return pl.DataFrame(
        rows, schema={"parent": pl.Int64, "prefix": pl.String, "sealed": pl.Boolean}, orient="row"
    ), deep


def _losses(damaged: np.ndarray, dangling: int, deep: int) -> Iterator[Loss]:
    if damaged.size:
        yield Loss(
            "unreadable",
            int(damaged.size),
            f"{damaged.size} directories (first: inode {damaged[0]}) are damaged; files in them may have no path",
        )
    if deep:
        yield Loss("unreadable", deep, f"the paths of {deep} files and directories are too long; these have no path")
    yield from pieces.dangling(dangling)
