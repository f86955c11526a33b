"""Decide which process modified the data of a written block.

A *dirty interval* of a block runs from one writeback of the block to the next. The owner of a written block is the
process that modified it last within its interval (`choose_modifier` in native/pagecache/modifier.c). `RULES` decide
whether that is known: the first rule that applies gives the verdict. `native/pagecache` has applied three rules before:

- A modification does not count if the page was dropped or added to the cache afterwards.
- A write whose page becomes dirty only after a writeback belongs to the next interval.
- Kernel threads move data of others. They are never the modifier if a process dirtied the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Final, Literal, NamedTuple

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.link.owner.coverage import Coverage

Verdict = Literal["submitter", "unknown", "inferred", "fact"]
Situation = Callable[[Coverage], pl.Expr]


class Rule(NamedTuple):
    """The verdict on a block in a situation, which is a boolean expression of its columns and of the coverage."""

    verdict: Verdict
    applies: Situation

    @property
    def name(self) -> str:
        return self.applies.__name__

    @property
    def sentence(self) -> str:
        """Return the situation and its explanation as prose."""
        text = " ".join((inspect.getdoc(self.applies) or "").split()).removeprefix("Return whether ")
        return text[:1].upper() + text[1:]


RULES: Final[list[Rule]] = []
"""The rules in their order. The last one always applies."""


def name_modifiers(blocks: pl.DataFrame, unplaced: pl.DataFrame, coverage: Coverage, lost: Losses) -> pl.DataFrame:
    """Return the blocks with `via`, and with `count`, `modifiers`, tid, pid, comm and ts_ns of the last modifier.

    - `via` is the event that names the modifier, or the verdict `inferred` or `unknown`; null: the submitter's block.
    - `count` is the number of processes that modified the block, or null.
    - `modifiers` identifies the set of these processes.

    `blocks` are dirty intervals (`DirtyIntervals.process`) with columns of their bio: dev, ts_ns, submit_tid,
    submit_pid, is_by_process, is_direct (null: unknown), is_pageless (a probe saw no page of a file in it) and
    is_modified_later (another process modified the block before the device below got it). `unplaced` are the times
    (dev, ts_ns, sorted) of writebacks at unknown file positions.
    """
    # On a shared disk, the event that shows a clean page may be of another filesystem.
    blocks = blocks.with_columns(seen_clean_ns=pl.when(~_is_in(coverage.shared_dirtying)).then("seen_clean_ns"))
    facts = blocks.with_columns(
        submit_process=pl.coalesce("submit_pid", -pl.col("submit_tid")),
        may_be_written_before=_may_be_written_before(blocks, unplaced, coverage.lifetimes),
        may_be_written_since=_may_be_written_since(blocks, unplaced),
        may_lack_events=lost.between(
            blocks["seen_clean_ns"], blocks["ts_ns"], blocks["dev"], "fs_events", "block_events"
        ),
    )
    facts = facts.with_columns(rule=first_that_applies(coverage))
    verdict = pl.col("rule").replace_strict(list(range(len(RULES))), [rule.verdict for rule in RULES])
    facts = facts.with_columns(verdict=verdict)
    is_fact, is_named = pl.col("verdict") == "fact", pl.col("verdict").is_in(["fact", "inferred"])
    return facts.with_columns(
        *(pl.when(is_named).then(name).alias(name) for name in ("tid", "pid", "comm", "modifiers")),
        ts_ns=pl.when(is_named).then("modified_ns"),
        count=pl.when(is_fact & _has_all_modifiers(coverage) & ~_may_have_others(coverage)).then("count"),
        via=pl.when(is_fact).then("via").when(pl.col("verdict") != "submitter").then("verdict"),
    )


def first_that_applies(coverage: Coverage) -> pl.Expr:
    """Return the index of the first rule that applies to a block."""
    first = pl.lit(len(RULES) - 1, pl.UInt8)
    for index in reversed(range(len(RULES) - 1)):
        first = pl.when(RULES[index].applies(coverage)).then(pl.lit(index, pl.UInt8)).otherwise(first)
    return first


def _rule(verdict: Verdict) -> Callable[[Situation], Situation]:
    """Append the decorated function to `RULES`."""

    def register(situation: Situation) -> Situation:
        RULES.append(Rule(verdict, situation))
        return situation

    return register


@_rule("submitter")
def direct_write(_coverage: Coverage) -> pl.Expr:
    """Return whether the bio is a direct write, which does not carry the page."""
    return pl.col("is_direct")


@_rule("submitter")
def bio_without_page(_coverage: Coverage) -> pl.Expr:
    """Return whether no modification is recorded, and the probe on submit_bio saw no page of a file in the bio."""
    return pl.col("via").is_null() & pl.col("is_pageless")


@_rule("submitter")
def clean_page(coverage: Coverage) -> pl.Expr:
    """Return whether no modification is recorded, and the page certainly was clean: only a direct write remains."""
    # One event states that all pages of a large folio become dirty.
    is_clean = pl.col("is_clean") & _is_in(coverage.dirtying) & ~_is_in(coverage.large_folios)
    return pl.col("via").is_null() & is_clean & pl.col("is_direct").is_null()


@_rule("unknown")
def no_modification(_coverage: Coverage) -> pl.Expr:
    """Return whether no modification is recorded: the page may have been dirty when the recording began."""
    return pl.col("via").is_null()


@_rule("inferred")
def dirtying_not_recorded(coverage: Coverage) -> pl.Expr:
    """Return whether the trace does not record which pages become dirty."""
    return ~_is_in(coverage.dirtying) & ~_is_in(coverage.shared_dirtying)


@_rule("unknown")
def several_on_shared_disk(coverage: Coverage) -> pl.Expr:
    """Return whether several filesystems are on the disk, and several processes dirtied a page without recorded writes.

    Each of them may have dirtied the page of a file with the same inode number on another of the filesystems.
    """
    return _is_in(coverage.shared_dirtying) & pl.col("has_several_dirtiers")


@_rule("inferred")
def shared_disk(coverage: Coverage) -> pl.Expr:
    """Return whether several filesystems are on the disk, unless one process alone wrote and dirtied the page.

    The event of dirtying has the inode number and the disk, but not the filesystem (`folio_account_dirtied`, Linux
    mm/page-writeback.c). It counts for the file with that number on each of them, so that none is missing.
    """
    is_alone = pl.col("is_complete") & (pl.col("count") == 1)
    return _is_in(coverage.shared_dirtying) & ~is_alone


@_rule("inferred")
def may_be_direct(coverage: Coverage) -> pl.Expr:
    """Return whether neither direct I/O nor dropped pages are recorded, and another thread submits the bio."""
    is_own = (pl.col("submit_process") == pl.col("process")).fill_null(False)
    return pl.col("is_direct").is_null() & ~is_own & ~_is_in(coverage.drops)


@_rule("inferred")
def earlier_file(coverage: Coverage) -> pl.Expr:
    """Return whether neither new inodes nor dropped pages are recorded.

    The modified page may have belonged to an earlier file with the same inode number.
    """
    return ~_is_in(coverage.drops) & ~_is_in(coverage.lifetimes)


@_rule("inferred")
def written_in_between(_coverage: Coverage) -> pl.Expr:
    """Return whether an earlier modification may have been written back before the last one.

    A page that becomes dirty was clean before. Earlier modifications are in this writeback, or in one that the trace
    cannot assign to a page, or belong to an earlier file with the same inode number.
    """
    return pl.col("may_be_written_before")


@_rule("inferred")
def dropped_in_between(coverage: Coverage) -> pl.Expr:
    """Return whether another process dirtied the page after the last write, and the page may have been clean between.

    It may have been dropped if that is not recorded, or written back if the trace has a writeback that it cannot assign
    to a page.
    """
    may_be_clean = ~_is_in(coverage.presence) | pl.col("may_be_written_since")
    return pl.col("is_dirtied_by_other") & may_be_clean


@_rule("inferred")
def several_dirtiers(_coverage: Coverage) -> pl.Expr:
    """Return whether several processes dirtied the page, and no write is recorded.

    The last one may only have dirtied again a page that it could not write back (`redirty_page_for_writepage`).
    """
    return pl.col("has_several_dirtiers")


@_rule("inferred")
def dirty_before_recording(coverage: Coverage) -> pl.Expr:
    """Return whether only dirtying is recorded, on F2FS, and the page may have been dirty when the recording began.

    The process may only have dirtied it again, because it could not write it back (`f2fs_write_single_data_page`).
    """
    return _may_be_older(coverage) & ~pl.col("is_write_recorded")


@_rule("inferred")
def redirtied_in_flight(coverage: Coverage) -> pl.Expr:
    """Return whether different processes modified the page before and after it was dirtied again in flight.

    The bio carries the older data if it was encrypted into another page (`fscrypt_encrypt_pagecache_blocks`). A probe
    that sees the page itself in the bio excludes that. F2FS is exempt: there a page is mostly dirtied again because it
    could not be written back.
    """
    carries_page = _is_in(coverage.bio_pages) & ~pl.col("is_pageless")
    return pl.col("is_redirtied") & ~carries_page & ~_is_in(coverage.redirties)


@_rule("inferred")
def modified_before_passed_on(_coverage: Coverage) -> pl.Expr:
    """Return whether another process modified the page before a device above, such as dm-crypt, passed the bio on."""
    return pl.col("is_modified_later")


@_rule("inferred")
def part_of_folio_dropped(coverage: Coverage) -> pl.Expr:
    """Return whether the page is in a folio of several pages, and dropped parts of folios are not recorded.

    A folio with a dirty part remains in the cache. Only ext4 has an event of it (`ext4_invalidate_folio`).
    """
    return _is_in_folio(coverage) & ~_is_in(coverage.invalidations)


@_rule("inferred")
def another_page_of_folio(coverage: Coverage) -> pl.Expr:
    """Return whether only the dirtying of a folio of several pages is recorded: it does not state the page."""
    return _is_in_folio(coverage) & ~pl.col("is_write_recorded")


@_rule("inferred")
def compressed_cluster(coverage: Coverage) -> pl.Expr:
    """Return whether only dirtying is recorded, on F2FS, by a thread that may have been writing another page.

    To rewrite one page of a compressed cluster, F2FS dirties all of its pages (`set_cluster_dirty`). If the thread has
    written the page back since, its write had ended.
    """
    return pl.col("is_within_write") & ~pl.col("is_write_recorded") & _is_in(coverage.redirties)


@_rule("inferred")
def another_block_of_page(coverage: Coverage) -> pl.Expr:
    """Return whether a page has several blocks, only its dirtying is recorded, and several processes modified the file.

    The dirtying event does not state the modified block, and a second process causes no event.
    """
    return _may_be_another_block(coverage) & (pl.col("file_dirtiers") > 1)


@_rule("inferred")
def another_block_of_submitter(coverage: Coverage) -> pl.Expr:
    """Return whether a page has several blocks, only its dirtying is recorded, and another process submits it.

    That process may have modified a block of the page, and written it back by an fsync.
    """
    is_other = pl.col("is_by_process").fill_null(False) & (pl.col("submit_process") != pl.col("process"))
    return _may_be_another_block(coverage) & is_other.fill_null(True)


@_rule("inferred")
def writes_not_recorded(coverage: Coverage) -> pl.Expr:
    """Return whether only dirtying is recorded, although the filesystem has events of writes.

    Later writes to the dirty page cause no other event.
    """
    return _is_in(coverage.without_writes) & (pl.col("via") == "dirty_folio")


@_rule("inferred")
def events_lost(_coverage: Coverage) -> pl.Expr:
    """Return whether events may have been lost since the block was last known to be clean."""
    return pl.col("may_lack_events")


@_rule("fact")
def last_modifier(_coverage: Coverage) -> pl.Expr:
    """Return whether none of the rules above applies: the owner is the last modifier."""
    return pl.lit(True)


def _is_in(devices: Collection[int]) -> pl.Expr:
    return pl.col("dev").is_in(list(devices))


def _is_in_folio(coverage: Coverage) -> pl.Expr:
    return pl.coalesce("is_in_folio", _is_in(coverage.large_folios))


def _may_be_another_block(coverage: Coverage) -> pl.Expr:
    return _is_in(coverage.divided_pages) & ~pl.col("is_write_recorded")


def _may_be_older(coverage: Coverage) -> pl.Expr:
    """Return whether the page may have been dirty before the recording, where processes dirty pages again (F2FS)."""
    return _is_in(coverage.redirties) & pl.col("is_first") & ~pl.col("is_new_inode")


def _has_all_modifiers(coverage: Coverage) -> pl.Expr:
    """Return whether all modifiers have recorded events: writes, and stores through a memory map.

    A store to a dirty page causes only the event `page_mkwrite` of a probe, or F2FS's own.
    """
    is_recorded = _is_in(coverage.stores) & _is_in(coverage.presence)
    return (pl.col("via") == "write_begin") & pl.col("is_complete") & is_recorded


def _may_have_others(coverage: Coverage) -> pl.Expr:
    """Return whether some of the modifiers may be missing, or their data may be in another writeback."""
    return _may_be_older(coverage) | pl.col("may_lack_events") | pl.col("may_be_written_since")


def _may_be_written_since(blocks: pl.DataFrame, unplaced: pl.DataFrame) -> pl.Series:
    """Return whether data at an unknown position was written back after the last modification: perhaps this block."""
    rows = blocks.select("dev", "modified_ns", "ts_ns").with_row_index("row").sort("ts_ns")
    last = rows.join_asof(unplaced.with_columns(unplaced_ns="ts_ns"), on="ts_ns", by="dev", check_sortedness=False)
    is_since = (pl.col("unplaced_ns") >= pl.col("modified_ns")).fill_null(False)
    return last.sort("row").select(is_since).to_series()


def _may_be_written_before(blocks: pl.DataFrame, unplaced: pl.DataFrame, lifetimes: Collection[int]) -> pl.Series:
    """Return whether the first modifications may have been written back before the last one.

    They may be in a writeback at an unknown position between doubt_begin_ns and doubt_end_ns. They may also belong to
    an earlier file with the same inode number, if inode lifetimes are not recorded.
    """
    early = blocks.select("dev", "doubt_begin_ns", "doubt_end_ns").with_row_index("row").drop_nulls("doubt_begin_ns")
    last = early.sort("doubt_end_ns").join_asof(
        unplaced.with_columns(unplaced_ns="ts_ns"), left_on="doubt_end_ns", right_on="ts_ns", by="dev",
        check_sortedness=False,
    )  # fmt: skip
    is_written = (pl.col("unplaced_ns") >= pl.col("doubt_begin_ns")).fill_null(False)
    rows = last.filter(is_written | ~_is_in(lifetimes))["row"]
    return pl.select(pl.int_range(blocks.height, dtype=pl.UInt32).is_in(rows.implode())).to_series()
