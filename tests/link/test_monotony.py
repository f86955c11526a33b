"""Kinds of events that are taken away turn facts into inferred or unknown, never into other facts."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from support import monotony

RECORDINGS = (*monotony.KERNEL, *monotony.OTHERS, "demo")
SUBSETS = 16
"""Pairs of sets of kinds for each of the recordings: more than 200."""


def found(name: str, nr_pairs: int) -> Counter[str]:
    of = monotony.recording(name)
    total: Counter[str] = Counter()
    for seed, (many, few) in enumerate(itertools.islice(monotony.pairs(of, 7), nr_pairs)):
        answers, fewer = of.only(many), of.only(few)
        counts = monotony.violations(fewer, answers) + monotony.wrong(of, fewer)
        total += Counter({f"{seed}: {what}; {sorted(set(many) - set(few))} of {many}": n for what, n in counts.items()})
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_fewer_kinds_of_events_state_nothing_else(name: str) -> None:
    assert not found(name, SUBSETS)


@pytest.mark.parametrize(
    "name", ["wrong_facts/es-insert-only/corecache.txt", "wrong_facts/more-events-less-known/lookup.txt.gz"]
)
def test_fewer_kinds_of_events_state_nothing_else_of_a_short_recording(name: str) -> None:
    assert not found(name, 3)
