"""Take the rest of the machine out of a trace.dat: names and programs of processes that did nothing to the device.

Events of tasks and the table of names are of the whole machine. Numbers, times and the length of every record stay as
they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from androstep_analysis.ingest import ftrace_pages, source, tracedat, tracedat_file
from androstep_analysis.ingest.ftrace_format import Event, Field
from androstep_analysis.ingest.ftrace_pages import Records
from androstep_analysis.ingest.tracedat_file import Container

TASK_SYSTEMS = ("sched", "task")
INTERRUPT = "block_rq_complete"
"""Comes in whatever thread was running."""
OTHER = b"other"


def redact(trace: Path) -> None:
    """Rewrite `trace`, a trace.dat of version 6 that lost nothing."""
    container = tracedat_file.open_container(source.load(trace))
    events = tracedat.formats(container)
    data = np.frombuffer(container.source.data, np.uint8).copy()
    batches = list(pages(container))
    told = {number for number, event in events.items() if event.system in TASK_SYSTEMS}
    idle = told | {number for number, event in events.items() if event.name == INTERRUPT}
    acting: set[int] = set()
    for records, _ in batches:
        acting.update(threads(records)[~np.isin(kinds(records), list(idle))].tolist())
    for records, place in batches:
        own = records.data.copy()
        for number in told:
            blank(own, records.take(np.flatnonzero(kinds(records) == number)), events[number], acting)
        clear_unused(own, records.layout)
        data[place : place + own.size] = own
    names = container.cmdlines.encode()
    at = container.source.data.index(names)
    data[at : at + len(names)] = np.frombuffer(only(container.cmdlines, acting).ljust(len(names), b"\n"), np.uint8)
    trace.write_bytes(data.tobytes())


def pages(container: Container) -> Iterator[tuple[Records, int]]:
    """The records of each CPU, and where in the file its pages begin."""
    (buffer,) = container.buffers
    layout = ftrace_pages.layout(container.header_page, container.big_endian, buffer.page_bytes, container.long_bytes)
    for cpu, offset, size in buffer.cpus:
        place = offset
        for batch in ftrace_pages.batches(layout, [(cpu, container.source.data[offset : offset + size])]):
            walked = ftrace_pages.walk(batch)
            if walked.lost or walked.broken:
                raise ValueError(f"CPU {cpu} lost {walked.lost} records and has {walked.broken} damaged pages")
            yield walked.records, place
            place += batch.data.size


def kinds(records: Records) -> np.ndarray:
    return records.unsigned(0, 2)


def threads(records: Records) -> np.ndarray:
    return records.unsigned(4, 4).view(np.int32)


def blank(data: np.ndarray, records: Records, event: Event, acting: set[int]) -> None:
    """Of threads that are `acting` the name stays, and of their programs the last part of the path."""
    subject = event.fields["pid"]
    pids = records.unsigned(subject.offset, 4).view(np.int32)
    texts = [field for field in event.fields.values() if field.is_text]
    for start, pid in zip(records.start.tolist(), pids.tolist(), strict=True):
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


def clear_unused(data: np.ndarray, layout: ftrace_pages.Layout) -> None:
    """What a page held before it was used again."""
    for page in data.reshape(-1, layout.page_bytes):
        used = int.from_bytes(bytes(page[layout.commit_at : layout.commit_at + 4]), "little")
        page[layout.data_at + used :] = 0


def only(cmdlines: str, acting: set[int]) -> bytes:
    """The lines (thread and name) of `acting` threads."""
    lines = re.finditer(r"^ *(\d+) .*\n", cmdlines, re.MULTILINE)
    return "".join(line[0] for line in lines if int(line[1]) in acting).encode()
