"""All tables of a capture, a comparison or a replay program as terminal text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import polars as pl

from androstep_analysis import bench, measures
from androstep_analysis.bench.measures import UNITS, distinguishing
from androstep_analysis.capture import Capture, population
from androstep_analysis.common import losses, quantities
from androstep_analysis.common.markup import visible
from androstep_analysis.link import unrecorded
from androstep_analysis.present import beside, headline, sheets, starts, waits
from androstep_analysis.present.terminal.text import sheet, table, wrapped
from androstep_analysis.present.waits import Waits
from androstep_analysis.replay.metrics import QUANTILES
from androstep_analysis.replay.metrics import metrics as replay_metrics
from androstep_analysis.replay.program import Program

TOP = 10
"""Maximum number of rows of tables of processes and files."""


def tables(capture: Capture) -> str:
    """Return all tables of a capture as text, with notes on losses before them."""
    notes = [f"{'lost' if losses.is_missing(loss) else 'noted'}: {visible(loss.message)}" for loss in capture.losses]
    notes += capture.compared
    if capture.about["rows"]["requests"]:
        notes.append(population.sentence(capture.population, capture.losses, capture.lost_events))
        notes += [unrecorded.in_words(capture.lacking)] if capture.lacking else []
    notes += [_bench(capture.bench)] if capture.about["bench"] else []
    notes += _replay(capture.replay) if capture.about["replay"] else []
    notes += _waits(waited) if (waited := waits.of(capture)) else []
    notes += _starts(started) if (started := starts.of(capture)) is not None else []
    notes += [part for part in _beside_requests(capture) if part]
    notes = [part if "\n" in part else "\n".join(wrapped(part)) for part in notes]
    if not capture.about["rows"]["requests"]:
        return "\n\n".join(notes)
    requests, io = (measures.counted(table) for table in (capture.requests, capture.io))
    parts = [
        *notes,
        *_of_requests(requests, io, measures.locality(requests)),
    ]
    return "\n\n".join(part for part in parts if part)


def _of_requests(requests: pl.LazyFrame, io: pl.LazyFrame, locality: pl.DataFrame) -> Iterator[str]:
    """Yield the tables of requests and their pieces."""
    data = io.filter(pl.col("block_type") == "data")
    yield sheet(sheets.shares("Requests", ("op",), measures.mix(requests)))
    types = ("op", "block_type")
    yield sheet(sheets.shares("Block types (without empty flushes)", types, measures.block_types(io)))
    yield sheet(sheets.shares("File types of data blocks", ("op", "file_type"), measures.file_types(io)))
    yield sheet(sheets.volume("Processes", "Process", measures.volume(io, by=("owner_comm",))), top=TOP)
    yield sheet(sheets.volume("Apps by directory", "Package", measures.volume(data, by=("package",))), top=TOP)
    yield sheet(sheets.volume("Files", "File", measures.volume(data, by=("path",))), top=TOP)
    yield sheet(sheets.shares("Locality", ("op", "class"), locality))
    yield sheet(sheets.shares("Synchronous and buffered writes", ("class",), measures.sync(io)))
    yield sheet(sheets.quantiles("Latency", measures.latency(requests)))
    of_maps, of_owners = measures.evidence(io, "map_source"), measures.evidence(io, "owner_via")
    yield sheet(sheets.shares("Evidence for block types and files", ("op", "map_source"), of_maps))
    yield sheet(sheets.shares("Evidence for owners", ("op", "owner_via"), of_owners))


def _beside_requests(capture: Capture) -> Iterator[str]:
    """Yield the tables of file I/O, system calls, commands and counters; of a capture without these, its events."""
    has = capture.about["rows"]
    if has["fs_events"]:
        yield sheet(beside.files(capture), top=TOP)
    if has["syscalls"]:
        yield from (sheet(one, top=TOP) for one in beside.calls(capture.syscalls))
    if has["commands"]:
        yield sheet(beside.commands(capture.commands), top=TOP)
    if has["samples"]:
        yield from (sheet(one, top=TOP) for one in beside.cpus(capture.samples))
        yield sheet(beside.counters(capture.samples), top=TOP)
    if not any(has[name] for name in ("requests", "syscalls", "commands", "samples")):
        counts = sorted(capture.events.items(), key=lambda item: (-item[1], item[0]))
        yield _top("Events", ["event", "count"], [[name, f"{count:,}"] for name, count in counts])


def _starts(rows: pl.DataFrame) -> list[str]:
    """Return sentences and a table on the starts of apps."""
    return ["\n".join(starts.summary(rows)), sheet(starts.starts(rows)), "\n".join(starts.notes(rows))]


def _top(title: str, header: list[str], rows: list[list[str]]) -> str:
    """Return a table of the first rows; an empty string if there are none."""
    shown = f" (top {TOP} of {len(rows):,})" if len(rows) > TOP else ""
    return f"{title}{shown}\n{table(header, rows[:TOP])}" if rows else ""


def _bench(tables: Mapping[str, pl.DataFrame]) -> str:
    """Return the medians of every configuration with intervals, and the reasons for invalid repetitions."""
    summary = bench.summarise(tables)
    dims = summary.columns[1 : summary.columns.index("value")]
    varying = {test: distinguishing(rows, dims) for (test,), rows in summary.group_by("test")}
    found = {(row["metric"], *(row[name] for name in dims)): row for row in summary.iter_rows(named=True)}
    rows = []
    for row in summary.filter(metric="invalid_runs").iter_rows(named=True):
        key = tuple(row[name] for name in dims)
        rate = found.get(("iops", *key)) or found.get(("tps", *key)) or {}
        rows.append(
            [
                headline.configuration(row, varying),
                *(_number(rate.get(name), 1, 0) for name in ("value", "lo", "hi")),
                *(quantities.in_unit(found.get((name, *key), {}).get("value"), UNITS[name]) for name in _SHOWN),
                f"{row['n'] - row['value']:,.0f}",
                f"{row['value']:,.0f}",
            ]
        )
    header = ["configuration", "ops/s", "from", "to", "bytes", "p50", "p99", "p99.9", "valid", "invalid"]
    return "\n\n".join(
        [
            f"Median of valid repetitions with its 95 % interval (below 6: minimum, maximum)\n{table(header, rows)}",
            *_reasons(tables["bench_runs"]),
        ]
    )


_SHOWN = ("bandwidth", "latency_p50", "latency_p99", "latency_p99.9")
"""Metrics of `bench.summarise` that are displayed with the rate."""


def _reasons(runs: pl.DataFrame) -> list[str]:
    """Return the reasons for invalid repetitions, the most frequent first."""
    invalid = (
        runs.filter(~pl.col("valid")).group_by("invalid").agg(n=pl.len()).sort("n", "invalid", descending=[True, False])
    )
    return [f"invalid: {visible(reason or 'no reason given')} ({n:,})" for reason, n in invalid.iter_rows()]


def _replay(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return a table of the replays, and a table of the calls of all replays."""
    measured = replay_metrics(tables)
    has_calls = not measured.filter(pl.col("call").is_not_null()).is_empty()
    return [
        f"Replays, without inserted operations\n{_replays(tables, measured)}",
        *([f"Calls of all replays\n{_replayed_calls(tables, measured)}"] if has_calls else []),
        *_replays_cut_short(tables["replay_runs"]),
    ]


