"""Decode ring-buffer pages and records' fields with numpy, to compare with the native decoder.

All pages are followed in parallel: the first record of every page, the second of every page, and so on. All fields of
all events are decoded as columns; the native decoder knows only those that some table needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.ingest.ftrace.pages import Layout
from androstep_analysis.ingest.source import load
from androstep_analysis.ingest.strings import gather, series

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass
class Decoded:
    """The contents of a file's pages: events counted by name, and all fields of each event by its id.

    common_order is the position among all events of the file, stream by stream.
    """

    events: dict[int, Event]
    counts: Counter[str] = field(default_factory=Counter)
    frames: dict[int, pl.DataFrame] = field(default_factory=dict)
    lost: int = 0
    broken: int = 0


def decoded(path: Path) -> Decoded:
    """Decode everything in the trace.dat `path`."""
    container = tracedat_file.open_container(load(path))
    found = Decoded(binary.formats(container))
    parts: dict[int, list[pl.DataFrame]] = defaultdict(list)
    order = 0
    for stream in container.streams():
        walked = walk(batch(stream.layout, [(stream.cpu, piece) for piece in stream.pieces(1 << 22)]))
        found.lost += walked.lost
        found.broken += walked.broken
        records = walked.records
        kind, tid = records.unsigned(0, 2), records.unsigned(4, 4).view(np.int32)
        for number in np.unique(kind).tolist():
            rows = np.flatnonzero(kind == number)
            event = found.events.get(number)
            found.counts[event.name if event else f"event {number}"] += rows.size
            if event is None:
                continue
            some = records.take(rows)
            common = {
                "common_order": pl.Series(rows + order),
                "common_ts_ns": pl.Series(some.ts_ns.view(np.int64) + container.offset_ns),
                "common_cpu": pl.Series(some.cpu),
                "common_pid": pl.Series(tid[rows]),
            }
            parts[number].append(fields(some, event).with_columns(**common))
        order += records.start.size
    found.frames = {number: pl.concat(frames) for number, frames in parts.items()}
    return found


def unsigned(layout: Layout, size: int) -> np.dtype[np.unsignedinteger[npt.NBitBase]]:
    """Return the numpy type of an unsigned number of `size` bytes."""
    return np.dtype(f"{'>' if layout.big_endian else '<'}u{size}")


# --- pages ---------------------------------------------------------------------------------------------------------

_LONG, _PADDING, _EXTEND, _STAMP = 0, 29, 30, 31
_DELTA_BITS = 27
_STAMP_BITS = 59
_COMMIT = (1 << 27) - 1
_MISSED, _MISSED_COUNTED = 1 << 31, 1 << 30


@dataclass(frozen=True)
class Batch:
    """Consecutive pages, and the CPU of each."""

    layout: Layout
    data: Bytes
    cpu: npt.NDArray[np.int32]


def batch(layout: Layout, parts: Iterable[tuple[int, bytes]]) -> Batch:
    """Return the pages of `parts` (CPU, bytes); a part that ends within a page is padded with zeros."""
    page = layout.page_bytes
    filled = [(cpu, part + bytes(-len(part) % page)) for cpu, part in parts]
    cpus = [np.full(len(part) // page, cpu, np.int32) for cpu, part in filled]
    data = np.frombuffer(b"".join(part for _, part in filled), np.uint8)
    return Batch(layout, data, np.concatenate([np.empty(0, np.int32), *cpus]))


@dataclass(frozen=True)
class Records:
    """Records of a batch, in the order of the pages, as parallel columns.

    `start` and `size` are the position and length in bytes of the record's fields in `data`; both are multiples of 4.
    """

    layout: Layout
    data: Bytes
    start: Int64s
    size: Int64s
    ts_ns: npt.NDArray[np.uint64]
    cpu: npt.NDArray[np.int32]

    def take(self, rows: Int64s) -> Records:
        """Return the records at these positions."""
        columns = (self.start[rows], self.size[rows], self.ts_ns[rows], self.cpu[rows])
        return Records(self.layout, self.data, *columns)

    def unsigned(self, offset: int, size: int) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
        """Return the number of 1, 2, 4 or 8 bytes at `offset` of every record; 0 if the record is too short."""
        inside = self.size >= offset + size
        is_whole = bool(inside.all())
        at = self.start + offset if is_whole else np.where(inside, self.start + offset, 0)
        if size == 8 and offset % 4 == 0:
            words = self.data.view(unsigned(self.layout, 4))
            low, high = words[at // 4].astype(np.uint64), words[at // 4 + 1].astype(np.uint64)
            values = high << np.uint64(32) | low if not self.layout.big_endian else low << np.uint64(32) | high
        elif offset % size == 0:
            values = self.data.view(unsigned(self.layout, size))[at // size]
        else:
            values = self.data[at[:, None] + np.arange(size)].view(unsigned(self.layout, size))[:, 0]
        return (values if is_whole else np.where(inside, values, 0)).astype(f"u{size}", copy=False)


@dataclass(frozen=True)
class Walked:
    """The contents of a batch: records, lost records and damaged pages.

    `lost` counts the records that were overwritten before the pages were read (at least 1 if the kernel does not count
    them), `broken` the pages whose rest could not be followed.
    """

    records: Records
    lost: int
    broken: int


def walk(batch: Batch) -> Walked:
    """Return all records of a batch. A page with a damaged record ends there and is counted."""
    form = batch.layout
    page_words = form.page_bytes // 4
    words = batch.data.view(unsigned(form, 4))
    pages = words.reshape(-1, page_words)
    commit = _longs(pages, form.commit_at, form).astype(np.int64)
    used = commit & _COMMIT
    fits = form.data_at + used <= form.page_bytes
    lost = _lost(pages, commit, used, fits, form)

    first = np.arange(len(pages), dtype=np.int64) * page_words + form.data_at // 4
    page = np.flatnonzero(fits & (used >= 4))
    at = first[page]
    stop = at + used[page] // 4
    now = _first_time(pages, form)[page]
    found: list[tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint64]]] = []
    broken = int((~fits).sum())
    while page.size:
        step = _step(words, at, stop, now, form.big_endian)
        good = step.ends <= stop
        broken += int((~good).sum())
        here = np.flatnonzero(good & step.is_record)
        found.append((page[here], step.starts[here] * 4, (step.ends - step.starts)[here] * 4, step.now[here]))
        on = np.flatnonzero(good & (step.ends < stop))
        page, at, stop, now = page[on], step.ends[on], stop[on], step.now[on]
    return Walked(_in_page_order(batch, found), lost, broken)


def _in_page_order(batch: Batch, found: list[tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint64]]]) -> Records:
    """Return the records of all steps, sorted by page: the n-th step holds the n-th word of each page."""
    counts = np.zeros(len(batch.cpu) + 1, np.int64)
    for pages, *_ in found:
        counts[pages + 1] += 1
    place = np.cumsum(counts)
    total = int(place[-1])
    start, size, ts = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.uint64)
    for pages, starts, sizes, times in found:
        to = place[pages]
        start[to], size[to], ts[to] = starts, sizes, times
        place[pages] += 1
    cpu = np.repeat(batch.cpu, counts[1:])
    return Records(batch.layout, batch.data, start, size, ts, cpu)


@dataclass(frozen=True)
class _Step:
    """One word of each page: start and end of its data (in words), the time after it, and whether it is a record."""

    starts: Int64s
    ends: Int64s
    now: npt.NDArray[np.uint64]
    is_record: npt.NDArray[np.bool_]


def _step(
    words: npt.NDArray[np.unsignedinteger[npt.NBitBase]],
    at: Int64s,
    stop: Int64s,
    now: npt.NDArray[np.uint64],
    big_endian: bool,
) -> _Step:
    head = words[at].astype(np.uint32)
    kind = (head >> np.uint32(_DELTA_BITS) if big_endian else head & np.uint32(31)).astype(np.int64)
    delta = (head & np.uint32(_COMMIT) if big_endian else head >> np.uint32(5)).astype(np.uint64)
    starts, ends, now = at + 1, at + 1 + kind, now + delta
    is_record = kind < _PADDING
    rare = np.flatnonzero((kind == _LONG) | ~is_record)
    if rare.size:
        has_second = at[rare] + 1 < stop[rare]
        second = np.where(has_second, words[np.where(has_second, at[rare] + 1, 0)], 0).astype(np.int64)
        length = (second + 3) // 4
        extra = second.astype(np.uint64) << np.uint64(_DELTA_BITS)
        is_long, is_padding = kind[rare] == _LONG, kind[rare] == _PADDING
        is_stamp = kind[rare] == _STAMP
        starts[rare] = at[rare] + 1 + is_long
        # A padding without time fills the page. A length of zero, or a truncated one, is damage.
        rest = is_padding & (delta[rare] == 0)
        nowhere = ~rest & (~has_second | ((is_long | is_padding) & (second < 4)))
        sized = np.where(is_long | is_padding, at[rare] + 1 + length, at[rare] + 2)
        ends[rare] = np.where(rest, stop[rare], np.where(nowhere, stop[rare] + 1, sized))
        upper = now[rare] >> np.uint64(_STAMP_BITS) << np.uint64(_STAMP_BITS)
        now[rare] = np.where(
            is_stamp, upper | extra | delta[rare], np.where(kind[rare] == _EXTEND, now[rare] + extra, now[rare])
        )
    return _Step(starts, ends, now, is_record)


def _first_time(pages: npt.NDArray[np.unsignedinteger[npt.NBitBase]], form: Layout) -> npt.NDArray[np.uint64]:
    first, second = pages[:, 0].astype(np.uint64), pages[:, 1].astype(np.uint64)
    return first << np.uint64(32) | second if form.big_endian else second << np.uint64(32) | first


def _longs(
    pages: npt.NDArray[np.unsignedinteger[npt.NBitBase]], offset: int, form: Layout
) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
    """Return the lower 32 bits of the kernel's long at `offset` of each page."""
    is_second = form.big_endian and form.commit_bytes == 8
    return pages[:, offset // 4 + is_second]


def _lost(
    pages: npt.NDArray[np.unsignedinteger[npt.NBitBase]],
    commit: Int64s,
    used: Int64s,
    fits: npt.NDArray[np.bool_],
    form: Layout,
) -> int:
    """Return the lost records stated in page headers; 1 for a page without a count."""
    missed = np.flatnonzero(fits & (commit & _MISSED != 0))
    lost = missed.size
    for page in missed[commit[missed] & _MISSED_COUNTED != 0]:
        at = form.data_at + int(used[page])
        count = pages[page].tobytes()[at : at + form.commit_bytes]
        lost += max(int.from_bytes(count, "big" if form.big_endian else "little") - 1, 0)
    return lost


# --- fields --------------------------------------------------------------------------------------------------------


def fields(records: Records, event: Event, names: Collection[str] | None = None) -> pl.DataFrame:
    """Return the fields `names` (all, if None) of `records`, which must be of this event, a row each.

    Numbers keep their size and sign, text ends at its first NUL, other arrays become lists. A field beyond the end of
    its record is null.
    """
    wanted = [field for name, field in event.fields.items() if names is None or name in names]
    return pl.DataFrame([column(records, field) for field in wanted])


def column(records: Records, field: Field) -> pl.Series:
    """Return one field of `records`."""
    if not field.is_array:
        return _numbers(records, field)
    at, length = _place(records, field)
    if field.is_text:
        return _text(records, field.name, at, length)
    return _lists(records, field, at, length)


def _numbers(records: Records, field: Field) -> pl.Series:
    values = records.unsigned(field.offset, field.size_bytes)
    if field.is_signed:
        values = values.view(f"i{field.size_bytes}")
    series = pl.Series(field.name, values)
    too_short = records.size < field.offset + field.size_bytes
    return series.set(pl.Series(too_short), None) if too_short.any() else series


def _place(records: Records, field: Field) -> tuple[Int64s, Int64s]:
    """Return an array's position in the data and its length in bytes; the length is -1 if it is missing."""
    if field.place is None:
        rest = records.size - field.offset
        length = rest if field.size_bytes == 0 else np.full_like(rest, field.size_bytes)
        return records.start + field.offset, np.where((rest >= length) & (rest >= 0), length, -1)
    there = records.unsigned(field.offset, 4).astype(np.int64)
    offset, length = there & 0xFFFF, there >> 16
    if field.place == "__rel_loc":
        offset += field.offset + 4
    inside = (records.size >= field.offset + 4) & (offset + length <= records.size)
    return np.where(inside, records.start + offset, 0), np.where(inside, length, -1)


def _text(records: Records, name: str, at: Int64s, length: Int64s) -> pl.Series:
    """Return text up to its first NUL. The bytes after it are left over from other records. No bytes give null."""
    data, begins = gather(records.data, at, np.maximum(length, 0))
    nul = np.append(np.flatnonzero(data == 0), data.size)
    first = nul[np.searchsorted(nul, begins[:-1])]
    kept = np.minimum(first, begins[1:]) - begins[:-1]
    return series(name, *gather(records.data, at, kept), length <= 0)


def _lists(records: Records, field: Field, at: Int64s, length: Int64s) -> pl.Series:
    whole = np.where(length > 0, length - length % field.element_bytes, length)
    data, begins = gather(records.data, at, np.maximum(whole, 0))
    values = data.view(unsigned(records.layout, field.element_bytes)).astype(f"u{field.element_bytes}")
    if field.is_signed:
        values = values.view(f"i{field.element_bytes}")
    array = pa.LargeListArray.from_arrays(
        pa.array(begins // field.element_bytes, pa.int64()), pa.array(values), mask=pa.array(length < 0)
    )
    return pl.Series(field.name, array)
