"""Read F2FS's superblock and checkpoint, including the journals in the summaries of the open segments.

Field offsets follow include/linux/f2fs_fs.h of Linux 6.6, and locations fs/f2fs/{f2fs,node,segment}.h and checkpoint.c.
Block addresses count filesystem blocks from the start of the filesystem. Segments count from the start of the main
area.
"""

from __future__ import annotations

import uuid
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.fs.image import Image

MAGIC = 0xF2F52010
SUPERBLOCK_BYTE = 1024
"""Offset of the superblock in the first block, and of its copy in the second block."""

SUPERBLOCK_BYTES = 3072

BLOCK_SIZES = tuple(1 << bits for bits in range(12, 17))
"""Possible block sizes. A block is as large as a page of the kernel for which the filesystem was created."""

FEATURE_FLEXIBLE_INLINE_XATTR = 0x40
FEATURE_CRTIME = 0x100
FEATURE_SB_CHKSUM = 0x800
FEATURE_COMPRESSION = 0x2000
KNOWN_FEATURES = 0x7FFF
"""All features up to `ro`. Device aliasing and packed summaries are newer, and change structures that are read here."""

CP_UMOUNT = 0x1
CP_COMPACT_SUM = 0x4
CP_ERROR = 0x8
CP_FASTBOOT = 0x20
CP_CRC_RECOVERY = 0x40
CP_NOCRC_RECOVERY = 0x200
CP_LARGE_NAT_BITMAP = 0x400

BLOCKS_PER_SEGMENT = 512
"""Blocks in a segment. It is fixed, because a SIT entry has 512 bits."""

_MAX_SEGMENTS = 1 << 23
"""F2FS_MAX_SEGMENT: 16 TiB."""

_VERSION_BITMAP_BYTE = 192
_CHECKSUM_LAST_BYTE = 4

NULL_ADDRESS = 0
COMPRESS_ADDRESS = 0xFFFFFFFE
NEW_ADDRESS = 0xFFFFFFFF
"""Special block addresses: a hole, the head of a compressed cluster, a reserved block that is not written yet."""

_SUMMARY_BYTES = 7
_SUMMARY_FOOTER_BYTES = 5

NAT_ENTRY = np.dtype([("version", "u1"), ("ino", "<u4"), ("block", "<u4")])
SIT_ENTRY = np.dtype([("valid_blocks", "<u2"), ("valid_map", "u1", 64), ("mtime", "<u8")])
"""struct f2fs_nat_entry, struct f2fs_sit_entry."""

_NAT_JOURNAL_ENTRY = np.dtype([("nid", "<u4"), ("entry", NAT_ENTRY)])
_SIT_JOURNAL_ENTRY = np.dtype([("segment", "<u4"), ("entry", SIT_ENTRY)])


