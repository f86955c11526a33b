"""Figures of benchmark results: rates by mode, threads, size and device, latencies, and rates over time.

Tables are those of `androstep_analysis.bench`. Error bars are the confidence interval of the median (columns lo, hi). A
× at the bottom marks configurations with invalid repetitions, which are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter

from androstep_analysis.measures.tables import MEASURES, Table, frame
from androstep_analysis.present.plot import intervals, paper, text

Metric = Literal["iops", "tps", "bandwidth", "written_per_op"]

SYNC_MODES: Final = (
    *("buffered", "sync_file_range", "fdatasync", "fsync", "odsync", "rwf_dsync", "osync", "direct", "direct_osync"),
    *("mmap", "mmap_async", "mmap_sync", "fbarrier", "fdatabarrier"),
)
JOURNAL_MODES: Final = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")

TESTS: Final = {
    "seq_read": "#56B4E9",
    "rand_read": "#0072B2",
    "seq_write": "#E69F00",
    "rand_write": "#D55E00",
    "append": "#8C3B66",
    "seq_mixed": "#9ADBC6",
    "rand_mixed": "#00573F",
    "seq_reread": "#A6CEE3",
    "backward_read": "#1F4E79",
    "stride_read": "#5B7FA6",
    "record_rewrite": "#B98B2F",
    "sqlite_insert": "#0072B2",
    "sqlite_update": "#D55E00",
    "sqlite_delete": "#14A37C",
    "sqlite_select": "#B5739D",
    "sqlite_mixed": "#E69F00",
    "postmark": "#777777",
}

_WIDE: Final = 20
"""If the largest value is this many times the smallest, points on a logarithmic axis replace bars."""

_LABELS: Final = {
    "iops": "Operations per second",
    "tps": "Transactions per second",
    "bandwidth": "Throughput [MB/s]",
    "written_per_op": "Written for each operation [KiB]",
}


@paper.of_any_table
def bench_sync_modes(
    table: pl.DataFrame, *, metric: Metric = "iops", series: str = "test", ax: Axes | None = None
) -> Axes:
    """Draw the rate by the way writes are made durable.

    There is a group for each `sync_mode`, with one bar for each value of column `series`. If values differ by more than
    a factor of 20, points on a logarithmic axis replace the bars.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `sync_mode` and `series`.
    metric : {"iops", "tps", "bandwidth", "written_per_op"}
        Metric to show. Table of `bench.written` for written_per_op.
    series : str
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figure 7.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "iops", "sync_mode": ["buffered", "fsync"], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_sync_modes(rates)
    """
    return _categories(table, "sync_mode", SYNC_MODES, metric, series, "Synchronisation", ax)


@paper.of_any_table
def bench_journal_modes(table: pl.DataFrame, *, series: str = "test", ax: Axes | None = None) -> Axes:
    """Draw SQLite's transactions per second by journal mode, like `bench_sync_modes`.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `journal_mode` and `series`.
    series : str
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figure 9.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "tps", "journal_mode": ["WAL", "DELETE"], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_journal_modes(rates)
    """
    return _categories(table, "journal_mode", JOURNAL_MODES, "tps", series, "Journal mode", ax)


@paper.of_any_table
def bench_synchronous(table: pl.DataFrame, *, series: str = "test", ax: Axes | None = None) -> Axes:
    """Draw SQLite's transactions per second by PRAGMA synchronous, like `bench_sync_modes`.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `synchronous` and `series`.
    series : str
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figure 10.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "tps", "synchronous": ["OFF", "FULL"], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_synchronous(rates)
    """
    return _categories(table, "synchronous", SYNCHRONOUS, "tps", series, "PRAGMA synchronous", ax)


@paper.of_any_table
def bench_devices(
    table: pl.DataFrame,
    *,
    device: str = "fs_type",
    metric: Metric = "tps",
    series: str = "test",
    ax: Axes | None = None,
) -> Axes:
    """Draw the rate on each device or filesystem (column `device`), like `bench_sync_modes`.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, and those that `device` and `series` name.
    device : str
        The column that names devices or filesystems.
    metric : {"iops", "tps", "bandwidth", "written_per_op"}
        Metric to show. Table of `bench.written` for written_per_op.
    series : str
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figure 6.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "tps", "fs_type": ["f2fs", "ext4"], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_devices(rates)
    """
    return _categories(table, device, tuple(paper.FILESYSTEMS), metric, series, "", ax)


@paper.of_any_table
def bench_tools(table: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the operations per second of several tools, sequential and random.

    A table of several kinds of I/O gives a panel for each, such as synchronous writes and reads by mmap. Panels of I/O
    through the page cache have one scale, and those of I/O that waits for the device have another.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `tool`, `test` and `sync_mode`.
    ax : Axes, optional
        The axes to draw in, for a table of one kind of I/O.

    Returns
    -------
    Axes
        The first panel.

    Raises
    ------
    ValueError
        If the table has several kinds of I/O, and `ax` is given.

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figures 4 and 5; Jeong et al., Future Internet 5(4), 2013, Figures 6 and 7.

    Examples
    --------
    >>> peers = bench.read(*(f"datasets/bench/ext4_peers/writes-0.{kind}.xz" for kind in ("rec", "json"))).tables
    >>> _ = plot.bench_tools(bench.summarise(peers, by=("tool", "test", "sync_mode")).filter(sync_mode="osync"))
    """
    names = pl.col("test").str.split("_").list
    data = _unique(table, "iops", ("tool", "test", "sync_mode")).with_columns(order=names.first(), io=names.last())
    kinds = [kind for kind in _TOOLS_IO if not data.filter(io=kind[0], sync_mode=kind[1]).is_empty()]
    kinds += [kind for kind in data.select("io", "sync_mode").unique(maintain_order=True).rows() if kind not in kinds]
    if len(kinds) < 2:
        return _tools(data, _palette(data, "tool"), ax)
    if ax is not None:
        raise ValueError(f"the figure has a panel for each of {len(kinds)} kinds of I/O: keep one, or give no axes")
    rows = math.ceil(len(kinds) / 2)
    with paper.style():
        figure = Figure(figsize=(paper.COLUMN, 1.6 * rows), layout="constrained")
        cells: list[Axes] = list(figure.subplots(rows, 2, subplot_kw={"axes_class": paper.PaperAxes}).flat)
    for panel, (io, mode) in zip(cells, kinds, strict=False):
        _tools(data.filter(io=io, sync_mode=mode), _palette(data, "tool"), panel)
        panel.set_title(f"{_MODE_WORDS.get(mode, paper.words(mode))} {io}", fontsize=7)
        panel.tick_params(labelsize=6, width=0.6, length=2)
        panel.set_ylabel("")
        handles = panel.get_legend_handles_labels()
        if (legend := panel.get_legend()) is not None:
            legend.remove()
    for unused in cells[len(kinds) :]:
        unused.remove()
    for is_cached in (True, False):
        group = [panel for panel, (_, mode) in zip(cells, kinds, strict=False) if (mode in _CACHED) == is_cached]
        for panel in group:
            panel.set_ylim(0, max(one.get_ylim()[1] for one in group))
    with paper.style():
        figure.legend(*handles, loc="outside upper left", ncols=2)
        figure.supylabel("Operations per second", fontsize=8)
    return cells[0]


