"""Bar charts of counts, bytes and shares. Each function draws one result table of `androstep_analysis.measures`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from androstep_analysis.measures.tables import MEASURES
from androstep_analysis.present.plot import intervals, paper, text

Basis = Literal["count", "bytes"]

_MOVING: Final = ("read", "write")


@paper.of_any_table
def block_types(table: pl.DataFrame, *, basis: Basis = "count", relative: bool = False, ax: Axes | None = None) -> Axes:
    """Draw stacked bars of the block types of reads and writes.

    `basis` and `relative` give the four graphs of the MOST Viewer: requests or bytes, absolute or in per cent of the
    operation. Empty flushes have no block type and are not drawn.

    With a further dimension, such as the app, there is a pair of bars for each of its values, as in `file_types`.

    Parameters
    ----------
    table : Table
        Result of `measures.block_types`, with at most one further dimension.
    basis : {"count", "bytes"}
        Whether to show requests or bytes.
    relative : bool
        Whether to show per cent of the operation.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figure 14 (b), by app.

    Examples
    --------
    >>> _ = plot.block_types(measures.block_types(capture.io))
    >>> of_apps = measures.block_types(capture.io, by=("owner_comm",))
    >>> _ = plot.block_types(of_apps, relative=True)
    """
    return _stacked(table, "block_type", paper.BLOCK_TYPES, {}, basis, relative, ax, paper.HEIGHT)


@paper.of_any_table
def file_types(
    table: pl.DataFrame,
    *,
    basis: Basis = "count",
    relative: bool = False,
    colours: Mapping[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw stacked bars of the types of the files that were read and written.

    Every type that occurs is in the legend.

    With a further dimension, such as the app, there is a pair of bars for each of its values: reads and writes. Above
    shares of requests is their number. Values are in order of their requests; a value "others", and null, are the last.
    At most eight are drawn; a note counts the rest.

    Parameters
    ----------
    table : Table
        Result of `measures.file_types`, with at most one further dimension.
    basis : {"count", "bytes"}
        Whether to show requests or bytes.
    relative : bool
        Whether to show per cent of the operation.
    colours : mapping of str, optional
        Colours (``#rrggbb``) of your own types of files by their names: ``capture.classes.colours``. Types without a
        colour get one that no other type has.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figure 14 (a), by app.

    Examples
    --------
    >>> _ = plot.file_types(measures.file_types(capture.io))
    >>> of_apps = measures.file_types(capture.io, by=("owner_comm",))
    >>> _ = plot.file_types(of_apps, relative=True)
    """
    palette = paper.FILE_TYPES | dict(colours or {})
    return _stacked(table, "file_type", palette, paper.FILE_TYPE_HATCHES, basis, relative, ax, 2.6)


