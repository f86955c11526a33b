"""iobench postmark beside PostMark 1.53 itself: the same work on the same filesystem, by one after the other in turn.

``python benchmarks/postmark.py [--rounds N] [--transactions N] [--files N …] [--disk]``. Needs root, loop devices, the
program ``postmark`` and ``make probes``. The ext4 lies on a loop device over a file in memory, or with --disk over one
on disk.

PostMark's report has whole seconds only. Its phases are timed by the words that it prints, and flushes, when each
begins. A ratio is iobench's rate by PostMark's in the same round, or that of the best rounds of both, which what else
runs on the machine disturbs least; the order changes from round to round, and so does the seed. Counts and bytes are
means of all rounds: both draw them at random, from different generators. iobench's worker is a process, as PostMark
is: among threads, which share their descriptors, each call costs the kernel some nanoseconds more. PostMark's stdio
adds an fstat to each file, an lseek to each append and a copy of each block, which iobench leaves out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from androstep_analysis.ingest import record

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support import loops

IOBENCH = Path(__file__).resolve().parents[1] / "build" / "probes" / "native" / "iobench"
IMAGE_MIB = 512
LEAST, MOST = 500, 10000
"""Bytes of a file."""

PHASES = {"fill": b"Creating files", "op": b"Performing transactions", "clear": b"Deleting files"}
REPORT = {
    "fill": r"Creation alone: (\d+)",
    "create": r"Mixed with transactions: (\d+)",
    "read": r"(\d+) read",
    "append": r"(\d+) appended",
    "clear": r"Deletion alone: (\d+)",
    "delete": r"(?s)Deletion alone.*Mixed with transactions: (\d+)",
}
"""Where counts are in PostMark's report: its terse form has rates alone."""

UNITS = {"bytes": 1, "kilobytes": 1 << 10, "megabytes": 1 << 20, "gigabytes": 1 << 30}
UNDISTURBED = ("chrt", "--fifo", "1")
"""What else runs on the machine shall disturb neither program, nor keep this one from noting when a phase begins."""


@dataclass(frozen=True)
class Workload:
    """Parameters that both programs take."""

    files: int
    transactions: int
    buffered: bool
    subdirectories: int

    def __str__(self) -> str:
        where = f", {self.subdirectories} subdirectories" if self.subdirectories else ""
        return f"{self.files} files, {self.transactions} transactions, {'' if self.buffered else 'un'}buffered{where}"


@dataclass(frozen=True)
class Run:
    """Seconds of each phase, and how often each thing was done."""

    seconds: dict[str, float]
    counts: dict[str, int]

    def rate(self, phase: str, transactions: int) -> float:
        """Files or transactions per second."""
        return (transactions if phase == "op" else self.counts[phase]) / self.seconds[phase]


def watched(command: Sequence[str]) -> tuple[bytes, list[tuple[int, int]]]:
    """What a program prints, and when (ns) how many bytes of it were there."""
    printed, marks = b"", []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 65536):
            printed += data
            marks.append((time.monotonic_ns(), len(printed)))
    if process.returncode:
        sys.exit(f"{command[0]}: status {process.returncode}")
    return printed, marks


def since(printed: bytes, marks: list[tuple[int, int]], words: bytes) -> int:
    """When the words were there."""
    end = printed.index(words) + len(words)
    return next(at for at, length in marks if length >= end)


def amount(report: str, moved: str) -> int:
    """Bytes read or written, as exactly as the report has them."""
    found = re.search(rf"([\d.]+) (\w+) {moved} \(", report)
    if found is None:
        sys.exit(f"PostMark does not say how much was {moved}")
    return round(float(found[1]) * UNITS[found[2]])


def postmark(top: Path, workload: Workload, seed: int) -> Run:
    """PostMark itself, on files as deep in the tree as iobench's."""
    location = top / "postmark" / "w0"
    location.mkdir(parents=True)
    commands = {
        "location": location,
        "number": workload.files,
        "transactions": workload.transactions,
        "size": f"{LEAST} {MOST}",
        **({"subdirectories": workload.subdirectories} if workload.subdirectories else {}),
        "buffering": "true" if workload.buffered else "false",
        "seed": seed,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".pm") as script:
        script.write("".join(f"set {name} {value}\n" for name, value in commands.items()) + "run\nquit\n")
        script.flush()
        printed, marks = watched([*UNDISTURBED, "postmark", script.name])
    shutil.rmtree(top / "postmark")
    starts = [since(printed, marks, words) for words in PHASES.values()]
    starts.append(next(at for at, _ in marks if at > starts[-1]))
    seconds = {phase: (starts[i + 1] - starts[i]) / 1e9 for i, phase in enumerate(PHASES)}
    report = printed.decode()
    counts = {name: int(re.findall(pattern, report)[0]) for name, pattern in REPORT.items()}
    return Run(seconds, counts | {f"bytes {moved}": amount(report, moved) for moved in ("read", "written")})


