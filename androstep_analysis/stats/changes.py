"""Change points of a series: the windows at which its mean changes.

The series is examined in intervals of many lengths, each of which overlaps half of the next (seeded binary
segmentation: Kovács, Bühlmann, Li and Munk, Biometrika 110, 2023). Each interval is split at the point at which the
means of both parts differ most. The difference is tested by blocks (`stats.blocks`), as for two recordings, so that
correlated windows do not appear as changes. Of the intervals with a significant difference, the shortest give the
change points (narrowest over threshold: Baranowski, Chen and Fryzlewicz, JRSS B 81, 2019).
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
"""The least number of windows of a phase. Fewer do not make three blocks."""

LEVEL: Final = 0.01
"""Level of the test, for all intervals together. In simulated series without changes, a change was found in at most 5
%, for correlations of neighbours up to 0.95."""

_SHORTER: Final = math.sqrt(2)

_CLEAR: Final = 3.0
"""In standard errors of independent windows. Smaller differences are not tested further."""


def changes(series: Sequence[Values]) -> list[int]:
    """Return the change points of several series of the same windows: the first window after each change, in order."""
    intervals = list(_intervals(len(series[0])))
    limit = LEVEL / max(1, len(intervals) * len(series))
    shown = [
        (begin, end, split)
        for begin, end in intervals
        for split, p in (_best_split(one[begin:end]) for one in series)
        # Corrects for the choice of the best point of an interval. Neighbouring points are correlated, so the logarithm
        # suffices.
        if p <= limit / math.log2(end - begin)
    ]
    found: list[int] = []
    for begin, end, split in sorted(shown, key=lambda one: one[1] - one[0]):
        if not any(begin < other < end for other in found):
            found.append(begin + split)
    return sorted(found)


def _intervals(length: int) -> Iterator[tuple[int, int]]:
    """Yield intervals from the whole series down to twice the shortest phase, each half over the next."""
    size = float(length)
    while size >= 2 * LEAST:
        count = max(1, 2 * math.ceil(length / size) - 1)
        for begin in np.linspace(0, length - size, count):
            yield math.floor(begin), math.floor(begin) + math.floor(size)
        size /= _SHORTER


def _best_split(values: Values) -> tuple[int, float]:
    """Return the point at which the means before and after differ most, and the p-value of the difference."""
    before = np.arange(LEAST, len(values) - LEAST + 1)
    after = len(values) - before
    sums = np.cumsum(values)[before - 1]
    far = np.abs(sums / before - (values.sum() - sums) / after) * np.sqrt(before * after / len(values))
    best = int(far.argmax())
    split = int(before[best])
    if far[best] < _CLEAR * values.std():
        return split, 1.0
    sides = [mean([Series(one, np.ones(len(one)))]) for one in (values[:split], values[split:])]
    difference = Difference(sides[0], sides[1], Scale.ANY)
    return split, difference.p() if difference.is_known else 1.0
