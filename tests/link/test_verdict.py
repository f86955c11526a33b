"""Test which counts of agreements and contradictions prove or refute an image."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.link.evidence.consistency import CHECKS
from androstep_analysis.link.evidence.consistency.verdict import CHANCE, KINDS, CheckResult, Comparison

LOST = Loss("overwritten", 1, "one is lost")

CASES: dict[str, tuple[list[tuple[str, int, int]], str, str | None]] = {
    "nothing was compared": ([], "nothing", None),
    "another kind of filesystem": ([("commits", 90, 0), ("filesystem", 0, 1)], "content", "filesystem"),
    "no more contradictions than by chance": ([("commits", 0, CHANCE)], "nothing", None),
    "more contradictions than by chance": ([("commits", 0, CHANCE + 1)], "nothing", "commits"),
    "more agreements than contradictions": ([("births", 9, 8)], "nothing", None),
    "hardly a contradiction": ([("births", 60, 3)], "content", None),
    "contradictions in another check": ([("births", 60, 0), ("numbers", 0, 4)], "nothing", "numbers"),
    "the clock may have been set": ([("births", 60, 0), ("clock", 0, 40)], "nothing", None),
    "another time": ([("commits", 60, 0), ("age", 0, 40), ("numbers", 0, 9)], "nothing", None),
    "another time does not excuse the clock of commits": ([("age", 0, 40), ("commits", 0, 9)], "nothing", "commits"),
    "only the layout agrees": ([("metadata", 20, 2)], "layout", None),
    "hardly any metadata": ([("metadata", CHANCE, 0)], "nothing", None),
    "the filesystem was resized": ([("extents", 60, 0), ("size", 0, 50)], "content", None),
    "data at equal sectors of another filesystem": ([("pages", 60, 0), ("metadata", 0, 50)], "content", "metadata"),
}


def compared(results: list[tuple[str, int, int]], lost: tuple[Loss, ...] = ()) -> Comparison:
    staging = SimpleNamespace(lost=Losses(lost))
    trace: Any = SimpleNamespace(staging=staging, dev=1)
    snapshot: Any = None
    return Comparison("image_after", snapshot, trace, [CheckResult(*result) for result in results])


@pytest.mark.parametrize("name", CASES)
def test_what_the_results_prove(name: str) -> None:
    results, proven, refuted_by = CASES[name]
    found = compared(results)
    assert ("content" if found.proves_content else "layout" if found.proves_layout else "nothing") == proven
    assert (found.refutation and found.refutation.kind) == refuted_by


@pytest.mark.parametrize(
    ("kind", "is_refuted"),
    [("births", False), ("numbers", False), ("extents", False), ("pages", False), ("lineage", True)],
)
def test_checks_for_absent_events_do_not_refute_after_a_loss(kind: str, is_refuted: bool) -> None:
    assert compared([(kind, 0, 9)]).refutation is not None
    assert (compared([(kind, 0, 9)], (LOST,)).refutation is not None) == is_refuted


def test_every_check_is_of_a_known_kind_and_says_what_a_contradiction_means() -> None:
    for check in CHECKS:
        assert KINDS[check.kind][1] in ("never", "at once", "by count", "if complete")
        assert check.meaning or check.kind == "boot"  # which has no contradictions
