"""F2FS's events as statements about blocks (Linux include/trace/events/f2fs.h).

F2FS writes every block to a new place and names both, page by page, before the bio that carries the page is queued
(``f2fs_submit_page_write``, ``f2fs_submit_folio_write``); what is written in place or read comes as
``f2fs_submit_page_bio``, direct I/O and readahead as ``f2fs_map_blocks``. Measured on Linux 6.1, that is the inode and
the offset of every block of data written, deleted files included, and the kind of every block that is no data.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.fs.coverage import has

SUBMITS = ("f2fs_submit_page_write", "f2fs_submit_folio_write", "f2fs_submit_page_bio", "f2fs_submit_folio_bio")
MAPS = "f2fs_map_blocks"
OF_BLOCKS = (*SUBMITS, MAPS)
"""What `mappings` and `frees` ask."""

COMPLETE = (SUBMITS[:2], SUBMITS[2:], (MAPS,))
"""Events of which one of each group tells every change of the map: blocks written anew, in place, and directly."""

NODE_INODE = 1
META_INODE = 2
ROOT_INODE = 3
FIRST_INODE = 4
"""First inode number that is neither the root nor one of the two that only exist in memory."""

QUOTA_INODES = (4, 5, 6)
"""What mkfs gives to the files of quotas (users, groups, projects), where the filesystem has them, as Android's has.

They are written as any file is, nothing can open them, and no listing has them.
"""

LARGEST_BLOCK = 0xFFFFFFFD
"""Above are the addresses that mean compressed (-2) and not yet placed (-1), as 0 means a hole; blocks have 32 bits."""


def mappings(events: pl.DataFrame, recorded: Collection[str] = ()) -> pl.DataFrame:
    """Return the events that state where blocks of a file, node blocks and blocks of the static areas lie.

    `events` are the `OF_BLOCKS` of table fs_events with columns `order` and `incarnation`; those `recorded` would be
    there if they had come. Node blocks and those of the static areas have `block_type` metadata and no inode;
    `block_type` of others is null. A file that is being evicted still writes: what such a row states holds until
    another states something else. Where some kind of events is missing (`COMPLETE`), the block may have become another
    file's by one of them: `doubt_ns` is the time of the statement, which is no fact beyond its own operation.
    """
    kind = pl.col("status")
    is_told = pl.all_horizontal(has(recorded, *group) for group in COMPLETE) | (kind == "META").fill_null(False)
    events = events.with_columns(doubt_ns=pl.when(~is_told).then("ts_ns"))
    mapped = (pl.col("event") == MAPS) & (pl.col("error").fill_null(0) == 0)
    rows = events.filter((pl.col("event").is_in(SUBMITS) | mapped) & _fits("block")).with_columns(
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
        nr_blocks=pl.when(mapped).then("nr_blocks").otherwise(1),
    ).filter(pl.col("nr_blocks").is_between(1, LARGEST_BLOCK) & (own | (pl.col("file_block") >= 0)))


def _is_counted() -> pl.Expr:
    """Whether an event tells how many blocks a direct write was given, of which only the first lies where it says.

    Before it writes, F2FS asks for all blocks at once, and counts those that it got wherever they lie (Linux
    fs/f2fs/data.c, F2FS_GET_BLOCK_PRE_DIO). It asks again for each run of them that lies together.
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
    """The places that a block left for another: they belong to nothing from then on; columns as in `events`."""
    moved = pl.col("event").is_in(SUBMITS) & (pl.col("old_block") != pl.col("block")) & (pl.col("status") != "META")
    rows = events.filter(moved & _fits("old_block") & _fits("block"))
    return rows.with_columns(block=pl.col("old_block"), nr_blocks=pl.lit(1, pl.Int64))


def _fits(name: str) -> pl.Expr:
    """Whether a block number is an address on the device."""
    return pl.col(name).is_between(1, LARGEST_BLOCK)
