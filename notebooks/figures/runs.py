"""Tables and figures of kim.ipynb and luo.ipynb from datasets/apps: runs of apps, and the storage activity during them.

A *run* is one repetition of a workload named "APP PLACE", from its first step to its last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from papers import Paper, Stated

from androstep_analysis import bench, measures, perceived, whatif
from androstep_analysis.replay import device as device_replay
from androstep_analysis.stats.exact import ratio

APPS = {"web": "Web", "install": "Install", "messages": "Messages"}
DEVICES = {"disk": "disk", "memory": "memory", "card": "card (emulated)"}
CONFIGURATIONS = {"default": "default", "no_sync": "no sync", "no_journal": "no journal", "both": "both"}
"""Labels of the parts of workload names in datasets/apps."""

TESTS = {
    "sqlite_insert": "insert",
    "sqlite_update": "update",
    "sqlite_delete": "delete",
    "rand_read": "random read",
    "rand_write": "random write",
}
"""The tests of iobench that Luo et al. used, in their order."""

STEPS = {"web": "load", "install": "install", "messages": "text"}
"""The kind of step in each app that its user waits for."""

_NS_PER_S = 1_000_000_000


def tables(files: Sequence[Path]) -> dict[str, pl.DataFrame]:
    """Return the tables of a recording among these files, by name."""
    return {path.stem: pl.read_parquet(path) for path in files if path.suffix == ".parquet"}


def about(files: Sequence[Path], part: str) -> dict[str, Any]:
    """Return the entry of a part of datasets/apps in recorded.json."""
    (manifest,) = (path for path in files if path.name == "recorded.json")
    known: dict[str, Any] = json.loads(manifest.read_text("utf-8"))["parts"][part]
    return known


def runs(steps: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each run, in order of time: columns app, place, repeat, start_ns, end_ns, steps."""
    words = pl.col("workload").str.splitn(" ", 2).struct
    return (
        steps.with_columns(app=words.field("field_0"), place=words.field("field_1"))
        .group_by("app", "place", "repeat")
        .agg(
            start_ns=pl.col("ts_ns").min(),
            end_ns=pl.col("end_ns").max(),
            steps=pl.len(),
        )
        .sort("start_ns")
    )


def run_times(found: pl.DataFrame) -> pl.DataFrame:
    """Return the mean time of runs by app and place.

    lo and hi are one standard deviation away (Kim et al., Figure 4).
    """
    seconds = (pl.col("end_ns") - pl.col("start_ns")) / _NS_PER_S
    times = found.group_by("app", "place", maintain_order=True).agg(
        value=seconds.mean(), deviation=seconds.std(), n=pl.len()
    )
    return times.select(
        "app",
        "place",
        "value",
        "n",
        metric=pl.lit("run_time"),
        unit=pl.lit("s"),
        lo=pl.col("value") - pl.col("deviation"),
        hi=pl.col("value") + pl.col("deviation"),
    )


