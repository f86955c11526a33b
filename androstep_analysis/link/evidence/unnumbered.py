"""FAT and exFAT keep no inode numbers on disk: what an image says of their files meets what the kernel's events say.

The kernel numbers a file when it loads it, an image's reader in its own way. The two are told apart by their numbers,
and brought together only where path and place in the file agree.

Under ordinary tracing, without the probe on bios, nothing but the images tells the file. What both say of a file's
cluster is a fact if the cluster cannot have changed hands in between (`held`): whoever frees or allocates a cluster
changes its entry in the allocation table, whose sector is then written; and who frees it first waits until the file's
pages are on the disk, so that a bio is of the file that has the cluster when it is queued. All else that only images
tell is inferred. (Definition: Linux 6.12, fs/fat/fatent.c, fs/exfat/balloc.c, mm/truncate.c.)
"""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import Filesystem
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import images
from androstep_analysis.link.evidence.snapshots import UNNUMBERED, Images


def held(old: pl.DataFrame | None, snapshots: Images, staging: Staging) -> list[pl.DataFrame]:
    """The extents of files on which both images agree and whose clusters nobody else had during the trace.

    `old` is the image before (`images.identified`). The rows hold until the last time at which the table in memory was
    certainly written out: a write of the boot record (when the volume is mounted, synced or unmounted), or
    `images.WRITTEN_OUT_NS` before the end of the trace. None where writes of the volume may be missing in the trace, an
    image was taken of a volume in use, or the trace does not have all writes by which the table became another
    (`_changed`): they prove that both images are of this volume and recording.
    """
    before, after = snapshots.before, snapshots.after
    if old is None or before is None or after is None or before.allocation is None:
        return []
    if staging.lost.touching("block_events"):
        return []
    if any(loss.kind == "unsynced" for image in (before, after) for loss in image.losses):
        return []
    written = _written(staging.block, int(before.extents["dev"][0]))
    if written.is_empty() or staging.last_ns is None:
        return []
    table = before.allocation
    differing = _changed(before, after)
    if differing.is_empty() or not differing.is_in(written["sector"].implode()).all():
        return []
    in_a_sector = units.SECTOR_BYTES * 8 // table.entry_bits
    changed = written["sector"].unique() - table.sector

    def place(sector: pl.Expr) -> pl.Expr:
        """The sector of the table, counted from its first, that has the entry of this sector's cluster."""
        return ((sector - table.heap_sector) // table.cluster_sectors + table.first) // in_a_sector

    def begin(place: pl.Expr) -> pl.Expr:
        return table.heap_sector + (place * in_a_sector - table.first) * table.cluster_sectors

    end = pl.col("sector") + pl.col("nr_sectors")
    of_files = old.filter(pl.col("ino").is_not_null() & (pl.col("sector") >= table.heap_sector))
    cut = (
        of_files.with_columns(place=pl.int_ranges(place(pl.col("sector")), place(end - 1) + 1), end=end)
        .explode("place")
        .filter(~pl.col("place").is_in(changed.implode()))
        .with_columns(sector=pl.max_horizontal("sector", begin(pl.col("place"))))
        .with_columns(nr_sectors=pl.min_horizontal("end", begin(pl.col("place") + 1)) - pl.col("sector"))
        .join(before.files.select("ino", "path"), on="ino", maintain_order="left")
    )
    at_boot_record = written.filter(pl.col("sector") == 0)["ts_ns"].max()
    flushed = staging.last_ns - images.WRITTEN_OUT_NS
    until = pl.max_horizontal(pl.lit(flushed, pl.Int64), pl.lit(at_boot_record, pl.Int64))
    agreed = _agreeing(cut.select(*old.columns, "path"), after)
    return [agreed.select(old.columns).with_columns(valid_to_ns=until, source=images.as_source("image_before"))]


def _changed(before: Filesystem, after: Filesystem) -> pl.Series:
    """The sectors in which the allocation tables of two images differ; none where they are not in the same place."""
    table = before.allocation
    if table is None or table != after.allocation:
        return pl.Series(dtype=pl.Int64)
    clusters = (before.nr_sectors - table.heap_sector) // table.cluster_sectors
    nr_sectors = -(-(table.first + clusters) * table.entry_bits // (units.SECTOR_BYTES * 8))
    one, other = (
        np.fromfile(image.image, np.uint8, nr_sectors * units.SECTOR_BYTES, offset=table.sector * units.SECTOR_BYTES)
        for image in (before, after)
    )
    if len(one) != len(other) or len(one) % units.SECTOR_BYTES:
        return pl.Series(dtype=pl.Int64)
    differs = (one != other).reshape(-1, units.SECTOR_BYTES).any(axis=1)
    return pl.Series(table.sector + np.flatnonzero(differs), dtype=pl.Int64)


def _written(block: pl.LazyFrame, dev: int) -> pl.DataFrame:
    """When each sector of a filesystem's device was written, as its bios tell: sector, ts_ns."""
    bios = block.filter(pl.col("rwbs").str.contains("W", literal=True) & (pl.col("nr_sectors") > 0))
    queued = bios.filter((pl.col("action") == "queue") & (pl.col("dev") == dev))
    # Bios of a partition are queued for the disk; the remap before tells what they were.
    remapped = bios.filter((pl.col("action") == "remap") & (pl.col("old_dev") == dev)).with_columns(sector="old_sector")
    sectors = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors")).alias("sector")
    return pl.concat([queued, remapped]).select("ts_ns", sectors).collect().explode("sector")


def _agreeing(extents: pl.DataFrame, image: Filesystem) -> pl.DataFrame:
    """The parts of the extents (with `path` and `start_of_file`) that the image has in the same place of that path."""
    of_image = images.identified_rows(image.extents.filter(pl.col("file_offset_bytes").is_not_null()))
    of_image = of_image.join(image.files.select("ino", image_path="path"), on="ino", maintain_order="left")
    cut = images.cut_by(extents, of_image)
    row = pl.Series(cut.row)
    place = row.set(row < 0, None)
    there = of_image.select(pl.col("image_path").gather(place), image_start=pl.col("start_of_file").gather(place))
    both = pl.concat([extents[cut.query], there], how="horizontal").with_columns(
        sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length)
    )
    return both.filter((pl.col("path") == pl.col("image_path")) & (pl.col("start_of_file") == pl.col("image_start")))


def typed_by_place(bios: pl.DataFrame, filesystems: list[Filesystem]) -> pl.DataFrame:
    """What bios tell (`bio_pages.extents`), with the type of the device's own pages as an image tells it.

    Outside of the metadata whose place mkfs fixed, only the directories of FAT and exFAT are kept as pages of the
    device. Without an image they are inferred to be metadata, which they all but the directories are.
    """
    is_device = (pl.col("block_type") == "metadata") & pl.col("ino").is_null() & (pl.col("source") == "context")
    own, others = bios.filter(is_device), bios.filter(~is_device)
    unnumbered = [image for image in filesystems if image.fs_type.startswith(UNNUMBERED)]
    if not unnumbered:
        return pl.concat([others, own.with_columns(source=images.as_source("inferred"))])
    fixed = unnumbered[0].extents.filter(images.is_fixed())
    directory = pl.lit("directory").cast(schema.enum("extents", "block_type"))
    return pl.concat([others, images.unmentioned(own, fixed).with_columns(block_type=directory)])


def confirmed(bios: pl.DataFrame, after: Filesystem | None, files: pl.DataFrame) -> pl.DataFrame:
    """What bios leave uncertain and the image after says too: the same path, at the same place in the file."""
    likely = bios.filter((pl.col("source") == "inferred") & pl.col("ino").is_not_null())
    if after is None or not after.fs_type.startswith(UNNUMBERED) or likely.is_empty():
        return bios.clear()
    paths = files.select("dev", "ino", "incarnation", "path").drop_nulls("path")
    named = images.identified_rows(likely).join(
        paths, on=["dev", "ino", "incarnation"], how="left", maintain_order="left"
    )
    offset = (pl.col("sector") - pl.col("start_of_file")) * units.SECTOR_BYTES
    context = images.as_source("context")
    return _agreeing(named, after).with_columns(file_offset_bytes=offset, source=context).select(bios.columns)
