"""Write block events by hand."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from androstep_analysis import schema

DEV = 7 << 20


def block_events(rows: Iterable[dict[str, object]]) -> pl.DataFrame:
    """Complete rows of table block_events. `event` defaults to the action, `dev` to the loop device 7:0."""
    table = schema.table("block_events")
    full = [
        {column.name: {"event": row["action"], "dev": DEV, **row}.get(column.name) for column in table.columns}
        for row in rows
    ]
    return schema.conform(pl.DataFrame(full, schema=table.polars), "block_events")


def life(*steps: tuple[int, str, int | None, int, str]) -> pl.DataFrame:
    """Return table block_events from tuples (time, action, sector, length, rwbs)."""
    names = ("ts_ns", "action", "sector", "nr_sectors", "rwbs")
    return block_events(dict(zip(names, step, strict=True)) for step in steps)
