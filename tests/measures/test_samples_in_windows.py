"""Readings of counters cut into windows of time, against plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import made

from androstep_analysis.measures.samples import in_windows

FIRST_NS, LENGTH_NS, COUNT = 1000, 10, 4

Reading = tuple[int, int]
"""Its time and its value."""


def expected(series: list[Reading]) -> Iterator[tuple[int, int, float]]:
    """Window, time and value of every reading, and of every edge between two windows that lies between two readings.

    An edge ends the window before it, and begins the one behind it unless a reading at this very time does so.
    """
    for ts_ns, value in series:
        yield max(0, min((ts_ns - FIRST_NS) // LENGTH_NS, COUNT - 1)), ts_ns, float(value)
    for (before_ns, before), (after_ns, after) in pairwise(series):
        for window in range(1, COUNT):
            edge_ns = FIRST_NS + window * LENGTH_NS
            if before_ns < edge_ns <= after_ns:
                value = before + (after - before) * (edge_ns - before_ns) / (after_ns - before_ns)
                yield window - 1, edge_ns, value
                if edge_ns < after_ns:
                    yield window, edge_ns, value


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_a_window_holds_its_readings_and_what_the_counter_is_at_its_edges(seed: int) -> None:
    """Times of few different values: on the edges, next to them, before the first window and after the last."""
    choose = random.Random(seed)
    of_counter = {
        name: [(ts_ns, choose.randrange(100)) for ts_ns in sorted(choose.sample(range(975, 1065, 5), 6))]
        for name in ("one", "two")
    }
    rows = [
        {"ts_ns": ts_ns, "scope": "system", "counter": name, "value": value, "unit": "pages"}
        for name, series in of_counter.items()
        for ts_ns, value in series
    ]
    choose.shuffle(rows)
    cut = in_windows(made.table("samples", rows).lazy(), FIRST_NS, LENGTH_NS, COUNT).collect()
    for name, series in of_counter.items():
        found = cut.filter(pl.col("counter") == name).select("window", "ts_ns", "value").sort(pl.all()).rows()
        assert found == [(window, ts_ns, pytest.approx(value)) for window, ts_ns, value in sorted(expected(series))]
