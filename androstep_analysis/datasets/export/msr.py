"""Export to the CSV of the MSR Cambridge traces (SNIA IOTTA, Narayanan et al., FAST 2008), for simulators.

A row is ``Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`` without a header line: Windows file time (100
ns since 1601), the machine, the disk, Read or Write, bytes, bytes, and 100 ns (0: unknown).
"""

from __future__ import annotations

from typing import BinaryIO

import polars as pl

from androstep_analysis import measures
from androstep_analysis.capture import Capture
from androstep_analysis.common import csvfile, units
from androstep_analysis.datasets.export.batches import batches, write_lines
from androstep_analysis.measures.tables import device_time

UNIX_EPOCH = 116_444_736_000_000_000
"""1970-01-01 as a Windows file time."""


def write(capture: Capture, file: BinaryIO) -> None:
    """Write reads and writes in order of issue. Disks are numbered in order of `dev`.

    If the capture does not know the time of day, its clock is counted from 1970.
    """
    is_carried = pl.col("op").cast(pl.String).is_in(["read", "write"]) & pl.col("sector").is_not_null()
    requests = measures.counted(capture.requests).filter(is_carried & (pl.col("nr_sectors") > 0))
    devices = requests.select(pl.col("dev").unique().sort()).collect().to_series()
    disks = {int(dev): number for number, dev in enumerate(devices)}
    host = pl.select(csvfile.guarded(pl.lit(_host(capture)))).item()
    offset_ns = capture.about["realtime_offset_ns"] or 0
    ticks = (measures.order_ns() + offset_ns) // 100 + UNIX_EPOCH
    took = device_time(requests) // 100
    for batch in batches(requests):
        line = pl.concat_str(
            ticks.cast(pl.String),
            pl.lit(host),
            pl.col("dev").replace_strict(disks, return_dtype=pl.Int64).cast(pl.String),
            pl.when(pl.col("op").cast(pl.String) == "read").then(pl.lit("Read")).otherwise(pl.lit("Write")),
            (pl.col("sector") * units.SECTOR_BYTES).cast(pl.String),
            (pl.col("nr_sectors") * units.SECTOR_BYTES).cast(pl.String),
            took.fill_null(0).cast(pl.String),
            separator=",",
        )
        write_lines(batch.select(line).to_series(), file)


def _host(capture: Capture) -> str:
    """Return the device's name with characters replaced that would end a cell."""
    name = capture.facts["device"] or "unknown"
    return "".join("_" if character in ',"' or not character.isprintable() else character for character in name)
