"""HTML of results in the panel. All names of devices and people are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from androstep_analysis import bench, compare
from androstep_analysis.bench.measures import dimensions, distinguishing
from androstep_analysis.common import quantities
from androstep_analysis.common.markup import Element, el
from androstep_analysis.compare import words
from androstep_analysis.compare.measures import Measured
from androstep_analysis.compare.measures import dimensions as dimensions_of
from androstep_analysis.compare.result import Result as Compared
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import headline, plot
from androstep_analysis.present.headline.results import RELIABLE
from androstep_analysis.present.panel.history import Result
from androstep_analysis.present.panel.jobs import TITLES
from androstep_analysis.present.panel.measuring import Progress
from androstep_analysis.present.report import section

STYLE: Final = """
.androstep-panel, .androstep-panel .widget-label, .androstep-panel .widget-html-content {
  color: var(--jp-ui-font-color1); line-height: 1.5; }
.androstep-panel table { border-collapse: collapse; margin: 4px 0 8px; }
.androstep-panel caption { text-align: left; font-weight: 600; padding: 4px 8px 4px 0; }
.androstep-panel th, .androstep-panel td { padding: 2px 12px 2px 0; text-align: left; vertical-align: top; }
.androstep-panel th { font-weight: 600; border-bottom: 1px solid var(--jp-border-color1); }
.androstep-panel .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.androstep-panel h3 { margin: 12px 0 4px; font-size: 1.1em; }
.androstep-panel p { margin: 2px 0; max-width: 52em; }
.androstep-panel .bar { background: var(--jp-ui-font-color2); height: 0.8em; min-width: 1px; }
.androstep-panel .goes-on .bar { opacity: 0.45; }
.androstep-panel .of-bar { width: 180px; vertical-align: middle; }
.androstep-panel .refused { border-left: 4px solid #c62828; padding-left: 8px; }
.androstep-panel .cards { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
.androstep-panel .card { width: 328px; }
.androstep-panel figure { margin: 0; }
.androstep-panel figure img { background: white; padding: 6px; width: 316px; border-radius: 2px; }
.androstep-panel figcaption { display: none; }
.androstep-panel pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 2px 0; color: inherit; }
.androstep-panel a { color: var(--jp-content-link-color); text-decoration: underline; }
.androstep-panel .wide { overflow-x: auto; }
"""

_CPU = ("cpu_active_ns", "cpu_idle_ns", "cpu_iowait_ns")

_RATES: Final = ("iops", "tps")


def lines(texts: Iterable[Element | str], class_: str = "") -> Element:
    """Return paragraphs."""
    return el("div", *(el("p", text) for text in texts), class_=class_)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> Element:
    """Return a table. The first `texts` columns are text, the others numbers."""
    classes = ["" if number < texts else "number" for number in range(len(header))]
    head = el("tr", *(el("th", word, scope="col", class_=kind) for word, kind in zip(header, classes, strict=True)))
    body = (el("tr", *(el("td", cell, class_=kind) for cell, kind in zip(row, classes, strict=True))) for row in rows)
    return el("div", el("table", el("caption", caption), head, *body), class_="wide")


# -- progress ---------------------------------------------------------------------------------------------------------


def progress(now: Progress) -> Element:
    """Return a bar for every repetition, relative to the highest rate of its test."""
    return el("div", *(_repetitions(now, test) for test in now.rates), class_="cards")


def _repetitions(now: Progress, test: str) -> Element:
    rates = now.rates[test]
    most = max(*rates, 1.0)
    goes_on = now.is_running and test == list(now.rates)[-1]
    rows = [
        el(
            "tr",
            el("td", f"{number}", class_="number"),
            el("td", quantities.in_unit(rate, "1/s"), class_="number"),
            el("td", el("div", class_="bar", style=f"width:{rate / most:.0%}"), class_="of-bar"),
            class_="goes-on" if goes_on and number == len(rates) else "",
        )
        for number, rate in enumerate(rates, 1)
    ]
    unit = "transactions" if test.startswith("SQLite") else "operations"
    head = el("tr", *(el("th", word, scope="col") for word in ("", unit, "")[:2]), el("td"))
    return el("table", el("caption", test), head, *rows)


# -- one result -------------------------------------------------------------------------------------------------------


def outcome(result: Result) -> Element:
    """Return the settings of a result, and the medians of every configuration."""
    tables = result.capture.bench
    runs = tables["bench_runs"]
    dims = distinguishing(runs, dimensions(runs))
    beside = {tuple(row[name] for name in dims): row for row in _beside(tables, dims).iter_rows(named=True)}
    metrics: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in bench.summarise(tables, by=dims).iter_rows(named=True):
        metrics.setdefault(tuple(row[name] for name in dims), {})[row["metric"]] = row
    rows = [_outcome(dims, key, found, beside.get(key, {})) for key, found in metrics.items()]
    header = ["test", "rate", "from", "to", "bytes", "p99", "CPU", "I/O wait", "switches", "invalid"]
    shown = table("Medians, with 95 % intervals", header, rows)
    few = [found["invalid_runs"] for found in metrics.values()]
    is_few = any(row["n"] - row["value"] < RELIABLE for row in few)
    notes = [TOO_FEW] if is_few else []
    return el("div", el("h3", result.name), *_settings(result), shown, *(el("p", line) for line in notes))


TOO_FEW: Final = (
    f"Fewer than {RELIABLE} valid repetitions: from and to are the minimum and the maximum, not a 95 % interval."
)


def _settings(result: Result) -> list[Element]:
    """Return the note, the storage, and the commands of a result."""
    facts, runs = result.capture.facts, result.capture.bench["bench_runs"]
    known = [facts["device"], facts["android_release"] and f"Android {facts['android_release']}", facts["kernel"]]
    places = ("fs_type", "directory", "device_model", "mount_options")
    of_place = [", ".join(runs[name].drop_nulls().unique(maintain_order=True)) for name in places]
    facts_shown = [result.when and f"{result.when} UTC", *known, *of_place]
    commands = runs["command"].drop_nulls().unique(maintain_order=True)
    asked = el("details", el("summary", "Commands of iobench"), *(el("pre", command) for command in commands))
    return [
        *([el("pre", result.note)] if result.note else []),
        el("p", " · ".join(str(part) for part in facts_shown if part)),
        asked,
    ]


def _beside(tables: Mapping[str, pl.DataFrame], dims: Sequence[str]) -> pl.DataFrame:
    """Return shares of CPU time, and the median of context switches, of each configuration's valid repetitions."""
    whole = tables["bench"].filter(thread=-1, part="op")
    switches = whole.select("run_id", "repeat", switches=pl.col("ctx_voluntary") + pl.col("ctx_involuntary"))
    # Sum over all repetitions: a short one may contain none of the kernel's 10 ms ticks.
    ticks = pl.sum_horizontal(pl.col(_CPU).sum())
    runs = tables["bench_runs"].filter("valid").join(switches, on=["run_id", "repeat"], how="left")
    return runs.group_by(dims).agg(
        *(pl.when(ticks > 0).then(pl.col(name).sum() / ticks).alias(name) for name in _CPU),
        switches=pl.col("switches").median(),
    )


def _outcome(
    dims: Sequence[str], key: Sequence[Any], metrics: Mapping[str, Mapping[str, Any]], beside: Mapping[str, Any]
) -> list[str]:
    """Return the cells of one configuration."""
    rate = metrics.get("tps") or metrics.get("iops") or {}
    invalid = metrics["invalid_runs"]
    return [
        _configuration(dict(zip(dims, key, strict=True))),
        *(quantities.in_unit(rate.get(name), "1/s") for name in ("value", "lo", "hi")),
        quantities.in_unit(metrics.get("bandwidth", {}).get("value"), "B/s"),
        quantities.in_unit(metrics.get("latency_p99", {}).get("value"), "ns"),
        *(quantities.in_unit(beside.get(name), "1") for name in ("cpu_active_ns", "cpu_iowait_ns")),
        quantities.in_unit(beside.get("switches"), ""),
        f"{invalid['value']:.0f} of {invalid['n']}",
    ]


def _configuration(row: Mapping[str, Any]) -> str:
    """Return a test with the parameters that distinguish it from others of the same result."""
    apart = {name: value for name, value in row.items() if name not in ("metric", "test") and value is not None}
    test = TITLES.get(row["test"]) or plot.paper.words(str(row["test"]))
    return ", ".join([test, *(headline.dimension(name, value) for name, value in apart.items())])


# -- several ----------------------------------------------------------------------------------------------------------


def compared(results: Sequence[Result], beside: Sequence[Recording] = ()) -> Compared:
    """Rank and compare the rates of results, optionally with those results of `beside` that have the same settings.

    Raises `InputError` if a result is passed twice.
    """
    recordings = [replace(Recording.of(one.capture), title=one.name) for one in results]
    measured = compare.measure_all([*recordings, *beside], "bench").filter(pl.col("metric").is_in(_RATES))
    own = {one.facts["capture_id"] for one in recordings}
    dims = dimensions_of(measured)
    asked = measured.filter(pl.col("capture_id").is_in(own)).select("metric", *dims).unique()
    measured = measured.join(asked, on=["metric", *dims], how="semi", nulls_equal=True)
    measured = measured.drop(set(dims) - set(distinguishing(measured, dims)))
    by = ["capture"]
    parts = [Measured(one.title, one.facts, measured) for one in (*recordings, *beside)]
    return Compared("bench", by, parts, measured, compare.ranking(measured, by=by), compare.compare(measured, by=by))


def comparison(result: Compared) -> Element:
    """Return a card for every configuration: bars with intervals, and a sentence on which of two results is faster."""
    cards = []
    order = {name: number for number, name in enumerate(result.measured["capture"].unique(maintain_order=True))}
    for key, rows in _by_configuration(result.compared, result.dims):
        sides = _same(result.ranked, key).sort(pl.col("capture").replace_strict(order, return_dtype=pl.Int64))
        drawn = plot.bench_devices(sides, device="capture", metric=key["metric"])
        title = _configuration(key)
        verdicts = [el("p", *_verdict(row)) for row in rows.iter_rows(named=True)]
        cards.append(_card(title, section.figure_of(drawn, f"{title}: rates with 95 % intervals"), *verdicts))
    summary = el("p", f"{result.compared.height:,} comparisons: {words.counts(result.compared)}.")
    assumed = el("details", el("summary", "How it was tested"), lines(words.assumptions(result.compared)))
    return el("div", el("h3", "Comparison"), summary, el("div", *cards, class_="cards"), assumed)


def _verdict(row: Mapping[str, Any]) -> list[Element | str]:
    """Return a sentence on which result is faster, and by how much."""
    first, second = row["group_first"], row["group_second"]
    if row["verdict"] not in ("higher", "lower"):
        return [f"{second} compared with {first}: {words.verdict(dict(row))}"]
    faster = "faster" if row["verdict"] == "higher" else "slower"
    of = "transactions" if row["metric"] == "tps" else "operations"
    bounds = "" if row["ratio_lo"] is None else f" (95 %: {row['ratio_lo']:.2f} to {row['ratio_hi']:.2f})"
    return [el("b", f"{second} is {faster} than {first}"), f": {row['ratio']:.2f} times as many {of}{bounds}"]


def ranking(result: Compared, own: Sequence[str]) -> Element:
    """Return a card for every configuration: the results in order, and the ranks of the results in `own`."""
    cards = []
    for key, rows in _by_configuration(result.ranked, result.dims):
        title, count = _configuration(key), rows.height
        drawn = plot.compare_ranking(rows, metric=key["metric"], group=["capture"])
        places = [
            el(
                "p",
                el("b", f"{row['capture']}: {words.rank(row)}"),
                f" of {count}, {quantities.in_unit(row['value'], '1/s')}",
            )
            for row in rows.filter(pl.col("capture").is_in(own)).iter_rows(named=True)
        ]
        cards.append(_card(title, section.figure_of(drawn, f"{title}: ranks and rates with 95 % intervals"), *places))
    listed = [
        [
            _configuration({name: row[name] for name in result.dims}),
            row["capture"],
            words.rank(row),
            *(quantities.in_unit(row[name], "1/s") for name in ("value", "lo", "hi")),
            f"{row['n']}",
        ]
        for row in result.ranked.iter_rows(named=True)
    ]
    header = ["test", "result", "rank", "rate", "from", "to", "repetitions"]
    whole = table("Ranks, with 95 % intervals of the rates", header, listed, 2)
    return el("div", el("div", *cards, class_="cards"), el("details", el("summary", "As a table"), whole))


def _card(title: str, *inside: Element) -> Element:
    return el("div", el("h3", title), *inside, class_="card")


def _by_configuration(rows: pl.DataFrame, dims: Sequence[str]) -> Iterable[tuple[dict[str, Any], pl.DataFrame]]:
    keys = ["metric", *dims]
    for key, of_key in rows.group_by(keys, maintain_order=True):
        yield dict(zip(keys, key, strict=True)), of_key


def _same(rows: pl.DataFrame, key: Mapping[str, Any]) -> pl.DataFrame:
    return rows.filter(pl.col(name).eq_missing(value) for name, value in key.items())
