"""The compiled half of `authorship` (native/owner): what happened in each turn of a block, one pass over the events."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis import native

KIND: Final = pl.Enum(["write", "store", "dirty", "maybe", "absent"])
"""What a row of `touched` says of its block, in the order of ``enum touch_kind``."""

VIAS: Final = (None, "write_begin", "dirty_folio")
"""What tells the author of a turn, in the order of ``enum via``."""

_NO_INT64, _NO_INT32, _NO_CODE = (native.none(dtype) for dtype in ("int64", "int32", "bool"))

_BLOCK: Final = {"ts_ns": np.int64, "dev": np.uint32, "ino": np.int64, "life": np.int64, "file_block": np.int64}

_TOUCHES: Final = {
    **_BLOCK,
    "tid": np.int32,
    "process": np.int64,
    "kind": np.uint8,
    "is_begun": np.uint8,
    "is_mover": np.uint8,
    "is_in_folio": np.uint8,
}
"""Columns of ``struct touches``."""

_OUTS: Final = {**_BLOCK, "tid": np.int32}
"""Columns of ``struct outs``."""

_TURNS: Final = {
    "author": np.int64,
    "seen_clean_ns": np.int64,
    "wrote_ns": np.int64,
    "edge_ns": np.int64,
    "count": np.int32,
    "changers": np.int32,
    "who": np.uint32,
    "via": np.uint8,
    "is_in_folio": np.uint8,
    **dict.fromkeys(("is_first", "is_clean", "by_maker", "is_exact", "is_others", "is_cluster", "is_torn"), np.uint8),
}
"""Columns of ``struct turns``."""

_NONE: Final[dict[Any, int]] = {np.int64: _NO_INT64, np.int32: _NO_INT32, np.uint8: _NO_CODE}

_POLARS: Final[dict[Any, Any]] = {np.int64: pl.Int64, np.int32: pl.Int32, np.uint32: pl.UInt32, np.uint8: pl.UInt8}


def _columns(names: Collection[str]) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_void_p) for name in names]


class _CTouches(ctypes.Structure):
    """``struct touches`` of authors.h."""

    _fields_ = (("rows", ctypes.c_size_t), *_columns(_TOUCHES))


class _COuts(ctypes.Structure):
    """``struct outs`` of authors.h."""

    _fields_ = (("rows", ctypes.c_size_t), *_columns(_OUTS))


class _CTurns(ctypes.Structure):
    """``struct turns`` of authors.h."""

    _fields_ = tuple(_columns(_TURNS))


@functools.cache
def _library() -> ctypes.CDLL:
    pointers = (ctypes.POINTER(kind) for kind in (_CTouches, _COuts, _CTurns))
    return native.declared(("authors_decide", ctypes.c_bool, tuple(pointers)))


def decided(touched: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """For each of the `blocks` that are written out, in their order, what happened in the turn that ends with it.

    Both tables are in order of time and have the columns of ``struct touches`` and ``struct outs`` of
    native/owner/authors.h, which says what comes out: `author` is a row of `touched`, `via` one of `VIAS`; null is what
    is not there.
    """
    given = [_arrays(touched, _TOUCHES), _arrays(blocks, _OUTS)]
    made = {name: np.zeros(blocks.height, dtype) for name, dtype in _TURNS.items()}
    touches = _CTouches(touched.height, *(values.ctypes.data for values in given[0]))
    outs = _COuts(blocks.height, *(values.ctypes.data for values in given[1]))
    turns = _CTurns(*(values.ctypes.data for values in made.values()))
    if not _library().authors_decide(ctypes.byref(touches), ctypes.byref(outs), ctypes.byref(turns)):
        raise MemoryError
    nullable = ("author", "seen_clean_ns", "wrote_ns", "edge_ns", "is_in_folio")
    is_known = {name: pl.col(name) != _NONE[_TURNS[name]] for name in nullable}
    flags = [name for name in _TURNS if name.startswith(("is_", "by_"))]
    return (
        pl.DataFrame(made)
        .with_columns(pl.when(known).then(name).alias(name) for name, known in is_known.items())
        .with_columns(
            pl.col(flags).cast(pl.Boolean),
            via=pl.col("via").replace_strict(dict(enumerate(VIAS)), return_dtype=pl.String),
        )
    )


def _arrays(table: pl.DataFrame, columns: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The columns as the library takes them, each without a null and in one piece."""
    arrays = []
    for name, dtype in columns.items():
        values = table[name].to_physical().cast(_POLARS[dtype])
        if dtype in _NONE:
            values = values.fill_null(_NONE[dtype])
        arrays.append(np.ascontiguousarray(values.to_numpy(), dtype))
    return arrays
