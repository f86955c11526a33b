"""Read the log of a disk: all writes that reached it, in the format of the kernel's dm-log-writes.

Definition: Linux, Documentation/admin-guide/device-mapper/log-writes.rst. `disklog` and QEMU's blklogwrites write it.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

MAGIC = 0x6A736677736872
DISCARD = 4
MARK = 8
SECTOR_BYTES = 512


class DevLog(NamedTuple):
    """Columns of `entries`: entry, sector, nr_sectors, flags, position (byte of the data in `content`)."""

    entries: pl.DataFrame
    content: np.ndarray


def read(path: Path) -> DevLog:
    """Read the whole log, in the order in which the disk received the requests."""
    content = np.memmap(path, np.uint8, "r")
    magic, version, nr_entries, sector_bytes = struct.unpack_from("<QQQI", content)
    if (magic, version, sector_bytes) != (MAGIC, 1, SECTOR_BYTES):
        raise ValueError(f"{path}: no log of writes in sectors of {SECTOR_BYTES} bytes")
    rows = []
    at = SECTOR_BYTES
    for entry in range(nr_entries):
        sector, nr_sectors, flags, data_bytes = struct.unpack_from("<QQQQ", content, at)
        at += SECTOR_BYTES
        rows.append((entry, sector, nr_sectors, flags, at))
        at += data_bytes if flags & MARK else 0 if flags & DISCARD else nr_sectors * SECTOR_BYTES
    schema = dict.fromkeys(("entry", "sector", "nr_sectors", "flags", "position"), pl.Int64)
    return DevLog(pl.DataFrame(rows, schema=schema, orient="row"), content)


def mark(log: DevLog, byte: int, text: str) -> int:
    """Return the entry of the mark `text`, which the workload wrote at `byte` of the disk."""
    marks = log.entries.filter(pl.col("sector") == byte // SECTOR_BYTES, pl.col("flags") & DISCARD == 0)
    for entry, position in marks.select("entry", "position").iter_rows():
        if bytes(log.content[position : position + len(text) + 1]) == text.encode() + b"\0":
            return int(entry)
    raise ValueError(f"no mark {text} in the log of the disk")


def sectors(log: DevLog, first: int, last: int) -> pl.DataFrame:
    """Return a row for each sector that entries first .. last - 1 wrote: entry, sector, position."""
    written = log.entries.filter(
        pl.col("entry").is_between(first, last, closed="left"), pl.col("flags") & (DISCARD | MARK) == 0
    )
    inside = pl.int_ranges(0, "nr_sectors").alias("inside")
    return (
        written.with_columns(inside)
        .explode("inside", empty_as_null=False, keep_nulls=False)
        .select(
            "entry",
            sector=pl.col("sector") + pl.col("inside"),
            position=pl.col("position") + pl.col("inside") * SECTOR_BYTES,
        )
    )


def as_sectors(content: np.ndarray) -> np.ndarray:
    """Return bytes as rows of one sector each."""
    whole = len(content) // SECTOR_BYTES * SECTOR_BYTES
    return content[:whole].reshape(-1, SECTOR_BYTES)


def image_at(log: DevLog, last: int, base: Path, out: Path) -> None:
    """Write the image of the disk before entry `last`, beginning with `base`."""
    subprocess.run(["cp", "--sparse=always", base, out], check=True)
    with out.open("r+b") as image:
        for _, sector, nr_sectors, flags, position in log.entries.filter(pl.col("entry") < last).iter_rows():
            length = nr_sectors * SECTOR_BYTES
            image.seek(sector * SECTOR_BYTES)
            if not flags & MARK:
                image.write(bytes(length) if flags & DISCARD else log.content[position : position + length])
