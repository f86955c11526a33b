"""Read the directory events that fanotify reported to iotrace (`names.rec`), with the inodes of the entries.

The kernel reports the order of events, but not their times. An event happened between two known times: when the queue
was last empty, and when the event was read. While an event waits in the queue, the kernel merges into it further events
of the same process on the same entry and inode. The merged event keeps the position of the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.record import Records

TABLE = "name"
"""The record type of directory events. Records `watch` list the filesystems."""

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
_WHY_LOST = (
    "directory events were lost, as the kernel's queue overflowed or the filesystem was mounted again;"
    " lost names are unknown"
)


@dataclass(frozen=True)
class Entries:
    """Events on directory entries.

    `events` has a row for each event, in order for each `dev` (UInt32):

    - `order` Int64: position of the event.
    - `round` Int64: equal for events that may have been in the queue at the same time.
    - `segment` UInt32: how often events were lost before.
    - `begin_ns`, `end_ns` Int64: the interval of the event in the clock of the recording. Null if programs cannot read
      that clock. `begin_ns` may be too late for the work that a system call did before it reported the name.
    - `ino`, `generation` Int64: the inode. Those of its directory have the prefix `parent_`, and those of the target
      directory of a rename `new_parent_`. Null if unknown.
    - `is_created`, `is_deleted`, `is_renamed` Boolean: several may be true.
    - `is_dir` Boolean; `name` and `new_name` String.
    """

    events: pl.DataFrame
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        return f"<Entries: {self.events.height} events, {sum(loss.count for loss in self.losses)} lost>"


def are_entries(records: Records) -> bool:
    """Return whether these are the records of directory events."""
    table = records.tables.get(TABLE)
    return table is not None and all(table.schema.get(name) == dtype for name, dtype in _FIELDS.items())


def entries(records: Records, clock: str) -> Entries:
    """Return the directory events in `records`, with times in the recording's `clock` (`Staging.clock`)."""
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
        Loss(_OVERFLOW, 1, _WHY_LOST, ("files",), dev,
             ((begin, end),))
        for dev, begin, end in rows.filter(is_lost).select("dev", "begin_ns", "end_ns").iter_rows()
    ]  # fmt: skip
    kept = rows.filter(~is_lost).drop("kinds", "empty_ns", "read_ns", "mono_offset_ns", "pid")
    return Entries(kept, tuple(losses))
