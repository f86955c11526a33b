"""Means over the time windows of recordings, with intervals that know that neighbouring windows are alike.

Windows of one recording are no independent repeats: a busy second is followed by another. Resampling single windows
gives intervals that are too narrow, so whole blocks of neighbouring windows are resampled (Künsch 1989; here on a
circle, Politis and Romano 1992, so that every window counts alike), and every resample is studentised by the variance
of its own blocks (Götze and Künsch 1996). What such an interval says is of these recordings: how far the value would
be another if they had gone on longer, not what another user, day or device would give.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

RESAMPLES: Final = 9_999
"""Resamples of every mean; the smallest p-value is one over one more."""

LEAST_BLOCKS: Final = 10
"""Below so many blocks (`Resampled.blocks`) the intervals do not hold what they promise: there is none."""

_AT_ONCE: Final = 2_000_000
"""Blocks that are drawn at a time; more would only need more memory."""


@dataclass(frozen=True)
class Series:
    """The windows of one recording in order: in each a value, and how much it weighs.

    A share weighs what it is a share of, so that the weighted mean is the share in the whole recording; a rate weighs
    the window's length.
    """

    values: Values
    weights: Values


@dataclass(frozen=True)
class Resampled:
    """A weighted mean over the windows of one recording or of several, and what resampling says of it.

    `windows` is their number, `blocks` the number of independent blocks that they are worth: as many as there are
    where all weigh the same, fewer where a few blocks hold most of the weight. `error` is the standard error of the
    mean, `means` and `errors` those of the resamples.
    """

    mean: float
    error: float
    windows: int
    blocks: float
    means: Values
    errors: Values

    @property
    def is_enough(self) -> bool:
        """There is something to resample: enough blocks, and values that vary."""
        return self.blocks >= LEAST_BLOCKS and self.error > 0

    @property
    def least_windows(self) -> int:
        """How many windows like these there would have to be."""
        return math.ceil(self.windows * LEAST_BLOCKS / self.blocks)


def resampled(recordings: Sequence[Series], *, name: str, resamples: int = RESAMPLES) -> Resampled:
    """The weighted mean of all windows and its resamples.

    The seed follows from `name` alone: the same windows under the same name give the same numbers, whatever else is
    compared. Raises `ValueError` where no window weighs anything.
    """
    total = sum(float(series.weights.sum()) for series in recordings)
    if total <= 0:
        raise ValueError("windows without weight have no mean")
    mean = sum(float(series.values @ series.weights) for series in recordings) / total
    random = np.random.default_rng(zlib.crc32(name.encode("utf-8", "surrogateescape")))
    parts = [_Blocks.of(series, mean) for series in recordings]
    means, errors = np.empty(resamples), np.empty(resamples)
    step = max(1, _AT_ONCE // sum(part.count for part in parts))
    for begin in range(0, resamples, step):
        rows = slice(begin, min(begin + step, resamples))
        means[rows], errors[rows] = _drawn(parts, rows.stop - begin, random)
    return Resampled(
        mean=mean,
        error=math.sqrt(sum(part.variance(mean) for part in parts)) / total,
        windows=sum(len(series.values) for series in recordings),
        blocks=total**2 / sum(part.squared_weight for part in parts),
        means=means,
        errors=errors,
    )


def interval(found: Resampled, level: float = 0.95) -> tuple[float, float] | None:
    """The interval that holds the mean with probability `level`; None where the data do not allow one."""
    if not found.is_enough:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        far = _far((found.means - found.mean) / found.errors, level)
    return None if far is None else (found.mean - far * found.error, found.mean + far * found.error)


@dataclass(frozen=True)
class Difference:
    """Second mean less the first: value, interval, and how probable one so far from zero is without any difference."""

    value: float
    lo: float
    hi: float
    p: float


def difference(first: Resampled, second: Resampled, level: float = 0.95) -> Difference | None:
    """The difference of two means of different recordings; None where the data do not allow an interval.

    A mean that does not vary at all (a share that is 1 in every window) is taken as known, if the other one varies.
    """
    if min(first.blocks, second.blocks) < LEAST_BLOCKS or first.error == second.error == 0:
        return None
    return _difference(_Scale(first.mean, first.error, first.means, first.errors), _scale(second), level)


def ratio(first: Resampled, second: Resampled, level: float = 0.95) -> Difference | None:
    """Second mean over the first, as `difference` on logarithms; None also where a resample has a mean of zero."""
    if min(first.blocks, second.blocks) < LEAST_BLOCKS or first.error == second.error == 0:
        return None
    if min(first.mean, second.mean, first.means.min(), second.means.min()) <= 0:
        return None
    found = _difference(_logarithm(first), _logarithm(second), level)
    if found is None:
        return None
    return Difference(math.exp(found.value), math.exp(found.lo), math.exp(found.hi), found.p)


@dataclass(frozen=True)
class _Scale:
    """Mean, error and resamples on the scale on which they are compared."""

    mean: float
    error: float
    means: Values
    errors: Values


def _scale(found: Resampled) -> _Scale:
    return _Scale(found.mean, found.error, found.means, found.errors)


def _logarithm(found: Resampled) -> _Scale:
    return _Scale(math.log(found.mean), found.error / found.mean, np.log(found.means), found.errors / found.means)


def _difference(first: _Scale, second: _Scale, level: float) -> Difference | None:
    value, error = second.mean - first.mean, math.hypot(first.error, second.error)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = ((second.means - first.means) - value) / np.hypot(first.errors, second.errors)
    bound = _far(far, level)
    if bound is None:
        return None
    beyond = np.count_nonzero(~(np.abs(far) < abs(value) / error))
    return Difference(value, value - bound * error, value + bound * error, (1 + int(beyond)) / (1 + len(far)))


def _far(studentised: Values, level: float) -> float | None:
    """How many errors from the mean the interval ends, on both sides; None where resamples are too degenerate."""
    # A resample without any variance says that the mean may be anywhere: it lies beyond every bound.
    far = np.sort(np.where(np.isnan(studentised), np.inf, np.abs(studentised)))
    bound = float(far[math.ceil(level * (len(far) + 1)) - 1])
    return bound if math.isfinite(bound) else None


def block_length(values: Values) -> int:
    """How many neighbouring values belong into a block.

    Politis and White's rule for the circular bootstrap (2004, as corrected by Patton, Politis and White 2009): from
    the autocorrelations up to where they vanish, the length with the least mean squared error of the variance.
    """
    length = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred) / length
    least: int = math.ceil(2 * math.cbrt(length))
    if variance <= 0 or length < 4:
        return least
    most = math.ceil(math.sqrt(length))
    run = max(5, math.ceil(math.log10(length)))
    lags = np.arange(min(length - 1, most + run) + 1)
    covariances = np.array([float(centred[: length - lag] @ centred[lag:]) / length for lag in lags])
    # Where `run` correlations in a row are as small as chance makes them, those before are all there are.
    small = np.abs(covariances[1:] / variance) < 2 * math.sqrt(math.log10(length) / length)
    quiet = [lag for lag in range(len(small) - run + 1) if small[lag : lag + run].all()]
    last = quiet[0] if quiet else int(np.flatnonzero(~small).max(initial=0)) + 1
    reach = min(max(1, 2 * last), int(lags[-1]))
    at = lags[1 : reach + 1]
    taper = np.clip(2 * (1 - at / reach), 0, 1)  # the flat-top lag window
    spectrum = covariances[0] + 2 * float(taper @ covariances[1 : reach + 1])
    slope = 2 * float((taper * at) @ covariances[1 : reach + 1])
    if spectrum <= 0:
        return least
    best = math.cbrt(2 * slope**2 / (4 / 3 * spectrum**2)) * math.cbrt(length)
    return max(least, min(math.ceil(best), math.ceil(min(3 * math.sqrt(length), length / 3))))


@dataclass(frozen=True)
class _Blocks:
    """The blocks of one recording: from every window on, around the circle, sums of weighted values and of weights."""

    sums: Values
    weights: Values
    count: int
    """Blocks in a resample: together as long as the recording."""
    share: float
    """Windows over blocks' length: how many blocks the recording is, not rounded."""

    @classmethod
    def of(cls, series: Series, mean: float) -> _Blocks:
        weighted = series.values * series.weights
        windows = len(weighted)
        # Weights of bursts hide in the products that the values themselves are alike, and the other way round.
        length = max(block_length(weighted - mean * series.weights), block_length(series.values))
        return cls(
            sums=_around(weighted, length),
            weights=_around(series.weights, length),
            count=math.ceil(windows / length),
            share=windows / length,
        )

    def variance(self, mean: float) -> float:
        """Variance of the sum of all deviations from `mean`."""
        deviations = self.sums - mean * self.weights
        few = self.share / (self.share - 1) if self.share > 1 else math.inf
        return 0.0 if not deviations.any() else few * self.share * float(deviations.var())

    @property
    def squared_weight(self) -> float:
        return self.share * float(np.mean(self.weights**2))


def _around(values: Values, length: int) -> Values:
    """Sums of `length` neighbours from every place on, the first following the last."""
    whole: Values = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[: length - 1]]))])
    return whole[length:] - whole[:-length]


def _drawn(parts: Sequence[_Blocks], resamples: int, random: np.random.Generator) -> tuple[Values, Values]:
    """The weighted mean and its standard error in each of so many resamples."""
    drawn = [random.integers(len(part.sums), size=(resamples, part.count)) for part in parts]
    sums = [part.sums[at] for part, at in zip(parts, drawn, strict=True)]
    weights = [part.weights[at] for part, at in zip(parts, drawn, strict=True)]
    total = np.sum([weight.sum(axis=1) for weight in weights], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.sum([part.sum(axis=1) for part in sums], axis=0) / total
        variance = np.zeros(resamples)
        for part, of, weight in zip(parts, sums, weights, strict=True):
            deviations = of - means[:, None] * weight
            few = part.count / (part.count - 1) if part.count > 1 else math.inf
            variance += few * part.count * deviations.var(axis=1)
        return means, np.sqrt(variance) / total
