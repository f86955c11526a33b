"""Determine the content of the disk at the time and location of each read.

The log of the disk has the order of writes, and the trace the time span of each of them (`matching`). If a write may
have overlapped the read of the same sector, it is unknown which of the two contents was read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from harness import devlog, matching


def held(
    log: devlog.DevLog, first: int, last: int, image: Path, writes: pl.DataFrame, reads: pl.DataFrame
) -> tuple[pl.DataFrame, npt.NDArray[np.uint8]]:
    """Return the read sectors of known content, in order (bio, bio_sector, sector, ts, pid), and that content.

    `image` is the disk before entry `first` of the log; `writes` and `reads` are bios as in `judge`.
    """
    written = devlog.sectors(log, first, last)
    _, spans = matching.matched(written, matching.bio_sectors(writes))
    changes = written.join(spans, on="entry").select("sector", "entry", "position", "earliest_ns", "latest_ns")
    asked = matching.bio_sectors(reads)
    both = asked.join(changes, on="sector")
    is_open = (pl.col("earliest_ns") <= pl.col("done_ns")) & (pl.col("latest_ns") >= pl.col("ts"))
    unclear = both.filter(is_open).select("bio", "sector").unique()
    before = both.filter(pl.col("latest_ns") < pl.col("ts")).group_by("bio", "sector")
    last_change = before.agg(pl.col("position").sort_by("entry").last())
    known = asked.join(unclear, on=["bio", "sector"], how="anti").join(last_change, on=["bio", "sector"], how="left")
    known = known.sort("bio", "sector")
    content = devlog.as_sectors(np.memmap(image, np.uint8, "r"))[known["sector"].to_numpy()]
    is_changed = known["position"].is_not_null().to_numpy()
    position = known["position"].drop_nulls().to_numpy()
    content[is_changed] = devlog.as_sectors(log.content)[position // devlog.SECTOR_BYTES]
    return known.select("bio", "bio_sector", "sector", "ts", "pid"), content
