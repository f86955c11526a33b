"""Figures of measures across captures: values by group, differences, ranks and pairs, with intervals.

Tables are those of `androstep_analysis.compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from androstep_analysis.compare.measures import dimensions
from androstep_analysis.compare.words import METRICS
from androstep_analysis.present.plot import intervals, paper, text

_VERDICTS: Final = {
    "higher": "#D55E00",
    "lower": "#0072B2",
    "no difference that matters": "#009E73",
    "no difference shown": "#444444",
    "insufficient data": "#AAAAAA",
}

_OVERVIEW: Final = {
    "worse": "#D55E00",
    "better": "#009E73",
    "different": "#0072B2",
    "cannot be decided": "#AAAAAA",
    "same": "#444444",
}

_LEAST_FACTOR, _MOST_FACTOR = 1 / 64, 64
"""Bounds at which drawn intervals are clipped."""

_PALETTES: Final[Mapping[str, Mapping[str, str]]] = {
    "class": paper.LOCALITY | paper.SYNC,
    "op": paper.OPS,
    "block_type": paper.BLOCK_TYPES,
    "file_type": paper.FILE_TYPES,
    "fs_type": paper.FILESYSTEMS,
}

_UNITS: Final = {"ns": (1e6, "ms"), "B": (1e6, "MB"), "B/s": (1e6, "MB/s"), "1": (0.01, "%")}
"""Divisor of values, and the resulting unit."""

_ROW: Final = 0.17
"""Height of a row of a figure in inches."""

_CHARACTER: Final = 0.052
"""Width of an average character of a name in inches."""

_DROPPED: Final = ("place", "rank_from", "rank_to", "repeats", "n_effective")


@paper.of_any_table
def compare_groups(
    table: pl.DataFrame, *, metric: str, group: str, series: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the value of every group with its interval.

    There is a position for each value of column `group`, with a point for each value of `series`. A hollow point has no
    interval: there are too few repetitions.

    Parameters
    ----------
    table : Table
        Result of `compare.summarise` or `compare.ranking`.
    metric : str
        The metric to show.
    group : str
        Column that determines the positions.
    series : str, optional
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> both = pl.concat([measured, again])
    >>> groups = compare.summarise(both, by=["capture"])
    >>> _ = plot.compare_groups(groups, metric="count_ratio", group="capture", series="op")
    """
    dims = [group, *([series] if series else [])]
    data = paper.rows(table.drop(_DROPPED, strict=False), metric, dims)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        groups = list(dict.fromkeys(table[group]))
        palette = _PALETTES.get(series or "", {})
        kinds = paper.ordered(data[series], palette) if series else [""]
        scale, unit = _unit(data["unit"][0])
        width = 0.6 / len(kinds)
        for number, kind in enumerate(kinds):
            line = data.filter(pl.col(series) == kind) if series else data
            x = np.array([groups.index(name) for name in line[group]]) + (number - (len(kinds) - 1) / 2) * width
            colour = palette.get(kind, paper.SERIES[number % len(paper.SERIES)])
            marker = intervals.MARKERS[number % len(intervals.MARKERS)]
            paper.error_bars(ax, x, line, scale, colour)
            _points(ax, x, line["value"].to_numpy() / scale, line["lo"].is_not_null().to_numpy(), colour, marker)
            ax.plot([], [], linestyle="", marker=marker, markersize=4, color=colour, label=paper.words(kind))
        slanted = max(len(name) for name in groups) * len(groups) > 48
        names = [text.label(name, 24) for name in groups]
        ax.set_xticks(
            np.arange(len(groups)),
            names,
            rotation=25 if slanted else 0,
            ha="right" if slanted else "center",
            rotation_mode="anchor" if slanted else "default",
            parse_math=False,
        )
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(groups) - 0.4)
        _value_axis(ax, "y", metric, unit)
        _from_zero(ax, "y")
        if series:
            paper.legend(ax, above=True)
        if data["lo"].null_count():
            paper.note(ax, "hollow: too few repeats for an interval")
        return ax


