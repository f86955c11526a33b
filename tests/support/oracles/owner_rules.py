"""The rules of the owner (link/owner/rules.py) as window functions over all events: slow and independent.

`name_modifiers` is compared with the implementation in the native library. Its input is a row for each block of a page
event (`touched`) and for each block of a writeback (`each_block`). In the names here, an ``interval`` is a dirty
interval, and ``made`` are the events by which a process certainly modified the block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from androstep_analysis import units
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import bio_pages, pagesize
from androstep_analysis.link.owner.coverage import Coverage

KIND = pl.Enum(["write", "store", "dirty", "maybe", "absent"])
MODIFICATIONS = ("write", "store")
"""Kinds of event after which the thread certainly modified the block."""

_LARGEST_FILE = 1 << 60
_LARGEST_FOLIO = 1 << 29

BLOCK = ["dev", "ino", "life", "file_block"]
"""Key of a block of a file. `life` counts how often the inode's pages were dropped."""

INTERVAL = [*BLOCK, "interval"]

TOUCHES = (*MODIFICATIONS, "dirty", "maybe")

SPAN = ("nth", "dev", "ino", "begin", "end")

_IS_WRITEBACK = pl.col("at").is_not_null()


def lifetimes(fs_events: pl.DataFrame) -> pl.DataFrame:
    """Return the page events with `begins` (the inode has no older pages) and `life` (how often that happened).

    An evicted inode has no pages left. Pages that are in the cache later were added later.
    """
    begins = tracepoints.creations() | pl.col("event").is_in(tracepoints.EVICTIONS)
    life = begins.cast(pl.Int64).cum_sum().over("dev", "ino")
    about = ("ts_ns", "dev", "ino", "tid", "pid", "comm", "event", "page", "page_order", "offset_bytes", "nr_bytes")
    return fs_events.select(*about, begins=begins, life=life).with_row_index("order")


