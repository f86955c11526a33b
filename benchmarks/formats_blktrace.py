"""Reading blktrace's binary recordings beside blkparse and btt.

``python benchmarks/formats_blktrace.py`` prints the tables; ``pytest benchmarks/formats_blktrace.py --benchmark-only``
times each contender with pytest-benchmark. The recording is that of the corpus' ext4 guest (ANDROSTEP_CORPUS, or beside
the checkout; two CPUs), repeated until it has 5 M events: each time later, on four CPUs, numbered on. The contenders:

- androstep: the files to Parquet, sorted, with names of threads (`androstep_analysis.ingest.read`);
- blkparse: its text, which goes to /dev/null;
- btt: its tables, from one file that ``blkparse -d`` merged before, which it needs: with and without that step;
- pyarrow alone: the same Parquet from Arrow tables that lie ready.
"""

from __future__ import annotations

import functools
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

sys.path += [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tests")]
import formats
from formats import Contender
from support import corpus

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

RECORDING = "kernel/ext4_guest_6.1/blktrace.tgz"
EVENTS = 5_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a sixteenth of the longest recording for which memory is measured."""

CPUS = 4
HEADER = np.dtype(
    "<u4,<u4,<u8,<u8,<u4,<u4,<u4,<u4,<u4,<u2,<u2",
)
HEADER.names = ("magic", "sequence", "time", "sector", "bytes", "action", "pid", "device", "cpu", "error", "pdu_len")
NOTIFY = 1 << 26


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    directory = recording(EVENTS)
    results = formats.paired(contenders(directory))
    formats.table("blktrace", EVENTS, formats.size_of(directory.glob("t.blktrace.*")), results)
    sizes = {multiple * EVENTS // 4: multiple for multiple in LENGTHS}
    formats.memory("blktrace", {events: recording(events) / "t.blktrace.0" for events in sizes})


def recording(events: int) -> Path:
    """A directory with a set ``t.blktrace.N`` of so many events, and the place for what blkparse merges."""
    return formats.prepared(f"blktrace-{events}", functools.partial(repeat, events=events))


def contenders(directory: Path) -> list[Contender]:
    """All that read the set in `directory`."""
    merge = ("blkparse", "-q", "-O", "-i", "t", "-d", "merged")
    btt = ("btt", "-i", "merged", "-o", "btt")
    # The merged file is made once here for btt alone; the contender with the step makes it again each time.
    if not (directory / "merged").exists():
        formats.run(Contender("blkparse -d", merge, directory))
    return [
        formats.reader(directory / "t.blktrace.0"),
        Contender("blkparse text", ("blkparse", "-i", "t"), directory),
        Contender("blkparse -d, btt", btt, directory, (merge,)),
        Contender("btt", btt, directory),
        formats.limit(directory / "t.blktrace.0"),
    ]


def repeat(directory: Path, events: int) -> None:
    """Write a set of so many events into the directory."""
    parts = [_records(data) for data in _members(corpus.path(RECORDING))]
    each = sum(int(np.count_nonzero(head["action"] & NOTIFY == 0)) for _, head, _ in parts)
    times = [head["time"][head["action"] & NOTIFY == 0] for _, head, _ in parts]
    span = int(max(time.max() for time in times) - min(time.min() for time in times)) + 1000
    rounds = -(-events // (each * CPUS // len(parts)))
    for cpu in range(CPUS):
        with (directory / f"t.blktrace.{cpu}").open("wb") as file:
            for number in range(rounds):
                file.write(_later(*parts[cpu % len(parts)], cpu, number, number * span + cpu // len(parts) * 777))


def _members(archive: Path) -> list[bytes]:
    with tarfile.open(archive) as files:
        found = {member.name: files.extractfile(member) for member in files if ".blktrace." in member.name}
        return [file.read() for _, file in sorted(found.items()) if file is not None]


def _records(data: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.void], npt.NDArray[np.int64]]:
    """The bytes, the headers and where they are."""
    places: list[int] = []
    place = 0
    while place < len(data):
        places.append(place)
        place += HEADER.itemsize + int.from_bytes(data[place + 46 : place + 48], "little")
    at = np.array(places)
    raw = np.frombuffer(data, np.uint8)
    return raw, raw[at[:, None] + np.arange(HEADER.itemsize)].view(HEADER)[:, 0], at


def _later(
    raw: npt.NDArray[np.uint8],
    head: npt.NDArray[np.void],
    at: npt.NDArray[np.int64],
    cpu: int,
    number: int,
    shift_ns: int,
) -> bytes:
    """The recording once more: later, as if on `cpu`, the events numbered on; without notes after the first time."""
    head = head.copy()
    is_event = head["action"] & NOTIFY == 0
    head["time"] += np.uint64(shift_ns)
    head["cpu"] = cpu
    head["sequence"][is_event] += np.uint32(number * np.count_nonzero(is_event))
    data = raw.copy()
    data[at[:, None] + np.arange(HEADER.itemsize)] = head.view(np.uint8).reshape(len(head), -1)
    if number == 0:
        return data.tobytes()
    size = np.diff(np.append(at, len(raw)))
    return data[np.repeat(is_event, size)].tobytes()


# --- for pytest-benchmark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready() -> Sequence[Contender]:
    return contenders(recording(EVENTS))


@pytest.mark.parametrize("number", range(5), ids=["androstep", "blkparse", "blkparse+btt", "btt", "pyarrow"])
def test_seconds(benchmark: BenchmarkFixture, ready: Sequence[Contender], number: int) -> None:
    once = benchmark.pedantic(formats.run, (ready[number],), rounds=formats.ROUNDS)
    benchmark.extra_info["peak_mib"] = once.peak_bytes >> 20
    benchmark.extra_info["events"] = EVENTS


if __name__ == "__main__":
    main()
