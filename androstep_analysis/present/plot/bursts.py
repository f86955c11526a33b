"""Figure of the durations of I/O bursts."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from androstep_analysis.measures.tables import MEASURES
from androstep_analysis.present.plot import paper

_SHOWN = ("dev", "period", "duration_up_to_ns")


@paper.of_any_table
def bursts(table: pl.DataFrame, *, top: int = 6, ax: Axes | None = None) -> Axes:
    """Draw the share of bytes in bursts up to a duration, with a line for each of the groups with the most bytes.

    The bytes of a group are those on all devices. Bursts that are truncated by the recording are missing at the end of
    a line; a group without a complete burst has no line. Time is logarithmic.

    Parameters
    ----------
    table : Table
        Result of `measures.bursts`, by one column.
    top : int
        Maximum number of groups.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        For a table by no column or by several.

    Examples
    --------
    >>> _ = plot.bursts(measures.bursts(capture.io, gap_ns=10**8))
    """
    names = [name for name in table.columns if name not in (*MEASURES, *_SHOWN)]
    if len(names) != 1:
        raise ValueError(f"bursts takes one dimension, not {len(names)}: {', '.join(names) or 'none'}")
    (name,) = names
    data = paper.rows(table, "bytes", (name, *_SHOWN))
    group, bytes_ = pl.col(name), pl.col("value").sum()
    totals = data.group_by(name).agg(bytes_).sort(["value", name], descending=[True, False], nulls_last=True)
    whole = data.filter(period="burst")
    totals = totals.filter(pl.col("value") > 0).join(
        whole, on=name, how="semi", nulls_equal=True, maintain_order="left"
    )
    with paper.drawing(ax) as ax:
        if totals.is_empty():
            return paper.no_data(ax)
        ax.set_xscale("log")
        longest = paper.span(whole["duration_up_to_ns"])[1] / 1e9
        labels = paper.labels(data, name)
        for key, total in totals.head(top).iter_rows():
            line = whole.filter(group.eq_missing(pl.lit(key))).group_by("duration_up_to_ns").agg(bytes_)
            line = line.sort("duration_up_to_ns")
            end, share = line["duration_up_to_ns"].to_numpy() / 1e9, line["value"].cum_sum().to_numpy() / total * 100
            # A line rises only within a class of durations, and is level from the last class on.
            x = np.append(np.column_stack([end / 2, end]), longest)
            y = np.append(np.column_stack([np.append(0, share[:-1]), share]), share[-1])
            ax.plot(x, y, label=labels[key])
        paper.label_decades(ax.xaxis)
        ax.xaxis.set_major_formatter(EngFormatter("s", places=None))
        ax.set_ylim(0, 101)
        ax.set_xlabel("Duration of a burst")
        ax.set_ylabel("Bytes in bursts at most as long [%]")
        paper.grid(ax, "both")
        paper.legend(ax)
        return ax