def _replays(tables: Mapping[str, pl.DataFrame], measured: pl.DataFrame) -> str:
    whole = measured.filter(pl.col("call").is_null(), pl.col("file_type").is_null())
    found = {
        (run, metric, quantile): value
        for run, metric, quantile, value in whole.select("run_id", "metric", "quantile", "value").iter_rows()
    }
    rows = [
        [
            *(run["fs_type"] or "–", run["mode"].replace("_", " ")),
            *(_duration(found.get((run["run_id"], name, None))) for name in ("elapsed", "recorded", "io_time")),
            *(f"{run[name]:,}" for name in ("operations", "done", "diverged")),
            *(_duration(found.get((run["run_id"], "lateness", name))) for name in ("p50", "p99", "max")),
            _duration(found.get((run["run_id"], "lateness_own", "p99"))),
            _percent(found.get((run["run_id"], "cpu_ratio", None))),
        ]
        for run in tables["replay_runs"].iter_rows(named=True)
    ]
    times = ["elapsed", "recorded", "I/O time"]
    counts = ["operations", "done", "diverged"]
    return table(["on", "mode", *times, *counts, "late p50", "p99", "max", "own p99", "CPU"], rows)


def _replayed_calls(tables: Mapping[str, pl.DataFrame], measured: pl.DataFrame) -> str:
    """Return for each call the mean over all replays, and latency quantiles over all its operations."""
    runs = tables["replay_runs"]["run_id"].n_unique()
    sums = (
        measured.filter(pl.col("call").is_not_null(), pl.col("metric").is_in(["operations", "io_time", "divergences"]))
        .group_by("call", "metric")
        .agg(pl.col("value").sum())
        .pivot("metric", index="call", values="value")
    )
    ops = tables["replay_ops"].filter(~pl.col("inserted"))
    latency = pl.col("latency_ns")
    quantiles = ops.group_by("call").agg(
        **{name: latency.quantile(share, "equiprobable") for name, share in QUANTILES.items()}
    )
    rows = [
        [
            row["call"],
            f"{row['operations'] / runs:,.0f}",
            _duration(row["io_time"] / runs),
            *(_duration(row[name]) for name in QUANTILES),
            f"{row['divergences']:,.0f}",
        ]
        for row in sums.join(quantiles, on="call")
        .sort("io_time", "call", descending=[True, False])
        .iter_rows(named=True)
    ]
    return table(["call", "per replay", "time", *QUANTILES, "diverged"], rows)


