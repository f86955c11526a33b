"""Remove other processes from a trace.dat: keep names and programs of the recorder's processes only.

Task events and the table of names cover the whole machine. Any thread may act on the device, because the kernel
reclaims memory in the thread that allocates it. Names of kernel threads are kept if they acted on the device. Ids,
times and the length of every record are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.ftrace import pages as ftrace_pages
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.ingest.ftrace.pages import Layout, Records
from androstep_analysis.ingest.ftrace.tracedat_file import Container
from androstep_analysis.ingest.tasks import kind

Part = tuple[np.ndarray, int, Records, Layout]
"""The pages of a CPU, their offset in the file, the positions of their records, and their layout."""

TASK_SYSTEMS = ("sched", "task")
OTHER = b"other"


def redact(trace: Path, recorders: Collection[int]) -> None:
    """Rewrite `trace`, a trace.dat of version 6 without lost events, in place.

    Names of `recorders` and their descendants are kept.
    """
    container = tracedat_file.open_container(source.load(trace))
    events = binary.formats(container)
    data = np.frombuffer(container.source.data, np.uint8).copy()
    parts = list(pages(container))
    of_tasks = [number for number, event in events.items() if event.system in TASK_SYSTEMS]
    if container.cmdlines_at is None:
        raise ValueError(f"{trace}: a trace.dat of version 6 was expected")
    first = container.cmdlines_at + 8
    size = int.from_bytes(bytes(data[first - 8 : first]), "little")
    names = bytes(data[first : first + size])  # may be invalid UTF-8: the kernel truncates bytes
    acting: set[int] = set()
    for own, _, records, _ in parts:
        acting.update(threads(own, records)[~np.isin(kinds(own, records), of_tasks)].tolist())
    acting &= descendants(parts, events, recorders) | of_the_kernel(names)
    for own, place, records, layout in parts:
        numbers = kinds(own, records)
        for number, event in events.items():
            blank(own, records.start[numbers == number], event, acting)
        clear_unused(own, layout)
        data[place : place + own.size] = own
    data[first : first + size] = np.frombuffer(only(names, acting).ljust(size, b"\n"), np.uint8)
    trace.write_bytes(data.tobytes())


def pages(container: Container) -> Iterator[Part]:
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


def descendants(parts: list[Part], events: Mapping[int, Event], recorders: Collection[int]) -> set[int]:
    """Return the threads `recorders`, and all threads started by them or by their descendants."""
    (number,) = (number for number, event in events.items() if event.name == "task_newtask")
    child = events[number].fields["pid"].offset
    parents: dict[int, int] = {}
    for own, _, records, _ in parts:
        starts = records.start[kinds(own, records) == number]
        words = own.view(np.int32)
        parents.update(zip(words[(starts + child) // 4].tolist(), words[starts // 4 + 1].tolist(), strict=True))
    found, size = set(recorders), 0
    while size < len(found):
        size = len(found)
        found.update(thread for thread, parent in parents.items() if parent in found)
    return found


def of_the_kernel(cmdlines: bytes) -> set[int]:
    """Return the threads with names of kernel threads.

    Names of servers are left out, because any program may use them.
    """
    rows = re.findall(rb"^ *(\d+) (.*)\n", cmdlines, re.MULTILINE)
    names = pl.DataFrame({"comm": [name.decode(errors="replace") for _, name in rows]})
    kernel = names.select(~kind(pl.col("comm")).is_in(["other", "server"])).to_series().to_list()
    return {int(thread) for (thread, _), known in zip(rows, kernel, strict=True) if known}


def blank(data: np.ndarray, starts: np.ndarray, event: Event, acting: set[int]) -> None:
    """Replace names and program paths.

    Threads that are `acting` keep their names, and the last part of their programs' paths.
    """
    of_tasks = event.system in TASK_SYSTEMS
    texts = [field for field in event.fields.values() if field.is_text and (of_tasks or field.name == "comm")]
    if not texts:
        return
    subject = event.fields["pid" if of_tasks else "common_pid"]
    pids = data.view(np.int32)[(starts + subject.offset) // 4]
    for start, pid in zip(starts.tolist(), pids.tolist(), strict=True):
        for field in texts:
            first, end = span(data, start, field)
            text = bytes(data[first:end]).split(b"\0")[0]
            name = text.rpartition(b"/")[2] if field.name == "filename" else text
            kept = name if pid in acting else OTHER
            data[first:end] = np.frombuffer(kept[: end - first - 1].ljust(end - first, b"\0"), np.uint8)


def span(data: np.ndarray, start: int, field: Field) -> tuple[int, int]:
    """Return start and end of a text field in a record that begins at `start`."""
    at = start + field.offset
    if field.place is None:
        return at, at + field.size_bytes
    place = int.from_bytes(bytes(data[at : at + 4]), "little")
    return start + (place & 0xFFFF), start + (place & 0xFFFF) + (place >> 16)


def clear_unused(data: np.ndarray, layout: Layout) -> None:
    """Clear the unused ends of pages, which hold data from earlier use."""
    for page in data.reshape(-1, layout.page_bytes):
        used = int.from_bytes(bytes(page[layout.commit_at : layout.commit_at + 4]), "little")
        page[layout.data_at + used :] = 0


def only(cmdlines: bytes, acting: set[int]) -> bytes:
    """Return the lines (thread and name) of `acting` threads."""
    lines = re.finditer(rb"^ *(\d+) .*\n", cmdlines, re.MULTILINE)
    return b"".join(line[0] for line in lines if int(line[1]) in acting)
