"""ext4's events as statements about blocks (Linux include/trace/events/ext4.h).

ext4 tells its extent status tree of every block it maps for a file (``ext4_es_insert_extent``), repeats it at every
use (``ext4_es_lookup_extent_exit``), and names every block it frees (``ext4_free_blocks``). Measured on Linux 6.1 and
6.18, that is the inode and the offset of every block of data written, deleted files included.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs.coverage import has

CACHED = "ext4_es_cache_extent"
INSERTS = ("ext4_es_insert_extent", CACHED)
LOOKUP = "ext4_es_lookup_extent_exit"
FREES = "ext4_free_blocks"
EVICTION = "ext4_evict_inode"
OF_BLOCKS = (*INSERTS, LOOKUP, FREES, EVICTION)
"""What `mappings` and `frees` ask."""

ROOT_INODE = 2
JOURNAL_INODE = 8
FIRST_INODE = 11
"""First inode number that is no reserved one (EXT4_GOOD_OLD_FIRST_INO)."""

LARGEST_BLOCK = 1 << 48
"""Blocks that ext4 can address; a number beyond is no block (a hole's is all ones)."""

LARGEST_EXTENT = 1 << 32
"""Blocks of the largest file."""


def mappings(events: pl.DataFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Return the events that state where blocks of a file lie, without repetitions that state nothing new.

    `events` are the `OF_BLOCKS` of table fs_events with columns `order` and `incarnation`; those `recorded` would be
    there if they had come. `doubt_ns` is the time from which the statement is no fact any more (`_doubts`).
    """
    event = pl.col("event")
    # A look-up repeats what is known unless the inode's map changed since the last look-up of the same extent.
    changes = event.is_in([*INSERTS, FREES, EVICTION]) | is_miss()
    rows = events.with_columns(
        version=changes.cast(pl.Int64).cum_sum().over("dev", "ino"), doubt_ns=_doubts(recorded)
    ).filter(states_block())
    same = ["dev", "ino", "incarnation", "file_block", "block", "nr_blocks", "version"]
    return rows.unique(same, keep="first", maintain_order=True).drop("version")


def is_miss() -> pl.Expr:
    """Whether an event is a look-up in the extent status tree that found nothing."""
    return ((pl.col("event") == LOOKUP) & (pl.col("nr_blocks") == 0)).fill_null(False)


def _doubts(recorded: Collection[str]) -> pl.Expr:
    """Return the time in ns from which what an event states may be over without an event; null: never.

    Blocks may move within their file without an insertion (fallocate's FALLOC_FL_COLLAPSE_RANGE and
    FALLOC_FL_INSERT_RANGE, EXT4_IOC_MOVE_EXT): ext4 forgets the map from there on. Before it uses a block again, it
    reads the map and fills the tree anew (Linux fs/ext4/extents.c, ``ext4_cache_extents``; fs/ext4/inode.c,
    ``ext4_map_query_blocks``), so that

    - with ``ext4_es_insert_extent`` and ``ext4_es_cache_extent`` every use of a block follows a statement of it;
    - with the look-ups instead of the latter a look-up that finds nothing comes first: from then on anything may have
      been stated of the inode;
    - with fewer kinds of events a statement is no fact beyond its own operation (`link.extents.operations`).
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
    """Whether an event states where blocks of a file lie."""
    return (
        pl.col("event").is_in([*INSERTS, LOOKUP])
        & pl.col("status").str.contains("^[A-Z]*[WU]")
        & _fits()
        & pl.col("file_block").is_between(0, LARGEST_EXTENT)
    )


def frees(events: pl.DataFrame) -> pl.DataFrame:
    """The events that state that blocks belong to nothing from then on; columns as in `events`."""
    return events.filter((pl.col("event") == FREES) & _fits())


def without_frees(fs_events: pl.LazyFrame, recorded: Collection[str] = ()) -> list[int]:
    """Return the devices of ext4 whose trace does not tell which blocks are freed."""
    if FREES in recorded:
        return []
    event = pl.col("event").cast(pl.String)
    devices = fs_events.filter(event.str.starts_with("ext4_")).group_by("dev").agg(has_frees=(event == FREES).any())
    return devices.filter(~pl.col("has_frees")).collect()["dev"].drop_nulls().to_list()


def _fits() -> pl.Expr:
    """Whether block numbers are such as ext4 can have."""
    return pl.col("block").is_between(1, LARGEST_BLOCK) & pl.col("nr_blocks").is_between(1, LARGEST_EXTENT)
