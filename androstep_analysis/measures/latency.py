"""Time that requests waited in the queue and took on the device (definitions.toml, latency)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures import thinned
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import batches, summed
from androstep_analysis.measures.quantiles import quantiles
from androstep_analysis.measures.recording import Tables
from androstep_analysis.measures.tables import Table, counted, is_interchangeable, ordered

STEPS = {"Q2D": ("queue_ns", "issue_ns"), "D2C": ("issue_ns", "complete_ns"), "Q2C": ("queue_ns", "complete_ns")}

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def latency(requests: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return quantiles of latency.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns, matched (optional).
    by : sequence of str
        Further columns of `requests` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, step (Enum: Q2D, D2C, Q2C), op and quantile (Enum: min, p50, p90, p99, p99.9, max, mean).
        Metric latency [ns]. `n` is the number of requests with both ends of the step, `coverage` their share of the
        bytes of the operation and `by` group. Quantiles are by nearest rank: the smallest observed value that at least
        this share of the requests does not exceed.

    References
    ----------
    ``schemas/definitions.toml``, latency; blktrace, btt.

    Examples
    --------
    >>> table = measures.latency(capture.requests)
    >>> table.filter(step="Q2D", op="read", quantile="p50")["value"].item()
    821.0
    """
    span, size = pl.col("span"), pl.col("bytes")
    groups = [*by, "step", "op"]
    rows = _with_bytes(requests)
    spans = _spans(rows, by)
    of_groups = spans.group_by(groups).agg(
        n=pl.len().cast(pl.Int64), bytes=size.sum(), least=span.min(), max=span.max(), mean=span.mean()
    )
    whole = rows.group_by(*by, "op").agg(whole=size.sum())
    found = of_groups.collect().join(whole.collect(), on=[*by, "op"], nulls_equal=True)
    found = found.with_columns(coverage=size / pl.col("whole"))
    middle = quantiles(spans, "span", found.select(*groups, "n", "least"), QUANTILES)
    wide = found.select(*groups, "n", "coverage", pl.col("least", "max", "mean").cast(pl.Float64))
    edges = wide.rename({"least": "min"}).unpivot(
        ["min", "max", "mean"], index=[*groups, "n", "coverage"], variable_name="quantile", value_name="value"
    )
    between = found.select(*groups, "n", "coverage").join(middle, on=groups, nulls_equal=True)
    names = ["min", *QUANTILES, "max", "mean"]
    long = pl.concat([edges, between.with_columns(pl.col("value").cast(pl.Float64)).select(edges.columns)])
    long = long.with_columns(
        pl.col("step").cast(pl.Enum(list(STEPS))),
        pl.col("quantile").cast(pl.Enum(names)),
        metric=pl.lit("latency"),
        unit=pl.lit("ns"),
        coverage=pl.when(pl.col("coverage").is_finite()).then("coverage"),
    )
    return ordered(long, [*groups, "quantile"])


def latency_distribution(requests: Table, *, columns: int | None = None) -> pl.DataFrame:
    """Return the cumulative distribution of latency.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    columns : int, optional
        Thin out the values for a figure with this many columns on a logarithmic axis. For each step and operation with
        more than twice as many values, only the least and the greatest value in each column are returned. By default
        every value is returned.

    Returns
    -------
    polars.DataFrame
        Dimensions step (String), op (Enum) and latency_ns (Int64). Metric cumulative_ratio [1]: share of requests that
        took at most `latency_ns`, a row for each observed value. `n` is the number of requests that took exactly this
        long; with `columns`, those that took longer than the previous row.

    References
    ----------
    ``schemas/definitions.toml``, latency; blktrace, btt.

    Examples
    --------
    >>> measures.latency_distribution(capture.requests)["value"].max()
    1.0
    """
    line, span = ["step", "op"], pl.col("span")
    spans = _spans(_with_bytes(requests))
    if columns is None:
        rows = spans.group_by(*line, latency_ns=span).agg(n=pl.len().cast(pl.Int64)).collect().sort(*line, "latency_ns")
    else:
        rows = _drawn(spans, columns)
    sums = rows.with_columns(
        value=pl.col("n").cum_sum().over(line) / pl.col("n").sum().over(line),
        metric=pl.lit("cumulative_ratio"),
        unit=pl.lit("1"),
        coverage=pl.lit(None, pl.Float64),
    )
    return ordered(sums, ["step", "op", "latency_ns"])


