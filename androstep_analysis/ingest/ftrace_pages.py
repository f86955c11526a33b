"""Pages of the kernel's ring buffer: from bytes to the place, time and thread of every record, by columns.

A page (Linux, kernel/trace/ring_buffer.c) begins with the time of its first record and the number of bytes in use
(``commit``), whose upper bits say that records were lost before it; the count of those follows the data. A record is
a 32-bit word of type (5 bits) and time since the last record (27 bits), then its data. Types 1 to 28 are the length in
words; 0 is a record whose length follows; 29 is padding, 30 extends the time, 31 sets it. The words of all pages are
followed in step: the first record of every page, the second of every page, and so on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BATCH_BYTES = 16 << 20
"""How much is decoded at a time: enough that numpy works on long columns, little enough to stay in memory."""

_LONG, _PADDING, _EXTEND, _STAMP = 0, 29, 30, 31
_DELTA_BITS = 27
_STAMP_BITS = 59
_COMMIT = (1 << 27) - 1
_MISSED, _MISSED_COUNTED = 1 << 31, 1 << 30
_HEADER_FIELD = re.compile(
    r"field:[^;]{0,99}?(?P<name>\w{1,99});\s*offset:(?P<offset>\d{1,4});\s*size:(?P<size>\d{1,6});"
)


@dataclass(frozen=True)
class Layout:
    """How pages are laid out: byte order, size, and where the header's fields are, in bytes."""

    big_endian: bool
    page_bytes: int
    commit_at: int
    commit_bytes: int
    data_at: int

    def number(self, size: int) -> np.dtype[np.unsignedinteger[npt.NBitBase]]:
        """The numpy type of an unsigned number of `size` bytes."""
        return np.dtype(f"{'>' if self.big_endian else '<'}u{size}")


def layout(header_page: str, big_endian: bool, page_bytes: int, long_bytes: int) -> Layout:
    """The layout that the saved file ``events/header_page`` tells, else the one of every kernel with such longs."""
    fields = {m["name"]: (int(m["offset"]), int(m["size"])) for m in _HEADER_FIELD.finditer(header_page)}
    commit_at, commit_bytes = fields.get("commit", (8, long_bytes))
    data_at = fields.get("data", (commit_at + commit_bytes, 0))[0]
    if commit_bytes not in (4, 8) or commit_at % 4 or data_at % 4 or commit_at + commit_bytes > data_at:
        commit_at, commit_bytes, data_at = 8, long_bytes, 8 + long_bytes
    return Layout(big_endian, page_bytes, commit_at, commit_bytes, data_at)


@dataclass(frozen=True)
class Batch:
    """Some pages, one after the other, and the CPU each is of."""

    layout: Layout
    data: Bytes
    cpu: npt.NDArray[np.int32]


def batches(layout: Layout, parts: Iterable[tuple[int, bytes | memoryview]]) -> Iterator[Batch]:
    """The pages of `parts` (CPU, bytes), collected to at least `BATCH_BYTES`; a part that ends in a page is filled up.

    What is missing from that page reads as zeros, which hold no records.
    """
    page = layout.page_bytes
    step = max(BATCH_BYTES // page, 1) * page
    waiting: list[tuple[int, bytes | memoryview]] = []
    size = 0
    for cpu, part in parts:
        for start in range(0, len(part), step):
            piece = part[start : start + step]
            waiting.append((cpu, piece))
            size += -(-len(piece) // page) * page
            if size >= step:
                yield _batch(layout, waiting, size)
                waiting, size = [], 0
    if waiting:
        yield _batch(layout, waiting, size)


def _batch(layout: Layout, parts: list[tuple[int, bytes | memoryview]], size: int) -> Batch:
    data = np.zeros(size, np.uint8)
    cpus = []
    at = 0
    for cpu, part in parts:
        pages = -(-len(part) // layout.page_bytes)
        data[at : at + len(part)] = np.frombuffer(part, np.uint8)
        cpus.append(np.full(pages, cpu, np.int32))
        at += pages * layout.page_bytes
    return Batch(layout, data, np.concatenate(cpus))


@dataclass(frozen=True)
class Records:
    """Records of a batch, in the order of the pages, as parallel columns.

    `start` and `size` say where in `data` the record's fields are, in bytes; a record is a multiple of 4 bytes long
    and starts at one.
    """

    layout: Layout
    data: Bytes
    start: Int64s
    size: Int64s
    ts_ns: npt.NDArray[np.uint64]
    cpu: npt.NDArray[np.int32]

    def take(self, rows: Int64s) -> Records:
        """The records at these positions."""
        columns = (self.start[rows], self.size[rows], self.ts_ns[rows], self.cpu[rows])
        return Records(self.layout, self.data, *columns)

    def unsigned(self, offset: int, size: int) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
        """The number of 1, 2, 4 or 8 bytes at `offset` of every record; 0 where the record is too short for it."""
        inside = self.size >= offset + size
        is_whole = bool(inside.all())
        at = self.start + offset if is_whole else np.where(inside, self.start + offset, 0)
        if size == 8 and offset % 4 == 0:
            words = self.data.view(self.layout.number(4))
            low, high = words[at // 4].astype(np.uint64), words[at // 4 + 1].astype(np.uint64)
            values = high << np.uint64(32) | low if not self.layout.big_endian else low << np.uint64(32) | high
        elif offset % size == 0:
            values = self.data.view(self.layout.number(size))[at // size]
        else:
            values = self.data[at[:, None] + np.arange(size)].view(self.layout.number(size))[:, 0]
        return (values if is_whole else np.where(inside, values, 0)).astype(f"u{size}", copy=False)


@dataclass(frozen=True)
class Walked:
    """What was found in a batch: its records, how many were lost before them and what could not be followed.

    `lost` counts the records that were overwritten before the pages were read (at least 1 where the kernel does not
    say how many), `broken` the pages of which the rest could not be followed.
    """

    records: Records
    lost: int
    broken: int


def walk(batch: Batch) -> Walked:
    """All records of a batch. A page whose records cannot be followed further ends there and is counted."""
    form = batch.layout
    page_words = form.page_bytes // 4
    words = batch.data.view(form.number(4))
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
    """The records of all steps, sorted by page: the n-th step holds the n-th word of each page."""
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
    """One word of each page: where its data starts and ends (in words), the time after it, whether it is a record."""

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
        # A padding without time fills the page up; a length of nothing, or one that was cut off, leads nowhere.
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
    """The lower 32 bits of the kernel's long at `offset` of each page."""
    is_second = form.big_endian and form.commit_bytes == 8
    return pages[:, offset // 4 + is_second]


def _lost(
    pages: npt.NDArray[np.unsignedinteger[npt.NBitBase]],
    commit: Int64s,
    used: Int64s,
    fits: npt.NDArray[np.bool_],
    form: Layout,
) -> int:
    """How many records the page headers say were lost; 1 for a page that does not say how many."""
    missed = np.flatnonzero(fits & (commit & _MISSED != 0))
    lost = missed.size
    for page in missed[commit[missed] & _MISSED_COUNTED != 0]:
        at = form.data_at + int(used[page])
        count = pages[page].tobytes()[at : at + form.commit_bytes]
        lost += max(int.from_bytes(count, "big" if form.big_endian else "little") - 1, 0)
    return lost


def count(numbers: npt.NDArray[np.integer[Any]]) -> Counter[int]:
    """How often each number occurs."""
    distinct, times = np.unique(numbers, return_counts=True)
    return Counter(dict(zip(distinct.tolist(), times.tolist(), strict=True)))
