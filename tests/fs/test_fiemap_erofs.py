"""Compare extmap on mounted erofs, uncompressed and compressed, with dump.erofs on the same image."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from support import built
from support.loops import mounted
from support.needs import left_to_prove

from androstep_analysis.fs import fiemap
from androstep_analysis.ingest import record

OPTIONS = {
    "plain": [],
    "chunks": ["--chunksize=4096"],  # equal ones are stored once
    "lz4": ["-zlz4"],
    "lz4hc": ["-zlz4hc,9", "-C65536"],
    "packed": ["-zlz4hc", "-Eztailpacking"],
    "fragments": ["-zlz4hc", "-C16384", "-Efragments"],
    "deduplicated": ["-zlz4hc", "-C16384", "-Ededupe"],
}
WHOLE = ("plain", "lz4", "lz4hc")
"""Variants for which all blocks are known except the ends of files next to their inodes."""

_EXTENT = re.compile(r"^ *\d+: +\d+\.\. *\d+ \| +\d+ : +(\d+)\.\. *(\d+) \| +\d+", re.MULTILINE)
BLOCK = 4096


def fill(top: Path) -> None:
    """Create files of all lengths with compressible, incompressible and equal data.

    All words have at least 40 bytes, because lz4hc needs minutes for megabytes of shorter ones.
    """
    draw = random.Random(0)
    shared = draw.randbytes(100_000)
    for number in range(60):
        words = [draw.randbytes(draw.choice([40, 700])) for _ in range(12)]
        size = draw.choice([0, 1, 100, 4096, 5000, 60_000, 300_000, 900_000])
        kind = draw.choice(["words", "random", "mixed", "shared"])
        data = bytearray()
        while len(data) < size:
            is_random = kind == "random" or (kind == "mixed" and draw.random() < 0.3)
            data += draw.randbytes(3000) if is_random else shared if kind == "shared" else draw.choice(words)
        path = top / f"d{number % 5}" / f"{kind} {number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[:size])
    os.link(next((top / "d0").iterdir()), top / "again")


def blocks_by_dump(image: Path, path: str) -> set[int]:
    """Return the blocks of a file from dump.erofs."""
    shown = subprocess.run(
        ["dump.erofs", f"--path={path}", "-e", image], check=True, capture_output=True, text=True
    ).stdout
    found: set[int] = set()
    for begin, end in _EXTENT.findall(shown):
        found.update(range(int(begin) // BLOCK, -(-int(end) // BLOCK)))
    return found


@pytest.mark.root
@pytest.mark.parametrize("name", left_to_prove(OPTIONS, set([*OPTIONS][:2]).__contains__))
def test_the_blocks_of_files_are_those_of_the_image(tmp_path: Path, name: str) -> None:
    if shutil.which("mkfs.erofs") is None:
        pytest.skip("mkfs.erofs is not installed")
    source = tmp_path / "source"
    source.mkdir()
    fill(source)
    made = subprocess.run(["mkfs.erofs", *OPTIONS[name], tmp_path / "image", source], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with mounted(tmp_path / "image", "ro") as filesystem:
        built.run(built.program("extmap", "native"), "-o", tmp_path / "listing", filesystem.top)
    (listing,) = fiemap.listings(record.read(tmp_path / "listing"))
    found = listing.extents.join(listing.files.select("ino", "path"), on="ino").filter(block_type="data")
    claimed: dict[str, set[int]] = {}
    for path, sector, length in found.select("path", "sector", "nr_sectors").rows():
        claimed.setdefault(path, set()).update(range(sector // 8, -(-(sector + length) // 8)))
    nr_true = nr_claimed = 0
    for path in listing.files.filter(~pl.col("path").is_in(["/", *(f"/d{n}" for n in range(5))]))["path"]:
        true = blocks_by_dump(tmp_path / "image", path)
        assert claimed.get(path, set()) <= true, path
        nr_true, nr_claimed = nr_true + len(true), nr_claimed + len(claimed.get(path, ()))
    losses = {loss.kind: loss.count for loss in listing.losses}
    if name in WHOLE:
        assert nr_true - nr_claimed <= losses.pop("inline")
        assert not losses
    assert nr_claimed > 0.5 * nr_true
