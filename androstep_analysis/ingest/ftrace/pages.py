"""The layout of pages in the kernel's ring buffer, and the locations of the records in them.

A page (Linux, kernel/trace/ring_buffer.c) begins with the time of its first record and the number of bytes in use. The
records follow. The compiled decoder finds them (native/decode/ftrace/pages.c).
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from androstep_analysis import native

SMALLEST_PAGE, LARGEST_PAGE = 1 << 9, 1 << 24
"""The possible range of page sizes in bytes."""

_HEADER_FIELD = re.compile(
    r"field:[^;]{0,99}?(?P<name>\w{1,99});\s*offset:(?P<offset>\d{1,4});\s*size:(?P<size>\d{1,6});"
)


@dataclass(frozen=True)
class Layout:
    """The layout of pages: byte order, size, and the offsets of the header fields in bytes."""

    big_endian: bool
    page_bytes: int
    commit_at: int
    commit_bytes: int
    data_at: int


def layout(header_page: str, big_endian: bool, page_bytes: int, long_bytes: int) -> Layout:
    """Return the layout in the saved file ``events/header_page``, else the usual one for this size of a long."""
    fields = header_fields(header_page)
    commit_at, commit_bytes = fields.get("commit", (8, long_bytes))
    data_at = fields.get("data", (commit_at + commit_bytes, 0))[0]
    is_usual = commit_bytes in (4, 8) and commit_at % 4 == data_at % 4 == 0
    if not is_usual or not commit_at + commit_bytes <= data_at <= page_bytes:
        commit_at, commit_bytes, data_at = 8, long_bytes, 8 + long_bytes
    return Layout(big_endian, page_bytes, commit_at, commit_bytes, data_at)


def header_fields(header_page: str) -> dict[str, tuple[int, int]]:
    """Return offset and size of each field in ``events/header_page``."""
    return {m["name"]: (int(m["offset"]), int(m["size"])) for m in _HEADER_FIELD.finditer(header_page)}


@dataclass(frozen=True)
class Records:
    """The records of some pages, in order.

    Attributes
    ----------
    start, size
        Offset and length in bytes of the fields of each record.
    ts
        The time of each record, in units of the trace clock.
    lost
        The number of records that were overwritten before the pages were read. It is at least 1 if the kernel does not
        state the number.
    broken
        The number of pages that could not be followed to their end.
    """

    start: npt.NDArray[np.uint64]
    size: npt.NDArray[np.uint64]
    ts: npt.NDArray[np.uint64]
    lost: int
    broken: int


def records(layout: Layout, pages: bytes) -> Records:
    """Return the records of whole pages."""
    capacity = len(pages) // 4  # a record is never shorter
    start, size, ts = (np.empty(capacity, np.uint64) for _ in range(3))
    totals = CTotals()
    count = _library().ftrace_records(
        ctypes.byref(CLayout.of(layout)),
        pages,
        len(pages),
        *(column.ctypes.data for column in (start, size, ts)),
        capacity,
        ctypes.byref(totals),
    )
    return Records(start[:count], size[:count], ts[:count], totals.lost, totals.broken)


class CLayout(ctypes.Structure):
    """``struct layout`` of native/decode/ftrace/state.h."""

    _fields_ = (
        ("page_bytes", ctypes.c_uint32),
        ("commit_at", ctypes.c_uint32),
        ("commit_bytes", ctypes.c_uint32),
        ("data_at", ctypes.c_uint32),
        ("big_endian", ctypes.c_uint32),
    )

    @classmethod
    def of(cls, layout: Layout) -> CLayout:
        """Return `layout` as a C structure."""
        return cls(layout.page_bytes, layout.commit_at, layout.commit_bytes, layout.data_at, layout.big_endian)


class CTotals(ctypes.Structure):
    """``struct page_totals`` of native/decode/ftrace/state.h."""

    _fields_ = (("records", ctypes.c_uint64), ("lost", ctypes.c_uint64), ("broken", ctypes.c_uint64))


_library = native.library