def iobench(top: Path, workload: Workload, seed: int) -> Run:
    """The same by iobench."""
    recorded = top.parent / "postmark.rec"
    recorded.unlink(missing_ok=True)
    options = {
        "--directory": top,
        "--files": workload.files,
        "--transactions": workload.transactions,
        "--file-size": f"{LEAST}:{MOST}",
        "--subdirectories": workload.subdirectories,
        "--cache": "any",
        "--thread": 0,
        "--randseed": seed,
        "--record": recorded,
    }
    command = [*UNDISTURBED, str(IOBENCH), "postmark", *(str(word) for option in options.items() for word in option)]
    subprocess.run([*command, *(() if workload.buffered else ("--unbuffered",))], check=True, capture_output=True)
    results = record.read(recorded).tables["bench_result"]
    rows = {row["part"]: row for row in results.iter_rows(named=True) if row["thread"] == -1}
    seconds = {part: rows[part]["latency_sum_ns"] / 1e9 for part in ("fill", "clear")}
    counts = {part: rows[part]["ops"] for part in ("fill", "create", "read", "append", "clear", "delete")}
    counts["bytes read"] = rows["read"]["bytes"]
    counts["bytes written"] = sum(rows[part]["bytes"] for part in ("fill", "create", "append"))
    return Run(seconds | {"op": rows["op"]["duration_ns"] / 1e9}, counts)


def compare(top: Path, workload: Workload, rounds: int) -> None:
    """Runs both in turn and prints rates, ratios and counts."""
    runs: dict[str, list[Run]] = {"iobench": [], "postmark": []}
    programs = {"iobench": iobench, "postmark": postmark}
    for number in range(rounds):
        for name in sorted(programs, reverse=bool(number % 2)):
            os.sync()
            runs[name].append(programs[name](top, workload, number + 1))
    print(f"\n{workload}, {rounds} rounds")
    print(f"  {'':14}{'iobench/s':>12}{'postmark/s':>12}{'ratio':>8}{'of best':>9}   of rounds")
    for phase, name in (("op", "transactions"), ("fill", "creation alone"), ("clear", "deletion alone")):
        ours, theirs = ([run.rate(phase, workload.transactions) for run in runs[program]] for program in programs)
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        medians = f"{statistics.median(ours):12.0f}{statistics.median(theirs):12.0f}{statistics.median(ratios):8.3f}"
        best = max(ours) / max(theirs)
        print(f"  {name:14}{medians}{best:9.3f}   {min(ratios):.3f} … {max(ratios):.3f}")
    for name in runs["iobench"][0].counts:
        mine, its = (statistics.mean(run.counts[name] for run in runs[program]) for program in programs)
        print(f"  {name:14}{mine:12.0f}{its:12.0f}{mine / its:8.3f}")


def main() -> None:
    """Makes the filesystem and compares on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--transactions", type=int, default=5000)
    parser.add_argument("--files", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--subdirectories", type=int, default=0)
    parser.add_argument("--disk", action="store_true", help="the image is a file on disk")
    asked = parser.parse_args()
    for program in (IOBENCH, Path(shutil.which("postmark") or "/usr/bin/postmark")):
        if not program.exists():
            sys.exit(f"{program} is not there: make probes, or install PostMark")
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    with tempfile.TemporaryDirectory(dir=None if asked.disk else "/dev/shm") as directory:
        image = Path(directory) / "image"
        loops.make_ext4(image, nr_mib=IMAGE_MIB)
        with loops.mounted(image) as at:
            for files in asked.files:
                for buffered in (True, False):
                    workload = Workload(files, asked.transactions, buffered, asked.subdirectories)
                    compare(at.top, workload, asked.rounds)


if __name__ == "__main__":
    main()
