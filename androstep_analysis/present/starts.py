"""Starts of apps as tables: each start, and the files that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import perceived
from androstep_analysis.common import quantities
from androstep_analysis.common.markup import visible
from androstep_analysis.present.sheets import CERTAINTY, Column, Sheet

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_SOURCES: Final = {"frames": "Perfetto's frame timeline", "am": "Android's TotalTime (`am start -W`)"}
_NO_WAIT: Final = "The wait for storage is unknown, because sched_switch was not recorded."


def of(capture: Capture) -> pl.DataFrame | None:
    """Return the completed starts of a capture (`perceived.starts`), or None if it has none."""
    if not capture.about["steps"]:
        return None
    rows = perceived.starts(capture.tables)
    return None if rows.is_empty() else rows


def starts(rows: pl.DataFrame) -> Sheet:
    """Return a table of the starts (`perceived.starts`)."""
    columns = {
        "number": Column("Start", quantities.count),
        "first_frame": Column("First frame", quantities.duration),
        "storage_wait": Column("Waited for storage", quantities.duration),
        "storage_wait_ratio": Column("of time", quantities.per_cent),
        "read": Column("Read", quantities.size),
    }
    return Sheet("Starts", rows.with_columns(number=pl.col("repeat") + 1), columns)


def notes(rows: pl.DataFrame) -> list[str]:
    """Return a line for each note, with the numbers of the starts that have it."""
    noted = rows.drop_nulls("detail").group_by("detail", maintain_order=True).agg(pl.col("repeat") + 1)
    return [f"start {', '.join(map(str, numbers))}: {visible(detail)}" for detail, numbers in noted.iter_rows()]


def summary(rows: pl.DataFrame) -> list[str]:
    """Return sentences on all starts: median, smallest and largest value of each number."""
    sources = [_SOURCES[name] for name in rows["source"].cast(pl.String).unique(maintain_order=True)]
    lines = [f"time to the first frame: {_spread(rows['first_frame'], 'ns')}, by {' and '.join(sources)}"]
    if rows["storage_wait"].count():
        share = _spread(rows["storage_wait_ratio"], "1")
        waited = _spread(rows["storage_wait"], "ns")
        lines.append(f"the main thread waited for storage: {waited}, of that time {share}")
    else:
        lines.append(_NO_WAIT)
    return [*lines, f"read from storage until the first frame: {_spread(rows['read'], 'B')}"]


def _spread(values: pl.Series, unit: str) -> str:
    numbers = values.cast(pl.Float64)
    median, low, high = (quantities.in_unit(numbers.quantile(share, "linear"), unit) for share in (0.5, 0.0, 1.0))
    return f"{median} ({low} to {high})" if values.count() > 1 else median


def files(rows: pl.DataFrame) -> Sheet:
    """Return a table of the files that were read (`perceived.read_files`)."""
    columns = {
        "name": Column("File"),
        "bytes": Column("In a start", quantities.size),
        "lowest": Column("Least", quantities.size),
        "highest": Column("Most", quantities.size),
        "starts": Column("Starts", quantities.count),
        **CERTAINTY,
    }
    unnamed = pl.format("({})", pl.col("block_type").cast(pl.String))
    named = rows.with_columns(name=pl.coalesce("path", unnamed))
    return Sheet("Files read from storage until the first frame, by any process", named, columns)