def after_first(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the mean time of web's runs from the second page on, by place: columns app, place, value in s.

    A browser that was just started sets up its profile while it loads the first page.
    """
    rest = runs(steps.filter(pl.col("workload").str.starts_with("web"), pl.col("number") > 0))
    return run_times(rest).select("app", "place", "value")


def cpu(samples: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Return the mean CPU time of runs by state, app and place, for the whole machine."""
    parts = [
        measures.cpu(measures.clipped(samples.lazy(), run["start_ns"], run["end_ns"]))
        .filter(metric="cpu_time")
        .with_columns(app=pl.lit(APPS[run["app"]]), place=pl.lit(DEVICES[run["place"]]))
        for run in found.iter_rows(named=True)
    ]
    keys = ["metric", "app", "place", "state", "unit"]
    means = pl.concat(parts).group_by(keys, maintain_order=True)
    # Rounded, because sums of floats depend on their order.
    return means.agg(pl.col("value").mean().round(9), pl.col("n").sum(), pl.col("coverage").min())


def responded(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the response time of an app's steps by configuration (Luo et al., Figure 3), by `perceived.responses`.

    Each run counts as its mean step, because the steps of a run are not independent: the first page of a new browser is
    slow.
    """
    words = pl.col("workload").str.splitn(" ", 2).struct
    waited = pl.col("end_ns") - pl.col("ts_ns")
    means = (
        steps.with_columns(app=words.field("field_0"), place=words.field("field_1"))
        .filter(pl.col("what").cast(pl.String).is_in(list(STEPS.values())), pl.col("outcome") == "completed")
        .group_by("app", "place", "repeat")
        .agg(latency_lo_ns=waited.mean(), latency_hi_ns=waited.mean())
    )
    # Rounded, because sums of floats depend on their order.
    table = perceived.responses(means, by=("app", "place")).with_columns(pl.col("value", "lo", "hi").round(3))
    order = pl.col("app").replace_strict({name: at for at, name in enumerate(APPS)})
    place = pl.col("place").replace_strict({name: at for at, name in enumerate(CONFIGURATIONS)})
    return table.sort(order, place)


def predicted(recorded: Mapping[str, pl.DataFrame], dev: int, times: pl.DataFrame, model: pl.DataFrame) -> pl.DataFrame:
    """Predict response times of the messenger after each change, from a recording on `dev`, the default.

    The prediction is the measured time minus the device time saved for synchronous requests, by the model. The columns
    are app, place (as `CONFIGURATIONS`), value in ns.
    """
    found = runs(recorded["steps"]).filter(app="messages", place="default")
    parts = [
        {
            name: recorded[name].lazy().filter(_within(name, run) & (pl.col("dev") == dev))
            for name in ("requests", "io", "extents")
        }
        for run in found.iter_rows(named=True)
    ]
    works = [_works(part, model) for part in parts]
    measured = times.filter(app="messages", place="default")["value"].item()
    count = found["steps"].sum()
    saved = {place: sum(work["default"] - work[place] for work in works) / count for place in works[0]}
    rows = [{"app": "messages", "place": place, "value": measured - less} for place, less in saved.items()]
    return pl.DataFrame(rows).filter(pl.col("place") != "default")


def _within(table: str, run: Mapping[str, Any]) -> pl.Expr:
    """Return whether a row is within a run. All extents are included, because they have times of their own."""
    times = pl.coalesce("issue_ns", "queue_ns") if table != "extents" else pl.lit(run["start_ns"])
    return times.is_between(run["start_ns"], run["end_ns"])


def _works(tables_of: Mapping[str, pl.LazyFrame], model: pl.DataFrame) -> dict[str, float]:
    """Return the device time for synchronous requests in ns, unchanged and after each change."""
    requests, io, extents = (tables_of[name] for name in ("requests", "io", "extents"))
    made = {
        "default": requests,
        "no_sync": whatif.without_fsync(requests, io, extents).requests.lazy(),
        "no_journal": whatif.without_journal(requests, io).requests.lazy(),
    }
    works = {}
    for place, after in made.items():
        awaited = after.filter(pl.col("sync") | (pl.col("op") == "flush")).collect()
        if awaited.is_empty():
            works[place] = 0.0
            continue
        totals = whatif.predict(device_replay.program(awaited.lazy()), model).totals
        works[place] = float(totals.filter(metric="elapsed")["value"].item())
    return works


def reduced(times: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    """Return the per cent by which each configuration is faster than the default, with the paper's for similar apps."""
    base = times.filter(place="default").select("app", base="value")
    here = times.filter(pl.col("place") != "default").join(base, on="app", maintain_order="left")
    here = here.select("app", "place", here=(1 - pl.col("value") / pl.col("base")) * 100)
    theirs = {"no_sync": "SQLITE_NO_SYNC", "no_journal": "EXT4_NO_JOURNAL", "both": "both"}
    names = {"web": "Web", "messages": "Messenger"}
    condition = pl.format("{}, {}", pl.col("app").replace(names), pl.col("place").replace(theirs))
    paper = stated.filter(metric="latency reduced by").pivot("device", index="condition", values="value")
    return here.with_columns(condition=condition).join(paper, on="condition", how="left", maintain_order="left")


def loading(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the states of a page loader as views (`perceived`): busy from the request of a page until it is loaded."""
    asked = steps.select(at="ts_ns", state=pl.format("loading {}", "label"), busy=pl.lit(True))
    there = steps.select(at="end_ns", state="label", busy=pl.lit(False))
    changes = pl.concat([asked, there]).sort("at")
    return changes.select(
        "state",
        "busy",
        from_lo_ns="at",
        from_hi_ns="at",
        until_ns=pl.col("at").shift(-1).fill_null(pl.col("at").last() + _NS_PER_S),
    )


# -- the papers' tables -----------------------------------------------------------------------------------------------


def raw(files: Sequence[Path], stated: pl.DataFrame) -> pl.DataFrame:
    """Return Table 2 of Kim et al.: MB/s of each device here, and of the paper's cards."""
    kinds = {"seq_read": "sequential read", "seq_write": "sequential write"}
    kinds |= {"rand_read": "random read", "rand_write": "random write"}
    here = pl.concat(
        bench.summarise(bench.read(path).tables, by=("test",))
        .filter(metric="bandwidth")
        .select(
            device=pl.lit(f"{DEVICES[path.name.split('-')[0]]}, here"),
            metric=pl.col("test").cast(pl.String).replace_strict(kinds),
            value=pl.col("value") / 1e6,
        )
        for path in files
    )
    cards = stated.filter(pl.col("metric").is_in(list(kinds.values()))).select("device", "metric", "value")
    wide = pl.concat([here, cards]).pivot("metric", index="device", values="value")
    return wide.select("device", *kinds.values())


def packages(installed: Sequence[Mapping[str, Any]], stated: pl.DataFrame) -> pl.DataFrame:
    """Return Table 3 of Kim et al.: the installed packages, here and in the paper."""
    return pl.DataFrame(
        {
            "here": [f"{package['name']} {package['version']}" for package in installed],
            "MB": [round(package["bytes"] / 1e6, 2) for package in installed],
            "in the paper": stated.filter(metric="size")["condition"],
            "MB there": stated.filter(metric="size")["value"],
        }
    )


def benchmarks(steps: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    """Return Table 1 of Luo et al.: the apps, here and in the paper."""
    done = {
        "web": "headless Chromium with an empty profile loads {} pages of a site on this machine",
        "messages": "{} messages: two SQLite transactions each, a picture with every tenth",
        "install": "dpkg installs {} packages into an empty root",
    }
    found = runs(steps).group_by("app").agg(pl.col("steps").first(), repeats=pl.col("repeat").n_unique())
    here = [
        (f"{APPS[app]}, here", f"{done[app].format(count)}; {repeats} runs")
        for app, count, repeats in found.sort(
            pl.col("app").replace_strict({app: at for at, app in enumerate(done)})
        ).rows()
    ]
    theirs = [(f"{row['condition']}, paper", row["printed"]) for row in stated.iter_rows(named=True)]
    return pl.DataFrame(here + theirs, schema=["app", "what is done"], orient="row")


# -- iobench ----------------------------------------------------------------------------------------------------------


def configured(files: Sequence[Path], metric: str) -> pl.DataFrame:
    """Return medians of iobench by test and column `configuration`, from files WHERE-EXPERIMENT.rec.xz."""
    parts = []
    for path in files:
        place = path.name.split("-")[0]
        table = bench.summarise(bench.read(path).tables, by=("test", "synchronous")).filter(pl.col("metric") == metric)
        is_unsynced = (pl.col("synchronous").cast(pl.String) == "OFF").fill_null(value=False)
        names = {"default": ("default", "no_sync"), "no_journal": ("no_journal", "both")}[place]
        name = pl.when(is_unsynced).then(pl.lit(CONFIGURATIONS[names[1]])).otherwise(pl.lit(CONFIGURATIONS[names[0]]))
        parts.append(table.with_columns(configuration=name, test=pl.col("test").cast(pl.String)).drop("synchronous"))
    places = {name: at for at, name in enumerate(CONFIGURATIONS.values())}
    tests = {name: at for at, name in enumerate(TESTS)}
    order = [pl.col("test").replace_strict(tests), pl.col("configuration").replace_strict(places)]
    return pl.concat(parts).sort(order).with_columns(pl.col("test").replace_strict(TESTS))


# -- comparison with the papers
# -----------------------------------------------------------------------------------------


def speedups(files: Sequence[Path], paper: Paper) -> list[Stated]:
    """Return the rate of each configuration relative to the default, with those of the paper's two phones.

    See Luo et al., Figure 2. `files` are WHERE-EXPERIMENT.rec.xz of datasets/apps.
    """
    values: dict[tuple[str, str], list[float]] = {}
    for path in files:
        place = path.name.split("-")[0]
        measured = bench.measures(bench.read(path).tables).filter("valid", pl.col("metric").is_in(["iops", "tps"]))
        for test, level, value in measured.select(pl.col("test", "synchronous").cast(pl.String), "value").iter_rows():
            configuration = {"default": "no_sync", "no_journal": "both"}[place] if level == "OFF" else place
            values.setdefault((test, configuration), []).append(value)
    theirs = {"no_sync": "nosync", "no_journal": "nojournal"}
    found = []
    for (test, configuration), runs_of in values.items():
        words = TESTS[test].replace(" ", "-")
        ids = [f"fig2-{phone}-{theirs.get(configuration)}-{words}" for phone in ("gs4", "n5x")]
        if set(ids) <= set(paper.published["id"]):
            least, most = sorted(paper.stated(*ids)["value"])
            value, lo, hi = ratio(values[test, "default"], runs_of)
            assert value is not None
            label = f"{TESTS[test]}: {CONFIGURATIONS[configuration]} / default"
            n = len(values[test, "default"]) + len(runs_of)
            found.append(Stated(label, (least, most), value, lo, hi, n))
    return found


def worst_over_best(found: pl.DataFrame, app: str, label: str, published: tuple[float, float]) -> Stated:
    """Return the run time on the slowest device relative to that on the fastest (Kim et al.)."""
    times = found.filter(app=app).group_by("place").agg(took=pl.col("end_ns") - pl.col("start_ns"))
    sides = sorted(times["took"].to_list(), key=lambda took: sum(took) / len(took))
    value, lo, hi = ratio(sides[0], sides[-1])
    assert value is not None
    return Stated(label, published, value, lo, hi, len(sides[0]) + len(sides[-1]))


def rates(recorded: Mapping[str, pl.DataFrame], found: pl.DataFrame, dev: int, bin_ns: int) -> pl.DataFrame:
    """Return `measures.rate` of the writes to `dev` during each run, by app, with ts_ns since the start of the run."""
    parts = []
    for run in found.iter_rows(named=True):
        during = recorded["requests"].filter(pl.col("complete_ns").is_between(run["start_ns"], run["end_ns"]), dev=dev)
        since = during.with_columns(pl.col("queue_ns", "issue_ns", "complete_ns") - run["start_ns"])
        rate = measures.rate(since, bin_ns=bin_ns).filter(metric="iops", op="write")
        parts.append(rate.with_columns(app=pl.lit(run["app"])))
    return pl.concat(parts)