def _replays_cut_short(runs: pl.DataFrame) -> list[str]:
    """Return a sentence for each replay that ended early."""
    early = runs.filter(pl.col("interrupted") | (pl.col("result") < 0))
    return [
        f"ended early: {'interrupted' if row['interrupted'] else os.strerror(-row['result'])} "
        f"({row['done']:,} of {row['operations']:,} operations done)"
        for row in early.iter_rows(named=True)
    ]


def _waits(waited: Waits) -> list[str]:
    """Return how long each action takes, and the share of the longest waits with I/O in flight."""
    classes = list(waits.CLASSES)
    actions = [
        [
            row["label"],
            *(f"{row[name]:,}" for name in ("inputs", "n")),
            *(_duration(row[name]) for name in ("value", "lo", "hi")),
            *(f"{row[name]:,}" for name in (*classes, "unsure")),
        ]
        for row in waited.actions().iter_rows(named=True)
    ]
    shares = {"any": "any I/O", "app": "of the app", "coverage": "known for"}
    longest = waited.longest(TOP)
    known = [name for name in shares if name in longest.columns]
    rows = [
        [
            row["label"],
            *(_duration(row[name]) for name in ("latency_lo_ns", "latency_hi_ns")),
            *(_percent(row[name]) for name in known),
        ]
        for row in longest.iter_rows(named=True)
    ]
    limits = [*waits.CLASSES.values(), "either"]
    ended = f"Longest waits, with the share in which I/O was in flight (of {waited.windows.height:,})"
    return [
        _top(
            f"What the user waited for, by {waited.watched}; mean with its 95 % interval",
            ["action", "inputs", "stable", "mean", "from", "to", *limits],
            actions,
        ),
        *([f"{ended}\n{table(['action', 'least', 'most', *(shares[name] for name in known)], rows)}"] if rows else []),
    ]


