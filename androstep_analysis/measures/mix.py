"""Requests by operation, size and flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.tables import Table, counted, known_share, ordered, shares, tidy


def mix(requests: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return requests and bytes by operation.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, issue_ns, complete_ns.
    by : sequence of str
        Further columns of `requests` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and op (Enum). Metrics count [requests], bytes [B], count_ratio and bytes_ratio [1] (within each
        `by` group). Empty flushes are op flush, with no bytes. The ratios are of requests that carry data.

    References
    ----------
    ``schemas/definitions.toml``, counted.

    Examples
    --------
    >>> measures.mix(capture.requests).filter(metric="count", op="write")["value"].item()
    2335.0
    """
    dimensions = [*by, "op"]
    groups = counted(requests).group_by(dimensions).agg(count=pl.len(), bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES)
    table = tidy(groups.collect(), dimensions, coverage=1.0)
    data = shares(table.filter(pl.col("op") != "flush"), dimensions, within=list(by))
    return ordered(pl.concat([data, table.filter(pl.col("op") == "flush")]), dimensions)


def sizes(requests: Table) -> pl.DataFrame:
    """Return requests by size.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, issue_ns, complete_ns.

    Returns
    -------
    polars.DataFrame
        Dimensions op (Enum) and size_bytes (Int64). Empty flushes are left out. Metric count [requests].

    Examples
    --------
    >>> measures.sizes(capture.requests)["size_bytes"].min()
    4096
    """
    return _counts(
        counted(requests).filter(pl.col("nr_sectors") > 0).with_columns(size_bytes=pl.col("nr_sectors") * SECTOR_BYTES),
        ["op", "size_bytes"],
        coverage=1.0,
    )


def rwbs(requests: Table) -> pl.DataFrame:
    """Return requests by their operation and flag letters as recorded.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, rwbs, issue_ns, complete_ns.

    Returns
    -------
    polars.DataFrame
        Dimension rwbs (String). Metric count [requests].

    References
    ----------
    Linux kernel/trace/blktrace.c, blk_fill_rwbs.

    Examples
    --------
    >>> measures.rwbs(capture.requests).filter(rwbs="FF")["value"].item()
    1195.0
    """
    rows = counted(requests)
    size = pl.col("nr_sectors") * SECTOR_BYTES
    sums = rows.select(bytes=size.sum(), known=size.filter(pl.col("rwbs").is_not_null()).sum())
    return _counts(rows, ["rwbs"], known_share(sums.collect()))


def _counts(requests: pl.LazyFrame, dimensions: list[str], coverage: float | None) -> pl.DataFrame:
    rows = requests.group_by(dimensions).agg(n=pl.len().cast(pl.Int64)).collect()
    named = rows.with_columns(
        metric=pl.lit("count"),
        value=pl.col("n").cast(pl.Float64),
        unit=pl.lit("requests"),
        coverage=pl.lit(coverage, pl.Float64),
    )
    return ordered(named, dimensions)


MIX: Final = Measure("operations", ("requests",), lambda t, by: mix(t["requests"], by=by), own=("op",), within=())

RATE: Final = Measure(
    "requests and bytes per second",
    ("requests",),
    lambda t, by: mix(t["requests"], by=by),
    own=("op",),
    is_rate=True,
    worse="higher",
)
