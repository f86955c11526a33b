"""Test recordings in which a device gets another filesystem (mkfs)."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import built, loops
from support.blocks import DEV
from support.oracles import remade as oracle

import androstep_analysis as androstep
from androstep_analysis import schema
from androstep_analysis.capture.capture import Capture
from androstep_analysis.link.evidence import remade

UMOUNT, MKFS, MOUNT, SYNC = 10, 20, 30, 40


def fs_events(*rows: tuple[int, str, int, int]) -> pl.DataFrame:
    """Return table fs_events of tuples (time, event, inode, thread)."""
    columns = ("ts_ns", "event", "ino", "tid")
    full = [dict(zip(columns, row, strict=True)) | {"dev": DEV, "nlink": 2} for row in rows]
    return schema.complete(pl.DataFrame(full, schema_overrides=schema.table("fs_events").polars), "fs_events")


def requests(*rows: dict[str, Any]) -> pl.DataFrame:
    types = schema.table("requests").polars
    common = {"dev": DEV, "part_dev": DEV, "part_sector": 0, "nr_sectors": 8, "op": "write", "meta": False}
    return pl.DataFrame(
        [common | {"submit_tid": MKFS, "queue_ns": 50} | row for row in rows],
        schema_overrides={name: types[name] for name in (*common, "submit_tid", "queue_ns")},
    ).with_columns(issue_ns=pl.lit(None, pl.Int64), complete_ns=pl.lit(None, pl.Int64))


USED = (10, "ext4_da_write_begin", 12, SYNC)
UNMOUNTED = (USED, (20, "ext4_evict_inode", 2, UMOUNT), (30, "ext4_evict_inode", 8, UMOUNT))
MOUNTED = (*UNMOUNTED, (70, "ext4_es_cache_extent", 8, MOUNT))
CASES: dict[str, tuple[tuple[tuple[int, str, int, int], ...], dict[str, Any], bool]] = {
    "mkfs": (MOUNTED, {}, True),
    "mkfs at the end": (UNMOUNTED, {}, True),
    "mkfs of F2FS": (((20, "f2fs_evict_inode", 3, UMOUNT),), {}, True),
    "a superblock alone": (MOUNTED, {"part_sector": 2, "nr_sectors": 1}, True),
    "a discard of a device that is not mounted": ((), {"op": "discard", "nr_sectors": 262144}, True),
    "the filesystem's own write": (MOUNTED, {"meta": True}, False),
    "flags are not recorded": (MOUNTED, {"meta": None}, False),
    "a write by the thread that unmounts": (MOUNTED, {"submit_tid": UMOUNT}, False),
    "a write by the thread that mounts": (MOUNTED, {"submit_tid": MOUNT}, False),
    "a write by an unknown thread": (MOUNTED, {"submit_tid": None}, False),
    "another place": (MOUNTED, {"part_sector": 3}, False),
    "a read": (MOUNTED, {"op": "read"}, False),
    "a sync of a mounted filesystem": ((USED,), {"submit_tid": SYNC + 1}, False),
    "mounted again": (MOUNTED, {"queue_ns": 90}, False),
    "another file leaves memory": (((20, "ext4_evict_inode", 12, UMOUNT),), {}, False),
    "no event of the filesystem": ((), {}, False),
}


@pytest.mark.unit
@pytest.mark.parametrize("what", CASES)
def test_what_shows_another_filesystem(what: str) -> None:
    events, request, is_remade = CASES[what]
    rows = fs_events(*events), requests(request)
    expected = {DEV: [request.get("queue_ns", 50)]} if is_remade else {}
    assert remade.times(rows[0].lazy(), rows[1].lazy()) == expected == oracle.times(*rows)


@pytest.mark.unit
def test_times_of_random_recordings_are_those_of_the_oracle() -> None:
    found = 0
    for seed in range(300):
        draw = random.Random(seed)
        times = draw.sample(range(100), 16)
        tids = (UMOUNT, MKFS, MOUNT)
        names = ("ext4_evict_inode", "ext4_evict_inode", "ext4_da_write_begin", "writeback_dirty_folio")
        events = [(ts_ns, draw.choice(names), draw.choice([2, 2, 8]), draw.choice(tids)) for ts_ns in sorted(times[:6])]
        written = requests(
            *(
                {
                    "queue_ns": ts_ns,
                    "submit_tid": draw.choice([*tids, None]),
                    "part_sector": draw.randint(0, 3),
                    "nr_sectors": draw.randint(0, 3),
                    "op": draw.choice(["write", "write", "write", "discard", "read"]),
                    "meta": draw.choice([False, False, True, None]),
                }
                for ts_ns in times[6:]
            )
        )
        expected = oracle.times(fs_events(*events), written)
        assert remade.times(fs_events(*events).lazy(), written.lazy()) == expected
        found += any(written.filter(op="write")["queue_ns"].is_in(expected.get(DEV, [])))
    assert found > 30


def trace(between: tuple[str, ...]) -> bytes:
    """Return a text trace in which four files have a block each, the first of which is read after a mount."""
    lines = []
    for ino, block in ((12, 50), (13, 70), (14, 90), (15, 130)):
        lines += [
            f" app-400 [000] 1.{ino}0000: ext4_allocate_inode: dev 7,0 ino {ino} dir 2 mode 0100644",
            f" app-400 [000] 1.{ino}0001: ext4_es_insert_extent: dev 7,0 ino {ino} es [0/1) mapped {block} status W",
            f" app-400 [000] 1.{ino}0002: block_bio_queue: 7,0 W {block * 8} + 8 [app]",
            f" app-400 [000] 1.{ino}0003: block_rq_issue: 7,0 W 4096 () {block * 8} + 8 [app]",
            f" app-400 [000] 1.{ino}0004: block_rq_complete: 7,0 W () {block * 8} + 8 [0]",
        ]
    lines += [
        " umount-10 [000] 2.000000: ext4_evict_inode: dev 7,0 ino 2 nlink 3",
        " umount-10 [000] 2.000001: ext4_evict_inode: dev 7,0 ino 12 nlink 1",
        *between,
        " mount-30 [000] 4.000000: ext4_es_cache_extent: dev 7,0 ino 8 es [0/1) mapped 23 status W",
        " cat-500 [000] 5.000000: block_bio_queue: 7,0 R 400 + 8 [cat]",
        " cat-500 [000] 5.000001: block_rq_issue: 7,0 R 4096 () 400 + 8 [cat]",
        " cat-500 [000] 5.000002: block_rq_complete: 7,0 R () 400 + 8 [0]",
    ]
    return "".join(f"{line}\n" for line in ["# tracer: nop", *lines]).encode()


WRITTEN = (
    " mkfs-20 [000] 3.000000: block_bio_queue: 7,0 WS 0 + 8 [mkfs]",
    " mkfs-20 [000] 3.000001: block_rq_issue: 7,0 WS 4096 () 0 + 8 [mkfs]",
    " mkfs-20 [000] 3.000002: block_rq_complete: 7,0 WS () 0 + 8 [0]",
)


@pytest.mark.unit
@pytest.mark.parametrize(("between", "later"), [((), 12), (WRITTEN, None)], ids=["mounted again", "mkfs"])
def test_a_block_of_a_file_is_not_its_block_after_mkfs(
    between: tuple[str, ...], later: int | None, tmp_path: Path
) -> None:
    (tmp_path / "trace.txt").write_bytes(trace(between))
    found = androstep.open(tmp_path / "trace.txt")
    rows = found.io.filter(sector=400).sort("queue_ns").select("ino").collect()
    assert rows["ino"].to_list() == [12, later]


# ----------------------------------------------------------------------------------------------------- on this machine

SCRIPT = """
set -e
listed() {
    find "$M" -type f | while read -r f; do echo "F $(stat -c %i "$f") ${f#"$M"}"; filefrag -b512 -v "$f"; done >"$1"
}
written() { head -c "$2" /dev/urandom >"$M/$1"; }
mkdir "$M/new"; written new/first 40000; written gone 30000; sync; rm "$M/gone"
head -c 8192 /dev/urandom | dd of="$M/d1/old1" conv=notrunc status=none; sync; listed "$LOG/first"
umount "$M"; eval "$CHANGE"; mount "$DEV" "$M"
mkdir "$M/other"; written other/second 50000; written again 60000; sync; listed "$LOG/last"
echo 3 >/proc/sys/vm/drop_caches; cat "$M"/*/* "$M/again" >/dev/null
"""


def places(path: Path) -> dict[int, tuple[int, str, int]]:
    """Return inode, path and offset in the file of each sector, from the output of filefrag."""
    found: dict[int, tuple[int, str, int]] = {}
    ino, name = 0, ""
    for line in path.read_text().splitlines():
        if line.startswith("F "):
            _, number, name = line.split(" ", 2)
            ino = int(number)
        elif numbers := re.match(r" *\d+: +(\d+)\.\. *(\d+): +(\d+)\.\.", line):
            first, last, sector = map(int, numbers.groups())
            found |= {sector + i: (ino, name, (first + i) * 512) for i in range(last - first + 1)}
    return found


def judged(capture: Capture, directory: Path) -> Counter[str]:
    """Count the sectors of files by the time (first or last filesystem) and by what is stated of them."""
    truth = {when: places(directory / when) for when in ("first", "last")}
    is_root_gone = (pl.col("event") == "ext4_evict_inode") & (pl.col("ino") == 2)
    (unmounted_ns,) = capture.tables["fs_events"].filter(is_root_gone).select(pl.col("ts_ns").min()).collect().row(0)
    counts: Counter[str] = Counter()
    names = ("op", "queue_ns", "sector", "nr_sectors", "map_source", "ino", "path", "file_offset_bytes")
    for piece in capture.io.filter(pl.col("op").is_in(["read", "write"])).select(names).collect().rows(named=True):
        when = "first" if piece["queue_ns"] < unmounted_ns else "last"
        is_fact = piece["map_source"] not in (None, "inferred")
        for i in range(piece["nr_sectors"]):
            expected = truth[when].get(piece["sector"] + i)
            if expected is None:
                continue
            offset = None if piece["file_offset_bytes"] is None else piece["file_offset_bytes"] + i * 512
            if piece["ino"] is None or not is_fact:
                counts[f"{when} unknown"] += 1
            elif (piece["ino"], offset) != (expected[0], expected[2]) or piece["path"] not in (None, expected[1]):
                counts[f"{when} wrong"] += 1
            else:
                counts[f"{when} {'nameless' if piece['path'] is None else 'right'}"] += 1
    return counts


CHANGES = {
    "mkfs": ("mkfs.ext4 -q -F -b 4096 $DEV", {"first right", "last right"}),
    "mkfs without discards": ("mkfs.ext4 -q -F -b 4096 -E nodiscard $DEV", {"first right", "last right"}),
    "mkfs with other blocks": ("mkfs.ext4 -q -F -b 1024 $DEV", {"first right", "last unknown"}),
    "a copy of another filesystem": (
        "dd if=$LOG/other.img of=$DEV bs=1M status=none",
        {"first right", "last right", "last nameless", "last unknown"},
    ),
    "fsck": ("e2fsck -fy $DEV >/dev/null 2>&1; tune2fs -L label $DEV >/dev/null", {"first right", "last right"}),
    "nothing": ("true", {"first right", "last right"}),
}
"""What happens between two mounts, and what is then stated of the blocks of files."""


@pytest.mark.parametrize("what", CHANGES)
def test_facts_are_those_of_the_filesystem_at_that_time(what: str, tmp_path: Path) -> None:
    command, expected = CHANGES[what]
    if shutil.which("filefrag") is None:
        pytest.skip("filefrag is not installed")
    content = tmp_path / "content"
    (content / "there").mkdir(parents=True)
    for number in range(8):
        (content / "there" / f"file{number}").write_bytes(random.Random(number).randbytes(20_000))
    loops.make_ext4(tmp_path / "other.img", ["-b", "4096", "-d", content])
    loops.make_ext4(tmp_path / "disk", ["-b", "4096"])
    with loops.mounted(tmp_path / "disk") as filesystem:
        (filesystem.top / "d1").mkdir()
        for number in range(4):
            (filesystem.top / "d1" / f"old{number}").write_bytes(random.Random(number).randbytes(30_000))
        subprocess.run(["sync", "-f", filesystem.top], check=True)
        variables = {"M": filesystem.top, "DEV": filesystem.device, "LOG": tmp_path, "CHANGE": command}
        script = ["env", *(f"{name}={value}" for name, value in variables.items()), "sh", "-c", SCRIPT]
        iotrace = built.program("iotrace", "native")
        built.run(iotrace, "-o", tmp_path / "recording", "--device", filesystem.device, "--", *script)
    found = androstep.open(tmp_path / "recording")
    counts = judged(found, tmp_path)
    assert set(counts) == expected and min(counts.values()) >= 50
    alone = Capture(
        found.title, replace(found.manifest, sources=found.manifest.sources[:1]), found._recorded, found.about
    )
    by_image = judged(alone.with_filesystem(after=tmp_path / "disk"), tmp_path)
    assert set(by_image) <= {
        f"{when} {answer}" for when in ("first", "last") for answer in ("right", "nameless", "unknown")
    }
