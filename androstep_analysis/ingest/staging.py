"""What every reader returns: block events, counts of everything in the file, and what was lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from androstep_analysis import schema


@dataclass(frozen=True)
class Loss:
    """Something that should be in the input and is not, or could not be read.

    `kind` is one word for grouping (overwritten, dropped, torn, unreadable, wrapped), `count` how many (events or
    lines, as the message says), `message` one sentence for people.
    """

    kind: str
    count: int
    message: str


@dataclass(frozen=True)
class Staging:
    """One recording as its format tells it, before anything is joined.

    `block` holds the block-layer events (table `block_events`, sorted by `ts_ns`, equal times in file order).
    `tasks` holds what the format says about threads (table `tasks`). `events` counts every event in the file by the
    format's own name, also those that are no block events; `first_ns` and `last_ns` span all of them and are None
    in a file without events. `lost_events` is what the recorder says it lost; `losses` explains it and adds what the
    reader could not use. `realtime_offset_ns`, where the format tells, is CLOCK_REALTIME minus the trace clock.
    """

    format: str
    block: pl.DataFrame
    events: dict[str, int]
    first_ns: int | None
    last_ns: int | None
    tasks: pl.DataFrame = field(default_factory=lambda: schema.empty("tasks"))
    clock: str = "unknown"
    realtime_offset_ns: int | None = None
    lost_events: int = 0
    losses: tuple[Loss, ...] = ()
