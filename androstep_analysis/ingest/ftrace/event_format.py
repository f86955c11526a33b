"""Parse the kernel's description of an event (tracefs: ``events/SYSTEM/EVENT/format``).

The file lists the fields with type, offset, size and sign, common fields first. Records are decoded only by it. A field
declared ``__data_loc`` holds offset (16 bits, from the start of the record) and length (16 bits) of a string or array.
The offset of ``__rel_loc`` counts from the end of the field itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
"""Element sizes of arrays without a stated number of elements."""


@dataclass(frozen=True)
class Field:
    """One field of an event.

    `element_bytes` is `size_bytes` for a number, else the size of an array element. `place` is None if the field
    contains the value itself, else ``__data_loc`` or ``__rel_loc``. An array of size 0 extends to the end of the
    record.
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
    """One event: its number in the records, its fields in order, and its print format."""

    id: int
    system: str
    name: str
    fields: dict[str, Field]
    print_format: str


def parse(text: str, system: str, long_bytes: int) -> Event | None:
    """Return the event in a format file; None if the text is not a format file."""
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
