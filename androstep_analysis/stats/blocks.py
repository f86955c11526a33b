"""Means over the time windows of recordings, with intervals that know that neighbouring windows are alike.

Windows of one recording are no independent repeats: a busy second is followed by another, and one burst may hold most
of what the value is of. So a recording is cut into a few long blocks, each is left out in turn (jackknife of blocks,
Künsch 1989; for a weighted mean it is the cluster-robust variance CV3, MacKinnon, Nielsen and Webb 2023), and Student's
t with the degrees of freedom that so unequal blocks are worth gives the interval; that of a share does not reach
further than Wilson's (1927) for so many blocks. Where there are three recordings or more of a group, a block is a
recording, and what is shown holds for other recordings like these; else it holds for these recordings, had they gone
on longer. Independent repeats are recordings of a single window.

The method was chosen by simulation, beside a studentised bootstrap of blocks and others: `benchmarks/intervals.py`.
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
"""Into so many blocks a recording is cut at most: few and long ones hold all that neighbouring windows share."""

LEAST_BLOCKS: Final = 3
"""The spread of fewer says next to nothing: so many blocks of a recording, or recordings as blocks, it takes."""

_MOST_TIMES: Final = 1e6
"""As many windows; nobody records so long."""


class Scale(enum.Enum):
    """On what scale the values of a measure spread evenly, which keeps intervals where values can be."""

    SHARE = "logit"
    POSITIVE = "log"
    ANY = "identity"


@dataclass(frozen=True)
class Series:
    """The windows of one recording in order: in each a value, and how much it weighs.

    A share weighs what it is a share of, so that the weighted mean is the share in the whole recording; a rate weighs
    the window's length.
    """

    values: Values
    weights: Values


@dataclass(frozen=True)
class Mean:
    """A weighted mean of windows and what is known of it.

    `error` is its standard error with `freedom` degrees of freedom (infinite where blocks are too few, or one holds
    everything). `windows` is their number, `effective` how many independent ones of equal weight they are worth,
    `burst` the share of the whole that the greatest window makes, and `blocks` how many blocks of equal weight there
    are.
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
        """There are blocks to leave out."""
        return math.isfinite(self.error)

    def varies(self, scale: Scale) -> bool:
        """Whether more windows could change it; of a share that is 0 or 1 in all of them they could."""
        return self.error > 0 or (scale is Scale.SHARE and self.value in (0.0, 1.0))

    def bounds(self, deviates: float, freedom: float, scale: Scale) -> tuple[float, float]:
        """The interval, on the scale, that leaves out as much as a normal variable's to so many deviations.

        So rare a variable is, by Student's t with so many degrees of freedom, so many standard errors away. Values of
        a share cannot spread more than from 0 to 1, so that it lies within Wilson's interval for as many independent
        blocks, however little they say of their spread. One that is 0 (or 1) in every window has no other.
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
        """The same of so many times as many windows."""
        return replace(
            self,
            error=self.error / math.sqrt(times),
            freedom=max(1.0, self.freedom * times),
            effective=self.effective * times,
            blocks=self.blocks * times,
        )

    def relative_error(self, scale: Scale) -> float:
        """The standard error on the scale; 0 where it has none there."""
        if scale is Scale.SHARE:
            return 0.0 if self.value in (0.0, 1.0) else self.error / (self.value * (1 - self.value))
        return self.error / self.value if scale is Scale.POSITIVE and self.value > 0 else self.error


def scale(values: Values, *, is_share: bool) -> Scale:
    """The scale of such values: a share lies between 0 and 1, and most measures are never negative."""
    if is_share:
        return Scale.SHARE
    return Scale.POSITIVE if (values >= 0).all() else Scale.ANY


def mean(recordings: Sequence[Series], *, is_share: bool = False) -> Mean:
    """The weighted mean of all windows. Raises `ValueError` where no window weighs anything."""
    values = np.concatenate([series.values for series in recordings])
    weights = np.concatenate([series.weights for series in recordings])
    total = float(weights.sum())
    if total <= 0:
        raise ValueError("windows without weight have no mean")
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
"""What is known to be nothing."""


def of_repeats(values: Sequence[float] | Values) -> Mean:
    """The mean of independent repeats."""
    return mean([Series(np.array([value], float), np.ones(1)) for value in values])


def interval(found: Mean, scale: Scale, level: float = 0.95) -> tuple[float, float] | None:
    """The interval that holds the mean with probability `level`; None where the data do not allow one."""
    if not found.is_known or not found.varies(scale):
        return None
    return found.bounds(distributions.deviates(1 - level), found.freedom, scale)


@dataclass(frozen=True)
class Difference:
    """Of two means of different recordings, how far the second lies above the first.

    Intervals are those of Zou and Donner (MOVER, Statistics in Medicine 27, 2008), which put the two sides' own
    together; degrees of freedom are Welch and Satterthwaite's.
    """

    first: Mean
    second: Mean
    scale: Scale

    @property
    def is_known(self) -> bool:
        """Both sides have blocks, and at least one varies.

        A mean that does not vary at all is taken as known, if the other one varies; but that nothing happened in any
        window says nothing of how much will in one that was not seen.
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
        """The interval that holds the difference with probability `level`."""
        return self._bounds(distributions.deviates(1 - level))

    def ratio(self, level: float = 0.95) -> tuple[float, float] | None:
        """The interval of second over first; None where one of them may be 0."""
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
        """The same with the first times a factor."""
        first = replace(self.first, value=factor * self.first.value, error=factor * self.first.error)
        return replace(self, first=first)

    def p(self) -> float:
        """How probable a difference so far from zero is where there is none."""
        return 2 * self.beyond(0.0)

    def beyond(self, limit: float) -> float:
        """How probable a difference so far beyond (or so far short of) `limit` is where it is just that: one-sided."""
        is_above = self.value > limit
        side, sign = (0, -1) if is_above else (1, 1)
        return distributions.tail(_root(lambda deviates: sign * (self._bounds(deviates)[side] - limit)))

    def longer(self, p: float) -> float:
        """How many times as many windows would show the difference by this p-value, if it is what it seems."""
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
    """Return where a function that rises from below 0 crosses it, or `most` where it does not.

    Chandrupatla's method (1997) on a scale of logarithms: a parabola through three points where that is safe, halving
    where it is not.
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
    """Wilson's interval of a share (1927)."""
    square = deviates**2
    if share in (0.0, 1.0):  # exactly, which the sums below are not
        width = square / (windows + square)
        return (0.0, width) if share == 0 else (1 - width, 1.0)
    middle = (share * windows + square / 2) / (windows + square)
    width = deviates / (windows + square) * math.sqrt(share * (1 - share) * windows + square / 4)
    return middle - width, middle + width


