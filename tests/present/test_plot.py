"""The figures draw the values of their tables."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib import _pylab_helpers
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch
from PIL import Image
from support import made, replayed
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import bench, compare, measures, perceived, plot, replay, schema
from androstep_analysis.capture import Capture
from androstep_analysis.present.plot import bench as plot_bench
from androstep_analysis.present.plot import paper, scatter, series, text
from androstep_analysis.present.plot.whatif import SIDES

HOSTILE = (
    "<script>alert(1)</script>.txt",
    '"><img src=x onerror=1>',
    r"$\frac{",
    "$x^2$",
    "two\nlines",
    "\u202egpj.exe",
    "日本語.txt",
    "a" * 4096,
    "%s %d {0} \\",
)


def tidy(dims: tuple[str, ...], *rows: tuple[Any, ...]) -> pl.DataFrame:
    """Return a result table from rows of metric, dimensions, value. The unit follows from the metric, n is 1."""
    units = {"count": "requests", "bytes": "B", "iops": "1/s", "bandwidth": "B/s"}
    return pl.DataFrame(
        [
            {"metric": row[0], **dict(zip(dims, row[1:-1], strict=True)), "value": float(row[-1])}
            | {"unit": units.get(row[0], "1"), "n": 1, "coverage": 1.0}
            for row in rows
        ]
    )


def bars(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return begin and height of each bar, for each series of vertical bars."""
    return {
        name: [(bar.get_y(), bar.get_height()) for bar in container.patches]
        for name, container in zip(ax.get_legend_handles_labels()[1], ax.containers, strict=True)
    }


def drawn(ax: Axes) -> list[tuple[float, float]]:
    """Return position and height of each bar. Bars in the legend have no height."""
    middles = ((round(bar.get_x() + bar.get_width() / 2, 3), bar.get_height()) for bar in ax.patches)
    return sorted((x, height) for x, height in middles if height)


