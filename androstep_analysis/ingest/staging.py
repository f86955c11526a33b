"""What every reader returns: block and filesystem events, counts of everything in the file, and what was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from androstep_analysis import schema
from androstep_analysis.errors import InputError, Loss


@dataclass(frozen=True)
class Staging:
    """One recording as its format tells it, before anything is joined.

    `block` holds the block-layer events (table `block_events`, sorted by `ts_ns`, equal times in file order).
    `fs_events` holds the filesystem's own events (table `fs_events`, sorted alike), where the format has any that are
    of use. `tasks` holds what the format says about threads (table `tasks`). `events` counts every event in the file
    by the format's own name, also those that are in no table; `first_ns` and `last_ns` span all of them and are None
    in a file without events. `lost_events` is what the recorder says it lost; `losses` explains it and adds what the
    reader could not use. `realtime_offset_ns`, where the format tells, is CLOCK_REALTIME minus the trace clock.
    `recorded` names the events that were recorded, also those that never came; None where the recorder does not say.
    """

    format: str
    block: pl.DataFrame
    events: dict[str, int]
    first_ns: int | None
    last_ns: int | None
    fs_events: pl.DataFrame = field(default_factory=lambda: schema.empty("fs_events"))
    tasks: pl.DataFrame = field(default_factory=lambda: schema.empty("tasks"))
    clock: str = "unknown"
    realtime_offset_ns: int | None = None
    lost_events: int = 0
    losses: tuple[Loss, ...] = ()
    recorded: frozenset[str] | None = None


def merge(parts: Sequence[Staging]) -> Staging:
    """One recording that was kept in several files of one format.

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
    recorded = [part.recorded for part in parts if part.recorded is not None]
    events: Counter[str] = Counter()
    for part in parts:
        events.update(part.events)
    return Staging(
        format=formats[0],
        block=pl.concat([part.block for part in parts]).sort("ts_ns", maintain_order=True),
        events=dict(events),
        first_ns=min(firsts, default=None),
        last_ns=max(lasts, default=None),
        fs_events=pl.concat([part.fs_events for part in parts]).sort("ts_ns", maintain_order=True),
        tasks=pl.concat([part.tasks for part in parts]).unique(maintain_order=True),
        clock=next((part.clock for part in parts if part.clock != "unknown"), "unknown"),
        realtime_offset_ns=next((p.realtime_offset_ns for p in parts if p.realtime_offset_ns is not None), None),
        lost_events=sum(part.lost_events for part in parts),
        losses=tuple(loss for part in parts for loss in part.losses),
        recorded=frozenset.intersection(*recorded) if len(recorded) == len(parts) else None,
    )
