"""Run the compiled linker (native/link): batches of block events in, tables requests and bios out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.ingest.spool import Spool, batches
from androstep_analysis.link.requests import rwbs

BATCH = 1 << 17
"""Block events that are linked at once."""

REQUESTS = BIOS = 1 << 15
"""Largest number of rows of each table that are output at once."""

LAG = 1 << 16
"""Nearly all requests finish within so many events."""

_NO_INT64, _NO_INT32, _NO_UINT32, _NO_CODE = (native.none(dtype) for dtype in ("int64", "int32", "uint32", "enum"))

_INPUT: Final = {
    "ts_ns": None,
    "cpu": _NO_INT32,
    "tid": _NO_INT32,
    "pid": _NO_INT32,
    "comm": None,
    "action": None,
    "dev": 0,
    "sector": _NO_INT64,
    "nr_sectors": _NO_INT64,
    "rwbs": None,
    "error": _NO_INT32,
    "old_dev": _NO_UINT32,
    "old_sector": _NO_INT64,
    "block_type": _NO_CODE,
    "path": None,
}
"""Columns of ``struct block_events``, and the value for null in numeric ones."""

_TEXTS: Final = ("comm", "rwbs", "path")

ACTIONS: Final = ("queue", "insert", "issue", "complete", "remap", "requeue")
"""Actions of events that the linker takes."""

STACKED, HAS_FLUSHES, HAS_BIOS, HAS_ISSUES, HAS_COMPLETIONS, HAS_REQUEUES, ROWS_NAME_SUBMITTERS = 1, 2, 4, 8, 16, 32, 64
"""Facts about a device that hold for the whole trace, as in requests.h."""


class _CTexts(ctypes.Structure):
    """``struct texts`` of requests.h."""

    _fields_ = (
        ("views", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("present", ctypes.c_void_p),
        ("offset", ctypes.c_size_t),
    )


class _CEvents(ctypes.Structure):
    """``struct block_events`` of requests.h."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        *((name, _CTexts if name in _TEXTS else ctypes.c_void_p) for name in _INPUT),
    )


class _CLinked(ctypes.Structure):
    """``struct linked`` of requests.h."""

    _fields_ = (("requests", ctypes.c_void_p), ("bios", ctypes.c_void_p))


_library = native.library


class Linker:
    """Links block events, in order of time, to requests and their bios.

    `device_flags` are facts about each device (`STACKED`, …); events of other devices are ignored. `letters` are all
    rwbs strings of the events. `request_id` of both tables is the index of an event among those with `ACTIONS`, in
    order of issue (``struct linked`` of requests.h).
    """

    def __init__(self, device_flags: Mapping[int, int], letters: Iterable[str]) -> None:
        strings = native.Strings()
        self._tables = {
            "requests": native.Table("requests", REQUESTS, strings),
            "bios": native.Table("bios", BIOS, strings),
        }
        self._events = 0
        self._linked = _CLinked(*(table.address for table in self._tables.values()))
        self._handle = native.owned(self, _library().linker_free, _library().linker_new(strings.handle))
        for dev, flags in device_flags.items():
            _check(_library().linker_device(self._handle, dev, flags))
        operations = schema.enum("requests", "op").categories.to_list()
        for text in letters:
            meaning, raw = rwbs.meaning(text), text.encode()
            flags = sum(getattr(meaning, flag) << bit for bit, flag in enumerate(rwbs.FLAGS))
            _check(_library().linker_meaning(self._handle, raw, len(raw), operations.index(meaning.op), flags))

    def partition(self, dev: int, parent: int, start_sector: int, nr_sectors: int) -> None:
        """Declare that device `dev` is a part of `parent`."""
        _check(_library().linker_partition(self._handle, dev, parent, start_sector, nr_sectors))

    def link(self, block: pl.LazyFrame, spool: Spool) -> None:
        """Append the requests and bios of table block_events to `spool`."""
        events = block.filter(pl.col("action").is_in(ACTIONS)).select(_input(*column) for column in _INPUT.items())
        for batch in batches(events, BATCH):
            self._link(batch.rechunk(), spool)
        while _result(_library().linker_finish(self._handle, ctypes.byref(self._linked))):
            self._output(spool)
        self._output(spool)

    def _link(self, batch: pl.DataFrame, spool: Spool) -> None:
        columns = {name: batch[name].to_numpy() for name in _INPUT if name not in _TEXTS}
        texts = {name: _Texts(batch[name]) for name in _TEXTS}
        events = _CEvents(batch.height, **{name: values.ctypes.data for name, values in columns.items()})
        for name, column in texts.items():
            setattr(events, name, column.c)
        done = 0
        while done < batch.height:
            done = _result(_library().linker_link(self._handle, ctypes.byref(events), done, ctypes.byref(self._linked)))
            if done < batch.height:
                self._output(spool)
        self._events += batch.height

    def _output(self, spool: Spool) -> None:
        for name, table in self._tables.items():
            spool.append(name, table.arrow())
            spool.settle(name, self._events - LAG)
            table.clear()


class _Texts:
    """A polars column of strings as ``struct texts``."""

    def __init__(self, column: pl.Series) -> None:
        self._array: Any = column.to_arrow(compat_level=pl.CompatLevel.newest())
        parts: list[Any] = self._array.buffers()
        present, views, *buffers = parts
        self._buffers = (ctypes.c_void_p * len(buffers))(*(buffer.address for buffer in buffers))
        self.c = _CTexts(
            views.address,
            ctypes.addressof(self._buffers),
            None if present is None else present.address,
            self._array.offset,
        )


def _input(name: str, none: int | None) -> pl.Expr:
    column = pl.col(name)
    if name in ("action", "block_type"):
        column = column.to_physical()
    return column if none is None else column.fill_null(none)


def _check(worked: bool) -> None:
    if not worked:
        raise MemoryError


def _result(result: int) -> int:
    _check(result >= 0)
    return result
