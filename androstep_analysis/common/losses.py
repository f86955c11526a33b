"""Find out where rows of a recording may be missing, from its losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.errors import EVER, Loss, Span

SEVERAL_CLOCKS: Final = "clocks"
"""The kind of loss of a recording whose times come from several clocks, so that the order of its events is unknown."""

UNORDERED: Final = "unordered"
"""The kind of loss of a list of requests that leaves the order of issue of some open, because it rounds its times."""

_OF_TIME = frozenset({"clock", SEVERAL_CLOCKS, "gap"})
"""Kinds of loss that do not count events."""

_NEVER, _ALWAYS = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class Losses:
    """The losses of a recording, searchable by table, device and time."""

    def __init__(self, losses: Iterable[Loss] = (), lost_events: int = 0) -> None:
        """Collect the losses.

        `lost_events` is the recorder's counter. If it exceeds the events of all losses, the remaining events may
        belong to any table, device and time.
        """
        self._losses = tuple(losses)
        explained = sum(loss.count for loss in self._losses if loss.tables != () and loss.kind not in _OF_TIME)
        if lost_events > explained:
            self._losses += (Loss("missing", lost_events, f"{lost_events} events are missing"),)

    def touching(self, *tables: str, dev: int | None = None) -> bool:
        """Return whether rows of the tables may be missing; with `dev`, only rows of that device count."""
        return bool(self.spans(*tables, dev=dev))

    def spans(self, *tables: str, dev: int | None = None) -> tuple[Span, ...]:
        """Return the intervals in which rows of the tables (and of device `dev`, if given) may be missing.

        The intervals are sorted and do not overlap.
        """
        of_tables = (loss for loss in self._losses if loss.tables is None or not set(tables).isdisjoint(loss.tables))
        return merged(span for loss in of_tables if None in (dev, loss.dev) or loss.dev == dev for span in loss.spans)

    def first_ns(self, *tables: str, dev: int | None = None) -> int | None:
        """Return the start of the first interval in which rows may be missing.

        None: the interval has no start limit, or no row is missing.
        """
        spans = self.spans(*tables, dev=dev)
        return spans[0][0] if spans else None

    def between(self, begin: pl.Series, end: pl.Series, dev: pl.Series, *tables: str) -> pl.Series:
        """Return for each interval whether rows of the tables may be missing in it, both ends included.

        `begin`, `end` (Int64, ns) and `dev` have equal lengths. A null time means no limit, a null device any device.
        """
        first, last = begin.fill_null(_ALWAYS).to_numpy(), end.fill_null(_NEVER).to_numpy()
        may_miss = np.zeros(len(first), np.bool_)
        for device in {loss.dev for loss in self._losses} | {None}:
            spans = self.spans(*tables, dev=device) if device is not None else self._of_any_device(tables)
            starts = np.array([_ALWAYS if start is None else start for start, _ in spans], np.int64)
            ends = np.array([_NEVER if end is None else end for _, end in spans], np.int64)
            overlaps = np.searchsorted(starts, last, "right") > np.searchsorted(ends, first, "left")
            if device is not None:
                overlaps &= (dev == device).fill_null(True).to_numpy()
            may_miss |= overlaps
        return pl.Series(may_miss)

    def _of_any_device(self, tables: Sequence[str]) -> tuple[Span, ...]:
        return Losses(loss for loss in self._losses if loss.dev is None).spans(*tables)


def merged(spans: Iterable[Span], most: int | None = None) -> tuple[Span, ...]:
    """Sort the spans and merge those that overlap or touch; with `most`, also merge the last ones down to that many."""
    ordered = sorted((_ALWAYS if begin is None else begin, _NEVER if end is None else end) for begin, end in spans)
    joined: list[tuple[int, int]] = []
    for begin, end in ordered:
        if joined and (begin <= joined[-1][1] or len(joined) == most):
            begin, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((begin, end))
    return tuple((None if begin == _ALWAYS else begin, None if end == _NEVER else end) for begin, end in joined)


def is_missing(loss: Loss) -> bool:
    """Return whether the loss means missing rows. Other losses are only notes: repeated rows, clock jumps."""
    return loss.tables != () and not is_of_time(loss)


def is_of_time(loss: Loss) -> bool:
    """Return whether the loss is about times: a clock jump, or a gap between recordings."""
    return loss.kind in _OF_TIME


def as_json(loss: Loss) -> dict[str, Any]:
    """Return the loss as a JSON object, as in manifests and summaries."""
    return {
        "kind": loss.kind,
        "count": loss.count,
        "message": loss.message,
        "tables": None if loss.tables is None else list(loss.tables),
        "dev": None if loss.dev is None else units.format_dev(loss.dev),
        "spans": [list(span) for span in loss.spans],
    }


def from_json(row: dict[str, Any]) -> Loss:
    """Return the loss that `as_json` serialized."""
    tables, dev = row.get("tables"), row.get("dev")
    return Loss(
        row["kind"],
        row["count"],
        row["message"],
        None if tables is None else tuple(tables),
        None if dev is None else units.parse_dev(dev),
        tuple((begin, end) for begin, end in row.get("spans", EVER)),
    )


def in_words(losses: Iterable[Loss]) -> str:
    """Summarize losses in a few words: each kind with its count and affected tables; empty if there are none."""
    counts: dict[tuple[str, str], int] = {}
    for loss in losses:
        key = loss.kind, hurts(loss, " of ")
        counts[key] = counts.get(key, 0) + loss.count
    return ", ".join(f"{count:,} {kind}{hurts}" for (kind, hurts), count in counts.items())


_WORDS = {
    "block_events": "block events",
    "fs_events": "filesystem events",
    "syscalls": "system calls",
    "tasks": "names of processes",
    "files": "names of files",
}


def hurts(loss: Loss, before: str) -> str:
    """Return `before` and the affected tables in words; empty if any table or no table may be affected."""
    return before + ", ".join(_WORDS.get(table, table) for table in loss.tables) if loss.tables else ""
