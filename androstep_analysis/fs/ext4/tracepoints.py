"""Read ext4's events as statements about blocks (Linux include/trace/events/ext4.h).

ext4 reports every block that it maps for a file (``ext4_es_insert_extent``), every use of a mapping
(``ext4_es_lookup_extent_exit``) and every block that it frees (``ext4_free_blocks``). Measured on Linux 6.1 and 6.18,
this gives the inode and the file offset of every data block written, including those of deleted files.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs.coverage import has

CACHED = "ext4_es_cache_extent"
INSERTS = ("ext4_es_insert_extent", CACHED)
LOOKUP = "ext4_es_lookup_extent_exit"
MAPS = "ext4_ext_map_blocks_exit"
ALLOCATES = "ext4_allocate_blocks"
FREES = "ext4_free_blocks"
EVICTION = "ext4_evict_inode"
OF_BLOCKS = (*INSERTS, LOOKUP, MAPS, ALLOCATES, FREES, EVICTION)
"""The events that `mappings` and `frees` use."""

ROOT_INODE = 2
JOURNAL_INODE = 8
FIRST_INODE = 11
"""First inode number that is not reserved (EXT4_GOOD_OLD_FIRST_INO)."""

LARGEST_BLOCK = 1 << 48
"""Number of blocks that ext4 can address. A larger value is not a block (a hole has all bits set)."""

LARGEST_EXTENT = 1 << 32
"""Number of blocks of the largest file."""


def mappings(events: pl.DataFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Return the events that state the location of file blocks, without repetitions.

    `events` are the `OF_BLOCKS` of table fs_events with columns `order` and `incarnation`. `recorded` are the events
    that the recorder enabled. The new column `doubt_ns` is the time from which the statement is no longer a fact
    (`_doubts`).
    """
    event = pl.col("event")
    # A look-up is new only if the inode's map changed since the last look-up of the same extent.
    is_placement = event.is_in([MAPS, ALLOCATES]) & ~has(recorded, INSERTS[0])
    changes = event.is_in([*INSERTS, FREES, EVICTION]) | is_miss() | is_placement
    rows = events.with_columns(
        version=changes.cast(pl.Int64).cum_sum().over("dev", "ino"), doubt_ns=_doubts(recorded)
    ).filter(states_block() | (is_placement & states_new_block()))
    same = ["dev", "ino", "incarnation", "file_block", "block", "nr_blocks", "version"]
    return rows.unique(same, keep="first", maintain_order=True).drop("version")


def is_miss() -> pl.Expr:
    """Return whether an event is a look-up in the extent status tree without a result."""
    return ((pl.col("event") == LOOKUP) & (pl.col("nr_blocks") == 0)).fill_null(False)


def _doubts(recorded: Collection[str]) -> pl.Expr:
    """Return the time in ns from which a statement may be outdated without an event that says so; null: never.

    Blocks may move without an insertion (fallocate's FALLOC_FL_COLLAPSE_RANGE and FALLOC_FL_INSERT_RANGE,
    EXT4_IOC_MOVE_EXT). ext4 then drops its cached map. Before it uses a block again, it reads the map and refills the
    extent status tree (Linux fs/ext4/extents.c, ``ext4_cache_extents``; fs/ext4/inode.c, ``ext4_map_query_blocks``).

    | recorded events | a statement is a fact |
    |---|---|
    | ``ext4_es_insert_extent`` and ``ext4_es_cache_extent`` | always, because every use follows a new statement |
    | ``ext4_es_insert_extent`` and look-ups | until the inode's next look-up without a result |
    | fewer | only for its own operation (`link.extents.operations`) |
    """
    inserted = has(recorded, INSERTS[0])
    next_miss = pl.when(is_miss()).then("ts_ns").backward_fill().over("dev", "ino")
    return (
        pl.when(inserted & has(recorded, CACHED))
        .then(None)
        .when(inserted & has(recorded, LOOKUP))
        .then(next_miss)
        .otherwise("ts_ns")
    )


def states_block() -> pl.Expr:
    """Return whether an event states the location of file blocks."""
    return (
        pl.col("event").is_in([*INSERTS, LOOKUP])
        & pl.col("status").str.contains("^[A-Z]*[WU]")
        & _fits()
        & pl.col("file_block").is_between(0, LARGEST_EXTENT)
    )


def states_new_block() -> pl.Expr:
    """Return whether an event of the map or the allocator states the location of file blocks.

    ext4 inserts the same extent next (``ext4_map_blocks``), so that these events matter only without
    ``ext4_es_insert_extent``. An allocation states the file block only as of then.
    """
    is_mapped = (pl.col("event") == MAPS) & pl.col("status").str.contains("[MU]") & (pl.col("error") > 0)
    is_stated = is_mapped | (pl.col("event") == ALLOCATES)
    return is_stated & _fits() & pl.col("file_block").is_between(0, LARGEST_EXTENT)


def frees(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events that free blocks, with the columns of `events`."""
    return events.filter((pl.col("event") == FREES) & _fits())


def without_frees(fs_events: pl.DataFrame | pl.LazyFrame, recorded: Collection[str] = ()) -> list[int]:
    """Return the devices of ext4 without events about freed blocks."""
    if FREES in recorded:
        return []
    event = pl.col("event").cast(pl.String)
    devices = fs_events.filter(event.str.starts_with("ext4_")).group_by("dev").agg(has_frees=(event == FREES).any())
    return devices.filter(~pl.col("has_frees")).lazy().collect()["dev"].drop_nulls().to_list()


def _fits() -> pl.Expr:
    """Return whether ext4 can have these block numbers."""
    return pl.col("block").is_between(1, LARGEST_BLOCK) & pl.col("nr_blocks").is_between(1, LARGEST_EXTENT)
