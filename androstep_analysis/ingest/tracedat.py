"""trace-cmd's ``trace.dat``, as trace-cmd and iotrace write it: the kernel's own records, decoded by its own formats.

Whatever the kernel, a record is read by the format file saved beside it. Times stay in the clock that was traced.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import schema
from androstep_analysis.errors import Loss
from androstep_analysis.ingest import fs_events, ftrace_format, ftrace_pages, text, threads, tracedat_file
from androstep_analysis.ingest.ftrace_format import Event
from androstep_analysis.ingest.ftrace_pages import Records
from androstep_analysis.ingest.ftrace_text import ACTIONS
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.ingest.tracedat_file import Container

BLOCK_FIELDS = ("dev", "sector", "nr_sector", "new_sector", "rwbs", "comm", "old_dev", "old_sector", "error", "errors")
"""The fields of block events that are of use (include/trace/events/block.h, Linux 3.10 to 6.18).

`new_sector` is that of a split. `errors` became `error` in 4.12. What else differs between kernels needs no care here:
`rwbs` has 8 bytes, since 6.17 10, `bytes` and `ioprio` (6.5) stand between.
"""

_NO_ERROR = "block_rq_requeue"
"""Has a field for the result before 4.12 that says nothing: the request is not done."""


_NO_NANOSECONDS = ("counter", "uptime", "x86-tsc", "ppc-tb")
"""Trace clocks that count events, jiffies or cycles (Linux, Documentation/trace/ftrace.rst)."""


def sniff(head: bytes) -> bool:
    """Whether `head` begins as trace-cmd's files do."""
    return head.startswith(tracedat_file.MAGIC)


def read(source: Source) -> Staging:
    """The events of all instances in the file.

    `lost_events` is what the kernel counted: in the headers of the pages, or in the statistics saved with them,
    whichever is more, and what it could not record at all.
    """
    container = tracedat_file.open_container(source)
    events = formats(container)
    recording = decode(container, events, {number: _wanted(event) for number, event in events.items()})
    decoded = [(events[number], frame) for number, frame in recording.frames.items()]
    block = _block(decoded)
    names = threads.versions(
        {event.name: frame for event, frame in decoded},
        _seen(block, recording.tids),
        _pairs(container.cmdlines),
        _tgids(container.tgids),
    )
    lost_events, losses = _losses(container, recording)
    return Staging(
        format="trace.dat",
        block=text.block_events(threads.named(block, names).drop("order")),
        fs_events=schema.conform(threads.named(fs_events.table(decoded), names), "fs_events"),
        events=dict(sorted(recording.counts.items())),
        first_ns=recording.first_ns,
        last_ns=recording.last_ns,
        tasks=threads.table(names),
        clock=container.clock,
        realtime_offset_ns=container.realtime_offset_ns,
        lost_events=lost_events,
        losses=(*_merged(container.losses), *losses),
    )


_TEXTS = {
    *("rwbs", "comm", "name", "new_name", "old_name", "from", "to", "pathbuf"),
    *("oldcomm", "newcomm", "child_comm", "filename"),
    *fs_events.PATH_FIELDS,
}


def _wanted(event: Event) -> tuple[str, ...]:
    """The fields of an event that some table needs, as far as they are text or number as expected."""
    names = (
        *(BLOCK_FIELDS if event.name in ACTIONS else ()),
        *fs_events.wanted(event.name),
        *threads.FIELDS.get(event.name, ()),
    )
    fields = [event.fields[name] for name in names if name in event.fields]
    return tuple(field.name for field in fields if field.is_text == field.is_array == (field.name in _TEXTS))


