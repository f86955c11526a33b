"""Measure how often the intervals of `androstep compare` cover the truth, and how often differences are reported.

Recordings with known truth are drawn from four traces of a phone in the corpus: windows of 10 s in runs of five on
average, like a stationary bootstrap (Politis and Romano 1994). The mean of the whole trace is the truth. For false
differences, the values of a second trace are transformed until its mean equals that of the first: shares by a power,
rates by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl
from support import corpus
from support.needs import needs

import androstep_analysis as androstep
from androstep_analysis import compare
from androstep_analysis.compare.measures import dimensions
from androstep_analysis.stats.blocks import Difference, Mean, Scale, Series, dependence, interval, mean
from benchmarks.paired import Row, compared

Values = npt.NDArray[np.float64]
Population = tuple[Series, Scale]
"""The windows of a trace, and whether their values are shares or rates."""

APPS = ("cod_exec", "pubg_exec", "slideshow_exec", "telegram_precond")
WINDOW_NS = 10**10
RUN = 5
MEASURES = {"mix": ("bytes_ratio",), "locality": ("bytes_ratio", "count_ratio"), "rate": ("bandwidth",)}
LENGTHS = (10, 100, 1000)
"""Number of windows in a recording."""

RESAMPLES = 499
WORST = 10
"""Percentile of the kinds of recording that is reported separately."""


@needs("corpus")
def intervals(simulations: int = 100) -> Iterator[Row]:
    """Compare the method of `androstep compare` with a block bootstrap, and with independent windows."""
    found = _populations()
    with ProcessPoolExecutor() as pool:
        for length in LENGTHS:
            work = partial(_covered, length=length, simulations=simulations)
            yield from _rows(f"{length} windows: intervals that hold the truth", pool.map(work, found.values()), WORST)
            for what, is_null in (("false differences", True), ("true differences", False)):
                work = partial(_differs, length=length, simulations=simulations)
                yield from _rows(f"{length} windows: {what} reported", pool.map(work, _pairs(found, is_null=is_null)))


def _rows(what: str, of_kinds: Iterator[Mapping[str, float]], worst: int | None = None) -> Iterator[Row]:
    """Yield the mean over all kinds of recording and, if `worst` is set, that percentile of them."""
    kinds = list(of_kinds)
    rates = {method: [kind[method] for kind in kinds if not math.isnan(kind[method])] for method in kinds[0]}
    ours = rates.pop("blocks")
    for method, theirs in rates.items():
        if theirs:
            yield compared(f"{what} [%]", 100 * float(np.mean(ours)), method, 100 * float(np.mean(theirs)))
        if theirs and worst:
            bounds = (100 * float(np.percentile(some, worst)) for some in (ours, theirs))
            one, other = bounds
            yield compared(f"{what}, a tenth of the kinds has fewer than [%]", one, method, other)


def _populations() -> dict[tuple[str, ...], Population]:
    """Return the windows by trace, measure, metric and dimensions."""
    found = {}
    for app in APPS:
        capture = androstep.open(corpus.path(f"block_csv/pixel6a_{app}.csv.gz"))
        for measure, metrics in MEASURES.items():
            measured = compare.measure_all([capture], measure, window_ns=WINDOW_NS)
            rows = measured.filter(pl.col("metric").is_in(metrics), pl.col("weight") > 0)
            for key, part in rows.group_by(["metric", *dimensions(rows)], maintain_order=True):
                series = Series(part["value"].to_numpy(), part["weight"].to_numpy())
                # Skip random writes (determined by the other shares) and constant values (no spread).
                if not {"random", "write"} <= set(key) and series.values.std() > 0 and part.height > 60:
                    scale = Scale.SHARE if part["unit"][0] == "1" else Scale.POSITIVE
                    found[app, measure, *map(str, key)] = series, scale
    return found


def _pairs(found: dict[tuple[str, ...], Population], *, is_null: bool) -> Iterator[tuple[Population, Series]]:
    for one, other in combinations(found, 2):
        if one[1:] == other[1:]:
            (first, scale), (second, _) = found[one], found[other]
            made = _bent(second, _truth(first), scale) if is_null else second
            if made is not None:
                yield (first, scale), made


def _truth(series: Series) -> float:
    return float(series.values @ series.weights / series.weights.sum())


def _bent(series: Series, to: float, scale: Scale) -> Series | None:
    """Return the windows with values transformed to mean `to`; None if no power achieves it."""
    if scale is not Scale.SHARE:
        return Series(series.values * to / _truth(series), series.weights)
    low, high = 1e-3, 1e3
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _truth(Series(series.values**middle, series.weights)) > to else (low, middle)
    found = Series(series.values**middle, series.weights)
    return found if abs(_truth(found) - to) < 1e-6 else None


def _drawn(draw: np.random.Generator, series: Series, length: int) -> Series:
    """Draw a recording of `length` windows."""
    begins = draw.random(length) < 1 / RUN
    begins[0] = True
    at = np.arange(length)
    last = np.maximum.accumulate(np.where(begins, at, 0))
    windows = (draw.integers(len(series.values), size=length)[last] + at - last) % len(series.values)
    return Series(series.values[windows], series.weights[windows])


def _covered(population: Population, length: int, simulations: int) -> dict[str, float]:
    """Return the share of 95 % intervals that cover the truth, by method; NaN if a method gives none."""
    series, scale = population
    draw, truth = np.random.default_rng(length), _truth(series)
    hits: dict[str, list[bool]] = {"blocks": [], "independent windows": [], "bootstrap of blocks": []}
    for _ in range(simulations):
        one = _drawn(draw, series, length)
        for method, made in (("blocks", _blocks(one)), ("independent windows", _independent(one))):
            bounds = interval(made, scale)
            if bounds is not None:
                hits[method].append(bounds[0] <= truth <= bounds[1])
        middle, error, studentised = _bootstrap(draw, one)
        # No interpolation between two quantiles: one of them may be infinite.
        far = np.sort(np.where(np.isnan(studentised), np.inf, np.abs(studentised)))[math.ceil(0.95 * RESAMPLES) - 1]
        if math.isfinite(far) and error > 0:
            hits["bootstrap of blocks"].append(bool(abs(middle - truth) <= far * error))
    return {method: float(np.mean(some)) if some else math.nan for method, some in hits.items()}


def _differs(pair: tuple[Population, Series], length: int, simulations: int) -> dict[str, float]:
    """Return the share of differences that are reported at 5 %, by method."""
    (first, scale), second = pair
    draw = np.random.default_rng(length)
    methods: dict[str, Callable[[Series], Mean]] = {"blocks": _blocks, "independent windows": _independent}
    found: dict[str, list[bool]] = {method: [] for method in methods}
    for _ in range(simulations):
        sides = _drawn(draw, first, length), _drawn(draw, second, length)
        for method, function in methods.items():
            one, other = map(function, sides)
            difference = Difference(one, other, scale)
            found[method].append(difference.is_known and difference.p() <= 0.05)
    return {method: float(np.mean(some)) for method, some in found.items()}


def _blocks(series: Series) -> Mean:
    return mean([series])


def _independent(series: Series) -> Mean:
    middle, windows = _truth(series), len(series.values)
    error = math.sqrt(float(((series.weights * (series.values - middle)) ** 2).sum())) / series.weights.sum()
    return Mean(middle, error, windows - 1, windows, windows, 0.0, blocks=0.0)


def _bootstrap(draw: np.random.Generator, series: Series) -> tuple[float, float, Values]:
    """Return mean, error and studentised resamples of a circular block bootstrap (Götze and Künsch 1996)."""
    weighted, windows = series.values * series.weights, len(series.values)
    middle = _truth(series)
    length, _ = dependence(weighted - middle * series.weights)
    length = min(length, max(1, windows // 2))
    around = [
        np.convolve(np.concatenate([one, one[: length - 1]]), np.ones(length), "valid")
        for one in (weighted, series.weights)
    ]
    share = windows / length

    def error(sums: Values, weights: Values, at: Values | np.float64, count: float, total: Values) -> Values:
        return np.sqrt(share / (share - 1) * count * (sums - at * weights).var(axis=-1)) / total

    places = draw.integers(windows, size=(RESAMPLES, math.ceil(share)))
    sums, weights = around[0][places], around[1][places]
    total = weights.sum(axis=1)
    means = sums.sum(axis=1) / total
    with np.errstate(all="ignore"):
        own = error(around[0], around[1], np.float64(middle), share, series.weights.sum())
        return middle, float(own), (means - middle) / error(sums, weights, means[:, None], math.ceil(share), total)
