"""Statistics of perceived latencies over many inputs: means with their intervals, and response classes.

The functions take tables of `perceived.transitions` of several runs, with columns that identify them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import Table, lazy, ordered
from androstep_analysis.stats import distributions


def responses(transitions: Table, *, by: Sequence[str] = ("label",)) -> pl.DataFrame:
    """Return the mean latency of inputs that led to a stable state.

    The latency is the middle of its possible range.

    Parameters
    ----------
    transitions : Table
        Tables of `perceived.transitions`, of several runs with columns that identify them: latency_lo_ns,
        latency_hi_ns.
    by : sequence of str
        Columns to group by, such as workload, configuration or device.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metric response [ns], with lo and hi (Float64): the 95 % interval of the mean by Student's
        distribution, widened by the mean half-width of the latencies' ranges; null for fewer than two. `n` is the
        number of latencies, `coverage` the share of the inputs that led to a stable state.

    References
    ----------
    ``schemas/definitions.toml``, perceived_latency; Luo, Jiang and Cohen, Figure 3.

    Examples
    --------
    >>> moves = pl.DataFrame({"label": "open", "latency_lo_ns": [100, 300], "latency_hi_ns": [200, 400]})
    >>> perceived.responses(moves).select("value", "unit", "n").row(0)
    (250.0, 'ns', 2)
    """
    by = list(by)
    middle = (pl.col("latency_lo_ns") + pl.col("latency_hi_ns")) / 2
    half = (pl.col("latency_hi_ns") - pl.col("latency_lo_ns")) / 2
    groups = (
        lazy(transitions, ())
        .group_by(by)
        .agg(
            value=middle.mean(),
            deviation=middle.std(),
            doubt=half.mean(),
            n=middle.count().cast(pl.Int64),
            coverage=middle.count() / pl.len(),
        )
        .collect()
    )
    deviates = distributions.deviates(0.05)
    quantiles = [distributions.student(deviates, max(count - 1, 1)) for count in groups["n"]]
    reach = pl.when(pl.col("n") > 1).then(
        pl.Series(quantiles, dtype=pl.Float64) * pl.col("deviation") / pl.col("n").sqrt() + pl.col("doubt")
    )
    intervals = groups.with_columns(
        metric=pl.lit("response"), unit=pl.lit("ns"), lo=pl.col("value") - reach, hi=pl.col("value") + reach
    )
    table = ordered(intervals, by)
    return table.join(intervals.select(*by, "lo", "hi"), on=by, how="left", nulls_equal=True, maintain_order="left")


def classes(transitions: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return the number of inputs in each of Nielsen's response classes.

    Inputs without a stable state are not counted.

    Parameters
    ----------
    transitions : Table
        Tables of `perceived.transitions`: outcome, class_lo, class_hi.
    by : sequence of str
        Columns to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and class (null if the range of the latency includes several classes). Metrics count [inputs]
        and count_ratio [1], a row for each class that occurred. `coverage` is the share with a known class.

    References
    ----------
    ``schemas/definitions.toml``, response_class; Nielsen, Usability Engineering, 1994, section 5.5.

    Examples
    --------
    >>> moves = pl.DataFrame({"outcome": "stable", "class_lo": ["instant", "flow"], "class_hi": ["instant", "flow"]})
    >>> perceived.classes(moves).filter(metric="count_ratio").select("class", "value").rows()
    [('flow', 0.5), ('instant', 0.5)]
    """
    dimensions = [*by, "class"]
    rows = lazy(transitions, ()).filter(pl.col("outcome") == "stable")
    known = pl.when(pl.col("class_lo") == pl.col("class_hi")).then("class_lo")
    counts = rows.with_columns(known.alias("class")).group_by(dimensions).agg(n=pl.len().cast(pl.Int64)).collect()
    whole = pl.col("n").sum().over(by) if by else pl.col("n").sum()
    decided = pl.col("n").filter(pl.col("class").is_not_null()).sum()
    counts = counts.with_columns(whole=whole, coverage=(decided.over(by) if by else decided) / whole)
    parts = [
        counts.with_columns(metric=pl.lit("count"), value=pl.col("n").cast(pl.Float64), unit=pl.lit("inputs")),
        counts.with_columns(metric=pl.lit("count_ratio"), value=pl.col("n") / pl.col("whole"), unit=pl.lit("1")),
    ]
    return ordered(pl.concat(parts), dimensions)
