"""Measures across captures: the table of them, groups, pairs, verdicts, ranks, and `androstep compare`."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus, made

import androstep_analysis as androstep
from androstep_analysis import cli, compare, measures
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.manifest import FACTS, Source
from androstep_analysis.compare import verdicts
from androstep_analysis.compare.measures import KINDS, dimensions
from androstep_analysis.measures.measure import Measure

ROOT = Path(__file__).parents[2]
MS = 1_000_000


def request(at_ms: float, *, op: str = "write", sector: int = 0, nr_sectors: int = 8) -> dict[str, Any]:
    at = int(at_ms * MS)
    return {"op": op, "sector": sector, "nr_sectors": nr_sectors, "issue_ns": at, "complete_ns": at + 1000}


def stream(
    hits: Sequence[bool], step_ms: float = 10, *, op: str = "write", start_ms: float = 0
) -> list[dict[str, Any]]:
    """Return requests that begin where the previous one ended (true), or elsewhere."""
    requests, sector = [], 1 << 20
    for number, hit in enumerate(hits):
        sector = sector + 8 if hit else (sector + 9_999_991) % (1 << 40)
        requests.append(request(start_ms + number * step_ms, op=op, sector=sector))
    return requests


def shares(captures: Sequence[Capture], measure: str = "locality", **given: Any) -> pl.DataFrame:
    return compare.measure_all(captures, measure, **given).filter(metric="count_ratio")


@pytest.mark.parametrize("function", [compare.summarise, compare.compare, compare.ranking])
def test_results_do_not_depend_on_the_library_that_holds_the_table(function: Callable[..., pl.DataFrame]) -> None:
    hits = ([True, False] * 3, [True] * 6)
    measured = shares(
        [made.named(f"{name}{n}", stream(hits[name == "b"]), workload=name) for name in "ab" for n in (1, 2)]
    )
    expected = function(measured, by=["workload"])
    result = function(measured.to_pandas(), by=["workload"])
    assert result.cast({pl.Enum: pl.String}).equals(expected.cast({pl.Enum: pl.String}))


# -- the table --------------------------------------------------------------------------------------------------------


def test_a_whole_capture_is_a_row_of_what_the_measure_says() -> None:
    one = made.named("one", stream([True, False, True]), device="phone", workload="mail", sdk=33, rooted=True)
    table = compare.measure_all([one], "locality")
    expected = measures.locality(one.requests)
    assert table.columns == [
        *("capture", "capture_id", *FACTS, "kind", "repeat", "metric", "op", "class"),
        *("value", "unit", "n", "weight", "coverage", "inferred"),
    ]
    assert table.select(expected.columns).sort("metric", "class").equals(expected.sort("metric", "class"))
    assert table.select("device", "workload", "sdk", "rooted", "kind", "repeat").unique().rows() == [
        ("phone", "mail", 33, True, "capture", None)
    ]
    assert dimensions(table) == ["op", "class"]


@pytest.mark.prove
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from(["read", "write", "flush"]), st.integers(0, 40)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from([10, 37, 100]),
)
def test_windows_add_up_to_the_whole(rows: list[tuple[int, str, int]], window_ms: int) -> None:
    """Brute force: assign each request to a window by its time of issue, and weight shares by their total."""
    requests = [request(at, op=op, sector=8 * place, nr_sectors=0 if op == "flush" else 8) for at, op, place in rows]
    one = made.named("one", requests)
    first = min(at for at, _, _ in rows)
    last = max(row["complete_ns"] for row in requests)
    windows = max(1, -(-(last - first * MS) // (window_ms * MS)))
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for at, op, _ in rows:
        counts[min((at - first) // window_ms, windows - 1), op] += 1
    table = shares([one], "mix", window_ns=window_ms * MS)
    whole = {window: counts[window, "read"] + counts[window, "write"] for window in range(windows)}
    ops = {op for _, op, _ in rows if op != "flush"}
    assert {(w, op): (v, k) for w, op, v, k in table.select("repeat", "op", "value", "weight").iter_rows()} == {
        (window, op): (counts[window, op] / whole[window], whole[window])
        for window in range(windows)
        for op in ops
        if whole[window]
    }
    for measure in ("mix", "locality"):
        table = shares([one], measure, window_ns=window_ms * MS)
        dims = dimensions(table)
        means = table.group_by(dims).agg(mean=(pl.col("value") * pl.col("weight")).sum() / pl.col("weight").sum())
        both = shares([one], measure).join(means, on=dims)
        assert both.height == means.height
        assert both["value"].to_list() == pytest.approx(both["mean"].to_list())


def test_rates_count_the_windows_in_which_nothing_happened() -> None:
    one = made.named("one", [request(0), request(1), request(35), request(40, op="read")])
    rates = compare.measure_all([one], "rate", window_ns=10 * MS).filter(metric="iops", op="write")
    assert rates["repeat"].to_list() == [0, 1, 2, 3, 4]
    assert rates["value"].to_list() == pytest.approx([200, 0, 0, 100, 0])
    assert rates["weight"].to_list() == pytest.approx([0.01, 0.01, 0.01, 0.01, 0.000001])
    whole = compare.measure_all([one], "rate").filter(metric="iops", op="write")
    mean = (rates["value"] * rates["weight"]).sum() / rates["weight"].sum()
    assert whole["value"].to_list() == pytest.approx([mean])
    bytes_per_second = compare.measure_all([one], "rate").filter(metric="bandwidth", op="write")["value"].to_list()
    assert bytes_per_second == pytest.approx([mean * 4096])


def test_a_rate_of_what_only_another_capture_did_is_zero() -> None:
    both = [made.named("one", [request(0), request(5, op="read")]), made.named("two", [request(0), request(9)])]
    for window in (None, 2 * MS):
        rates = compare.measure_all(both, "rate", window_ns=window).filter(metric="iops", op="read", capture="two")
        assert rates.height == (1 if window is None else 5)
        assert set(rates["value"]) == {0.0}


def test_a_share_of_nothing_is_not_zero() -> None:
    """A capture without reads has no share of sequential reads; one without discards has a share of 0 discards."""
    one = made.named("one", [*stream([True] * 4, op="read"), request(99, op="discard")])
    two = made.named("two", stream([True, False]))
    locality = shares([one, two])
    assert locality.filter(capture="two", op="read").is_empty()
    mix = shares([one, two], "mix")
    assert mix.filter(capture="two", op="discard")["value"].to_list() == [0.0]
    assert mix.filter(capture="two", op="read")["value"].to_list() == [0.0]


def test_latency_in_windows_weighs_requests_for_the_mean_only() -> None:
    requests = [request(at) | {"queue_ns": int(at * MS) - 1000 * (at + 1)} for at in (0, 1, 12)]
    table = compare.measure_all([made.named("one", requests)], "latency", window_ns=10 * MS).filter(step="Q2C")
    mean = table.filter(quantile="mean")
    assert mean["value"].to_list() == [2500.0, 14000.0] and mean["weight"].to_list() == [2.0, 1.0]
    assert table.filter(quantile="max")["weight"].to_list() == [1.0, 1.0]


def test_a_measure_of_ones_own() -> None:
    by_app = Measure("bytes by app", ("io",), lambda tables, by: measures.volume(tables["io"], by=(*by, "owner_comm")))
    io = [request(0) | {"owner_comm": "mail"}, request(15) | {"owner_comm": "game", "request_id": 1}]
    plain = made.capture([request(0), request(15)], io)
    one = Capture("one", plain.manifest, plain.tables, plain.about)
    table = compare.measure_all([one], replace(by_app, is_rate=True), window_ns=10 * MS).filter(metric="iops")
    assert table.select("repeat", "owner_comm", "value").sort("owner_comm", "repeat").rows() == [
        *((0, "game", 0.0), (1, "game", pytest.approx(1 / 0.005001))),
        *((0, "mail", 100.0), (1, "mail", 0.0)),
    ]


def test_counters_are_measured_by_their_means_and_rises() -> None:
    rows = [
        {"ts_ns": at * MS, "scope": scope, "counter": "pgpgin", "value": value, "unit": "pages", "pid": pid}
        for at, scope, value, pid in [(0, "system", 10, None), (500, "system", 30, None), (0, "process", 1, 7)]
    ]
    plain = made.capture([request(0), request(1000)])
    samples = made.table("samples", rows)
    one = Capture("one", plain.manifest, plain.tables | {"samples": samples.lazy()}, plain.about)
    table = compare.measure_all([one], "samples")
    assert table.select("metric", "counter", "value", "unit", "n").rows() == [
        ("mean", "pgpgin", 20.0, "pages", 2),
        ("rise", "pgpgin", 40.0, "pages/s", 2),
    ]


def test_what_a_counter_is_between_its_readings_counts_by_its_length() -> None:
    readings = {
        "peak": [(0, 0), (800, 0), (900, 100), (1000, 100)],
        "ramp": [(0, 0), (1000, 1000)],
        "edge": [(0, 0), (500, 10), (1000, 10)],
        "late": [(600, 4)],
    }
    rows = [
        {"ts_ns": at * MS, "scope": "system", "counter": name, "value": value, "unit": "pages"}
        for name, points in readings.items()
        for at, value in points
    ]
    plain = made.capture([request(0), request(999)])
    samples = made.table("samples", rows).sample(fraction=1, shuffle=True, seed=1)
    one = Capture("one", plain.manifest, plain.tables | {"samples": samples.lazy()}, plain.about)
    whole = compare.measure_all([one], "samples")
    assert dict(whole.filter(metric="mean").select("counter", "value").iter_rows()) == pytest.approx(
        {"peak": 15.0, "ramp": 500.0, "edge": 7.5, "late": 4.0}
    )
    windows = compare.measure_all([one], "samples", window_ns=250 * MS)
    found = {
        key: dict(part.select("repeat", "value").iter_rows())
        for key, part in windows.partition_by("metric", "counter", as_dict=True).items()
    }
    assert found == {
        ("mean", "peak"): pytest.approx({0: 0, 1: 0, 2: 0, 3: 60}),
        ("rise", "peak"): pytest.approx({0: 0, 1: 0, 2: 0, 3: 400}),
        ("mean", "ramp"): pytest.approx({0: 125, 1: 375, 2: 625, 3: 875}),
        ("rise", "ramp"): pytest.approx(dict.fromkeys(range(4), 1000)),
        ("mean", "edge"): pytest.approx({0: 2.5, 1: 7.5, 2: 10, 3: 10}),
        ("rise", "edge"): pytest.approx({0: 20, 1: 20, 2: 0, 3: 0}),
        ("mean", "late"): {2: 4.0},
    }


def test_a_counter_of_nanoseconds_may_rise_by_more_than_a_few_seconds() -> None:
    row = {"scope": "system", "counter": "stat.idle", "unit": "ns"}
    rows = [row | {"ts_ns": 0, "value": 0}, row | {"ts_ns": 1000 * MS, "value": 8_000 * 1000 * MS}]
    plain = made.capture([request(0), request(1000)])
    tables = plain.tables | {"samples": made.table("samples", rows).lazy()}
    table = compare.measure_all([Capture("one", plain.manifest, tables, plain.about)], "samples")
    assert dict(table.select("metric", "value").iter_rows()) == {"mean": 4e12, "rise": 8e12}


def test_what_cannot_be_measured_is_refused() -> None:
    one = made.named("one", [request(0), request(5)])
    with pytest.raises(InputError, match="at least one capture"):
        compare.measure_all([], "mix")
    again = Capture("again", one.manifest, one.tables, one.about)
    with pytest.raises(InputError, match=r"one and again are the same recording \(.*\); give each once"):
        compare.measure_all([one, again], "mix")
    with pytest.raises(InputError, match="one: has no table bench_runs"):
        compare.measure_all([one], "bench")
    with pytest.raises(InputError, match="have repetitions instead of windows"):
        compare.measure_all([one], "bench", window_ns=1)
    with pytest.raises(InputError, match="the length must be positive"):
        compare.measure_all([one], "mix", window_ns=0)
    with pytest.raises(InputError, match="5,001,000 windows of 1 ns are too many"):
        compare.measure_all([one], "mix", window_ns=1)


def test_captures_of_one_name_are_told_apart() -> None:
    one, two = made.named("a", [request(0)]), made.named("b", [request(0)])
    both = [Capture("same", each.manifest, each.tables, each.about) for each in (one, two)]
    names = compare.measure_all(both, "mix")["capture"].unique().to_list()
    assert sorted(names) == sorted(f"same ({each.facts['capture_id'][:8]})" for each in both)


def test_an_empty_capture_has_no_rows_and_a_single_one_no_comparison() -> None:
    one, empty = made.named("one", [request(0), request(1)], workload="x"), made.named("empty", [])
    for measure in ("mix", "rate", "locality", "sync", "block_types", "file_types", "latency", "samples"):
        for window in (None, MS):
            table = compare.measure_all([one, empty], measure, window_ns=window)
            assert set(table["capture"]) <= {"one"}
            assert compare.compare(table, by=["capture"]).is_empty()
            assert compare.summarise(table, by=["capture"]).height == compare.ranking(table, by=["capture"]).height
    nothing = compare.measure_all([empty], "mix")
    assert nothing.is_empty() and compare.ranking(nothing, by=["workload"]).is_empty()


# -- groups -----------------------------------------------------------------------------------------------------------


def repeated(name: str, ratios: Sequence[float], **facts: Any) -> list[Capture]:
    """Return captures in which this share of 100 requests is sequential."""
    return [
        made.named(f"{name}{number}", stream([at < 100 * ratio for at in range(101)]), **facts)
        for number, ratio in enumerate(ratios)
    ]


def test_captures_are_independent_repeats() -> None:
    captures = [
        *repeated("a", [0.1, 0.12, 0.14, 0.16, 0.18], android_release="13"),
        *repeated("b", [0.3, 0.32, 0.34, 0.36, 0.41], android_release="14"),
    ]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    (group, other) = compare.summarise(measured, by=["android_release"]).to_dicts()
    assert (group["android_release"], group["n"], group["repeats"]) == ("13", 5, "captures")
    assert (group["lo"], group["hi"], group["confidence"]) == (measured["value"][0], measured["value"][4], 0.9375)
    assert other["value"] == measured["value"][7]
    (row,) = compare.compare(measured, by=["android_release"]).to_dicts()
    assert row["verdict"] == "higher" and row["p"] == pytest.approx(2 / 252) == row["p_adjusted"]
    assert row["effect"] == 1.0 and row["tested_by"] == "ranks"
    assert row["difference"] == pytest.approx(other["value"] - group["value"])
    assert row["difference_lo"] <= row["difference"] <= row["difference_hi"]
    assert row["difference_lo"] > 0 and row["ratio_lo"] > 1


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_captures_are_insufficient_data(count: int) -> None:
    captures = [*repeated("a", [0.1, 0.12][:count], workload="a"), *repeated("b", [0.9, 0.8][:count], workload="b")]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    (row,) = compare.compare(measured, by=["workload"]).to_dicts()
    assert (row["verdict"], row["p"], row["p_adjusted"], row["tested_by"]) == ("insufficient data", None, None, None)
    assert row["difference_lo"] is None and row["ratio_lo"] is None
    assert compare.summarise(measured, by=["workload"])["lo"].is_null().all() == (count == 1)


def test_where_ranks_could_show_no_difference_means_are_compared() -> None:
    """Four captures on each side can show one difference by ranks (p = 1/35), but none among three."""
    first, second, third = ([0.1 * k + 0.01 * at for at in range(4)] for k in (1, 3, 5))
    captures = [*repeated("a", first, workload="a"), *repeated("b", second, workload="b")]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    (row,) = compare.compare(measured, by=["workload"]).to_dicts()
    assert (row["verdict"], row["tested_by"]) == ("higher", "ranks")
    captures += repeated("c", third, workload="c")
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    rows = compare.compare(measured, by=["workload"])
    assert set(rows["tested_by"]) == {"ranks, means"} and rows["verdict"].to_list() == ["higher"] * 3
    assert rows["p"].to_list() == pytest.approx([1 / 35] * 3) and (rows["p_adjusted"] >= rows["p"]).all()
    by_means = compare.compare(measured, by=["workload"], correction="bh")
    assert set(by_means["tested_by"]) == {"means"} and by_means["verdict"].to_list() == ["higher"] * 3
    # Overlapping ones are not told apart by means either.
    captures = [
        *repeated("d", [0.1, 0.5, 0.9, 0.3], workload="d"),
        *repeated("e", [0.2, 0.6, 0.8, 0.9], workload="e"),
        *repeated("f", [0.4, 0.1, 0.3, 0.8], workload="f"),
    ]
    rows = compare.compare(shares(captures).filter(pl.col("class") == "consecutive"), by=["workload"])
    assert set(rows["verdict"]) == {"no difference shown"}


def test_a_share_and_the_rest_of_the_whole_are_one_question() -> None:
    levels = {"a": 0.1, "b": 0.3}
    captures = [
        one
        for name, level in levels.items()
        for one in repeated(name, [level + 0.01 * at for at in range(4)], workload=name)
    ]
    both = shares(captures).filter(pl.col("class").is_in(["consecutive", "random"]))
    rows = compare.compare(both, by=["workload"])
    assert rows["p"].to_list() == rows["p_adjusted"].to_list() == pytest.approx([1 / 35] * 2)
    assert sorted(rows["verdict"]) == ["higher", "lower"]


def test_shares_as_large_by_chance_are_questions_of_their_own() -> None:
    """Reads and writes with the same medians and other spreads: each keeps its own p-value."""
    values = {"read": ([0.1, 0.2, 0.3], [0.5, 0.6, 0.7]), "write": ([0.19, 0.2, 0.21], [0.59, 0.6, 0.61])}
    captures = [
        made.named(f"{name}{n}", stream([at < 100 * reads[n] for at in range(101)], op="read")
                + stream([at < 100 * writes[n] for at in range(101)], start_ms=5000), workload=name)
        for name, reads, writes in zip("ab", values["read"], values["write"], strict=True)
        for n in range(3)
    ]  # fmt: skip
    rows = compare.compare(shares(captures).filter(pl.col("class") == "consecutive"), by=["workload"])
    assert rows["first"].n_unique() == rows["second"].n_unique() == 1
    least, most = rows["p"].sort()
    assert least < most and rows["p_adjusted"].sort().to_list() == pytest.approx([2 * least, max(2 * least, most)])


def test_a_difference_may_be_shown_not_to_matter() -> None:
    captures = [
        *repeated("a", [0.5, 0.51, 0.5, 0.51, 0.5], workload="a"),
        *repeated("b", [0.51, 0.5, 0.51, 0.5, 0.51], workload="b"),
    ]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    verdicts = {
        smallest: compare.compare(measured, by=["workload"], smallest=smallest)["verdict"].item()
        for smallest in (None, 0.001, 0.1)
    }
    assert verdicts == {None: "no difference shown", 0.001: "no difference shown", 0.1: "no difference that matters"}
    far = measured.with_columns(value=pl.col("value") + 0.3 * (pl.col("workload") == "b"))
    assert compare.compare(far, by=["workload"], smallest=0.1)["verdict"].item() == "higher"


def test_a_gate_has_three_answers() -> None:
    captures = [
        *repeated("a", [0.5, 0.51, 0.5, 0.51, 0.5], workload="old"),
        *repeated("b", [0.56, 0.57, 0.56, 0.57, 0.56], workload="new"),
    ]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    for limit, gate in ((0.2, "within"), (0.06, "undecided"), (0.01, "beyond"), (-0.05, "within")):
        table = compare.gate(measured, by=["workload"], limit=limit)
        assert table["gate"].to_list() == [gate], limit
    backwards = compare.gate(measured, by=["workload"], limit=-0.01, baseline="new")
    assert backwards.select("group_first", "group_second", "gate").rows() == [("new", "old", "beyond")]
    # What is left of the whole falls as much: it is far below the limit that the share is beyond.
    both = shares(captures).filter(pl.col("class").is_in(["consecutive", "random"]))
    gates = compare.gate(both, by=["workload"], limit=0.01)
    assert dict(gates.select("class", "gate").iter_rows()) == {"consecutive": "beyond", "random": "within"}
    rates = measured.with_columns(unit=pl.lit("B/s"))  # of the first then: 0.56 is 12 % more than 0.5
    assert compare.gate(rates, by=["workload"], limit=0.2)["gate"].to_list() == ["within"]
    assert compare.gate(rates, by=["workload"], limit=0.06)["gate"].to_list() == ["beyond"]


def test_a_baseline_is_compared_with_every_other_group() -> None:
    captures = [one for name in "abc" for one in repeated(name, [0.5, 0.6, 0.7], workload=name)]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    rows = compare.compare(measured, by=["workload"], baseline="b")
    assert rows.select("group_first", "group_second").rows() == [("b", "a"), ("b", "c")]
    with pytest.raises(InputError, match="there is no group 'd'; groups are a, b, c"):
        compare.compare(measured, by=["workload"], baseline="d")


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_its_definition(values: list[float]) -> None:
    """The k-th least of m times m - k + 1, never below the one before."""
    ordered = sorted(values)
    expected = [
        min(1.0, max(ordered[at] * (len(values) - at) for at in range(place + 1))) for place in range(len(values))
    ]
    assert sorted(verdicts._adjusted(values, "holm")) == pytest.approx(expected)


def test_pairs_see_what_groups_hide() -> None:
    """Workloads differ far more than releases do: only pairs show it."""
    captures = [
        one
        for number in range(8)
        for release, ratio in (("13", 0.1 + 0.1 * number), ("14", 0.12 + 0.1 * number + 0.01 * (number % 3)))
        for one in repeated(f"w{number}r{release}", [ratio], android_release=release, workload=f"w{number}")
    ]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    (apart,) = compare.compare(measured, by=["android_release"]).to_dicts()
    (paired,) = compare.compare(measured, by=["android_release"], paired_by=["workload"]).to_dicts()
    assert apart["verdict"] == "no difference shown"
    assert (paired["verdict"], paired["repeats"], paired["n_first"]) == ("higher", "pairs", 8)
    assert paired["p"] == pytest.approx(2 / 2**8) and paired["effect"] == 1.0
    assert 0.01 < paired["difference_lo"] < paired["difference"] < paired["difference_hi"] < 0.05
    alone = measured.filter(~((pl.col("workload") == "w3") & (pl.col("android_release") == "13")))
    (missing,) = compare.compare(alone, by=["android_release"], paired_by=["workload"]).to_dicts()
    assert missing["n_first"] == 7 and missing["note"] == "1 of them has no counterpart"
    few = measured.filter(pl.col("workload").is_in(["w0", "w1", "w2", "w3", "w4"]))
    (five,) = compare.compare(few, by=["android_release"], paired_by=["workload"]).to_dicts()
    assert (five["tested_by"], five["n_first"]) == ("means", 5) and five["ratio_lo"] < five["ratio"] < five["ratio_hi"]
    (two,) = compare.compare(few.head(4), by=["android_release"], paired_by=["workload"]).to_dicts()
    assert (two["verdict"], two["p"]) == ("insufficient data", None)


def bursts(seed: int, likely: float, nr: int = 4000) -> list[bool]:
    """Return a reproducible stream with this share of sequential requests, without any library's generator."""
    state, hits = seed, []
    for _ in range(nr):
        state = (6364136223846793005 * state + 1442695040888963407) % (1 << 64)
        hits.append((state >> 33) / (1 << 31) < likely)
    return hits


