"""What the panel shows of results: tables as HTML, in which names of a device are text and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import bench, capture, manifest
from androstep_analysis.capture import Capture
from androstep_analysis.errors import InputError
from androstep_analysis.markup import Element, el

_ACTIVE, _IDLE, _WAITING = "cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns"


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
    """The medians of every test: throughput, CPU and context switches, the three results of Mobibench."""
    tables = opened.bench
    runs, whole = tables["bench_runs"], tables["bench"].filter(thread=-1, part="op")
    switches = whole.select("run_id", "repeat", switches=pl.col("ctx_voluntary") + pl.col("ctx_involuntary"))
    ticks = pl.sum_horizontal(_ACTIVE, _IDLE, _WAITING)
    beside = (
        runs.filter("valid")
        .join(switches, on=["run_id", "repeat"], how="left")
        .group_by("test")
        .agg(
            *(((pl.col(name) / ticks).median() * 100).alias(name) for name in (_ACTIVE, _IDLE, _WAITING)),
            switches=pl.col("switches").median(),
        )
    )
    found = {row["test"]: row for row in beside.iter_rows(named=True)}
    summary = bench.summarise(tables, by=["test"])
    rows = []
    for test in summary["test"].unique(maintain_order=True):
        of_test = {row["metric"]: row for row in summary.filter(pl.col("test") == test).iter_rows(named=True)}
        rate = of_test.get("tps") or of_test.get("iops") or {}
        throughput = of_test.get("bandwidth", {}).get("value")
        cpu = found.get(test, {})
        rows.append(
            [
                str(test).replace("_", " "),
                _number(rate.get("value")),
                f"{_number(rate.get('lo'))} – {_number(rate.get('hi'))}",
                _number(None if throughput is None else throughput / 1024),
                *(_number(cpu.get(name), 1) for name in (_ACTIVE, _IDLE, _WAITING)),
                _number(cpu.get("switches")),
                f"{of_test['invalid_runs']['value']:.0f} of {of_test['invalid_runs']['n']}",
            ]
        )
    header = ["test", "ops/s", "from – to", "KiB/s", "CPU active %", "idle %", "I/O wait %", "context switches"]
    return el("div", el("div", *_told(opened)), table([*header, "invalid"], rows))


def comparison(first: Capture, second: Capture) -> Element:
    """How much faster or slower the second's results are, for every test that both have."""
    result = bench.compare(first.bench, second.bench).filter(pl.col("metric").is_in(["iops", "tps"]))
    rows = [
        [
            str(row["test"]).replace("_", " "),
            *(_number(row[side]) for side in ("first", "second")),
            *(_number(row[bound], 2) for bound in ("value", "lo", "hi")),
            str(row["verdict"]),
        ]
        for row in result.iter_rows(named=True)
    ]
    header = ["test", "first, ops/s", "second, ops/s", "ratio", "from", "to", "the second is"]
    return el("div", el("p", f"{first.title} and {second.title}"), table(header, rows))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Element:
    """An HTML table."""
    head = el("tr", *(el("th", word, style="text-align:left;padding:2px 8px") for word in header))
    body = (el("tr", *(el("td", cell, style="padding:2px 8px") for cell in row)) for row in rows)
    return el("table", head, *body)


def _told(opened: Capture) -> list[Element | str]:
    """What was measured, on what, and how it was asked for."""
    facts: Mapping[str, Any] = opened.facts
    of_device = [str(facts[name]) for name in ("device", "android_release", "kernel", "fs_type") if facts[name]]
    commands = opened.bench["bench_runs"]["command"].drop_nulls().unique(maintain_order=True)
    return [el("b", opened.title), f": {', '.join(of_device)}", *(el("pre", command) for command in commands)]


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
