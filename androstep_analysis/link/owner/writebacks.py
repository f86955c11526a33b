"""List the bytes of files that pieces write back, in step with the events of pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import polars as pl

from androstep_analysis.common import schema, units


def spans(pieces: pl.DataFrame, *, is_read: bool) -> pl.DataFrame:
    """Return table writebacks: the bytes of files that the pieces write back or read."""
    return pieces.select(
        ts_ns="time", piece="at", dev="part_dev", ino="ino", begin="file_offset_bytes", end=end_bytes(),
        tid="submit_tid", is_read=pl.lit(is_read),
    )  # fmt: skip


def end_bytes() -> pl.Expr:
    """Return where a piece ends in its file."""
    return pl.col("file_offset_bytes") + pl.col("nr_sectors") * units.SECTOR_BYTES


def is_of_file() -> pl.Expr:
    """Return whether the file, the bytes of it, and the time of a piece are known."""
    return (pl.col("nr_sectors") > 0) & pl.all_horizontal(pl.col("ino", "file_offset_bytes", "time").is_not_null())


def may_be_of_others(marking: Collection[int]) -> pl.Expr:
    """Return whether a piece writes bytes of a file that other processes may have modified.

    On the devices in `marking`, REQ_META marks metadata, which are not pages of their inode: ext4 caches directories as
    pages of the device. An inferred file is excluded, because its last modifier would be a guess as well.
    """
    is_data = (pl.col("op") == "write") & pl.col("block_type").is_in(["data", "directory", "unknown"])
    is_marked = pl.col("meta").fill_null(False) | (pl.col("block_type") == "directory")
    is_data &= ~(is_marked & pl.col("part_dev").is_in(list(marking)).fill_null(False))
    return (is_data & (pl.col("map_source") != "inferred") & is_of_file()).fill_null(False)


def unplaced(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the times of writes of data at unknown file positions: dev, ts_ns, sorted by time.

    A block of a known inode is placed even if the inode's type is unknown, as that of F2FS quota files.
    """
    is_placed = (pl.col("block_type") != "unknown") | pl.col("ino").is_not_null()
    is_placed &= (pl.col("map_source") != "inferred").fill_null(False)
    may_be_data = (pl.col("op") == "write") & ~pl.col("meta").fill_null(False) & (pl.col("nr_sectors") > 0)
    rows = pieces.filter(may_be_data & ~is_placed.fill_null(False))
    return rows.select(dev="part_dev", ts_ns="time").drop_nulls().sort("ts_ns")


def in_step(
    batches: Iterator[pl.DataFrame], no_events: pl.DataFrame, writebacks: Iterable[pl.DataFrame]
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield each batch of events with the writebacks before its last event, and then `no_events` with the rest."""
    following = iter(writebacks)
    waiting = schema.empty("writebacks")
    for events in batches:
        last = events["ts_ns"][-1] if events.height else None
        while last is not None and (waiting.is_empty() or waiting["ts_ns"][-1] < last):
            more = next(following, None)
            if more is None:
                break
            waiting = pl.concat([waiting, more])
        end = 0 if last is None else int(waiting["ts_ns"].search_sorted(last, "left"))
        yield events, waiting[:end]
        waiting = waiting[end:]
    for rest in (waiting, *following):
        yield no_events, rest
