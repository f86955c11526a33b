"""Read images of FAT12, FAT16, FAT32 and exFAT, without pytsk3.

pytsk3 also reads these filesystems and takes as long. Names, sizes and sectors of all files are the same
(tests/fs/test_fat.py), except that pytsk3:

- refuses a FAT32 of less than 65,525 clusters unless the type is passed to it; the kernel accepts it
- truncates long names of FAT after 195 characters
- reports neither cross-linked chains nor lost clusters

Inode numbers: FAT has none. `ino` is the offset of the directory entry from the start of the volume, divided by 32.
With a long name, this is the entry with the short name. On FAT it equals Linux's i_pos, which Linux uses as inode
number only on mounts with ``nfs=nostale_ro``. A file that is renamed or moved gets a new number. A file that is
overwritten in place does not. The root directory, which has no entry, has number 1. There are no generations.

Times: FAT records local time without its zone, and neither filesystem has a time of change that programs cannot set. In
`times`, `changed_epoch_ns` is therefore always null. `created_epoch_ns` is set only for exFAT entries with a zone
(rounded down to 10 ms).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.fs import pieces
from androstep_analysis.fs.fat import directories, layout
from androstep_analysis.fs.fat.chains import Chains
from androstep_analysis.fs.fat.directories import Entry
from androstep_analysis.fs.fat.layout import ENTRY_BYTES, FIRST_CLUSTER, Volume, sectors
from androstep_analysis.fs.filesystem import HEAD_BYTES, AllocationTable, Filesystem
from androstep_analysis.fs.image import Image, peek, reading
from androstep_analysis.fs.pieces import PIECE

ROOT_INODE = 1

_CLASSES: tuple[tuple[str, str | None], ...] = (
    ("unknown", None),
    ("free", None),
    ("data", None),
    ("directory", None),
    ("metadata", "boot_record"),
    ("metadata", "fat"),
    ("metadata", "block_bitmap"),
    ("metadata", "upcase_table"),
)
"""All (block_type, subtype) pairs of a sector, referred to by index."""

_KIND = {both: number for number, both in enumerate(_CLASSES)}

_KIND_OF_ENTRY = {
    "file": _KIND["data", None],
    "directory": _KIND["directory", None],
    "bitmap": _KIND["metadata", "block_bitmap"],
    "upcase": _KIND["metadata", "upcase_table"],
}

_MODES = {"file": 0o100000, "directory": 0o040000}

_MAX_DIRECTORY_BYTES = {"vfat": 1 << 21, "exfat": 1 << 28}
"""Maximum size of a directory in these formats."""

_INODE = np.dtype([("ino", np.int64), ("mode", np.uint16), ("size_bytes", np.int64), ("generation", np.uint32)])


def sniff(path: str | Path, offset_bytes: int = 0) -> bool:
    """Return whether the image has a plausible boot record of FAT or exFAT."""
    return layout.parse(peek(path, offset_bytes, layout.BOOT_RECORD_BYTES)) is not None


def read(path: str | Path, *, dev: int, source: str, offset_bytes: int = 0) -> Filesystem:
    """Read the filesystem at `offset_bytes` of an uncompressed image.

    A cluster that several files claim is assigned to the first in the directory tree, parents before children. Used
    clusters without an owner are `unknown`. Damaged parts are counted in `losses` and skipped. Raises `InputError` if
    there is no boot record.
    """
    with reading(path, offset_bytes) as image:
        return _read(image, dev, source)


def _read(image: Image, dev: int, source: str) -> Filesystem:
    volume = layout.read_volume(image)
    image.check_runs(volume.nr_clusters, "clusters", 8)
    chains = Chains(image, volume)
    tree = _Tree(image, volume, chains)
    tree.walk()
    inodes = np.array(tree.inodes, dtype=_INODE)
    inodes = inodes[np.argsort(inodes["ino"], kind="stable")]
    used = _in_use(image, volume, chains, tree)
    nr_sectors = sectors(volume.nr_bytes)
    map_ = pieces.first_wins(np.concatenate([np.empty(0, dtype=PIECE), *tree.pieces]))
    for lower in (_static(volume), _free(image, volume, used), pieces.areas([(0, nr_sectors, _KIND["unknown", None])])):
        map_ = pieces.fill_gaps(map_, lower, nr_sectors)
    no_generation = pl.lit(None, pl.Int64).alias("generation")
    extents = pieces.extents(pieces.joined(map_), _CLASSES, SECTOR_BYTES, inodes, dev=dev, source=source)
    names = pl.DataFrame(
        {"ino": tree.named, "path": tree.paths, "encrypted": [False] * len(tree.paths)},
        schema={"ino": pl.Int64, "path": pl.String, "encrypted": pl.Boolean},
    )
    return Filesystem(
        fs_type=volume.kind,
        image=image.path,
        block_bytes=volume.cluster_bytes,
        nr_sectors=nr_sectors,
        uuid=volume.uuid,
        extents=extents.with_columns(no_generation),
        files=pieces.files(inodes, names, dev=dev, source=source).with_columns(no_generation),
        times=_times(inodes, tree),
        first_bytes=_first_bytes(image, tree),
        losses=tuple(_losses(image, volume, chains, tree, used)),
        allocation=_allocation(volume, tree),
    )


def _allocation(volume: Volume, tree: _Tree) -> AllocationTable | None:
    """Return the location of the FAT, or of the bitmap on exFAT, where contiguous files have no entries in the FAT."""
    heap, size = sectors(volume.heap_offset), sectors(volume.cluster_bytes)
    if volume.kind != "exfat":
        entries = AllocationTable(
            sectors(volume.fat_offset + volume.active_fat * volume.fat_bytes),
            volume.entry_bits,
            FIRST_CLUSTER,
            heap,
            size,
        )
        return entries if SECTOR_BYTES * 8 % volume.entry_bits == 0 else None
    return AllocationTable(sectors(int(tree.bitmap[0, 0])), 1, 0, heap, size) if len(tree.bitmap) == 1 else None


@dataclass
class _Tree:
    """A walk of the directory tree from the root, parents before children, with results as parallel columns."""

    image: Image
    volume: Volume
    chains: Chains
    pieces: list[np.ndarray] = field(default_factory=list)
    inodes: list[tuple[int, int, int, int]] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    created_ns: dict[int, int] = field(default_factory=dict)
    heads: list[tuple[int, int, int]] = field(default_factory=list)
    bitmap: np.ndarray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    damaged_chains: list[str] = field(default_factory=list)
    broken_directories: list[str] = field(default_factory=list)
    nr_broken_entries: int = 0

    def walk(self) -> None:
        """Read the whole tree."""
        volume = self.volume
        if volume.root_bytes:
            locations = np.array([(volume.root_offset, volume.root_bytes)])
            self._add_pieces(locations, _KIND["directory", None], ROOT_INODE)
        else:
            runs, is_sound = self.chains.follow(volume.root_cluster)
            if not is_sound:
                self.damaged_chains.append("/")
            locations = self._claimed(runs, _KIND["directory", None], ROOT_INODE)
        self._add_file(ROOT_INODE, "directory", 0, "/")
        pending = [("/", locations)]
        characters = 0
        for prefix, locations in pending:
            if len(prefix) > pieces.MAX_PATH_LENGTH:
                self.broken_directories.append(prefix[: pieces.MAX_PATH_LENGTH])
                continue
            for entry, position in self._entries(prefix, locations):
                path = f"{prefix}{entry.name}"
                characters += len(path)
                if characters > pieces.max_characters(len(self.inodes)):
                    self.broken_directories.append(prefix)
                    break
                below = self._add_entry(entry, position // ENTRY_BYTES, path)
                if entry.kind == "directory" and len(below):
                    pending.append((f"{path}/", below))

    def _entries(self, prefix: str, locations: np.ndarray) -> Iterator[tuple[Entry, int]]:
        """Yield the entries of a directory at `locations`, each with its offset in the volume."""
        left = _MAX_DIRECTORY_BYTES[self.volume.kind]
        parts = []
        starts = [0]
        for offset, length in locations[: left // SECTOR_BYTES + 1].tolist():
            part = self.image.read(offset, max(min(length, left, self.image.nr_bytes - offset), 0))
            parts.append(part)
            starts.append(starts[-1] + len(part))
            left -= len(part)
            if len(part) < length:
                self.broken_directories.append(prefix)
                break
        raw = b"".join(parts)
        if self.volume.kind == "exfat":
            entries, broken = directories.exfat_entries(raw)
        else:
            entries, broken = directories.fat_entries(raw, self.volume.entry_bits == 32)
        self.nr_broken_entries += broken
        for entry in entries:
            part_number = bisect_right(starts, entry.at) - 1
            yield entry, int(locations[part_number, 0]) + entry.at - starts[part_number]

    def _add_entry(self, entry: Entry, ino: int, path: str) -> np.ndarray:
        """Add the file or table of an entry; return the locations of its content as rows (offset, length)."""
        runs, is_sound = self._runs(entry)
        if not is_sound:
            self.damaged_chains.append(path)
        kind = _KIND_OF_ENTRY[entry.kind]
        is_file = entry.kind in _MODES
        locations = self._claimed(runs, kind, ino if is_file else 0)
        if entry.kind == "bitmap":
            self.bitmap = locations
        if not is_file:
            return locations[:0]
        self._add_file(ino, entry.kind, entry.size_bytes if entry.kind == "file" else int(locations[:, 1].sum()), path)
        if entry.created_ns is not None:
            self.created_ns[ino] = entry.created_ns
        begins_there = len(runs) and runs[0, 0] == entry.first_cluster
        if entry.kind == "file" and begins_there and entry.valid_bytes:
            self.heads.append((ino, int(locations[0, 0]), min(entry.valid_bytes, HEAD_BYTES, int(locations[0, 1]))))
        return locations

    def _runs(self, entry: Entry) -> tuple[np.ndarray, bool]:
        wanted = -(-entry.size_bytes // self.volume.cluster_bytes)
        if entry.first_cluster == 0:
            return np.empty((0, 2), dtype=np.int64), wanted == 0 and entry.kind == "file"
        if entry.is_contiguous:
            return self.chains.contiguous(entry.first_cluster, wanted)
        runs, is_sound = self.chains.follow(entry.first_cluster)
        return runs, is_sound and int(runs[:, 1].sum()) >= wanted

    def _claimed(self, runs: np.ndarray, kind: int, ino: int) -> np.ndarray:
        locations = runs * self.volume.cluster_bytes + (self.volume.offset(0), 0)
        self._add_pieces(locations, kind, ino)
        return locations

    def _add_pieces(self, locations: np.ndarray, kind: int, ino: int) -> None:
        start, count = (locations // SECTOR_BYTES).T
        some = np.empty(len(locations), dtype=PIECE)
        some["start"], some["end"], some["kind"], some["ino"] = start, start + count, kind, ino
        some["logical"] = np.cumsum(count) - count if ino else -1
        self.pieces.append(some)

    def _add_file(self, ino: int, kind: str, size_bytes: int, path: str) -> None:
        # An invalid size of 2^63 or more does not fit the column.
        self.inodes.append((ino, _MODES[kind], size_bytes if size_bytes < 1 << 63 else -1, 0))
        self.named.append(ino)
        self.paths.append(path)


def _in_use(image: Image, volume: Volume, chains: Chains, tree: _Tree) -> np.ndarray:
    """Return which clusters are in use (bool array by cluster number), from exFAT's bitmap or from the FAT."""
    if volume.kind != "exfat":
        return ~chains.is_free()
    wanted = -(-volume.nr_clusters // 8)
    raw = b""
    for offset, length in tree.bitmap.tolist():
        raw += image.read(offset, max(min(length, wanted - len(raw), image.nr_bytes - offset), 0))
    used = np.ones(chains.end, dtype=bool)  # Clusters that the bitmap does not cover count as used.
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little").astype(bool)
    nr_bits = min(len(bits), max(chains.end - FIRST_CLUSTER, 0))
    used[FIRST_CLUSTER : FIRST_CLUSTER + nr_bits] = bits[:nr_bits]
    return used


def _static(volume: Volume) -> np.ndarray:
    """Return boot records and tables as pieces. Sectors between them and after the last cluster are never used."""
    fat_end = volume.fat_offset + volume.nr_fats * volume.fat_bytes
    heap_end = volume.offset(volume.end_cluster)
    rows = [
        (0, volume.boot_bytes, "metadata", "boot_record"),
        (volume.boot_bytes, volume.fat_offset, "free", None),
        (volume.fat_offset, fat_end, "metadata", "fat"),
        (fat_end, volume.root_offset, "free", None),
        (heap_end, volume.nr_bytes, "free", None),
    ]
    return pieces.areas(
        (sectors(start), sectors(end), _KIND[block_type, subtype]) for start, end, block_type, subtype in rows
    )


def _free(image: Image, volume: Volume, used: np.ndarray) -> np.ndarray:
    """Return free clusters as pieces."""
    edges = FIRST_CLUSTER + np.flatnonzero(np.diff(used[FIRST_CLUSTER:], prepend=True, append=True))
    image.check_runs(len(edges) // 2)
    offset = sectors(volume.heap_offset) + (edges - FIRST_CLUSTER) * sectors(volume.cluster_bytes)
    return pieces.unowned(offset[0::2], offset[1::2], _KIND["free", None])


def _times(inodes: np.ndarray, tree: _Tree) -> pl.DataFrame:
    """Return DataFrame(ino, generation, created_epoch_ns, changed_epoch_ns), all Int64; see the module's docstring."""
    inos = inodes["ino"].tolist()
    created = pl.Series([tree.created_ns.get(ino) for ino in inos], dtype=pl.Int64)
    null = pl.lit(None, pl.Int64)
    return pl.DataFrame({"ino": inodes["ino"], "created_epoch_ns": created}).select(
        "ino",
        null.alias("generation"),
        "created_epoch_ns",
        null.alias("changed_epoch_ns"),
    )


def _first_bytes(image: Image, tree: _Tree) -> pl.DataFrame:
    return pieces.first_bytes([np.array(tree.heads, dtype=pieces.HEAD)], image.offset_bytes)


def _losses(image: Image, volume: Volume, chains: Chains, tree: _Tree, used: np.ndarray) -> Iterator[Loss]:
    yield from image.truncation(volume.nr_bytes)
    if volume.kind == "exfat" and not layout.boot_checksum_holds(image, volume):
        yield Loss("damaged", 1, "the checksum of the boot record is wrong; its values were used anyway")
    if volume.is_dirty:
        yield Loss(
            "unsynced",
            1,
            "the image was taken while mounted or after a crash: its tables may lack the last changes (unmount or sync"
            " before copying)",
        )
    if tree.damaged_chains:
        yield Loss(
            "damaged",
            len(tree.damaged_chains),
            f"the clusters of {len(tree.damaged_chains)} files (first: {tree.damaged_chains[0]}) are fewer than their"
            " size, or lead out of the volume, into a loop or into another file; they were read up to that point",
        )
    if tree.broken_directories:
        yield Loss(
            "unreadable",
            len(tree.broken_directories),
            f"{len(tree.broken_directories)} directories (first: {tree.broken_directories[0]}) are truncated, too large"
            " or nested too deeply; files in them may have no path",
        )
    if tree.nr_broken_entries:
        yield Loss(
            "damaged",
            tree.nr_broken_entries,
            f"{tree.nr_broken_entries} names in directories are incomplete or have a wrong checksum",
        )
    lost = int((used & ~chains.is_claimed)[FIRST_CLUSTER:].sum()) - chains.nr_bad()
    if lost > 0:
        yield Loss("nameless", lost, f"{lost} clusters are in use and belong to no file; they are unknown")
    if volume.mirrored and (differing := chains.differing(image)):
        yield Loss(
            "damaged",
            differing,
            f"{differing} entries differ between the copies of the file allocation table; the first copy was used",
        )
