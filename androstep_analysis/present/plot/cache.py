"""Figures of cache behaviour: hot blocks, working sets, lifetimes, miss ratios and read-ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from androstep_analysis.common import quantities
from androstep_analysis.measures.tables import MEASURES
from androstep_analysis.measures.working_set import WINDOW_NS
from androstep_analysis.present.plot import intervals, paper
from androstep_analysis.present.plot.series import steps

_MOST_LINES = 6

_ENDS = {"rewritten": "rewritten", "discarded": "discarded", "alive": "alive at the end"}

_READ = {
    "asked": ("asked for", "#0072B2"),
    "direct": ("direct", "#56B4E9"),
    "mapped": ("mapped around a fault", "#E69F00"),
    "pending": ("not yet asked for", "#F0C987"),
    "dropped": ("dropped unasked", "#D55E00"),
    "unknown": ("unknown", "#777777"),
}
"""Outcomes of data that was read, with label and colour, from useful to useless."""


@paper.of_any_table
def miss_ratio(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the miss ratio by cache size, with a line for each of the six groups with the most accesses.

    Parameters
    ----------
    table : Table
        Result of `measures.miss_ratio`, by at most one column.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.miss_ratio(measures.miss_ratio(capture.io, by=["owner_comm"]))
    """
    data = paper.rows(table, "miss_ratio", (*_groups(table, "cache_bytes"), "cache_bytes"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        for name, colour, line in _lines(data, _groups(table, "cache_bytes")):
            by_size = line.sort("cache_bytes")
            ax.plot(by_size["cache_bytes"], by_size["value"] * 100, marker=".", color=colour, label=name)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_locator(LogLocator(base=32))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda size, _: quantities.size(size)))
        ax.set_xlabel("Size of the cache")
        ax.set_ylabel("Misses [%]")
        ax.set_ylim(0, 100)
        return _finished(ax)


