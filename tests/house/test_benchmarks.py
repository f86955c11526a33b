"""Every benchmark runs at a small size; its numbers are not checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks import paired
from benchmarks.__main__ import BENCHMARKS, cells

SMALL: dict[str, Any] = {
    **{"readers": 20_000, "linking": 20_000, "memory": 5_000, "captures": 2},
    **{"recording": 0.05, "sampling": 5, "watching": 1.0, "iobench": 0.05, "replaying": 0.2},
    **{"cache": 20_000, "flash": 60, "intervals": 2, "events": ["vfat_guest_6.1"], "advice": 1},
}


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("measured", BENCHMARKS.values(), ids=BENCHMARKS)
def test_a_benchmark_yields_its_rows(
    measured: Callable[..., Iterator[paired.Row]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired, "ROUNDS", 1)
    rows = list(measured(SMALL[measured.__name__]))
    assert rows
    for row in rows:
        assert row.ours is not None and math.isfinite(row.ours)
        assert (row.ratio is None) == (row.theirs is None or not row.ours)
        assert all(cells(row))


def test_ratios_are_those_of_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "ROUNDS", 3)
    ours, theirs = iter([1.0, 2.0, 4.0]), iter([10.0, 2.0, 8.0])
    rows = list(paired.in_turn("x", lambda: next(ours), {"peer": lambda: next(theirs), "missing": None}))
    assert rows == [paired.Row("x", 2.0, "peer", 8.0, 2.0), paired.Row("x", 2.0, "missing", None, None)]
    assert [cells(row)[1:] for row in rows] == [("2.00", "8.00 (peer)", "2.00"), ("2.00", "– (missing)", "–")]
