"""Compare requests and sectors of a recording with the kernel's counters while processes use the same blocks.

`/sys/block/NAME/stat` counts requests and sectors of each operation when they complete (Documentation/block/stat.rst).
It is read before and after, while the device is idle. Its counters do not depend on tracepoints.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from support import built, loops, tracing

from androstep_analysis import ingest
from androstep_analysis.link import requests

BYTES = 64 << 20
SHARED_BYTES = 8 << 20
"""All processes use these bytes at the beginning of the device."""
MOVES = 300
"""Reads, writes and discards of each process: few enough that no buffer overflows on a busy machine."""
END_BYTE = (4 << 20) + 3 * 4096
"""Size of the file of a device that completes reads in part."""

MIXED = ("direct",) * 3 + ("dsync", "buffered", "buffered", "discard")
READ_ONLY = ("read",) * 4 + ("read buffered",) * 2

WORKLOAD = """
import errno, fcntl, mmap, os, random, struct, sys

device, span, moves, roles = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")

def move(chance, fd, role, buffer):
    sizes = (65536, 524288) if "read" in role else (512, 4096, 65536, 524288, chance.randrange(1, 256) * 512)
    size = chance.choice(sizes)
    at = chance.randrange(0, span - size) // 4096 * 4096
    part = memoryview(buffer)[:size]
    if role == "discard":
        fcntl.ioctl(fd, 0x1277, struct.pack("QQ", at, size))  # BLKDISCARD
    elif "read" in role or chance.random() < 0.5:
        os.preadv(fd, [part], at)
    else:
        os.pwritev(fd, [part], at)
    if "read" not in role and chance.random() < 0.03:
        os.fsync(fd)
    if "buffered" in role and chance.random() < 0.05:
        os.posix_fadvise(fd, 0, span, os.POSIX_FADV_DONTNEED)

def work(seed, role):
    chance, buffer = random.Random(seed), mmap.mmap(-1, 1 << 20)
    further = os.O_DIRECT * ("buffered" not in role) | os.O_DSYNC * (role == "dsync")
    fd = os.open(device, os.O_RDWR | further)
    for _ in range(moves):
        try:
            move(chance, fd, role, buffer)
        except OSError as error:
            # Pages that are written meanwhile cannot be dropped for a direct write; a short file cannot be read.
            if error.errno != errno.EIO:
                raise

for seed, role in enumerate(roles):
    if os.fork() == 0:
        work(seed, role)
        os._exit(0)
assert not any(os.wait()[1] for _ in roles)
fd = os.open(device, os.O_RDWR)
try:
    os.fsync(fd)
except OSError:
    pass
"""


class Queue(NamedTuple):
    """Settings of the device's queue, and whether the driver may complete requests in part."""

    scheduler: str
    max_sectors_kb: int
    roles: tuple[str, ...] = MIXED
    is_short: bool = False


QUEUES = {
    "small": Queue("none", 16),
    "merging": Queue("mq-deadline", 64),
    "large": Queue("none", 1280),
    "in part": Queue("none", 64, READ_ONLY, is_short=True),
    "in part, split": Queue("mq-deadline", 16, READ_ONLY, is_short=True),
}


def counted(name: str) -> dict[str, tuple[int, int]]:
    """Wait until the device is idle, and return requests and sectors of each operation."""
    deadline = time.monotonic() + 30
    while True:
        fields = [int(word) for word in Path(f"/sys/block/{name}/stat").read_text().split()]
        if not fields[8]:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    at = {"read": (0, 2), "write": (4, 6), "discard": (11, 13)}
    return {op: (fields[count], fields[sectors]) for op, (count, sectors) in at.items()} | {"flush": (fields[15], 0)}


