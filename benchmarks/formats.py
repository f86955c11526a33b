"""Readers beside the programs people use today: the same recording, in turn, in one run.

What every ``formats_FORMAT.py`` shares. Such a file makes a large recording (`prepared`) out of a real one, names the
contenders and has

- a ``main`` that prints a table of all of them (``python benchmarks/formats_FORMAT.py``), and
- tests for pytest-benchmark, one a contender (``pytest benchmarks/formats_FORMAT.py --benchmark-only``).

Each contender is a process of its own, so that its memory is its own too. `seconds` is all of it, from start to end;
`inner` leaves out what the interpreter needs to start and to load the library, where the contender tells. The
contenders take turns and the first to go changes from round to round; what a table shows are medians.

Memory is the peak of the process as the kernel counts it (``ru_maxrss``) less nothing: the interpreter and its
libraries are in it, and of memory-mapped files what was looked at.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / "build" / "formats"
"""Where recordings for benchmarks are kept."""

ROUNDS = 3


@dataclass(frozen=True)
class Contender:
    """A program that reads a recording: its words (no shell), and where it runs. Its output is thrown away."""

    name: str
    command: tuple[str | Path, ...]
    directory: Path = Path()
    before: tuple[tuple[str | Path, ...], ...] = ()
    """Commands that it needs first; their time counts too."""


@dataclass(frozen=True)
class Run:
    """One run of a contender. `inner` is what the program itself says it took, else as `seconds`.

    `cpu` is what its threads computed in that time, which other programs on the machine disturb least.
    """

    seconds: float
    inner: float
    cpu: float
    peak_bytes: int


@dataclass(frozen=True)
class Result:
    """All runs of one contender."""

    contender: Contender
    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """Median of the whole process."""
        return statistics.median(run.seconds for run in self.runs)

    @property
    def inner(self) -> float:
        """Median without what the interpreter needs to start."""
        return statistics.median(run.inner for run in self.runs)

    @property
    def cpu(self) -> float:
        """Median of the CPU seconds of all threads, without what the interpreter needs to start."""
        return statistics.median(run.cpu for run in self.runs)

    @property
    def peak_bytes(self) -> int:
        """Largest peak of all runs."""
        return max(run.peak_bytes for run in self.runs)


def reader(path: Path) -> Contender:
    """Our reader: the recording at `path` to Parquet, by `androstep_analysis.ingest.read`."""
    return Contender("androstep", (sys.executable, Path(__file__), "read", path))


def limit(path: Path) -> Contender:
    """What nothing can pass: pyarrow writes the tables that our reader makes of `path`; only the writing counts."""
    return Contender("pyarrow alone", (sys.executable, Path(__file__), "write", path))


def paired(contenders: Sequence[Contender], rounds: int = ROUNDS) -> list[Result]:
    """Runs of all contenders, in turn."""
    runs: list[list[Run]] = [[] for _ in contenders]
    for number in range(rounds):
        for place in range(len(contenders)):
            which = (number + place) % len(contenders)
            runs[which].append(run(contenders[which]))
    return [Result(contender, tuple(some)) for contender, some in zip(contenders, runs, strict=True)]


def run(contender: Contender) -> Run:
    """One run; `subprocess.CalledProcessError` where a program fails."""
    parts = [_process(command, contender.directory) for command in (*contender.before, contender.command)]
    return Run(
        sum(part.seconds for part in parts),
        sum(part.inner for part in parts),
        sum(part.cpu for part in parts),
        max(part.peak_bytes for part in parts),
    )


@functools.cache
def _undisturbed() -> tuple[str, ...]:
    """As root, real-time priority: what else runs on the machine shall disturb no contender."""
    words = ("chrt", "--fifo", "1")
    allowed = shutil.which("chrt") and not subprocess.run([*words, "true"], capture_output=True).returncode
    return words if allowed else ()


def _process(command: Sequence[str | Path], directory: Path) -> Run:
    """One process; the last line of what it says on its standard error may be ``inner SECONDS CPU_SECONDS``."""
    words = [*_undisturbed(), *(str(word) for word in command)]
    begin = time.perf_counter()
    process = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, stderr=said[-2000:])
    last = said.rstrip().rpartition("\n")[2].split()
    inner, cpu = seconds, usage.ru_utime + usage.ru_stime
    if last[:1] == ["inner"]:
        inner, cpu = float(last[1]), float(last[2])
    return Run(seconds, inner, cpu, usage.ru_maxrss << 10)


def table(title: str, events: int, size: int, results: Sequence[Result]) -> None:
    """Print what `paired` gave for a recording of so many events and bytes; the first is what the others stand by."""
    ours = results[0]
    print(f"\n{title}: {events:,} events, {size / 1e6:,.0f} MB, {len(ours.runs)} rounds")
    print(f"{'':24}{'seconds':>9}{'inner':>9}{'CPU':>9}{'M events/s':>12}{'peak MiB':>10}{'ours is':>9}{'by CPU':>9}")
    for result in results:
        rate, peak = events / result.inner / 1e6, result.peak_bytes / (1 << 20)
        print(
            f"{result.contender.name:24}{result.seconds:9.2f}{result.inner:9.2f}{result.cpu:9.2f}{rate:12.2f}{peak:10.0f}"
            f"{result.inner / ours.inner:8.2f}x{result.cpu / ours.cpu:8.2f}x"
        )


def memory(title: str, sizes: Mapping[int, Path]) -> None:
    """Print the peak of our reader for recordings of different lengths (events and where they are)."""
    print(f"\n{title}: peak memory")
    for events, path in sizes.items():
        once = run(reader(path))
        print(f"{events:>14,} events{once.inner:9.2f} s{once.peak_bytes / (1 << 20):10.0f} MiB")


def prepared(name: str, make: Callable[[Path], None]) -> Path:
    """Directory `name` of recordings, made once: `make` fills an empty one."""
    directory = DIRECTORY / name
    if not directory.is_dir():
        part = DIRECTORY / f"{name}.{os.getpid()}.part"
        part.mkdir(parents=True)
        make(part)
        part.rename(directory)
    return directory


def size_of(paths: Iterable[Path]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in paths)


# --- what runs in the processes ------------------------------------------------------------------------------------


def _read(path: Path) -> None:
    from androstep_analysis import ingest

    with timed():
        ingest.read(path)


def _write(path: Path) -> None:
    import pyarrow.parquet as pq

    from androstep_analysis import ingest

    tables = [table.collect().to_arrow() for table in ingest.read(path).tables.values()]
    target = DIRECTORY / f"limit.{os.getpid()}.parquet"
    with timed():
        for rows in tables:
            pq.write_table(rows, target)
    target.unlink(missing_ok=True)


@contextlib.contextmanager
def timed() -> Iterator[None]:
    begin, cpu = time.perf_counter(), time.process_time()
    yield
    print(f"inner {time.perf_counter() - begin:.4f} {time.process_time() - cpu:.4f}", file=sys.stderr)


if __name__ == "__main__":
    {"read": _read, "write": _write}[sys.argv[1]](Path(sys.argv[2]))
