"""Pages of the kernel's ring buffer: how they are laid out, and where in them the records are.

A page (Linux, kernel/trace/ring_buffer.c) begins with the time of its first record and the number of bytes in use; the
records follow. They are found by the compiled decoder (native/decode/ftrace/pages.c).
"""

from __future__ import annotations

import ctypes
import functools
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from androstep_analysis import native

SMALLEST_PAGE, LARGEST_PAGE = 1 << 9, 1 << 24
"""Bytes of a page that can be."""

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


def layout(header_page: str, big_endian: bool, page_bytes: int, long_bytes: int) -> Layout:
    """The layout that the saved file ``events/header_page`` tells, else the one of every kernel with such longs."""
    fields = header_fields(header_page)
    commit_at, commit_bytes = fields.get("commit", (8, long_bytes))
    data_at = fields.get("data", (commit_at + commit_bytes, 0))[0]
    is_usual = commit_bytes in (4, 8) and commit_at % 4 == data_at % 4 == 0
    if not is_usual or not commit_at + commit_bytes <= data_at <= page_bytes:
        commit_at, commit_bytes, data_at = 8, long_bytes, 8 + long_bytes
    return Layout(big_endian, page_bytes, commit_at, commit_bytes, data_at)


def header_fields(header_page: str) -> dict[str, tuple[int, int]]:
    """Offset and size of each field that ``events/header_page`` tells."""
    return {m["name"]: (int(m["offset"]), int(m["size"])) for m in _HEADER_FIELD.finditer(header_page)}


@dataclass(frozen=True)
class Records:
    """Records of some pages, in their order.

    `start` and `size` say where in the pages the fields of each are, in bytes, `ts` is its time as recorded. `lost`
    records were overwritten before the pages were read (at least 1 where the kernel does not say how many); `broken`
    pages could not be followed to their end.
    """

    start: npt.NDArray[np.uint64]
    size: npt.NDArray[np.uint64]
    ts: npt.NDArray[np.uint64]
    lost: int
    broken: int


def records(layout: Layout, pages: bytes) -> Records:
    """The records of whole pages."""
    room = len(pages) // 4  # a record is never shorter
    start, size, ts = (np.empty(room, np.uint64) for _ in range(3))
    totals = CTotals()
    count = _library().ftrace_records(
        ctypes.byref(CLayout.of(layout)),
        pages,
        len(pages),
        *(column.ctypes.data for column in (start, size, ts)),
        room,
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
        """`layout` for C."""
        return cls(layout.page_bytes, layout.commit_at, layout.commit_bytes, layout.data_at, layout.big_endian)


class CTotals(ctypes.Structure):
    """``struct page_totals`` of native/decode/ftrace/state.h."""

    _fields_ = (("records", ctypes.c_uint64), ("lost", ctypes.c_uint64), ("broken", ctypes.c_uint64))


@functools.cache
def _library() -> ctypes.CDLL:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    arguments = (pointer, ctypes.c_char_p, size, pointer, pointer, pointer, size, pointer)
    return native.declared(("ftrace_records", size, arguments))
