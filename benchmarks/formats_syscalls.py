"""Reading recordings of system calls: pages of ftrace.

``python benchmarks/formats_syscalls.py`` prints the tables; ``pytest benchmarks/formats_syscalls.py --benchmark-only``
times each contender with pytest-benchmark. The recording is that of the tests (tests/data/syscalls: some 330 calls of a
hundred kinds by six threads), its pages repeated, each time later, until there are 2 M calls. The contenders:

- androstep: the pages to table `syscalls` in Parquet (`androstep_analysis.ingest.read`);
- pyarrow alone: the same Parquet from Arrow tables that lie ready.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

sys.path += [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tests")]
import formats
from formats import Contender
from support import syscall_recording

from androstep_analysis import ingest
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.ingest import source

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

CALLS = 2_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a quarter of the recording for which memory is measured."""

PAGE_BYTES = 4096


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    path = recording(CALLS)
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    formats.table("system calls in pages of ftrace", CALLS, size, formats.paired(contenders(path)))
    formats.memory("system calls", {n * CALLS // 4: recording(n * CALLS // 4) for n in LENGTHS})


def recording(calls: int) -> Path:
    """A file of the set of pages with about so many calls."""
    return formats.prepared(f"syscalls-{calls}", functools.partial(_repeat, calls=calls)) / "formats"


def contenders(path: Path) -> list[Contender]:
    """All that read the set."""
    return [formats.reader(path), formats.limit(path)]


def _repeat(directory: Path, calls: int) -> None:
    archive = syscall_recording.DATA / "pages.tar.zst"
    read = ingest.read(archive)
    assert read.first_ns is not None and read.last_ns is not None
    span = read.last_ns - read.first_ns + 1000
    rounds = -(-calls // read.syscalls.collect().height)
    tar = directory / "pages.tar"
    tar.write_bytes(source.load(archive).data)
    unpack(tar, directory, tar.stat().st_size)
    tar.unlink()
    for file in directory.glob("cpu*.raw"):
        pages = np.frombuffer(file.read_bytes(), np.uint64)
        with file.open("wb") as repeated:
            for number in range(rounds):
                later = pages.copy()
                later[:: PAGE_BYTES // 8] += np.uint64(number * span)
                repeated.write(later.tobytes())


@pytest.mark.parametrize("number", range(2))
def test_contender(benchmark: BenchmarkFixture, number: int) -> None:
    contender = contenders(recording(CALLS))[number]
    benchmark.extra_info["contender"] = contender.name
    benchmark.pedantic(formats.run, (contender,), rounds=formats.ROUNDS)


if __name__ == "__main__":
    main()