@dataclass(frozen=True)
class Superblock:
    """The fields of the superblock that determine locations."""

    block_bytes: int
    nr_blocks: int
    nr_segments: int
    checkpoint: int
    checkpoint_payload: int
    sit: int
    nat: int
    ssa: int
    main: int
    root_inode: int
    quota_inodes: frozenset[int]
    features: int
    nr_devices: int
    uuid: str

    @classmethod
    def parse(cls, raw: bytes) -> Self | None:
        """Parse the superblock from 3,072 bytes; None if it is not plausible."""

        def u32(at: int) -> int:
            return int.from_bytes(raw[at : at + 4], "little")

        if len(raw) < SUPERBLOCK_BYTES or u32(0) != MAGIC or 1 << min(u32(16), 32) not in BLOCK_SIZES:
            return None
        features = u32(2180)
        if features & FEATURE_SB_CHKSUM and (u32(32) != 3068 or u32(3068) != checksum(raw[:3068])):
            return None
        superblock = cls(
            block_bytes=1 << u32(16),
            nr_blocks=int.from_bytes(raw[36:44], "little"),
            nr_segments=u32(68),
            checkpoint=u32(76),
            checkpoint_payload=u32(1664),
            sit=u32(80),
            nat=u32(84),
            ssa=u32(88),
            main=u32(92),
            root_inode=u32(96),
            quota_inodes=frozenset({u32(at) for at in (2745, 2749, 2753)} - {0}),
            features=features,
            nr_devices=sum(raw[2201 + 68 * device] != 0 for device in range(8)),
            uuid=str(uuid.UUID(bytes=raw[108:124])),
        )
        areas = zip(
            (superblock.checkpoint, superblock.sit, superblock.nat, superblock.ssa),
            (superblock.sit, superblock.nat, superblock.ssa, superblock.main),
            (u32(52), u32(56), u32(60), u32(64)),
            strict=True,
        )
        placed = u32(72) == superblock.checkpoint and 1 << min(u32(20), 32) == BLOCKS_PER_SEGMENT
        whole = all(end - start == count * BLOCKS_PER_SEGMENT for start, end, count in areas)
        return superblock if placed and whole and superblock._plausible() else None

    def _plausible(self) -> bool:
        return (
            self.checkpoint >= 2
            and self.sit - self.checkpoint == 2 * BLOCKS_PER_SEGMENT
            and (self.nat - self.sit) % (2 * BLOCKS_PER_SEGMENT) == 0
            and (self.ssa - self.nat) % (2 * BLOCKS_PER_SEGMENT) == 0
            and 0 < self.nr_segments <= _MAX_SEGMENTS
            and self.nr_segments <= self.nr_sit_blocks * self.sit_entries_per_block
            and self.nr_segments <= self.main - self.ssa
            and self.main_end <= self.nr_blocks <= 1 << 32
            and self.checkpoint_payload < BLOCKS_PER_SEGMENT
            and 0 < self.root_inode < self.nr_nat_blocks * self.nat_entries_per_block
        )

    @property
    def main_end(self) -> int:
        """First block after the main area."""
        return self.main + self.nr_segments * BLOCKS_PER_SEGMENT

    @property
    def nr_sit_blocks(self) -> int:
        """Blocks of one of the two copies of the segment information table."""
        return (self.nat - self.sit) // 2

    @property
    def nr_nat_blocks(self) -> int:
        """Blocks of one of the two copies of the node address table."""
        return (self.ssa - self.nat) // 2

    @property
    def sit_entries_per_block(self) -> int:
        """Number of segments described by one block of the segment information table."""
        return self.block_bytes // SIT_ENTRY.itemsize

    @property
    def nat_entries_per_block(self) -> int:
        """Number of nodes located by one block of the node address table."""
        return self.block_bytes // NAT_ENTRY.itemsize

    @property
    def summaries_bytes(self) -> int:
        """Size of the summary entries of a summary block; a journal and a footer follow."""
        return self.block_bytes // 8 * _SUMMARY_BYTES

    @property
    def journal_bytes(self) -> int:
        """Size of a journal in a summary block."""
        return self.block_bytes - self.summaries_bytes - _SUMMARY_FOOTER_BYTES

    def in_main(self, block: np.ndarray) -> np.ndarray:
        """Return which addresses are in the main area (bool array)."""
        inside: np.ndarray = (block >= self.main) & (block < self.main_end)
        return inside


@dataclass(frozen=True)
class Checkpoint:
    """The newest valid checkpoint.

    Attributes
    ----------
    flags : int
        The checkpoint's flags (``CP_…``).
    version : int
        Its number.
    node_version : int
        The version in the footers of nodes written after the checkpoint.
    node_segments, node_next : tuple of int
        The open segments for nodes (hot, warm, cold), and the next free block in each.
    sit_version, nat_version : ndarray
        For each block of the table, the valid copy (uint8, 0 or 1).
    nat_journal, sit_journal : ndarray
        Entries that are newer than the tables.
    """

    flags: int
    version: int
    node_version: int
    node_segments: tuple[int, ...]
    node_next: tuple[int, ...]
    sit_version: np.ndarray
    nat_version: np.ndarray
    nat_journal: np.ndarray
    sit_journal: np.ndarray


