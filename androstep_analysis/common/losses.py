"""What may be missing where: the one question that all who rest on events ask of a recording's losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.errors import EVER, Loss, Span

_OF_TIME = frozenset({"clock", "gap"})
"""Kinds of which the count is not one of events."""

_NEVER, _ALWAYS = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class Losses:
    """The losses of a recording, by what they can hurt (`Loss`)."""

    def __init__(self, losses: Iterable[Loss] = (), lost_events: int = 0) -> None:
        """`lost_events` is what the recorder counted: what no loss explains may be anything at any time."""
        self._losses = tuple(losses)
        explained = sum(loss.count for loss in self._losses if loss.tables != () and loss.kind not in _OF_TIME)
        if lost_events > explained:
            self._losses += (Loss("missing", lost_events, f"{lost_events} events are missing"),)

    def touching(self, *tables: str, dev: int | None = None) -> bool:
        """Whether any row of one of the tables may be missing, and of those of `dev` if that is given."""
        return bool(self.spans(*tables, dev=dev))

    def spans(self, *tables: str, dev: int | None = None) -> tuple[Span, ...]:
        """When rows of the tables may be missing, and of those of `dev` if that is given: in order, without overlap."""
        of_tables = (loss for loss in self._losses if loss.tables is None or not set(tables).isdisjoint(loss.tables))
        return merged(span for loss in of_tables if None in (dev, loss.dev) or loss.dev == dev for span in loss.spans)

    def first_ns(self, *tables: str, dev: int | None = None) -> int | None:
        """From when on rows of the tables may be missing; None: from before the recording (or no row is missing)."""
        spans = self.spans(*tables, dev=dev)
        return spans[0][0] if spans else None

    def between(self, begin: pl.Series, end: pl.Series, dev: pl.Series, *tables: str) -> pl.Series:
        """For each row whether a row of one of the tables may be missing between two times, both ends included.

        `begin`, `end` (Int64, nanoseconds) and `dev` are as long as each other; a null time has no limit, and where no
        device is known any may be meant.
        """
        first, last = begin.fill_null(_ALWAYS).to_numpy(), end.fill_null(_NEVER).to_numpy()
        hurt = np.zeros(len(first), np.bool_)
        for one in {loss.dev for loss in self._losses} | {None}:
            spans = self.spans(*tables, dev=one) if one is not None else self._of_any_device(tables)
            starts = np.array([_ALWAYS if start is None else start for start, _ in spans], np.int64)
            ends = np.array([_NEVER if end is None else end for _, end in spans], np.int64)
            found = np.searchsorted(starts, last, "right") > np.searchsorted(ends, first, "left")
            if one is not None:
                found &= (dev == one).fill_null(True).to_numpy()
            hurt |= found
        return pl.Series(hurt)

    def _of_any_device(self, tables: Sequence[str]) -> tuple[Span, ...]:
        return Losses(loss for loss in self._losses if loss.dev is None).spans(*tables)


def merged(spans: Iterable[Span], most: int | None = None) -> tuple[Span, ...]:
    """The spans in order, those that overlap or touch as one; the last of more than `most` are one, too."""
    known = sorted((_ALWAYS if begin is None else begin, _NEVER if end is None else end) for begin, end in spans)
    joined: list[tuple[int, int]] = []
    for begin, end in known:
        if joined and (begin <= joined[-1][1] or len(joined) == most):
            begin, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((begin, end))
    return tuple((None if begin == _ALWAYS else begin, None if end == _NEVER else end) for begin, end in joined)


def is_missing(loss: Loss) -> bool:
    """Whether rows may be missing for it; what is not missing is only noted: rows that repeat, clocks that jump."""
    return loss.tables != () and not is_of_time(loss)


def is_of_time(loss: Loss) -> bool:
    """Whether it is about times: a clock that jumps, a gap between recordings."""
    return loss.kind in _OF_TIME


def as_json(loss: Loss) -> dict[str, Any]:
    """The loss as a manifest and the summary have it."""
    return {
        "kind": loss.kind,
        "count": loss.count,
        "message": loss.message,
        "tables": None if loss.tables is None else list(loss.tables),
        "dev": None if loss.dev is None else units.format_dev(loss.dev),
        "spans": [list(span) for span in loss.spans],
    }


def from_json(row: dict[str, Any]) -> Loss:
    """The loss that `as_json` wrote."""
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
    """Each kind of loss with its count and what it hurts, in few words; nothing where nothing is lost."""
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
    """The tables that the loss hurts, in words behind `before`; nothing where it may be any or is none."""
    return before + ", ".join(_WORDS.get(table, table) for table in loss.tables) if loss.tables else ""
