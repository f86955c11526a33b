"""Figures of counters: CPU time by state as bars, and binned results over time as lines."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from androstep_analysis.present.plot import paper, text

CPU_STATES: Final = {"active": "#0072B2", "iowait": "#D55E00", "idle": "#DDDDDD"}

_MEASURED: Final = {
    "cpu_time": "CPU time",
    "cpu_share": "Share of CPU time",
    "busy_ratio": "Busy",
    "stalled_ratio": "Stalled",
    "rate": "Rate",
}

_TICK_S: Final = 0.01
_GAP: Final = 0.8
"""Extra space between groups of bars, in units of the distance between bars."""

_LETTERS: Final = 48
"""Labels with more letters than this in total are slanted."""

_LINES: Final = 8
"""Maximum number of lines; there are no more colours."""


@paper.of_any_table
def cpu(
    table: pl.DataFrame,
    *,
    bar: str = "storage",
    group: str | None = None,
    unit: Literal["s", "ticks", "share"] = "s",
    ax: Axes | None = None,
) -> Axes:
    """Draw stacked bars of CPU time: active, waiting for I/O and idle.

    `table` has results of `measures.cpu` of several captures. Column `bar` identifies the bars, such as storage
    devices; column `group`, if given, groups them, such as by workload. Both are drawn in the order of their rows.

    Parameters
    ----------
    table : Table
        Result of `measures.cpu`, of several captures, with the columns that `bar` and `group` name added.
    bar : str
        Column that identifies the bars, such as a storage device.
    group : str, optional
        Column that groups the bars, such as a workload.
    unit : {"s", "ticks", "share"}
        Seconds, ticks of 10 ms as in the paper, or the share of all CPU time.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 5.

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 5 * 10**8]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> _ = plot.cpu(measures.cpu(samples).with_columns(storage=pl.lit("UFS")))
    """
    dimensions = ["state", bar, *([group] if group else [])]
    data = paper.rows(table, "cpu_share" if unit == "share" else "cpu_time", dimensions)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        scale = {"s": 1.0, "ticks": 1 / _TICK_S, "share": 100.0}[unit]
        keys = [name for name in (group, bar) if name]
        places = data.select(keys).unique(maintain_order=True)
        if group:
            # Order groups by first occurrence, with the bars of each group together.
            order = places[group].unique(maintain_order=True)
            places = pl.concat([places.filter(pl.col(group) == value) for value in order])
        x = _positions(places[group].to_list() if group else [None] * places.height)
        bottom = np.zeros(places.height)
        for state in paper.ordered(data["state"], CPU_STATES):
            rows = places.join(data.filter(pl.col("state") == state), on=keys, how="left", maintain_order="left")
            heights = rows["value"].fill_null(0).to_numpy() * scale
            ax.bar(x, heights, 0.7, bottom, color=paper.colour(state, CPU_STATES), label=paper.words(state))
            bottom += heights
        labels = [text.label(str(value)) for value in places[bar]]
        slanted = sum(map(len, labels)) > _LETTERS
        ax.set_xticks(x, labels, rotation=30 if slanted else 0, ha="right" if slanted else "center")
        if group:
            deepest = max(map(len, labels)) * 2 if slanted else 0
            _name_groups(ax, x, [str(value) for value in places[group]], 18 + deepest)
        ax.set_ylabel({"s": "CPU time [s]", "ticks": "CPU ticks of 10 ms", "share": "Share of CPU time [%]"}[unit])
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ax.set_ylim(0, bottom.max() * 1.04 if bottom.max() > 0 else 1)
        paper.grid(ax, "y")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def samples_over_time(
    table: pl.DataFrame, *, metric: str, line: str, origin_ns: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a binned metric over time, with a line for each value of column `line`.

    Use it for results with `ts_ns`: cpu_share by state (`measures.cpu`), busy_ratio by disk (`measures.busyness`),
    stalled_ratio by resource (`measures.pressure`), rate by counter (`measures.counter_rate`). At most eight lines are
    drawn, those with the largest values; a note counts the others.

    Parameters
    ----------
    table : Table
        A result of `measures` in bins (column ts_ns).
    metric : str
        The metric to show.
    line : str
        Column that determines the lines.
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> samples = pl.DataFrame({"ts_ns": [0, 10**9], "value": [0, 5 * 10**8]}).with_columns(
    ...     counter=pl.lit("stat.user"), unit=pl.lit("ns"), scope=pl.lit("system"),
    ...     dev=None, pid=None, instance=None,
    ... )
    >>> _ = plot.samples_over_time(measures.cpu(samples, bin_ns=10**8), metric="cpu_share", line="state")
    """
    data = paper.rows(table, metric, ("ts_ns", line)).sort("ts_ns")
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        starts = data["ts_ns"].unique().sort().to_numpy()
        origin = int(starts[0]) if origin_ns is None else origin_ns
        width = int(np.diff(starts).min()) if len(starts) > 1 else 1_000_000_000
        divisor, time = paper.time_unit(int(starts[-1]) + width - origin)
        measured = str(data["unit"][0])
        scale = 100.0 if measured == "1" else 1.0
        greatest = data.group_by(line, maintain_order=True).agg(pl.col("value").max())
        shown = greatest.sort("value", descending=True, maintain_order=True)[line].head(_LINES).to_list()
        kinds = [value for value in greatest[line] if value in shown]
        for number, kind in enumerate(kinds):
            rows = data.filter(pl.col(line).eq_missing(kind))
            begin, value = rows["ts_ns"].to_numpy(), rows["value"].to_numpy() * scale
            edges, heights = np.append(begin, begin[-1] + width), np.append(value, value[-1])
            colour = CPU_STATES.get(str(kind), paper.SERIES[number])
            name = text.label(paper.words(str(kind)))
            ax.plot((edges - origin) / divisor, heights, drawstyle="steps-post", color=colour, label=name)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(f"Time [{time}]")
        ax.set_ylabel(text.label(f"{_MEASURED.get(metric, paper.words(metric))} [{'%' if scale == 100 else measured}]"))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        if greatest.height > len(kinds):
            paper.note(ax, f"{greatest.height - len(kinds)} more are not drawn.")
        return ax


def _positions(groups: list[object]) -> np.ndarray:
    """Return the positions of bars, with extra space between groups."""
    steps = [1 + _GAP * (number > 0 and groups[number] != groups[number - 1]) for number in range(len(groups))]
    return np.cumsum(steps, dtype=np.float64)


def _name_groups(ax: Axes, x: np.ndarray, groups: list[str], below: float) -> None:
    """Write the name of each group `below` points below its bars."""
    for name in dict.fromkeys(groups):
        middle = np.mean([place for place, other in zip(x, groups, strict=True) if other == name])
        ax.annotate(
            text.label(name),
            (float(middle), 0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -below),
            textcoords="offset points",
            ha="center",
            va="top",
        )
