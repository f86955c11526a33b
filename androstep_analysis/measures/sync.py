"""Synchronous and buffered writes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import Table, counted, known_share, shares, tidy


def sync(io: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Writes by whether they are synchronous; dimensions `by` and `class` (sync, buffered, unknown).

    Takes table `io`; `by` names any of its columns (block_type, owner_comm, file_type, …). Metrics count, bytes,
    count_ratio and bytes_ratio (within each `by` group). Definition: definitions.toml, sync.
    """
    writes = counted(io).filter(pl.col("op") == "write", pl.col("bytes") > 0)
    kind = pl.when("sync").then(pl.lit("sync")).when(~pl.col("sync")).then(pl.lit("buffered"))
    classes = writes.with_columns(kind.otherwise(pl.lit("unknown")).alias("class"))
    dimensions = [*by, "class"]
    groups = classes.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in ("sync", *by))
    return shares(tidy(groups, dimensions, known_share(writes, known)), dimensions, within=list(by))
