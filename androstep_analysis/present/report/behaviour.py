"""The report's sections on the device queue, hot blocks, data lifetimes and the cost of writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.markup import Element
from androstep_analysis.measures.queue import queues
from androstep_analysis.measures.recording import Recording
from androstep_analysis.measures.tables import inferred_share
from androstep_analysis.present import plot, sheets
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.advised import MOST_EVENTS
from androstep_analysis.present.report.section import Figure, Section
from androstep_analysis.present.sheets import Column

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of blocks, the hottest first, in the table and the figure of hot blocks."""


def results(capture: Capture, busiest: int, bin_ns: int) -> dict[str, pl.DataFrame | pl.LazyFrame]:
    """Return the result tables of the sections. Figures of the queue are of device `busiest`, in bins of `bin_ns`."""
    recording = Recording.of(capture)
    requests, is_busiest = measures.counted(recording.timed["requests"]), pl.col("dev") == busiest
    queue, depth, over_time = queues(requests, lost=recording.lost, window_ns=bin_ns, span=recording.span)
    is_known = not depth.filter(pl.col("metric") == "time", pl.col("value") > 0).is_empty()
    return {
        "depth": depth if is_known else depth.clear(),
        "queue": queue.filter(is_busiest),
        "depth_over_time": over_time.filter(is_busiest),
        "hotness": measures.hotness(capture.io, shares=SHARES),
        "lifetimes": measures.lifetimes(capture.io, by=["file_type"]),
        "write_cost": _cost(capture, recording),
    }


def _cost(capture: Capture, recording: Recording) -> pl.DataFrame:
    """Return the cost of writing by process.

    The table is empty if no filesystem events show what was written, or if there are too many events.
    """
    if not 0 < capture.about["rows"].get("fs_events", 0) <= MOST_EVENTS:
        return pl.DataFrame()
    found = measures.write_cost(
        capture.tables,
        by=["owner_comm"],
        page_bytes=recording.facts.get("page_bytes"),
        recorded=recording.events,
        lost=recording.losses,
    )
    return found if "cost_per_byte" in found["metric"] else found.clear()


def _queues(table: pl.DataFrame) -> list[Element]:
    """Render `measures.depth`: one row for each device."""
    wide = table.pivot(on="metric", index=["dev", "n", "coverage"], values="value", maintain_order=True)
    columns = {
        "dev": Column("Device", cells.device),
        "n": Column("Requests", cells.count),
        "mean": Column("In the device, mean", lambda depth: f"{depth:.2f}"),
        "max": Column("maximum", cells.count),
        "idle_ratio": Column("Idle", cells.per_cent),
        "coverage": Column("of the time", cells.per_cent),
    }
    return [cells.table(wide.sort("n", descending=True), columns, "Queues of devices")]


def _hottest(table: pl.DataFrame) -> list[Element]:
    """Render `measures.hotness` by operation: one row for each share of the blocks."""
    wide = table.filter(metric="access_ratio").pivot(on="op", index="top", values="value", maintain_order=True)
    titles = {"read": "of all reads", "write": "of all writes"}
    columns = {name: Column(title, cells.per_cent) for name, title in titles.items() if name in wide.columns}
    return [cells.table(wide, {"top": Column("Hottest blocks", cells.per_cent), **columns}, "Hot blocks")]


def _lives(table: pl.DataFrame) -> list[Element]:
    """Render `measures.lifetimes` by file type, with the most writes first."""
    wide = table.pivot(on="metric", index=["file_type", "inferred"], values="value", maintain_order=True)
    columns = {
        "file_type": Column("File type"),
        "writes": Column("Blocks written", cells.count),
        "rewritten_ratio": Column("Rewritten", cells.per_cent),
        "rewritten_p50": Column("after (median)", cells.duration),
        "discarded_ratio": Column("Discarded", cells.per_cent),
        "discarded_p50": Column("after (median)", cells.duration),
        "alive_ratio": Column("Alive", cells.per_cent),
        **sheets.CERTAINTY,
    }
    return [cells.table(wide.sort("writes", descending=True), columns, "Lifetimes of written data")]


def _costs(table: pl.DataFrame) -> list[Element]:
    """Render `measures.write_cost`: one row for each process."""
    is_discard = pl.col("part") == "discard"
    value = pl.col("value")
    is_cost = pl.col("metric") == "cost"
    rows = table.group_by("owner_comm", maintain_order=True).agg(
        written=value.filter(metric="written").sum(),
        cost=value.filter(is_cost & ~is_discard).sum(),
        discarded=value.filter(is_cost & is_discard).sum(),
        ratio=value.filter((pl.col("metric") == "cost_per_byte") & ~is_discard).sum(),
        has_ratio=(pl.col("metric") == "cost_per_byte").any(),
        inferred=inferred_share(is_cost),
    )
    shown = rows.with_columns(ratio=pl.when("has_ratio").then("ratio")).sort("cost", descending=True)
    columns = {
        "owner_comm": Column("Process"),
        "written": Column("Written to files", cells.size),
        "cost": Column("On the device", cells.size),
        "ratio": Column("for a byte", lambda ratio: f"{ratio:.2f}"),
        "discarded": Column("Discarded", cells.size),
        **sheets.CERTAINTY,
    }
    return [cells.table(shown, columns, "What writing costs")]


QUEUE: Final = Section(
    "The device's queue",
    ("queue_depth",),
    (("depth", _queues),),
    (
        Figure(
            "queue",
            "queue",
            plot.queue,
            "Share of time in which device {device} (the one with the most requests) had at least a given number of "
            "requests. The further to the right the line extends, the deeper the queue.",
        ),
        Figure(
            "depth_over_time",
            "depth_over_time",
            plot.depth_over_time,
            "Requests in device {device} over time, in bins of {bin}: the line is the mean, the upper edge of the band "
            "the maximum.",
            in_time=True,
        ),
    ),
    unknown="The queue depth is unknown: no request has both issue and completion, or events were lost all the time. "
    "Record the events block_rq_issue and block_rq_complete.",
    unknown_if_empty=True,
)
HOT: Final = Section(
    "Hot blocks",
    ("hotness",),
    (("hotness", _hottest),),
    (
        Figure(
            "hotness",
            "hotness",
            plot.hotness,
            "Share of reads and writes that go to the most accessed blocks. A steep rise at the left means that few "
            "blocks get most accesses.",
        ),
    ),
)
LIVES: Final = Section(
    "Lifetimes of written data",
    ("lifetimes",),
    (("lifetimes", _lives),),
    (
        Figure(
            "lifetimes",
            "lifetimes",
            plot.lifetimes,
            "Outcome of written blocks by file type, for the types with the most writes. Blocks without a known file, "
            "such as the journal, are listed as unknown.",
        ),
    ),
)
COST: Final = Section(
    "What a written byte costs",
    ("write_cost",),
    (("write_cost", _costs),),
    (
        Figure(
            "write_cost",
            "write_cost",
            plot.write_cost,
            "Bytes that reached the device for each byte that a process wrote to files, by kind of block. To the right "
            "of the line at 1, the device wrote more than the process.",
        ),
    ),
    unknown="The cost of a written byte is unknown: the recording has no filesystem events on the writes of processes "
    f"(androstep record records them), or more than {MOST_EVENTS:,} events; then run androstep measure CAPTURE "
    "write_cost --by process.",
    unknown_if_empty=True,
)
