"""Headlines of benchmarks, replays and waits of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis import bench
from androstep_analysis.bench.measures import distinguishing
from androstep_analysis.common import quantities
from androstep_analysis.present import starts, waits
from androstep_analysis.present.headline.words import (
    Amount,
    Grid,
    Headline,
    Name,
    Part,
    Quote,
    Sentence,
    grid,
    listed,
    named,
)
from androstep_analysis.replay.metrics import metrics

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

ROWS: Final = 8
"""Maximum number of rows of a table."""

RELIABLE: Final = 6
"""Minimum number of repetitions for a 95 % confidence interval of the median (`bench.summarise`)."""

_RATES: Final = ("iops", "tps")
_BESIDE: Final = ("bandwidth", "latency_p50", "latency_p99", "cpu_active", "cpu_iowait", "context_switches")

Row = dict[str, Any]


# -- benchmarks -------------------------------------------------------------------------------------------------------


def of_bench(capture: Capture) -> Headline:
    """Return the headline of a benchmark: rates of the configurations, and how reliable they are."""
    summary = bench.summarise(capture.bench)
    dims = summary.columns[1 : summary.columns.index("value")]
    varying = distinguishing(summary, dims)
    of_test = {str(test): distinguishing(rows, dims) for (test,), rows in summary.group_by("test")}
    rows = summary.filter(pl.col("metric").is_in(_RATES)).sort("value", descending=True).to_dicts()
    configurations = summary.filter(metric="invalid_runs")
    if configurations.height == 1:
        return Headline((*_single(capture.bench["bench_runs"], summary), _validity(capture.bench["bench_runs"])))
    few = configurations.filter(pl.col("n") - pl.col("value") < RELIABLE).height
    sentences = [
        _tests(configurations, varying),
        _validity(capture.bench["bench_runs"]),
        *([_fastest(rows, of_test)] if len(rows) > 1 else []),
        *([_few(few, configurations.height)] if few else []),
    ]
    tables = (_configurations(rows, summary, dims, of_test),) if rows else ()
    return Headline((*sentences, *tables))


def _single(runs: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Sentence]:
    """Yield the results of a single configuration: the workload, its speed and its CPU cost."""
    run = runs.row(0, named=True)
    yield Sentence("measured", (bench.in_words(run),))
    found = {row["metric"]: row for row in summary.iter_rows(named=True)}
    for about, metrics_of in _OUTPUTS.items():
        shown = [found[name] for name in metrics_of if name in found and found[name]["value"] is not None]
        parts = [[*_LABELS[row["metric"]], Amount(row["value"], row["unit"]), *_interval(row)] for row in shown]
        if parts:
            yield Sentence(about, tuple(listed(parts, "; ")))
    repetitions = runs.filter("valid").height
    if repetitions > 1:
        yield Sentence("of", ("medians of ", Amount(repetitions, "repetitions"), " valid repetitions"))
    if 1 < repetitions < RELIABLE:
        yield _few(1, 1)


_OUTPUTS: Final = {
    "rates": ("iops", "tps", "bandwidth"),
    "latency": ("latency_p50", "latency_p99", "latency_p99.9"),
    "CPU": ("cpu_active", "cpu_iowait", "context_switches"),
}
"""The results of a benchmark by subject: the three of Mobibench, and latency."""

_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("iops", "tps", "bandwidth"), ()),
    **{name: (f"{name.removeprefix('latency_')} ",) for name in _OUTPUTS["latency"]},
    **{"cpu_active": ("active ",), "cpu_iowait": ("waiting for I/O ",), "context_switches": ("context switches ",)},
}


def _interval(row: Row) -> list[Part]:
    """Return the interval of a median, or an empty list if there is none."""
    if row["lo"] is None:
        return []
    return [" (", Amount(row["lo"], row["unit"]), " to ", Amount(row["hi"], row["unit"]), ")"]


def _tests(configurations: pl.DataFrame, varying: Sequence[str]) -> Sentence:
    """Return the sentence on the tests, and the parameters that varied."""
    tests = configurations["test"].unique(maintain_order=True)
    differ = [name for name in varying if name != "test"]
    parts: list[Part] = [
        ", ".join(tests),
        ": ",
        Amount(configurations.height, "configurations"),
    ]
    parts.append(" configuration" if configurations.height == 1 else " configurations")
    if differ:
        parts += [" of ", " × ".join(name.removesuffix("_bytes").replace("_", " ") for name in differ)]
    return Sentence("tests", tuple(parts))


def _validity(runs: pl.DataFrame) -> Sentence:
    """Return the sentence on invalid repetitions, and the most frequent reason."""
    invalid = runs.filter(~pl.col("valid"))
    if invalid.is_empty():
        return Sentence("valid", ("every repetition is valid",))
    reasons = invalid.group_by("invalid").agg(n=pl.len()).sort("n", "invalid", descending=[True, False])
    reason, count = reasons.row(0)
    counts: list[Part] = [Amount(invalid.height, "repetitions"), " of ", Amount(runs.height, "repetitions")]
    why: list[Part] = [Quote(reason or "no reason given"), " (", Amount(count, "repetitions"), ")"]
    return Sentence("valid", (*counts, " repetitions are invalid and not counted: ", *why), "unusual")


def _fastest(rows: list[Row], varying: Mapping[str, Sequence[str]]) -> Sentence:
    """Return the sentence on the fastest and the slowest configuration."""
    first, last = rows[0], rows[-1]
    ends = ("fastest ", first), ("slowest ", last)
    clauses = ([word, *named(configuration(row, varying), row["value"], "1/s")] for word, row in ends)
    return Sentence("rates", tuple(listed(clauses, "; ")))


def _few(few: int, configurations: int) -> Sentence:
    """Return the sentence on configurations with too few repetitions, and how to get enough."""
    of: list[Part] = [Amount(few, "configurations"), " of ", Amount(configurations, "configurations")]
    words = f" have fewer than {RELIABLE} valid repetitions, so no 95 % interval; measure with `--repeats {RELIABLE}`"
    return Sentence("intervals", (*of, words), "unknown")


def _configurations(
    rows: list[Row], summary: pl.DataFrame, dims: Sequence[str], varying: Mapping[str, Sequence[str]]
) -> Grid:
    """Return the table of the fastest configurations. The fastest of each test is always included."""
    chosen = list(rows)
    if len(rows) > ROWS:
        best = list({row["test"]: row for row in reversed(rows)}.values())
        chosen = sorted([*best, *(row for row in rows if row not in best)][:ROWS], key=lambda row: -row["value"])
    values = {
        (row["metric"], *(row[name] for name in dims)): (row["value"], row["unit"])
        for row in summary.filter(pl.col("metric").is_in(_BESIDE)).iter_rows(named=True)
    }
    cells = []
    for row in chosen:
        key = tuple(row[name] for name in dims)
        beside = (values.get((name, *key)) for name in _BESIDE)
        cells.append(
            (
                Name(configuration(row, varying)),
                Amount(row["value"], "1/s"),
                *(None if pair is None or pair[0] is None else Amount(*pair) for pair in beside),
                Amount(row["n"], "repetitions"),
            )
        )
    more = (
        f"The fastest {len(chosen)} of {len(rows):,} configurations, each test's fastest among them. "
        if chosen != rows
        else ""
    )
    return grid(
        ("configuration", "operations", "bytes", "p50", "p99", "CPU", "iowait", "switches", "n"),
        tuple(cells),
        f"{more}Medians of n valid repetitions. CPU and iowait: share of the time of all CPUs. Switches: context"
        " switches.",
    )


def configuration(row: Row, varying: Mapping[str, Sequence[str]]) -> str:
    """Return a configuration by the parameters that distinguish it from others of its test."""
    return " ".join(dimension(name, row[name]) for name in varying[row["test"]] if row[name] is not None)


def dimension(name: str, of: object) -> str:
    """Format a parameter of a configuration. A plain number gets the name of the parameter."""
    is_bare = isinstance(of, int) and not isinstance(of, bool) and not name.endswith("_bytes")
    return f"{name.replace('_', ' ')} {value(name, of)}" if is_bare else value(name, of)


def value(name: str, of: object) -> str:
    """Format the value of a parameter. A size gets its unit."""
    if isinstance(of, bool):
        return "yes" if of else "no"
    if isinstance(of, int):
        return quantities.size(of) if name.endswith("_bytes") else f"{of:,}"
    return str(of)


# -- replays ----------------------------------------------------------------------------------------------------------


def of_replay(capture: Capture) -> Headline:
    """Return the headline of replays: how many operations were done as recorded, and how long they took."""
    tables, counts = capture.replay, capture.about["replay"]
    measured = metrics(tables)
    whole = measured.filter(pl.col("call").is_null(), pl.col("file_type").is_null())
    found = {
        (run, metric, quantile): value
        for run, metric, quantile, value in whole.select(
            "run_id", "metric", pl.col("quantile").cast(pl.String), "value"
        ).iter_rows()
        if value is not None
    }
    done: list[Part] = [Amount(counts["done"], "operations"), " of ", Amount(counts["operations"], "operations")]
    done += [" operations done on ", Quote(", ".join(counts["fs_types"]))]
    done += [", ", Amount(counts["diverged"], "operations"), " with another result than recorded"]
    done += [", ", Amount(counts["interrupted"], "replays"), " interrupted"] if counts["interrupted"] else []
    odd = counts["diverged"] or counts["interrupted"] or counts["done"] < counts["operations"]
    sentences = [Sentence("replayed", tuple(done), "unusual" if odd else "fact")]
    calls = measured.filter(metric="io_time").filter(pl.col("call").is_not_null(), pl.col("value").is_not_null())
    if calls.height:
        row = calls.sort("value", descending=True).row(0, named=True)
        sentences.append(
            Sentence("slowest", ("most time of a replay in ", Name(row["call"]), ": ", Amount(row["value"], "ns")))
        )
    columns = (("elapsed", None), ("recorded", None), ("io_time", None), ("lateness", "p50"), ("lateness", "p99"))
    rows = tuple(
        (
            Name(run["fs_type"] or "–"),
            run["mode"].replace("_", " "),
            *(Amount(found[key], "ns") if (key := (run["run_id"], *column)) in found else None for column in columns),
        )
        for run in tables["replay_runs"].head(ROWS).iter_rows(named=True)
    )
    runs = tables["replay_runs"].height
    more = f"The first {ROWS} of {runs:,} replays. " if runs > ROWS else ""
    header = ("on", "mode", "took", "recorded", "I/O time", "late p50", "late p99")
    return Headline(
        (*sentences, grid(header, rows, f"{more}Late: delay between the due time and the begin of an operation."))
    )


# -- waits ------------------------------------------------------------------------------------------------------------


def of_waits(capture: Capture) -> Headline:
    """Return the headline of what users waited for; empty if the capture has no waits."""
    waited = waits.of(capture)
    if waited is None:
        return Headline(())
    counts, actions = waited.counts(), waited.actions()
    parts: list[Part] = [Amount(waited.found.height, "inputs"), " inputs, "]
    parts += [Amount(counts["stable"], "inputs"), f" of which led to a stable screen (by {waited.watched})"]
    slow = [row for row in actions.iter_rows(named=True) if row["value"] is not None]
    if slow:
        parts += ["; longest, on average: ", Name(slow[0]["label"]), " (", Amount(slow[0]["value"], "ns"), ")"]
    rows = tuple(
        (
            Name(row["label"]),
            Amount(row["inputs"], "inputs"),
            Amount(row["n"], "inputs"),
            *(None if row[name] is None else Amount(row[name], "ns") for name in ("value", "lo", "hi")),
        )
        for row in actions.head(ROWS).iter_rows(named=True)
    )
    header = ("action", "inputs", "stable", "mean", "from", "to")
    small = grid(header, rows, "From and to: the 95 % interval of the mean wait.")
    return Headline((Sentence("waits", tuple(parts)), small))


# -- starts of apps ---------------------------------------------------------------------------------------------------


def of_starts(capture: Capture) -> Headline:
    """Return the headline of the starts of apps: medians of their numbers; empty if the capture has none."""
    rows = starts.of(capture)
    if rows is None:
        return Headline(())
    apps = ", ".join(rows["app"].unique(maintain_order=True))
    known = {name: rows[name].cast(pl.Float64).median() for name in ("first_frame", "storage_wait", "read")}
    clauses: list[list[Part]] = [
        [words, Amount(value, unit)]
        for (name, value), words, unit in zip(
            known.items(), ("first frame after ", "waited for storage ", "read "), ("ns", "ns", "B"), strict=True
        )
        if isinstance(value, float)
    ]
    counted: list[Part] = [Amount(rows.height, "starts"), " starts of ", Name(apps), "; medians: "]
    return Headline((Sentence("starts", (*counted, *listed(clauses))),))
