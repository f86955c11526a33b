"""FAT and exFAT keep no inode numbers on disk: what an image says of their files meets what the kernel's events say.

The kernel numbers a file when it loads it, an image's reader in its own way. The two are told apart by their numbers,
and brought together only where path and place in the file agree.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.fs import Filesystem
from androstep_analysis.link import images
from androstep_analysis.link.given import UNNUMBERED


def typed_by_place(bios: pl.DataFrame, filesystems: list[Filesystem]) -> pl.DataFrame:
    """What bios tell (`bio_pages.extents`), with the type of the device's own pages as an image tells it.

    Outside of the metadata whose place mkfs fixed, only the directories of FAT and exFAT are kept as pages of the
    device. Without an image they are inferred to be metadata, which they all but the directories are.
    """
    is_device = (pl.col("block_type") == "metadata") & pl.col("ino").is_null() & (pl.col("source") == "context")
    own, others = bios.filter(is_device), bios.filter(~is_device)
    known = [image for image in filesystems if image.fs_type.startswith(UNNUMBERED)]
    if not known:
        return pl.concat([others, own.with_columns(source=images.as_source("inferred"))])
    fixed = known[0].extents.filter(images.is_fixed())
    directory = pl.lit("directory").cast(schema.enum("extents", "block_type"))
    return pl.concat([others, images.unmentioned(own, fixed).with_columns(block_type=directory)])


def confirmed(bios: pl.DataFrame, after: Filesystem | None, files: pl.DataFrame) -> pl.DataFrame:
    """What bios leave uncertain and the image after says too: the same path, at the same place in the file."""
    likely = bios.filter((pl.col("source") == "inferred") & pl.col("ino").is_not_null())
    if after is None or not after.fs_type.startswith(UNNUMBERED) or likely.is_empty():
        return bios.clear()
    paths = files.select("dev", "ino", "incarnation", "path").drop_nulls("path")
    of_image = images.identified_rows(after.extents.filter(pl.col("block_type") == "data"))
    of_image = of_image.join(after.files.select("ino", image_path="path"), on="ino", maintain_order="left")
    cut = images.cut_by(likely, of_image)
    row = pl.Series(cut.row)
    there = of_image.select("image_path", image_start="start_of_file")[row.set(row < 0, None)]
    both = (
        pl.concat([images.identified_rows(likely)[cut.query], there], how="horizontal")
        .with_columns(sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length))
        .join(paths, on=["dev", "ino", "incarnation"], how="left", maintain_order="left")
    )
    agrees = (pl.col("path") == pl.col("image_path")) & (pl.col("start_of_file") == pl.col("image_start"))
    offset = (pl.col("sector") - pl.col("start_of_file")) * units.SECTOR_BYTES
    context = images.as_source("context")
    return both.filter(agrees).with_columns(file_offset_bytes=offset, source=context).select(bios.columns)
