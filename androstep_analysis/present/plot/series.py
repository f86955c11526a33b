"""Line charts: rates and sums over time, and distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator

from androstep_analysis.measures import thinned
from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.present.plot import paper, text

STEPS = 1500
"""Number of columns to which a line is thinned: more than the pixels of a figure one column wide at 300 dpi."""

WAITING = "#E8B7D2"
"""Background colour of the times that a user waited."""

_DASHES = {"sequential": "-", "random": (0, (3, 1.2))}


@paper.of_any_table
def latency_distribution(
    table: pl.DataFrame, *, step: Literal["Q2D", "D2C", "Q2C"] = "D2C", ax: Axes | None = None
) -> Axes:
    """Draw the cumulative distribution of one latency, with a line for each operation.

    Time is logarithmic. The share of requests with latency 0 (the clock is too coarse) is the height at which a line
    starts.

    Parameters
    ----------
    table : Table
        Result of `measures.latency_distribution`.
    step : {"Q2D", "D2C", "Q2C"}
        The latency to show.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.latency_distribution(measures.latency_distribution(capture.requests))
    """
    data = paper.rows(table.filter(pl.col("step") == step), "cumulative_ratio", ("op", "latency_ns"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        # A latency of 0 cannot be drawn on a logarithmic axis; 1 ns is the smallest drawn value.
        positive = data.filter(pl.col("latency_ns") > 0)["latency_ns"]
        low, high = (bound / 1e9 for bound in (paper.span(positive) if positive.len() else (1, 1)))
        ax.set_xscale("log", nonpositive="clip")
        for op in paper.ordered(data["op"], paper.OPS):
            line = data.filter(pl.col("op") == op).sort("latency_ns")
            line = _thin(line, pl.col("latency_ns").clip(lower_bound=1).log())
            x, y = line["latency_ns"].to_numpy() / 1e9, line["value"].to_numpy() * 100
            x, y = np.concatenate([x[:1], x, [high * 2]]), np.concatenate([[0.0], y, y[-1:]])
            ax.plot(x, y, drawstyle="steps-post", color=paper.colour(op, paper.OPS), label=paper.words(op))
        ax.set_xlim(low / 1.5, high * 1.5)
        paper.label_decades(ax.xaxis)
        ax.xaxis.set_major_formatter(EngFormatter("s", places=None))
        ax.set_ylim(0, 101)
        ax.set_xlabel(f"Latency {step}")
        ax.set_ylabel("Requests at most as slow [%]")
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def rate(
    table: pl.DataFrame,
    *,
    metric: Literal["iops", "bandwidth"] = "iops",
    windows: Table | None = None,
    origin_ns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw requests or bytes per second over time, with a line for each operation.

    A bin that the table omits is drawn as 0.

    Parameters
    ----------
    table : Table
        Result of `measures.rate`.
    metric : {"iops", "bandwidth"}
        The metric to show.
    windows : Table, optional
        Times to shade: columns start_ns and end_ns, as in `perceived.windows` (Luo et al., Figure 5).
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.rate(measures.rate(capture.requests))
    """
    data = paper.rows(table, metric, ("ts_ns", "op")).sort("ts_ns")
    with paper.drawing(ax) as ax:
        if not (data["value"] > 0).any():
            return paper.no_data(ax)
        starts = data["ts_ns"].unique().sort().to_numpy()
        origin = int(starts[0]) if origin_ns is None else origin_ns
        width = _bin_ns(table)
        divisor, time = paper.time_unit(int(starts[-1]) + width - origin)
        _, largest = paper.span(data["value"])
        scale, unit = paper.byte_unit(largest) if metric == "bandwidth" else (1, "")
        waits = () if windows is None else frame(windows).select("start_ns", "end_ns").iter_rows()
        for number, (start, end) in enumerate(waits):
            # A line around it keeps a short wait visible.
            ends = (start - origin) / divisor, (end - origin) / divisor
            ax.axvspan(*ends, color=WAITING, lw=0.6, zorder=0, label="" if number else "the user waited")
        for op in paper.ordered(data["op"], paper.OPS):
            line = data.filter(pl.col("op") == op)
            x, y = steps(line["ts_ns"].to_numpy(), line["value"].to_numpy(), width)
            colour = paper.colour(op, paper.OPS)
            ax.plot((x - origin) / divisor, y / scale, drawstyle="steps-post", color=colour, label=paper.words(op))
        ax.set_ylim(bottom=0)
        ax.set_xlabel(f"Time [{time}]")
        if metric == "bandwidth":
            ax.set_ylabel(f"Bandwidth [{unit}/s]")
        else:
            ax.set_ylabel("Requests per second")
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def rate_panels(
    table: pl.DataFrame, *, panel: str, lasted_ns: Mapping[str, int], published: float | None = None
) -> Axes:
    """Draw the requests per second of several runs as bars, a panel for each, on common logarithmic axes.

    Parameters
    ----------
    table : Table
        Results of `measures.rate` of one operation, with a column that names the run and with ts_ns since its start.
    panel : str
        The column that names the run.
    lasted_ns : mapping of str to int
        How long each run lasted [ns], in order of the panels. The time after it is shaded.
    published : float, optional
        A paper's greatest rate; a line marks it.

    Returns
    -------
    Axes
        The first panel.

    References
    ----------
    Luo, Jiang and Cohen, Figure 4.

    Examples
    --------
    >>> begun = capture.requests.with_columns(pl.col("queue_ns", "issue_ns", "complete_ns") - capture.first_ns)
    >>> rates = measures.rate(begun, bin_ns=10**8).filter(op="write").with_columns(run=pl.lit("demo"))
    >>> _ = plot.rate_panels(rates, panel="run", lasted_ns={"demo": capture.last_ns - capture.first_ns})
    """
    data = paper.rows(table, "iops", ("ts_ns", panel)).filter(pl.col("value") > 0)
    if data.is_empty() or not lasted_ns:
        with paper.drawing(None) as ax:
            return paper.no_data(ax)
    longest = max(lasted_ns.values())
    divisor, unit = paper.time_unit(longest)
    width, op = _bin_ns(table), str(data["op"][0])
    least, most = (float(bound) for bound in paper.span(data["value"]))
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(max(most, published or 0)))
    with paper.style():
        figure = Figure(figsize=(paper.COLUMN, 0.55 + 0.95 * len(lasted_ns)), layout="constrained")
        cells: list[Axes] = list(
            figure.subplots(
                *(len(lasted_ns), 1),
                squeeze=False,
                sharex=True,
                sharey=True,
                subplot_kw={"axes_class": paper.PaperAxes},
            )[:, 0]
        )
    for (name, lasted), cell in zip(lasted_ns.items(), cells, strict=True):
        with paper.drawing(cell) as ax:
            line = data.filter(pl.col(panel) == name)
            colour = paper.colour(op, paper.OPS)
            ax.bar(line["ts_ns"] / divisor, line["value"], width / divisor, align="edge", color=colour, label=op)
            ax.axvspan(lasted / divisor, longest * 1.05 / divisor, color="#EEEEEE", zorder=0, label="after the run")
            if published is not None:
                words = f"the paper's greatest, {published:,.0f}"
                ax.axhline(published, color="#222222", linewidth=0.9, linestyle=(0, (4, 2)), label=words)
            ax.set_yscale("log")
            ax.set_ylim(0.8 * 10.0**low, 1.2 * 10.0**high)
            ax.set_xlim(0, longest * 1.02 / divisor)
            ax.yaxis.set_major_locator(LogLocator(10, numticks=8))
            ax.yaxis.set_major_formatter("{x:,.0f}")
            ax.set_title(text.label(name, 40), fontsize=7, loc="left", pad=2, parse_math=False)
            paper.grid(ax, "both")
    with paper.style():
        cells[-1].set_xlabel(f"Time since the start of the run [{unit}]")
        figure.supylabel("Requests per second", fontsize=8)
        figure.legend(*cells[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return cells[0]


@paper.of_any_table
def cumulative(table: pl.DataFrame, *, origin_ns: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the cumulative sequential and random bytes over time.

    The axis of bytes is logarithmic.

    Parameters
    ----------
    table : Table
        Result of `measures.cumulative`.
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.

    Examples
    --------
    >>> _ = plot.cumulative(measures.cumulative(capture.requests))
    """
    data = paper.rows(table, "cumulative_bytes", ("ts_ns", "op", "class")).filter(pl.col("value") > 0)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        first, last = (int(bound) for bound in paper.span(data["ts_ns"]))
        origin = first if origin_ns is None else origin_ns
        divisor, time = paper.time_unit(last - origin)
        ax.set_yscale("log", base=2)
        for op in paper.ordered(data["op"], paper.OPS):
            for kind in paper.ordered(data.filter(pl.col("op") == op)["class"], dict.fromkeys(_DASHES, "")):
                line = data.filter(pl.col("op") == op, pl.col("class") == kind).sort("ts_ns", "value")
                line = _thin(line, pl.col("ts_ns"))
                x, y = line["ts_ns"].to_numpy(), line["value"].to_numpy()
                # The line is level from the last row to the end of the table.
                x, y = np.append(x, last), np.append(y, y[-1])
                ax.plot(
                    (x - origin) / divisor,
                    y,
                    drawstyle="steps-post",
                    color=paper.colour(op, paper.OPS),
                    linestyle=_DASHES.get(kind, ":"),
                    label=f"{paper.words(op)}, {paper.words(kind)}",
                )
        _log_bytes(ax)
        ax.set_xlabel(f"Time [{time}]")
        ax.set_ylabel("Bytes so far")
        paper.grid(ax, "both")
        paper.legend(ax, above=True, columns=2)
        return ax


def _thin(line: pl.DataFrame, position: pl.Expr) -> pl.DataFrame:
    """Thin a rising step line, sorted along x, without changing its drawn shape.

    The first and last row in each of `STEPS` columns of equal width are retained.
    """
    if line.height <= 2 * STEPS:
        return line
    column = thinned.column(position, position.min(), position.max(), STEPS)
    return line.with_columns(_column=column).filter(thinned.is_edge("_column")).drop("_column")


def _bin_ns(table: pl.DataFrame) -> int:
    """Return the length of the bins of `measures.rate`: the number `n` of requests divided by iops."""
    busy = table.filter(pl.col("metric") == "iops", pl.col("value") > 0) if "n" in table.columns else table.clear()
    if busy.is_empty():
        raise ValueError("the length of the bins follows from the rows of iops and their n: keep them in the table")
    return round(float(busy["n"][0]) * 1e9 / float(busy["value"][0]))


def steps(start: np.ndarray, value: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a step line over bins `[start, start + width)`. It is 0 between bins and at the end."""
    ends = start + width
    gaps = ends[np.append(ends[:-1] != start[1:], True)]
    x = np.concatenate([start[:1], start, gaps])
    y = np.concatenate([[0.0], value, np.zeros(len(gaps))])
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _log_bytes(ax: Axes) -> None:
    """Label binary sizes in their own unit, with at most about six labels."""
    low, high = ax.get_ylim()
    span = math.log2(high / low)
    step = max(1, math.ceil(span / 6))
    exponents = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    ticks = [2**e for e in exponents if e % step == 0]
    ax.set_yticks(ticks, [paper.size(tick) for tick in ticks])
    ax.minorticks_off()
