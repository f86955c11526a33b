"""Replay programs of block devices: the requests of a capture, repeated with pread, pwrite and fdatasync.

A request begins when it was queued (Q), which is when it was asked for. Its later waits in a scheduler or plug depend
on the recorded system, and the replay passes through the same layers again. If the queueing was not recorded, the
request begins when it was inserted, else issued, else completed.

Requests that were in flight at the same time are on different threads, which preserves the recorded queue depth. There
are as many threads as requests in flight. A request without a recorded end delays no other.

Flushes are handled in one of two ways:

- The recording may have the flushes that the device got (REQ_OP_FLUSH, `FF` in rwbs: since Linux 4.11). They are
  replayed, and REQ_PREFLUSH of a write adds none: the write begins when it was issued, after its flush. REQ_FUA counts
  if it reached the device; otherwise the flush that replaced it is among the requests.
- In other recordings, only these flags show flushes.

A flush waits for the writes and discards that had ended when it began. Requests that began after the end of a flush
wait for that flush. Everything else is ordered by time alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.link.requests import rwbs
from androstep_analysis.replay.program import Program

PATH = "device"
"""The name of the only file of such a program."""

MAX_BYTES = 1 << 30
"""The longest read or write of a program."""

_O_RDWR, _O_DIRECT = 0o2, 0o40000
_RWF_DSYNC = 0x2
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 0x1, 0x2
_DOES_WRITE, _DOES_FLUSH = 1, 2  # native/model/lanes.c

_CALLS = {
    "read": "pread",
    "write": "pwrite",
    "flush": "fdatasync",
    "discard": "fallocate",
    "secure_erase": "fallocate",
}

_DISCARDS = ("discard", "secure_erase")


def program(requests: pl.LazyFrame, *, dev: int | None = None) -> Program:
    """Return a program of table `requests`, which repeats them with reads, writes and flushes.

    Parameters
    ----------
    requests : polars.LazyFrame
        Table `requests`.
    dev : int, optional
        The device (``major << 20 | minor``); by default the only one in the table.

    Returns
    -------
    Program
        The program, with `is_device` set. `left_out` returns the other requests.

    Raises
    ------
    InputError
        If `dev` is not in the table, or is missing for several devices, or if no request can be replayed.

    Notes
    -----
    Reads are pread and writes pwrite at the recorded offset, with O_DIRECT. With REQ_FUA, a write is pwritev with
    RWF_DSYNC, to which Linux adds a flush on a block device. With REQ_PREFLUSH, an fdatasync is inserted before it,
    unless the recording has that flush itself. A flush is fdatasync. A discard is fallocate that punches a hole. On a
    block device, Linux does that by writing zeroes without data, not by a discard. The head of ``replay/device.py`` has
    the rules for times and dependencies.

    References
    ----------
    Linux block/blk-flush.c.

    Examples
    --------
    >>> replay.device.program(capture.requests)
    <Program: 4,556 operations of 52 threads, one device, 9.757 s>
    """
    requested = _requested(requests, _device(requests, dev)).filter(pl.col("reason").is_null()).drop("reason")
    if requested.is_empty():
        raise InputError("the capture has no request that can be replayed; record block events with iotrace")
    lanes = _lanes(requested)
    operations = _operations(requested.with_columns(thread=pl.Series(lanes.on)))
    end_ns = pl.max_horizontal(pl.col("ts_ns"), pl.col("ts_ns") + pl.col("duration_ns"))
    return Program(
        operations=schema.conform(operations.drop("row", "is_last"), "operations"),
        files=_files(requested),
        threads=schema.complete(pl.DataFrame({"thread": np.arange(lanes.count, dtype=np.int32)}), "replay_threads"),
        dependencies=_dependencies(operations, lanes),
        duration_ns=int(operations.select(end_ns.max()).item()),
        is_device=True,
    )


def left_out(requests: pl.LazyFrame, *, dev: int | None = None) -> pl.DataFrame:
    """Return the requests that are not in their `program`.

    Parameters
    ----------
    requests : polars.LazyFrame
        Table `requests`.
    dev : int, optional
        As for `program`.

    Returns
    -------
    polars.DataFrame
        Columns reason (String: no such call, no place, longer than 1 GiB), call (String, the operation), count (Int64),
        bytes (Int64).

    Raises
    ------
    InputError
        If `dev` is not in the table, or is missing for several devices, or if there are no requests.

    Examples
    --------
    >>> unplaced = capture.requests.with_columns(sector=pl.when(pl.col("op") != "read").then("sector"))
    >>> replay.device.left_out(unplaced).rows()
    [('no place', 'read', 817, 14557184)]
    """
    return (
        _requested(requests, _device(requests, dev))
        .filter(pl.col("reason").is_not_null())
        .group_by("reason", call="op")
        .agg(count=pl.len().cast(pl.Int64), bytes=pl.col("bytes").sum())
        .sort("reason", "call")
    )


def _device(requests: pl.LazyFrame, dev: int | None) -> int:
    devices = requests.select(pl.col("dev").unique().sort()).collect().to_series().to_list()
    names = ", ".join(units.format_dev(device) for device in devices)
    if not devices:
        raise InputError("the capture has no requests of block devices; record block events with iotrace")
    if dev is None and len(devices) > 1:
        raise InputError(f"the capture has requests of several devices ({names}); name one with --device")
    if dev is not None and dev not in devices:
        raise InputError(f"no request of device {units.format_dev(dev)}; the capture has {names}")
    return int(devices[0]) if dev is None else dev


def _requested(requests: pl.LazyFrame, dev: int) -> pl.DataFrame:
    """Return the requests of a device in the order in which they began.

    Columns are op, call, flags, is_preflushed, start_ns, end_ns (null: unknown), offset_bytes, bytes, error and reason.
    `reason` is the reason why a request is left out.
    """
    # Flags that were not recorded are not replayed.
    flags = pl.col("fua", "preflush").fill_null(value=False)
    of_device = requests.filter(pl.col("dev") == dev).with_columns(pl.col("op").cast(pl.String), flags).collect()
    op = pl.col("op")
    is_flush = op == "flush"
    shows_flushes = not of_device.filter(
        is_flush, pl.col("queue_ns").is_null(), pl.col("issue_ns").is_not_null()
    ).is_empty()
    is_forced = (op == "write") & (_reached_fua(of_device) if shows_flushes else pl.col("fua"))
    start_ns = pl.coalesce("queue_ns", "insert_ns", "issue_ns", "complete_ns")
    if shows_flushes:
        start_ns = pl.when("preflush").then(pl.coalesce("issue_ns", start_ns)).otherwise(start_ns)
    length = pl.col("nr_sectors") * units.SECTOR_BYTES
    return (
        of_device.select(
            "op",
            "error",
            "request_id",
            reason=_reason(length),
            call=pl.when(is_forced).then(pl.lit("pwritev")).otherwise(op.replace_strict(_CALLS, default=None)),
            flags=pl.when(is_forced)
            .then(pl.lit(_RWF_DSYNC, pl.Int64))
            .when(op.is_in(_DISCARDS))
            .then(pl.lit(_FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, pl.Int64)),
            is_preflushed=pl.col("preflush") & is_flush.not_() & pl.lit(not shows_flushes),
            offset_bytes=pl.when(is_flush.not_()).then(pl.col("sector") * units.SECTOR_BYTES),
            bytes=pl.when(is_flush.not_()).then(length),
            start_ns=start_ns,
            end_ns=pl.when(pl.col("complete_ns").is_not_null()).then(pl.max_horizontal("complete_ns", start_ns)),
        )
        .sort("start_ns", "request_id")
        .drop("request_id")
    )


def _reached_fua(requests: pl.DataFrame) -> pl.Expr:
    """Return whether the request that the device got had REQ_FUA."""
    letters = requests["rwbs"].drop_nulls().unique().to_list()
    return pl.col("rwbs").is_in([word for word in letters if rwbs.meaning(word).fua])


def _reason(length: pl.Expr) -> pl.Expr:
    """Return the reason why a request of this length is left out, or null."""
    op = pl.col("op")
    is_placed = pl.col("sector").is_not_null() & (pl.col("nr_sectors") > 0)
    return (
        pl.when(op.is_in(list(_CALLS)).not_())
        .then(pl.lit("no such call"))
        .when((op != "flush") & is_placed.not_())
        .then(pl.lit("no place"))
        .when(op.is_in(["read", "write"]) & (length > MAX_BYTES))
        .then(pl.lit("longer than 1 GiB"))
    )


# -- threads ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lanes:
    """The thread of each request (`on`, of `count`), and the `requests` that wait for the end of others (`after`)."""

    on: npt.NDArray[np.int32]
    count: int
    requests: npt.NDArray[np.int64]
    after: npt.NDArray[np.int64]


def _lanes(requested: pl.DataFrame) -> _Lanes:
    op, is_known = pl.col("op"), pl.col("end_ns").is_not_null()
    writes = op.is_in(["write", *_DISCARDS]) & is_known
    flushes = ((op == "flush") | pl.col("is_preflushed")) & is_known
    does = requested.select((writes.cast(pl.UInt8) * _DOES_WRITE + flushes.cast(pl.UInt8) * _DOES_FLUSH).cast(pl.UInt8))
    start = np.ascontiguousarray(requested["start_ns"].to_numpy())
    end = np.ascontiguousarray(requested.select(pl.coalesce("end_ns", "start_ns")).to_series().to_numpy())
    bits = np.ascontiguousarray(does.to_series().to_numpy())
    on = np.empty(requested.height, np.int32)
    library = _library()
    lanes = library.lanes_new(requested.height, start.ctypes.data, end.ctypes.data, bits.ctypes.data, on.ctypes.data)
    if not lanes:
        raise MemoryError
    try:
        rows = int(library.lanes_orders(lanes))
        request, after = np.empty(rows, np.int64), np.empty(rows, np.int64)
        library.lanes_copy(lanes, request.ctypes.data, after.ctypes.data)
        return _Lanes(on, int(library.lanes_count(lanes)), request, after)
    finally:
        library.lanes_free(lanes)


_library = native.library


# -- tables -----------------------------------------------------------------------------------------------------------


def _operations(requested: pl.DataFrame) -> pl.DataFrame:
    """Return table `operations` with columns row (of its request; null: none) and is_last (of its request).

    The first operation is the open of the device for all threads.
    """
    first_ns = int(requested["start_ns"][0])
    failed = pl.col("error") < 0
    numbered = requested.select(
        "thread",
        "call",
        "flags",
        "offset_bytes",
        "bytes",
        "is_preflushed",
        row=pl.int_range(pl.len(), dtype=pl.Int64),
        ts_ns=pl.col("start_ns") - first_ns,
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        failed=failed,
        result=pl.when(failed)
        .then(pl.col("error").cast(pl.Int64))
        .when(pl.col("error") == 0)
        .then(pl.when(pl.col("call").str.starts_with("p")).then("bytes").otherwise(0)),
    )
    before = numbered.filter("is_preflushed").select(
        "thread", "row", "ts_ns", call=pl.lit("fdatasync"), inserted=True, is_last=False
    )
    opened = pl.DataFrame({"thread": [0], "ts_ns": [0], "call": ["open"], "inserted": [True], "is_last": [False]})
    opened = opened.with_columns(
        pl.col("thread").cast(pl.Int32), path=pl.lit(PATH), flags=pl.lit(_O_RDWR | _O_DIRECT, pl.Int64)
    )
    themselves = numbered.drop("is_preflushed").with_columns(inserted=False, is_last=True)
    rows = pl.concat([opened, before, themselves], how="diagonal").sort("row", "is_last", nulls_last=False)
    numbers = {"operation": pl.int_range(pl.len(), dtype=pl.Int64), "descriptor": pl.lit(0, pl.Int32)}
    rows = rows.with_columns(
        **numbers, file=pl.lit(0, pl.Int32), call=pl.col("call").cast(schema.enum("operations", "call"))
    )
    table = schema.complete(rows.drop("row", "is_last"), "operations")
    return table.with_columns(rows["row"], rows["is_last"])


def _files(requested: pl.DataFrame) -> pl.DataFrame:
    end = int(requested.select((pl.col("offset_bytes") + pl.col("bytes")).max().fill_null(0)).item())
    row = pl.DataFrame(
        {"path": [PATH], "inode_type": ["file"], "file": [0], "size_bytes": [end], "size_from": ["reads"]}
    )
    types = schema.table("replay_files").polars
    return schema.complete(row.select(pl.col(name).cast(types[name]) for name in row.columns), "replay_files")


def _dependencies(operations: pl.DataFrame, lanes: _Lanes) -> pl.DataFrame:
    """Return the dependencies of operations.

    All threads wait for the open. The first operation of a request waits for the last operation of another.
    """
    own = (
        operations.filter(pl.col("row").is_not_null())
        .group_by("row")
        .agg(first=pl.col("operation").min(), last=pl.col("operation").max())
        .sort("row")
    )
    waits = own["first"].to_numpy()[lanes.requests]
    opened = operations.filter(pl.col("thread") > 0).group_by("thread").agg(pl.col("operation").min())["operation"]
    table = pl.DataFrame(
        {
            "operation": np.concatenate([opened.to_numpy(), waits]),
            "after": np.concatenate([np.zeros(len(opened), np.int64), own["last"].to_numpy()[lanes.after]]),
        }
    )
    return schema.conform(table.sort("operation", "after"), "replay_dependencies")