def test_windows_are_the_repeats_of_one_capture() -> None:
    captures = [
        made.named("one", stream(bursts(1, 0.3)), workload="a"),
        made.named("two", stream(bursts(2, 0.5)), workload="b"),
        made.named("three", stream(bursts(3, 0.3)), workload="c"),
    ]
    measured = shares(captures, window_ns=100 * MS).filter(pl.col("class") == "consecutive")
    rows = {
        (row["group_first"], row["group_second"]): row for row in compare.compare(measured, by=["workload"]).to_dicts()
    }
    assert rows["a", "b"]["verdict"] == "higher" and rows["b", "c"]["verdict"] == "lower"
    assert rows["a", "c"]["verdict"] == "no difference shown"
    assert rows["a", "b"]["repeats"] == "windows" and rows["a", "b"]["n_first"] == 400
    summary = compare.summarise(measured, by=["workload"])
    for row, likely in zip(summary.iter_rows(named=True), (0.3, 0.5, 0.3), strict=True):
        assert row["lo"] < likely < row["hi"] and row["hi"] - row["lo"] < 0.1
    # What is compared with a capture does not change what is said of it.
    alone = compare.summarise(measured.filter(workload="b"), by=["workload"])
    assert alone.to_dicts() == summary.filter(workload="b").to_dicts()
    assert rows["a", "b"]["tested_by"] == "blocks" and rows["a", "b"]["longer"] is None
    assert 200 < rows["a", "b"]["n_effective_first"] <= 400
    same = compare.compare(shares(captures[::2], window_ns=4_000 * MS), by=["workload"])
    assert set(same["verdict"]) == {"no difference shown"} and same["longer"].min() > 1
    few = compare.compare(shares(captures[:2], window_ns=20_000 * MS), by=["workload"])
    assert set(few["verdict"]) == {"insufficient data"} and set(few["p"]) == {None}
    with pytest.raises(ValueError, match="pairs need whole captures"):
        compare.compare(measured, by=["workload"], paired_by=["device"])


