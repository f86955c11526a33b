"""Write files into a new exFAT image of mkfs.exfat, with every cluster chosen by the test.

The writer shares no code with the reader. fsck.exfat (exfatprogs) checks its output.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

END = 0xFFFFFFFF


@dataclass
class Writer:
    """An image being written. It maps the path of each directory to its clusters."""

    image: Path
    directories: dict[str, list[int]] = field(default_factory=dict)
    used_bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.raw = bytearray(self.image.read_bytes())
        fat, _, heap, self.nr_clusters, root = struct.unpack_from("<5I", self.raw, 80)
        self.sector = 1 << self.raw[108]
        self.cluster = self.sector << self.raw[109]
        self.fat, self.heap = fat * self.sector, heap * self.sector
        self.directories["/"] = [root]
        at = self.offset(root)
        while self.raw[at]:
            if self.raw[at] == 0x81:
                self.bitmap = self.offset(struct.unpack_from("<I", self.raw, at + 20)[0])
            at += 32
        self.used_bytes["/"] = at - self.offset(root)

    def offset(self, cluster: int) -> int:
        return self.heap + (cluster - 2) * self.cluster

    def is_free(self, cluster: int) -> bool:
        return not self.raw[self.bitmap + (cluster - 2) // 8] >> (cluster - 2) % 8 & 1

    def free_clusters(self) -> list[int]:
        return [cluster for cluster in range(2, self.nr_clusters + 2) if self.is_free(cluster)]

    def take(self, clusters: list[int], chained: bool) -> None:
        for cluster, following in zip(clusters, [*clusters[1:], END], strict=False):
            self.raw[self.bitmap + (cluster - 2) // 8] |= 1 << (cluster - 2) % 8
            struct.pack_into("<I", self.raw, self.fat + cluster * 4, following if chained else 0)

    def write(self, clusters: list[int], content: bytes) -> None:
        for number, cluster in enumerate(clusters):
            part = content[number * self.cluster : (number + 1) * self.cluster]
            self.raw[self.offset(cluster) : self.offset(cluster) + len(part)] = part

    def add(
        self,
        directory: str,
        name: str,
        content: bytes,
        clusters: list[int],
        *,
        chained: bool,
        valid: int | None = None,
        is_directory: bool = False,
        in_use: bool = True,
    ) -> int:
        """Add a file or directory with the given clusters; return the offset of its first entry in the image."""
        if in_use:
            self.take(clusters, chained)
        self.write(clusters, content)
        size = len(clusters) * self.cluster if is_directory else len(content)
        entries = entry_set(name, clusters[0] if clusters else 0, size, valid, chained, is_directory)
        if not in_use:
            entries = b"".join(bytes([part[0] & 0x7F]) + part[1:] for part in pieces_of(entries))
        place = self._append(directory, entries)
        if is_directory:
            self.directories[f"{directory}{name}/"] = clusters
            self.used_bytes[f"{directory}{name}/"] = 0
        return place

    def _append(self, directory: str, entries: bytes) -> int:
        clusters = self.directories[directory]
        at = self.used_bytes[directory]
        assert at + len(entries) <= len(clusters) * self.cluster, "the directory is full"
        self.used_bytes[directory] = at + len(entries)
        first = self.offset(clusters[at // self.cluster]) + at % self.cluster
        for number, part in enumerate(pieces_of(entries)):
            byte = at + number * 32
            place = self.offset(clusters[byte // self.cluster]) + byte % self.cluster
            self.raw[place : place + 32] = part
        return first

    def save(self) -> None:
        self.image.write_bytes(self.raw)


def pieces_of(entries: bytes) -> list[bytes]:
    return [entries[at : at + 32] for at in range(0, len(entries), 32)]


def checksum(entries: bytes) -> int:
    total = 0
    for at, byte in enumerate(entries):
        if at not in (2, 3):
            total = ((total << 15 | total >> 1) + byte) & 0xFFFF
    return total


def name_hash(units: list[int]) -> int:
    total = 0
    for unit in units:
        upper = unit - 32 if 0x61 <= unit <= 0x7A or (0xE0 <= unit <= 0xFE and unit != 0xF7) else unit
        for byte in (upper & 0xFF, upper >> 8):
            total = ((total << 15 | total >> 1) + byte) & 0xFFFF
    return total


def entry_set(name: str, first: int, size: int, valid: int | None, chained: bool, is_directory: bool) -> bytes:
    encoded = name.encode("utf-16-le", "surrogatepass")
    units = list(struct.unpack(f"<{len(encoded) // 2}H", encoded))
    nr_names = -(-len(units) // 15)
    stamp = (2026 - 1980) << 25 | 11 << 21 | 21 << 16 | 12 << 11 | 30 << 5 | 10 // 2
    attributes = 0x10 if is_directory else 0x20
    file = struct.pack("<BBHHHIII5B7x", 0x85, 1 + nr_names, 0, attributes, 0, stamp, stamp, stamp, 150, 0, *[0x84] * 3)
    flags = 0x1 | (0 if chained else 0x2) if first else 0x1
    stream = struct.pack("<BBBBHHQIIQ", 0xC0, flags, 0, len(units), name_hash(units), 0,
                         size if valid is None else valid, 0, first, size)  # fmt: skip
    names = b"".join(
        b"\xc1\0" + struct.pack("<15H", *(units[at : at + 15] + [0] * 15)[:15]) for at in range(0, len(units), 15)
    )
    whole = file + stream + names
    return whole[:2] + struct.pack("<H", checksum(whole)) + whole[4:]
