"""Read texts in which a pattern matches each line: what the readers of such formats share."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss, printable
from androstep_analysis.ingest import tasks
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

QUOTED = 60
"""The length to which a line is quoted in a message."""


class Matched:
    """A text that is being read.

    `events` counts its calls by name, `seen` collects their threads. `nr_unreadable` counts the refused lines;
    `first_unreadable` is the number and the text of the first of them.
    """

    def __init__(self, spool: Spool) -> None:
        self.events: Counter[str] = Counter()
        self.seen = tasks.Seen()
        self._spool = spool
        self._lines = 0
        self._span: list[int] = []
        self.nr_unreadable = 0
        self.first_unreadable: tuple[int, str] = (0, "")

    def rows(self, text: bytes, pattern: str) -> pl.DataFrame:
        """Return the next whole lines: line (its number), text, and the groups of the pattern, null in other lines."""
        rows = pl.DataFrame({"text": [text.decode(errors="backslashreplace")]})
        rows = rows.select(pl.col("text").str.split("\n")).explode("text").with_row_index("line", self._lines + 1)
        self._lines += rows.height
        rows = rows.with_columns(pl.col("line").cast(pl.Int64), pl.col("text").str.strip_suffix("\r"))
        return rows.with_columns(pl.col("text").str.extract_groups(pattern).struct.unnest())

    def refuse(self, rows: pl.DataFrame) -> None:
        """Count rows that cannot be read."""
        if rows.height and not self.nr_unreadable:
            self.first_unreadable = rows.select("line", "text").row(0)
        self.nr_unreadable += rows.height

    def append(self, calls: pl.DataFrame) -> None:
        """Append rows of table `syscalls`, sorted by time."""
        if calls.is_empty():
            return
        calls = schema.complete(calls.sort("ts_ns", maintain_order=True), "syscalls")
        self.count(calls["call"], calls["ts_ns"])
        self.seen.add(calls)
        self._spool.append("syscalls", calls)

    def count(self, names: pl.Series, times: pl.Series) -> None:
        """Count events by name, and extend the span of the recording to their times."""
        self.events.update(dict(names.value_counts().rows()))
        known = [*self._span, *(time for time in (times.min(), times.max()) if isinstance(time, int))]
        self._span = [min(known), max(known)] if known else []

    def unreadable(self, what: str) -> tuple[Loss, ...]:
        """Return the refused lines as a `Loss`; nothing if there are none."""
        if not self.nr_unreadable:
            return ()
        first = printable(self.first_unreadable[1][:QUOTED])
        return (Loss("unreadable", self.nr_unreadable, f"{self.nr_unreadable} lines {what}; the first: “{first}”"),)

    def staging(self, name: str, **others: Any) -> Staging:
        """Return the result of the reader of format `name` after the last line."""
        return Staging(
            format=name,
            events={event: count for event, count in sorted(self.events.items()) if count},
            first_ns=min(self._span, default=None),
            last_ns=max(self._span, default=None),
            **others,
        )
