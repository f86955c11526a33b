"""Read extmap's listings: the sectors (FIEMAP) and names of the files on a mounted filesystem.

A listing contains no metadata, free space or deleted files. It is useful if the image is encrypted or cannot be
copied. Because extmap takes some time, a listing does not show a single instant. Files that changed while it ran are
left out.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.record import Records

# FIEMAP_EXTENT_* of linux/fiemap.h.
UNKNOWN, DELALLOC, ENCODED, ENCRYPTED = 0x2, 0x4, 0x8, 0x80
NOT_ALIGNED, INLINE, TAIL, SHARED = 0x100, 0x200, 0x400, 0x2000

# FS_*_FL of linux/fs.h.
_COMPRESSED_FILE, _ENCRYPTED_FILE = 0x4, 0x800

_TYPE_BITS = 0o170000  # S_IFMT

_FILE = ("dev", "ino", "generation")

_FIELDS: dict[str, dict[type[pl.DataType], str]] = {
    "filesystem": {pl.Int64: "nr_sectors listed_ns", pl.UInt32: "dev block_bytes", pl.String: "fs_type root"},
    "file": {
        pl.Int64: "ino generation size_bytes allocated_sectors created_ns changed_ns listed_ns",
        pl.UInt32: "dev mode attributes",
        pl.Int32: "name_encrypted",
        pl.String: "path",
    },
    "extent": {pl.Int64: "sector nr_sectors ino generation file_offset_bytes", pl.UInt32: "dev flags"},
    "task": {pl.Int64: "started_ns", pl.Int32: "pid tid uid", pl.String: "comm cmdline package"},
}
"""Record types of a listing, with the types and names of the fields that are used."""

_OFFSETS = ("realtime_offset_ns", "monotonic_offset_ns")


@dataclass(frozen=True)
class Listing:
    """One filesystem as extmap listed it.

    FAT and exFAT have inode numbers in memory only. They identify files within this listing and nowhere else.

    Attributes
    ----------
    dev : int
        The device.
    fs_type : str, optional
        The kind of filesystem.
    block_bytes : int
        The block size.
    nr_sectors : int, optional
        The size of the filesystem.
    roots : tuple of str
        The listed directories, as paths from the root of the filesystem.
    first_ns, last_ns : int
        The time of the listing in CLOCK_BOOTTIME.
    realtime_offset_ns, monotonic_offset_ns : int
        CLOCK_REALTIME and CLOCK_MONOTONIC minus CLOCK_BOOTTIME. The latter is None if it is unknown.
    extents : DataFrame
        Table `extents` with source `fiemap`, incarnation 0 and no span of validity. It is sorted by sector and has no
        overlaps. Sectors count from the start of `dev`.
    files : DataFrame
        Table `files`, one row for each inode.
    times : DataFrame
        For the same inodes, `ino`, `generation` (null if the filesystem has none), `created_epoch_ns` (null if
        unknown) and `changed_epoch_ns` (st_ctime). All are Int64; the times are CLOCK_REALTIME.
    losses : tuple of Loss
        The extents that are not in `extents`. `Records.losses` has those that the probe or the file lost.
    is_whole : bool
        Whether the listing is complete, so that a file that is not in it did not exist.
    """

    dev: int
    fs_type: str | None
    block_bytes: int
    nr_sectors: int | None
    roots: tuple[str, ...]
    first_ns: int
    last_ns: int
    realtime_offset_ns: int
    monotonic_offset_ns: int | None
    extents: pl.DataFrame
    files: pl.DataFrame
    times: pl.DataFrame
    losses: tuple[Loss, ...] = ()
    is_whole: bool = True

    def __repr__(self) -> str:
        return (
            f"<Listing of {self.fs_type} {units.format_dev(self.dev)}: {self.extents.height} extents,"
            f" {self.files.height} files, {sum(loss.count for loss in self.losses)} lost>"
        )


def is_listing(records: Records) -> bool:
    """Return whether these are records of extmap, and not of another probe or forged."""
    has_fields = all(
        kind in records.tables and records.tables[kind].schema.get(name) == dtype
        for kind, fields in _FIELDS.items()
        for dtype, names in fields.items()
        for name in names.split()
    )
    return has_fields and all(type(records.header.get(name)) is int for name in _OFFSETS)


def completed(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the tables with all record types and fields of a listing. Fields that they lack are null."""
    whole = {}
    for kind, fields in _FIELDS.items():
        columns = pl.Schema({name: dtype for dtype, names in fields.items() for name in names.split()})
        given = tables.get(kind, pl.DataFrame(schema=columns))
        lacking = {name: pl.lit(None) for name in columns if name not in given.columns}
        whole[kind] = given.with_columns(**lacking).select(list(columns)).cast(columns)
    return whole


