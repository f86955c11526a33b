"""Requests over time, one mark each, or as a density if there are too many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter

from androstep_analysis import measures
from androstep_analysis.common import units
from androstep_analysis.measures.tables import Table, lazy
from androstep_analysis.present.plot import paper

MARKS = 20_000
"""Maximum number of requests that are drawn one by one."""

COLUMNS, ROWS = 180, 80
"""Number of cells of the density that is drawn for more requests."""

By = Literal["op", "block_type"]
_PALETTES: Mapping[str, Mapping[str, str]] = {"op": paper.OPS, "block_type": paper.BLOCK_TYPES}


def size_over_time(
    requests: Table,
    *,
    by: By = "op",
    origin_ns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the size of every request (table `requests`) or piece (table `io`) over the time of its issue.

    Colours show the operation, or with `by="block_type"` the type of the blocks. With more than `MARKS` rows, the
    figure shows the number in each cell of a grid, and a note says so. Rows that are not counted (`measures.counted`),
    without a time or without data (empty flushes) are not drawn.

    Parameters
    ----------
    requests : Table
        Table `requests` or `io`.
    by : {"op", "block_type"}
        Column that determines the colour.
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.size_over_time(capture.requests)
    """
    size = pl.col("nr_sectors") * units.SECTOR_BYTES
    data = _points(requests, size, by).filter(pl.col("y") > 0)
    with paper.drawing(ax) as ax:
        if _is_empty(data):
            return paper.no_data(ax)
        ax.set_yscale("log", base=2)
        _draw(ax, data, by, origin_ns, logarithmic=True)
        low, high = np.log2(ax.get_ylim())
        step = 2 if high - low > 6 else 1
        ticks = [2.0**e for e in range(int(np.ceil(low)), int(np.floor(high)) + 1) if e % step == 0]
        ax.yaxis.set_major_locator(FixedLocator(ticks))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: paper.size(value)))
        ax.minorticks_off()
        ax.set_ylabel("Size of request" if by == "op" else "Size of piece")
        return ax


