"""Figures of replays: I/O time of calls by filesystem, lateness of operations, and operations over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from androstep_analysis.present.plot import intervals, paper, text

SOURCES: Final = {"recorded": "#777777", "replayed": "#0072B2"}
LATENESS: Final = {
    "lateness": "#222222",
    "lateness_busy": "#D55E00",
    "lateness_waited": "#E69F00",
    "lateness_own": "#0072B2",
}
_ALL: Final = "all calls"
_NAMED: Final = 8
"""Maximum number of replays in a legend."""

_LEAST_NS: Final = 1000.0
"""Start of the axis of lateness. Earlier and punctual operations are drawn there."""


@paper.of_any_table
def replay_io_time(table: pl.DataFrame, *, top: int = 4, ax: Axes | None = None) -> Axes:
    """Draw total I/O time by filesystem.

    There is a group for each `place`, with a bar for all calls and one for each of the `top` calls with the most time.
    Bars are medians of the repetitions, with their intervals (lo, hi).

    Parameters
    ----------
    table : Table
        Result of `replay.summarise`: columns metric, place, call, value, lo, hi.
    top : int
        Maximum number of single calls.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figure 16 (total I/O latency).

    Examples
    --------
    >>> times = pl.DataFrame({"metric": "io_time", "place": ["ext4", "f2fs"], "call": None, "value": [2e9, 1e9],
    ...                       "lo": [1.9e9, 0.9e9], "hi": [2.1e9, 1.1e9]})
    >>> _ = plot.replay_io_time(times)
    """
    data = _io_times(table)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        places = paper.first_known(data["place"], paper.FILESYSTEMS)
        calls = _longest(data, top)
        divisor, unit = paper.time_unit(paper.span(data["value"])[1])
        palette = {_ALL: "#444444"} | intervals.colours(calls[1:])
        intervals.bars(ax, data, "place", places, "call", palette, divisor)
        ax.set_xlabel("")
        ax.set_xticks(range(len(places)), [text.label(place, 16) for place in places], parse_math=False, usetex=False)
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(places) - 0.4)
        ax.set_ylim(bottom=0)
        ax.set_ylabel(f"Total I/O time [{unit}]")
        paper.grid(ax, "y")
        paper.legend(ax, above=True, columns=5)
        hidden = data["call"].n_unique() - len(calls)
        if hidden:
            paper.note(ax, f"{hidden} further calls are part of the first bar only")
        return ax


@paper.of_any_table
def replay_lateness_distribution(table: pl.DataFrame, *, series: str = "part", ax: Axes | None = None) -> Axes:
    """Draw the cumulative distribution of lateness, with a line for each value of `series`.

    By `part`: lateness of one replay and its components. By ``run_id`` or ``fs_type``: total lateness of several
    replays. Lateness up to 1 µs is drawn at the left end.

    Parameters
    ----------
    table : Table
        Result of `replay.lateness_distribution`: columns metric, run_id, fs_type, part, lateness_ns, value.
    series : {"part", "run_id", "fs_type"}
        Column that determines the lines.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> table = pl.DataFrame({"metric": "cumulative_ratio", "run_id": 1, "fs_type": "ext4", "part": "lateness",
    ...                       "lateness_ns": [2000, 9000], "value": [0.5, 1.0]})
    >>> _ = plot.replay_lateness_distribution(table)
    """
    data = table if series == "part" else table.filter(pl.col("part") == "lateness")
    data = paper.rows(data.drop("run_id" if series == "fs_type" else "fs_type"), "cumulative_ratio", _dims(series))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        if data.select(series, "lateness_ns").is_duplicated().any():
            raise ValueError(f"several replays have the same {series}: keep one of each")
        high = max(paper.span(data["lateness_ns"])[1], 10 * _LEAST_NS)
        ax.set_xscale("log")
        palette = {**LATENESS, **paper.FILESYSTEMS}
        for number, name in enumerate(paper.first_known(data[series], palette)):
            line = data.filter(pl.col(series).cast(pl.String) == name).sort("lateness_ns")
            x = np.clip(line["lateness_ns"].to_numpy().astype(float), _LEAST_NS, None) / 1e9
            y = line["value"].to_numpy() * 100
            x, y = np.concatenate([x[:1], x, [high * 2 / 1e9]]), np.concatenate([[0.0], y, y[-1:]])
            fill = palette.get(name, paper.SERIES[number % len(paper.SERIES)])
            ax.plot(x, y, drawstyle="steps-post", color=fill, label=_PARTS.get(name) or text.label(name, 20))
        ax.set_xlim(_LEAST_NS / 1e9, high * 1.5 / 1e9)
        ax.xaxis.set_major_locator(LogLocator(10, numticks=9))
        ax.xaxis.set_major_formatter(EngFormatter("s", places=None))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_ylim(0, 101)
        ax.set_xlabel("Lateness")
        ax.set_ylabel("Operations at most as late [%]")
        paper.grid(ax, "both")
        names = data[series].n_unique()
        if names <= _NAMED:
            paper.legend(ax, above=True, columns=4 if series == "part" else 2)
        else:
            paper.note(ax, f"{names} replays")
        return ax


_PARTS: Final = {
    "lateness": "lateness",
    "lateness_busy": "busy",
    "lateness_waited": "waited",
    "lateness_own": "own",
}


@paper.of_any_table
def replay_timeline(table: pl.DataFrame, *, top: int = 24, ax: Axes | None = None) -> Axes:
    """Draw when operations were done, with recorded ones above replayed ones in a row for each thread.

    If there are many threads, only the `top` with the most operations are drawn, in the order of the program.

    Parameters
    ----------
    table : Table
        Result of `replay.timeline`.
    top : int
        Maximum number of threads.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> table = pl.DataFrame({"source": ["recorded", "replayed"], "thread": 0, "comm": "app", "call": "fsync",
    ...                       "start_ns": [0, 10], "end_ns": [50, 40]})
    >>> _ = plot.replay_timeline(table)
    """
    missing = [name for name in ("source", "thread", "start_ns", "end_ns") if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    busiest = table.group_by("thread").len().sort(["len", "thread"], descending=[True, False])
    threads = sorted(busiest["thread"].head(top))
    with paper.drawing(ax, 0.8 + 0.16 * max(len(threads), 5)) as ax:
        if table.is_empty():
            return paper.no_data(ax)
        divisor, unit = paper.time_unit(paper.span(table["end_ns"])[1])
        place = pl.DataFrame({"thread": threads, "at": range(len(threads))}, schema_overrides={"thread": pl.Int32})
        shown = table.join(place, on="thread", maintain_order="left")
        for source, up in (("recorded", 0.2), ("replayed", -0.2)):
            rows = shown.filter(pl.col("source").cast(pl.String) == source)
            at = rows["at"].to_numpy() - up
            ends = rows["end_ns"].to_numpy() / divisor
            ax.hlines(at, rows["start_ns"].to_numpy() / divisor, ends, color=SOURCES[source], linewidth=3.2)
            # Most calls are too short to be visible as a line.
            ax.plot(
                rows["start_ns"].to_numpy() / divisor,
                at,
                linestyle="",
                marker="|",
                markersize=3.2,
                markeredgewidth=0.4,
                color=SOURCES[source],
            )
            ax.plot([], [], color=SOURCES[source], linewidth=3.2, label=source)
        ax.set_yticks(range(len(threads)), _thread_names(table, threads), parse_math=False, usetex=False)
        ax.set_ylim(len(threads) - 0.5, -0.5)
        ax.set_xlim(left=0)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(f"Time since the start [{unit}]")
        paper.grid(ax, "x")
        paper.legend(ax, above=True)
        if busiest.height > top:
            paper.note(ax, f"{top} of {busiest.height:,} threads")
        return ax


def _io_times(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of io_time by place and call. For all calls together, call is `_ALL`."""
    chosen = table.filter(pl.col("file_type").is_null()) if "file_type" in table.columns else table
    rows = paper.rows(chosen, "io_time", ("place", "call")).with_columns(pl.col("call").cast(pl.String).fill_null(_ALL))
    if rows.select("place", "call").is_duplicated().any():
        raise ValueError("the figure shows one value for each place and call: keep one")
    return rows


def _longest(data: pl.DataFrame, top: int) -> Sequence[str]:
    """Return `_ALL`, then the calls that take the most time at any place, the longest first."""
    calls = data.filter(pl.col("call") != _ALL).group_by("call").agg(pl.col("value").max())
    return [_ALL, *calls.sort(["value", "call"], descending=[True, False]).head(top)["call"]]


def _dims(series: str) -> Sequence[str]:
    return tuple(dict.fromkeys((series, "part", "lateness_ns")))


def _thread_names(table: pl.DataFrame, threads: Sequence[int]) -> list[str]:
    known = dict(table.select("thread", "comm").unique("thread").iter_rows()) if "comm" in table.columns else {}
    return [text.label(f"{known[thread]} ({thread})" if known.get(thread) else str(thread), 18) for thread in threads]
