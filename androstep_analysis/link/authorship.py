"""Who made what a block of a file holds when it is written out: the events of writing and dirtying, turn by turn.

A turn of a block is the time from one writing out to the next. The page is locked while a process writes to it, and
the first change after it was written out makes it dirty, which is an event of its own. The same event comes where
nothing changed: who writes a page out and finds a lock taken makes it dirty again (``redirty_page_for_writepage``; the
flusher of F2FS, or a process in fsync), and garbage collection makes pages dirty to move them. What threads of the
kernel dirty has been made by others.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.losses import Losses

BLOCK = ["dev", "ino", "life", "file_block"]
"""What tells a block of a file from all others; `life` is how often the inode's pages were dropped."""

TURN = [*BLOCK, "turn"]

_IS_OUT = pl.col("at").is_not_null()


def authors(
    blocks: pl.DataFrame,
    touched: pl.DataFrame,
    unplaced: pl.DataFrame,
    forgetful: Collection[int],
    threads: pl.DataFrame,
    lost: Losses,
) -> pl.DataFrame:
    """The `blocks` with who made what they write: `via`, `count`, `who`, and tid, pid, comm and ts_ns of the last.

    `who` tells equal sets of processes from others. All are null where no process is recorded. Where only an event of
    dirtying is (via dirty_folio), others may have written too, so that `count` is null, and threads of the kernel stand
    back behind a process. `via` is unknown where a part of the processes may have been written out before
    (`_doubtful`), or where several dirtied the block and no write is recorded. Where events may be `lost` since the
    block was last seen clean, via is inferred and `count` null.

    `touched` has a row for each block that a thread wrote to (is_write) or dirtied; `unplaced` is when data was written
    nobody knows where (dev, ts_ns); `forgetful` are the devices whose trace tells when an inode is dropped; `threads`
    tells of each thread whether it is_process (`processes.of_threads`).
    """
    is_mover = pl.col("comm").is_not_null() & ~pl.col("is_process")
    named = threads.select("tid", "pid", "comm", is_mover=is_mover)
    touched = touched.join(named, on=["tid", "pid", "comm"], how="left", nulls_equal=True, maintain_order="left")
    events = pl.concat([touched, blocks.with_columns(is_write=pl.lit(None, pl.Boolean))], how="diagonal")
    # What touched a block in the very instant in which it is written out counts as having done so before.
    events = events.sort("ts_ns", _IS_OUT, maintain_order=True).with_columns(
        turn=_IS_OUT.cast(pl.Int64).cum_sum().over(BLOCK) - _IS_OUT.cast(pl.Int64),
        process=pl.coalesce("pid", -pl.col("tid")),
    )
    writes, dirties = pl.col("is_write").fill_null(False), ~pl.col("is_write").fill_null(True)
    processes = pl.col("process").filter(writes).unique()
    by_write = writes.any()
    makers = dirties & ~pl.col("is_mover").fill_null(False)
    thread = {
        name: pl.when(by_write)
        .then(pl.col(name).filter(writes).last())
        .when(makers.any())
        .then(pl.col(name).filter(makers).last())
        .otherwise(pl.col(name).filter(dirties).last())
        for name in ("tid", "pid", "comm", "ts_ns")
    }
    turns = (
        events.group_by(TURN)
        .agg(
            pl.col("at", "begin", "end", "size").filter(_IS_OUT).first(),
            out_ns=pl.col("ts_ns").filter(_IS_OUT).first(),
            via=pl.when(by_write).then(pl.lit("write_begin")).when(dirties.any()).then(pl.lit("dirty_folio")),
            count=pl.when(by_write).then(processes.len()),
            processes=processes.sort(),
            dirtier=pl.col("process").filter(dirties).last(),
            since_ns=pl.col("ts_ns").filter(makers).first(),
            maker=pl.col("process").filter(makers).first(),
            nr_makers=pl.col("process").filter(makers).n_unique(),
            is_disputed=(pl.col("process").filter(makers).n_unique() > 1) & ~by_write,
            is_left_dirty=pl.col("is_mover").filter(dirties).last() & makers.any() & ~by_write,
            **thread,
        )
        .filter(_IS_OUT)
    )
    turns = turns.join(_doubtful(events, turns, unplaced, forgetful), on=TURN, how="left")
    is_lost = pl.lit(_is_lost(turns, lost))
    trusted = pl.when(pl.col("is_doubtful").is_null() & ~pl.col("is_disputed"))
    return turns.with_columns(
        *(trusted.then(name).alias(name) for name in ("tid", "pid", "comm")),
        count=pl.when(~is_lost).then(trusted.then("count")),
        via=trusted.then(
            pl.when(is_lost & pl.col("via").is_not_null()).then(pl.lit("inferred")).otherwise("via")
        ).otherwise(pl.lit("unknown")),
        who=trusted.then(pl.col("processes").cast(pl.List(pl.String)).list.join(",")),
    ).sort("at", "file_block")


