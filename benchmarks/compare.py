"""How often intervals over time windows hold the truth: simulated recordings of which the truth is known.

``python benchmarks/compare.py [--simulations N]``. Each line is a kind of recording: `rate`, values that wander (AR(1),
normal); `share`, shares that wander around a half, of bursts of requests (log-normal); `rare`, shares around 5 %.
Beside the interval of `androstep compare` stands that of the same windows taken as independent.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from androstep_analysis.stats.blocks import Series, interval, resampled

KINDS = ("rate", "share", "rare")
WINDOWS = (100, 150, 250, 500, 1000)
CORRELATIONS = (0.0, 0.5, 0.8)
RARE = 0.05
RESAMPLES = 999
"""Enough for a coverage, and ten times as fast as those of a comparison."""


def wandering(random: np.random.Generator, windows: int, correlation: float) -> np.ndarray:
    """A stationary AR(1) series of mean 0 and variance 1."""
    noise = random.normal(size=windows) * math.sqrt(1 - correlation**2)
    series = np.empty(windows)
    series[0] = random.normal()
    for at in range(1, windows):
        series[at] = correlation * series[at - 1] + noise[at]
    return series


def recording(kind: str, random: np.random.Generator, windows: int, correlation: float) -> tuple[Series, float]:
    """The windows of a recording, and the truth."""
    latent = wandering(random, windows, correlation)
    if kind == "rate":
        return Series(latent, np.ones(windows)), 0.0
    of = np.floor(np.exp(random.normal(2, 1, size=windows))) + 1
    if kind == "share":
        likely, truth = 1 / (1 + np.exp(-latent)), 0.5
    else:
        likely, truth = np.minimum(RARE * np.exp(0.8 * latent - 0.32), 1), RARE
    return Series(random.binomial(of.astype(int), likely) / of, of), truth


def independent(series: Series) -> tuple[float, float]:
    """The interval that takes windows as independent: a ratio of sums with its delta-method error."""
    total = series.weights.sum()
    mean = float(series.values @ series.weights) / total
    error = math.sqrt(float((((series.values - mean) * series.weights) ** 2).sum())) / total
    return mean - 1.96 * error, mean + 1.96 * error


def coverage(kind: str, windows: int, correlation: float, simulations: int) -> tuple[float, float, float]:
    """How often the interval holds the truth, how often the one of independent windows does, how often there is one."""
    random = np.random.default_rng([KINDS.index(kind), windows, round(10 * correlation)])
    hits = naive = tries = 0
    for number in range(simulations):
        series, truth = recording(kind, random, windows, correlation)
        lo, hi = independent(series)
        naive += lo <= truth <= hi
        if (found := interval(resampled([series], name=str(number), resamples=RESAMPLES))) is not None:
            tries += 1
            hits += found[0] <= truth <= found[1]
    return (hits / tries if tries else math.nan), naive / simulations, tries / simulations


def line(arguments: tuple[str, int, float, int]) -> str:
    kind, windows, correlation, simulations = arguments
    ours, naive, known = coverage(kind, windows, correlation, simulations)
    cell = f"{ours:.1%}" if known > 0.1 else "–"
    return f"| {kind} | {windows} | {correlation} | {cell} | {known:.0%} | {naive:.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=2000)
    arguments = parser.parse_args()
    print("| kind | windows | correlation of neighbours | holds the truth | has an interval | as if independent |")
    print("|---|---|---|---|---|---|")
    kinds = [
        (kind, windows, correlation, arguments.simulations)
        for kind in KINDS
        for windows in WINDOWS
        for correlation in CORRELATIONS
    ]
    with ProcessPoolExecutor() as pool:
        for row in pool.map(line, kinds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
