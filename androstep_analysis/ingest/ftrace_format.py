"""The kernel's own description of an event (tracefs: ``events/SYSTEM/EVENT/format``), and records decoded by it.

The file lists the fields with type, offset, size and sign, common fields first; nothing about a record is known from
elsewhere. A field declared ``__data_loc`` holds the place (16 bits, from the start of the record) and the length (16
bits) of a string or array further back; ``__rel_loc`` counts from the end of the field itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from androstep_analysis.ingest import strings
from androstep_analysis.ingest.ftrace_pages import Int64s, Records

_NAME = re.compile(r"^name: *(\S+)", re.MULTILINE)
_ID = re.compile(r"^ID: *(\d{1,9})\s*$", re.MULTILINE)
_FIELD = re.compile(
    r"field: *(?P<declaration>[^;]{1,500});\s*offset: *(?P<offset>\d{1,9});\s*size: *(?P<size>\d{1,9});"
    r"(?:\s*signed: *(?P<signed>\d);)?"
)
_DECLARATION = re.compile(
    r"^(?:(?P<place>__data_loc|__rel_loc)\s+)?(?P<type>.*?)\s*\b(?P<name>[A-Za-z_]\w*)\s*(?P<array>\[[^\]]*\])?$"
)
_PRINT = re.compile(r"^print fmt: *(.*)", re.MULTILINE | re.DOTALL)
_ELEMENT = (
    (r"^(?:const\s+)?(?:(?:un)?signed\s+)?char\b|^_*[us]8\b|^bool\b", 1),
    (r"\bshort\b|^_*[us]16\b", 2),
    (r"^(?:un)?signed(?:\s+int)?$|^int\b|^_*[us]32\b|^pid_t\b", 4),
    (r"\blong long\b|^_*[us]64\b", 8),
)
"""Sizes of the elements of an array that does not tell how many it has."""


@dataclass(frozen=True)
class Field:
    """One field of an event. `element_bytes` is `size_bytes` for a number, else the size of an element of the array.

    `place` is None where the field itself holds the value, else ``__data_loc`` or ``__rel_loc``. An array of size 0
    goes on to the end of the record.
    """

    name: str
    offset: int
    size_bytes: int
    element_bytes: int
    is_signed: bool
    is_array: bool
    is_text: bool
    place: str | None


@dataclass(frozen=True)
class Event:
    """One event: its number in the records, its fields in order, and how the kernel prints it."""

    id: int
    system: str
    name: str
    fields: dict[str, Field]
    print_format: str


def parse(text: str, system: str, long_bytes: int) -> Event | None:
    """The event that a format file describes; None if the text is none."""
    name, number, form = _NAME.search(text), _ID.search(text), _PRINT.search(text)
    if name is None or number is None:
        return None
    fields: dict[str, Field] = {}
    for match in _FIELD.finditer(text):
        field = _field(match, long_bytes)
        if field is not None:
            fields.setdefault(field.name, field)
    return Event(int(number[1]), system, name[1], fields, form[1].strip() if form else "")


def _field(match: re.Match[str], long_bytes: int) -> Field | None:
    declared = _DECLARATION.match(match["declaration"].strip())
    if declared is None:
        return None
    kind, size = declared["type"], int(match["size"])
    is_array = declared["array"] is not None or "[" in kind
    element = _element_bytes(kind, long_bytes) if is_array else size
    if declared["place"] is None and not is_array and size not in (1, 2, 4, 8):
        is_array, element = True, 1  # a structure: its bytes
    elif declared["place"] is None and declared["array"] and declared["array"][1:-1].isdecimal():
        count = int(declared["array"][1:-1])
        element = size // count if count and size % count == 0 and size // count in (1, 2, 4, 8) else element
    return Field(
        name=declared["name"],
        offset=int(match["offset"]),
        size_bytes=size,
        element_bytes=element,
        is_signed=match["signed"] == "1" and "unsigned" not in kind,
        is_array=is_array,
        is_text=is_array and "char" in kind and element == 1,
        place=declared["place"],
    )


def _element_bytes(kind: str, long_bytes: int) -> int:
    kind = kind.replace("[]", "").strip()
    return next((size for pattern, size in _ELEMENT if re.search(pattern, kind)), long_bytes if "long" in kind else 1)


def decode(records: Records, event: Event, names: Collection[str] | None = None) -> pl.DataFrame:
    """The fields `names` (all, if None) of `records`, which must be of this event, a row each.

    Numbers keep their size and sign, text ends at its first NUL, other arrays become lists. A field that a record is
    too short for is null.
    """
    wanted = [field for name, field in event.fields.items() if names is None or name in names]
    return pl.DataFrame([column(records, field) for field in wanted])


def column(records: Records, field: Field) -> pl.Series:
    """One field of `records`."""
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
    """Where in the data the value of an array is, and its length in bytes; -1 for the length of what is not there."""
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
    """Text up to its first NUL: what stands behind is left over from other records. No byte at all is no text."""
    data, begins = strings.gather(records.data, at, np.maximum(length, 0))
    nul = np.append(np.flatnonzero(data == 0), data.size)
    first = nul[np.searchsorted(nul, begins[:-1])]
    kept = np.minimum(first, begins[1:]) - begins[:-1]
    return strings.series(name, *strings.gather(records.data, at, kept), length <= 0)


def _lists(records: Records, field: Field, at: Int64s, length: Int64s) -> pl.Series:
    whole = np.where(length > 0, length - length % field.element_bytes, length)
    data, begins = strings.gather(records.data, at, np.maximum(whole, 0))
    values = data.view(records.layout.number(field.element_bytes)).astype(f"u{field.element_bytes}")
    if field.is_signed:
        values = values.view(f"i{field.element_bytes}")
    array = pa.LargeListArray.from_arrays(
        pa.array(begins // field.element_bytes, pa.int64()), pa.array(values), mask=pa.array(length < 0)
    )
    return pl.Series(field.name, array)
