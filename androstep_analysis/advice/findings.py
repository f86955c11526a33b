"""The columns of findings, and what all triggers do to make them."""

from __future__ import annotations

from typing import Final

import polars as pl

FINDING: Final = {
    **dict.fromkeys(("process", "package", "path"), pl.String),
    **dict.fromkeys(("begin_ns", "end_ns", "times", "requests", "bytes", "took_ns"), pl.Int64),
    "value": pl.Float64,
    **dict.fromkeys(("saved_times", "saved_requests", "saved_bytes"), pl.Int64),
}
"""Whose and what; from when to when; how often; what it cost: requests, their bytes, and time; a number of its own; and
how much of the first three mending would leave out. What is not known is null."""


def findings(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the columns `FINDING` and no others; those that rows do not have are null."""
    lacking = [pl.lit(None, dtype).alias(name) for name, dtype in FINDING.items() if name not in rows.columns]
    return rows.with_columns(lacking).select(pl.col(name).cast(dtype) for name, dtype in FINDING.items())


def with_cost(rows: pl.DataFrame, pieces: pl.DataFrame, on: str = "path") -> pl.DataFrame:
    """The rows (`on`, begin_ns, end_ns) with what pieces (`on`, time, request_id, bytes, took_ns) of that time cost.

    Columns requests, bytes and took_ns: that of each request counts once.
    """
    keyed = rows.with_row_index("finding")
    near = keyed.select("finding", on, "begin_ns", "end_ns").join(pieces, on=on, nulls_equal=True)
    near = near.filter(pl.col("time").is_between(pl.col("begin_ns"), pl.col("end_ns")))
    of_requests = near.group_by("finding", "request_id").agg(pl.col("bytes").sum(), pl.col("took_ns").first())
    cost = of_requests.group_by("finding").agg(requests=pl.len(), bytes=pl.sum("bytes"), took_ns=pl.sum("took_ns"))
    kept = keyed.drop("requests", "bytes", "took_ns", strict=False)
    return kept.join(cost, on="finding", how="left", maintain_order="left").drop("finding")