def program(made: Program, measured: pl.DataFrame | None, left_out: pl.DataFrame, conflicts: int = 0) -> str:
    """Return a description of a replay program, with the calls that were left out and why.

    `measured` is the result of `replay.statistics`.
    """
    parts = [visible(repr(made).strip("<>"))]
    if measured is not None:
        parts.append(f"Recording and program\n{_cleaning(measured)}")
    rows = [
        [reason, call, f"{count:,}", _size(size or 0)]
        for reason, call, count, size in left_out.select("reason", "call", "count", "bytes").iter_rows()
    ]
    total = f"Left out ({left_out['count'].sum():,})"
    parts.append(f"{total}\n{table(['reason', 'call', 'count', 'bytes'], rows)}" if rows else "Nothing was left out.")
    if unknown := left_out.filter(pl.col("reason") == "unknown path")["count"].sum():
        parts.append(f"{unknown:,} calls name files by paths that were not recorded; strace records all paths")
    if conflicts:
        parts.append(f"{conflicts:,} results do not follow from the recorded calls alone; a replay differs there")
    return "\n\n".join(parts)


def _cleaning(measured: pl.DataFrame) -> str:
    """Return Table 3 of the paper: one column for the recording and one for the program."""
    scales = {"s": (1.0, 3, " s"), "1": (1.0, 0, ""), "B": (1e6, 2, " MB")}
    wide = measured.pivot("stage", index=["metric", "unit"], values="value", maintain_order=True)
    stages = wide.columns[2:]
    rows = []
    for metric, unit, *values in wide.iter_rows():
        scale, digits, suffix = scales[unit]
        cells = [_number(value, scale, digits) + (suffix if value is not None else "") for value in values]
        rows.append([metric.replace("_", " "), *cells])
    return table(["", *stages], rows)


def comparison(first: Mapping[str, pl.DataFrame], second: Mapping[str, pl.DataFrame]) -> str:
    """Return rates and latencies of two benchmark results (tables bench_runs and bench), with verdicts."""
    result = bench.compare(first, second).filter(pl.col("metric").is_in(["iops", "tps", "latency_p50", "latency_p99"]))
    dims = result.columns[1 : result.columns.index("value")]
    is_alone = pl.col("verdict").cast(pl.String).str.starts_with("only in")
    both = result.filter(~is_alone)
    varying = {test: distinguishing(rows, dims) for (test,), rows in both.group_by("test")}
    repetitions = both.select("n_first", "n_second").unique().rows()
    is_alike = len(repetitions) == 1
    parts = [
        _compared(str(metric), rows, varying, is_alike)
        for (metric,), rows in both.group_by("metric", maintain_order=True)
    ]
    notes = [f"Medians of {repetitions[0][0]} and {repetitions[0][1]} repetitions"] if is_alike else ["Medians"]
    notes += ["ratio with its 95 % interval", "the second is –: no difference shown"]
    alone = result.filter(is_alone).select("verdict", *dims).unique().group_by("verdict").len().sort("verdict")
    notes += [f"{count:,} configurations are {verdict}" for verdict, count in alone.iter_rows()]
    return "\n\n".join([*parts, "\n".join(wrapped("; ".join(notes)))])


def _compared(metric: str, result: pl.DataFrame, varying: Mapping[str, list[str]], is_alike: bool) -> str:
    """Return the table of one metric of both sides. The number of repetitions is a column only if it varies."""
    rows = [
        [
            headline.configuration(row, varying),
            *(quantities.in_unit(row[side], UNITS[metric]) for side in ("first", "second")),
            *(_number(row[bound], 1, 2) for bound in ("value", "lo", "hi")),
            *([] if is_alike else [f"{row['n_first']}, {row['n_second']}"]),
            _VERDICTS.get(row["verdict"], row["verdict"]),
        ]
        for row in result.iter_rows(named=True)
    ]
    header = ["configuration", "first", "second", "ratio", "from", "to", *([] if is_alike else ["n"]), "the second is"]
    title = metric.replace("latency_", "Latency ") if metric.startswith("latency") else "Operations"
    return f"{title}\n{table(header, rows)}"


_VERDICTS = {"no difference shown": "–", "too few repetitions": "too few"}
"""Abbreviations of frequent verdicts."""


def _number(value: float | None, scale: float, digits: int) -> str:
    return "–" if value is None else f"{value / scale:,.{digits}f}"


def _size(value: float | None) -> str:
    return "–" if value is None else quantities.size(value)


def _duration(ns: float | None) -> str:
    return "–" if ns is None else quantities.duration(ns)


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else quantities.per_cent(ratio)
