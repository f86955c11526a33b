"""The report's sections on a benchmark: rates with intervals, latency percentiles, stability, invalid repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import bench
from androstep_analysis.bench.measures import dimensions, distinguishing
from androstep_analysis.common import quantities
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present import plot
from androstep_analysis.present.headline.results import dimension
from androstep_analysis.present.report import cells, overview, section
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Context
from androstep_analysis.present.sheets import Column, in_unit

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

ROLE: Final = "bench"

_SWEEPS: Final[Mapping[str, tuple[str, Callable[..., Axes]]]] = {
    "sync_mode": ("the way writes are made durable", plot.bench_sync_modes),
    "journal_mode": ("journal mode", plot.bench_journal_modes),
    "synchronous": ("PRAGMA synchronous", plot.bench_synchronous),
    "threads": ("the number of threads", plot.bench_threads),
    "block_bytes": ("the size of an operation", plot.bench_sizes),
    "fs_type": ("filesystem", plot.bench_devices),
}
"""Parameters that may vary, with their words and the function that draws them."""

_RATES: Final = {"iops": "Operations per second", "tps": "Transactions per second", "bandwidth": "Bytes per second"}

_MOST_FIGURES: Final = 12

_LINES: Final = 10
"""Maximum number of lines in a figure; more cannot be distinguished."""

_UNSTEADY: Final = 6
"""Maximum number of figures over time."""


_WINDOWS: Final = 3
"""Minimum number of time windows of a repetition that is drawn over time."""


def results(capture: Capture) -> dict[str, pl.DataFrame | pl.LazyFrame]:
    """Return the result tables of the sections, by the parameters that distinguish configurations."""
    tables = capture.bench
    varying = _varying(tables["bench_runs"])
    return {
        # If no parameter varies, the figures are by filesystem.
        "bench": bench.summarise(tables, by=[*varying, *(["fs_type"] if "fs_type" not in varying else [])]),
        "bench_latencies": bench.latencies(tables, by=varying).filter(pl.col("part").cast(pl.String) == "op"),
        "bench_distribution": bench.distribution(tables, by=varying).filter(pl.col("part").cast(pl.String) == "op"),
        "bench_series": bench.series(tables),
        "bench_runs": tables["bench_runs"],
    }


def first(context: Context) -> list[Element]:
    """Return the tiles of the overview: configurations, repetitions and extreme rates."""
    runs, summary = _frame(context, "bench_runs"), _frame(context, "bench")
    varying, invalid = _varying(runs), int((~runs["valid"]).sum())
    bad = f"of {runs.height:,} repetitions, not counted" if invalid else ""
    tiles = [
        overview.tile(
            "Configurations", f"{runs.select(varying).unique().height:,}", f"by {', '.join(map(_title, varying))}"
        ),
        overview.tile("Repetitions", f"{runs.height:,}", f"{_seconds(runs):,.0f} s measured"),
        overview.tile("Invalid", f"{invalid:,}", bad or "every repetition counts", is_bad=invalid > 0),
    ]
    for metric, title in _RATES.items():
        of_metric = summary.filter(pl.col("metric") == metric).drop_nulls("value").sort("value")
        if of_metric.height and metric != "bandwidth":
            for row, rank in ((of_metric.row(-1, named=True), "most"), (of_metric.row(0, named=True), "least")):
                where = ", ".join(dimension(name, row[name]) for name in varying if row[name] is not None)
                tiles.append(overview.tile(f"{title}, {rank}", quantities.in_unit(row["value"], row["unit"]), where))
    return [overview.tiles(*tiles)]


def parts(context: Context) -> list[Part]:
    """Return the sections of a benchmark."""
    runs = _frame(context, "bench_runs")
    return [
        Part("rates", "How fast was it?", _rates(context, _varying(runs))),
        Part("operations", "How long did an operation take?", _latencies(context, _varying(runs))),
        Part("steady", "Was it steady?", _over_time(context, _varying(runs))),
        Part("invalid", "What was invalid?", _invalid(runs)),
    ]


def _rates(context: Context, varying: Sequence[str]) -> list[Element]:
    summary = _frame(context, "bench")
    meant = ("bench_rate", "bench_interval")
    drawn = [
        _figure(context, f"bench_rates_{number}", draw(rows, **options), caption, rows, meant)
        for number, (draw, rows, options, caption) in enumerate(islice(_sweeps(summary, varying), _MOST_FIGURES), 1)
    ]
    rates = summary.filter(pl.col("metric").is_in(list(_RATES)))
    wide = in_unit(rates, ("value", "lo", "hi")).with_columns(
        what=pl.col("metric").replace_strict(_RATES, return_dtype=pl.String)
    )
    columns = {
        **{name: Column(_title(name).capitalize(), pick=True) for name in varying},
        "what": Column("Rate", pick=True),
        "said_value": Column("Median", by="value"),
        "said_lo": Column("from", by="lo"),
        "said_hi": Column("to", by="hi"),
        "confidence": Column("Confidence", cells.per_cent),
        "n": Column("Repetitions", cells.count),
    }
    return [
        *section.grid(drawn),
        *cells.unless_empty(wide, columns, "Rates"),
        *context.glossary.fold(meant),
    ]


def _figure(
    context: Context, name: str, ax: Axes, caption: str, rows: pl.DataFrame, definitions: Sequence[str] = ()
) -> Element:
    """Return the figure of these rows for the page. Also save it if figures are saved."""
    section.save(ax, name, caption, rows, definitions, context)
    return section.figure_of(ax, caption)


def _sweeps(
    summary: pl.DataFrame, varying: Sequence[str]
) -> Iterator[tuple[Callable[..., Axes], pl.DataFrame, dict[str, str], str]]:
    """Yield the figures of rates: drawing function, rows, options and caption.

    There is one figure for each varied parameter and each combination of the other parameters.
    """
    swept = [name for name in varying if name in _SWEEPS] or ["fs_type" if "fs_type" in summary.columns else varying[0]]
    for name in swept:
        words_, draw = _SWEEPS.get(name, ("", plot.bench_devices))
        others = [other for other in varying if other not in (name, "test")]
        for metric in ("iops", "tps"):
            rows = summary.filter(pl.col("metric").is_in([metric, "invalid_runs"]), pl.col(name).is_not_null())
            tests = rows.filter(pl.col("metric") == metric)["test"].unique()
            rows = rows.filter(pl.col("test").is_in(tests.implode()))
            if rows.is_empty():
                continue
            for key, of_key in rows.group_by(others, maintain_order=True) if others else [((), rows)]:
                known = {other: value for other, value in zip(others, key, strict=True) if value is not None}
                what = "".join(f", {_titled(other, value)}" for other, value in known.items())
                options = {} if name in ("journal_mode", "synchronous") else {"metric": metric}
                caption = f"{_RATES[metric]} by {words_ or _title(name)}{what}: medians with their intervals."
                yield draw, of_key, options, caption


def _latencies(context: Context, varying: Sequence[str]) -> list[Element]:
    quantiles, distribution = _frame(context, "bench_latencies"), _frame(context, "bench_distribution")
    others = [name for name in varying if name != "test"]
    drawn = []
    if distribution.height:
        for number, ((test,), of_test) in enumerate(distribution.group_by("test", maintain_order=True), 1):
            # A parameter that is equal in all configurations of a test would only make the labels longer.
            apart = [name for name in others if of_test[name].n_unique() > 1]
            series = pl.concat_str(pl.col(apart).cast(pl.String).fill_null("–"), separator=", ") if apart else "test"
            rows = of_test.with_columns(series=series)
            several = rows["series"].unique(maintain_order=True)
            slowest = rows.group_by("series").agg(pl.col("latency_ns").max()).sort("latency_ns", "series")
            chosen = slowest["series"].tail(_LINES)
            drawn_of = rows.filter(pl.col("series").is_in(chosen.implode()))
            more = len(several) - len(chosen)
            rest = f"; {more} faster ones are in the table" if more > 0 else ""
            caption = f"Latency of {plot.paper.words(str(test))} by percentile{rest}."
            ax = plot.bench_distribution(drawn_of, series="series")
            drawn.append(_figure(context, f"bench_latency_{number}", ax, caption, drawn_of))
    wide = quantiles.pivot("quantile", index=[*varying, "n"], values="value", maintain_order=True)
    names = [name for name in wide.columns if name not in (*varying, "n")]
    columns = {
        **{name: Column(_title(name).capitalize(), pick=True) for name in varying},
        "n": Column("Operations", cells.count),
        **{name: Column(name, cells.duration) for name in names},
    }
    return [*section.grid(drawn), *cells.unless_empty(wide, columns, "Latencies")]


def _over_time(context: Context, varying: Sequence[str]) -> list[Element]:
    """Return figures over time of the configurations whose repetitions differ most."""
    series, runs = _frame(context, "bench_series"), _frame(context, "bench_runs")
    rates = series.filter(pl.col("metric") == "iops").filter(pl.len().over("run_id", "repeat") >= _WINDOWS)
    means = rates.group_by("run_id", "repeat").agg(pl.col("value").mean())
    apart = pl.col("value").max() / pl.col("value").min()
    spread = (
        means.group_by("run_id").agg(apart=apart).sort(["apart", "run_id"], descending=[True, False], nulls_last=True)
    )
    drawn = []
    for number, run in enumerate(spread["run_id"].head(_UNSTEADY), 1):
        of_run = runs.filter(pl.col("run_id") == run).select(varying).row(0, named=True)
        what = ", ".join(dimension(name, value) for name, value in of_run.items() if value is not None)
        rows = rates.filter(pl.col("run_id") == run)
        caption = f"Operations per second over time: {what}."
        drawn.append(_figure(context, f"bench_over_time_{number}", plot.bench_series(rows), caption, rows))
    if not drawn:
        return []
    more = spread.height - len(drawn)
    note = f"The {len(drawn)} of {spread.height} configurations with the largest differences between repetitions."
    return [*([el("p", note)] if more > 0 else []), *section.grid(drawn)]


def _invalid(runs: pl.DataFrame) -> list[Element]:
    varying = _varying(runs)
    invalid = runs.filter(~pl.col("valid"))
    if invalid.is_empty():
        return [el("p", f"Nothing: all {runs.height:,} repetitions are valid.")]
    columns = {
        **{name: Column(_title(name).capitalize(), pick=True) for name in varying},
        "repeat": Column("Repetition", cells.count),
        "invalid": Column("Why"),
    }
    return [
        el("p", f"{invalid.height:,} of {runs.height:,} repetitions are not counted.", class_="losses"),
        cells.table(invalid, columns, "Invalid repetitions"),
    ]


def _seconds(runs: pl.DataFrame) -> float:
    return float(runs.select(pl.col("duration_ns").sum() / 1e9).item())


def _varying(runs: pl.DataFrame) -> list[str]:
    return distinguishing(runs, dimensions(runs))


def _titled(name: str, value: object) -> str:
    """Return a parameter and its value for a caption: a size gets its unit."""
    words = dimension(name, value)
    title = _title(name).removesuffix(" [B]").removesuffix(" bytes")
    return words if words.startswith(title) else f"{title} {words}"


def _title(name: str) -> str:
    return {"block_bytes": "size [B]", "fs_type": "filesystem"}.get(name, name.replace("_", " "))


def _frame(context: Context, name: str) -> pl.DataFrame:
    return context.results[name].lazy().collect()
