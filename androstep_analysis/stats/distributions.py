"""Tails and quantiles of the normal distribution and of Student's t, with a relative error of about 1e-13."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import Final

FURTHEST: Final = 20.0
"""The largest deviation from the mean that is distinguished: one in 1e89 normal values."""

_MANY: Final = 1000.0
"""Degrees of freedom (also divided by d²) above which the expansion of Fisher and Cornish is exact to 1e-14."""

_EXPANSION: Final = (
    (4.0, (1, 1)),
    (96.0, (3, 16, 5)),
    (384.0, (-15, 17, 19, 3)),
    (92160.0, (-945, -1920, 1482, 776, 79)),
)
"""Divisors and coefficients of d, d³, d⁵ … for 1/freedom, 1/freedom² … (Abramowitz and Stegun, 26.7.5)."""


def deviates(p: float) -> float:
    """Return the number of standard deviations that a normal variable exceeds with probability `p`, two-sided."""
    return -NormalDist().inv_cdf(p / 2) if p > 0 else math.inf


def tail(deviates: float) -> float:
    """Return the probability that a normal variable is more than `deviates` standard deviations above its mean."""
    return math.erfc(deviates / math.sqrt(2)) / 2


@functools.lru_cache(maxsize=1 << 10)
def student(deviates: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with the same probability as a normal variable exceeds `deviates`.

    `deviates` is positive. This is Newton's method on the logarithms of the value and of its probability. For small
    values, whose tail is nearly one half, the probability of the middle is used instead of that of the tail.
    """
    far = min(deviates, FURTHEST)
    value = _expansion(far, freedom)
    if freedom > _MANY and far * far < freedom / _MANY:
        return value
    is_middle = far < 1
    wanted = math.log(math.erf(far / math.sqrt(2)) if is_middle else 2 * tail(far))
    if not is_middle and far * far > freedom:  # the tail is close to a power of the value there
        power_law = math.log(freedom) * (freedom / 2 - 1) - _log_beta(freedom) + math.log(2)
        value = math.exp((power_law - wanted) / freedom)
    for _ in range(50):
        middle, tails = _parts(value, freedom)
        found = middle if is_middle else tails
        slope = 2 * value * _density(value, freedom) / found
        step = (wanted - math.log(found)) / slope * (1 if is_middle else -1)
        value *= math.exp(step)
        if abs(step) < 1e-14:
            break
    return value


def _expansion(far: float, freedom: float) -> float:
    """Return the value for many degrees of freedom by the expansion of Fisher and Cornish."""
    square = far * far
    return far + far * sum(
        sum(coefficient * square**at for at, coefficient in enumerate(coefficients)) / divisor / freedom**power
        for power, (divisor, coefficients) in enumerate(_EXPANSION, 1)
    )


def _parts(value: float, freedom: float) -> tuple[float, float]:
    """Return the probabilities that Student's t is nearer to 0 than `value`, and farther."""
    outside = freedom / (freedom + value * value)
    inside = value * value / (freedom + value * value)
    a, b = freedom / 2, 0.5
    log_factor = a * math.log(outside) + b * math.log(inside) - _log_beta(freedom)
    if outside < (a + 1) / (a + b + 2):
        tails = math.exp(log_factor) / a / _fraction(outside, a, b)
        return 1 - tails, tails
    middle = math.exp(log_factor) / b / _fraction(inside, b, a)
    return middle, 1 - middle


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22)."""
    numerator = fraction = 1.0
    denominator = 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + term * denominator)
        numerator = 1 + term / numerator
        fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-16:
            break
    return fraction


def _density(value: float, freedom: float) -> float:
    log_density = -(freedom + 1) / 2 * math.log1p(value * value / freedom) - _log_beta(freedom) - math.log(freedom) / 2
    return math.exp(log_density)


@functools.lru_cache(maxsize=1 << 10)
def _log_beta(freedom: float) -> float:
    """Return the logarithm of the beta function of half the degrees of freedom and a half."""
    return math.lgamma(freedom / 2) + math.lgamma(0.5) - math.lgamma((freedom + 1) / 2)
