"""Intervals, tests and effect sizes of comparisons: against brute force, scipy, and the truth in simulations."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from androstep_analysis.stats import exact
from androstep_analysis.stats.blocks import (
    ZERO,
    Difference,
    Mean,
    Scale,
    Series,
    dependence,
    interval,
    mean,
    of_repeats,
)

VALUES = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=6)


# -- independent repeats: all ways are tried --------------------------------------------------------------------------


def midranks(values: list[float]) -> list[Fraction]:
    """Return the rank of each value, by definition."""
    return [
        Fraction(2 * sum(other < value for other in values) + sum(other == value for other in values) + 1, 2)
        for value in values
    ]


def two_sided(found: Fraction, every: list[Fraction]) -> float:
    below, above = (sum(one <= found for one in every), sum(one >= found for one in every))
    return min(1.0, 2 * min(below, above) / len(every))


@settings(max_examples=60)
@given(VALUES, VALUES)
def test_the_rank_test_counts_all_ways_to_deal_the_values(first: list[float], second: list[float]) -> None:
    ranks = midranks([*first, *second])
    every = [sum(chosen, Fraction()) for chosen in itertools.combinations(ranks, len(second))]
    expected = two_sided(sum(ranks[len(first) :], Fraction()), every)
    assert exact.rank_test(first, second) == pytest.approx(expected)


@settings(max_examples=60)
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
        scipy.stats.mannwhitneyu(first, second, method=method).pvalue, rel=1e-9
    )
    assert exact.signed_rank_test(first, second[:nr_first]) == pytest.approx(
        scipy.stats.wilcoxon(first, second[:nr_first], method="exact").pvalue, rel=1e-9
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


def test_the_interval_of_pairs_has_its_level() -> None:
    """Tukey's interval: the sum of the ranks of random signs is below the place with at most 2.5 %."""
    for nr_pairs in range(1, 15):
        sums = [
            sum(at for at, sign in enumerate(signs, 1) if sign) for signs in itertools.product((0, 1), repeat=nr_pairs)
        ]
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
    """Return a stationary AR(1) series of mean 0 and variance 1."""
    noise = random.normal(size=length) * math.sqrt(1 - correlation**2)
    series = np.empty(length)
    series[0] = random.normal()
    for at in range(1, length):
        series[at] = correlation * series[at - 1] + noise[at]
    return series


def shares(random: np.random.Generator, length: int, correlation: float) -> Series:
    """Return windows with a share of sequential requests that varies around a half, with bursts of requests."""
    of = np.floor(np.exp(random.normal(3, 1, size=length))) + 1
    likely = 1 / (1 + np.exp(-autoregressive(random, length, correlation)))
    return Series(random.binomial(of.astype(int), likely) / of, of)


def test_the_mean_is_that_of_the_whole_recording() -> None:
    random = np.random.default_rng(1)
    recordings = [shares(random, 120, 0.5), shares(random, 300, 0.5)]
    found = mean(recordings)
    hits = sum((one.values * one.weights).sum() for one in recordings)
    assert found.value == pytest.approx(hits / sum(one.weights.sum() for one in recordings))
    assert found.windows == 420


