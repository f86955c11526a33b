"""The report of a capture: one HTML page that stands by itself.

A report is an ordered list of sections (`SECTIONS`), each with the definitions of what it measures, tables, and
figures with captions (the pattern of pydarshan's job summary). The page holds no script and asks the network for
nothing, and the same capture gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import analysis, plot, replay, schema, units
from androstep_analysis.markup import Element, el
from androstep_analysis.plot import paper
from androstep_analysis.replay.tables import ALIKE

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

TOP: Final = 10
"""Processes, apps and files in the tables and figures of who moved most bytes."""

BINS: Final = 300
"""Time bins a rate is drawn in, at most."""


# --- What a report consists of --------------------------------------------------------------------------------------

Results = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` is given the result called `result`. The caption may hold `{bin}` and `{device}`."""

    name: str
    result: str
    draw: Callable[..., Axes]
    caption: str
    options: Mapping[str, Any] = field(default_factory=dict)
    in_time: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the report: `definitions` name entries of schemas/definitions.toml, which are printed as they are."""

    title: str
    definitions: tuple[str, ...]
    tables: tuple[tuple[str, Callable[[pl.DataFrame], list[Element]]], ...]
    figures: tuple[Figure, ...]


def write(capture: Capture, path: Path, *, figures: Path | None = None) -> None:
    """Write the report of `capture` to `path`; with `figures`, also every figure into that directory (`plot.save`).

    Missing directories are made, existing files replaced.
    """
    words, results = _results(capture)
    beside = _beside_requests(capture)
    has_more = beside or capture.about["replay"]
    parts = () if has_more and results["points"].is_empty() else SECTIONS
    if capture.about["replay"]:
        parts = (REPLAY, *parts)
        results |= _replay_results(capture)
    provenance = _provenance(capture)
    page = _page(
        capture.title,
        [
            el("h1", capture.title),
            *_recorded(capture),
            *_coverage(capture),
            *beside,
            *(element for part in parts for element in _section(part, results, words, provenance, capture, figures)),
            *_origin(provenance),
        ],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _results(capture: Capture) -> tuple[dict[str, str], dict[str, pl.DataFrame]]:
    """The words captions need, and every result table of the report under the name its figures use."""
    requests, io = capture.requests, capture.io
    bin_ns = _bin(capture.first_ns, capture.last_ns)
    device = requests.group_by("dev").len().sort(["len", "dev"], descending=[True, False]).head(1).collect()
    busiest = device["dev"][0] if device.height else 0
    of_files = io.filter(pl.col("block_type") == "data")
    apps = analysis.volume(of_files, by=("package",))
    results = {
        "mix": analysis.mix(requests),
        "rwbs": analysis.rwbs(requests),
        "sizes": analysis.sizes(requests),
        "blocktypes": analysis.blocktypes(io),
        "metadata_fraction": analysis.metadata_fraction(io),
        "filetypes": analysis.filetypes(io),
        "apps": apps if apps["package"].count() else apps.clear(),
        "processes": analysis.volume(io, by=("owner_comm",)),
        "files": analysis.volume(of_files, by=("path",)),
        "locality": analysis.locality(requests),
        "cumulative": analysis.cumulative(requests),
        "sync": analysis.sync(io),
        "map_sources": analysis.evidence(io, "map_source"),
        "owners_via": analysis.evidence(io, "owner_via"),
        "latency": analysis.latency(requests),
        "latency_distribution": analysis.latency_distribution(requests),
        "rate": analysis.rate(requests, bin_ns=bin_ns),
        "points": requests.select(POINTS).collect(),
        "device": requests.filter(pl.col("dev") == busiest).select(POINTS).collect(),
    }
    return {"bin": _duration(bin_ns), "device": units.format_dev(busiest)}, results


def _replay_results(capture: Capture) -> dict[str, pl.DataFrame]:
    """The result tables of section `REPLAY`."""
    tables = capture.replay
    measured = replay.metrics(tables)
    are_alike = tables["replay_runs"].select(ALIKE).n_unique() == 1
    of_place = measured.with_columns(place=pl.col("fs_type").fill_null("unknown") if are_alike else "run_id")
    return {
        "replays": measured.filter(pl.col("call").is_null()),
        "replay_io_time": replay.over_repetitions(of_place).filter(metric="io_time"),
        "replay_latency": measured.filter(pl.col("call").is_not_null()),
        "replay_lateness": replay.lateness_distribution(tables),
    }


POINTS: Final = ("dev", "sector", "nr_sectors", "op", "queue_ns", "issue_ns", "complete_ns")
"""Columns of `requests` that the figures of single requests are drawn from."""


def _bin(first_ns: int | None, last_ns: int | None) -> int:
    """The shortest of 1, 2, 5 × 10^k ns that divides the window into at most `BINS` bins."""
    span = max(1, (last_ns or 0) - (first_ns or 0))
    power: int = 10 ** max(0, len(str(span // BINS)) - 1)
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power * BINS >= span)


# --- The parts of the page ------------------------------------------------------------------------------------------


def _recorded(capture: Capture) -> list[Element]:
    facts = [(title, capture.facts.get(name)) for name, title in _FACTS.items()]
    if capture.first_ns is None or capture.last_ns is None:
        window = "no times" if capture.events else "no events"
    else:
        window = f"{_duration(capture.last_ns - capture.first_ns)}, from {capture.first_ns:,} to {capture.last_ns:,} ns"
    known = [(title, str(value)) for title, value in facts if value is not None]
    known += [
        ("Window", window),
        ("Format", capture.format),
        ("Events", f"{sum(capture.events.values()):,} (kinds: {len(capture.events):,})"),
    ]
    unknown = [title.lower() for title, value in facts if value is None]
    rows = [el("tr", el("th", title, scope="row"), el("td", value)) for title, value in known]
    return [
        el("h2", "What was recorded"),
        el("table", el("tbody", *rows), class_="facts"),
        *([el("p", f"Not recorded: {', '.join(unknown)}.")] if unknown else []),
    ]


_FACTS = {
    "device": "Device",
    "soc": "System on chip",
    "android_release": "Android release",
    "sdk": "API level",
    "build_fingerprint": "Build",
    "kernel": "Kernel",
    "storage_model": "Storage",
    "fs_type": "Filesystem",
    "encryption": "Encryption",
    "workload": "Workload",
    "rooted": "Root",
    "clock": "Clock",
    "capture_id": "Capture",
}


def _coverage(capture: Capture) -> list[Element]:
    """How much of the I/O the report can speak of, and what is missing, in words."""
    statements = [
        el("li", _COVERAGE.get(metric, "{} (" + metric + ").").format(_bytes_share(value)))
        for metric, value in capture.coverage.select("metric", "value").iter_rows()
    ]
    losses = [el("li", f"{loss.message} ({loss.count:,})") for loss in capture.losses]
    if capture.lost_events:
        losses.insert(
            0, el("li", f"The recorder lost {capture.lost_events:,} events: what they would have told is missing.")
        )
    rows = capture.about["rows"]
    has_more = capture.about["replay"] or any(rows[name] for name in ("syscalls", "commands", "samples"))
    of_requests = rows["requests"] or not has_more
    return [
        el("h2", "How far it can be trusted"),
        *([el("ul", *statements), *_definitions(("coverage", "counted"))] if of_requests else []),
        el("ul", *losses, class_="losses")
        if losses
        else el("p", "The recorder reports no lost event, and everything in its files could be read."),
    ]


_COVERAGE = {
    "matched": "Issue and completion were both seen for {}.",
    "mapped": "What the blocks held is known as a fact for {}.",
    "inferred": "It is inferred from an image taken at another time for {}.",
    "owned": "The process on whose behalf they moved is known for {}.",
}


def _beside_requests(capture: Capture) -> list[Element]:
    """What a capture has beside requests: system calls, commands to the device, counters."""
    rows = capture.about["rows"]
    elements: list[Element] = []
    if rows["syscalls"]:
        calls = analysis.calls(capture.syscalls).select(
            pl.col("call").alias("Call"),
            _formatted("count", _count).alias("Calls"),
            _formatted("failed", _count).alias("Failed"),
            _formatted("bytes", _bytes).alias("Read or written"),
            _formatted("duration_ns", _duration).alias("Time"),
        )
        paths = analysis.called_paths(capture.syscalls).select(
            pl.col("path").alias("Path"),
            _formatted("count", _count).alias("Calls"),
            _formatted("read", _bytes).alias("Read"),
            _formatted("written", _bytes).alias("Written"),
        )
        elements += [el("h2", "System calls"), *_first(calls, 1), *_first(paths, 1)]
    if rows["commands"]:
        commands = analysis.commands(capture.commands).select(
            pl.col("device").alias("Device"),
            pl.col("event", "step").cast(pl.String).name.map(str.title),
            pl.format("0x{}", pl.col("opcode").map_elements("{:02x}".format, return_dtype=pl.String)).alias("Opcode"),
            _formatted("count", _count).alias("Events"),
            _formatted("bytes", _bytes).alias("Bytes"),
        )
        elements += [el("h2", "Commands to the device"), *_first(commands, 4)]
    if rows["samples"]:
        elements += _sampled(capture.samples)
        counters = analysis.counters(capture.samples).select(
            pl.col("counter").alias("Counter"),
            pl.coalesce(_formatted("dev", _device), pl.col("pid").cast(pl.String), "instance", pl.lit("")).alias("of"),
            pl.col("unit").alias("Unit"),
            *(_formatted(name, _count).alias(name.title()) for name in ("count", "least", "greatest", "last")),
        )
        elements += [el("h2", "Counters"), *_first(counters, 3)]
    return elements


def _sampled(samples: pl.LazyFrame) -> list[Element]:
    """What the CPUs did, for whom, and how busy disks were, as far as samples tell."""
    cpu = analysis.cpu(samples)
    if cpu.is_empty():
        return []
    wide = cpu.pivot("metric", index="state", values="value", maintain_order=True).select(
        pl.col("state").cast(pl.String).alias("State"),
        _formatted("cpu_time", _seconds).alias("Time"),
        _formatted("cpu_share", _ratio).alias("Share"),
    )
    users = analysis.cpu_by_process(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    whose = users.select(
        pl.col("comm").fill_null("unknown").alias("Process"), _formatted("value", _seconds).alias("Time")
    )
    busy = analysis.busyness(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    disks = busy.select(pl.col("disk").fill_null("").alias("Disk"), _formatted("value", _ratio).alias("Busy"))
    return [
        el("h2", "CPU time"),
        *_definitions(("cpu", "busyness")),
        *(_first(wide, 1) + _first(whose, 1) + _first(disks, 1)),
    ]


def _seconds(value: float) -> str:
    return f"{value:,.2f} s"


def _ratio(value: float) -> str:
    return f"{value:.1%}"


def _first(cells: pl.DataFrame, names: int) -> list[Element]:
    """The `TOP` first rows of a table (`_table`), and how many more there are."""
    more = cells.height - TOP
    rest = [el("p", f"{more:,} more are not shown.")] if more > 0 else []
    return [_table(cells.head(TOP), names), *rest] if cells.height else []


def _device(dev: float) -> str:
    return units.format_dev(int(dev))


def _section(
    part: Section,
    results: Results,
    words: Mapping[str, str],
    provenance: Mapping[str, Any],
    capture: Capture,
    figures: Path | None,
) -> list[Element]:
    tables = [(results[name], render) for name, render in part.tables if not results[name].is_empty()]
    known = [figure for figure in part.figures if not results[figure.result].is_empty()]
    if not tables and not known:
        return [el("h2", part.title), el("p", "Nothing of this is known in this capture.")]
    elements = [el("h2", part.title), *_definitions(part.definitions)]
    elements += [element for table, render in tables for element in render(table)]
    drawn = []
    for figure in known:
        table = results[figure.result]
        origin = {"origin_ns": capture.first_ns} if figure.in_time else {}
        ax = figure.draw(table, **figure.options, **origin)
        caption = figure.caption.format_map(words)
        if figures is not None:
            about = {"figure": figure.name, "caption": caption, "definitions": _texts(part.definitions)}
            plot.save(ax, figures / figure.name, table=table, provenance={**about, **provenance})
        image = base64.b64encode(plot.png(ax)).decode("ascii")
        source = f"data:image/png;base64,{image}"
        drawn.append(el("figure", el("img", src=source, alt=caption), el("figcaption", caption)))
    return [*elements, el("div", *drawn, class_="figures")]


def _origin(provenance: Mapping[str, Any]) -> list[Element]:
    sources = [el("tr", el("td", name), el("td", digest)) for name, digest in provenance["source_sha256"].items()]
    versions = ", ".join(f"{name} {version}" for name, version in provenance["versions"].items())
    return [
        el("h2", "Provenance"),
        el("p", f"Made by {versions}. Definitions: sha256 {provenance['definitions_sha256']}."),
        el(
            "table",
            el("thead", el("tr", el("th", "Source", scope="col"), el("th", "sha256", scope="col"))),
            el("tbody", *sources),
            class_="hashes",
        ),
    ]


def _provenance(capture: Capture) -> dict[str, Any]:
    packages = ("androstep-analysis", "polars", "numpy", "matplotlib")
    definitions = (schema.directory() / "definitions.toml").read_bytes()
    return {
        "capture_id": capture.facts["capture_id"],
        "title": capture.title,
        "source_sha256": json.loads(capture.facts["source_sha256"]),
        "definitions_sha256": hashlib.sha256(definitions).hexdigest(),
        "versions": {name: importlib.metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def _definitions(names: Sequence[str]) -> list[Element]:
    """The definitions as schemas/definitions.toml words them."""
    if not names:
        return []
    entries = []
    for name in names:
        definition = schema.definitions()[name]
        source = f" [{definition['source']}]" if "source" in definition else ""
        entries += [el("dt", definition["title"]), el("dd", definition["text"] + source)]
    return [el("dl", *entries)]


def _texts(names: Sequence[str]) -> dict[str, str]:
    return {name: schema.definitions()[name]["text"] for name in names}


def _page(title: str, body: Sequence[Element]) -> str:
    # The policy stands beside the escaping, not in its place: a page without scripts can forbid them.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title} · AndroStep"),
        el("style", _CSS),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


# Free of line feeds and of the characters that HTML escapes: inside <style> nothing is unescaped again.
_CSS = " ".join(
    (
        "body {font: 15px/1.45 system-ui; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem}",
        "h1 {font-size: 1.6rem; overflow-wrap: anywhere}",
        "h2 {font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc}",
        "table {border-collapse: collapse; margin: 1rem 0; font-size: .9rem}",
        "th, td {padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #eee}",
        "td {overflow-wrap: anywhere; unicode-bidi: isolate}",
        "th.number, td.number {text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums}",
        "thead th {border-bottom: 1px solid #888}",
        "table.hashes td {font: .75rem ui-monospace, monospace}",
        "dl {font-size: .85rem; color: #444; border-left: 3px solid #ccc; padding-left: .8rem}",
        "dt {font-weight: 600}",
        "dd {margin: 0 0 .4rem}",
        "ul.losses {background: #fff3d6; padding: .6rem 2rem; overflow-wrap: anywhere}",
        ".figures {display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1.5rem}",
        "figure {margin: 0; break-inside: avoid}",
        "img {max-width: 100%; width: 26rem}",
        "figcaption {font-size: .85rem; color: #444}",
        "@media print {body {font-size: 10pt; max-width: none; margin: 0}}",
        "h2 {break-after: avoid} tr {break-inside: avoid}",
    )
)


# --- Tables ---------------------------------------------------------------------------------------------------------


def _shares(*dims: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders count, bytes and their shares, a row for each combination of `dims`."""
    metrics = {"count": "Requests", "count_ratio": "of requests", "bytes": "Bytes", "bytes_ratio": "of bytes"}
    return lambda table: [_table(_wide(table, dims, metrics), len(dims)), *_known(table)]


