"""How large the blocks of a filesystem are, in which its events count: reported, or proven by its requests.

An event that says in which block of the device a block of a file lies is soon followed by a bio for that place. Where
the place is in sectors depends on how large blocks are, and for each size it is another: what the bios bear out is the
size. How they are aligned proves nothing: direct I/O on blocks of 1 KiB may be in pieces of 4 KiB, and a program that
reads the device itself reads single sectors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from androstep_analysis import units
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.link import extents, intervals
from androstep_analysis.link.intervals import FOREVER, Int64s
from androstep_analysis.link.requests import Requests

SIZES = tuple(1 << shift for shift in range(10, 17))
"""Sizes in bytes of blocks that ext4 and F2FS can have."""

_SOON = 16
"""A bio bears out what was said of its place so many bios before at most: of that filesystem, by whatever thread."""

_LEAST = 3
_TIMES_MORE = 4
"""A size is proven that so many bios bear out, and so many times more than any other. Some agree by chance."""

_MOST_PLACES, _MOST_BIOS = 1 << 16, 1 << 18
"""How many of one filesystem are compared: the first ones."""


def by_device(
    reported: Mapping[int, int], linked: Requests, fs_events: pl.LazyFrame, page_bytes: int | None
) -> dict[int, int]:
    """The block size in bytes by device: as `reported`, else as proven; others are missing.

    `fs_events` is the table, each event on the device of its filesystem; `page_bytes` the size of a page, if known.
    """
    stating = fs_events.filter(_states_place() & ~pl.col("dev").is_in(list(reported)))
    open_devices = stating.select(pl.col("dev").drop_nulls().unique()).collect(engine="streaming")["dev"]
    proven = {}
    if len(open_devices):
        bios = _bios(linked, open_devices)
        for dev in open_devices:
            of_device = fs_events.filter(pl.col("dev") == dev)
            counts = borne_out(of_device, bios.filter(pl.col("part_dev") == dev), page_bytes)
            best, *others = sorted(counts, key=lambda size: -counts[size])
            if counts[best] >= max(_LEAST, _TIMES_MORE * counts[others[0]]):
                proven[int(dev)] = best
    return proven | dict(reported)


def borne_out(fs_events: pl.LazyFrame, bios: pl.DataFrame, page_bytes: int | None) -> dict[int, int]:
    """How many of the bios bear out what the events of their filesystem say, by the size of its blocks (`SIZES`).

    `bios` are all that were queued for it, with part_sector, nr_sectors and time.
    """
    bios = bios.sort("time").head(_MOST_BIOS)
    times = bios["time"].to_numpy()
    counts = {}
    for size in SIZES:
        sector, time = _places(fs_events, size, page_bytes)
        # In a time that runs backwards the last bio before is the first one after.
        rows = intervals.Rows(
            np.zeros(bios.height, np.int64),
            bios["part_sector"].to_numpy(),
            bios["nr_sectors"].to_numpy(),
            -times,
            np.full(bios.height, FOREVER),
        )
        zeros, ones = np.zeros(sector.size, np.int64), np.ones(sector.size, np.int64)
        answer = intervals.stab(intervals.Queries(zeros, sector, ones, -time), rows)
        met = answer.row >= 0
        waited = answer.row[met] - np.searchsorted(times, time[answer.query[met]])
        counts[size] = np.unique(answer.row[met][waited < _SOON]).size
    return counts


def _bios(linked: Requests, devices: pl.Series) -> pl.DataFrame:
    """The bios with data on the devices, of all windows: part_dev, part_sector, nr_sectors, time."""
    parts = [
        extents.placed(window)
        .filter(pl.col("part_dev").is_in(devices.implode()), pl.col("op").is_in(["read", "write"]))
        .select("part_dev", "part_sector", "nr_sectors", "time")
        .drop_nulls()
        for window in linked.windows()
    ]
    return pl.concat(parts).filter(pl.col("nr_sectors") > 0)


def _states_place() -> pl.Expr:
    """Whether an event says where a block of a file lies."""
    event = pl.col("event")
    of_ext4 = event.is_in([*tracepoints_ext4.INSERTS, tracepoints_ext4.LOOKUP])
    is_mapped = pl.col("status").str.contains("^[A-Z]*[WU]")
    of_f2fs = event.is_in([*tracepoints_f2fs.SUBMITS, tracepoints_f2fs.MAPS])
    states = (of_ext4 & is_mapped) | of_f2fs
    fits = pl.col("block").is_between(1, tracepoints_ext4.LARGEST_BLOCK)
    fits &= pl.col("nr_blocks").fill_null(1).is_between(1, tracepoints_ext4.LARGEST_EXTENT)
    return states.fill_null(False) & fits & (pl.col("file_block").fill_null(0) <= tracepoints_ext4.LARGEST_EXTENT)


def _places(fs_events: pl.LazyFrame, size: int, page_bytes: int | None) -> tuple[Int64s, Int64s]:
    """The sectors that bios are for, and the times from when on, if blocks are of `size`.

    Those where a run of blocks begins that an event tells, and those of places in files that are read or written next:
    directly, or by a page that comes into the cache.
    """
    sectors = size // units.SECTOR_BYTES
    stated = fs_events.filter(_states_place()).head(_MOST_PLACES).collect()
    offset = (
        pl.when(pl.col("event").is_in(tracepoints.DIRECT))
        .then("offset_bytes")
        .when(pl.col("event") == tracepoints.CACHED)
        .then(pl.col("page") * pl.lit(page_bytes, pl.Int64))
    )
    asked = fs_events.select("ts_ns", "ino", sector=offset // units.SECTOR_BYTES).drop_nulls()
    accesses = asked.head(_MOST_PLACES).collect()
    begin, length = stated["file_block"].fill_null(-1), stated["nr_blocks"].fill_null(1)
    rows = intervals.Rows(
        stated["ino"].fill_null(-1).to_numpy(),
        (begin * sectors).to_numpy(),
        (length * sectors * (begin >= 0).cast(pl.Int64)).to_numpy(),
        stated["ts_ns"].to_numpy(),
        np.full(stated.height, FOREVER),
    )
    queries = intervals.Queries(
        accesses["ino"].to_numpy(),
        accesses["sector"].to_numpy(),
        np.ones(accesses.height, np.int64),
        accesses["ts_ns"].to_numpy(),
    )
    hits = intervals.stab(queries, rows)
    met = hits.row >= 0
    first = (stated["block"] * sectors).to_numpy()
    inside = hits.start[met] - rows.start[hits.row[met]]
    return (
        np.concatenate([first, first[hits.row[met]] + inside]),
        np.concatenate([rows.valid_from, queries.time[hits.query[met]]]),
    )