def test_a_difference_in_coverage_and_in_clocks_is_shown() -> None:
    def half(name: str, known: int, clock: str) -> Capture:
        io = [
            request(at) | {"request_id": at, "block_type": "data", "map_source": "fiemap" if at < known else None}
            for at in range(10)
        ]
        plain = made.capture([request(at) for at in range(10)], io)
        source = Source(name, "trace", 0, name.encode().hex().zfill(64))
        facts = {"clock": clock}
        return Capture(name, replace(plain.manifest, sources=(source,), facts=facts), plain.tables, plain.about)

    captures = [half("one", 10, "mono"), half("two", 4, "boot")]
    row = compare.compare(shares(captures, "block_types"), by=["capture"]).to_dicts()[0]
    assert (row["coverage_first"], row["coverage_second"]) == (1.0, 0.4)
    assert row["note"] == "known of 100% and 40% of the bytes; names only inferred of 0% and 60% of the bytes"
    rates = compare.measure_all(captures, "rate", window_ns=MS)
    assert "other clocks" in compare.compare(rates, by=["capture"])["note"][0]


def test_what_only_one_group_has() -> None:
    captures = [made.named("one", stream([True] * 3, op="read")), made.named("two", stream([True] * 3))]
    rows = compare.compare(shares(captures), by=["capture"])
    assert dict(rows.filter(pl.col("class") == "random").select("op", "verdict").iter_rows()) == {
        "read": "only in the first",
        "write": "only in the second",
    }
    assert rows["p"].null_count() == rows.height


