"""Reading logs of strace.

``python benchmarks/formats_strace.py`` prints the tables; ``pytest benchmarks/formats_strace.py --benchmark-only``
times each contender with pytest-benchmark. The log is a real one of the corpus (ANDROSTEP_CORPUS, or beside the
checkout; one build of a program with 12 threads), repeated until it has 5 M lines, with times and durations as
``strace -f -ttt -T`` writes them. The contenders:

- androstep: the log to Parquet, calls joined and their arguments in columns (`androstep_analysis.ingest.read`);
- polars: what one writes without it: a regular expression that splits a line into thread, time, call, arguments and
  result, to Parquet, with no meaning given to any of it;
- pyarrow alone: the same Parquet as ours from Arrow tables that lie ready.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path += [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tests")]
import formats
from formats import Contender
from formats_text import SPLIT
from support import corpus

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

LOG = "strace/linux_multithread_strace1.log"
LINES = 5_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a sixteenth of the longest log for which memory is measured."""

LINE = r"^([0-9]+) +([0-9]+\.[0-9]+) ([a-z0-9_]+)\((.*)\) += (-?[0-9]+|\?|0x[0-9a-f]+)(.*)$"


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    path = log(LINES)
    formats.table("strace", LINES, path.stat().st_size, formats.paired(contenders(path)))
    formats.memory("strace", {multiple * LINES // 4: log(multiple * LINES // 4) for multiple in LENGTHS})


def log(lines: int) -> Path:
    """A log of so many lines."""
    return formats.prepared(f"strace-{lines}", functools.partial(_repeat, lines=lines)) / "log"


def contenders(path: Path) -> list[Contender]:
    """All that read the log `path`."""
    regex = (sys.executable, "-c", SPLIT, path, LINE, path.with_name("lines.parquet"))
    return [formats.reader(path), Contender("polars, a regex", regex), formats.limit(path)]


def _repeat(directory: Path, lines: int) -> None:
    """The log again and again, each line 10 us later than the last, whole calls of 5 us."""
    source = [line.split(b" ", 1) for line in corpus.path(LOG).read_bytes().splitlines() if b" " in line]
    with (directory / "log").open("wb") as file:
        for number in range(lines):
            tid, rest = source[number % len(source)]
            is_whole = b" = " in rest and not rest.endswith(b"...>") and not rest.endswith(b"+++")
            micros = 10 * number
            time = b"%d.%06d" % (1_700_000_000 + micros // 1_000_000, micros % 1_000_000)
            file.write(b"%s %s %s%s\n" % (tid, time, rest.lstrip(), b" <0.000005>" if is_whole else b""))


@pytest.mark.parametrize("number", range(3))
def test_strace(benchmark: BenchmarkFixture, number: int) -> None:
    contender = contenders(log(LINES))[number]
    once = benchmark.pedantic(formats.run, (contender,), rounds=formats.ROUNDS)
    benchmark.extra_info.update(contender=contender.name, peak_bytes=once.peak_bytes)


if __name__ == "__main__":
    main()
