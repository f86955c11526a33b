"""On whose behalf the bytes moved (definitions.toml, owner).

The thread that queues a write is often not the one that made the data: writeback writes for everyone, and an fsync
writes what other processes left in the file. The filesystem's events tell who put data into a page
(``ext4_da_write_begin``, ``ext4_write_begin``) and who made it dirty (``writeback_dirty_folio``, which also sees
stores through a memory map but only the first after each time the page was written out).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import bio_pages, pagesize
from androstep_analysis.link.owner import authorship, direct_writes, handles, processes, turns
from androstep_analysis.losses import Losses

_LARGEST_FILE = 1 << 60
_LARGEST_FOLIO = 1 << 29
"""Bytes beyond what one event can be about: ext4 has files of 16 TiB, Linux huge pages of 512 MiB."""

_OWNER = ("owner_pid", "owner_comm", "owner_package", "owner_count", "owner_via")


def owned(
    pieces: pl.DataFrame,
    fs_events: pl.DataFrame,
    tasks: pl.DataFrame,
    block_bytes: Mapping[int, int],
    lost: Losses | None = None,
    recorded: Collection[str] = (),
    *,
    page_bytes: int | None,
) -> pl.DataFrame:
    """The pieces (`extents.pieces`), cut where their owner changes, with the owner columns of table io.

    A block of data that was written belongs to the processes that wrote to it since it was last written out; to the
    one that dirtied its page since then, where no write is recorded; else, as all other pieces, to the submitter,
    as far as `_not_written_for_others` believes it. Several processes share a block: the last of them is named,
    `owner_count` says how many they are (null: at least that one).

    `fs_events` and `tasks` are the tables of those names; `block_bytes` is the block size of the filesystem on each
    device, where it is known; `recorded` names the events that were recorded, as far as the
    recorder says. Where events may be `lost`, see `_doubted`, `authorship.authors` and `handles.owned`. Where it is
    unknown how large a page is (`page_bytes`), so is what an event about pages is about.
    """
    lost = lost or Losses()
    pieces = pl.concat([pieces, _submitters(pieces, tasks)], how="horizontal")
    is_written = (
        (pl.col("op") == "write")
        & pl.col("block_type").is_in(["data", "directory", "unknown"])
        & (pl.col("map_source") != "inferred")  # the right writer of a guessed file is still a guess
        & (pl.col("nr_sectors") > 0)
        & pl.all_horizontal(pl.col("ino", "file_offset_bytes", "time").is_not_null())
    ).fill_null(False)
    touched_by = touches(fs_events)
    devices = _telling(pieces, touched_by, recorded)
    is_observed = pl.col("part_dev").is_in(devices.implode())
    is_pageless = _is_pageless(pieces, fs_events)
    pieces = _not_written_for_others(pieces.with_columns(is_pageless=is_pageless), is_observed, is_written)
    written = pieces.filter(is_written & is_observed)
    if written.height:
        whole = _of_whole_blocks(block_bytes, fs_events)
        sizes = {dev: min(size, page_bytes or size) for dev, size in whole.items()}
        lived = _lives(fs_events)
        blocks = _blocks(written, lived, sizes)
        observed = _observed(fs_events, devices, recorded, page_bytes, sizes)
        touched = _touched(lived, blocks, sizes, observed.folios, page_bytes)
        blocks = blocks.with_columns(_is_direct(blocks, pieces, touched, fs_events, sizes, observed))
        threads = touched_by.select("ts_ns", "tid", "pid", "comm").unique(["tid", "pid", "comm"], maintain_order=True)
        identified = processes.of_threads(threads, tasks)
        authors = authorship.authors(blocks, touched, _unplaced(pieces), observed, identified, lost)
        others = pieces.filter(~(is_written & is_observed))
        pieces = pl.concat([others, _cut(written, processes.of_threads(authors, tasks))], how="diagonal")
    pieces = pieces.drop("is_pageless")
    if lost.touching("fs_events"):
        pieces = _doubted(pieces, devices, lost)
    return handles.owned(pieces, fs_events, tasks, lost)


def touches(fs_events: pl.DataFrame) -> pl.DataFrame:
    """The events that tell who wrote to a page or made it dirty; without them each piece has its owner by itself."""
    is_touch = pl.col("event").is_in([*tracepoints.WRITES, *tracepoints.STORES, *tracepoints.DIRTIED])
    return fs_events.filter(is_touch)


def _telling(pieces: pl.DataFrame, touched_by: pl.DataFrame, recorded: Collection[str]) -> pl.Series:
    """The devices whose trace tells who put data into pages, also where nobody did."""
    is_everywhere = not set(tracepoints.DIRTIED).isdisjoint(recorded)
    return pieces["part_dev"].drop_nulls().unique() if is_everywhere else touched_by["dev"].drop_nulls().unique()


def _observed(
    fs_events: pl.DataFrame,
    devices: pl.Series,
    recorded: Collection[str],
    page_bytes: int | None,
    block_bytes: Mapping[int, int],
) -> authorship.Observed:
    """Which devices' traces hold the events of each class, but for those that were lost.

    Events about pages of unknown size tell nothing. `block_bytes` has the devices whose blocks are no single sectors.
    """
    own = fs_events.select("dev", "event").drop_nulls("dev")

    def having(*names: str) -> list[int]:
        if page_bytes is None:
            return []
        if not set(names).isdisjoint(recorded):
            return devices.to_list()
        return own.filter(pl.col("event").is_in(names))["dev"].unique().to_list()

    absent = having(tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.INVALIDATED)
    is_unsized = tracepoints.is_own("ext4") & ~pl.col("dev").is_in(having(tracepoints.CACHED))
    in_folios = (pl.col("page_order") > 0) | is_unsized
    return authorship.Observed(
        dirtied=having(*tracepoints.DIRTIED),
        absent=absent,
        dropped=having(tracepoints.UNCACHED, *tracepoints.INVALIDATED),
        cut=having(*tracepoints.INVALIDATED),
        direct=direct_writes.observed(fs_events, recorded),
        stored=having(*tracepoints.STORES),
        forgetful=_forgetful(fs_events, recorded),
        redirty=own.filter(tracepoints.is_own("f2fs"))["dev"].unique().to_list(),
        unsized=own.filter(is_unsized)["dev"].unique().to_list(),
        folios=fs_events.filter(in_folios)["dev"].drop_nulls().unique().to_list(),
        parted=[dev for dev in devices if block_bytes.get(dev, units.SECTOR_BYTES) < (page_bytes or 0)],
    )


def _doubted(pieces: pl.DataFrame, devices: pl.Series, lost: Losses) -> pl.DataFrame:
    """The pieces as far as they can be trusted where filesystem events were lost.

    That a block was freed and mapped anew may be among what was lost since an event said where it belongs. That is
    still a fact where another event tells who put data into that page of that file, and the request does not say that
    it carries metadata; else it is inferred. And on `devices`, where writers are recorded, data of no recorded writer
    need not be a direct write of its submitter once events were lost: pages may be written out long after they changed.
    """
    ever = pl.Series([None] * pieces.height, dtype=pl.Int64)
    is_old, is_late = (
        pl.lit(lost.between(since, pieces["time"], pieces["part_dev"], "fs_events"))
        for since in (pieces["since_ns"], ever)
    )
    # On `devices` no owner is inferred but one whom an event names.
    is_inferred = (pl.col("owner_via") == "inferred") & pl.col("part_dev").is_in(devices.implode())
    has_author = pl.col("owner_via").is_in(["write_begin", "dirty_folio"]) | is_inferred
    is_alone = is_old & (pl.col("map_source") == "tracepoint") & ~has_author & (pl.col("block_type") != "journal")
    is_alone |= is_old & (pl.col("block_type") == "data") & pl.col("meta").fill_null(False)
    is_data = pl.col("block_type").is_in(["data", "unknown"]) & (pl.col("op") == "write")
    is_guess = is_late & is_data & (pl.col("owner_via") == "submitter") & pl.col("part_dev").is_in(devices.implode())
    unless_guess = pl.when(~is_guess.fill_null(False))
    inferred = pl.lit("inferred").cast(schema.enum("io", "map_source"))
    return pieces.with_columns(
        *(unless_guess.then(name).alias(name) for name in _OWNER[:3]),
        map_source=pl.when(is_alone).then(inferred).otherwise("map_source"),
        owner_count=unless_guess.then("owner_count").otherwise(0),
        owner_via=unless_guess.then("owner_via").otherwise(pl.lit("unknown").cast(schema.enum("io", "owner_via"))),
    )


def _not_written_for_others(pieces: pl.DataFrame, is_observed: pl.Expr, is_written: pl.Expr) -> pl.DataFrame:
    """The pieces, data written for its submitter only where nothing speaks against it.

    Where no event tells who wrote (not `is_observed`) the submitter is only inferred; an fsync also submits what
    others wrote. Where events do, those pieces `is_written` of which it is known which file they belong to have the
    owner that `authorship` finds; others have none, unless a probe saw that their bio carries no page of a file.
    """
    is_data = (pl.col("op") == "write") & pl.col("block_type").is_in(["data", "directory", "unknown"])
    is_submitted = (is_data & (pl.col("owner_via") == "submitter")).fill_null(False)
    is_lost = is_submitted & is_observed & ~is_written & ~pl.col("is_pageless")
    unless_lost = pl.when(~is_lost)
    unknown, inferred = (pl.lit(name).cast(schema.enum("io", "owner_via")) for name in ("unknown", "inferred"))
    return pieces.with_columns(
        *(unless_lost.then(name).alias(name) for name in _OWNER[:3]),
        owner_count=unless_lost.then("owner_count").otherwise(0),
        owner_via=pl.when(is_submitted & ~is_observed)
        .then(inferred)
        .otherwise(unless_lost.then("owner_via").otherwise(unknown)),
    )


def _is_pageless(pieces: pl.DataFrame, fs_events: pl.DataFrame) -> pl.Series:
    """For each piece whether the probe on submit_bio saw no page in its bio; False where there is no probe."""
    probed = fs_events.filter(pl.col("event") == "bio_page")["bio_dev"].unique()
    if probed.is_empty():
        return pl.repeat(False, pieces.height, dtype=pl.Boolean, eager=True)
    return ~bio_pages.carries_page(pieces, fs_events) & pieces["part_dev"].is_in(probed.implode())


def _is_direct(
    blocks: pl.DataFrame,
    pieces: pl.DataFrame,
    touched: pl.DataFrame,
    fs_events: pl.DataFrame,
    block_bytes: Mapping[int, int],
    observed: authorship.Observed,
) -> pl.Series:
    """For each block (`_blocks`) whether it came past the page cache; null where the trace does not tell.

    By the events of direct I/O where the trace has them, and those of pages that became dirty; by the probe on
    submit_bio, where that sees every page: not those that a filesystem with events of its own has encrypted. What a
    thread of the kernel submits comes from the cache.
    """
    reads = pieces.filter(
        (pl.col("op") == "read") & pl.all_horizontal(pl.col("ino", "file_offset_bytes", "time").is_not_null())
    )
    calling = fs_events.filter(pl.col("event").is_in(tracepoints.DIRECT)).select("tid").unique()
    spans = _spans(reads.join(calling, left_on="submit_tid", right_on="tid", how="semi"))
    direct = direct_writes.are_direct(blocks, _each_block(spans, block_bytes), touched, fs_events)
    own = fs_events.filter(tracepoints.is_own())["dev"].unique()
    probed = fs_events.filter(pl.col("event") == "bio_page")["bio_dev"].unique()
    is_called = pl.col("dev").is_in(list(observed.direct)) & pl.col("dev").is_in(list(observed.dirtied))
    is_called &= ~pl.col("dev").is_in(list(observed.unsized))
    has_page = pl.col("dev").is_in(probed.implode()) & ~pl.col("is_pageless")
    rule = (
        pl.when(has_page)
        .then(False)
        .when(pl.col("dev").is_in(probed.implode()) & ~pl.col("dev").is_in(own.implode()))
        .then("is_pageless")
        .when(is_called)
        .then("is_direct")
        .when(~pl.col("by_process"))
        .then(False)
    )
    return blocks.with_columns(is_direct=direct).select(is_direct=rule).to_series()


def _of_whole_blocks(block_bytes: Mapping[int, int], fs_events: pl.DataFrame) -> dict[int, int]:
    """The block sizes of the filesystems that write whole blocks; FAT and exFAT write single sectors of a page."""
    has_events = fs_events.filter(tracepoints.is_own())["dev"].unique()
    return {dev: size for dev, size in block_bytes.items() if dev in has_events}


def _unplaced(pieces: pl.DataFrame) -> pl.DataFrame:
    """When data was written of which no event says where it belongs: dev and ts_ns, in order of time."""
    is_placed = (pl.col("map_source") != "inferred").fill_null(False) & (pl.col("block_type") != "unknown")
    may_be_data = (pl.col("op") == "write") & ~pl.col("meta").fill_null(False) & (pl.col("nr_sectors") > 0)
    rows = pieces.filter(may_be_data & ~is_placed.fill_null(False))
    return rows.select(dev="part_dev", ts_ns="time").drop_nulls().sort("ts_ns")


def _submitters(pieces: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Owner columns by the thread that queued each piece, in the order of `pieces`; without submitter no owner."""
    threads = pieces.select(ts_ns="time", tid="submit_tid", pid="submit_pid", comm="submit_comm")
    identified = processes.of_threads(threads, tasks)
    own = pl.col("is_filesystem")
    return identified.select(
        "owner_pid",
        owner_comm=pl.when(own).then("comm").otherwise("owner_comm"),
        owner_package="owner_package",
        owner_count=pl.col("is_process").cast(pl.Int32),
        owner_via=pl.when("is_process")
        .then(pl.lit("submitter"))
        .when(own)
        .then(pl.lit("filesystem"))
        .otherwise(pl.lit("unknown"))
        .cast(schema.enum("io", "owner_via")),
    )


