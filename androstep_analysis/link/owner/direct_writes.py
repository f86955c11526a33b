"""Which written blocks came past the page cache: those that a call of direct I/O certainly wrote.

The events of direct I/O (`tracepoints.DIRECT`) tell inode, place and length of a call before it submits its bios, which
its thread does. The same thread first writes out what the page cache holds of that range, before a direct read too. So
of the bios for one block of the file that the thread submits before its next call, and before anything touches the
page, the last is the direct one, if it is a write: a page is written out before. A bio of a part of a block is none of
a page. Where the thread also wrote to the file by the page cache, the filesystem had fallen back to it. A read of a
page that was added to the cache since is not the call's.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs import tracepoints

_CALL = ["dev", "ino", "tid"]

_OF_FILESYSTEM = {
    "ext4": ("iomap_dio_rw_begin", "ext4_direct_IO_enter"),
    "f2fs": ("f2fs_direct_IO_enter",),
}
"""Which of the events a filesystem has."""

_LARGEST = 1 << 60


def observed(fs_events: pl.LazyFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose trace tells every call of direct I/O on them."""
    is_covered = pl.lit(False)
    for filesystem, names in _OF_FILESYSTEM.items():
        if not set(names).isdisjoint(recorded):
            is_covered |= tracepoints.is_own(filesystem)
    is_call = pl.col("event").is_in(tracepoints.DIRECT)
    return tracepoints.devices(fs_events, is_covered | is_call)


def callers(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """The threads that called for direct I/O on a file at any time: dev, ino, tid."""
    return fs_events.filter(pl.col("event").is_in(tracepoints.DIRECT)).select(_CALL).unique().collect()


def of_callers(rows: pl.DataFrame, callers: pl.DataFrame) -> pl.DataFrame:
    """Those of the rows (dev, ino, tid) that are of `callers`."""
    return rows.join(callers, on=_CALL, how="semi", maintain_order="left")


def decided(blocks: pl.DataFrame, fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Which of the `blocks` were written by a call of direct I/O: at, file_block, is_direct, is_decided (true).

    Others certainly were not; is_direct is null where that is not clear. `blocks` that were read or written have piece,
    dev, ino, ts_ns, tid, begin and end (the bytes of the file), size (of the block), file_block, is_read, touched_ns
    and absent_ns: when the block was last touched, and absent from the cache.
    """
    is_call = pl.col("event").is_in(tracepoints.DIRECT)
    fits = pl.col("offset_bytes").is_between(0, _LARGEST) & pl.col("nr_bytes").is_between(0, _LARGEST)
    events = fs_events.filter((is_call & fits) | pl.col("event").is_in(tracepoints.WRITES))
    limit = pl.col("offset_bytes") + pl.col("nr_bytes")
    calls = events.select(*_CALL, "ts_ns", call_ns="ts_ns", first="offset_bytes", limit=limit, is_call=is_call)
    calls = calls.join(callers(fs_events).lazy(), on=_CALL, how="semi", maintain_order="left")
    begin = pl.max_horizontal("begin", pl.col("file_block") * pl.col("size"))
    end = pl.min_horizontal("end", (pl.col("file_block") + 1) * pl.col("size"))
    rows = blocks.with_columns(begin=begin, end=end).sort("ts_ns", maintain_order=True)
    during = rows.join_asof(calls.collect().sort("ts_ns"), on="ts_ns", by=_CALL, check_sortedness=False).filter(
        "is_call"
    )
    is_missed = (pl.col("absent_ns") < pl.col("call_ns")).fill_null(True)
    during = during.filter(~pl.col("is_read") | is_missed)
    is_inside = (pl.col("first") <= pl.col("begin")) & (pl.col("end") <= pl.col("limit"))
    is_touched = (pl.col("touched_ns") >= pl.col("call_ns")).fill_null(False)
    of_call = [*_CALL, "call_ns", "file_block"]
    is_last = pl.col("ts_ns") == pl.when(~is_touched).then("ts_ns").max().over(of_call)
    is_first = pl.col("ts_ns") == pl.col("ts_ns").min().over(of_call)
    is_part = pl.col("end") - pl.col("begin") < pl.col("size")
    is_direct = pl.when(is_touched & is_first & is_inside).then(None).otherwise(is_inside & (is_last | is_part))
    found = during.select("file_block", "is_read", at="piece", is_direct=is_direct, is_decided=pl.lit(True))
    return found.filter(~pl.col("is_read")).drop("is_read")
