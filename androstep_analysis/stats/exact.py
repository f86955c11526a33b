"""Intervals, tests and effect sizes for a few independent repeats, without assumptions about their distribution.

All of them use ranks, and their levels are exact for any number of repeats. A bootstrap of so few values gives
intervals that are too narrow.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

MISSED: Final = Fraction(1, 20)
"""The largest probability that an interval does not contain the true value."""

COUNTED: Final = 100
"""The most values of both sides together for which all permutations are counted."""

Bounds = tuple[float | None, float | None, float | None]
"""A value and its interval; None if it cannot be computed."""


def rank(count: int) -> tuple[int, float]:
    """Return the rank (from 1) among `count` values at which the interval of the median begins, and its confidence.

    The interval ends at the same rank from the other end. The median lies below the j-th least value with the binomial
    probability that fewer than j of the values lie below the median.
    """
    position, below = 1, Fraction(1, 2**count)
    for candidate in range(2, count // 2 + 1):
        further = Fraction(sum(math.comb(count, k) for k in range(candidate)), 2**count)
        if 2 * further > MISSED:
            break
        position, below = candidate, further
    return position, float(1 - 2 * below)


# -- two sides, unpaired ----------------------------------------------------------------------------------------------


def ratio(first: Sequence[float], second: Sequence[float]) -> Bounds:
    """Return the ratio of the medians, second to first, and its interval with 95 % confidence.

    The interval is that of Moses (1953), on logarithms. It runs from the k-th least to the k-th greatest ratio of a
    value of one side to a value of the other (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 2014,
    §4.3). It assumes that the distributions of the two sides differ by a factor only.

    Returns None if a value is not positive, or if there are too few values for an interval. With bimodal values, the
    ratio of medians can lie outside of the interval, which is then widened to include it.
    """
    if not first or not second or min(*first, *second) <= 0:
        return None, None, None
    ratios = np.divide.outer(np.asarray(second, float), np.asarray(first, float))
    return _moses(float(np.median(second) / np.median(first)), ratios)


def difference(first: Sequence[float], second: Sequence[float]) -> Bounds:
    """Return the difference of the medians, second minus first, and its interval, as `ratio` without logarithms."""
    if not first or not second:
        return None, None, None
    differences = np.subtract.outer(np.asarray(second, float), np.asarray(first, float))
    return _moses(float(np.median(second) - np.median(first)), differences)


def _moses(value: float, every: npt.NDArray[np.float64]) -> Bounds:
    k = moses(*every.shape)
    if k == 0:
        return value, None, None
    ordered = np.sort(every, axis=None)
    return value, min(value, float(ordered[k - 1])), max(value, float(ordered[-k]))


@functools.cache
def moses(nr_first: int, nr_second: int) -> int:
    """Return the rank k, from 1, of the ratio at which the interval begins; 0 if the confidence cannot be reached.

    It is the largest k with P(U <= k - 1) <= 2.5 %, where U is Mann and Whitney's statistic of samples of these sizes.
    """
    # Coefficients of the Gaussian binomial: the number of orders of the two samples with each U.
    counts = [1] + [0] * (nr_first * nr_second)
    for step in range(1, nr_first + 1):
        for at in range(len(counts) - 1, nr_second + step - 1, -1):
            counts[at] -= counts[at - nr_second - step]
        for at in range(step, len(counts)):
            counts[at] += counts[at - step]
    return _largest_k(counts)


def _largest_k(counts: Sequence[int]) -> int:
    """Return the largest k for which the first k of `counts` are at most 2.5 % of all."""
    total, sums, k = sum(counts), 0, 0
    for count in counts:
        sums += count
        if 2 * sums > MISSED * total:
            break
        k += 1
    return k


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Mann and Whitney's test: the share of permutations with as large a difference.

    Ties have the mean of their ranks. All permutations are counted. Beyond `COUNTED` values, the normal approximation
    of the sum of ranks is used.
    """
    doubled = _doubled_ranks(np.concatenate([first, second]))
    found = int(doubled[len(first) :].sum())
    if len(doubled) > COUNTED:
        return _normal(found, doubled, len(second))
    # ways[n][s] is the number of ways to choose n of the values with a sum of doubled ranks of s.
    few = min(len(first), len(second))
    sought = found if few == len(second) else int(doubled.sum()) - found
    ways = np.zeros((few + 1, int(np.sort(doubled)[len(doubled) - few :].sum()) + 1))
    ways[0, 0] = 1
    for value in doubled:
        ways[1:, value:] += ways[:-1, : ways.shape[1] - value].copy()
    return _two_sided(ways[few], sought)


