"""What recording costs: iotrace against no tracing, against pages read as trace-cmd does, and against text.

``python benchmarks/iotrace.py [--repeats N] [--seconds S]``. Needs root, loop devices and tracefs, and `make probes`.

All take the same events with the same filters, in instances of their own, of an ext4 on a loop device over a file in
memory, one after the other in turn, in every round in another order. CPU time is that of the whole machine
(/proc/stat), because workers of the kernel trace, too; the cost of an event is what a round needs more than its run
without tracing, by the events it recorded. So keep the machine quiet, and look at the spread.

`by CPU` stands for `trace-cmd record`, which writes /proc/sys/kernel/ftrace_enabled and ends where that is not allowed:
one process for each CPU that splices trace_pipe_raw to a file, blocking, as its recorders do. Two tables have a device
as slow as a phone's: after each fsync the program waits, as it would for flash, so that what tracing takes is not
hidden in the waiting.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.ingest import record

ROOT = Path(__file__).resolve().parents[1]
IOTRACE = ROOT / "build" / "probes" / "native" / "iotrace"
TICKS = os.sysconf("SC_CLK_TCK")
BUFFER_KB = 16384
FILE_BYTES = 64 << 20
PHONE_WAIT_S = 0.0005
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031


@dataclass(frozen=True)
class Cost:
    """One run: seconds on the wall, seconds of CPU over the machine, events recorded and lost."""

    wall_s: float
    cpu_s: float
    events: int = 0
    lost: int = 0


# -- workloads --------------------------------------------------------------------------------------------------------


def random_writes(top: Path, nr: int, wait_s: float = 0.0) -> None:
    """4 KiB at random places of a file that exists, each followed by fsync."""
    places = random.Random(1)
    fd = os.open(top / "random", os.O_RDWR)
    page = os.urandom(4096)
    for _ in range(nr):
        os.pwrite(fd, page, places.randrange(FILE_BYTES // 4096) * 4096)
        os.fsync(fd)
        if wait_s:
            time.sleep(wait_s)
    os.close(fd)


def sqlite_inserts(top: Path, nr: int, wait_s: float = 0.0) -> None:
    """Transactions of one row with the rollback journal, as Android's SQLite had for long."""
    path = top / "inserts.db"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        for number in range(nr):
            database.execute("INSERT INTO t (text) VALUES (?)", (f"{number:0100}",))
            if wait_s:
                time.sleep(wait_s * SQLITE_FSYNCS)


SQLITE_FSYNCS = 4
"""fsync calls of a transaction: journal twice, database, directory."""

WORKLOADS: dict[str, Callable[[Path, int, float], None]] = {"random": random_writes, "sqlite": sqlite_inserts}


def work(name: str, top: Path, nr: int, wait_s: float) -> Callable[[], None]:
    """Runs a workload in a process of its own, as a traced program is."""
    command = [sys.executable, __file__, "--work", name, str(top), str(nr), str(wait_s)]
    return lambda: subprocess.run(command, check=True) and None


# -- tracers ----------------------------------------------------------------------------------------------------------


class Instance:
    """A trace instance with given events, as iotrace sets up its own."""

    def __init__(self, tracefs: Path, events: list[dict[str, str | None]]) -> None:
        self.path = tracefs / "instances" / f"bench.{os.getpid()}"
        self.path.mkdir()
        self.set("tracing_on", "0")
        self.set("trace_clock", "mono")
        self.set("buffer_size_kb", str(BUFFER_KB))
        for event in events:
            if event["filter"]:
                self.set(f"events/{event['event']}/filter", event["filter"])
            self.set(f"events/{event['event']}/enable", "1")

    def set(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)

    def cpus(self) -> list[Path]:
        return sorted((self.path / "per_cpu").iterdir())

    def counted(self) -> tuple[int, int]:
        """Events read and events lost."""
        read = lost = 0
        for cpu in self.cpus():
            stats = dict(line.split(": ", 1) for line in (cpu / "stats").read_text().splitlines())
            read += int(stats["read events"])
            lost += int(stats["overrun"]) + int(stats["dropped events"])
        return read, lost

    def remove(self) -> None:
        self.path.rmdir()