@paper.of_any_table
def mix(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the shares of operations in all requests and in all bytes, as two bars of 100 %.

    Parameters
    ----------
    table : Table
        Result of `measures.mix`.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.mix(measures.mix(capture.requests))
    """
    return _shares(table, "op", paper.OPS, ax)


@paper.of_any_table
def sync(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the shares of synchronous and buffered writes by count and by bytes, as two bars of 100 %.

    Parameters
    ----------
    table : Table
        Result of `measures.sync`.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.sync(measures.sync(capture.io))
    """
    return _shares(table, "class", paper.SYNC, ax)


@paper.of_any_table
def locality(table: pl.DataFrame, *, basis: Basis = "count", ax: Axes | None = None) -> Axes:
    """Draw the shares of consecutive, forward and random requests of every operation as grouped bars.

    The bars are not stacked: forward includes consecutive, so the three do not add up to 100 %. They are of the
    requests in known order. A further bar is the share of the others, if there are any.

    Parameters
    ----------
    table : Table
        Result of `measures.locality`.
    basis : {"count", "bytes"}
        Whether to show requests or bytes.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.locality(measures.locality(capture.requests))
    """
    data = paper.rows(table, f"{basis}_ratio", ("op", "class"))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        ops = paper.ordered(data["op"], paper.OPS)
        classes = paper.ordered(data["class"], paper.LOCALITY)
        every = pl.DataFrame({"op": ops}).join(pl.DataFrame({"class": classes}), how="cross")
        shown = every.join(data, on=["op", "class"], how="left").with_columns(pl.col("value").fill_null(0))
        palette = {kind: paper.colour(kind, paper.LOCALITY) for kind in classes}
        intervals.bars(ax, shown, "op", ops, "class", palette, 0.01)
        for bars in ax.containers:
            numbered = cast(BarContainer, bars)
            ax.bar_label(numbered, fmt=lambda height: paper.per_cent(height / 100), fontsize=6, padding=1)
        ax.set_xlabel("")
        _categories(ax, ops)
        _per_cent(ax, f"Share of {_noun(table, basis)} [%]")
        ax.set_ylim(0, 108)  # leaves space for the number above a bar of 100 %
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def rwbs(table: pl.DataFrame, *, top: int = 16, ax: Axes | None = None) -> Axes:
    """Draw requests by the letters that the kernel prints for operation and flags.

    The `top` most frequent combinations are drawn, the most frequent first. A note counts the others.

    Parameters
    ----------
    table : Table
        Result of `measures.rwbs`.
    top : int
        Maximum number of combinations.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.rwbs(measures.rwbs(capture.requests))
    """
    data = paper.rows(table, "count", ("rwbs",)).sort(["value", "rwbs"], descending=[True, False])
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        shown = data.head(top)
        letters = [text.label(value if value is not None else "unknown", 12) for value in shown["rwbs"]]
        ax.bar(np.arange(len(letters)), shown["value"].to_numpy(), 0.7, color=[_rwbs_colour(x) for x in letters])
        _categories(ax, letters, rotation=90 if len(letters) > 8 else 0)
        paper.count_axis(ax, "y")
        paper.grid(ax, "y")
        ax.set_xlabel("Operation and flags (rwbs)")
        ax.set_ylabel("Requests")
        if data.height > top:
            rest = float(data["value"].sum()) - float(shown["value"].sum())
            paper.note(ax, f"{data.height - top:,} further combinations ({rest:,.0f} requests) not shown")
        return ax


@paper.of_any_table
def sizes(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw a histogram of request sizes by operation, with bins that double.

    The bin labelled 4 KiB has sizes from 4 KiB to just below 8 KiB. Empty requests are not drawn.

    Parameters
    ----------
    table : Table
        Result of `measures.sizes`.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.sizes(measures.sizes(capture.requests))
    """
    data = paper.rows(table, "count", ("op", "size_bytes")).filter(pl.col("size_bytes") > 0)
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        # Sizes are whole sectors and below 2**52, where the logarithm of a power of two is exact.
        bins = data.with_columns(bin=pl.col("size_bytes").log(2).floor().cast(pl.Int64))
        bins = bins.group_by("op", "bin").agg(pl.col("value").sum())
        first, last = paper.span(bins["bin"])
        exponents = list(range(int(first), int(last) + 1))
        palette = {op: paper.colour(op, paper.OPS) for op in paper.ordered(bins["op"], paper.OPS)}
        intervals.bars(ax, bins, "bin", exponents, "op", palette)
        _categories(ax, [paper.size(1 << exponent) for exponent in exponents], rotation=90 if len(exponents) > 7 else 0)
        paper.count_axis(ax, "y")
        paper.grid(ax, "y")
        ax.set_xlabel("Request size: at least (and less than the next bin)")
        ax.set_ylabel("Requests")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def volume(table: pl.DataFrame, *, top: int = 10, ax: Axes | None = None) -> Axes:
    """Draw horizontal bars of bytes read and written, the largest first.

    The dimension other than `op` names the bars; null means unknown. Only reads and writes are drawn. A note gives the
    share of all bytes in the bars.

    Parameters
    ----------
    table : Table
        Result of `measures.volume`, with one dimension besides `op`.
    top : int
        Maximum number of bars.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.volume(measures.volume(capture.io))
    """
    names = [name for name in table.columns if name not in (*MEASURES, "op")]
    if len(names) != 1:
        raise ValueError(f"volume takes one dimension besides op, not {len(names)}: {', '.join(names) or 'none'}")
    name = names[0]
    data = paper.rows(table, "bytes", (name, "op")).filter(pl.col("op").is_in(["read", "write"]), pl.col("value") > 0)
    totals = data.group_by(name).agg(pl.col("value").sum()).sort(["value", name], descending=[True, False])
    shown = totals.head(top)
    with paper.drawing(ax, 0.75 + 0.17 * max(shown.height, 4)) as ax:
        if shown.is_empty():
            return paper.no_data(ax)
        scale, unit = paper.byte_unit(float(shown["value"][0]))
        position = np.arange(shown.height)
        left = np.zeros(shown.height)
        for op in ("read", "write"):
            value = dict(data.filter(pl.col("op") == op).select(name, "value").iter_rows())
            widths = np.array([value.get(key, 0.0) for key in shown[name]]) / scale
            ax.barh(position, widths, 0.72, left=left, color=paper.OPS[op], label=op)
            left += widths
        labels = paper.labels(data, name)
        ax.set_yticks(position, [labels[key] for key in shown[name]], parse_math=False, usetex=False)
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        paper.grid(ax, "x")
        ax.set_xlabel(f"Bytes [{unit}]")
        paper.legend(ax, above=True)
        share = float(shown["value"].sum()) / float(totals["value"].sum())
        paper.note(ax, f"{shown.height} of {totals.height:,}: {paper.per_cent(share)} % of the bytes")
        return ax


@paper.of_any_table
def write_cost(table: pl.DataFrame, *, top: int = 10, ax: Axes | None = None) -> Axes:
    """Draw horizontal bars of bytes on the device for each byte written to files, by kind of block.

    The dimension other than `part` names the bars, those with the highest cost first. Discards and rows with an unknown
    dimension are left out.

    Parameters
    ----------
    table : Table
        Result of `measures.write_cost`, with one dimension besides `part`.
    top : int
        Maximum number of bars.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> _ = plot.write_cost(measures.write_cost(capture.tables, by=("owner_comm",)))
    """
    names = [name for name in table.columns if name not in (*MEASURES, "part")]
    if len(names) != 1:
        raise ValueError(f"write_cost takes one dimension besides part, not {len(names)}: {', '.join(names) or 'none'}")
    name = names[0]
    is_written = pl.col("part").cast(pl.String).is_in(list(paper.COST_PARTS))
    cost, ratio = (
        paper.rows(table, metric, (name, "part")).filter(is_written).drop_nulls(name)
        for metric in ("cost", "cost_per_byte")
    )
    totals = cost.join(ratio.select(name).unique(), on=name).group_by(name).agg(pl.col("value").sum())
    totals = totals.sort("value", name, descending=[True, False])
    shown = totals.head(top)
    with paper.drawing(ax, 0.75 + 0.17 * max(shown.height, 4)) as ax:
        if shown.is_empty():
            return paper.no_data(ax)
        position, left = np.arange(shown.height), np.zeros(shown.height)
        for part in paper.ordered(ratio["part"].cast(pl.String), paper.COST_PARTS):
            value = dict(ratio.filter(pl.col("part") == part).select(name, "value").iter_rows())
            widths = np.array([value.get(key, 0.0) for key in shown[name]])
            ax.barh(position, widths, 0.72, left=left, color=paper.COST_PARTS[part], label=paper.words(part))
            left += widths
        labels = paper.labels(cost, name)
        ax.set_yticks(position, [labels[key] for key in shown[name]], parse_math=False, usetex=False)
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        ax.axvline(1, color="black", linewidth=0.6)
        paper.grid(ax, "x")
        ax.set_xlabel("Bytes on the device for a byte written")
        paper.legend(ax)
        if totals.height > top:
            paper.note(ax, f"{top} of {totals.height:,}")
        return ax


def _stacked(
    table: pl.DataFrame,
    dim: str,
    palette: Mapping[str, str],
    hatches: Mapping[str, str],
    basis: Basis,
    relative: bool,
    ax: Axes | None,
    height: float,
) -> Axes:
    """Draw one bar for each operation, stacked by `dim` in the order of `palette`."""
    further = [name for name in table.columns if name not in (*MEASURES, "op", dim, "subtype")]
    if len(further) == 1:
        return _stacked_by(further[0], table, dim, palette, hatches, basis, relative, ax)
    data = paper.rows(table, f"{basis}_ratio" if relative else basis, ("op", dim))
    data = data.filter(pl.col(dim).is_not_null(), pl.col("op") != "flush")
    with paper.drawing(ax, height) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        ops = paper.ordered(data["op"], paper.OPS)
        _, largest = paper.span(data.group_by("op").agg(pl.col("value").sum())["value"])
        scale, unit = paper.byte_unit(largest) if basis == "bytes" else (1, "")
        factor = 100 if relative else 1 / scale
        bottom = np.zeros(len(ops))
        labels = paper.labels(data, dim, paper.words)
        kinds = paper.ordered(data[dim], palette)
        fills = intervals.colours(kinds, palette)
        for kind in kinds:
            heights = _heights(data, dim, kind, ops) * factor
            ax.bar(
                np.arange(len(ops)),
                heights,
                0.62,
                bottom=bottom,
                color=fills[kind],
                hatch=hatches.get(kind),
                edgecolor="white",
                linewidth=0.3,
                label=labels[kind],
            )
            bottom += heights
        _categories(ax, ops)
        if relative:
            _per_cent(ax, f"Share of {_noun(table, basis)} [%]")
        else:
            paper.grid(ax, "y")
            ax.set_ylabel(f"Bytes [{unit}]" if basis == "bytes" else paper.counted(table).capitalize())
            if basis == "count":
                paper.count_axis(ax, "y")
        paper.legend(ax, reverse=True)
        return ax


_GROUPS: Final = 8
"""Maximum number of groups: their names stay readable across a page."""

_BETWEEN: Final = 2.6
"""Distance between groups of two bars, in units of the distance between their bars."""


def _stacked_by(
    group: str,
    table: pl.DataFrame,
    dim: str,
    palette: Mapping[str, str],
    hatches: Mapping[str, str],
    basis: Basis,
    relative: bool,
    ax: Axes | None,
) -> Axes:
    """Draw a bar of reads and one of writes for each value of column `group`, stacked by `dim`."""
    own = ax is None
    counts, data = (
        paper.rows(table, metric, (group, "op", dim)).filter(pl.col(dim).is_not_null(), pl.col("op").is_in(_MOVING))
        for metric in ("count", f"{basis}_ratio" if relative else basis)
    )
    is_last = pl.col(group).is_null() | (pl.col(group).cast(pl.String) == "others")
    totals = counts.group_by(group).agg(pl.col("value").sum())
    every = totals.sort(is_last, -pl.col("value"), group)[group].to_list()
    groups = every[:_GROUPS]
    with paper.drawing(ax, 2.6) as ax:
        if not groups:
            return paper.no_data(ax)
        if own:
            cast(Figure, ax.get_figure(root=True)).set_figwidth(1.9 + 1.05 * len(groups))
        sums = {(name, op): value for name, op, value in _sums(counts, group).iter_rows()}
        bars = [(name, op) for name in groups for op in _MOVING if (name, op) in sums]
        at = np.array([groups.index(name) * _BETWEEN + _MOVING.index(op) for name, op in bars])
        _, largest = paper.span(_sums(data, group)["value"])
        scale, unit = paper.byte_unit(largest) if basis == "bytes" else (1, "")
        values = {row[:3]: row[3] for row in data.select(group, "op", dim, "value").iter_rows()}
        bottom = np.zeros(len(bars))
        labels = paper.labels(data, dim, paper.words)
        kinds = paper.ordered(data[dim], palette)
        fills = intervals.colours(kinds, palette)
        for kind in kinds:
            heights = np.array([values.get((*bar, kind), 0.0) for bar in bars]) * (100 if relative else 1 / scale)
            look: dict[str, Any] = {
                "color": fills[kind],
                "hatch": hatches.get(kind),
                "edgecolor": "white",
            }
            ax.bar(at, heights, 0.85, bottom, label=labels[kind], linewidth=0.3, **look)
            bottom += heights
        ax.set_xticks(at, [op for _, op in bars])
        for number, name in enumerate(groups):
            words = "(unknown)" if name is None else text.label(str(name), 18)
            place = ax.get_xaxis_transform()
            ax.text(
                number * _BETWEEN + 0.5,
                -0.12,
                words,
                transform=place,
                fontsize=8,
                ha="center",
                va="top",
                parse_math=False,
            )
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.8, len(groups) * _BETWEEN - 0.8)
        if relative:
            _per_cent(ax, f"Share of {_noun(table, basis)} [%]")
            for x, bar in zip(at, bars, strict=True) if basis == "count" else ():
                ax.text(x, 101, f"{sums[bar]:,.0f}", ha="center", va="bottom", fontsize=6)
        else:
            paper.grid(ax, "y")
            ax.set_ylabel(f"Bytes [{unit}]" if basis == "bytes" else paper.counted(table).capitalize())
        paper.legend(ax, reverse=True)
        if len(every) > len(groups):
            paper.note(ax, f"{len(every) - len(groups):,} more are not drawn")
        return ax


def _sums(data: pl.DataFrame, group: str) -> pl.DataFrame:
    """Return the values of `data` by group and operation."""
    return data.group_by(group, "op").agg(pl.col("value").sum())


def _shares(table: pl.DataFrame, dim: str, palette: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw two horizontal bars of 100 %, by count and by bytes, divided by `dim`."""
    count, size = (paper.rows(table, metric, (dim,)) for metric in ("count_ratio", "bytes_ratio"))
    with paper.drawing(ax, 1.35) as ax:
        if count.is_empty():
            return paper.no_data(ax)
        left = np.zeros(2)
        for kind in paper.ordered([*count[dim], *size[dim]], palette):
            widths = np.array([_value(data, dim, kind) for data in (count, size)]) * 100
            fill = paper.colour(kind, palette)
            bars = ax.barh([0, 1], widths, 0.62, left=left, color=fill, edgecolor="white", linewidth=0.3)
            bars.set_label(paper.words(kind))
            # Label only bars that are wide enough: 7 % of the axes' width is as wide as the text "7 %".
            ax.bar_label(
                bars,
                [f"{paper.per_cent(width / 100)} %" if width >= 7 else "" for width in widths],
                label_type="center",
                fontsize=6.5,
                color="white" if _is_dark(fill) else "black",
            )
            left += widths
        ax.set_yticks([0, 1], [paper.counted(table), "bytes"])
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        ax.set_xlim(0, 100)
        ax.set_xlabel("Share [%]")
        paper.grid(ax, "x")
        paper.legend(ax, above=True)
        return ax


def _heights(data: pl.DataFrame, dim: str, kind: str, ops: Sequence[str]) -> np.ndarray:
    value = dict(data.filter(pl.col(dim) == kind).select("op", "value").iter_rows())
    return np.array([value.get(op, 0.0) for op in ops])


def _value(data: pl.DataFrame, dim: str, kind: str) -> float:
    found = data.filter(pl.col(dim) == kind)["value"]
    return float(found[0]) if len(found) else 0.0


def _categories(ax: Axes, names: Sequence[str], rotation: float = 0) -> None:
    labels = [paper.words(name) for name in names]
    ax.set_xticks(np.arange(len(names)), labels, rotation=rotation, parse_math=False, usetex=False)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.6, len(names) - 0.4)


def _per_cent(ax: Axes, words: str) -> None:
    ax.set_ylim(0, 100)
    ax.yaxis.set_major_locator(MultipleLocator(20))
    ax.yaxis.set_major_formatter(PercentFormatter(100, symbol=None, decimals=0))
    ax.set_ylabel(words)
    paper.grid(ax, "y")


def _noun(table: pl.DataFrame, basis: Basis) -> str:
    return "bytes" if basis == "bytes" else paper.counted(table)


def _rwbs_colour(letters: str) -> str:
    """Return the colour of the operation.

    Its letter is the first one, or the second after F for a preflush (blktrace's fill_rwbs).
    """
    letter = letters[1:2] if letters[:1] == "F" and len(letters) > 1 else letters[:1]
    op = {"R": "read", "W": "write", "D": "discard", "F": "flush", "Z": "zone"}.get(letter, "other")
    return paper.OPS[op]


def _is_dark(fill: str) -> bool:
    red, green, blue = (int(fill[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
