"""Mark the I/O of swap spaces. It moves memory of processes, so a write is not of the process that reclaimed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from androstep_analysis.common import schema, units

_LARGEST_PAGE: Final = 1 << 16
"""Of every architecture, in bytes."""

_OWNER: Final = ("owner_pid", "owner_tid", "owner_comm", "owner_package", "owner_percent")


class Swap:
    """The swap spaces that were in use during the whole recording (rows of the manifest: dev, path, ino).

    Their first page is not one: it has the header, and the kernel never swaps to it.
    """

    def __init__(self, spaces: Iterable[Mapping[str, Any]], page_bytes: int | None) -> None:
        self._header_sectors = (page_bytes or _LARGEST_PAGE) // units.SECTOR_BYTES
        rows = [(units.parse_dev(space["dev"]), space.get("ino")) for space in spaces]
        self._devices = [dev for dev, ino in rows if ino is None]
        files = [row for row in rows if row[1] is not None]
        table = pl.DataFrame(files, schema={"dev": pl.UInt32, "ino": pl.Int64}, orient="row")
        self._files = table.to_struct("file")
        self._is_any = bool(rows)

    def mark_requests(self, requests: pl.DataFrame, pieces: pl.DataFrame) -> pl.DataFrame:
        """Return the requests with `swap` set where all of their `pieces` are in swap spaces."""
        if not self._is_any:
            return requests
        all_swap = pieces.group_by("request_id").agg(is_swap=self._is_swap().all())
        of_swap = all_swap.filter("is_swap")["request_id"]
        is_swap = pl.col("request_id").is_in(of_swap.implode())
        return requests.with_columns(swap=pl.when(is_swap).then(True).otherwise("swap"))

    def without_writers(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Return the pieces; the owner of memory that is swapped out is unknown."""
        if not self._is_any:
            return pieces
        is_written = (self._is_swap() & (pl.col("op") == "write")).fill_null(False)
        unknown = pl.lit("unknown").cast(schema.enum("io", "owner_via"))
        return pieces.with_columns(
            *(pl.when(~is_written).then(name).alias(name) for name in _OWNER),
            owner_count=pl.when(is_written).then(0).otherwise("owner_count"),
            owner_via=pl.when(is_written).then(unknown).otherwise("owner_via"),
        )

    def _is_swap(self) -> pl.Expr:
        """Return whether a piece is in a swap space. An inferred file does not prove it."""
        is_moved = pl.col("op").is_in(["read", "write"]) & (pl.col("nr_sectors") > 0)
        is_on_device = pl.col("part_dev").is_in(self._devices) & (pl.col("part_sector") >= self._header_sectors)
        file = pl.struct(dev="part_dev", ino="ino")
        is_of_file = file.is_in(self._files.implode()) & (pl.col("map_source") != "inferred")
        is_of_file &= (pl.col("file_offset_bytes") >= self._header_sectors * units.SECTOR_BYTES).fill_null(False)
        return (is_moved & (is_on_device | is_of_file.fill_null(False))).fill_null(False)
