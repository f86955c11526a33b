"""Combine images of FAT and exFAT with the trace: these filesystems have no inode numbers on disk.

The kernel assigns a number when it loads a file, and the reader of an image assigns others. The two kinds of numbers
are disjoint. A file in an image is a file of the trace only if path and offset in the file agree.

Without the probe on bios, only images identify a file. What both images state about a cluster is a fact if the cluster
cannot have been reused in between (`held`). Freeing or allocating a cluster changes its entry in the allocation table,
whose sector is then written. Before that, the pages of its file are written to disk, so that a bio is of the file that
has the cluster when it is queued. (Linux 6.12: fs/fat/fatent.c, fs/exfat/balloc.c, mm/truncate.c.) All other
statements of images alone are inferred.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import Filesystem
from androstep_analysis.fs.filesystem import AllocationTable
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import images
from androstep_analysis.link.evidence.inodes import FILE
from androstep_analysis.link.evidence.snapshots import UNNUMBERED, Images

_ENTRY_BITS_PER_SECTOR = units.SECTOR_BYTES * 8


def held(old: images.Located | None, snapshots: Images, staging: Staging) -> list[pl.DataFrame]:
    """Return the extents of files on which both images agree and whose clusters cannot have been reused.

    They are valid until the table in memory was certainly written to disk for the last time: at a write of the boot
    record (mount, sync, unmount), or `images.WRITEBACK_NS` before the end of the trace. There are none if the trace may
    lack writes of the volume, or an image was taken of a mounted volume. The trace must have all writes that changed
    the table, which proves that both images are of this volume and recording.
    """
    before, after = snapshots.before, snapshots.after
    if old is None or before is None or after is None or before.allocation is None or staging.last_ns is None:
        return []
    is_mounted = any(loss.kind == "unsynced" for image in (before, after) for loss in image.losses)
    if is_mounted or staging.lost.touching("block_events"):
        return []
    written, differing = _written(staging.block, before.dev), _differing(before, after)
    if differing.is_empty() or not differing.is_in(written["sector"].implode()).all():
        return []
    stable = _with_unwritten_entries(old.extents, written["sector"].unique(), before.allocation)
    paths = before.files.select("ino", "path")
    agreeing = _agreeing(stable.join(paths, on="ino", maintain_order="left"), after)
    at_boot_record = written.filter(pl.col("sector") == 0)["ts_ns"].max()
    until = pl.max_horizontal(pl.lit(staging.last_ns - images.WRITEBACK_NS, pl.Int64), pl.lit(at_boot_record, pl.Int64))
    source = images.as_source("image_before")
    return [agreeing.select(old.extents.columns).with_columns(valid_to_ns=until, source=source)]


def _with_unwritten_entries(extents: pl.DataFrame, written: pl.Series, table: AllocationTable) -> pl.DataFrame:
    """Return the parts of the files' extents for which no sector of the table with their entries was written."""
    per_sector = _ENTRY_BITS_PER_SECTOR // table.entry_bits

    def table_sector(sector: pl.Expr) -> pl.Expr:
        """Return the sector of the table, counted from its first, with the entry of this sector's cluster."""
        return ((sector - table.heap_sector) // table.cluster_sectors + table.first) // per_sector

    def first_sector(table_sector: pl.Expr) -> pl.Expr:
        """Return the first sector whose cluster has its entry in this sector of the table."""
        return table.heap_sector + (table_sector * per_sector - table.first) * table.cluster_sectors

    at, end = pl.col("at"), pl.col("sector") + pl.col("nr_sectors")
    start = pl.max_horizontal("sector", first_sector(at))
    of_files = extents.filter(pl.col("ino").is_not_null() & (pl.col("sector") >= table.heap_sector))
    return (
        of_files.with_columns(at=pl.int_ranges(table_sector(pl.col("sector")), table_sector(end - 1) + 1), end=end)
        .explode("at")
        .filter(~at.is_in((written - table.sector).implode()))
        .with_columns(images.offset_after(start), sector=start)
        .with_columns(nr_sectors=pl.min_horizontal("end", first_sector(at + 1)) - pl.col("sector"))
        .select(extents.columns)
    )


def _differing(before: Filesystem, after: Filesystem) -> pl.Series:
    """Return the sectors in which the allocation tables of two images differ, none if the tables have other places."""
    table = before.allocation
    if table is None or table != after.allocation:
        return pl.Series(dtype=pl.Int64)
    clusters = (before.nr_sectors - table.heap_sector) // table.cluster_sectors
    nr_sectors = -(-(table.first + clusters) * table.entry_bits // _ENTRY_BITS_PER_SECTOR)
    one, other = (
        np.fromfile(image.image, np.uint8, nr_sectors * units.SECTOR_BYTES, offset=table.sector * units.SECTOR_BYTES)
        for image in (before, after)
    )
    if len(one) != len(other) or len(one) % units.SECTOR_BYTES:
        return pl.Series(dtype=pl.Int64)
    differs = (one != other).reshape(-1, units.SECTOR_BYTES).any(axis=1)
    return pl.Series(table.sector + np.flatnonzero(differs), dtype=pl.Int64)


def _written(block: pl.LazyFrame, dev: int) -> pl.DataFrame:
    """Return the sectors of a filesystem's device that bios wrote: sector, ts_ns."""
    bios = block.filter(pl.col("rwbs").str.contains("W", literal=True) & (pl.col("nr_sectors") > 0))
    queued = bios.filter((pl.col("action") == "queue") & (pl.col("dev") == dev))
    # A bio of a partition is queued for the disk. The remap event before has the sector in the partition.
    remapped = bios.filter((pl.col("action") == "remap") & (pl.col("old_dev") == dev)).with_columns(sector="old_sector")
    sectors = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors")).alias("sector")
    return pl.concat([queued, remapped]).select("ts_ns", sectors).collect().explode("sector")


def _agreeing(extents: pl.DataFrame, image: Filesystem) -> pl.DataFrame:
    """Return the parts of extents (with `path` and `start_of_file`) that the image has at that offset of that path."""
    of_image = images.with_start_of_file(image.extents.filter(pl.col("file_offset_bytes").is_not_null()))
    of_image = of_image.join(image.files.select("ino", "path"), on="ino", maintain_order="left")
    names = ("path", "start_of_file")
    both = images.split_at(extents, of_image, names)
    return both.filter(pl.all_horizontal(pl.col(name) == pl.col(f"{name}_other") for name in names))


def typed_by_location(bios: pl.DataFrame, filesystems: list[Filesystem]) -> pl.DataFrame:
    """Return the extents of bios (`bio_pages.extents`), with the type of the device's own pages from an image.

    Apart from metadata at fixed locations, only the directories of FAT and exFAT are pages of the device. Without an
    image the pages are inferred to be metadata, which all but the directories are.
    """
    is_device = (pl.col("block_type") == "metadata") & pl.col("ino").is_null() & (pl.col("source") == "context")
    own, others = bios.filter(is_device), bios.filter(~is_device)
    unnumbered = [image for image in filesystems if image.fs_type.startswith(UNNUMBERED)]
    if not unnumbered:
        return pl.concat([others, own.with_columns(source=images.as_source("inferred"))])
    fixed = unnumbered[0].extents.filter(images.is_fixed())
    directory = pl.lit("directory").cast(schema.enum("extents", "block_type"))
    return pl.concat([others, images.without_events(own, fixed).with_columns(block_type=directory)])


def confirmed(bios: pl.DataFrame, after: Filesystem | None, files: pl.DataFrame) -> pl.DataFrame:
    """Return the inferred extents of bios that the image after also has: the same path at the same offset."""
    inferred = bios.filter((pl.col("source") == "inferred") & pl.col("ino").is_not_null())
    if after is None or not after.fs_type.startswith(UNNUMBERED) or inferred.is_empty():
        return bios.clear()
    paths = files.select(*FILE, "path").drop_nulls("path")
    named = images.with_start_of_file(inferred).join(paths, on=FILE, how="left", maintain_order="left")
    return _agreeing(named, after).with_columns(source=images.as_source("context")).select(bios.columns)
