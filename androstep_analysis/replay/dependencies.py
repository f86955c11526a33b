"""Dependencies between threads that a replay preserves, from the effects of operations on descriptors, files and names.

Two operations of different threads are ordered if one of the rules below applies, and if the earlier one (by number)
had ended when the later one began. Operations that overlapped in time were concurrent, and stay so. An operation ends
after its duration, or immediately if that is unknown, and at the latest when its thread begins the next one.

- A descriptor is opened before it is used, and used before it is closed. This also holds if the times overlap, since a
  tracer records the end of a call late.
- Likewise, a file that was created by the first operation on it is created before it is used: an operation that found
  it found it created.
- read, write, lseek, getdents and the like on one descriptor or its duplicates share a file offset, and keep their
  order.
- Operations that change a file (write, truncate, fallocate, an open with O_TRUNC, chmod …) are ordered with all others
  on its contents or attributes. Reads, fsync and stat are not ordered among each other. mmap and munmap are ordered
  with accesses to memory mapped to the file.
- Operations that create or remove a name (mkdir, unlink, rename, an open with O_CREAT …) are ordered with all that look
  up this name, also as part of a longer path. A failed operation only looked it up. If results show whether the name
  existed (`overlaps.tells`), this also holds if the times overlap.
- getdents and fsync of a directory, and a failed rmdir of it or rename to it, are ordered with operations that create
  or remove names in it.
- sync and syncfs come after all earlier changes of files and names.

The first operations of a forked thread are ordered with its parent's only by these rules.

Orders that follow from others and from the order in threads are left out (native/calls/dependencies.c). An operation
waits for at most one operation of each other thread, and only if its thread has not waited for that one already. If
more than a thousand threads do something at the same time, and then a thousand others, that would still be an order for
each pair. Beyond a million orders, one of the later operations waits for all of the earlier ones, and the other later
ones wait for it, although they overlapped with it.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.replay import overlaps

_O_CREAT = 0o100
_O_TRUNC = 0o1000


class Does(enum.IntFlag):
    """Effects of an operation besides the use of its descriptors (``enum operation_does`` of dependencies.h)."""

    MAKE = 1 << 0
    CLOSE = 1 << 1
    DUPLICATE = 1 << 2
    SEEK = 1 << 3
    SEEK2 = 1 << 4
    SEE = 1 << 5
    CHANGE = 1 << 6
    CHANGE2 = 1 << 7
    MAP = 1 << 8
    ACCESS_MAP = 1 << 9
    LOOK_UP = 1 << 10
    LOOK_UP2 = 1 << 11
    CHANGE_NAME = 1 << 12
    CHANGE_NAME2 = 1 << 13
    LIST = 1 << 14
    SYNC = 1 << 15
    LIST_PATH = 1 << 16
    LIST_PATH2 = 1 << 17
    TELL = 1 << 18


DOES = {
    "open": Does.MAKE | Does.SEE | Does.LOOK_UP,
    "close": Does.CLOSE,
    "dup": Does.DUPLICATE,
    "lseek": Does.SEE | Does.SEEK,
    **dict.fromkeys(("read", "readv"), Does.SEE | Does.SEEK),
    **dict.fromkeys(("write", "writev"), Does.CHANGE | Does.SEEK),
    **dict.fromkeys(("pread", "preadv", "fadvise", "readahead", "fstat"), Does.SEE),
    **dict.fromkeys(("pwrite", "pwritev", "ftruncate", "fallocate", "fchmod", "futimens"), Does.CHANGE),
    **dict.fromkeys(("sendfile", "splice", "copy_file_range"), Does.SEE | Does.SEEK | Does.CHANGE2),
    **dict.fromkeys(("fsync", "fdatasync", "sync_file_range"), Does.SEE | Does.LIST),
    **dict.fromkeys(("sync", "syncfs"), Does.SYNC),
    **dict.fromkeys(("truncate", "chmod", "utimens"), Does.LOOK_UP | Does.CHANGE),
    "mmap": Does.SEE | Does.MAP,
    "munmap": Does.MAP,
    "msync": Does.SEE | Does.ACCESS_MAP,
    "mapped_read": Does.SEE | Does.ACCESS_MAP,
    "mapped_write": Does.CHANGE | Does.ACCESS_MAP,
    **dict.fromkeys(("stat", "lstat"), Does.LOOK_UP | Does.SEE),
    **dict.fromkeys(("access", "readlink", "statfs"), Does.LOOK_UP),
    "getdents": Does.SEEK | Does.LIST,
    **dict.fromkeys(("mkdir", "rmdir", "unlink", "symlink"), Does.CHANGE_NAME),
    "rename": Does.CHANGE_NAME | Does.CHANGE_NAME2,
    "link": Does.LOOK_UP | Does.CHANGE_NAME2,
}
"""Effects of each call besides the use of its descriptors, as far as its name determines them."""

DOES_FAILED = {
    **dict.fromkeys(("mkdir", "unlink", "symlink"), Does.LOOK_UP),
    "rmdir": Does.LOOK_UP | Does.LIST_PATH,
    "rename": Does.LOOK_UP | Does.LOOK_UP2 | Does.LIST_PATH2,
    "link": Does.LOOK_UP | Does.LOOK_UP2,
}
"""Effects of calls that differ on failure. Some of them fail because a directory is not empty."""

_COLUMNS = {
    "begin_ns": np.int64,
    "end_ns": np.int64,
    "thread": np.uint32,
    "does": np.uint32,
    "descriptor": np.int32,
    "descriptor2": np.int32,
    "file": np.int32,
    "file2": np.int32,
    "path": np.int32,
    "path2": np.int32,
}
"""Columns of ``struct operations`` of native/calls/dependencies.h."""


class _COperations(ctypes.Structure):
    """``struct operations`` of native/calls/dependencies.h."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in _COLUMNS),
        ("nr_threads", ctypes.c_size_t),
        ("nr_paths", ctypes.c_size_t),
        ("texts", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
    )