def test_groups_must_be_known_facts() -> None:
    measured = shares([made.named("one", stream([True] * 3), workload="a"), made.named("two", stream([True] * 3))])
    with pytest.raises(InputError, match=r"two: its workload is unknown; add it with `androstep ingest --fact workl"):
        compare.compare(measured, by=["workload"])
    with pytest.raises(InputError, match="cannot compare by 'colour'; choose from capture, device"):
        compare.summarise(measured, by=["colour"])
    with pytest.raises(
        InputError, match="cannot pair by capture, because the groups are compared by it; pair by another fact"
    ):
        compare.compare(measured, by=["capture"], paired_by=["capture"])
    with pytest.raises(InputError, match="at least one fact"):
        compare.summarise(measured, by=[])
    doubled = [
        made.named("one", stream([True] * 3), device="a / b", workload="c"),
        made.named("two", stream([True] * 3), device="a", workload="b / c"),
    ]
    with pytest.raises(InputError, match="two groups would be called 'a / b / c'"):
        compare.summarise(shares(doubled), by=["device", "workload"])


# -- ranks ------------------------------------------------------------------------------------------------------------


def test_groups_that_nothing_tells_apart_share_ranks() -> None:
    """The same device with another release is another device."""
    levels = {("p", "13"): 0.1, ("p", "14"): 0.5, ("q", "13"): 0.5, ("r", "13"): 0.9}
    captures = [
        one
        for (device, release), level in levels.items()
        for one in repeated(
            f"{device}{release}", [level + 0.01 * at for at in range(-3, 4)], device=device, android_release=release
        )
    ]
    ranked = compare.ranking(shares(captures).filter(pl.col("class") == "consecutive"))
    columns = ("device", "android_release", "place", "rank_from", "rank_to")
    assert ranked.select(columns).rows() == [
        *(("r", "13", 1, 1, 1), ("p", "14", 2, 2, 3), ("q", "13", 2, 2, 3), ("p", "13", 4, 4, 4)),
    ]
    single = compare.ranking(
        shares(repeated("a", [0.1], workload="a") + repeated("b", [0.9], workload="b")), by=["workload"]
    )
    assert set(single.select("rank_from", "rank_to").rows()) == {(1, 2)}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 8)), min_size=1, max_size=7))
