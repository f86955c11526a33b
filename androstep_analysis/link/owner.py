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
from androstep_analysis.link import authorship, bio_pages, handles, pagesize, processes

_LARGEST_FILE = 1 << 60
_LARGEST_FOLIO = 1 << 29
"""Bytes beyond what one event can be about: ext4 has files of 16 TiB, Linux huge pages of 512 MiB."""

_OWNER = ("owner_pid", "owner_comm", "owner_package", "owner_count", "owner_via")


def owned(
    pieces: pl.DataFrame,
    fs_events: pl.DataFrame,
    tasks: pl.DataFrame,
    block_bytes: Mapping[int, int],
    lost_events: int = 0,
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
    recorder says. Where events were lost (`lost_events`), see `_doubted`. Where it is unknown how large a page is
    (`page_bytes`), so is what an event of dirtying is about, and nobody is known to have written directly.
    """
    pieces = pl.concat([pieces, _submitters(pieces, tasks)], how="horizontal")
    is_written = (
        (pl.col("op") == "write")
        & pl.col("block_type").is_in(["data", "directory", "unknown"])
        & (pl.col("map_source") != "inferred")  # the right writer of a guessed file is still a guess
        & (pl.col("nr_sectors") > 0)
        & pl.all_horizontal(pl.col("ino", "file_offset_bytes", "time").is_not_null())
    )
    touched_by = touches(fs_events)
    pieces = _not_written_for_others(pieces, fs_events, touched_by["dev"].unique(), page_bytes)
    written = pieces.filter(is_written)
    block_bytes = _of_whole_blocks(block_bytes, fs_events)
    if touched_by.height and written.height:
        sizes = {dev: min(size, page_bytes or size) for dev, size in block_bytes.items()}
        blocks = _blocks(written, fs_events, sizes)
        threads = touched_by.select("ts_ns", "tid", "pid", "comm").unique(["tid", "pid", "comm"], maintain_order=True)
        known = processes.of_threads(threads, tasks)
        touched = _touched(fs_events, blocks, sizes, page_bytes)
        authors = authorship.authors(blocks, touched, _unplaced(pieces), _forgetful(fs_events, recorded), known)
        others = pieces.filter(~is_written.fill_null(False))
        pieces = pl.concat([others, _cut(written, processes.of_threads(authors, tasks))], how="diagonal")
    if lost_events:  # a handle that is not in the trace is an owner that is not counted
        return _doubted(pieces, touched_by["dev"].unique())
    return handles.owned(pieces, fs_events, tasks)


def touches(fs_events: pl.DataFrame) -> pl.DataFrame:
    """The events that tell who wrote to a page or made it dirty; without them each piece has its owner by itself."""
    return fs_events.filter(pl.col("event").is_in([*tracepoints.WRITES, *tracepoints.DIRTIED]))


def _doubted(pieces: pl.DataFrame, devices: pl.Series) -> pl.DataFrame:
    """The pieces as far as they can be trusted where events were lost.

    That a block was freed and mapped anew may be among what was lost. An event's word on where a block belongs is
    still a fact where another event tells who put data into that page of that file, and the request does not say that
    it carries metadata; else it is inferred. And on
    `devices`, where writers are recorded, data of no recorded writer need not be a direct write of its submitter.
    """
    has_author = pl.col("owner_via").is_in(["write_begin", "dirty_folio"])
    is_alone = (pl.col("map_source") == "tracepoint") & ~has_author & (pl.col("block_type") != "journal")
    is_alone |= (pl.col("block_type") == "data") & pl.col("meta").fill_null(False)
    is_data = pl.col("block_type").is_in(["data", "unknown"]) & (pl.col("op") == "write")
    is_guess = is_data & (pl.col("owner_via") == "submitter") & pl.col("part_dev").is_in(devices.implode())
    known = pl.when(~is_guess.fill_null(False))
    inferred = pl.lit("inferred").cast(schema.enum("io", "map_source"))
    return pieces.with_columns(
        *(known.then(name).alias(name) for name in _OWNER[:3]),
        map_source=pl.when(is_alone).then(inferred).otherwise("map_source"),
        owner_count=known.then("owner_count").otherwise(0),
        owner_via=known.then("owner_via").otherwise(pl.lit("unknown").cast(schema.enum("io", "owner_via"))),
    )


def _not_written_for_others(
    pieces: pl.DataFrame, fs_events: pl.DataFrame, devices: pl.Series, page_bytes: int | None
) -> pl.DataFrame:
    """The pieces, data written for its submitter only where nothing speaks against it.

    On `devices`, where the events tell who put data into pages, data of no recorded writer is a direct write of the
    submitter: if the bio carries no page of a file, where a probe tells (`bio_pages`), else if it is known which file
    it belongs to and the events also tell of stores through a memory map. Other data has no owner. Where no event
    tells who wrote, the submitter is no more than inferred.
    """
    is_data = (pl.col("op") == "write") & pl.col("block_type").is_in(["data", "directory", "unknown"])
    is_submitted = (is_data & (pl.col("owner_via") == "submitter")).fill_null(False)
    is_placed = pl.col("ino").is_not_null() & (pl.col("map_source") != "inferred").fill_null(False)
    probed = fs_events.filter(pl.col("event") == "bio_page")["bio_dev"].unique()
    carries_page = bio_pages.carries_page(pieces, fs_events) if len(probed) else pl.lit(False)
    has_probe = pl.col("part_dev").is_in(probed.implode())
    dirtied = fs_events.filter(pl.col("event").is_in(tracepoints.DIRTIED))["dev"].unique()
    is_other = is_placed & pl.col("part_dev").is_in(dirtied.implode()) & pl.lit(page_bytes is not None)
    is_direct = pl.when(has_probe).then(~carries_page).otherwise(is_other)
    is_told = pl.col("part_dev").is_in(devices.implode())
    known = pl.when(~(is_submitted & is_told & ~is_direct))
    unknown, inferred = (pl.lit(name).cast(schema.enum("io", "owner_via")) for name in ("unknown", "inferred"))
    return pieces.with_columns(
        *(known.then(name).alias(name) for name in _OWNER[:3]),
        owner_count=known.then("owner_count").otherwise(0),
        owner_via=pl.when(is_submitted & ~is_told).then(inferred).otherwise(known.then("owner_via").otherwise(unknown)),
    )


def _of_whole_blocks(block_bytes: Mapping[int, int], fs_events: pl.DataFrame) -> dict[int, int]:
    """The block sizes of the filesystems that write whole blocks; FAT and exFAT write single sectors of a page."""
    has_events = fs_events.filter(pl.col("event").cast(pl.String).str.contains("^(?:ext4|f2fs)_"))["dev"].unique()
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
    known = processes.of_threads(threads, tasks)
    own = pl.col("is_filesystem")
    return known.select(
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


def _blocks(written: pl.DataFrame, fs_events: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Every block of a file that the pieces write out: position of the piece, and which block of which life when."""
    rows = written.select(
        pl.int_range(pl.len()).alias("at"),
        "ino",
        dev="part_dev",
        ts_ns="time",
        begin="file_offset_bytes",
        end=pl.col("file_offset_bytes") + pl.col("nr_sectors") * units.SECTOR_BYTES,
    )
    born = _lives(fs_events).filter(pl.col("begins")).select("ts_ns", "dev", "ino", "life")
    lived = rows.sort("ts_ns", maintain_order=True).join_asof(
        born, on="ts_ns", by=["dev", "ino"], check_sortedness=False
    )
    return _each_block(lived.with_columns(pl.col("life").fill_null(0)), block_bytes)


def _forgetful(fs_events: pl.DataFrame, recorded: Collection[str]) -> list[int]:
    """The devices whose trace tells when an inode's pages are new; without own events numbers are not reused."""
    has_events = pl.col("event").cast(pl.String).str.contains("^(?:ext4|f2fs)_").any()
    begins = tracepoints.births() | pl.col("event").is_in(tracepoints.EVICTIONS)
    begins = (begins | tracepoints.is_told([*tracepoints.BIRTHS, *tracepoints.EVICTIONS], recorded)).any()
    told = fs_events.drop_nulls("dev").group_by("dev").agg(forgets=begins | ~has_events)
    return told.filter("forgets")["dev"].to_list()


def _lives(fs_events: pl.DataFrame) -> pl.DataFrame:
    """The events with `begins`, whether the inode's pages are new from here on, and `life`, how often they were.

    An inode that is evicted leaves no pages behind; what is in the cache later was put there later.
    """
    begins = tracepoints.births() | pl.col("event").is_in(tracepoints.EVICTIONS)
    return fs_events.with_columns(begins=begins, life=begins.cast(pl.Int64).cum_sum().over("dev", "ino"))


def _touched(
    fs_events: pl.DataFrame, blocks: pl.DataFrame, block_bytes: Mapping[int, int], page_bytes: int | None
) -> pl.DataFrame:
    """Every block that a process wrote to or dirtied, of the files in `blocks`."""
    is_write, size = pl.col("event").is_in(tracepoints.WRITES), pl.lit(page_bytes, pl.Int64)
    rows = _lives(fs_events).filter(is_write | pl.col("event").is_in(tracepoints.DIRTIED))
    rows = rows.join(blocks.select("dev", "ino").unique(), on=["dev", "ino"], how="semi", maintain_order="left")
    rows = rows.sort("ts_ns", maintain_order=True).join_asof(
        _folios(fs_events, size), on="ts_ns", by=["dev", "ino", "page"], check_sortedness=False
    )
    page = pl.when(pl.col("page") <= _LARGEST_FILE // pagesize.SIZES[-1]).then("page")
    begin = pl.when(is_write).then("offset_bytes").otherwise(page * size)
    length = pl.when(is_write).then("nr_bytes").otherwise(pl.col("folio_bytes").fill_null(size))
    spans = rows.select(
        "dev", "ino", "life", "ts_ns", "tid", "pid", "comm", begin=begin, end=begin + length, is_write=is_write
    )
    fits = pl.col("begin").is_between(0, _LARGEST_FILE) & (pl.col("end") - pl.col("begin")).is_between(
        1, _LARGEST_FOLIO
    )
    return _each_block(spans.filter(fits), block_bytes)


def _folios(fs_events: pl.DataFrame, page_bytes: pl.Expr) -> pl.DataFrame:
    """How long the folio is that begins at a page, as told when it came into the cache: ts_ns, dev, ino, page.

    Since Linux 5.18 a page cache holds folios of many pages, and one event says that all of them became dirty.
    """
    told = fs_events.filter(
        (pl.col("event") == pagesize.CACHED) & pl.col("page_order").is_between(0, bio_pages.LARGEST_ORDER)
    )
    length = page_bytes * pl.lit(2, pl.Int64).pow(pl.col("page_order"))
    return told.select("ts_ns", "dev", "ino", "page", folio_bytes=length)


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
