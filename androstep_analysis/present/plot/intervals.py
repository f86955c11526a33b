"""Values side by side with the intervals that their table gives."""

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
"""Series differ in their marker as well: colours alone do not stay apart for every eye, nor in print."""

_WIDTH: Final = 0.8
"""Width of a group, whose distance from the next one is 1."""

_GAP: Final = 0.08
"""The part of a bar's width that stays free."""


def colours(kinds: Sequence[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """A colour for each kind: its own among `known`, else one that none of those has."""
    own = {kind: fill for kind in kinds if (fill := (known or {}).get(kind))}
    free = itertools.cycle([fill for fill in paper.SERIES if fill not in own.values()])
    return {kind: own.get(kind) or next(free) for kind in kinds}


def markers(kinds: Iterable[str]) -> list[str]:
    """A marker for each kind."""
    return [marker for _, marker in zip(kinds, itertools.cycle(MARKERS), strict=False)]


def bars(
    ax: Axes, table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float = 1
) -> None:
    """A group of bars for each of `order` in column `x`, in it one for each kind of column `hue`.

    `palette` has the kinds in order with their colours; `scale` is what values are divided by. A kind that alone has
    values at its places has the whole width there.
    """
    if table.is_empty():
        return
    is_beside = table.select(x, hue).n_unique() > table[x].n_unique()
    parts = len(palette) if is_beside else 1
    width = _WIDTH / parts
    for number, (kind, rows) in enumerate(_kinds(table, x, order, hue, palette, scale)):
        place = rows["place"].to_numpy() + (width * (number - (parts - 1) / 2) if is_beside else 0)
        # A kind without rows has its place in the legend.
        left, height = (place - width * (1 - _GAP) / 2, rows["value"]) if rows.height else ([0], [np.nan])
        ax.bar(left, height, width * (1 - _GAP), align="edge", color=palette[kind], label=paper.words(kind))
        _intervals(ax, place, rows, _cap(palette) / parts, "#222222", 2)
    _groups(ax, order)


def points(
    ax: Axes, table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float = 1
) -> None:
    """Points in the places of `bars`."""
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
    """A line with markers over the numbers of column `x` for each kind of column `hue`."""
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
    """For each kind its rows in `order`: columns x, place (in `order`), and value, lo and hi divided by `scale`.

    `ValueError` where an interval does not hold its value: neither would be drawn as it is. Half an interval is none.
    """
    ends = [pl.col(name) if name in table.columns else pl.lit(None, pl.Float64).alias(name) for name in ("lo", "hi")]
    rows = table.with_columns(ends)
    has_interval = pl.col("lo").is_not_null() & pl.col("hi").is_not_null()
    outside = rows.filter(has_interval, ~pl.col("value").is_between("lo", "hi"))
    if outside.height:
        raise ValueError(f"the interval of {outside[hue][0]} at {outside[x][0]} does not hold its value")
    place = pl.col(x).replace_strict(list(order), range(len(order)), default=None, return_dtype=pl.Int64)
    known = [pl.when(has_interval).then(name).alias(name) for name in ("lo", "hi")]
    shown = rows.select("value", *known, x=x, kind=hue, place=place).drop_nulls("place").sort("place")
    # numpy divides, and makes NaN of null; polars would multiply by the reciprocal.
    shown = shown.with_columns(pl.Series(name, shown[name].to_numpy() / scale) for name in ("value", "lo", "hi"))
    return ((kind, shown.filter(kind=kind)) for kind in palette)


def _intervals(ax: Axes, place: np.ndarray, rows: pl.DataFrame, cap: float, colour: str, zorder: float) -> None:
    """The intervals of the rows, each a line with caps of this width."""
    for at, lo, hi in zip(place, rows["lo"], rows["hi"], strict=True):
        if not np.isnan(lo):
            ends = [at - cap / 2, at + cap / 2, np.nan]
            drawn = [*ends, at, at, np.nan, *ends[:2]], [lo, lo, np.nan, lo, hi, np.nan, hi, hi]
            ax.plot(*drawn, color=colour, linewidth=0.7, zorder=zorder)


def _groups(ax: Axes, order: Sequence[Any]) -> None:
    """The axis of the groups, each with its name."""
    ax.set_xticks(range(len(order)), [str(name) for name in order], parse_math=False)
    ax.set_xlim(-0.5, len(order) - 0.5)


def _cap(palette: Mapping[str, str]) -> float:
    """Width of the caps of an interval: a third of a bar's."""
    return _WIDTH / max(1, len(palette)) / 3
