"""The compiled half of `authorship` (native/owner): what happened in each turn of a block, one pass over the events."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner.processes import Processes

VIAS: Final = (None, "write_begin", "dirty_folio")
"""What tells the author of a turn, in the order of ``enum via``."""

TELLS_DIRTY, HAS_FOLIOS, STORES_DIRTY = 1, 2, 4
"""What the trace of a device tells, as in owners.h."""

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
"""Columns of ``struct page_events`` and what stands for null in them."""

OUTS: Final = ("ts_ns", "piece", "dev", "ino", "begin", "end", "tid", "is_read")
"""Columns of ``struct outs``: bytes of files that are written out, or read."""

_TURN: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("piece", "file_block", "author_ns", "seen_clean_ns", "wrote_ns", "edge_ns"), np.int64),
    **dict.fromkeys(("touched_ns", "absent_ns"), np.int64),
    **dict.fromkeys(("author", "who"), np.uint32),
    **dict.fromkeys(("count", "changers"), np.int32),
    **dict.fromkeys(("is_read", "via", "is_in_folio", "is_first", "is_reborn", "is_clean", "by_maker"), np.uint8),
    **dict.fromkeys(("is_exact", "is_others", "is_cluster", "is_torn", "was_ahead", "is_ahead"), np.uint8),
}
"""Fields of ``struct turn`` in owners.h, which says what they mean."""

_TURN_TYPE: Final = np.dtype([*_TURN.items(), ("unused", np.uint8, 3)])

_THREAD: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("ts_ns", "process"), np.int64),
    **dict.fromkeys(("tid", "pid"), np.int32),
    **dict.fromkeys(("comm", "is_mover"), np.uint32),
}
"""``struct thread`` of owners.h."""

_KINDS: Final = (
    tracepoints.WRITES,
    tracepoints.STORES,
    tracepoints.DIRTIED,
    (tracepoints.CACHED,),
    (tracepoints.UNCACHED,),
    tracepoints.INVALIDATED,
)
"""What events are about, in the order of ``enum event_kind``; the last there is what `begins` tells."""


class _CEvents(ctypes.Structure):
    """``struct page_events`` of owners.h."""

    _fields_ = (("rows", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in _EVENTS))


class _COuts(ctypes.Structure):
    """``struct outs`` of owners.h."""

    _fields_ = (("rows", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in OUTS))


@functools.cache
def _library() -> ctypes.CDLL:
    handle, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    events, outs = ctypes.POINTER(_CEvents), ctypes.POINTER(_COuts)
    return native.declared(
        ("owners_new", handle, (number,)),
        ("owners_free", None, (handle,)),
        ("owners_device", ctypes.c_bool, (handle, ctypes.c_uint32, number, ctypes.c_uint32)),
        ("owners_meet", size, (handle, events)),
        ("owners_threads", handle, (handle,)),
        ("owners_follow", ctypes.c_bool, (handle, events, outs)),
        ("owners_finish", ctypes.c_bool, (handle,)),
        ("owners_turns", handle, (handle, ctypes.POINTER(size))),
    )


def begins() -> pl.Expr:
    """Whether an inode's pages are new from an event on: one that is evicted leaves none behind."""
    return tracepoints.creations() | pl.col("event").is_in(tracepoints.EVICTIONS)