def sector_over_time(
    requests: Table,
    *,
    by: By = "op",
    origin_ns: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the first sector of every request (table `requests`) or piece (table `io`) over the time of its issue.

    The table must have the rows of one device. Otherwise like `size_over_time`.

    Parameters
    ----------
    requests : Table
        Table `requests` or `io`, of one device.
    by : {"op", "block_type"}
        Column that determines the colour.
    origin_ns : int, optional
        Origin of the time axis, in ns of the capture's clock (default: the first drawn time).
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        For rows of several devices.

    Examples
    --------
    >>> _ = plot.sector_over_time(capture.io, by="block_type")
    """
    devices = lazy(requests).select(pl.col("dev").unique().sort()).collect()["dev"].to_list()
    if len(devices) > 1:
        named = ", ".join(units.format_dev(dev) for dev in devices)
        raise ValueError(f"sectors of several devices ({named}) share no axis; filter the table by dev")
    data = _points(requests, pl.col("sector"), by)
    with paper.drawing(ax) as ax:
        if _is_empty(data):
            return paper.no_data(ax)
        _draw(ax, data, by, origin_ns, logarithmic=False)
        ax.yaxis.set_major_formatter(EngFormatter())
        ax.set_ylabel("Sector [512 B]")
        return ax


def _points(requests: Table, y: pl.Expr, by: By) -> pl.LazyFrame:
    """Return columns x (ns, Int64), y and kind of the rows that have all three.

    x is the issue time, else the queue or completion time.
    """
    return (
        measures.counted(requests)
        .select(x=pl.coalesce("issue_ns", "queue_ns", "complete_ns"), y=y, kind=pl.col(by).cast(pl.String))
        .drop_nulls()
    )


def _is_empty(data: pl.LazyFrame) -> bool:
    return data.head(1).collect().is_empty()


def _draw(ax: Axes, data: pl.LazyFrame, by: By, origin_ns: int | None, *, logarithmic: bool) -> None:
    """Draw the time axis, and the points or their density. The density does not need the points in memory."""
    summary = data.select(
        pl.len(), first=pl.col("x").min(), last=pl.col("x").max(), kinds=pl.col("kind").unique().implode()
    )
    count, first, last, found = summary.collect().row(0)
    origin = first if origin_ns is None else origin_ns
    divisor, unit = paper.time_unit(last - origin)
    data = data.with_columns(x=(pl.col("x") - origin) / divisor)
    palette = _PALETTES[by]
    kinds = paper.ordered(found, palette)
    few = count <= MARKS
    if few:
        points = data.collect()
        for kind in kinds:
            part = points.filter(pl.col("kind") == kind)
            ax.scatter(part["x"], part["y"], s=3, linewidths=0, alpha=0.7, color=paper.colour(kind, palette))
    else:
        _density(ax, data, kinds, palette, logarithmic=logarithmic)
    ax.set_xlabel(f"Time [{unit}]")
    paper.grid(ax, "both")
    handles = [Patch(color=paper.colour(kind, palette), label=paper.words(kind)) for kind in kinds]
    paper.legend(ax, above=True, handles=handles)
    if not few:
        grid = f"{count:,} in {COLUMNS} × {ROWS} cells"
        paper.note(ax, f"{grid}; colour: most frequent; darker: more")


def _density(ax: Axes, data: pl.LazyFrame, kinds: list[str], palette: Mapping[str, str], *, logarithmic: bool) -> None:
    """Draw a mesh of cells. The colour is that of the most frequent kind in the cell, the shade shows the number."""
    y = pl.col("y").log(2) if logarithmic else pl.col("y").cast(pl.Float64)
    bounds = data.select(x0=pl.col("x").min(), x1=pl.col("x").max(), y0=y.min(), y1=y.max()).collect().row(0)
    x_edges, y_edges = _edges(bounds[0], bounds[1], COLUMNS), _edges(bounds[2], bounds[3], ROWS)
    cells = (
        data.select("kind", column=_cell(pl.col("x"), x_edges), row=_cell(y, y_edges))
        .group_by("column", "row", "kind")
        .agg(number=pl.len())
        .sort("number", "kind", descending=[True, False])
        .group_by("column", "row", maintain_order=True)
        .agg(pl.col("kind").first(), pl.col("number").sum())
        .collect()
    )
    _, most = paper.span(cells["number"])
    norm = LogNorm(1, max(2, most))
    for kind in kinds:
        part = cells.filter(pl.col("kind") == kind)
        number = np.zeros((ROWS, COLUMNS))
        number[part["row"].to_numpy(), part["column"].to_numpy()] = part["number"].to_numpy()
        full = paper.colour(kind, palette)
        mesh = ax.pcolormesh(
            x_edges,
            2.0**y_edges if logarithmic else y_edges,
            np.ma.masked_equal(number, 0),
            norm=norm,
            cmap=LinearSegmentedColormap.from_list(kind, [_pale(full), full]),
            rasterized=True,
            zorder=2,
        )
        # Without this, the mesh would touch the axes, and they would hide half of its outer cells.
        mesh.sticky_edges.x.clear()
        mesh.sticky_edges.y.clear()


def _edges(low: float, high: float, cells: int) -> np.ndarray:
    """Return the `cells` + 1 edges of equal cells from `low` to `high`."""
    return np.linspace(low, high if high > low else low + 1, cells + 1)


def _cell(value: pl.Expr, edges: np.ndarray) -> pl.Expr:
    low, high, cells = float(edges[0]), float(edges[-1]), len(edges) - 1
    return ((value - low) / (high - low) * cells).floor().cast(pl.Int64).clip(0, cells - 1)


def _pale(fill: str) -> str:
    """Return a tint of a colour, at two fifths between white and the colour."""
    return "#" + "".join(f"{255 - (255 - int(fill[i : i + 2], 16)) * 2 // 5:02x}" for i in (1, 3, 5))
