"""Bursts of each app: runs of requests without a longer pause (definitions.toml, app_burst)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import NS_PER_S, SECTOR_BYTES
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.lost import Lost
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import REQUEST, of_requests, summed
from androstep_analysis.measures.queue import periods
from androstep_analysis.measures.tables import Table, columns_as_rows, counted, up_to_power

GAP_NS = NS_PER_S
"""One second: longer than a device takes for a request, and shorter than the 5 s after which kernels write back and
ext4 commits."""

BY = ("owner_comm",)

_PERIODS = pl.Enum(["burst", "gap", "cut"])


def bursts(io: Table, *, by: Sequence[str] = BY, gap_ns: int = GAP_NS, lost: Lost = ()) -> pl.DataFrame:
    """Return the bursts in which an app does its I/O, and the gaps between them, by duration.

    Parameters
    ----------
    io : Table
        Table `io` (or `requests`): request_id, dev, op, nr_sectors, issue_ns, complete_ns.
    by : sequence of str
        The columns that identify the app, such as owner_comm or owner_package, or submit_comm of `requests`. Requests
        without a known owner are one group, with a null.
    gap_ns : int
        The longest gap (ns) within a burst.
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). Bursts that reach into them are counted as cut.

    Returns
    -------
    polars.DataFrame
        Dimensions dev, `by`, period (Enum: burst, gap, cut) and duration_up_to_ns (Int64, a power of two: longer than
        half of it and at most it). Metrics periods [count], requests, bytes [B] (read and written), time [ns],
        time_ratio [1], of the time of all whole bursts and gaps, and bytes_ratio [1], of the bytes of the group. Gaps
        have no requests. Rows of period cut have the requests and bytes outside of whole bursts, and no duration.
        `coverage` is the share of the bytes of the group in whole bursts. `n` is the number of requests, for gaps that
        of gaps.

    Raises
    ------
    ValueError
        If `gap_ns` is negative.

    References
    ----------
    ``schemas/definitions.toml``, app_burst. `perceived.bursts` returns the bursts of all I/O, with the times in which a
    user waits.

    Examples
    --------
    >>> table = measures.bursts(capture.io, gap_ns=10**8)
    >>> table.filter(metric="periods", period="burst", owner_comm=".example.mail")["value"].sum()
    8.0
    """
    if gap_ns < 0:
        raise ValueError(f"gap_ns is {gap_ns}: it must be at least 0 ns")
    groups = ["dev", *(name for name in by if name != "dev")]
    data = pl.col("op").cast(pl.String).is_in(["read", "write"])
    rows = counted(io).with_columns(bytes=pl.when(data).then("nr_sectors").otherwise(0) * SECTOR_BYTES)
    dimensions = [*groups, "period", "duration_up_to_ns"]
    whole = summed(
        (
            part.with_columns(
                pl.col("period").replace_strict({"busy": "burst", "idle": "gap"}, return_dtype=_PERIODS),
                duration_up_to_ns=up_to_power(pl.col("time").clip(1)),
            )
            .group_by(dimensions)
            .agg(pl.col("time", "requests", "bytes").sum(), periods=pl.len().cast(pl.Int64))
            for part in periods(rows, groups, lost, gap_ns=gap_ns, sums=["bytes"])
        ),
        dimensions,
    )
    total = of_requests(rows, groups, requests=pl.col(REQUEST).n_unique().cast(pl.Int64), bytes=pl.col("bytes").sum())
    found = pl.concat([whole, _cut(whole, total, groups)], how="diagonal").join(
        total.select(*groups, all_bytes="bytes"), on=groups, how="left", nulls_equal=True
    )
    is_gap, is_whole = pl.col("period") == "gap", pl.col("period") != "cut"
    all_bytes = pl.when(pl.col("all_bytes") > 0).then("all_bytes")
    wide = found.with_columns(
        pl.when(~is_gap).then(pl.col("requests", "bytes")),
        n=pl.when(is_gap).then("periods").otherwise("requests"),
        # Without a whole burst, the time between the cut ones would count as a gap.
        time_ratio=pl.when(pl.col("periods").filter(pl.col("period") == "burst").sum().over(groups) > 0).then(
            pl.col("time") / pl.col("time").sum().over(groups)
        ),
        bytes_ratio=pl.when(~is_gap).then(pl.col("bytes") / all_bytes),
        coverage=pl.col("bytes").filter(is_whole).sum().over(groups) / all_bytes,
    )
    units = {"periods": "count", "requests": "requests", "bytes": "B", "time": "ns"}
    table = columns_as_rows(wide, dimensions, {**units, "time_ratio": "1", "bytes_ratio": "1"})
    return with_inferred(table.filter(pl.col("value").is_not_null()), io)


def _cut(whole: pl.DataFrame, total: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Return the requests and bytes of each group outside of whole bursts, if there are any."""
    counts = pl.col("requests", "bytes")
    return (
        pl.concat([total, whole.select(*groups, -counts)])
        .group_by(groups)
        .agg(counts.sum())
        .filter(pl.col("requests") > 0)
        .with_columns(period=pl.lit("cut", _PERIODS))
    )


BURSTS: Final = Measure(
    "runs of requests of each process or app",
    ("io",),
    lambda t, by, recording: bursts(t["io"], by=by, lost=recording.lost),
    own=("dev",),
    by=BY,
    has_windows=False,
    asks_recording=True,
    natural=("period", "duration_up_to_ns"),
)
