"""Phases of recordings: launch, play, idle are compared each by itself (`phases`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.compare.windows import Windows
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.recording import Recording
from androstep_analysis.stats.changes import changes

_TIMES: Final = {"requests": order_ns(), "io": order_ns(), "samples": pl.col("ts_ns")}
"""What tells in which phase a row is."""


def phases(capture: Capture | Recording, *, window_ns: int = 1_000_000_000) -> list[Recording]:
    """A recording cut where it begins to read or write more or less than before.

    Parameters
    ----------
    capture : Capture or Recording
        What is cut.
    window_ns : int
        Length of the windows whose requests are counted, in ns. A phase has twenty at the least.

    Returns
    -------
    list of Recording
        As `measure_all` takes them: each with what happened in it, and its times in its title; the recording itself
        where nothing changes.

    Raises
    ------
    InputError
        Where windows have no length or are too many.

    Notes
    -----
    A change is where the mean of the logarithm of reads or writes in a window (plus one) differs before and after, by
    the test by which `compare` tells recordings apart, corrected for all places that were looked at (`stats.changes`).
    In simulated recordings without changes one was found in 5 % at the most.

    References
    ----------
    ``schemas/definitions.toml``, phase.

    Examples
    --------
    >>> [phase.title for phase in compare.phases(capture, window_ns=10**8)]
    ['demo']
    """
    recording = capture if isinstance(capture, Recording) else Recording.of(capture)
    span = recording.span
    if span is None or "requests" not in recording.tables:
        return [recording]
    windows = Windows.of(recording.title, *span, window_ns)
    requests = windows.apart({"requests": recording.timed["requests"]})["requests"]
    found = changes([_activity(requests, op, windows.count) for op in ("read", "write")])
    if not found:
        return [recording]
    edges = [span[0], *(span[0] + at * window_ns for at in found), span[1]]
    return [_phase(recording, number, *of) for number, of in enumerate(pairwise(edges), 1)]


def _activity(requests: pl.LazyFrame, op: str, count: int) -> npt.NDArray[np.float64]:
    """The logarithm of the requests of each window."""
    rows = requests.filter(pl.col("op").cast(pl.String) == op).group_by("window").agg(n=pl.len()).collect()
    found = np.zeros(count)
    found[rows["window"].to_numpy()] = rows["n"].to_numpy()
    return np.log1p(found)


def _phase(recording: Recording, number: int, first_ns: int, last_ns: int) -> Recording:
    """What of a recording happened from one time to another; the first and the last have all before and behind them."""
    begun, ended = recording.span or (first_ns, last_ns)
    tables = dict(recording.timed)
    for name, time in _TIMES.items():
        if name in tables:
            is_later = (time >= first_ns) | pl.lit(first_ns == begun)
            is_before = (time < last_ns) | pl.lit(last_ns == ended)
            tables[name] = tables[name].filter(is_later & is_before)
    since, until = ((at - begun) / NS_PER_S for at in (first_ns, last_ns))
    facts = {
        **recording.facts,
        "capture_id": f"{recording.facts['capture_id']}-{number}",
        "t_start_ns": first_ns,
        "t_end_ns": last_ns,
    }
    return Recording(f"{recording.title} {number} ({since:g}–{until:g} s)", facts, tables)