@contextlib.contextmanager
def prepared(directory: Path, queue: Queue) -> Iterator[str]:
    """Create a loop device with this queue."""
    image = directory / "disk.img"
    with image.open("wb") as file:
        file.truncate(BYTES)
    with loops.attached(image) as device:
        settings = Path(f"/sys/block/{Path(device).name}/queue")
        if queue.scheduler not in (settings / "scheduler").read_text():
            pytest.skip(f"this kernel has no scheduler {queue.scheduler}")
        wanted = {"scheduler": queue.scheduler, "max_sectors_kb": str(queue.max_sectors_kb)}
        before = {name: (settings / name).read_text() for name in wanted}
        for name, value in wanted.items():
            (settings / name).write_text(value)
        # A read beyond the end of the file completes in part, if the driver does direct I/O (loop.c, lo_complete_rq).
        subprocess.run(["losetup", f"--direct-io={'on' if queue.is_short else 'off'}", device], check=True)
        if queue.is_short:
            os.truncate(image, END_BYTE)
        try:
            yield device
        finally:  # the kernel keeps them for the next use of the device
            (settings / "max_sectors_kb").write_text(before["max_sectors_kb"])
            (settings / "scheduler").write_text(before["scheduler"].partition("[")[2].partition("]")[0])


@contextlib.contextmanager
def traced(instance: Path, dev: int) -> Iterator[None]:
    """Record all block events of the device, and check that none is lost."""
    (instance / "buffer_size_kb").write_text("65536")
    (instance / "trace_clock").write_text("mono")
    for event in (instance / "events/block").iterdir():
        if event.is_dir() and "dev_t dev;" in (event / "format").read_text():
            (event / "filter").write_text(f"dev == {dev}")
    (instance / "events/block/enable").write_text("1")
    yield
    (instance / "tracing_on").write_text("0")
    for stats in instance.glob("per_cpu/cpu*/stats"):
        assert re.findall(r"^(?:overrun|commit overrun|dropped events): (\d+)", stats.read_text(), re.M) == ["0"] * 3


def found(trace: Path, dev: int) -> dict[str, tuple[int, int]]:
    """Return requests and sectors of each operation of a trace as `counted` does, after checking that all completed."""
    staging = ingest.read(trace)
    assert not staging.lost_events
    linked = requests.link(staging.block).joined()
    rows = linked.requests.filter(pl.col("dev") == dev)
    assert set(rows["matched"].unique()) <= {"full", "split", "requeued", "interchangeable"}
    queued = staging.block.filter(pl.col("action") == "queue", pl.col("dev") == dev, pl.col("nr_sectors") > 0)
    asked = queued.group_by("tid").agg(pl.col("nr_sectors").sum()).sort("tid").collect()
    moved = linked.bios.join(rows.select("request_id"), on="request_id", how="semi")
    assert moved.group_by(tid="submit_tid").agg(pl.col("nr_sectors").sum()).sort("tid").equals(asked)
    by_op = rows.group_by(pl.col("op").cast(pl.String)).agg(pl.len(), pl.col("nr_sectors").sum())
    return {op: (count, sectors) for op, count, sectors in by_op.rows()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "in part" else pytest.mark.prove) for name in QUEUES]
)
def test_requests_and_sectors_are_those_that_the_kernel_counted(name: str, tmp_path: Path) -> None:
    queue, text, recording = QUEUES[name], tmp_path / "trace.txt", tmp_path / "recording"
    with prepared(tmp_path, queue) as device, tracing.instance(tmp_path) as instance:
        rdev = Path(device).stat().st_rdev
        dev = os.major(rdev) << 20 | os.minor(rdev)
        work = [sys.executable, "-c", WORKLOAD, device, str(SHARED_BYTES), str(MOVES), ",".join(queue.roles)]
        recorder = [built.program("iotrace"), "-o", recording, "--preset", "block", "--device", device]
        before = counted(Path(device).name)
        with traced(instance, dev):
            built.run(*recorder, "--buffer", "65536", "--", *work)
            after = counted(Path(device).name)
        text.write_bytes((instance / "trace").read_bytes())
        tracing.extract(instance, tmp_path / "extracted.dat")
    want = {op: (after[op][0] - before[op][0], after[op][1] - before[op][1]) for op in before}
    # The kernel counts an empty flush bio as a write without sectors. It is not a request in the trace.
    flushes = len(re.findall(r"block_bio_queue: \S+ FWS? \d+ \+ 0 ", text.read_text()))
    want["write"] = want["write"][0] - flushes, want["write"][1]
    want = {op: counts for op, counts in want.items() if counts != (0, 0)}
    for trace in (text, tmp_path / "extracted.dat", recording / "trace.dat"):
        assert found(trace, dev) == want, trace.name
