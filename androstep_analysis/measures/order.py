"""The order of requests, and where a recording that rounds its times leaves it unknown (definitions.toml, order)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.losses import merged
from androstep_analysis.measures.lost import Lost
from androstep_analysis.measures.parts import REQUEST
from androstep_analysis.measures.tables import Table, lazy

IS_ORDERED: Final = "is_ordered"
"""Name of the column that `with_order` adds."""

_ERROR: Final = "issue_error_ns"


def order_ns() -> pl.Expr:
    """Return the time that orders requests: issue, else queueing, else completion.

    Returns
    -------
    polars.Expr
        Int64, in ns, for a table with columns issue_ns, queue_ns and complete_ns.

    Examples
    --------
    >>> capture.requests.sort(measures.order_ns()).select("request_id").first().collect().item()
    0
    """
    return pl.coalesce("issue_ns", "queue_ns", "complete_ns")


def error_ns(requests: Table) -> int:
    """Return how far the time between two issues of table `requests` or `io` may be off, in ns; 0 if it is exact."""
    rows = lazy(requests)
    if _ERROR not in rows.collect_schema():
        return 0
    return rows.select(pl.col(_ERROR).max()).collect().item() or 0


def with_order(requests: Table, over: Sequence[str] = ("dev",)) -> pl.LazyFrame:
    """Return the rows of `requests` or `io` with column is_ordered: whether their place in the order of issue is known.

    It is unknown if another request of the same `over` (none: of any device) has a time within the error, or within the
    error of such a request. All of them form a cluster, whose requests may have been issued in any order: no result may
    depend on that order. A table that has the column, because its rows are a part of a recording, keeps it.
    """
    rows = lazy(requests)
    if IS_ORDERED in rows.collect_schema() and [*over] == ["dev"]:
        return rows
    error = error_ns(rows)
    if not error:
        return rows.with_columns(pl.lit(True).alias(IS_ORDERED))
    clustered = _clusters(rows, over, error).select(REQUEST, pl.lit(False).alias(IS_ORDERED))
    joined = rows.select(pl.exclude(IS_ORDERED)).join(clustered, on=REQUEST, how="left", maintain_order="left")
    return joined.with_columns(pl.col(IS_ORDERED).fill_null(True))


def unordered(requests: Table) -> Lost:
    """Return the times in which the order of the queueings or the issues of table `requests` is unknown.

    A time of queueing is computed from that of the issue and a wait, which is rounded as well: its error is twice that
    of an issue.
    """
    rows = lazy(requests)
    error = error_ns(rows)
    if not error:
        return ()
    clusters = (
        _clusters(rows.with_columns(issue_ns=name), (), n * error) for n, name in ((1, "issue_ns"), (2, "queue_ns"))
    )
    spans = (one.group_by("cluster").agg(pl.col("at").min(), end=pl.col("at").max()) for one in clusters)
    return merged(pl.concat(spans).select("at", "end").collect().rows())


def _clusters(rows: pl.LazyFrame, over: Sequence[str], error: int) -> pl.LazyFrame:
    """Return columns `over`, request_id, at and cluster (its index) of the requests in clusters."""
    moves_data = pl.col("nr_sectors") > 0
    requests = rows.filter(moves_data, order_ns().is_not_null()).select(REQUEST, *over, at=order_ns()).unique(REQUEST)
    before, after = (pl.col("at").diff(n) for n in (1, -1))
    if over:
        before, after = before.over(over), after.over(over)
    is_close, is_followed = (before <= error).fill_null(False), (-after <= error).fill_null(False)
    ordered = requests.sort(*over, "at", REQUEST).with_columns(cluster=(~is_close).cum_sum(), is_followed=is_followed)
    return ordered.filter(is_close | pl.col("is_followed")).drop("is_followed")
