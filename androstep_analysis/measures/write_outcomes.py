"""Outcome of the bytes that processes wrote to files, and the blocks that were written back more than once.

Write events show the bytes of a file that a thread writes, requests show the bytes of it that go to the device, and
page events show the bytes that are dropped before. In between, the bytes are in the page cache and may be overwritten.
One pass follows all of them in order of time (`native/cost/outcomes.c`).
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.parts import in_step

OUTCOMES: Final = ("out", "overwritten", "dropped", "kept", "unknown")
"""Outcomes, in the order of ``enum fate``."""

_WRITE, _OUT, _DROP, _END, _LOST, _UNPLACED = range(6)
"""``enum row_kind``."""

_LARGEST_FILE, _LARGEST_WRITE = 1 << 60, 1 << 29

_BEHIND = 1 << 62
"""A time after all others."""

_NO_INT32 = native.none("int32")
_ROW: Final = {
    "ts_ns": pl.Int64,
    "dev": pl.UInt32,
    "ino": pl.Int64,
    "begin": pl.Int64,
    "end": pl.Int64,
    "tid": pl.Int32,
    "pid": pl.Int32,
    "comm": pl.UInt32,
    "kind": pl.UInt8,
}
"""Columns of ``struct fate_rows`` except the last."""

_WRITER: Final = np.dtype(
    [
        *((name, np.int64) for name in ("ts_ns", "ino", "life", "writes", *OUTCOMES)),
        *(("dev", np.uint32), ("tid", np.int32), ("pid", np.int32), ("comm", np.uint32)),
    ]
)
"""``struct writer``."""

WRITERS: Final = {
    "dev": pl.UInt32,
    "ino": pl.Int64,
    "life": pl.Int64,
    "ts_ns": pl.Int64,
    "tid": pl.Int32,
    "pid": pl.Int32,
    "comm": pl.String,
    "writes": pl.Int64,
    **dict.fromkeys(OUTCOMES, pl.Int64),
}
"""Columns of the first table of `follow`."""


_library = native.library


def follow(
    fs_events: pl.LazyFrame, writebacks: pl.DataFrame, unplaced: pl.DataFrame, *, page_bytes: int | None, lost: Losses
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the outcomes of the bytes that each thread wrote to each file, and the repeated bytes of each writeback.

    `writebacks` (ts_ns, dev, ino, begin, end) are of file data, in order of time. A file is identified by device
    and inode. `unplaced` (ts_ns, dev) are writes of unknown files. The first table (`WRITERS`) has a row for each
    thread and incarnation of a file: the time of its first write, the number of calls, and the bytes of each outcome in
    `OUTCOMES`. These add up to the bytes that it wrote:

    | outcome | condition |
    |---|---|
    | out | The byte was written to the device. |
    | overwritten | Another write replaced it before. |
    | dropped | Its page or file was dropped before. |
    | kept | None of that happened within the recording. |
    | unknown | Events may be `lost` before any of that. |
    | unknown for kept | The trace of the device has no events of dropped pages. |
    | unknown for all but out | An unplaced block was written in between. |

    The second result is, for each writeback, the number of its bytes that had been written back before.
    """
    handle = _library().outcomes_new()
    if not handle:
        raise MemoryError
    names = pl.Categorical(pl.Categories.random())
    keeps_categories = pl.Series([""], dtype=names)  # Keep a column alive, or polars would number the categories anew.
    try:
        others = pl.concat([_rows(writebacks, _OUT), _rows(unplaced, _UNPLACED), _gaps(lost)]).sort(
            "ts_ns", maintain_order=True
        )
        repeated = [_take(handle, part) for part in in_step(_event_rows(fs_events, page_bytes, names), others)]
        count = ctypes.c_size_t()
        address = _library().outcomes_finish(handle, ctypes.byref(count))
        writers = _writers(address, count.value, names)
    finally:
        _library().outcomes_free(handle)
    del keeps_categories
    devices_with_drops = tracepoints.devices(
        fs_events, pl.col("event").is_in([tracepoints.UNCACHED, *tracepoints.INVALIDATED])
    )
    has_drops = pl.col("dev").is_in(devices_with_drops)
    return (
        writers.with_columns(
            kept=pl.when(has_drops).then("kept").otherwise(0),
            unknown=pl.when(has_drops).then("unknown").otherwise(pl.col("unknown") + pl.col("kept")),
        ),
        pl.concat(repeated) if repeated else pl.Series([], dtype=pl.Int64),
    )


