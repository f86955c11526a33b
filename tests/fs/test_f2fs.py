"""Compare recorded, generated and damaged F2FS images with an independent parser and with f2fs-tools."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from support import corpus
from support.filesystems import assert_covers
from support.oracles import f2fs as oracle

from androstep_analysis import fs
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs import f2fs
from androstep_analysis.fs.f2fs import layout, nodes
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.fs.image import Image

DEV = 7 << 20
BLOCKS_COMPARED = 10_000
TOOL_BLOCKS_COMPARED = 100
DAMAGED_COPIES = 30

CORPUS = (
    "fs_images/ul_f2fs.img.xz",
    "fs_images/syz_f2fs_0.img.xz",
    "fs_images/syz_f2fs_3.img.xz",
    "kernel/f2fs_guest_6.1/final.img.zst",
)

CRASHED = Path(__file__).parents[1] / "data" / "f2fs_crashed.img.xz"
"""Linux 6.1, reset directly after several fsyncs. `f2fs_crashed.json` holds FIEMAP and lstat after the next mount."""

ANDROID = "encrypt,extra_attr,project_quota,inode_crtime,verity,casefold,sb_checksum"


FEATURES = CRASHED.with_name("f2fs_features.img.xz")
"""Linux 6.1, unmounted, with the features of an Android data partition and compressed files, and its FIEMAP."""

ENCODED, INLINE = 0x8, 0x200
"""Flags of FIEMAP for compressed and for inline extents."""


def read(image: Path, offset_bytes: int = 0) -> Filesystem:
    return fs.read(image, dev=DEV, source="image_after", offset_bytes=offset_bytes)


def assert_agrees(image: Path, filesystem: Filesystem, seed: int) -> None:
    """Compare type, owner and file offset of random blocks, and all files, with the independent parser."""
    assert_covers(filesystem)
    walk = oracle.Walk(image)
    assert filesystem.nr_sectors == walk.nr_blocks * 8
    chosen = random.Random(seed).sample(range(walk.nr_blocks), min(BLOCKS_COMPARED, walk.nr_blocks))
    blocks = sorted({*chosen, *list(walk.blocks)[:BLOCKS_COMPARED]})
    # any sector of a block, not only its first
    found = fs.lookup(filesystem, [block * 8 + block % 8 for block in blocks])
    got = found.select("block_type", "subtype", "ino", "file_offset_bytes").rows()
    wrong = []
    for block, row in zip(blocks, got, strict=True):
        block_type, subtype, ino, number = walk.expected(block)
        offset = None if number is None else number * oracle.BLOCK + block % 8 * 512
        if row != (block_type, subtype, ino, offset):
            wrong.append((block, row, walk.expected(block)))
    assert wrong == []
    assert_same_files(filesystem, walk)


def assert_same_files(filesystem: Filesystem, walk: oracle.Walk) -> None:
    """Compare names, sizes, types and times of all files."""
    kinds = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    expected = {
        ino: (sorted(file.paths), file.size, kinds.get(stat.S_IFMT(file.mode), "unknown"), file.generation)
        for ino, file in walk.files.items()
        if ino not in walk.quota_inodes
    }
    files = filesystem.files
    rows = files.select("ino", "names", "size_bytes", "file_type", "generation").rows()
    assert {ino: tuple(rest) for ino, *rest in rows} == expected
    assert files.filter(pl.col("path") != pl.col("names").list.first()).height == 0
    times = {ino: (walk.files[ino].created_ns, walk.files[ino].changed_ns) for ino in expected}
    told = filesystem.times.select("ino", "created_epoch_ns", "changed_epoch_ns").rows()
    assert {ino: (created, changed) for ino, created, changed in told} == times


# -- recorded images --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=CORPUS, ids=[name.split("/", 1)[1] for name in CORPUS])
def recorded(request: pytest.FixtureRequest) -> Iterator[Path]:
    with fs.opened(corpus.path(request.param)) as image:
        yield image


def test_a_recorded_image_reads_as_its_structures_say(recorded: Path) -> None:
    filesystem = read(recorded)
    assert_agrees(recorded, filesystem, seed=1)
    assert filesystem.losses == ()
    assert filesystem.fs_type == "f2fs"
    assert filesystem.block_bytes == 4096


def test_expected_facts_of_the_corpus() -> None:
    name = "fs_images/syz_f2fs_0.img.xz"
    told = json.loads(corpus.path(f"{name}.expected.json").read_text())
    with fs.opened(corpus.path(name)) as image:
        filesystem = read(image)
    assert filesystem.uuid == told["blkid"]["UUID"]
    inodes = {inode["nid"]: inode["size"] for inode in told["inodes"]["list"]}
    assert dict(filesystem.files.select("ino", "size_bytes").iter_rows()) == inodes
    assert filesystem.files.filter(pl.col("ino") == 8)["names"].to_list() == [["/file2", "/file3"]]


def test_sectors_belong_to_the_files_in_the_device_log() -> None:
    """Each sector belongs to the file of its last write, which its content proves, or has been freed."""
    truth = pl.read_json(gzip.decompress(corpus.path("kernel/f2fs_guest_6.1/ground_truth.json.gz").read_bytes()))
    writes = (
        truth.select(pl.col("writes").explode()).unnest("writes").unique("sector", keep="last", maintain_order=True)
    )
    with fs.opened(corpus.path("kernel/f2fs_guest_6.1/final.img.zst")) as image:
        found = fs.lookup(read(image), writes["sector"])
    both = writes.select("kind", owner="ino", offset=pl.col("lblk") * 4096).hstack(found)
    data = both.filter((pl.col("kind") == "data") & (pl.col("block_type") != "free"))
    assert data.height > 1_000
    assert (
        data.filter((pl.col("owner") != pl.col("ino")) | (pl.col("offset") != pl.col("file_offset_bytes"))).height == 0
    )
    nodes = both.filter((pl.col("kind") == "node") & (pl.col("block_type") != "free"))
    assert nodes["subtype"].unique().to_list() == ["node"]
    metadata = both.filter(pl.col("kind") == "metadata")["subtype"]
    assert metadata.is_in(["checkpoint", "sit", "nat", "ssa"]).all()


# -- generated images -------------------------------------------------------------------------------------------------


def fill(tree: Path) -> None:
    """Create files of all sizes, deep and wide directories, hard links, symlinks and unusual names."""
    chance = random.Random(5)
    for number in range(40):
        folder = tree / f"d{number % 7}" / f"e{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        size = chance.choice([0, 1, 3_400, 3_500, 4_096, 4_097, 40_000])
        (folder / f"f{number}").write_bytes(chance.randbytes(size))
    (tree / "large").write_bytes(chance.randbytes(9 << 20))  # into the indirect nodes: more than 923 + 2 * 1018 blocks
    (tree / "wide").mkdir()
    for number in range(700):
        (tree / "wide" / f"{number}{'n' * chance.choice([0, 5, 13, 60, 200])}").touch()
    (tree / "hard1").write_bytes(b"x" * 9_000)
    os.link(tree / "hard1", tree / "d1" / "hard2")
    (tree / "short").symlink_to("large")
    (tree / "d2" / "long").symlink_to("t" * 3_900)
    (tree / "d3" / "é中").write_bytes(b"u" * 5_000)
    deep = tree
    for level in range(12):
        deep = deep / f"level{level}"
        deep.mkdir()
    (deep / "bottom").write_text("here")


GENERATED = {
    "plain": (),
    "extra_attr": ("-O", "extra_attr,inode_checksum,inode_crtime"),
    "quota": ("-O", "extra_attr,quota"),
    "android": ("-O", ANDROID, "-C", "utf8"),
    "sections": ("-s", "2", "-z", "2"),
    "nat_bitmap": ("-i", "-O", "extra_attr"),
}
"""Options of mkfs.f2fs. sload.f2fs 1.15 supports neither flexible_inline_xattr nor compression; see FEATURES."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    fill(folder)
    return folder


