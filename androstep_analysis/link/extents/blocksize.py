"""Find the block size of a filesystem, in which its events count: reported, or proven or inferred from its requests.

An event that states the device block of a file block is soon followed by a bio for it. The sectors of the block depend
on the block size. The size for which the bios agree is proven. The alignment of bios proves nothing: direct I/O on
blocks of 1 KiB may use units of 4 KiB, and a program that reads the device itself reads single sectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.link import extents, intervals
from androstep_analysis.link.intervals import FOREVER, Int64s
from androstep_analysis.link.requests import Requests

Bools = npt.NDArray[np.bool_]

SIZES = tuple(1 << shift for shift in range(10, 17))
"""Block sizes of ext4 and F2FS in bytes."""

_MAX_BIOS_AFTER = 16
"""A bio confirms a statement only if it is among so many bios of the filesystem, of any thread, after it."""

_MIN_BIOS = 3
_MIN_RATIO = 4
"""A size is proven if so many bios confirm it, and so many times more than any other size.

The bios for some kinds of events suffice: other kinds, such as look-ups of cached data, agree by coincidence more often
and must not undo the proof.
"""

_MAX_STATEMENTS, _MAX_BIOS = 1 << 16, 1 << 18
"""Numbers of statements and bios of a filesystem that are compared, the first ones."""


class Sizes(NamedTuple):
    """The block size in bytes by device. No device is in both."""

    facts: dict[int, int]
    inferred: dict[int, int]


def by_device(reported: Mapping[int, int], linked: Requests, fs_events: pl.LazyFrame, page_bytes: int | None) -> Sizes:
    """Return the block sizes: as `reported`, else as proven or inferred. Other devices are missing.

    `fs_events` is the table with each event on the device of its filesystem, `page_bytes` the size of a page, if known.
    """
    stating = fs_events.filter((_states_location() | _repeats_location()) & ~pl.col("dev").is_in(list(reported)))
    open_devices = stating.select(pl.col("dev").drop_nulls().unique()).collect(engine="streaming")["dev"]
    sizes = Sizes(dict(reported), {})
    if len(open_devices):
        bios = _bios(linked, open_devices)
        for dev in open_devices:
            of_device = fs_events.filter(pl.col("dev") == dev)
            bios_by_kind = confirming(of_device, bios.filter(pl.col("part_dev") == dev), page_bytes)
            for of_certainty, least in ((sizes.facts, _MIN_BIOS), (sizes.inferred, 1)):
                size = _shown(bios_by_kind, least)
                if size is not None:
                    of_certainty[int(dev)] = size
                    break
    return sizes


def _shown(bios: list[dict[int, Bools]], least: int) -> int | None:
    """Return the size that at least `least` bios show for some kinds of events (`confirming`), if it is one alone."""
    found = set()
    for some in itertools.product([False, True], repeat=len(bios)):
        of_kinds = list(itertools.compress(bios, some))
        if not of_kinds:
            continue
        counts = {size: int(np.any([kind[size] for kind in of_kinds], axis=0).sum()) for size in SIZES}
        best, *others = sorted(counts, key=lambda size: -counts[size])
        if counts[best] >= max(least, _MIN_RATIO * counts[others[0]]):
            found.add(best)
    return found.pop() if len(found) == 1 else None


def confirming(fs_events: pl.LazyFrame, bios: pl.DataFrame, page_bytes: int | None) -> list[dict[int, Bools]]:
    """Return which bios confirm the statements of events, by block size (`SIZES`).

    There are two items for each kind of event that states locations: the bios for these locations, and those for the
    parts of them that are read or written next. `bios` are all that were queued for the filesystem, with part_sector,
    nr_sectors and time. The arrays are in order of time.
    """
    bios = bios.sort("time").head(_MAX_BIOS)
    stated = fs_events.filter(_states_location()).head(_MAX_STATEMENTS).collect()
    if stated.is_empty():
        stated = fs_events.filter(_repeats_location()).head(_MAX_STATEMENTS).collect()
    is_access = pl.col("event").is_in([*tracepoints.DIRECT, tracepoints.CACHED])
    touched = fs_events.filter(is_access).select("event", "ts_ns", "ino", "offset_bytes", "page").head(_MAX_STATEMENTS)
    accesses = touched.collect()
    kinds = []
    for of_kind in stated.partition_by("event"):
        kinds.append({size: _hit(bios, *_stated(of_kind, size)) for size in SIZES})
        kinds.append({size: _hit(bios, *_accessed(of_kind, accesses, size, page_bytes)) for size in SIZES})
    return [kind for kind in kinds if any(hit.any() for hit in kind.values())]


def _hit(bios: pl.DataFrame, sector: Int64s, time: Int64s) -> Bools:
    """Return for each bio, in order of time, whether it soon follows a statement about its sectors."""
    times = bios["time"].to_numpy()
    # With time reversed, the latest bio before a statement is the first one after it.
    rows = intervals.Rows(
        np.zeros(bios.height, np.int64),
        bios["part_sector"].to_numpy(),
        bios["nr_sectors"].to_numpy(),
        -times,
        np.full(bios.height, FOREVER),
    )
    zeros, ones = np.zeros(sector.size, np.int64), np.ones(sector.size, np.int64)
    hits = intervals.stab(intervals.Queries(zeros, sector, ones, -time), rows)
    found = hits.row >= 0
    waited = hits.row[found] - np.searchsorted(times, time[hits.query[found]])
    is_hit = np.zeros(bios.height, np.bool_)
    is_hit[hits.row[found][waited < _MAX_BIOS_AFTER]] = True
    return is_hit


def _bios(linked: Requests, devices: pl.Series) -> pl.DataFrame:
    """Return the bios with data on the devices, of all windows: part_dev, part_sector, nr_sectors, time."""
    parts = [
        extents.placed(window)
        .filter(pl.col("part_dev").is_in(devices.implode()), pl.col("op").is_in(["read", "write"]))
        .select("part_dev", "part_sector", "nr_sectors", "time")
        .drop_nulls()
        for window in linked.windows()
    ]
    return pl.concat(parts).filter(pl.col("nr_sectors") > 0)


def _states_location() -> pl.Expr:
    """Return whether an event states the location of a block of a file."""
    event = pl.col("event")
    of_ext4 = event.is_in([*tracepoints_ext4.INSERTS, tracepoints_ext4.LOOKUP])
    is_mapped = pl.col("status").str.contains("^[A-Z]*[WU]")
    of_f2fs = event.is_in([*tracepoints_f2fs.SUBMITS, tracepoints_f2fs.MAPS])
    return ((of_ext4 & is_mapped) | of_f2fs).fill_null(False) & _fits()


def _repeats_location() -> pl.Expr:
    """Return whether an event states a location that another event, which may not be recorded, states as well."""
    of_f2fs = pl.col("event").is_in(tracepoints_f2fs.EXTENT_TREE)
    return (tracepoints_ext4.states_new_block() | of_f2fs).fill_null(False) & _fits()


def _fits() -> pl.Expr:
    fits = pl.col("block").is_between(1, tracepoints_ext4.LARGEST_BLOCK)
    fits &= pl.col("nr_blocks").fill_null(1).is_between(1, tracepoints_ext4.LARGEST_EXTENT)
    return fits & (pl.col("file_block").fill_null(0) <= tracepoints_ext4.LARGEST_EXTENT)


def _stated(stated: pl.DataFrame, size: int) -> tuple[Int64s, Int64s]:
    """Return the first sectors of the stated runs of blocks, and the times, if blocks have `size` bytes."""
    return (stated["block"] * (size // units.SECTOR_BYTES)).to_numpy(), stated["ts_ns"].to_numpy()


def _accessed(stated: pl.DataFrame, accesses: pl.DataFrame, size: int, page_bytes: int | None) -> tuple[Int64s, Int64s]:
    """Return the sectors that are read or written, and the times, if blocks have `size` bytes.

    They are read or written directly, or by a page that is added to the cache.
    """
    sectors = size // units.SECTOR_BYTES
    is_cached = pl.col("event") == tracepoints.CACHED
    offset = pl.when(is_cached).then(pl.col("page") * pl.lit(page_bytes, pl.Int64)).otherwise("offset_bytes")
    asked = accesses.select("ts_ns", "ino", sector=offset // units.SECTOR_BYTES).drop_nulls()
    begin, length = stated["file_block"].fill_null(-1), stated["nr_blocks"].fill_null(1)
    rows = intervals.Rows(
        stated["ino"].fill_null(-1).to_numpy(),
        (begin * sectors).to_numpy(),
        (length * sectors * (begin >= 0).cast(pl.Int64)).to_numpy(),
        stated["ts_ns"].to_numpy(),
        np.full(stated.height, FOREVER),
    )
    ones = np.ones(asked.height, np.int64)
    queries = intervals.Queries(asked["ino"].to_numpy(), asked["sector"].to_numpy(), ones, asked["ts_ns"].to_numpy())
    hits = intervals.stab(queries, rows)
    found = hits.row >= 0
    first = (stated["block"] * sectors).to_numpy()
    inside = hits.start[found] - rows.start[hits.row[found]]
    return first[hits.row[found]] + inside, queries.time[hits.query[found]]
