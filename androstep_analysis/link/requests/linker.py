"""The compiled linker (native/link/requests.c): batches of block events go in, finished requests and bios come out."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from androstep_analysis import native, schema
from androstep_analysis.link.requests import rwbs

BATCH = 1 << 17
"""Block events of one step."""

REQUESTS = 1 << 17
"""Requests of one part at most."""

BIOS = 1 << 18
"""Rows of bios of one part, but for those of its last request."""

_NO_INT64, _NO_INT32, _NO_UINT32, _NO_CODE = (native.none(dtype) for dtype in ("int64", "int32", "uint32", "enum"))

_INPUT: Final = {
    "ts_ns": None,
    "cpu": _NO_INT32,
    "tid": _NO_INT32,
    "pid": _NO_INT32,
    "comm": _NO_UINT32,
    "action": None,
    "dev": 0,
    "sector": _NO_INT64,
    "nr_sectors": _NO_INT64,
    "rwbs": _NO_UINT32,
    "error": _NO_INT32,
    "old_dev": _NO_UINT32,
    "old_sector": _NO_INT64,
    "block_type": _NO_CODE,
    "path": _NO_UINT32,
}
"""Columns of ``struct block_events`` and what stands for null in them."""

_BIOS: Final = {
    "request": np.int64,
    "sector": np.int64,
    "nr_sectors": np.int64,
    "queue_ns": np.int64,
    "submit_tid": np.int32,
    "submit_pid": np.int32,
    "submit_comm": np.uint32,
}
"""Columns of ``struct bios``."""

_TEXTS: Final = {"rwbs": "rwbs", "submit_comm": "comm", "stated_path": "path"}
"""Columns of strings that come out, and the column they come in by."""

STACKED, HAS_FLUSHES, HAS_BIOS, HAS_ISSUES, HAS_COMPLETIONS, HAS_REQUEUES = 1, 2, 4, 8, 16, 32
"""What the whole trace tells of a device, as in requests.h."""


class _CEvents(ctypes.Structure):
    """``struct block_events`` of requests.h."""

    _fields_ = (("rows", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in _INPUT))


class _CBios(ctypes.Structure):
    """``struct bios`` of requests.h."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in _BIOS),
    )