def checksum(data: bytes, seed: int = MAGIC) -> int:
    """Return F2FS's CRC-32, with the usual polynomial, the magic number as seed and no inversion at the end."""
    return zlib.crc32(data, seed ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


def read_superblock(image: Image) -> tuple[Superblock, list[Loss]]:
    """Read the superblock, or its copy if the first is damaged.

    Raises `InputError` if neither is plausible, or if the filesystem spans several devices.
    """
    first = Superblock.parse(image.read(SUPERBLOCK_BYTE, SUPERBLOCK_BYTES))
    sizes = (first.block_bytes,) if first else BLOCK_SIZES
    second = next(
        (copy for size in sizes if (copy := Superblock.parse(image.read(size + SUPERBLOCK_BYTE, SUPERBLOCK_BYTES)))),
        None,
    )
    superblock = first or second
    if superblock is None:
        raise InputError(
            f"{image.path}: byte {image.offset_bytes + SUPERBLOCK_BYTE} holds no F2FS superblock, nor does the next"
            " block; give an image of a whole filesystem, and its offset if it is a partition of a disk"
        )
    if superblock.nr_devices > 1:
        raise InputError(
            f"{image.path}: this F2FS spans {superblock.nr_devices} devices, and an image holds only one; record such"
            " a filesystem with tracepoints or extmap"
        )
    losses = []
    if first is None or second is None:
        losses.append(Loss("damaged", 1, "one of the two superblocks is damaged; the other was used"))
    unknown = superblock.features & ~KNOWN_FEATURES
    if unknown:
        losses.append(
            Loss(
                "unsupported", unknown.bit_count(), f"features {unknown:#x} are unsupported; the map may be incomplete"
            )
        )
    return superblock, losses


def read_checkpoint(image: Image, superblock: Superblock) -> tuple[Checkpoint, list[Loss]]:
    """Read the newer of the valid checkpoint packs; `InputError` if neither is valid."""
    packs = [
        (pack, raw)
        for pack in (superblock.checkpoint, superblock.checkpoint + BLOCKS_PER_SEGMENT)
        if (raw := _sound_pack(image, superblock, pack)) is not None
    ]
    if not packs:
        raise InputError(
            f"{image.path}: neither checkpoint (blocks {superblock.checkpoint} and"
            f" {superblock.checkpoint + BLOCKS_PER_SEGMENT}) is valid; give an image of the whole filesystem"
        )
    pack, raw = max(packs, key=lambda one: int.from_bytes(one[1][:8], "little"))
    return _decode(image, superblock, pack, raw)


def _sound_pack(image: Image, superblock: Superblock, pack: int) -> bytes | None:
    """Return the first block of a checkpoint pack if its first and last blocks are valid and have the same version."""
    size = superblock.block_bytes
    head = image.read(pack * size, size)
    length = int.from_bytes(head[136:140], "little")
    if not _sound_block(head) or not 2 + superblock.checkpoint_payload < length <= BLOCKS_PER_SEGMENT:
        return None
    tail = image.read((pack + length - 1) * size, size)
    return head if _sound_block(tail) and tail[:8] == head[:8] else None


def _sound_block(block: bytes) -> bool:
    """Return whether the checksum of a checkpoint block, which does not cover itself, is correct."""
    at = int.from_bytes(block[164:168], "little")
    if not _VERSION_BITMAP_BYTE <= at <= len(block) - _CHECKSUM_LAST_BYTE:
        return False
    value = checksum(block[:at])
    if at < len(block) - _CHECKSUM_LAST_BYTE:
        value = checksum(block[at + 4 :], value)
    return value == int.from_bytes(block[at : at + 4], "little")


def _decode(image: Image, superblock: Superblock, pack: int, raw: bytes) -> tuple[Checkpoint, list[Loss]]:
    size = superblock.block_bytes

    def u32(at: int) -> int:
        return int.from_bytes(raw[at : at + 4], "little")

    def u16(at: int) -> int:
        return int.from_bytes(raw[at : at + 2], "little")

    flags = u32(132)
    version = int.from_bytes(raw[:8], "little")
    payload = image.read((pack + 1) * size, superblock.checkpoint_payload * size)
    sit_version, nat_version = _version_bitmaps(image, superblock, raw, payload, flags)
    nat_journal, sit_journal, losses = _journals(image, superblock, pack, raw, flags)
    crc_at = u32(164)
    checkpoint = Checkpoint(
        flags=flags,
        version=version,
        node_version=version | u32(crc_at) << 32 if flags & CP_CRC_RECOVERY else version,
        node_segments=tuple(u32(36 + 4 * log) for log in range(3)),
        node_next=tuple(u16(68 + 2 * log) for log in range(3)),
        sit_version=sit_version,
        nat_version=nat_version,
        nat_journal=nat_journal,
        sit_journal=sit_journal,
    )
    return checkpoint, losses


def _version_bitmaps(
    image: Image, superblock: Superblock, raw: bytes, payload: bytes, flags: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the valid copy of each SIT and NAT block (__bitmap_ptr in fs/f2fs/f2fs.h).

    With large bitmaps the checksum precedes them. Older f2fs-tools left it at the end of the block.
    """
    sit_bytes, nat_bytes = (int.from_bytes(raw[at : at + 4], "little") for at in (156, 160))
    area = raw + payload
    if flags & CP_LARGE_NAT_BITMAP:
        checksum_first = int.from_bytes(raw[164:168], "little") == _VERSION_BITMAP_BYTE
        nat_at = _VERSION_BITMAP_BYTE + 4 * checksum_first
        sit_at = nat_at + nat_bytes
    elif superblock.checkpoint_payload:
        nat_at, sit_at = _VERSION_BITMAP_BYTE, superblock.block_bytes
    else:
        sit_at = _VERSION_BITMAP_BYTE
        nat_at = sit_at + sit_bytes
    maps = []
    for at, length, blocks in (
        (sit_at, sit_bytes, superblock.nr_sit_blocks),
        (nat_at, nat_bytes, superblock.nr_nat_blocks),
    ):
        bits = np.frombuffer(area[at : at + length], np.uint8)
        if len(bits) * 8 < blocks:
            raise InputError(
                f"{image.path}: the checkpoint has version bits for {len(bits) * 8} blocks of a table that has"
                f" {blocks}; the image is too damaged to read, give another copy"
            )
        maps.append(np.unpackbits(bits, count=blocks))
    return maps[0], maps[1]


def _journals(
    image: Image, superblock: Superblock, pack: int, raw: bytes, flags: int
) -> tuple[np.ndarray, np.ndarray, list[Loss]]:
    """Return the journals of NAT and SIT, from the summaries of the hot and the cold data segment, and any losses."""
    size, length = superblock.block_bytes, superblock.journal_bytes
    total, start = (int.from_bytes(raw[at : at + 4], "little") for at in (136, 140))
    if flags & CP_COMPACT_SUM:
        packed = image.read((pack + min(start, BLOCKS_PER_SEGMENT)) * size, size)
        nat, sit = packed[:length], packed[length : 2 * length]
    else:
        # At the end of the pack are three summaries of data segments, after an unmount also three of node segments, and
        # one last block.
        first = pack + total - 1 - (6 if flags & (CP_UMOUNT | CP_FASTBOOT) else 3)
        at = superblock.summaries_bytes
        nat, sit = (image.read((first + log) * size, size)[at : at + length] for log in (0, 2))
    losses: list[Loss] = []
    tables = []
    for name, journal, dtype in (("NAT", nat, _NAT_JOURNAL_ENTRY), ("SIT", sit, _SIT_JOURNAL_ENTRY)):
        count, capacity = int.from_bytes(journal[:2], "little"), (length - 2) // dtype.itemsize
        if count > capacity:
            losses.append(
                Loss(
                    "damaged", count, f"the {name} journal claims {count} entries and has room for {capacity}: ignored"
                )
            )
            count = 0
        tables.append(np.frombuffer(journal, dtype=dtype, count=count, offset=2))
    return tables[0], tables[1], losses
