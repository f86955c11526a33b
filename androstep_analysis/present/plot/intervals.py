"""Values side by side with the intervals that their table gives, drawn by seaborn.

seaborn aggregates repeats. Here each value and the two ends of its interval are such repeats, so that what is drawn is
the table's and no interval is computed anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd
import polars as pl
import seaborn
from matplotlib.axes import Axes

from androstep_analysis.present.plot import paper

MARKERS: Final = "osD^vPX*"
"""Series differ in their marker as well: colours alone do not stay apart for every eye, nor in print."""

_WIDTH: Final = 0.8
"""Width of a group, whose distance from the next one is 1."""


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

    `palette` has the kinds in order with their colours; `scale` is what values are divided by.
    """
    err_kws = {"color": "#222222", "linewidth": 0.7}
    options = {"order": order, "width": _WIDTH, "gap": 0.08, "saturation": 1, "capsize": _cap(palette)}
    _draw(seaborn.barplot, ax, table, x, hue, palette, scale, **options, err_kws=err_kws)


def points(
    ax: Axes, table: pl.DataFrame, x: str, order: Sequence[Any], hue: str, palette: Mapping[str, str], scale: float = 1
) -> None:
    """Points in the places of `bars`."""
    dodge = _WIDTH * (1 - 1 / max(1, len(palette)))
    options = {"order": order, "dodge": dodge, "markers": markers(palette), "markersize": 4, "linestyle": "none"}
    _draw(
        seaborn.pointplot,
        ax,
        table,
        x,
        hue,
        palette,
        scale,
        **options,
        capsize=_cap(palette),
        err_kws={"linewidth": 0.7},
    )


def lines(ax: Axes, table: pl.DataFrame, x: str, hue: str, palette: Mapping[str, str], scale: float = 1) -> None:
    """A line with markers over the numbers of column `x` for each kind of column `hue`."""
    style = {"style": hue, "style_order": list(palette), "markers": markers(palette), "dashes": False}
    err_kws = {"elinewidth": 0.7, "capsize": 1.5, "capthick": 0.7}
    options = {"markersize": 4, "markeredgewidth": 0, "err_style": "bars", "err_kws": err_kws}
    _draw(seaborn.lineplot, ax, table, x, hue, palette, scale, **style, **options)


def _draw(
    draw: Callable[..., object],
    ax: Axes,
    table: pl.DataFrame,
    x: str,
    hue: str,
    palette: Mapping[str, str],
    scale: float,
    **options: Any,
) -> None:
    """Values with their intervals; the kinds are ready for a legend, as a reader would write them."""
    if table.is_empty():
        return
    kinds = {"hue": hue, "hue_order": list(palette), "palette": dict(palette)}
    # Of a value and the ends of its interval the median is the value, and all that there is the interval.
    aggregated = {"estimator": "median", "errorbar": ("pi", 100)}
    draw(_repeats(table, x, hue, scale), x=x, y="value", **kinds, **aggregated, **options, ax=ax)
    for handle, kind in zip(*ax.get_legend_handles_labels(), strict=True):
        handle.set_label(paper.words(kind))
    if legend := ax.get_legend():
        legend.remove()


def _repeats(table: pl.DataFrame, x: str, hue: str, scale: float) -> pd.DataFrame:
    """The value of each row, and after it the ends of its interval, where it has one (columns lo and hi).

    `ValueError` where an interval does not hold its value: neither would be drawn as it is.
    """
    drawn = pl.concat_list("value")
    if {"lo", "hi"} <= set(table.columns):
        has_interval = pl.col("lo").is_not_null() & pl.col("hi").is_not_null()
        outside = table.filter(has_interval, ~pl.col("value").is_between("lo", "hi"))
        if outside.height:
            raise ValueError(f"the interval of {outside[hue][0]} at {outside[x][0]} does not hold its value")
        drawn = pl.when(has_interval).then(pl.concat_list("value", "lo", "hi")).otherwise(drawn)
    repeats = table.select(x, hue, value=drawn).explode("value").to_pandas()
    return repeats.assign(value=repeats["value"] / scale)


def _cap(palette: Mapping[str, str]) -> float:
    """Width of the caps of an interval: a third of a bar's."""
    return _WIDTH / max(1, len(palette)) / 3
