"""Intervals, tests and effect sizes of comparisons: against brute force, scipy, and the truth in simulations."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from androstep_analysis.stats import blocks, exact
from androstep_analysis.stats.blocks import Series, block_length, interval, resampled

VALUES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=6)


# -- independent repeats: all ways are tried --------------------------------------------------------------------------


def midranks(values: list[float]) -> list[Fraction]:
    """The rank of each value, by definition."""
    return [
        Fraction(2 * sum(other < value for other in values) + sum(other == value for other in values) + 1, 2)
        for value in values
    ]


def two_sided(found: Fraction, every: list[Fraction]) -> float:
    below, above = (sum(one <= found for one in every), sum(one >= found for one in every))
    return min(1.0, 2 * min(below, above) / len(every))


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES)
def test_the_rank_test_counts_all_ways_to_deal_the_values(first: list[float], second: list[float]) -> None:
    ranks = midranks([*first, *second])
    every = [sum(chosen, Fraction()) for chosen in itertools.combinations(ranks, len(second))]
    expected = two_sided(sum(ranks[len(first) :], Fraction()), every)
    assert exact.rank_test(first, second) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=8))
def test_the_signed_rank_test_counts_all_ways_to_exchange_pairs(pairs: list[tuple[int, int]]) -> None:
    first, second = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    differences = [b - a for a, b in zip(first, second, strict=True)]
    ranks = midranks([abs(one) for one in differences])
    signs = [[1, -1] if one else [0] for one in differences]

    def positive(chosen: tuple[int, ...]) -> Fraction:
        return sum((rank for sign, rank in zip(chosen, ranks, strict=True) if sign > 0), Fraction())

    every = [positive(chosen) for chosen in itertools.product(*signs)]
    expected = two_sided(positive(tuple(int(np.sign(one)) for one in differences)), every)
    assert exact.signed_rank_test(first, second) == pytest.approx(expected)


@pytest.mark.parametrize(("nr_first", "nr_second"), [(4, 4), (3, 9), (12, 15), (40, 45), (70, 80)])
def test_the_tests_are_those_of_scipy(nr_first: int, nr_second: int) -> None:
    random = np.random.default_rng(nr_first)
    first, second = random.normal(size=nr_first), random.normal(0.4, 1.3, size=nr_second)
    is_counted = nr_first + nr_second <= exact.COUNTED
    method = "exact" if is_counted else "asymptotic"
    assert exact.rank_test(first, second) == pytest.approx(
        stats.mannwhitneyu(first, second, method=method).pvalue, rel=1e-9
    )
    assert exact.signed_rank_test(first, second[:nr_first]) == pytest.approx(
        stats.wilcoxon(first, second[:nr_first], method="exact").pvalue, rel=1e-9
    )


@given(VALUES, VALUES)
def test_effect_sizes_are_those_of_their_definitions(first: list[float], second: list[float]) -> None:
    every = [np.sign(b - a) for a in first for b in second]
    assert exact.cliffs_delta(first, second) == pytest.approx(sum(every) / len(every))
    nr = min(len(first), len(second))
    differences = [b - a for a, b in zip(first[:nr], second[:nr], strict=True)]
    ranks = midranks([abs(one) for one in differences])
    whole = sum(rank for one, rank in zip(differences, ranks, strict=True) if one)
    up = sum(rank for one, rank in zip(differences, ranks, strict=True) if one > 0)
    expected = float(2 * up / whole - 1) if whole else 0.0
    assert exact.rank_biserial(first[:nr], second[:nr]) == pytest.approx(expected)


@pytest.mark.parametrize("nr_pairs", range(1, 15))
def test_the_interval_of_pairs_has_its_level(nr_pairs: int) -> None:
    """Tukey's interval: the sum of the ranks of random signs is below the place with at most 2.5 %."""
    sums = [sum(at for at, sign in enumerate(signs, 1) if sign) for signs in itertools.product((0, 1), repeat=nr_pairs)]
    place = exact.walsh(nr_pairs)
    below = [sum(one <= k - 1 for one in sums) / len(sums) for k in (place, place + 1)]
    assert (place == 0 or below[0] <= 0.025) and below[1] > 0.025
    assert (place > 0) == (nr_pairs >= 6)


def test_interval_and_test_of_pairs_say_the_same() -> None:
    """Without ties the interval leaves zero out exactly where the test's p-value is at most 5 %."""
    random = np.random.default_rng(4)
    for _ in range(200):
        first = random.normal(size=9)
        second = first + random.normal(random.choice([0.0, 0.8]), 1, size=9)
        _, lo, hi = exact.paired_difference(list(first), list(second))
        assert lo is not None and hi is not None
        assert (lo > 0 or hi < 0) == (exact.signed_rank_test(first, second) <= 0.05)