def _event_rows(fs_events: pl.LazyFrame, page_bytes: int | None, names: pl.Categorical) -> pl.LazyFrame:
    """Return the events as rows (`_ROW`), without those that have no valid offset in a file."""
    event, offset, length = pl.col("event"), pl.col("offset_bytes"), pl.col("nr_bytes")
    is_cut = event.is_in(tracepoints.INVALIDATED)
    is_page = is_cut | (event == tracepoints.UNCACHED)
    first = pl.col("page") * pl.lit(page_bytes, pl.Int64)
    pages = pl.lit(page_bytes, pl.Int64) * pl.lit(2, pl.Int64).pow(pl.col("page_order").fill_null(0).clip(0, 17))
    begin = pl.when(is_cut).then(first + offset).when(is_page).then(first).otherwise(offset)
    size = pl.when(is_page & ~is_cut).then(pages).otherwise(length)
    kind = (
        pl.when(event.is_in(tracepoints.WRITES))
        .then(_WRITE)
        .when(is_page)
        .then(_DROP)
        .when(tracepoints.creations() | tracepoints.deletions())
        .then(_END)
        .cast(pl.UInt8)
    )
    fits = (kind == _END) | (begin.is_between(0, _LARGEST_FILE) & size.is_between(1, _LARGEST_WRITE)).fill_null(False)
    return (
        fs_events.with_columns(kind=kind, begin=begin, end=begin + size)
        .filter(pl.col("kind").is_not_null() & fits)
        .drop_nulls(["dev", "ino"])
        .select(
            *("ts_ns", "dev", "ino"),
            *(pl.col(name).fill_null(0) for name in ("begin", "end")),
            *(pl.col(name).fill_null(_NO_INT32) for name in ("tid", "pid")),
            pl.col("comm").cast(names).to_physical().cast(pl.UInt32).fill_null(native.none("uint32")),
            "kind",
        )
    )


def _rows(of_device: pl.DataFrame, kind: int) -> pl.DataFrame:
    """Return events of the device as rows of a kind (`_ROW`), without a thread. Missing columns get defaults."""
    no_writer = {"tid": _NO_INT32, "pid": _NO_INT32, "comm": native.none("uint32"), "kind": kind}
    values = {**dict.fromkeys(_ROW, 0), **no_writer}
    return of_device.select(
        (pl.col(name) if name in of_device.columns else pl.lit(values[name])).cast(dtype).alias(name)
        for name, dtype in _ROW.items()
    )


def _gaps(lost: Losses) -> pl.DataFrame:
    """Return a row for each start and each end of lost time within the recording."""
    spans = lost.spans("fs_events", "block_events")
    times = sorted({begin for begin, _ in spans if begin is not None} | {end or _BEHIND for _, end in spans})
    row = {**dict.fromkeys(_ROW, 0), "kind": _LOST}
    return pl.DataFrame([row | {"ts_ns": time} for time in times], schema=_ROW)


def _take(handle: int, rows: pl.DataFrame) -> pl.Series:
    """Follow the rows, and return for each writeback the number of bytes that had been written back before."""
    arrays = [np.ascontiguousarray(rows[name].cast(dtype).rechunk().to_numpy()) for name, dtype in _ROW.items()]
    repeated = np.zeros(rows.height, np.int64)
    if not _library().outcomes_follow(handle, native.columns(rows.height, [*arrays, repeated])):
        raise MemoryError
    return pl.Series(repeated[arrays[-1] == _OUT])


def _writers(address: int | None, count: int, names: pl.Categorical) -> pl.DataFrame:
    if not count or address is None:
        return pl.DataFrame(schema=WRITERS)
    memory: Any = (ctypes.c_char * (count * _WRITER.itemsize)).from_address(address)
    rows = np.ndarray(count, _WRITER, memoryview(memory)).copy()
    table = pl.DataFrame({name: rows[name] for name in rows.dtype.names or ()})
    known = {"tid": _NO_INT32, "pid": _NO_INT32, "comm": native.none("uint32")}
    table = table.with_columns(pl.when(pl.col(name) != none).then(name).alias(name) for name, none in known.items())
    return table.with_columns(pl.col("comm").cat.to(names).cast(pl.String)).select(list(WRITERS))
