"""iobench beside fio and Mobibench: the same work on the same filesystem, by one after the other in turn.

``python benchmarks/iobench.py [--repeats N] [--seconds S] [--mobibench REPOSITORY] [--only WORD …]``. Needs root, loop
devices and `make probes`; fio is measured where it is installed, the original Mobibench where a clone of its repository
(https://github.com/ESOS-Lab/Mobibench) is given: it is compiled for the run, with the system's libsqlite3.

The ext4 lies on a loop device over a file in memory: the device costs little, so that what the programs themselves
cost shows. All of them, and the kernel's workers that are the device, run on one CPU: else it is chance which CPU wakes
which, and that is more than all the rest (a factor of two between runs of one program). A ratio is iobench's rate by
the other's in the same round; the order changes from round to round. fio runs the job that ``iobench --to-fio`` prints.
Of both, short runs are traced by strace before, and their calls per operation compared: where these differ, it is not
the same work, and the line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from androstep_analysis import bench

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import loops

PROBES = Path(__file__).resolve().parents[1] / "build" / "probes"
IOBENCH = PROBES / "native" / "iobench"
WORKERS = Path("/sys/devices/virtual/workqueue/cpumask")
NEAR = 0.03
"""Ratios further from 1 are marked."""

IMAGE_MIB = 1000
FILE_BYTES = 32 << 20
COLD_BYTES = 400 << 20
FAST_KIB, DIRECT_KIB, SLOW_KIB = 512 << 10, 128 << 10, 32 << 10
"""Of Mobibench's files: in the page cache, with O_DIRECT, and with a sync after each write."""

SQLITE_TRANSACTIONS = 3000

TRACED_OPS = 1024
TRACED_BYTES = TRACED_OPS * 4096
IO_CALLS = re.compile(r"p(read|write)(64|v2?)|f(data)?sync|msync|sync_file_range|io_uring_enter")
"""Of the measurement: fio lays its files out with read and write."""


# -- the programs -----------------------------------------------------------------------------------------------------


