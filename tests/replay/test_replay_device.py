"""Programs of block devices: lanes and orders against their definitions, and real requests done again elsewhere."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import built, loops
from support.made import table
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import cli, runs, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.datasets import export
from androstep_analysis.replay import device
from androstep_analysis.replay.program import Program, read

DEV = units.parse_dev("8:0")


def requests(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    """Table `requests`: a written page of 8:0 that begins and ends immediately, unless a row differs."""
    usual = {
        **{"dev": DEV, "part_dev": DEV, "sector": 8, "part_sector": 8, "nr_sectors": 8, "op": "write"},
        **dict.fromkeys(("sync", "meta", "fua", "preflush", "readahead"), False),
        **{"nr_bios": 1, "matched": "full", "error": 0, "queue_ns": 0, "complete_ns": 0},
    }
    return table("requests", [{"request_id": number, **usual, **row} for number, row in enumerate(rows)]).lazy()


def calls(program: Program) -> list[tuple[Any, ...]]:
    """Return the operations without the first, the open of the device."""
    opened = program.operations.row(0, named=True)
    assert (opened["call"], opened["path"], opened["descriptor"], opened["flags"]) == ("open", "device", 0, 0o40002)
    columns = ("call", "inserted", "offset_bytes", "bytes", "flags", "ts_ns", "duration_ns", "failed", "result")
    return program.operations[1:].select(columns).rows()


def accepted(program: Program, path: Path) -> None:
    program.write(path)
    built.run(built.program("ioreplay"), "--dry-run", "--target", path.with_suffix(".target"), path)


def test_each_operation_becomes_its_call(tmp_path: Path) -> None:
    rows = [
        {"op": "read", "queue_ns": 100, "complete_ns": 150},
        {"queue_ns": 200, "complete_ns": 250, "sector": 16},
        {"queue_ns": 300, "complete_ns": 350, "fua": True},
        {"queue_ns": 400, "complete_ns": 450, "preflush": True, "fua": True},
        {"op": "flush", "queue_ns": 500, "complete_ns": 550, "sector": None, "nr_sectors": 0, "preflush": True},
        {"op": "discard", "queue_ns": 600, "complete_ns": 650, "nr_sectors": 1 << 24},
        {"op": "read", "queue_ns": 700, "complete_ns": 750, "error": -5},
        {"op": "read", "queue_ns": None, "issue_ns": 800, "complete_ns": None, "error": None},
    ]
    made = device.program(requests(rows))
    assert calls(made) == [
        ("pread", False, 4096, 4096, None, 0, 50, False, 4096),
        ("pwrite", False, 8192, 4096, None, 100, 50, False, 4096),
        ("pwritev", False, 4096, 4096, 2, 200, 50, False, 4096),
        ("fdatasync", True, None, None, None, 300, None, None, None),
        ("pwritev", False, 4096, 4096, 2, 300, 50, False, 4096),
        ("fdatasync", False, None, None, None, 400, 50, False, 0),
        ("fallocate", False, 4096, 1 << 33, 3, 500, 50, False, 0),
        ("pread", False, 4096, 4096, None, 600, 50, True, -5),
        ("pread", False, 4096, 4096, None, 700, None, None, None),
    ]
    assert made.files.select("path", "inode_type", "size_bytes").rows() == [("device", "file", 4096 + (1 << 33))]
    assert (made.duration_ns, made.threads.height, made.is_device) == (700, 1, True)
    accepted(made, tmp_path / "a.rec")
    assert read(tmp_path / "a.rec").is_device


def test_what_cannot_be_done_again_is_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {},
        {"op": "zone"},
        {"op": "other", "nr_sectors": 16},
        {"op": "other", "nr_sectors": 16},
        {"op": "read", "sector": None},
        {"op": "read", "nr_sectors": (1 << 21) + 8},
        {"dev": 5},
    ]
    table = requests(rows)
    assert device.left_out(table, dev=DEV).rows() == [
        ("longer than 1 GiB", "read", 1, (1 << 30) + 4096),
        ("no place", "read", 1, 4096),
        ("no such call", "other", 2, 16384),
        ("no such call", "zone", 1, 4096),
    ]
    assert len(calls(device.program(table, dev=DEV))) == 1
    with pytest.raises(InputError, match=r"several devices \(0:5, 8:0\)"):
        device.program(table)
    with pytest.raises(InputError, match="no request of device 9:0; the capture has 0:5, 8:0"):
        device.program(table, dev=units.parse_dev("9:0"))
    with pytest.raises(InputError, match="no request that can be replayed"):
        device.program(requests([{"op": "zone"}]))
    with pytest.raises(InputError, match="no requests of block devices"):
        device.program(requests([]))


def test_flushes_that_the_recording_shows_are_not_done_twice(tmp_path: Path) -> None:
    """A write with preflush and FUA, as the block layer does it on a device without FUA, and on one with."""
    flush = {"op": "flush", "sector": None, "nr_sectors": 0, "preflush": True, "queue_ns": None, "rwbs": "FF"}
    whole = {"preflush": True, "fua": True, "queue_ns": 100}
    rows = [
        {**whole, "issue_ns": 210, "complete_ns": 250, "rwbs": "WSM"},
        {**flush, "issue_ns": 110, "complete_ns": 200},
        {**flush, "issue_ns": 260, "complete_ns": 290},
        {**whole, "queue_ns": 400, "issue_ns": 510, "complete_ns": 550, "rwbs": "WFSM"},
        {**flush, "issue_ns": 410, "complete_ns": 500},
    ]
    made = device.program(requests(rows))
    accepted(made, tmp_path / "a.rec")
    assert made.operations[1:].select("call", "ts_ns", "flags", "inserted").rows() == [
        ("fdatasync", 0, None, False),
        ("pwrite", 100, None, False),
        ("fdatasync", 150, None, False),
        ("fdatasync", 300, None, False),
        ("pwritev", 400, 2, False),
    ]


# -- lanes and orders against their definitions -----------------------------------------------------------------------


def drawn(seed: int) -> list[dict[str, Any]]:
    """Draw requests that overlap, with flushes among them. Times are few, so that many are equal."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(chance.randint(1, 60)):
        begin = chance.randrange(120)
        end = None if chance.random() < 0.1 else begin + chance.choice([0, 1, 3, 10, 40])
        op = chance.choice(["read", "write", "write", "flush", "discard"])
        rows.append(
            {"op": op, "queue_ns": begin, "complete_ns": end, "preflush": op == "write" and chance.random() < 0.3}
        )
    return rows


