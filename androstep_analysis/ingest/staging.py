"""`Staging`, the result of every reader: counts and losses. The rows themselves are in a spool."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.common.manifest import agreed
from androstep_analysis.ingest import tasks

WORDS = {"read": "R", "write": "W", "discard": "D", "trim": "D", "unmap": "D", "flush": "F"}
"""Words for operations in a CSV file, compared without case, and their letters. A word states no request flags."""

_OPERATION = r"[RFN]|WZ?|DE?|Z(?:RA|[AROCF])?"
"""Letters of an operation without flags, as a regular expression."""

RWBS = re.compile(f"F?(?:{_OPERATION})F?A?B?S?M?U?")
"""Letters of an operation and its flags (Linux 6.12, `blk_fill_rwbs` in kernel/trace/blktrace.c; B until 2.6.36).

Other words of capital letters, such as ERASE, are words.
"""

TABLES = ("block_events", "fs_events", "syscalls", "commands", "samples", "frames", "importance", "blocked")
"""The tables that readers fill."""


def has_flags(letters: str) -> bool:
    """Return whether letters (`RWBS`) state flags besides the operation."""
    return RWBS.fullmatch(letters) is not None and re.fullmatch(_OPERATION, letters) is None


FLAGS = frozenset({"sync", "meta", "fua", "preflush", "readahead"})
"""The boolean columns of table `requests` for request flags, stated by the letters in `block_events.rwbs`."""


@dataclass(frozen=True)
class Staging:
    """One recording as it was read from its files, before events are joined to requests.

    Attributes
    ----------
    format
        The name of the format.
    events
        The number of events of each name. The names are those of the format. Events that go to no table count, too.
    first_ns, last_ns
        The times of the first and the last event of any kind. None if the file has no event, or no times.
    tables
        The tables of `TABLES` that have rows, sorted by `ts_ns`. Rows with equal times are in file order. Readers leave
        it empty and append to their spool.
    tasks
        The threads that the format describes (table `tasks`). None if only the block events name threads.
    clock
        The trace clock.
    realtime_offset_ns
        CLOCK_REALTIME minus the trace clock; None if unknown.
    realtime_moved_ns
        How much `realtime_offset_ns` changed until the end of the recording; None if unknown.
    lost_events
        The number of events that the recorder reported as lost.
    losses
        What the recorder lost and what the reader could not use, with explanations.
    recorded
        The names of the events that were enabled, including those that never occurred. None if the recorder does not
        list them.
    untraced
        The devices on which the events of `recorded` were not recorded.
    facts
        Facts about the machine, with the names of `manifest.FACTS`.
    jumps
        The gaps between the segments of the time axis (`clock`).
    flags
        The request flags (`FLAGS`) that the format records. A flag that is missing here is unknown; one that is listed
        is not set if `block_events.rwbs` lacks its letter.
    words
        The block events (`block_events.event`) that are words for an operation. Their letters state no flags.
    window
        Begin and end of the part that was asked for (`manifest.Manifest.window`). None: the whole recording.
    names_submitters
        Whether every block event comes from a list of requests that names the submitter of each request. In other
        formats, an issue or a completion names the thread that was running.
    issue_error_ns
        How far the time between two issues may be off, where the format states only the rounded completion and latency
        of each request. 0: as exact as the times of other events.
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
    flags: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    window: tuple[int, int | None] | None = None
    names_submitters: bool = False
    issue_error_ns: int = 0

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of `TABLES`, which may have no rows."""
        return self.tables[name] if name in self.tables else schema.empty(name).lazy()

    @property
    def lost(self) -> Losses:
        """The losses, and the tables and times that they affect."""
        return Losses(self.losses, self.lost_events)

    @property
    def block(self) -> pl.LazyFrame:
        """Table `block_events`: the block-layer events."""
        return self.table("block_events")

    @property
    def fs_events(self) -> pl.LazyFrame:
        """Table `fs_events`: the events of filesystems."""
        return self.table("fs_events")

    @property
    def syscalls(self) -> pl.LazyFrame:
        """Table `syscalls`: the system calls of processes."""
        return self.table("syscalls")

    @property
    def commands(self) -> pl.LazyFrame:
        """Table `commands`: the commands that the drivers below the block layer sent and completed."""
        return self.table("commands")

    @property
    def samples(self) -> pl.LazyFrame:
        """Table `samples`: counters over time."""
        return self.table("samples")

    @property
    def frames(self) -> pl.LazyFrame:
        """Table `frames`: Android's display frames, as expected and as they occurred."""
        return self.table("frames")

    @property
    def importance(self) -> pl.LazyFrame:
        """Table `importance`: how important Android considers each process (`oom_score_adj`)."""
        return self.table("importance")

    @property
    def blocked(self) -> pl.LazyFrame:
        """Table `blocked`: the uninterruptible sleeps of main threads."""
        return self.table("blocked")

    def with_tables(self, **tables: pl.LazyFrame | pl.DataFrame) -> Staging:
        """Return the recording with these tables replaced."""
        return replace(self, tables={**self.tables, **{name: table.lazy() for name, table in tables.items()}})


