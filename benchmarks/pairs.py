"""What `androstep compare` says of every two of the corpus' phone traces: how much is decided, and how much is not.

``python benchmarks/pairs.py [CORPUS] [--windows 1s,10s,60s]``. Every measure of what their requests tell, in windows of
each length. A question is decided where a difference is shown, or is shown not to matter (less than five points of a
share, than 5 % of a rate or time).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path

import polars as pl

import androstep_analysis as androstep
from androstep_analysis import compare
from androstep_analysis.capture import Capture
from androstep_analysis.commands.command import duration

MEASURES = ("mix", "rate", "locality", "latency")
DECIDED = ("higher", "lower", "only in the first", "only in the second", "no difference that matters")
SMALLEST = 0.05


def verdicts(pair: tuple[Capture, Capture], measure: str, window_ns: int) -> Counter[str]:
    """How often each verdict is given."""
    measured = compare.measure_all(pair, measure, window_ns=window_ns)
    compared = compare.compare(measured, by=["capture"], smallest=SMALLEST)
    return Counter(compared["verdict"].cast(pl.String))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", default=Path("../shared/corpus"))
    parser.add_argument("--windows", default="1s,10s,60s")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    captures = [androstep.open(path) for path in sorted((options.corpus / "block_csv").glob("pixel6a_*.csv.gz"))]
    pairs = list(combinations(captures, 2))
    print(f"{len(captures)} traces, {len(pairs)} pairs\n")
    print("| windows | measure | questions | decided | no difference shown | insufficient data | seconds |")
    print("|---|---|---|---|---|---|---|")
    for text in options.windows.split(","):
        for measure in MEASURES:
            began = time.perf_counter()
            found = sum((verdicts(pair, measure, duration(text)) for pair in pairs), Counter[str]())
            decided, took = sum(found[verdict] for verdict in DECIDED), time.perf_counter() - began
            cells = [found.total(), decided, found["no difference shown"], found["insufficient data"], f"{took:.1f}"]
            print(f"| {text} | {measure} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
