"""What recording costs: iotrace against no tracing and against recorders that do as trace-cmd's.

``python benchmarks/iotrace.py [--repeats N] [--seconds S] [--guest | --names]``. Needs root, loop devices, tracefs, gcc
and `make probes`; ``--guest`` what the truth harness's guests need, and trace-cmd; ``--names`` fanotify.

All take the same events with the same filters, in instances of their own, of an ext4 on a loop device over a file in
memory, one after the other in turn, in every round in another order. CPU time is that of the workload, of the tracer
and of all kernel threads, which trace, too; the cost of an event is what a round needs more than its run without
tracing, by the events it recorded. Starting, listing and packing are not measured.

`per-CPU recorder` stands for `trace-cmd record`, which writes /proc/sys/kernel/ftrace_enabled and ends where that is
not allowed: one process for each CPU that splices trace_pipe_raw to a file, blocking, as its recorders do. With
``--guest`` the real one is measured in a virtual machine without acceleration, where only the proportions count.

Two tables have a device as slow as a phone's, about 2,000 fsync/s. No kernel at hand has a block device with a delay
below a millisecond, and a limit on the rate would hide what tracing takes in its waiting; so the program itself waits
after each fsync, for as long as makes 0.5 ms of it.

``--names`` measures what names by fanotify cost a program that makes, renames and deletes files: iotrace as it is, and
where it gets no fanotify, as no user of this machine does during such a run (fs.fanotify.max_user_groups).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shlex
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from androstep_analysis.ingest import record, source
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.stats import exact

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness import guest

ROOT = Path(__file__).resolve().parents[1]


def program(name: str, variant: str) -> Path:
    """A program that `make probes` builds."""
    return ROOT / "build" / "probes" / variant / name


IOTRACE = program("iotrace", "native")
TICKS = os.sysconf("SC_CLK_TCK")
BUFFER_KB = 16384
FILE_BYTES = 64 << 20
PAGE_BYTES = 4096
PHONE_FSYNC_S = 0.0005
BURST_PROCESSES = 2
SQLITE_FSYNCS = 4
"""fsync calls of a transaction: journal twice, database, directory."""


@dataclass(frozen=True)
class Cost:
    """One run: seconds on the wall, seconds of CPU, events recorded and lost."""

    wall_s: float
    cpu_s: float
    events: int = 0
    lost: int = 0


# -- workloads --------------------------------------------------------------------------------------------------------


def sqlite_inserts(path: Path, nr: int, wait_ns: int) -> None:
    """Transactions of one row with the rollback journal, as Android's SQLite had for long."""
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        for number in range(nr):
            database.execute("INSERT INTO t (text) VALUES (?)", (f"{number:0100}",))
            if wait_ns:
                time.sleep(wait_ns / 1e9)


@dataclass(frozen=True)
class Workload:
    """A program that does its step `nr` times; `fsyncs` of them wait for the device in each step."""

    title: str
    command: Callable[[int, int], list[str | Path]]
    fsyncs: int

    def run(self, nr: int, wait_ns: int = 0) -> None:
        subprocess.run(self.command(nr, wait_ns), check=True)

    def seconds(self, nr: int, wait_ns: int = 0) -> float:
        begun = time.monotonic()
        self.run(nr, wait_ns)
        return time.monotonic() - begun

    def per_step(self, wait_ns: int = 0) -> float:
        """Seconds of a step, without what starting the program takes."""
        nr, none = 200, self.seconds(0, wait_ns)
        while (taken := self.seconds(nr, wait_ns) - none) < 0.5:
            nr *= 2
        return taken / nr


def workloads(load: Path, top: Path) -> dict[str, Workload]:
    own: list[str | Path] = [sys.executable, __file__, "--inserts", top / "inserts.db"]
    return {
        "random": Workload(
            "4 KiB random writes, fsync after each",
            lambda nr, ns: [load, "random", top / "random", str(nr), str(ns)],
            1,
        ),
        "sqlite": Workload(
            "SQLite inserts, a transaction each", lambda nr, ns: [*own, str(nr), str(ns)], SQLITE_FSYNCS
        ),
        "files": Workload(
            "files of 4 KiB that are made, renamed and deleted", lambda nr, _: [load, "files", top, str(nr)], 0
        ),
        "burst": Workload(
            "buffered 4 KiB writes", lambda nr, _: [load, "burst", top, str(nr), str(BURST_PROCESSES)], 0
        ),
    }


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