def reached(program: Program) -> list[int]:
    """Return for each operation the set of all earlier ones, by its thread and the dependencies, as bits."""
    waits: dict[int, list[int]] = {}
    for later, earlier in program.dependencies.rows():
        waits.setdefault(later, []).append(earlier)
    before: list[int] = []
    last: dict[int, int] = {}
    for number, thread in program.operations.select("operation", "thread").rows():
        known = [*waits.get(number, []), *([last[thread]] if thread in last else [])]
        before.append(0)
        for earlier in known:
            before[number] |= before[earlier] | 1 << earlier
        last[thread] = number
    return before


@pytest.mark.parametrize("seed", range(3))
def test_ioreplay_takes_what_is_made_of_any_requests(seed: int, tmp_path: Path) -> None:
    accepted(device.program(requests(drawn(seed))), tmp_path / "a.rec")


@pytest.mark.prove
@settings(max_examples=80)
@given(st.integers(0, 1 << 32))
def test_lanes_and_orders_are_those_of_the_definition(seed: int) -> None:
    rows = sorted(drawn(seed), key=lambda row: int(row["queue_ns"]))
    made = device.program(requests(rows))
    first_ns = rows[0]["queue_ns"]
    own = made.operations.filter(~pl.col("inserted"))
    assert own["ts_ns"].to_list() == [row["queue_ns"] - first_ns for row in rows]
    numbers, threads = own["operation"].to_list(), own["thread"].to_list()
    begins = [row["queue_ns"] for row in rows]
    ends = [row["queue_ns"] if row["complete_ns"] is None else row["complete_ns"] for row in rows]

    # Never two at a time on a thread, and no more threads than there were requests at a time.
    for one in range(len(rows)):
        for other in range(one):
            assert threads[one] != threads[other] or ends[other] <= begins[one]
    depth = max(
        sum(begins[other] <= begin < ends[other] or other == one for other in range(one + 1))
        for one, begin in enumerate(begins)
    )
    assert made.threads.height == len(set(threads)) == depth

    # Every order of the definition is kept.
    before = reached(made)
    is_flush = [row["op"] == "flush" or row["preflush"] for row in rows]
    firsts = [number - row["preflush"] for number, row in zip(numbers, rows, strict=True)]
    meant = set()
    for later in range(len(rows)):
        for earlier in range(later):
            ended = rows[earlier]["complete_ns"] is not None and ends[earlier] <= begins[later]
            writes = rows[earlier]["op"] in ("write", "discard")
            if ended and (is_flush[earlier] or (writes and is_flush[later] and rows[later]["complete_ns"] is not None)):
                assert before[firsts[later]] >> numbers[earlier] & 1, (later, earlier)
                meant.add((firsts[later], numbers[earlier]))

    # None is there without cause, and none twice; all wait for the open.
    assert made.dependencies.n_unique() == made.dependencies.height
    assert {pair for pair in made.dependencies.rows() if pair[1] != 0} <= meant
    assert all(known & 1 for known in before[1:])


# -- real requests ----------------------------------------------------------------------------------------------------

