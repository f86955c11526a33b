"""What every reader returns: counts of everything in the file, and what was lost; the rows are in a spool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.losses import Losses

WORDS = ("read", "write")
"""Words for operations, in any case, with which a CSV records no flags."""

TABLES = ("block_events", "fs_events", "syscalls", "commands", "samples", "frames", "importance")
"""The tables that readers fill."""

FLAGS = frozenset({"sync", "meta", "fua", "preflush", "readahead"})
"""The columns of table requests that say which flags a request has."""


@dataclass(frozen=True)
class Staging:
    """One recording as its format tells it, before anything is joined.

    `tables` holds those of `TABLES` that have rows, each sorted by `ts_ns`, equal times in file order; a reader leaves
    it empty and appends to its spool. `tasks` holds what the format says about threads (table `tasks`); None stands for
    what the block events tell. `events` counts every event in the file by the format's own name, also those that are in
    no table; `first_ns` and `last_ns` span all of them and are None in a file without events or without times.
    `lost_events` is what the recorder says it lost; `losses` explains it and adds what the reader could not use.
    `realtime_offset_ns`, where the format tells, is CLOCK_REALTIME minus the trace clock, and `realtime_moved_ns` by
    how much that changed until the end of the recording; None where nobody knows. `recorded` names the events that were
    recorded, also those that never came; None where the recorder does not say. They were not on the devices that are
    `untraced`. `facts` is what the recording says of the machine, by the names of `manifest.FACTS`. `jumps` is where
    the segments of its time meet (`clock`). `names_submitters` where every block event is of a row of a list of
    requests, which names the process that asked for the request (elsewhere an issue or a completion names whoever ran).
    """

    format: str
    events: dict[str, int]
    first_ns: int | None
    last_ns: int | None
    tables: Mapping[str, pl.LazyFrame] = field(default_factory=lambda: MappingProxyType({}))
    tasks: pl.DataFrame | None = None
    clock: str = "unknown"
    realtime_offset_ns: int | None = None
    realtime_moved_ns: int | None = None
    lost_events: int = 0
    losses: tuple[Loss, ...] = ()
    recorded: frozenset[str] | None = None
    untraced: frozenset[int] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    jumps: tuple[tuple[int, int], ...] = ()
    names_submitters: bool = False

    def table(self, name: str) -> pl.LazyFrame:
        """One of `TABLES`, which may have no rows."""
        return self.tables[name] if name in self.tables else schema.empty(name).lazy()

    @property
    def flags(self) -> frozenset[str]:
        """The flags of table requests (`FLAGS`) that the format can tell; of others it is unknown whether they are set.

        Open-CAS has no letter for REQ_SYNC; a CSV records flags if any request has letters beside its operation's.
        """
        if self.format in ("block_csv", "biosnoop", "oraclegeneral"):
            has_flags = any(len(name) > 1 and name.isupper() and name.lower() not in WORDS for name in self.events)
            return FLAGS if has_flags else frozenset()
        return FLAGS - {"sync"} if self.format == "opencas" else FLAGS

    @property
    def lost(self) -> Losses:
        """What may be missing where."""
        return Losses(self.losses, self.lost_events)

    @property
    def block(self) -> pl.LazyFrame:
        """Table `block_events`: the block-layer events."""
        return self.table("block_events")

    @property
    def fs_events(self) -> pl.LazyFrame:
        """Table `fs_events`: the filesystem's own events."""
        return self.table("fs_events")

    @property
    def syscalls(self) -> pl.LazyFrame:
        """Table `syscalls`: the system calls of processes."""
        return self.table("syscalls")

    @property
    def commands(self) -> pl.LazyFrame:
        """Table `commands`: what the drivers below the block layer sent and got."""
        return self.table("commands")

    @property
    def samples(self) -> pl.LazyFrame:
        """Table `samples`: counters over time."""
        return self.table("samples")

    @property
    def frames(self) -> pl.LazyFrame:
        """Table `frames`: Android's frames, as planned and as they came."""
        return self.table("frames")

    @property
    def importance(self) -> pl.LazyFrame:
        """Table `importance`: what processes are worth to the system."""
        return self.table("importance")

    def with_tables(self, **tables: pl.LazyFrame | pl.DataFrame) -> Staging:
        """The recording with other tables under these names."""
        return replace(self, tables={**self.tables, **{name: table.lazy() for name, table in tables.items()}})


def merge(parts: Sequence[Staging]) -> Staging:
    """One recording that was kept in several files of one format, whose rows are in one spool.

    Counts, losses and lost events add up; the clock and its offset are those of the first file that tells them.
    `InputError` where the files are of different formats: their clocks would have nothing in common.
    """
    formats = sorted({part.format for part in parts})
    if len(formats) != 1:
        raise InputError(f"sources of different formats ({', '.join(formats)}) are no one recording; ingest them apart")
    if len(parts) == 1:
        return parts[0]
    firsts = [part.first_ns for part in parts if part.first_ns is not None]
    lasts = [part.last_ns for part in parts if part.last_ns is not None]
    tasks = [part.tasks for part in parts if part.tasks is not None]
    events: Counter[str] = Counter()
    for part in parts:
        events.update(part.events)
    return Staging(
        format=formats[0],
        events=dict(events),
        first_ns=min(firsts, default=None),
        last_ns=max(lasts, default=None),
        tasks=pl.concat(tasks).unique(maintain_order=True) if tasks else None,
        clock=next((part.clock for part in parts if part.clock != "unknown"), "unknown"),
        realtime_offset_ns=next((p.realtime_offset_ns for p in parts if p.realtime_offset_ns is not None), None),
        lost_events=sum(part.lost_events for part in parts),
        losses=tuple(loss for part in parts for loss in part.losses),
        jumps=tuple(sorted(jump for part in parts for jump in part.jumps)),
        names_submitters=all(part.names_submitters for part in parts),
        facts={name: value for part in reversed(parts) for name, value in part.facts.items()},
    )