@pytest.mark.prove
@pytest.mark.parametrize("features", GENERATED)
def test_a_generated_image_holds_the_tree_it_was_made_from(features: str, tree: Path, tmp_path: Path) -> None:
    oracle.require("mkfs.f2fs", "sload.f2fs")
    image = tmp_path / "image"
    oracle.make(image, 200 << 20, *GENERATED[features])
    oracle.load(image, tree)
    filesystem = read(image)
    assert filesystem.losses == ()
    assert_agrees(image, filesystem, seed=2)
    names = {name for names in filesystem.files["names"] for name in names}
    # Path.rglob of Python 3.11.2 fails on a link to a name that is too long.
    made = {
        f"/{(Path(top) / name).relative_to(tree)}" for top, folders, files in os.walk(tree) for name in folders + files
    }
    assert names - {"/lost+found"} == {"/", *made}
    assert_contents(image, filesystem, tree)


def assert_contents(image: Path, filesystem: Filesystem, tree: Path) -> None:
    """Check that every content block holds the file's bytes, and that heads are the beginnings of the files."""
    raw = image.read_bytes()
    by_ino = {ino: tree / path[1:] for ino, path in filesystem.files.select("ino", "path").iter_rows()}
    content = filesystem.extents.filter((pl.col("block_type") == "data") & pl.col("subtype").is_null())
    assert content.height > 10
    for sector, length, ino, offset in content.select("sector", "nr_sectors", "ino", "file_offset_bytes").iter_rows():
        expected = by_ino[ino].read_bytes()[offset : offset + length * 512]
        assert raw[sector * 512 : sector * 512 + len(expected)] == expected
    status = {ino: path.lstat() for ino, path in by_ino.items()}
    regular = [ino for ino, found in status.items() if stat.S_ISREG(found.st_mode) and found.st_size]
    for ino, head in filesystem.heads(regular).iter_rows():
        assert head == by_ino[ino].read_bytes()[: len(head)]
        assert len(head) == min(64, status[ino].st_size)


