"""Figures of predictions compared with measured replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, NullFormatter, NullLocator

from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.present.plot import intervals, paper, text
from androstep_analysis.present.plot.bench import TESTS

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


_LOOKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "measured": {"linestyle": "-", "marker": "o"},
    "predicted": {"linestyle": "--"},
    "before": {"linestyle": ":", "marker": "v"},
}


@paper.of_any_table
def whatif_sizes(table: pl.DataFrame, *, published: Table | None = None, ax: Axes | None = None) -> Axes:
    """Draw the operations per second by size: measured with a change, predicted for it, and measured before it.

    Parameters
    ----------
    table : Table
        Columns metric, test, block_bytes (Int64 [B]), value (Float64 [1/s]) and `of` (String: measured, predicted or
        before), from `bench.summarise` and `whatif.predict`.
    published : Table, optional
        Rates of a paper: columns block_bytes and value.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, 2012, slide 12.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "iops", "test": "rand_write", "block_bytes": [4096, 65536],
    ...                       "value": [900.0, 80.0], "of": "measured"})
    >>> _ = plot.whatif_sizes(rates)
    """
    data = paper.rows(table.drop("confidence", strict=False), "iops", ("test", "block_bytes", "of"))
    with paper.drawing(ax, 2.7) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        tests = paper.first_known(data["test"], TESTS)
        palette = intervals.colours(tests, TESTS)
        for of, look in _LOOKS.items():
            for test in tests:
                line = data.filter(pl.col("test").cast(pl.String) == test, of=of).sort("block_bytes")
                if line.height:
                    label = f"{paper.words(test)}, {of}"
                    ax.plot(
                        line["block_bytes"], line["value"], color=palette[test], label=label, markersize=3.5, **look
                    )
        if published is not None:
            theirs = frame(published)
            ax.plot(theirs["block_bytes"], theirs["value"], label="the paper", **paper.DIAMONDS)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        sizes = data["block_bytes"].unique().sort().to_list()
        shown = sizes[:: -(-len(sizes) // 6)]
        ax.set_xticks(shown, [paper.size(size) for size in shown])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set_xlabel("Size of an operation")
        ax.set_ylabel("Operations per second")
        paper.grid(ax, "both")
        paper.legend(ax, above=True, columns=2)
        return ax
