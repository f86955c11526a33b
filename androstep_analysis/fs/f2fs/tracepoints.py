"""Read F2FS's events as statements about blocks (Linux include/trace/events/f2fs.h).

| operation | event, for each page | it records |
|---|---|---|
| out-of-place write | ``f2fs_submit_page_write``, ``f2fs_submit_folio_write`` | the old and the new block |
| in-place write, read | ``f2fs_submit_page_bio`` | the block |
| direct I/O, readahead | ``f2fs_map_blocks`` (not for each page) | the mapping |
| any of a regular file | ``f2fs_update_read_extent_tree_range``, ``f2fs_lookup_read_extent_tree_end`` | the mapping |

The events of writes come before the bio with the page is queued. Measured on Linux 6.1, they give the inode and the
file offset of every data block written, including those of deleted files, and the kind of every other block.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs.coverage import has

SUBMITS = ("f2fs_submit_page_write", "f2fs_submit_folio_write", "f2fs_submit_page_bio", "f2fs_submit_folio_bio")
MAPS = "f2fs_map_blocks"
EXTENT_TREE = (
    *("f2fs_lookup_extent_tree_end", "f2fs_lookup_read_extent_tree_end"),
    *("f2fs_update_extent_tree_range", "f2fs_update_read_extent_tree_range"),
)
"""Events of the extent cache. An update follows the submission of its page, and its bio may be queued before."""
OF_BLOCKS = (*SUBMITS, MAPS, *EXTENT_TREE)
"""The events that `mappings` and `frees` use."""

COMPLETE = (SUBMITS[:2], SUBMITS[2:], (MAPS,))
"""Events that show every change of the map, at least one of each group: out-of-place, in-place and direct writes."""

NODE_INODE = 1
META_INODE = 2
ROOT_INODE = 3
FIRST_INODE = 4
"""First inode number after the root and the two inodes that exist only in memory."""

QUOTA_INODES = (4, 5, 6)
"""Inode numbers that mkfs assigns to quota files (users, groups, projects), if the filesystem has them, as on Android.

They are written like any file, but no process can open them, and listings do not contain them.
"""

LARGEST_BLOCK = 0xFFFFFFFD
"""Largest 32-bit block address. -2 means compressed, -1 not yet allocated, and 0 a hole."""


def mappings(events: pl.DataFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Return the events that state the location of file blocks, node blocks and blocks of the static areas.

    `events` are the `OF_BLOCKS` of table fs_events with columns `order` and `incarnation`. `recorded` are the events
    that the recorder enabled.

    - Node blocks and blocks of the static areas have `block_type` metadata and no inode. `block_type` of other blocks
      is null.
    - A file may still be written during its eviction. Such a statement is valid until the next one on the block.
    - If a group of events is missing (`COMPLETE`), the block may have become another file's without an event.
      `doubt_ns` is then the time of the statement, which is a fact only for its own operation.
    """
    kind = pl.col("status")
    is_complete = pl.all_horizontal(has(recorded, *group) for group in COMPLETE) | (kind == "META").fill_null(False)
    events = events.with_columns(doubt_ns=pl.when(~is_complete).then("ts_ns"))
    mapped = (pl.col("event") == MAPS) & (pl.col("error").fill_null(0) == 0)
    is_cached = pl.col("event").is_in(EXTENT_TREE) & pl.col("doubt_ns").is_not_null()
    rows = events.filter((pl.col("event").is_in(SUBMITS) | mapped | is_cached) & _fits("block")).with_columns(
        nr_blocks=pl.when(_is_counted()).then(1).otherwise("nr_blocks")
    )
    own = kind.is_in(["NODE", "META"]).fill_null(False) | pl.col("ino").is_in([NODE_INODE, META_INODE])
    is_node = (kind == "NODE") | (pl.col("ino") == NODE_INODE)
    return rows.with_columns(
        block_type=pl.when(own).then(pl.lit("metadata")),
        subtype=pl.when(own & is_node.fill_null(False)).then(pl.lit("node")),
        ino=pl.when(~own).then("ino"),
        incarnation=pl.when(~own).then("incarnation"),
        file_block=pl.when(~own).then("file_block"),
        nr_blocks=pl.when(pl.col("event").is_in(SUBMITS)).then(1).otherwise("nr_blocks"),
    ).filter(pl.col("nr_blocks").is_between(1, LARGEST_BLOCK) & (own | (pl.col("file_block") >= 0)))


def _is_counted() -> pl.Expr:
    """Return whether an event counts the blocks allocated for a direct write, which need not be contiguous.

    Before a direct write, F2FS allocates all blocks with one call, which reports the first block and the number of all
    blocks (Linux fs/f2fs/data.c, F2FS_GET_BLOCK_PRE_DIO). It then maps each contiguous run with a call of its own.
    """
    begin, count = pl.col("file_block"), pl.col("nr_blocks")
    of_thread = ("event", "dev", "tid", "ino")
    next_begin, next_count, third_begin = (
        pl.col(name).shift(-after).over(of_thread)
        for name, after in (("file_block", 1), ("nr_blocks", 1), ("file_block", 2))
    )
    is_again = (next_begin == begin) & (next_count < count) & (third_begin == begin + next_count)
    return (pl.col("event") == MAPS) & is_again.fill_null(False)


def frees(events: pl.DataFrame) -> pl.DataFrame:
    """Return the old blocks that out-of-place writes free, with the columns of `events`."""
    moved = pl.col("event").is_in(SUBMITS) & (pl.col("old_block") != pl.col("block")) & (pl.col("status") != "META")
    rows = events.filter(moved & _fits("old_block") & _fits("block"))
    return rows.with_columns(block=pl.col("old_block"), nr_blocks=pl.lit(1, pl.Int64))


def _fits(name: str) -> pl.Expr:
    """Return whether a block address is a location on the device."""
    return pl.col(name).is_between(1, LARGEST_BLOCK)