def _blocks(written: pl.DataFrame, lived: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Every block of a file that the pieces write out: position of the piece, and which block of which life when."""
    rows = _spans(written.with_row_index("at"))
    born = lived.filter(pl.col("begins")).select("ts_ns", "dev", "ino", "life")
    lived = rows.sort("ts_ns", maintain_order=True).join_asof(
        born, on="ts_ns", by=["dev", "ino"], check_sortedness=False
    )
    return _each_block(lived.with_columns(pl.col("life").fill_null(0)), block_bytes)


def _spans(pieces: pl.DataFrame) -> pl.DataFrame:
    """Which bytes of which file each piece is about, when it was submitted and by whom."""
    return pieces.select(
        pl.col("^at$", "ino", "is_pageless"),
        dev="part_dev",
        ts_ns="time",
        begin="file_offset_bytes",
        end=pl.col("file_offset_bytes") + pl.col("nr_sectors") * units.SECTOR_BYTES,
        tid="submit_tid",
        submit_tid="submit_tid",
        submit_pid="submit_pid",
        by_process=pl.col("owner_via") == "submitter",
    )


def _forgetful(fs_events: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose trace tells when an inode's pages are new; without own events numbers are not reused."""
    has_events = tracepoints.is_own().any()
    begins = tracepoints.births() | pl.col("event").is_in(tracepoints.EVICTIONS)
    begins = (begins | tracepoints.is_recorded([*tracepoints.BIRTHS, *tracepoints.EVICTIONS], recorded)).any()
    by_device = fs_events.drop_nulls("dev").group_by("dev").agg(forgets=begins | ~has_events)
    return by_device.filter("forgets")["dev"].to_list()


def _lives(fs_events: pl.DataFrame) -> pl.DataFrame:
    """What events tell of pages; `begins`: the inode's are new from here on; `life`: how often they were.

    An inode that is evicted leaves no pages behind; what is in the cache later was put there later.
    """
    begins = tracepoints.births() | pl.col("event").is_in(tracepoints.EVICTIONS)
    life = begins.cast(pl.Int64).cum_sum().over("dev", "ino")
    about = ("ts_ns", "dev", "ino", "tid", "pid", "comm", "event", "page", "page_order", "offset_bytes", "nr_bytes")
    return fs_events.select(*about, begins=begins, life=life)


def _touched(
    lived: pl.DataFrame,
    blocks: pl.DataFrame,
    block_bytes: Mapping[int, int],
    folios: Collection[int],
    page_bytes: int | None,
) -> pl.DataFrame:
    """Every block of the files in `blocks` that was touched or absent (`kind`, as `authorship.authors` takes it)."""
    event, size = pl.col("event"), pl.lit(page_bytes, pl.Int64)
    kinds = {
        **dict.fromkeys(tracepoints.WRITES, "write"),
        **dict.fromkeys(tracepoints.STORES, "store"),
        **dict.fromkeys(tracepoints.DIRTIED, "dirty"),
        **dict.fromkeys((tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.INVALIDATED), "absent"),
    }
    rows = lived.filter(event.is_in(list(kinds)))
    rows = rows.join(blocks.select("dev", "ino").unique(), on=["dev", "ino"], how="semi", maintain_order="left")
    rows = rows.sort("ts_ns", maintain_order=True).join_asof(
        _folios(lived, size), on="ts_ns", by=["dev", "ino", "page"], check_sortedness=False
    )
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
        kind=event.replace_strict(kinds, return_dtype=turns.KIND),
        is_in_folio=pl.when(event == tracepoints.CACHED).then(order.fill_null(0) > 0),
        is_sized=pl.col("folio_bytes").is_not_null(),
    )  # fmt: skip
    fits = pl.col("begin").is_between(0, _LARGEST_FILE) & (pl.col("end") - pl.col("begin")).is_between(
        1, _LARGEST_FOLIO
    )
    touched = _each_block(_as_far_as_written(spans.filter(fits), folios), block_bytes)
    touched = touched.unique(["nth", "file_block"], keep="first", maintain_order=True).drop("nth")
    start = pl.col("file_block") * pl.col("size")
    is_whole = (pl.col("begin") <= start) & (start + pl.col("size") <= pl.col("end"))
    # Which of a page's blocks a store is to is not told.
    is_somewhere = (pl.col("kind") == "store") & (pl.col("size") < size)
    kind = pl.when(is_somewhere).then(pl.lit("maybe", turns.KIND)).otherwise("kind")
    return touched.filter(is_whole | (pl.col("kind") != "absent")).with_columns(kind=kind)


