"""Figures of predictions compared with measured replays."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, NullFormatter

from androstep_analysis.present.plot import paper, text

SIDES: Final = {"predicted": ("#0072B2", "o", -0.12), "measured": ("#D55E00", "s", 0.12)}
"""Colour, marker and horizontal offset."""


@paper.of_any_table
def whatif_accuracy(table: pl.DataFrame, *, metric: str = "elapsed", ax: Axes | None = None) -> Axes:
    """Draw predicted and measured times with their intervals, by column `change`, on a logarithmic axis.

    Parameters
    ----------
    table : Table
        Result of `whatif.accuracy`, with a column change (String) added.
    metric : str
        Metric to show, one without quantiles.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> table = pl.DataFrame({"metric": "elapsed", "quantile": None, "change": "without journal", "n": 6,
    ...                       "predicted": [2e9], "predicted_lo": [1.9e9], "predicted_hi": [2.1e9],
    ...                       "measured": [2.2e9], "measured_lo": [2.1e9], "measured_hi": [2.3e9]})
    >>> _ = plot.whatif_accuracy(table)
    """
    missing = [name for name in ("metric", "change", *SIDES) if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    data = table.filter(pl.col("metric") == metric, pl.col("quantile").is_null())
    if data["change"].is_duplicated().any():
        raise ValueError("the figure shows one row for each change: keep one trace, device and mode")
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        ax.set_yscale("log")
        for name, (fill, marker, shift) in SIDES.items():
            value = data[name].to_numpy() / 1e9
            low = data[f"{name}_lo"].fill_null(data[name]).to_numpy() / 1e9
            high = data[f"{name}_hi"].fill_null(data[name]).to_numpy() / 1e9
            spread = np.abs(np.stack([value - low, high - value]))
            x = np.arange(data.height) + shift
            ax.errorbar(x, value, spread, color=fill, marker=marker, linestyle="", capsize=2, markersize=4, label=name)
        labels = [text.label(paper.words(change), 16) for change in data["change"]]
        ax.set_xticks(range(data.height), labels, parse_math=False, usetex=False)
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, data.height - 0.4)
        ax.yaxis.set_major_formatter(EngFormatter("s", places=None))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_ylabel(
            {"elapsed": "Time of all requests", "io_time": "Sum of latencies"}.get(metric, paper.words(metric))
        )
        paper.grid(ax, "y")
        paper.legend(ax, above=True)
        return ax
