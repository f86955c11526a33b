"""Names of files as fanotify tells them (`names.rec` of iotrace): entries of directories, with the inodes they are of.

The kernel tells what happened in order, but not when: only that it was after a time at which nothing was waiting, and
before the time at which it was read. What one process did to the same entry of the same inode while it waited to be
read is told once, at the place of the first time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.record import Records

TABLE = "name"
"""The records of entries; `watch` says of which filesystems they are."""

CREATED, DELETED, RENAMED, OVERFLOWN = 1, 2, 4, 8
"""Bits of `kinds`."""

_FIELDS = {
    "order": pl.UInt64,
    **dict.fromkeys(["dev", "kinds"], pl.UInt32),
    **dict.fromkeys(["empty_ns", "read_ns", "mono_offset_ns", "ino", "generation"], pl.Int64),
    **dict.fromkeys(["parent_ino", "parent_generation", "new_parent_ino", "new_parent_generation"], pl.Int64),
    **dict.fromkeys(["is_dir", "pid"], pl.Int32),
    **dict.fromkeys(["name", "new_name"], pl.String),
}

_OVERFLOW = "names_overflow"


@dataclass(frozen=True)
class Entries:
    """What happened to entries of directories.

    `events` has a row for each, in order for each `dev` (UInt32): `order` Int64; `round` Int64, equal where they may
    have waited at one time; `segment` UInt32, how often names were lost before; `begin_ns` and `end_ns` Int64, between
    which it happened, in the recording's clock (null where programs cannot read that clock; `begin_ns` may be too late
    for what the call did before it told of the name); `ino` and `generation` Int64, and so those of the directory
    (`parent_…`) and of the one a rename leads to (`new_parent_…`), null where they are not known; `is_created`,
    `is_deleted`, `is_renamed`, of which several may be true, and `is_dir` Boolean; `name` and `new_name` String.
    """

    events: pl.DataFrame
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        return f"<Entries: {self.events.height} events, {sum(loss.count for loss in self.losses)} lost>"


def are_entries(records: Records) -> bool:
    """Whether these are the records of names."""
    table = records.tables.get(TABLE)
    return table is not None and all(table.schema.get(name) == dtype for name, dtype in _FIELDS.items())


def entries(records: Records, clock: str) -> Entries:
    """What `records` tell, with times in the recording's `clock` (`Staging.clock`)."""
    rows = records.tables[TABLE].with_columns(pl.col("order").cast(pl.Int64)).sort("dev", "order", maintain_order=True)
    offset = {"boot": pl.lit(0, pl.Int64), "mono": pl.col("mono_offset_ns")}.get(clock, pl.lit(None, pl.Int64))
    is_lost = (pl.col("kinds") & OVERFLOWN) != 0
    rows = rows.with_columns(
        round="empty_ns",
        begin_ns=pl.col("empty_ns") + offset,
        end_ns=pl.col("read_ns") + offset,
        segment=is_lost.cast(pl.UInt32).cum_sum().over("dev"),
        is_dir=pl.col("is_dir") != 0,
        is_created=(pl.col("kinds") & CREATED) != 0,
        is_deleted=(pl.col("kinds") & DELETED) != 0,
        is_renamed=(pl.col("kinds") & RENAMED) != 0,
    )
    losses = [replace(loss, tables=("files",)) for loss in records.losses if loss.kind != _OVERFLOW]
    losses += [
        Loss(_OVERFLOW, 1, "the kernel had no room for names; which are lost nobody knows", ("files",), dev,
             ((begin, end),))
        for dev, begin, end in rows.filter(is_lost).select("dev", "begin_ns", "end_ns").iter_rows()
    ]  # fmt: skip
    kept = rows.filter(~is_lost).drop("kinds", "empty_ns", "read_ns", "mono_offset_ns", "pid")
    return Entries(kept, tuple(losses))