def splice_pages(raw: Path, out: Path) -> None:
    """What a recorder of trace-cmd does for one CPU, until SIGUSR1 and the end of what there is."""
    ending = []
    signal.signal(signal.SIGUSR1, lambda *_: ending.append(1))
    source = os.open(raw, os.O_RDONLY)
    target = os.open(out, os.O_WRONLY | os.O_CREAT)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, PIPE_BYTES)
    while True:
        flags = os.SPLICE_F_NONBLOCK if ending else 0
        try:
            moved = os.splice(source, writer, PIPE_BYTES, flags=flags)
        except (BlockingIOError, InterruptedError):
            moved = 0
        if not moved and ending:
            break
        while moved:
            moved -= os.splice(reader, target, moved)
    os.set_blocking(source, False)
    with contextlib.suppress(BlockingIOError):
        while page := os.read(source, 65536):
            os.write(target, page)


def by_cpu(instance: Instance, scratch: Path, run: Callable[[], None]) -> None:
    """One process of this program for each CPU."""
    recorders = [
        subprocess.Popen([sys.executable, __file__, "--splice", cpu / "trace_pipe_raw", scratch / cpu.name])
        for cpu in instance.cpus()
    ]
    time.sleep(0.5)
    instance.set("tracing_on", "1")
    run()
    instance.set("tracing_on", "0")
    for recorder in recorders:
        recorder.send_signal(signal.SIGUSR1)
        recorder.wait(60)


def as_text(instance: Instance, scratch: Path, run: Callable[[], None]) -> None:
    """cat trace_pipe, as scripts do."""
    with (scratch / "text").open("wb") as out:
        reader = subprocess.Popen(["cat", instance.path / "trace_pipe"], stdout=out)
        instance.set("tracing_on", "1")
        run()
        instance.set("tracing_on", "0")
        while any("entries: 0\n" not in (cpu / "stats").read_text() for cpu in instance.cpus()):
            time.sleep(0.05)
        reader.terminate()
        reader.wait()


# -- measuring --------------------------------------------------------------------------------------------------------


