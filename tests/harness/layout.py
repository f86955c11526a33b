"""Identify blocks that are not file content, with tools and definitions independent of the package.

Each function takes a final image. A kind consists of the truth's column `kind` and a subtype.
"""

from __future__ import annotations

import re
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

Kind = tuple[str, str]


class Layout(NamedTuple):
    """The layout of a filesystem.

    block_sectors
        Smallest allocation for a file, at most a page of `page_sectors`.
    of_place
        Returns the kind of a sector that is never file content; None otherwise.
    of_content
        Returns the kind of a block elsewhere by its content; None if it is unknown.
    has_holes
        Files can have holes. Without them (FAT, exFAT), a write past the end of a file also writes zeros in between.
    """

    block_sectors: int
    of_place: Callable[[int], Kind | None]
    of_content: Callable[[bytes], Kind | None]
    has_holes: bool = True
    page_sectors: int = 8


class _Areas:
    """Runs of sectors (first, end, kind), sorted by sector."""

    def __init__(self, areas: Iterable[tuple[int, int, Kind]]) -> None:
        self._areas = sorted(areas)
        self._first = [first for first, _, _ in self._areas]

    def __call__(self, sector: int) -> Kind | None:
        at = bisect_right(self._first, sector) - 1
        if at < 0 or sector >= self._areas[at][1]:
            return None
        return self._areas[at][2]