WORK = """
import os, sys, threading

def work(number):
    for round in range(20):
        file = os.open(f"{sys.argv[1]}/{number}.{round}", os.O_RDWR | os.O_CREAT)
        os.pwrite(file, bytes(4096 * (1 + round % 5)), 0)
        os.fsync(file)
        os.close(file)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def record(out: Path, traced: str, *words: str | Path) -> None:
    """Record the requests of a device while a command runs."""
    iotrace = [built.program("iotrace", "native"), "-o", out, "--preset", "block", "--device", traced, "--"]
    done = subprocess.run([*iotrace, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def told(out: Path, name: str) -> list[tuple[Any, ...]]:
    """Return operation, sector and length of the replayable requests of device `name` in a recording, sorted."""
    dev = Path(name).stat().st_rdev
    of_device = pl.col("dev") == (os.major(dev) << 20 | os.minor(dev))
    op = pl.col("op").cast(pl.String)
    found = androstep.open(out).requests.filter(of_device, op != "other").collect()  # mkfs leaves zeroes to be written
    return sorted(found.select(op, "sector", "nr_sectors").rows(), key=repr)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_replay_makes_the_recorded_requests(tmp_path: Path) -> None:
    """ext4 with a journal, four threads that write and sync; the other device gets the same requests, in any order."""
    loops.make_ext4(tmp_path / "image")
    with loops.mounted(tmp_path / "image") as mounted:
        record(tmp_path / "recorded", mounted.device, sys.executable, "-c", WORK, mounted.top)
        recorded = told(tmp_path / "recorded", mounted.device)
        dev = Path(mounted.device).stat().st_rdev
    words = ["--device", f"{os.major(dev)}:{os.minor(dev)}", "-o", str(tmp_path / "device.rec")]
    assert cli.main(["program", str(tmp_path / "recorded"), *words]) == 0
    with (tmp_path / "other").open("wb") as other:
        other.truncate((tmp_path / "image").stat().st_size)
    with loops.attached(tmp_path / "other") as target:
        replay = [built.program("ioreplay", "native"), "--target", target, "--allow-device", target]
        record(tmp_path / "replayed", target, *replay, tmp_path / "device.rec")
        replayed = told(tmp_path / "replayed", target)
    assert sum(op == "flush" for op, *_ in recorded) > 20 and sum(op == "write" for op, *_ in recorded) > 80
    assert replayed == recorded


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio_and_ioreplay_do_the_same(tmp_path: Path) -> None:
    """The requests of a part of the demo, each by its own way: the program, and the iolog that fio reads."""
    demo = androstep.open(ROOT / "datasets" / "demo")
    assert demo.first_ns is not None
    part = demo.window(demo.first_ns, demo.first_ns + 2_000_000_000)
    op = pl.col("op").cast(pl.String)
    asked = part.requests.group_by(op).agg(pl.len(), pl.col("nr_sectors").sum() * units.SECTOR_BYTES).collect()
    expected = {kind: (count, moved) for kind, count, moved in asked.rows() if kind in ("read", "write", "flush")}
    assert all(count > 20 for count, _ in expected.values()) and len(expected) == 3

    device.program(part.requests).write(tmp_path / "program.rec")
    options = ["--mode", "as-fast"]
    done = runs.replay(tmp_path / "program.rec", tmp_path / "ours", options, out=tmp_path / "replay")
    assert done.status == 0 and done.capture is not None
    calls = {"pread": "read", "pwrite": "write", "pwritev": "write", "fdatasync": "flush"}
    kind = pl.col("call").cast(pl.String).replace_strict(calls, default=None)
    results = done.capture.replay["replay_ops"].filter(~pl.col("inserted"))
    by_us = results.group_by(kind).agg(pl.len(), pl.col("bytes").fill_null(0).sum()).drop_nulls()
    assert {name: (count, moved) for name, count, moved in by_us.rows()} == expected

    with (tmp_path / "log").open("wb") as log:
        export.write(part, "fio3", log)
    kept = [line for line in (tmp_path / "log").read_text().splitlines(keepends=True) if " trim " not in line]
    (tmp_path / "log").write_text("".join(kept))  # fio 3.39 trims block devices only, and ends at one of a file
    with (tmp_path / "fios").open("wb") as target:
        target.truncate(64 << 20)
    words = [f"--read_iolog={tmp_path / 'log'}", f"--replay_redirect={tmp_path / 'fios'}", "--replay_no_stall=1"]
    outputs = ["--output-format=json", f"--output={tmp_path / 'told'}"]
    fio = ["fio", "--name=replay", "--ioengine=psync", *words, *outputs]
    subprocess.run(fio, check=True, capture_output=True, cwd=tmp_path, timeout=300)
    text = (tmp_path / "told").read_text()
    told = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["jobs"][0]
    by_fio = {name: (told[name]["total_ios"], told[name]["io_bytes"]) for name in ("read", "write")}
    assert by_fio | {"flush": (told["sync"]["total_ios"], 0)} == expected and told["error"] == 0