# --- decoding ----------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """What the pages of a file hold.

    `counts` counts all events by name, `per_cpu` by CPU; `tids` are all threads. `frames` holds, for each event that
    was asked for (by its number), its fields and what is common to all: common_order (place among all events of the
    file), common_ts_ns, common_cpu and common_pid (the thread). `lost` records were overwritten, `broken` pages could
    not be followed to their end, and `unknown` events have no format.
    """

    counts: Counter[str] = field(default_factory=Counter)
    per_cpu: Counter[int] = field(default_factory=Counter)
    tids: set[int] = field(default_factory=set)
    frames: dict[int, pl.DataFrame] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    lost: int = 0
    broken: int = 0
    unknown: int = 0


def formats(container: Container) -> dict[int, Event]:
    """The events that the file describes, by their number in the records."""
    parsed = (ftrace_format.parse(form, system, container.long_bytes) for system, form in container.formats)
    return {event.id: event for event in parsed if event is not None}


def decode(
    container: Container, events: Mapping[int, Event], wanted: Mapping[int, tuple[str, ...] | None]
) -> Recording:
    """All events of the file counted, and of those `wanted` (by number) the fields named, or all for None."""
    recording = Recording()
    parts: dict[int, list[pl.DataFrame]] = defaultdict(list)
    order = 0
    for batch in _batches(container):
        walked = ftrace_pages.walk(batch)
        recording.lost += walked.lost
        recording.broken += walked.broken
        if walked.records.start.size:
            for number, frame in _decode_batch(recording, walked.records, order, container, events, wanted):
                parts[number].append(frame)
        order += walked.records.start.size
    recording.frames = {number: pl.concat(frames) for number, frames in parts.items()}
    return recording


def _batches(container: Container) -> Iterator[ftrace_pages.Batch]:
    for buffer in container.buffers:
        layout = ftrace_pages.layout(
            container.header_page, container.big_endian, buffer.page_bytes, container.long_bytes
        )
        yield from ftrace_pages.batches(layout, container.parts(buffer))


def _decode_batch(
    recording: Recording,
    records: Records,
    order: int,
    container: Container,
    events: Mapping[int, Event],
    wanted: Mapping[int, tuple[str, ...] | None],
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Counts the records, the first of which is number `order` of the file; yields the wanted ones event by event."""
    common = next(iter(events.values())).fields if events else {}
    kind = records.unsigned(common["common_type"].offset if "common_type" in common else 0, 2)
    tid = records.unsigned(common["common_pid"].offset if "common_pid" in common else 4, 4).view(np.int32)
    ts = _time_ns(records.ts_ns, container)
    first, last = int(ts.min()), int(ts.max())
    recording.first_ns = first if recording.first_ns is None else min(first, recording.first_ns)
    recording.last_ns = last if recording.last_ns is None else max(last, recording.last_ns)
    recording.per_cpu.update(ftrace_pages.count(records.cpu))
    recording.tids.update(np.unique(tid).tolist())
    by_kind = np.argsort(kind, kind="stable")
    numbers, begins = np.unique(kind[by_kind], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(by_kind, begins[1:]), strict=True):
        event = events.get(number)
        recording.counts[event.name if event else f"event {number}"] += rows.size
        if event is None:
            recording.unknown += rows.size
        elif wanted.get(number, ()) != ():
            some = records.take(rows)
            fields = ftrace_format.decode(some, event, wanted[number])
            yield (
                number,
                fields.with_columns(
                    common_order=pl.Series(rows + order),
                    common_ts_ns=pl.Series(ts[rows]),
                    common_cpu=pl.Series(some.cpu),
                    common_pid=pl.Series(tid[rows]),
                ),
            )


def _time_ns(ts: npt.NDArray[np.uint64], container: Container) -> npt.NDArray[np.int64]:
    """Nanoseconds of the times in the records, as trace-cmd makes them."""
    if container.tsc is not None:
        multiplier, shift = container.tsc
        upper, lower = ts >> np.uint64(32), ts & np.uint64(0xFFFFFFFF)
        upper, lower = upper * np.uint64(multiplier), lower * np.uint64(multiplier)
        ts = (upper << np.uint64(32 - min(shift, 32))) + (lower >> np.uint64(min(shift, 63)))
    return ts.view(np.int64) + container.offset_ns


# --- tables ------------------------------------------------------------------------------------------------------


def _block(decoded: Iterable[tuple[Event, pl.DataFrame]]) -> pl.DataFrame:
    """Table `block_events` with column order, and null for names that the events themselves do not tell."""
    want = schema.table("block_events").polars
    empty = schema.empty("block_events").with_columns(order=pl.lit(None, pl.Int64))
    rows = [_block_kind(event.name, frame) for event, frame in decoded if event.name in ACTIONS]
    return fs_events.in_time(pl.concat([empty, *rows], how="diagonal").select("order", *want))


