"""Counters over time: which there are, and between what values they go."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy


def counters(samples: Table) -> pl.DataFrame:
    """A row for each counter of table `samples` and what it belongs to, in order of name.

    Columns: counter, scope (enum), dev, pid, instance, unit, count (Int64: readings), least, greatest, last (Int64, in
    `unit`).
    """
    by = ("counter", "scope", "dev", "pid", "instance", "unit")
    value = pl.col("value")
    return (
        lazy(samples)
        .group_by(by)
        .agg(
            count=pl.len().cast(pl.Int64),
            least=value.min(),
            greatest=value.max(),
            last=value.sort_by("ts_ns").last(),
        )
        .sort(by)
        .collect()
    )