# -- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """The blocks of a stratum: sums of weighted values and of weights."""

    sums: Values
    weights: Values


def _strata(recordings: Sequence[Series], value: float) -> list[_Blocks]:
    """The blocks of each recording, or recordings as blocks."""
    if len(recordings) >= LEAST_BLOCKS:
        return [_of_recordings(recordings)]
    return [_cut(series, value) for series in recordings]


def _of_recordings(recordings: Sequence[Series]) -> _Blocks:
    return _Blocks(
        np.array([float(series.values @ series.weights) for series in recordings]),
        np.array([float(series.weights.sum()) for series in recordings]),
    )


def _cut(series: Series, value: float) -> _Blocks:
    """A recording cut into blocks as long as neighbouring windows are alike, or longer."""
    weighted = series.values * series.weights
    windows = len(weighted)
    length, _ = dependence(weighted - value * series.weights)
    count = min(max(LEAST_BLOCKS, round(windows / length)), MOST_BLOCKS, windows)
    begins = np.linspace(0, windows, count, endpoint=False).astype(int)
    return _Blocks(np.add.reduceat(weighted, begins), np.add.reduceat(series.weights, begins))


def _error(strata: Sequence[_Blocks], value: float) -> tuple[float, float]:
    """The standard error of the mean and its degrees of freedom.

    These are as many as equal blocks would have that spread the weight as much, and no more than blocks that differ
    equally would have of which the variance is as much due to a few.
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
    """How many equal weights spread as much."""
    return float(weights.sum() ** 2 / (weights @ weights))


def _effective(series: Series, value: float) -> float:
    _, alike = dependence(series.values * series.weights - value * series.weights)
    return max(1.0, _kish(series.weights) / alike) if series.weights.any() else 0.0


def dependence(values: Values) -> tuple[int, float]:
    """How many neighbouring values belong into a block, and how many of them say as much as one independent one.

    The length is Politis and White's for blocks on a circle (2004, as corrected by Patton, Politis and White 2009):
    from the autocorrelations up to where they vanish, the one with the least mean squared error of the variance; at
    least two cube roots of the number of values. The second number is the long-run variance over the variance, at
    least 1.
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
        return least, 1.0
    best = math.cbrt(2 * slope**2 / (4 / 3 * spectrum**2)) * math.cbrt(length)
    longest = math.ceil(min(3 * math.sqrt(length), length / 3))
    return max(least, min(math.ceil(best), longest)), max(1.0, spectrum / variance)
