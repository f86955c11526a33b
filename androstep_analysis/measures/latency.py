"""How long requests waited and how long the device took (definitions.toml, latency)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import Table, counted, ordered
from androstep_analysis.units import SECTOR_BYTES

STEPS = {"Q2D": ("queue_ns", "issue_ns"), "D2C": ("issue_ns", "complete_ns"), "Q2C": ("queue_ns", "complete_ns")}

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def latency(requests: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Quantiles of latency.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    by : sequence of str
        Further columns of `requests` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2D, D2C, Q2C), op and quantile (Enum: min, p50, p90, p99, p99.9, max, mean).
        Metric latency [ns]. `n` is the number of requests with both ends of the step, `coverage` their share of the
        bytes of the operation and `by` group. Quantiles are the nearest rank: the smallest value that at least this
        share of the requests did not exceed, which is one that occurred.

    References
    ----------
    ``schemas/definitions.toml``, latency; blktrace, btt.

    Examples
    --------
    >>> table = measures.latency(capture.requests)
    >>> table.filter(step="Q2D", op="read", quantile="p50")["value"].item()
    822.0
    """
    span = pl.col("span")
    groups = [*by, "step", "op"]
    rows = (
        _spans(requests, by)
        .group_by(groups)
        .agg(
            n=pl.len().cast(pl.Int64),
            coverage=pl.col("bytes").sum() / pl.col("all_bytes").first(),
            min=span.min().cast(pl.Float64),
            **{name: span.quantile(q, "equiprobable").cast(pl.Float64) for name, q in QUANTILES.items()},
            max=span.max().cast(pl.Float64),
            mean=span.mean(),
        )
        .collect()
    )
    names = ["min", *QUANTILES, "max", "mean"]
    long = rows.unpivot(names, index=[*groups, "n", "coverage"], variable_name="quantile", value_name="value")
    long = long.with_columns(
        pl.col("step").cast(pl.Enum(list(STEPS))),
        pl.col("quantile").cast(pl.Enum(names)),
        metric=pl.lit("latency"),
        unit=pl.lit("ns"),
        coverage=pl.when(pl.col("coverage").is_finite()).then("coverage"),
    )
    return ordered(long, [*groups, "quantile"])


def latency_distribution(requests: Table) -> pl.DataFrame:
    """The cumulative distribution of latency.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.

    Returns
    -------
    polars.DataFrame
        Dimensions step (String), op (Enum) and latency_ns (Int64). Metric cumulative_ratio [1]: share of requests that
        took at most `latency_ns`, a row for each value that occurred. `n` is how many took just this long.

    References
    ----------
    ``schemas/definitions.toml``, latency; blktrace, btt.

    Examples
    --------
    >>> measures.latency_distribution(capture.requests)["value"].max()
    1.0
    """
    rows = _spans(requests).group_by("step", "op", latency_ns=pl.col("span")).agg(n=pl.len().cast(pl.Int64))
    sums = rows.sort("step", "op", "latency_ns").with_columns(
        value=pl.col("n").cum_sum().over("step", "op") / pl.col("n").sum().over("step", "op"),
        metric=pl.lit("cumulative_ratio"),
        unit=pl.lit("1"),
        coverage=pl.lit(None, pl.Float64),
    )
    return ordered(sums.collect(), ["step", "op", "latency_ns"])


def _spans(requests: Table, by: Sequence[str] = ()) -> pl.LazyFrame:
    """A row per request and step that has both ends: `by`, step, op, span (ns), bytes, all_bytes (of `by` and op)."""
    rows = counted(requests).with_columns(bytes=pl.col("nr_sectors") * SECTOR_BYTES)
    rows = rows.with_columns(all_bytes=pl.col("bytes").sum().over(*by, "op"))
    steps = [
        rows.filter(pl.col(begin).is_not_null() & pl.col(end).is_not_null()).select(
            *by, "op", "bytes", "all_bytes", step=pl.lit(step), span=pl.col(end) - pl.col(begin)
        )
        for step, (begin, end) in STEPS.items()
    ]
    return pl.concat(steps)