def _as_far_as_written(spans: pl.DataFrame, folios: Collection[int]) -> pl.DataFrame:
    """The spans, those of writing and dirtying only as far as they certainly go.

    One event says of a whole folio that it became dirty, by a write or store to a part of it that another tells. And a
    write that is longer than the folio that it gets goes on with another event for the rest. What is beyond is `maybe`
    touched, in rows that follow those of the same event (`nth`). Of a folio that no event told the length of (not
    is_sized), on a device in `folios`, the thread's own write tells which page became dirty.
    """
    spans = spans.with_row_index("nth")
    is_write, is_dirty = pl.col("kind") == "write", pl.col("kind") == "dirty"
    makers = spans.filter(pl.col("kind").is_in(authorship.MAKERS))
    thread = ["dev", "ino", "tid"]
    begin, end = (pl.col(name).shift(-1).over(thread) for name in ("begin", "end"))
    is_continued = (begin > pl.col("begin")) & (begin < pl.col("end")) & (end == pl.col("end"))
    rests = makers.filter(is_write).select("nth", rest=pl.when(is_continued).then(begin))
    before = makers.select(*thread, "nth", first="begin", limit="end")
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
    maybe = cut.with_columns(kind=pl.lit("maybe", turns.KIND))
    parts += [maybe.with_columns(end=pl.min_horizontal("end", "first")), maybe.with_columns(begin="limit")]
    touched = pl.concat(parts).filter(pl.col("begin") < pl.col("end")).sort("nth", maintain_order=True)
    return touched.drop("rest", "first", "limit", "is_sized")


