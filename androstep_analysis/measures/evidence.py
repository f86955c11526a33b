"""What the answers rest on: bytes by the source that mapped them, and by the rule that gave their owner."""

from __future__ import annotations

from typing import Literal

import polars as pl

from androstep_analysis.measures.tables import Table, counted, ordered, shares, tidy


def evidence(io: Table, column: Literal["map_source", "owner_via"]) -> pl.DataFrame:
    """Requests and bytes by operation and kind of evidence; dimensions `op` and `column`.

    Takes table `io`. Metrics count (requests with such a piece), bytes, count_ratio and bytes_ratio (within the
    operation). A null map_source is what nothing tells. Empty flushes carry no bytes and are left out.
    """
    dimensions = ["op", column]
    pieces = counted(io).filter(pl.col("bytes") > 0)
    groups = pieces.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    return ordered(shares(tidy(groups, dimensions), dimensions, within=["op"]), dimensions)