def listings(records: Records) -> tuple[Listing, ...]:
    """Return a `Listing` for each filesystem in records of extmap or iotrace, sorted by `dev`."""
    filesystems = records.tables["filesystem"].sort("dev", "listed_ns")
    return tuple(_listing(records, of_dev) for of_dev in filesystems.partition_by("dev", maintain_order=True))


def _listing(records: Records, filesystem: pl.DataFrame) -> Listing:
    about = filesystem.row(0, named=True)
    of_dev = pl.col("dev") == about["dev"]
    names = _last_generation(records.tables["file"].filter(of_dev))
    inodes = names.unique("ino", keep="last", maintain_order=True).sort("ino")
    rows = records.tables["extent"].filter(of_dev).unique(maintain_order=True)
    rows = rows.join(
        inodes.select(*_FILE, "mode", "attributes", "allocated_sectors"), on=_FILE, how="left", nulls_equal=True
    )
    if about["fs_type"] == "erofs":
        rows = _compressed(rows, about["block_bytes"] // units.SECTOR_BYTES)
    extents, losses = _placed(rows)
    return Listing(
        dev=about["dev"],
        fs_type=about["fs_type"],
        block_bytes=about["block_bytes"],
        nr_sectors=about["nr_sectors"],
        roots=tuple(filesystem["root"].drop_nulls().unique().sort()),
        first_ns=about["listed_ns"],
        last_ns=max([*filesystem["listed_ns"], *names["listed_ns"].tail(1)]),
        realtime_offset_ns=records.header["realtime_offset_ns"],
        monotonic_offset_ns=records.header["monotonic_offset_ns"],
        extents=_extents(extents),
        files=_files(names, inodes),
        times=inodes.select("ino", "generation", created_epoch_ns="created_ns", changed_epoch_ns="changed_ns"),
        losses=losses,
        is_whole=records.header.get("is_whole", True),
    )


def _last_generation(names: pl.DataFrame) -> pl.DataFrame:
    """Sort names by time of reading, and remove files with an inode number that was reused during the listing.

    A file that could not be opened has a null generation in all of its rows.
    """
    ordered = names.sort("listed_ns", maintain_order=True)
    last = pl.col("generation").last().over("ino")
    return ordered.filter(pl.col("generation").eq_missing(last))


def _compressed(rows: pl.DataFrame, block_sectors: int) -> pl.DataFrame:
    """Correct the lengths of compressed extents on erofs, and remove their file offsets.

    Linux (fs/erofs/zmap.c) reports the uncompressed length of such an extent. On the disk it occupies at least one
    block and at most that length. If all extents of a file are consecutive, as mkfs.erofs writes them, they become one
    run of the file's allocated sectors. Otherwise only the first block of each is certain.
    """
    begin, nr_blocks = pl.col("sector"), (pl.col("nr_sectors") + block_sectors - 1) // block_sectors
    limit = begin.first().over("ino") + pl.col("allocated_sectors")
    takes = begin.shift(-1).over("ino").fill_null(limit) - begin
    is_compressed = (pl.col("attributes") & _COMPRESSED_FILE) != 0
    sorted_out = rows.sort("ino", "file_offset_bytes", maintain_order=True).with_columns(
        is_compressed=is_compressed.fill_null(False),
        is_run=takes.is_between(1, nr_blocks * block_sectors).all().over("ino"),
        is_first=pl.int_range(pl.len()).over("ino") == 0,
    )
    kept = sorted_out.filter(~pl.col("is_compressed") | ~pl.col("is_run") | pl.col("is_first"))
    length = pl.when("is_run").then("allocated_sectors").otherwise(block_sectors)
    # The end of a file may be packed next to its inode, or with the ends of other files.
    is_packed = begin % block_sectors != 0
    return kept.with_columns(
        nr_sectors=pl.when("is_compressed").then(length).otherwise("nr_sectors"),
        file_offset_bytes=pl.when(~pl.col("is_compressed")).then("file_offset_bytes"),
        flags=pl.when(pl.col("is_compressed") & is_packed).then(pl.col("flags") | NOT_ALIGNED).otherwise("flags"),
    )


def _placed(rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Loss, ...]]:
    """Return the extents with certain sectors and file offsets, and losses with the reasons for the others."""
    flags, sector = pl.col("flags"), pl.col("sector")

    def has(bits: int) -> pl.Expr:
        return (flags & bits) != 0

    encoded = has(ENCODED) & (~has(ENCRYPTED) | ((pl.col("attributes") & _COMPRESSED_FILE) != 0))
    reasons = {
        "unallocated": (has(UNKNOWN | DELALLOC) | sector.is_null(), "are dirty in memory and had no blocks yet"),
        "inline": (has(INLINE), "lie in the inodes, whose sectors are shared with other files"),
        "encoded": (encoded, "are compressed, so that the number of their sectors is unknown"),
        "shared": (has(SHARED | NOT_ALIGNED | TAIL), "share their blocks with other files"),
        "unowned": (
            pl.col("mode").is_null(),
            "belong to inodes that were reused during the listing, or whose record is lost",
        ),
    }
    reason = pl.coalesce(*(pl.when(holds).then(pl.lit(name)) for name, (holds, _) in reasons.items()))
    sorted_out = rows.with_columns(reason=reason)
    clear, overlapping = _without_overlaps(sorted_out.filter(pl.col("reason").is_null()))
    counts = dict(sorted_out["reason"].drop_nulls().value_counts().iter_rows())
    losses = [
        Loss(name, counts[name], f"{counts[name]} extents {why}; they were not used")
        for name, (_, why) in reasons.items()
        if name in counts
    ]
    if overlapping:
        message = f"{overlapping} extents overlap others (blocks reused during the listing); they are not in the map"
        losses.append(Loss("overlapping", overlapping, message))
    return clear, tuple(losses)