def cliffs_delta(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Cliff's delta: the share of pairs with a greater second value minus that with a smaller one, -1 to 1."""
    ordered = np.sort(np.asarray(first, float))
    smaller, not_greater = (np.searchsorted(ordered, second, side) for side in ("left", "right"))
    return float((smaller + not_greater - len(ordered)).sum() / (len(ordered) * len(second)))


def attainable(nr_first: int, nr_second: int) -> float:
    """Return the least p-value of `rank_test` for these numbers of values: all of one side are above the other."""
    return 2 / math.comb(nr_first + nr_second, nr_first) if nr_first and nr_second else 1.0


# -- pairs ------------------------------------------------------------------------------------------------------------


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Bounds:
    """Return Hodges and Lehmann's estimate of the difference within pairs, second minus first, and its interval.

    The estimate is the median of the means of every two differences (Walsh averages). The interval runs from the k-th
    least to the k-th greatest of them, with k from the exact distribution of Wilcoxon's statistic (Tukey; Hollander,
    Wolfe and Chicken, 2014, §3.2). It has 95 % confidence if the differences are symmetric. It is None for fewer than 6
    pairs.
    """
    if not first:
        return None, None, None
    differences = np.asarray(second, float) - np.asarray(first, float)
    row, column = np.triu_indices(len(differences))
    means = np.sort((differences[row] + differences[column]) / 2)
    value, k = float(np.median(means)), walsh(len(differences))
    return (value, None, None) if k == 0 else (value, float(means[k - 1]), float(means[-k]))


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Bounds:
    """Return the ratio within pairs, as `paired_difference` on logarithms; None unless all values are positive."""
    if not first or min(*first, *second) <= 0:
        return None, None, None
    value, lo, hi = paired_difference([math.log(one) for one in first], [math.log(one) for one in second])
    return _exp(value), _exp(lo), _exp(hi)


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


@functools.cache
def walsh(nr_pairs: int) -> int:
    """Return the rank k, from 1, of the mean at which the interval begins; 0 if the confidence cannot be reached."""
    counts = [1]
    for step in range(1, nr_pairs + 1):
        counts = [
            (counts[at] if at < len(counts) else 0) + (counts[at - step] if at >= step else 0)
            for at in range(len(counts) + step)
        ]
    return _largest_k(counts)


def signed_rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's test of pairs: the share of sign changes with as large a difference.

    Pairs without a difference keep their rank, and their sign has no effect (Pratt). All combinations are counted.
    """
    differences = np.asarray(second, float) - np.asarray(first, float)
    doubled = _doubled_ranks(np.abs(differences))[differences != 0]
    found = int(_doubled_ranks(np.abs(differences))[differences > 0].sum())
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1
    for value in doubled:
        ways[value:] += ways[: len(ways) - value].copy()
    return _two_sided(ways, found)


def rank_biserial(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the rank-biserial correlation: the rank share of pairs that increase minus that of pairs that decrease.

    It lies between -1 and 1, and is 0 without a difference.
    """
    differences = np.asarray(second, float) - np.asarray(first, float)
    ranks = _doubled_ranks(np.abs(differences))[differences != 0]
    return float((np.sign(differences[differences != 0]) * ranks).sum() / ranks.sum()) if len(ranks) else 0.0


def attainable_paired(nr_pairs: int) -> float:
    """Return the least p-value of `signed_rank_test` for this number of pairs."""
    return min(1.0, 2.0 ** (1 - nr_pairs))


# -- ranks ------------------------------------------------------------------------------------------------------------


def _doubled_ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return twice the rank of each value. Ties share their mean rank, so that the doubled ranks are integers."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, "left")
    return below + np.searchsorted(ordered, values, "right") + 1


def _two_sided(ways: npt.NDArray[np.float64], found: int) -> float:
    """Return twice the share of permutations on the smaller side of `found`."""
    total = float(ways.sum())
    below, above = float(ways[: found + 1].sum()), float(ways[found:].sum())
    return min(1.0, 2 * min(below, above) / total)


def _normal(found: int, doubled: npt.NDArray[np.int64], chosen: int) -> float:
    """Return the p-value by the normal approximation, with the mean and variance of drawing without replacement."""
    other = len(doubled) - chosen
    variance = chosen * other / len(doubled) * float(doubled.var(ddof=1))
    if variance == 0:
        return 1.0
    far = max(0.0, abs(found - chosen * float(doubled.mean())) - 1)  # continuity: ranks are doubled, so half of two
    return math.erfc(far / math.sqrt(2 * variance))
