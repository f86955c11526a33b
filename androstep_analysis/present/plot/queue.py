"""Figures of queue depth and seek distances."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from androstep_analysis.common import units
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.present.plot import paper

_SEEKS: Final = {"Q2Q": "bios as queued", "D2D": "requests as issued"}


@paper.of_any_table
def queue(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the share of time with at least a number of requests in the device, with a line for each device.

    Parameters
    ----------
    table : Table
        Result of `measures.queue` without further groups.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.queue(measures.queue(capture.requests))
    """
    data = paper.rows(table, "time_ratio", ("dev", "depth"))
    with paper.drawing(ax) as ax:
        data = data.filter(pl.col("value").is_not_null())
        if data.is_empty():
            return paper.no_data(ax)
        deepest = int(data["depth"].to_numpy().max())
        for number, dev in enumerate(data["dev"].unique().sort()):
            line = data.filter(dev=dev).sort("depth", descending=True)
            depth = range(1, deepest + 1)
            at_least = [float(line.filter(pl.col("depth") >= least)["value"].sum()) * 100 for least in depth]
            ax.plot(depth, at_least, marker=".", color=f"C{number}", label=units.format_dev(dev))
        ax.set_yscale("log")
        paper.label_decades(ax.yaxis)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
        paper.count_axis(ax, "x")
        ax.set_xlabel("Requests in the device, at least")
        ax.set_ylabel("Time [%]")
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def depth_over_time(table: pl.DataFrame, *, origin_ns: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the requests in a device over time: the mean of each window, and a band up to the maximum.

    There is a line for each device. Windows of unknown depth are empty. The axis is linear up to one request, and
    logarithmic above.

    Parameters
    ----------
    table : Table
        Result of `measures.depth` in windows, without further groups.
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.depth_over_time(measures.depth(capture.requests, window_ns=10**8))
    """
    keys = ["ts_ns", "dev"]
    mean, most = (paper.rows(table, metric, keys) for metric in ("mean", "max"))
    data = mean.join(most.select(*keys, most="value"), on=keys).sort(keys)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        starts = data["ts_ns"].unique().sort().to_numpy()
        width = int(np.diff(starts).min()) if len(starts) > 1 else int(table.filter(metric="time")["value"].sum())
        origin = int(starts[0]) if origin_ns is None else origin_ns
        divisor, time = paper.time_unit(int(starts[-1]) + width - origin)
        for number, dev in enumerate(data["dev"].unique().sort()):
            line = data.filter(dev=dev)
            begin = line["ts_ns"].to_numpy()
            x = (np.column_stack([begin, begin + width, begin + width]).ravel() - origin) / divisor
            # A window without a row ends the line.
            is_last = np.append(np.diff(begin) > width, True)
            drawn, above = (
                np.column_stack([value, value, np.where(is_last, np.nan, value)]).ravel()
                for value in (line["value"].to_numpy(), line["most"].to_numpy())
            )
            ax.fill_between(x, drawn, above, color=f"C{number}", alpha=0.25, linewidth=0)
            ax.plot(x, drawn, color=f"C{number}", label=units.format_dev(dev))
        ax.set_yscale("symlog", linthresh=1)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,g}"))
        ax.set_ylim(bottom=0)
        ax.set_xlabel(f"Time [{time}]")
        ax.set_ylabel("Requests in the device, mean to most")
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def seek_distances(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of seek distances of bios and requests, backward and forward, with bins that double.

    The bin in the middle has accesses that touch or overlap the previous one. The bin labelled 4 KiB has distances
    above 2 KiB and up to 4 KiB.

    Parameters
    ----------
    table : Table
        Result of `measures.seek_distances` without further groups.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.seek_distances(measures.seek_distances(capture.block_events))
    """
    bounds = pl.col("distance_up_to_sectors")
    data = paper.rows(table, "count_ratio", ("step", "distance_up_to_sectors"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        # Powers of two are exact in logarithms: 1 sector is the first bin from the middle.
        bins = data.with_columns(bin=bounds.sign() * (bounds.abs().clip(1).log(2).round().cast(pl.Int64) + 1))
        farthest = int(bins["bin"].abs().to_numpy().max())
        places = np.arange(-farthest, farthest + 1)
        for number, (step, of) in enumerate(_SEEKS.items()):
            shares = dict(bins.filter(step=step).select("bin", "value").iter_rows())
            heights = [shares.get(place, 0) * 100 for place in places]
            edges = np.append(places, farthest + 1) - 0.5
            ax.stairs(heights, edges, color=f"C{number}", linewidth=paper.RC["lines.linewidth"], label=f"{step}: {of}")
        labelled = [int(place) for place in places if place == 0 or abs(place) % 5 == 4]
        ax.set_xticks(labelled, [_distance(place) for place in labelled], rotation=45, ha="right")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("Distance from what came before: at most")
        ax.set_ylabel("Share [%]")
        paper.grid(ax, "y")
        paper.legend(ax, above=True)
        return ax


def _distance(place: int) -> str:
    """Return the upper bound of a bin of `seek_distances`."""
    sign = "\N{MINUS SIGN}" if place < 0 else ""
    return sign + paper.size(SECTOR_BYTES << abs(place) - 1) if place else "0"
