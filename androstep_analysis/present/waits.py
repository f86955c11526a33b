"""What a user waited for in a capture, and what the storage did meanwhile, by the best that the capture tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import perceived
from androstep_analysis.common import schema

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

CLASSES: Final = {"instant": "≤ 0.1 s", "flow": "0.1–1 s", "attention": "1–10 s", "lost": "> 10 s"}
"""The classes of latency (definitions.toml, response_class) as headers of a table."""


@dataclass(frozen=True)
class Waits:
    """The waits of a capture.

    `found` is a table of `perceived.transitions`, `views` what it is made of (none of loads). `watched` says what tells
    when a wait ended: snapshots, frames or loads. `apps` are the packages that stable screens showed, in order.
    `in_flight` is the table of `perceived.in_flight` of its `windows`, empty where the capture has no requests.
    """

    found: pl.DataFrame
    views: pl.DataFrame
    watched: str
    apps: tuple[str, ...]
    in_flight: pl.DataFrame

    @property
    def windows(self) -> pl.DataFrame:
        """The waits that ended (`perceived.windows`)."""
        return perceived.windows(self.found)

    def counts(self) -> dict[str, int]:
        """How many inputs led to which outcome (`perceived.OUTCOMES`)."""
        return {name: self.found.filter(pl.col("outcome") == name).height for name in perceived.OUTCOMES.categories}

    def actions(self) -> pl.DataFrame:
        """A row for each action (`label`), the slowest first.

        Columns: ``inputs``; the row of `perceived.responses` (``n`` of them stable, ``value``, ``lo``, ``hi`` in ns);
        how many were of which class: those of `CLASSES`, and ``unsure``, which may be of two (Int64).
        """
        counts = perceived.classes(self.found, by=("label",)).filter(metric="count")
        of_class = counts.group_by("label").agg(
            *(pl.col("n").filter(pl.col("class") == name).sum().alias(name) for name in CLASSES),
            pl.col("n").filter(pl.col("class").is_null()).sum().alias("unsure"),
        )
        inputs = self.found.group_by("label").agg(inputs=pl.len().cast(pl.Int64))
        rows = perceived.responses(self.found).join(inputs, on="label").join(of_class, on="label", how="left")
        return (
            rows.with_columns(pl.col(*CLASSES, "unsure").fill_null(0))
            .sort("value", "label", descending=[True, False], nulls_last=True)
            .select("label", "inputs", "n", "value", "lo", "hi", *CLASSES, "unsure")
        )

    def longest(self, most: int) -> pl.DataFrame:
        """The longest waits, at most so many: ``window`` (its number in `windows`), ``label`` and both latencies.

        Where `in_flight` is known, also the shares of the wait with I/O in flight, ``any`` and (where `apps` are known)
        ``app``, and ``coverage``, that of the last of the two.
        """
        ended = self.found.filter(pl.col("stable_hi_ns").is_not_null()).sort("ts_ns", "stable_hi_ns")
        number = pl.int_range(pl.len()).cast(pl.Int64).alias("window")
        rows = ended.select(number, "label", "latency_lo_ns", "latency_hi_ns")
        rows = rows.sort("latency_hi_ns", "window", descending=[True, False]).head(most)
        if self.in_flight.is_empty():
            return rows
        shares = self.in_flight.filter(metric="in_flight_ratio", kind="all")
        wide = shares.pivot("whose", index="window", values="value", maintain_order=True)
        known = shares.group_by("window", maintain_order=True).agg(pl.col("coverage").last())
        for table in (wide, known):
            rows = rows.join(table, on="window", how="left", maintain_order="left")
        return rows


def of(capture: Capture) -> Waits | None:
    """The waits of a capture with steps of a workload; None where it tells of none.

    What watched the screen is the snapshots, where there are some, else the frames of all processes; to either, the
    loading of pages is work. Where there is neither, the loads of pages are the waits.
    """
    if not capture.about["steps"]:
        return None
    steps = capture.steps
    views, watched = _views(capture)
    work = perceived.windows(steps)
    found = (
        perceived.loads(steps)
        if watched == "loads"
        else perceived.transitions(views, perceived.inputs(steps), work=work if work.height else None)
    )
    if found.is_empty():
        return None
    apps = _apps(capture, found)
    in_flight = perceived.in_flight(capture.io, perceived.windows(found), apps=apps or None)
    has_requests = capture.about["rows"]["requests"] > 0
    return Waits(found, views, watched, apps, in_flight if has_requests else in_flight.clear())


def _views(capture: Capture) -> tuple[pl.DataFrame, str]:
    """What was seen of the screen, and by what."""
    if capture.about["gui"] and capture.gui_states.height:
        return perceived.seen(capture.gui_states), "snapshots"
    if capture.about["rows"]["frames"] and capture.last_ns is not None:
        return perceived.presented(capture.frames, until_ns=capture.last_ns), "frames"
    return perceived.seen(schema.empty("gui_states")), "loads"


def _apps(capture: Capture, found: pl.DataFrame) -> tuple[str, ...]:
    """The packages that the stable screens showed."""
    if not capture.about["gui"]:
        return ()
    shown = capture.gui_states.join(found.select("state"), on="state", how="semi")
    return tuple(shown["package"].drop_nulls().unique().sort())
