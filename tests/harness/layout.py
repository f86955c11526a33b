"""Where each filesystem keeps what is no file's content, by tools and definitions apart from the package's own.

Each function takes a final image and returns a function that says of a block (first sector, content) what it is, or
None where that cannot be told: kind as in the truth's column `kind`, and a finer word.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

Kind = tuple[str, str]
Classify = Callable[[int, bytes], Kind | None]

BLOCK_SECTORS = 8


def ext4(image: Path) -> Classify:
    """By dumpe2fs and debugfs; directory, extent index and attribute blocks by what they hold."""
    groups = _run("dumpe2fs", image)
    static: list[tuple[int, int, str]] = []
    patterns = {
        "superblock": r"superblock at (\d+)",
        "group_descriptors": r"Group descriptors at (\d+)-(\d+)",
        "reserved_descriptors": r"Reserved GDT blocks at (\d+)-(\d+)",
        "block_bitmap": r"Block bitmap at (\d+)",
        "inode_bitmap": r"Inode bitmap at (\d+)",
        "inode_table": r"Inode table at (\d+)-(\d+)",
    }
    for subtype, pattern in patterns.items():
        for found in re.finditer(pattern, groups):
            first, last = int(found[1]), int(found[found.lastindex or 1])
            static.append((first, last, subtype))
    listing = _run("debugfs", "-R", "stat <8>", image).partition("EXTENTS:")[2]
    journal = [
        (int(first), int(last or first)) for first, last in re.findall(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?", listing)
    ]

    def classify(sector: int, content: bytes) -> Kind | None:
        block = sector // BLOCK_SECTORS
        if any(first <= block <= last for first, last in journal):
            return "journal", "journal"
        for first, last, subtype in static:
            if first <= block <= last:
                return "metadata", subtype
        if content[:2] == b"\x0a\xf3":
            return "metadata", "extent_index"
        if content[:4] == b"\x00\x00\x02\xea":
            return "metadata", "attributes"
        return ("metadata", "directory") if _is_ext4_directory(content) else None

    return classify


def _is_ext4_directory(content: bytes) -> bool:
    at = 0
    while at <= len(content) - 8:
        _, length, name_bytes, _ = struct.unpack_from("<IHBB", content, at)
        if length < 8 or length % 4 or name_bytes + 8 > length:
            return False
        at += length
    return at == len(content)


def f2fs(image: Path) -> Classify:
    """By the addresses in the superblock; node blocks by their footer, directories by their bitmap."""
    with image.open("rb") as file:
        file.seek(1024)
        superblock = file.read(1024)
        checkpoint, sit, nat, ssa, main = struct.unpack_from("<5I", superblock, 76)
        file.seek(checkpoint * BLOCK_SECTORS * 512)
        (version,) = struct.unpack("<Q", file.read(8))
    areas = [(0, "superblock"), (checkpoint, "checkpoint"), (sit, "sit"), (nat, "nat"), (ssa, "ssa")]

    def classify(sector: int, content: bytes) -> Kind | None:
        block = sector // BLOCK_SECTORS
        if block < main:
            return "metadata", [name for first, name in areas if first <= block][-1]
        if _is_f2fs_node(content, version):
            return "node", "node"
        return ("metadata", "directory") if _is_f2fs_directory(content) else None

    return classify


def _is_f2fs_node(content: bytes, version: int) -> bool:
    """The footer has the version of a checkpoint not long ago, in the lower half of that field."""
    nid, ino, _, checkpoint, _ = struct.unpack_from("<IIIQI", content, 4072)
    return 0 < nid < 1 << 20 and 0 < ino < 1 << 20 and (version - checkpoint) & 0xFFFFFFFF < 10000


def _is_f2fs_directory(content: bytes) -> bool:
    """214 slots: a bitmap of them, 11-byte entries (hash, ino, name length, type), 8-byte parts of names."""
    used = [slot for slot in range(214) if content[slot // 8] >> slot % 8 & 1]
    heads = [struct.unpack_from("<IIHB", content, 30 + 11 * slot) for slot in used]
    named = [(ino, length, kind) for _, ino, length, kind in heads if length]
    return bool(named) and all(0 < ino < 1 << 20 and length < 256 and 0 < kind < 8 for ino, length, kind in named)


def vfat(image: Path) -> Classify:
    """By the boot record; directories by their entries."""
    with image.open("rb") as file:
        boot = file.read(512)
    reserved, nr_fats = struct.unpack_from("<HB", boot, 14)
    (fat_sectors,) = struct.unpack_from("<I", boot, 36)
    data = reserved + nr_fats * fat_sectors

    def classify(sector: int, content: bytes) -> Kind | None:
        if sector < reserved:
            return "metadata", "boot"
        if sector < data:
            return "metadata", "fat"
        return ("metadata", "directory") if _is_fat_directory(content) else None

    return classify


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


def exfat(image: Path) -> Classify:
    """By the boot record and the entries of the root directory; other directories by their entries."""
    with image.open("rb") as file:
        boot = file.read(512)
        fat, fat_sectors, heap = struct.unpack_from("<3I", boot, 80)
        (root,) = struct.unpack_from("<I", boot, 96)
        cluster_sectors = 1 << boot[109]
        file.seek((heap + (root - 2) * cluster_sectors) * 512)
        entries = _entries(file.read(cluster_sectors * 512))
    special: list[tuple[int, int, str]] = []
    for entry in entries:
        if entry[0] in (0x81, 0x82):
            cluster, length = struct.unpack_from("<IQ", entry, 20)
            first = heap + (cluster - 2) * cluster_sectors
            special.append((first, first + -(-length // 512), "bitmap" if entry[0] == 0x81 else "upcase"))

    def classify(sector: int, content: bytes) -> Kind | None:
        if sector < fat:
            return "metadata", "boot"
        if sector < fat + fat_sectors:
            return "metadata", "fat"
        for first, end, subtype in special:
            if first <= sector < end:
                return "metadata", subtype
        kinds = {entry[0] for entry in _entries(content)} - {0}
        known = {0x81, 0x82, 0x83, 0x85, 0xC0, 0xC1, 0x05, 0x40, 0x41}
        return ("metadata", "directory") if kinds and kinds <= known else None

    return classify


CLASSIFY = {"ext4": ext4, "f2fs": f2fs, "vfat": vfat, "exfat": exfat}


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
