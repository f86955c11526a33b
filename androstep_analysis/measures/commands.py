"""Counts and bytes of the commands to the storage device."""

from __future__ import annotations

import polars as pl

from androstep_analysis.measures.tables import Table, lazy


def commands(commands: Table) -> pl.DataFrame:
    """Return the number of commands to storage devices, and their bytes, by event and operation code.

    Parameters
    ----------
    commands : Table
        Table `commands`: device, event, step, opcode, nr_bytes.

    Returns
    -------
    polars.DataFrame
        A row for each device, event, step and opcode, the most frequent of a device first. Columns: device (null where
        the event does not name it), event and step (as in `commands`), opcode, count (Int64), bytes (Int64: sum over
        the commands with a size; null if none has one).

    Examples
    --------
    >>> sent = pl.DataFrame({"device": "mmc0", "event": "mmc_request_start", "step": "send", "opcode": [25, 25],
    ...                      "nr_bytes": [4096, 8192]})
    >>> measures.commands(sent).row(0)
    ('mmc0', 'mmc_request_start', 'send', 25, 2, 12288)
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
