"""ext4's events as statements about blocks (Linux include/trace/events/ext4.h).

ext4 tells its extent status tree of every block it maps for a file (``ext4_es_insert_extent``), repeats it at every
use (``ext4_es_lookup_extent_exit``), and names every block it frees (``ext4_free_blocks``). Measured on Linux 6.1 and
6.18, that is the inode and the offset of every block of data written, deleted files included.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

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
    """The events that state where blocks of a file lie, without repetitions that state nothing new.

    `events` are the `OF_BLOCKS` of table fs_events with columns `order` and `incarnation`; those `recorded` would be
    there if they had come.
    """
    event = pl.col("event")
    # A look-up repeats what is known unless the inode's map changed since the last look-up of the same extent.
    changes = event.is_in([*INSERTS, FREES, EVICTION])
    rows = events.with_columns(version=changes.cast(pl.Int64).cum_sum().over("dev", "ino"))
    rows = _until_doubt(rows, recorded).filter(states_block())
    same = ["dev", "ino", "incarnation", "file_block", "block", "nr_blocks", "version"]
    return rows.unique(same, keep="first", maintain_order=True).drop("version")


def states_block() -> pl.Expr:
    """Whether an event states where blocks of a file lie."""
    return (
        pl.col("event").is_in([*INSERTS, LOOKUP])
        & pl.col("status").str.contains("^[A-Z]*[WU]")
        & _fits()
        & pl.col("file_block").is_between(0, LARGEST_EXTENT)
    )


def _until_doubt(events: pl.DataFrame, recorded: Collection[str]) -> pl.DataFrame:
    """The events with `doubt_ns`, from when on what they state of the inode's map may be over.

    Where blocks move within their file (fallocate's FALLOC_FL_COLLAPSE_RANGE) ext4 frees those between and forgets the
    map behind them, to read it anew later (``ext4_es_cache_extent``). A trace of a device without that event, which may
    not have been recorded, does not tell what was read: there, blocks freed end what was stated of their file.
    """
    frees = pl.col("event") == FREES
    is_silent = ~(pl.col("event") == CACHED).any().over("dev") & (CACHED not in recorded)
    following = pl.when(frees).then("ts_ns").shift(-1).backward_fill().over("dev", "ino")
    return events.with_columns(doubt_ns=pl.when(is_silent).then(following))


def frees(events: pl.DataFrame) -> pl.DataFrame:
    """The events that state that blocks belong to nothing from then on; columns as in `events`."""
    return events.filter((pl.col("event") == FREES) & _fits())


def _fits() -> pl.Expr:
    """Whether block numbers are such as ext4 can have."""
    return pl.col("block").is_between(1, LARGEST_BLOCK) & pl.col("nr_blocks").is_between(1, LARGEST_EXTENT)
