"""What sampling costs: CPU time, ticks and bytes of procmon, by rate and processes, beside a shell that does the same.

``python benchmarks/procmon.py [--seconds S]``. Needs `make probes`; takes about 18 times S.

CPU time is the share of one CPU between two moments while procmon samples, without its start and end: by its own
account, that is in its records, and by the scheduler's, /proc/PID/schedstat, read from outside. The processes that are
added sleep. The shell runs `cat` on the same files of /proc, without those of processes, at each tick.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from androstep_analysis.ingest import record

PROCMON = Path(__file__).resolve().parents[1] / "build" / "probes" / "native" / "procmon"
SETTLED_S = 1.0
GROUPS = "cpu,memory,disk,net,pressure"
SHELL = """
while :; do
  cat /proc/stat /proc/meminfo /proc/vmstat /proc/diskstats /proc/net/dev /proc/pressure/* >> "$0"
  sleep "$1"
done
"""


@dataclass(frozen=True)
class Row:
    """One run: what it was, and what it cost."""

    what: str
    hz: int
    processes: int
    own: float | None
    scheduler: float
    late_us: tuple[float, float, float] | None
    missed: int | None
    kb_s: float


def processes() -> int:
    """How many there are."""
    return sum(path.name.isdigit() for path in Path("/proc").iterdir())


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[None]:
    """So many processes that sleep."""
    children = []
    try:
        for _ in range(count):
            child = os.fork()
            if not child:
                signal.pause()
                os._exit(0)
            children.append(child)
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def scheduled_s(pid: int) -> float:
    """CPU time of a process of one thread, by the scheduler."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def sampled(hz: int, seconds: float, path: Path, *options: str) -> Row:
    """A run of procmon."""
    command = [PROCMON, "-q", "-o", path, "--hz", str(hz), *options]
    process = subprocess.Popen(command)
    time.sleep(SETTLED_S)
    began, before = time.monotonic(), scheduled_s(process.pid)
    time.sleep(seconds)
    used, elapsed = scheduled_s(process.pid) - before, time.monotonic() - began
    there = processes()
    process.send_signal(signal.SIGINT)
    if process.wait() != 0:
        sys.exit("procmon failed")
    ticks = record.read(path).tables["tick"][1:-1]
    # By its own account from the first tick, before which it lists everything, to the last but one.
    own = (ticks["cpu_ns"][-1] - ticks["cpu_ns"][0]) / (ticks["ts_ns"][-1] - ticks["ts_ns"][0])
    late = ticks.select(
        pl.col("late_ns").quantile(q, "nearest").alias(name) / 1000
        for q, name in ((0.5, "p50"), (0.99, "p99"), (1, "max"))
    )
    kb_s = path.stat().st_size / 1000 / (elapsed + SETTLED_S)
    what = f"procmon {' '.join(options)}".strip()
    return Row(what, hz, there, own, used / elapsed, late.row(0), int(ticks["missed"].sum()), kb_s)


def by_shell(hz: int, seconds: float, path: Path) -> Row:
    """A run of the shell, whose CPU time includes that of what it ran."""
    began = time.monotonic()
    process = subprocess.Popen(["sh", "-c", SHELL, path, str(1 / hz)])
    time.sleep(seconds)
    process.terminate()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    elapsed = time.monotonic() - began
    share = (usage.ru_utime + usage.ru_stime) / elapsed
    return Row("sh, cat", hz, processes(), None, share, None, None, path.stat().st_size / 1000 / elapsed)


def runs(seconds: float) -> Iterator[Row]:
    """All runs, one after the other."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = Path(directory) / "samples"
        for wanted in (50, 500, 2000):
            with sleepers(max(wanted - processes(), 0)):
                for hz in (1, 10, 100):
                    yield sampled(hz, seconds, path)
        for hz in (1, 10, 100):
            yield sampled(hz, seconds, path, "--groups", GROUPS)
            path.unlink()
            yield by_shell(hz, seconds, path)
            path.unlink()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each run (default 10)")
    seconds = parser.parse_args().seconds
    if not PROCMON.exists():
        sys.exit(f"{PROCMON} is not there; run make probes")
    print("| What | Hz | Processes | CPU, own | CPU, scheduler | Late p50, p99, max [us] | Missed | kB/s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for row in runs(seconds):
        own = "" if row.own is None else f"{row.own:.2%}"
        late = "" if row.late_us is None else ", ".join(f"{value:,.0f}" for value in row.late_us)
        missed = "" if row.missed is None else str(row.missed)
        cells = [row.what, str(row.hz), str(row.processes), own, f"{row.scheduler:.2%}", late, missed]
        print(f"| {' | '.join(cells)} | {row.kb_s:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
