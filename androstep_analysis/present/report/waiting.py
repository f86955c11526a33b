"""The report's section on waits: how long each action takes, and the share of each wait with I/O in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import perceived
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import plot
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.section import Figure, Section
from androstep_analysis.present.sheets import Column
from androstep_analysis.present.waits import CLASSES, Waits

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

SHADED: Final = 1000
"""Maximum number of shaded waits in a figure; more would hide it."""


def results(capture: Capture, waits: Waits) -> dict[str, pl.DataFrame]:
    """Return the result tables of `section`."""
    actions, longest = waits.actions(), waits.longest(cells.TOP)
    answered = perceived.responses(waits.found).filter(pl.col("n") > 0)
    return {
        "wait_actions": actions,
        "waits": longest,
        "wait_responses": answered.join(actions.head(cells.TOP), on="label", how="semi", maintain_order="left"),
        "wait_in_flight": waits.in_flight.join(longest, on="window", how="semi", maintain_order="left"),
        "wait_longest": _breakdown(capture, waits, longest),
    }


def _breakdown(capture: Capture, waits: Waits, longest: pl.DataFrame) -> pl.DataFrame:
    """Return `perceived.breakdown` of the longest wait; empty if no wait ended."""
    ended = waits.found.filter(pl.col("stable_hi_ns").is_not_null()).sort("ts_ns", "stable_hi_ns")
    if ended.is_empty():
        return pl.DataFrame()
    wait = ended.row(longest["window"][0], named=True)
    io = capture.io if waits.in_flight.height else None
    return perceived.breakdown(waits.views, wait, io=io, apps=waits.apps or None)


def section(waits: Waits) -> Section:
    """Return the section of a capture with waits."""
    whose = "app" if waits.apps else "any"
    of_whom = "of the app" if waits.apps else "of any process"
    figures = [
        Figure(
            "wait_responses",
            "wait_responses",
            plot.perceived_responses,
            "Mean time from an input to the stable screen, with its 95 % interval. Dashed: the limits of 0.1, 1 and "
            f"10 s, as far as bars reach. The {cells.TOP} slowest actions at most.",
        ),
        Figure(
            "wait_in_flight",
            "wait_in_flight",
            plot.perceived_in_flight,
            f"Share of each of the longest waits with reads, writes and synchronous writes {of_whom} in flight, in "
            "order of time. Kinds overlap, so bars do not add up.",
            {"whose": whose},
        ),
        Figure(
            "wait_longest",
            "wait_longest",
            plot.perceived_breakdown,
            "The longest wait: the input, the time that the user waited, the changes of the screen, and the times in "
            "which I/O was in flight.",
        ),
    ]
    windows = waits.windows
    if 0 < windows.height <= SHADED:
        shaded = "Requests completed per second, in bins of {bin}. Times that a user waited are shaded."
        figures.append(
            Figure("wait_rate", "rate", plot.rate, shaded, {"windows": windows}, in_time=True, on_page=False)
        )
    snapshots = ("gui_state",) if waits.watched == "snapshots" else ()
    return Section(
        "Actions and their waits",
        (*snapshots, "perceived_latency", "response_class", "io_in_flight"),
        (("wait_actions", lambda table: _actions(table, waits)), ("waits", lambda table: _longest(table, waits))),
        tuple(figures),
    )


_WATCHED = {
    "snapshots": "The screen was observed by snapshots, so a wait has a minimum and a maximum length.",
    "frames": "The screen was observed by the frames that all processes presented.",
    "loads": "The screen was not observed. A wait is the loading of a page, until it was reported as loaded.",
}


def _actions(table: pl.DataFrame, waits: Waits) -> list[Element]:
    """Render one row for each action, the slowest first, and a sentence on the outcomes of the inputs."""
    counts = waits.counts()
    stable, others = f"{counts['stable']:,} of {waits.found.height:,}", f"{counts['unstable']:,} to none"
    became = (
        f"{stable} pages were loaded."
        if waits.watched == "loads"
        else f"{stable} inputs led to a stable screen, {others} before the next input or the end, "
        f"{counts['no_change']:,} to no visible change."
    )
    columns = {
        "label": Column("Action"),
        "inputs": Column("Inputs", cells.count),
        "n": Column("Stable", cells.count),
        "value": Column("Mean wait", cells.duration),
        "lo": Column("from", cells.duration),
        "hi": Column("to", cells.duration),
        **{name: Column(title, cells.count) for name, title in CLASSES.items()},
        "unsure": Column("either", cells.count),
    }
    return [el("p", f"{_WATCHED[waits.watched]} {became}"), cells.table(table, columns, "Actions")]


def _longest(table: pl.DataFrame, waits: Waits) -> list[Element]:
    """Render the longest waits, each with the share with I/O in flight."""
    columns = {
        "label": Column("Longest waits"),
        "latency_lo_ns": Column("at least", cells.duration),
        "latency_hi_ns": Column("at most", cells.duration),
        "any": Column("I/O in flight", cells.per_cent),
        "app": Column("of the app", cells.per_cent),
        "coverage": Column("known for", cells.per_cent),
    }
    known = {name: one for name, one in columns.items() if name in table.columns}
    return [cells.table(table, known, "Longest waits"), el("p", _whose(waits), class_="note")]


def _whose(waits: Waits) -> str:
    """Return a sentence on whose I/O is counted, and how much of it is known."""
    if waits.in_flight.is_empty():
        return "The capture has no requests: the I/O during the waits is unknown."
    if not waits.apps:
        known = "“Known for” is the share of its bytes with both times known."
        return f"The app that users waited for is unknown: I/O is that of any process. {known}"
    apps = f"{', '.join(waits.apps[: cells.TOP])}{' …' if len(waits.apps) > cells.TOP else ''}"
    return f"The app: {apps}. “Known for” is the share of the bytes in flight with times and owner known."
