"""Steps, seeks and merges of bios, compared with plain Python, also with lost events (btt: test_export_btt.py)."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import made
from support.in_parts import read_in_parts

from androstep_analysis import compare, measures
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses

DEVICES = [made.DEV, made.DEV + 16]

BLOCK = 8

ACTIONS = ("queue", "getrq", "insert", "backmerge", "frontmerge", "issue", "complete", "sleep", "split")

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS), st.integers(0, 5), st.integers(1, 3), st.sampled_from(DEVICES), st.integers(0, 3)
    ),
    max_size=60,
)

LOST = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 25)), st.integers(0, 10)), max_size=2).map(
    lambda spans: sorted(((first, (first or 0) + more) for first, more in spans), key=lambda span: span[1])
)
"""From when to when events are lost; None is from the beginning."""


def block_events(events: list[tuple[str, int, int, int, int]]) -> pl.DataFrame:
    """Table block_events: action, first block, blocks (of requests; bios have one), device, and time since the last.

    Each device has queued something before.
    """
    rows: list[dict[str, Any]] = [
        {"action": action, "dev": dev, "sector": 100 * BLOCK, "nr_sectors": BLOCK, "ts_ns": -1, "tid": 1}
        for action, dev in itertools.product(("queue", "issue"), DEVICES)
    ]
    now = 0
    for number, (action, block, blocks, dev, wait) in enumerate(events):
        now += wait
        length = blocks if action in ("issue", "complete") else 1
        rows.append(
            {"action": action, "dev": dev, "sector": block * BLOCK, "nr_sectors": length * BLOCK, "ts_ns": now}
            | {"tid": number % 2}
        )
    return made.table("block_events", rows)


def is_lost(begin: float, end: float, lost: list[tuple[int | None, int]]) -> bool:
    return any(begin <= last and (first is None or end >= first) for first, last in lost)


def apart(lost: list[tuple[int | None, int]]) -> bool:
    """Return the spans without overlaps, as `Losses.spans` does."""
    return all(first is not None and first > last for (_, last), (first, _) in itertools.pairwise(lost))


@given(EVENTS, LOST.filter(apart))
def test_seeks_and_their_distances(
    events: list[tuple[str, int, int, int, int]], lost: list[tuple[int | None, int]]
) -> None:
    table = block_events(events)
    told: Counter[tuple[int, str, int]] = Counter()
    seen: Counter[tuple[int, str]] = Counter()
    for dev, (action, step) in itertools.product(DEVICES, (("queue", "Q2Q"), ("issue", "D2D"))):
        begin, end, before = 0, 0, float("-inf")
        rows = table.filter(pl.col("dev") == dev, pl.col("action") == action).select("sector", "nr_sectors", "ts_ns")
        for sector, length, now in rows.rows():
            if begin <= sector <= end or begin <= sector + length <= end:
                distance = 0
            else:
                distance = sector - (end if sector > end else begin)
            seen[dev, step] += 1
            if not is_lost(before, now, lost):
                told[dev, step, distance] += 1
            begin, end, before = sector, sector + length, now
    expected: Counter[tuple[int, str, int]] = Counter()
    for (dev, step, distance), count in told.items():
        # Of powers of two the least that is not less.
        up_to = next(1 << power for power in range(64) if 1 << power >= abs(distance))
        expected[dev, step, up_to * (distance > 0) - up_to * (distance < 0)] += count
    for at_once in (None, 3):
        with read_in_parts(at_once):
            distances = measures.seek_distances(table, by=["dev"], lost=lost)
            summed = measures.seeks(table, by=["dev"], lost=lost)
        text = pl.col("step").cast(pl.String)
        counts = distances.filter(metric="count").select("dev", text, "distance_up_to_sectors", "value")
        assert {tuple(row[:3]): row[3] for row in counts.rows()} == expected
        for dev, step in {key[:2] for key in told}:
            of = {distance: count for key, count in told.items() if key[:2] == (dev, step) for distance in key[2:]}
            rows = summed.filter(text == step, dev=dev)
            values = dict(rows.select("metric", "value").rows())
            count = sum(of.values())
            assert values["count"] == rows["n"][0] == count
            assert values["seek_ratio"] == pytest.approx(sum(n for distance, n in of.items() if distance) / count)
            sizes = {distance: abs(distance) * 512 for distance in of}
            assert values["mean_distance"] == pytest.approx(sum(sizes[at] * n for at, n in of.items()) / count)
            assert values["max_distance"] == max(sizes.values())
            assert set(rows["coverage"]) == {count / seen[dev, step]}
            shares = distances.filter(text == step, metric="count_ratio", dev=dev)
            assert shares["value"].sum() == pytest.approx(1)
            assert set(shares["coverage"]) == {count / seen[dev, step]}
        assert summed.height == 5 * len({key[:2] for key in told})


def test_seeks_per_second_are_of_time_that_is_known() -> None:
    second = 10**9
    rows = [("queue", 10 * (number % 2), 1, made.DEV, second) for number in range(10)]
    table = block_events(rows).filter(dev=made.DEV, action="queue").tail(10)
    for lost, rate in (([], 9 / 9), ([(int(3.5 * second), int(5.5 * second))], 6 / 7), ([(None, 10 * second)], None)):
        found = measures.seeks(table, lost=lost).filter(metric="seek_rate")["value"].to_list()
        assert found == ([] if rate is None else [pytest.approx(rate)]), lost


@given(EVENTS, LOST.filter(lambda lost: apart(lost) and all(first is not None for first, _ in lost)))
def test_steps_that_are_told_are_those_without_the_loss(
    events: list[tuple[str, int, int, int, int]], lost: list[tuple[int | None, int]]
) -> None:
    """Of a recording without the events of lost times, all is left out that those would have changed."""
    whole = block_events(events)
    gone = [is_lost(time, time, lost) for time in whole["ts_ns"]]
    damaged = whole.filter(~pl.Series(gone, dtype=pl.Boolean))
    for of in (measures.steps, measures.seeks, measures.seek_distances):
        complete, found = (of(table, by=["dev"], lost=lost).drop("coverage") for table in (whole, damaged))
        # A rate is over the time up to the last event, which may be lost.
        is_same = pl.col("metric") != "seek_rate"
        assert found.filter(is_same).rows() == complete.filter(is_same).rows(), of


@given(EVENTS, LOST.filter(apart))
def test_merges_and_splits_are_counted(
    events: list[tuple[str, int, int, int, int]], lost: list[tuple[int | None, int]]
) -> None:
    table = block_events(events)
    kinds = {"queue": "Q", "issue": "D", "backmerge": "M", "frontmerge": "M", "split": "X"}
    rows = [
        (dev, kinds.get(action), is_lost(at, at, lost))
        for dev, action, at in table.select("dev", "action", "ts_ns").rows()
    ]
    counts = Counter((dev, kind) for dev, kind, is_gone in rows if kind and not is_gone)
    seen = Counter(dev for dev, kind, _ in rows if kind)
    has = {kind for _, kind, _ in rows}
    found = measures.merges(table, by=["dev"], lost=lost)
    told = {(dev, metric): value for dev, metric, value in found.select("dev", "metric", "value").rows()}
    for dev in DEVICES:
        queued, issued, merged, split = (counts[dev, kind] for kind in "QDMX")
        if not queued and not issued:
            assert (dev, "queued") not in told
            continue
        assert told[dev, "queued"] == (queued or None)
        assert told[dev, "bios_per_request"] == (queued / issued if queued and issued else None)
        assert told[dev, "merge_ratio"] == (merged / queued if queued and "M" in has else None)
        assert told[dev, "splits_per_bio"] == (split / queued if queued and "X" in has else None)
        assert set(found.filter(dev=dev)["coverage"]) == {sum(counts[dev, kind] for kind in "QDMX") / seen[dev]}


@pytest.mark.parametrize("name", ["steps", "seeks", "seek_distances", "merges"])
def test_a_recording_says_what_it_lost(name: str) -> None:
    events = [("queue", 0, 1, made.DEV, 5), ("issue", 0, 1, made.DEV, 5), ("complete", 0, 1, made.DEV, 5)] * 4
    opened = made.capture(events=block_events(events).to_dicts())
    loss = Loss("dropped", 1, "one is missing", ("block_events",), spans=((20, 31),))
    recordings = [compare.Recording.of(opened), replace(compare.Recording.of(opened), losses=Losses([loss]))]
    whole, part = (compare.measure_all([recording], name) for recording in recordings)
    assert set(whole["coverage"]) == {1.0}
    assert all(0 < share < 1 for share in part["coverage"])
    known = getattr(measures, name)(opened.block_events, lost=[(20, 31)])
    assert Counter(part["value"]) == Counter(known["value"]) != Counter(whole["value"])
