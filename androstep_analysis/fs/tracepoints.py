"""Filesystem events as a source of extents and files: what the ext4 tracepoints prove, and from when on.

ext4 tells its extent status tree of every block it maps for a file (``ext4_es_insert_extent``), repeats it at every
use (``ext4_es_lookup_extent_exit``), and names every block it frees (``ext4_free_blocks``): Linux
include/trace/events/ext4.h. Measured on Linux 6.1 and 6.18, that is the inode and the offset of every block of data
written, deleted files included.

*Incarnation*, here and in every table: how often the inode's number was allocated during the capture so far. 0 is the
file from before the capture.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

import polars as pl

from androstep_analysis import schema, units

INSERTS = ("ext4_es_insert_extent", "ext4_es_cache_extent")
LOOKUP = "ext4_es_lookup_extent_exit"
WRITES = ("ext4_write_begin", "ext4_da_write_begin")
DIRTIED = ("writeback_dirty_folio", "writeback_dirty_page")
DIRECT = ("iomap_dio_rw_begin", "ext4_direct_IO_enter")

ROOT_INODE = 2
JOURNAL_INODE = 8
FIRST_INODE = 11
"""First inode number that is no reserved one (EXT4_GOOD_OLD_FIRST_INO)."""

BLOCK_BYTES = 4096
"""Block size of every ext4 on Android, and of most others."""

_FORMAT = stat.S_IFMT(0o177777)
_LARGEST = 1 << 48
"""Blocks that ext4 can address; a number beyond is no block (a hole's is all ones)."""

_LARGEST_EXTENT = 1 << 32
"""Blocks of the largest file."""

_KEY = ["dev", "ino", "incarnation"]


def on_filesystems(fs_events: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """The events with writeback's on the device of the filesystem.

    Writeback knows only the whole disk (its bdi). Its events of a disk that carries several filesystems are left out:
    they do not tell whose inode they mean. `requests` is table requests, which tells what lies on which disk.
    """
    places = requests.select(pl.col("dev"), "part_dev").unique()
    parts = places.group_by("dev").agg(part=pl.col("part_dev").first(), parts=pl.len())
    is_dirtying = pl.col("event").is_in(DIRTIED)
    joined = fs_events.join(parts, on="dev", how="left", maintain_order="left")
    joined = joined.with_columns(dev=pl.when(is_dirtying & (pl.col("parts") == 1)).then("part").otherwise("dev"))
    ambiguous = (is_dirtying & (pl.col("parts") > 1)).fill_null(False)
    return joined.filter(~ambiguous).select(fs_events.columns)


def numbered(fs_events: pl.DataFrame) -> pl.DataFrame:
    """Table `fs_events` with column `incarnation` (Int32): that of the inode at the time of the event."""
    allocated = (pl.col("event") == "ext4_allocate_inode").cast(pl.Int32)
    return fs_events.with_columns(incarnation=allocated.cum_sum().over("dev", "ino"))


def maps_completely(fs_events: pl.DataFrame, dev: int, lost_events: int) -> bool:
    """Whether every change of the map of `dev` is in the trace: its events were recorded and none was lost."""
    inserted = (pl.col("dev") == dev) & pl.col("event").is_in(INSERTS[:1])
    return lost_events == 0 and not fs_events.filter(inserted).is_empty()


def lives(fs_events: pl.DataFrame) -> pl.DataFrame:
    """A row per inode and incarnation in the events.

    Columns dev, ino, incarnation, created_ns (null for incarnation 0), deleted_ns (null where it lived on), end_ns
    (deletion, or the next allocation where the trace has no deletion), block_type and subtype (as in table extents;
    `unknown` where no event says whether the inode is a file or a directory).
    """
    event = pl.col("event")
    deleted = (event == "ext4_free_inode") | ((event == "ext4_evict_inode") & (pl.col("nlink") == 0))
    events = numbered(fs_events)
    table = events.group_by(_KEY).agg(
        created_ns=pl.col("ts_ns").filter(event == "ext4_allocate_inode").first(),
        deleted_ns=pl.col("ts_ns").filter(deleted).first(),
        mode=pl.col("mode").drop_nulls().last(),
        # Directories and the journal are buffered as blocks of the device, never as pages of a file.
        has_pages=event.is_in([*WRITES, *DIRTIED, *DIRECT]).any(),
    )
    table = table.join(_parents(events), on=_KEY, how="left").sort(_KEY)
    return table.with_columns(
        *_kind(), end_ns=pl.min_horizontal("deleted_ns", pl.col("created_ns").shift(-1).over("dev", "ino"))
    ).select(*_KEY, "created_ns", "deleted_ns", "end_ns", "block_type", "subtype")


def _parents(events: pl.DataFrame) -> pl.DataFrame:
    """The inodes in which others were created or unlinked: dev, ino, incarnation at that time, is_parent."""
    allocated = events.filter(pl.col("event") == "ext4_allocate_inode").select("ts_ns", *_KEY)
    named = events.select("ts_ns", "dev", ino="parent").drop_nulls("ino")
    at = named.join_asof(allocated, on="ts_ns", by=["dev", "ino"], check_sortedness=False)
    return at.select("dev", "ino", pl.col("incarnation").fill_null(0)).unique().with_columns(is_parent=pl.lit(True))


def _kind() -> tuple[pl.Expr, pl.Expr]:
    """block_type and subtype of an inode's content; the mode is the proof, what was done with it the second."""
    kind, ino = pl.col("mode") & _FORMAT, pl.col("ino")
    is_directory = pl.coalesce(kind == stat.S_IFDIR, (ino == ROOT_INODE) | pl.col("is_parent").fill_null(False))
    is_data = pl.coalesce(kind.is_in([stat.S_IFREG, stat.S_IFLNK]), pl.col("has_pages"))
    block_type = (
        pl.when(ino == JOURNAL_INODE)
        .then(pl.lit("journal"))
        .when(is_directory & ((ino == ROOT_INODE) | (ino >= FIRST_INODE)))
        .then(pl.lit("directory"))
        .when(is_data & (ino >= FIRST_INODE))
        .then(pl.lit("data"))
        .otherwise(pl.lit("unknown"))
    )
    subtype = pl.when(kind == stat.S_IFLNK).then(pl.lit("symlink"))
    return (
        block_type.cast(schema.enum("extents", "block_type")).alias("block_type"),
        subtype.cast(schema.enum("extents", "subtype")).alias("subtype"),
    )


def extents(fs_events: pl.DataFrame, lives: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Table `extents`: a row for each mapping or freeing of blocks, in order of time.

    `lives` is the table of that name, which tells what an inode's blocks hold and until when; `block_bytes` the block
    size of the filesystem on each device, `BLOCK_BYTES` where it is not told. Each row holds from its event until the
    end of its inode (null if that is not in the trace). Rows may overlap: at each place and time the latest is the
    true one, so that a row is over as soon as another follows (`androstep_analysis.link.timeline`).
    """
    mapped = (
        _mappings(numbered(fs_events))
        .join(lives, on=_KEY, how="left", maintain_order="left")
        .with_columns(valid_to_ns="end_ns")
    )
    freed = fs_events.with_row_index("order").filter((pl.col("event") == "ext4_free_blocks") & _fits())
    freed = freed.select("order", "ts_ns", "dev", "block", "nr_blocks", block_type=pl.lit("free"))
    rows = pl.concat([mapped, freed], how="diagonal_relaxed").sort("order")
    size = pl.col("dev").replace_strict(block_bytes, default=BLOCK_BYTES, return_dtype=pl.Int64)
    want = schema.table("extents").polars
    table = rows.with_columns(
        sector=pl.col("block") * (size // units.SECTOR_BYTES),
        nr_sectors=pl.col("nr_blocks") * (size // units.SECTOR_BYTES),
        file_offset_bytes=pl.col("file_block") * size,
        generation=pl.lit(None),
        valid_from_ns=pl.col("ts_ns"),
        source=pl.lit("tracepoint"),
    ).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(table, "extents")


def _mappings(events: pl.DataFrame) -> pl.DataFrame:
    """The events that state where blocks of a file lie, without repetitions that state nothing new."""
    event = pl.col("event")
    # A look-up repeats what is known unless the inode's map changed since the last look-up of the same extent.
    changes = event.is_in([*INSERTS, "ext4_free_blocks", "ext4_evict_inode"])
    rows = events.with_row_index("order").with_columns(version=changes.cast(pl.Int64).cum_sum().over("dev", "ino"))
    states = event.is_in([*INSERTS, LOOKUP]) & pl.col("status").str.contains("^[A-Z]*[WU]")
    rows = rows.filter(states & _fits() & pl.col("file_block").is_between(0, _LARGEST_EXTENT))
    return rows.unique([*_KEY, "file_block", "block", "nr_blocks", "version"], keep="first", maintain_order=True)


def _fits() -> pl.Expr:
    """Whether block numbers are such as ext4 can have."""
    return pl.col("block").is_between(1, _LARGEST) & pl.col("nr_blocks").is_between(1, _LARGEST_EXTENT)


def files(lives: pl.DataFrame) -> pl.DataFrame:
    """Table `files` of the incarnations that were created or deleted in the trace. No event tells a path."""
    kind = (
        pl.when(pl.col("block_type") == "directory")
        .then(pl.lit("directory"))
        .when(pl.col("subtype") == "symlink")
        .then(pl.lit("symlink"))
        .otherwise(pl.lit("unknown"))
    )
    is_known = pl.col("created_ns").is_not_null() | pl.col("deleted_ns").is_not_null()
    want = schema.table("files").polars
    rows = lives.filter(is_known).with_columns(
        names=pl.lit([], pl.List(pl.String)), name_encrypted=pl.lit(False), file_type=kind, source=pl.lit("tracepoint")
    )
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in rows.columns]
    rows = rows.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(rows, "files")
