"""Quantiles over windows of time, with intervals that take the correlation of neighbouring windows into account.

The interval is Woodruff's (Journal of the American Statistical Association 47, 1952). It is the interval of the share
of the values up to the quantile, by blocks of windows (`stats.blocks`), converted back to values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from androstep_analysis.stats import blocks
from androstep_analysis.stats.blocks import Mean, Scale, Series

_ONE_DEVIATION = 1.0


@dataclass(frozen=True)
class Histogram:
    """The number of occurrences of each value in each window of one recording.

    In row i, values up to ``values[i]`` occurred ``counts[i]`` times in window ``windows[i]``, of ``length`` windows.
    """

    values: npt.NDArray[np.float64]
    windows: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    length: int


@dataclass(frozen=True)
class Quantile(Mean):
    """A quantile with its error. `share` is the mean share of the values that do not exceed it.

    `values` are all values in order, and `upto` their cumulative share.
    """

    share: Mean
    values: npt.NDArray[np.float64]
    upto: npt.NDArray[np.float64]

    def bounds(self, deviates: float, freedom: float, scale: Scale) -> tuple[float, float]:
        """Return the interval of values. Its upper end is infinite if there are too few values to limit it."""
        low, high = self.share.bounds(deviates, freedom, Scale.SHARE)
        at_low, at_high = np.searchsorted(self.upto, (low, high))
        return float(self.values[min(at_low, len(self.values) - 1)]), _value(self.values, int(at_high))


def quantile(recordings: Sequence[Histogram], level: float) -> Quantile:
    """Return the quantile of all values (nearest rank). Raises `ValueError` without values."""
    values = np.concatenate([one.values for one in recordings])
    counts = np.concatenate([one.counts for one in recordings])
    if not len(values):
        raise ValueError("cannot compute a quantile of no values")
    distinct, at = np.unique(values, return_inverse=True)
    upto = np.cumsum(np.bincount(at, counts)) / counts.sum()
    # Tolerate rounding errors in the sums of shares.
    value = float(distinct[min(int(np.searchsorted(upto, level - 1e-12)), len(distinct) - 1)])
    share = blocks.mean([_share(one, value) for one in recordings], is_share=True)
    found = Quantile(
        value, share.error, share.freedom, share.windows, share.effective, 0.0, share.blocks, share, distinct, upto
    )
    if not share.is_known:
        return found
    low, high = found.bounds(_ONE_DEVIATION, share.freedom, Scale.SHARE)
    return replace(found, error=(min(high, 2 * value) - low) / 2)


def _share(one: Histogram, value: float) -> Series:
    """Return the share of each window's values that do not exceed `value`, weighted by their number."""
    whole = np.bincount(one.windows, one.counts, one.length).astype(float)
    below = np.bincount(one.windows, np.where(one.values <= value, one.counts, 0.0), one.length).astype(float)
    return Series(np.divide(below, whole, out=np.zeros_like(below), where=whole > 0), whole)


def _value(values: npt.NDArray[np.float64], at: int) -> float:
    return float(values[at]) if at < len(values) - 1 else math.inf
