"""Where a series changes: the places between windows before and after which its mean is not the same.

Intervals of all lengths, each half over the next (seeded binary segmentation: Kovács, Bühlmann, Li and Munk, Biometrika
110, 2023), are cut where the means of both parts differ most. Whether they do is tested as for two recordings, by
blocks (`stats.blocks`), so that neighbouring windows that are alike make no change; of the intervals in which it is
shown, the shortest tell where (narrowest over threshold: Baranowski, Chen and Fryzlewicz, JRSS B 81, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from androstep_analysis.stats.blocks import Difference, Scale, Series, mean

Values = npt.NDArray[np.float64]

LEAST: Final = 20
"""Windows of a phase, at the least: fewer make no three blocks."""

LEVEL: Final = 0.01
"""Of the test, for all intervals together. In series without changes one was found in 5 % at the most, however alike
neighbours were (correlations up to 0.95)."""

_SHORTER: Final = math.sqrt(2)

_CLEAR: Final = 3.0
"""Standard errors of independent windows: what differs by less is no change, and is not looked at closer."""


def changes(series: Sequence[Values]) -> list[int]:
    """Where one of several series of the same windows changes: the first window after each change, in order."""
    intervals = list(_intervals(len(series[0])))
    limit = LEVEL / max(1, len(intervals) * len(series))
    shown = [
        (begin, end, place)
        for begin, end in intervals
        for place, p in (_cut(one[begin:end]) for one in series)
        # The best of all places of an interval, of which some few are as good as independent.
        if p <= limit / math.log2(end - begin)
    ]
    found: list[int] = []
    for begin, end, place in sorted(shown, key=lambda one: one[1] - one[0]):
        if not any(begin < other < end for other in found):
            found.append(begin + place)
    return sorted(found)


def _intervals(length: int) -> Iterator[tuple[int, int]]:
    """From the whole series down to twice the shortest phase, each half over the next."""
    size = float(length)
    while size >= 2 * LEAST:
        count = max(1, 2 * math.ceil(length / size) - 1)
        for begin in np.linspace(0, length - size, count):
            yield math.floor(begin), math.floor(begin) + math.floor(size)
        size /= _SHORTER


def _cut(values: Values) -> tuple[int, float]:
    """Where the means before and after differ most, and how probable that is where nothing changes."""
    before = np.arange(LEAST, len(values) - LEAST + 1)
    behind = len(values) - before
    sums = np.cumsum(values)[before - 1]
    far = np.abs(sums / before - (values.sum() - sums) / behind) * np.sqrt(before * behind / len(values))
    best = int(far.argmax())
    place = int(before[best])
    if far[best] < _CLEAR * values.std():
        return place, 1.0
    sides = [mean([Series(one, np.ones(len(one)))]) for one in (values[:place], values[place:])]
    difference = Difference(sides[0], sides[1], Scale.ANY)
    return place, difference.p() if difference.is_known else 1.0