def merge(parts: Sequence[Staging]) -> Staging:
    """Return one recording from several files of one format. Their rows are in one spool.

    The files may divide the recording by time, CPU or device. What is stated of the merged recording holds for all of
    its files:

    - Event counts, losses and lost events add up.
    - `recorded` are the events that every file recorded, and None if a file does not list its events: an event that one
      file did not record may have occurred there.
    - `untraced` are the devices that at least one file did not trace, for the same reason.
    - `realtime_offset_ns` is that of the earliest file that states it. `realtime_moved_ns` is the difference to the
      offset at the end of the last file, and None unless every file states both.
    - `flags` are those that every file records.
    - `facts` are those that no two files state differently.

    Raises
    ------
    InputError
        If the files are of different formats or clocks, since their times have nothing in common.
    """
    formats = sorted({part.format for part in parts})
    clocks = sorted({part.clock for part in parts} - {"unknown"})
    for what, found in (("formats", formats), ("clocks", clocks)):
        if len(found) > 1:
            raise InputError(
                f"files of different {what} ({', '.join(found)}) cannot form one recording; ingest them separately"
            )
    if len(parts) == 1:
        return parts[0]
    firsts = [part.first_ns for part in parts if part.first_ns is not None]
    lasts = [part.last_ns for part in parts if part.last_ns is not None]
    by_time = sorted(parts, key=lambda part: min(firsts, default=0) if part.first_ns is None else part.first_ns)
    offset_ns = next((part.realtime_offset_ns for part in by_time if part.realtime_offset_ns is not None), None)
    listed = [part.recorded for part in parts if part.recorded is not None]
    events: Counter[str] = Counter()
    for part in parts:
        events.update(part.events)
    return Staging(
        format=formats[0],
        events=dict(events),
        first_ns=min(firsts, default=None),
        last_ns=max(lasts, default=None),
        tasks=tasks.joined([(part.tasks, part.first_ns, part.last_ns) for part in by_time if part.tasks is not None]),
        clock=next(iter(clocks), "unknown"),
        realtime_offset_ns=offset_ns,
        realtime_moved_ns=_moved_ns(parts, offset_ns),
        lost_events=sum(part.lost_events for part in parts),
        losses=tuple(loss for part in parts for loss in part.losses),
        recorded=frozenset.intersection(*listed) if len(listed) == len(parts) else None,
        untraced=frozenset[int]().union(*(part.untraced for part in parts)),
        facts=agreed(part.facts for part in parts),
        jumps=tuple(sorted(jump for part in parts for jump in part.jumps)),
        flags=frozenset.intersection(*(part.flags for part in parts)),
        words=frozenset[str]().union(*(part.words for part in parts)),
        names_submitters=all(part.names_submitters for part in parts),
        issue_error_ns=max(part.issue_error_ns for part in parts),
    )


def _moved_ns(parts: Sequence[Staging], offset_ns: int | None) -> int | None:
    """Return how much CLOCK_REALTIME moved from `offset_ns` until the last file ended; None if a file lacks a value."""
    ends = [
        (part.last_ns, part.realtime_offset_ns + part.realtime_moved_ns)
        for part in parts
        if part.last_ns is not None and part.realtime_offset_ns is not None and part.realtime_moved_ns is not None
    ]
    return max(ends)[1] - offset_ns if len(ends) == len(parts) and offset_ns is not None else None
