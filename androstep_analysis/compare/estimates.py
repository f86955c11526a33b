"""Numbers of one side of a comparison with their errors, and what is asked of two sides (`Question`)."""

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
"""What happened less often on both sides is not compared."""

REPEATS: Final = 3
"""So many recordings on a side measure the spread between runs."""


class Kind(NamedTuple):
    """How far numbers of one kind differ without a cause, and by how much they must differ to matter.

    Of shares both are parts of the whole; of others they are parts of the value. `run_spread` is the standard deviation
    between runs of one workload on one machine, assumed where fewer than `REPEATS` recordings measure it.
    `most_same` is the widest interval of which "the same within" is still said.
    """

    is_share: bool
    run_spread: float
    smallest: float
    most_same: float


AMOUNT: Final = Kind(is_share=False, run_spread=0.10, smallest=0.05, most_same=0.6)
PER_REQUEST: Final = Kind(is_share=False, run_spread=0.05, smallest=0.05, most_same=0.6)
SHARE: Final = Kind(is_share=True, run_spread=0.03, smallest=0.03, most_same=0.15)
SPEED: Final = Kind(is_share=False, run_spread=0.50, smallest=0.10, most_same=0.6)
"""Amounts per second of programs that always wait for storage: these are as many as it is fast."""
TIME: Final = Kind(is_share=False, run_spread=0.50, smallest=0.10, most_same=0.6)


@dataclass(frozen=True)
class Estimate:
    """One number of one side: the mean, and of how many recordings.

    Of an amount also in how many independent blocks of time something happened, and how long all of them are.
    """

    mean: Mean
    recordings: int
    occupied: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Question:
    """One number of both sides.

    `worse` is what is worse: a higher value, a lower one, or none of both. `share` is the part of the whole that this
    is of, on the side where it is larger.
    """

    what: str
    unit: str
    kind: Kind
    worse: Worse
    first: Estimate
    second: Estimate
    share: float = 1.0


def series(rows: pl.DataFrame) -> list[Series]:
    """The windows of each recording in order."""
    recordings = rows.filter(pl.col("weight") > 0).sort("repeat").partition_by("capture_id", maintain_order=True)
    return [Series(one["value"].to_numpy(), one["weight"].to_numpy()) for one in recordings]


def total(recordings: Sequence[Series]) -> float:
    """What happened in all windows together."""
    return sum(float(one.values @ one.weights) for one in recordings)


def amount_of(recordings: Sequence[Series]) -> Estimate:
    """An amount per second; of few recordings also in how many independent blocks something happened."""
    if len(recordings) >= REPEATS:
        return Estimate(of_repeats([total([one]) / float(one.weights.sum()) for one in recordings]), len(recordings))
    mean = blocks.mean(recordings)
    occupied = min(sum(map(_occupied, recordings)), mean.effective)
    return Estimate(mean, len(recordings), occupied, sum(float(one.weights.sum()) for one in recordings))


def of_repeats(values: Sequence[float]) -> Mean:
    """The geometric mean of independent repeats, whose logarithms are taken as nearly normal.

    On logarithms one slow repetition does not hide what all others say. Zeros have none, and then it is the plain mean.
    """
    if len(values) < REPEATS or min(values) <= 0:
        return blocks.of_repeats(values)
    logarithms, count = np.log(values), len(values)
    value = math.exp(float(logarithms.mean()))
    error = value * float(logarithms.std(ddof=1)) / math.sqrt(count)
    return Mean(value, error, count - 1.0, count, float(count), 0.0, float(count))


def in_all(per_second: Estimate, seconds: float) -> Estimate:
    """An amount of a whole recording that is so long."""
    mean = per_second.mean
    return replace(per_second, mean=replace(mean, value=mean.value * seconds, error=mean.error * seconds))


def _occupied(series: Series) -> float:
    """In how many of `blocks.MOST_BLOCKS` blocks something happened."""
    begins = np.linspace(0, len(series.values), min(blocks.MOST_BLOCKS, len(series.values)), endpoint=False).astype(int)
    return float(np.count_nonzero(np.add.reduceat(series.values, begins)))


def per(amounts: Sequence[Series], counts: Sequence[Series]) -> Estimate | None:
    """Return what comes on one of what is counted: the ratio of sums, whose error is that of its residuals."""
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
    """The share in all of few recordings; the mean of those of each where recordings are the repeats."""
    heavy = [one for one in recordings if one.weights.sum() > 0]
    if len(recordings) < REPEATS:
        return Estimate(blocks.mean(heavy, is_share=True), len(recordings))
    return Estimate(blocks.of_repeats([total([one]) / float(one.weights.sum()) for one in heavy]), len(heavy))


def quantile_of(recordings: Sequence[Histogram], level: float) -> Mean:
    """The quantile of all requests of few recordings; the mean of those of each where recordings are the repeats."""
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
