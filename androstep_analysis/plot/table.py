"""A small table as a figure: for tables that stand among figures."""

from __future__ import annotations

import textwrap
from typing import Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis.plot import paper, text

_FONT: Final = 6.5
_LINE_INCHES: Final = 0.125
_CHARACTER_INCHES: Final = 0.052
"""Width of an average character at `_FONT`."""
_GAP: Final = 3
"""Characters between two columns."""


@paper.of_any_table
def table(data: pl.DataFrame, *, wrap: int = 30, ax: Axes | None = None) -> Axes:
    """The rows of a table, as text under the names of its columns. Text longer than `wrap` goes on below.

    Numbers have four significant digits, or all before the point, and stand to the right; null is a dash. A figure
    made here is as wide as its columns need.

    Parameters
    ----------
    data : Table
        Any table.
    wrap : int
        Longest line of a cell, in characters.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.table(pl.DataFrame({"device": ["UFS"], "value": [1.5]}))
    """
    columns = [_Column(series, wrap) for series in data]
    heights = [max(len(column.cells[row]) for column in columns) for row in range(data.height + 1)] if columns else []
    lines = sum(heights)
    made = ax is None
    with paper.drawing(ax, _LINE_INCHES * (lines + 1)) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        total = sum(column.width for column in columns)
        if made and (figure := ax.get_figure(root=True)) is not None:
            figure.set_size_inches(_CHARACTER_INCHES * total, _LINE_INCHES * (lines + 1))
        ax.set_axis_off()
        ax.set_xlim(0, total)
        ax.set_ylim(lines + 0.6, -0.4)
        left = 0.0
        for column in columns:
            at = left + column.width - _GAP if column.numeric else left
            top = 0.0
            for number, (cell, height) in enumerate(zip(column.cells, heights, strict=True)):
                for line, words in enumerate(cell):
                    ax.text(
                        at,
                        top + line + (0.75 if number == 0 else 1.0),
                        words,
                        fontsize=_FONT,
                        fontweight="normal" if number else "bold",
                        ha="right" if column.numeric else "left",
                        va="baseline",
                        parse_math=False,
                    )
                top += height
            left += column.width
        for at in (-0.25, heights[0] + 0.05, lines + 0.4):
            ax.plot([0, total - _GAP], [at, at], color="#222222", linewidth=0.6, clip_on=False)
        return ax


class _Column:
    """A column's cells, the name first, each as its lines."""

    def __init__(self, series: pl.Series, wrap: int) -> None:
        self.numeric = series.dtype.is_numeric()
        self.cells = [_lines(cell, wrap) for cell in (series.name, *map(_words, series))]
        name, *cells = self.cells
        bold = max(len(line) for line in name) * 1.15
        self.width = max(bold, *(len(line) for cell in cells for line in cell), 0) + _GAP


def _words(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _lines(cell: str, wrap: int) -> list[str]:
    return [text.label(line, wrap) for line in textwrap.wrap(cell, wrap)] or [""]
