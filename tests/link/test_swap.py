"""Swap spaces: what proves them, and a recording of a process whose memory the kernel swaps to a device and a file."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import built, loops

import androstep_analysis as androstep
from androstep_analysis.ingest import recording
from androstep_analysis.link.swap import Swap
from androstep_analysis.present import terminal

LIMITED = Path("/sys/fs/cgroup/memory")
"""Memory limits of control groups, version 1."""

EATS = """
import mmap, os, sys
open(sys.argv[1] + "/tasks", "w").write(str(os.getpid()))
memory = mmap.mmap(-1, 48 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for turn in range(2):
    for page in range(0, 48 << 20, 4096):
        memory[page : page + 8] = os.urandom(8)
"""

DEVICE, OTHER = 8 << 20 | 3, 8 << 20 | 4
SPACES = [{"dev": "8:3", "path": "/dev/sda3", "ino": None}, {"dev": "8:4", "path": "/swapfile", "ino": 12}]


def by_hand(piece: dict[str, Any], header_sectors: int) -> bool:
    """Return whether a piece is swap, by the sentence of definitions.toml."""
    if piece["op"] not in ("read", "write") or not piece["nr_sectors"]:
        return False
    if piece["part_dev"] == DEVICE:
        return bool(piece["part_sector"] >= header_sectors)
    is_file = piece["part_dev"] == OTHER and piece["ino"] == 12 and piece["map_source"] == "fiemap"
    return is_file and piece["file_offset_bytes"] is not None and piece["file_offset_bytes"] >= header_sectors * 512


@pytest.mark.unit
@pytest.mark.parametrize(("page_bytes", "header_sectors"), [(4096, 8), (16384, 32), (None, 128)])
def test_requests_that_lie_in_swap_spaces_by_hand(page_bytes: int | None, header_sectors: int) -> None:
    draw = random.Random(header_sectors)
    pieces = [
        {
            "request_id": draw.randrange(400),
            "op": draw.choice(["read", "write", "write", "flush", "discard"]),
            "part_dev": draw.choice([DEVICE, OTHER, 9 << 20]),
            "part_sector": draw.choice([0, 8, 24, 32, 120, 128, 4096]),
            "nr_sectors": draw.choice([0, 8, 8]),
            "ino": draw.choice([None, 11, 12, 12]),
            "map_source": draw.choice([None, "fiemap", "inferred"]),
            "file_offset_bytes": draw.choice([None, 0, 4096, 16384, 1 << 20]),
        }
        for _ in range(900)
    ]
    frame = pl.DataFrame(
        pieces,
        schema_overrides={
            "part_dev": pl.UInt32,
            "ino": pl.Int64,
            "op": pl.Enum(["read", "write", "flush", "discard"]),
        },
    )
    requests = frame.select(pl.col("request_id").unique().sort(), swap=pl.lit(None, pl.Boolean))
    marked = dict(Swap(SPACES, page_bytes).mark_requests(requests, frame).iter_rows())
    of_request: dict[int, list[bool]] = {}
    for piece in pieces:
        of_request.setdefault(piece["request_id"], []).append(by_hand(piece, header_sectors))
    assert marked == {number: True if all(are_swap) else None for number, are_swap in of_request.items()}
    assert {True, None} == {*marked.values()}


@pytest.mark.unit
def test_a_swap_space_counts_only_if_it_was_in_use_at_both_ends() -> None:
    raw = {"swaps": SPACES, "swaps_at_end": SPACES[1:]}
    assert recording._swaps(raw) == SPACES[1:]
    assert recording._swaps({"swaps": SPACES, "swaps_at_end": None}) == []  # the recorder was killed
    assert recording._swaps({}) == []  # an earlier recorder


@contextmanager
def limited(name: str) -> Iterator[Path]:
    """Make a control group with 24 MiB of memory."""
    if not (LIMITED / "memory.limit_in_bytes").exists():
        pytest.skip("no control groups of version 1 that limit memory")
    group = LIMITED / name
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text("24M")
        yield group
    finally:
        group.rmdir()


@contextmanager
def swapping(place: str) -> Iterator[None]:
    subprocess.run(["mkswap", "-q", place], check=True, timeout=60, stderr=subprocess.DEVNULL)
    if subprocess.run(["swapon", place], timeout=60, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("swapon is not permitted")
    try:
        yield
    finally:
        subprocess.run(["swapoff", place], check=True, timeout=60)


def recorded(device: str, group: Path, out: Path) -> androstep.Capture:
    built.run(built.program("iotrace"), "-o", str(out), "--device", device, "--", "python3", "-c", EATS, str(group))
    return androstep.open(out)


def check(capture: androstep.Capture, spaces: list[dict[str, Any]]) -> None:
    """Check that all that the process moved is swap, without an owner of what was written."""
    assert [{**space, "path": Path(space["path"]).name} for space in capture.manifest.swaps] == spaces
    moved = androstep.measures.causes(capture.tables, by=("owner_comm",)).filter(cause="swap", metric="bytes")
    sizes = dict(moved.select(pl.col("op").cast(pl.String), "value").iter_rows())
    # 48 MiB do not fit into 24 MiB, so each turn writes out half of them, and the second reads all of them back.
    assert sizes["write"] >= 24 << 20 and sizes["read"] >= 24 << 20
    owners = set(moved.select(pl.col("op").cast(pl.String), "owner_comm").iter_rows())
    assert owners == {("write", None), ("read", "python3")}
    assert re.search(r"^swap +[\d.]+ MiB out, [\d.]+ MiB in\s+\(\S", terminal.summary(capture, "out"), re.M)


@pytest.mark.root
@pytest.mark.alone
def test_memory_on_a_swap_device(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    with loops.attached(image) as device, limited("androstep-swap") as group:
        with swapping(device):
            capture = recorded(device, group, tmp_path / "out")
        number = f"7:{device.removeprefix('/dev/loop')}"
        check(capture, [{"dev": number, "path": Path(device).name, "ino": None}])
        # Swap that ended meanwhile proves nothing.
        described = tmp_path / "out" / "recording.json"
        described.write_text(json.dumps(json.loads(described.read_text("utf-8")) | {"swaps_at_end": []}), "utf-8")
        assert androstep.open(tmp_path / "out").requests.filter("swap").collect().is_empty()


@pytest.mark.root
@pytest.mark.alone
def test_memory_in_a_swap_file(tmp_path: Path) -> None:
    image = tmp_path / "image"
    loops.make_ext4(image, nr_mib=192)
    with loops.mounted(image) as mounted, limited("androstep-swapfile") as group:
        path = mounted.top / "swapfile"
        path.write_bytes(bytes(96 << 20))
        path.chmod(0o600)
        with swapping(str(path)):
            capture = recorded(mounted.device, group, tmp_path / "out")
        number = f"7:{mounted.device.removeprefix('/dev/loop')}"
        check(capture, [{"dev": number, "path": "swapfile", "ino": path.stat().st_ino}])
        paths = capture.io.join(capture.requests.filter("swap"), on="request_id", how="semi").select("path").unique()
        assert paths.collect()["path"].to_list() == ["/swapfile"]
