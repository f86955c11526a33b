"""Run contenders alternately and compare their results."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import ROOT

ROUNDS = 5

PROBES = ROOT / "build" / "probes" / "native"

LAUNCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

Command = Sequence[str | Path]
Measure = Callable[[], float]
"""Runs a contender once and returns its time, size or other cost."""


@dataclass(frozen=True)
class Row:
    """A row of the table. `theirs` and `ratio` are None if the peer is missing.

    `ratio` is the peer's value divided by ours: for times and sizes, a ratio above 1 is in our favour.
    """

    what: str
    ours: float | None
    peer: str
    theirs: float | None
    ratio: float | None


def compared(what: str, ours: float, peer: str, theirs: float) -> Row:
    """Return the row of two values that are the same in each run."""
    return Row(what, ours, peer, theirs, theirs / ours if ours else None)


def in_turn(what: str, ours: Measure, peers: Mapping[str, Measure | None]) -> Iterator[Row]:
    """Yield a row for each peer: medians over `ROUNDS` rounds, and the median of the ratios within the rounds.

    The order rotates from round to round, so that caches and clock rates favour no contender. A peer that is None is
    missing on this machine.
    """
    contenders: dict[str | None, Measure] = {None: ours}
    contenders |= {name: measure for name, measure in peers.items() if measure}
    values: dict[str | None, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(ROUNDS):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            values[name].append(contenders[name]())
    mine = values[None]
    for peer in peers:
        theirs = values.get(peer)
        if theirs is None:
            yield Row(what, statistics.median(mine), peer, None, None)
        else:
            ratio = statistics.median(other / one for one, other in zip(mine, theirs, strict=True))
            yield Row(what, statistics.median(mine), peer, statistics.median(theirs), ratio)


def seconds(work: Callable[[], object]) -> float:
    """Return the run time of a function in seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run(command: Command, cwd: Path | None = None, stdin: Path | None = None) -> str:
    """Run a program and return its output; exit with its message if it fails."""
    with Path(stdin or os.devnull).open("rb") as file:
        done = subprocess.run(command, cwd=cwd, stdin=file, capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def peak_mib(command: Command) -> float:
    """Run a program and return its peak memory as counted by the kernel (``ru_maxrss``).

    A small program starts it, because the kernel's count begins with the memory of the process that calls exec.
    """
    return int(run((sys.executable, "-c", LAUNCHER, *command))) / 1024


def where(program: str, measure: Measure) -> Measure | None:
    """Return the measure if the program that it runs is installed."""
    return measure if shutil.which(program) else None


def probe(name: str) -> Path:
    """Return the native build of a probe; skip the benchmark if it is not built."""
    if not (PROBES / name).exists():
        pytest.skip(f"{name}: make probes TARGET=native")
    return PROBES / name