def test_too_few_repeats_have_no_interval() -> None:
    assert exact.difference([1.0], [2.0]) == (1.0, None, None)
    assert exact.ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == (2.0, None, None)
    assert exact.difference([], [1.0]) == (None, None, None)
    assert exact.ratio([0.0] * 5, [1.0] * 5) == (None, None, None)
    assert exact.paired_ratio([1.0] * 6, [2.0] * 6) == pytest.approx((2.0, 2.0, 2.0))
    assert exact.paired_ratio([0.0] * 6, [2.0] * 6) == (None, None, None)
    assert exact.paired_difference([], []) == (None, None, None)
    assert [n for n in range(1, 9) if exact.attainable(n, n) <= 0.05] == [4, 5, 6, 7, 8]
    assert [n for n in range(1, 9) if exact.attainable_paired(n) <= 0.05] == [6, 7, 8]


@given(VALUES, VALUES)
def test_the_least_p_value_is_attained(first: list[float], second: list[float]) -> None:
    apart = [value + 100 for value in second]
    assert exact.rank_test(sorted(set(first)), sorted(set(apart))) == pytest.approx(
        min(1.0, exact.attainable(len(set(first)), len(set(apart))))
    )


# -- windows ----------------------------------------------------------------------------------------------------------


def autoregressive(random: np.random.Generator, length: int, correlation: float) -> np.ndarray:
    """A stationary AR(1) series of mean 0 and variance 1."""
    noise = random.normal(size=length) * math.sqrt(1 - correlation**2)
    series = np.empty(length)
    series[0] = random.normal()
    for at in range(1, length):
        series[at] = correlation * series[at - 1] + noise[at]
    return series


def shares(random: np.random.Generator, length: int, correlation: float) -> Series:
    """Windows whose share of sequential requests wanders around a half, with bursts of requests."""
    of = np.floor(np.exp(random.normal(3, 1, size=length))) + 1
    likely = 1 / (1 + np.exp(-autoregressive(random, length, correlation)))
    return Series(random.binomial(of.astype(int), likely) / of, of)


def test_the_mean_is_that_of_the_whole_recording() -> None:
    random = np.random.default_rng(1)
    recordings = [shares(random, 120, 0.5), shares(random, 300, 0.5)]
    found = resampled(recordings, name="x")
    hits = sum((one.values * one.weights).sum() for one in recordings)
    assert found.mean == pytest.approx(hits / sum(one.weights.sum() for one in recordings))
    assert found.windows == 420
    assert abs(found.means.mean() - found.mean) < found.error / 10


def test_blocks_are_the_neighbours_on_a_circle() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert blocks._around(values, 2).tolist() == [3, 5, 7, 9, 6]
    assert blocks._around(values, 1).tolist() == values.tolist()
    assert blocks._around(values, 5).tolist() == [15] * 5