def ext4(image: Path, page_sectors: int = 8) -> Layout:
    """Return the layout by dumpe2fs and debugfs. Directory, map and attribute blocks are identified by content."""
    groups = _run("dumpe2fs", image)
    block_bytes, nr_blocks = (int(_field(groups, name)) for name in ("Block size", "Block count"))
    step = block_bytes // 512
    has_indirect = not re.search(r"(?m)^Filesystem features:.*\bextents?\b", groups)
    patterns = {
        "superblock": r"superblock at (\d+)",
        "group_descriptors": r"Group descriptors at (\d+)-(\d+)",
        "reserved_descriptors": r"Reserved GDT blocks at (\d+)-(\d+)",
        "block_bitmap": r"Block bitmap at (\d+)",
        "inode_bitmap": r"Inode bitmap at (\d+)",
        "inode_table": r"Inode table at (\d+)-(\d+)",
    }
    runs = [
        (int(found[1]), int(found[found.lastindex or 1]), ("metadata", subtype))
        for subtype, pattern in patterns.items()
        for found in re.finditer(pattern, groups)
    ]
    blocks = re.split(r"\n(?:EXTENTS|BLOCKS):", _run("debugfs", "-R", "stat <8>", image))[-1]
    for first, last in re.findall(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", blocks):
        runs.append((int(first), int(last or first), ("journal", "journal")))

    def of_content(content: bytes) -> Kind | None:
        if content[:2] == b"\x0a\xf3":
            return "metadata", "extent_index"
        if content[:4] == b"\x00\x00\x02\xea":
            return "metadata", "attributes"
        if _is_ext4_directory(content):
            return "metadata", "directory"
        if _is_quota(content):
            return "metadata", "quota"
        if not has_indirect:  # file content with small numbers may look the same
            return None
        numbers = struct.unpack(f"<{len(content) // 4}I", content)
        return ("metadata", "indirect") if any(numbers) and max(numbers) < nr_blocks else None

    areas = _Areas((first * step, (last + 1) * step, kind) for first, last, kind in runs)
    return Layout(min(step, page_sectors), areas, of_content, page_sectors=page_sectors)


def _field(text: str, name: str) -> str:
    found = re.search(rf"(?m)^{name}:\s*(\S+)$", text)
    assert found is not None, name
    return found[1]


QUOTA_MAGICS = (b"\x11\x1f\xc0\xd9", b"\x27\x19\xc0\xd9", b"\x14\x3f\xc0\xd9")
"""First bytes of the quota files of users, groups and projects (Linux fs/quota/quotaio_v2.h)."""


def _is_ext4_directory(content: bytes) -> bool:
    at = 0
    while at <= len(content) - 8:
        _, length, name_bytes, _ = struct.unpack_from("<IHBB", content, at)
        if length < 8 or length % 4 or name_bytes + 8 > length:
            return False
        at += length
    return at == len(content)


def _is_quota(content: bytes) -> bool:
    """Check for blocks of 1024 bytes: a header; four levels of block numbers; entries of 72 bytes after their count."""
    if content[:4] in QUOTA_MAGICS:
        return True
    if len(content) < 2048:
        return False
    numbers = struct.unpack_from("<256I", content)
    before, after, entries, *padding = struct.unpack_from("<IIHHI", content, 1024)
    return 0 < max(numbers) < 64 and before == after == 0 and 0 < entries <= 14 and not any(padding)


def f2fs(image: Path, page_sectors: int = 8) -> Layout:
    """Return the layout by the superblock. Node blocks are identified by footer, directories by bitmap."""
    with image.open("rb") as file:
        file.seek(1024)
        superblock = file.read(1024)
        step = (1 << struct.unpack_from("<I", superblock, 16)[0]) // 512
        starts = struct.unpack_from("<5I", superblock, 76)
        file.seek(starts[0] * step * 512)
        (version,) = struct.unpack("<Q", file.read(8))
    names = ("superblock", "checkpoint", "sit", "nat", "ssa")
    areas = _Areas(
        (first * step, end * step, ("metadata", name))
        for name, first, end in zip(names, (0, *starts[:4]), starts, strict=True)
    )

    def of_content(content: bytes) -> Kind | None:
        if len(content) < step * 512:
            return None
        if _is_f2fs_node(content, version):
            return "node", "node"
        if _is_quota(content):
            return "metadata", "quota"
        return ("metadata", "directory") if _is_f2fs_directory(content) else None

    return Layout(step, areas, of_content, page_sectors=page_sectors)


def _is_f2fs_node(content: bytes, version: int) -> bool:
    """Check the footer, whose lower half of the version field is that of a recent checkpoint."""
    nid, ino, _, checkpoint, _ = struct.unpack_from("<IIIQI", content, len(content) - 24)
    return 0 < nid < 1 << 20 and 0 < ino < 1 << 20 and (version - checkpoint) & 0xFFFFFFFF < 10000


def _is_f2fs_directory(content: bytes) -> bool:
    """Check for a bitmap of slots, 11-byte entries (hash, ino, name length, type) and 8-byte name slots at the end."""
    slots = 8 * len(content) // (8 * 19 + 1)
    used = [slot for slot in range(slots) if content[slot // 8] >> slot % 8 & 1]
    first = len(content) - 19 * slots
    heads = [struct.unpack_from("<IIHB", content, first + 11 * slot) for slot in used]
    named = [(ino, length, kind) for _, ino, length, kind in heads if length]
    return bool(named) and all(0 < ino < 1 << 20 and length < 256 and 0 < kind < 8 for ino, length, kind in named)


def vfat(image: Path, page_sectors: int = 8) -> Layout:
    """Return the layout by the boot record. Directories are identified by their entries."""
    with image.open("rb") as file:
        boot = file.read(512)
    reserved, nr_fats, nr_entries = struct.unpack_from("<HBH", boot, 14)
    (sectors_of_16,) = struct.unpack_from("<H", boot, 22)
    (sectors_of_32,) = struct.unpack_from("<I", boot, 36)
    root = reserved + nr_fats * (sectors_of_16 or sectors_of_32)
    areas = _Areas(
        [
            (0, reserved, ("metadata", "boot")),
            (reserved, root, ("metadata", "fat")),
            (root, root + nr_entries * 32 // 512, ("metadata", "directory")),
        ]
    )

    def of_content(content: bytes) -> Kind | None:
        return ("metadata", "directory") if _is_fat_directory(content) else None

    return Layout(min(boot[13], page_sectors), areas, of_content, has_holes=False, page_sectors=page_sectors)


def _entries(content: bytes) -> list[bytes]:
    return [content[at : at + 32] for at in range(0, len(content), 32)]


def _is_fat_directory(content: bytes) -> bool:
    used = [entry for entry in _entries(content) if entry[0]]
    long_names = [entry for entry in used if entry[11] == 0x0F]
    short_names = [entry for entry in used if entry[11] != 0x0F]
    return (
        bool(used)
        and all(entry[12] == 0 and entry[26:28] == b"\0\0" for entry in long_names)
        and all(entry[11] & 0xC0 == 0 and entry[12] & 0xE7 == 0 and min(entry[1:11]) >= 0x20 for entry in short_names)
    )


def exfat(image: Path, page_sectors: int = 8) -> Layout:
    """Return the layout by boot record and root directory. Other directories are identified by their entries."""
    with image.open("rb") as file:
        boot = file.read(512)
        fat, fat_sectors, heap = struct.unpack_from("<3I", boot, 80)
        (root,) = struct.unpack_from("<I", boot, 96)
        cluster_sectors = 1 << boot[109]
        file.seek((heap + (root - 2) * cluster_sectors) * 512)
        entries = _entries(file.read(cluster_sectors * 512))
    areas = [(0, fat, ("metadata", "boot")), (fat, fat + fat_sectors, ("metadata", "fat"))]
    for entry in entries:
        if entry[0] in (0x81, 0x82):
            cluster, length = struct.unpack_from("<IQ", entry, 20)
            first = heap + (cluster - 2) * cluster_sectors
            areas.append((first, first + -(-length // 512), ("metadata", "bitmap" if entry[0] == 0x81 else "upcase")))

    def of_content(content: bytes) -> Kind | None:
        kinds = {entry[0] for entry in _entries(content)} - {0}
        known = {0x81, 0x82, 0x83, 0x85, 0xC0, 0xC1, 0x05, 0x40, 0x41}
        return ("metadata", "directory") if kinds and kinds <= known else None

    block = min(cluster_sectors, page_sectors)
    return Layout(block, _Areas(areas), of_content, has_holes=False, page_sectors=page_sectors)


LAYOUTS = {"ext4": ext4, "f2fs": f2fs, "vfat": vfat, "exfat": exfat}


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
