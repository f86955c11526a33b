"""Commands to the storage device: which were sent and completed, and how much they moved."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy


def commands(commands: Table) -> pl.DataFrame:
    """A row for each device, event, step and opcode of table `commands`, the most frequent of a device first.

    Columns: device (null where the event does not name it), event and step (enums), opcode, count (Int64), bytes
    (Int64: sum over those that tell it; null where none does).
    """
    moved = pl.col("nr_bytes")
    by = ("device", "event", "step", "opcode")
    return (
        lazy(commands)
        .group_by(by)
        .agg(count=pl.len().cast(pl.Int64), bytes=pl.when(moved.count() > 0).then(moved.sum()))
        .sort("device", "count", *by[1:], descending=[False, True, False, False, False])
        .collect()
    )