def test_f2fs_tools_name_the_same_owners(tmp_path: Path) -> None:
    """dump.f2fs is run on all used blocks (segment summaries), and on some blocks one by one with their offsets."""
    oracle.require("dump.f2fs")
    with fs.opened(corpus.path("kernel/f2fs_guest_6.1/final.img.zst")) as image:
        filesystem = read(image)
        copy = Path(shutil.copy(image, tmp_path / "copy"))
    copy.chmod(0o600)
    with copy.open("rb") as file:
        main = int.from_bytes(file.read(2048)[1024 + 92 : 1024 + 96], "little")
    segments = (filesystem.nr_sectors // 8 - main) // 512
    summaries = oracle.tool_summaries(copy, segments, 2_000)
    found = fs.lookup(filesystem, [(main + place) * 8 for place in summaries])
    got = zip(found["subtype"].eq_missing("node"), found["ino"], strict=True)
    assert [(is_node, ino) for is_node, ino in got] == list(summaries.values())
    assert len(summaries) > 2_000
    used = filesystem.extents.filter(pl.col("ino").is_not_null())["nr_sectors"].sum() // 8
    assert used == len(summaries)
    some = random.Random(3).sample([place for place, (node, _) in summaries.items() if not node], TOOL_BLOCKS_COMPARED)
    for place in some:
        row = fs.lookup(filesystem, [(main + place) * 8]).row(0, named=True)
        told = oracle.tool_owner(copy, main + place)
        assert told is not None
        ino, number = told
        assert ino == row["ino"]
        # dump.f2fs 1.15 assumes 923 addresses in the inode even if 50 of them hold attributes
        assert row["file_offset_bytes"] // 4096 == (number if number < 923 else number - 50)


def test_an_offset_and_a_lost_superblock_change_nothing(tree: Path, tmp_path: Path) -> None:
    oracle.require("mkfs.f2fs", "sload.f2fs")
    image = tmp_path / "image"
    oracle.make(image, 100 << 20)
    oracle.load(image, tree)
    plain = read(image)
    moved = tmp_path / "disk"
    moved.write_bytes(bytes(1 << 20) + image.read_bytes())
    with moved.open("r+b") as file:
        file.seek((1 << 20) + 1024)
        file.write(bytes(100))
    found = read(moved, offset_bytes=1 << 20)
    assert found.extents.equals(plain.extents)
    assert found.files.equals(plain.files)
    assert found.first_bytes["offset_bytes"].to_list() == [at + (1 << 20) for at in plain.first_bytes["offset_bytes"]]
    assert [(loss.kind, loss.count) for loss in found.losses] == [("damaged", 1)]


def test_large_version_bitmaps_as_older_tools_placed_them(tree: Path, tmp_path: Path) -> None:
    """If the checksum is at the end of the block, the bitmaps begin four bytes earlier."""
    oracle.require("mkfs.f2fs", "sload.f2fs")
    image = tmp_path / "image"
    oracle.make(image, 100 << 20, *GENERATED["nat_bitmap"])
    oracle.load(image, tree)
    plain = read(image)
    raw = bytearray(image.read_bytes())
    first, nat = (int.from_bytes(raw[1024 + at : 1024 + at + 4], "little") for at in (76, 84))
    # The first bit of the bitmap selects the second copy of the NAT's first block.
    second = (nat + 512) * 4096
    raw[second : second + 4096] = raw[nat * 4096 : (nat + 1) * 4096]
    raw[nat * 4096 : (nat + 1) * 4096] = bytes(4096)
    moved = 0
    for pack in (first, first + 512):
        length = int.from_bytes(raw[pack * 4096 + 136 : pack * 4096 + 140], "little")
        for at in (pack * 4096, (pack + length - 1) * 4096):
            if length and raw[at + 164 : at + 168] == (192).to_bytes(4, "little"):
                raw[at + 164 : at + 168] = (4092).to_bytes(4, "little")
                raw[at + 192 : at + 4092] = raw[at + 196 : at + 4096]
                raw[at + 192] |= 0x80
                raw[at + 4092 : at + 4096] = layout.checksum(bytes(raw[at : at + 4092])).to_bytes(4, "little")
                moved += 1
    assert moved >= 2
    image.write_bytes(raw)
    found = read(image)
    assert found.losses == ()
    assert found.extents.equals(plain.extents)


def test_the_features_of_a_data_partition(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(lzma.decompress(FEATURES.read_bytes()))
    filesystem = read(image)
    assert filesystem.losses == ()
    assert_agrees(image, filesystem, seed=6)
    assert_maps_as_the_kernel(filesystem, FEATURES)
    quota = filesystem.extents.filter(pl.col("subtype") == "quota")
    assert not quota["ino"].is_in(filesystem.files["ino"]).any()
    assert quota.height > 0


# -- roll-forward -----------------------------------------------------------------------------------------------------


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    image = tmp_path / "crashed"
    image.write_bytes(lzma.decompress(CRASHED.read_bytes()))
    return image


def test_writes_by_fsync_after_the_checkpoint_are_recovered_as_by_a_mount(crashed: Path) -> None:
    filesystem = read(crashed)
    assert_covers(filesystem)
    assert [loss.kind for loss in filesystem.losses] == ["unsynced"]
    assert_maps_as_the_kernel(filesystem, CRASHED)


def assert_maps_as_the_kernel(filesystem: Filesystem, image: Path) -> None:
    """Compare names, sizes and blocks of regular files with the kernel's output for the mounted image."""
    told = json.loads(image.with_suffix("").with_suffix(".json").read_text())
    by_path = {name: row for row in filesystem.files.iter_rows(named=True) for name in row["names"]}
    assert set(by_path) == {row["path"] for row in told}
    for row in told:
        mine = by_path[row["path"]]
        assert (mine["ino"], mine["size_bytes"]) == (row["ino"], row["size"])
        extents = row.get("ext", [])
        if stat.S_ISREG(row["mode"]) and not any(flags & ENCODED for *_, flags in extents):
            expected = {
                (logical + at, physical + at)
                for logical, physical, length, flags in extents
                if not flags & INLINE
                for at in range(0, length, 4096)
            }
            assert content_blocks(filesystem, row["ino"]) == expected, row["path"]


def content_blocks(filesystem: Filesystem, ino: int) -> set[tuple[int, int]]:
    """Return (file offset, device offset) of the blocks of a file."""
    rows = filesystem.extents.filter((pl.col("ino") == ino) & (pl.col("block_type") == "data"))
    return {
        (offset + at, sector * 512 + at)
        for sector, length, offset in rows.select("sector", "nr_sectors", "file_offset_bytes").iter_rows()
        for at in range(0, length * 512, 4096)
    }


def test_blocks_that_recovery_replaces_are_free(crashed: Path) -> None:
    """In the same image without the chain of nodes, there is no recovery, and the blocks belong to the file."""
    recovered = read(crashed)
    raw = bytearray(crashed.read_bytes())
    image = Image(os.open(crashed, os.O_RDONLY), crashed, 0, len(raw))
    try:
        superblock, _ = layout.read_superblock(image)
        checkpoint, _ = layout.read_checkpoint(image, superblock)
    finally:
        os.close(image.file)
    first = superblock.main + checkpoint.node_segments[1] * 512 + checkpoint.node_next[1]
    raw[first * 4096 : (first + 1) * 4096] = bytes(4096)
    crashed.write_bytes(raw)
    before = read(crashed)
    assert_agrees(crashed, before, seed=4)
    ino = dict(before.files.select("path", "ino").iter_rows())["/d1/data"]
    replaced, current = (
        found.extents.filter((pl.col("ino") == ino) & (pl.col("subtype") == "node"))["sector"].to_list()
        for found in (before, recovered)
    )
    assert fs.lookup(recovered, replaced)["block_type"].to_list() == ["free"]
    assert fs.lookup(before, current)["block_type"].to_list() == ["free"]


# -- hostile images ---------------------------------------------------------------------------------------------------


def test_an_image_that_is_no_f2fs_is_refused(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    assert not f2fs.sniff(image)
    with pytest.raises(InputError, match="holds no F2FS superblock"):
        f2fs.read(image, dev=DEV, source="image_after")
    with pytest.raises(InputError, match="cannot be opened"):
        f2fs.read(tmp_path / "none", dev=DEV, source="image_after")


def test_a_filesystem_on_several_devices_is_refused(crashed: Path) -> None:
    raw = bytearray(crashed.read_bytes())
    for superblock in (1024, 4096 + 1024):
        for device in range(2):
            raw[superblock + 2201 + 68 * device] = ord("/")
    crashed.write_bytes(raw)
    with pytest.raises(InputError, match="spans 2 devices"):
        read(crashed)


@pytest.mark.parametrize("block_bytes", [64, 4096])
def test_direct_nodes_are_numbered_in_the_order_of_their_places(block_bytes: int) -> None:
    """The order is that of get_node_path (fs/f2fs/node.c), with two, one and no nodes above each node."""
    superblock = mock.Mock(block_bytes=block_bytes)
    width = nodes.ids(superblock)
    below = [False, *[True] * width]
    is_direct = np.array([False, True, True, *below, *below, False, *below * width, False, True])
    is_direct[-2:] = False  # the maximum for an inode
    number = nodes.direct_number(superblock, np.arange(len(is_direct)))
    assert np.array_equal(number, np.where(is_direct, np.cumsum(is_direct) - 1, -1))


@pytest.mark.parametrize("field", [20, 72])
def test_a_superblock_of_another_geometry_is_none(field: int, crashed: Path) -> None:
    """`log_blocks_per_seg` must be 9, and segment 0 must begin with the checkpoint (fs/f2fs/super.c)."""
    raw = bytearray(crashed.read_bytes())
    for superblock in (1024, 4096 + 1024):
        raw[superblock + field] += 1
    crashed.write_bytes(raw)
    with pytest.raises(InputError, match="holds no F2FS superblock"):
        f2fs.read(crashed, dev=DEV, source="image_after")


def test_an_image_without_a_valid_checkpoint_is_refused(crashed: Path) -> None:
    raw = bytearray(crashed.read_bytes())
    for block in (512, 1024):
        raw[block * 4096 + 50] ^= 1
    crashed.write_bytes(raw)
    with pytest.raises(InputError, match="neither checkpoint"):
        read(crashed)


def test_a_block_claimed_twice_is_unknown(crashed: Path) -> None:
    filesystem = read(crashed)
    ino = dict(filesystem.files.select("path", "ino").iter_rows())
    node = filesystem.extents.filter((pl.col("ino") == ino["/d7/data"]) & (pl.col("subtype") == "node"))["sector"][0]
    mine = filesystem.extents.filter((pl.col("ino") == ino["/d8/data"]) & (pl.col("block_type") == "data"))["sector"][0]
    with crashed.open("r+b") as file:
        file.seek(node * 512 + 360)
        file.write((mine // 8).to_bytes(4, "little"))
    found = read(crashed)
    assert fs.lookup(found, [mine])["block_type"].to_list() == ["unknown"]
    assert [loss.count for loss in found.losses if "claimed more than once" in loss.message] == [1]


@pytest.mark.prove
def test_damage_is_counted_or_refused_and_never_crashes(crashed: Path) -> None:
    chance = random.Random(1)
    raw = crashed.read_bytes()
    sectors = read(crashed).extents.filter(pl.col("block_type").is_in(["metadata", "directory"]))
    blocks = [
        block
        for sector, length in sectors.select("sector", "nr_sectors").iter_rows()
        for block in range(sector // 8, (sector + length) // 8)
        if any(raw[block * 4096 : (block + 1) * 4096])
    ]
    spared = [block for block in blocks if block >= 2 and not 512 <= block < 1536]
    results = set()
    for _ in range(DAMAGED_COPIES):
        changed = bytearray(raw)
        for _ in range(chance.choice([1, 10, 100, 1_000])):
            place = chance.choice(spared if chance.random() < 0.999 else blocks) * 4096 + chance.randrange(4096)
            word = chance.choice(
                [bytes(4), b"\xff" * 4, chance.randbytes(4), chance.randrange(20_000).to_bytes(4, "little")]
            )
            changed[place : place + 4] = word
        crashed.write_bytes(changed[: chance.choice([len(changed), len(changed), chance.randrange(len(changed))])])
        try:
            filesystem = read(crashed)
        except InputError:
            results.add("refused")
            continue
        assert_covers(filesystem)
        filesystem.heads(filesystem.files["ino"])
        results.add("loss" if len(filesystem.losses) > 1 else "read")
    assert "loss" in results
