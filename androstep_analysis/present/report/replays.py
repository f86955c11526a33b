"""The report's section on replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import replay
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import plot
from androstep_analysis.present.report import cells, overview
from androstep_analysis.present.report.section import Context, Figure, Section
from androstep_analysis.present.sheets import Column
from androstep_analysis.replay.tables import ALIKE

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def results(capture: Capture) -> dict[str, pl.DataFrame]:
    """Return the result tables of `SECTION`."""
    tables = capture.replay
    measured = replay.metrics(tables)
    are_alike = tables["replay_runs"].select(ALIKE).n_unique() == 1
    of_place = measured.with_columns(place=pl.col("fs_type").fill_null("unknown") if are_alike else "run_id")
    return {
        "replays": measured.filter(pl.col("call").is_null()),
        "replay_io_time": replay.over_repetitions(of_place).filter(metric="io_time"),
        "replay_latency": measured.filter(pl.col("call").is_not_null()),
        "replay_lateness": replay.lateness_distribution(tables),
    }


def first(context: Context) -> list[Element]:
    """Return the tiles of the overview, with medians over the replays."""
    table = context.results["replays"].lazy().collect()
    number = table["run_id"].n_unique()
    of_all = "median of all" if number > 1 else ""
    tiles = [
        overview.tile("Replays", f"{number:,}", ", ".join(map(str, table["fs_type"].drop_nulls().unique().sort())))
    ]
    for metric, quantile, title in (
        ("elapsed", None, "Elapsed"),
        ("recorded", None, "Recorded"),
        ("io_time", None, "I/O time"),
        ("lateness", "p99", "Late (p99)"),
    ):
        rows = table.filter(pl.col("metric") == metric, pl.col("quantile").cast(pl.String).eq_missing(quantile))
        if rows.height:
            median = rows.select(pl.col("value").median()).item()
            tiles.append(overview.tile(title, cells.duration(median), *([of_all] if of_all else [])))
    operations, diverged = (
        table.filter(pl.col("metric") == metric).select(pl.col("value").sum()).item()
        for metric in ("operations", "divergences")
    )
    of_operations = f"of {cells.count(operations)} operations"
    tiles.append(overview.tile("Diverged", cells.count(diverged), of_operations, is_bad=diverged > 0))
    return [overview.tiles(*tiles)]


def _replays(table: pl.DataFrame) -> list[Element]:
    """Render one row for each replay."""
    name = pl.concat_str("metric", pl.coalesce(pl.col("quantile").cast(pl.String), pl.lit("")), separator=" ")
    diverged = table.filter(metric="divergences").group_by("run_id", "fs_type").agg(pl.col("value").sum())
    rows = pl.concat(
        [
            table.filter(pl.col("metric") != "divergences").select(
                "run_id", "fs_type", "value", name=name.str.strip_chars()
            ),
            diverged.select("run_id", "fs_type", "value", name=pl.lit("divergences")),
        ]
    )
    wide = rows.pivot("name", index=["run_id", "fs_type"], values="value", maintain_order=True)
    names = {"run_id": Column("Replay"), "fs_type": Column("Filesystem", pick=True)}
    return [
        cells.table(wide, names | {name: one for name, one in _OF_REPLAYS.items() if name in wide.columns}, "Replays")
    ]


def _replayed_calls(table: pl.DataFrame) -> list[Element]:
    """Render one row for each call over all replays. Quantiles are those of the slowest replay."""
    sums = table.filter(pl.col("metric").is_in(["operations", "io_time", "divergences"]))
    wide = sums.group_by("call", "metric").agg(pl.col("value").sum()).pivot("metric", index="call", values="value")
    slowest = (
        table.filter(metric="latency")
        .group_by("call", "quantile")
        .agg(pl.col("value").max())
        .pivot("quantile", index="call", values="value")
    )
    rows = wide.join(slowest, on="call").sort("io_time", "call", descending=[True, False])
    columns = {
        "call": Column("Call"),
        "operations": Column("Operations", cells.count),
        "io_time": Column("I/O time", cells.duration),
        **{name: Column(name, cells.duration) for name in ("p50", "p99", "max")},
        "divergences": Column("Diverged", cells.count),
    }
    return [
        cells.table(rows, columns, "Replayed calls"),
        el("p", "Quantiles are those of the slowest replay.", class_="note"),
    ]


_OF_REPLAYS: Final[Mapping[str, Column]] = {
    "elapsed": Column("Elapsed", cells.duration),
    "recorded": Column("Recorded", cells.duration),
    "io_time": Column("I/O time", cells.duration),
    "operations": Column("Operations", cells.count),
    "divergences": Column("Diverged", cells.count),
    "lateness p50": Column("Late p50", cells.duration),
    "lateness p99": Column("p99", cells.duration),
    "lateness max": Column("max", cells.duration),
    "lateness_own p99": Column("Own p99", cells.duration),
    "cpu_ratio": Column("CPU", cells.per_cent),
}
"""Columns of the metrics of a replay."""


def _lateness(table: pl.DataFrame) -> Axes:
    """Draw the parts of the lateness of one replay, or the lateness of each of several replays."""
    return plot.replay_lateness_distribution(table, series="part" if table["run_id"].n_unique() == 1 else "run_id")


ROLE: Final = "replay"

SECTION: Final = Section(
    "Replays and their calls",
    ("replay_io_time", "replay_lateness", "replay_divergence", "replay_cpu"),
    (("replays", _replays), ("replay_latency", _replayed_calls)),
    (
        Figure(
            "replay_io_time",
            "replay_io_time",
            plot.replay_io_time,
            "Total I/O time of a replay, and of the calls that take most of it: median of the replays on each "
            "filesystem, with the interval of the median (fewer than six replays: minimum and maximum). Replays of "
            "different programs or modes are shown one by one.",
        ),
        Figure(
            "replay_lateness",
            "replay_lateness",
            _lateness,
            "Cumulative distribution of the lateness of operations: of one replay with its components, of several "
            "replays one line each. Time is logarithmic; operations that began within 1 µs are at the left end.",
        ),
    ),
)