def widths(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return begin and width of each bar, for each series of horizontal bars."""
    return {
        str(container.get_label()): [(bar.get_x(), bar.get_width()) for bar in container.patches]
        for container in ax.containers
    }


def tick_labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


# -- bars -------------------------------------------------------------------------------------------------------------

BLOCK_TYPES = tidy(
    ("op", "block_type"),
    ("count", "read", "data", 6),
    ("count", "read", "metadata", 2),
    ("count", "write", "data", 3),
    ("count", "write", "journal", 9),
    ("count", "flush", None, 5),
    ("count_ratio", "read", "data", 0.75),
    ("count_ratio", "read", "metadata", 0.25),
    ("count_ratio", "write", "data", 0.25),
    ("count_ratio", "write", "journal", 0.75),
    ("bytes", "read", "data", 3 << 20),
    ("bytes", "read", "metadata", 1 << 20),
    ("bytes", "write", "data", 1 << 20),
    ("bytes", "write", "journal", 7 << 20),
    ("bytes", "flush", None, 0),
    ("bytes_ratio", "read", "data", 0.75),
    ("bytes_ratio", "read", "metadata", 0.25),
    ("bytes_ratio", "write", "data", 0.125),
    ("bytes_ratio", "write", "journal", 0.875),
)


@pytest.mark.parametrize(
    ("basis", "relative", "data", "journal", "metadata", "label"),
    [
        ("count", False, [6, 3], [0, 9], [2, 0], "Requests"),
        ("count", True, [75, 25], [0, 75], [25, 0], "Share of requests [%]"),
        ("bytes", False, [3, 1], [0, 7], [1, 0], "Bytes [MiB]"),
        ("bytes", True, [75, 12.5], [0, 87.5], [25, 0], "Share of bytes [%]"),
    ],
)
def test_block_types_are_the_four_stacked_bars_of_the_most_viewer(
    basis: Any, relative: bool, data: list[float], journal: list[float], metadata: list[float], label: str
) -> None:
    ax = plot.block_types(BLOCK_TYPES, basis=basis, relative=relative)
    assert bars(ax) == {
        "data": [(0, data[0]), (0, data[1])],
        "journal": [(data[0], journal[0]), (data[1], journal[1])],
        "metadata": [(data[0] + journal[0], metadata[0]), (data[1] + journal[1], metadata[1])],
    }
    assert tick_labels(ax.xaxis) == ["read", "write"]
    assert ax.get_ylabel() == label
    legend = ax.get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()] == ["metadata", "journal", "data"], "as they are stacked"


def test_a_kind_has_its_colour_whatever_else_is_there() -> None:
    colours = {
        str(container.get_label()): to_hex(container.patches[0].get_facecolor()).upper()
        for table in (BLOCK_TYPES, BLOCK_TYPES.filter(pl.col("block_type") == "journal"))
        for container in plot.block_types(table).containers
    }
    assert colours == {name: paper.BLOCK_TYPES[name] for name in ("data", "journal", "metadata")}


def test_every_value_of_the_schema_has_a_colour_of_its_own() -> None:
    for palette, name in ((paper.BLOCK_TYPES, "block_type"), (paper.FILE_TYPES, "file_type"), (paper.OPS, "op")):
        assert set(palette) == set(schema.table("io").column(name).values)
        assert len(set(palette.values())) == len(palette)


def test_file_types_shows_every_type_that_occurs() -> None:
    kinds = schema.table("io").column("file_type").values
    table = tidy(("op", "file_type"), *(("count", "write", kind, number) for number, kind in enumerate(kinds, 1)))
    assert {label: bar[0][1] for label, bar in bars(plot.file_types(table)).items()} == {
        paper.words(kind): number for number, kind in enumerate(kinds, 1)
    }


def test_types_by_app_are_a_pair_of_bars_for_each_app() -> None:
    counts = [
        *(
            ("others", "write", "log", 9),
            ("a", "write", "log", 1),
            ("a", "write", "video", 3),
            ("$b$", "read", "log", 5),
        ),
        *((None, "read", "log", 7), ("a", "discard", "log", 99)),
    ]
    of_op = Counter[tuple[Any, str]]()
    for app, op, _, number in counts:
        of_op[app, op] += number
    rows = [("count", *row) for row in counts]
    rows += [("count_ratio", app, op, kind, number / of_op[app, op]) for app, op, kind, number in counts]
    rows += [("bytes", app, op, kind, number << 20) for app, op, kind, number in counts]
    table = tidy(("app", "op", "file_type"), *rows)
    ax = plot.file_types(table, relative=True)
    assert tick_labels(ax.xaxis) == ["read", "write", "write", "read"]
    assert bars(ax) == {
        "video": [(0, 0), (0, 75), (0, 0), (0, 0)],
        "log": [(0, 100), (75, 25), (0, 100), (0, 100)],
    }
    assert [words.get_text() for words in ax.texts] == ["$b$", "a", "others", "(unknown)", "5", "4", "9", "7"]
    assert ax.get_ylabel() == "Share of requests [%]"
    in_bytes = plot.file_types(table, basis="bytes")
    assert bars(in_bytes)["log"] == [(0, 5), (3, 1), (0, 9), (0, 7)] and in_bytes.get_ylabel() == "Bytes [MiB]"
    many = [("count", f"app {n}", "read", "log", 20 - n) for n in range(11)]
    ax = plot.file_types(tidy(("app", "op", "file_type"), *many))
    legend = ax.get_legend()
    assert len(ax.patches) == 8 and legend is not None
    assert legend.get_title().get_text() == "3 more are not drawn"
    assert [words.get_text() for words in plot.file_types(table.clear()).texts] == ["no data"]


def test_a_dimension_that_the_figure_does_not_show_is_refused() -> None:
    table = BLOCK_TYPES.with_columns(subtype=pl.Series(["a", "b"] * 9))
    with pytest.raises(ValueError, match="does not show subtype"):
        plot.block_types(table)
    with pytest.raises(ValueError, match="no column block_type"):
        plot.block_types(BLOCK_TYPES.drop("block_type"))


def test_mix_and_sync_are_bars_of_one_hundred_per_cent() -> None:
    ratios = (("count_ratio", 0.25), ("count_ratio", 0.75), ("bytes_ratio", 0.5), ("bytes_ratio", 0.5))
    counts = [("count", "read", 1), ("count", "write", 3), ("count", "flush", 7)]
    mix = tidy(("op",), *counts, *((m, op, v) for (m, v), op in zip(ratios, ["read", "write"] * 2, strict=True)))
    assert widths(plot.mix(mix)) == {"read": [(0, 25), (0, 50)], "write": [(25, 75), (50, 50)]}
    sync = tidy(("class",), *((m, kind, v) for (m, v), kind in zip(ratios, ["buffered", "sync"] * 2, strict=True)))
    assert widths(plot.sync(sync)) == {"sync": [(0, 75), (0, 50)], "buffered": [(75, 25), (50, 50)]}


def test_locality_is_not_stacked_because_forward_includes_consecutive() -> None:
    rows = [("read", "consecutive", 0.2), ("read", "forward", 0.6), ("read", "random", 0.8), ("write", "random", 1.0)]
    ax = plot.locality(tidy(("op", "class"), *(("count_ratio", *row) for row in rows)))
    assert bars(ax) == {"consecutive": [(0, 20), (0, 0)], "forward": [(0, 60), (0, 0)], "random": [(0, 80), (0, 100)]}
    left = [bar.get_x() for container in ax.containers for bar in container.patches]
    assert len(set(left)) == 6, "no bar hides another one"


def test_a_share_is_never_rounded_to_all_or_to_nothing() -> None:
    assert [paper.per_cent(ratio) for ratio in (0, 1e-9, 0.004, 0.5, 0.994, 0.9999, 1)] == (
        ["0", "<1", "<1", "50", "99", ">99", "100"]
    )


def test_sizes_fall_into_bins_that_double() -> None:
    sizes = {512: 1, 4096: 10, 8191: 20, 8192: 40, 65536: 80, 0: 99}
    ax = plot.sizes(tidy(("op", "size_bytes"), *(("count", "write", s, n) for s, n in sizes.items())))
    expected = Counter[int]()
    for size, number in sizes.items():
        if size:
            expected[size.bit_length() - 1] += number
    assert drawn(ax) == [(power - 9, expected[power]) for power in range(9, 17) if expected[power]]
    assert tick_labels(ax.xaxis)[:4] == ["512 B", "1 KiB", "2 KiB", "4 KiB"]


def test_every_power_of_two_is_the_lower_end_of_its_bin() -> None:
    powers = range(9, 45)
    ax = plot.sizes(tidy(("op", "size_bytes"), *(("count", "read", 1 << p, p) for p in powers)))
    assert [height for _, height in drawn(ax)] == list(powers)


def test_rwbs_shows_the_most_frequent_and_says_what_it_left_out() -> None:
    table = tidy(("rwbs",), *(("count", f"W{number:02}", 100 - number) for number in range(20)), ("count", "R", 1000))
    ax = plot.rwbs(table, top=3)
    assert tick_labels(ax.xaxis) == ["R", "W00", "W01"]
    assert [bar.get_height() for bar in ax.containers[0].patches] == [1000, 100, 99]
    assert ax.get_title(loc="left") == "18 further combinations (1,611 requests) not shown"  # 98 + 97 + … + 81


@pytest.mark.parametrize(
    ("letters", "op"),
    [("RA", "read"), ("WFS", "write"), ("FWFSM", "write"), ("FF", "flush"), ("F", "flush"), ("DS", "discard")],
)
def test_rwbs_bars_have_the_colour_of_their_operation(letters: str, op: str) -> None:
    ax = plot.rwbs(tidy(("rwbs",), ("count", letters, 1)))
    assert to_hex(ax.containers[0].patches[0].get_facecolor()).upper() == paper.OPS[op]


# -- who --------------------------------------------------------------------------------------------------------------


def test_volume_stacks_reads_and_writes_of_the_largest() -> None:
    rows = [("app", "read", 2048), ("app", "write", 4096), (None, "write", 5120), ("small", "read", 1024)]
    table = tidy(("owner_comm", "op"), *(("bytes", *row) for row in rows), ("bytes", "app", "discard", 1 << 30))
    ax = plot.volume(table, top=2)
    assert tick_labels(ax.yaxis) == ["app", "(unknown)"]
    assert widths(ax) == {"read": [(0, 2), (0, 0)], "write": [(2, 4), (0, 5)]}
    assert ax.get_xlabel() == "Bytes [KiB]"
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "2 of 3: 92 % of the bytes"  # 11 of 12 KiB


def test_volume_takes_one_dimension() -> None:
    table = tidy(("owner_comm", "path", "op"), ("bytes", "a", "b", "read", 1))
    with pytest.raises(ValueError, match="not 2: owner_comm, path"):
        plot.volume(table)


def test_write_cost_stacks_what_a_byte_became_of_those_that_cost_most() -> None:
    units = {"cost": 4096, "cost_per_byte": 1}
    parts = [("a", "data", 2), ("a", "journal", 1), ("b", "data", 5), ("b", "discard", 9), ("c", "data", 1)]
    rows = [(metric, name, part, unit * value) for metric, unit in units.items() for name, part, value in parts]
    table = tidy(("owner_comm", "part"), *rows, ("cost", None, "data", 1 << 20), ("written", "a", "out", 4096))
    ax = plot.write_cost(table, top=2)
    assert tick_labels(ax.yaxis) == ["b", "a"]
    assert widths(ax) == {"data": [(0, 5), (0, 2)], "journal": [(5, 0), (2, 1)]}
    with pytest.raises(ValueError, match="not 0: none"):
        plot.write_cost(tidy(("part",), ("cost", "data", 1)))


def test_hostile_names_are_drawn_as_they_are_and_never_interpreted() -> None:
    table = tidy(("path", "op"), *(("bytes", name, "write", 100 - n) for n, name in enumerate(HOSTILE)))
    with matplotlib.rc_context({"text.usetex": True, "text.parse_math": True}):  # what a session may have set
        ax = plot.volume(table)
        assert plot.png(ax).startswith(b"\x89PNG")
    labels = ax.get_yticklabels()
    assert [label.get_text() for label in labels[:7]] == [
        "<script>alert(1)</script>.txt",
        '"><img src=x onerror=1>',
        r"$\frac{",
        "$x^2$",
        r"two\nlines",
        r"\u202egpj.exe",
        "□□□.txt",
    ]
    assert labels[7].get_text() == "a" * 9 + "…" + "a" * 20
    assert not any(label.get_parse_math() or label.get_usetex() for label in labels)


def test_a_long_name_keeps_its_ends() -> None:
    path = "/data/data/com.example/files/a/very/long/way/to/the/end.db-journal"
    for width in range(3, len(path) + 2):
        short = text.elide(path, width)
        assert len(short) == min(width, len(path))
        head, _, tail = short.partition("…")
        assert path.startswith(head)
        assert path.endswith(tail)
        assert short == path or len(tail) >= len(head)


# -- lines ------------------------------------------------------------------------------------------------------------


def value_at(ax: Axes, label: str, x: float) -> float:
    """Return the height of a step line at `x`: that of its last point at or before it."""
    line = next(line for line in ax.lines if line.get_label() == label)
    assert line.get_drawstyle() == "steps-post"
    xs, ys = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert (np.diff(xs) >= 0).all()
    return float(ys[np.searchsorted(xs, x, "right") - 1])


@pytest.mark.parametrize("ratio", [1, 1.3, 4, 17, 50, 99, 250, 900, 10**5, 10**8])
def test_labels_of_a_logarithmic_time_do_not_overlap(ratio: float) -> None:
    ends = (350_000, round(350_000 * ratio))
    rows = [("cumulative_ratio", "D2C", "write", ns, share) for ns, share in zip(ends, (0.5, 1.0), strict=True)]
    ax = plot.latency_distribution(tidy(("step", "op", "latency_ns"), *rows))
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    major, minor = ax.xaxis.get_major_ticks(), ax.xaxis.get_minor_ticks()
    inside = [tick.label1 for tick in (*major, *minor) if low <= tick.get_loc() <= high]
    boxes = sorted((label.get_window_extent() for label in inside if label.get_text()), key=lambda box: box.x0)
    assert len(boxes) >= 1 + (ratio > 4)
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_differences_beyond_the_axis_are_marked_as_such() -> None:
    rows = [("a", 1.0, 251.0), ("b", 141.0, 1.0), ("c", 1.0, 2.0)]
    columns = {"unit": "", "verdict": "worse", "lo": None, "hi": None}
    table = pl.DataFrame([{"what": w, "first": a, "second": b, "difference": b / a, **columns} for w, a, b in rows])
    ax = plot.compare_overview(table.cast({"lo": pl.Float64, "hi": pl.Float64}))
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    labels = [tick.label1.get_text() for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    assert (labels[0], labels[-1]) == ("≤ 1/64", "≥ 64")


def test_latency_distribution_is_the_table() -> None:
    points = [(1000, 0.25), (50_000, 0.5), (2_000_000, 1.0)]
    rows = [("cumulative_ratio", "D2C", "read", *point) for point in points]
    table = tidy(("step", "op", "latency_ns"), *rows, ("cumulative_ratio", "Q2C", "read", 7, 1.0))
    ax = plot.latency_distribution(table, step="D2C")
    for latency_ns, ratio in points:
        assert value_at(ax, "read", latency_ns / 1e9) == ratio * 100
    assert value_at(ax, "read", 49_999 / 1e9) == 25
    assert value_at(ax, "read", ax.get_xlim()[1]) == 100, "the line goes on to the edge"
    assert ax.get_xlim()[0] < 1e-6


def test_latency_zero_is_the_height_at_which_the_line_begins() -> None:
    rows = [("cumulative_ratio", "D2C", "read", 0, 0.4), ("cumulative_ratio", "D2C", "read", 1000, 1.0)]
    ax = plot.latency_distribution(tidy(("step", "op", "latency_ns"), *rows))
    assert value_at(ax, "read", ax.get_xlim()[0]) == 40
    assert plot.png(ax)


def test_a_thinned_line_is_the_line() -> None:
    latency = np.unique(np.random.default_rng(5).lognormal(12, 2, 200_000).astype(np.int64))
    ratio = np.arange(1, len(latency) + 1) / len(latency)
    table = pl.DataFrame({"latency_ns": latency, "value": ratio}).with_columns(
        metric=pl.lit("cumulative_ratio"), step=pl.lit("D2C"), op=pl.lit("write")
    )
    ax = plot.latency_distribution(table)
    assert len(ax.lines[0].get_xdata()) <= 2 * series.STEPS + 2  # type: ignore[arg-type]
    # A drawn height may be late by one column of the figure, and by no more.
    column = (math.log(latency[-1]) - math.log(latency[0])) / series.STEPS
    for at in np.geomspace(latency[0], latency[-1], 997):
        drawn = value_at(ax, "write", at / 1e9 * (1 + 1e-12)) / 100
        low = np.searchsorted(latency, at * math.exp(-1.001 * column), "right") / len(latency)
        high = np.searchsorted(latency, at * (1 + 1e-9), "right") / len(latency)
        assert low - 1e-12 <= drawn <= high + 1e-12


def test_rate_draws_a_missing_bin_as_nothing() -> None:
    second = 1_000_000_000
    rows = [(10 * second, 4.0), (11 * second, 2.0), (14 * second, 8.0)]
    table = pl.concat(
        [
            tidy(("ts_ns", "op"), *(("iops", ts, "read", value) for ts, value in rows)),
            tidy(("ts_ns", "op"), *(("bandwidth", ts, "read", value * 2048) for ts, value in rows)),
        ]
    ).with_columns(n=(pl.when(pl.col("metric") == "iops").then("value").otherwise(0)).cast(pl.Int64))
    ax = plot.rate(table, origin_ns=9 * second)
    heights = [value_at(ax, "read", second_ + 0.5) for second_ in range(1, 7)]
    assert heights == [4, 2, 0, 0, 8, 0]
    ax = plot.rate(table, metric="bandwidth", origin_ns=9 * second)
    assert value_at(ax, "read", 5.5) == 16
    assert ax.get_ylabel() == "Bandwidth [KiB/s]"


def test_rate_knows_the_length_of_a_single_bin() -> None:
    table = measures.rate(one_request(), bin_ns=250_000_000)
    ax = plot.rate(table)
    assert [value_at(ax, "read", x) for x in (0.0, 249.0, 251.0)] == [4, 4, 0]
    assert ax.get_xlabel() == "Time [ms]"
    with pytest.raises(ValueError, match="keep them in the table"):
        plot.rate(table.filter(pl.col("metric") == "bandwidth"), metric="bandwidth")


def one_request() -> pl.DataFrame:
    return requests(1).with_columns(op=pl.lit("read"), complete_ns=pl.lit(10**9 + 7))


def test_cumulative_runs_to_the_end_on_a_logarithmic_axis() -> None:
    rows = [(0, "read", "random", 4096), (2, "read", "random", 8192), (5, "write", "sequential", 1 << 20)]
    table = tidy(("ts_ns", "op", "class"), *(("cumulative_bytes", t * 10**9, *rest) for t, *rest in rows))
    ax = plot.cumulative(table)
    assert [value_at(ax, "read, random", x) for x in (0, 1.9, 2, 5)] == [4096, 4096, 8192, 8192]
    assert value_at(ax, "write, sequential", 5) == 1 << 20
    assert ax.get_yscale() == "log"


# -- points -----------------------------------------------------------------------------------------------------------


def requests(number: int, seed: int = 0) -> pl.DataFrame:
    """Return made-up requests, with the columns that the figures of single requests need."""
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "dev": np.full(number, 7 << 20, np.uint32),
            "sector": random.integers(0, 1 << 30, number),
            "nr_sectors": 8 << random.integers(0, 8, number),
            "op": random.choice(["read", "write", "discard"], number, p=[0.3, 0.6, 0.1]),
            "issue_ns": np.sort(random.integers(0, 10**10, number)),
            "queue_ns": np.zeros(number, np.int64),
            "complete_ns": np.zeros(number, np.int64),
        }
    )


def points(ax: Axes) -> Counter[tuple[int, float, str]]:
    """Return the points over an axis in seconds: time in ns, height, colour."""
    return Counter(
        (round(float(x) * 1e9), float(y), to_hex(group.get_facecolor()[0]).upper())
        for group in ax.collections
        if isinstance(group, PathCollection)
        for x, y in np.asarray(group.get_offsets())
    )


@pytest.mark.parametrize(("draw", "column", "factor"), [("size", "nr_sectors", 512), ("sector", "sector", 1)])
def test_every_request_is_a_point(draw: str, column: str, factor: int) -> None:
    table = requests(500)
    ax = getattr(plot, f"{draw}_over_time")(table.lazy(), origin_ns=0)
    assert points(ax) == Counter(
        (row["issue_ns"], row[column] * factor, paper.OPS[row["op"]]) for row in table.iter_rows(named=True)
    )


def test_what_has_no_place_in_the_figure_is_left_out() -> None:
    table = requests(4).with_columns(
        op=pl.Series(["flush", "read", "read", "read"]),
        sector=pl.Series([None, 8, 16, 24]),
        nr_sectors=pl.Series([0, 8, 8, 8]),
        issue_ns=pl.Series([1, None, None, 4]) * 10**9,
        queue_ns=pl.Series([None, 2, None, None], dtype=pl.Int64) * 10**9,
        complete_ns=pl.Series([None, None, None, None], dtype=pl.Int64),
    )
    for draw in (plot.size_over_time, plot.sector_over_time):
        assert sorted(x for x, _, _ in points(draw(table, origin_ns=0))) == [4 * 10**9], (
            "the flush, the timeless and what never reached the device are out"
        )


def test_many_requests_are_counted_in_cells() -> None:
    number = scatter.MARKS + 30_000
    table = requests(number)
    ax = plot.sector_over_time(table, origin_ns=0)
    meshes = [mesh for mesh in ax.collections if isinstance(mesh, QuadMesh)]
    assert not points(ax)
    assert sum(int(np.ma.sum(mesh.get_array())) for mesh in meshes) == number

    def cell(column: str, cells: int) -> list[int]:
        values = [int(value) for value in table[column]]
        low, high = min(values), max(values)
        return [min(cells - 1, int((value - low) / (high - low) * cells)) for value in values]

    # The oracle: a dictionary of cells, one request at a time.
    inside: dict[tuple[int, int], Counter[str]] = {}
    for row, column, op in zip(
        cell("sector", scatter.ROWS), cell("issue_ns", scatter.COLUMNS), table["op"], strict=True
    ):
        inside.setdefault((row, column), Counter())[op] += 1
    total = np.zeros((scatter.ROWS, scatter.COLUMNS))
    for op, mesh in zip(["read", "write", "discard"], meshes, strict=True):
        drawn = np.ma.filled(np.ma.asarray(mesh.get_array()), 0).reshape(total.shape)
        total += drawn
        for row, column in np.argwhere(drawn):
            found = inside.get((int(row), int(column)), Counter())
            # A request on the border of two cells may fall on either side, by the last bit of a division.
            assert abs(drawn[row, column] - sum(found.values())) <= 1
            assert max(found.values(), default=0) - found[op] <= 1, "the colour is that of the most frequent"
    oracle = np.zeros_like(total)
    for (row, column), found in inside.items():
        oracle[row, column] = sum(found.values())
    assert np.abs(total - oracle).sum() <= number / 1000
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_title().get_text().startswith(f"{number:,} in 180 × 80 cells")


def test_sectors_of_two_devices_share_no_axis() -> None:
    table = requests(2).with_columns(dev=pl.Series([7 << 20, 259 << 20 | 3], dtype=pl.UInt32))
    with pytest.raises(ValueError, match=r"\(7:0, 259:3\)"):
        plot.sector_over_time(table)


def test_pieces_are_coloured_by_block_type() -> None:
    table = requests(2).with_columns(block_type=pl.Series(["journal", "free"]))
    ax = plot.sector_over_time(table, by="block_type")
    assert {colour for *_, colour in points(ax)} == {paper.BLOCK_TYPES["journal"], paper.BLOCK_TYPES["free"]}


# -- benchmarks -------------------------------------------------------------------------------------------------------


def medians(dim: str, *rows: tuple[str, Any, str, float, float | None, float | None]) -> pl.DataFrame:
    """Return a table like that of `bench.summarise` from rows of metric, value of `dim`, test, median, lo, hi."""
    names = ("metric", dim, "test", "value", "lo", "hi")
    types = {"value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
    return pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], schema_overrides=types)


def intervals(ax: Axes) -> list[tuple[float, float, float]]:
    """Return the position of each error bar, and its two ends."""
    segments = [
        segment for lines in ax.collections if isinstance(lines, LineCollection) for segment in lines.get_segments()
    ]
    # A cap, the bar and the other cap are one line.
    segments += [np.transpose(line.get_data())[3:5] for line in ax.lines if len(line.get_xdata()) == 8]
    ends = ((round(float(s[0][0]), 3), float(s[0][1]), float(s[1][1])) for s in segments if len(s))
    return sorted((x, lo, hi) for x, lo, hi in ends if not math.isnan(lo))


def curves(ax: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line in the legend, by its label."""
    names = {handle.get_color(): name for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    return {
        names[line.get_color()]: [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]
        for line in ax.lines
        if line.get_linestyle() != "None" and len(line.get_xdata())
    }


@pytest.mark.filterwarnings("error")
def test_many_long_names_leave_a_figure_its_axes() -> None:
    names = [f"direct, {size}, 33554432, preallocated" for size in range(10)]
    rows = [("cumulative_ratio", "op", name, 1000, 1.0, 9) for name in names]
    table = pl.DataFrame(rows, ("metric", "part", "test", "latency_ns", "value", "n"), orient="row")
    ax = plot.bench_distribution(table)
    few = plot.bench_distribution(table.with_columns(test=pl.lit("direct")).head(1))
    figures = [paper.settled(one) for one in (ax, few)]
    heights = [one.get_window_extent().height for one in (ax, few)]
    assert heights[0] > 0.6 * heights[1], "what the legend takes, the figure has more"
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x1 <= figures[0].bbox.x1


def test_sync_modes_are_bars_with_their_intervals() -> None:
    table = medians(
        "sync_mode",
        ("iops", "fsync", "seq_write", 100, 90, 120),
        ("iops", "osync", "seq_write", 200, None, None),
        ("iops", "fsync", "rand_write", 50, 40, 55),
        ("bandwidth", "fsync", "seq_write", 4e6, 3e6, 5e6),
        ("invalid_runs", "osync", "seq_write", 2, None, None),
        ("invalid_runs", "fsync", "seq_write", 0, None, None),
    )
    ax = plot.bench_sync_modes(table)
    assert drawn(ax) == [(-0.2, 100), (0.2, 50), (0.8, 200)]
    assert intervals(ax) == [(-0.2, 90, 120), (0.2, 40, 55)]
    assert tick_labels(ax.xaxis) == ["fsync", "osync"] and ax.get_ylim()[0] == 0
    legend = ax.get_legend()
    assert legend is not None
    assert [entry.get_text() for entry in legend.get_texts()] == ["seq write", "rand write"]
    assert legend.get_title().get_text() == "×: 2 repetitions invalid and left out"
    (marks,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert list(marks.get_xdata()) == [1.0]
    assert drawn(plot.bench_sync_modes(table, metric="bandwidth")) == [(0, 4)]


def test_values_far_apart_are_points_on_a_logarithmic_axis() -> None:
    rows = [("iops", "buffered", "seq_write", 90_000, 80_000, 95_000), ("iops", "fsync", "seq_write", 300, 200, 400)]
    ax = plot.bench_sync_modes(medians("sync_mode", *rows))
    assert ax.get_yscale() == "log" and not drawn(ax)
    assert [tuple(line.get_data()[1]) for line in ax.lines if line.get_marker() == "o"] == [(90_000, 300)]
    assert intervals(ax) == [(0, 80_000, 95_000), (1, 200, 400)]


@pytest.mark.parametrize(
    ("draw", "dim", "values"),
    [
        (plot.bench_journal_modes, "journal_mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF"]),
        (plot.bench_synchronous, "synchronous", ["OFF", "NORMAL", "FULL", "EXTRA"]),
        (plot.bench_devices, "fs_type", ["ext4", "xfs", "btrfs", "f2fs", "reiser"]),
    ],
)
def test_categories_stand_in_their_own_order(draw: Callable[..., Axes], dim: str, values: list[str]) -> None:
    rows = [("tps", value, "sqlite_insert", 10 + at, None, None) for at, value in enumerate(values)]
    ax = draw(medians(dim, *reversed(rows)))
    assert tick_labels(ax.xaxis) == values
    assert drawn(ax) == [(n, 10 + n) for n in range(len(values))]
    assert ax.get_legend() is None, "one series needs no legend"


def test_threads_and_sizes_are_lines() -> None:
    table = medians(
        "threads",
        ("iops", 32, "rand_write", 900, 800, 950),
        ("iops", 1, "rand_write", 100, None, None),
        ("iops", 4, "append", 50, 40, 60),
    )
    ax = plot.bench_threads(table)
    assert curves(ax) == {"rand write": [(1, 100), (32, 900)], "append": [(4, 50)]}
    assert intervals(ax) == [(4, 40, 60), (32, 800, 950)]
    assert tick_labels(ax.xaxis) == ["1", "4", "32"] and ax.get_ylim()[0] == 0
    sizes = table.rename({"threads": "block_bytes"}).with_columns(
        pl.col("block_bytes") * 4096, metric=pl.lit("bandwidth")
    )
    ax = plot.bench_sizes(sizes, metric="bandwidth")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert tick_labels(ax.xaxis) == ["4 KiB", "16 KiB", "128 KiB"]
    assert curves(ax)["rand write"] == [(4096, 1e-4), (131072, 9e-4)]


@pytest.mark.parametrize("threads", [4, 100])
def test_a_line_marks_where_the_papers_phone_stops_growing(threads: int) -> None:
    rows = [("iops", count, "rand_write", 10 * count, None, None) for count in (1, 8)]
    ax = plot.bench_threads(medians("threads", *rows), published=threads)
    assert [words.get_text() for words in ax.texts] == [f"the paper's phone\nstops growing at {threads}"]
    assert list(ax.lines[-1].get_xdata()) == [threads, threads]
    assert ax.get_xlim()[1] > threads


def test_tools_have_a_panel_for_each_kind_of_io() -> None:
    kinds = [("direct", "write", 3), ("mmap", "read", 70), ("buffered", "write", 50)]
    rows = [
        {"metric": "iops", "sync_mode": mode, "test": f"{order}_{io}", "tool": tool, "value": float(value + at)}
        for mode, io, value in kinds
        for order in ("seq", "rand")
        for at, tool in enumerate(("iobench", "fio"))
    ]
    table = pl.DataFrame(rows)
    first = plot.bench_tools(table)
    figure = paper.settled(first)
    assert [ax.get_title() for ax in figure.axes] == ["buffered write", "mmap read", "direct write"]
    assert [[height for _, height in drawn(ax)] for ax in figure.axes] == [[50, 51] * 2, [70, 71] * 2, [3, 4] * 2]
    cached, also_cached, direct = (ax.get_ylim() for ax in figure.axes)
    assert cached == also_cached and direct[1] < 5
    without = plot.bench_tools(table.filter(~((pl.col("tool") == "iobench") & (pl.col("sync_mode") == "direct"))))
    panels = paper.settled(without).axes
    fills = [
        to_hex(bar.get_facecolor())
        for ax in (panels[0], panels[-1])
        for bar in ax.patches
        if bar.get_height() in (51, 4)
    ]
    assert len(fills) == 4 and len(set(fills)) == 1, "a tool has one colour in all panels"
    one = plot.bench_tools(table.filter(sync_mode="mmap"))
    assert tick_labels(one.xaxis) == ["sequential", "random"] and len(paper.settled(one).axes) == 1
    with pytest.raises(ValueError, match="a panel for each of 3 kinds"):
        plot.bench_tools(table, ax=one)


def test_dots_are_the_table_beside_a_papers_numbers() -> None:
    rows = [("tps", "WAL", "sqlite_insert", 900, 800, 950), ("tps", "DELETE", "sqlite_insert", 50, None, None)]
    theirs = pl.DataFrame({"journal_mode": ["WAL", "$x$"], "value": [63.0, 10.0]})
    single = pl.DataFrame({"journal_mode": ["WAL", "WAL"], "value": [880, 920]})
    table = medians("journal_mode", *rows)
    ax = plot.dots(table, row="journal_mode", label="Inserts", published=theirs, repetitions=single, limits=(1, 1000))
    assert tick_labels(ax.yaxis) == ["DELETE", "WAL", "$x$"] and ax.get_xlim() == (1, 1000)
    marks = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in ax.lines}
    assert marks["ours"] == [(900, 1), (50, 0)]
    assert marks["the paper"] == [(63, 1.4), (10, 2)]
    assert marks["single runs"] == [(880, 1), (920, 1)]
    assert [path.get_segments()[0].tolist() for path in ax.collections if isinstance(path, LineCollection)] == [
        [[800, 1], [950, 1]]
    ]
    with pytest.raises(ValueError, match="one value for each test: keep one of each"):
        plot.dots(table, row="test", label="Inserts")
    in_ns = table.with_columns(pl.col("value", "lo", "hi") * 1e6, unit=pl.lit("ns"))
    ax = plot.dots(in_ns, row="test", label="Time", series="journal_mode")
    assert ax.get_xlabel() == "Time [ms]"
    assert [line.get_xdata().tolist() for line in ax.lines if line.get_label() in ("WAL", "DELETE")] == [[900], [50]]


def test_marks_of_what_was_emulated_are_hollow() -> None:
    rows = [("tps", fs, "sqlite_insert", value, None, None) for fs, value in (("ext4", 900), ("f2fs", 50))]
    table = medians("fs_type", *rows)
    ax = plot.dots(table, row="fs_type", label="Inserts", emulated=["f2fs"])
    drawn = {line.get_xdata()[0]: line.get_markerfacecolor() for line in ax.lines if len(line.get_xdata())}
    assert drawn[50] == "white" != drawn[900]
    assert ax.get_legend_handles_labels()[1] == ["ours", "emulated"]
    assert ax.get_legend() is not None
    assert "emulated" not in plot.dots(table, row="fs_type", label="Inserts").get_legend_handles_labels()[1]


def test_numbers_of_a_paper_and_ours() -> None:
    rows = {"what": ["read: a / b", "write"], "published_least": [2.0, 4.0], "published_most": [3.0, 4.0]}
    table = pl.DataFrame(rows | {"value": [1.5, 9.0], "lo": [1.2, None], "hi": [1.8, None], "unit": "1"})
    ax = plot.published(table, label="Ratio")
    assert tick_labels(ax.yaxis) == ["read:\na / b", "write"] and ax.get_xscale() == "log"
    ours = next(line for line in ax.lines if line.get_label() == "ours")
    assert list(zip(*ours.get_data(), strict=True)) == [(1.5, 0.16), (9, 1.16)]
    diamonds = [line.get_xdata().tolist() for line in ax.lines if line.get_marker() == "D"]
    assert diamonds == [[2, 4], [3, 4]]
    assert ax.get_xlim() == pytest.approx((1 / 1.3, 9 * 1.3))
    assert plot.published(table.with_columns(unit=pl.lit("%")), label="Share [%]").get_xlim() == (0, 104)


@pytest.mark.parametrize(
    ("metric", "lines"),
    [("iops", [[2048, 64], [50, 50]]), ("bandwidth", [[8.388608] * 2, [0.2048, 6.5536]])],
)
def test_rates_that_a_paper_states_of_no_size_are_lines_over_all_sizes(metric: Any, lines: list[list[float]]) -> None:
    rows = [(metric, size, "rand_write", 1e6, None, None) for size in (4096, 131072)]
    theirs = pl.DataFrame({"test": ["seq_write", "rand_write"], "value": [2048.0 * 4096, 50.0], "unit": ["B/s", "1/s"]})
    ax = plot.bench_sizes(medians("block_bytes", *rows), metric=metric, published=theirs)
    dotted = [line.get_ydata().tolist() for line in ax.lines if line.get_linestyle() == ":" and len(line.get_xdata())]
    assert dotted == [pytest.approx(line) for line in lines]


def test_predicted_rates_have_the_colour_of_those_that_were_measured() -> None:
    values = {"measured": 800.0, "predicted": 600.0, "before": 4.0}
    rows = [("iops", test, 4096, of, value) for of, value in values.items() for test in ("seq_write", "rand_write")]
    table = pl.DataFrame(rows, ("metric", "test", "block_bytes", "of", "value"), orient="row")
    ax = plot.whatif_sizes(table, published=pl.DataFrame({"block_bytes": [4096], "value": [2000.0]}))
    drawn = {line.get_label(): (line.get_ydata().tolist(), line.get_color()) for line in ax.lines}
    assert drawn.pop("the paper") == ([2000], paper.PUBLISHED)
    assert drawn == {
        f"{test}, {of}": ([value], plot_bench.TESTS[test.replace(" ", "_")])
        for of, value in values.items()
        for test in ("seq write", "rand write")
    }


def test_a_place_in_the_figure_has_one_number() -> None:
    rows = [("iops", "fsync", "append", 1, None, None), ("iops", "fsync", "append", 2, None, None)]
    table = medians("sync_mode", *rows).with_columns(threads=pl.Series([1, 2]))
    with pytest.raises(ValueError, match="the figure does not show threads: keep one value of each"):
        plot.bench_sync_modes(table)
    with pytest.raises(ValueError, match="no column journal_mode"):
        plot.bench_journal_modes(table)


def test_the_latency_curve_ends_at_the_slowest_operation() -> None:
    table = pl.DataFrame(
        {
            "metric": ["cumulative_ratio"] * 3,
            "test": ["append"] * 3,
            "part": ["op"] * 3,
            "latency_ns": [1_000, 2_000, 5_000_000],
            "value": [0.5, 0.99, 1.0],
            "n": [50, 49, 1],
        }
    )
    ax = plot.bench_distribution(table)
    (points,) = curves(ax).values()
    # Half of the operations took 1 µs, so the median and all below it; only the last of 100 took 5 ms.
    assert [(round(x, 6), y) for x, y in points] == [(1, 1e-6), (2, 2e-6), (100, 5e-3), (100, 5e-3)]
    assert tick_labels(ax.xaxis) == ["0", "90", "99"]
    assert list(map(plot_bench._percentile, range(6))) == ["0", "90", "99", "99.9", "99.99", "99.999"]


def test_a_series_is_a_line_for_each_repetition() -> None:
    table = pl.DataFrame(
        {
            "metric": ["iops"] * 4,
            "run_id": ["r"] * 4,
            "repeat": [0, 0, 1, 1],
            "ts_ns": [10**9, 2 * 10**9, 50 * 10**9, 51 * 10**9],
            "duration_ns": [10**9] * 4,
            "valid": [True, True, False, False],
            "value": [10.0, 20.0, 30.0, 40.0],
        }
    )
    ax = plot.bench_series(table)
    assert curves(ax) == {"repetition 0": [(500, 10), (1500, 20)], "repetition 1 (invalid)": [(500, 30), (1500, 40)]}
    assert ax.get_xlabel() == "Time [ms]"
    with pytest.raises(ValueError, match="keep one run_id"):
        plot.bench_series(pl.concat([table, table.with_columns(run_id=pl.lit("s"))]))


def test_every_test_and_filesystem_has_a_colour_of_its_own() -> None:
    assert set(plot_bench.TESTS) == set(schema.table("bench_runs").column("test").values)
    assert len(set(paper.FILESYSTEMS.values())) == len(paper.FILESYSTEMS)


# -- replays ----------------------------------------------------------------------------------------------------------


def io_times(*rows: tuple[str, str | None, float, float | None, float | None]) -> pl.DataFrame:
    """Return a table like that of `replay.summarise` from rows of place, call, median of io_time in ms, lo, hi."""
    calls = schema.enum("replay_ops", "call")
    columns = {"place": pl.String, "call": calls, "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
    table = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("value", "lo", "hi") * 1e6)
    return table.with_columns(metric=pl.lit("io_time"), unit=pl.lit("ns"), n=pl.lit(6, pl.Int64))


def test_io_time_has_a_group_for_each_filesystem_and_the_longest_calls() -> None:
    rows = [
        *(("f2fs", None, 20.0, 18.0, 25.0), ("f2fs", "fsync", 12.0, 11.0, 13.0), ("f2fs", "read", 5.0, 5.0, 5.0)),
        *(("ext4", None, 30.0, 29.0, 31.0), ("ext4", "fsync", 22.0, 20.0, 24.0), ("ext4", "read", 6.0, 6.0, 6.0)),
        ("ext4", "stat", 1.0, None, None),
    ]
    ax = plot.replay_io_time(io_times(*rows), top=2)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["ext4", "f2fs"]
    legend = ax.get_legend()
    assert legend is not None
    assert [words.get_text() for words in legend.get_texts()] == ["all calls", "fsync", "read"]
    assert legend.get_title().get_text() == "1 further calls are part of the first bar only"
    assert [height for _, height in drawn(ax)] == [30, 22, 6, 20, 12, 5]
    assert ax.get_ylabel() == "Total I/O time [ms]"
    with pytest.raises(ValueError, match="one value for each place and call"):
        plot.replay_io_time(io_times(*rows[:1], *rows[:1]))


def test_lateness_is_a_rising_line_for_each_part() -> None:
    due = [replayed.operation(number, start_ns=number * 1000 + late) for number, late in enumerate((0, 50_000, 2_000))]
    ax = plot.replay_lateness_distribution(replay.lateness_distribution(replayed.tables(due)))
    legend = ax.get_legend()
    assert legend is not None
    assert [words.get_text() for words in legend.get_texts()] == ["lateness", "busy", "waited", "own"]
    x, y = (np.asarray(values) for values in ax.lines[0].get_data())
    assert x[1:-1].tolist() == [1e-6, 2e-6, 5e-5] and y[1:-1].tolist() == pytest.approx([100 / 3, 200 / 3, 100])


def test_lateness_of_several_replays() -> None:
    parts = [
        replayed.tables([replayed.operation(0)], run_id=name, fs_type=fs) for name, fs in (("a", "f2fs"), ("b", "ext4"))
    ]
    both = {name: pl.concat([part[name] for part in parts]) for name in parts[0]}
    curve = replay.lateness_distribution(both)
    legend = plot.replay_lateness_distribution(curve, series="fs_type").get_legend()
    assert legend is not None
    assert [words.get_text() for words in legend.get_texts()] == ["ext4", "f2fs"]
    with pytest.raises(ValueError, match="run_id"):
        plot.replay_lateness_distribution(curve)
    same = replay.lateness_distribution(
        {name: pl.concat([table, table.with_columns(run_id=pl.lit("c"))]) for name, table in parts[0].items()}
    )
    with pytest.raises(ValueError, match="several replays have the same fs_type"):
        plot.replay_lateness_distribution(same, series="fs_type")


def test_the_timeline_has_a_row_for_each_thread(tmp_path: Path) -> None:
    program = replayed.program(tmp_path / "app.rec")
    done = program.operations.select("operation", "thread", "call", "inserted").iter_rows(named=True)
    ops = [replayed.operation(row["operation"], **row) for row in done]
    ax = plot.replay_timeline(replay.timeline(replayed.tables(ops), program))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["writer (0)", "1"]
    recorded, replayed_bars = ax.collections
    assert len(recorded.get_paths()) == len(replayed_bars.get_paths()) == len(ops) - 1
    few = plot.replay_timeline(replay.timeline(replayed.tables(ops), program), top=1)
    legend = few.get_legend()
    assert legend is not None and legend.get_title().get_text() == "1 of 2 threads"


# -- any figure -------------------------------------------------------------------------------------------------------


PROGRAM_TABLES = ("operations", "replay_files", "replay_threads")


def empty() -> dict[str, Axes]:
    """Return every figure of a capture without requests."""
    requests, io = schema.empty("requests"), schema.empty("io")
    results = {name: schema.empty(name) for name in bench.TABLES}
    medians = bench.summarise(results)
    replays = replayed.tables([])
    shares = compare.measure_all([made.capture()], "mix")
    ranked = compare.ranking(shares, by=["device"])
    measured = replay.metrics(replays).with_columns(place=pl.col("fs_type"))
    nothing = replay.Program.make(*(schema.empty(name) for name in PROGRAM_TABLES), duration_ns=0)
    answered = perceived.transitions(
        perceived.seen(schema.empty("gui_states")), perceived.inputs(schema.empty("steps"))
    )
    return {
        "bench_devices": plot.bench_devices(medians),
        "bench_journal_modes": plot.bench_journal_modes(medians),
        "bench_distribution": plot.bench_distribution(bench.distribution(results)),
        "bench_series": plot.bench_series(bench.series(results)),
        "bench_sizes": plot.bench_sizes(medians),
        "bench_sync_modes": plot.bench_sync_modes(medians),
        "bench_synchronous": plot.bench_synchronous(medians),
        "bench_threads": plot.bench_threads(medians),
        "bench_tools": plot.bench_tools(bench.summarise(results, by=("tool", "test", "sync_mode"))),
        "block_types": plot.block_types(measures.block_types(io)),
        "dots": plot.dots(medians, row="test", label="Rate", series="journal_mode"),
        "file_types": plot.file_types(measures.file_types(io), basis="bytes", relative=True),
        "mix": plot.mix(measures.mix(requests)),
        "sync": plot.sync(measures.sync(io)),
        "locality": plot.locality(measures.locality(requests)),
        "replay_io_time": plot.replay_io_time(replay.over_repetitions(measured)),
        "replay_lateness_distribution": plot.replay_lateness_distribution(replay.lateness_distribution(replays)),
        "replay_timeline": plot.replay_timeline(replay.timeline(replays, nothing)),
        "rwbs": plot.rwbs(measures.rwbs(requests)),
        "sizes": plot.sizes(measures.sizes(requests)),
        "volume": plot.volume(measures.volume(io)),
        "latency_distribution": plot.latency_distribution(measures.latency_distribution(requests)),
        "bursts": plot.bursts(measures.bursts(io)),
        "depth_over_time": plot.depth_over_time(measures.depth(requests, window_ns=10**9)),
        "seek_distances": plot.seek_distances(measures.seek_distances(schema.empty("block_events"))),
        "queue": plot.queue(measures.queue(requests)),
        "hotness": plot.hotness(measures.hotness(requests)),
        "readahead": plot.readahead(measures.readahead({"requests": requests, "io": io})),
        "lifetimes": plot.lifetimes(measures.lifetimes(requests)),
        "working_set": plot.working_set(measures.working_set(requests)),
        "miss_ratio": plot.miss_ratio(measures.miss_ratio(requests)),
        "rate_panels": plot.rate_panels(
            measures.rate(requests, bin_ns=10**9).with_columns(run=pl.lit("")), panel="run", lasted_ns={"": 1}
        ),
        "rate": plot.rate(measures.rate(requests, bin_ns=10**9)),
        "compare_differences": plot.compare_differences(compare.compare(shares, by=["device"]), metric="count_ratio"),
        "compare_groups": plot.compare_groups(ranked, metric="count_ratio", group="device"),
        "compare_overview": plot.compare_overview(
            pl.DataFrame(
                schema={
                    **dict.fromkeys(("what", "unit", "verdict"), pl.String),
                    **dict.fromkeys(("first", "second", "difference", "lo", "hi"), pl.Float64),
                }
            )
        ),
        "compare_pairs": plot.compare_pairs(shares, metric="count_ratio", by="device", paired_by=["workload"]),
        "published": plot.published(
            pl.DataFrame(
                schema={"what": pl.String, "unit": pl.String}
                | dict.fromkeys(("published_least", "published_most", "value", "lo", "hi"), pl.Float64)
            ),
            label="Ratio",
        ),
        "compare_ranking": plot.compare_ranking(ranked, metric="count_ratio", group=["device"]),
        "cumulative": plot.cumulative(measures.cumulative(requests)),
        "perceived_breakdown": plot.perceived_breakdown(
            pl.DataFrame(schema={"track": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
        ),
        "perceived_in_flight": plot.perceived_in_flight(perceived.in_flight(io, perceived.windows(answered))),
        "perceived_requests": plot.perceived_requests(
            perceived.requests(io, perceived.windows(answered), until_ns=1), windows=perceived.windows(answered)
        ),
        "perceived_responses": plot.perceived_responses(perceived.responses(answered)),
        "cpu": plot.cpu(measures.cpu(schema.empty("samples")), bar="unit"),
        "samples_over_time": plot.samples_over_time(
            measures.cpu(schema.empty("samples"), bin_ns=10**9), metric="cpu_share", line="state"
        ),
        "size_over_time": plot.size_over_time(requests),
        "sector_over_time": plot.sector_over_time(io, by="block_type"),
        "write_cost": plot.write_cost(measures.write_cost({"requests": requests, "io": io}, by=("owner_comm",))),
        "whatif_sizes": plot.whatif_sizes(
            pl.DataFrame(
                schema={"metric": pl.String, "test": pl.String, "of": pl.String}
                | {"block_bytes": pl.Int64, "value": pl.Float64}
            )
        ),
        "whatif_accuracy": plot.whatif_accuracy(
            pl.DataFrame(
                schema={"metric": pl.String, "change": pl.String, "quantile": pl.String}
                | dict.fromkeys(SIDES, pl.Float64)
            )
        ),
    }


def test_misses_are_the_table_and_its_six_largest_groups() -> None:
    rows = [("miss_ratio", f"$app{n}$" if n else None, 1 << 20, n / 10, "1", 100 - n, 1.0) for n in range(8)]
    columns = {"metric": pl.String, "app": pl.String, "cache_bytes": pl.Int64, "value": pl.Float64, "unit": pl.String}
    table = pl.DataFrame(rows, schema=columns | {"n": pl.Int64, "coverage": pl.Float64}, orient="row")
    drawn = plot.miss_ratio(table)
    assert [list(line.get_ydata()) for line in drawn.lines] == [[pytest.approx(10 * n)] for n in range(6)]
    assert [line.get_label() for line in drawn.lines][:2] == ["(unknown)", "$app1$"]
    assert len(plot.miss_ratio(table.filter(pl.col("app").is_null()).drop("app")).lines) == 1


def test_hotness_is_the_table() -> None:
    rows = [
        (metric, op, top, value, unit, 9 - len(op), None)
        for op in ("read", "write")
        for metric, unit, values in (("access_ratio", "1", (0.5, 0.25)), ("size", "files", (20, 10)))
        for top, value in zip((0.2, 0.1), values, strict=True)
    ]
    columns = {"metric": pl.String, "op": pl.String, "top": pl.Float64, "value": pl.Float64, "unit": pl.String}
    drawn = plot.hotness(pl.DataFrame(rows, schema=columns | {"n": pl.Int64, "coverage": pl.Float64}, orient="row"))
    assert [line.get_label() for line in drawn.lines] == ["read", "write"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in drawn.lines] == [([10, 20], [25, 50])] * 2
    assert drawn.get_xlabel() == "Hottest files [%]"


def test_working_sets_are_the_table_and_nothing_in_between() -> None:
    rows = [("working_set", start * 10**9, value, "B", 1, None) for start, value in ((7, 2048), (9, 1024))]
    columns = {"metric": pl.String, "ts_ns": pl.Int64, "value": pl.Float64, "unit": pl.String, "n": pl.Int64}
    (line,) = plot.working_set(pl.DataFrame(rows, schema=columns | {"coverage": pl.Float64}, orient="row")).lines
    assert list(line.get_xdata()) == [0, 0, 1, 2, 3]
    assert list(line.get_ydata()) == [0, 2, 0, 1, 0]


def test_lifetimes_are_bars_of_all_that_is_written() -> None:
    shares = {"rewritten": (0.5, 0.1), "discarded": (0.2, 0.9), "alive": (0.3, 0.0)}
    rows = [
        (f"{end}_ratio", app, value, "1", n, None)
        for end, values in shares.items()
        for app, n, value in zip(("a", None), (5, 9), values, strict=True)
    ]
    columns = {"metric": pl.String, "app": pl.String, "value": pl.Float64, "unit": pl.String, "n": pl.Int64}
    drawn = plot.lifetimes(pl.DataFrame(rows, schema=columns | {"coverage": pl.Float64}, orient="row"))
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["(unknown)", "a"]
    widths = [[bar.get_width() for bar in bars] for bars in drawn.containers]
    assert widths == [pytest.approx([100 * b, 100 * a]) for a, b in shares.values()]
    assert [bar.get_x() for bar in drawn.containers[2]] == pytest.approx([100, 70])


def test_queue_is_the_table() -> None:
    rows = [(8 << 20, depth, value) for depth, value in ((0, 0.5), (1, 0.3), (3, 0.2))]
    told = [("time_ratio", *row[:2], row[2], "1", 1, 1.0) for row in rows]
    columns = ["metric", "dev", "depth", "value", "unit", "n", "coverage"]
    (line,) = plot.queue(pl.DataFrame(told, schema=columns, orient="row")).lines
    assert line.get_label() == "8:0"
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == pytest.approx([50, 20, 20])


def test_depth_over_time_is_the_table_and_nothing_where_it_is_unknown() -> None:
    windows = {0: (0.5, 2), 10: (1.5, 4), 30: (0, 0)}
    told = [
        (metric, start, 8 << 20, float(value), "requests", 1, 1.0)
        for start, values in windows.items()
        for metric, value in zip(("mean", "max"), values, strict=True)
    ]
    columns = ["metric", "ts_ns", "dev", "value", "unit", "n", "coverage"]
    drawn = plot.depth_over_time(pl.DataFrame(told, schema=columns, orient="row"))
    (line,), (band,) = drawn.lines, drawn.collections
    assert line.get_label() == "8:0"
    assert list(line.get_xdata()) == [0, 10, 10, 10, 20, 20, 30, 40, 40]
    assert np.array_equal(line.get_ydata(), [0.5] * 3 + [1.5] * 2 + [np.nan, 0, 0, np.nan], equal_nan=True)
    corners = [{(x, y) for x, y in path.vertices.tolist()} for path in band.get_paths()]
    assert {(0, 0.5), (10, 0.5), (0, 2), (10, 2), (10, 1.5), (20, 1.5), (10, 4), (20, 4)} in corners


def test_seek_distances_are_the_table() -> None:
    shares = {"Q2Q": {0: 0.5, 1: 0.25, -8: 0.25}, "D2D": {4: 1.0}}
    told = [
        ("count_ratio", step, distance, value, "1", 1, 1.0)
        for step, of in shares.items()
        for distance, value in of.items()
    ]
    columns = ["metric", "step", "distance_up_to_sectors", "value", "unit", "n", "coverage"]
    drawn = plot.seek_distances(pl.DataFrame(told, schema=columns, orient="row"))
    queued, issued = (patch.get_data() for patch in drawn.patches if isinstance(patch, StepPatch))
    assert list(queued.edges) == [place - 0.5 for place in range(-4, 6)]
    assert list(queued.values) == [25, 0, 0, 0, 50, 25, 0, 0, 0]
    assert list(issued.values) == [0, 0, 0, 0, 0, 0, 0, 100, 0]
    assert tick_labels(drawn.xaxis) == ["−4 KiB", "0", "4 KiB"]


def test_an_empty_table_gives_axes_that_say_so() -> None:
    figures = empty()
    assert set(figures) == set(plot.__all__) - {"save", "png", "svg", "style"}
    for name, ax in figures.items():
        assert [words.get_text() for words in ax.texts] == ["no data"], name
        assert plot.png(ax)


@pytest.fixture(scope="module")
def demo() -> Capture:
    return androstep.open(ROOT / "datasets" / "demo")


@pytest.mark.prove
@pytest.mark.parametrize("name", sorted(set(plot.__all__) & set(measures.__all__)))
def test_a_figure_does_not_depend_on_the_library_that_holds_the_table(name: str, demo: Capture) -> None:
    """A figure has the name of its measure, and takes its result from pandas as well."""
    of = {"cpu": demo.samples, "seek_distances": demo.block_events} | dict.fromkeys(
        ("block_types", "bursts", "file_types", "sync", "volume"), demo.io
    )
    if name in ("write_cost", "readahead"):
        result = getattr(measures, name)(demo.tables, by=("owner_comm",))
    else:
        result = getattr(measures, name)(of.get(name, demo.requests))
    options = {"bar": "unit"} if name == "cpu" else {}
    as_is, from_pandas = (getattr(plot, name)(held, **options) for held in (result, result.to_pandas()))
    assert plot.png(as_is, 50) == plot.png(from_pandas, 50)


def test_runs_have_a_panel_each_on_the_same_axes() -> None:
    rows = [("iops", "$a$", 0, 50.0, 1), ("iops", "$a$", 20_000_000, 0.0, 0), ("iops", "b", 20_000_000, 900.0, 18)]
    table = pl.DataFrame(rows, ("metric", "run", "ts_ns", "value", "n"), orient="row").with_columns(op=pl.lit("write"))
    lasted = {"$a$": 30_000_000, "b": 100_000_000}
    first = plot.rate_panels(table, panel="run", lasted_ns=lasted, published=12_000)
    axes = paper.settled(first).axes
    assert axes[0] is first and [ax.get_title(loc="left") for ax in axes] == ["$a$", "b"]
    bars_of = [[(bar.get_x(), bar.get_height()) for bar in ax.containers[0].patches] for ax in axes]
    assert bars_of == [[(0, 50)], [(20, 900)]]
    assert {ax.get_ylim() for ax in axes} == {(8, 120_000)}
    assert [list(ax.lines[0].get_ydata()) for ax in axes] == [[12_000] * 2] * 2
    with pytest.raises(ValueError, match="does not show op"):
        plot.rate_panels(pl.concat([table, table.with_columns(op=pl.lit("read"))]), panel="run", lasted_ns=lasted)


def test_figures_of_requests_take_pandas(demo: Capture) -> None:
    held = demo.table("requests", as_="pandas")
    assert demo.table("requests", as_="pyarrow").num_rows == len(held) == demo.table("requests").collect().height
    assert points(plot.size_over_time(held)) == points(plot.size_over_time(demo.requests))
    assert points(plot.sector_over_time(held)) == points(plot.sector_over_time(demo.requests))


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="interval of append at fsync"):
        plot.bench_sync_modes(medians("sync_mode", ("iops", "fsync", "append", 100, 110, 120)))


def test_nothing_is_left_behind_in_the_session() -> None:
    before = dict(matplotlib.rcParams)
    ax = plot.block_types(BLOCK_TYPES)
    plot.png(ax)
    assert dict(matplotlib.rcParams) == before
    assert _pylab_helpers.Gcf.get_all_fig_managers() == []


def test_given_axes_are_drawn_in() -> None:
    from matplotlib.figure import Figure

    given = Figure().add_subplot()
    assert plot.mix(tidy(("op",), ("count_ratio", "read", 1), ("bytes_ratio", "read", 1)), ax=given) is given
    assert widths(given) == {"read": [(0, 100), (0, 100)]}


def test_a_notebook_shows_what_a_function_returns() -> None:
    ax = plot.block_types(BLOCK_TYPES)
    assert isinstance(ax, paper.PaperAxes)
    picture, size = ax._repr_png_()
    assert picture == plot.png(ax)
    assert Image.open(io.BytesIO(picture)).size == pytest.approx(
        [size[name] * 4 / 3 for name in ("width", "height")], abs=2
    )


# -- files ------------------------------------------------------------------------------------------------------------


def test_save_writes_figure_table_and_provenance(tmp_path: Path) -> None:
    provenance = {"capture": "0123", "name": "日本語"}
    stem = tmp_path / "new" / "fig.3"
    written = plot.save(plot.block_types(BLOCK_TYPES), stem, table=BLOCK_TYPES, provenance=provenance)
    assert [path.name for path in written] == ["fig.3.pdf", "fig.3.png", "fig.3.csv", "fig.3.json"]
    assert sorted(stem.parent.iterdir()) == sorted(written)
    pdf, png, csv, origin = written
    assert pdf.read_bytes().startswith(b"%PDF")
    assert b"CreationDate" not in pdf.read_bytes()
    assert png_chunks(png.read_bytes()) == {"IHDR", "pHYs", "IDAT", "IEND"}, "no date, no program"
    assert pl.read_csv(csv).equals(BLOCK_TYPES)
    assert json.loads(origin.read_text("utf-8")) == provenance


def png_chunks(data: bytes) -> set[str]:
    """Return the names of the chunks of a PNG file, after checking their checksums."""
    names, at = set(), 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        body = data[at + 4 : at + 8 + length]
        assert zlib.crc32(body) == int.from_bytes(data[at + 8 + length : at + 12 + length], "big")
        names.add(body[:4].decode())
        at += 12 + length
    return names


_SAVE = """
import sys
from pathlib import Path
import polars as pl
from androstep_analysis import plot
table = pl.read_csv(sys.argv[1])
ax = plot.block_types(table)
plot.save(ax, Path(sys.argv[2]) / "figure", table=table, provenance={"b": 1, "a": 2})
"""


@pytest.mark.prove
def test_the_same_figure_is_the_same_bytes_in_another_process_at_another_time(tmp_path: Path) -> None:
    BLOCK_TYPES.write_csv(tmp_path / "table.csv")
    digests = []
    for number, (seed, zone, epoch) in enumerate((("1", "UTC", "0"), ("2", "Asia/Seoul", "1000000000"))):
        out = tmp_path / str(number)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "SOURCE_DATE_EPOCH": epoch}
        subprocess.run(
            [sys.executable, "-c", _SAVE, tmp_path / "table.csv", out], env=environment, check=True, timeout=120
        )
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()})
    assert len(digests[0]) == 4
    assert digests[0] == digests[1]


def test_a_figure_is_the_same_whatever_was_written_before(tmp_path: Path) -> None:
    """Constrained layout moves a figure a little at every drawing; one that was saved must not differ for it."""
    fresh = plot.png(plot.block_types(BLOCK_TYPES))
    ax = plot.block_types(BLOCK_TYPES)
    plot.save(ax, tmp_path / "figure", table=BLOCK_TYPES, provenance={})
    assert plot.png(ax) == plot.png(ax) == fresh


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        (paper.byte_unit, 1023, (1, "B")),
        (paper.byte_unit, 1024, (1024, "KiB")),
        (paper.byte_unit, 0, (1, "B")),
        (paper.time_unit, 119_000_000_000, (10**9, "s")),
        (paper.time_unit, 3_600_000_000_000, (60 * 10**9, "min")),
        (paper.time_unit, 0, (1, "ns")),
        (paper.size, 1536, "1.5 KiB"),
        (paper.size, 1000, "1,000 B"),
    ],
)
def test_units(function: Callable[[float], Any], value: float, expected: Any) -> None:
    assert function(value) == expected