def test_the_error_is_that_of_leaving_out_each_block() -> None:
    """Against the formula written out: the jackknife of blocks, for equal and for unequal weights."""
    random = np.random.default_rng(2)
    for series in (shares(random, 200, 0.3), Series(random.normal(size=200), np.ones(200))):
        found = mean([series])
        length, _ = dependence(series.weights * (series.values - found.value))
        count = round(200 / length)
        parts = np.array_split(np.arange(200), [200 * at // count for at in range(1, count)])
        without = []
        for part in parts:
            rest = np.setdiff1d(np.arange(200), part)
            without.append(np.average(series.values[rest], weights=series.weights[rest]) - found.value)
        squares = np.square(without)
        assert found.error == pytest.approx(math.sqrt((count - 1) / count * squares.sum()))
        weights = np.array([series.weights[part].sum() for part in parts])
        freedom = [one.sum() ** 2 / np.square(one).sum() - 1 for one in (weights, squares)]
        assert found.freedom == pytest.approx(max(1.0, min(freedom)))


def test_three_recordings_are_blocks_themselves() -> None:
    random = np.random.default_rng(12)
    recordings = [shares(random, 100, 0.5) for _ in range(4)]
    found = mean(recordings)
    without = [mean(recordings[:at] + recordings[at + 1 :]).value - found.value for at in range(4)]
    assert found.error == pytest.approx(math.sqrt(3 / 4 * np.square(without).sum()))


def test_independent_repeats_have_the_error_of_every_textbook() -> None:
    values = [3.0, 4.0, 8.0, 9.0, 1.0]
    found = of_repeats(values)
    assert found.error == pytest.approx(scipy.stats.sem(values)) and found.effective == 5
    assert not of_repeats(values[:2]).is_known


@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_the_block_length_is_the_best_one_for_what_is_known(correlation: float) -> None:
    """Politis and White: for an AR(1) of known correlation the best length is known."""
    random = np.random.default_rng(3)
    length = 20_000
    slope = 2 * sum(k * correlation**k for k in range(1, 400))
    spectrum = (1 + correlation) / (1 - correlation)
    best = (2 * slope**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * length ** (1 / 3)
    lengths, alike = np.median([dependence(autoregressive(random, length, correlation)) for _ in range(5)], axis=0)
    assert alike == pytest.approx(spectrum, rel=0.1)
    assert lengths == pytest.approx(max(best, 2 * length ** (1 / 3)), rel=0.25)


def test_shares_that_add_up_have_the_same_interval() -> None:
    series = shares(np.random.default_rng(6), 300, 0.5)
    one, rest = mean([series]), mean([Series(1 - series.values, series.weights)])
    (lo, hi), (rest_lo, rest_hi) = interval(one, Scale.SHARE) or (0, 0), interval(rest, Scale.SHARE) or (0, 0)
    assert (rest_lo, rest_hi) == pytest.approx((1 - hi, 1 - lo))
    other = mean([shares(np.random.default_rng(7), 300, 0.5)])
    assert Difference(one, other, Scale.SHARE).p() == pytest.approx(
        Difference(rest, replace(other, value=1 - other.value), Scale.SHARE).p()
    )


MEANS = st.builds(
    Mean,
    value=st.floats(0.001, 0.999) | st.sampled_from([0.0, 1.0]),
    error=st.floats(1e-6, 10),
    freedom=st.floats(1, 500),
    windows=st.just(50),
    effective=st.floats(1, 500),
    burst=st.just(0.1),
    blocks=st.floats(1, 32),
)


@settings(max_examples=300)
@given(MEANS, MEANS, st.sampled_from([Scale.SHARE, Scale.POSITIVE]), st.floats(0.5, 0.999))
def test_intervals_and_tests_say_the_same(first: Mean, second: Mean, scale: Scale, level: float) -> None:
    """Intervals stay within possible values, and exclude zero exactly if the p-value is below the level."""
    if scale is Scale.POSITIVE:
        first, second = (replace(side, error=side.error * side.value) for side in (first, second))
    difference = Difference(first, second, scale)
    assume(difference.is_known)
    lo, hi = difference.interval(level)
    assert lo <= difference.value <= hi
    for side in (first, second):
        below, above = interval(side, scale, level) or (side.value, side.value)
        assert 0 <= below <= side.value <= above and (scale is not Scale.SHARE or above <= 1)
    if scale is Scale.SHARE:
        assert lo >= -1 - 1e-9 and hi <= 1 + 1e-9
    p = difference.p()
    if abs(p - (1 - level)) > 1e-3 * (1 - level) and difference.value != 0:
        assert (lo > 0 or hi < 0) == (p < 1 - level)
    backwards = Difference(second, first, scale)
    assert backwards.p() == pytest.approx(p) and backwards.interval(level) == pytest.approx((-hi, -lo))


def test_single_windows_have_no_interval() -> None:
    one = mean([Series(np.ones(1), np.ones(1))])
    many = mean([Series(np.random.default_rng(7).random(2000), np.ones(2000))])
    assert interval(one, Scale.ANY) is None and not Difference(one, many, Scale.ANY).is_known
    assert interval(many, Scale.POSITIVE) is not None
    with pytest.raises(ValueError, match="windows without weight"):
        mean([Series(np.ones(3), np.zeros(3))])


def test_a_burst_that_holds_nearly_all_leaves_little_known() -> None:
    random = np.random.default_rng(7)
    weights = np.ones(2000)
    weights[1000:1010] = 1e6
    values = random.random(2000)
    values[1000:1010] = 0.9
    found = mean([Series(values, weights)])
    lo, hi = interval(found, Scale.SHARE) or (0, 1)
    assert found.freedom == 1 and hi - lo > 0.8 and found.effective < 11
    weights[1001:1010] = 1
    assert mean([Series(random.random(2000), weights)], is_share=True).burst > 0.9
    # A rate below one is none the less a rate.
    assert mean([Series(np.where(np.arange(100) == 7, 0.9, 1e-3), np.ones(100))]).burst > 0.8


def test_a_share_reaches_no_further_than_shares_can_vary() -> None:
    """However little its blocks say of their spread: Wilson's interval, compared with scipy's."""
    spread = Mean(value=0.9, error=0.1, freedom=1.0, windows=500, effective=100.0, burst=0.1, blocks=20.0)
    oracle = scipy.stats.binomtest(18, 20).proportion_ci(0.95, "wilson")
    assert interval(spread, Scale.SHARE) == pytest.approx((oracle.low, oracle.high))
    steady = replace(spread, error=0.001, freedom=19.0)
    lo, hi = interval(steady, Scale.SHARE) or (0, 1)
    assert oracle.low < lo < 0.9 < hi < oracle.high
    # So 94 % and 24 % of few bursts are different, which their spread alone would not show.
    other = replace(spread, value=0.24, error=0.07)
    assert Difference(spread, other, Scale.SHARE).p() < 1e-4 < 0.04 < Difference(spread, other, Scale.ANY).p()


def test_what_does_not_vary() -> None:
    random = np.random.default_rng(8)
    always = mean([Series(np.ones(400), random.random(400))])
    never = mean([Series(np.zeros(400), np.ones(400))])
    some = mean([Series(random.random(400), np.ones(400))])
    assert (always.value, always.error) == (1.0, 0.0)
    assert interval(always, Scale.POSITIVE) is None and not Difference(always, never, Scale.POSITIVE).is_known
    # Of a share that was 1 in all windows another window could be less.
    lo, hi = interval(always, Scale.SHARE) or (0, 0)
    assert 0.97 < lo < hi == 1
    shared = Difference(some, always, Scale.SHARE)
    assert shared.interval()[0] > 0 and shared.p() < 1e-6
    # How much a burst brings that was not seen is not known of a rate.
    assert not Difference(never, some, Scale.POSITIVE).is_known and Difference(ZERO, some, Scale.POSITIVE).is_known


def test_a_ratio_is_a_difference_of_logarithms() -> None:
    random = np.random.default_rng(9)
    first = mean([Series(random.uniform(1, 3, 500), np.ones(500))])
    second = mean([Series(random.uniform(2, 6, 500), np.ones(500))])
    lo, hi = Difference(first, second, Scale.POSITIVE).ratio() or (0, 0)
    error = math.hypot(first.error / first.value, second.error / second.value)
    far = scipy.stats.t.ppf(0.975, Difference(first, second, Scale.POSITIVE).freedom)
    assert math.log(hi / lo) == pytest.approx(2 * far * error)
    assert lo < second.value / first.value < hi


def test_a_longer_recording_shows_what_this_one_does_not() -> None:
    random = np.random.default_rng(13)
    first, second = (Series(random.normal(middle, 1, 200), np.ones(200)) for middle in (10, 10.1))
    difference = Difference(mean([first]), mean([second]), Scale.POSITIVE)
    times = difference.longer(0.05)
    assert difference.p() > 0.05 and times > 1
    longer = [Mean(one.value, one.error / math.sqrt(times), one.freedom * times, 200, 200, 0.1, one.blocks * times)
              for one in (difference.first, difference.second)]  # fmt: skip
    assert Difference(*longer, Scale.POSITIVE).p() == pytest.approx(0.05, rel=0.05)


@settings(max_examples=200)
@given(
    st.floats(0.001, 0.999), st.floats(0.001, 0.999), st.floats(0.001, 0.5), st.floats(0.001, 0.5),
    st.floats(1, 40), st.floats(1, 40), st.floats(3, 32), st.sampled_from([0.05, 0.01, 0.001]),
)  # fmt: skip
def test_what_is_not_shown_needs_longer_and_no_less(
    first: float, second: float, one: float, other: float, freedom: float, others: float, blocks: float, p: float
) -> None:
    """Also where blocks are few and unequal: more windows have more degrees of freedom, and are worth more for it."""
    assume(abs(first - second) > 0.01)
    sides = [Mean(first, one, freedom, 50, 9, 0.1, blocks), Mean(second, other, others, 50, 9, 0.1, blocks)]
    difference = Difference(*sides, Scale.SHARE)
    times = difference.longer(p)
    assert (times > 1) == (difference.p() > p) or times == pytest.approx(1, rel=1e-6)


SIMULATED = 400
"""Simulations of each kind: a coverage of 95 % is found as 92.5 to 97.5 % nearly always."""


@pytest.mark.parametrize(
    ("kind", "windows", "correlation", "least"),
    [("rate", 250, 0.0, 0.92), ("rate", 250, 0.5, 0.92), ("share", 500, 0.5, 0.92), ("share", 500, 0.8, 0.9)],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    kind: str, windows: int, correlation: float, least: float
) -> None:
    """docs/statistics.md has the table of recordings made of real traces (benchmarks/intervals.py)."""
    random = np.random.default_rng(10)
    truth, scale = (0.5, Scale.SHARE) if kind == "share" else (0.0, Scale.ANY)
    hits = 0
    for _ in range(SIMULATED):
        series = (
            shares(random, windows, correlation)
            if kind == "share"
            else Series(autoregressive(random, windows, correlation), np.ones(windows))
        )
        lo, hi = interval(mean([series]), scale) or (1, 0)
        hits += lo <= truth <= hi
    assert least <= hits / SIMULATED


def test_without_a_difference_few_are_shown() -> None:
    random = np.random.default_rng(11)
    found: dict[str, list[float]] = {"windows": [], "ranks": [], "pairs": [], "means": []}
    for _ in range(SIMULATED):
        sides = [mean([shares(random, 400, 0.4)]) for _ in range(2)]
        found["windows"].append(Difference(*sides, Scale.SHARE).p())
        first, second = random.exponential(size=(2, 12))
        found["ranks"].append(exact.rank_test(first, second))
        found["pairs"].append(exact.signed_rank_test(first, second))
        few = [of_repeats(random.exponential(size=4)) for _ in range(2)]
        found["means"].append(Difference(*few, Scale.POSITIVE).p())
    for name in ("ranks", "pairs"):
        assert scipy.stats.kstest(found[name], "uniform").pvalue > 0.001
    for values in found.values():
        assert np.mean(np.array(values) <= 0.05) < 0.09
