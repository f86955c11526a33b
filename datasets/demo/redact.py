"""Take the rest of the machine out of a trace.dat: names and programs of processes that did nothing to the device.

Events of tasks and the table of names are of the whole machine. Numbers, times and the length of every record stay as
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.ftrace import pages as ftrace_pages
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.ingest.ftrace.pages import Layout, Records
from androstep_analysis.ingest.ftrace.tracedat_file import Container

TASK_SYSTEMS = ("sched", "task")
OF_ANYBODY = ("block_rq_complete", "ext4_evict_inode")
"""Come in whatever thread was running, or asked for memory that the kernel took from what it cached."""
OTHER = b"other"


def redact(trace: Path) -> None:
    """Rewrite `trace`, a trace.dat of version 6 that lost nothing."""
    container = tracedat_file.open_container(source.load(trace))
    events = binary.formats(container)
    data = np.frombuffer(container.source.data, np.uint8).copy()
    parts = list(pages(container))
    told = {number for number, event in events.items() if event.system in TASK_SYSTEMS}
    idle = told | {number for number, event in events.items() if event.name in OF_ANYBODY}
    acting: set[int] = set()
    for own, _, records, _ in parts:
        acting.update(threads(own, records)[~np.isin(kinds(own, records), list(idle))].tolist())
    for own, place, records, layout in parts:
        numbers = kinds(own, records)
        for number in told:
            blank(own, records.start[numbers == number], events[number], acting)
        clear_unused(own, layout)
        data[place : place + own.size] = own
    if container.cmdlines_at is None:
        raise ValueError(f"{trace}: a trace.dat of version 6 was expected")
    first = container.cmdlines_at + 8
    size = int.from_bytes(bytes(data[first - 8 : first]), "little")
    names = bytes(data[first : first + size])  # of any bytes: the kernel cuts names within a character, too
    data[first : first + size] = np.frombuffer(only(names, acting).ljust(size, b"\n"), np.uint8)
    trace.write_bytes(data.tobytes())


def pages(container: Container) -> Iterator[tuple[np.ndarray, int, Records, Layout]]:
    """The pages of each CPU, where in the file they begin, and where in them the records are."""
    (buffer,) = container.buffers
    for stream, (cpu, place, size) in zip(container.streams(), buffer.cpus, strict=True):
        own = b"".join(stream.pieces(size + 1))
        records = ftrace_pages.records(stream.layout, own)
        if records.lost or records.broken:
            raise ValueError(f"CPU {cpu} lost {records.lost} records and has {records.broken} damaged pages")
        yield np.frombuffer(own, np.uint8).copy(), place, records, stream.layout


def kinds(data: np.ndarray, records: Records) -> np.ndarray:
    return data.view(np.uint16)[records.start // 2]


def threads(data: np.ndarray, records: Records) -> np.ndarray:
    return data.view(np.int32)[records.start // 4 + 1]


def blank(data: np.ndarray, starts: np.ndarray, event: Event, acting: set[int]) -> None:
    """Of threads that are `acting` the name stays, and of their programs the last part of the path."""
    subject = event.fields["pid"]
    pids = data.view(np.int32)[(starts + subject.offset) // 4]
    texts = [field for field in event.fields.values() if field.is_text]
    for start, pid in zip(starts.tolist(), pids.tolist(), strict=True):
        for field in texts:
            first, end = span(data, start, field)
            text = bytes(data[first:end]).split(b"\0")[0]
            name = text.rpartition(b"/")[2] if field.name == "filename" else text
            kept = name if pid in acting else OTHER
            data[first:end] = np.frombuffer(kept[: end - first - 1].ljust(end - first, b"\0"), np.uint8)


def span(data: np.ndarray, start: int, field: Field) -> tuple[int, int]:
    """Where the text of a record that begins at `start` begins and ends."""
    at = start + field.offset
    if field.place is None:
        return at, at + field.size_bytes
    place = int.from_bytes(bytes(data[at : at + 4]), "little")
    return start + (place & 0xFFFF), start + (place & 0xFFFF) + (place >> 16)


def clear_unused(data: np.ndarray, layout: Layout) -> None:
    """What a page held before it was used again."""
    for page in data.reshape(-1, layout.page_bytes):
        used = int.from_bytes(bytes(page[layout.commit_at : layout.commit_at + 4]), "little")
        page[layout.data_at + used :] = 0


def only(cmdlines: bytes, acting: set[int]) -> bytes:
    """The lines (thread and name) of `acting` threads."""
    lines = re.finditer(rb"^ *(\d+) .*\n", cmdlines, re.MULTILINE)
    return b"".join(line[0] for line in lines if int(line[1]) in acting)
