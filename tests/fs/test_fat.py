"""Compare FAT12, FAT16, FAT32 and exFAT images with pytsk3, mtools, fsck.fat and fsck.exfat."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import exfat_writer
import polars as pl
import pytest
import pytsk3
from support import corpus
from support.filesystems import assert_covers

from androstep_analysis import fs
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs.fat import layout
from androstep_analysis.fs.filesystem import Filesystem

DEV = 8 << 20 | 1


def read(image: Path, offset_bytes: int = 0) -> Filesystem:
    return fs.read(image, dev=DEV, source="image_after", offset_bytes=offset_bytes)


def require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def run(*command: str | Path) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MTOOLS_SKIP_CHECK": "1"}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, check=True)
    return done.stdout.decode()


def number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match, text
    return int(match[1])


def sleuthkit(image: Path, kind: int) -> tuple[dict[str, int], dict[int, tuple[str, int]]]:
    """Return (size by path, (path, byte offset) by sector) of allocated files and directories from The Sleuth Kit."""
    volume = pytsk3.FS_Info(pytsk3.Img_Info(str(image)), type=kind)
    sector_bytes = volume.info.block_size
    sizes: dict[str, int] = {}
    owner: dict[int, tuple[str, int]] = {}

    def lay_out(file: pytsk3.File, path: str) -> None:
        for attribute in file:
            at = 0
            for piece in attribute:
                for block in range(piece.addr, piece.addr + piece.len):
                    for part in range(sector_bytes // 512):
                        owner[block * sector_bytes // 512 + part] = (path, at)
                        at += 512

    def walk(directory: pytsk3.Directory, prefix: str) -> None:
        for entry in directory:
            name, meta = entry.info.name, entry.info.meta
            text = name.name.decode("utf-8", "backslashreplace")
            if text in (".", "..") or text.startswith("$") or name.type == pytsk3.TSK_FS_NAME_TYPE_VIRT:
                continue
            if name.flags != pytsk3.TSK_FS_NAME_FLAG_ALLOC or meta is None or "Volume Label Entry" in text:
                continue
            path = prefix + text
            lay_out(entry, path)
            if meta.type == pytsk3.TSK_FS_META_TYPE_DIR:
                sizes[path] = -1
                walk(entry.as_directory(), path + "/")
            else:
                sizes[path] = meta.size

    walk(volume.open_dir("/"), "/")
    return sizes, owner


def as_sleuthkit(path: str, fs_type: str) -> str:
    """Truncate long names of FAT after 195 characters, as The Sleuth Kit does."""
    return "/".join(part[:195] for part in path.split("/")) if fs_type == "vfat" else path


def assert_as_sleuthkit(image: Path, filesystem: Filesystem, kind: int = pytsk3.TSK_FS_TYPE_DETECT) -> int:
    """Compare names, sizes and the owner of every sector of all files; return the number of sectors compared."""
    sizes, owner = sleuthkit(image, kind)
    files = filesystem.files.filter(pl.col("path") != "/")
    got = {
        as_sleuthkit(path, filesystem.fs_type): -1 if file_type == "directory" else size
        for path, file_type, size in files.select("path", "file_type", "size_bytes").iter_rows()
    }
    assert got == sizes
    found = fs.lookup(filesystem, sorted(owner))
    wrong = [
        (row["sector"], row["path"], row["file_offset_bytes"], owner[row["sector"]])
        for row in found.iter_rows(named=True)
        if (as_sleuthkit(row["path"] or "", filesystem.fs_type), row["file_offset_bytes"]) != owner[row["sector"]]
    ]
    assert wrong == []
    # Every sector with a path is also in the other map, except the root directory and the unused end of a file.
    mine = filesystem.extents.filter(pl.col("ino").is_not_null() & (pl.col("ino") != 1))
    sectors = {s for first, n in mine.select("sector", "nr_sectors").iter_rows() for s in range(first, first + n)}
    assert sectors == set(owner)
    return len(owner)


# -- generated FAT ----------------------------------------------------------------------------------------------------

NAMES = ("a plain name.txt", "UPPER.TXT", "lower.txt", "MiXed.Txt", "ünïcödé — 日本語.dat", "x" * 200,
         "dots.in.a.name", "trailing space .x", "no extension", "(1)")  # fmt: skip


@pytest.fixture(scope="module", params=["fat12", "fat16", "fat16_large_sectors", "fat32", "fat32_small"])
def generated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, bytes]]:
    return make(tmp_path_factory.mktemp("fat"), request.param)


def make(directory: Path, variant: str) -> tuple[Path, dict[str, bytes]]:
    """Create a volume with fragmented files, long names, deleted files and a deep tree; return its expected content."""
    require("mkfs.vfat", "mcopy", "mmd", "mdel")
    image = directory / f"{variant}.img"
    size = {"fat12": 3 << 19}.get(variant, 40 << 20 if "fat32" in variant else 20 << 20)
    options = {
        "fat12": ["-F", "12"],
        "fat16": ["-F", "16"],
        "fat16_large_sectors": ["-F", "16", "-S", "4096", "-s", "1"],
        "fat32": ["-F", "32", "-s", "1"],
        "fat32_small": ["-F", "32", "-s", "1"],
    }[variant]
    image.write_bytes(b"")
    os.truncate(image, size)
    run("mkfs.vfat", *options, "-n", "A LABEL", "-i", "1234ABCD", image)
    source = directory / "source"
    source.mkdir()
    rng = random.Random(variant)
    files: dict[str, bytes] = {}

    def put(path: str, content: bytes) -> None:
        (source / "file").write_bytes(content)
        run("mcopy", "-D", "o", "-i", image, source / "file", f"::{path}")
        files[path] = content

    for path in ("/deep", "/deep/er and", "/deep/er and/deeper", "/many"):
        run("mmd", "-i", image, f"::{path}")
    for name in NAMES:
        put(f"/deep/{name}", rng.randbytes(rng.randrange(1, 9000)))
    put("/empty", b"")
    for number in range(40):
        put(f"/many/file number {number:03d}.bin", rng.randbytes(rng.randrange(1, 6000)))
    for number in range(0, 40, 2):
        path = f"/many/file number {number:03d}.bin"
        run("mdel", "-i", image, f"::{path}")
        del files[path]
    if variant == "fat32":
        patch(image, 512 + 492, (70_000).to_bytes(4, "little"))  # cluster numbers have 28 bits, in two parts
        put("/deep/beyond 16 bits", rng.randbytes(3000))
    if "fat32" in variant:
        patch(image, 512 + 492, b"\xff" * 4)  # FSInfo: hint for free clusters; otherwise mtools continues after it
    put("/deep/er and/deeper/fragmented", b"SQLite format 3\0" + rng.randbytes(200_000))
    if variant == "fat32_small":
        # mtools and Microsoft treat less than 65,525 clusters as FAT16. The kernel decides by the fields.
        os.truncate(image, 20 << 20)
        patch(image, 32, (20 << 11).to_bytes(4, "little"))
        patch(image, 6 * 512 + 32, (20 << 11).to_bytes(4, "little"))
    return image, files


def patch(image: Path, at: int, content: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(at)
        file.write(content)


def test_a_generated_volume_reads_as_the_sleuth_kit_reads_it(generated: tuple[Path, dict[str, bytes]]) -> None:
    image, _ = generated
    kind = pytsk3.TSK_FS_TYPE_FAT32 if "fat32" in image.name else pytsk3.TSK_FS_TYPE_DETECT
    filesystem = read(image)
    assert_covers(filesystem)
    assert filesystem.losses == ()
    assert (filesystem.fs_type, filesystem.uuid) == ("vfat", "1234-ABCD")
    assert assert_as_sleuthkit(image, filesystem, kind) > 600


def held(image: Path, filesystem: Filesystem, files: dict[str, bytes]) -> pl.DataFrame:
    """Check that the volume contains these files, and return their rows of `files`."""
    table = filesystem.files.filter(file_type="unknown")
    assert dict(table.select("path", "size_bytes").iter_rows()) == {name: len(data) for name, data in files.items()}
    raw = image.read_bytes()
    for ino, path in table.select("ino", "path").iter_rows():
        own = filesystem.extents.filter(ino=ino).sort("file_offset_bytes")
        content = b"".join(raw[s * 512 : (s + n) * 512] for s, n in own.select("sector", "nr_sectors").iter_rows())
        assert content[: len(files[path])] == files[path]
    return table


def test_a_generated_volume_holds_what_was_put_in(generated: tuple[Path, dict[str, bytes]]) -> None:
    image, files = generated
    filesystem = read(image)
    table = held(image, filesystem, files)
    heads = filesystem.heads(table["ino"])
    expected = [files[path][:64] or None for path in table["path"]]
    assert heads["head"].to_list() == expected
    parts = filesystem.extents.filter(
        pl.col("ino") == table.filter(path="/deep/er and/deeper/fragmented")["ino"].item()
    )
    assert parts.height > 1


def test_the_number_of_a_file_is_the_place_of_its_entry(generated: tuple[Path, dict[str, bytes]]) -> None:
    image, _ = generated
    raw = image.read_bytes()
    sizes = read(image).files.filter(file_type="unknown").select("ino", "size_bytes")
    for ino, size in sizes.iter_rows():
        entry = raw[ino * 32 : ino * 32 + 32]
        assert entry[11] & 0x18 == 0
        assert int.from_bytes(entry[28:32], "little") == size


def test_areas_outside_of_files_follow_the_boot_record(generated: tuple[Path, dict[str, bytes]]) -> None:
    """The sizes of the areas and the number of free clusters agree with fsck.fat."""
    require("fsck.fat")
    image, _ = generated
    if "small" in image.name:
        pytest.skip("fsck.fat does not pass a volume that was cut down by hand")
    text = run("fsck.fat", "-n", "-v", image)
    filesystem = read(image)
    total = dict(
        filesystem.extents.group_by("block_type", "subtype").agg(pl.col("nr_sectors").sum())
        .select(pl.concat_str(["block_type", "subtype"], separator=" ", ignore_nulls=True), "nr_sectors").iter_rows()
    )  # fmt: skip
    fats = number(r"(\d+) bytes per FAT", text) * 2
    assert total["metadata fat"] * 512 == fats
    assert total["metadata boot_record"] * 512 == number(r"First FAT starts at byte (\d+)", text)
    used, clusters = number(r"files, (\d+)/", text), number(r"files, \d+/(\d+) clusters", text)
    tail = filesystem.nr_sectors * 512 - number(r"Data area starts at byte (\d+)", text)
    assert total["free"] * 512 == tail - used * filesystem.block_bytes
    assert clusters == tail // filesystem.block_bytes


def assert_allocation(image: Path) -> int:
    """Check that exactly the free clusters of the map have a zero entry; return the number of clusters."""
    filesystem, raw = read(image), image.read_bytes()
    table = filesystem.allocation
    assert table is not None
    in_heap = filesystem.extents.filter(pl.col("sector") >= table.heap_sector)
    clusters = (filesystem.nr_sectors - table.heap_sector) // table.cluster_sectors
    free = set()
    for first, count in in_heap.filter(block_type="free").select("sector", "nr_sectors").iter_rows():
        free |= set(range(first - table.heap_sector, first - table.heap_sector + count))
    for cluster in range(clusters):
        bit = table.sector * 4096 + (table.first + cluster) * table.entry_bits
        entry = int.from_bytes(raw[bit // 8 : bit // 8 + 4], "little") >> bit % 8 & (1 << min(table.entry_bits, 28)) - 1
        assert (entry == 0) == (cluster * table.cluster_sectors in free), cluster
    return clusters


def test_entries_of_the_table_are_where_the_clusters_say(generated: tuple[Path, dict[str, bytes]]) -> None:
    if "fat12" in generated[0].name:
        assert read(generated[0]).allocation is None
        return
    assert assert_allocation(generated[0]) > 4000


def test_bits_of_the_bitmap_are_where_the_clusters_say(exfat: tuple[Path, dict[str, bytes]]) -> None:
    assert assert_allocation(exfat[0]) > 1000


# -- generated exFAT --------------------------------------------------------------------------------------------------

LONG = "long 日本語 " * 28  # 252 characters: 17 entries of the name


def make_exfat(image: Path, cluster: str = "4K") -> dict[str, bytes]:
    """Create a volume with contiguous, chained and fragmented files, large directories and deleted entries."""
    require("mkfs.exfat")
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    run("mkfs.exfat", "-c", cluster, "-L", "Новый том", image)
    writer = exfat_writer.Writer(image)
    rng = random.Random(7)
    size = writer.cluster
    free = writer.free_clusters()
    files: dict[str, bytes] = {}

    def take(count: int, apart: bool = False) -> list[int]:
        row = next(i for i in range(len(free)) if not count or free[i + count - 1] - free[i] == count - 1)
        chosen = rng.sample(free[: count * 4], count) if apart else free[row : row + count]
        for cluster in chosen:
            free.remove(cluster)
        return chosen

    def put(directory: str, name: str, nr_bytes: int, *, chained: bool, apart: bool = False, **more: object) -> None:
        content = rng.randbytes(nr_bytes)
        clusters = take(-(-nr_bytes // size), apart)
        writer.add(directory, name, content, clusters, chained=chained, **more)
        if more.get("in_use", True):
            files[f"{directory}{name}"] = content

    many = (8 << 10) // size
    writer.add("/", "dir", bytes(8 << 10), take(many, apart=True), chained=True, is_directory=True)
    writer.add("/dir/", "contiguous dir", bytes(8 << 10), take(many), chained=False, is_directory=True)
    put("/", "contiguous", 5 * size - 100, chained=False)
    put("/", "chained", 3 * size, chained=True)
    put("/", "empty", 0, chained=True)
    put("/", "emoji 😀", 10, chained=False)
    put("/dir/", "fragmented", 20 * size + 1, chained=True, apart=True)
    put("/dir/", LONG, 700, chained=False)
    put("/dir/", "deleted", 3 * size, chained=False, in_use=False)
    put("/dir/", "half written", 3 * size, chained=False, valid=size // 2)
    put("/dir/", "preallocated", 3 * size, chained=False, valid=0)
    for number in range(30):
        put("/dir/contiguous dir/", f"{number:02d} {'n' * number}", 50 * number, chained=bool(number % 2))
    writer.save()
    return files


@pytest.fixture(scope="module", params=["4K", "1K"])
def exfat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    image = tmp_path_factory.mktemp("exfat") / "image"
    return image, make_exfat(image, request.param)


def test_the_writer_writes_exfat(exfat: tuple[Path, dict[str, bytes]]) -> None:
    """fsck.exfat reports no errors."""
    require("fsck.exfat")
    image, files = exfat
    assert f"clean. directories 3, files {len(files)}" in run("fsck.exfat", "-n", image)


def test_exfat_reads_as_the_sleuth_kit_reads_it(exfat: tuple[Path, dict[str, bytes]]) -> None:
    image, _ = exfat
    filesystem = read(image)
    assert_covers(filesystem)
    assert filesystem.losses == ()
    assert filesystem.fs_type == "exfat"
    assert assert_as_sleuthkit(image, filesystem) > 80
    static = filesystem.extents.filter(block_type="metadata")
    assert set(static["subtype"]) == {"boot_record", "fat", "block_bitmap", "upcase_table"}


def test_exfat_holds_what_was_put_in(exfat: tuple[Path, dict[str, bytes]]) -> None:
    image, files = exfat
    filesystem, raw = read(image), image.read_bytes()
    table = held(image, filesystem, files)
    assert {raw[ino * 32] for ino in table["ino"]} == {0x85}
    heads = dict(zip(table["path"], filesystem.heads(table["ino"])["head"], strict=True))
    assert heads["/dir/preallocated"] is None
    assert heads["/dir/half written"] == files["/dir/half written"][:64]
    assert heads["/contiguous"] == files["/contiguous"][:64]


def test_times_are_known_only_with_a_zone(exfat: tuple[Path, dict[str, bytes]]) -> None:
    image, _ = exfat
    filesystem = read(image)
    times = filesystem.times.join(filesystem.files.select("ino", "path"), on="ino")
    # 2026-11-21 12:30:10 + 1.5 s, one hour east of Greenwich
    assert set(times.filter(pl.col("path") != "/")["created_epoch_ns"]) == {1795260611_500_000_000}
    assert times["changed_epoch_ns"].null_count() == times.height
    assert times["generation"].null_count() == times.height


# -- recorded images --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["ul_exfat.img.xz", "syz_exfat_0.img.xz", "rustfatfs_fat16.img", "syz_msdos_12.img.xz", "ul_fat32_xp_label1.img.xz",
     "ul_fat32_cp850_O_tilde.img.xz", "vfat_guest_6.1"],
)  # fmt: skip
def test_a_recorded_image_reads_as_the_sleuth_kit_reads_it(name: str) -> None:
    file = "kernel/vfat_guest_6.1/final.img.zst" if name == "vfat_guest_6.1" else f"fs_images/{name}"
    with fs.opened(corpus.path(file)) as image:
        filesystem = read(image)
        assert_covers(filesystem)
        assert filesystem.losses == ()
        compared = assert_as_sleuthkit(image, filesystem)
    assert compared > (25_000 if name == "vfat_guest_6.1" else -1)


def test_a_recorded_image_against_the_device_log() -> None:
    """The file last written to each sector still owns it, or was deleted and the sector is free."""
    directory = corpus.path("kernel/vfat_guest_6.1/ground_truth.json.gz").parent
    writes = json.loads(gzip.decompress((directory / "ground_truth.json.gz").read_bytes()))["writes"]
    last = {write["sector"] + part: write for write in writes for part in range(write["sectors"])}
    with fs.opened(directory / "final.img.zst") as image:
        found = fs.lookup(read(image), sorted(last))
    right = 0
    for row in found.iter_rows(named=True):
        write = last[row["sector"]]
        if write["kind"] == "metadata":
            assert row["block_type"] in ("metadata", "directory")
        elif row["block_type"] != "free" and write["names"]:
            assert row["path"].lstrip("/") in write["names"]
            assert row["file_offset_bytes"] == write["lblk"] * 4096 + (row["sector"] - write["sector"]) * 512
            right += 1
    assert right > 9000


@pytest.mark.parametrize(
    "name, losses", [("bad_dentries", {"damaged", "nameless", "unsynced"}), ("bs_bad_csum", {"damaged"})]
)
def test_a_damaged_exfat_is_read_as_far_as_it_makes_sense(name: str, losses: set[str], tmp_path: Path) -> None:
    with tarfile.open(corpus.path(f"fs_images/exfatprogs_{name}.tar.xz")) as archive:
        packed = archive.extractfile("exfat.img")
        assert packed is not None
        (tmp_path / "exfat.img").write_bytes(packed.read())
    filesystem = read(tmp_path / "exfat.img")
    assert_covers(filesystem)
    assert {loss.kind for loss in filesystem.losses} == losses


# -- damage -----------------------------------------------------------------------------------------------------------


def fat16(directory: Path) -> tuple[Path, bytearray]:
    """Create a small FAT16 with three files of four clusters each, at clusters 2, 6 and 10."""
    require("mkfs.vfat", "mcopy")
    image = directory / "image"
    image.write_bytes(b"")
    os.truncate(image, 4 << 20)
    run("mkfs.vfat", "-F", "16", "-s", "1", "-f", "2", image)
    for number in range(3):
        (directory / "content").write_bytes(bytes([number + 1]) * 2048)
        run("mcopy", "-i", image, directory / "content", f"::FILE{number}")
    return image, bytearray(image.read_bytes())


def set_next(raw: bytearray, cluster: int, following: int, copies: tuple[int, ...] = (0, 1)) -> None:
    reserved, length = (int.from_bytes(raw[at : at + 2], "little") for at in (14, 22))
    for copy in copies:
        at = (reserved + copy * length) * 512 + cluster * 2
        raw[at : at + 2] = following.to_bytes(2, "little")


def owners(filesystem: Filesystem) -> dict[int, str]:
    """Return the paths of the first clusters."""
    files = filesystem.extents.filter(pl.col("file_offset_bytes").is_not_null() & (pl.col("block_type") == "data"))
    heap = filesystem.extents.filter(block_type="data")["sector"].min()
    joined = files.join(filesystem.files.select("ino", "path"), on="ino")
    return {
        2 + first - heap + part: path
        for first, count, path in joined.select("sector", "nr_sectors", "path").iter_rows()
        for part in range(count)
    }


@pytest.mark.parametrize(
    "changes, expected, kinds",
    [
        ({}, [4, 4, 4], set()),
        ({3: 2}, [2, 4, 4], {"damaged", "nameless"}),  # a loop
        ({3: 3}, [2, 4, 4], {"damaged", "nameless"}),
        ({7: 3}, [4, 2, 4], {"damaged", "nameless"}),  # into another file
        ({3: 0}, [2, 4, 4], {"damaged", "nameless"}),  # into a free cluster
        ({3: 0xFFF7}, [2, 4, 4], {"damaged", "nameless"}),
        ({3: 0xEEEE}, [2, 4, 4], {"damaged", "nameless"}),  # out of the volume
        ({3: 0xFFFF}, [2, 4, 4], {"damaged", "nameless"}),  # too short
        ({5: 20, 20: 0xFFFF}, [5, 4, 4], set()),  # preallocated
        ({100: 0xFFFF}, [4, 4, 4], {"nameless"}),  # lost
        ({100: 0xFFF7}, [4, 4, 4], set()),  # bad
    ],
)
def test_chains(changes: dict[int, int], expected: list[int], kinds: set[str], tmp_path: Path) -> None:
    image, raw = fat16(tmp_path)
    for cluster, following in changes.items():
        set_next(raw, cluster, following)
    image.write_bytes(raw)
    filesystem = read(image)
    assert_covers(filesystem)
    told = list(owners(filesystem).values())
    assert [told.count(f"/FILE{number}") for number in range(3)] == expected
    assert {loss.kind for loss in filesystem.losses} == kinds


def test_differing_copies_of_the_table_are_reported(tmp_path: Path) -> None:
    image, raw = fat16(tmp_path)
    set_next(raw, 3, 0xFFFF, copies=(1,))
    set_next(raw, 200, 0xFFFF, copies=(1,))
    image.write_bytes(raw)
    filesystem = read(image)
    assert [(loss.kind, loss.count) for loss in filesystem.losses] == [("damaged", 2)]
    assert len(owners(filesystem)) == 12


@pytest.mark.parametrize(("flags", "active"), [(0, 0), (0x81, 1), (0x01, 0), (0x82, 0)])
def test_fat32_selects_the_active_table(flags: int, active: int, tmp_path: Path) -> None:
    """If bit 7 is set, only one of the two tables is updated, and the low four bits give its number."""
    require("mkfs.vfat")
    image = tmp_path / "image"
    image.write_bytes(b"")
    os.truncate(image, 40 << 20)
    run("mkfs.vfat", "-F", "32", image)
    patch(image, 40, flags.to_bytes(2, "little"))
    volume = layout.parse(image.read_bytes()[: 1 << 16])
    assert volume is not None and volume.active_fat == active


def test_short_names(tmp_path: Path) -> None:
    """Cases: lower-case flags, other code page, escaped first byte, volume label, deleted entry, partial long name."""
    image, raw = fat16(tmp_path)
    reserved, entries, length = (int.from_bytes(raw[at : at + 2], "little") for at in (14, 17, 22))
    root = (reserved + 2 * length) * 512
    assert entries
    for number, (name, attributes, flags) in enumerate(
        [
            (b"LOWER   TXT", 0x20, 0x18),
            (b"BASE    TXT", 0x20, 0x08),
            (b"EXT     TXT", 0x20, 0x10),
            (b"\x05\x80\x99     TXT", 0x20, 0),
            (b"LABEL      ", 0x08, 0),
            (b"\xe5ELETED TXT", 0x20, 0),
            (b"\x42t\0o\0r\0n\0 \0", 0x0F, 0),
            (b"TORN~1     ", 0x20, 0),
        ]
    ):
        raw[root + (3 + number) * 32 : root + (4 + number) * 32] = name + bytes([attributes, flags]) + bytes(19)
    image.write_bytes(raw)
    filesystem = read(image)
    paths = filesystem.files["path"].to_list()[4:]
    assert paths == ["/lower.txt", "/base.TXT", "/EXT.txt", "/σÇÖ.TXT", "/TORN~1"]
    assert [(loss.kind, loss.count) for loss in filesystem.losses] == [("damaged", 1)]


def test_an_image_taken_while_mounted_is_reported(tmp_path: Path) -> None:
    image, raw = fat16(tmp_path)
    raw[37] |= 1
    image.write_bytes(raw)
    assert [loss.kind for loss in read(image).losses] == ["unsynced"]


def test_a_volume_inside_a_disk_reads_as_by_itself(tmp_path: Path) -> None:
    image, raw = fat16(tmp_path)
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xee" * (1 << 20) + raw)
    alone, inside = read(image), read(disk, offset_bytes=1 << 20)
    assert inside.extents.equals(alone.extents)
    assert inside.files.equals(alone.files)
    assert inside.heads(inside.files["ino"]).equals(alone.heads(alone.files["ino"]))
    with pytest.raises(InputError, match="byte 0 is not the start of a supported filesystem"):
        read(disk)


@pytest.mark.parametrize("kind", ["fat16", "exfat"])
def test_an_image_truncated_anywhere_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    raw = bytes(fat16(tmp_path)[1]) if kind == "fat16" else bytes(make_exfat(image) and image.read_bytes())
    for where in (0, 100, 512, 600, 20_000, 1 << 20, (1 << 20) + 4096, (2 << 20) + 5000):
        image.write_bytes(raw[:where])
        if where < 512:
            with pytest.raises(InputError, match="is not the start of a supported filesystem"):
                read(image)
        else:
            filesystem = read(image)
            assert_covers(filesystem)
            assert ("torn", len(raw) - where) in {(loss.kind, loss.count) for loss in filesystem.losses}


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["fat16", "exfat"])
def test_random_damage_never_stops_the_reader(kind: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    raw = bytes(fat16(tmp_path)[1]) if kind == "fat16" else bytes(make_exfat(image) and image.read_bytes())
    used = [at for at in range(0, len(raw), 512) if any(raw[at : at + 512])]
    rng = random.Random(11)
    read_all = 0
    for _ in range(100):
        places = [rng.choice(used) + rng.randrange(512) for _ in range(rng.choice((1, 10, 100)))]
        for at in places:
            patch(image, at, bytes([rng.choice((0, 0xFF, rng.randrange(256)))]))
        try:
            filesystem = read(image)
        except InputError:
            continue
        finally:
            for at in places:
                patch(image, at, raw[at : at + 1])
        assert_covers(filesystem)
        read_all += 1
    assert read_all > 50
