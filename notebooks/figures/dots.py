"""Dot plots in rows: places, apps or ratios below each other, with intervals and the papers' numbers.

Labels of any length stay readable, and unlike bars, dots are valid on a logarithmic axis. Our values are round, and
blue and filled if there is a single series. A paper's value is an orange diamond, recognisable by its shape in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from papers import Paper, against, number

from androstep_analysis import bench, plot
from androstep_analysis.present.plot import intervals
from androstep_analysis.present.plot import paper as style
from androstep_analysis.stats.exact import ratio

OURS, THEIRS = "#0072B2", "#D55E00"


def rows(
    table: pl.DataFrame,
    category: str,
    label: str,
    *,
    series: str | None = None,
    names: Mapping[str, str] | None = None,
    stated: pl.DataFrame | None = None,
    repetitions: pl.DataFrame | None = None,
    limits: tuple[float, float] | None = None,
    scale: float = 1,
    ax: Axes | None = None,
) -> Axes:
    """Plot a row for each value of column `category`, with a dot and its interval (value, lo, hi) for each of `series`.

    `stated` has the paper's numbers (columns `category`, value); categories without our values follow below.
    `repetitions` are single runs (columns `category`, value), drawn in the background. `names` are labels of the
    series, in order. The axis is logarithmic; pass the same `limits` for figures of the same data.
    """
    theirs = pl.DataFrame(schema={category: pl.String, "value": pl.Float64}) if stated is None else stated
    places = list(dict.fromkeys([*table[category], *theirs[category]]))
    kinds = [None] if series is None else list(names or dict.fromkeys(table[series]))
    with style.drawing(ax, 0.75 + len(places) * max(0.26, 0.1 * len(kinds) + 0.08)) as ax:
        step = 0.8 / (len(kinds) + (1 if stated is not None else 0))
        ax.set_xscale("log")
        if repetitions is not None:
            at = [places.index(place) for place in repetitions[category]]
            ax.plot(
                repetitions["value"] / scale, at, "|", ms=7, mew=0.6, color="#999999", label="single runs", zorder=1
            )
        for number, (kind, colour, marker) in enumerate(zip(kinds, style.SERIES, intervals.MARKERS, strict=False)):
            part = table if series is None else table.filter(pl.col(series).cast(pl.String) == kind)
            at = np.array([places.index(place) for place in part[category]]) + (number - (len(kinds) - 1) / 2) * step
            name = "ours" if kind is None else (names or {}).get(kind, kind)
            ax.plot(part["value"] / scale, at, marker, ms=4.5, color=colour, label=name, zorder=3)
            known = (
                part.with_columns(at=pl.Series(at)).drop_nulls(["lo", "hi"]) if "lo" in part.columns else part.clear()
            )
            if known.height:
                ax.hlines(known["at"], known["lo"] / scale, known["hi"] / scale, color=colour, linewidth=1.1, zorder=2)
        if stated is not None:
            is_own = {place: place not in set(table[category]) for place in places}
            at = [places.index(place) + (0 if is_own[place] else 0.4) for place in theirs[category]]
            ax.plot(
                theirs["value"] / scale,
                at,
                "D",
                ms=4.5,
                color=THEIRS,
                mec="#222222",
                mew=0.5,
                label="the paper",
                zorder=4,
            )
        ax.set_yticks(range(len(places)), places, parse_math=False, usetex=False)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(places) - 0.4, -0.6)
        for between in range(1, len(places)):
            ax.axhline(between - 0.5, color="#EEEEEE", linewidth=0.5, zorder=0)
        if limits:
            ax.set_xlim(*limits)
        log_axis(ax)
        ax.set_xlabel(label)
        style.grid(ax, "x")
        if len(labels := ax.get_legend_handles_labels()[1]) > 1:
            style.legend(ax, above=True, columns=max(2, 52 // (max(map(len, labels)) + 4)))
    return ax


def log_axis(ax: Axes) -> None:
    """Label powers of ten on the x axis, and 2 and 5 between them if it is short."""
    low, high = ax.get_xlim()
    wide = high / low
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if wide < 300 else (1,), numticks=20))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


# -- numbers of the papers' texts and ours -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """A number or range from a paper's text, and ours: `value` with its interval, if there is one."""

    label: str
    published: tuple[float, float]
    value: float
    lo: float | None
    hi: float | None
    n: int

    @property
    def said(self) -> str:
        """Our value with its interval, and whether the paper's number lies in it."""
        interval = "" if self.lo is None or self.hi is None else f" [{number(self.lo)}, {number(self.hi)}]"
        return f"{number(self.value)}{interval} ({against(self.value, self.lo, self.hi, *self.published)})"