_CACHED: Final = ("buffered", "mmap")
"""The modes of I/O that the page cache answers."""

_TOOLS_IO: Final = (
    *(("write", "buffered"), ("read", "buffered"), ("write", "mmap"), ("read", "mmap")),
    *(("write", "osync"), ("write", "direct")),
)
"""The kinds of I/O by which the papers compare Mobibench with IOzone, in their order."""

_MODE_WORDS: Final = {"osync": "synchronous"}


def _tools(data: pl.DataFrame, palette: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw the rates of the tools for one kind of I/O. `palette` has the tools of all panels."""
    names = {"seq": "sequential", "rand": "random"}
    named = data.with_columns(pl.col("order").replace(names))
    return _categories(named, "order", tuple(names.values()), "iops", "tool", "", ax, palette)


@paper.of_any_table
def bench_threads(
    table: pl.DataFrame,
    *,
    metric: Metric = "iops",
    series: str = "test",
    published: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rate by the number of threads, with a line for each value of column `series`.

    The axis of threads is logarithmic with base 2. The axis of rates is linear and starts at zero.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `threads` and `series`.
    metric : {"iops", "tps", "bandwidth", "written_per_op"}
        Metric to show. Table of `bench.written` for written_per_op.
    series : str
        Column that determines the colour.
    published : float, optional
        Number of threads at which the rate of a paper's phone stops growing; a line marks it.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    AndroStep (Jeong et al., ME 2013), Figures 8 and 11; Jeong et al., Future Internet 5(4), 2013, Figures 10 and 13.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "iops", "threads": [1, 8], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_threads(rates)
    """
    data, invalid = _chosen(table, metric, ("threads", series))
    with paper.drawing(ax) as ax:
        if data.is_empty() and invalid.is_empty():
            return paper.no_data(ax)
        intervals.lines(ax, data, "threads", series, _palette(data, series), _scale(metric))
        ax.set_xscale("log", base=2)
        counts = sorted({*data["threads"], *invalid["threads"]})
        _ticks(ax, counts, [f"{count:,}" for count in counts])
        shown = [*counts, *([] if published is None else [published])]
        ax.set_xlim(min(shown) / 1.2, max(shown) * 1.2)
        ax.set_ylim(bottom=0)
        _rate_axis(ax, metric)
        ax.set_xlabel("Threads")
        paper.grid(ax, "y")
        _explained(ax, series, data, invalid, [(float(count), count) for count in counts], "threads")
        if published is not None:
            ax.axvline(published, color=paper.PUBLISHED, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
            ax.annotate(
                f"the paper's phone\nstops growing at {published:.0f}",
                (published, 0.04),
                (-3, 0),
                ax.get_xaxis_transform(),
                "offset points",
                fontsize=6,
                ha="right",
            )
        return ax


@paper.of_any_table
def bench_sizes(
    table: pl.DataFrame,
    *,
    metric: Metric = "iops",
    series: str = "test",
    published: Table | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rate by the size of an operation on logarithmic axes (EasyCo's figure).

    There is a line for each value of column `series`. A device limited by the number of operations has a level line of
    `iops` and a rising line of `bandwidth`. A device limited by the number of bytes has the opposite.

    Parameters
    ----------
    table : Table
        Result of `bench.summarise`: columns metric, value, lo, hi, `block_bytes` and `series`.
    metric : {"iops", "tps", "bandwidth", "written_per_op"}
        Metric to show. Table of `bench.written` for written_per_op.
    series : str
        Column that determines the colour.
    published : Table, optional
        Rates that a paper states of no size, drawn as dotted lines: columns `series`, value and unit ("1/s" or "B/s").
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    References
    ----------
    Dumitru, Optimizing Storage Performance on Android, 2012, slide 5.

    Examples
    --------
    >>> rates = pl.DataFrame({"metric": "iops", "block_bytes": [4096, 65536], "test": "rand_write",
    ...                       "value": [900.0, 80.0], "lo": [880.0, 75.0], "hi": [920.0, 85.0]})
    >>> _ = plot.bench_sizes(rates)
    """
    data, invalid = _chosen(table, metric, ("block_bytes", series))
    with paper.drawing(ax) as ax:
        if data.is_empty() and invalid.is_empty():
            return paper.no_data(ax)
        intervals.lines(ax, data, "block_bytes", series, _palette(data, series), _scale(metric))
        for line in ax.lines:
            if str(line.get_label()).startswith("rand "):
                # A random test does not hide the sequential one, which often has the same rate.
                line.set_linestyle("--")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        sizes = sorted({*data["block_bytes"], *invalid["block_bytes"]})
        step = math.ceil(len(sizes) / 6)
        _ticks(ax, sizes[::step], [paper.size(size) for size in sizes[::step]])
        ax.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
        if published is not None:
            _draw_published_rates(ax, frame(published), series, _palette(data, series), (sizes[0], sizes[-1]), metric)
        _rate_axis(ax, metric)
        ax.set_xlabel("Size of an operation")
        paper.grid(ax, "both")
        _explained(ax, series, data, invalid, [(float(size), size) for size in sizes], "block_bytes")
        return ax


@paper.of_any_table
def bench_distribution(table: pl.DataFrame, *, part: str = "op", series: str = "test", ax: Axes | None = None) -> Axes:
    """Draw latency by percentile, with a line for each value of column `series`.

    The axis of percentiles is stretched towards 100 %: each further nine has the same width, as in Gil Tene's
    HdrHistogram. A line ends at the percentile of the slowest operation.

    Parameters
    ----------
    table : Table
        Result of `bench.distribution`: columns metric, part, latency_ns, value, n and `series`.
    part : str
        Value of column part: which part of an operation's time.
    series : str
        Column that determines the colour.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> table = pl.DataFrame({"metric": "cumulative_ratio", "part": "op", "test": "rand_read",
    ...                       "latency_ns": [1000, 5000], "value": [0.9, 1.0], "n": [9, 1]})
    >>> _ = plot.bench_distribution(table)
    """
    chosen = table.filter(pl.col("part").cast(pl.String) == part)
    data = _unique(chosen, "cumulative_ratio", ("latency_ns", series))
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        ax.set_xscale("log")
        ax.set_yscale("log")
        furthest = 10.0
        for name, colour in _palette(data, series).items():
            line = data.filter(pl.col(series) == name).sort("latency_ns")
            below = np.concatenate([[0.0], line["value"].to_numpy()[:-1]])
            # A bucket begins at the percentile at which the buckets before it end.
            x, y = 1 / (1 - below), line["latency_ns"].to_numpy() / 1e9
            x = np.append(x, float(line["n"].sum()))
            furthest = max(furthest, float(x[-1]))
            ax.plot(
                np.maximum(x, 1.0),
                np.append(y, y[-1]),
                drawstyle="steps-post",
                color=colour,
                label=paper.words(name),
            )
        nines = range(math.ceil(math.log10(furthest)) + 1)
        _ticks(ax, [10**nine for nine in nines], [_percentile(nine) for nine in nines])
        ax.set_xlim(1, furthest)
        ax.yaxis.set_major_locator(LogLocator(10, numticks=8))
        ax.yaxis.set_major_formatter(EngFormatter("s", places=None))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("Percentile of the operations [%]")
        ax.set_ylabel("Latency")
        paper.grid(ax, "both")
        paper.legend(ax, above=True)
        return ax


@paper.of_any_table
def bench_series(table: pl.DataFrame, *, metric: Literal["iops", "bandwidth"] = "iops", ax: Axes | None = None) -> Axes:
    """Draw the rate over time, with a line for each repetition of one run. Invalid repetitions are dashed.

    Time counts from the first window of the repetition. A point is drawn at the middle of its window.

    Parameters
    ----------
    table : Table
        Result of `bench.series`, of one run: columns metric, run_id, repeat, valid, ts_ns, duration_ns, value.
    metric : {"iops", "bandwidth"}
        The metric to show.
    ax : Axes, optional
        The axes to draw in.

    Returns
    -------
    Axes

    Examples
    --------
    >>> table = pl.DataFrame({"metric": "iops", "run_id": 1, "repeat": 1, "valid": True, "ts_ns": [0, 10**9],
    ...                       "duration_ns": 10**9, "value": [900.0, 800.0]})
    >>> _ = plot.bench_series(table)
    """
    data = _unique(table, metric, ("run_id", "repeat", "ts_ns"))
    if data["run_id"].n_unique() > 1:
        raise ValueError("the figure shows the repetitions of one run: keep one run_id")
    with paper.drawing(ax) as ax:
        if data.is_empty():
            return paper.no_data(ax)
        middle = pl.col("ts_ns") - pl.col("ts_ns").min().over("repeat") + pl.col("duration_ns") / 2
        data = data.with_columns(at=middle).sort("repeat", "at")
        divisor, unit = paper.time_unit(paper.span(data["at"])[1])
        scale = _scale(metric)
        for number, ((repeat, valid), line) in enumerate(data.group_by("repeat", "valid", maintain_order=True)):
            ax.plot(
                line["at"].to_numpy() / divisor,
                line["value"].to_numpy() / scale,
                color=paper.SERIES[number % len(paper.SERIES)] if valid else "#999999",
                linestyle="-" if valid else (0, (2, 1.5)),
                marker="." if line.height < 40 else "",
                markersize=3,
                label=f"repetition {repeat}" if valid else f"repetition {repeat} (invalid)",
            )
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        _rate_axis(ax, metric)
        ax.set_xlabel(f"Time [{unit}]")
        paper.grid(ax, "both")
        paper.legend(ax, above=True, columns=3)
        return ax


def _draw_published_rates(
    ax: Axes,
    table: pl.DataFrame,
    series: str,
    palette: Mapping[str, str],
    sizes: tuple[int, int],
    metric: Metric,
) -> None:
    """Draw rates of operations or bytes, of which no size is known, over `sizes`."""
    least, most = sizes
    for kind, value, unit in table.select(pl.col(series).cast(pl.String), "value", "unit").iter_rows():
        is_bytes, wants_bytes = unit == "B/s", metric == "bandwidth"
        factors = [1.0, 1.0] if is_bytes == wants_bytes else [float(least), float(most)]
        rates = [value / size if is_bytes else value * size for size in factors]
        drawn = [rate / _scale(metric) for rate in rates]
        ax.plot(sizes, drawn, color=palette.get(kind, paper.FALLBACK), linewidth=1.6, linestyle=":", zorder=1)
    ax.plot([], [], color="#222222", linewidth=1.6, linestyle=":", label="the paper's rates")


# -- tables -----------------------------------------------------------------------------------------------------------


def _chosen(table: pl.DataFrame, metric: str, dims: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a metric, and the rows that count invalid repetitions."""
    data = _unique(table, metric, dims)
    return data, _unique(table, "invalid_runs", dims).filter(pl.col("value") > 0)


def _unique(table: pl.DataFrame, metric: str, dims: Sequence[str]) -> pl.DataFrame:
    """Return the rows of a metric. Raise `ValueError` if two of them have the same position in the figure.

    Unlike in `paper.rows`, other columns may vary together with those shown, as mount options do with filesystems.
    """
    missing = [name for name in ("metric", *dims, "value") if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    rows = table.filter(pl.col("metric") == metric, *(pl.col(name).is_not_null() for name in (*dims, "value")))
    if rows.select(dims).is_duplicated().any():
        others = [name for name in rows.columns if name not in (*MEASURES, *dims)]
        varying = ", ".join(name for name in others if rows[name].n_unique() > 1)
        raise ValueError(
            f"the figure does not show {varying or 'the column that distinguishes the rows'}: keep one value of each"
        )
    return rows.with_columns(pl.col(name).cast(pl.String) for name in dims if table[name].dtype == pl.Enum)


def _known(series: str) -> Mapping[str, str]:
    """Return the values of a column that have a fixed colour, in order."""
    return {
        "test": TESTS,
        "fs_type": paper.FILESYSTEMS,
        "sync_mode": dict.fromkeys(SYNC_MODES, ""),
        "journal_mode": dict.fromkeys(JOURNAL_MODES, ""),
        "synchronous": dict.fromkeys(SYNCHRONOUS, ""),
    }.get(series, {})


def _palette(data: pl.DataFrame, series: str) -> dict[str, str]:
    """Return the values of a column in order, each with its colour."""
    known = _known(series)
    return intervals.colours(paper.first_known(data[series], known), known)


def _scale(metric: str) -> float:
    return {"bandwidth": 1e6, "written_per_op": 1024.0}.get(metric, 1.0)


# -- axes -------------------------------------------------------------------------------------------------------------


def _categories(
    table: pl.DataFrame,
    category: str,
    known: Sequence[str],
    metric: str,
    series: str,
    label: str,
    ax: Axes | None,
    palette: Mapping[str, str] | None = None,
) -> Axes:
    """Draw groups along column `category`, with the values of column `series` and their intervals.

    `palette` has the values of `series` with their colours, if panels of other data share them.
    """
    data, invalid = _chosen(table, metric, (category, series))
    with paper.drawing(ax) as ax:
        if data.is_empty() and invalid.is_empty():
            return paper.no_data(ax)
        names = paper.first_known([*data[category], *invalid[category]], dict.fromkeys(known, ""))
        wide = not data.is_empty() and _is_wide(data["value"])
        draw = intervals.points if wide else intervals.bars
        draw(ax, data, category, names, series, palette or _palette(data, series), _scale(metric))
        if wide:
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0)
        _rate_axis(ax, metric)
        shown = [text.label(name, 16) for name in names]
        crowded = len(shown) * max(map(len, shown)) > 40
        ax.set_xticks(range(len(names)), shown, rotation=40 if crowded else 0, parse_math=False, usetex=False)
        if crowded:
            for tick in ax.get_xticklabels():
                tick.set(ha="right", rotation_mode="anchor")
        ax.tick_params(axis="x", length=0)
        ax.set_xlim(-0.6, len(names) - 0.4)
        ax.set_xlabel(label)
        paper.grid(ax, "y")
        _explained(ax, series, data, invalid, list(enumerate(names)), category)
        return ax


def _is_wide(values: pl.Series) -> bool:
    least, most = paper.span(values)
    return 0 < least * _WIDE < most


def _rate_axis(ax: Axes, metric: str) -> None:
    ax.set_ylabel(_LABELS[metric])
    if ax.get_yscale() == "log":
        ax.yaxis.set_major_locator(LogLocator(10, numticks=8))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _ticks(ax: Axes, at: Sequence[float], labels: Sequence[str]) -> None:
    """Set the ticks of the x axis."""
    ax.xaxis.set_major_locator(FixedLocator(list(at)))
    ax.set_xticks(list(at), labels)
    ax.xaxis.set_minor_locator(FixedLocator([]))


def _percentile(nine: int) -> str:
    """Return the percentile with this number of nines: 0, 90, 99, 99.9 and so on."""
    return "0" if nine == 0 else f"{100 - 10 ** (2 - nine):.{max(0, nine - 2)}f}"


def _explained(
    ax: Axes,
    series: str,
    data: pl.DataFrame,
    invalid: pl.DataFrame,
    places: Sequence[tuple[float, object]],
    category: str,
) -> None:
    """Draw the legend, and marks at the bottom for invalid repetitions."""
    if data[series].n_unique() > 1:
        paper.legend(ax, above=True, columns=3)
    if invalid.is_empty():
        return
    lost = set(invalid[category])
    at = [place for place, name in places if name in lost]
    ax.plot(
        at,
        [0.02] * len(at),
        linestyle="",
        marker="x",
        markersize=4,
        color="black",
        transform=ax.get_xaxis_transform(),
        clip_on=False,
        zorder=5,
    )
    paper.note(ax, f"×: {invalid['value'].sum():,.0f} repetitions invalid and left out")
