"""Tables part by part: whatever their order and the size of a part, results are those of whole tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from support.in_parts import read_in_parts

from androstep_analysis import measures, plot, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.measures import blocks
from androstep_analysis.measures.parts import REQUEST, _split_ready, by_group, parts
from androstep_analysis.measures.quantiles import quantiles
from androstep_analysis.present.plot import series

SHARES = {"least": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "greatest": 1.0}
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1

ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(-5, 9), st.sampled_from("ab")), max_size=60)
VALUES = st.one_of(
    st.integers(LEAST, GREATEST),
    st.integers(-3, 3),
    st.integers(1 << 61, (1 << 61) + 300),
    st.integers(0, 40).map(lambda bits: 1 << bits),
    st.sampled_from([LEAST, GREATEST]),
)


@settings(max_examples=100)
@given(rows=ROWS, order=st.sampled_from(["request_id", "time"]), at_once=st.integers(1, 20))
def test_parts_are_in_order_and_hold_whole_requests(rows: list[Any], order: str, at_once: int) -> None:
    table = pl.DataFrame(rows, {"request_id": pl.Int64, "time": pl.Int64, "kind": pl.String}, orient="row")
    with read_in_parts(at_once):
        found = list(parts(table.lazy(), order))
    assert pl.concat(found).sort(pl.all()).equals(table.sort(pl.all()))
    filled = [part for part in found if part.height]
    for one, other in itertools.pairwise(filled):
        assert max(one[order].to_list()) < min(other[order].to_list())
        assert not set(one["request_id"]) & set(other["request_id"])


def test_parts_of_a_table_in_order_are_as_small_as_can_be() -> None:
    table = pl.DataFrame({"request_id": np.arange(1000) // 2, "time": np.arange(1000)}).lazy()
    for order in ("request_id", "time"):
        with read_in_parts(10):
            assert max(part.height for part in parts(table, order)) <= 12


@pytest.mark.parametrize(
    ("rows", "least", "request_id", "ready"),
    [
        ([(1, 5), (2, 6)], 10, 6, [(1, 5)]),  # rows of requests from 6 on are still to come
        ([(1, 7), (5, 7), (0, 8)], 4, 100, [(0, 8)]),  # a row of request 7 has to wait
        ([(1, 5), (2, 6)], 10, 7, [(1, 5), (2, 6)]),
    ],
)
def test_all_rows_of_a_request_wait_for_its_last(
    rows: list[tuple[int, int]], least: int, request_id: int, ready: list[tuple[int, int]]
) -> None:
    table = pl.DataFrame(rows, ["order", REQUEST], orient="row")
    assert [part.rows() for part in _split_ready(table, "order", least, request_id)] == [
        ready,
        [row for row in rows if row not in ready],
    ]


@settings(max_examples=60)
@given(rows=ROWS, is_sorted=st.booleans(), at_once=st.integers(1, 20))
def test_groups_count_every_request_once(rows: list[Any], is_sorted: bool, at_once: int) -> None:
    table = pl.DataFrame(rows, {"request_id": pl.Int64, "bytes": pl.Int64, "kind": pl.String}, orient="row")
    table = table.sort("request_id") if is_sorted else table
    with read_in_parts(at_once):
        found = by_group(table.lazy(), ["kind"], pl.col("bytes") > 0)
    kinds = {kind: [row for row in rows if row[2] == kind] for _, _, kind in rows}
    expected = {
        kind: (len({row[0] for row in of}), sum(row[1] for row in of), sum(row[1] for row in of if row[1] > 0))
        for kind, of in kinds.items()
    }
    assert {kind: tuple(rest) for kind, *rest in found.rows()} == expected


TOUCHED = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 40), st.integers(0, 1), st.booleans()), max_size=40)

OF_BLOCKS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "reuse": measures.reuse,
    "miss_ratio": partial(measures.miss_ratio, cache_bytes=(4096, 1 << 14)),
    "hotness": measures.hotness,
    "block_uses": measures.block_uses,
    "working_set": partial(measures.working_set, window_ns=7),
    "lifetimes": measures.lifetimes,
}


@pytest.mark.prove
@pytest.mark.parametrize("name", OF_BLOCKS)
@settings(max_examples=40)
@given(rows=TOUCHED, at_once=st.integers(1, 20))
def test_measures_of_blocks_read_in_parts_are_those_of_the_whole(name: str, rows: list[Any], at_once: int) -> None:
    times = np.arange(len(rows))
    requests = pl.DataFrame(
        {
            "request_id": times,
            "dev": pl.Series([dev for _, _, dev, _ in rows], dtype=pl.UInt32),
            "sector": pl.Series([sector for sector, _, _, _ in rows], dtype=pl.Int64),
            "nr_sectors": pl.Series([length for _, length, _, _ in rows], dtype=pl.Int64),
            "op": pl.Series(["write" if is_write else "read" for *_, is_write in rows], dtype=pl.String),
            **dict.fromkeys(["queue_ns", "issue_ns", "complete_ns"], times),
        }
    ).cast({"op": schema.enum("requests", "op")})
    whole = OF_BLOCKS[name](requests)
    with read_in_parts(at_once):
        assert OF_BLOCKS[name](requests).equals(whole)


@pytest.mark.prove
@settings(max_examples=150)
@given(values=st.lists(st.tuples(st.sampled_from([None, "x", "y"]), VALUES), max_size=200), at_once=st.integers(1, 300))
@example(values=[("x", 7)] * 50, at_once=1)
@example(values=[("x", LEAST), ("x", GREATEST)], at_once=1)
@example(values=[("x", (1 << 61) + number) for number in range(100)], at_once=1)
def test_quantiles_are_those_of_all_values_in_order(values: list[tuple[str | None, int]], at_once: int) -> None:
    table = pl.DataFrame(values, {"group": pl.String, "value": pl.Int64}, orient="row")
    groups = table.group_by("group").agg(n=pl.len().cast(pl.Int64), least=pl.col("value").min())
    with read_in_parts(at_once):
        found = quantiles(table.lazy(), "value", groups, SHARES)
    got = {(group, name): value for group, name, value in found.select("group", "quantile", "value").iter_rows()}
    expected = {}
    for group in {group for group, _ in values}:
        ordered = np.sort(np.array([value for of, value in values if of == group], np.int64))
        for name, share in SHARES.items():
            expected[group, name] = int(ordered[max(0, int(np.ceil(len(ordered) * share)) - 1)])
    assert got == expected


@settings(max_examples=5)
@given(st.integers(0, 1 << 32))
def test_quantiles_of_many_values_are_those_of_polars(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table = pl.DataFrame(
        {"group": draw.integers(0, 3, 20_000), "value": (10 ** draw.uniform(0, 9, 20_000)).astype(int)}
    )
    groups = table.group_by("group").agg(n=pl.len().cast(pl.Int64), least=pl.col("value").min())
    with read_in_parts(500):
        found = quantiles(table.lazy(), "value", groups, SHARES)
    wide = found.pivot("quantile", index="group", values="value").sort("group").cast(pl.Float64)
    places = {name: pl.col("value").quantile(share, "equiprobable") for name, share in SHARES.items()}
    assert wide.select(list(SHARES)).equals(table.group_by("group").agg(**places).sort("group").select(list(SHARES)))


@pytest.mark.parametrize("at_once", [500, 1 << 20])
def test_a_row_may_stand_for_many_values(at_once: int) -> None:
    draw = np.random.default_rng(1)
    table = pl.DataFrame(
        {
            "group": draw.integers(0, 3, 5000),
            "value": (10 ** draw.uniform(0, 9, 5000)).astype(int),
            "n": draw.integers(1, 9, 5000),
        }
    )
    each = table.select(pl.all().repeat_by("n").explode()).drop("n")
    groups = each.group_by("group").agg(n=pl.len().cast(pl.Int64), least=pl.col("value").min())
    with read_in_parts(at_once):
        weighed = quantiles(table.lazy(), "value", groups, SHARES, weight="n")
        found = quantiles(each.lazy(), "value", groups, SHARES)
    assert weighed.sort("group", "quantile").equals(found.sort("group", "quantile"))


def test_touches_of_a_long_request_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"sector": [0, 4, 800], "nr_sectors": [8, 800, 8]}).with_columns(
        request_id=pl.int_range(3), dev=1, op=pl.lit("read"), queue_ns=1, issue_ns=1, complete_ns=1
    )
    whole = pl.concat(blocks.touches(rows, ["op"], 4096))
    assert whole.height == 1 + 101 + 1
    monkeypatch.setattr(blocks, "MOST_TOUCHES", 7)
    parts = list(blocks.touches(rows, ["op"], 4096))
    assert pl.concat(parts).equals(whole) and max(part.height for part in parts) <= 14
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 101)
    assert pl.concat(blocks.touches(rows, ["op"], 4096)).height == 103, "101 different blocks"
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 100)
    with pytest.raises(InputError, match="101 blocks of 4096 B are accessed, but at most 100"):
        list(blocks.touches(rows, ["op"], 4096))
    assert pl.concat(blocks.touches(rows, ["op"], 4096, share=0.5)).height == 103


def lines(ax: Axes) -> dict[str, list[Any]]:
    return {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in ax.get_lines()}


@pytest.mark.prove
@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400), st.booleans()), min_size=1, max_size=200),
    at_once=st.integers(1, 50),
    columns=st.integers(1, 8),
)
@example(steps=[(1, took, False) for took in (1, 3, 5, 7, 399, 1, 9, 1, 1, 1, 1, 1)], at_once=6, columns=2)
def test_what_a_figure_shows_is_drawn_as_the_whole(steps: list[Any], at_once: int, columns: int) -> None:
    times = np.cumsum([pause for pause, _, _ in steps])
    requests = pl.DataFrame(
        {
            "request_id": np.arange(len(steps)),
            "dev": 1,
            "sector": np.where([goes_on for _, _, goes_on in steps], 8 * np.arange(len(steps)), 0),
            "nr_sectors": 8,
            "op": ["read" if took % 2 else "write" for _, took, _ in steps],
            "queue_ns": times,
            "issue_ns": times,
            "complete_ns": times + [took for _, took, _ in steps],
        }
    ).cast({"op": schema.enum("requests", "op")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "STEPS", columns)
        for measure, draw in (
            (measures.cumulative, plot.cumulative),
            (measures.latency_distribution, plot.latency_distribution),
        ):
            with read_in_parts(at_once):
                shown = measure(requests, columns=columns)
            assert lines(draw(shown)) == lines(draw(measure(requests)))
