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
    """Requests and bytes by any columns of table `io`.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns.
    by : sequence of str
        The columns to group by: ``("owner_comm",)`` answers which process, ``("path",)`` which file.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and op (Enum). Metrics count [requests] and bytes [B]. Bytes on which a dimension is unknown
        stand in rows with a null there.

    Examples
    --------
    >>> measures.volume(capture.io, by=()).filter(metric="count", op="read")["value"].item()
    796.0
    """
    dimensions = [*by, "op"]
    pieces = counted(io).filter(pl.col("bytes") > 0)
    groups = pieces.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    known = pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in by))
    return ordered(with_known_share(tidy(groups, dimensions), pieces, known), dimensions)


def rate(requests: Table, *, bin_ns: int = NS_PER_S) -> pl.DataFrame:
    """Requests and bytes per second over time.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    bin_ns : int
        Length of a bin, in ns.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the bin) and op (Enum). Metrics iops [1/s] and bandwidth [B/s]; a bin in which
        nothing of an operation was done is a row with 0, so that a line drawn through the rows is true.

    Raises
    ------
    ValueError
        For a bin that has no length, and for more than `MOST_BINS`.

    References
    ----------
    ``schemas/definitions.toml``, rate.

    Examples
    --------
    >>> table = measures.rate(capture.requests)
    >>> table.filter(metric="iops", op="read")["value"].sum()
    796.0
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
    """Running sum of sequential and random I/O.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, sector, nr_sectors, op, queue_ns, issue_ns, complete_ns.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64), op (Enum) and class (String: sequential, which is consecutive, and random). Metric
        cumulative_bytes [B], a row per request that carries data.

    References
    ----------
    ``schemas/definitions.toml``, cumulative; Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.

    Examples
    --------
    >>> measures.cumulative(capture.requests).height
    3353
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