def _folios(lived: pl.DataFrame, page_bytes: pl.Expr) -> pl.DataFrame:
    """How long the folio is that begins at a page, as told when it came into the cache: ts_ns, dev, ino, page.

    Since Linux 5.18 a page cache holds folios of many pages, and one event says that all of them became dirty.
    """
    sized = lived.filter(
        (pl.col("event") == tracepoints.CACHED) & pl.col("page_order").is_between(0, bio_pages.LARGEST_ORDER)
    )
    length = page_bytes * pl.lit(2, pl.Int64).pow(pl.col("page_order"))
    return sized.select("ts_ns", "dev", "ino", "page", folio_bytes=length)


def _each_block(spans: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """A row for each block that the bytes ``[begin, end)`` of a row touch, with `file_block` and `size`, its length."""
    size = pl.col("dev").replace_strict(block_bytes, default=units.SECTOR_BYTES, return_dtype=pl.Int64)
    spans = spans.with_columns(size=size)
    first, last = pl.col("begin") // pl.col("size"), (pl.col("end") - 1) // pl.col("size")
    return spans.with_columns(file_block=pl.int_ranges(first, last + 1)).explode("file_block")


def _cut(written: pl.DataFrame, authors: pl.DataFrame) -> pl.DataFrame:
    """The pieces cut where their authors change, with the author as owner where there is one."""
    authors = authors.rename({name: f"author{name[5:]}" for name in _OWNER[:3]})
    same = ("at", "via", "who", "tid", "author_pid", "author_comm", "author_package")
    changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in same)
    size = pl.col("size")
    runs = (
        authors.with_columns(run=changes.cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col(*same, "count", "is_process").first(),
            start=pl.max_horizontal("begin", pl.col("file_block") * size).first(),
            stop=pl.min_horizontal("end", (pl.col("file_block") + 1) * size).last(),
        )
        .select("at", "start", "stop", "via", "count", "is_process", "author_pid", "author_comm", "author_package")
    )
    cut = pl.concat([written[runs["at"]], runs.drop("at")], how="horizontal")
    inside = (pl.col("start") - pl.col("file_offset_bytes")) // units.SECTOR_BYTES
    has_author = pl.col("via").is_not_null()
    none = pl.lit("unknown")
    via = pl.when("is_process").then("via").otherwise(none).cast(schema.enum("io", "owner_via"))
    count = pl.when("is_process").then("count").otherwise(0).cast(pl.Int32)
    return cut.with_columns(
        pl.col("sector") + inside,
        pl.col("part_sector") + inside,
        nr_sectors=(pl.col("stop") - pl.col("start")) // units.SECTOR_BYTES,
        file_offset_bytes=pl.col("start"),
        owner_via=pl.when(has_author).then(via).otherwise("owner_via"),
        owner_count=pl.when(has_author).then(count).otherwise("owner_count"),
        **{
            f"owner_{name}": pl.when(has_author).then(f"author_{name}").otherwise(f"owner_{name}")
            for name in ("pid", "comm", "package")
        },
    ).drop("start", "stop", "via", "count", "is_process", "author_pid", "author_comm", "author_package")
