"""How much, by whom, and when."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.locality import classify
from androstep_analysis.measures.tables import Table, counted, ordered, tidy, with_known_share
from androstep_analysis.units import SECTOR_BYTES

NS_PER_S = 1_000_000_000

MOST_BINS = 1_000_000
"""As many bins of three operations take 1.1 GB; without a limit a mistaken unit takes all memory there is."""


def volume(io: Table, *, by: Sequence[str] = ("owner_comm",)) -> pl.DataFrame:
    """Requests and bytes by any columns of table `io`; dimensions `by` and `op`. Metrics count and bytes.

    ``by=("owner_comm",)`` answers which process, ``by=("path",)`` which file. Bytes on which a dimension is unknown
    stand in rows with a null there.
    """
    dimensions = [*by, "op"]
    pieces = counted(io).filter(pl.col("bytes") > 0)
    groups = pieces.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    known = pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in by))
    return ordered(with_known_share(tidy(groups, dimensions), pieces, known), dimensions)


def rate(requests: Table, *, bin_ns: int = NS_PER_S) -> pl.DataFrame:
    """Requests and bytes per second over time; dimensions `ts_ns` (Int64, start of the bin) and `op`.

    Takes table `requests`. Metrics iops [1/s] and bandwidth [B/s]; a bin in which nothing of an operation was done
    is a row with 0, so that a line drawn through the rows is true. Raises `ValueError` for a bin that has no length
    and for more than `MOST_BINS`.
    """
    if bin_ns <= 0:
        raise ValueError(f"bin_ns is {bin_ns}: a bin must be at least 1 ns long")
    done = pl.coalesce("complete_ns", "issue_ns", "queue_ns")
    rows = counted(requests).filter(pl.col("nr_sectors") > 0).with_columns(bin=done // bin_ns)
    sums = (
        rows.group_by("bin", "op")
        .agg(n=pl.len().cast(pl.Int64), bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES)
        .collect()
    )
    (count,) = sums.select(pl.col("bin").max() - pl.col("bin").min() + 1).row(0)  # null where there is no row
    if count is not None and count > MOST_BINS:
        raise ValueError(f"{count:,} bins of {bin_ns:,} ns are too many; take longer ones")
    bins = (
        sums.select(pl.int_range(pl.col("bin").min(), pl.col("bin").max() + 1)) if sums.height else sums.select("bin")
    )
    full = bins.join(sums.select("op").unique(), how="cross").join(sums, on=["bin", "op"], how="left")
    full = full.with_columns(pl.col("n", "bytes").fill_null(0))
    seconds = bin_ns / NS_PER_S
    full = full.with_columns(ts_ns=pl.col("bin") * bin_ns, coverage=pl.lit(1.0))
    parts = [
        full.with_columns(metric=pl.lit(metric), value=pl.col(column) / seconds, unit=pl.lit(unit))
        for metric, column, unit in (("iops", "n", "1/s"), ("bandwidth", "bytes", "B/s"))
    ]
    return ordered(pl.concat(parts), ["ts_ns", "op"])


def cumulative(requests: Table) -> pl.DataFrame:
    """Running sum of sequential and random I/O; dimensions `ts_ns` (Int64), `op`, `class` (sequential, random).

    Takes table `requests`. Metric cumulative_bytes, a row per request; sequential is consecutive (definitions.toml,
    cumulative; Kim et al., Figure 6).
    """
    kind = pl.when("consecutive").then(pl.lit("sequential")).otherwise(pl.lit("random")).alias("class")
    rows = classify(requests).sort("time_ns", "request_id").with_columns(kind, ts_ns=pl.col("time_ns"))
    sums = rows.with_columns(
        value=pl.col("bytes").cum_sum().over("op", "class").cast(pl.Float64),
        n=pl.int_range(1, pl.len() + 1).over("op", "class").cast(pl.Int64),
        metric=pl.lit("cumulative_bytes"),
        unit=pl.lit("B"),
        coverage=pl.lit(1.0),
    )
    return ordered(sums.collect(), ["ts_ns", "op", "class"])