def _drawn(spans: pl.LazyFrame, columns: int) -> pl.DataFrame:
    """Return columns step, op, latency_ns and n of `latency_distribution`, thinned out and in order.

    Values between the first and the last of a column count with the last one. Because of that, batches can be thinned
    out one after another.
    """
    line, span, value = ["step", "op"], pl.col("span"), pl.col("latency_ns")
    edges = spans.group_by(line).agg(least=_position(span.min()), greatest=_position(span.max())).collect()
    lines = edges.with_columns(line=pl.int_range(pl.len(), dtype=pl.Int64))
    # One number for line and column: grouping by it is twice as fast as by both.
    at = pl.col("line") * columns + thinned.column(_position(span), pl.col("least"), pl.col("greatest"), columns)
    rows = spans.join(lines.lazy(), on=line, nulls_equal=True).select(at=at, latency_ns=span, n=pl.lit(1, pl.Int64))
    number, long = pl.col("at") // columns, set[int]()
    every = drawn = rows.head(0).collect()  # all values of short lines, and those of long lines that are drawn
    for batch in batches(rows):
        every = summed([every, batch.filter(~number.is_in(long))], ["at", "latency_ns"])
        drawn = pl.concat([drawn, batch.filter(number.is_in(long))])
        grown = every.group_by(number).len().filter(pl.col("len") > 2 * columns)["at"].to_list()
        drawn = _edges(pl.concat([drawn, every.filter(number.is_in(grown))]))
        every = every.filter(~number.is_in(grown))
        long.update(grown)
    found = pl.concat([every, drawn]).with_columns(line=number).join(lines, on="line")
    return found.select(*line, "latency_ns", "n").sort(*line, value)


def _position(span: pl.Expr) -> pl.Expr:
    """Return the position of a latency on a logarithmic axis."""
    return span.clip(lower_bound=1).log()


def _edges(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the least and the greatest value of each column. All values but the least count with the greatest."""
    value, count = pl.col("latency_ns"), pl.col("n")
    columns = rows.group_by("at").agg(least=value.min(), greatest=value.max(), n=count.sum())
    least = rows.join(columns, left_on=["at", "latency_ns"], right_on=["at", "least"], how="semi")
    least = least.group_by("at").agg(value.first(), count.sum())
    others = columns.join(least, on="at").filter(pl.col("greatest") > pl.col("least"))
    return pl.concat([least, others.select("at", latency_ns="greatest", n=count - pl.col("n_right"))])


def _spans(rows: pl.LazyFrame, by: Sequence[str] = ()) -> pl.LazyFrame:
    """Return a row for each request of `_with_bytes` and each step with both ends: `by`, step, op, span (ns), bytes."""
    has_end = {"issue_ns": pl.lit(True), "complete_ns": ~is_interchangeable(rows)}
    steps = [
        rows.filter(pl.col(begin).is_not_null() & pl.col(end).is_not_null() & has_end[end]).select(
            *by, "op", "bytes", step=pl.lit(step), span=pl.col(end) - pl.col(begin)
        )
        for step, (begin, end) in STEPS.items()
    ]
    return pl.concat(steps)


def _with_bytes(requests: Table) -> pl.LazyFrame:
    return counted(requests).with_columns(bytes=pl.col("nr_sectors") * SECTOR_BYTES)


def _weighed(tables: Tables, by: tuple[str, ...]) -> pl.DataFrame:
    """Return `latency` with column weight: a mean is weighted by the number of requests."""
    is_mean = pl.col("quantile").cast(pl.String) == "mean"
    found = latency(tables["requests"], by=by)
    return found.with_columns(weight=pl.when(is_mean).then(pl.col("n").cast(pl.Float64)).otherwise(1.0))


LATENCY: Final = Measure(
    "latency of requests", ("requests",), _weighed, own=("op",), natural=("step", "quantile"), worse="higher"
)
