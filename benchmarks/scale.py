"""Measure how cost grows with larger recordings and more captures."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis.compare.collections import Collection
from benchmarks import recordings
from benchmarks.paired import Row, compared, peak_mib

ANDROSTEP = (sys.executable, "-m", "androstep_analysis")

MEASURE = """
import sys, androstep_analysis as androstep
androstep.collection(*sys.argv[1:]).measure("locality", jobs=1)
"""

TIMES = 4
"""Size ratio of the larger to the smaller input."""


def memory(events: int = 1_000_000) -> Iterator[Row]:
    """Compare the peak memory of commands for a trace.dat and for one that is four times as long.

    Half of the events are the block layer's; the rest are from ext4 and the page cache.
    """
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        sizes = (TIMES * events, events)
        traces = [recordings.tracedat(at / f"{size}.dat", size) for size in sizes]
        made = [at / f"capture-{size}" for size in sizes]
        commands: dict[str, list[tuple[str | Path, ...]]] = {
            "ingest": [("ingest", trace, "-o", capture) for trace, capture in zip(traces, made, strict=True)],
            "report": [("report", capture, "-o", at / "page.html") for capture in made],
        }
        for what, pair in commands.items():
            large, small = (peak_mib((*ANDROSTEP, *words)) for words in pair)
            yield compared(f"androstep {what}, {sizes[0]:,} events [MiB]", large, f"{events:,} events", small)


def captures(count: int = 100) -> Iterator[Row]:
    """Compare the peak memory of measuring `count` captures of 10,000 requests, and a quarter of them."""
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        (at / "traces").mkdir()
        for seed in range(count):
            _csv(at / "traces" / f"{seed}.csv", seed)
        Collection.ingest([at / "traces"], at / "captures", jobs=2)
        everything = sorted((at / "captures").iterdir())
        few = everything[: -(-count // TIMES)]
        large, small = (peak_mib((sys.executable, "-c", MEASURE, *some)) for some in (everything, few))
        yield compared(f"measure locality of {count} captures [MiB]", large, f"{len(few)} captures", small)


def _csv(path: Path, seed: int, requests: int = 10_000) -> None:
    """Write a trace of writes, half of which are sequential to the previous one."""
    draw = np.random.default_rng(seed)
    steps = np.where(draw.random(requests) < 0.5, 8, draw.integers(0, 10**6, requests) * 8)
    columns = {"process": "app-1", "device": 8388608, "rw_flag": "W", "sector": np.cumsum(steps), "size": 8}
    times = np.cumsum(draw.exponential(0.01, requests)).round(6)
    pl.DataFrame({**columns, "timestamp": times}).write_csv(path)