def output(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program that ends well prints."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def rate(printed: str) -> float:
    """Operations per second in the JSON of fio: reads and writes, of all jobs."""
    jobs = json.loads(printed)["jobs"]
    return float(sum(job[kind]["iops"] for job in jobs for kind in ("read", "write")))


def recorded(command: Sequence[str | Path], top: Path) -> float:
    """Operations per second of a run of iobench, of any workload."""
    with tempfile.TemporaryDirectory(prefix="androstep-bench-") as name:
        path = Path(name) / "run.rec"
        output(*command, "--record", path, cwd=top)
        (found,) = bench.measures(bench.read(path).tables).filter(pl.col("metric").is_in(["iops", "tps"]))["value"]
    return float(found)


def mobibench(repository: Path, directory: Path) -> Path:
    """The original, compiled from a clone (or the git directory of one) into `directory`."""
    source = output("git", "-C", repository, "show", "HEAD:shell/mobibench.c")
    program = directory / "mobibench"
    command = ("gcc", "-O2", "-w", "-x", "c", "-", "-o", program, "-lsqlite3", "-lpthread")
    subprocess.run(command, input=source, text=True, check=True)
    return program


def mobibench_rate(printed: str) -> float:
    """Records of 4 KiB, or transactions, per second in Mobibench's line of the result."""
    found = re.search(r"([\d.]+) KB/sec", printed)
    if found:
        return float(found[1]) / 4
    found = re.search(r"([\d.]+) Transactions/sec", printed)
    if not found:
        sys.exit(f"mobibench has printed no rate: {printed}")
    return float(found[1])


# -- rounds -----------------------------------------------------------------------------------------------------------

Measure = Callable[[], float]


def rounds(one: Measure, other: Measure, repeats: int) -> list[tuple[float, float]]:
    """The rates of both, `repeats` times, each going first in every second round."""
    pairs = []
    for number in range(repeats):
        os.sync()
        if number % 2:
            second = other()
            pairs.append((one(), second))
        else:
            first = one()
            pairs.append((first, other()))
    return pairs


def show(title: str, pairs: Sequence[tuple[float, float]], remark: str = "") -> None:
    """A line: median rates, the median of the ratios, their least and most, and the ratio of the best rates: what else
    the machine does only ever takes away from a rate."""
    ratios = [one / other for one, other in pairs]
    ratio = statistics.median(ratios)
    one, other = (statistics.median(values) for values in zip(*pairs, strict=True))
    best = max(rate for rate, _ in pairs) / max(rate for _, rate in pairs)
    mark = "  <-- " if abs(best - 1) > NEAR or remark else ""
    spread = f"({min(ratios):.3f} .. {max(ratios):.3f})"
    print(f"{title:38}{one:12.0f}{other:12.0f}{ratio:9.3f}  {spread:18}{best:7.3f}{mark}{remark}", flush=True)


def heading(title: str, other: str) -> None:
    print(f"\n{title}\n{'':38}{'iobench':>12}{other:>12}{'ratio':>9}  {'least .. most':18}{'best':>7}", flush=True)


# -- fio --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One measurement, as iobench's options."""

    title: str
    options: tuple[str, ...]


def file_cases() -> Iterator[Case]:
    """Every access in every mode in which it makes a difference, and with workers."""
    uring = [(f"io_uring direct depth {depth}", (f"--iodepth={depth}",)) for depth in (1, 8, 32)]
    for rw in ("read", "randread", "write", "randwrite"):
        modes = ["buffered", "direct", "mmap"]
        if "write" in rw:
            modes += ["osync", "odsync", "fsync", "fdatasync", "direct_osync"]
        for mode in modes:
            yield Case(f"{rw} {mode}", (f"--rw={rw}", f"--mode={mode}"))
        for name, depth in uring:
            yield Case(f"{rw} {name}", (f"--rw={rw}", "--ioengine=io_uring", "--direct=1", *depth))
    for rw, mode in (
        ("randread", "buffered"),
        ("randread", "direct"),
        ("randwrite", "buffered"),
        ("randwrite", "fsync"),
    ):
        for workers in (4, 32):
            yield Case(f"{rw} {mode}, {workers} threads", (f"--rw={rw}", f"--mode={mode}", f"--numjobs={workers}"))


def asked(case: Case, top: Path, *more: str) -> list[str | Path]:
    """iobench with the files of all workers together FILE_BYTES large; buffered reads find them in the page cache."""
    workers = next((int(word.split("=")[1]) for word in case.options if word.startswith("--numjobs")), 1)
    cached = case.options[0] in ("--rw=read", "--rw=randread") and not any("direct" in word for word in case.options)
    cache = "warm" if cached else "cold"
    words = [f"--size={FILE_BYTES // workers}", *case.options, f"--cache={cache}", "-q", *more]
    return [IOBENCH, "file", "-p", top, *words]


def fio(job: Path, top: Path) -> list[str | Path]:
    return ["fio", "--output-format=json", f"--aux-path={top}", job]


def calls(trace: Path) -> dict[str, float]:
    """Calls per operation, by name, of `strace -c`; without the few that are made before and after."""
    counted = {}
    for line in trace.read_text().splitlines():
        *_, name = fields = line.split() or [""]
        if IO_CALLS.fullmatch(name):
            each = round(int(fields[3]) / TRACED_OPS, 1)
            if each >= 0.5:
                counted[name] = each
    return counted


def difference(case: Case, top: Path, scratch: Path) -> str:
    """What one calls and the other does not; empty where they do the same."""
    short = (f"--size={TRACED_BYTES}", f"--number_ios={TRACED_OPS}")
    job, trace = scratch / "short.fio", scratch / "trace"
    command = [word for word in asked(case, top) if not str(word).startswith("--size")] + list(short)
    job.write_text(output(*command, "--to-fio"))
    found = []
    for program in (command, fio(job, top)):
        output("strace", "-f", "-c", "-o", trace, *program, cwd=top)
        found.append(calls(trace))
    return "" if found[0] == found[1] else f"calls per operation: {found[0]} and {found[1]}"


def versus_fio(top: Path, scratch: Path, options: argparse.Namespace) -> None:
    """All cases, for a fixed time each. Where an operation takes a microsecond or less, the clock and the statistics of
    both are a part of it: there fio is measured also without them."""
    heading(f"operations/s, 4 KiB, {options.seconds:g} s each", "fio")
    for case in file_cases():
        if not wanted(case.title, options.only):
            continue
        timed = [*asked(case, top), f"--runtime={options.seconds * 1000:.0f}ms"]
        one = partial(recorded, timed, top)
        remark = difference(case, top, scratch)
        job = output(*timed, "--to-fio")
        show(case.title, rounds(one, partial(fio_measured, job, top, scratch), options.repeats), remark)
        if "buffered" in case.title or "mmap" in case.title:
            without = partial(fio_measured, f"{job}gtod_reduce=1\n", top, scratch)
            show("  fio without latencies", rounds(one, without, options.repeats), remark)
        empty(top)


def fio_measured(job: str, top: Path, scratch: Path) -> float:
    path = scratch / "job.fio"
    path.write_text(job)
    return measured(fio(path, top), top)


def measured(command: Sequence[str | Path], top: Path) -> float:
    return rate(output(*command, cwd=top))


def cold_versus_fio(top: Path, scratch: Path, options: argparse.Namespace) -> None:
    """Reads from the device, of the whole file once. fio drops only what is clean of a file it has just made: its file
    is made by a run before, and the caches dropped between."""
    heading(f"operations/s, 4 KiB, {COLD_BYTES >> 20} MiB once, cold", "fio")
    for rw in ("read", "randread"):
        for mode in ("buffered", "mmap"):
            title = f"{rw} {mode}, cold"
            if not wanted(title, options.only):
                continue
            command = [IOBENCH, "file", "-p", top, f"--size={COLD_BYTES}", f"--rw={rw}", f"--mode={mode}", "-q"]
            job = scratch / "cold.fio"
            job.write_text(output(*command, "--to-fio").replace("unlink=1", "unlink=0"))
            one = partial(recorded, command, top)
            show(title, rounds(one, partial(cold_fio, job, top), options.repeats))
            empty(top)


def cold_fio(job: Path, top: Path) -> float:
    output(*fio(job, top), "--create_only=1", cwd=top)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    found = measured(fio(job, top), top)
    empty(top)
    return found


def wanted(title: str, words: Sequence[str]) -> bool:
    return not words or any(word in title for word in words)


def empty(top: Path) -> None:
    """Removes the files that the others leave."""
    for path in top.iterdir():
        if path.name == "lost+found":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


# -- Mobibench --------------------------------------------------------------------------------------------------------

ACCESSES = {0: "write", 1: "randwrite", 2: "read", 3: "randread", 4: "append"}
MODES = {
    0: "buffered",
    1: "osync",
    2: "fsync",
    3: "direct",
    4: "direct_osync",
    5: "mmap",
    7: "mmap_sync",
    8: "fdatasync",
}
SLOW_MODES = {1, 2, 4, 7, 8}


def versus_mobibench(top: Path, original: Path, options: argparse.Namespace) -> None:
    """The same words for both; a path that begins with /dev would be a device for the original. Reads are cold: both
    drop the caches before."""
    heading("records/s, 4 KiB, Mobibench's options", "Mobibench")
    for access, mode, threads in mobibench_cases():
        title = f"{ACCESSES[access]} {MODES[mode]}" + (f", {threads} threads" if threads > 1 else "")
        if not wanted(title, options.only):
            continue
        kib = SLOW_KIB if mode in SLOW_MODES else DIRECT_KIB if mode == 3 else FAST_KIB
        words = ("-p", "./mobi", *f"-f {kib} -r 4 -a {access} -y {mode} -t {threads} -q".split())
        one = partial(afresh, [IOBENCH, *words], top, recorded)
        other = partial(afresh, [original, *words], top, original_rate)
        show(title, rounds(one, other, options.repeats))
        empty(top)


def mobibench_cases() -> Iterator[tuple[int, int, int]]:
    """Access, mode and threads. Mapped files are broken in the original with threads."""
    for access in ACCESSES:
        for mode in MODES:
            if access in (0, 1) or mode in (0, 3) or (access in (2, 3) and mode == 5):
                yield access, mode, 1
    yield from ((1, 2, 4), (1, 2, 32), (3, 3, 4))


def afresh(command: Sequence[str | Path], top: Path, measure: Callable[[Sequence[str | Path], Path], float]) -> float:
    """The rate in a new directory: the original leaves its files."""
    empty(top)
    (top / "mobi").mkdir()
    return measure(command, top)


def original_rate(command: Sequence[str | Path], top: Path) -> float:
    return mobibench_rate(output(*command, cwd=top))


def versus_mobibench_sqlite(top: Path, original: Path, options: argparse.Namespace) -> None:
    """Insertions, the one operation of which the original does all that it reports; one table, the same library."""
    heading("transactions/s, SQLite insert, Mobibench's options", "Mobibench")
    for journal, name in enumerate(("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")):
        title = f"insert {name}"
        if not wanted(title, options.only):
            continue
        words = ("-p", "./mobi", *f"-d 0 -n {SQLITE_TRANSACTIONS} -j {journal} -s 2 -T 1 -q".split())
        one = partial(afresh, [IOBENCH, *words, "--sqlite-library=libsqlite3.so.0"], top, recorded)
        other = partial(afresh, [original, *words], top, original_rate)
        show(title, rounds(one, other, options.repeats))
        empty(top)


# -- what it takes ----------------------------------------------------------------------------------------------------


def footprint(top: Path) -> None:
    """Size of the builds, time to start, and memory while it runs."""
    print("\nbytes of each build")
    for program in sorted(PROBES.glob("*/iobench")):
        if program.parent.name not in ("sanitized", "tsan"):
            print(f"{program.parent.name:38}{program.stat().st_size:12}")
    write = ("file", "-p", str(top), "--rw=randwrite", "-q")
    insert = ("sqlite", "-p", str(top), "-q")
    for variant in ("native", "x86_64-linux-musl"):
        program = PROBES / variant / "iobench"
        print(f"\n{variant}")
        for title, words in (
            ("--version", ("--version",)),
            ("one write", (*write, "--size=4k", "--cache=any")),
            ("one insertion", (*insert, "-n", "1", "--cache=any")),
        ):
            ms = statistics.median(started_ms([program, *words]) for _ in range(21))
            print(f"{'ms of ' + title:38}{ms:12.2f}")
        for title, words in (
            ("writes", (*write, "--size=16m", "--runtime=1")),
            ("writes, 32 threads", (*write, "--size=512k", "--runtime=1", "--numjobs=32")),
            ("insertions", (*insert, "-n", "100", "-i", "10")),
        ):
            print(f"{'KiB resident, ' + title:38}{resident_kib([program, *words]):12}")


def started_ms(command: Sequence[str | Path]) -> float:
    begun = time.monotonic()
    output(*command)
    return 1000 * (time.monotonic() - begun)


def resident_kib(command: Sequence[str | Path]) -> int:
    """The most until half a second after the start: what wait4 tells begins with the memory of who started it."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@contextlib.contextmanager
def one_cpu() -> Iterator[None]:
    """What is started runs on the last CPU, and so do the kernel's workers that are bound to none."""
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    before = WORKERS.read_text()
    WORKERS.write_text(f"{1 << cpu:x}")
    try:
        yield
    finally:
        WORKERS.write_text(before)


@contextlib.contextmanager
def filesystem() -> Iterator[Path]:
    """An ext4 whose device is in memory."""
    with tempfile.TemporaryDirectory(prefix="androstep-bench-", dir="/dev/shm") as name:
        image = Path(name) / "image"
        image.touch()
        loops.make_ext4(image, ("-E", "lazy_itable_init=0,lazy_journal_init=0"), IMAGE_MIB)
        with loops.mounted(image, "noatime") as mounted:
            yield mounted.top


def main() -> None:
    """Print a table for each program that iobench is compared with."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each line (default 5)")
    parser.add_argument("--seconds", type=float, default=2, help="of each run beside fio (default 2)")
    parser.add_argument("--mobibench", type=Path, help="a clone of ESOS-Lab/Mobibench, or its git directory")
    parser.add_argument("--only", nargs="*", default=[], help="only lines that have one of these words")
    options = parser.parse_args()
    print(f"Linux {os.uname().release}, {os.cpu_count()} CPUs, medians of {options.repeats} rounds")
    with one_cpu(), filesystem() as top, tempfile.TemporaryDirectory(prefix="androstep-bench-") as name:
        scratch = Path(name)
        footprint(top)
        if shutil.which("fio"):
            versus_fio(top, scratch, options)
            cold_versus_fio(top, scratch, options)
        else:
            print("\nfio is not installed: not compared")
        if options.mobibench:
            original = mobibench(options.mobibench, scratch)
            versus_mobibench(top, original, options)
            versus_mobibench_sqlite(top, original, options)
        else:
            print("\nno --mobibench: not compared with the original")


if __name__ == "__main__":
    main()
