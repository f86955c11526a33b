"""How often intervals over windows hold the truth, and how often a difference is shown that is none, or is one.

``python benchmarks/compare.py [CORPUS] [--simulations N] [--traces phone|others] [--run N]``. Recordings of which the
truth is known are made from four traces of a phone in the corpus, by which the method was chosen, or from others, which
nobody looked at then: windows of a trace, drawn in runs of five on average as a stationary bootstrap does (Politis and
Romano 1994), so that the mean of the whole trace is the truth. In runs of fifty, as phases are, most windows of a
recording are like their neighbours. They are bursty: in some traces one window of hundreds holds a tenth of everything.
For false differences the values of a second trace are bent (a power of a share, a multiple of a rate) until its mean is
that of the first, everything else staying as different as it is; for power they are not. Beside the method of
`androstep compare` stand those that it was chosen from: a studentised bootstrap of blocks (Götze and Künsch 1996; what
`compare` had before), equally weighted cosines with Student's t (Lazarus, Lewis, Stock and Watson 2018), and windows
taken as independent. Few repeats are drawn from six distributions.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

import androstep_analysis as androstep
from androstep_analysis import compare
from androstep_analysis.compare.measures import dimensions
from androstep_analysis.stats.blocks import Difference, Mean, Scale, Series, dependence, interval, mean, of_repeats

Values = npt.NDArray[np.float64]

S = 1_000_000_000
TRACES = {
    "phone": {
        f"block_csv/pixel6a_{app}.csv.gz": 10 * S
        for app in ("cod_exec", "pubg_exec", "slideshow_exec", "telegram_precond")
    },
    "others": {
        "blkparse_text/android_blktrace.flash.facebook.txt": S // 10,
        "blkparse_text/android_swapcache_2.txt": S // 2,
        "blkparse_text/leveldb_ram0_blk_data.txt": S // 5,
        "blktrace_bin/centos7": S // 2,
        str(Path(__file__).parents[1] / "datasets" / "demo"): S // 20,
    },
}
"""Files of the corpus, and of how long windows they are made."""

MEASURES = {"mix": ("bytes_ratio",), "locality": ("bytes_ratio", "count_ratio"), "rate": ("bandwidth",)}
LENGTHS = (10, 30, 100, 300, 1000, 4000)
LEVELS = (0.05, 0.001)
RESAMPLES = 499
METHODS = ("blocks", "bootstrap", "cosines", "independent")


# -- recordings whose truth is known ----------------------------------------------------------------------------------


def populations(corpus: Path, traces: Mapping[str, int]) -> dict[tuple[str, ...], tuple[Series, bool]]:
    """By trace, measure, metric and dimensions: the windows of the trace, and whether they are shares."""
    found = {}
    for trace, window_ns in traces.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            capture = androstep.open(corpus / trace)
        for measure, metrics in MEASURES.items():
            measured = compare.measure_all([capture], measure, window_ns=window_ns)
            rows = measured.filter(pl.col("metric").is_in(metrics), pl.col("weight") > 0)
            keys = ["metric", *dimensions(rows)]
            for key, part in rows.group_by(keys, maintain_order=True):
                series = Series(part["value"].to_numpy(), part["weight"].to_numpy())
                # What is left of a share is the same question; what never or always was has no spread to draw from.
                if (
                    {"random", "write"} & set(key) != {"random", "write"}
                    and series.values.std() > 0
                    and part.height > 60
                ):
                    found[trace, measure, *map(str, key)] = series, part["unit"][0] == "1"
    return found


def truth(series: Series) -> float:
    return float(series.values @ series.weights / series.weights.sum())


def drawn(random: np.random.Generator, series: Series, length: int, run: int) -> Series:
    """A recording of so many windows like these, in runs of so many on average."""
    begins = random.random(length) < 1 / run
    begins[0] = True
    at = np.arange(length)
    last = np.maximum.accumulate(np.where(begins, at, 0))
    places = (random.integers(len(series.values), size=length)[last] + at - last) % len(series.values)
    return Series(series.values[places], series.weights[places])


def bent(series: Series, to: float, *, is_share: bool) -> Series | None:
    """The windows with values bent so that their mean is `to`; None where no power does it."""
    if not is_share:
        return Series(series.values * to / truth(series), series.weights)
    low, high = 1e-3, 1e3
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if truth(Series(series.values**middle, series.weights)) > to else (low, middle)
    found = Series(series.values**middle, series.weights)
    return found if abs(truth(found) - to) < 1e-6 else None


# -- the methods ------------------------------------------------------------------------------------------------------


def bootstrap(random: np.random.Generator, series: Series) -> tuple[float, float, Values]:
    """Mean, error and studentised resamples of blocks on a circle."""
    weighted, windows = series.values * series.weights, len(series.values)
    middle = truth(series)
    length, _ = dependence(weighted - middle * series.weights)
    length = min(length, max(1, windows // 2))
    around = [np.convolve(np.concatenate([one, one[: length - 1]]), np.ones(length), "valid") for one in
              (weighted, series.weights)]  # fmt: skip
    share = windows / length
    inflated = share / (share - 1)

    def error(sums: Values, weights: Values, at: Values, count: float, total: Values) -> Values:
        deviations = sums - at * weights
        return np.sqrt(inflated * count * deviations.var(axis=-1)) / total

    own = float(error(*around, np.float64(middle), share, series.weights.sum()))
    places = random.integers(windows, size=(RESAMPLES, math.ceil(share)))
    sums, weights = around[0][places], around[1][places]
    total = weights.sum(axis=1)
    means = sums.sum(axis=1) / total
    return middle, own, (means - middle) / error(sums, weights, means[:, None], math.ceil(share), total)


def cosines(series: Series) -> Mean:
    """The long-run variance from cosines of low frequency, on as many degrees of freedom as there are cosines."""
    middle, windows = truth(series), len(series.values)
    deviations = series.weights * (series.values - middle)
    count = min(windows - 1, max(4, int(0.41 * windows ** (2 / 3))))
    at = (np.arange(windows) + 0.5) / windows
    projections = math.sqrt(2) * np.cos(np.pi * np.outer(np.arange(1, count + 1), at)) @ deviations
    error = math.sqrt(float((projections**2).mean())) / series.weights.sum()
    return Mean(middle, error, count, windows, windows, 0.0, blocks=0.0)


def independent(series: Series) -> Mean:
    middle, windows = truth(series), len(series.values)
    error = math.sqrt(float(((series.weights * (series.values - middle)) ** 2).sum())) / series.weights.sum()
    return Mean(middle, error, windows - 1, windows, windows, 0.0, blocks=0.0)


def covers(random: np.random.Generator, series: Series, to: float, scale: Scale) -> dict[str, bool | None]:
    """Whether the interval of each method holds the truth; None where it gives none."""
    found: dict[str, bool | None] = {}
    for method, function in (("blocks", lambda one: mean([one])), ("cosines", cosines), ("independent", independent)):
        bounds = interval(function(series), scale)
        found[method] = None if bounds is None else bounds[0] <= to <= bounds[1]
    with np.errstate(all="ignore"):
        middle, error, studentised = bootstrap(random, series)
    # Not between two values: one of them may be infinite.
    far = np.sort(np.where(np.isnan(studentised), np.inf, np.abs(studentised)))[math.ceil(0.95 * RESAMPLES) - 1]
    found["bootstrap"] = abs(middle - to) <= far * error if math.isfinite(far) and error > 0 else None
    return found


def differs(random: np.random.Generator, first: Series, second: Series, scale: Scale) -> dict[str, float]:
    """The p-value of each method."""
    found = {}
    for method, function in (("blocks", lambda one: mean([one])), ("cosines", cosines), ("independent", independent)):
        difference = Difference(function(first), function(second), scale)
        found[method] = difference.p() if difference.is_known else 1.0
    with np.errstate(all="ignore"):
        (one, one_error, one_far), (other, other_error, other_far) = (
            bootstrap(random, side) for side in (first, second)
        )
        whole = math.hypot(one_error, other_error)
        far = np.abs(one_error * one_far - other_error * other_far) / whole
        found["bootstrap"] = (
            float(np.mean(np.nan_to_num(far, nan=np.inf) >= abs(other - one) / whole)) if whole else 1.0
        )
    return found


# -- the tables -------------------------------------------------------------------------------------------------------

Population = tuple[Series, bool]
Rates = dict[tuple[str, float], float]


def _scale(is_share: bool) -> Scale:
    return Scale.SHARE if is_share else Scale.POSITIVE


def coverage(job: tuple[Population, int], simulations: int, run: int) -> Rates:
    (series, is_share), length = job
    random = np.random.default_rng(length)
    hits: dict[str, list[bool]] = defaultdict(list)
    for _ in range(simulations):
        one = drawn(random, series, length, run)
        for method, hit in covers(random, one, truth(series), _scale(is_share)).items():
            if hit is not None:
                hits[method].append(hit)
    return {(method, 0.0): float(np.mean(hits[method])) for method in METHODS if hits[method]}


def shown(job: tuple[Population, Population, int], simulations: int, run: int) -> Rates:
    (first, is_share), (second, _), length = job
    random = np.random.default_rng(length)
    values: dict[str, list[float]] = defaultdict(list)
    for _ in range(simulations):
        sides = drawn(random, first, length, run), drawn(random, second, length, run)
        for method, p in differs(random, *sides, _scale(is_share)).items():
            values[method].append(p)
    return {
        (method, level): float(np.mean(np.array(values[method]) <= level)) for method in METHODS for level in LEVELS
    }


def pairs(found: dict[tuple[str, ...], Population], *, is_null: bool) -> Iterator[tuple[Population, Population]]:
    for one, other in combinations(found, 2):
        if one[1:] != other[1:]:
            continue
        (first, is_share), (second, _) = found[one], found[other]
        made = bent(second, truth(first), is_share=is_share) if is_null else second
        if made is not None:
            yield (first, is_share), (made, is_share)


def table(title: str, pool: ProcessPoolExecutor, function: Callable, jobs: list, length_of: Callable) -> None:
    """A row for each method and length: mean over all jobs, and the worst tenth begins at."""
    rates: dict[tuple[int, str, float], list[float]] = defaultdict(list)
    for job, rate in zip(jobs, pool.map(function, jobs), strict=True):
        for (method, level), value in rate.items():
            rates[length_of(job), method, level].append(value)
    worst = 10 if function.func is coverage else 90
    print(f"\n{title} ({len(jobs) // len(LENGTHS)} kinds of recording)\n\n| windows | level | {' | '.join(METHODS)} |")
    print(f"|---|---|{'---|' * len(METHODS)}")
    for length, level in sorted({(length, level) for length, _, level in rates}):
        cells = [rates[length, method, level] for method in METHODS]
        text = [f"{np.mean(cell):.1%} ({np.percentile(cell, worst):.1%})" if cell else "–" for cell in cells]
        print(f"| {length} | {level or 0.95} | {' | '.join(text)} |", flush=True)


REPEATS: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "log-normal, spread 0.3": lambda random, n: np.exp(random.normal(0, 0.3, n)),
    "log-normal, spread 1": lambda random, n: np.exp(random.normal(0, 1, n)),
    "exponential": lambda random, n: random.exponential(size=n),
    "Student's t of 3": lambda random, n: 100 + random.standard_t(3, n),
    "two humps": lambda random, n: random.choice([1.0, 2.0], n) * np.exp(random.normal(0, 0.05, n)),
    "one in ten thrice": lambda random, n: np.where(random.random(n) < 0.1, 3, 1) * np.exp(random.normal(0, 0.05, n)),
}


def few_repeats(simulations: int) -> None:
    print("\nFew repeats compared by means: differences shown of those at 5 % and at 0.1 %\n")
    print("| repeats | distribution | false | false at 0.1 % | 5.5 times as much | 5.5 times at 0.1 % |")
    print("|---|---|---|---|---|---|")
    random = np.random.default_rng(1)
    for count in (3, 4, 5, 8):
        for name, draw in REPEATS.items():
            cells = []
            for factor in (1.0, 5.5):
                sides = [(of_repeats(draw(random, count)), of_repeats(factor * draw(random, count)))
                         for _ in range(simulations)]  # fmt: skip
                values = np.array([Difference(*both, Scale.POSITIVE).p() for both in sides])
                cells += [f"{np.mean(values <= level):.1%}" for level in LEVELS]
            print(f"| {count} | {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", default=Path("../shared/corpus"))
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--traces", choices=list(TRACES), default="phone")
    parser.add_argument("--run", type=int, default=5, help="windows of a run, on average")
    arguments = parser.parse_args()
    found, number = populations(arguments.corpus, TRACES[arguments.traces]), arguments.simulations
    drawing = {"simulations": number, "run": arguments.run}
    print("Mean over all kinds of recording (in parentheses: of a tenth of the kinds it is worse)")
    with ProcessPoolExecutor() as pool:
        jobs = [(one, length) for one in found.values() for length in LENGTHS]
        table("Intervals of 95 % hold the truth", pool, partial(coverage, **drawing), jobs, lambda job: job[1])
        for title, is_null in (("Differences shown where there is none", True), ("Differences shown that are", False)):
            both = [(*pair, length) for pair in pairs(found, is_null=is_null) for length in LENGTHS]
            table(title, pool, partial(shown, **drawing), both, lambda job: job[2])
    few_repeats(number * 5)


if __name__ == "__main__":
    main()
