"""The counters of a recording, with the range of each."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy


def counters(samples: Table) -> pl.DataFrame:
    """Return the counters of table samples, with the range of each.

    Parameters
    ----------
    samples : Table
        Table `samples`, all columns.

    Returns
    -------
    polars.DataFrame
        A row for each counter of each device, process or system, in descending order of relative change. Columns:
        counter, scope, dev, pid, instance and unit (as in `samples`), count (Int64: readings), least, greatest, last
        (Int64, in `unit`).

    References
    ----------
    ``schemas/definitions.toml``, samples.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 5 * 10**8]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> measures.counters(samples).select("counter", "count", "least", "last").row(0)
    ('stat.user', 2, 0, 500000000)
    """
    by = ("counter", "scope", "dev", "pid", "instance", "unit")
    value = pl.col("value")
    # A counter that is always 0 gives 0 / 0.
    change = (
        (pl.col("greatest") - pl.col("least"))
        / pl.max_horizontal(pl.col("least").cast(pl.Float64).abs(), pl.col("greatest").cast(pl.Float64).abs())
    ).fill_nan(0)
    return (
        lazy(samples)
        .group_by(by)
        .agg(
            count=pl.len().cast(pl.Int64),
            least=value.min(),
            greatest=value.max(),
            last=value.sort_by("ts_ns").last(),
        )
        .sort(-change, *by)
        .collect()
    )
