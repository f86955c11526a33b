"""Write amplification of `whatif.flash` beside what is known in closed form (tests/support/whatif_oracles.py).

``python benchmarks/flash.py [-o PICTURE]``. Prints the table of docs/whatif.md and draws it.
"""

from __future__ import annotations

import argparse
import sys
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.whatif_oracles import amplification, hot_and_cold, hot_or_cold, hybrid_uniform, physical, uniform

SPARE = (0.07, 0.1, 0.2, 0.28)
LARGE = 1024
Points = list[tuple[float, float, float]]


def main() -> None:
    """Print a row for each number of spare blocks, and draw all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="PICTURE")
    options = parser.parse_args()
    print("| writes | to spare | simulated | known | |\n|---|---:|---:|---:|---:|")
    series = {f"uniform, blocks of {pages} pages": of_uniform(pages) for pages in (16, 64)}
    for hot, share in ((0.2, 0.8), (0.1, 0.9), (0.5, 0.7)):
        series[f"{share:.0%} of writes to {hot:.0%} of data"] = of_hot_and_cold(hot, share)
    series["uniform, hybrid mapping, blocks of 64 pages"] = of_hybrid(64)
    for title, points in series.items():
        for spare, made, known in points:
            print(f"| {title} | {spare:.0%} | {made:.3f} | {known:.3f} | {made / known - 1:+.2%} |".replace("%", " %"))
    if options.output:
        drawn(series).savefig(options.output)


def of_uniform(block_pages: int) -> Points:
    """Spare ratio, simulated, known."""
    in_use = 1500 * block_pages
    pages = np.random.default_rng(1).integers(0, in_use, 24 * in_use)
    known = [uniform(physical(in_use, spare, block_pages), block_pages) for spare in SPARE]
    return [(s, amplification(pages, in_use, s, block_pages), k) for s, k in zip(SPARE, known, strict=True)]


def of_hot_and_cold(hot: float, share: float) -> Points:
    """Spare ratio, simulated, known."""
    in_use = 1000 * LARGE
    pages = hot_or_cold(in_use, hot, share, 16 * in_use)
    known = [hot_and_cold(physical(in_use, spare, LARGE), hot, share) for spare in SPARE]
    return [(s, amplification(pages, in_use, s, LARGE), k) for s, k in zip(SPARE, known, strict=True)]


def of_hybrid(block_pages: int) -> Points:
    """Spare ratio, simulated, known."""
    blocks = 1500
    pages = np.random.default_rng(1).integers(0, blocks * block_pages, 8 * blocks * block_pages)
    known = [hybrid_uniform(blocks, ceil(blocks * spare) - 2, block_pages) for spare in SPARE]
    in_use = blocks * block_pages
    made = [amplification(pages, in_use, spare, block_pages, mapping="hybrid") for spare in SPARE]
    return list(zip(SPARE, made, known, strict=True))


def drawn(series: dict[str, Points]) -> Figure:
    """Lines: known; points: simulated."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    ax = figure.subplots()
    for title, points in series.items():
        spare, made, known = np.array(points).T
        (line,) = ax.plot(100 * spare, known, label=title)
        ax.plot(100 * spare, made, "o", color=line.get_color())
    ax.set(xlabel="to spare [%]", ylabel="write amplification", ylim=(1, None))
    ax.set_title("Points: whatif.flash; lines: closed forms", fontsize="medium")
    ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
