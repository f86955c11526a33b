"""Read the inode tables of ext2/3/4 as columns.

The tables are read directly, because pytsk3 has no generation, no flags, no i_file_acl and no exact times. Field
offsets: struct ext4_inode, fs/ext4/ext4.h.
"""

from __future__ import annotations

import stat

import numpy as np

from androstep_analysis.fs.ext4.layout import INCOMPAT_64BIT, Groups, Superblock, placed
from androstep_analysis.fs.image import Image, record_dtype
from androstep_analysis.fs.pieces import has_type

ROOT_INODE = 2

EXTENTS_FLAG = 0x80000
INLINE_DATA_FLAG = 0x10000000
EA_INODE_FLAG = 0x200000
ENCRYPTED_FLAG = 0x800
INDEX_FLAG = 0x1000

BLOCK_MAP_BYTE = 0x28
"""Offset of i_block in the inode: block numbers, the root of the extent tree, inline data or a short symlink."""

BLOCK_MAP_BYTES = 60

INODE = np.dtype(
    [
        ("ino", np.int64),
        ("mode", np.uint16),
        ("links", np.uint16),
        ("flags", np.uint32),
        ("size_bytes", np.int64),
        ("blocks_lo", np.uint32),
        ("deleted", np.uint32),
        ("generation", np.uint32),
        ("xattr_block", np.int64),
        ("changed_ns", np.int64),
        ("created_ns", np.int64),
        ("has_created", np.bool_),
        ("offset_bytes", np.int64),
    ]
)
"""A decoded inode. `offset_bytes` is its offset in the filesystem, and `deleted` the field i_dtime."""

_FIELDS = {
    "mode": ("<u2", 0x0), "size_lo": ("<u4", 0x4), "ctime": ("<i4", 0xC), "dtime": ("<u4", 0x14),
    "links": ("<u2", 0x1A), "blocks_lo": ("<u4", 0x1C), "flags": ("<u4", 0x20),
    "block_map": (("u1", BLOCK_MAP_BYTES), BLOCK_MAP_BYTE), "generation": ("<u4", 0x64),
    "file_acl_lo": ("<u4", 0x68), "size_hi": ("<u4", 0x6C), "file_acl_hi": ("<u2", 0x76),
}  # fmt: skip
_LARGE_FIELDS = {
    "extra_isize": ("<u2", 0x80), "ctime_extra": ("<u4", 0x84), "crtime": ("<i4", 0x90), "crtime_extra": ("<u4", 0x94),
}  # fmt: skip


