"""Read the boot records of FAT12, FAT16, FAT32 and exFAT, which determine the layout of a volume.

Fields follow Microsoft, "FAT: General Overview of On-Disk Format" 1.03 and "exFAT file system specification". The
criteria for a FAT volume and its type follow the kernel's fat_fill_super (fs/fat/inode.c, 6.12).
"""

from __future__ import annotations

from dataclasses import dataclass

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs.image import Image

BOOT_RECORD_BYTES = 512
FIRST_CLUSTER = 2
ENTRY_BYTES = 32
"""Size of a directory entry."""

_MAX_FAT12_CLUSTERS = 4084
_EXFAT_BOOT_SECTORS = 24
"""Sectors of exFAT's main boot region and its backup."""

_EXFAT_DIRTY = 0x2
_FAT_STATE_DIRTY = 0x1


@dataclass(frozen=True)
class Volume:
    """The layout of a volume. Offsets count bytes from its start; cluster numbers begin at `FIRST_CLUSTER`.

    `entry_bits` is the size of an entry in the FAT. `root_bytes` is the size of the root directory of FAT12 and FAT16,
    which precedes the clusters. `root_cluster` is the first cluster of the root directory of the others.
    """

    kind: str
    nr_bytes: int
    sector_bytes: int
    cluster_bytes: int
    nr_clusters: int
    boot_bytes: int
    fat_offset: int
    fat_bytes: int
    nr_fats: int
    active_fat: int
    mirrored: bool
    entry_bits: int
    root_offset: int
    root_bytes: int
    root_cluster: int
    heap_offset: int
    serial: int
    is_dirty: bool

    def offset(self, cluster: int) -> int:
        """Return the offset of a cluster."""
        return self.heap_offset + (cluster - FIRST_CLUSTER) * self.cluster_bytes

    @property
    def end_cluster(self) -> int:
        """The last cluster number plus one."""
        return FIRST_CLUSTER + self.nr_clusters

    @property
    def uuid(self) -> str:
        """The volume's serial number in blkid's notation."""
        return f"{self.serial >> 16:04X}-{self.serial & 0xFFFF:04X}"


def parse(raw: bytes) -> Volume | None:
    """Parse a boot record; None if it is not plausible."""
    if len(raw) < BOOT_RECORD_BYTES:
        return None
    return _parse_exfat(raw) if raw[3:11] == b"EXFAT   " else _parse_fat(raw)


def read_volume(image: Image) -> Volume:
    """Read the boot record of an image; `InputError` if it is not plausible."""
    volume = parse(image.read(0, BOOT_RECORD_BYTES))
    if volume is None:
        raise InputError(
            f"{image.path}: byte {image.offset_bytes} holds no boot record of FAT or exFAT; give an image of a whole"
            " filesystem, and its offset if it is a partition of a disk"
        )
    return volume


