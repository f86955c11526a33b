"""Run the named benchmarks, or all, and print one table."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest

from androstep_analysis.common.errors import LossWarning
from benchmarks.advice import advice
from benchmarks.cache import cache
from benchmarks.events import events
from benchmarks.flash import flash
from benchmarks.intervals import intervals
from benchmarks.paired import Row
from benchmarks.probes import iobench, recording, replaying, sampling, watching
from benchmarks.readers import linking, readers
from benchmarks.scale import captures, memory

BENCHMARKS: dict[str, Callable[..., Iterator[Row]]] = {
    one.__name__: one
    for one in (
        *(readers, linking, memory, captures, recording, sampling, watching, iobench, replaying),
        *(cache, flash, intervals, events, advice),
    )
}
"""The benchmarks. Each yields rows and takes its size as its only argument.

The default size is that of the published table.
"""


def cells(row: Row) -> tuple[str, str, str, str]:
    """Return the row as text: what, ours, peer, ratio."""
    return row.what, number(row.ours), f"{number(row.theirs)} ({row.peer})", number(row.ratio)


def number(value: float | None) -> str:
    """Return a number with three digits or more, or a dash for None."""
    if value is None:
        return "–"
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, min(digits, 6))}f}"


def main(names: list[str]) -> None:
    """Print the table while the benchmarks run."""
    if unknown := set(names) - BENCHMARKS.keys():
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}: there are {', '.join(BENCHMARKS)}")
    warnings.simplefilter("ignore", LossWarning)
    print("| what | ours | peer | ratio |\n|---|---:|---:|---:|", flush=True)
    for name in names or BENCHMARKS:
        try:
            if os.geteuid() and "root" in vars(BENCHMARKS[name]).get("needs", ()):
                pytest.skip("needs root")
            for row in BENCHMARKS[name]():
                print(f"| {' | '.join(cells(row))} |", flush=True)
        except pytest.skip.Exception as missing:  # also raised by helpers of the tests
            print(f"| {name} | – | – ({missing}) | – |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
