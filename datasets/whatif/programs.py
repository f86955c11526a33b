"""The replays of this directory's devices: the requests of its traces, as recorded and after each change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

import androstep_analysis as androstep
from androstep_analysis import whatif

TABLES = ("requests", "io", "extents")

IN_ORDER = ("card", "card_log")
"""Devices that also replay the requests strictly one after the other, so that both get the same order."""

LAYER = {"segment_bytes": 1 << 20, "in_use": "read"}
"""The log-structured layer whose requests are replayed."""


def changes(source: Path) -> dict[str, pl.LazyFrame]:
    """Return the requests of a capture, or of a directory with these tables, as recorded and after each change."""
    if (source / "requests.parquet").exists():
        tables = {table: pl.scan_parquet(source / f"{table}.parquet") for table in TABLES}
    else:
        tables = androstep.open(source).tables
    requests, io, extents = (tables[table] for table in TABLES)
    return {
        "before": requests,
        "no_journal": whatif.without_journal(requests, io).requests.lazy(),
        "no_fsync": whatif.without_fsync(requests, io, extents).requests.lazy(),
        "log_structured": whatif.log_structured(requests, **LAYER).requests.lazy(),
    }


def programs(kind: str, source: Path) -> Iterator[tuple[str, pl.LazyFrame, tuple[str, ...]]]:
    """Yield each change, its requests, and the replay modes on a device of this kind."""
    made = changes(source)
    if kind in IN_ORDER:
        yield "in_order", in_order(made["before"]), ("as-fast",)
    if kind == "card_log":  # the device itself implements the change
        return
    for change, requests in made.items():
        modes = ("as-fast", "as-recorded") if change == "before" and kind != "card" else ("as-fast",)
        yield change, requests, modes


def in_order(requests: pl.LazyFrame) -> pl.LazyFrame:
    """Return the requests with each one after the end of the previous, so that a controller sees a fixed order."""
    at = 2 * pl.int_range(pl.len(), dtype=pl.Int64)
    begun = pl.coalesce("queue_ns", "insert_ns", "issue_ns", "complete_ns")
    return requests.sort(begun, "request_id").with_columns(
        queue_ns=pl.when(pl.col("queue_ns").is_not_null()).then(at),
        insert_ns=pl.lit(None, pl.Int64),
        issue_ns=at,
        complete_ns=at + 1,
    )
