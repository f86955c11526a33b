"""A moment as text: a headline, and the cells of a ranking."""

from __future__ import annotations

from typing import Final

import polars as pl

from androstep_analysis.common.quantities import in_unit, marked
from androstep_analysis.common.units import format_dev
from androstep_analysis.present.live.live import Moment
from androstep_analysis.present.live.ranking import KEYS, totals

COLUMNS: Final = {
    "read_bytes_per_s": ("read", "B/s"),
    "written_bytes_per_s": ("written", "B/s"),
    "requests_per_s": ("requests", "1/s"),
    "sync_ratio": ("sync", "1"),
    "d2c_p50_ns": ("p50", "ns"),
    "d2c_p99_ns": ("p99", "ns"),
}
"""Columns of a ranking, with title and unit."""

UNKNOWN: Final = "unknown"


def headline(moment: Moment) -> str:
    """Return the rates of a moment, and the share of it with a known owner."""
    whole = totals(moment)
    parts = [
        f"read {in_unit(whole['read_bytes_per_s'] or 0, 'B/s')}, written"
        f" {in_unit(whole['written_bytes_per_s'] or 0, 'B/s')}, {in_unit(whole['requests_per_s'] or 0, '1/s')}",
        *([f"99 % in {in_unit(whole['d2c_p99_ns'], 'ns')}"] if whole["d2c_p99_ns"] is not None else []),
        *([f"owner known for {in_unit(whole['owned_ratio'], '1')}"] if whole["owned_ratio"] is not None else []),
    ]
    return "; ".join(parts)


def cost(moment: Moment) -> str:
    """Return the cost of recording and attribution, the length of the history, and lost events."""
    parts = [
        f"{in_unit(moment.seconds, 's')} with {moment.events:,} events",
        f"history {in_unit(moment.history_s, 's')}",
        f"recorder {in_unit(moment.recorder_ratio, '1')} of a CPU there",
        f"analysis {in_unit(moment.analysis_ratio, '1')} of one here",
        *([f"{moment.lost_events:,} events lost"] if moment.lost_events else []),
    ]
    return ", ".join(parts)


def header(by: str) -> list[str]:
    """Return the titles of the columns of `cells`."""
    return [by, *(name for name, _ in COLUMNS.values())]


def cells(rows: pl.DataFrame, by: str) -> list[list[str]]:
    """Return a ranking as texts. They are not escaped: names from the device may contain anything."""
    names = rows.select(*KEYS[by]).rows()
    inferred = rows["inferred"].to_list()
    numbers = rows.select(*COLUMNS).rows()
    units = [unit for _, unit in COLUMNS.values()]
    return [
        [marked(_name(by, name), share), *(in_unit(value, unit) for value, unit in zip(values, units, strict=True))]
        for name, share, values in zip(names, inferred, numbers, strict=True)
    ]


def _name(by: str, values: tuple[str | int | None, ...]) -> str:
    first, *rest = values
    if by == "device":
        return UNKNOWN if first is None else format_dev(int(first))
    if by == "file":
        return f"({rest[0]})" if first is None else str(first)
    return UNKNOWN if first is None else " ".join(str(value) for value in values if value is not None)