def dependencies(operations: pl.DataFrame) -> pl.DataFrame:
    """Return the operations of a program that wait for operations of other threads.

    Parameters
    ----------
    operations : polars.DataFrame
        Table `operations`.

    Returns
    -------
    polars.DataFrame
        Table `replay_dependencies`: operation, after (Int64: the operation that must end before), in this order. Orders
        that follow from others and from the order in threads are left out.

    Notes
    -----
    The rules are at the head of ``replay/dependencies.py``.

    Examples
    --------
    >>> recording = androstep.open("datasets/replay/app.strace.xz")
    >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
    >>> replay.dependencies(program.operations).equals(program.dependencies)
    True
    """
    paths = pl.concat([operations["path"], operations["path2"]]).drop_nulls().unique(maintain_order=True)
    texts = np.frombuffer("".join(paths).encode(), np.uint8)
    offsets = np.concatenate(([0], paths.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy()))
    columns = _columns(operations, paths)
    c_operations = _COperations(
        operations.height,
        *(columns[name].ctypes.data for name in _COLUMNS),
        operations["thread"].n_unique(),
        len(paths),
        texts.ctypes.data,
        offsets.ctypes.data,
    )
    orders = _library().dependencies_new(ctypes.byref(c_operations))
    if not orders:
        raise MemoryError
    try:
        rows = int(_library().dependencies_count(orders))
        operation, after = np.empty(rows, np.int64), np.empty(rows, np.int64)
        _library().dependencies_copy(orders, operation.ctypes.data, after.ctypes.data)
    finally:
        _library().dependencies_free(orders)
    numbers = operations["operation"].to_numpy()
    table = pl.DataFrame({"operation": numbers[operation], "after": numbers[after]}).sort("operation", "after")
    return schema.conform(table, "replay_dependencies")


def _columns(operations: pl.DataFrame, paths: pl.Series) -> dict[str, npt.NDArray[np.generic]]:
    """Return the columns for the compiled function."""
    numbers = pl.DataFrame({"text": paths, "number": np.arange(len(paths), dtype=np.int32)})
    table = operations.select(
        pl.col("ts_ns").alias("begin_ns"),
        overlaps.ends().alias("end_ns"),
        pl.col("thread").rank("dense").cast(pl.UInt32) - 1,
        (_does() | _bit(overlaps.tells(operations), Does.TELL)).alias("does"),
        *(pl.col(name).fill_null(-1) for name in ("descriptor", "descriptor2", "file", "file2")),
        *(_number_of(operations[name], numbers) for name in ("path", "path2")),
    )
    return {name: np.ascontiguousarray(table[name].to_numpy(), dtype) for name, dtype in _COLUMNS.items()}


def _number_of(texts: pl.Series, numbers: pl.DataFrame) -> pl.Series:
    looked_up = texts.to_frame("text").join(numbers, on="text", how="left", maintain_order="left")
    return looked_up["number"].fill_null(-1).alias(texts.name)


def _does() -> pl.Expr:
    """Return the bits of `Does` for each operation."""
    call = pl.col("call").cast(pl.String)
    flags = pl.col("flags").fill_null(0)
    failed = pl.col("failed").fill_null(False)
    is_open = (call == "open") & failed.not_()
    seeks = call.is_in(["pread", "pwrite", "preadv", "pwritev"]) & pl.col("offset_bytes").is_null()
    seeks2 = call.is_in(["sendfile", "splice", "copy_file_range"]) & pl.col("offset2_bytes").is_null()
    return (
        pl.when(failed).then(_bits(call, DOES | DOES_FAILED)).otherwise(_bits(call, DOES))
        | _bit(is_open & (flags // _O_CREAT % 2 == 1), Does.CHANGE_NAME)
        | _bit(is_open & (flags // _O_TRUNC % 2 == 1), Does.CHANGE)
        | _bit(seeks, Does.SEEK)
        | _bit(seeks2, Does.SEEK2)
    )


def _bits(call: pl.Expr, of_calls: Mapping[str, Does]) -> pl.Expr:
    return call.replace_strict({name: int(does) for name, does in of_calls.items()}, return_dtype=pl.UInt32)


def _bit(condition: pl.Expr | pl.Series, does: Does) -> pl.Expr:
    return pl.when(condition).then(pl.lit(int(does), pl.UInt32)).otherwise(pl.lit(0, pl.UInt32))


_library = native.library
