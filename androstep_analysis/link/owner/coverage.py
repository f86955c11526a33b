"""Find the devices for which a trace records each class of events about page caches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import polars as pl

from androstep_analysis.common import units
from androstep_analysis.fs import tracepoints

_DIRECT_CALLS = {
    "ext4": ("iomap_dio_rw_begin", "ext4_direct_IO_enter"),
    "f2fs": ("f2fs_direct_IO_enter",),
}
"""The events of direct I/O that each filesystem has."""


class Coverage(NamedTuple):
    """The devices for which the trace holds every event of a class, except for lost events.

    - dirtying: pages become dirty
    - shared_dirtying: the same, but some of the events may be of another filesystem on the disk
    - presence: pages are added to the cache or dropped
    - drops: pages are dropped
    - invalidations: parts of folios are dropped
    - direct_calls: calls of direct I/O
    - stores: stores through a memory map
    - lifetimes: inodes are created or evicted
    - bio_pages: a probe records the pages of bios

    The other fields are facts of the devices:

    - without_writes: the filesystem has events of writes, but the trace does not hold them
    - redirties: processes dirty pages again that they could not write back
    - large_folios: a folio may have several pages
    - unsized_folios: no event states how many
    - divided_pages: a page has several blocks
    """

    dirtying: Collection[int]
    shared_dirtying: Collection[int]
    presence: Collection[int]
    drops: Collection[int]
    invalidations: Collection[int]
    direct_calls: Collection[int]
    stores: Collection[int]
    lifetimes: Collection[int]
    without_writes: Collection[int]
    redirties: Collection[int]
    large_folios: Collection[int]
    unsized_folios: Collection[int]
    divided_pages: Collection[int]
    bio_pages: Collection[int]


def coverage(
    kinds: pl.DataFrame,
    devices: pl.Series,
    recorded: Collection[str],
    *,
    page_bytes: int | None,
    block_bytes: Mapping[int, int],
    bio_pages: Collection[int],
    sharing: Collection[int],
    page_events: pl.LazyFrame,
) -> Coverage:
    """Return the coverage of `devices`; `recorded` are the events that the recorder reports as enabled.

    `kinds` are the `tracepoints.kinds` of the events. `block_bytes` has the devices that are not written in single
    sectors. The dirtying events of devices that are `sharing` a disk are only in `page_events`, and may be of another
    filesystem. If the page size is unknown, so are the bytes that events of pages are about.
    """

    def having(*names: str, events: pl.DataFrame | pl.LazyFrame = kinds) -> list[int]:
        if page_bytes is None:
            return []
        if not set(names).isdisjoint(recorded):
            return devices.to_list()
        return tracepoints.devices(events, pl.col("event").is_in(names))

    is_unsized = tracepoints.is_own("ext4") & ~pl.col("dev").is_in(having(tracepoints.CACHED))
    return Coverage(
        dirtying=[dev for dev in having(*tracepoints.DIRTIED) if dev not in sharing],
        shared_dirtying=sorted(
            {*sharing}.intersection(having(*tracepoints.DIRTIED, events=page_events) if sharing else ())
        ),
        presence=having(tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.INVALIDATED_PLAINLY),
        drops=having(tracepoints.UNCACHED, *tracepoints.INVALIDATED_PLAINLY),
        invalidations=having(*tracepoints.INVALIDATED_PLAINLY),
        direct_calls=_with_direct_calls(kinds, recorded),
        stores=having(*tracepoints.STORES),
        lifetimes=_with_lifetimes(kinds, recorded),
        without_writes=_without_writes(kinds, recorded),
        redirties=tracepoints.devices(kinds, tracepoints.is_own("f2fs")),
        large_folios=tracepoints.devices(kinds, (pl.col("page_order") > 0) | is_unsized),
        unsized_folios=tracepoints.devices(kinds, is_unsized),
        divided_pages=[dev for dev in devices if block_bytes.get(dev, units.SECTOR_BYTES) < (page_bytes or 0)],
        bio_pages=bio_pages,
    )


def with_modifications(
    devices: pl.Series, fs_events: pl.DataFrame | pl.LazyFrame, recorded: Collection[str]
) -> pl.Series:
    """Return the `devices` with requests for which the trace records modifications, even if there were none."""
    is_everywhere = not set(tracepoints.DIRTIED).isdisjoint(recorded)
    is_modification = pl.col("event").is_in([*tracepoints.WRITES, *tracepoints.STORES, *tracepoints.DIRTIED])
    found = devices if is_everywhere else pl.Series(tracepoints.devices(fs_events, is_modification), dtype=pl.UInt32)
    return found.drop_nulls().unique()


def _with_direct_calls(kinds: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    is_covered = pl.lit(False)
    for filesystem, names in _DIRECT_CALLS.items():
        if not set(names).isdisjoint(recorded):
            is_covered |= tracepoints.is_own(filesystem)
    is_call = pl.col("event").is_in(tracepoints.DIRECT)
    return tracepoints.devices(kinds, is_covered | is_call)


def _with_lifetimes(kinds: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    """Return the devices with events of inode lifetimes, or without events of their own: these do not reuse numbers."""
    has_events = tracepoints.is_own().any()
    names = [*tracepoints.CREATIONS, *tracepoints.EVICTIONS]
    begins = tracepoints.creations() | pl.col("event").is_in(tracepoints.EVICTIONS)
    is_covered = (begins | tracepoints.is_recorded(names, recorded)).any() | ~has_events
    return tracepoints.devices(kinds.group_by("dev").agg(is_covered=is_covered), pl.col("is_covered"))


def _without_writes(kinds: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    is_covered = pl.col("event").is_in(tracepoints.WRITES)
    for filesystem in tracepoints.FILESYSTEMS:
        names = {name for name in tracepoints.WRITES if name.startswith(filesystem)}
        if names <= set(recorded):
            is_covered |= tracepoints.is_own(filesystem)
    covered = tracepoints.devices(kinds, is_covered)
    return [dev for dev in tracepoints.devices(kinds, tracepoints.is_own()) if dev not in covered]