def read_inodes(image: Image, superblock: Superblock, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Read the inodes that have links or are marked as used (deleted, but still open).

    Group descriptors with an inode table outside of the filesystem are skipped, and so are unwritten tails of tables
    (INODE_UNINIT, bg_itable_unused).

    Returns
    -------
    inodes : ndarray
        The inodes in order (dtype `INODE`).
    block_maps : ndarray
        Their fields i_block, uint8 of shape (n, 60).
    """
    layout = on_disk(superblock)
    is_placed = placed(superblock, groups.inode_table, superblock.inode_table_blocks) & ~groups.inodes_unused
    parts = [np.empty(0, dtype=INODE)]
    block_maps = [np.empty((0, BLOCK_MAP_BYTES), dtype=np.uint8)]
    for group in np.flatnonzero(is_placed).tolist():
        count = superblock.inodes_per_group - int(groups.unused_inodes[group])
        if count <= 0:
            continue
        begin = int(groups.inode_table[group]) * superblock.block_bytes
        raw_bitmap = image.read(int(groups.inode_bitmap[group]) * superblock.block_bytes, -(-count // 8))
        marked = np.unpackbits(np.frombuffer(raw_bitmap, np.uint8), bitorder="little", count=count).astype(bool)
        for offset, raw in image.chunks(begin, count * superblock.inode_bytes, superblock.inode_bytes):
            table = np.frombuffer(raw, dtype=layout)
            index = (offset - begin) // superblock.inode_bytes + np.arange(len(table))
            ino = group * superblock.inodes_per_group + 1 + index
            in_use = np.flatnonzero((table["links"] > 0) | (marked[index] & (table["mode"] != 0)))
            if in_use.size:
                part = narrow(table[in_use], superblock)
                part["ino"] = ino[in_use]
                part["offset_bytes"] = offset + in_use * superblock.inode_bytes
                parts.append(part)
                block_maps.append(table["block_map"][in_use])
    return np.concatenate(parts), np.concatenate(block_maps)


def on_disk(superblock: Superblock) -> np.dtype:
    """Return the dtype of an on-disk inode, with the fields that are used."""
    fields = _FIELDS | (_LARGE_FIELDS if superblock.inode_bytes > 128 else {})
    return record_dtype(fields, superblock.inode_bytes)


def narrow(table: np.ndarray, superblock: Superblock) -> np.ndarray:
    """Decode on-disk inodes (dtype `on_disk`) to dtype `INODE`, leaving `ino` and `offset_bytes` 0."""
    inodes = np.zeros(len(table), dtype=INODE)
    for name in ("mode", "links", "flags", "blocks_lo", "generation"):
        inodes[name] = table[name]
    inodes["deleted"] = table["dtime"]
    inodes["size_bytes"] = (table["size_lo"].astype(np.uint64) | table["size_hi"].astype(np.uint64) << 32).view(
        np.int64
    )
    inodes["xattr_block"] = table["file_acl_lo"]
    if superblock.incompat & INCOMPAT_64BIT:
        inodes["xattr_block"] |= table["file_acl_hi"].astype(np.int64) << 32
    extra_isize = table["extra_isize"] if superblock.inode_bytes > 128 else np.zeros(len(table), np.uint16)
    # A field after the first 128 bytes exists if i_extra_isize reaches its end (EXT4_FITS_IN_INODE).
    inodes["changed_ns"] = _nanoseconds(table, "ctime", extra_isize >= 0x88 - 0x80)
    inodes["has_created"] = extra_isize >= 0x94 - 0x80
    if superblock.inode_bytes > 128:
        inodes["created_ns"] = _nanoseconds(table, "crtime", extra_isize >= 0x98 - 0x80)
    return inodes


def _nanoseconds(table: np.ndarray, name: str, has_extra: np.ndarray) -> np.ndarray:
    """Decode a time to ns since 1970 (Int64) from signed 32-bit seconds, 2 more bits of seconds and 30 bits of ns.

    Years after 2262 do not fit and are clipped.
    """
    seconds = table[name].astype(np.int64)
    if f"{name}_extra" not in (table.dtype.names or ()):
        return seconds * 1_000_000_000
    extra = np.where(has_extra, table[f"{name}_extra"], 0).astype(np.int64)
    seconds = np.minimum(seconds + ((extra & 3) << 32), np.iinfo(np.int64).max // 1_000_000_000 - 1)
    nanoseconds: np.ndarray = seconds * 1_000_000_000 + np.minimum(extra >> 2, 999_999_999)
    return nanoseconds


def maps_blocks(inodes: np.ndarray, block_maps: np.ndarray) -> np.ndarray:
    """Return a bool array of the inodes with block numbers or an extent tree in i_block.

    As in libext2fs (ext2fs_inode_has_valid_blocks2) and debugfs icheck, these are regular files, directories and long
    symlinks. They have links, are not deleted, and have no inline data.
    """
    regular, directory, symlink = (has_type(inodes, kind) for kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK))
    second_word = block_maps[:, 4:8].any(axis=1)
    size_lo = inodes["size_bytes"] & 0xFFFFFFFF
    long_symlink = np.where(
        inodes["xattr_block"] == 0,
        inodes["blocks_lo"] != 0,
        (size_lo >= BLOCK_MAP_BYTES) | ((size_lo > 4) & ~second_word),
    )
    live = (inodes["links"] > 0) & (inodes["deleted"] == 0) & ((inodes["flags"] & INLINE_DATA_FLAG) == 0)
    has_map: np.ndarray = live & (regular | directory | (symlink & long_symlink))
    return has_map
