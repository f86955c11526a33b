"""Find the written blocks that bypassed the page cache: those that a call of direct I/O certainly wrote.

An event of direct I/O (`tracepoints.DIRECT`) states inode, position and length of a call before its thread submits the
bios. The thread first writes back the cached pages of that range, also before a direct read. So these rules hold for
the bios that the thread submits for a block before its next call, and before any event of the page:

- The last one is direct, if it is a write.
- A bio of a part of a block is direct, because a page is written back as a whole.
- If the thread also wrote to the file through the page cache, the filesystem did not use direct I/O.
- A read of a page that was added to the cache since is not direct.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner.coverage import Coverage

_CALL = ["dev", "ino", "tid"]

_LARGEST = 1 << 60


def is_direct(
    blocks: pl.DataFrame,
    decided: pl.DataFrame,
    callers: pl.DataFrame,
    coverage: Coverage,
    with_own_events: Collection[int],
) -> pl.Series:
    """Return whether each block (`segments.blocks`) was written by direct I/O; null if the trace does not show it.

    - The probe on submit_bio decides it, except for the devices `with_own_events`: bios of encrypted data do not carry
      pages of a file.
    - So do events of direct I/O (`decided`), if dirtying and the sizes of folios are recorded too. On a shared disk
      they only exclude it, because dirtying may be of another file.
    - A block that a kernel thread submits comes from the page cache, if that thread queued it (`submitters.is_caller`).
    """
    dev = pl.col("dev")
    has_probe = dev.is_in(list(coverage.bio_pages))
    is_shared = dev.is_in(list(coverage.shared_dirtying))
    is_covered = dev.is_in(list(coverage.direct_calls)) & (dev.is_in(list(coverage.dirtying)) | is_shared)
    of_calls = callers.select(pl.struct("dev", "ino").unique()).to_series()
    is_other = pl.col("is_caller") | ~pl.struct("dev", "ino").is_in(of_calls.implode())
    by_call = pl.when("is_decided").then(pl.when(~is_shared).then("is_direct")).when(is_other).then(False)
    rule = (
        pl.when(has_probe & ~pl.col("is_pageless"))
        .then(False)
        .when(has_probe & ~dev.is_in(with_own_events))
        .then("is_pageless")
        .when(is_covered & ~dev.is_in(list(coverage.unsized_folios)))
        .then(by_call)
        .when(~pl.col("is_by_process") & pl.col("is_caller"))
        .then(False)
    )
    joined = blocks.join(decided, on=["at", "file_block"], how="left", maintain_order="left")
    return joined.select(is_direct=rule).to_series()


def callers(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the threads with calls of direct I/O on a file: dev, ino, tid."""
    return fs_events.filter(pl.col("event").is_in(tracepoints.DIRECT)).select(_CALL).unique().collect()


def of_callers(rows: pl.DataFrame, callers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows (dev, ino, tid) of `callers`."""
    return rows.join(callers, on=_CALL, how="semi", maintain_order="left")


def decided(blocks: pl.DataFrame, fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return which written blocks a call of direct I/O wrote: at, file_block, is_direct, is_decided (true).

    is_direct is null if that is unclear; blocks without a row were not. `blocks` that were read or written have piece,
    dev, ino, ts_ns, tid, begin and end (bytes of the file), size (of the block), file_block, is_read, touched_ns (last
    event of the block) and absent_ns (when it was last added to the cache or dropped).
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
