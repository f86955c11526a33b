"""Extents for the bios that an operation submits right after its own event, also where the map of files is incomplete.

Most events state where blocks of a file are because these are about to be read or written. The statement is a fact for
the bios of this operation, even if other kinds of events were not recorded. Each kind of event is evaluated alone, so
that another kind never hides what it proves:

- A block that ext4 inserts, or maps (``ext4_ext_map_blocks_exit``), as unwritten has no data yet, and each writer of an
  unwritten block inserts it again before its bio (Linux fs/ext4/inode.c, ``ext4_map_blocks`` with
  EXT4_GET_BLOCKS_CREATE). So the first bio of the block is that writer's, if the same thread submits it.
- A thread that reads looks up each run of blocks before it submits the bio. Its look-up holds for its reads of data
  until it looks up another file, or finds nothing.
- F2FS names a page before its bio. Pages of several threads may share a bio, but the block cannot become another file's
  while the page is under writeback.
- A thread of F2FS that looks up the location of blocks (``f2fs_map_blocks``) submits the bios for them before the next
  look-up.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.link import intervals
from androstep_analysis.link.extents import direct_io
from androstep_analysis.link.intervals import FOREVER

_INSERT = tracepoints_ext4.INSERTS[0]
_KINDS = ((_INSERT,), (tracepoints_ext4.MAPS,), (tracepoints_ext4.LOOKUP,), *tracepoints_f2fs.COMPLETE)


def extents(stated: pl.DataFrame, fs_events: pl.LazyFrame, block: pl.LazyFrame, lost: Losses) -> pl.DataFrame:
    """Return table `extents` of the bios of operations: source `context`, each row for one bio.

    `stated` are the statements of events (`tracepoints.statements`); only those that are no lasting facts are used.
    `fs_events` is the table with all look-ups that state something new, and `block` table `block_events`.
    """
    open_statements = stated.filter(pl.col("doubt_ns").is_not_null()).with_columns(pl.col("event").cast(pl.String))
    if open_statements.is_empty():
        return schema.empty("extents")
    bios = direct_io.bios(block.collect(), open_statements["dev"].unique())
    bios = bios.filter(pl.col("op").is_in(["read", "write"]))
    if bios.is_empty():
        return schema.empty("extents")
    found = [schema.empty("extents")]
    for kind in _KINDS:
        rows = open_statements.filter(pl.col("event").is_in(kind))
        if rows.is_empty():
            continue
        if kind == (tracepoints_ext4.LOOKUP,):
            rows = _until_next(rows, fs_events)
        of_threads = kind[0] == tracepoints_ext4.LOOKUP
        found.append(_first(rows, bios, lost, of_threads=of_threads))
    return pl.concat(found)


def _until_next(lookups: pl.DataFrame, fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the look-ups with the end of their validity: the thread's next one of another file, or without result."""
    event = tracepoints_ext4.LOOKUP
    all_lookups = fs_events.filter(pl.col("event") == event).select("tid", "ts_ns", "dev", "ino", "nr_blocks", "event")
    rows = all_lookups.collect().with_columns(is_miss=tracepoints_ext4.is_miss())
    other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift().over("tid")) for name in ("dev", "ino"))
    ends = rows.filter(other | pl.col("is_miss")).select("tid", "ts_ns", end_ns="ts_ns").sort("ts_ns")
    ended = lookups.sort("valid_from_ns", maintain_order=True).join_asof(
        ends, left_on="valid_from_ns", right_on="ts_ns", by="tid", strategy="forward", allow_exact_matches=False,
        check_sortedness=False,
    )  # fmt: skip
    return ended.with_columns(valid_to_ns=pl.min_horizontal("valid_to_ns", "end_ns"))


def _first(stated: pl.DataFrame, bios: pl.DataFrame, lost: Losses, *, of_threads: bool) -> pl.DataFrame:
    """Return the statements, each limited to the next bio of each of its blocks, and valid only for that bio.

    With `of_threads` a statement of one thread does not end that of another.
    """
    space, of_bios = (
        (rows["tid"].fill_null(-1) if of_threads else rows["dev"]).cast(pl.Int64).to_numpy() for rows in (stated, bios)
    )
    begin = stated["valid_from_ns"].to_numpy()
    end = stated["valid_to_ns"].fill_null(int(FOREVER)).to_numpy()
    end_of_bio = bios["ts_ns"].to_numpy() + 1
    # A bio ends the statement before it.
    rows = intervals.Rows(
        np.concatenate([space, of_bios]),
        np.concatenate([frame["sector"].to_numpy() for frame in (stated, bios)]),
        np.concatenate([frame["nr_sectors"].cast(pl.Int64).to_numpy() for frame in (stated, bios)]),
        np.concatenate([begin, end_of_bio]),
        np.concatenate([end, np.full(bios.height, FOREVER)]),
    )
    queries = intervals.Queries(
        of_bios, bios["sector"].to_numpy(), bios["nr_sectors"].cast(pl.Int64).to_numpy(), bios["ts_ns"].to_numpy()
    )
    pieces = intervals.stab(queries, rows)
    is_first = (pieces.row >= 0) & (pieces.row < stated.height)
    statement, bio = stated[pieces.row[is_first]], bios[pieces.query[is_first]]
    inside = pl.Series(pieces.start[is_first]) - statement["sector"]
    both = statement.with_columns(
        pl.col("file_offset_bytes") + inside * units.SECTOR_BYTES,
        sector=pl.Series(pieces.start[is_first]),
        nr_sectors=pl.Series(pieces.length[is_first]),
        stated_ns="valid_from_ns",
        valid_from_ns=bio["ts_ns"],
        valid_to_ns=bio["queue_ns"] + 1,
        bio_tid=bio["tid"],
        op=bio["op"].cast(pl.String),
        meta=bio["meta"],
        bio_dev=bio["dev"],
        source=pl.lit("context").cast(stated.schema["source"]),
    )
    is_lost = lost.between(both["stated_ns"], both["valid_from_ns"], both["dev"], "fs_events", "block_events")
    return both.filter(_is_own(), ~is_lost).select(schema.empty("extents").columns)


def _is_own() -> pl.Expr:
    """Return whether a bio is of the operation whose event stated its location."""
    event = pl.col("event")
    of_thread = (pl.col("bio_tid") == pl.col("tid")) & (pl.col("bio_dev") == pl.col("dev"))
    is_write = pl.col("op") == "write"
    written, in_place, mapped = tracepoints_f2fs.COMPLETE
    return (
        (
            event.is_in([_INSERT, tracepoints_ext4.MAPS])
            & pl.col("status").str.contains("^[A-Z]*U")
            & is_write
            & of_thread
        )
        | ((event == tracepoints_ext4.LOOKUP) & ~is_write & of_thread & ~pl.col("meta"))
        | (event.is_in(written) & is_write)
        | event.is_in(in_place)
        | (event.is_in(mapped) & of_thread)
    ).fill_null(False)