def busy_s() -> float:
    """CPU time of all CPUs since boot that was not idle, stolen or counted twice as guest."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


@contextlib.contextmanager
def disk(scratch: Path) -> Iterator[tuple[str, Path]]:
    """An ext4 on a loop device over a file in memory."""
    image, top = scratch / "image", scratch / "mnt"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    top.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    setup = ["losetup", "--find", "--show"]
    made = subprocess.run([*setup, "--direct-io=on", image], capture_output=True, text=True)
    if made.returncode:
        made = subprocess.run([*setup, image], capture_output=True, text=True, check=True)
    device = made.stdout.strip()
    try:
        subprocess.run(["mount", device, top], check=True)
        try:
            (top / "random").write_bytes(os.urandom(FILE_BYTES))
            os.sync()
            yield device, top
        finally:
            subprocess.run(["umount", top], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def mounted_tracefs(scratch: Path) -> Iterator[Path]:
    """tracefs, seen at a place of our own."""
    top = scratch / "tracefs"
    top.mkdir()
    subprocess.run(["mount", "-t", "tracefs", "none", top], check=True)
    try:
        yield top
    finally:
        subprocess.run(["umount", top], check=True)


class Bench:
    """A disk, a tracefs, and the events that iotrace takes on it."""

    def __init__(self, scratch: Path, device: str, tracefs: Path) -> None:
        self.scratch, self.device, self.tracefs = scratch, device, tracefs
        self.iotrace(lambda: None)
        self.events = json.loads((scratch / "out" / "recording.json").read_text())["events"]
        self.tracers: dict[str, Callable[[Callable[[], None]], tuple[int, int]]] = {
            "none": self.untraced,
            "iotrace": self.iotrace,
            "by CPU": self.piped(by_cpu),
            "text": self.piped(as_text),
        }

    def untraced(self, run: Callable[[], None]) -> tuple[int, int]:
        run()
        return 0, 0

    def iotrace(self, run: Callable[[], None]) -> tuple[int, int]:
        """Started and ended outside of what is measured: see `measure`."""
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = [IOTRACE, "-o", out, "--device", self.device, "--buffer", str(BUFFER_KB)]
        recorder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not (out / "before.rec").exists() or record.read(out / "before.rec").losses:
            time.sleep(0.1)
        time.sleep(0.2)
        run()
        recorder.terminate()
        recorder.wait()
        recording = json.loads((out / "recording.json").read_text())
        return sum(cpu["events"] for cpu in recording["cpus"]), recording["lost_events"]

    def piped(
        self, reader: Callable[[Instance, Path, Callable[[], None]], None]
    ) -> Callable[[Callable[[], None]], tuple[int, int]]:
        def traced(run: Callable[[], None]) -> tuple[int, int]:
            instance = Instance(self.tracefs, self.events)
            out = self.scratch / "pages"
            out.mkdir()
            try:
                reader(instance, out, run)
                return instance.counted()
            finally:
                instance.remove()
                shutil.rmtree(out)

        return traced

    def measure(self, tracer: str, run: Callable[[], None]) -> Cost:
        """Wall and CPU time from the start of the workload to its end; what a tracer still does then is not counted,
        but it has only what came in its last 100 ms."""
        spent: list[float] = []

        def timed() -> None:
            os.sync()
            time.sleep(0.3)
            wall, cpu = time.monotonic(), busy_s()
            run()
            spent.extend((time.monotonic() - wall, busy_s() - cpu))

        events, lost = self.tracers[tracer](timed)
        return Cost(spent[0], spent[1], events, lost)

    def rounds(self, run: Callable[[], None], repeats: int) -> dict[str, list[Cost]]:
        costs: dict[str, list[Cost]] = {name: [] for name in self.tracers}
        names = list(self.tracers)
        for number in range(repeats):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                costs[name].append(self.measure(name, run))
        return costs


def show(title: str, costs: dict[str, list[Cost]]) -> None:
    """A line for each tracer: medians over the rounds, differences paired by round."""
    print(f"\n{title}")
    heads = f"{'':11}{'wall s':>9}{'wall +%':>9}{'(min..max)':>16}{'CPU s':>8}{'events':>10}{'events/s':>10}"
    print(f"{heads}{'us CPU/event':>14}{'lost':>8}")
    for name, runs in costs.items():
        pairs = list(zip(runs, costs["none"], strict=True))
        more = [100 * (run.wall_s / free.wall_s - 1) for run, free in pairs]
        each = [1e6 * (run.cpu_s - free.cpu_s) / run.events for run, free in pairs if run.events]
        wall = statistics.median(run.wall_s for run in runs)
        cpu = statistics.median(run.cpu_s for run in runs)
        events = int(statistics.median(run.events for run in runs))
        rate = statistics.median((run.events + run.lost) / run.wall_s for run in runs)
        spread = f"({min(more):.1f}..{max(more):.1f})"
        line = f"{name:11}{wall:9.3f}{statistics.median(more):9.1f}{spread:>16}{cpu:8.2f}{events:10}{rate:10.0f}"
        print(f"{line}{statistics.median(each or [0.0]):14.3f}{max(run.lost for run in runs):8}", flush=True)


def calibrated(name: str, top: Path, wait_s: float, seconds: float) -> int:
    """How often the workload does its step in about so many seconds."""
    nr = 200
    while True:
        begun = time.monotonic()
        WORKLOADS[name](top, nr, wait_s)
        taken = time.monotonic() - begun
        if taken > seconds / 4:
            return max(1, int(nr * seconds / taken))
        nr *= 2


def main() -> None:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7, help="rounds of each table (default 7)")
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long a run takes (default 3)")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="androstep-bench-", dir="/dev/shm") as name,
        disk(Path(name)) as (device, top),
        mounted_tracefs(Path(name)) as tracefs,
    ):
        bench = Bench(Path(name), device, tracefs)
        print(
            f"{len(bench.events)} events, {BUFFER_KB} KiB of buffer for each of {os.cpu_count()} CPUs, "
            f"Linux {os.uname().release}, medians of {options.repeats} rounds"
        )
        for workload, title, wait_s in (
            ("random", "4 KiB random writes, fsync after each, device in memory", 0.0),
            ("sqlite", "SQLite inserts, a transaction each, device in memory", 0.0),
            ("random", "4 KiB random writes, fsync after each, device as slow as a phone's", PHONE_WAIT_S),
            ("sqlite", "SQLite inserts, a transaction each, device as slow as a phone's", PHONE_WAIT_S),
        ):
            nr = calibrated(workload, top, wait_s, options.seconds)
            show(f"{title} ({nr} times)", bench.rounds(work(workload, top, nr, wait_s), options.repeats))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--splice"]:
        splice_pages(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--work"]:
        WORKLOADS[sys.argv[2]](Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
    else:
        main()
