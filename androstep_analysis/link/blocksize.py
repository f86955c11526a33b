"""How large the blocks of a filesystem are, in which its events count: told, or proven by its requests."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis import units
from androstep_analysis.link import extents
from androstep_analysis.link.requests import Requests

USUAL_BYTES = 4096
"""Block size of every ext4 and F2FS on Android, and of most others."""


def known(told: Mapping[int, int], linked: Requests) -> dict[int, int]:
    """The block size in bytes by device: as told, else `USUAL_BYTES` where that is proven; others are missing.

    A filesystem reads and writes whole blocks, and its metadata block by block (ext4's journal, F2FS's checkpoints).
    So its blocks are of the usual size where every read and write begins and ends at a multiple of it and one of them
    is that short.
    """
    if told.keys() >= set(linked.requests.select(pl.col("part_dev").unique()).collect()["part_dev"]):
        return dict(told)
    step = USUAL_BYTES // units.SECTOR_BYTES
    is_whole = (pl.col("part_sector") % step == 0) & (pl.col("nr_sectors") % step == 0)
    parts = []
    for window in linked.windows():
        moved = extents.placed(window).filter(pl.col("op").is_in(["read", "write"]), pl.col("nr_sectors") > 0)
        parts.append(moved.group_by("part_dev").agg(whole=is_whole.all(), short=(pl.col("nr_sectors") == step).any()))
    proven = pl.concat(parts).group_by("part_dev").agg(is_proven=pl.col("whole").all() & pl.col("short").any())
    usual = {int(dev): USUAL_BYTES for dev in proven.filter("is_proven")["part_dev"].drop_nulls()}
    return usual | dict(told)
