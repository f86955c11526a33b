"""What the notebooks of the two AndroStep papers share: their figures are of the same kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter
from papers import Paper

from androstep_analysis import bench, plot
from androstep_analysis.stats.exact import ratio

PLACES = {
    "ext4_disk": "ext4, disk",
    "xfs_disk": "xfs, disk",
    "btrfs_disk": "btrfs, disk",
    "f2fs_guest": "F2FS, guest",
    "ext4_memory": "ext4, memory",
}
"""The places of datasets/bench, as figures call them."""

WAYS = {
    ("write", "buffered"): "buffered write",
    ("read", "buffered"): "buffered read",
    ("write", "mmap"): "mmap write",
    ("read", "mmap"): "mmap read",
    ("write", "osync"): "synchronous write",
    ("write", "direct"): "direct write",
}
"""The six ways of I/O by which the papers compare Mobibench with IOzone, in their order."""

PEERS = ("tool", "test", "sync_mode")

OURS, THEIRS = "#0072B2", "#D55E00"


def by_place(files: Sequence[Path], by: Sequence[str]) -> pl.DataFrame:
    """Medians in each place of datasets/bench, named by column `place`."""
    order = list(PLACES)
    return pl.concat(
        bench.summarise(bench.read(path).tables, by=by).with_columns(place=pl.lit(PLACES[path.parent.name]))
        for path in sorted(files, key=lambda path: order.index(path.parent.name))
    )


def tools(table: pl.DataFrame, ax: Axes | None = None) -> Axes:
    """Rates of both tools, sequential and random, of one way of I/O."""
    ax = plot.bench_devices(table, device="test", series="tool", metric="iops", ax=ax)
    ax.set_xticks(ax.get_xticks(), ["sequential", "random"])
    return ax


def ways(table: pl.DataFrame) -> Axes:
    """The six ways of I/O, each with axes of its own."""
    with plot.style():
        figure = Figure(figsize=(3.5, 4.6), layout="constrained")
        cells = figure.subplots(3, 2)
    for ax, ((op, mode), title) in zip(cells.flat, WAYS.items(), strict=True):
        tools(table.filter(pl.col("test").is_in([f"seq_{op}", f"rand_{op}"]), sync_mode=mode), ax)
        ax.set_title(title, fontsize=7)
        ax.tick_params(labelsize=6, width=0.6, length=2)
        ax.set_ylabel("")
        if ax is not cells[0, 0]:
            ax.get_legend().remove()
    figure.supylabel("Operations per second (axes differ)", fontsize=7)
    cells[0, 0].get_legend().set_bbox_to_anchor((0.0, 1.18))
    return cells[0, 0]


# -- numbers of the text beside ours ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """A number of a paper's text, or the range it gives, and ours: `value` with its interval, if there is one."""

    label: str
    published: tuple[float, float]
    value: float
    lo: float | None
    hi: float | None
    n: int


def compared(
    label: str,
    published: tuple[float, float],
    tables: dict[str, pl.DataFrame],
    first: dict[str, str],
    second: dict[str, str],
) -> Stated:
    """The rate of the runs `second` over that of the runs `first` (values of columns of bench_runs)."""
    measured = bench.measures(tables).filter("valid", pl.col("metric").is_in(["iops", "tps"]))
    base, other = (measured.filter(**side)["value"].to_list() for side in (first, second))
    value, lo, hi = ratio(base, other)
    assert value is not None, f"{label}: no runs"
    return Stated(label, published, value, lo, hi, len(base) + len(other))


def table_of(rows: Sequence[Stated], unit: str = "1") -> pl.DataFrame:
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
            for row in rows
        ]
    )


