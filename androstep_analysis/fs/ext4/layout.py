"""Locate the static metadata of ext2/3/4 (superblock, group descriptors, bitmaps, inode tables) and free blocks.

Field offsets and locations follow the kernel (Documentation/filesystems/ext4, fs/ext4/ext4.h, 6.12). All block numbers
count filesystem blocks from the start of the filesystem.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.fs.image import Image, record_dtype

SUPERBLOCK_BYTE = 1024
"""Offset of the superblock for all block sizes."""

SUPERBLOCK_BYTES = 1024
MAGIC = 0xEF53

COMPAT_HAS_JOURNAL = 0x4
COMPAT_SPARSE_SUPER2 = 0x200
COMPAT_ORPHAN_FILE = 0x1000
INCOMPAT_RECOVER = 0x4
INCOMPAT_JOURNAL_DEV = 0x8
INCOMPAT_META_BG = 0x10
INCOMPAT_64BIT = 0x80
INCOMPAT_MMP = 0x100
RO_COMPAT_SPARSE_SUPER = 0x1
RO_COMPAT_GDT_CSUM = 0x10
RO_COMPAT_QUOTA = 0x100
RO_COMPAT_BIGALLOC = 0x200
RO_COMPAT_METADATA_CSUM = 0x400
RO_COMPAT_SHARED_BLOCKS = 0x4000

EXT3_INCOMPAT = 0x2 | INCOMPAT_RECOVER | INCOMPAT_META_BG
EXT3_RO_COMPAT = RO_COMPAT_SPARSE_SUPER | 0x2 | 0x4
"""Features that ext3 supports as well (filetype; large_file, btree_dir)."""

_INODE_UNINIT = 0x1
_BLOCK_UNINIT = 0x2

_MAX_BYTES = 1 << 60
"""Maximum size of ext4, 1 EiB."""

_MAX_GROUPS = 1 << 20
"""Maximum number of block groups (128 TiB at 4 KiB blocks). Only a damaged superblock has more."""


_DESCRIPTOR_BYTES = (32, 64, 128, 256, 512, 1024)
"""Possible sizes of a group descriptor. Only the first 64 bytes are used."""


@dataclass(frozen=True)
class Superblock:
    """The fields of the superblock that determine locations."""

    block_bytes: int
    nr_blocks: int
    first_data_block: int
    cluster_blocks: int
    blocks_per_group: int
    inodes_per_group: int
    nr_inodes: int
    inode_bytes: int
    first_inode: int
    descriptor_bytes: int
    reserved_gdt_blocks: int
    first_meta_group: int
    backup_groups: tuple[int, int]
    compat: int
    incompat: int
    ro_compat: int
    uuid: str
    journal_inode: int
    orphan_file_inode: int
    quota_inodes: frozenset[int]
    mmp_block: int
    made_epoch_s: int

    @classmethod
    def parse(cls, raw: bytes) -> Self | None:
        """Parse the superblock from 1,024 bytes; None if it is not plausible."""

        def u16(at: int) -> int:
            return int.from_bytes(raw[at : at + 2], "little")

        def u32(at: int) -> int:
            return int.from_bytes(raw[at : at + 4], "little")

        dynamic = u32(0x4C) >= 1  # revision 0 has fixed inodes and no features
        compat, incompat, ro_compat = (u32(at) if dynamic else 0 for at in (0x5C, 0x60, 0x64))
        wide = bool(incompat & INCOMPAT_64BIT)
        log_block, log_cluster = u32(0x18), u32(0x1C)
        if len(raw) < SUPERBLOCK_BYTES or u16(0x38) != MAGIC or log_block > 6 or incompat & INCOMPAT_JOURNAL_DEV:
            return None
        bigalloc = bool(ro_compat & RO_COMPAT_BIGALLOC)
        if bigalloc and not log_block <= log_cluster <= log_block + 20:
            return None
        superblock = cls(
            block_bytes=1024 << log_block,
            nr_blocks=u32(0x4) | (u32(0x150) << 32 if wide else 0),
            first_data_block=u32(0x14),
            cluster_blocks=1 << (log_cluster - log_block) if bigalloc else 1,
            blocks_per_group=u32(0x20),
            inodes_per_group=u32(0x28),
            nr_inodes=u32(0x0),
            inode_bytes=u16(0x58) if dynamic else 128,
            first_inode=u32(0x54) if dynamic else 11,
            descriptor_bytes=u16(0xFE) if wide else 32,
            reserved_gdt_blocks=u16(0xCE),
            first_meta_group=u32(0x104),
            backup_groups=(u32(0x24C), u32(0x250)),
            compat=compat,
            incompat=incompat,
            ro_compat=ro_compat,
            uuid=str(uuid.UUID(bytes=raw[0x68:0x78])),
            journal_inode=u32(0xE0) if compat & COMPAT_HAS_JOURNAL else 0,
            orphan_file_inode=u32(0x280) if compat & COMPAT_ORPHAN_FILE else 0,
            quota_inodes=frozenset(
                {u32(at) for at in (0x240, 0x244, 0x26C)} - {0} if ro_compat & RO_COMPAT_QUOTA else ()
            ),
            mmp_block=u32(0x168) | u32(0x16C) << 32 if incompat & INCOMPAT_MMP else 0,
            made_epoch_s=u32(0x108) | raw[0x276] << 32,
        )
        return superblock if superblock._plausible() else None

    def _plausible(self) -> bool:
        bits = self.block_bytes * 8
        return (
            self.first_data_block <= 1
            and self.first_data_block < self.nr_blocks <= _MAX_BYTES // self.block_bytes
            and 0 < self.blocks_per_group <= bits * self.cluster_blocks
            and self.blocks_per_group % self.cluster_blocks == 0
            and 0 < self.inodes_per_group <= bits
            and 128 <= self.inode_bytes <= self.block_bytes
            and self.inode_bytes.bit_count() == 1
            and self.descriptor_bytes in _DESCRIPTOR_BYTES
            and self.nr_groups <= _MAX_GROUPS
            and self.nr_inodes == self.nr_groups * self.inodes_per_group
        )

    @property
    def nr_groups(self) -> int:
        """Number of block groups."""
        return -(-(self.nr_blocks - self.first_data_block) // self.blocks_per_group)

    @property
    def has_group_checksums(self) -> bool:
        """Whether the UNINIT flags and the unused-inode counts of the group descriptors are valid."""
        return bool(self.ro_compat & (RO_COMPAT_GDT_CSUM | RO_COMPAT_METADATA_CSUM))

    @property
    def descriptors_per_block(self) -> int:
        """Group descriptors in one block."""
        return self.block_bytes // self.descriptor_bytes

    @property
    def inode_table_blocks(self) -> int:
        """Blocks of one group's inode table."""
        return -(-self.inodes_per_group * self.inode_bytes // self.block_bytes)

    def first_block(self, group: int) -> int:
        """Return a group's first block for metadata. With 1 KiB blocks, block 0 is reserved for the boot loader."""
        block = self.first_data_block + group * self.blocks_per_group
        return 1 if block == 0 and self.block_bytes == 1024 else block

    def has_superblock(self, group: int) -> bool:
        """Return whether the group begins with the superblock or a backup of it."""
        if group == 0:
            return True
        if self.compat & COMPAT_SPARSE_SUPER2:
            return group in self.backup_groups
        if group == 1 or not self.ro_compat & RO_COMPAT_SPARSE_SUPER:
            return True
        return any(_is_power(group, base) for base in (3, 5, 7))

    def old_descriptor_blocks(self) -> int:
        """Return the number of descriptor blocks after every superblock; meta_bg has the others elsewhere."""
        blocks = -(-self.nr_groups // self.descriptors_per_block)
        return min(blocks, self.first_meta_group) if self.incompat & INCOMPAT_META_BG else blocks

    def descriptor_block(self, index: int) -> int:
        """Return the location of block `index` of the primary group descriptor table."""
        if index < self.old_descriptor_blocks():
            return self.first_block(0) + 1 + index
        group = index * self.descriptors_per_block
        return self.first_block(group) + self.has_superblock(group)


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


@dataclass(frozen=True)
class Groups:
    """The group descriptors, with one array element for each block group."""

    block_bitmap: np.ndarray
    inode_bitmap: np.ndarray
    inode_table: np.ndarray
    unused_inodes: np.ndarray
    inodes_unused: np.ndarray
    blocks_unused: np.ndarray


def read_superblock(image: Image) -> Superblock:
    """Read the primary superblock; `InputError` if it is not plausible."""
    superblock = Superblock.parse(image.read(SUPERBLOCK_BYTE, SUPERBLOCK_BYTES))
    if superblock is None:
        raise InputError(
            f"{image.path}: byte {image.offset_bytes + SUPERBLOCK_BYTE} holds no ext2/3/4 superblock; give an image"
            " of a whole filesystem, and its offset if it is a partition of a disk"
        )
    return superblock


def read_groups(image: Image, superblock: Superblock) -> Groups:
    """Read the primary group descriptors. `inodes_unused` and `blocks_unused` are the UNINIT flags, if valid.

    Descriptors after the end of a truncated image are zeros.
    """
    per_block, size = superblock.descriptors_per_block, superblock.descriptor_bytes
    wide = size >= 64
    fields = {
        "block_bitmap": ("<u4", 0x0), "inode_bitmap": ("<u4", 0x4), "inode_table": ("<u4", 0x8),
        "flags": ("<u2", 0x12), "itable_unused": ("<u2", 0x1C),
        **({"block_bitmap_hi": ("<u4", 0x20), "inode_bitmap_hi": ("<u4", 0x24), "inode_table_hi": ("<u4", 0x28),
            "itable_unused_hi": ("<u2", 0x32)} if wide else {}),
    }  # fmt: skip
    table = np.zeros(superblock.nr_groups, dtype=record_dtype(fields, min(size, 64)))
    for first in range(0, superblock.nr_groups, per_block):
        offset = superblock.descriptor_block(first // per_block) * superblock.block_bytes
        if offset < image.nr_bytes:
            some = table[first : first + per_block]
            some[:] = np.frombuffer(image.read(offset, len(some) * size), dtype=record_dtype(fields, size))

    def number(name: str, bits: int) -> np.ndarray:
        low = table[name].astype(np.int64)
        return low | (table[f"{name}_hi"].astype(np.int64) << bits) if wide else low

    checked = superblock.has_group_checksums
    flags = table["flags"] if checked else np.zeros(len(table), dtype=np.uint16)
    unused = number("itable_unused", 16) if checked else np.zeros(len(table), dtype=np.int64)
    return Groups(
        block_bitmap=number("block_bitmap", 32),
        inode_bitmap=number("inode_bitmap", 32),
        inode_table=number("inode_table", 32),
        unused_inodes=unused,
        inodes_unused=(flags & _INODE_UNINIT).astype(bool),
        blocks_unused=(flags & _BLOCK_UNINIT).astype(bool),
    )


def check_groups(superblock: Superblock, groups: Groups) -> Iterator[Loss]:
    """Yield losses for group descriptors that point outside of the filesystem, or to what another group has."""
    for what, first, length in (
        ("block bitmap", groups.block_bitmap, 1),
        ("inode bitmap", groups.inode_bitmap, 1),
        ("inode table", groups.inode_table, superblock.inode_table_blocks),
    ):
        bad = np.flatnonzero(~placed(superblock, first, length))
        if bad.size:
            yield Loss(
                "unreadable",
                int(bad.size),
                f"the {what} of {bad.size} block groups (first: {bad[0]}) is outside of the filesystem, or that of"
                " another group; its contents are unknown",
            )


def placed(superblock: Superblock, first: np.ndarray, length: int = 1) -> np.ndarray:
    """Return which runs of `length` blocks at `first` are in the filesystem, and overlap no other (bool array).

    Of equal runs the first one counts. A small image could otherwise have one table for each of a million groups.
    """
    inside: np.ndarray = (first >= max(superblock.first_data_block, 1)) & (first <= superblock.nr_blocks - length)
    order = np.argsort(first, kind="stable")
    inside[order[1:][np.diff(first[order]) < length]] = False
    return inside


def static_metadata(superblock: Superblock, groups: Groups) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the runs of static metadata: (subtype, first blocks Int64, numbers of blocks Int64)."""

    def runs(subtype: str, pairs: list[tuple[int, int]]) -> tuple[str, np.ndarray, np.ndarray]:
        array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return subtype, array[:, 0], array[:, 1]

    if superblock.block_bytes == 1024:
        yield runs("boot_record", [(0, 1)])
    with_superblock = [group for group in range(superblock.nr_groups) if superblock.has_superblock(group)]
    starts = [superblock.first_block(group) for group in with_superblock]
    old = superblock.old_descriptor_blocks()
    yield runs("superblock", [(start, 1) for start in starts])
    yield runs("group_descriptors", [(start + 1, old) for start in starts if old])
    if superblock.incompat & INCOMPAT_META_BG:
        yield runs("group_descriptors", list(_meta_group_descriptors(superblock)))
    elif superblock.reserved_gdt_blocks:
        yield runs("reserved_gdt", [(start + 1 + old, superblock.reserved_gdt_blocks) for start in starts])
    for subtype, first, length in (
        ("block_bitmap", groups.block_bitmap, 1),
        ("inode_bitmap", groups.inode_bitmap, 1),
        ("inode_table", groups.inode_table, superblock.inode_table_blocks),
    ):
        first = first[placed(superblock, first, length)]
        yield subtype, first, np.full(len(first), length, dtype=np.int64)
    if 0 < superblock.mmp_block < superblock.nr_blocks:
        yield runs("mmp", [(superblock.mmp_block, 1)])


def _meta_group_descriptors(superblock: Superblock) -> Iterator[tuple[int, int]]:
    """Yield the descriptor blocks of meta_bg, in the first, second and last group of those that each describes."""
    per_block = superblock.descriptors_per_block
    for group in range(superblock.first_meta_group * per_block, superblock.nr_groups):
        if group % per_block in (0, 1, per_block - 1):
            yield superblock.first_block(group) + superblock.has_superblock(group), 1


def free_space(image: Image, superblock: Superblock, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs of blocks that are free in the block bitmaps: (start Int64, end Int64), sorted.

    A group with an unwritten bitmap (BLOCK_UNINIT) is free except for the metadata in it. A group with an invalid
    bitmap location has no free runs.
    """
    clusters_per_group = superblock.blocks_per_group // superblock.cluster_blocks
    is_placed = placed(superblock, groups.block_bitmap)
    starts, ends = [], []
    nr_runs = 0
    for group in range(superblock.nr_groups):
        first = superblock.first_data_block + group * superblock.blocks_per_group
        raw = b""
        if is_placed[group] and not groups.blocks_unused[group]:
            raw = image.read(int(groups.block_bitmap[group]) * superblock.block_bytes, -(-clusters_per_group // 8))
        elif not groups.blocks_unused[group]:
            continue
        edges = np.array([0, clusters_per_group])
        if raw.strip(b"\0"):
            used = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little", count=clusters_per_group)
            edges = np.flatnonzero(np.diff(used, prepend=1, append=1))
        nr_runs += len(edges) // 2
        image.check_runs(nr_runs)
        starts.append(first + edges[0::2] * superblock.cluster_blocks)
        ends.append(first + edges[1::2] * superblock.cluster_blocks)
    start = np.concatenate([np.empty(0, np.int64), *starts])
    end = np.minimum(np.concatenate([np.empty(0, np.int64), *ends]), superblock.nr_blocks)
    return start[end > start], end[end > start]
