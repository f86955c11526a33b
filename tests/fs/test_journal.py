"""Compare journals of ext3 and ext4 with debugfs logdump, with a known workload, and with a recorded device log."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support import corpus, journal_workload, loops
from support.journal_workload import Note
from support.oracles import ext4 as oracle

from androstep_analysis import fs
from androstep_analysis.fs.ext4 import journal
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.fs.jbd2 import checksums

DEV = 7 << 20
NEVER_NS = 1 << 62

VARIANTS: dict[str, tuple[list[str], str, int]] = {
    "default": (["-b", "4096"], "noatime", 40),
    "1k": (["-b", "1024", "-O", "^64bit"], "noatime", 40),
    "no_checksums": (["-b", "4096", "-O", "^64bit,^metadata_csum"], "noatime", 40),
    "checksum_v1": (["-b", "4096", "-O", "^64bit,^metadata_csum"], "noatime,journal_checksum", 40),
    "async_commit": (
        ["-b", "4096", "-O", "64bit,^metadata_csum"],
        "noatime,journal_async_commit,data=writeback",
        40,
    ),
    "data_journal": (["-b", "4096", "-J", "size=16"], "noatime,data=journal", 30),
    "fast_commit": (["-b", "4096", "-O", "fast_commit"], "noatime", 40),
    "ext3": (["-t", "ext3", "-b", "1024"], "noatime", 40),
    "wrapped": (["-b", "1024", "-O", "^64bit", "-J", "size=1"], "noatime", 200),
    "wrapped_no_checksums": (["-b", "4096", "-O", "^metadata_csum", "-J", "size=4"], "noatime", 200),
}


def read(image: Path) -> Journal:
    filesystem = fs.read(image, dev=DEV, source="image_after")
    found = journal.read(image, filesystem)
    assert found is not None
    return found


@pytest.fixture(scope="module", params=VARIANTS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[Note]]:
    mkfs, options, nr_files = VARIANTS[request.param]
    image = tmp_path_factory.mktemp("journal") / "image"
    return request.param, image, journal_workload.make(image, mkfs, options, nr_files)


MOST_TRANSACTIONS = 10_000
"""More than the capacity of these journals. Without a limit logdump may read a wrapped journal endlessly."""


COMMIT = r"Found expected sequence (\d+), type 2 \(commit block\) at block (\d+)"


def logged(image: Path, *, live: bool) -> tuple[set[tuple[int, int]], dict[int, int]]:
    """Return (position, target) of every data block, and the position of every commit block, from logdump.

    The last transaction of a live journal is left out if it has no commit block yet.
    """
    text = oracle.debugfs(image, [f"logdump {'-a' if live else '-aO'} -n {MOST_TRANSACTIONS}"])
    if live:
        text = text[: max((found.end() for found in re.finditer(COMMIT, text)), default=0)]
    copies = re.findall(r"FS block (\d+) logged at journal block (\d+)", text)
    commits = re.findall(COMMIT, text)
    return {(int(at), int(block)) for block, at in copies}, {int(at): int(number) for number, at in commits}


def copies_of(found: Journal, block_sectors: int) -> set[tuple[int, int]]:
    data = found.blocks.filter(role="data").drop_nulls("target_sector")
    return {(at, sector // block_sectors) for at, sector in data.select("position", "target_sector").iter_rows()}


@pytest.mark.root
@pytest.mark.parametrize("live", [False, True], ids=["unmounted", "live"])
def test_blocks_are_those_of_logdump(recorded: tuple[str, Path, list[Note]], live: bool) -> None:
    """A live journal is compared as far as recovery would apply it, an empty one from its start."""
    oracle.require("debugfs")
    name, image, _ = recorded
    image = image.with_suffix(".live") if live else image
    found = read(image)
    assert found.losses == ()
    size = int(oracle.header(image)["Block size"]) // 512
    copies, commits = logged(image, live=live)
    mine = copies_of(found, size)
    if not live and name.startswith("wrapped"):
        assert copies <= mine  # logdump finds old entries only if a transaction begins at the start of the ring
        return
    assert len(commits) > (0 if live else 10)
    assert copies - mine == set() or name == "fast_commit"
    told = dict(found.blocks.filter(role="commit").select("position", "transaction").iter_rows())
    assert {at: told.get(at) for at in commits} == commits
    if not live:
        assert mine == copies
    alive = found.commits.filter("is_live")["transaction"].to_list()
    assert alive == (list(commits.values()) if live else [])


@pytest.mark.root
def test_files_are_as_they_were(recorded: tuple[str, Path, list[Note]]) -> None:
    """All statements about files are true, and no other file has their blocks at the same time."""
    name, image, notes = recorded
    found = read(image)
    size = int(oracle.header(image)["Block size"])
    rows = [
        (first // (size // 512) + n, ino, generation, offset // size + n, begin, end or NEVER_NS)
        for first, count, ino, generation, offset, begin, end in found.extents.filter(block_type="data")
        .select("sector", "nr_sectors", "ino", "generation", "file_offset_bytes", "valid_from_epoch_ns",
                "valid_to_epoch_ns").iter_rows()
        for n in range(count // (size // 512))
    ]  # fmt: skip
    said: dict[int, list[tuple[int, int, int, int, int]]] = {}
    for block, *rest in rows:
        said.setdefault(block, []).append(tuple(rest))
    right = deleted = 0
    for note in notes:
        for logical, block in note.blocks.items():
            for ino, generation, told, begin, end in said.get(block, []):
                if (ino, generation) == (note.ino, note.generation):
                    assert told == logical
                else:  # another file's, before or after
                    assert end <= note.written_ns or begin >= (note.deleted_ns or NEVER_NS)
        expected = {(block, note.ino, note.generation, logical) for logical, block in note.blocks.items()}
        whole = expected <= {row[:4] for row in rows}
        right += whole
        deleted += whole and note.deleted_ns is not None
    nr_deleted = sum(note.deleted_ns is not None for note in notes)
    if name.startswith("wrapped"):
        assert 0 < right < len(notes)
    elif name == "fast_commit":
        assert deleted > 0
    else:
        assert (right, deleted) == (len(notes), nr_deleted)
    assert set(found.files.drop_nulls("path")["path"]) <= {
        *(note.path for note in notes), "/a", "/c", "/a/b", "/lost+found"
    }  # fmt: skip
    names = {(i, g): path for i, g, path in found.files.select("ino", "generation", "path").iter_rows()}
    for note in notes:
        told = names.get((note.ino, note.generation))
        assert told in (note.path, None)
        assert told or name.startswith("wrapped") or name == "fast_commit"


@pytest.mark.root
def test_targets_of_journal_blocks(recorded: tuple[str, Path, list[Note]]) -> None:
    """Inode tables and bitmaps agree with dumpe2fs; directories and files have their inode."""
    name, image, notes = recorded
    found = read(image)
    filesystem = fs.read(image, dev=DEV, source="image_after")
    size = filesystem.block_bytes // 512
    static = oracle.metadata(image)
    data = found.blocks.filter(role="data").drop_nulls("target_sector")
    for sector, block_type, subtype, ino in data.select(
        "target_sector", "target_type", "target_subtype", "target_ino"
    ).iter_rows():
        if sector // size in static:
            assert (block_type, subtype, ino) == ("metadata", static[sector // size], None)
        else:
            assert block_type is None or ino is not None
    unknown = data.filter(pl.col("target_type").is_null()).height
    assert unknown < data.height * (0.1 if not name.startswith("wrapped") else 0.3)
    if name == "data_journal":
        inos = set(data.filter(target_type="data")["target_ino"])
        assert inos >= {note.ino for note in notes}
    per_block = data.drop_nulls("target_first_ino")
    wide = set(per_block["target_last_ino"] - per_block["target_first_ino"] + 1)
    assert wide == {filesystem.block_bytes // int(oracle.header(image)["Inode size"])}


# -- recorded with a device log ---------------------------------------------------------------------------------------


def test_a_recorded_journal_against_the_device_log() -> None:
    """Statements about data blocks, including those of deleted files, are never wrong by transaction or by time."""
    directory = corpus.path("kernel/ext4_host_6.18/trace.txt.gz").parent
    with fs.opened(directory / "final.img.zst") as image:
        found = read(image)
    text = gzip.decompress((directory / "trace.txt.gz").read_bytes()).decode()
    event = r" (\d+\.\d+): jbd2_{}_commit: .*transaction (\d+)"
    starts, ends = (
        {int(number): int(float(ts) * 1e9) for ts, number in re.findall(event.format(which), text)}
        for which in ("start", "end")
    )
    epoch = dict(found.commits.select("transaction", "epoch_ns").iter_rows())
    offset = max(epoch[number] - ts for number, ts in ends.items() if number in epoch)
    names = {(i, g): path for i, g, path in found.files.select("ino", "generation", "path").iter_rows()}
    said: dict[int, list[dict[str, int]]] = {}
    for row in found.extents.iter_rows(named=True):
        for number in range(row["nr_sectors"] // 8):
            said.setdefault(row["sector"] // 8 + number, []).append(row)
    writes = json.loads(gzip.decompress((directory / "ground_truth.json.gz").read_bytes()))["writes"]
    told = {"transaction": 0, "time": 0, "deleted": 0}
    data = [write for write in writes if write["kind"] == "data"]
    for write in data:
        ts = write["ts"]
        for row in said.get(write["block"], []):
            by_number = starts.get(row["from_transaction"], 0) <= ts < ends.get(row["to_transaction"], NEVER_NS)
            end_ns = NEVER_NS if row["valid_to_epoch_ns"] is None else row["valid_to_epoch_ns"]
            by_time = row["valid_from_epoch_ns"] <= ts + offset < end_ns
            if not by_number and not by_time:
                continue
            assert (row["ino"], row["generation"]) == (write["ino"], write["gen"])
            assert row["file_offset_bytes"] // 4096 + write["block"] - row["sector"] // 8 == write["lblk"]
            assert names[row["ino"], row["generation"]].lstrip("/") in write["names"]
            told["transaction"] += by_number
            told["time"] += by_time
            told["deleted"] += by_number and not write["in_final_image"]
    nr_deleted = sum(not write["in_final_image"] for write in data)
    assert (told["transaction"], told["deleted"]) == (len(data) - 1, nr_deleted - 1)
    assert told["time"] > len(data) / 2


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["1k", "no_checksums"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Note]]:
    mkfs, _, _ = VARIANTS[request.param]
    image = tmp_path_factory.mktemp("small") / "image"
    return image, journal_workload.make(image, [*mkfs, "-J", "size=4"], "noatime", 25, nr_mib=16)


def patch(image: Path, at: int, content: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(at)
        file.write(content)


@pytest.mark.root
def test_a_copy_with_a_wrong_checksum_is_ignored(small: tuple[Path, list[Note]], tmp_path: Path) -> None:
    image = tmp_path / "image"
    shutil.copyfile(small[0], image)
    sound = read(image)
    if not any("metadata_csum" in value for value in (oracle.header(image)["Filesystem features"],)):
        pytest.skip("without checksums nothing tells")
    copy = sound.blocks.filter(pl.col("target_first_ino").is_not_null()).row(20, named=True)
    patch(image, copy["sector"] * 512 + 100, b"\xff")
    found = read(image)
    assert [(loss.kind, loss.count) for loss in found.losses] == [("damaged", 1)]
    assert found.commits["segment"].n_unique() == sound.commits["segment"].n_unique() + 1
    # No earlier statement is valid after the incomplete transaction.
    epoch = copy["commit_epoch_ns"]
    earlier = found.extents.filter(pl.col("from_transaction") < copy["transaction"] - 1)
    assert earlier.filter(pl.col("valid_to_epoch_ns").is_null() | (pl.col("valid_to_epoch_ns") > epoch)).is_empty()


@pytest.mark.root
def test_random_damage_never_stops_the_reader(small: tuple[Path, list[Note]], tmp_path: Path) -> None:
    image = tmp_path / "image"
    shutil.copyfile(small[0], image)
    raw = image.read_bytes()
    filesystem = fs.read(image, dev=DEV, source="image_after")
    used = read(image).blocks.filter(pl.col("role") != "stale")["sector"].to_list()
    rng = random.Random(3)
    for _ in range(80):
        places = [
            rng.choice(used) * 512 + rng.randrange(rng.choice((64, 4096))) for _ in range(rng.choice((1, 20, 200)))
        ]
        for at in places:
            patch(image, at, bytes([rng.choice((0, 0xFF, rng.randrange(256)))]))
        found = journal.read(image, filesystem)
        assert found is None or found.blocks.height > 1000
        for at in places:
            patch(image, at, raw[at : at + 1])


def test_a_filesystem_without_a_journal_has_none(tmp_path: Path) -> None:
    oracle.require("mkfs.ext4")
    image = tmp_path / "image"
    image.write_bytes(bytes(8 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)], check=True, capture_output=True)
    assert journal.read(image, fs.read(image, dev=DEV, source="image_after")) is None


def test_checksums_are_the_published_ones() -> None:
    """The check values of CRC-32C (inverted before and after) and CRC-32/MPEG-2 come from the catalogue of CRCs."""
    rows = np.frombuffer(b"123456789", dtype=np.uint8)[None, :]
    assert checksums.crc32c(rows, 0xFFFFFFFF)[0] ^ 0xFFFFFFFF == 0xE3069283
    assert checksums.crc32_be(b"123456789", 0xFFFFFFFF) == 0x0376E6E7
    assert checksums.crc32_be(b"6789", checksums.crc32_be(b"12345", 0xFFFFFFFF)) == 0x0376E6E7


@pytest.mark.root
def test_a_journal_on_its_own_device(tmp_path: Path) -> None:
    oracle.require("mke2fs", "losetup")
    image, device = tmp_path / "image", tmp_path / "device"
    for path, size in ((image, 32 << 20), (device, 8 << 20)):
        path.write_bytes(b"")
        os.truncate(path, size)
    run(["mke2fs", "-q", "-F", "-b", "4096", "-O", "journal_dev", str(device)])
    loop = run(["losetup", "-f", "--show", str(device)]).strip()
    try:
        run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-J", f"device={loop}", str(image)])
        with loops.mounted(image, "noatime") as filesystem:
            notes = journal_workload.work(filesystem.top, 20)
    finally:
        run(["losetup", "-d", loop])
    filesystem = fs.read(image, dev=DEV, source="image_after")
    assert journal.read(image, filesystem) is None
    found = journal.read(image, filesystem, external=device)
    assert found is not None and found.losses == ()
    assert {note.path for note in notes} <= set(found.files["path"])
    assert found.blocks.filter(role="superblock")["position"].to_list() == [1]
    assert journal.read(image, filesystem, external=image) is None


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
