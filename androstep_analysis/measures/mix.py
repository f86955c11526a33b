"""Reads, writes and the rest: how many, how large, with which flags."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import Table, counted, known_share, ordered, shares, tidy
from androstep_analysis.units import SECTOR_BYTES


def mix(requests: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Requests and bytes by operation; dimensions `by` and `op`. Takes table `requests`.

    Metrics count, bytes, count_ratio and bytes_ratio (within each `by` group); empty flushes stand as op flush with no
    bytes, and the ratios are of requests that carry data.
    """
    dimensions = [*by, "op"]
    groups = counted(requests).group_by(dimensions).agg(count=pl.len(), bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES)
    table = tidy(groups, dimensions, coverage=1.0)
    data = shares(table.filter(pl.col("op") != "flush"), dimensions, within=list(by))
    return ordered(pl.concat([data, table.filter(pl.col("op") == "flush")]), dimensions)


def sizes(requests: Table) -> pl.DataFrame:
    """Requests by size; dimensions `op`, `size_bytes` (Int64). Metric count. Takes table `requests`."""
    return _counts(
        counted(requests).filter(pl.col("nr_sectors") > 0).with_columns(size_bytes=pl.col("nr_sectors") * SECTOR_BYTES),
        ["op", "size_bytes"],
        coverage=1.0,
    )


def rwbs(requests: Table) -> pl.DataFrame:
    """Requests by their operation and flag letters as recorded; dimension `rwbs`. Metric count."""
    rows = counted(requests).with_columns(bytes=pl.col("nr_sectors") * SECTOR_BYTES)
    return _counts(rows, ["rwbs"], known_share(rows, pl.col("rwbs").is_not_null()))


def _counts(requests: pl.LazyFrame, dimensions: list[str], coverage: float | None) -> pl.DataFrame:
    rows = requests.group_by(dimensions).agg(n=pl.len().cast(pl.Int64)).collect()
    named = rows.with_columns(
        metric=pl.lit("count"),
        value=pl.col("n").cast(pl.Float64),
        unit=pl.lit("requests"),
        coverage=pl.lit(coverage, pl.Float64),
    )
    return ordered(named, dimensions)
