"""Caches and what they live on: hot blocks, and what a cache of a size misses."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from androstep_analysis import quantities
from androstep_analysis.measures.tables import MEASURES
from androstep_analysis.plot import paper, text

_MOST_LINES = 6


@paper.of_any_table
def miss_ratio(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """What a cache would miss by its size, a line for each group, of the six that touch most.

    Parameters
    ----------
    table : Table
        Of `measures.miss_ratio`, by at most one column.
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
        for name, line in _lines(data, _groups(table, "cache_bytes")):
            by_size = line.sort("cache_bytes")
            ax.plot(by_size["cache_bytes"], by_size["value"] * 100, marker=".", label=name)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_locator(LogLocator(base=32))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda size, _: quantities.size(size)))
        ax.set_xlabel("Size of the cache")
        ax.set_ylabel("Misses [%]")
        return _finished(ax)


@paper.of_any_table
def hotness(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """What share of the accesses the hottest blocks or files take, a line for each group, of the six that access most.

    The share of the blocks is logarithmic.

    Parameters
    ----------
    table : Table
        Of `measures.hotness`, by at most one column.
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
        for name, line in _lines(data, _groups(table, "top")):
            by_share = line.sort("top")
            ax.plot(by_share["top"] * 100, by_share["value"] * 100, marker=".", label=name)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
        (of,) = table.filter(metric="size")["unit"].unique() if "size" in table["metric"] else ("blocks",)
        ax.set_xlabel(f"Hottest {of} [%]")
        ax.set_ylabel("Accesses [%]")
        return _finished(ax)


def _groups(table: pl.DataFrame, axis: str) -> list[str]:
    return [name for name in table.columns if name not in (*MEASURES, axis)]


def _lines(data: pl.DataFrame, groups: list[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each group and its name, the largest groups first."""
    lines = data.partition_by(groups, maintain_order=True) if groups else [data]
    for line in sorted(lines, key=lambda line: -int(line["n"][0]))[:_MOST_LINES]:
        key = line[groups[0]][0] if groups else "_"
        yield "(unknown)" if key is None else text.label(str(key)), line


def _finished(ax: Axes) -> Axes:
    ax.set_ylim(0, 100)
    paper.grid(ax, "both")
    if not all(str(line.get_label()).startswith("_") for line in ax.lines):
        paper.legend(ax)
    return ax
