"""Distances between consecutive bios and consecutive requests of a device, as in btt (definitions.toml, seek)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.bio_steps import SEEKS, rows, sums
from androstep_analysis.measures.lost import Lost, length
from androstep_analysis.measures.measure import of_events
from androstep_analysis.measures.tables import Table, columns_as_rows, up_to_power

_NS_PER_S: Final = 1_000_000_000


def seeks(block_events: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """Return the number, rate and distance of seeks, between bios as they are queued and requests as they are issued.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, tid, action, sector, nr_sectors; in order of time.
    by : sequence of str
        Further columns to group by: dev, tid (the thread that queued the bio or issued the request).
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). A distance is left out if any lost time lies
        between its two bios or requests.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and step (Enum: Q2Q, D2D). Metrics count [bios, requests], seek_ratio [1] (share that is neither
        adjacent to the previous one on the device nor overlaps it), seek_rate [1/s] (such seeks per second from the
        first to the last of the group, without lost time; null if that time is 0), mean_distance and max_distance [B]
        (absolute values; 0 without a seek). `coverage` is the share that is not left out.

    References
    ----------
    ``schemas/definitions.toml``, seek; blktrace, btt.

    Examples
    --------
    >>> table = measures.seeks(capture.block_events)
    >>> table.filter(step="D2D", metric="count")["value"].item()
    3360.0
    """
    found = sums(rows(block_events, lost), [*by, "step"]).filter(pl.col("step").is_in(SEEKS), pl.col("n") > 0)
    seconds = (pl.col("last_ns") - pl.col("first_ns") - length("first_ns", "last_ns", lost)) / _NS_PER_S
    wide = found.select(
        *by,
        "n",
        "coverage",
        step=_step(),
        count=pl.col("n").cast(pl.Float64),
        seek_ratio=pl.col("above_0") / pl.col("n"),
        seek_rate=pl.when(seconds > 0).then(pl.col("above_0") / seconds),
        mean_distance=pl.col("total") / pl.col("n") * SECTOR_BYTES,
        max_distance=pl.col("max").cast(pl.Float64) * SECTOR_BYTES,
    )
    units = {"count": "seeks", "seek_ratio": "1", "seek_rate": "1/s", "mean_distance": "B", "max_distance": "B"}
    return columns_as_rows(wide, [*by, "step"], units)


def seek_distances(block_events: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """Return the number of bios and requests by their distance from the previous one on the device.

    Parameters
    ----------
    block_events : Table
        Table `block_events`, as for `seeks`.
    by : sequence of str
        Further columns to group by, as for `seeks`.
    lost : sequence of pairs of int or None
        Times in which events may be missing, as for `seeks`.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2Q, D2D) and distance_up_to_sectors (Int64). The latter is 0 if the two are
        adjacent or overlap, else a power of two, negative for backward seeks. The distance is longer than half of it
        and at most it. Metrics count [seeks] and count_ratio [1], the share of the step in the group. `coverage` is the
        share that is not left out.

    References
    ----------
    ``schemas/definitions.toml``, seek; blktrace, btt.

    Examples
    --------
    >>> table = measures.seek_distances(capture.block_events)
    >>> table.filter(step="D2D", metric="count")["value"].sum()
    3360.0
    """
    groups, distance = [*by, "step"], pl.col("value")
    up_to = pl.when(distance != 0).then(up_to_power(distance.abs()) * distance.sign()).otherwise(0)
    seeks = (batch.filter(pl.col("step").is_in(SEEKS)) for batch in rows(block_events, lost))
    dimensions = [*groups, "distance_up_to_sectors"]
    found = sums((batch.with_columns(distance_up_to_sectors=up_to) for batch in seeks), dimensions)
    count = pl.col("n").sum().over(groups)
    wide = found.with_columns(
        count="n", count_ratio=pl.col("n") / count, coverage=count / pl.col("seen").sum().over(groups), step=_step()
    )
    return columns_as_rows(wide.filter(pl.col("n") > 0), dimensions, {"count": "seeks", "count_ratio": "1"})


def _step() -> pl.Expr:
    return pl.col("step").str.strip_suffix(" seek").cast(pl.Enum(["Q2Q", "D2D"]))


SEEKS_BETWEEN: Final = of_events("distances between requests", seeks, is_of_order=True)

SEEK_DISTANCES: Final = of_events(
    "distances between requests, by size and direction",
    seek_distances,
    within=("step",),
    natural=("step", "distance_up_to_sectors"),
    is_of_order=True,
)
