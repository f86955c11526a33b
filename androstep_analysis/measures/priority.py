"""The I/O priority of a request: its class and level (definitions.toml, priority)."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy

_CLASS_SHIFT = 13
_LEVELS = 0b111


def priorities(requests: Table, block_events: Table) -> pl.LazyFrame:
    """Return the I/O priority that each request had when it was issued.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, sector, issue_ns.
    block_events : Table
        Table `block_events`: ts_ns, action, dev, sector, ioprio.

    Returns
    -------
    polars.LazyFrame
        Columns request_id and priority (String: ``rt 4``, ``be 4``, ``idle`` or ``none``). Requests without a recorded
        priority have no row.

    References
    ----------
    ``schemas/definitions.toml``, priority.

    Examples
    --------
    >>> issue = {"ts_ns": 7, "action": "issue", "dev": 1, "sector": 8, "ioprio": 1 << 13 | 4}
    >>> request = pl.DataFrame({"request_id": 0, "dev": 1, "sector": 8, "issue_ns": 7})
    >>> measures.priorities(request, pl.DataFrame(issue)).collect().rows()
    [(0, 'rt 4')]
    """
    place = ["dev", "sector", "issue_ns"]
    of_class, level = pl.col("ioprio") // (1 << _CLASS_SHIFT), pl.col("ioprio") & _LEVELS
    text = (
        pl.when(of_class == 0)
        .then(pl.lit("none"))
        .when(of_class == 1)
        .then(pl.format("rt {}", level))
        .when(of_class == 2)
        .then(pl.format("be {}", level))
        .when(of_class == 3)
        .then(pl.lit("idle"))
    )
    issues = lazy(block_events, ("block_events",)).filter(pl.col("action").cast(pl.String) == "issue")
    issues = (
        issues.select("dev", "sector", issue_ns="ts_ns", priority=text).drop_nulls().unique().unique(place, keep="none")
    )
    return lazy(requests).select("request_id", *place).join(issues, on=place).select("request_id", "priority")
