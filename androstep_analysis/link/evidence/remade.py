"""Find the times at which a device got another filesystem during the recording (mkfs).

No filesystem discards its own superblock, so a discard of it is proof. A write of it is proof if it carries no metadata
flag, if the filesystem is unmounted, and if neither the thread that unmounted it nor the one that mounts it next writes
it: ext4 and F2FS write their superblock then. The root inode leaves memory only when its filesystem is unmounted.

What an image or a listing before states ends at the first of these times. What one after states begins at the last.
What events state ends at the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.evidence import incarnations, names
from androstep_analysis.link.evidence.inodes import FILE

Times = Mapping[int, list[int]]
"""The times by device, in order. Devices that kept their filesystem are missing."""

Span = tuple[int | None, int | None]
"""Begin (included) and end (not included) of a part of the recording; None: unlimited."""

SUPERBLOCK_SECTOR = 2
"""The first sector of the superblock of ext4 and F2FS."""

_EVER = -(1 << 62)


def times(fs_events: pl.LazyFrame, requests: pl.LazyFrame) -> dict[int, list[int]]:
    """Return `Times` of a recording: table fs_events, with events on the device of their filesystem, and requests."""
    is_superblock = (pl.col("part_sector") <= SUPERBLOCK_SECTOR) & (
        pl.col("part_sector") + pl.col("nr_sectors") > SUPERBLOCK_SECTOR
    )
    is_write = (pl.col("op") == "write") & ~pl.col("meta")
    is_change = pl.col("op").is_in(["discard", "secure_erase"]) | is_write
    changes = (
        requests.filter(is_superblock & is_change)
        .select("op", dev="part_dev", tid="submit_tid", ts_ns=pl.coalesce("queue_ns", "issue_ns", "complete_ns"))
        .drop_nulls(["dev", "ts_ns"])
        .sort("ts_ns")
        .collect(engine="streaming")
    )
    if changes.is_empty():
        return {}
    is_outside = _is_outside(changes, fs_events)
    found = changes.filter((pl.col("op") != "write") | is_outside).group_by("dev").agg(pl.col("ts_ns").unique().sort())
    return {dev: list(of_device) for dev, of_device in found.iter_rows()}


def _is_outside(changes: pl.DataFrame, fs_events: pl.LazyFrame) -> pl.Series:
    """Return which changes are made while the filesystem is unmounted, by a thread that neither mounts nor unmounts."""
    roots = names.roots(fs_events).filter(pl.col("dev").is_in(changes["dev"].implode()))
    is_root = pl.any_horizontal(
        pl.lit(False), *((pl.col("dev") == dev) & (pl.col("ino") == root) for dev, root in roots.iter_rows())
    )
    is_end = pl.col("event").is_in(tracepoints.EVICTIONS) & is_root
    own = fs_events.filter(tracepoints.is_own() & pl.col("dev").is_in(tracepoints.devices(fs_events, is_end)))
    events = own.select("ts_ns", "dev", "tid", is_end=is_end.fill_null(False)).collect()
    events = events.sort("ts_ns", maintain_order=True).with_columns(ends=pl.col("is_end").cum_sum().over("dev"))
    events = events.with_columns(by_tid=pl.col("tid").first().over("dev", "ends"))
    is_used = (pl.col("tid") != pl.col("by_tid")).fill_null(True).cum_max().over("dev", "ends")
    events = events.with_columns(is_unmounted=~is_used & (pl.col("ends") > 0), next_tid="tid")
    last = events.select("ts_ns", "dev", "by_tid", "is_unmounted")
    both = changes.join_asof(last, on="ts_ns", by="dev", check_sortedness=False).join_asof(
        events.select("ts_ns", "dev", "next_tid"), on="ts_ns", by="dev", strategy="forward", check_sortedness=False
    )
    is_other = (pl.col("tid") != pl.col("by_tid")) & (pl.col("tid") != pl.col("next_tid").fill_null(-1))
    return both.select((pl.col("is_unmounted") & is_other).fill_null(False)).to_series()


def ended(extents: pl.DataFrame, remade: Times) -> pl.DataFrame:
    """Return extents that are valid at most until the device gets its next filesystem."""
    begin = pl.col("valid_from_ns").fill_null(_EVER)
    for dev, ts_ns in ((dev, ts_ns) for dev, of_device in remade.items() for ts_ns in of_device):
        ends = (pl.col("dev") == dev) & (begin < ts_ns)
        end = pl.when(ends).then(pl.min_horizontal("valid_to_ns", pl.lit(ts_ns))).otherwise("valid_to_ns")
        extents = extents.with_columns(valid_to_ns=end)
    return extents


def begun(extents: pl.DataFrame, remade: Times) -> pl.DataFrame:
    """Return extents that are valid at the earliest from the time at which the device got its last filesystem."""
    for dev, of_device in remade.items():
        is_before, last = pl.col("dev") == dev, pl.lit(of_device[-1])
        begin = pl.when(is_before).then(pl.max_horizontal("valid_from_ns", last)).otherwise("valid_from_ns")
        extents = extents.filter(~is_before | (pl.col("valid_to_ns") > last).fill_null(True))
        extents = extents.with_columns(valid_from_ns=begin)
    return extents


def statements(
    stated: pl.DataFrame,
    remade: Times,
    one_size: Mapping[int, Span],
    lifetimes: pl.DataFrame,
    after: Sequence[pl.DataFrame],
) -> pl.DataFrame:
    """Return the statements of events (`tracepoints.statements`) about the filesystem that they are of.

    `one_size` has the span of each device in `remade` in which its blocks have the known size. The incarnation of a
    file in a later filesystem is known if the trace has its creation there (`lifetimes`), or if an image or a listing
    `after` (table files with the incarnations of the trace) has it. Else it is null.
    """
    if not remade:
        return stated
    there = pl.concat([schema.empty("files"), *after]).select(FILE).unique().with_columns(is_there=pl.lit(True))
    stated = stated.join(lifetimes.select(*FILE, "created_ns"), on=FILE, how="left", maintain_order="left")
    stated = stated.join(there, on=FILE, how="left", maintain_order="left")
    for dev, of_device in remade.items():
        is_earlier = (pl.col("dev") != dev) | (pl.col("valid_from_ns") < of_device[0])
        is_known = pl.col("is_there") | (pl.col("created_ns") >= of_device[0])
        is_known = is_known.fill_null(False) | (pl.col("ino") <= incarnations.LAST_ROOT)
        begin, end = one_size[dev]
        is_within = pl.col("valid_from_ns") >= (_EVER if begin is None else begin)
        if end is not None:
            is_within &= pl.col("valid_from_ns") < end
        stated = stated.filter((pl.col("dev") != dev) | is_within)
        stated = stated.with_columns(incarnation=pl.when(is_earlier | is_known).then("incarnation"))
    return ended(stated.drop("created_ns", "is_there"), remade)
