"""How far apart lies what follows each other on a device, as btt has it (definitions.toml, seek)."""

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
    """How far apart what follows each other on a device lies, as bios are queued and as requests are issued.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, tid, action, sector, nr_sectors; in order of time.
    by : sequence of str
        What else to group by: dev, tid (the thread that queued or issued it).
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`): left out is what has any of it
        between itself and what came before.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and step (Enum: Q2Q, D2D). Metrics count [bios, requests], seek_ratio [1] (share that does not
        touch or overlap what came before it on the device), seek_rate [1/s] (such seeks per second, between the first
        and the last of the group, without lost time; none where that is no time), mean_distance and max_distance [B]
        (of all, those without a seek being 0, and those backward as far as those forward). `coverage` is the share of
        those seen that are not left out.

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
    """How many bios and requests lie how far behind or before what came before them on the device.

    Parameters
    ----------
    block_events : Table
        Table `block_events`, as `seeks` takes it.
    by : sequence of str
        What else to group by, as `seeks` takes it.
    lost : sequence of pairs of int or None
        Times in which events may be missing, as `seeks` takes them.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2Q, D2D) and distance_up_to_sectors (Int64: 0 where it touches or overlaps what
        came before; else a power of two, below 0 backward: of a distance longer than half of it and at most it).
        Metrics count [seeks] and count_ratio [1], the share of the step in the group. `coverage` is the share of those
        seen that are not left out.

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


SEEKS_BETWEEN: Final = of_events("distances between requests", seeks)

SEEK_DISTANCES: Final = of_events(
    "how far forward and backward requests lie",
    seek_distances,
    within=("step",),
    natural=("step", "distance_up_to_sectors"),
)