def test_closed_testing_is_its_definition(hypotheses: list[tuple[float, float, int]]) -> None:
    """Over all sets, each by Bonferroni with the p-values that are of sets of its size."""
    adjusted, _ = verdicts.closed(*(np.array(column) for column in zip(*hypotheses, strict=True)))
    numbers = range(len(hypotheses))
    for number in numbers:
        sets = [chosen for m in numbers for chosen in itertools.combinations(numbers, m + 1) if number in chosen]
        worst = max(
            len(chosen)
            * min(few if len(chosen) <= end else many for few, many, end in (hypotheses[at] for at in chosen))
            for chosen in sets
        )
        assert adjusted[number] == pytest.approx(min(worst, 1))


def test_five_repetitions_that_overlap_nowhere_are_ranked_though_one_is_far_out() -> None:
    """The middle of the ranking in Figure 3b: means alone have hardly a degree of freedom there."""
    rates = {
        "memory": [113.3, 122.5, 127.2, 132.6, 155.0],
        "ext4": [42.4, 43.5, 45.5, 51.2, 54.7],
        "xfs": [40.3, 41.3, 42.8, 48.4, 50.5],
        "btrfs": [25.0, 25.6, 26.3, 26.4, 28.2],
        "f2fs": [17.3, 19.0, 19.7, 20.1, 24.0],
    }
    captures = [
        one for name, values in rates.items() for one in repeated(name, [value / 200 for value in values], device=name)
    ]
    ranked = compare.ranking(shares(captures).filter(pl.col("class") == "consecutive"), by=["device"])
    assert ranked.select("device", "rank_from", "rank_to").rows() == [
        *(("memory", 1, 1), ("ext4", 2, 3), ("xfs", 2, 3), ("btrfs", 4, 4), ("f2fs", 5, 5))
    ]


