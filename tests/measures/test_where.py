"""Conditions of measures, compared with the groups of --by; order and number of rows; refused conditions."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import polars as pl
import pytest
from support.tree import ROOT

from androstep_analysis import capture, cli, compare, measures
from androstep_analysis.common import conditions
from androstep_analysis.compare.measures import measured
from androstep_analysis.measures.measure import Applied
from androstep_analysis.measures.recording import Recording

DEMO = str(ROOT / "datasets/demo")

OF = {"requests": ("submit_comm", ".example.mail"), "io": ("package", "com.example.mail")}
"""A column of each table, and a value that it has."""


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.of(capture.open(DEMO))


def asked(androstep: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["measure", DEMO, *androstep, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def comparable(table: pl.DataFrame, without: str) -> list[tuple[Any, ...]]:
    """Return the rows of a result, without common columns and shares of all groups."""
    keys = [name for name in table.columns if name not in (without, "coverage", "inferred", "weight")]
    return sorted(table.select(keys).rows(), key=repr)


@pytest.mark.parametrize(
    "name",
    [name for name, one in compare.measures().items() if one.applied is not Applied.RESULT and one.needs[0] in OF],
)
def test_a_condition_gives_the_group_that_by_would(name: str, recording: Recording) -> None:
    """For measures that classify rows by their neighbours, and for those that count rows, both give the same rows."""
    one = compare.measures()[name]
    column, value = OF[one.needs[0]]
    by = (*one.by, column) if one.by else (column,)
    groups = measured(recording, one, None, by).table.filter(pl.col(column) == value)
    of_it = measured(recording, one, None, (), [conditions.parse(f"{column}={value}")]).table
    assert not of_it.is_empty()
    if one.applied is Applied.AFTER or name in ("mix", "rate", "block_types", "file_types", "latency", "volume"):
        assert comparable(of_it, column) == comparable(groups.drop(column), column)


def test_random_is_told_by_the_stream_and_counted_among_what_matches(recording: Recording) -> None:
    """A request is kept if one of its pieces matches; whether it is random its neighbours tell, also those left out."""
    opened = capture.open(DEMO)
    of_databases = opened.io.filter(pl.col("path").str.contains("/databases/", literal=True)).collect()["request_id"]
    requests = opened.requests.filter(pl.col("issue_ns").is_not_null(), pl.col("nr_sectors") > 0).collect()
    last: dict[tuple[int, str], int] = {}
    random, all_ = 0, 0
    for row in requests.sort("issue_ns", "request_id").iter_rows(named=True):
        stream = (row["dev"], row["op"])
        is_kept = row["op"] == "write" and row["request_id"] in set(of_databases)
        random += is_kept and last.get(stream) != row["sector"]
        all_ += is_kept
        last[stream] = row["sector"] + row["nr_sectors"]
    table = compare.measure_all([opened], "locality", where=["path=*/databases/*", "op=write"])
    found = table.filter(pl.col("class") == "random", metric="count_ratio", op="write")
    assert found["value"].item() == random / all_
    assert set(table["op"]) == {"write"}


def test_conditions_of_files_and_of_requests_hold_together(capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(["mix", "--where", "process=.example.mail", "--where", "app=com.example.mail"], capsys)
    opened = capture.open(DEMO)
    ids = opened.io.filter(package="com.example.mail").select("request_id").unique()
    requests = measures.counted(opened.requests.join(ids, on="request_id", how="semi")).filter(
        submit_comm=".example.mail"
    )
    assert sum(row["value"] for row in rows if row["metric"] == "count") == requests.collect().height


def test_time_is_counted_from_the_start_and_is_that_of_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    windows = asked(["rate", "--window", "2s"], capsys)
    rows = asked(["rate", "--where", "time=2s..4s"], capsys)
    expected = {(row["op"], row["metric"]): row["value"] for row in windows if row["window"] == 1 and row["value"]}
    assert {(row["op"], row["metric"]): row["value"] for row in rows} == pytest.approx(expected)


def test_columns_of_the_result_choose_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(["latency", "--where", "op=read", "--where", "step=D2C", "--where", "quantile=p*"], capsys)
    assert {(row["op"], row["step"]) for row in rows} == {("read", "D2C")}
    assert [row["quantile"] for row in rows] == ["p50", "p90", "p99", "p99.9"]
    seeks = asked(["seeks", "--where", "device=7:0", "--where", "metric=count"], capsys)
    assert {(row["dev"], row["metric"]) for row in seeks} == {(7 << 20, "count")}


@pytest.mark.parametrize(
    ("words", "column", "values"),
    [
        ("volume --by op --where metric=bytes", "op", ["write", "discard", "read"]),
        ("volume --by op --where metric=bytes --reverse", "op", ["read", "discard", "write"]),
        ("volume --by op --where metric=bytes --sort op", "op", ["read", "write", "discard"]),
        ("daily --by op --where metric=bytes --sort value --top 2", "op", ["write", "discard"]),
        ("volume --by op --where metric=bytes --sort n --top 2", "op", ["write", "read"]),
        ("mix --where metric=count --sort count --top 1", "op", ["write"]),
        ("queue --where depth=..3 --where metric=time", "depth", [0, 1, 2]),
        ("daily --by op --top 1 --where metric=bytes", "op", ["write"]),
        ("latency --where op=read --where quantile=p99", "step", ["Q2D", "D2C", "Q2C"]),
        ("latency --where op=read --where quantile=p99 --sort p99 --top 1", "step", ["Q2C"]),
        ("rate --window 5s --top 1 --where metric=bandwidth", "window", [0, 1]),
    ],
)
def test_the_largest_comes_first_and_what_has_an_order_keeps_it(
    words: str, column: str, values: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [row[column] for row in asked(words.split(), capsys)] == values


def test_repetitions_stay_together(capsys: pytest.CaptureFixture[str]) -> None:
    results = str(ROOT / "datasets/bench/ext4_disk/modes.rec.xz")
    assert cli.main(["measure", results, "bench", "--where", "metric=iops", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    runs = [(row["test"], row["sync_mode"], row["engine"], row["after_every"]) for row in rows]
    assert len(list(itertools.groupby(runs))) == len(set(runs))
    assert rows[0]["repeat"] == 0 and rows[1]["repeat"] == 1


def test_what_is_cut_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, "mix", "--top", "1"]) == 0
    assert capsys.readouterr().out.endswith("… and 3 more rows\n")


def test_formats_have_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = asked(["volume", "--by", "file", "--top", "3"], capsys)
    assert cli.main(["measure", DEMO, "volume", "--by", "file", "--top", "3", "--format", "csv"]) == 0
    table = pl.read_csv(capsys.readouterr().out.encode())
    assert [(row["path"], row["value"]) for row in rows] == table.select("path", "value").rows()
    assert cli.main(["measure", DEMO, "volume", "--by", "file", "--top", "3", "--format", "md"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].replace("|", "").replace(":", "").replace("-", "") == ""
    assert len(lines) == 2 + 3 + 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["volume", "--where", "pth=x"], "there is no column pth (did you mean path?); columns are app, owner_app,"),
        (["mix", "--where", "op=wriet"], "op is read or write or flush or discard"),
        (["volume", "--where", "app=com.exmaple.mail"], "no row matches; app is com.example.mail, "),
        (["mix", "--where", "op=discard", "--where", "app=com.example.mail"], "no request matches all of them"),
        (["fsyncs", "--where", "time=1s..2s"], "there is no column time"),
        (["rate", "--where", "time=1s..2s", "--window", "1s"], "omit either the windows or the time"),
        (["volume", "--sort", "colour"], "cannot sort by colour; there are value, count, bytes, "),
    ],
)
def test_what_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, *words]) == 1
    assert said in capsys.readouterr().err


def test_the_page_says_of_each_measure_when_conditions_apply() -> None:
    page = (ROOT / "docs/measure.md").read_text("utf-8").split("| measures | rule |")[1].split("\n\n")[0]
    stated = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in page.splitlines()[2:]]
    classified, queues, result, others = map(set, stated)
    kinds = {kind: {name for name, one in compare.measures().items() if one.applied is kind} for kind in Applied}
    assert (kinds[Applied.AFTER], kinds[Applied.RESULT], others) == (classified | queues, result, set())
