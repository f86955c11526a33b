"""The times that users waited in a capture, and what the storage did in these times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import perceived
from androstep_analysis.common import schema

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

CLASSES: Final = {"instant": "≤ 0.1 s", "flow": "0.1–1 s", "attention": "1–10 s", "lost": "> 10 s"}
"""Classes of response times (definitions.toml, response_class) and their table headers."""


@dataclass(frozen=True)
class Waits:
    """The waits of a capture.

    `found` is a table of `perceived.transitions`; `views` are the screens it is derived from (empty for page loads).
    `watched` names the evidence for the end of a wait: snapshots, frames or loads. `apps` are the packages that stable
    screens displayed, sorted. `in_flight` is the table of `perceived.in_flight` for `windows`; it is empty if the
    capture has no requests.
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
        """Return the number of inputs by outcome (`perceived.OUTCOMES`)."""
        return {name: self.found.filter(pl.col("outcome") == name).height for name in perceived.OUTCOMES.categories}

    def actions(self) -> pl.DataFrame:
        """Return one row for each action (`label`), the slowest first.

        Columns: ``inputs``; the row of `perceived.responses` (``n`` stable inputs, ``value``, ``lo``, ``hi`` in ns);
        the number of waits of each class in `CLASSES`, and ``unsure``, which may belong to two classes (Int64).
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
        """Return the `most` longest waits: ``window`` (its index in `windows`), ``label`` and both latencies.

        If `in_flight` is known, also the shares of the wait with I/O in flight, ``any`` and (if `apps` are known)
        ``app``, and ``coverage``, the coverage of the last of these.
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
    """Return the waits of a capture with workload steps, or None if it has none.

    The end of a wait is taken from snapshots of the screen if there are any, else from the frames of all processes. In
    both cases a page that is loading counts as work. Without snapshots and frames, the page loads themselves are the
    waits.
    """
    if not capture.about["steps"]:
        return None
    steps = capture.steps
    views, watched = _views(capture)
    work = perceived.windows(steps)
    transitions = (
        perceived.loads(steps)
        if watched == "loads"
        else perceived.transitions(views, perceived.inputs(steps), work=work if work.height else None)
    )
    if transitions.is_empty():
        return None
    apps = _apps(capture, transitions)
    in_flight = perceived.in_flight(capture.io, perceived.windows(transitions), apps=apps or None)
    has_requests = capture.about["rows"]["requests"] > 0
    return Waits(transitions, views, watched, apps, in_flight if has_requests else in_flight.clear())


def _views(capture: Capture) -> tuple[pl.DataFrame, str]:
    """Return the screens that were recorded, and the kind of evidence."""
    if capture.about["gui"] and capture.gui_states.height:
        return perceived.seen(capture.gui_states), "snapshots"
    if capture.about["rows"]["frames"] and capture.last_ns is not None:
        return perceived.presented(capture.frames, until_ns=capture.last_ns), "frames"
    return perceived.seen(schema.empty("gui_states")), "loads"


def _apps(capture: Capture, found: pl.DataFrame) -> tuple[str, ...]:
    """Return the packages that the stable screens displayed."""
    if not capture.about["gui"]:
        return ()
    shown = capture.gui_states.join(found.select("state"), on="state", how="semi")
    return tuple(shown["package"].drop_nulls().unique().sort())