def test_five_repetitions_rank_what_is_far_apart() -> None:
    """As in the table of the Mobibench server: five devices with five repetitions each, intervals that do not meet."""
    levels = {"p": 0.02, "q": 0.1, "r": 0.3, "s": 0.6, "t": 0.9}
    captures = [
        one
        for device, level in levels.items()
        for one in repeated(device, [level + 0.01 * at for at in range(-1, 4)], device=device, android_release="13")
    ]
    ranked = compare.ranking(shares(captures).filter(pl.col("class") == "consecutive"))
    assert ranked.select("device", "rank_from", "rank_to").rows() == [
        (device, place, place) for place, device in enumerate("tsrqp", 1)
    ]


def test_the_shortest_time_is_first() -> None:
    def slow(name: str, ns: int, number: int) -> Capture:
        requests = [request(at) | {"complete_ns": at * MS + ns + number} for at in range(3)]
        return made.named(f"{name}{number}", requests, device=name)

    captures = [slow(name, ns, number) for name, ns in (("slow", 9000), ("fast", 1000)) for number in range(4)]
    ranked = compare.ranking(compare.measure_all(captures, "latency").filter(step="D2C", quantile="p50"), by=["device"])
    assert ranked.select("device", "rank_from", "rank_to").rows() == [("fast", 1, 1), ("slow", 2, 2)]


# -- benchmarks and replays -------------------------------------------------------------------------------------------


def test_repetitions_of_benchmarks_are_compared_as_bench_compares_them() -> None:
    from androstep_analysis import bench

    paths = [ROOT / "datasets/bench" / place / "modes.rec.xz" for place in ("ext4_disk", "btrfs_disk")]
    measured = compare.measure_all([androstep.open(path) for path in paths], "bench").filter(metric="iops")
    assert set(measured["kind"]) == {"repetition"} and set(measured["fs_type"]) == {"ext4", "btrfs"}
    rows = compare.compare(measured, by=["fs_type"])
    expected = bench.compare(*(bench.read(path).tables for path in paths)).filter(metric="iops")
    dims = ["test", "sync_mode"]
    both = rows.join(expected, on=dims, suffix="_expected")
    assert both.height == rows.height == expected.height > 10
    for ours, theirs in (("ratio", "value"), ("ratio_lo", "lo"), ("ratio_hi", "hi"), ("first", "first_expected")):
        assert both[ours].to_list() == pytest.approx(both[theirs].to_list())
    assert set(rows["repeats"]) == {"repetitions"}


def test_disks_of_one_archive_are_no_repetitions_of_each_other() -> None:
    archive = androstep.open(corpus.path("bench_results/pixel_fio_outputs.tar.gz"))
    measured = compare.measure_all([archive], "bench").filter(metric="iops")
    counts = measured.group_by("disk").agg(pl.col("repeat").max() + 1)
    assert dict(counts.iter_rows()) == {"dm-5": 1, "nbd0": 2, "zram0": 1}


@pytest.mark.prove
def test_replays_are_compared_as_replay_compares_them() -> None:
    from androstep_analysis import replay

    sides = {name: sorted((ROOT / f"datasets/replay/{name}_disk").glob("replay-*.rec.xz")) for name in ("ext4", "xfs")}
    captures = [androstep.open(path) for paths in sides.values() for path in paths]
    measured = compare.measure_all(captures, "replay").filter(metric="io_time")
    rows = compare.compare(measured, by=["fs_type"])
    expected = replay.compare(sides).filter(metric="io_time")
    both = rows.join(expected, on=["call"], nulls_equal=True, suffix="_expected")
    assert both.height == rows.height == expected.height
    for ours, theirs in (("ratio", "value"), ("ratio_lo", "lo"), ("ratio_hi", "hi"), ("second", "second_expected")):
        assert both[ours].to_list() == pytest.approx(both[theirs].to_list())
    assert set(rows["repeats"]) == {"captures"}


# -- the command ------------------------------------------------------------------------------------------------------


