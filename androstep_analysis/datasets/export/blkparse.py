"""Export the text that blkparse prints by default (blktrace: blkparse_fmt.c, ``process_default``).

The source is table block_events, which lacks some fields: sequence numbers are counted anew for each CPU, unplugs have
no number of requests, requeues have error 0, and a thread without a name is called ``(null)``, as in blkparse. Events
without a letter in blkparse (merges of requests) have no line. No summary is printed.
"""

from __future__ import annotations

from typing import BinaryIO

import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common import units
from androstep_analysis.datasets.export.batches import batches, decimal, major, minor, one_field, write_lines, zeros
from androstep_analysis.ingest.block.blkparse import ACTIONS

LETTERS = {action: letter for letter, action in ACTIONS.items() if len(letter) == 1}
"""blkparse's letter of each action."""

_WRAP_NS = 1_266_874_889_709_551_616
"""2^64 ns as blkparse prints it: times before the start become unsigned, and seconds are truncated to 32 bits."""

_NO_SECTOR = (1 << 64) - 1


def write(capture: Capture, file: BinaryIO) -> None:
    """Write a line per block event, in order of time."""
    events = capture.block_events.filter(_action().is_in(list(LETTERS)))
    printed: dict[int, int] = {}
    for batch in batches(events):
        of_cpu = pl.int_range(1, pl.len() + 1).over("cpu")
        before = pl.col("cpu").replace_strict(printed, default=0, return_dtype=pl.Int64)
        numbered = batch.with_columns(pl.col("cpu").fill_null(0), act=_letter()).with_columns(sequence=of_cpu + before)
        printed |= dict(numbered.group_by("cpu").agg(pl.col("sequence").max()).iter_rows())
        write_lines(numbered.select(pl.concat_str(_head(), _tail())).to_series(), file)


def _action() -> pl.Expr:
    return pl.col("action").cast(pl.String)


def _letter() -> pl.Expr:
    """Return the letters of the action. Only the recorder's event name identifies an unplug by timer."""
    letter = _action().replace_strict(LETTERS, default=None, return_dtype=pl.String)
    return pl.when(pl.col("event") == "UT").then(pl.lit("UT")).otherwise(letter)


def _head() -> pl.Expr:
    dev = pl.col("dev").fill_null(0)
    time = pl.when(pl.col("ts_ns") < 0).then(pl.col("ts_ns") + _WRAP_NS).otherwise("ts_ns")
    return pl.format(
        "{},{} {} {} {}.{} {} {} {} ",
        decimal(major(dev), 3),
        minor(dev).cast(pl.String).str.pad_end(3),
        decimal(pl.col("cpu"), 2),
        decimal(pl.col("sequence"), 8),
        decimal(time // 1_000_000_000, 5),
        zeros(time % 1_000_000_000, 9),
        decimal(pl.col("tid").fill_null(0), 5),
        pl.col("act").str.pad_start(2),
        one_field(pl.col("rwbs").fill_null("N")).str.pad_start(3),
    )


def _tail() -> pl.Expr:
    act = pl.col("act")
    sector = pl.col("sector").cast(pl.String).fill_null(str(_NO_SECTOR))
    length = pl.col("nr_sectors")
    name = pl.format("[{}]", one_field(pl.col("comm").fill_null("(null)")))
    error = pl.format("[{}]", pl.col("error").fill_null(0))
    place = pl.format("{} + {} ", sector, length)
    is_passthrough = pl.col("sector").is_null() & (length.is_null() | (length > 0))
    old_dev = pl.col("old_dev").fill_null(0)
    came_from = pl.format(
        "<- ({},{}) {}",
        major(old_dev),
        minor(old_dev),
        pl.col("old_sector").fill_null(0),
    )
    return (
        pl.when(act.is_in(["P", "U", "UT"]))
        .then(name)
        .when(act == "A")
        .then(pl.format("{} + {} {}", sector, length.fill_null(0), came_from))
        .when(act == "X")  # the sector of the split, of which blkparse prints 32 bits
        .then(pl.format("{} / {} {}", sector, (pl.col("sector") + length).fill_null(0) % (1 << 32), name))
        .when(act.is_in(["C", "R"]))
        .then(
            pl.when(is_passthrough)
            .then(error)
            .when(length > 0)
            .then(pl.concat_str(place, error))
            .otherwise(pl.format("{} {}", sector, error))
        )
        .when(is_passthrough & length.is_not_null())
        .then(pl.format("{} {}", length * units.SECTOR_BYTES, name))
        .when(length > 0)
        .then(pl.concat_str(place, name))
        .otherwise(name)
    )