def _fraction(table: pl.DataFrame) -> list[Element]:
    """Renders `analysis.metadata_fraction`."""
    metrics = {
        "count_ratio": "Metadata, of requests",
        "bytes_ratio": "Metadata, of bytes",
        "journal_count_ratio": "Journal, of requests",
        "journal_bytes_ratio": "Journal, of bytes",
    }
    return [_table(_wide(table, ("op",), metrics), 1)]


def _quantiles(table: pl.DataFrame) -> list[Element]:
    """Renders `analysis.latency`: a row per step and operation, with how much of it was measured."""
    names = table["quantile"].cast(pl.String).unique(maintain_order=True).to_list()
    wide = table.pivot(on="quantile", index=["step", "op", "n", "coverage"], values="value", maintain_order=True)
    shown = wide.select(
        pl.col("step").cast(pl.String).alias("Step"),
        pl.col("op").cast(pl.String).alias("Operation"),
        _formatted("n", _count).alias("Requests"),
        _formatted("coverage", _per_cent).alias("of bytes"),
        *(_formatted(name, _duration) for name in names),
    )
    return [_table(shown, 2)]


def _volume(what: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders `analysis.volume`: the `TOP` rows with most bytes read and written."""

    def render(table: pl.DataFrame) -> list[Element]:
        name = next(column for column in table.columns if column not in (*paper.MEASURES, "op"))
        moved = table.filter(pl.col("metric") == "bytes", pl.col("op").is_in(["read", "write"]))
        sums = (
            moved.group_by(name)
            .agg(
                read=pl.col("value").filter(pl.col("op") == "read").sum(),
                written=pl.col("value").filter(pl.col("op") == "write").sum(),
            )
            .with_columns(share=(pl.col("read") + pl.col("written")) / (pl.col("read") + pl.col("written")).sum())
            .sort(["share", name], descending=[True, False])
        )
        shown = sums.head(TOP).select(
            pl.col(name).alias(what),
            _formatted("read", _bytes).alias("Read"),
            _formatted("written", _bytes).alias("Written"),
            _formatted("share", _per_cent).alias("of bytes"),
        )
        more = sums.height - shown.height
        rest = [el("p", f"{more:,} more are not shown.")] if more else []
        return [_table(shown, 1), *rest, *_known(table)]

    return render


def _wide(table: pl.DataFrame, dims: Sequence[str], metrics: Mapping[str, str]) -> pl.DataFrame:
    """A tidy table with its `metrics` as columns of formatted text under the names they map to."""
    wide = table.pivot(on="metric", index=list(dims), values="value", maintain_order=True)
    format_of = {"count": _count, "bytes": _bytes}
    return wide.select(
        *(pl.col(dim).cast(pl.String).alias(_TITLES.get(dim, dim)) for dim in dims),
        *(
            _formatted(metric, format_of.get(metric, _per_cent)).alias(title)
            for metric, title in metrics.items()
            if metric in wide.columns
        ),
    )


_TITLES = {
    "op": "Operation",
    "block_type": "Block type",
    "file_type": "File type",
    "class": "Class",
    "map_source": "Source",
    "owner_via": "Rule",
}


def _table(cells: pl.DataFrame, names: int) -> Element:
    """A frame of text as a table; the first `names` columns hold names, the others numbers. Null is unknown."""

    def cell(tag: str, column: int, text: str | None, **attributes: str) -> Element:
        kind = {} if column < names else {"class": "number"}
        empty = el("i", "unknown") if column < names else "–"
        return Element(tag, (empty if text is None else text,), {**attributes, **kind})

    head = [cell("th", i, name, scope="col") for i, name in enumerate(cells.columns)]
    body = [el("tr", *(cell("td", i, text) for i, text in enumerate(row))) for row in cells.iter_rows()]
    return el("table", el("thead", el("tr", *head)), el("tbody", *body))


def _replays(table: pl.DataFrame) -> list[Element]:
    """A row for each replay, of the metrics of its whole."""
    name = pl.concat_str("metric", pl.coalesce(pl.col("quantile").cast(pl.String), pl.lit("")), separator=" ")
    diverged = table.filter(metric="divergences").group_by("run_id", "fs_type").agg(pl.col("value").sum())
    rows = pl.concat(
        [
            table.filter(pl.col("metric") != "divergences").select(
                "run_id", "fs_type", "value", name=name.str.strip_chars()
            ),
            diverged.select("run_id", "fs_type", "value", name=pl.lit("divergences")),
        ]
    )
    wide = rows.pivot("name", index=["run_id", "fs_type"], values="value", maintain_order=True)
    cells = wide.select(
        pl.col("run_id").alias("Replay"),
        pl.col("fs_type").alias("Filesystem"),
        *(
            _formatted(name, format_).alias(title)
            for name, (title, format_) in _OF_REPLAYS.items()
            if name in wide.columns
        ),
    )
    return [_table(cells, 2)]


def _replayed_calls(table: pl.DataFrame) -> list[Element]:
    """A row for each call, of all replays together; the quantiles are those of the slowest replay."""
    sums = table.filter(pl.col("metric").is_in(["operations", "io_time", "divergences"]))
    wide = sums.group_by("call", "metric").agg(pl.col("value").sum()).pivot("metric", index="call", values="value")
    slowest = (
        table.filter(metric="latency")
        .group_by("call", "quantile")
        .agg(pl.col("value").max())
        .pivot("quantile", index="call", values="value")
    )
    rows = wide.join(slowest, on="call").sort("io_time", "call", descending=[True, False])
    cells = rows.select(
        pl.col("call").cast(pl.String).alias("Call"),
        _formatted("operations", _count).alias("Operations"),
        _formatted("io_time", _duration).alias("I/O time"),
        *(_formatted(name, _duration).alias(name) for name in ("p50", "p99", "max")),
        _formatted("divergences", _count).alias("Diverged"),
    )
    return [_table(cells, 1), el("p", "Quantiles are those of the replay in which they are greatest.")]


def _known(table: pl.DataFrame) -> list[Element]:
    """The coverage of a result, where it is one number and not simply everything."""
    values = table["coverage"].drop_nulls().unique()
    if len(values) != 1 or values[0] == 1:
        return []
    return [el("p", f"Known for {_bytes_share(values[0])}.")]


def _formatted(column: str, format_: Callable[[float], str]) -> pl.Expr:
    return pl.col(column).map_elements(format_, return_dtype=pl.String)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return paper.size(value)


def _per_cent(ratio: float) -> str:
    """Per cent with one decimal; what is not all is never rounded to all, what is something never to nothing."""
    if 0.9995 <= ratio < 1:
        return "> 99.9 %"
    if 0 < ratio < 0.0005:
        return "< 0.1 %"
    return f"{ratio:.1%}".replace("%", " %")


def _bytes_share(ratio: float | None) -> str:
    return "an unknown share of the bytes" if ratio is None else f"{_per_cent(ratio)} of the bytes"


def _duration(ns: float) -> str:
    for divisor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= divisor:
            return f"{ns / divisor:,.4g} {unit}" if ns < 10**13 else f"{ns / divisor:,.0f} {unit}"
    return f"{ns:.0f} ns"


_OF_REPLAYS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "elapsed": ("Elapsed", _duration),
    "recorded": ("Recorded", _duration),
    "io_time": ("I/O time", _duration),
    "operations": ("Operations", _count),
    "divergences": ("Diverged", _count),
    "lateness p50": ("Late p50", _duration),
    "lateness p99": ("p99", _duration),
    "lateness max": ("max", _duration),
    "cpu_ratio": ("CPU", _per_cent),
}
"""Metrics of a replay, and how a table shows them."""


# --- The report -----------------------------------------------------------------------------------------------------


def _four(name: str, result: str, draw: Callable[..., Axes], what: str) -> tuple[Figure, ...]:
    """The four graphs of the MOST Viewer: requests and bytes, as they are and in per cent."""
    return tuple(
        Figure(f"{name}_{basis}{suffix}", result, draw, caption, {"basis": basis, "relative": relative})
        for basis, noun in (("count", "Requests"), ("bytes", "Bytes"))
        for relative, suffix, caption in (
            (False, "", f"{noun} by {what}, without empty flushes."),
            (True, "_share", f"{noun} by {what}, in per cent of the operation's."),
        )
    )


def _lateness(table: pl.DataFrame) -> Axes:
    """Of one replay the parts of its lateness, of several the lateness of each."""
    return plot.replay_lateness(table, series="part" if table["run_id"].n_unique() == 1 else "run_id")


REPLAY: Final = Section(
    "Replay",
    ("replay_io_time", "replay_lateness", "replay_divergence", "replay_cpu"),
    (("replays", _replays), ("replay_latency", _replayed_calls)),
    (
        Figure(
            "replay_io_time",
            "replay_io_time",
            plot.replay_io_time,
            "Total I/O time of a replay, and of the calls that take most of it: median of the replays on each "
            "filesystem, with the interval of the median (below six replays: least and greatest). Replays of "
            "different programs or modes stand apart.",
        ),
        Figure(
            "replay_lateness",
            "replay_lateness",
            _lateness,
            "Cumulative distribution of lateness, of operations that were due: of one replay with the parts it is made "
            "of, of several a line each. Time is logarithmic; what began within 1 µs stands at the left end.",
        ),
    ),
)
"""What a report of replays begins with."""

SECTIONS: Final = (
    Section(
        "Reads, writes and the rest",
        (),
        (("mix", _shares("op")),),
        (
            Figure(
                "mix",
                "mix",
                plot.mix,
                "Shares of the operations in the requests that carry data, and in their bytes.",
            ),
            Figure(
                "rwbs",
                "rwbs",
                plot.rwbs_bars,
                "Requests by operation and flag letters as the kernel prints them (rwbs): R read, W write, D discard, "
                "a leading F preflush, a trailing F FUA, S sync, M meta, A readahead; FF is an empty flush.",
            ),
            Figure(
                "sizes",
                "sizes",
                plot.size_histogram,
                "Requests by size. A bin holds the sizes from its own to just below that of the next one.",
            ),
        ),
    ),
    Section(
        "Block types",
        ("block_type", "metadata_fraction", "image"),
        (("blocktypes", _shares("op", "block_type")), ("metadata_fraction", _fraction)),
        _four("block_types", "blocktypes", plot.block_types, "block type"),
    ),
    Section(
        "File types",
        ("file_type",),
        (("filetypes", _shares("op", "file_type")),),
        _four("file_types", "filetypes", plot.file_types, "type of the file whose data moved"),
    ),
    Section(
        "Processes",
        ("owner",),
        (("processes", _volume("Process")),),
        (
            Figure(
                "top_processes",
                "processes",
                plot.top_volume,
                "Bytes read and written on behalf of each process, by its name (the kernel keeps 15 characters); the "
                "filesystem's own threads stand under theirs.",
            ),
        ),
    ),
    Section(
        "Apps",
        (),
        (("apps", _volume("Package")),),
        (
            Figure(
                "top_apps",
                "apps",
                plot.top_volume,
                "Bytes of data in the directories of each Android package; files of none, such as shared media, and "
                "deleted files without a name are unknown here.",
            ),
        ),
    ),
    Section(
        "Files",
        (),
        (("files", _volume("File")),),
        (
            Figure(
                "top_files",
                "files",
                plot.top_volume,
                "Bytes of data read from and written to each file; data blocks only. Long paths lose their middle, "
                "and characters the font lacks are boxes.",
            ),
        ),
    ),
    Section(
        "Sequential and random",
        ("consecutive", "forward", "random", "cumulative"),
        (("locality", _shares("op", "class")),),
        (
            Figure(
                "locality",
                "locality",
                plot.locality,
                "Share of consecutive, forward and random requests. Forward includes consecutive; consecutive and "
                "random add up to 100 %.",
            ),
            Figure(
                "cumulative",
                "cumulative",
                plot.cumulative,
                "Bytes moved so far over time of issue, sequentially (consecutive) and at random; logarithmic, as in "
                "Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.",
                in_time=True,
            ),
            Figure(
                "sector_over_time",
                "device",
                plot.sector_over_time,
                "First sector of each request over time of issue, on device {device}, which served most requests. "
                "Of very many requests the figure shows the number per cell, and says so above it.",
                in_time=True,
            ),
        ),
    ),
    Section(
        "Synchronous and buffered writes",
        ("sync",),
        (("sync", _shares("class")),),
        (Figure("sync", "sync", plot.sync_bars, "Shares of synchronous and buffered writes, by requests and bytes."),),
    ),
    Section(
        "Latency",
        ("latency",),
        (("latency", _quantiles),),
        tuple(
            Figure(
                f"latency_{step.lower()}",
                "latency_distribution",
                plot.latency_cdf,
                f"Cumulative distribution of latency {step}: {words}. Time is logarithmic.",
                {"step": step},
            )
            for step, words in (
                ("Q2D", "from queueing to issue"),
                ("D2C", "from issue to completion"),
                ("Q2C", "from queueing to completion"),
            )
        ),
    ),
    Section(
        "Over time",
        ("rate",),
        (),
        (
            Figure("iops", "rate", plot.rate, "Requests completed per second, in bins of {bin}.", in_time=True),
            Figure(
                "bandwidth",
                "rate",
                plot.rate,
                "Bytes completed per second, in bins of {bin}.",
                {"metric": "bandwidth"},
                in_time=True,
            ),
            Figure(
                "size_over_time",
                "points",
                plot.size_over_time,
                "Size of each request over time of issue. Of very many requests the figure shows the number per cell, "
                "and says so above it.",
                in_time=True,
            ),
        ),
    ),
    Section("What block types and files rest on", ("image",), (("map_sources", _shares("op", "map_source")),), ()),
    Section("What owners rest on", ("owner",), (("owners_via", _shares("op", "owner_via")),), ()),
)
"""The report, in order. To add a figure, add it here and its table to `_results`."""
