"""Runs of workloads: their times, and the CPU time and the requests during them."""

from __future__ import annotations

import polars as pl
import pytest
from support import made

from androstep_analysis import perceived

S = 1_000_000_000

STEPS = pl.DataFrame(
    [
        ("web card", 0, "load", 0, 3 * S, "completed"),
        ("web card", 0, "load", 4 * S, 5 * S, "completed"),
        ("web card", 1, "load", 10 * S, 14 * S, "completed"),
        ("web card", 1, "pause", 14 * S, 17 * S, "completed"),
        ("web disk", 0, "load", 20 * S, 21 * S, "failed"),
        ("web disk", 0, "load", 21 * S, 23 * S, "completed"),
    ],
    ["workload", "repeat", "what", "ts_ns", "end_ns", "outcome"],
    orient="row",
)
RUNS = perceived.runs(STEPS, named=("app", "place"))


def test_a_run_is_from_its_first_step_to_its_last() -> None:
    assert RUNS.rows() == [
        ("web", "card", 0, 0, 5 * S, 2),
        ("web", "card", 1, 10 * S, 17 * S, 2),
        ("web", "disk", 0, 20 * S, 23 * S, 2),
    ]
    times = perceived.run_times(RUNS, by=("app", "place"))
    card, disk = times.to_dicts()
    assert (card["value"], card["n"], card["unit"]) == (6.0, 2, "s")  # 5 s and 7 s: one standard deviation is 2 ** 0.5
    assert (card["lo"], card["hi"]) == pytest.approx((6 - 2**0.5, 6 + 2**0.5))
    assert (disk["value"], disk["lo"], disk["hi"]) == (3.0, None, None)


def test_a_run_counts_as_its_mean_step() -> None:
    waits = perceived.run_responses(STEPS, what=["load"], named=("app", "place"))
    # Runs of the card: (3 + 1) / 2 and 4 s. The load that failed does not count.
    assert dict(waits.select("place", "value").iter_rows()) == {"card": 3.0 * S, "disk": 2.0 * S}
    assert dict(waits.select("place", "n").iter_rows()) == {"card": 2, "disk": 1}


def test_cpu_time_is_that_of_the_runs() -> None:
    # A CPU that is active all the time for 20 s, and idle afterwards.
    samples = made.table(
        "samples",
        [
            {"ts_ns": at * S, "counter": f"stat.{state}", "unit": "ns", "scope": "system", "value": float(value * S)}
            for at, user, idle in ((0, 0, 0), (20, 20, 0), (30, 20, 10))
            for state, value in (("user", user), ("idle", idle))
        ],
    )
    found = perceived.run_cpu(samples, RUNS, by=("place",))
    values = {(place, state): value for place, state, value in found.select("place", "state", "value").iter_rows()}
    assert values["card", "active"] == pytest.approx(6.0)  # the mean of 5 s and 7 s
    assert (values["disk", "active"], values["disk", "idle"]) == pytest.approx((0.0, 3.0))


def test_rates_begin_with_the_run() -> None:
    times = [at * S for at in (1, 10, 12, 12, 16, 18)]
    requests = made.table(
        "requests",
        [
            {"op": "write", "sector": 8 * at, "nr_sectors": 8, "queue_ns": ns, "issue_ns": ns, "complete_ns": ns + 5}
            for at, ns in enumerate(times)
        ],
    )
    found = perceived.run_rates(requests, RUNS.filter(repeat=1), by=("place",)).filter(pl.col("value") > 0)
    assert found.select("place", "ts_ns", "value").rows() == [
        ("card", 0, 1.0),
        ("card", 2 * S, 2.0),
        ("card", 6 * S, 1.0),
    ]