def _block_kind(event: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of one tracepoint, with those columns of the table that it fills."""
    want = schema.table("block_events").polars
    # All ones, the sector of an empty flush, is no Int64 and becomes null.
    columns: dict[str, pl.Expr] = {
        name: pl.col(name).cast(want[name], strict=False)
        for name in ("dev", "sector", "rwbs", "comm", "old_dev", "old_sector")
        if name in frame.columns
    }
    if "nr_sector" in frame.columns:
        columns["nr_sectors"] = pl.col("nr_sector").cast(pl.Int64)
    elif "new_sector" in frame.columns:
        # A split tells where it cuts: the length is that of the part before the cut.
        cut = pl.col("new_sector").cast(pl.Int64, strict=False) - columns["sector"]
        columns["nr_sectors"] = pl.when(cut >= 0).then(cut)
    errno = next((pl.col(name) for name in ("error", "errors") if name in frame.columns), None)
    if errno is not None and event != _NO_ERROR:
        # Before Linux 4.12 it is the driver's own status, which may be positive and then says nothing here.
        columns["error"] = pl.when(errno <= 0).then(errno).cast(pl.Int32)
    return frame.select(
        order="common_order",
        ts_ns="common_ts_ns",
        cpu=pl.when(pl.col("common_cpu") != tracedat_file.UNKNOWN_CPU).then("common_cpu"),
        tid="common_pid",
        event=pl.lit(event),
        action=pl.lit(ACTIONS[event], want["action"]),
        **columns,
    )


def _seen(block: pl.DataFrame, tids: set[int]) -> pl.DataFrame:
    """The names that block events tell, and all threads."""
    told = block.select("ts_ns", "order", "tid", "comm")
    others = pl.DataFrame({"tid": sorted(tids)}, schema={"tid": pl.Int32})
    return pl.concat([told, others], how="diagonal")


def _pairs(saved: str) -> dict[int, str]:
    """Thread and name on each line of tracefs' ``saved_cmdlines``; without those it had forgotten."""
    lines = re.finditer(r"^ *(\d{1,9}) (.+)$", saved, re.MULTILINE)
    return {int(line[1]): line[2] for line in lines if line[2] != "<...>"}


def _tgids(saved: str) -> dict[int, int]:
    """Thread and process on each line of tracefs' ``saved_tgids``."""
    return {tid: int(pid) for tid, pid in _pairs(saved).items() if re.fullmatch(r"\d{1,9}", pid)}


def _losses(container: Container, recording: Recording) -> tuple[int, tuple[Loss, ...]]:
    """How many events the kernel lost, and that and what could not be read, in sentences."""
    overwritten = max(recording.lost, _stat(container, "overrun"))
    dropped = _stat(container, "dropped events") + _stat(container, "commit overrun")
    said = (
        ("overwritten", overwritten, "events were overwritten before they were read"),
        ("dropped", dropped, "events were dropped by the kernel: its buffer was full"),
        ("unreadable", recording.broken, "pages are damaged; their events from the damage on are lost"),
        ("unreadable", recording.unknown, "events cannot be read: the file does not say what they hold"),
    )
    losses = tuple(Loss(kind, n, f"{n} {what}") for kind, n, what in said if n)
    if container.clock in _NO_NANOSECONDS and container.tsc is None:
        message = f"the clock {container.clock} counts no nanoseconds, and the file does not say what: no time is right"
        losses += (Loss("clock", 1, message),)
    return overwritten + dropped, losses


def _merged(losses: Sequence[Loss]) -> Iterator[Loss]:
    """One loss for each kind, with the first of its messages: each part of a damaged file may have one."""
    for kind in dict.fromkeys(loss.kind for loss in losses):
        same = [loss for loss in losses if loss.kind == kind]
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        yield Loss(kind, sum(loss.count for loss in same), same[0].message + more)


def _stat(container: Container, name: str) -> int:
    """The sum over all CPUs of a line of tracefs' ``per_cpu/cpu*/stats``."""
    found = (re.search(rf"^{name}: (\d{{1,18}})$", stats, re.MULTILINE) for stats in container.cpu_stats)
    return sum(int(match[1]) for match in found if match)
