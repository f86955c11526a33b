"""Reading trace.dat beside trace-cmd.

``python benchmarks/formats_tracedat.py`` prints the tables; ``pytest benchmarks/formats_tracedat.py --benchmark-only``
times each contender with pytest-benchmark. The recording is that of the corpus' ext4 host (ANDROSTEP_CORPUS, or beside
the checkout; two CPUs; nine of ten events are block or filesystem events that become rows), its pages repeated, each
time later, until there are 5 M events. The contenders:

- androstep: the file to Parquet, sorted, with names and processes of threads (`androstep_analysis.ingest.read`);
- trace-cmd report: its text, which goes to /dev/null;
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
from support import corpus

from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import binary, tracedat_file

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

RECORDING = "kernel/ext4_host_6.18/trace.dat.zst"
EVENTS = 5_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a quarter of the recording for which memory is measured."""

TABLE = b"flyrecord\0"


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    path = recording(EVENTS)
    formats.table("trace.dat", EVENTS, path.stat().st_size, formats.paired(contenders(path)))
    formats.memory("trace.dat", {n * EVENTS // 4: recording(n * EVENTS // 4) for n in LENGTHS})


def recording(events: int) -> Path:
    """A trace.dat of about so many events."""
    return formats.prepared(f"tracedat-{events}", functools.partial(repeat, events=events)) / "trace.dat"


def contenders(path: Path) -> list[Contender]:
    """All that read the file."""
    report = Contender("trace-cmd report", ("trace-cmd", "report", "-i", path))
    return [formats.reader(path), report, formats.limit(path)]


def repeat(directory: Path, events: int) -> None:
    """Write a trace.dat of about so many events into the directory."""
    container = tracedat_file.open_container(source.load(corpus.path(RECORDING)))
    census = binary.census(container, binary.formats(container))
    assert census.first_ns is not None and census.last_ns is not None
    rounds = -(-events // census.per_cpu.total())
    span = census.last_ns - census.first_ns + 1000
    data = container.source.data
    table = data.index(TABLE) + len(TABLE)
    (buffer,) = container.buffers
    cpus = [data[offset : offset + size] for _, offset, size in buffer.cpus]
    places, place = [], buffer.cpus[0][1]
    for pages in cpus:
        places += [place, rounds * len(pages)]
        place += rounds * len(pages)
    with (directory / "trace.dat").open("wb") as file:
        file.write((data[:table] + np.array(places, np.uint64).tobytes()).ljust(places[0], b"\0"))
        for pages in cpus:
            for number in range(rounds):
                file.write(_later(pages, buffer.page_bytes, number * span))


def _later(pages: bytes, page_bytes: int, shift_ns: int) -> bytes:
    """The pages with all times moved: each page has the time of its first record in front."""
    moved = np.frombuffer(pages, np.uint64).copy()
    moved[:: page_bytes // 8] += np.uint64(shift_ns)
    return moved.tobytes()


@pytest.mark.parametrize("number", range(3))
def test_contender(benchmark: BenchmarkFixture, number: int) -> None:
    contender = contenders(recording(EVENTS))[number]
    benchmark.extra_info["contender"] = contender.name
    benchmark.pedantic(formats.run, (contender,), rounds=formats.ROUNDS)


if __name__ == "__main__":
    main()
