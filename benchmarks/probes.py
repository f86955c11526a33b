"""Measure the cost of recording, sampling and watching, and compare iobench and ioreplay with fio."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl
from support import loops
from support.needs import needs

import androstep_analysis as androstep
from androstep_analysis import bench, runs, units
from androstep_analysis.bench import write_fio_job
from androstep_analysis.capture import Capture
from androstep_analysis.datasets import export
from androstep_analysis.device import connect
from androstep_analysis.ingest import record
from androstep_analysis.present.live import Live, totals
from androstep_analysis.replay import device, read
from benchmarks import recordings
from benchmarks.paired import Command, Row, compared, in_turn, probe, run, where

RECORDED = {
    "random writes of 4 KiB with fsync": ((), ("file", "--rw=randwrite", "--mode=fsync", "--size=16m")),
    "transactions of PostMark": ((), ("postmark", "--files=500")),
    "cached reads of 512 bytes, with system calls": (
        ("--preset", "block+fs+syscalls"),
        ("file", "--rw=read", "--bs=512", "--size=16m", "--cache=warm"),
    ),
    "cached reads of 4 KiB, with --readahead": (
        ("--readahead",),
        ("file", "--rw=read", "--bs=4k", "--size=16m", "--cache=warm"),
    ),
}
"""The recorded workloads: options of iotrace and of iobench."""

COMPARED_WITH_FIO = {
    "cached random reads": ("--rw=randread", "--cache=warm"),
    "cached random reads, mmap": ("--rw=randread", "--mode=mmap", "--cache=warm"),
    "buffered writes": ("--rw=write",),
    "buffered random writes": ("--rw=randwrite",),
}
"""Jobs of 4 KiB per operation that stay in the page cache. For other jobs the device would dominate the time."""

CAT = """
while :; do
  cat /proc/stat /proc/meminfo /proc/vmstat /proc/diskstats /proc/net/dev /proc/pressure/* >> "$0"
  sleep 0.1
done
"""
HZ = 10

WRITES = """
import os, sys, time
top, seconds, rate = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
file, page, n = os.open(top + "/busy", os.O_CREAT | os.O_WRONLY), bytes(4096), 0
begin = time.monotonic()
while (now := time.monotonic() - begin) < seconds:
    while n < now * rate:
        os.pwrite(file, page, n % 32768 * 4096)
        n += 1
        if n % 8192 == 0:
            os.fdatasync(file)
    time.sleep(0.005)
used = os.times()
os.sync()
print((used.user + used.system) / n * 1e6)
"""
WRITES_PER_S = 52_000
"""Rate of writes. Each causes about two events: the page is dirtied and later written back."""


@contextlib.contextmanager
def _filesystem() -> Iterator[loops.Mounted]:
    """Mount an ext4 on a loop device over a file in memory, whose own cost is small."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        loops.make_ext4(Path(name) / "image", nr_mib=512)
        with loops.mounted(Path(name) / "image", "noatime") as mounted:
            yield mounted


def _us_per_operation(command: Command, results: Path) -> float:
    """Run iobench, and return the microseconds per operation or transaction."""
    results.unlink(missing_ok=True)
    run((*command, "--record", results))
    rates = bench.measures(bench.read(results).tables).filter(pl.col("metric").is_in(["iops", "tps"]))
    return 1e6 / float(rates["value"].item())


@needs("root")
def recording(seconds: float = 1.0) -> Iterator[Row]:
    """Compare workloads while iotrace records them with the same workloads unrecorded."""
    with _filesystem() as mounted, tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        results = Path(name) / "run.rec"
        for what, (options, words) in RECORDED.items():
            work: Command = (probe("iobench"), *words, "-p", mounted.top, f"--runtime={seconds * 1000:.0f}ms", "-q")
            recorder: Command = (probe("iotrace"), "--device", mounted.device, *options, "-o")
            recorded = partial(_recorded, recorder, work, results)
            peer = partial(_us_per_operation, work, results)
            yield from in_turn(f"{what}, recorded [µs]", recorded, {"not recorded": peer})


def _recorded(recorder: Command, work: Command, results: Path) -> float:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as out:
        return _us_per_operation((*recorder, f"{out}/trace", "--", *work), results)


def sampling(processes: int = 2000) -> Iterator[Row]:
    """Compare procmon with a shell that copies the same files, except those of processes, ten times a second."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, contextlib.ExitStack() as stack:
        for _ in range(processes):
            sleeping = stack.enter_context(subprocess.Popen(["sleep", "infinity"]))
            stack.callback(sleeping.kill)
        samples = Path(name) / "samples"

        def ours() -> float:
            run((probe("procmon"), "-q", "-o", samples, "--hz", str(HZ), "--time", "3"))
            # From the first tick, before which it lists all processes, to the last but one.
            ticks = record.read(samples).tables["tick"][1:-1]
            samples.unlink()
            return float(100 * (ticks["cpu_ns"][-1] - ticks["cpu_ns"][0]) / (ticks["ts_ns"][-1] - ticks["ts_ns"][0]))

        def theirs() -> float:
            began = time.monotonic()
            process = subprocess.Popen(["sh", "-c", CAT, samples])
            time.sleep(3)
            process.terminate()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            return 100 * (usage.ru_utime + usage.ru_stime) / (time.monotonic() - began)

        yield from in_turn(
            f"sample {processes:,} processes at {HZ} Hz [% of a CPU]", ours, {"cat, no processes": theirs}
        )


@needs("root")
def watching(seconds: float = 20.0) -> Iterator[Row]:
    """Compare the bytes in `androstep top` with the kernel's count, and a workload with and without it."""
    with _filesystem() as mounted, connect("local") as local:
        words = [sys.executable, "-c", WRITES, str(mounted.top), str(seconds), str(WRITES_PER_S)]
        moments = []
        with Live(local, trace=[str(mounted.top)]) as live:
            every = iter(live)
            next(every)
            before = _written(mounted.device)
            workload = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            for moment in every:
                moments.append(moment)
                if workload.poll() is not None and moment.requests.is_empty():
                    break
            watched = float(workload.communicate()[0])
            counted = _written(mounted.device) - before
        shown = sum((totals(one)["written_bytes_per_s"] or 0) * one.seconds for one in moments)
        rate = sum(one.events for one in moments) / sum(one.seconds for one in moments)
        lost = sum(one.lost_events for one in moments)
        what = f"androstep top at {rate:,.0f} events/s, {lost} lost"
        yield compared(f"{what}: written [MB]", shown / 1e6, "counted by the kernel", counted / 1e6)
        yield compared(f"{what}: a write [µs of CPU]", watched, "not watched", float(run(words)))


def _written(path: str) -> int:
    """Return the bytes written to a device so far (Documentation/block/stat.rst)."""
    return int((Path("/sys/block") / Path(path).name / "stat").read_text().split()[6]) * units.SECTOR_BYTES


@needs("root")
def iobench(seconds: float = 1.0) -> Iterator[Row]:
    """Compare iobench with fio running the job that ``androstep bench -- --to-fio`` prints.

    Both run on one CPU: on several, the time would depend on which CPU wakes the other.
    """
    with _filesystem() as mounted, tempfile.TemporaryDirectory(dir="/dev/shm") as name, _one_cpu():
        results, job = Path(name) / "run.rec", Path(name) / "job.fio"
        for what, words in COMPARED_WITH_FIO.items():
            limits = ("--size=32m", f"--runtime={seconds * 1000:.0f}ms", "-q")
            work: Command = (probe("iobench"), "file", "-p", mounted.top, *words, *limits)
            job.write_text(write_fio_job.write(runs.described([str(word) for word in work[1:]]) or []))
            ours, theirs = partial(_us_per_operation, work, results), partial(_fio, job, mounted.top)
            yield from in_turn(f"iobench, {what} [µs an operation]", ours, {"fio": where("fio", theirs)})


def _fio(job: Path, directory: Path) -> float:
    jobs = json.loads(run(("fio", "--output-format=json", job), directory))["jobs"]
    return float(1e6 / sum(one[kind]["iops"] for one in jobs for kind in ("read", "write")))


@contextlib.contextmanager
def _one_cpu() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@needs("root")
def replaying(seconds: float = 5.0) -> Iterator[Row]:
    """Replay the first seconds of the demo's requests with ioreplay and fio. The recorded duration is the target."""
    demo = androstep.open(recordings.DEMO)
    assert demo.first_ns is not None
    cut = demo.window(demo.first_ns, demo.first_ns + int(seconds * 1e9))
    # fio before 3.34 does no discards, and a program's discards become holes in its file.
    both = cut.requests.filter(pl.col("op").cast(pl.String).is_in(["read", "write", "flush"]))
    part = Capture(cut.title, cut.manifest, cut.tables | {"requests": both}, cut.about)
    recorded_s = both.select(pl.col("queue_ns").max() - pl.col("queue_ns").min()).collect().item() / 1e9
    program = device.program(part.requests)
    reach = program.operations.select((pl.col("offset_bytes") + pl.col("bytes")).max()).item()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        at = Path(name)
        program.write(at / "program.rec")
        with (at / "log").open("wb") as file:
            export.TARGETS["fio3"].write(part, file)
        with (at / "image").open("wb") as image:
            image.truncate((reach >> 20 << 20) + (1 << 20))
        with loops.attached(at / "image") as target:

            def ours() -> float:
                at.joinpath("results.rec").unlink(missing_ok=True)
                words = ("--target", target, "--allow-device", target, at / "program.rec")
                run((probe("ioreplay"), "-o", at / "results.rec", *words))
                return float(read(at / "results.rec").tables["replay_runs"]["duration_ns"].item()) / 1e9

            def fio() -> float:
                words = (f"--read_iolog={at / 'log'}", f"--replay_redirect={target}", "--direct=1", "--ioengine=libaio")
                results = (f"--output={at / 'out'}", "--output-format=json")
                run(("fio", "--name=replay", *words, f"--iodepth={program.threads.height}", *results))
                printed = (at / "out").read_text()
                (job,) = json.JSONDecoder().raw_decode(printed[printed.index("{") :])[0]["jobs"]
                return float(job["job_runtime"]) / 1e3

            peers = {"fio": where("fio", fio), "recorded": lambda: recorded_s}
            yield from in_turn("replay the requests of the demo [s]", ours, peers)