def trace(path: Path, seed: int, likely: float, nr: int = 400) -> Path:
    """Return a block CSV of requests with this share of sequential ones, one every 10 ms."""
    lines, sector = ["process,device,rw_flag,sector,size,timestamp"], 1 << 20
    for number, hit in enumerate(bursts(seed, likely, nr)):
        sector = sector + 8 if hit else (sector + 9_999_991) % (1 << 30)
        lines.append(f"app-1,8388608,W,{sector},8,{1000 + number / 100:.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_the_command_says_what_the_functions_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for number, (app, likely) in enumerate([("mail", 0.2), ("game", 0.6)]):
        paths.append(tmp_path / app)
        file = trace(tmp_path / f"{app}.csv", number + 1, likely, 3000)
        facts = ("--fact", f"workload={app}", "--fact", "sdk=33", "--fact", "rooted=false")
        run(capsys, "ingest", file, *facts, "-o", paths[-1])
    stated = json.loads((paths[0] / "capture.json").read_text())["facts"]
    assert (stated["workload"], stated["sdk"], stated["rooted"], stated["device"]) == ("mail", 33, False, None)
    words = ("compare", *paths, "--measure", "locality", "--by", "workload", "--windows", "100ms")
    told = json.loads(run(capsys, *words, "--metric", "count_ratio", "--where", "class=consecutive", "--json"))
    measured = shares([androstep.open(path) for path in paths], window_ns=100 * MS)
    measured = measured.filter(pl.col("class") == "consecutive")
    assert list(told) == ["measure", "by", "paired_by", "window_ns", "correction", "captures", "groups", "comparisons"]
    assert (told["measure"], told["by"], told["window_ns"]) == ("locality", ["workload"], 100 * MS)
    assert [one["workload"] for one in told["captures"]] == ["mail", "game"]
    (row,) = compare.compare(measured, by=["workload"]).with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
    assert told["comparisons"] == [{name: value for name, value in row.items() if value is not None}]
    assert row["verdict"] == "higher"
    groups = compare.ranking(measured, by=["workload"]).with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
    assert told["groups"] == [{name: value for name, value in one.items() if value is not None} for one in groups]
    printed = run(capsys, *words)
    assert re.search(r"count_ratio +write +consecutive +mail +game +\d\d\.\d % .* higher\n", printed)
    assert "A repeat is a window of time" in printed and "Tested by blocks, which takes: " in printed
    assert re.search(
        r"^share of requests, write consecutive: mail \d+\.\d %, game \d+\.\d %: \d+(\.\d)? points higher \[",
        printed,
        re.M,
    )
    only = ("--metric", "count_ratio", "--where", "class=consecutive")
    for limit, status, said in (("<+90%", 0, "within"), ("<+1%", 3, "beyond"), (">-1%", 0, "within")):
        with nullcontext() if status == 0 else pytest.raises(SystemExit) as ended:
            assert cli.main([*map(str, words), *only, "--baseline", "mail", "--gate", limit]) == 0
        assert status == 0 or (ended is not None and ended.value.code == status)
        assert re.search(rf"mail +game .* {said}$", capsys.readouterr().out, re.M)


@pytest.mark.prove
def test_a_released_dataset_gives_what_its_captures_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for number, app in enumerate(("mail", "game", "a b/c")):
        file = trace(tmp_path / f"{number}.csv", number + 1, 0.2 * number, 300)
        paths.append(tmp_path / f"c{number}")
        run(capsys, "ingest", file, "--fact", f"workload={app}", "-o", paths[-1])
    run(capsys, "release", *paths, "-o", tmp_path / "dataset", "--name", "three apps")
    captures, released = [androstep.open(path) for path in paths], compare.of_release(tmp_path / "dataset")
    assert [one.facts for one in released] == sorted((one.facts for one in captures), key=lambda f: f["capture_id"])
    for measure in ("mix", "locality", "block_types"):
        for window in (None, 100 * MS):
            ours, theirs = (compare.measure_all(these, measure, window_ns=window) for these in (captures, released))
            order = ["capture_id", "metric", *dimensions(ours), "repeat"]
            assert ours.drop("capture").sort(order).equals(theirs.drop("capture").sort(order))
    words = ("--measure", "locality", "--by", "workload", "--windows", "100ms", "--json")
    ours, theirs = (json.loads(run(capsys, "compare", *of, *words)) for of in (paths, [tmp_path / "dataset"]))
    groups = [
        sorted((row["metric"], row["workload"], row["class"], row["value"]) for row in told["groups"])
        for told in (ours, theirs)
    ]
    assert groups[0] == groups[1]
    with pytest.raises(InputError, match="has no tables/captures"):
        compare.of_release(tmp_path)


@pytest.mark.prove
def test_the_command_explains_what_is_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [trace(tmp_path / f"{name}.csv", seed, 0.5) for seed, name in enumerate("ab")]
    printed = run(capsys, "compare", *paths, "--measure", "mix", "--metric", "count_ratio")
    assert "insufficient data: at least 3 captures on each side" in printed
    assert "One group: there is nothing to compare it with." in run(capsys, "compare", paths[0], "--measure", "mix")
    for words, message in (
        (("--metric", "speed"), "no row has metric speed; there are bytes, bytes_ratio, count, count_ratio"),
        (("--where", "colour=red"), "the measure has no dimension colour; it has metric, op"),
        (("--by", "workload"), "a.csv: its workload is unknown"),
    ):
        assert cli.main(["compare", *map(str, paths), "--measure", "mix", *words]) == 1
        assert message in capsys.readouterr().err
    again = shutil.copy(paths[0], tmp_path / "again.csv")
    assert cli.main(["compare", str(paths[0]), str(again), "--measure", "mix"]) == 1
    assert "again.csv: the same recording as a.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--fact", "colour=red"),
        ("--fact", "workload"),
        ("--fact", "workload="),
        ("--fact", "sdk=many"),
        ("--fact", "rooted=perhaps"),
        ("--fact", "clock=mono"),
    ],
)
def test_a_fact_is_checked(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = trace(tmp_path / "a.csv", 1, 0.5)
    with pytest.raises(SystemExit) as caught:
        cli.main(["ingest", str(file), *words, "-o", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert "--fact" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


WRONG_WORDS = [
    *(("--windows", "ten"), ("--windows", "0s"), ("--windows", "-1s"), ("--where", "op")),
    *(("--smallest", "5"), ("--smallest", "0%"), ("--smallest", "x%"), ("--gate", "5%"), ("--gate", "<-5%")),
]


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_wrong_words_are_wrong_usage(words: tuple[str, ...], tmp_path: Path) -> None:
    file = trace(tmp_path / "a.csv", 1, 0.5)
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", str(file), "--measure", "mix", *words])
    assert caught.value.code == 2
    with pytest.raises(SystemExit):
        cli.main(["compare", str(file), "--measure", "mix", "--paired-by", "device", "--windows", "1s"])


@pytest.mark.prove
def test_hostile_facts_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "a; rm -rf /", "=1+1", "$x$", "\u202egnp"]
    paths = []
    for number, name in enumerate(names):
        file = trace(tmp_path / f"{number}.csv", number, 0.5, 60)
        paths.append(tmp_path / f"c{number}")
        run(capsys, "ingest", file, "--fact", f"workload={name}", "-o", paths[-1])
    words = ("compare", *paths, "--measure", "locality", "--by", "workload", "--metric", "count_ratio")
    printed = run(capsys, *words)
    assert "\x1b" not in printed and "\u202e" not in printed and "\\x1b[31mred" in printed
    told = json.loads(run(capsys, *words, "--json"))
    assert [one["workload"] for one in told["captures"]] == names
    from androstep_analysis import plot

    captures = [androstep.open(path) for path in paths]
    measured = shares(captures).filter(pl.col("class") == "consecutive")
    ranked, rows = compare.ranking(measured, by=["workload"]), compare.compare(measured, by=["workload"])
    assert plot.png(plot.compare_groups(ranked, metric="count_ratio", group="workload"))
    assert plot.png(plot.compare_ranking(ranked, metric="count_ratio", group=["workload"]))
    assert plot.png(plot.compare_differences(rows, metric="count_ratio"))
    assert plot.png(plot.compare_pairs(measured, metric="count_ratio", by="clock", paired_by=["workload"]))


# -- figures ----------------------------------------------------------------------------------------------------------


def test_figures_show_every_value_and_no_other() -> None:
    from androstep_analysis import plot

    captures = [*repeated("a", [0.1, 0.2, 0.3], workload="a"), *repeated("b", [0.5], workload="b")]
    measured = shares(captures).filter(pl.col("class") != "forward")
    ranked, rows = compare.ranking(measured, by=["workload"]), compare.compare(measured, by=["workload"])
    ax = plot.compare_groups(ranked, metric="count_ratio", group="workload", series="class")
    drawn = sorted(
        float(y)
        for line in ax.lines
        for y in line.get_ydata()
        if line.get_linestyle() == "None" and line.get_marker() in "os"
    )
    assert drawn == pytest.approx(sorted(100 * value for value in ranked["value"]))
    ax = plot.compare_differences(rows, metric="count_ratio")
    drawn = sorted(float(x) for line in ax.lines for x in line.get_xdata() if line.get_marker() == "o")
    assert drawn == pytest.approx(sorted(100 * value for value in rows["difference"]))
    with pytest.raises(ValueError, match="does not show class"):
        plot.compare_groups(ranked, metric="count_ratio", group="workload")
    with pytest.raises(ValueError, match="does not show class"):
        plot.compare_pairs(measured, metric="count_ratio", by="workload", paired_by=["device"])
    one = ranked.filter(pl.col("class") == "consecutive")
    ax = plot.compare_ranking(one, metric="count_ratio", group=["workload"])
    assert [words.get_text() for words in ax.texts] == ["1–2", "1–2", "rank"]


# -- the traces of a Pixel 6a -----------------------------------------------------------------------------------------


def test_the_pixel_traces_are_what_another_tool_counted(tmp_path: Path) -> None:
    """Reads and writes and their bytes by awk (expected.json); the windows of any length add up to them."""
    captures, expected = [], {}
    for app in ("cod_exec", "pubg_exec", "slideshow_exec", "telegram_precond"):
        path = corpus.path(f"block_csv/pixel6a_{app}.csv.gz")
        lines = json.loads(corpus.path(f"block_csv/{path.name}.expected.json").read_text())["output"]
        for letter, op in (("R", "read"), ("W", "write")):
            for line in lines:
                if match := re.fullmatch(rf"{letter} (\d+) (\d+)", line):
                    expected[path.name, op] = int(match[1]), 512 * int(match[2])
        with pytest.warns(LossWarning) as said:
            captures.append(androstep.open(path))
        # The recorders' clocks jumped while they recorded, too.
        assert any("two tracepoints" in str(warning.message) for warning in said)
        assert all(re.search("two tracepoints|clock jumps", str(warning.message)) for warning in said)
    whole = compare.measure_all(captures, "mix").filter(pl.col("metric").is_in(["count", "bytes"]), pl.col("value") > 0)
    wide = whole.pivot("metric", index=["capture", "op"], values="value")
    assert {(row["capture"], row["op"]): (row["count"], row["bytes"]) for row in wide.to_dicts()} == expected
    for window in (10**9, 10**10):
        for measure in ("mix", "locality"):
            found = shares(captures, measure, window_ns=window)
            dims = ["capture", *dimensions(found)]
            mean = (pl.col("value") * pl.col("weight")).sum() / pl.col("weight").sum()
            both = found.group_by(dims).agg(mean=mean).join(shares(captures, measure), on=dims)
            assert both.height >= 8
            assert both["mean"].to_list() == pytest.approx(both["value"].to_list(), abs=1e-12)
    assert set(found["kind"]) == {KINDS[1]}
