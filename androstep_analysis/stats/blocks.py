"""Means over the time windows of recordings, with intervals for correlated windows.

Windows of one recording are not independent: a busy second is followed by another, and one burst may make up most of
the total.

- A recording is therefore divided into a few long blocks. Each block is left out once (block jackknife, Künsch 1989).
  For a weighted mean, this is the cluster-robust variance CV3 (MacKinnon, Nielsen and Webb 2023).
- The interval is that of Student's t, with degrees of freedom that account for unequal blocks. The interval of a share
  is limited to Wilson's (1927) for the same number of blocks.
- With at least three recordings in a group, each recording is a block, and the result holds for other recordings like
  these. With fewer, it holds only for these recordings, had they gone on longer.
- Independent repeats are treated as recordings of a single window.

The method was chosen by simulation among several, including a studentised block bootstrap: `benchmarks/intervals.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from androstep_analysis.stats import distributions

Values = npt.NDArray[np.float64]

MOST_BLOCKS: Final = 32
"""The most blocks of a recording. Few, long blocks contain all of the correlation of neighbouring windows."""

LEAST_BLOCKS: Final = 3
"""The least number of blocks, since the spread of fewer is nearly arbitrary. Blocks are those of a recording, or
recordings."""

_MOST_TIMES: Final = 1e6
"""The largest factor of windows to search. Longer recordings are not realistic."""


class Scale(enum.Enum):
    """The scale on which the values of a measure spread evenly. It keeps intervals within the possible values."""

    SHARE = "logit"
    POSITIVE = "log"
    ANY = "identity"


@dataclass(frozen=True)
class Series:
    """The windows of one recording in order, with a value and a weight for each.

    The weight of a share is its whole, so that the weighted mean is the share in the whole recording. The weight of a
    rate is the window's length.
    """

    values: Values
    weights: Values


@dataclass(frozen=True)
class Mean:
    """A weighted mean of windows with its error.

    `error` is its standard error with `freedom` degrees of freedom. It is infinite if there are too few blocks, or if
    one block holds everything. `windows` is the number of windows, `effective` the equivalent number of independent
    windows of equal weight. `burst` is the share of the greatest window in the whole, and `blocks` the equivalent
    number of blocks of equal weight.
    """

    value: float
    error: float
    freedom: float
    windows: int
    effective: float
    burst: float
    blocks: float

    @property
    def is_known(self) -> bool:
        """Whether there are enough blocks for an error."""
        return math.isfinite(self.error)

    def varies(self, scale: Scale) -> bool:
        """Return whether more windows could change the mean. This includes a share that is 0 or 1 in all windows."""
        return self.error > 0 or (scale is Scale.SHARE and self.value in (0.0, 1.0))

    def bounds(self, deviates: float, freedom: float, scale: Scale) -> tuple[float, float]:
        """Return the interval, on the scale, with the coverage of `deviates` standard deviations of a normal variable.

        Its half-width is the value of Student's t with `freedom` degrees of freedom and the same probability. A share
        spreads at most from 0 to 1, so its interval lies within Wilson's interval for as many independent blocks, even
        if they show little spread. A share that is 0 or 1 in every window has only Wilson's interval.
        """
        value, error = self.value, self.error
        if scale is Scale.SHARE and value in (0.0, 1.0):
            return _wilson(value, deviates, self.effective)
        far = distributions.student(deviates, freedom)
        if scale is Scale.SHARE:
            lo, hi = _wilson(value, deviates, self.blocks)
            reach = min(700.0, far * error / (value * (1 - value)))
            below, above = math.exp(-reach) * value / (1 - value), math.exp(-reach) * (1 - value) / value
            return max(lo, below / (1 + below)), min(hi, 1 / (1 + above))
        if scale is Scale.POSITIVE and value > 0:
            reach = min(700.0, far * error / value)
            return value * math.exp(-reach), value * math.exp(reach)
        return value - far * error, value + far * error

    def over(self, times: float) -> Mean:
        """Return the mean with the error that this many times as many windows would give."""
        return replace(
            self,
            error=self.error / math.sqrt(times),
            freedom=max(1.0, self.freedom * times),
            effective=self.effective * times,
            blocks=self.blocks * times,
        )

    def relative_error(self, scale: Scale) -> float:
        """Return the standard error on the scale; 0 if it has none there."""
        if scale is Scale.SHARE:
            return 0.0 if self.value in (0.0, 1.0) else self.error / (self.value * (1 - self.value))
        return self.error / self.value if scale is Scale.POSITIVE and self.value > 0 else self.error


def scale(values: Values, *, is_share: bool) -> Scale:
    """Return the scale of the values. A share lies between 0 and 1, and most measures are not negative."""
    if is_share:
        return Scale.SHARE
    return Scale.POSITIVE if (values >= 0).all() else Scale.ANY


def mean(recordings: Sequence[Series], *, is_share: bool = False) -> Mean:
    """Return the weighted mean of all windows. Raises `ValueError` if the sum of weights is 0."""
    values = np.concatenate([series.values for series in recordings])
    weights = np.concatenate([series.weights for series in recordings])
    total = float(weights.sum())
    if total <= 0:
        raise ValueError("cannot compute the mean of windows without weight")
    counted = values[weights > 0]
    is_same = bool((counted == counted[0]).all())
    value = float(counted[0]) if is_same else float(values @ weights) / total
    strata = _strata(recordings, value)
    error, freedom = _error(strata, value)
    made = weights if is_share else np.abs(values) * weights
    return Mean(
        value=value,
        error=0.0 if is_same and math.isfinite(error) else error,
        freedom=freedom,
        windows=len(values),
        effective=sum(_effective(series, value) for series in recordings),
        burst=float(made.max() / made.sum()) if made.any() else 0.0,
        blocks=_kish(np.concatenate([one.weights for one in strata])),
    )


ZERO: Final = Mean(value=0.0, error=0.0, freedom=math.inf, windows=0, effective=0.0, burst=0.0, blocks=0.0)
"""The constant 0, without error."""


def of_repeats(values: Sequence[float] | Values) -> Mean:
    """Return the mean of independent repeats."""
    return mean([Series(np.array([value], float), np.ones(1)) for value in values])


def interval(found: Mean, scale: Scale, level: float = 0.95) -> tuple[float, float] | None:
    """Return the interval that contains the mean with probability `level`; None if the data do not allow one."""
    if not found.is_known or not found.varies(scale):
        return None
    return found.bounds(distributions.deviates(1 - level), found.freedom, scale)


@dataclass(frozen=True)
class Difference:
    """The difference of two means of different recordings, second minus first.

    Intervals combine those of both sides by the method of Zou and Donner (MOVER, Statistics in Medicine 27, 2008).
    Degrees of freedom are Welch and Satterthwaite's.
    """

    first: Mean
    second: Mean
    scale: Scale

    @property
    def is_known(self) -> bool:
        """Whether both sides have enough blocks, and at least one varies.

        A mean that does not vary is treated as exact if the other one varies. An amount that is 0 in all windows is an
        exception, since it may differ in a window that was not observed.
        """
        sides = (self.first, self.second)
        if self.scale is Scale.POSITIVE and any(side.windows and not side.value for side in sides):
            return False
        return all(side.is_known for side in sides) and any(side.varies(self.scale) for side in sides)

    @property
    def value(self) -> float:
        return self.second.value - self.first.value

    @property
    def freedom(self) -> float:
        sides = [(one.relative_error(self.scale) ** 2, one.freedom) for one in (self.first, self.second)]
        whole = sum(square for square, _ in sides)
        least = min(freedom for _, freedom in sides)
        if whole == 0 or (self.scale is Scale.SHARE and not all(square for square, _ in sides)):
            return least
        return whole**2 / sum(square**2 / freedom for square, freedom in sides)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the interval that contains the difference with probability `level`."""
        return self._bounds(distributions.deviates(1 - level))

    def ratio(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of the ratio, second over first; None if one of them may be 0."""
        deviates, freedom = distributions.deviates(1 - level), self.freedom
        sides = [(one.value, *one.bounds(deviates, freedom, self.scale)) for one in (self.first, self.second)]
        if min(low for _, low, _ in sides) <= 0:
            return None
        (one, one_lo, one_hi), (other, other_lo, other_hi) = sides
        middle = math.log(other / one)
        below = math.hypot(math.log(other / other_lo), math.log(one_hi / one))
        above = math.hypot(math.log(other_hi / other), math.log(one / one_lo))
        return _exp(middle - below), _exp(middle + above)

    def times(self, factor: float) -> Difference:
        """Return the difference with the first mean multiplied by a factor."""
        first = replace(self.first, value=factor * self.first.value, error=factor * self.first.error)
        return replace(self, first=first)

    def p(self) -> float:
        """Return the two-sided p-value of a difference from zero."""
        return 2 * self.beyond(0.0)

    def beyond(self, limit: float) -> float:
        """Return the one-sided p-value of a difference from `limit`, in the direction of the estimate."""
        is_above = self.value > limit
        side, sign = (0, -1) if is_above else (1, 1)
        return distributions.tail(_root(lambda deviates: sign * (self._bounds(deviates)[side] - limit)))

    def longer(self, p: float) -> float:
        """Return the factor by which more windows would show the difference at this p-value.

        This assumes that the estimated difference is true.
        """
        deviates = distributions.deviates(p)

        def shown(times: float) -> float:
            below, above = replace(self, first=self.first.over(times), second=self.second.over(times))._bounds(deviates)
            return below if self.value > 0 else -above

        return _root(shown, _MOST_TIMES)

    def _bounds(self, deviates: float) -> tuple[float, float]:
        freedom = self.freedom
        (one_lo, one_hi), (other_lo, other_hi) = (
            one.bounds(deviates, freedom, self.scale) for one in (self.first, self.second)
        )
        below = math.hypot(self.second.value - other_lo, one_hi - self.first.value)
        above = math.hypot(other_hi - self.second.value, self.first.value - one_lo)
        return self.value - below, self.value + above


def _root(rising: Callable[[float], float], most: float = distributions.FURTHEST) -> float:
    """Return the zero of a function that rises from a negative value, or `most` if it stays negative.

    This is Chandrupatla's method (1997) on a logarithmic scale: inverse quadratic interpolation if that is safe, else
    bisection.
    """
    new, old = math.log(most), math.log(1e-9)
    at_new, at_old = rising(most), rising(1e-9)
    if at_new < 0 or at_old >= 0:
        return most if at_new < 0 else 1e-9
    part = 0.5
    for _ in range(200):
        middle = new + part * (old - new)
        found = rising(math.exp(middle))
        if (found < 0) == (at_new < 0):
            last, at_last = new, at_new
        else:
            last, at_last, old, at_old = old, at_old, new, at_new
        new, at_new = middle, found
        least = 2e-15 / abs(old - new) if old != new else 1.0
        if least > 0.5 or found == 0:
            break
        place, height = (new - old) / (last - old), (at_new - at_old) / (at_last - at_old)
        part = 0.5
        if height**2 < place and (1 - height) ** 2 < 1 - place:
            part = at_new / (at_old - at_new) * at_last / (at_old - at_last)
            part += (last - new) / (old - new) * at_new / (at_last - at_new) * at_old / (at_last - at_old)
        part = min(max(part, least), 1 - least)
    return math.exp(new)


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def _wilson(share: float, deviates: float, windows: float) -> tuple[float, float]:
    """Return Wilson's interval of a share (1927)."""
    square = deviates**2
    if share in (0.0, 1.0):  # exact, in contrast to the sums below
        width = square / (windows + square)
        return (0.0, width) if share == 0 else (1 - width, 1.0)
    middle = (share * windows + square / 2) / (windows + square)
    width = deviates / (windows + square) * math.sqrt(share * (1 - share) * windows + square / 4)
    return middle - width, middle + width


# -- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """The blocks of a stratum: their sums of weighted values and of weights."""

    sums: Values
    weights: Values


def _strata(recordings: Sequence[Series], value: float) -> list[_Blocks]:
    """Return the blocks of each recording, or the recordings as blocks."""
    if len(recordings) >= LEAST_BLOCKS:
        return [_of_recordings(recordings)]
    return [_divided(series, value) for series in recordings]


def _of_recordings(recordings: Sequence[Series]) -> _Blocks:
    return _Blocks(
        np.array([float(series.values @ series.weights) for series in recordings]),
        np.array([float(series.weights.sum()) for series in recordings]),
    )


def _divided(series: Series, value: float) -> _Blocks:
    """Divide a recording into blocks that are at least as long as the correlation of neighbouring windows."""
    weighted = series.values * series.weights
    windows = len(weighted)
    length, _ = dependence(weighted - value * series.weights)
    count = min(max(LEAST_BLOCKS, round(windows / length)), MOST_BLOCKS, windows)
    begins = np.linspace(0, windows, count, endpoint=False).astype(int)
    return _Blocks(np.add.reduceat(weighted, begins), np.add.reduceat(series.weights, begins))


def _error(strata: Sequence[_Blocks], value: float) -> tuple[float, float]:
    """Return the standard error of the mean and its degrees of freedom.

    The degrees of freedom are limited twice: by the number of equal blocks with the same spread of weights, and by the
    number of equal contributions to the variance with the same spread.
    """
    total = sum(float(blocks.weights.sum()) for blocks in strata)
    whole = sum(float(blocks.sums.sum()) for blocks in strata)
    variance, without = 0.0, []
    for blocks in strata:
        count, rest = len(blocks.sums), total - blocks.weights
        if count < LEAST_BLOCKS or (rest <= 0).any():
            return math.inf, 1.0
        moved = (whole - blocks.sums) / rest - value
        variance += (count - 1) / count * float(moved @ moved)
        without.append(moved)
    weights = np.concatenate([blocks.weights for blocks in strata])
    squares = np.concatenate(without) ** 2
    freedom = _kish(weights) - len(strata)
    if squares.any():
        freedom = min(freedom, _kish(squares) - 1)
    return math.sqrt(variance), max(1.0, freedom)


def _kish(weights: Values) -> float:
    """Return the number of equal weights with the same spread (Kish)."""
    return float(weights.sum() ** 2 / (weights @ weights))


def _effective(series: Series, value: float) -> float:
    _, alike = dependence(series.values * series.weights - value * series.weights)
    return max(1.0, _kish(series.weights) / alike) if series.weights.any() else 0.0


def dependence(values: Values) -> tuple[int, float]:
    """Return the length of a block of neighbouring values, and the number of values with the information of one.

    The length is Politis and White's for the circular block bootstrap (2004, as corrected by Patton, Politis and White
    2009). It minimizes the mean squared error of the variance, from the autocorrelations up to the lag at which they
    vanish. It is at least two cube roots of the number of values. The second number is the long-run variance divided by
    the variance, at least 1.
    """
    length = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred) / length
    least: int = math.ceil(2 * math.cbrt(length))
    if variance <= 0 or length < 4:
        return least, 1.0
    most = math.ceil(math.sqrt(length))
    run = max(5, math.ceil(math.log10(length)))
    lags = np.arange(min(length - 1, most + run) + 1)
    covariances = np.array([float(centred[: length - lag] @ centred[lag:]) / length for lag in lags])
    # After `run` consecutive correlations that are as small as chance makes them, later ones are ignored.
    small = np.abs(covariances[1:] / variance) < 2 * math.sqrt(math.log10(length) / length)
    quiet = [lag for lag in range(len(small) - run + 1) if small[lag : lag + run].all()]
    last = quiet[0] if quiet else int(np.flatnonzero(~small).max(initial=0)) + 1
    reach = min(max(1, 2 * last), int(lags[-1]))
    at = lags[1 : reach + 1]
    taper = np.clip(2 * (1 - at / reach), 0, 1)  # the flat-top lag window
    spectrum = covariances[0] + 2 * float(taper @ covariances[1 : reach + 1])
    slope = 2 * float((taper * at) @ covariances[1 : reach + 1])
    if spectrum <= 0:
        return least, 1.0
    best = math.cbrt(2 * slope**2 / (4 / 3 * spectrum**2)) * math.cbrt(length)
    longest = math.ceil(min(3 * math.sqrt(length), length / 3))
    return max(least, min(math.ceil(best), longest)), max(1.0, spectrum / variance)
