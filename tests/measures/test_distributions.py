"""Quantiles and fits of our own against scipy's, which the package does without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from androstep_analysis.compare import verdicts
from androstep_analysis.stats import blocks, distributions
from androstep_analysis.whatif import model

FREEDOMS = (1, 1.0001, 1.3, 2, 2.5, 4.7, 7, 15.3, 31, 100, 333.3, 1e3, 1001, 1e4, 1e5, 3.9e5, 1e6, 3e7)
DEVIATES = (1e-3, 0.1, 0.5, 0.99, 1.0, 1.5, 1.96, 3, 5, 8, 12, 15, 19.9, 20)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_students_t_is_that_of_scipy(freedom: float) -> None:
    ours = [distributions.student(far, freedom) for far in DEVIATES]
    theirs = [-special.stdtrit(freedom, special.ndtr(-far)) for far in DEVIATES]
    assert ours == pytest.approx(theirs, rel=1e-11)


@given(st.floats(1e-3, 20), st.floats(1, 1e7))
@example(20, 1)
def test_students_t_is_as_rare_as_the_normal_variable(far: float, freedom: float) -> None:
    value = distributions.student(far, freedom)
    assert special.stdtr(freedom, -value) == pytest.approx(special.ndtr(-far), rel=1e-9)


def test_small_and_infinite_deviations() -> None:
    """With one degree of freedom t is the tangent of the probability of the middle, times a right angle."""
    middle = math.erf(1e-9 / math.sqrt(2))
    assert distributions.student(1e-9, 1) == pytest.approx(math.tan(math.pi / 2 * middle), rel=1e-13)
    assert distributions.student(math.inf, 5) == distributions.student(20, 5)
    assert distributions.student(1.96, math.inf) == 1.96
    assert distributions.deviates(0) == math.inf
    assert distributions.tail(math.inf) == 0


@given(st.floats(1e-300, 1))
def test_the_normal_distribution_is_that_of_scipy(p: float) -> None:
    far = distributions.deviates(p)
    assert far == pytest.approx(-special.ndtri(p / 2), rel=1e-12, abs=1e-12)
    assert distributions.tail(far) == pytest.approx(special.ndtr(-far), rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_false_discoveries_are_those_of_scipy(values: list[float]) -> None:
    assert verdicts._adjusted(values, "bh") == pytest.approx(list(stats.false_discovery_control(values)), rel=1e-12)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 9)), min_size=1, max_size=30))
def test_isotonic_regression_is_that_of_scipy(rows: list[tuple[int, int]]) -> None:
    values, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    theirs = optimize.isotonic_regression(values, weights=weights).x
    assert model._isotonic(values, weights) == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@given(st.floats(-20, 2.9), st.floats(0.01, 1e4))
@example(-20.6, 1e300)
def test_the_root_is_where_the_function_crosses_zero(log_root: float, steep: float) -> None:
    def rising(value: float) -> float:
        return math.copysign(min(abs(far := math.log(value) - log_root) * steep, 700.0), far)

    assert blocks._root(rising) == pytest.approx(math.exp(log_root), rel=1e-12)


def test_a_function_that_does_not_cross_zero_has_its_root_at_the_end() -> None:
    assert blocks._root(lambda value: value - 30, 25.0) == 25.0
    assert blocks._root(lambda value: value) == 1e-9
