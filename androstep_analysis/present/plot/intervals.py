"""Bars, points and lines with intervals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from androstep_analysis.present.plot import paper

MARKERS: Final = "osD^vPX*"
"""Markers of series. Colours alone are not distinguishable for everyone, nor in print."""

_WIDTH: Final = 0.8
"""Width of a group of bars. The distance between groups is 1."""

_GAP: Final = 0.08
"""Gap between bars, as a share of a bar's width."""


def colours(kinds: Sequence[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a colour for each kind: its own in `known`, else an unused one."""
    own = {kind: fill for kind in kinds if (fill := (known or {}).get(kind))}
    free = itertools.cycle([fill for fill in paper.SERIES if fill not in own.values()] or paper.SERIES)
    return {kind: own.get(kind) or next(free) for kind in kinds}


def markers(kinds: Iterable[str]) -> list[str]:
    """Return a marker for each kind."""
    return [marker for _, marker in zip(kinds, itertools.cycle(MARKERS), strict=False)]


def bars(
    ax: Axes, table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float = 1
) -> None:
    """Draw a group of bars for each of `order` in column `x`, with one bar for each kind of column `hue`.

    `palette` has the kinds in order with their colours. Values are divided by `scale`. If every group has one bar only,
    bars have the full width.
    """
    if table.is_empty():
        return
    is_beside = table.select(x, hue).n_unique() > table[x].n_unique()
    parts = len(palette) if is_beside else 1
    width = _WIDTH / parts
    for number, (kind, rows) in enumerate(_kinds(table, x, order, hue, palette, scale)):
        place = rows["place"].to_numpy() + (width * (number - (parts - 1) / 2) if is_beside else 0)
        # A kind without rows still gets an entry in the legend.
        left, height = (place - width * (1 - _GAP) / 2, rows["value"]) if rows.height else ([0], [np.nan])
        ax.bar(left, height, width * (1 - _GAP), align="edge", color=palette[kind], label=paper.words(kind))
        _intervals(ax, place, rows, _cap(palette) / parts, "#222222", 2)
    _groups(ax, order)


def points(
    ax: Axes, table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float = 1
) -> None:
    """Draw points at the positions of `bars`."""
    if table.is_empty():
        return
    width = _WIDTH / max(1, len(palette))
    edge = paper.RC["lines.linewidth"] * 1.35
    each = zip(_kinds(table, x, order, hue, palette, scale), markers(palette), strict=True)
    for number, ((kind, rows), marker) in enumerate(each):
        place = rows["place"].to_numpy() + width * (number - (len(palette) - 1) / 2)
        style: dict[str, Any] = {"marker": marker, "markersize": 4, "markeredgewidth": edge, "linestyle": "none"}
        (line,) = ax.plot(place, rows["value"], color=palette[kind], label=paper.words(kind), **style)
        _intervals(ax, place, rows, _cap(palette), palette[kind], line.get_zorder())
    _groups(ax, order)


def lines(ax: Axes, table: pl.DataFrame, x: str, hue: str, palette: Mapping[str, str], scale: float = 1) -> None:
    """Draw a line with markers over the numbers of column `x` for each kind of column `hue`."""
    if table.is_empty():
        return
    order = table[x].unique().sort().to_list()
    for (kind, rows), marker in zip(_kinds(table, x, order, hue, palette, scale), markers(palette), strict=True):
        style: dict[str, Any] = {"marker": marker, "markersize": 4, "markeredgewidth": 0}
        ax.plot(rows["x"], rows["value"], color=palette[kind], label=paper.words(kind), **style)
        if rows["lo"].is_not_nan().any():
            ends = [rows["value"] - rows["lo"], rows["hi"] - rows["value"]]
            caps: dict[str, Any] = {"elinewidth": 0.7, "capsize": 1.5, "capthick": 0.7}
            drawn = ax.errorbar(rows["x"], rows["value"], yerr=ends, linestyle="", color=palette[kind], **caps)
            for bar in drawn.get_children():
                if isinstance(bar, LineCollection):
                    bar.set_capstyle("projecting")


def _kinds(
    table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield for each kind its rows in `order`: columns x, place (index in `order`), value, lo and hi.

    value, lo and hi are divided by `scale`. Raises `ValueError` if an interval does not contain its value: it could not
    be drawn. An interval with one bound is ignored.
    """
    ends = [pl.col(name) if name in table.columns else pl.lit(None, pl.Float64).alias(name) for name in ("lo", "hi")]
    rows = table.with_columns(ends)
    has_interval = pl.col("lo").is_not_null() & pl.col("hi").is_not_null()
    outside = rows.filter(has_interval, ~pl.col("value").is_between("lo", "hi"))
    if outside.height:
        raise ValueError(f"the interval of {outside[hue][0]} at {outside[x][0]} does not contain its value")
    place = pl.col(x).replace_strict(list(order), range(len(order)), default=None, return_dtype=pl.Int64)
    known = [pl.when(has_interval).then(name).alias(name) for name in ("lo", "hi")]
    shown = rows.select("value", *known, x=x, kind=hue, place=place).drop_nulls("place").sort("place")
    # numpy divides, and makes NaN of null; polars would multiply by the reciprocal.
    shown = shown.with_columns(pl.Series(name, shown[name].to_numpy() / scale) for name in ("value", "lo", "hi"))
    return ((kind, shown.filter(kind=kind)) for kind in palette)


def _intervals(ax: Axes, place: np.ndarray, rows: pl.DataFrame, cap: float, colour: str, zorder: float) -> None:
    """Draw the intervals of the rows as lines with caps of width `cap`."""
    for at, lo, hi in zip(place, rows["lo"], rows["hi"], strict=True):
        if not np.isnan(lo):
            ends = [at - cap / 2, at + cap / 2, np.nan]
            drawn = [*ends, at, at, np.nan, *ends[:2]], [lo, lo, np.nan, lo, hi, np.nan, hi, hi]
            ax.plot(*drawn, color=colour, linewidth=0.7, zorder=zorder)


def _groups(ax: Axes, order: Sequence[Any]) -> None:
    """Label the groups on the x axis."""
    ax.set_xticks(range(len(order)), [str(name) for name in order], parse_math=False)
    ax.set_xlim(-0.5, len(order) - 0.5)


def _cap(palette: Mapping[str, str]) -> float:
    """Return the width of the caps of an interval: a third of a bar's."""
    return _WIDTH / max(1, len(palette)) / 3
