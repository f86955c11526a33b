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

_BLOCK = ["dev", "ino", "file_block"]

_OF_FILESYSTEM = {
    "ext4": ("iomap_dio_rw_begin", "ext4_direct_IO_enter"),
    "f2fs": ("f2fs_direct_IO_enter",),
}
"""Which of the events a filesystem has."""

_LARGEST = 1 << 60


def observed(fs_events: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose trace tells every call of direct I/O on them."""
    is_covered = pl.lit(False)
    for filesystem, names in _OF_FILESYSTEM.items():
        if not set(names).isdisjoint(recorded):
            is_covered |= tracepoints.is_own(filesystem)
    is_call = pl.col("event").is_in(tracepoints.DIRECT)
    return fs_events.filter(is_covered | is_call)["dev"].drop_nulls().unique().to_list()


def are_direct(blocks: pl.DataFrame, reads: pl.DataFrame, touched: pl.DataFrame, fs_events: pl.DataFrame) -> pl.Series:
    """For each of the `blocks` that were written whether a call of direct I/O wrote it; null where that is not clear.

    `blocks` and `reads`, the blocks that were read, have dev, ino, ts_ns, tid, begin and end (the bytes of the file),
    size (of the block) and file_block; `touched` is as `authorship.authors` takes it.
    """
    is_call = pl.col("event").is_in(tracepoints.DIRECT)
    fits = pl.col("offset_bytes").is_between(0, _LARGEST) & pl.col("nr_bytes").is_between(0, _LARGEST)
    events = fs_events.filter((is_call & fits) | pl.col("event").is_in(tracepoints.WRITES))
    if events.filter(is_call).is_empty():
        return pl.repeat(False, blocks.height, dtype=pl.Boolean, eager=True)
    limit = pl.col("offset_bytes") + pl.col("nr_bytes")
    calls = events.select(*_CALL, "ts_ns", call_ns="ts_ns", first="offset_bytes", limit=limit, is_call=is_call)
    begin = pl.max_horizontal("begin", pl.col("file_block") * pl.col("size"))
    end = pl.min_horizontal("end", (pl.col("file_block") + 1) * pl.col("size"))
    rows = pl.concat([blocks.with_row_index("row"), reads], how="diagonal")
    rows = rows.select("row", *_CALL, "ts_ns", "size", "file_block", begin=begin, end=end).sort("ts_ns")
    during = rows.join_asof(calls.sort("ts_ns"), on="ts_ns", by=_CALL, check_sortedness=False).filter("is_call")
    is_absent = touched["kind"] == "absent"
    for name, events in {"touched_ns": touched.filter(~is_absent), "absent_ns": touched.filter(is_absent)}.items():
        times = events.select(*_BLOCK, "ts_ns", pl.col("ts_ns").alias(name)).sort("ts_ns")
        during = during.join_asof(times, on="ts_ns", by=_BLOCK, check_sortedness=False)
    is_read = pl.col("row").is_null()
    during = during.filter(~is_read | (pl.col("absent_ns") < pl.col("call_ns")).fill_null(True))
    is_inside = (pl.col("first") <= pl.col("begin")) & (pl.col("end") <= pl.col("limit"))
    is_touched = (pl.col("touched_ns") >= pl.col("call_ns")).fill_null(False)
    of_call = [*_CALL, "call_ns", "file_block"]
    is_last = pl.col("ts_ns") == pl.when(~is_touched).then("ts_ns").max().over(of_call)
    is_first = pl.col("ts_ns") == pl.col("ts_ns").min().over(of_call)
    is_part = pl.col("end") - pl.col("begin") < pl.col("size")
    is_direct = pl.when(is_touched & is_first & is_inside).then(None).otherwise(is_inside & (is_last | is_part))
    decided = during.select("row", is_direct=is_direct, is_decided=True).drop_nulls("row")
    joined = blocks.select("ino").with_row_index("row").join(decided, on="row", how="left", maintain_order="left")
    return joined.select(pl.when("is_decided").then("is_direct").otherwise(False)).to_series()