def test_the_error_is_that_of_whole_blocks() -> None:
    """Against the formula written out: variance of the sums of blocks, for equal and for unequal weights."""
    random = np.random.default_rng(2)
    for series in (shares(random, 200, 0.3), Series(random.normal(size=200), np.ones(200))):
        found = resampled([series], name="x")
        deviations = [float(w * (v - found.mean)) for v, w in zip(series.values, series.weights, strict=True)]
        length = max(block_length(np.array(deviations)), block_length(series.values))
        sums = [sum(deviations[(at + k) % 200] for k in range(length)) for at in range(200)]
        blocks = 200 / length
        variance = blocks / (blocks - 1) * blocks * sum(one**2 for one in sums) / 200
        assert found.error == pytest.approx(math.sqrt(variance) / series.weights.sum())
        spread = found.means.std() / found.error
        assert 0.8 < spread < 1.2


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_the_block_length_is_the_best_one_for_what_is_known(correlation: float) -> None:
    """Politis and White: for an AR(1) of known correlation the best length is known."""
    random = np.random.default_rng(3)
    length = 20_000
    slope = 2 * sum(k * correlation**k for k in range(1, 400))
    spectrum = (1 + correlation) / (1 - correlation)
    best = (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * length ** (1 / 3)
    found = np.median([block_length(autoregressive(random, length, correlation)) for _ in range(5)])
    assert found == pytest.approx(max(best, 2 * length ** (1 / 3)), rel=0.25)


def test_the_same_windows_give_the_same_numbers() -> None:
    series = shares(np.random.default_rng(5), 200, 0.5)
    first, again, other = (resampled([series], name=name) for name in ("a", "a", "b"))
    assert interval(first) == interval(again)
    assert interval(first) != interval(other)


def test_shares_that_add_up_have_the_same_interval() -> None:
    series = shares(np.random.default_rng(6), 300, 0.5)
    one, rest = resampled([series], name="x"), resampled([Series(1 - series.values, series.weights)], name="x")
    (lo, hi), (rest_lo, rest_hi) = interval(one) or (0, 0), interval(rest) or (0, 0)
    assert (rest_lo, rest_hi) == pytest.approx((1 - hi, 1 - lo))


def test_few_windows_or_few_bursts_have_no_interval() -> None:
    random = np.random.default_rng(7)
    few = resampled([Series(random.normal(size=40), np.ones(40))], name="x")
    assert interval(few) is None and few.least_windows > 40
    burst = np.ones(2000)
    burst[1000:1010] = 1e6
    bursts = resampled([Series(random.random(2000), burst)], name="x")
    assert interval(bursts) is None and bursts.blocks < 3
    many = resampled([Series(random.random(2000), np.ones(2000))], name="y")
    assert interval(many) is not None
    assert blocks.difference(bursts, many) is None
    for length in range(1, 8):
        assert interval(resampled([Series(random.random(length), np.ones(length))], name="x")) is None
    with pytest.raises(ValueError, match="windows without weight"):
        resampled([Series(np.ones(3), np.zeros(3))], name="x")


def test_what_does_not_vary() -> None:
    random = np.random.default_rng(8)
    always = resampled([Series(np.ones(400), np.ones(400))], name="x")
    never = resampled([Series(np.zeros(400), np.ones(400))], name="y")
    some = resampled([Series(random.random(400), np.ones(400))], name="z")
    assert interval(always) is None
    assert blocks.difference(always, never) is None
    found = blocks.difference(some, always)
    assert found is not None and found.lo < found.value < found.hi and found.p == 1 / (1 + blocks.RESAMPLES)
    assert blocks.ratio(never, some) is None


def test_a_ratio_is_a_difference_of_logarithms() -> None:
    random = np.random.default_rng(9)
    first = resampled([Series(random.uniform(1, 3, 500), np.ones(500))], name="x")
    second = resampled([Series(random.uniform(2, 6, 500), np.ones(500))], name="y")
    found = blocks.ratio(first, second)
    assert found is not None
    assert found.value == pytest.approx(second.mean / first.mean)
    # The delta method, to first order.
    error = math.hypot(first.error / first.mean, second.error / second.mean)
    assert math.log(found.hi / found.lo) == pytest.approx(2 * 1.96 * error, rel=0.1)


SIMULATED = 400
"""Simulations of each kind: a coverage of 95 % is found as 92.5 to 97.5 % nearly always."""


@pytest.mark.parametrize(
    ("kind", "windows", "correlation", "least"),
    [("rate", 250, 0.0, 0.92), ("rate", 250, 0.5, 0.91), ("share", 500, 0.5, 0.91), ("share", 500, 0.8, 0.88)],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    kind: str, windows: int, correlation: float, least: float
) -> None:
    """docs/compare.md has the table of a longer run (benchmarks/compare.py)."""
    random = np.random.default_rng(10)
    truth = 0.5 if kind == "share" else 0.0
    hits = tries = 0
    for number in range(SIMULATED):
        series = (
            shares(random, windows, correlation)
            if kind == "share"
            else Series(autoregressive(random, windows, correlation), np.ones(windows))
        )
        if (found := interval(resampled([series], name=str(number), resamples=499))) is not None:
            tries += 1
            hits += found[0] <= truth <= found[1]
    assert tries > 0.9 * SIMULATED
    assert least <= hits / tries <= 0.99


def test_without_a_difference_p_values_are_uniform() -> None:
    random = np.random.default_rng(11)
    of_windows, of_repeats, of_pairs = [], [], []
    for number in range(SIMULATED):
        sides = [resampled([shares(random, 400, 0.4)], name=f"{number} {side}", resamples=499) for side in "ab"]
        if (found := blocks.difference(*sides)) is not None:
            of_windows.append(found.p)
        first, second = random.exponential(size=(2, 12))
        of_repeats.append(exact.rank_test(first, second))
        of_pairs.append(exact.signed_rank_test(first, second))
    assert len(of_windows) > 0.9 * SIMULATED
    for found in (of_windows, of_repeats, of_pairs):
        assert stats.kstest(found, "uniform").pvalue > 0.001
        assert np.mean(np.array(found) <= 0.05) < 0.09
