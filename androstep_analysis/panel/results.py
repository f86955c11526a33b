"""What the panel shows of results: tables as HTML, in which names of a device are text and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import bench, capture, manifest
from androstep_analysis.bench.measures import dimensions, telling
from androstep_analysis.capture import Capture
from androstep_analysis.errors import InputError
from androstep_analysis.markup import Element, el

_CPU = ("cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns")


def kept(home: Path) -> dict[str, Capture]:
    """The captures with benchmark results in directory `home` by their names, the newest first; others are left out."""
    found = {}
    for directory in sorted(home.iterdir() if home.is_dir() else (), key=lambda path: path.name, reverse=True):
        if not (directory / manifest.FILE_NAME).is_file():
            continue
        try:
            opened = capture.open(directory)
        except InputError:  # what another program left there is no history of ours
            continue
        if opened.about["bench"]:
            found[directory.name] = opened
    return found


def outcome(opened: Capture) -> Element:
    """The medians of every configuration: throughput, CPU and context switches, the three results of Mobibench."""
    tables = opened.bench
    runs = tables["bench_runs"]
    dims = telling(runs, dimensions(runs))
    beside = {tuple(row[name] for name in dims): row for row in _beside(tables, dims).iter_rows(named=True)}
    metrics: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in bench.summarise(tables, by=dims).iter_rows(named=True):
        metrics.setdefault(tuple(row[name] for name in dims), {})[row["metric"]] = row
    rows = [_outcome(key, found, beside.get(key, {})) for key, found in metrics.items()]
    header = ["ops/s", "from – to", "KiB/s", "CPU active %", "idle %", "I/O wait %", "context switches", "invalid"]
    return el("div", el("div", *_told(opened)), table([*(name.replace("_", " ") for name in dims), *header], rows))


def _beside(tables: Mapping[str, pl.DataFrame], dims: Sequence[str]) -> pl.DataFrame:
    """Shares of CPU time in per cent, and the median of context switches, of each configuration's valid repetitions."""
    whole = tables["bench"].filter(thread=-1, part="op")
    switches = whole.select("run_id", "repeat", switches=pl.col("ctx_voluntary") + pl.col("ctx_involuntary"))
    # Of all repetitions together: a short one may have passed without any of the kernel's ticks of 10 ms.
    ticks = pl.sum_horizontal(pl.col(_CPU).sum())
    runs = tables["bench_runs"].filter("valid").join(switches, on=["run_id", "repeat"], how="left")
    return runs.group_by(dims).agg(
        *(pl.when(ticks > 0).then(pl.col(name).sum() / ticks * 100).alias(name) for name in _CPU),
        switches=pl.col("switches").median(),
    )


def _outcome(key: Sequence[Any], metrics: Mapping[str, Mapping[str, Any]], beside: Mapping[str, Any]) -> list[str]:
    """The cells of one configuration."""
    rate = metrics.get("tps") or metrics.get("iops") or {}
    bandwidth = metrics.get("bandwidth", {}).get("value")
    return [
        *("–" if value is None else str(value).replace("_", " ") for value in key),
        _number(rate.get("value")),
        f"{_number(rate.get('lo'))} – {_number(rate.get('hi'))}",
        _number(None if bandwidth is None else bandwidth / 1024),
        *(_number(beside.get(name), 1) for name in _CPU),
        _number(beside.get("switches")),
        f"{metrics['invalid_runs']['value']:.0f} of {metrics['invalid_runs']['n']}",
    ]


def comparison(first: Capture, second: Capture) -> Element:
    """How much faster or slower the second's results are, for every configuration."""
    heading = el("p", f"{first.title} and {second.title}")
    try:
        result = bench.compare(first.bench, second.bench).filter(pl.col("metric").is_in(["iops", "tps"]))
    except ValueError as error:  # one of them has several machines in it
        return el("div", heading, el("p", str(error)))
    dims = telling(result, result.columns[1 : result.columns.index("value")])
    rows = [
        [
            *("–" if row[name] is None else str(row[name]).replace("_", " ") for name in dims),
            *(_number(row[side]) for side in ("first", "second")),
            *(_number(row[bound], 2) for bound in ("value", "lo", "hi")),
            str(row["verdict"]),
        ]
        for row in result.iter_rows(named=True)
    ]
    header = ["first, ops/s", "second, ops/s", "ratio", "from", "to", "the second is"]
    return el("div", heading, table([*(name.replace("_", " ") for name in dims), *header], rows))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    """An HTML table."""
    head = el("tr", *(el("th", word, style="text-align:left;padding:2px 8px;white-space:nowrap") for word in header))
    body = (el("tr", *(el("td", cell, style="padding:2px 8px;white-space:nowrap") for cell in row)) for row in rows)
    return el("table", head, *body)


def _told(opened: Capture) -> list[Element | str]:
    """What was measured, on what, and how it was asked for."""
    facts: Mapping[str, Any] = opened.facts
    of_device = [str(facts[name]) for name in ("device", "android_release", "kernel", "fs_type") if facts[name]]
    commands = opened.bench["bench_runs"]["command"].drop_nulls().unique(maintain_order=True)
    return [el("b", opened.title), f": {', '.join(of_device)}", *(el("pre", command) for command in commands)]


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
