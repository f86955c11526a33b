"""Compare the write amplification of `whatif.flash` with closed forms (tests/support/whatif_oracles.py).

``python -m benchmarks.flash PICTURE`` draws the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import ceil

import numpy as np
from matplotlib.figure import Figure
from support.whatif_oracles import amplification, hot_and_cold, hot_or_cold, hybrid_uniform, physical, uniform

from benchmarks.paired import Row, compared

SPARE = (0.07, 0.1, 0.2, 0.28)
"""Spare capacity of the device, relative to the capacity in use."""

LARGE = 1024
"""Pages of a block, large enough for the closed form for hot and cold data."""

HOT, SHARE = 0.2, 0.8
"""The share of the data that is hot, and the share of writes that go there."""

WRITES = 16
"""Mean number of writes of each page in use. The first half of them fill the device."""


def flash(blocks: int = 1000) -> Iterator[Row]:
    """Yield the write amplification of devices with this many blocks in use."""
    for title, points in _series(blocks):
        for spare, simulated, known in points:
            yield compared(f"{title}, {100 * spare:.0f} % to spare", simulated, "closed form", known)


def _series(blocks: int) -> Iterator[tuple[str, list[tuple[float, float, float]]]]:
    """Yield a title, and the spare share, the simulated and the exact amplification of each device."""
    draw = np.random.default_rng(1)
    for pages in (16, 64):
        in_use = blocks * pages
        writes = draw.integers(0, in_use, WRITES * in_use)
        yield (
            f"uniform writes, blocks of {pages} pages",
            [(s, amplification(writes, in_use, s, pages), uniform(physical(in_use, s, pages), pages)) for s in SPARE],
        )
    in_use = blocks * LARGE
    writes = hot_or_cold(in_use, HOT, SHARE, WRITES * in_use)
    known = [hot_and_cold(physical(in_use, spare, LARGE), HOT, SHARE) for spare in SPARE]
    made = [amplification(writes, in_use, spare, LARGE) for spare in SPARE]
    yield "80 % of writes to 20 % of data", list(zip(SPARE, made, known, strict=True))
    in_use = blocks * 64
    writes = draw.integers(0, in_use, WRITES // 2 * in_use)
    known = [hybrid_uniform(blocks, ceil(blocks * spare) - 2, 64) for spare in SPARE]
    made = [amplification(writes, in_use, spare, 64, mapping="hybrid") for spare in SPARE]
    yield "uniform writes, hybrid mapping, blocks of 64 pages", list(zip(SPARE, made, known, strict=True))


def _drawn() -> Figure:
    """Draw lines for closed forms and points for simulations."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    ax = figure.subplots()
    for title, points in _series(1000):
        spare, simulated, known = np.array(points).T
        (line,) = ax.plot(100 * spare, known, label=title)
        ax.plot(100 * spare, simulated, "o", color=line.get_color())
    ax.set(xlabel="to spare [%]", ylabel="write amplification", ylim=(1, None))
    ax.set_title("Points: whatif.flash; lines: closed forms", fontsize="medium")
    ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    _drawn().savefig(sys.argv[1])