# -- measuring --------------------------------------------------------------------------------------------------------


def run_ns(pids: list[int]) -> dict[int, int]:
    """CPU time each process has had."""
    times = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            times[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return times


def processes(is_wanted: Callable[[bytes], bool]) -> list[int]:
    """Those whose command line is wanted."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if is_wanted(path.read_bytes()):
                pids.append(int(path.parent.name))
    return pids


def kernel_threads() -> list[int]:
    """All threads that have no program."""
    return processes(lambda command: not command)


def spent_s(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    return sum(ns - before.get(pid, 0) for pid, ns in after.items()) / 1e9


def children_s() -> float:
    """CPU time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fill(path: Path) -> None:
    """Page by page: what is written at once may lie in large folios, where a page costs more the later it comes."""
    with path.open("wb", buffering=0) as file:
        for _ in range(FILE_BYTES // PAGE_BYTES):
            file.write(os.urandom(PAGE_BYTES))


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
            fill(top / "random")
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


Work = Callable[[list[int]], None]
"""What is measured, given the processes of the tracer."""


class Bench:
    """A disk, a tracefs, and the events that iotrace takes on it."""

    def __init__(self, scratch: Path, device: str, tracefs: Path, load: Path) -> None:
        self.scratch, self.device, self.tracefs, self.load = scratch, device, tracefs, load
        self.iotrace(lambda _: None)
        self.events = json.loads((scratch / "out" / "recording.json").read_text())["events"]
        self.tracers: dict[str, Callable[[Work], tuple[int, int]]] = {
            "none": self.untraced,
            "iotrace": self.iotrace,
            "per-CPU recorder": self.per_cpu_recorder,
        }

    def untraced(self, work: Work) -> tuple[int, int]:
        work([])
        return 0, 0

    def iotrace(self, work: Work) -> tuple[int, int]:
        out = self.scratch / "out"
        shutil.rmtree(out, ignore_errors=True)
        command: list[str | Path] = [IOTRACE, "-o", out, "--device", self.device, "--buffer", str(BUFFER_KB)]
        recorder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not (out / "before.rec").exists() or record.read(out / "before.rec").losses:
            time.sleep(0.1)
        time.sleep(0.2)
        work(processes(lambda line: line.startswith(bytes(IOTRACE)) and bytes(out) in line))
        recorder.terminate()
        recorder.wait()
        recording = json.loads((out / "recording.json").read_text())
        return sum(cpu["events"] for cpu in recording["cpus"]), recording["lost_events"]

    def iotrace_without_names(self, work: Work) -> tuple[int, int]:
        most = Path("/proc/sys/fs/fanotify/max_user_groups")
        before = most.read_text()
        most.write_text("0")
        try:
            return self.iotrace(work)
        finally:
            most.write_text(before)

    def per_cpu_recorder(self, work: Work) -> tuple[int, int]:
        instance = Instance(self.tracefs, self.events)
        out = self.scratch / "pages"
        out.mkdir()
        try:
            commands: list[list[str | Path]] = [
                [self.load, "recorder", cpu / "trace_pipe_raw", out / cpu.name] for cpu in instance.cpus()
            ]
            recorders = [subprocess.Popen(command) for command in commands]
            time.sleep(0.2)
            instance.set("tracing_on", "1")
            work([recorder.pid for recorder in recorders])
            instance.set("tracing_on", "0")
            for recorder in recorders:
                recorder.send_signal(signal.SIGUSR1)
                recorder.wait(60)
            return instance.counted()
        finally:
            instance.remove()
            shutil.rmtree(out)

    def measure(self, tracer: str, run: Callable[[], None]) -> Cost:
        """Wall and CPU time from the start of the workload to its end; what a tracer still does then is not counted,
        but it has only what the buffers hold."""
        cost = []

        def timed(tracing: list[int]) -> None:
            os.sync()
            time.sleep(0.3)
            pids = kernel_threads() + tracing
            others, own, begun = run_ns(pids), children_s(), time.monotonic()
            run()
            wall = time.monotonic() - begun
            cost.append((wall, children_s() - own + spent_s(others, run_ns(kernel_threads() + tracing))))

        events, lost = self.tracers[tracer](timed)
        return Cost(*cost[0], events, lost)

    def rounds(self, run: Callable[[], None], repeats: int) -> dict[str, list[Cost]]:
        names = list(self.tracers)
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        for number in range(repeats):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                costs[name].append(self.measure(name, run))
        return costs


def per_cent(free: list[float], traced: list[float]) -> str:
    """How much more the traced run of a round took, with the interval that holds it."""
    ratio, lo, hi = exact.paired_ratio(free, traced)
    if ratio is None:
        return ""
    more = f"{100 * (ratio - 1):+.1f}"
    return more if lo is None or hi is None else f"{more} ({100 * (lo - 1):+.1f}..{100 * (hi - 1):+.1f})"


def show(title: str, costs: dict[str, list[Cost]], base: str = "none") -> None:
    """A line for each tracer: medians over the rounds; differences from `base` by round (`exact`), 95 % intervals."""
    print(f"\n{title}")
    heads = f"{'':17}{'wall s':>9}{'wall +%':>22}{'CPU s':>8}{'CPU +%':>22}{'% of a CPU':>12}"
    print(f"{heads}{'events':>10}{'events/s':>10}{'us CPU/event':>24}{'lost':>8}")
    free = costs[base]
    for name, runs in costs.items():
        is_free = runs is free
        walls, cpus = [run.wall_s for run in runs], [run.cpu_s for run in runs]
        wall_more = "" if is_free else per_cent([run.wall_s for run in free], walls)
        cpu_more = "" if is_free else per_cent([run.cpu_s for run in free], cpus)
        pairs = list(zip(runs, free, strict=True))
        of_a_cpu = statistics.median(100 * (run.cpu_s - one.cpu_s) / one.wall_s for run, one in pairs)
        each = [1e6 * (run.cpu_s - one.cpu_s) / run.events for run, one in pairs if run.events]
        value, lo, hi = exact.paired_difference([0.0] * len(each), each)
        per_event = "" if value is None else f"{value:.3f}" + ("" if lo is None else f" ({lo:.3f}..{hi:.3f})")
        events = int(statistics.median(run.events for run in runs))
        rate = statistics.median((run.events + run.lost) / run.wall_s for run in runs)
        line = f"{name:17}{statistics.median(walls):9.3f}{wall_more:>22}{statistics.median(cpus):8.2f}{cpu_more:>22}"
        line += f"{of_a_cpu:12.2f}{events:10}{rate:10.0f}{per_event:>24}{max(run.lost for run in runs):8}"
        print(line, flush=True)


def built(directory: Path) -> Path:
    """The program of iotrace_load.c."""
    program = directory / "iotrace_load"
    source = Path(__file__).with_name("iotrace_load.c")
    subprocess.run(
        ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", program, source], check=True
    )
    return program


# -- the real trace-cmd, in a guest -----------------------------------------------------------------------------------

GUEST_WRITES = 1000
GUEST_TRACERS = ("none", "iotrace", "trace-cmd")

GUEST_BEGIN = """
mount -t ext4 -o noatime /dev/vda /mnt; dd if=/dev/zero of=/mnt/file bs=4k count=4096 2>/dev/null; sync
"""

GUEST_EVENTS = "iotrace -o /tmp/out/recording --device /dev/vda -- true\n"

GUEST_ROUNDS = """
busy() {{ awk '/^cpu /{{print $2 + $3 + $4 + $7 + $8}}' /proc/stat; }}
work() {{
  sync; sleep 0.5; before=$(busy); wall=$(cut -d' ' -f1 /proc/uptime)
  iotrace_load random /mnt/file {writes} 0
  echo "$1 $wall $(cut -d' ' -f1 /proc/uptime) $before $(busy)" >>/tmp/out/costs
}}
for round in $(seq {repeats}); do
  work none
  iotrace -o /tmp/out/iotrace$round --device /dev/vda & tracer=$!
  sleep 2; work iotrace; kill -TERM $tracer; wait $tracer
  trace-cmd record -q -B other -C mono -b {buffer_kb} {events} -o /tmp/out/trace-cmd$round.dat & tracer=$!
  sleep 4; work trace-cmd; kill -INT $tracer; wait $tracer
done
"""


def guest_events(events: list[dict[str, str | None]]) -> str:
    """What the guest's script gives to trace-cmd; what iotrace itself defines is not there for it."""
    words = []
    for event in events:
        system, name = str(event["event"]).split("/")
        if system != "androstep":
            words += ["-e", f"{system}:{name}", *(["-f", event["filter"]] if event["filter"] else [])]
    return shlex.join(words)


def in_guest(scratch: Path, load: Path, repeats: int) -> dict[str, list[Cost]]:
    """The random writes with each tracer in turn, in one guest of one processor."""
    iotrace, trace_cmd = program("iotrace", "x86_64-linux-musl"), Path(str(shutil.which("trace-cmd")))
    first, second = scratch / "events", scratch / "rounds"
    first.mkdir()
    guest.run(first, "ext4", [iotrace], GUEST_BEGIN + GUEST_EVENTS)
    recording = json.loads((first / "recording" / "recording.json").read_text())
    events = guest_events(recording["events"])
    script = GUEST_ROUNDS.format(writes=GUEST_WRITES, repeats=repeats, buffer_kb=BUFFER_KB, events=events)
    second.mkdir()
    guest.run(second, "ext4", [iotrace, trace_cmd, load], GUEST_BEGIN + script)
    costs: dict[str, list[Cost]] = {name: [] for name in GUEST_TRACERS}
    for line in (second / "costs").read_text().splitlines():
        name, *numbers = line.split()
        begun, ended, idle, busy = map(float, numbers)
        number = len(costs[name]) + 1
        place = {"iotrace": f"iotrace{number}/trace.dat", "trace-cmd": f"trace-cmd{number}.dat"}.get(name)
        seen = counted(second / place) if place else (0, 0)
        costs[name].append(Cost(ended - begun, (busy - idle) / TICKS, *seen))
    return costs


def counted(trace: Path) -> tuple[int, int]:
    """Events in a trace.dat and events lost."""
    container = tracedat_file.open_container(source.load(trace))
    census = binary.census(container, binary.formats(container))
    return sum(census.per_cpu.values()), census.lost


def by_names(bench: Bench, files: Workload, repeats: int, seconds: float) -> None:
    """Print what recording costs with and without fanotify, and what fanotify alone adds to it."""
    bench.tracers = {"none": bench.untraced, "no names": bench.iotrace_without_names, "names": bench.iotrace}
    nr = max(1, int(seconds / files.per_step()))
    costs = bench.rounds(partial(files.run, nr), repeats)
    show(f"{files.title} ({nr} times)", costs)
    del costs["none"]
    show("the same, what fanotify adds", costs, "no names")


def main() -> None:
    """Print a table for each workload."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7, help="rounds of each table (default 7; intervals need 6)")
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long a run takes (default 3)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--guest", action="store_true", help="measure in a virtual machine, with the real trace-cmd")
    kind.add_argument("--names", action="store_true", help="measure what names by fanotify cost")
    options = parser.parse_args()
    if options.guest:
        with tempfile.TemporaryDirectory(prefix="androstep-bench-") as name:
            costs = in_guest(Path(name), built(Path(name)), options.repeats)
            show(f"4 KiB random writes, fsync after each, in a guest ({GUEST_WRITES} times)", costs)
        return
    with (
        tempfile.TemporaryDirectory(prefix="androstep-bench-", dir="/dev/shm") as name,
        disk(Path(name)) as (device, top),
        mounted_tracefs(Path(name)) as tracefs,
    ):
        load = built(Path(name))
        bench = Bench(Path(name), device, tracefs, load)
        print(
            f"{len(bench.events)} events, {BUFFER_KB} KiB of buffer for each of {os.cpu_count()} CPUs, "
            f"Linux {os.uname().release}, medians of {options.repeats} rounds, differences by round (95 % interval)"
        )
        kinds = workloads(load, top)
        if options.names:
            by_names(bench, kinds["files"], options.repeats, options.seconds)
            return
        for kind, slow in (("random", False), ("sqlite", False), ("burst", False), ("random", True), ("sqlite", True)):
            workload = kinds[kind]
            step_s = workload.per_step()
            wait_ns = max(0, int((workload.fsyncs * PHONE_FSYNC_S - step_s) * 1e9)) if slow else 0
            nr = max(1, int(options.seconds / (step_s + wait_ns / 1e9)))
            costs = bench.rounds(partial(workload.run, nr, wait_ns), options.repeats)
            place = "device as slow as a phone's" if slow else "device in memory"
            show(f"{workload.title}, {place} ({nr} times)", costs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inserts"]:
        sqlite_inserts(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
