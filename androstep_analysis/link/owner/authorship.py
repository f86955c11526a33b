"""Who made what a block of a file holds when it is written out: the events of writing and dirtying, turn by turn.

A turn of a block is the time from one writing out to the next. The page is locked while a process writes to it, and
the first change after it was written out makes it dirty, which is an event of its own. The same event comes where
nothing changed: who writes a page out and finds a lock taken makes it dirty again (``redirty_page_for_writepage``; the
flusher of F2FS, or a process in fsync), and garbage collection makes pages dirty to move them. What threads of the
kernel dirty has been made by others.

A page also becomes clean by being dropped (truncated, punched out, zeroed, collapsed), and then nobody's writes are in
it. Whatever is put into that page of the file later comes through the cache, to which it is added first, or past it,
by a direct write. So these rules hold, each as far as the events that it needs were recorded:

- What came before the page was added to the cache, or dropped from it, is in nothing that is written out later.
- A write whose page becomes dirty by it only after the page was written out belongs to the next turn: the bio was on
  its way before.
- A page that becomes dirty a second time was clean meanwhile, so that it is on its way out already, and will be once
  more. What its bio carries is what the page holds when the device gets it, or where the filesystem encrypts it in
  memory, what it held when it was encrypted. Nothing tells which, unless a probe shows that the bio carries the page
  itself. So the block has no owner where other processes changed the page before and after, as far as that is told.
  Not so on F2FS, where a page becomes dirty again far more often because it could not be written out.
- A device above, as dm-crypt, hands a bio on to the one below some time later. If another process changed the page
  meanwhile, the owner is inferred.
- Of a folio of several pages a part can be dropped, which stays in the cache where the rest is dirty: ext4 has an event
  of that. Without it, owners of what is in such a folio are inferred; as they are where only the event of dirtying
  tells of them, which does not say for which of the pages it came.
- Who writes to another page of a file of F2FS need not have changed a page that becomes dirty meanwhile: to rewrite one
  page of a compressed cluster F2FS makes all of them dirty. The owner is inferred, unless the thread wrote the page out
  since, so that its write had come to its end.
- What is written past the cache is its submitter's, whoever wrote to the page before (`direct_writes`).
- Where neither additions nor drops are recorded, a page that another process made dirty after the last write may have
  been dropped in between: the block has no owner. Where no dirtying is recorded, or not on which of a disk's
  filesystems (`tracepoints.sharing`), the owner is inferred; as it is where the trace does not tell whether the
  submitter wrote past the cache.
- Where a page has several blocks, who makes it dirty may change one of them, and another process another, which is no
  event; of a store the address tells the block that it begins in. Where else only the event of dirtying tells who
  wrote, the owner is then inferred if more than one process is known to have changed the file, or if another process
  writes the page out, as an fsync behind a write of its own does.
- A block of no recorded writer may have been dirty when the recording began: it has no owner, unless it certainly was
  clean, which leaves only a direct write.
- A store into a page that is dirty already is no event but that of the probe on page_mkwrite. Without it any number of
  processes may have stored there, so that those who wrote are not counted; nor where the page may have been dirty when
  the recording began.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import polars as pl

from androstep_analysis.common.losses import Losses


class Observed(NamedTuple):
    """The devices whose trace holds every event of a class.

    `dirtied`: pages that become dirty; `absent`: pages that are added to the cache, or leave it; `dropped`: that leave
    it; `cut`: parts of folios that are dropped; `direct`: calls of direct I/O; `stored`: stores through a memory map;
    `forgetful`: inodes that are dropped. In `unwritten` the filesystem has events of writes, which the trace lacks. The
    others say what the filesystem does: in `redirty` processes make pages dirty again that they could not write out, in
    `folios` the cache may hold several pages as one, in `unsized` no event tells how many, and in `parted` a page has
    several blocks. Of those in `shown` a probe sees the pages of bios.
    """

    dirtied: Collection[int]
    absent: Collection[int]
    dropped: Collection[int]
    cut: Collection[int]
    direct: Collection[int]
    stored: Collection[int]
    forgetful: Collection[int]
    unwritten: Collection[int]
    redirty: Collection[int]
    folios: Collection[int]
    unsized: Collection[int]
    parted: Collection[int]
    shown: Collection[int]


def authors(blocks: pl.DataFrame, unplaced: pl.DataFrame, observed: Observed, lost: Losses) -> pl.DataFrame:
    """The `blocks` with who made what they write: `via`, `count`, `who`, and tid, pid, comm and ts_ns of the last.

    `who` tells equal sets of processes from others. `via` is null where the block belongs to its submitter by a direct
    write. It is dirty_folio where only dirtying or stores are recorded; threads of the kernel then stand back behind a
    process. It is inferred or unknown as the rules above say, and unknown where a part of the processes may have been
    written out before (`_is_doubtful`), or where several dirtied the block and no write is recorded. Where events may
    be `lost` since the block was last seen clean, it is no more than inferred, and `count` is null.

    `blocks` have what happened in their turn (`turns.Turns.follow`), and of their bio dev, ts_ns, submit_tid,
    submit_pid, by_process, is_direct (whether it is a direct write; null where that is not known), is_pageless
    (whether a probe saw no page in it) and is_late (whether others changed the block before the device got it).
    `unplaced` is when data was written nobody knows where (dev, ts_ns), in order.
    """
    ended = blocks.with_columns(submit_process=pl.coalesce("submit_pid", -pl.col("submit_tid")))
    is_lost = pl.lit(lost.between(ended["seen_clean_ns"], ended["ts_ns"], ended["dev"], "fs_events", "block_events"))
    is_out_since = pl.lit(_is_out_since(ended, unplaced))
    rule = _rule(observed, _is_doubtful(ended, unplaced, observed.forgetful), is_out_since)
    is_weak = is_lost & rule.is_in(["write_begin", "dirty_folio"])
    ended = ended.with_columns(via=pl.when(is_weak.fill_null(False)).then(pl.lit("inferred")).otherwise(rule))
    has_author = pl.col("via").is_in(["write_begin", "dirty_folio", "inferred"])
    is_counted = (
        (pl.col("via") == "write_begin") & pl.col("is_exact") & _is_in(observed.stored) & _is_in(observed.absent)
    )
    is_counted &= ~_may_be_left(observed) & ~is_lost & ~is_out_since
    return ended.with_columns(
        *(pl.when(has_author).then(name).alias(name) for name in ("tid", "pid", "comm", "who")),
        ts_ns=pl.when(has_author).then("author_ns"),
        count=pl.when(is_counted).then("count"),
    )


def _is_in(devices: Collection[int]) -> pl.Expr:
    return pl.col("dev").is_in(list(devices))


def _rule(observed: Observed, is_doubtful: pl.Series, is_out_since: pl.Expr) -> pl.Expr:
    """Which rule gives the owner of a turn, by what its events say and which of them the trace would have."""
    absent, dropped, dirtied = (_is_in(devices) for devices in (observed.absent, observed.dropped, observed.dirtied))
    in_folio = pl.coalesce("is_in_folio", _is_in(observed.folios))
    may_be_cut = in_folio & ~_is_in(observed.cut)
    may_be_elsewhere = in_folio & (pl.col("via") == "dirty_folio") & ~pl.col("by_maker")
    is_of_cluster = ~pl.col("by_maker") & pl.col("is_cluster") & _is_in(observed.redirty)
    may_be_direct = pl.col("is_direct").is_null() & ~(pl.col("submit_process") == pl.col("process")).fill_null(False)
    is_torn = pl.col("is_torn") & (~absent | is_out_since)
    may_be_left = _may_be_left(observed) & ~pl.col("by_maker")
    is_unclear = pl.lit(is_doubtful) | pl.col("is_others") | is_torn | may_be_left
    is_shown = _is_in(observed.shown) & ~pl.col("is_pageless")
    is_unclear |= pl.col("is_ahead") & ~is_shown & dirtied & ~_is_in(observed.redirty)
    is_of_other = pl.col("by_process").fill_null(False) & (pl.col("submit_process") != pl.col("process"))
    may_be_of_other = _is_in(observed.parted) & (pl.col("via") == "dirty_folio") & ~pl.col("by_maker")
    may_be_of_other &= (pl.col("changers") > 1) | is_of_other.fill_null(True)
    # Who wrote to a page that was dirty already is told by the writes only.
    may_be_of_other |= _is_in(observed.unwritten) & (pl.col("via") == "dirty_folio")
    # Who wrote to a page of another file that bore the number, which was dropped with it, wrote nothing of this one.
    may_be_of_file_before = ~dropped & ~_is_in(observed.forgetful)
    is_likely = (
        (may_be_direct & ~dropped)
        | may_be_of_file_before
        | ~dirtied
        | may_be_cut
        | may_be_elsewhere
        | is_of_cluster
        | may_be_of_other
    )
    unknown, inferred = pl.lit("unknown"), pl.lit("inferred")
    # A page of a folio becomes dirty with another; of a folio from before the recording no event tells how long it is.
    is_clean = pl.col("is_clean") & dirtied & ~_is_in(observed.folios)
    is_past_cache = pl.col("is_pageless") | (is_clean & pl.col("is_direct").is_null())
    return (
        pl.when(pl.col("is_direct").fill_null(False))
        .then(None)
        .when(pl.col("via").is_null())
        .then(pl.when(~is_past_cache).then(unknown))
        .when(is_unclear | is_likely | pl.col("is_late"))
        .then(inferred)
        .otherwise("via")
    )


def _may_be_left(observed: Observed) -> pl.Expr:
    """Whether a page may have been dirty before the recording, and made dirty again by who could not write it out."""
    return _is_in(observed.redirty) & pl.col("is_first") & ~pl.col("is_reborn")


def _is_out_since(ended: pl.DataFrame, unplaced: pl.DataFrame) -> pl.Series:
    """Return for each turn whether data of an unknown place was written after its author: perhaps this block."""
    rows = ended.select("dev", "author_ns", "ts_ns").with_row_index("row").sort("ts_ns")
    last = rows.join_asof(unplaced.with_columns(out_ns="ts_ns"), on="ts_ns", by="dev", check_sortedness=False)
    return last.sort("row").select((pl.col("out_ns") >= pl.col("author_ns")).fill_null(False)).to_series()


def _is_doubtful(ended: pl.DataFrame, unplaced: pl.DataFrame, forgetful: Collection[int]) -> pl.Series:
    """For each turn whether its earlier writers may have been written out in between.

    By the very bio that ends the turn, or by one nobody knows the place of, if there was one before the page became
    dirty (`edge_ns`). Where the trace of a device has no event of inodes that were dropped, the writers before may be
    those of another file that bore the number.
    """
    early = ended.select("dev", "wrote_ns", "edge_ns").with_row_index("row").drop_nulls("wrote_ns").sort("edge_ns")
    out = early.join_asof(
        unplaced.with_columns(out_ns="ts_ns"), left_on="edge_ns", right_on="ts_ns", by="dev", check_sortedness=False
    )
    may_be_other = ~pl.col("dev").is_in(list(forgetful))
    is_out_before = (pl.col("out_ns") >= pl.col("wrote_ns")).fill_null(False)
    rows = out.filter(is_out_before | may_be_other)["row"]
    return pl.select(pl.int_range(ended.height, dtype=pl.UInt32).is_in(rows.implode())).to_series()
