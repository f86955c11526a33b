"""Check images that The Sleuth Kit reads against their content.

Every sector of every file is unique, so that a search of the image finds the sectors of each file.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from support.blocks import DEV, block_events
from support.filesystems import assert_covers
from support.oracles.ext4 import require

from androstep_analysis import fs, link, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.fs.filesystem import Filesystem
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests

SECTOR = 512
SOURCE = schema.enum("extents", "source")


class Made(NamedTuple):
    """An image, the offset of its filesystem, and the size of every file by path."""

    image: Path
    offset_bytes: int
    sizes: dict[str, int]


def run(*command: str | Path) -> str:
    """Run a program, and return its output."""
    return subprocess.run([str(part) for part in command], capture_output=True, check=True).stdout.decode()


def content(path: str, nr_bytes: int) -> bytes:
    """Return incompressible bytes, in which every sector contains the file's name and the offset."""
    sectors = -(-nr_bytes // SECTOR)
    return b"".join(random.Random(f"{path} {n}").randbytes(SECTOR) for n in range(sectors))[:nr_bytes]


def fill(top: Path) -> dict[str, int]:
    """Create files of many sizes below `top`."""
    sizes = {f"/many/file_{n:03}": n * 97 for n in range(120)}
    sizes |= {"/small": 300, "/dir/sub/large": 900_000, "/dir/larger": 3_000_001, "/dir/picture.jpg": 70_000}
    for path, size in sizes.items():
        (top / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (top / path[1:]).write_bytes(content(path, size))
    return sizes


def read(made: Made) -> Filesystem:
    return fs.read(made.image, dev=DEV, source="image_after", offset_bytes=made.offset_bytes)


def searched(made: Made, paths: dict[str, int]) -> dict[int, tuple[str, int]]:
    """Search the image for complete sectors of these files; return (path, offset) by sector."""
    known = {
        whole[at : at + SECTOR]: (path, at)
        for path, whole in ((path, content(path, size)) for path, size in paths.items())
        for at in range(0, len(whole) - SECTOR + 1, SECTOR)
    }
    raw = made.image.read_bytes()[made.offset_bytes :]
    sectors = {at // SECTOR: known.get(raw[at : at + SECTOR]) for at in range(0, len(raw), SECTOR)}
    return {sector: place for sector, place in sectors.items() if place is not None}


def placed(filesystem: Filesystem) -> dict[int, tuple[str, int]]:
    """Return (path, offset) by sector for all sectors of files, up to the last complete sector of each."""
    nr_sectors = filesystem.extents["nr_sectors"].sum()
    rows = fs.lookup(filesystem, range(nr_sectors)).drop_nulls("file_offset_bytes").filter(block_type="data")
    rows = rows.join(filesystem.files.select("ino", "size_bytes"), on="ino")
    whole = rows.filter(pl.col("file_offset_bytes") + SECTOR <= pl.col("size_bytes"))
    return {sector: (path, at) for sector, path, at in whole.select("sector", "path", "file_offset_bytes").iter_rows()}


def assert_as_searched(made: Made, filesystem: Filesystem) -> None:
    truth = searched(made, made.sizes)
    assert len(truth) > 5000
    assert placed(filesystem) == truth
    assert_covers(filesystem)


def assert_same_files(made: Made, filesystem: Filesystem) -> None:
    files = filesystem.files.filter(pl.col("file_type") != "directory").explode("names")
    assert dict(files.select("names", "size_bytes").iter_rows()) == made.sizes
    assert filesystem.losses == ()


# -- made from a directory --------------------------------------------------------------------------------------------


def iso(top: Path, image: Path) -> int:
    require("genisoimage")
    run("genisoimage", "-quiet", "-R", "-J", "-o", image, top)
    return 0


def hybrid(top: Path, image: Path) -> int:
    """Create an image that is ISO 9660 and has HFS+ in its second partition."""
    require("xorriso")
    run("xorriso", "-as", "mkisofs", "-quiet", "-R", "-hfsplus", "-o", image, top)
    return image.read_bytes().index(b"H+\0\4") - 1024


MAKERS = {"iso9660": iso, "hfsplus": hybrid}


@pytest.fixture(scope="module", params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = tmp_path_factory.mktemp("made")
    (directory / "top").mkdir()
    sizes = fill(directory / "top")
    offset_bytes = MAKERS[request.param](directory / "top", directory / "image")
    return Made(directory / "image", offset_bytes, sizes)


def test_every_sector_of_a_file_is_where_its_content_is(made: Made) -> None:
    filesystem = read(made)
    assert_same_files(made, filesystem)
    assert_as_searched(made, filesystem)


def test_heads_are_the_first_bytes(made: Made) -> None:
    filesystem = read(made)
    files = filesystem.files.filter(pl.col("size_bytes") > 0, pl.col("file_type") != "directory")
    heads = filesystem.heads(files["ino"])["head"]
    assert heads.to_list() == [
        content(path, size)[:64] for path, size in files.select("path", "size_bytes").iter_rows()
    ]


READ_ALL = """
import sys
from androstep_analysis import fs
from androstep_analysis.common.errors import InputError
for image in sys.argv[2:]:
    try:
        filesystem = fs.read(image, dev=1, source="image_after", offset_bytes=int(sys.argv[1]))
        assert filesystem.extents["nr_sectors"].sum() == filesystem.nr_sectors
        filesystem.heads(filesystem.files["ino"])
        print("read", len(filesystem.losses))
    except InputError as error:
        print("refused", error)
"""


def read_apart(offset_bytes: int, images: list[Path]) -> list[str]:
    """Read these images in a separate process, which must neither crash nor take long."""
    command = [sys.executable, "-c", READ_ALL, str(offset_bytes), *map(str, images)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hurt(made: Made, directory: Path) -> list[Path]:
    """Yield copies with changed bytes outside of data, and truncated copies."""
    other = read(made).extents.filter(~pl.col("block_type").is_in(["data", "free"])).head(8)
    raw = made.image.read_bytes()
    copies = []
    for seed in range(12):
        chance = random.Random(seed)
        copy = bytearray(raw)
        for sector, nr_sectors in other.select("sector", "nr_sectors").iter_rows():
            for _ in range(chance.choice((0, 1, 20))):
                at = made.offset_bytes + sector * SECTOR + chance.randrange(min(nr_sectors, 200) * SECTOR)
                copy[at] = chance.randrange(256)
        copies.append(directory / f"hurt{seed}")
        copies[-1].write_bytes(copy[: len(raw) // chance.choice((1, 1, 1, 2, 20))])
    return copies


@pytest.mark.prove
def test_damage_ends_in_a_filesystem_or_in_a_sentence(made: Made, tmp_path: Path) -> None:
    said = read_apart(made.offset_bytes, hurt(made, tmp_path))
    assert len(said) == 12
    assert any(line.startswith("read") for line in said)


def test_a_directory_that_contains_itself_ends(made: Made, tmp_path: Path) -> None:
    """The record of /dir/sub on ISO 9660 points to /dir, and therefore to itself."""
    filesystem = read(made)
    if filesystem.fs_type != "iso9660":
        pytest.skip("made on ISO 9660")
    sector = dict(filesystem.extents.filter(block_type="directory").select("ino", "sector").iter_rows())
    ino = {path: ino for ino, path in filesystem.files.select("ino", "path").iter_rows()}
    inner, outer = (sector[ino[path]] // 4 for path in ("/dir/sub", "/dir"))
    both = [block.to_bytes(4, "little") + block.to_bytes(4, "big") for block in (inner, outer)]
    copy = tmp_path / "circle"
    raw = made.image.read_bytes()
    at = raw.index(both[0], outer * 2048)
    copy.write_bytes(raw[:at] + both[1] + raw[at + 8 :])
    assert len(read_apart(0, [copy])) == 1


# -- NTFS, which ntfs-3g writes ---------------------------------------------------------------------------------------


@contextmanager
def mounted(image: Path, directory: Path) -> Iterator[Path]:
    directory.mkdir()
    try:
        run("ntfs-3g", "-o", "compression", image, directory)
    except subprocess.CalledProcessError:
        pytest.skip("ntfs-3g cannot mount here")
    try:
        yield directory
    finally:
        run("umount", directory)


COMPRESSED = (0x810).to_bytes(4, "little")
"""FILE_ATTRIBUTE_COMPRESSED. On a directory it applies to files created there."""

TEXT = b"what compresses well " * 40_000


@pytest.fixture(scope="module")
def ntfs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Create an NTFS with holes, a second stream, a deleted file, a hard link, resident files and a compressed file."""
    require("mkfs.ntfs", "ntfs-3g")
    directory = tmp_path_factory.mktemp("ntfs")
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mkfs.ntfs", "-F", "-Q", "-s", "512", "-c", "4096", image)
    with mounted(image, directory / "place") as top:
        sizes = fill(top)
        (top / "gone").write_bytes(content("/gone", 200_000))
        (top / "gone").unlink()
        os.link(top / "dir/larger", top / "linked")
        sizes["/linked"] = sizes["/dir/larger"]
        os.setxattr(top / "dir/larger", "user.stream", content("/stream", 50_000))
        (top / "odd\n\u202ename").write_bytes(b"odd")
        sizes["/odd\n\u202ename"] = 3
        (top / "packed").mkdir()
        os.setxattr(top / "packed", "system.ntfs_attrib", COMPRESSED)
        (top / "packed/text").write_bytes(TEXT)
        sizes["/packed/text"] = len(TEXT)
        with (top / "holes").open("wb") as file:
            for at in (0, 1 << 20, (2 << 20) + 4096):
                file.seek(at)
                file.write(content("/holes", (3 << 20))[at : at + 8192])
            file.truncate(3 << 20)
        sizes["/holes"] = 3 << 20
    return Made(image, 0, sizes)


@pytest.mark.root
def test_ntfs_has_every_sector_where_its_content_is(ntfs: Made) -> None:
    filesystem = read(ntfs)
    assert filesystem.uuid == run("blkid", "-p", "-s", "UUID", "-o", "value", ntfs.image).strip()
    assert_same_files(ntfs, filesystem)
    # A resident file has no sector of its own. No sector of a compressed file holds its content unchanged.
    names = {path: size for path, size in ntfs.sizes.items() if size > 1024 and path not in ("/linked", "/packed/text")}
    rows = {sector: place for sector, place in placed(filesystem).items() if place[0] in names}
    assert rows == searched(ntfs, names)
    assert len(rows) > 8000
    assert len(filesystem.extents.filter(ino=filesystem.files.filter(path="/holes")["ino"].item())) > 2
    assert_covers(filesystem)


@pytest.mark.root
def test_ntfs_metadata_is_recognised(ntfs: Made) -> None:
    filesystem = read(ntfs)
    raw = ntfs.image.read_bytes()

    def at(place: int) -> tuple[str, str | None]:
        row = fs.lookup(filesystem, [place // SECTOR]).row(0, named=True)
        return row["block_type"], row["subtype"]

    assert at(0) == ("metadata", "boot_record")
    assert at(raw.index(b"FILE0")) == ("metadata", "inode_table")
    assert at(raw.index(b"\xff" * 4096)) == ("journal", None)
    assert at(raw.index(b"INDX")) == ("directory", None)
    assert {at(sector * SECTOR) for sector in searched(ntfs, {"/gone": 200_000})} == {("free", None)}
    streams = fs.lookup(filesystem, list(searched(ntfs, {"/stream": 50_000})))
    assert streams.select("block_type", "path", "file_offset_bytes").unique().rows() == [("data", "/dir/larger", None)]
    assert not filesystem.files["path"].str.starts_with("/$").any()


@pytest.mark.root
def test_ntfs_compressed_and_resident_content_has_no_offset_on_the_disk(ntfs: Made) -> None:
    filesystem = read(ntfs)
    ino = {path: ino for ino, path in filesystem.files.select("ino", "path").iter_rows()}
    packed = filesystem.extents.filter(ino=ino["/packed/text"])
    assert 0 < packed["nr_sectors"].sum() * SECTOR < len(TEXT) // 4
    assert packed["file_offset_bytes"].null_count() == packed.height
    assert filesystem.extents.filter(ino=ino["/small"]).is_empty()


@pytest.mark.root
def test_an_ntfs_image_gives_only_inferred_results(ntfs: Made) -> None:
    """No kernel event is known for NTFS's files, so that an image cannot be verified."""
    image = link.classified(read(ntfs))
    sectors = image.extents.filter(block_type="data")["sector"].to_list()[:50]
    sectors += [0, 16]
    rows = [
        {"ts_ns": at * 1000 + later, "action": action, "sector": sector, "nr_sectors": 1, "rwbs": rwbs, "tid": 1}
        for at, sector in enumerate(sectors)
        for rwbs in ("WM" if sector < 100 else "W",)
        for action, later in (("queue", 0), ("issue", 1), ("complete", 2))
    ]
    staging = Staging("trace.dat", {}, 0, len(sectors) * 1000, {"block_events": block_events(rows).lazy()})
    before = replace(image, extents=image.extents.with_columns(source=pl.lit("image_before", SOURCE)))
    for given in (link.Images(after=image), link.Images(before=before, after=image)):
        io = link.tables(staging, requests.link(staging.block), given, Spool())["io"].collect()
        assert set(io["map_source"].unique()) == {"inferred"}
        assert set(io.filter(block_type="data")["path"]) <= set(image.files["path"])
        assert io["ino"].drop_nulls().min() >= 1 << 48


@pytest.mark.root
def test_ntfs_damage_ends_in_a_filesystem_or_in_a_sentence(ntfs: Made, tmp_path: Path) -> None:
    said = read_apart(0, hurt(ntfs, tmp_path))
    assert len(said) == 12
    assert any(line.startswith("read") for line in said)


@pytest.mark.parametrize("signature", [(3, b"NTFS    "), (1024, b"H+\0\4"), (0x8001, b"CD001")])
def test_a_signature_alone_is_refused_in_a_sentence(signature: tuple[int, bytes], tmp_path: Path) -> None:
    place, raw = signature
    image = tmp_path / "image"
    image.write_bytes(bytes(place) + raw + bytes(1 << 20))
    with pytest.raises(InputError, match=r"that The Sleuth Kit cannot open .* give an image of a whole"):
        fs.read(image, dev=DEV, source="image_after")
