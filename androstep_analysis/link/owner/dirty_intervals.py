"""Find the dirty intervals of blocks, and what their events show about the modifiers (native/pagecache)."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner.processes import Processes

VIAS: Final = (None, "write_begin", "dirty_folio")
"""The kind of event that names the modifier, in the order of ``enum via``."""

RECORDS_DIRTY, HAS_LARGE_FOLIOS, DIRTIES_BEFORE_STORE = 1, 2, 4
"""``enum device_flags`` of pagecache.h."""

_NO_INT64, _NO_INT32, _NO_UINT32 = (native.none(dtype) for dtype in ("int64", "int32", "uint32"))
_NO_CODE = native.none("bool")

_EVENTS: Final = {
    "ts_ns": None,
    "dev": _NO_UINT32,
    "ino": _NO_INT64,
    "tid": _NO_INT32,
    "pid": _NO_INT32,
    "comm": _NO_UINT32,
    "page": _NO_INT64,
    "page_order": _NO_INT32,
    "offset_bytes": _NO_INT64,
    "nr_bytes": _NO_INT64,
    "kind": None,
}
"""Columns of ``struct page_events``, and their values that mean null."""

WRITEBACKS: Final = ("ts_ns", "piece", "dev", "ino", "begin", "end", "tid", "is_read")
"""Columns of ``struct writebacks``: bytes of files that are written back, or read."""

_INTERVAL: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("piece", "file_block", "modified_ns", "seen_clean_ns", "doubt_begin_ns"), np.int64),
    **dict.fromkeys(("doubt_end_ns", "touched_ns", "absent_ns"), np.int64),
    **dict.fromkeys(("modifier", "modifiers"), np.uint32),
    **dict.fromkeys(("count", "file_dirtiers"), np.int32),
    **dict.fromkeys(("is_read", "via", "is_in_folio", "is_first", "is_new_inode", "is_clean"), np.uint8),
    **dict.fromkeys(("is_write_recorded", "is_complete", "has_several_dirtiers", "is_within_write"), np.uint8),
    **dict.fromkeys(("is_dirtied_by_other", "was_redirtied", "is_redirtied"), np.uint8),
}
"""Fields of ``struct dirty_interval`` in pagecache.h, which defines them."""

_INTERVAL_TYPE: Final = np.dtype([*_INTERVAL.items(), ("padding", np.uint8, 3)])

_FLAGS: Final = [name for name in _INTERVAL if name.startswith(("is_", "has_", "was_"))]

_THREAD: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("ts_ns", "process"), np.int64),
    **dict.fromkeys(("tid", "pid"), np.int32),
    **dict.fromkeys(("comm", "is_kernel"), np.uint32),
}
"""``struct thread`` of pagecache.h."""

_KINDS: Final = (
    tracepoints.WRITES,
    tracepoints.STORES,
    tracepoints.DIRTIED,
    (tracepoints.CACHED,),
    (tracepoints.UNCACHED,),
    tracepoints.INVALIDATED,
)
"""Events of each kind, in the order of ``enum event_kind``. Its last kind are the `begins_lifetime` events."""


_library = native.library


def begins_lifetime() -> pl.Expr:
    """Return whether an inode has no older pages: an evicted inode leaves none in the cache."""
    return tracepoints.creations() | pl.col("event").is_in(tracepoints.EVICTIONS)


class DirtyIntervals:
    """Processes events and writebacks by time, and returns the dirty intervals that end."""

    def __init__(self, devices: Mapping[int, tuple[int, int]], page_bytes: int | None, processes: Processes) -> None:
        """Begin a recording. `devices` has the block size and the flags (`RECORDS_DIRTY`, …) of each device."""
        self._handle = native.owned(self, _library().pagecache_free, _library().pagecache_new(page_bytes or 0))
        for dev, (block_bytes, flags) in devices.items():
            _check(_library().pagecache_add_device(self._handle, dev, block_bytes, flags))
        self._processes = processes
        self._comm = pl.Categorical(pl.Categories.random())
        self._keeps_categories = pl.Series([""], dtype=self._comm)  # without any column polars restarts the codes
        self._threads = pl.DataFrame(schema={"tid": pl.Int32, "pid": pl.Int32, "comm": pl.String, "process": pl.Int64})

    def page_events(self, fs_events: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows and columns of table fs_events that `process` takes."""
        event, kind = pl.col("event"), pl.lit(len(_KINDS), pl.UInt8)
        for code, names in enumerate(_KINDS):
            kind = pl.when(event.is_in(names)).then(pl.lit(code, pl.UInt8)).otherwise(kind)
        events = fs_events.filter(event.is_in([*itertools.chain(*_KINDS)]) | begins_lifetime())
        return events.with_columns(kind=kind).select(self._input(name, none) for name, none in _EVENTS.items())

    def _input(self, name: str, none: int | None) -> pl.Expr:
        column = pl.col(name)
        if name == "comm":
            column = column.cast(self._comm).to_physical()
        return column if none is None else column.fill_null(none)

    def process(self, page_events: pl.DataFrame, writebacks: pl.DataFrame) -> pl.DataFrame:
        """Return the dirty intervals that are certain after these `page_events` and `WRITEBACKS`, both sorted by time.

        A batch of writebacks must not contain rows after the batch's last event, unless no events follow. There is a
        row for each block and each time it was written back or read, in no order. It has the fields of ``struct
        dirty_interval``, and tid, pid, comm and process of the last modifier.
        """
        writebacks = writebacks.with_columns(pl.col("tid").fill_null(_NO_INT32))
        # The arrays must exist until the call has returned.
        event_arrays, writeback_arrays = _arrays(page_events, _EVENTS), _arrays(writebacks, WRITEBACKS)
        events = native.columns(page_events.height, event_arrays)
        ended = native.columns(writebacks.height, writeback_arrays)
        self._register_threads(events)
        _check(_library().pagecache_process(self._handle, events, ended))
        del event_arrays, writeback_arrays
        return self._intervals()

    def finish(self) -> pl.DataFrame:
        """Return the remaining dirty intervals at the end of the recording."""
        _check(_library().pagecache_finish(self._handle))
        return self._intervals()

    def _register_threads(self, events: ctypes.Array[ctypes.c_uint64]) -> None:
        """Identify the processes of new threads, and set which of them are kernel threads."""
        known = _library().pagecache_register_threads(self._handle, events)
        _check(known != ctypes.c_size_t(-1).value)
        first = self._threads.height
        if known == first:
            return
        rows = _structs(_library().pagecache_threads(self._handle), known, np.dtype([*_THREAD.items()]))[first:]
        new = pl.DataFrame({name: rows[name].copy() for name in ("ts_ns", "tid", "pid", "comm")})
        none = {"tid": _NO_INT32, "pid": _NO_INT32, "comm": _NO_UINT32}
        new = new.with_columns(pl.when(pl.col(name) != value).then(name).alias(name) for name, value in none.items())
        new = new.with_columns(pl.col("comm").cat.to(self._comm).cast(pl.String))
        identified = self._processes.of_threads(new)
        is_kernel = ~identified["is_process"] & ~identified["is_server"]  # servers modify data, kernel threads move it
        rows["is_kernel"] = (new["comm"].is_not_null() & is_kernel).cast(pl.UInt32).to_numpy()
        process = pl.Series(rows["process"].copy())
        process = process.set(process == _NO_INT64, None)
        self._threads = self._threads.vstack(new.drop("ts_ns").with_columns(process=process))

    def _intervals(self) -> pl.DataFrame:
        rows = ctypes.c_size_t()
        address = _library().pagecache_intervals(self._handle, ctypes.byref(rows))
        intervals = _structs(address, rows.value, _INTERVAL_TYPE)
        table = pl.DataFrame({name: intervals[name].copy() for name in _INTERVAL})
        none = {**dict.fromkeys((name for name, dtype in _INTERVAL.items() if dtype is np.int64), _NO_INT64)}
        none |= {"modifier": _NO_UINT32, "is_in_folio": _NO_CODE}
        table = table.with_columns(
            pl.when(pl.col(name) != value).then(name).alias(name) for name, value in none.items()
        ).with_columns(
            pl.col(_FLAGS).cast(pl.Boolean),
            via=pl.col("via").replace_strict(dict(enumerate(VIAS)), return_dtype=pl.String),
        )
        threads = self._threads.select(pl.all().gather(table["modifier"]))
        return pl.concat([table.drop("modifier"), threads], how="horizontal")


def _arrays(table: pl.DataFrame, columns: Mapping[str, Any] | tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """Return the columns as contiguous arrays."""
    return [np.ascontiguousarray(table[name].to_physical().rechunk().to_numpy()) for name in columns]


def _structs(address: int | None, rows: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a view of the structures in the library's memory."""
    if not rows or address is None:
        return np.empty(0, dtype)
    return np.ndarray(rows, dtype, memoryview((ctypes.c_char * (rows * dtype.itemsize)).from_address(address)))


def _check(is_done: bool) -> None:
    if not is_done:
        raise MemoryError
