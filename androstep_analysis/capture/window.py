"""Restrict the tables of a recording to a window of time (definitions.toml, window)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import polars as pl

from androstep_analysis import measures
from androstep_analysis.ingest.staging import TABLES as STAGED
from androstep_analysis.ingest.staging import Staging

Window: TypeAlias = tuple[int, int]
"""Begin and end in the clock of the capture, in ns. The end is not part of the window."""

_STATES: Final = "importance"
"""The table with rows that are valid until the next row of their process. Earlier rows are kept."""


def of(recorded: Staging) -> Window | None:
    """Return the window that the recorder stated, or None. Without an end it ends with the last event."""
    if recorded.window is None:
        return None
    start_ns, end_ns = recorded.window
    if end_ns is None:
        end_ns = start_ns if recorded.last_ns is None else max(start_ns, recorded.last_ns + 1)
    return start_ns, end_ns


def within(tables: Mapping[str, pl.LazyFrame], window: Window | None) -> dict[str, pl.LazyFrame]:
    """Return the tables with the rows of the window; all rows if it is None.

    The time of a request is its issue, else its queueing, else its completion (`measures.order_ns`). Counters
    (`samples`) get values at both ends. Tables without events are not filtered.
    """
    if window is None:
        return dict(tables)
    start_ns, end_ns = window
    time, parts = measures.order_ns(), dict(tables)
    for name in ("requests", "io"):
        parts[name] = _selected(parts[name], (time >= start_ns) & (time < end_ns))
    for name in STAGED:
        is_since = pl.lit(True) if name == _STATES else pl.col("ts_ns") >= start_ns
        parts[name] = parts[name].filter(is_since & (pl.col("ts_ns") < end_ns))
    parts["samples"] = measures.clipped(tables["samples"], start_ns, end_ns)
    return parts


def _selected(rows: pl.LazyFrame, is_inside: pl.Expr) -> pl.LazyFrame:
    """Return the rows with `is_inside`.

    Usually they are one slice of the table. Unlike a filter, it need not read times whenever the table is read.
    """
    inside = (
        rows.with_row_index("row")
        .filter(is_inside)
        .select(pl.len(), first=pl.col("row").min(), last=pl.col("row").max())
    )
    length, first, last = inside.collect(engine="streaming").row(0)
    return rows.slice(first, length) if length and last - first + 1 == length else rows.filter(is_inside)