def _number(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little")


def _parse_fat(raw: bytes) -> Volume | None:
    sector, per_cluster, reserved = _number(raw, 11, 2), raw[13], _number(raw, 14, 2)
    nr_fats, root_entries, media = raw[16], _number(raw, 17, 2), raw[21]
    nr_sectors = _number(raw, 19, 2) or _number(raw, 32, 4)
    fat_sectors = _number(raw, 22, 2)
    is_fat32 = fat_sectors == 0
    if is_fat32:
        fat_sectors = _number(raw, 36, 4)
    begins_as_code = raw[0] in (0xEB, 0xE9) or raw[510:512] == b"\x55\xaa"
    sizes = sector in (512, 1024, 2048, 4096) and per_cluster.bit_count() == 1
    if not (begins_as_code and sizes and reserved and nr_fats and fat_sectors and (media == 0xF0 or media >= 0xF8)):
        return None
    root_offset = (reserved + nr_fats * fat_sectors) * sector
    root_bytes = 0 if is_fat32 else root_entries * ENTRY_BYTES
    heap_offset = root_offset + -(-root_bytes // sector) * sector
    nr_clusters = (nr_sectors * sector - heap_offset) // (per_cluster * sector)
    if nr_clusters <= 0 or (not is_fat32 and not root_entries):
        return None
    entry_bits = 32 if is_fat32 else 12 if nr_clusters <= _MAX_FAT12_CLUSTERS else 16
    nr_clusters = min(nr_clusters, fat_sectors * sector * 8 // entry_bits - FIRST_CLUSTER)
    flags = _number(raw, 40, 2) if is_fat32 else 0
    active = flags & 0xF if flags & 0x80 else 0
    extended = 64 if is_fat32 else 36
    return Volume(
        kind="vfat",
        nr_bytes=nr_sectors * sector,
        sector_bytes=sector,
        cluster_bytes=per_cluster * sector,
        nr_clusters=nr_clusters,
        boot_bytes=reserved * sector,
        fat_offset=reserved * sector,
        fat_bytes=fat_sectors * sector,
        nr_fats=nr_fats,
        active_fat=active if active < nr_fats else 0,
        mirrored=not flags & 0x80,
        entry_bits=entry_bits,
        root_offset=root_offset,
        root_bytes=root_bytes,
        root_cluster=_number(raw, 44, 4) if is_fat32 else 0,
        heap_offset=heap_offset,
        serial=_number(raw, extended + 3, 4) if raw[extended + 2] in (0x28, 0x29) else 0,
        is_dirty=bool(raw[extended + 1] & _FAT_STATE_DIRTY),
    )


def _parse_exfat(raw: bytes) -> Volume | None:
    sector_shift, cluster_shift, nr_fats = raw[108], raw[109], raw[110]
    if not 9 <= sector_shift <= 12 or sector_shift + cluster_shift > 25 or nr_fats not in (1, 2):
        return None
    sector = 1 << sector_shift
    nr_bytes = _number(raw, 72, 8) * sector
    fat_offset, fat_bytes, heap_offset = (_number(raw, at, 4) * sector for at in (80, 84, 88))
    nr_clusters, root_cluster, flags = _number(raw, 92, 4), _number(raw, 96, 4), _number(raw, 106, 2)
    volume = Volume(
        kind="exfat",
        nr_bytes=nr_bytes,
        sector_bytes=sector,
        cluster_bytes=sector << cluster_shift,
        nr_clusters=min(nr_clusters, max(nr_bytes - heap_offset, 0) >> (sector_shift + cluster_shift)),
        boot_bytes=_EXFAT_BOOT_SECTORS * sector,
        fat_offset=fat_offset,
        fat_bytes=fat_bytes,
        nr_fats=nr_fats,
        active_fat=flags & 1 if nr_fats == 2 else 0,
        mirrored=False,
        entry_bits=32,
        root_offset=heap_offset,
        root_bytes=0,
        root_cluster=root_cluster,
        heap_offset=heap_offset,
        serial=_number(raw, 100, 4),
        is_dirty=bool(flags & _EXFAT_DIRTY),
    )
    placed = volume.boot_bytes <= fat_offset and fat_offset + fat_bytes * nr_fats <= heap_offset < nr_bytes <= 1 << 62
    sound = placed and volume.nr_clusters > 0 and fat_bytes * 8 // 32 >= volume.nr_clusters + FIRST_CLUSTER
    return volume if sound else None


def boot_checksum_holds(image: Image, volume: Volume) -> bool:
    """Return whether the twelfth sector of an exFAT volume has the checksum of the first eleven (exFAT 3.4)."""
    size = volume.sector_bytes
    total = 0
    for at, byte in enumerate(image.read(0, 11 * size)):
        if at not in (106, 107, 112):  # VolumeFlags and PercentInUse change while it is mounted
            total = ((total & 1) << 31) + (total >> 1) + byte & 0xFFFFFFFF
    return image.read(11 * size, size) == total.to_bytes(4, "little") * (size // 4)


def sectors(nr_bytes: int) -> int:
    """Return the number of whole sectors of 512 bytes."""
    return nr_bytes // SECTOR_BYTES
