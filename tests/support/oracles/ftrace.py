"""Decode ring-buffer pages and records' fields one by one, to compare with the native decoder.

All fields of all events are decoded; the native decoder knows only those that some table needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.ingest.ftrace import binary, tracedat_file
from androstep_analysis.ingest.ftrace.event_format import Event, Field
from androstep_analysis.ingest.ftrace.pages import Layout
from androstep_analysis.ingest.source import load

_LONG, _PADDING, _EXTEND, _STAMP = 0, 29, 30, 31
_DELTA_BITS = 27
_STAMP_BITS = 59
_COMMIT = (1 << 27) - 1
_MISSED, _MISSED_COUNTED = 1 << 31, 1 << 30
_TIMES = 1 << 64


@dataclass
class Decoded:
    """The contents of a file's pages: events counted by name, and all fields of each event by its id.

    common_order is the position among all events of the file, stream by stream.
    """

    events: dict[int, Event]
    counts: Counter[str] = field(default_factory=Counter)
    frames: dict[int, pl.DataFrame] = field(default_factory=dict)


def decoded(path: Path) -> Decoded:
    """Decode everything in the trace.dat `path`."""
    container = tracedat_file.open_container(load(path))
    found = Decoded(binary.formats(container))
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for stream in container.streams():
        order = "big" if stream.layout.big_endian else "little"
        for piece in stream.pieces(1 << 22):
            for start, size, ts in walk(stream.layout, piece).records:
                record = piece[start : start + size]
                number = _number(record, 0, 2, order)
                event = found.events.get(number)
                found.counts[event.name if event else f"event {number}"] += 1
                if event is not None:
                    common = {"common_order": found.counts.total(), "common_cpu": stream.cpu}
                    values = {name: value(record, one, order) for name, one in event.fields.items()}
                    rows[number].append({**values, **common, "common_ts_ns": ts + container.offset_ns})
    for number, of_event in rows.items():
        types: dict[str, Any] = {name: _type(one) for name, one in found.events[number].fields.items()}
        common_types = dict.fromkeys(("common_order", "common_cpu", "common_ts_ns"), pl.Int64)
        found.frames[number] = pl.DataFrame(of_event, types | common_types, orient="row")
    return found


# --- pages ---------------------------------------------------------------------------------------------------------


@dataclass
class Walked:
    """The contents of pages: records, lost records and damaged pages.

    `records` has the position of each record's fields, their length in bytes, and the time. `lost` counts the records
    that were overwritten before the pages were read (at least 1 if the kernel does not count them), `broken` the pages
    whose rest could not be followed.
    """

    records: list[tuple[int, int, int]] = field(default_factory=list)
    lost: int = 0
    broken: int = 0


def walk(layout: Layout, pages: bytes) -> Walked:
    """Return all records of some pages. A page with a damaged record ends there and is counted."""
    found = Walked()
    for begin in range(0, len(pages), layout.page_bytes):
        _walk_page(layout, pages[begin : begin + layout.page_bytes], begin, found)
    return found


def _walk_page(layout: Layout, page: bytes, begin: int, found: Walked) -> None:
    order = "big" if layout.big_endian else "little"
    commit = _number(page, layout.commit_at, layout.commit_bytes, order) & 0xFFFFFFFF
    stop = layout.data_at + (commit & _COMMIT)
    if stop > layout.page_bytes:
        found.broken += 1
        return
    if commit & _MISSED:
        counted = _number(page, stop, layout.commit_bytes, order) if commit & _MISSED_COUNTED else 0
        found.lost += max(counted, 1)
    at, stop, now = layout.data_at, stop - stop % 4, _number(page, 0, 8, order)
    while at < stop:
        word = _number(page, at, 4, order)
        kind, delta = (word >> _DELTA_BITS, word & _COMMIT) if layout.big_endian else (word & 31, word >> 5)
        second = _number(page, at + 4, 4, order) if at + 4 < stop else None
        now = (now + delta) % _TIMES
        start, end = at + 4, at + 4 + 4 * kind
        if kind == _PADDING and not delta:  # fills the page
            end = stop
        elif kind in (_LONG, _PADDING):  # with its length, which must not be zero
            start = at + 8
            end = at + 4 + (second + 3) // 4 * 4 if second is not None and second >= 4 else stop + 4
        elif kind in (_EXTEND, _STAMP):
            end = at + 8
            extra = (second or 0) << _DELTA_BITS
            now = now >> _STAMP_BITS << _STAMP_BITS | extra | delta if kind == _STAMP else (now + extra) % _TIMES
        if end > stop:
            found.broken += 1
            return
        if kind < _PADDING:
            found.records.append((begin + start, end - start, now))
        at = end


def _number(data: bytes, offset: int, size: int, order: Any, *, is_signed: bool = False) -> int:
    return int.from_bytes(data[offset : offset + size], order, signed=is_signed)


# --- fields --------------------------------------------------------------------------------------------------------


def value(record: bytes, field: Field, order: Any) -> int | str | list[int] | None:
    """Return a field of a record; None if it is beyond the end of the record.

    Text ends at its first NUL; no bytes give None. Other arrays are lists.
    """
    if not field.is_array:
        is_there = field.offset + field.size_bytes <= len(record)
        return _number(record, field.offset, field.size_bytes, order, is_signed=field.is_signed) if is_there else None
    offset, length = field.offset, field.size_bytes or len(record) - field.offset
    if field.place is not None:
        if len(record) < field.offset + 4:
            return None
        there = _number(record, field.offset, 4, order)
        offset, length = there & 0xFFFF, there >> 16
        offset += field.offset + 4 if field.place == "__rel_loc" else 0
    if length < 0 or offset + length > len(record):
        return None
    data = record[offset : offset + length]
    if field.is_text:
        return data.split(b"\0")[0].decode(errors="backslashreplace") if data else None
    size = field.element_bytes
    places = range(0, len(data) - len(data) % size, size)
    return [_number(data, at, size, order, is_signed=field.is_signed) for at in places]


def _type(field: Field) -> Any:
    if field.is_array and field.is_text:
        return pl.String
    kind = getattr(pl, f"{'Int' if field.is_signed else 'UInt'}{8 * field.element_bytes}")
    return pl.List(kind) if field.is_array else kind