def _without_overlaps(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Sort rows by sector and remove those that overlap another; also return the number removed."""
    ordered = rows.sort("sector", maintain_order=True)
    start = ordered["sector"].to_numpy()
    end = start + ordered["nr_sectors"].to_numpy()
    clear = np.ones(len(start), dtype=bool)
    clear[1:] &= start[1:] >= np.maximum.accumulate(end)[:-1]
    clear[:-1] &= end[:-1] <= start[1:]
    return ordered.filter(clear), int((~clear).sum())


def _is(kind: int) -> pl.Expr:
    """Return whether the file has type `kind`, one of `stat.S_IF*`."""
    return (pl.col("mode") & _TYPE_BITS) == kind


def _extents(rows: pl.DataFrame) -> pl.DataFrame:
    """Build table `extents`."""
    block_type = schema.enum("extents", "block_type")
    return schema.complete(
        rows.select(
            *("dev", "sector", "nr_sectors"),
            pl.when(_is(stat.S_IFDIR))
            .then(pl.lit("directory", block_type))
            .otherwise(pl.lit("data", block_type))
            .alias("block_type"),
            "ino",
            pl.lit(0, pl.Int32).alias("incarnation"),
            *("generation", "file_offset_bytes"),
            pl.lit("fiemap", schema.enum("extents", "source")).alias("source"),
        ),
        "extents",
    )


def _files(names: pl.DataFrame, inodes: pl.DataFrame) -> pl.DataFrame:
    """Build table `files`, one row for each inode, in the order of inodes."""
    file_type = schema.enum("files", "file_type")
    paths = names.group_by("ino").agg(names=pl.col("path").drop_nulls().unique().sort())
    kind = (
        pl.when(_is(stat.S_IFDIR))
        .then(pl.lit("directory", file_type))
        .when(_is(stat.S_IFLNK))
        .then(pl.lit("symlink", file_type))
        .otherwise(pl.lit("unknown", file_type))
    )
    # If the kernel does not report whether a name is encrypted, conclude it from the attribute and a failed open:
    # without its key an encrypted file cannot be opened.
    locked = ((pl.col("attributes") & _ENCRYPTED_FILE) != 0) & pl.col("generation").is_null() & _is(stat.S_IFREG)
    encrypted = pl.coalesce(pl.col("name_encrypted") == 1, locked)
    return schema.complete(
        inodes.join(paths, on="ino", how="left", maintain_order="left").select(
            *("dev", "ino"),
            pl.lit(0, pl.Int32).alias("incarnation"),
            "generation",
            pl.col("names").list.first().alias("path"),
            "names",
            encrypted.alias("name_encrypted"),
            kind.alias("file_type"),
            "size_bytes",
            pl.lit("fiemap", schema.enum("files", "source")).alias("source"),
        ),
        "files",
    )
