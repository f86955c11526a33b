"""Estimates of one side of a comparison with their errors, and questions about two sides (`Question`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.measures.measure import Worse
from androstep_analysis.stats import blocks
from androstep_analysis.stats.blocks import Mean, Series
from androstep_analysis.stats.quantiles import Histogram, quantile

LEAST_REQUESTS: Final = 20
"""What occurred less often on both sides is not compared."""

REPEATS: Final = 3
"""With this many recordings on a side, the spread between runs is measured."""


class Kind(NamedTuple):
    """The variation of a kind of number between runs, and the smallest difference that matters.

    For shares both are in points, else they are relative to the value. `run_spread` is the standard deviation between
    runs of one workload on one machine. It is assumed if fewer than `REPEATS` recordings measure it. `most_same` is the
    widest interval for which the verdict is still "the same within".
    """

    is_share: bool
    run_spread: float
    smallest: float
    most_same: float


AMOUNT: Final = Kind(is_share=False, run_spread=0.10, smallest=0.05, most_same=0.6)
CACHED: Final = Kind(is_share=False, run_spread=0.50, smallest=0.05, most_same=0.6)
"""Amounts that the device reads. They depend on what the page cache holds, which is one state for a whole run."""
PER_REQUEST: Final = Kind(is_share=False, run_spread=0.05, smallest=0.05, most_same=0.6)
SHARE: Final = Kind(is_share=True, run_spread=0.03, smallest=0.03, most_same=0.15)
SPEED: Final = Kind(is_share=False, run_spread=0.50, smallest=0.10, most_same=0.6)
"""Amounts per second of programs that always wait for storage. They depend on its speed."""
TIME: Final = Kind(is_share=False, run_spread=0.50, smallest=0.10, most_same=0.6)


@dataclass(frozen=True)
class Estimate:
    """A number of one side: the mean, and the number of recordings.

    For an amount, also the number of independent blocks of time in which something happened, and their total length.
    """

    mean: Mean
    recordings: int
    occupied: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Question:
    """A number of both sides that is compared.

    `worse` is the direction that is worse, if any. `share` is the part of the whole that the number describes, on the
    side with the larger part.
    """

    what: str
    unit: str
    kind: Kind
    worse: Worse
    first: Estimate
    second: Estimate
    share: float = 1.0


def series(rows: pl.DataFrame) -> list[Series]:
    """Return the windows of each recording in order."""
    recordings = rows.filter(pl.col("weight") > 0).sort("repeat").partition_by("capture_id", maintain_order=True)
    return [Series(one["value"].to_numpy(), one["weight"].to_numpy()) for one in recordings]


def total(recordings: Sequence[Series]) -> float:
    """Return the amount in all windows together."""
    return sum(float(one.values @ one.weights) for one in recordings)


def amount_of(recordings: Sequence[Series]) -> Estimate:
    """Return an amount per second.

    For few recordings, also count the independent blocks in which something happened.
    """
    if len(recordings) >= REPEATS:
        return Estimate(of_repeats([total([one]) / float(one.weights.sum()) for one in recordings]), len(recordings))
    mean = blocks.mean(recordings)
    occupied = min(sum(map(_occupied, recordings)), mean.effective)
    return Estimate(mean, len(recordings), occupied, sum(float(one.weights.sum()) for one in recordings))


def of_repeats(values: Sequence[float]) -> Mean:
    """Return the geometric mean of independent repeats, assuming that their logarithms are nearly normal.

    On logarithms, one slow repetition does not hide the others. If a value is not positive, the arithmetic mean is
    used.
    """
    if len(values) < REPEATS or min(values) <= 0:
        return blocks.of_repeats(values)
    logarithms, count = np.log(values), len(values)
    value = math.exp(float(logarithms.mean()))
    error = value * float(logarithms.std(ddof=1)) / math.sqrt(count)
    return Mean(value, error, count - 1.0, count, float(count), 0.0, float(count))


def in_all(per_second: Estimate, seconds: float) -> Estimate:
    """Return an amount per second as the amount of a whole recording of this length."""
    mean = per_second.mean
    return replace(per_second, mean=replace(mean, value=mean.value * seconds, error=mean.error * seconds))


def _occupied(series: Series) -> float:
    """Return the number of `blocks.MOST_BLOCKS` blocks in which something happened."""
    begins = np.linspace(0, len(series.values), min(blocks.MOST_BLOCKS, len(series.values)), endpoint=False).astype(int)
    return float(np.count_nonzero(np.add.reduceat(series.values, begins)))


def per(amounts: Sequence[Series], counts: Sequence[Series]) -> Estimate | None:
    """Return the amount for each counted item: the ratio of sums, with the error of its residuals."""
    count = total(counts)
    if count < LEAST_REQUESTS:
        return None
    value = total(amounts) / count
    if len(amounts) >= REPEATS and all(total([one]) > 0 for one in counts):
        ratios = [total([one]) / total([other]) for one, other in zip(amounts, counts, strict=True)]
        return Estimate(of_repeats(ratios), len(amounts))
    windows = [
        Series(one.values * one.weights - value * other.values * other.weights, np.ones(len(one.values)))
        for one, other in zip(amounts, counts, strict=True)
    ]
    each = count / sum(len(one.values) for one in windows)
    residual = blocks.mean(windows)
    return Estimate(replace(residual, value=value, error=residual.error / each), len(amounts))


def share_of(recordings: Sequence[Series]) -> Estimate:
    """Return the share in all recordings together if they are few, else the mean of the shares of each."""
    heavy = [one for one in recordings if one.weights.sum() > 0]
    if len(recordings) < REPEATS:
        return Estimate(blocks.mean(heavy, is_share=True), len(recordings))
    return Estimate(blocks.of_repeats([total([one]) / float(one.weights.sum()) for one in heavy]), len(heavy))


def quantile_of(recordings: Sequence[Histogram], level: float) -> Mean:
    """Return the quantile of all requests if the recordings are few, else the mean of the quantiles of each."""
    if len(recordings) < REPEATS or not all(one.counts.sum() for one in recordings):
        return quantile(recordings, level)
    return of_repeats([quantile([one], level).value for one in recordings])


def histogram(rows: pl.DataFrame, nr_windows: int) -> Histogram:
    known = rows.drop_nulls("value")
    return Histogram(
        known["value"].to_numpy().astype(float),
        known["window"].to_numpy(),
        known["count"].to_numpy().astype(float),
        nr_windows,
    )
