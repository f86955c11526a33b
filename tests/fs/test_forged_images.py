"""Test images that lie: reading one ends, in memory bounded by the bytes of the image and not by what it claims."""

from __future__ import annotations

import json
import lzma
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support.filesystems import assert_covers
from support.needs import left_to_prove
from support.oracles import ext4 as ext4_oracle
from support.tree import ROOT

from androstep_analysis import fs
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import image as images
from androstep_analysis.fs.f2fs import layout

SUPERBLOCK = 1024
BLOCK = 4096
NODE_ENTRIES = 340
"""Extents in a block of 4 KiB."""

READ = """
import json, resource, sys
from androstep_analysis import fs
from androstep_analysis.common.errors import InputError
fs.read(sys.argv[1], dev=0, source="image_after")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    image = fs.read(sys.argv[2], dev=0, source="image_after")
    said = [loss.message for loss in image.losses]
except InputError as error:
    said = [str(error)]
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, said]))
"""
"""Reads an ordinary image, then a forged one; prints by how many KiB the second raised the peak, and the losses."""

MOST_KIB = 200 << 10


def patch(image: Path, offset: int, content: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def word(image: Path, offset: int) -> int:
    with image.open("rb") as file:
        file.seek(offset)
        return int.from_bytes(file.read(4), "little")


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


@pytest.fixture
def ext4(tmp_path: Path) -> Path:
    """Return an ext4 image of 128 MiB with a file ``f`` and a directory ``d``."""
    ext4_oracle.require("mke2fs")
    root, image = tmp_path / "root", tmp_path / "image"
    (root / "d").mkdir(parents=True)
    (root / "f").write_bytes(b"f" * 10_000)
    features = "^metadata_csum,^orphan_file,^resize_inode"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", features, "-d", root, image, "128M"]
    subprocess.run(command, check=True)
    return image


def inode(image: Path, kind: int) -> int:
    """Return the offset of the first inode with this file type after the reserved ones and lost+found."""
    table = word(image, BLOCK + 8) * BLOCK
    size = word(image, SUPERBLOCK + 0x58) & 0xFFFF
    return next(at for at in range(table + 11 * size, table + 64 * size, size) if word(image, at) & 0xF000 == kind)


def node(entries: list[bytes], depth: int, capacity: int) -> bytes:
    return struct.pack("<HHHHI", 0xF30A, len(entries), capacity, depth, 0) + b"".join(entries)


def extent(logical: int, length: int, start: int) -> bytes:
    return struct.pack("<IHHI", logical, length, start >> 32, start & 0xFFFFFFFF)


def leaves(image: Path, owner: int, place: Callable[[int], int], length: int, count: int = 4) -> None:
    """Give an inode a tree of `count` nodes with extents of `length` blocks each; number i is at block `place(i)`."""
    first = 16_000
    for leaf in range(count):
        numbers = range(leaf * NODE_ENTRIES, (leaf + 1) * NODE_ENTRIES)
        entries = [extent(number * length, length, place(number)) for number in numbers]
        patch(image, (first + leaf) * BLOCK, node(entries, 0, NODE_ENTRIES))
    index = [words(leaf * NODE_ENTRIES * length, first + leaf, 0) for leaf in range(count)]
    patch(image, owner + 0x28, node(index, 1, 4))


def claim(image: Path, nr_groups: int, inodes_per_group: int) -> None:
    """Let the superblock claim so many groups of 128 MiB."""
    patch(image, SUPERBLOCK, words(nr_groups * inodes_per_group, nr_groups * 32768))
    patch(image, SUPERBLOCK + 0x28, words(inodes_per_group))
    patch(image, SUPERBLOCK + 0x60, words(word(image, SUPERBLOCK + 0x60) & ~0x80))


def thousands_of_groups_share_one_table(image: Path) -> None:
    claim(image, 65_000, 8192)
    patch(image, BLOCK, (words(3000, 3001, 3002) + bytes(20)) * 65_000)
    patch(image, 3000 * BLOCK, b"\x55" * BLOCK + b"\xff" * BLOCK + b"\x01" * 8192 * 256)


def descriptors_of_many_bytes(image: Path) -> None:
    patch(image, SUPERBLOCK + 0xFE, (4096).to_bytes(2, "little"))
    patch(image, SUPERBLOCK + 0x60, words(word(image, SUPERBLOCK + 0x60) | 0x80))
    os.truncate(image, 2048)


def an_inode_table_of_terabytes(image: Path) -> None:
    claim(image, 1, 32768)
    patch(image, SUPERBLOCK + 0x58, (4096).to_bytes(2, "little"))
    patch(image, BLOCK, words(2, 3, 4))


def a_directory_of_terabytes(image: Path) -> None:
    claim(image, 1 << 16, 32)
    leaves(image, inode(image, 0x4000), lambda number: 40_000 + number * 32768, 32768)


def a_journal_of_terabytes(image: Path) -> None:
    claim(image, 1 << 16, 32)
    os.truncate(image, 1 << 43)
    journal = word(image, BLOCK + 8) * BLOCK + 7 * (word(image, SUPERBLOCK + 0x58) & 0xFFFF)
    leaves(image, journal, lambda number: 40_000 + number * 32768, 32768)


def a_tree_of_overlapping_extents(image: Path) -> None:
    leaves(image, inode(image, 0x8000), lambda number: 1000 + number * 7919 % 20_000, 32)


def a_tree_that_is_its_own_node(image: Path) -> None:
    own = inode(image, 0x8000)
    patch(image, 16_000 * BLOCK, node([words(number, 16_000, 0) for number in range(NODE_ENTRIES)], 1, NODE_ENTRIES))
    patch(image, own + 0x28, node([words(0, 16_000, 0)], 65535, 4))
    patch(image, own + 4, words(0xFFFFFFFF))


def indirect_blocks_in_a_circle(image: Path) -> None:
    own = inode(image, 0x8000)
    patch(image, own + 0x20, words(0))
    patch(image, own + 0x28, words(*[16_000] * 15))
    patch(image, 16_000 * BLOCK, words(*[16_000] * 1024))


def a_directory_that_contains_the_root(image: Path) -> None:
    root = word(image, BLOCK + 8) * BLOCK + (word(image, SUPERBLOCK + 0x58) & 0xFFFF)
    patch(image, inode(image, 0x4000) + 0x28, node([extent(0, 1, word(image, root + 0x28 + 20))], 0, 4))


def many_short_names_below_a_long_path(image: Path) -> None:
    """Directory d contains itself once, and 43,000 links to f."""
    table, size = word(image, BLOCK + 8) * BLOCK, word(image, SUPERBLOCK + 0x58) & 0xFFFF
    numbers = [(inode(image, kind) - table) // size + 1 for kind in (0x8000, 0x4000)]
    deep = range(2000, 2120)
    first, file = 16_000, numbers[0]
    for level, number in enumerate(deep):  # a chain of directories with names of 250 bytes
        own = table + (number - 1) * size
        patch(image, own, bytes(size))
        patch(image, own, struct.pack("<HHI", 0x41ED, 0, BLOCK))
        patch(image, own + 0x1A, struct.pack("<H", 2))
        patch(image, own + 0x20, words(0x80000))
        patch(image, own + 0x28, node([extent(0, 1, first + level)], 0, 4))
        entry = struct.pack("<IHBB", number + 1, BLOCK, 250, 2) + b"d" * 250
        patch(image, (first + level) * BLOCK, entry)
    last = table + (deep[-1] - 1) * size
    patch(image, last + 0x28, node([extent(0, 128, 20_000)], 0, 4))
    block = b"".join(struct.pack("<IHBB", file, 12, 4, 1) + b"%04d" % number for number in range(339))
    patch(image, 20_000 * BLOCK, (block + struct.pack("<IHBB", file, 28, 4, 1) + b"last" + bytes(16)) * 128)
    patch(image, inode(image, 0x4000) + 0x28, node([extent(0, 1, first)], 0, 4))


FORGED: dict[Callable[[Path], None], str | None] = {
    thousands_of_groups_share_one_table: "or that of another group",
    descriptors_of_many_bytes: "is not the start of a supported filesystem",
    an_inode_table_of_terabytes: None,
    a_directory_of_terabytes: "1 directories (first: inode",
    a_journal_of_terabytes: None,
    a_tree_of_overlapping_extents: None,
    a_tree_that_is_its_own_node: "the block map of 1 inodes",
    indirect_blocks_in_a_circle: None,
    a_directory_that_contains_the_root: None,
    many_short_names_below_a_long_path: "nested too deeply",
}
"""What makes a forged image of an ordinary one, and a part of a message about it."""


TESTED_QUICKLY = (thousands_of_groups_share_one_table, a_directory_of_terabytes, many_short_names_below_a_long_path)


@pytest.mark.parametrize("forge", left_to_prove(FORGED, TESTED_QUICKLY.__contains__))
def test_a_forged_image_is_read_in_bounded_memory(forge: Callable[[Path], None], ext4: Path, tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(ext4.read_bytes())
    forge(ext4)
    said = read_apart(ordinary, ext4)
    assert FORGED[forge] is None or any(FORGED[forge] in message for message in said), said


def read_apart(ordinary: Path, forged: Path) -> list[str]:
    """Read the forged image in a process of its own, check its memory, and return the messages about it."""
    run = subprocess.run([sys.executable, "-c", READ, ordinary, forged], cwd=ROOT, capture_output=True, check=True)
    grown_kib, said = json.loads(run.stdout)
    assert grown_kib < MOST_KIB
    return list(said)


# -- F2FS -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def f2fs() -> bytearray:
    """Return an F2FS image."""
    return bytearray(lzma.decompress((ROOT / "tests" / "data" / "f2fs_crashed.img.xz").read_bytes()))


def test_an_f2fs_that_claims_a_table_of_four_million_blocks(f2fs: bytearray, tmp_path: Path) -> None:
    """Its checkpoints have version bits for all of them, and fitting checksums."""
    ordinary, forged = tmp_path / "ordinary", tmp_path / "forged"
    ordinary.write_bytes(f2fs)
    checkpoint, nat, ssa, main = (int.from_bytes(f2fs[1024 + at : 1028 + at], "little") for at in (76, 84, 88, 92))
    segments, nr_main = 4000, int.from_bytes(f2fs[1024 + 68 : 1024 + 72], "little")
    for start in (1024, 1024 + BLOCK):
        new_ssa = nat + 1024 * segments
        new_main = new_ssa + main - ssa
        for at, value in ((60, 2 * segments), (88, new_ssa), (92, new_main), (1664, 130)):
            f2fs[start + at : start + at + 4] = words(value)
        f2fs[start + 36 : start + 44] = (new_main + nr_main * 512).to_bytes(8, "little")
    for pack in (checkpoint * BLOCK, (checkpoint + 512) * BLOCK):
        head = f2fs[pack : pack + BLOCK]
        for at, value in ((136, 140), (140, 131), (160, 512 * segments // 8)):
            head[at : at + 4] = words(value)
        head[-4:] = words(layout.checksum(bytes(head[:-4])))
        f2fs[pack : pack + BLOCK] = f2fs[pack + 139 * BLOCK : pack + 140 * BLOCK] = head
    forged.write_bytes(f2fs)
    assert any("bytes shorter than its filesystem" in message for message in read_apart(ordinary, forged))


# -- FAT --------------------------------------------------------------------------------------------------------------


def fat32(image: Path, size: str) -> tuple[int, int, int]:
    """Make a volume with clusters of 512 bytes; return the offsets of the table, of the clusters, and its root."""
    ext4_oracle.require("mkfs.vfat")
    subprocess.run(["truncate", "-s", size, image], check=True)
    subprocess.run(["mkfs.vfat", "-F", "32", "-s", "1", image], check=True, capture_output=True)
    with image.open("rb") as file:
        boot = file.read(512)
    reserved, nr_tables, length = (
        int.from_bytes(boot[at : at + width], "little") for at, width in ((14, 2), (16, 1), (36, 4))
    )
    return reserved * 512, (reserved + nr_tables * length) * 512, int.from_bytes(boot[44:48], "little")


def test_a_chain_of_half_a_million_runs(tmp_path: Path) -> None:
    """Every second cluster is the next one of a file, whose last cluster leads back to its first."""
    ordinary, forged = tmp_path / "ordinary", tmp_path / "forged"
    fat32(ordinary, "64M")
    table, heap, root = fat32(forged, "1G")
    clusters = np.arange(4, 1_000_000, 2, dtype="<u4")
    links = np.zeros(2 * len(clusters), dtype="<u4")
    links[::2] = np.append(clusters[1:], clusters[:1])
    patch(forged, table + 4 * 4, links.tobytes())
    patch(forged, heap + (root - 2) * 512, b"A       BIN " + bytes(14) + struct.pack("<HI", 4, 0xFFFFFFFF))
    said = read_apart(ordinary, forged)
    assert any("(first: /A.BIN)" in message for message in said), said


# -- every filesystem -------------------------------------------------------------------------------------------------


def test_a_fragmented_bitmap_is_refused_in_a_sentence(ext4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(ext4, word(ext4, BLOCK) * BLOCK, b"\x55" * BLOCK)
    assert fs.read(ext4, dev=0, source="image_after").extents.filter(block_type="free").height > 10_000
    monkeypatch.setenv(images.RUNS, "10000")
    with pytest.raises(InputError, match=f"more than 10000 runs .*set {images.RUNS} to a larger number"):
        fs.read(ext4, dev=0, source="image_after")


def test_an_exfat_image_of_billions_of_clusters_is_refused(tmp_path: Path) -> None:
    """Most of the table lies in a hole of the image, so that it takes no disk space."""
    ext4_oracle.require("mkfs.exfat")
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.exfat", image], check=True, stdout=subprocess.DEVNULL)
    patch(image, 72, struct.pack("<QIIII", 1 << 34, 2048, 1 << 26, 1 << 27, 0x7FFFFFF0))
    os.truncate(image, 1 << 43)
    with pytest.raises(InputError, match=f"more than {8 * images.MOST_RUNS} clusters"):
        fs.read(image, dev=0, source="image_after")


def test_an_ntfs_image_with_a_huge_table_of_files_is_refused(tmp_path: Path) -> None:
    ext4_oracle.require("mkfs.ntfs")
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 8 << 20)
    subprocess.run(["mkfs.ntfs", "-F", "-q", "-c", "4096", image], check=True, stdout=subprocess.DEVNULL)
    cluster = word(image, 48)
    record = at = cluster * 4096
    at += word(image, record + 20) & 0xFFFF
    while word(image, at) != 0x80:  # attribute $DATA of $MFT
        at += word(image, at + 4)
    run = at + (word(image, at + 32) & 0xFFFF)
    patch(image, run, bytes([0x14]) + words(1 << 28) + bytes([cluster, 0]))
    patch(image, at + 24, struct.pack("<Q", (1 << 28) - 1))
    patch(image, at + 40, struct.pack("<3Q", *[1 << 40] * 3))
    patch(image, 40, struct.pack("<Q", 1 << 40))
    os.truncate(image, 1 << 41)
    with pytest.raises(InputError, match=f"more than {images.MOST_RUNS} files"):
        fs.read(image, dev=0, source="image_after")


def test_chunks_are_the_records_that_are_not_in_holes(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    file.write_bytes(b"a" * 5000)
    os.truncate(file, 1 << 40)
    with file.open("r+b") as end:
        end.seek((1 << 40) - 10)
        end.write(b"b" * 20)
    with images.reading(file, 8) as image:
        parts = dict(image.chunks(0, 1 << 41, 96))
        content = b"".join(parts.values())
        assert len(content) < 1 << 25
        assert all(offset % 96 == 0 and part == image.read(offset, len(part)) for offset, part in parts.items())
        assert content.count(b"a") == 4992 and content.count(b"b") == 20
        assert list(image.chunks(1 << 30, 960, 96)) == []


VALUES = (0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["ext4", "f2fs", "vfat"])
def test_words_of_metadata_may_hold_any_value(kind: str, ext4: Path, f2fs: bytearray, tmp_path: Path) -> None:
    """Words become extreme values, or other words of the metadata, which makes cycles of numbers of blocks."""
    image = {"ext4": ext4, "f2fs": tmp_path / "f2fs", "vfat": tmp_path / "vfat"}[kind]
    if kind == "f2fs":
        image.write_bytes(f2fs)
    elif kind == "vfat":
        fat32(image, "64M")
    sound = image.read_bytes()
    extents = fs.read(image, dev=0, source="image_after").extents
    rows = extents.filter(pl.col("block_type").is_in(["metadata", "directory"])).select("sector", "nr_sectors")
    places = [
        place
        for sector, length in rows.iter_rows()
        for place in range(sector * 512, (sector + length) * 512, 4)
        if sound[place : place + 4] != bytes(4)
    ]
    chance = random.Random(kind)
    nr_read = 0
    for _ in range(60):
        changed = chance.sample(places, chance.choice((1, 3, 30)))
        for place in changed:
            other = chance.choice(places)
            value = chance.choice((words(chance.choice(VALUES)), sound[other : other + 4]))
            patch(image, place, value)
        try:
            filesystem = fs.read(image, dev=0, source="image_after")
        except InputError:
            continue
        finally:
            for place in changed:
                patch(image, place, sound[place : place + 4])
        assert_covers(filesystem)
        filesystem.heads(filesystem.files["ino"])
        nr_read += 1
    assert nr_read > 20
