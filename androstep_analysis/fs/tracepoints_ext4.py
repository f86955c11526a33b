"""ext4's events as statements about blocks (Linux include/trace/events/ext4.h).

ext4 tells its extent status tree of every block it maps for a file (``ext4_es_insert_extent``), repeats it at every
use (``ext4_es_lookup_extent_exit``), and names every block it frees (``ext4_free_blocks``). Measured on Linux 6.1 and
6.18, that is the inode and the offset of every block of data written, deleted files included.
"""

from __future__ import annotations

import polars as pl

INSERTS = ("ext4_es_insert_extent", "ext4_es_cache_extent")
LOOKUP = "ext4_es_lookup_extent_exit"
FREES = "ext4_free_blocks"

ROOT_INODE = 2
JOURNAL_INODE = 8
FIRST_INODE = 11
"""First inode number that is no reserved one (EXT4_GOOD_OLD_FIRST_INO)."""

LARGEST_BLOCK = 1 << 48
"""Blocks that ext4 can address; a number beyond is no block (a hole's is all ones)."""

LARGEST_EXTENT = 1 << 32
"""Blocks of the largest file."""


def mappings(events: pl.DataFrame) -> pl.DataFrame:
    """The events that state where blocks of a file lie, without repetitions that state nothing new.

    `events` is table fs_events with columns `order` and `incarnation`.
    """
    event = pl.col("event")
    # A look-up repeats what is known unless the inode's map changed since the last look-up of the same extent.
    changes = event.is_in([*INSERTS, FREES, "ext4_evict_inode"])
    rows = events.with_columns(version=changes.cast(pl.Int64).cum_sum().over("dev", "ino"))
    states = event.is_in([*INSERTS, LOOKUP]) & pl.col("status").str.contains("^[A-Z]*[WU]")
    rows = rows.filter(states & _fits() & pl.col("file_block").is_between(0, LARGEST_EXTENT))
    same = ["dev", "ino", "incarnation", "file_block", "block", "nr_blocks", "version"]
    return rows.unique(same, keep="first", maintain_order=True).drop("version")


def frees(events: pl.DataFrame) -> pl.DataFrame:
    """The events that state that blocks belong to nothing from then on; columns as in `events`."""
    return events.filter((pl.col("event") == FREES) & _fits())


def _fits() -> pl.Expr:
    """Whether block numbers are such as ext4 can have."""
    return pl.col("block").is_between(1, LARGEST_BLOCK) & pl.col("nr_blocks").is_between(1, LARGEST_EXTENT)