@paper.of_any_table
def compare_ranking(table: pl.DataFrame, *, metric: str, group: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the groups in order, with their intervals and ranks.

    Groups that no comparison distinguishes share ranks: "1–3" may be the first, the second or the third.

    Parameters
    ----------
    table : Table
        Result of `compare.ranking`, with one value of each of the measure's dimensions.
    metric : str
        The metric to show.
    group : sequence of str
        Columns that identify a group.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> both = pl.concat([measured, again])
    >>> ranks = compare.ranking(both, by=["capture"]).filter(op="read")
    >>> _ = plot.compare_ranking(ranks, metric="count_ratio", group=["capture"])
    """
    data = paper.rows(table.drop(_DROPPED), metric, group)
    data = data.join(table.select(*group, *_DROPPED[:3]).cast(dict.fromkeys(group, pl.String)), on=group)
    names = [text.label(" / ".join(row), 34) for row in data.select(group).iter_rows()]
    with paper.drawing(ax, _height(len(names))) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        order = np.argsort(data["place"].to_numpy(), kind="stable")
        data, names = data[order], [names[at] for at in order]
        scale, unit = _unit(data["unit"][0])
        y = np.arange(len(names), dtype=float)
        _bars(ax, y, data, ("value", "lo", "hi"), scale, [paper.SERIES[0]] * len(names))
        _names(ax, names)
        for at, (first, last) in enumerate(data.select("rank_from", "rank_to").iter_rows()):
            rank = f"{first}" if first == last else f"{first}–{last}"
            ax.text(1.02, at, rank, transform=ax.get_yaxis_transform(), va="center", fontsize=7)
        ax.text(1.02, -1, "rank", transform=ax.get_yaxis_transform(), va="center", fontsize=7, color="#555555")
        _value_axis(ax, "x", metric, unit)
        _from_zero(ax, "x")
        return ax


@paper.of_any_table
def compare_differences(table: pl.DataFrame, *, metric: str, ax: Axes | None = None) -> Axes:
    """Draw the difference of every two groups with its interval (forest plot).

    To the right of the line the group named first is higher. Colours show the verdict. It accounts for the number of
    comparisons, which an interval does not. A hollow point has no interval: there is too little data.

    Parameters
    ----------
    table : Table
        Result of `compare.compare`.
    metric : str
        The metric to show.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> both = pl.concat([measured, again])
    >>> _ = plot.compare_differences(compare.compare(both, by=["capture"]), metric="count_ratio")
    """
    data = table.filter(pl.col("metric") == metric, pl.col("difference").is_not_null())
    made = ax is None
    with paper.drawing(ax, _height(data.height)) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        scale, unit = _unit(data["unit"][0])
        dims = table.columns[1 : table.columns.index("group_first")]
        shown = [name for name in dims if data[name].n_unique() > 1]
        names = [_comparison(row, shown) for row in data.iter_rows(named=True)]
        if made and (figure := ax.get_figure(root=True)) is not None:
            width = paper.COLUMN * 0.7 + _CHARACTER * max(map(len, names))
            figure.set_size_inches(width, _height(data.height))
        colours = [_VERDICTS[verdict] for verdict in data["verdict"]]
        bounds = ("difference", "difference_lo", "difference_hi")
        _bars(ax, np.arange(data.height, dtype=float), data, bounds, scale, colours)
        ax.axvline(0, color="#222222", linewidth=0.6)
        _names(ax, names)
        for verdict in paper.ordered(data["verdict"].cast(pl.String), _VERDICTS):
            ax.plot([], [], linestyle="", marker="o", markersize=4, color=_VERDICTS[verdict], label=verdict)
        _value_axis(ax, "x", metric, unit, "difference of the ")
        paper.legend(ax, above=True, columns=2)
        return ax


@paper.of_any_table
def compare_overview(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the second side relative to the first for every row, with intervals, coloured by verdict.

    To the right of the line the second side is higher. A hollow point has no interval. Rows with only one side are left
    out.

    Parameters
    ----------
    table : Table
        Result of `compare.overview` (``overview(…).table``).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> again = compare.Recording("again", {**capture.facts, "capture_id": "0"}, capture.tables)
    >>> _ = plot.compare_overview(compare.overview([capture], [again]).table)
    """
    is_share, first = pl.col("unit") == "1", pl.col("first")
    values = {
        name: pl.when(is_share).then((first + pl.col(name)) / first).otherwise(pl.col(name))
        for name in ("difference", "lo", "hi")
    }
    data = table.filter(first > 0, pl.col("second") > 0, pl.col("difference").is_not_null()).with_columns(**values)
    with paper.drawing(ax, _height(data.height)) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        data = data.with_columns(pl.col(*values).clip(_LEAST_FACTOR, _MOST_FACTOR))
        colours = [_OVERVIEW[verdict] for verdict in data["verdict"]]
        _bars(ax, np.arange(data.height, dtype=float), data, tuple(values), 1.0, colours)
        ax.axvline(1, color="#222222", linewidth=0.6)
        _names(ax, [text.label(name, 34) for name in data["what"]])
        for verdict in paper.ordered(data["verdict"].cast(pl.String), _OVERVIEW):
            ax.plot([], [], linestyle="", marker="o", markersize=4, color=_OVERVIEW[verdict], label=verdict)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(FuncFormatter(_factor))
        ax.set_xlabel("Times as much as the first")
        paper.legend(ax, above=True, columns=2)
        return ax


def _factor(value: float, _: int) -> str:
    """Format a factor. Those beyond the limits are drawn there."""
    limit = "≥ " if value >= _MOST_FACTOR else "≤ " if value <= _LEAST_FACTOR else ""
    return f"{limit}{value:g}" if value >= 1 else f"{limit}1/{1 / value:g}"


@paper.of_any_table
def compare_pairs(
    measured: pl.DataFrame, *, metric: str, by: str, paired_by: Sequence[str], ax: Axes | None = None
) -> Axes:
    """Draw a line from group to group for each pair.

    The value is the median of the captures of a pair in a group.

    Parameters
    ----------
    measured : Table
        Result of `compare.measure_all`, with one value of each of the measure's dimensions.
    metric : str
        The metric to show.
    by : str
        Column that identifies a group.
    paired_by : sequence of str
        Columns that are equal within a pair.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> measured = compare.measure_all([capture], "mix", window_ns=10**8)
    >>> again = measured.with_columns(capture=pl.lit("again"), capture_id=pl.lit("0"))
    >>> both = pl.concat([measured, again])
    >>> _ = plot.compare_pairs(both.filter(op="read"), metric="count_ratio", by="capture", paired_by=["repeat"])
    """
    import seaborn  # takes a second, and only this figure needs it

    chosen = measured.filter(pl.col("metric") == metric)
    if varying := [name for name in dimensions(measured) if chosen[name].n_unique() > 1]:
        raise ValueError(f"the figure does not show {', '.join(varying)}: keep one value of each")
    pair = pl.concat_str(pl.col(paired_by).cast(pl.String).fill_null("None"), separator=" / ")
    data = chosen.select("unit", "value", group=pl.col(by).cast(pl.String), pair=pair)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        scale, unit = _unit(data["unit"][0])
        groups = data["group"].unique(maintain_order=True).to_list()
        pairs = data["pair"].unique(maintain_order=True).to_list()
        seaborn.pointplot(
            data.with_columns(pl.col("value") / scale).to_pandas(),
            **{"x": "group", "y": "value", "hue": "pair", "order": groups, "hue_order": pairs},
            **{"palette": intervals.colours(pairs), "markers": intervals.markers(pairs), "markersize": 4},
            **{"estimator": "median", "errorbar": None, "linewidth": paper.RC["lines.linewidth"]},
            ax=ax,
        )
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            handle.set_label(text.label(name, 28))
        ax.set_xlabel("")
        ax.set_xticks(np.arange(len(groups)), [text.label(name, 24) for name in groups], parse_math=False)
        ax.set_xlim(-0.3, len(groups) - 0.7)
        _value_axis(ax, "y", metric, unit)
        _from_zero(ax, "y")
        paper.legend(ax)
        return ax


def _points(ax: Axes, x: np.ndarray, y: np.ndarray, known: np.ndarray, colour: str, marker: str) -> None:
    """Draw points, hollow if they have no interval."""
    for filled, face in ((True, colour), (False, "white")):
        at = known == filled
        ax.plot(
            x[at],
            y[at],
            linestyle="",
            marker=marker,
            markersize=4,
            color=colour,
            markerfacecolor=face,
            zorder=3,
            clip_on=False,
        )


def _bars(
    ax: Axes, y: np.ndarray, data: pl.DataFrame, columns: Sequence[str], scale: float, colours: Sequence[str]
) -> None:
    """Draw a point and its interval in each row of the figure, the first at the top."""
    value, lo, hi = (data[name].cast(pl.Float64).to_numpy() / scale for name in columns)
    for colour in dict.fromkeys(colours):
        at = np.array([one == colour for one in colours])
        ax.hlines(y[at], lo[at], hi[at], color=colour, linewidth=1.0)
        _points(ax, value[at], y[at], np.isfinite(lo[at]), colour, "o")


def _names(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(np.arange(len(names)), names, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    paper.grid(ax, "x")


def _comparison(row: Mapping[str, object], dims: Sequence[str]) -> str:
    """Return the label of a row of the forest plot."""
    of = ", ".join("–" if row[name] is None else str(row[name]) for name in dims)
    sides = [text.label(str(row[f"group_{side}"]), 18) for side in ("second", "first")]
    return f"{text.label(of, 26)}: {sides[0]} – {sides[1]}" if of else f"{sides[0]} – {sides[1]}"


def _height(rows: int) -> float:
    return max(1.2, 0.75 + _ROW * rows)


def _unit(unit: str) -> tuple[float, str]:
    return _UNITS.get(unit, (1.0, unit))


def _value_axis(ax: Axes, axis: str, metric: str, unit: str, before: str = "") -> None:
    target, label = (ax.xaxis, ax.set_xlabel) if axis == "x" else (ax.yaxis, ax.set_ylabel)
    target.set_major_locator(MaxNLocator(5))
    target.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    words = f"{before}{METRICS.get(metric) or paper.words(metric)}"
    label(f"{words[:1].upper()}{words[1:]} [{unit}]", parse_math=False)
    paper.grid(ax, "x" if axis == "x" else "y")


def _from_zero(ax: Axes, axis: str) -> None:
    """Start the axis at zero, unless some data are below."""
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    if low > 0 or (low < 0 and low > -0.1 * high):
        (ax.set_xlim if axis == "x" else ax.set_ylim)(0, None)
