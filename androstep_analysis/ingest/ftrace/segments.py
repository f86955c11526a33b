"""Join the segments of a recording (``iotrace --segment``) into one ``trace.dat``.

Each segment is a trace.dat of version 6. It contains the pages of every CPU since the previous segment.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.ingest.ftrace.tracedat_file import CPUSTAT, Container, open_container
from androstep_analysis.ingest.source import Source, load

_OPTIONS, _TABLE = b"options  \0", b"flyrecord\0"
_LOCATION = struct.Struct("<QQ")
_SIZE = struct.Struct("<Q")
_OPTION = struct.Struct("<HI")
_NAME = re.compile(r"segment-([0-9]{20})\.dat", re.ASCII)


def is_one(name: str) -> bool:
    """Return whether iotrace gives a segment this name."""
    return _NAME.fullmatch(name) is not None


def end_ns(segment: Path) -> int:
    """Return the end of a segment in the trace clock. All earlier events are in this segment or a previous one."""
    match = _NAME.fullmatch(segment.name)
    if match is None:
        raise InputError(f"{printable(str(segment))}: is not named segment-TIME.dat, as iotrace does; restore its name")
    return int(match[1])


class Counters(NamedTuple):
    """How many events were read from the kernel, and how many it lost, since the recording began."""

    taken: int
    lost: int


def counters(segment: Path) -> Counters:
    """Return the kernel's counters at the end of the segment."""
    statistics = "\n".join(open_container(load(segment)).cpu_stats)
    rows = re.findall(r"^([a-z ]+): ([0-9]{1,18})$", statistics, re.MULTILINE)
    return Counters(
        sum(int(number) for name, number in rows if name == "read events"),
        sum(int(number) for name, number in rows if name in ("overrun", "commit overrun", "dropped events")),
    )


def join(segments: Sequence[Path], out: Path, *, is_whole: bool) -> None:
    """Write consecutive segments as one trace.dat, with the names of threads from the last one.

    The kernel's statistics count from the start of the recording. They are left out unless the segments are the whole
    recording (`is_whole`).

    Raises
    ------
    InputError
        If a file is not a segment.
    """
    opened = [_opened(path) for path in segments]
    page_bytes, nr_cpus = opened[-1].page_bytes, len(opened[-1].buffers[0].cpus)
    head, tail = _around_locations(opened[-1], is_whole)
    begin = len(head) + nr_cpus * _LOCATION.size + len(tail)
    offset = first = -(-begin // page_bytes) * page_bytes
    blocks = [_blocks(opened, cpu) for cpu in range(nr_cpus)]
    with out.open("wb") as file:
        file.write(head)
        for of_cpu in blocks:
            size = sum(size for _, _, size in of_cpu)
            file.write(_LOCATION.pack(offset, size))
            offset += size
        file.write(tail + bytes(first - begin))
        for source, start, size in itertools.chain.from_iterable(blocks):
            for piece in source.part(start, start + size).pieces():
                file.write(piece)


def _opened(path: Path) -> Container:
    container = open_container(load(path))
    if container.version != 6 or len(container.buffers) != 1 or container.losses or not container.buffers[0].cpus:
        raise InputError(f"{printable(str(path))}: the segment is incomplete; record again")
    return container


def _around_locations(container: Container, is_whole: bool) -> tuple[bytes, bytes]:
    """Return the bytes before and after the table with the locations of each CPU's pages."""
    data = container.source.read(0, min(offset for _, offset, _ in container.buffers[0].cpus))
    table_at = data.rindex(_TABLE) + len(_TABLE)
    options = data.rindex(_OPTIONS, 0, table_at) + len(_OPTIONS)
    chosen = data[options:table_at] if is_whole else b"".join(_without_statistics(data[options:table_at]))
    end = table_at + len(container.buffers[0].cpus) * _LOCATION.size
    (clock_bytes,) = _SIZE.unpack_from(data, end)
    return data[:options] + chosen, data[end : end + _SIZE.size + clock_bytes]


def _without_statistics(options: bytes) -> Iterator[bytes]:
    """Yield the options and their terminator, except the options with counters of a CPU."""
    position = 0
    while options[position : position + 2] != b"\0\0":
        kind, size = _OPTION.unpack_from(options, position)
        end = position + _OPTION.size + size
        if kind != CPUSTAT:
            yield options[position:end]
        position = end
    yield options[position:]


def _blocks(containers: Sequence[Container], cpu: int) -> list[tuple[Source, int, int]]:
    """Return the locations of a CPU's pages in each segment.

    If a recorder was killed right after it had written a segment, the next segment contains the same pages again.
    """
    blocks: list[tuple[Source, int, int]] = []
    before = b""
    for container in containers:
        _, start, size = container.buffers[0].cpus[cpu]
        head = container.source.read(start, container.page_bytes) if size else b""
        if size and head != before:
            blocks.append((container.source, start, size))
            before = head
    return blocks
