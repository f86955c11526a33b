"""Test the block size of a filesystem: reported, or verified by the bios that follow its events."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest
from support import built, loops
from support.blocks import DEV
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis import schema
from androstep_analysis.link.extents import blocksize
from androstep_analysis.link.extents.blocksize import Sizes
from androstep_analysis.link.requests import Requests, rwbs

NONE = Sizes({}, {})

SPAN = 2048
"""Pieces of a file, of which some are written. Six such files fill half of the disk. With a block size twice as large,
blocks of one file would seem to be those of another."""


def linked(*places: tuple[int, int]) -> Requests:
    """Return writes of (sector, sectors) on one device, one every 10 ns."""
    rows = [
        {"request_id": at, "dev": DEV, "part_dev": DEV, "sector": sector, "part_sector": sector, "nr_sectors": length,
         "op": "write", "nr_bios": 1, "matched": "full", "queue_ns": 10 * at, **dict.fromkeys(rwbs.FLAGS, False)}
        for at, (sector, length) in enumerate(places)
    ]  # fmt: skip
    requests = pl.DataFrame(rows, schema=schema.table("requests").polars)
    bios = requests.select("request_id", "sector", "nr_sectors")
    return Requests(requests.lazy(), schema.complete(bios, "bios").lazy())


def mapped(*runs: tuple[int, int, int], event: str = "ext4_es_insert_extent") -> pl.LazyFrame:
    """Return events (ns, block, blocks) that each map blocks of a separate file."""
    rows = [
        {"ts_ns": ts, "event": event, "dev": DEV, "ino": 12 + at, "file_block": 0, "block": block, "nr_blocks": blocks,
         "status": "W"}
        for at, (ts, block, blocks) in enumerate(runs)
    ]  # fmt: skip
    return schema.conform(pl.DataFrame(rows, schema=schema.table("fs_events").polars), "fs_events").lazy()


@pytest.mark.parametrize("size", blocksize.SIZES)
def test_the_size_is_that_by_which_bios_lie_where_events_say(size):
    sectors = size // 512
    events = mapped(*((10 * at - 1, 1000 + 37 * at, 2) for at in range(8)))
    bios = linked(*(((1000 + 37 * at) * sectors, 2 * sectors) for at in range(8)))
    assert blocksize.by_device({}, bios, events, 4096) == Sizes({DEV: size}, {})


def test_how_requests_are_aligned_proves_nothing():
    aligned = linked(*((8 * at, 8) for at in range(100)))
    assert blocksize.by_device({}, aligned, mapped((0, 5000, 1)), 4096) == NONE
    assert blocksize.by_device({}, aligned, mapped(), 4096) == NONE


def test_late_bios_show_nothing_and_few_bios_prove_nothing():
    late = linked(*((8 * at, 8) for at in range(100)), *((40_000 + 80 * at, 8) for at in range(8)))
    events = mapped(*((0, 5000 + 10 * at, 1) for at in range(8)))
    assert blocksize.by_device({}, late, events, 4096) == NONE
    few = linked((40_000, 8), (40_080, 8))
    assert blocksize.by_device({}, few, events, 4096) == Sizes({}, {DEV: 4096})


def test_with_an_inferred_size_files_are_inferred(tmp_path):
    """One direct write, as people paste it: block 777 of an ext4 with 4 KiB holds sector 777 * 8 of the partition."""
    thread = "db-7 [000] ..... 5.000"
    lines = [
        f"{thread}001: ext4_es_lookup_extent_exit: dev 8,1 ino 30 found 1 [0/1) 777 W",
        f"{thread}002: block_bio_remap: 8,0 WS 8264 + 8 <- (8,1) 6216",
        f"{thread}003: block_bio_queue: 8,0 WS 8264 + 8 [db]",
        f"{thread}004: block_rq_issue: 8,0 WS 4096 () 8264 + 8 [db]",
        "<idle>-0 [000] d.h.. 5.000009: block_rq_complete: 8,0 WS () 8264 + 8 [0]",
    ]
    (tmp_path / "trace.txt").write_text("\n".join(lines))
    io = androstep.open(tmp_path / "trace.txt").io.collect()
    assert io.select("ino", "file_offset_bytes", "map_source").rows() == [(30, 0, "inferred")]


def test_a_reported_size_needs_no_proof():
    assert blocksize.by_device({DEV: 1024}, linked((8, 8)), mapped((0, 1, 1)), 4096) == Sizes({DEV: 1024}, {})


@pytest.mark.parametrize(
    ("block_bytes", "kind"),
    left_to_prove(
        itertools.product([1024, 2048, 4096], ["aligned", "unaligned", "any"]),
        {(1024, "any"), (2048, "unaligned"), (4096, "aligned")}.__contains__,
    ),
)
@pytest.mark.root
def test_no_file_and_no_offset_is_wrong_whatever_the_blocks_and_the_io(block_bytes, kind, tmp_path):
    iotrace = built.program("iotrace", "native")
    image, alone = tmp_path / "disk.img", tmp_path / "trace.dat"
    loops.make_ext4(image, ["-b", str(block_bytes), *(["-O", "^has_journal"] if kind == "aligned" else [])], nr_mib=96)
    pick = random.Random(f"{block_bytes} {kind}")
    with loops.mounted(image, "noatime") as place:
        prepared(place.top, pick)
    with loops.mounted(image, "noatime") as place:
        if kind == "aligned":
            allocated(place.top)
        with recording(iotrace, tmp_path / "recording", place.device):
            if kind != "aligned":
                read_by_sectors(place.device)
            files = directly(place.top, pick, block_bytes if kind == "unaligned" else 4096)
            if kind != "aligned":
                files += buffered(place.top, pick)
        truth = {path.stat().st_ino: runs(path) for path in files}
    (tmp_path / "recording" / "trace.dat").rename(alone)  # without iotrace's information about mounts
    io = androstep.open(alone).io.filter(pl.col("nr_sectors") > 0).collect()
    facts = io.filter(pl.col("block_type") == "data", pl.col("map_source") != "inferred")
    stated = facts.select("ino", "file_offset_bytes", "sector", "nr_sectors").rows()
    assert len(stated) > 200
    assert [row for row in stated if not lies(truth, *row)] == []
    held = [run for of_file in truth.values() for run in of_file]
    is_data = pl.any_horizontal(pl.col("sector").is_between(sector, sector + length - 1) for _, sector, length in held)
    assert io.filter(is_data).select(pl.col("ino").is_not_null().mean()).item() > 0.99


@contextlib.contextmanager
def recording(iotrace: Path, out: Path, device: str) -> Iterator[None]:
    """Record with iotrace within the block."""
    command = [iotrace, "-o", out, "--device", device, "--list", "none", "--", "sh", "-c", "echo; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        yield
        process.stdin.close()
    assert process.returncode == 0


def runs(path: Path) -> list[tuple[int, int, int]]:
    """Return file sector, device sector and length of each of the file's extents from filefrag."""
    said = subprocess.run(["filefrag", "-v", "-s", "-b512", path], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *\d+: +(\d+)\.\. +\d+: +(\d+)\.\. +\d+: +(\d+):", said, re.MULTILINE)
    return [(int(first), int(sector), int(length)) for first, sector, length in rows]


def lies(truth: Mapping[int, list[tuple[int, int, int]]], ino: int, offset: int, sector: int, length: int) -> bool:
    """Return whether the sectors hold this offset of the file."""
    return any(
        begin <= sector and sector + length <= begin + count and sector - begin == offset // 512 - first
        for first, begin, count in truth.get(ino, [])
    )


def prepared(top: Path, pick: random.Random) -> None:
    """Create files before the recording, so that the filesystem knows their blocks and the trace does not."""
    for number in range(3):
        (top / f"old{number}").write_bytes(pick.randbytes(1 << 20))


def allocated(top: Path) -> None:
    """Create allocated files with all metadata in memory, so that only data is written afterwards."""
    for number in range(6):
        file = os.open(top / f"new{number}", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(file, 0, SPAN * 4096)
        os.close(file)
    os.sync()


def read_by_sectors(device: str) -> None:
    """Read single sectors of the device itself, as programs do that identify its content."""
    file = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, 512)
        for sector in (0, 1, 3, 101, 1001):
            os.preadv(file, [buffer], sector * 512)
    finally:
        os.close(file)


def directly(top: Path, pick: random.Random, step: int) -> list[Path]:
    """Write and read files with direct I/O in pieces of `step` bytes, without deleting or moving blocks."""
    paths = [top / f"new{number}" for number in range(6)]
    buffer = mmap.mmap(-1, step)
    for path in paths:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        try:
            for at in pick.sample(range(SPAN), 96):
                buffer[:] = pick.randbytes(step)
                os.pwritev(file, [buffer], at * step)
            for at in range(0, SPAN, 53):
                os.preadv(file, [buffer], at * step)
        finally:
            os.close(file)
    return paths


def buffered(top: Path, pick: random.Random) -> list[Path]:
    """Write files through the page cache at random offsets, and read the files from before."""
    paths = [top / f"buffered{number}" for number in range(6)]
    for path in paths:
        with path.open("wb") as out:
            for at in pick.sample(range(64), 32):
                out.seek(at * 5000)
                out.write(pick.randbytes(pick.randrange(1, 9000)))
            out.flush()
            os.fsync(out.fileno())
    old = [top / f"old{number}" for number in range(3)]
    assert all(path.read_bytes() for path in old)
    return paths + old
