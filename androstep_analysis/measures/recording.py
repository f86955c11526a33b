"""A recording as the measures take it: tables, facts and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import polars as pl

from androstep_analysis.common import losses, schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.manifest import Manifest
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.ingest import clock
from androstep_analysis.measures.order import error_ns, with_order
from androstep_analysis.measures.owners import states, with_state, with_uid
from androstep_analysis.measures.priority import priorities

Tables = Mapping[str, pl.LazyFrame]

_HOW_TO_RECORD_STATES: Final = (
    "record the event oom/oom_score_adj_update, as iotrace does, or Perfetto's linux.process_stats"
)

_HOW_TO_RECORD_PRIORITIES: Final = "Linux 6.5 and later state them in block_rq_issue (trace.dat or text, not Perfetto)"

_HOW_TO_RECORD_USERS: Final = "record with iotrace, or Perfetto's linux.process_stats, which list processes"


class Captured(Protocol):
    """The attributes of a capture that `Recording.of` reads."""

    @property
    def title(self) -> str: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def about(self) -> Mapping[str, Any]: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def jumps(self) -> clock.Jumps: ...
    @property
    def losses(self) -> Sequence[Loss]: ...
    @property
    def lost_events(self) -> int: ...


@dataclass(frozen=True)
class Recording:
    """The parts of a capture that are measured and compared.

    `facts` is its row of table captures, and `jumps` the jumps of its clock. `events` are the names of all recorded
    events, including those that never occurred (None: unknown).
    """

    title: str
    facts: Mapping[str, Any]
    tables: Tables
    jumps: clock.Jumps = ()
    losses: losses.Losses = field(default_factory=losses.Losses)
    realtime_offset_ns: int | None = None
    events: tuple[str, ...] | None = None

    @classmethod
    def of(cls, capture: Captured) -> Recording:
        """Make a recording from an open capture (`androstep_analysis.Capture`)."""
        lost = losses.Losses(capture.losses, capture.lost_events)
        # The date is unknown if the clock was set or stood still.
        moved = abs(capture.about.get("realtime_moved_ns", 0)) > NS_PER_S or bool(capture.jumps)
        offset = None if moved else capture.about["realtime_offset_ns"]
        events = capture.manifest.events
        return cls(capture.title, capture.facts, capture.tables, capture.jumps, lost, offset, events)

    @property
    def span(self) -> tuple[int, int] | None:
        """The times of the first and the last event on the axis of `timed`, or None without events."""
        first, last = self.facts["t_start_ns"], self.facts["t_end_ns"]
        return None if first is None or last is None else (first, clock.continued(last, self.jumps))

    @property
    def lost(self) -> list[tuple[int | None, int | None]]:
        """The times in which events of the block layer may be missing, on the axis of `timed`."""
        return self.lost_of("block_events")

    def lost_of(self, table: str) -> list[tuple[int | None, int | None]]:
        """Return the times in which rows of the table may be missing, on the axis of `timed`."""
        return [(self._continued(begin), self._continued(end)) for begin, end in self.losses.spans(table)]

    def by(self, columns: Sequence[str]) -> Tables:
        """Return the tables of `timed`. If `columns` has state or uid, add that column of the owner to table `io`.

        If it has priority, add that of the request to tables `requests` and `io`. Raises `InputError` if the recording
        lacks the data for it.
        """
        tables = dict(self.timed)
        if "state" in columns:
            if "importance" not in tables or states(tables["importance"]).is_empty():
                raise InputError(f"{self.title}: cannot tell which app was in the foreground; {_HOW_TO_RECORD_STATES}")
            importance = clock.on_one_axis(tables["importance"], self.jumps)
            tasks = clock.on_one_axis(tables["tasks"], self.jumps) if "tasks" in tables else None
            tables["io"] = with_state(tables["io"], importance, tasks, lost=self.lost_of("importance"))
        if "uid" in columns:
            if "tasks" not in tables or not tables["tasks"].select(pl.col("uid").is_not_null().any()).collect().item():
                raise InputError(f"{self.title}: cannot resolve the users of processes; {_HOW_TO_RECORD_USERS}")
            used = (clock.on_one_axis(tables[name], self.jumps) for name in ("tasks", "importance") if name in tables)
            tables["io"] = with_uid(tables["io"], *used)
        if "priority" in columns:
            events = tables.get("block_events", schema.empty("block_events").lazy())
            if not events.select(pl.col("ioprio").is_not_null().any()).collect().item():
                raise InputError(f"{self.title}: no I/O priorities are recorded; {_HOW_TO_RECORD_PRIORITIES}")
            of_requests = priorities(tables["requests"], events)
            for name in ("requests", "io"):
                tables[name] = tables[name].join(of_requests, on="request_id", how="left", maintain_order="left")
        return tables

    def _continued(self, time: int | None) -> int | None:
        return None if time is None else clock.continued(time, self.jumps)

    @property
    def timed(self) -> Tables:
        """The tables with their times on an axis without the jumps of the clock.

        If the order of requests is unknown somewhere, they have the column of `with_order`, so that a part of their
        rows has it for the whole.
        """
        names = [name for name in ("requests", "io", "block_events", "samples") if self.jumps and name in self.tables]
        tables = {**self.tables, **{name: clock.on_one_axis(self.tables[name], self.jumps) for name in names}}
        rounded = [name for name in ("requests", "io") if name in tables and error_ns(tables[name])]
        return {**tables, **{name: with_order(tables[name]) for name in rounded}}