def compared(
    label: str,
    published: tuple[float, float],
    tables: Mapping[str, pl.DataFrame],
    first: Mapping[str, str],
    second: Mapping[str, str],
) -> Stated:
    """Return the rate of the runs `second` relative to that of the runs `first` (values of columns of bench_runs)."""
    measured = bench.measures(dict(tables)).filter("valid", pl.col("metric").is_in(["iops", "tps"]))
    base, other = (measured.filter(**side)["value"].to_list() for side in (first, second))
    value, lo, hi = ratio(base, other)
    assert value is not None, f"{label}: no runs"
    return Stated(label, published, value, lo, hi, len(base) + len(other))


def table_of(found: Sequence[Stated], unit: str = "1") -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "what": row.label,
                "published_least": row.published[0],
                "published_most": row.published[1],
                "value": row.value,
                "lo": row.lo,
                "hi": row.hi,
                "unit": unit,
                "n": row.n,
            }
            for row in found
        ],
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )


def beside(table: pl.DataFrame, label: str, *, ratios: bool) -> Axes:
    """Plot a row for each published number or range (one or two diamonds) and our value with its interval."""
    with plot.style():
        figure = Figure(figsize=(style.COLUMN, 0.75 + 0.3 * table.height), layout="constrained")
        ax = figure.add_subplot(axes_class=style.PaperAxes)
        at = np.arange(table.height)
        least, most = (table[name].to_numpy() for name in ("published_least", "published_most"))
        ax.hlines(at - 0.16, least, most, color=THEIRS, linewidth=1.1)
        ends = {"ms": 4.5, "color": THEIRS, "mec": "#222222", "mew": 0.5, "zorder": 4}
        ax.plot(least, at - 0.16, "D", label="the paper", **ends)
        ax.plot(most, at - 0.16, "D", **ends)
        ax.plot(table["value"], at + 0.16, "o", markersize=4.5, color=OURS, label="ours", zorder=3)
        known = table.with_row_index("at").drop_nulls(["lo", "hi"])
        ax.hlines(known["at"].to_numpy() + 0.16, known["lo"], known["hi"], color=OURS, linewidth=1.1)
        lines = table["what"].str.replace(": ", ":\n", literal=True).to_list()
        ax.set_yticks(at, lines, fontsize=6.5, parse_math=False, usetex=False)
        ax.set_ylim(table.height - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        if ratios:
            ax.axvline(1, color="#999999", linewidth=0.8, zorder=0)
            ax.set_xscale("log")
            shown = [
                value for name in ("published_least", "published_most", "value", "lo", "hi") for value in table[name]
            ]
            known_values = [1.0, *(value for value in shown if value is not None)]
            ax.set_xlim(min(known_values) / 1.3, max(known_values) * 1.3)
            log_axis(ax)
        else:
            ax.set_xlim(min(0, *(value for value in (*table["value"], *least) if value is not None)) * 1.1, 104)
        style.grid(ax, "x")
        ax.set_xlabel(label)
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1.02), ncols=2, borderaxespad=0)
    return ax


def between(paper: Paper, least: str, most: str | None = None) -> tuple[float, float]:
    """Return the published numbers with these ids as minimum and maximum."""
    values = paper.stated(*dict.fromkeys((least, most or least)))["value"]
    return float(values[0]), float(values[-1])
