"""Figures of values in rows, with their intervals and the numbers that papers print.

Labels of any length stay readable. Unlike bars, dots are valid on a logarithmic axis. Numbers of a paper are orange
diamonds, which are recognisable by their shape in grey.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from androstep_analysis.measures.tables import Table, frame
from androstep_analysis.present.plot import intervals, paper, text
from androstep_analysis.present.plot.bench import JOURNAL_MODES, SYNCHRONOUS

_ORDERS: Final = {"journal_mode": JOURNAL_MODES, "synchronous": SYNCHRONOUS, "fs_type": tuple(paper.FILESYSTEMS)}
"""Columns whose values have an order of their own."""

_ROWS: Final = {"journal_mode": "Journal mode", "synchronous": "PRAGMA synchronous"}
"""What rows are, where their labels do not say it."""

_HOLLOW: Final[dict[str, Any]] = {"markerfacecolor": "white"}
"""The look of a mark in a row that was emulated."""

_WIDE: Final = 300
"""If the axis ends at this many times its beginning, only powers of ten have labels."""


@paper.of_any_table
def dots(
    table: pl.DataFrame,
    *,
    row: str,
    label: str,
    series: str | None = None,
    published: Table | None = None,
    repetitions: Table | None = None,
    limits: tuple[float, float] | None = None,
    emulated: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw a row for each value of a column, with a dot and its interval for each value of another.

    Journal modes, levels of PRAGMA synchronous and filesystems (`fs_type`) have an order of their own; other rows are
    in the order of the table. The axis is logarithmic. Times in ns are drawn in the most readable unit.

    Parameters
    ----------
    table : Table
        Columns value (Float64), lo and hi (null without an interval), unit, and those that `row` and `series` name.
        Results of `bench.summarise`, `replay.summarise` and `perceived.responses` are such tables; keep one metric.
    row : str
        Column that identifies the rows of the figure.
    label : str
        What the axis shows; the unit of times in ns is added.
    series : str, optional
        Column that determines colour and marker.
    published : Table, optional
        Numbers of a paper, in the unit of `table`: columns `row` and value. Rows without a value in `table` follow it.
    repetitions : Table, optional
        Single runs, drawn in the background: columns `row` and value.
    limits : tuple of float, optional
        Ends of the axis, so that several figures have the same.
    emulated : collection of str
        Rows that were measured in an emulated machine. Their marks are hollow: they do not compare with the others.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the table has several values for the same row and series.

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figures 8, 11, 12, 15 and 16; AndroStep (Jeong et al., ME 2013), Figures
    6, 9 and 10; Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 4; Luo, Jiang and Cohen, Figures 2 and 3.

    Examples
    --------
    >>> results = bench.read("datasets/bench/ext4_disk/journal_modes.rec.xz").tables
    >>> rates = bench.summarise(results, by=("test", "journal_mode")).filter(metric="tps")
    >>> phone = pl.DataFrame({"journal_mode": ["TRUNCATE"], "value": [63.0]})
    >>> _ = plot.dots(rates, row="journal_mode", label="Transactions per second", series="test", published=phone)
    """
    data = _selected(table, row, series)
    theirs, single = (
        data.clear() if one is None else frame(one).select(pl.col(row).cast(pl.String), "value").drop_nulls()
        for one in (published, repetitions)
    )
    rows = paper.first_known([*data[row], *theirs[row]], _ORDERS.get(row, ()))
    kinds = data["_series"].unique(maintain_order=True).to_list()
    with paper.drawing(ax, 0.75 + len(rows) * max(0.26, 0.1 * len(kinds) + 0.08)) as ax:
        if not rows:
            return paper.no_data(ax)
        divisor, unit = 1, ""
        if "unit" in table.columns and table["unit"].eq("ns").any():
            divisor, unit = paper.time_unit(paper.span(pl.concat([data["value"], theirs["value"]]))[1])
        step = 0.8 / (len(kinds) + (published is not None))
        ax.set_xscale("log")
        if single.height:
            at = [rows.index(name) for name in single[row]]
            look: dict[str, Any] = {"marker": "|", "linestyle": "", "markersize": 7, "markeredgewidth": 0.6}
            ax.plot(single["value"] / divisor, at, color="#999999", label="single runs", zorder=1, **look)
        colours, markers = intervals.colours(kinds), intervals.markers(kinds)
        for number, (kind, marker) in enumerate(zip(kinds, markers, strict=True)):
            part = data.filter(_series=kind)
            middle = (number - (len(kinds) - 1) / 2) * step
            part = part.with_columns(at=pl.Series([rows.index(name) + middle for name in part[row]]))
            mark: dict[str, Any] = {"markersize": 4.5, "color": colours[kind], "zorder": 3}
            is_emulated = part[row].is_in(list(emulated))
            for rows_of, more in ((~is_emulated, {"label": text.label(kind, 28)}), (is_emulated, _HOLLOW)):
                ax.plot(part["value"].filter(rows_of) / divisor, part["at"].filter(rows_of), marker, **mark, **more)
            known = part.drop_nulls(["lo", "hi"])
            if known.height:
                ends = known["lo"] / divisor, known["hi"] / divisor
                ax.hlines(known["at"], *ends, color=colours[kind], linewidth=1.1, zorder=2)
        if set(emulated) & set(rows):
            ax.plot([], [], markers[0], markersize=4.5, color="#555555", label="emulated", **_HOLLOW)
        if theirs.height:
            is_shared = set(data[row])
            beside = [rows.index(name) + (0.4 if name in is_shared else 0) for name in theirs[row]]
            ax.plot(theirs["value"] / divisor, beside, label="the paper", **paper.DIAMONDS)
        _name_rows(ax, [text.label(name, 34) for name in rows])
        for between in range(1, len(rows)):
            ax.axhline(between - 0.5, color="#EEEEEE", linewidth=0.5, zorder=0)
        if limits:
            ax.set_xlim(*limits)
        _log_axis(ax)
        ax.set_xlabel(f"{label} [{unit}]" if unit else label)
        ax.set_ylabel(_ROWS.get(row, ""))
        paper.grid(ax, "x")
        if len(labels := ax.get_legend_handles_labels()[1]) > 1:
            paper.legend(ax, above=True, columns=max(2, 52 // (max(map(len, labels)) + 4)))
        return ax


@paper.of_any_table
def published(table: pl.DataFrame, *, label: str, ax: Axes | None = None) -> Axes:
    """Draw the numbers that a paper's text states, and ours with their intervals.

    Ratios (unit 1) have a logarithmic axis with a line at 1, shares (unit %) a linear one.

    Parameters
    ----------
    table : Table
        Columns what (String), published_least and published_most (Float64, equal if the paper states one number),
        value, lo and hi (Float64, null without an interval), unit ("1" or "%").
    label : str
        What the axis shows.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    The texts of all five papers; Luo, Jiang and Cohen, Figures 2 and 3 (speedups and reductions).

    Examples
    --------
    >>> both = pl.DataFrame({"what": "O_SYNC / fsync", "published_least": 1.2, "published_most": 1.5, "value": 1.3,
    ...                      "lo": 1.1, "hi": 1.4, "unit": "1"})
    >>> _ = plot.published(both, label="Ratio of rates")
    """
    with paper.drawing(ax, 0.75 + 0.3 * table.height) as ax:
        if table.is_empty():
            return paper.no_data(ax)
        at = np.arange(table.height)
        least, most = (table[name].to_numpy() for name in ("published_least", "published_most"))
        ax.hlines(at - 0.16, least, most, color=paper.PUBLISHED, linewidth=1.1)
        ax.plot(least, at - 0.16, label="the paper", **paper.DIAMONDS)
        ax.plot(most, at - 0.16, **paper.DIAMONDS)
        ax.plot(table["value"], at + 0.16, "o", markersize=4.5, color=paper.SERIES[0], label="ours", zorder=3)
        known = table.with_row_index("at").drop_nulls(["lo", "hi"])
        ax.hlines(known["at"].to_numpy() + 0.16, known["lo"], known["hi"], color=paper.SERIES[0], linewidth=1.1)
        _name_rows(ax, [name.replace(": ", ":\n") for name in table["what"]], fontsize=6.5)
        ax.set_ylim(table.height - 0.5, -0.5)
        values = [
            column.drop_nulls() for column in table.select("published_least", "published_most", "value", "lo", "hi")
        ]
        low, high = paper.span(pl.concat([column.cast(pl.Float64) for column in values]))
        if table["unit"].eq("1").all():
            ax.axvline(1, color="#999999", linewidth=0.8, zorder=0)
            ax.set_xscale("log")
            ax.set_xlim(min(1, low) / 1.3, max(1, high) * 1.3)
            _log_axis(ax)
        else:
            ax.set_xlim(min(0, low) * 1.1, 104)
        paper.grid(ax, "x")
        ax.set_xlabel(label)
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1.02), ncols=2, borderaxespad=0)
        return ax


def _selected(table: pl.DataFrame, row: str, series: str | None) -> pl.DataFrame:
    """Return columns `row`, _series, value, lo and hi of the rows with a value."""
    ends = [pl.col(name) if name in table.columns else pl.lit(None, pl.Float64).alias(name) for name in ("lo", "hi")]
    kind = pl.lit("ours") if series is None else pl.col(series).cast(pl.String).fill_null("(unknown)")
    data = table.select(pl.col(row).cast(pl.String).fill_null("(unknown)"), "value", *ends, _series=kind)
    data = data.drop_nulls("value")
    if data.select(row, "_series").is_duplicated().any():
        raise ValueError(
            f"the figure has one value for each {row}{f' and {series}' if series else ''}: keep one of each"
        )
    return data


def _name_rows(ax: Axes, names: list[str], **options: Any) -> None:
    ax.set_yticks(range(len(names)), names, parse_math=False, usetex=False, **options)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)


def _log_axis(ax: Axes) -> None:
    """Label powers of ten on the x axis, and 2 and 5 between them if it is short."""
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high / low < _WIDE else (1,), numticks=20))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