def touched(
    lived: pl.DataFrame,
    block_bytes: Mapping[int, int],
    coverage: Coverage,
    page_bytes: int | None,
) -> pl.DataFrame:
    """Return every block that was touched or absent (`kind`), from the events of `lifetimes`."""
    event, size = pl.col("event"), pl.lit(page_bytes, pl.Int64)
    kinds = {
        **dict.fromkeys(tracepoints.WRITES, "write"),
        **dict.fromkeys(tracepoints.STORES, "store"),
        **dict.fromkeys(tracepoints.DIRTIED, "dirty"),
        **dict.fromkeys((tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.INVALIDATED), "absent"),
    }
    # Without a dirtying event, a write cannot be ordered after the page's addition to the cache.
    is_confirmed = (event != tracepoints.CACHED) | _is_in(coverage.dirtying)
    rows = lived.filter(event.is_in(list(kinds)) & is_confirmed)
    rows = rows.join_asof(_folios(lived, size), on="order", by=["dev", "ino", "life", "page"], check_sortedness=False)
    is_write, is_part = event.is_in(tracepoints.WRITES), event.is_in(tracepoints.INVALIDATED)
    order = pl.col("page_order").clip(0, bio_pages.LARGEST_ORDER)
    own = size * pl.lit(2, pl.Int64).pow(order)
    length = pl.when(event.is_in(tracepoints.DIRTIED)).then("folio_bytes").otherwise(own).fill_null(size)
    page = pl.when(pl.col("page") <= _LARGEST_FILE // pagesize.SIZES[-1]).then("page")
    inside = pl.when(is_part).then("offset_bytes").otherwise(0)
    begin = pl.when(is_write).then("offset_bytes").otherwise(page * size + inside)
    length = pl.when(is_write | is_part).then("nr_bytes").otherwise(length)
    spans = rows.select(
        "dev", "ino", "life", "ts_ns", "tid", "pid", "comm", begin=begin, end=begin + length,
        kind=event.replace_strict(kinds, return_dtype=KIND),
        is_in_folio=pl.when(event == tracepoints.CACHED).then(order.fill_null(0) > 0),
        is_sized=pl.col("folio_bytes").is_not_null(),
        stored=pl.when(pl.col("offset_bytes") >= 0).then(page * size + pl.col("offset_bytes") % size),
    )  # fmt: skip
    fits = pl.col("begin").is_between(0, _LARGEST_FILE) & (pl.col("end") - pl.col("begin")).is_between(
        1, _LARGEST_FOLIO
    )
    touched = each_block(_as_far_as_written(spans.filter(fits), coverage.large_folios), block_bytes)
    touched = touched.unique(["nth", "file_block"], keep="first", maintain_order=True)
    start = pl.col("file_block") * pl.col("size")
    is_whole = (pl.col("begin") <= start) & (start + pl.col("size") <= pl.col("end"))
    # Only its address shows which of a page's blocks a store modified.
    is_there = (start <= pl.col("stored")) & (pl.col("stored") < start + pl.col("size"))
    is_somewhere = (pl.col("kind") == "store") & (pl.col("size") < size) & ~is_there.fill_null(False)
    kind = pl.when(is_somewhere).then(pl.lit("maybe", KIND)).otherwise("kind")
    return touched.filter(is_whole | (pl.col("kind") != "absent")).with_columns(kind=kind)


def _as_far_as_written(spans: pl.DataFrame, folios: Collection[int]) -> pl.DataFrame:
    """Limit writes and dirtying events to the bytes that they certainly cover, and add when each is `closed`.

    - One event reports that a whole folio became dirty, although another event shows a write or store to only a part.
    - A write that is longer than its folio continues with another event for the rest.

    The bytes beyond are `maybe` touched, in rows after those of the same event (`nth`). For a folio of unknown length
    (not is_sized), on a device in `folios`, the thread's own write shows which page became dirty.
    """
    spans = spans.with_row_index("nth")
    is_write, is_dirty = pl.col("kind") == "write", pl.col("kind") == "dirty"
    modifications = spans.filter(pl.col("kind").is_in(MODIFICATIONS))
    thread = ["dev", "ino", "tid"]
    following = modifications.select("nth", *(pl.col(n).shift(-1).over("tid").name.prefix("next_") for n in SPAN))
    modifications = modifications.join(following, on="nth", how="left", maintain_order="left")
    is_same = (pl.col("next_dev") == pl.col("dev")) & (pl.col("next_ino") == pl.col("ino"))
    begin, end = pl.col("next_begin"), pl.col("next_end")
    is_continued = is_same & (begin > pl.col("begin")) & (begin < pl.col("end")) & (end == pl.col("end"))
    rest = pl.when(is_write & is_continued & pl.col("tid").is_not_null()).then(begin)
    rests = modifications.select("nth", rest=rest, closed="next_nth")
    known = modifications.filter(pl.col("tid").is_not_null())
    before = known.select(*thread, "nth", first="begin", limit="end")
    spans = spans.join(rests, on="nth", how="left", maintain_order="left").join_asof(
        before, on="nth", by=thread, check_sortedness=False
    )
    may_be_longer = is_dirty & ~pl.col("is_sized") & pl.col("dev").is_in(list(folios))
    reach = pl.when(may_be_longer).then(pl.col("begin") + _LARGEST_FOLIO).otherwise("end")
    is_of_write = is_dirty & (pl.col("first") < reach) & (pl.col("begin") < pl.col("limit"))
    first = pl.when(is_of_write).then(pl.max_horizontal("begin", "first")).otherwise("begin")
    limit = pl.when(is_of_write).then(pl.min_horizontal(reach, "limit")).otherwise(pl.coalesce("rest", "end"))
    cut = spans.with_columns(first=first, limit=limit)
    parts = [cut.with_columns(begin="first", end="limit")]
    maybe = cut.with_columns(kind=pl.lit("maybe", KIND))
    parts += [maybe.with_columns(end=pl.min_horizontal("end", "first")), maybe.with_columns(begin="limit")]
    touched = pl.concat(parts).filter(pl.col("begin") < pl.col("end")).sort("nth", maintain_order=True)
    return touched.drop("rest", "first", "limit", "is_sized")


def _folios(lived: pl.DataFrame, page_bytes: pl.Expr) -> pl.DataFrame:
    """Return the length of folios by their first page, from their addition to the cache.

    The columns are order, dev, ino, life, page. Since Linux 5.18 a page cache holds folios of many pages, and one event
    reports that all of them became dirty.
    """
    sized = lived.filter(
        (pl.col("event") == tracepoints.CACHED) & pl.col("page_order").is_between(0, bio_pages.LARGEST_ORDER)
    )
    length = page_bytes * pl.lit(2, pl.Int64).pow(pl.col("page_order"))
    return sized.select("order", "dev", "ino", "life", "page", folio_bytes=length)


def each_block(spans: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Return a row for each block of the bytes ``[begin, end)``, with `file_block` and `size`, its length."""
    size = pl.col("dev").replace_strict(block_bytes, default=units.SECTOR_BYTES, return_dtype=pl.Int64)
    spans = spans.with_columns(size=size)
    first, last = pl.col("begin") // pl.col("size"), (pl.col("end") - 1) // pl.col("size")
    return spans.with_columns(file_block=pl.int_ranges(first, last + 1)).explode("file_block")


def name_modifiers(
    blocks: pl.DataFrame,
    touched: pl.DataFrame,
    unplaced: pl.DataFrame,
    coverage: Coverage,
    threads: pl.DataFrame,
    lost: Losses,
) -> pl.DataFrame:
    """Return the same as `androstep_analysis.link.owner.rules.name_modifiers`, with `modifiers` as text."""
    is_mover = pl.col("comm").is_not_null() & ~pl.col("is_process")
    named = threads.select("tid", "pid", "comm", is_mover=is_mover)
    touched = touched.join(named, on=["tid", "pid", "comm"], how="left", nulls_equal=True, maintain_order="left")
    touched = touched.rename({"nth": "event"})
    events = _in_intervals(pl.concat([touched, blocks], how="diagonal"), coverage)
    own = (pl.col("kind") == "dirty") & ~pl.col("is_mover").fill_null(False)
    is_new = pl.struct("named").is_first_distinct().over("dev", "ino", "life", own.fill_null(False)) & own
    file_dirtiers = is_new.fill_null(False).cast(pl.Int32).cum_sum().over("dev", "ino", "life")
    events = events.sort("order").with_columns(file_dirtiers=file_dirtiers).sort("nth")
    events = events.with_columns(is_absent=(pl.col("kind") == "absent").fill_null(False).any().over(INTERVAL))
    events = events.filter(_IS_WRITEBACK | pl.col("kind").is_in(TOUCHES) & ~pl.col("is_gone"))
    events = events.with_columns(is_change=_is_change(own))
    writes, dirties = pl.col("kind") == "write", pl.col("kind") == "dirty"
    made, dirtyings = pl.col("kind").is_in(MODIFICATIONS), dirties & ~pl.col("is_mover").fill_null(False)
    processes = pl.col("process").filter(made).unique()
    by_write, is_write_recorded = writes.any(), made.any()
    thread = {
        name: pl.when(by_write)
        .then(pl.col(name).filter(writes).last())
        .when(is_write_recorded)
        .then(pl.col(name).filter(made).last())
        .when(dirtyings.any())
        .then(pl.col(name).filter(dirtyings).last())
        .otherwise(pl.col(name).filter(dirties).last())
        for name in ("tid", "pid", "comm", "ts_ns", "process")
    }
    of_bio = ["at", "begin", "end", "size", "is_direct", "is_pageless", "is_clean", "is_in_folio"]
    of_bio += ["submit_process", "is_by_process", "is_modified_later"]
    intervals = (
        events.group_by(INTERVAL)
        .agg(
            pl.col(*of_bio).filter(_IS_WRITEBACK).first(),
            out_ns=pl.col("ts_ns").filter(_IS_WRITEBACK).first(),
            via=pl.when(by_write)
            .then(pl.lit("write_begin"))
            .when(is_write_recorded | dirties.any())
            .then(pl.lit("dirty_folio")),
            count=processes.len(),
            processes=processes.sort(),
            dirtier=pl.col("process").filter(dirties).last(),
            since_ns=pl.col("ts_ns").filter(dirtyings).first(),
            first_dirtier=pl.col("process").filter(dirtyings).first(),
            nr_dirtiers=pl.col("process").filter(dirtyings).n_unique(),
            dirtied_nth=pl.col("nth").filter(dirtyings).last(),
            modified_nth=pl.col("nth").filter(made).last(),
            file_dirtiers=pl.col("file_dirtiers").filter(_IS_WRITEBACK).first(),
            is_write_recorded=is_write_recorded,
            is_complete=_is_complete(dirtyings, made),
            has_several_dirtiers=(pl.col("process").filter(dirtyings).n_unique() > 1) & ~is_write_recorded,
            is_within_write=pl.col("is_writing").filter(dirtyings).any(),
            is_absent=pl.col("is_absent").any(),
            times_dirty=(pl.col("is_change") & dirtyings).fill_null(False).sum(),
            nr_processes=pl.col("process").filter(made | dirtyings).n_unique(),
            is_left_dirty=pl.col("is_mover").filter(dirties).last() & dirtyings.any() & ~is_write_recorded,
            **thread,
        )
        .filter(_IS_WRITEBACK)
    )
    intervals = intervals.with_columns(was_redirtied=_was_redirtied(intervals)).with_columns(is_redirtied=_IS_REDIRTIED)
    intervals = intervals.join(_doubtful(events, intervals, unplaced, coverage), on=INTERVAL, how="left")
    is_lost = pl.lit(_is_lost(intervals, coverage, lost))
    rule = _rule(coverage, _is_written_since(intervals, unplaced))
    is_weak = is_lost & rule.is_in(["write_begin", "dirty_folio"])
    intervals = intervals.with_columns(via=pl.when(is_weak.fill_null(False)).then(pl.lit("inferred")).otherwise(rule))
    has_author = pl.col("via").is_in(["write_begin", "dirty_folio", "inferred"])
    is_counted = (
        (pl.col("via") == "write_begin") & pl.col("is_complete") & _is_in(coverage.stores) & _is_in(coverage.presence)
    )
    is_counted &= ~_may_be_older(coverage) & ~is_lost & ~pl.lit(_is_written_since(intervals, unplaced))
    return intervals.with_columns(
        *(pl.when(has_author).then(name).alias(name) for name in ("tid", "pid", "comm", "ts_ns")),
        count=pl.when(is_counted).then("count"),
        modifiers=pl.when(has_author).then(pl.col("processes").cast(pl.List(pl.String)).list.join(",")),
    ).sort("at", "file_block")


def _is_change(own: pl.Expr) -> pl.Expr:
    """Return whether a dirtying event is the interval's first, or its process modified the block.

    `own` selects dirtying events by processes.
    """
    is_first = own.fill_null(False).cast(pl.Int64).cum_sum().over(INTERVAL) == 1
    is_touch = pl.col("kind").is_in(["write", "store", "maybe"]).fill_null(False)
    has_touched = is_touch.cast(pl.Int64).cum_sum().over(*INTERVAL, "process") > 0
    return is_first | has_touched | pl.col("named").is_null()


_IS_REDIRTIED = (pl.col("times_dirty") + pl.col("was_redirtied") > 1) & (pl.col("times_dirty") > 0)
_IS_REDIRTIED &= (pl.col("nr_processes") > 1) | (pl.col("was_redirtied") & (pl.col("file_dirtiers") > 1))
"""Whether the page was redirtied, possibly by another process, before the writeback."""


def _was_redirtied(intervals: pl.DataFrame) -> pl.Series:
    """Return for each interval whether the page was redirty at the previous writeback and not dropped since.

    This begins with an interval in which the page became dirty twice. It lasts while the page becomes dirty once in
    each interval, and ends otherwise.
    """
    count = pl.col("times_dirty")
    is_redirtied = pl.when(count > 1).then(True).when((count == 0) | pl.col("is_absent")).then(False)
    ordered = intervals.with_row_index("row").sort(INTERVAL)
    before = is_redirtied.forward_fill().shift(1).over(BLOCK).fill_null(False)
    return ordered.select("row", ahead=before & ~pl.col("is_absent")).sort("row")["ahead"]


def _is_lost(intervals: pl.DataFrame, coverage: Coverage, lost: Losses) -> pl.Series:
    """Return whether lost events may hide a writer, or an intermediate writeback, of an interval.

    A process that wrote and dirtied the page found it clean, if the dirtying certainly was of this file. A process that
    only dirtied it may have done so to write back the data of another process (`redirty_page_for_writepage`).
    """
    wrote = pl.col("processes").list.contains(pl.col("first_dirtier")) & (pl.col("nr_dirtiers") == 1)
    wrote &= (pl.col("via") == "write_begin") & ~_is_in(coverage.shared_dirtying)
    seen_clean = intervals.select(pl.when(wrote).then("since_ns")).to_series()
    return lost.between(seen_clean, intervals["out_ns"], intervals["dev"], "fs_events", "block_events")


def _is_in(devices: Collection[int]) -> pl.Expr:
    return pl.col("dev").is_in(list(devices))


def _in_intervals(events: pl.DataFrame, coverage: Coverage) -> pl.DataFrame:
    """Return the events in order, with `nth`, `interval` and `process`, and facts about the page's absence.

    - is_gone: the data of this row was dropped before it was written back.
    - is_clean: the page was absent, and has not been touched since.
    - is_writing: the thread may still be within a write or store to some page of the file.

    An event at the same timestamp as a writeback counts as earlier.
    """
    events = events.sort("ts_ns", _IS_WRITEBACK, maintain_order=True).with_row_index("nth")
    events = events.with_columns(order="nth")
    # A thread that submits a bio is not within a write.
    events = events.with_columns(is_busy=(pl.col("submit_tid").shift(-1).over(BLOCK) != pl.col("tid")).fill_null(True))
    out = {name: pl.when(_IS_WRITEBACK).then(name).forward_fill().over(BLOCK) for name in ("nth", "submit_tid")}
    made = pl.when(pl.col("kind").is_in(MODIFICATIONS)).then("nth").forward_fill().over("dev", "ino", "tid")
    has_ended = (out["nth"] > made) & (out["submit_tid"] == pl.col("tid"))
    events = events.with_columns(is_writing=made.is_not_null() & ~has_ended.fill_null(False))
    touches = events.filter(pl.col("kind").is_in(TOUCHES))
    following = {name: pl.col(name).shift(-1).over(BLOCK) for name in ("kind", "tid", "nth", "event")}
    touches = touches.with_columns(**{f"next_{name}": value for name, value in following.items()})
    is_same = pl.col("next_tid") == pl.col("tid")
    # F2FS reports a store after it has dirtied the page.
    is_done = (pl.col("kind") == "store") & _is_in(coverage.redirties)
    is_begun = pl.col("kind").is_in(MODIFICATIONS) & ~is_done & pl.col("is_busy")
    # Until a thread begins another write or store, to any file, its last one may still dirty the page.
    is_open = (pl.col("next_event") < pl.col("closed")).fill_null(True)
    is_under_way = is_begun & (pl.col("next_kind") == "dirty") & is_same & is_open
    moved = touches.filter(is_under_way).select("nth", effect="next_nth")
    is_dirty, is_absent = (pl.col("kind") == "dirty").fill_null(False), (pl.col("kind") == "absent").fill_null(False)
    events = (
        events.join(moved, on="nth", how="left", maintain_order="left")
        .sort(pl.coalesce("effect", "nth"), is_dirty, "nth")
        .with_columns(nth=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    events = events.with_columns(
        interval=_IS_WRITEBACK.cast(pl.Int64).cum_sum().over(BLOCK) - _IS_WRITEBACK.cast(pl.Int64),
        named=pl.coalesce("pid", -pl.col("tid")),
        # Each event of an unknown thread counts as another process.
        process=pl.coalesce("pid", -pl.col("tid"), -(1 << 40) - pl.col("event").cast(pl.Int64)),
        submit_process=pl.coalesce("submit_pid", -pl.col("submit_tid")),
        touches=pl.col("kind").is_in(TOUCHES).fill_null(False).cast(pl.Int64).cum_sum().over(BLOCK),
    )
    before = pl.when(is_absent).then("touches").forward_fill().over(BLOCK)
    before = pl.coalesce(before, pl.when(pl.col("life") > 0).then(0))
    return events.with_columns(
        is_gone=(pl.col("nth") < pl.when(is_absent).then("nth").max().over(INTERVAL)).fill_null(False),
        is_clean=(pl.col("touches") == before).fill_null(False),
        is_in_folio=pl.col("is_in_folio").forward_fill().over(BLOCK),
    )


def _is_complete(dirtyings: pl.Expr, made: pl.Expr) -> pl.Expr:
    """Return whether the known modifiers of an interval are complete, provided that every event is recorded.

    The page was clean when the first of them modified it, because that made it dirty. No other process dirtied it, or
    may have written to it.
    """
    process, kind = pl.col("process"), pl.col("kind")
    is_first = (process.filter(made).first() == process.filter(dirtyings).first()) & (
        pl.col("nth").filter(made).first() < pl.col("nth").filter(dirtyings).first()
    )
    is_theirs = process.filter(dirtyings).is_in(process.filter(made).implode()).all()
    is_known = pl.col("named").filter(made).is_not_null().all()
    return (is_first & is_theirs & is_known & ~(kind == "maybe").any()).fill_null(False)


def _is_written_since(intervals: pl.DataFrame, unplaced: pl.DataFrame) -> pl.Series:
    """Return whether data at an unknown file position was written back after an interval's last modification."""
    outs = {dev: times["ts_ns"].to_list() for (dev,), times in unplaced.group_by("dev")}
    return pl.Series(
        [
            author is not None and any(author <= out <= end for out in outs.get(dev, ()))
            for dev, author, end in intervals.select("dev", "ts_ns", "out_ns").iter_rows()
        ],
        dtype=pl.Boolean,
    )


def _rule(coverage: Coverage, is_written_since: pl.Series) -> pl.Expr:
    """Return the rule that decides the owner, from the events and from which events the trace would contain."""
    absent, dropped, dirtied = (_is_in(devices) for devices in (coverage.presence, coverage.drops, coverage.dirtying))
    is_shared = _is_in(coverage.shared_dirtying)
    is_alone = pl.col("is_complete") & (pl.col("count") == 1)
    in_folio = pl.coalesce("is_in_folio", _is_in(coverage.large_folios))
    may_be_cut = in_folio & ~_is_in(coverage.invalidations)
    may_be_elsewhere = in_folio & (pl.col("via") == "dirty_folio") & ~pl.col("is_write_recorded")
    is_of_cluster = ~pl.col("is_write_recorded") & pl.col("is_within_write") & _is_in(coverage.redirties)
    may_be_direct = pl.col("is_direct").is_null() & ~(pl.col("submit_process") == pl.col("process")).fill_null(False)
    is_dirtied_by_other = (
        pl.col("is_write_recorded")
        & (pl.col("dirtied_nth") > pl.col("modified_nth"))
        & (pl.col("dirtier") != pl.col("process"))
    )
    is_dirtied_by_other &= ~absent | pl.lit(is_written_since)
    may_be_older = _may_be_older(coverage) & ~pl.col("is_write_recorded")
    is_unclear = (
        pl.col("is_doubtful").is_not_null()
        | pl.col("has_several_dirtiers")
        | is_dirtied_by_other.fill_null(False)
        | may_be_older
    )
    is_shown = _is_in(coverage.bio_pages) & ~pl.col("is_pageless")
    is_unclear |= pl.col("is_redirtied") & ~is_shown & (dirtied | is_shared) & ~_is_in(coverage.redirties)
    is_unclear |= is_shared & ~is_alone
    is_of_other = pl.col("is_by_process").fill_null(False) & (pl.col("submit_process") != pl.col("process"))
    may_be_of_other = _is_in(coverage.divided_pages) & (pl.col("via") == "dirty_folio") & ~pl.col("is_write_recorded")
    may_be_of_other &= (pl.col("file_dirtiers") > 1) | is_of_other.fill_null(True)
    may_be_of_other |= _is_in(coverage.without_writes) & (pl.col("via") == "dirty_folio")
    unknown, inferred = pl.lit("unknown"), pl.lit("inferred")
    # A page of a folio becomes dirty with others. The length of a folio from before the recording is unknown.
    is_clean = pl.col("is_clean") & dirtied & ~_is_in(coverage.large_folios)
    is_past_cache = pl.col("is_pageless") | (is_clean & pl.col("is_direct").is_null())
    return (
        pl.when(pl.col("is_direct").fill_null(False))
        .then(None)
        .when(pl.col("via").is_null())
        .then(pl.when(~is_past_cache).then(unknown))
        .when(is_shared & pl.col("has_several_dirtiers"))
        .then(unknown)
        .when(is_unclear)
        .then(inferred)
        .when((may_be_direct | ~_is_in(coverage.lifetimes)) & ~dropped)
        .then(inferred)
        .when(~(dirtied | is_shared) | may_be_cut | may_be_elsewhere | is_of_cluster | may_be_of_other)
        .then(inferred)
        .when("is_modified_later")
        .then(inferred)
        .otherwise("via")
    )


def _may_be_older(coverage: Coverage) -> pl.Expr:
    """Return whether a page may have been dirty before the recording.

    Then it may have been redirtied by a thread that could not write it back.
    """
    return _is_in(coverage.redirties) & (pl.col("interval") == 0) & (pl.col("life") == 0)


def _doubtful(
    events: pl.DataFrame, intervals: pl.DataFrame, unplaced: pl.DataFrame, coverage: Coverage
) -> pl.DataFrame:
    """Return the intervals (`BLOCK`, interval, is_doubtful) whose earlier data may have been written back in between.

    When a clean page becomes dirty, earlier data has been written back or is in flight: by the bio that ends the
    interval, or by a bio at an unknown position, if there was one in between. Without dirtying events that may have
    happened at any time. Without events of dropped inodes, earlier writers may belong to an earlier file with the same
    inode number. The same applies to a process that dirtied a page before a kernel thread did.
    """
    others = pl.col("processes").list.len() - pl.col("processes").list.contains(pl.col("dirtier")).fill_null(False)
    is_dirtying = (pl.col("kind") == "dirty").fill_null(False)
    has_dirties = _is_in(coverage.dirtying)
    several = intervals.filter((others > pl.when(has_dirties).then(0).otherwise(1)) | pl.col("is_left_dirty"))
    several = several.filter(pl.col("dirtier").is_not_null() | ~has_dirties).select(*INTERVAL, "is_left_dirty")
    rows = events.join(several, on=INTERVAL, maintain_order="left")
    is_write = pl.col("kind").is_in(MODIFICATIONS).fill_null(False)
    is_edge = pl.when(has_dirties).then(is_dirtying).otherwise(_IS_WRITEBACK)
    edge = {name: pl.col(name).filter(is_edge).last().over(INTERVAL) for name in ("nth", "process", "ts_ns")}
    rows = rows.with_columns(edge=edge["nth"], edge_process=edge["process"], edge_ns=edge["ts_ns"])
    own = is_write & (pl.col("process") == pl.col("edge_process")) & (pl.col("nth") < pl.col("edge"))
    rows = rows.with_columns(edge=pl.coalesce(pl.col("nth").filter(own).last().over(INTERVAL), "edge"))
    makes = is_write | (is_dirtying & pl.col("is_left_dirty").fill_null(False) & ~pl.col("is_mover").fill_null(False))
    early = rows.filter(makes & (pl.col("nth") < pl.col("edge")))
    early = early.group_by(INTERVAL).agg(pl.col("ts_ns").min().alias("wrote_ns"), pl.col("edge_ns").first())
    out = early.sort("edge_ns").join_asof(
        unplaced.with_columns(out_ns="ts_ns"), left_on="edge_ns", right_on="ts_ns", by="dev", check_sortedness=False
    )
    may_be_other = ~_is_in(coverage.lifetimes)
    is_out_before = (pl.col("out_ns") >= pl.col("wrote_ns")).fill_null(False)
    return out.filter(is_out_before | may_be_other).select(*INTERVAL, is_doubtful=pl.lit(True))