@paper.of_any_table
def hotness(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the share of accesses to the hottest blocks or files, with a line for each of the six most active groups.

    The share of blocks is logarithmic. Operations have their usual colours.

    Parameters
    ----------
    table : Table
        Result of `measures.hotness`, by at most one column.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.hotness(measures.hotness(capture.io, shares=[0.01, 0.03, 0.1, 0.3, 1]))
    """
    data = paper.rows(table, "access_ratio", (*_groups(table, "top"), "top"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        for name, colour, line in _lines(data, _groups(table, "top")):
            by_share = line.sort("top")
            ax.plot(by_share["top"] * 100, by_share["value"] * 100, marker=".", color=colour, label=name)
        ax.set_xscale("log")
        paper.label_decades(ax.xaxis)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
        (of,) = table.filter(metric="size")["unit"].unique() if "size" in table["metric"] else ("blocks",)
        ax.set_xlabel(f"Hottest {of} [%]")
        ax.set_ylabel("Accesses [%]")
        ax.set_ylim(0, 100)
        return _finished(ax)


@paper.of_any_table
def working_set(table: pl.DataFrame, *, window_ns: int = WINDOW_NS, ax: Axes | None = None) -> Axes:
    """Draw the bytes of distinct blocks accessed in each window of time, for the six most active groups.

    Parameters
    ----------
    table : Table
        Result of `measures.working_set`, by at most one column.
    window_ns : int
        Length of the windows of the table, in ns.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.working_set(measures.working_set(capture.io))
    """
    data = paper.rows(table, "working_set", (*_groups(table, "ts_ns"), "ts_ns"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        first, last = (int(data["ts_ns"].sort()[place]) for place in (0, -1))
        divisor, time = paper.time_unit(last + window_ns - first)
        scale, unit = paper.byte_unit(paper.span(data["value"])[1])
        for name, colour, line in _lines(data, _groups(table, "ts_ns")):
            by_time = line.sort("ts_ns")
            x, y = steps(by_time["ts_ns"].to_numpy() - first, by_time["value"].to_numpy() / scale, window_ns)
            ax.plot(x / divisor, y, drawstyle="steps-post", color=colour, label=name)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(f"Time [{time}]")
        ax.set_ylabel(f"Working set [{unit}]")
        return _finished(ax)


@paper.of_any_table
def lifetimes(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the outcome of written blocks as a bar of 100 %, for each of the six groups with the most writes.

    Parameters
    ----------
    table : Table
        Result of `measures.lifetimes`, by at most one column.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.lifetimes(measures.lifetimes(capture.io, by=["file_type"]))
    """
    groups = _groups(table, "metric")
    data = paper.rows(table, "alive_ratio", groups)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        names = [name for name, *_ in _lines(data, groups)]
        left = np.zeros(len(names))
        for number, end in enumerate(_ENDS):
            lines = [line for *_, line in _lines(paper.rows(table, f"{end}_ratio", groups), groups)]
            share = np.array([line["value"][0] * 100 for line in lines])
            ax.barh(np.arange(len(names)), share, left=left, color=f"C{number}", label=_ENDS[end])
            left += share
        ax.set_yticks(range(len(names)), [name if groups else "" for name in names], parse_math=False)
        ax.invert_yaxis()
        ax.set_xlim(0, 100)
        ax.set_xlabel("Blocks written [%]")
        paper.grid(ax, "x")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def readahead(table: pl.DataFrame, *, top: int = 10, ax: Axes | None = None) -> Axes:
    """Draw horizontal bars of the outcome of data that was read, one for each of the groups that read most.

    Parameters
    ----------
    table : Table
        Result of `measures.readahead`, by at most one column.
    top : int
        Maximum number of bars.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.readahead(measures.readahead(capture.tables, by=["file_type"]))
    """
    groups = _groups(table, "part")
    data = paper.rows(table, "bytes", (*groups, "part")).with_columns(pl.col("part").cast(pl.String))
    parts = data.partition_by(groups, maintain_order=True) if groups else [data]
    shown = sorted(parts, key=lambda of_group: -float(of_group["value"].sum()))[:top]
    with paper.drawing(ax, 0.75 + 0.17 * max(len(shown), 4)) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        scale, unit = paper.byte_unit(max(float(of_group["value"].sum()) for of_group in shown))
        left = np.zeros(len(shown))
        for part, (words, colour) in _READ.items():
            width = np.array([of_group.filter(part=part)["value"].sum() / scale for of_group in shown])
            if width.any():
                ax.barh(np.arange(len(shown)), width, left=left, color=colour, label=words)
            left += width
        labels = paper.labels(data, groups[0]) if groups else {"": ""}
        names = [labels[of_group[groups[0]][0] if groups else ""] for of_group in shown]
        ax.set_yticks(range(len(shown)), names, parse_math=False)
        ax.invert_yaxis()
        ax.set_xlabel(f"Read from the device [{unit}]")
        paper.grid(ax, "x")
        paper.legend(ax)
        return ax


def _groups(table: pl.DataFrame, axis: str) -> list[str]:
    return [name for name in table.columns if name not in (*MEASURES, axis)]


def _lines(data: pl.DataFrame, groups: list[str]) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Return name, colour and rows of each group, the largest groups first."""
    parts = data.partition_by(groups, maintain_order=True) if groups else [data]
    lines = sorted(parts, key=lambda line: -int(line["n"].sum()))[:_MOST_LINES]
    labels = paper.labels(data, groups[0]) if groups else {"_": "_"}
    names = [labels[line[groups[0]][0] if groups else "_"] for line in lines]
    palette = intervals.colours(names, paper.OPS if groups == ["op"] else None)
    return ((name, palette[name], line) for name, line in zip(names, lines, strict=True))


def _finished(ax: Axes) -> Axes:
    paper.grid(ax, "both")
    if not all(str(line.get_label()).startswith("_") for line in ax.lines):
        paper.legend(ax)
    return ax