def _is_lost(turns: pl.DataFrame, lost: Losses) -> pl.Series:
    """Whether a writer, or a writing out in between, may be missing of a turn.

    A process that wrote and made the page dirty found it clean. Who only made it dirty may have done so to write out
    what others wrote (`redirty_page_for_writepage`).
    """
    wrote = pl.col("processes").list.contains(pl.col("maker")) & (pl.col("nr_makers") == 1)
    seen_clean = turns.select(pl.when((pl.col("via") == "write_begin") & wrote).then("since_ns")).to_series()
    return lost.between(seen_clean, turns["out_ns"], turns["dev"], "fs_events", "block_events")


def _doubtful(
    events: pl.DataFrame, turns: pl.DataFrame, unplaced: pl.DataFrame, forgetful: Collection[int]
) -> pl.DataFrame:
    """The turns (`BLOCK`, turn, is_doubtful) whose earlier writers may have been written out in between.

    When a clean page becomes dirty, all that was written to it before has been written out or is on its way: by the
    very bio that ends the turn, or by one nobody knows the place of, if there was one in between. Where the trace of a
    device has no event of dirtying, that may have happened at any time; where it has none of inodes that were dropped,
    the writers before may be those of another file that bore the number. Who dirtied a page before a thread of the
    kernel did is held to the same.
    """
    others = pl.col("processes").list.len() - pl.col("processes").list.contains(pl.col("dirtier")).fill_null(False)
    is_dirtying = ~pl.col("is_write").fill_null(True)
    has_dirties = pl.col("dev").is_in(events.filter(is_dirtying)["dev"].unique().implode())
    several = turns.filter((others > pl.when(has_dirties).then(0).otherwise(1)) | pl.col("is_left_dirty"))
    several = several.filter(pl.col("dirtier").is_not_null() | ~has_dirties).select(*TURN, "is_left_dirty")
    rows = events.join(several, on=TURN, maintain_order="left").with_row_index("nth")
    is_write, is_edge = pl.col("is_write").fill_null(False), pl.when(has_dirties).then(is_dirtying).otherwise(_IS_OUT)
    edge = {name: pl.col(name).filter(is_edge).last().over(TURN) for name in ("nth", "process", "ts_ns")}
    rows = rows.with_columns(edge=edge["nth"], edge_process=edge["process"], edge_ns=edge["ts_ns"])
    own = is_write & (pl.col("process") == pl.col("edge_process")) & (pl.col("nth") < pl.col("edge"))
    rows = rows.with_columns(edge=pl.coalesce(pl.col("nth").filter(own).last().over(TURN), "edge"))
    makes = is_write | (is_dirtying & pl.col("is_left_dirty").fill_null(False) & ~pl.col("is_mover").fill_null(False))
    early = rows.filter(makes & (pl.col("nth") < pl.col("edge")))
    early = early.group_by(TURN).agg(pl.col("ts_ns").min().alias("wrote_ns"), pl.col("edge_ns").first())
    out = early.sort("edge_ns").join_asof(
        unplaced.with_columns(out_ns="ts_ns"), left_on="edge_ns", right_on="ts_ns", by="dev", check_sortedness=False
    )
    may_be_other = ~pl.col("dev").is_in(forgetful)
    is_out_before = (pl.col("out_ns") >= pl.col("wrote_ns")).fill_null(False)
    return out.filter(is_out_before | may_be_other).select(*TURN, is_doubtful=pl.lit(True))
