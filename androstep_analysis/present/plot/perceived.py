"""Figures of user-perceived latency: events between an input and a stable screen, response times, and I/O in flight."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.perceived import LIMITS
from androstep_analysis.present.plot import intervals, paper, text
from androstep_analysis.present.plot.series import WAITING

_TRACKS: Final = {
    "input": "#222222",
    "waiting": WAITING,
    "GUI changes": "#E69F00",
    "GUI stable": "#14A37C",
    "work": "#8C3B66",
    "app I/O": "#0072B2",
    "any I/O": "#A6C5EA",
}
_LEAST_SHARE: Final = 0.004
"""Minimum drawn length of a span, as a share of the axis. A shorter span would be invisible."""

_UPRIGHT: Final = 4
"""Maximum number of groups whose names are not rotated."""

_NAMED_WAITS: Final = 40
"""Maximum number of waits whose names are readable below each other on a page."""

_KINDS: Final = ("read", "write", "sync_write")


@paper.of_any_table
def perceived_breakdown(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the events after an input, with a line for each track.

    Time counts from the first span. Very short spans are drawn longer than they are, so that they are visible.

    Parameters
    ----------
    table : Table
        Result of `perceived.breakdown`.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Luo, Jiang and Cohen, Figure 1.

    Examples
    --------
    >>> wait = {"label": "open", "ts_ns": 100, "end_ns": 110, "stable_hi_ns": 500}
    >>> views = pl.DataFrame({"state": ["a", "b"], "from_hi_ns": [0, 500]})
    >>> _ = plot.perceived_breakdown(perceived.breakdown(views, wait))
    """
    with paper.drawing(ax) as ax:
        if table.is_empty():
            return paper.no_data(ax)
        origin, _ = paper.span(table["start_ns"])
        _, last = paper.span(table["end_ns"])
        divisor, unit = paper.time_unit(max(last - origin, 1))
        least = (last - origin) * _LEAST_SHARE / divisor
        tracks = paper.first_known(table["track"], _TRACKS)
        for position, track in enumerate(tracks):
            rows = table.filter(pl.col("track").cast(pl.String) == track)
            begin = (rows["start_ns"].to_numpy() - origin) / divisor
            length = np.maximum((rows["end_ns"] - rows["start_ns"]).to_numpy() / divisor, least)
            bars = list(zip(begin.tolist(), length.tolist(), strict=True))
            fill = paper.colour(track, _TRACKS)
            ax.broken_barh(bars, (position - 0.35, 0.7), facecolors=fill, edgecolor="white", lw=0.4)
        ax.set_yticks(range(len(tracks)), [text.label(track, 24) for track in tracks], parse_math=False, usetex=False)
        ax.set_ylim(len(tracks) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.set_xlim(0, (last - origin) / divisor + least)
        ax.set_xlabel(f"Time since the input [{unit}]")
        paper.grid(ax, "x")
        return ax


@paper.of_any_table
def perceived_responses(
    table: pl.DataFrame, *, by: str = "label", series: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw mean latencies with their intervals, as a group of bars for each value of `by`.

    Lines show Nielsen's limits within the range of the bars.

    Parameters
    ----------
    table : Table
        Result of `perceived.responses`.
    by : str
        Dimension with a group of bars for each value.
    series : str, optional
        Dimension that identifies the bars of a group, such as the configuration.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Luo, Jiang and Cohen, Figure 3.

    Examples
    --------
    >>> moves = pl.DataFrame({"label": "open", "latency_lo_ns": [100, 300], "latency_hi_ns": [200, 400]})
    >>> _ = plot.perceived_responses(perceived.responses(moves))
    """
    dims = (by,) if series is None else (by, series)
    data = paper.rows(table, "response", dims)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        data = data.with_columns(pl.col(dims).cast(pl.String), one=pl.lit(""))
        kinds = data[series or "one"].unique(maintain_order=True).to_list()
        groups = data[by].unique(maintain_order=True).to_list()
        _, largest = paper.span(data["value"])
        divisor, unit = paper.time_unit(2 * largest)
        palette = intervals.colours(kinds)
        intervals.bars(ax, data, by, groups, series or "one", palette, divisor)
        ax.set_xlabel("")
        top = ax.get_ylim()[1]
        for name, limit in LIMITS.items():
            if limit / divisor < top:
                ax.axhline(limit / divisor, color="#777777", lw=0.6, ls=(0, (3, 2)), zorder=0)
                ax.annotate(
                    name,
                    (1, limit / divisor),
                    xycoords=("axes fraction", "data"),
                    fontsize=6,
                    color="#555555",
                    ha="right",
                    va="bottom",
                )
        turned: dict[str, Any] = {} if len(groups) <= _UPRIGHT else {"rotation": 30, "ha": "right"}
        names = [text.label(group, 16) for group in groups]
        ax.set_xticks(range(len(groups)), names, parse_math=False, usetex=False, **turned)
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(groups) - 0.4)
        ax.set_ylim(bottom=0)
        ax.set_ylabel(f"Response time [{unit}]")
        paper.grid(ax, "y")
        if series is not None:
            paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def perceived_in_flight(table: pl.DataFrame, *, whose: str = "any", ax: Axes | None = None) -> Axes:
    """Draw the share of each window with reads, writes and synchronous writes in flight.

    There is a group of bars for each window, in order. Kinds overlap, so bars do not add up.

    Parameters
    ----------
    table : Table
        Result of `perceived.in_flight`.
    whose : {"any", "app"}
        Whose I/O to show.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> waits = pl.DataFrame({"label": "all", "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> _ = plot.perceived_in_flight(perceived.in_flight(capture.io, waits))
    """
    data = table.filter(pl.col("whose").cast(pl.String) == whose, pl.col("kind").cast(pl.String).is_in(_KINDS))
    data = paper.rows(data, "in_flight_ratio", ("window", "label", "whose", "kind"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        windows = data.select("window", "label").unique(maintain_order=True).sort("window")
        palette = {"read": paper.OPS["read"], "write": paper.OPS["write"], "sync_write": paper.SYNC["sync"]}
        intervals.bars(ax, data, "window", windows["window"].to_list(), "kind", palette, 0.01)
        few = windows.height <= 12
        names = [text.label(label, 14) for label in windows["label"]] if few else None
        if names is not None:
            ax.set_xticks(range(len(names)), names, parse_math=False, usetex=False, rotation=30, ha="right")
        ax.set_xlabel("" if few else "Window")
        ax.set_ylim(0, 100)
        ax.set_ylabel("Share of the wait [%]")
        paper.grid(ax, "y")
        paper.legend(ax, above=True)
        paper.note(ax, "with I/O of the app in flight" if whose == "app" else "with any I/O in flight")
        return ax


@paper.of_any_table
def perceived_requests(table: pl.DataFrame, *, windows: Table, ax: Axes | None = None) -> Axes:
    """Draw a row for each window: how long the user waited, and a mark for each request from then on.

    Parameters
    ----------
    table : Table
        Result of `perceived.requests`.
    windows : Table
        The windows of which it is the result: columns label, start_ns, end_ns.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Luo, Jiang and Cohen, Figure 5.

    Examples
    --------
    >>> waits = pl.DataFrame({"label": "all", "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> _ = plot.perceived_requests(perceived.requests(capture.io, waits, until_ns=10**9), windows=waits)
    """
    waits = frame(windows)
    with paper.drawing(ax, 0.8 + 0.17 * min(waits.height, _NAMED_WAITS)) as ax:
        if waits.is_empty():
            return paper.no_data(ax)
        lengths = (waits["end_ns"] - waits["start_ns"]).to_numpy()
        divisor, unit = paper.time_unit(paper.span(pl.concat([table["after_ns"], pl.Series(lengths)]))[1])
        ax.barh(np.arange(waits.height), lengths / divisor, 0.8, color=WAITING, label="the user waited")
        look: dict[str, Any] = {"marker": "|", "linestyle": "", "markersize": 7, "markeredgewidth": 0.7}
        ax.plot(table["after_ns"] / divisor, table["window"], color=paper.SERIES[0], label="a request", **look)
        if waits.height <= _NAMED_WAITS:
            names = [text.label(label, 20) for label in waits["label"]]
            ax.set_yticks(range(waits.height), names, parse_math=False, usetex=False)
            ax.tick_params(axis="y", length=0)
        else:
            ax.set_ylabel("Window")
        ax.set_ylim(waits.height - 0.4, -0.6)
        ax.set_xlim(left=0)
        ax.set_xlabel(f"Time since the wait began [{unit}]")
        paper.grid(ax, "x")
        paper.legend(ax, above=True)
        return ax