class Turns:
    """Takes events and what is written out in order of time, and gives the turns that are decided.

    `devices` has for each device the size of its blocks in bytes and what its trace tells (`TELLS_DIRTY`, …);
    `tasks` tells threads of the kernel from processes.
    """

    def __init__(self, devices: Mapping[int, tuple[int, int]], page_bytes: int | None, tasks: Processes) -> None:
        self._handle: int = _library().owners_new(page_bytes or 0)
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, _library().owners_free, self._handle)
        for dev, (block_bytes, flags) in devices.items():
            _check(_library().owners_device(self._handle, dev, block_bytes, flags))
        self._tasks = tasks
        self._comm = pl.Categorical(pl.Categories.random())
        self._keeps_numbers = pl.Series([""], dtype=self._comm)  # without any column polars would begin anew
        self._threads = pl.DataFrame(schema={"tid": pl.Int32, "pid": pl.Int32, "comm": pl.String, "process": pl.Int64})

    def told(self, fs_events: pl.LazyFrame) -> pl.LazyFrame:
        """Of table fs_events what `follow` takes."""
        kind = pl.lit(None, pl.UInt8)
        for number, names in enumerate(_KINDS):
            kind = pl.when(pl.col("event").is_in(names)).then(pl.lit(number, pl.UInt8)).otherwise(kind)
        kind = pl.when(begins()).then(pl.lit(len(_KINDS), pl.UInt8)).otherwise(kind)
        told = fs_events.with_columns(kind=kind).filter(pl.col("kind").is_not_null())
        return told.select(self._input(name, none) for name, none in _EVENTS.items())

    def _input(self, name: str, none: int | None) -> pl.Expr:
        column = pl.col(name)
        if name == "comm":
            column = column.cast(self._comm).to_physical()
        return column if none is None else column.fill_null(none)

    def follow(self, told: pl.DataFrame, outs: pl.DataFrame) -> pl.DataFrame:
        """The turns that are decided by events (`told`) and outs (`OUTS`), both in order of time.

        Outs come with the events that follow them, or before: never after events that are as late as they are. A row
        for each block and time it was written out or read, in no order, with the fields of ``struct turn``; of the
        author tid, pid, comm and process. Null is what there is not.
        """
        events = _CEvents(told.height, *_addresses(arrays := _arrays(told, _EVENTS)))
        out = _COuts(outs.height, *_addresses(others := _arrays(outs.with_columns(_out_nulls()), OUTS)))
        self._meet(events)
        _check(_library().owners_follow(self._handle, ctypes.byref(events), ctypes.byref(out)))
        del arrays, others  # which had to stand until now
        return self._decided()

    def finish(self) -> pl.DataFrame:
        """The turns that nothing more decides."""
        _check(_library().owners_finish(self._handle))
        return self._decided()

    def _meet(self, events: _CEvents) -> None:
        """Take in the threads that are new, and say which of them are the kernel's."""
        known = _library().owners_meet(self._handle, ctypes.byref(events))
        _check(known != ctypes.c_size_t(-1).value)
        first = self._threads.height
        if known == first:
            return
        rows = _structs(_library().owners_threads(self._handle), known, np.dtype([*_THREAD.items()]))[first:]
        new = pl.DataFrame({name: rows[name].copy() for name in ("ts_ns", "tid", "pid", "comm")})
        none = {"tid": _NO_INT32, "pid": _NO_INT32, "comm": _NO_UINT32}
        new = new.with_columns(pl.when(pl.col(name) != value).then(name).alias(name) for name, value in none.items())
        new = new.with_columns(pl.col("comm").cat.to(self._comm).cast(pl.String))
        identified = self._tasks.of_threads(new)
        is_mover = ~identified["is_process"] & ~identified["is_server"]  # what a server writes is new
        rows["is_mover"] = (new["comm"].is_not_null() & is_mover).cast(pl.UInt32).to_numpy()
        process = pl.Series(rows["process"].copy())
        process = process.set(process == _NO_INT64, None)
        self._threads = self._threads.vstack(new.drop("ts_ns").with_columns(process=process))

    def _decided(self) -> pl.DataFrame:
        rows = ctypes.c_size_t()
        address = _library().owners_turns(self._handle, ctypes.byref(rows))
        turns = _structs(address, rows.value, _TURN_TYPE)
        table = pl.DataFrame({name: turns[name].copy() for name in _TURN})
        none = {**dict.fromkeys((name for name, dtype in _TURN.items() if dtype is np.int64), _NO_INT64)}
        none |= {"author": _NO_UINT32, "is_in_folio": _NO_CODE}
        flags = [name for name in _TURN if name.startswith(("is_", "by_", "was_"))]
        table = table.with_columns(
            pl.when(pl.col(name) != value).then(name).alias(name) for name, value in none.items()
        ).with_columns(
            pl.col(flags).cast(pl.Boolean),
            via=pl.col("via").replace_strict(dict(enumerate(VIAS)), return_dtype=pl.String),
        )
        authors = self._threads.select(pl.all().gather(table["author"]))
        return pl.concat([table.drop("author"), authors], how="horizontal")


def _out_nulls() -> pl.Expr:
    return pl.col("tid").fill_null(_NO_INT32)


def _arrays(table: pl.DataFrame, columns: Mapping[str, Any] | tuple[str, ...]) -> list[np.ndarray[Any, Any]]:
    """The columns as the library takes them, each in one piece."""
    return [np.ascontiguousarray(table[name].to_physical().rechunk().to_numpy()) for name in columns]


def _addresses(arrays: list[np.ndarray[Any, Any]]) -> list[int]:
    return [values.ctypes.data for values in arrays]


def _structs(address: int | None, rows: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The structures at the address, where they stand: what is kept of them must be copied."""
    if not rows or address is None:
        return np.empty(0, dtype)
    return np.ndarray(rows, dtype, memoryview((ctypes.c_char * (rows * dtype.itemsize)).from_address(address)))


def _check(worked: bool) -> None:
    if not worked:
        raise MemoryError