def beside(table: pl.DataFrame, label: str, *, ratios: bool) -> Axes:
    """Published numbers (diamonds, or the range the text gives) and ours (dots with intervals), a row each."""
    with plot.style():
        figure = Figure(figsize=(3.5, 0.75 + 0.3 * table.height), layout="constrained")
        ax = figure.add_subplot()
        at = np.arange(table.height)
        least, most = (table[name].to_numpy() for name in ("published_least", "published_most"))
        ax.hlines(at - 0.14, least, most, color=THEIRS, linewidth=2)
        ends = np.where(least == most, least, np.nan)
        ax.plot(ends, at - 0.14, "D", markersize=4, color=THEIRS, label="the paper's text")
        ax.plot(table["value"], at + 0.14, "o", markersize=4, color=OURS, label="ours")
        known = table.with_row_index("at").drop_nulls(["lo", "hi"])
        ax.hlines(known["at"].to_numpy() + 0.14, known["lo"], known["hi"], color=OURS, linewidth=0.9)
        ax.set_yticks(at, table["what"].str.replace(": ", ":\n", literal=True).to_list(), fontsize=6.5)
        ax.set_ylim(table.height - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        if ratios:
            ax.axvline(1, color="#999999", linewidth=0.7, zorder=0)
            ax.set_xscale("log")
            low, high = ax.get_xlim()
            ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= tick <= high]
            ax.xaxis.set_major_locator(FixedLocator(ticks))
            ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.xaxis.set_minor_formatter(NullFormatter())
        else:
            ax.set_xlim(0, 100)
        ax.grid(visible=True, axis="x", color="#DDDDDD", linewidth=0.5)
        ax.set_xlabel(label)
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1.02), ncols=2, borderaxespad=0)
    return ax


def between(paper: Paper, least: str, most: str | None = None) -> tuple[float, float]:
    """The published numbers with these ids, as least and most."""
    values = paper.stated(*dict.fromkeys((least, most or least)))["value"]
    return float(values[0]), float(values[-1])


# -- tables -----------------------------------------------------------------------------------------------------------


def functions(paper: Paper, own: Sequence[Path], peers: Sequence[Path]) -> pl.DataFrame:
    """Table 1: the paper's columns, and for iobench and fio a yes where recorded results show that they have it."""
    published = paper.published.filter(item="Table 1").select("condition", "metric", "value", "id")
    rows = published["metric"].unique(maintain_order=True)
    stated = {(row["metric"], row["condition"]): bool(row["value"]) for row in published.iter_rows(named=True)}
    results = bench.read(*own, *peers).tables
    shown = {tool: _shown(results, tool) for tool in ("iobench", "fio")}
    tools = published["condition"].unique(maintain_order=True)
    return pl.DataFrame(
        {
            "function": rows,
            **{tool: [stated[row, tool] for row in rows] for tool in tools},
            **{tool: ["yes" if row in found else None for row in rows] for tool, found in shown.items()},
        }
    )


def _shown(results: dict[str, pl.DataFrame], tool: str) -> set[str]:
    """Which of Table 1's functions the results of a tool show that it has."""
    runs = results["bench_runs"].filter("valid", tool=tool)
    rows = results["bench"].join(runs.select("run_id").unique(), on="run_id", how="semi")
    tests, modes = set(runs["test"]), set(runs["sync_mode"].drop_nulls())
    sqlite = "sqlite" in set(runs["workload"])
    found = {
        "sequential write": "seq_write" in tests,
        "sequential read": "seq_read" in tests,
        "random read": "rand_read" in tests,
        "random write": "rand_write" in tests,
        "write() + fsync()": "fsync" in modes,
        "multi-thread": (runs["threads"] > 1).any(),
        "SQLite operation": sqlite,
        "throughput": (rows["ops"] > 0).any(),
        "CPU utilization": runs["cpu_active_ns"].is_not_null().any(),
        "number of context switches": rows["ctx_voluntary"].is_not_null().any(),
        "environment: shell": not runs.is_empty(),
        "separate file I/O operation": "file" in set(runs["workload"]),
        "separate SQLite operation": sqlite,
        "file sync mode": len(modes) > 1,
        "SQLite journal mode": runs["journal_mode"].drop_nulls().n_unique() > 1,
    }
    return {function for function, shown in found.items() if shown}


def output_of_most(io: pl.LazyFrame) -> pl.DataFrame:
    """Table 2: MOST's fields, our columns for them, and what they say of one write to a write-ahead log."""
    fields = {
        "1 I/O completion time": ("complete_ns",),
        "2 flags for read and write": ("op", "sync"),
        "3 sector address and I/O size": ("sector", "nr_sectors"),
        "4 process id and process name": ("owner_pid", "owner_comm"),
        "5 block type": ("block_type",),
        "6 file name in case of data": ("path",),
    }
    wal = io.filter(pl.col("path").str.ends_with("-wal"), pl.col("op") == "write", pl.col("complete_ns").is_not_null())
    one = wal.sort("issue_ns", "request_id", "piece").first().collect().row(0, named=True)
    return pl.DataFrame(
        [
            {
                "MOST": field,
                "table io": ", ".join(columns),
                "for example": ", ".join(_word(one[name]) for name in columns),
            }
            for field, columns in fields.items()
        ]
    )


def _word(value: object) -> str:
    return "–" if value is None else str(value)
