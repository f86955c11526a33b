"""Build table `frames` from the frame timeline of a Perfetto trace."""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest.perfetto.packets import Clocks


def frames(events: pl.DataFrame, clocks: Clocks, boot_offset: int) -> tuple[pl.DataFrame, int]:
    """Return table `frames` in the trace clock, and the number of frames without a time in that clock.

    `events` is table `frame_events`, the begin and end packets decoded in C. `boot_offset` is CLOCK_BOOTTIME minus the
    trace clock. A frame ends with the next packet with its cookie, if that is an end. An end without a begin is
    ignored.
    """
    numbers = events["clock"].unique().to_list()
    offsets = {number: clocks.to_boot(number, 0) for number in numbers}
    related = [number for number in numbers if offsets[number] is not None]
    shifts = [offsets[number] for number in related]
    ordered = (
        events.with_columns(
            shift=pl.col("clock").replace_strict(related, shifts, default=None, return_dtype=pl.Int64) - boot_offset
        )
        .with_columns(ts_ns=pl.col("ts_ns") + pl.col("shift"))
        .sort("cookie", "place")
    )
    begins = pl.col("timeline").is_not_null()
    ended = pl.col("ts_ns").shift(-1).over("cookie", order_by="place")
    follows = ~begins.shift(-1).over("cookie", order_by="place")
    rows = ordered.with_columns(end_ns=pl.when(follows & (ended >= pl.col("ts_ns"))).then(ended)).filter(begins)
    timed = rows.filter(pl.col("ts_ns").is_not_null()).sort("ts_ns", "place")
    return schema.conform(timed.select(schema.table("frames").polars.names()), "frames"), rows.height - timed.height
