"""What every filesystem reader returns: the map of an image (extents), its files, and what could not be read."""

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
"""How much of a file `Filesystem.heads` reads: the magic numbers in use are shorter."""


class AllocationTable(NamedTuple):
    """Where a filesystem keeps which clusters are in use, so that no cluster changes hands without a write there.

    Cluster n of those that begin at `heap_sector`, each of `cluster_sectors`, is entry `first` + n of `entry_bits` of
    the table at `sector`; sectors count from the start of the filesystem. No entry lies in two sectors.
    """

    sector: int
    entry_bits: int
    first: int
    heap_sector: int
    cluster_sectors: int


@dataclass(frozen=True)
class Filesystem:
    """One filesystem as its image tells it.

    `extents` (table `extents`) covers the filesystem from sector 0 to `nr_sectors` without gap or overlap, sorted by
    sector; sectors count from the start of the filesystem. `files` (table `files`) has a row per inode in use,
    without the filesystem's own (journal, quota, …). `times` has `ino` Int64, `generation` Int64, `created_epoch_ns`
    Int64 (null where the inode has none) and `changed_epoch_ns` Int64 (st_ctime; null where the filesystem has none),
    both of CLOCK_REALTIME, for the same inodes. An image shows one instant, so that `incarnation` is 0 throughout.
    `losses` tells the damage found.

    `first_bytes` says where in `image` the content of a file begins: `ino` Int64, `offset_bytes` Int64, `nr_bytes`
    Int64; no row for files that are empty or begin with a hole or with preallocated, never written blocks.

    `made_epoch_ns` is when mkfs ran, `version` the number of the newest state that the filesystem committed (ext3 and
    ext4: the journal's transaction; F2FS: the checkpoint), which only rises. `commits` has `transaction` Int64 and
    `epoch_ns` Int64 of every commit block in the journal. Null where the filesystem keeps no such thing.
    `allocation` is null where it is not one table in one place (all but FAT16, FAT32 and exFAT).
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
        """The device it is on, as column `dev` of its tables has it."""
        return int(self.extents["dev"][0])

    def __repr__(self) -> str:
        return (
            f"<Filesystem {self.fs_type} {self.uuid or 'without uuid'}: {self.nr_sectors} sectors,"
            f" {self.block_bytes} B blocks, {self.extents.height} extents, {self.files.height} files,"
            f" {sum(loss.count for loss in self.losses)} lost>"
        )

    def heads(self, inos: Iterable[int]) -> pl.DataFrame:
        """The first bytes of files, for telling their type: DataFrame(ino Int64, head Binary), in the order asked.

        At most `HEAD_BYTES`; null where `first_bytes` has no row. Reads `image`, which must still be there (an
        unpacked temporary one is gone after its ``with``).
        """
        requested = pl.DataFrame({"ino": pl.Series(list(inos), dtype=pl.Int64)})
        places = requested.unique().join(self.first_bytes, on="ino").sort("offset_bytes")
        with self.image.open("rb") as file:
            contents = [
                os.pread(file.fileno(), length, offset)
                for offset, length in zip(places["offset_bytes"], places["nr_bytes"], strict=True)
            ]
        heads = places.select("ino", head=pl.Series(contents, dtype=pl.Binary))
        return requested.join(heads, on="ino", how="left", maintain_order="left")


def lookup(filesystem: Filesystem, sectors: Iterable[int] | np.ndarray | pl.Series) -> pl.DataFrame:
    """What each sector holds; `sectors` count from the start of the filesystem.

    DataFrame(sector Int64, block_type Enum, subtype Enum, ino Int64, path String, file_type Enum, file_offset_bytes
    Int64), one row per given sector in the given order. A sector outside of the filesystem is `unknown`.
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
