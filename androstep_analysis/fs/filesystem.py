"""Define the result of every filesystem reader: extents, files, times and losses of an image."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.common.units import SECTOR_BYTES

HEAD_BYTES = 64
"""Bytes of a file that `Filesystem.heads` reads. The magic numbers in use are shorter."""


class AllocationTable(NamedTuple):
    """Location of the table of used clusters. No cluster changes its owner without a write to this table.

    The table begins at `sector` and has entries of `entry_bits`, none of which crosses a sector boundary. Entry
    `first` + n describes cluster n. The clusters begin at `heap_sector` and have `cluster_sectors` each. Sectors count
    from the start of the filesystem.
    """

    sector: int
    entry_bits: int
    first: int
    heap_sector: int
    cluster_sectors: int


@dataclass(frozen=True)
class Filesystem:
    """One filesystem as read from its image.

    Attributes
    ----------
    fs_type : str
        The kind of filesystem.
    image : Path
        The uncompressed image.
    block_bytes : int
        The block size.
    nr_sectors : int
        The size of the filesystem.
    uuid : str, optional
        The UUID or volume serial number.
    extents : DataFrame
        Table `extents`, sorted by sector, without gaps or overlaps from sector 0 to `nr_sectors`. Sectors count from
        the start of the filesystem. `incarnation` is always 0, because an image shows one instant.
    files : DataFrame
        Table `files`: one row for each inode in use, without the filesystem's own (journal, quota, …).
    times : DataFrame
        For the same inodes, `ino`, `generation`, `created_epoch_ns` (null if the inode has none) and
        `changed_epoch_ns` (st_ctime; null if the filesystem has none). All are Int64; the times are CLOCK_REALTIME.
    first_bytes : DataFrame
        The location in `image` at which the content of each file begins: `ino`, `offset_bytes` and `nr_bytes`, all
        Int64. Files have no row if they are empty, or begin with a hole or with unwritten preallocated blocks.
    losses : tuple of Loss
        The damage found.
    made_epoch_ns : int, optional
        The time at which mkfs ran. None if the filesystem does not record it.
    version : int, optional
        The number of the newest committed state, which only increases (ext3 and ext4: the journal's transaction; F2FS:
        the checkpoint). None for other filesystems.
    commits : DataFrame, optional
        `transaction` and `epoch_ns` (Int64) of every commit block in the journal. None without a journal.
    allocation : AllocationTable, optional
        Only for FAT16, FAT32 and exFAT. Other filesystems do not have one table at one location.
    """

    fs_type: str
    image: Path
    block_bytes: int
    nr_sectors: int
    uuid: str | None
    extents: pl.DataFrame
    files: pl.DataFrame
    times: pl.DataFrame
    first_bytes: pl.DataFrame
    losses: tuple[Loss, ...] = ()
    made_epoch_ns: int | None = None
    version: int | None = None
    commits: pl.DataFrame | None = None
    allocation: AllocationTable | None = None

    @property
    def dev(self) -> int:
        """The device, as in column `dev` of the tables."""
        return int(self.extents["dev"][0])

    def __repr__(self) -> str:
        return (
            f"<Filesystem {self.fs_type} {self.uuid or 'without uuid'}: {self.nr_sectors} sectors,"
            f" {self.block_bytes} B blocks, {self.extents.height} extents, {self.files.height} files,"
            f" {sum(loss.count for loss in self.losses)} lost>"
        )

    def heads(self, inos: Iterable[int]) -> pl.DataFrame:
        """Return the first bytes of files, for detecting their types: DataFrame(ino Int64, head Binary), in this order.

        `head` has at most `HEAD_BYTES` and is null for files without a row in `first_bytes`. `image` must still exist:
        a decompressed temporary one is removed at the end of its ``with`` statement.
        """
        requested = pl.DataFrame({"ino": pl.Series(list(inos), dtype=pl.Int64)})
        locations = requested.unique().join(self.first_bytes, on="ino").sort("offset_bytes")
        with self.image.open("rb") as file:
            contents = [
                os.pread(file.fileno(), length, offset)
                for offset, length in zip(locations["offset_bytes"], locations["nr_bytes"], strict=True)
            ]
        heads = locations.select("ino", head=pl.Series(contents, dtype=pl.Binary))
        return requested.join(heads, on="ino", how="left", maintain_order="left")


def lookup(filesystem: Filesystem, sectors: Iterable[int] | np.ndarray | pl.Series) -> pl.DataFrame:
    """Return type and file of each sector; `sectors` count from the start of the filesystem.

    The result has one row for each sector, in the same order: DataFrame(sector Int64, block_type Enum, subtype Enum,
    ino Int64, path String, file_type Enum, file_offset_bytes Int64). A sector outside of the filesystem is `unknown`.
    """
    requested = pl.Series("sector", sectors).cast(pl.Int64)
    extents = filesystem.extents
    row = np.searchsorted(extents["sector"].to_numpy(), requested.to_numpy(), side="right") - 1
    covering = extents.select("block_type", "subtype", "ino", "file_offset_bytes", start="sector")[np.maximum(row, 0)]
    inside = pl.col("sector").is_between(0, filesystem.nr_sectors, closed="left")
    unknown = pl.lit("unknown", dtype=extents.schema["block_type"])
    offset = pl.col("file_offset_bytes") + (pl.col("sector") - pl.col("start")) * SECTOR_BYTES
    located = covering.hstack([requested]).select(
        "sector",
        pl.when(inside).then("block_type").otherwise(unknown).alias("block_type"),
        *(pl.when(inside).then(name).alias(name) for name in ("subtype", "ino")),
        pl.when(inside).then(offset).alias("file_offset_bytes"),
    )
    files = filesystem.files.select("ino", "path", "file_type")
    return located.join(files, on="ino", how="left", maintain_order="left").select(
        "sector", "block_type", "subtype", "ino", "path", "file_type", "file_offset_bytes"
    )