class _CLinked(ctypes.Structure):
    """``struct linked`` of requests.h."""

    _fields_ = (
        ("requests", ctypes.c_void_p),
        ("bios", _CBios),
        ("block_type", ctypes.c_void_p),
        ("path", ctypes.c_void_p),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiled library with the functions of the linker declared."""
    handle, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    return native.declared(
        ("linker_new", handle, ()),
        ("linker_free", None, (handle,)),
        ("linker_device", ctypes.c_bool, (handle, ctypes.c_uint32, ctypes.c_uint32)),
        ("linker_partition", ctypes.c_bool, (handle, ctypes.c_uint32, ctypes.c_uint32, number, number)),
        ("linker_meaning", ctypes.c_bool, (handle, ctypes.c_uint8, ctypes.c_uint8)),
        ("linker_link", number, (handle, ctypes.POINTER(_CEvents), size, ctypes.POINTER(_CLinked))),
        ("linker_finish", number, (handle, ctypes.POINTER(_CLinked))),
    )


class Part(NamedTuple):
    """Some requests, in the order in which they were finished, and all their bios: tables requests and bios.

    Their strings are Categorical.

    `request_id` is the number of the event that tells the request's place in the order of issue: its last issue, else
    the queueing of its first bio where that is no other request's, else its completion.
    """

    requests: pl.DataFrame
    bios: pl.DataFrame
    events: int
    """Events that were linked so far."""


class Linker:
    """Takes block events in order of time and gives the requests that are finished.

    `device_flags` is what the whole trace tells of each device (`STACKED`, …); events of other devices are left out.
    """

    def __init__(self, device_flags: Mapping[int, int]) -> None:
        self._handle: int = _library().linker_new()
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, _library().linker_free, self._handle)
        for dev, flags in device_flags.items():
            _check(_library().linker_device(self._handle, dev, flags))
        self._types = {name: pl.Categorical(pl.Categories.random()) for name in ("comm", "rwbs", "path")}
        self._meanings = 0
        self._requests = native.Table("requests", REQUESTS)
        self._block_type = np.zeros(REQUESTS, np.uint8)
        self._path = np.zeros(REQUESTS, np.uint32)
        self._bios = {name: np.zeros(BIOS, dtype) for name, dtype in _BIOS.items()}
        self._linked = _CLinked(
            self._requests.address,
            _CBios(0, BIOS, *(values.ctypes.data for values in self._bios.values())),
            self._block_type.ctypes.data,
            self._path.ctypes.data,
        )
        self._put_out = 0
        self._events = 0
        self._waiting: list[pl.DataFrame] = []

    def partition(self, dev: int, parent: int, start_sector: int, nr_sectors: int) -> None:
        """Device `dev` is part of `parent`."""
        _check(_library().linker_partition(self._handle, dev, parent, start_sector, nr_sectors))

    def link(self, block: pl.LazyFrame) -> Iterator[Part]:
        """The requests of events (table block_events), in parts; at last those that nothing finishes."""
        columns = [self._input(name, none) for name, none in _INPUT.items()]
        for batch in block.select(columns).collect_batches(maintain_order=True, chunk_size=BATCH):
            yield from self._link(batch.rechunk())
        while _result(_library().linker_finish(self._handle, ctypes.byref(self._linked))):
            yield self._part(self._events)
        yield self._part(self._events)

    def _input(self, name: str, none: int | None) -> pl.Expr:
        column = pl.col(name)
        if name in self._types:
            column = column.cast(self._types[name])
        if name in self._types or name in ("action", "block_type"):
            column = column.to_physical()
        return column if none is None else column.fill_null(none)

    def _link(self, batch: pl.DataFrame) -> Iterator[Part]:
        self._learn(batch["rwbs"])
        arrays = [batch[name].to_numpy() for name in _INPUT]
        events = _CEvents(batch.height, *(values.ctypes.data for values in arrays))
        done = 0
        while done < batch.height:
            linked = _library().linker_link(self._handle, ctypes.byref(events), done, ctypes.byref(self._linked))
            done = _result(linked)
            if done < batch.height:
                yield self._part(self._events + done)
        self._events += batch.height

    def _learn(self, numbers: pl.Series) -> None:
        """Tell the linker what those of the rwbs strings mean that are new."""
        last = numbers.filter(numbers != _NO_UINT32).max()
        if not isinstance(last, int):
            return
        new = pl.Series(range(self._meanings, last + 1), dtype=pl.UInt32).cat.to(self._types["rwbs"])
        operations = schema.enum("requests", "op").categories.to_list()
        for text in new.cast(pl.String):
            meaning = rwbs.meaning(text)
            flags = sum(getattr(meaning, flag) << bit for bit, flag in enumerate(rwbs.FLAGS))
            _check(_library().linker_meaning(self._handle, operations.index(meaning.op), flags))
        self._meanings = max(self._meanings, last + 1)

    def _part(self, events: int) -> Part:
        """What the tables hold, which are empty then."""
        # Copies: polars takes an array over as it is, and these are filled again.
        requests = pl.DataFrame({c.name: self._requests.column(c.name).copy() for c in self._requests.columns})
        bios = pl.DataFrame({name: values[: self._linked.bios.rows].copy() for name, values in self._bios.items()})
        of_requests = requests.select(
            "request_id",
            stated_type=pl.Series(self._block_type[: requests.height].copy()),
            stated_path=pl.Series(self._path[: requests.height].copy()),
        )
        self._requests.clear()
        self._linked.bios.rows = 0
        # The last request may not be out yet, whose bios did not all fit.
        bios = pl.concat([*self._waiting, bios])
        first, self._put_out = self._put_out, self._put_out + requests.height
        self._waiting = [bios.filter(pl.col("request") >= self._put_out)]
        bios = bios.filter(pl.col("request") < self._put_out)
        of_bios = of_requests[bios["request"] - first]
        bios = pl.concat([of_bios, bios], how="horizontal")
        return Part(self._as_table(requests, "requests"), self._as_table(bios, "bios"), events)

    def _as_table(self, rows: pl.DataFrame, name: str) -> pl.DataFrame:
        """Table `name` out of what stands for it in native/core/table.h."""
        return rows.select(self._column(column) for column in schema.table(name).columns)

    def _column(self, column: schema.Column) -> pl.Expr:
        value = pl.col(column.name)
        if column.nullable:
            value = pl.when(value != native.none(column.dtype)).then(value)
        if column.dtype == "string":
            return value.cat.to(self._types[_TEXTS[column.name]])
        return value.cat.to(column.polars) if column.dtype == "enum" else value.cast(column.polars)


def _check(worked: bool) -> None:
    if not worked:
        raise MemoryError


def _result(result: int) -> int:
    _check(result >= 0)
    return result
