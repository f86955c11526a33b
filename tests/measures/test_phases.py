"""Where a recording changes, and its phases as recordings: nothing is lost or counted twice."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import made

from androstep_analysis import compare
from androstep_analysis.common.errors import InputError
from androstep_analysis.stats.changes import LEAST, changes

S = 1_000_000_000


def alike(random: np.random.Generator, length: int, correlation: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a series with correlated neighbours."""
    found = random.normal(size=length)
    for at in range(1, length):
        found[at] = correlation * found[at - 1] + (1 - correlation**2) ** 0.5 * found[at]
    return found


@pytest.mark.prove
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_changes_are_found_where_they_are(correlation: float) -> None:
    missed = 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        busy, quiet = alike(random, 900, correlation), alike(random, 900, correlation)
        busy[300:600] += 6
        found = changes([quiet, busy])
        assert all(min(abs(at - 300), abs(at - 600)) <= 15 for at in found)
        missed += 2 - len(found)
    assert 0 <= missed <= 2


@pytest.mark.prove
@pytest.mark.parametrize("length", [60, 300, 900])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_few_changes_are_found_where_there_are_none(length: int, correlation: float) -> None:
    found = [changes([alike(np.random.default_rng(seed), length, correlation)]) for seed in range(40)]
    assert sum(bool(one) for one in found) <= 4, "5 % of 40 are two; more than four come once in twenty"


@given(st.lists(st.floats(-1e6, 1e6), min_size=0, max_size=150), st.sampled_from([1.0, 8.0]))
@settings(max_examples=60)
def test_phases_are_never_shorter_than_blocks_allow(values: list[float], scale: float) -> None:
    series = np.array(values)
    found = changes([series])
    assert all(after - before >= LEAST for before, after in pairwise([0, *found[:1]]))
    assert found == sorted(set(found)) and all(LEAST <= at <= len(series) - LEAST for at in found)
    assert changes([scale * series]) == found


def recording(rates: list[int], seconds: int) -> Any:
    """So many writes in every second of each phase, each phase so many seconds, with reads all the time."""
    rows = [
        {"op": op, "sector": 8 * number, "nr_sectors": 8, "queue_ns": at, "issue_ns": at, "complete_ns": at + 1000}
        for phase, rate in enumerate(rates)
        for second in range(seconds)
        for op, count in (("read", 3), ("write", rate + second % 2))
        for number in range(count)
        for at in [(phase * seconds + second) * S + number * (S // 100)]
    ]
    return made.capture(sorted(rows, key=lambda row: row["queue_ns"]))


def test_a_recording_is_cut_at_its_changes_and_nothing_is_lost() -> None:
    whole = recording([5, 40, 5], 60)
    phases = compare.phases(whole)
    assert [phase.title for phase in phases] == ["made 1 (0–60 s)", "made 2 (60–120 s)", "made 3 (120–179.05 s)"]
    requests = pl.concat([phase.tables["requests"] for phase in phases]).collect()
    assert requests.sort("request_id").equals(whole.requests.collect().sort("request_id"))
    measured = compare.measure_all(phases, "rate", window_ns=S)
    rates = compare.summarise(measured.filter(metric="iops", op="write"), by=["capture"])
    assert rates["value"].to_list() == pytest.approx([5.5, 40.5, 5.5], abs=0.1)


def test_a_recording_that_goes_on_as_it_was_is_one() -> None:
    whole = recording([5], 120)
    assert [phase.title for phase in compare.phases(whole)] == ["made"]
    assert [phase.title for phase in compare.phases(made.capture())] == ["made"]


def test_windows_must_have_a_length() -> None:
    with pytest.raises(InputError, match="the length must be positive"):
        compare.phases(recording([5], 60), window_ns=0)
