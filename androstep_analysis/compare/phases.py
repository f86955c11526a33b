"""Phases of recordings, such as launch, play and idle, which are compared separately (`phases`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.compare.windows import Windows
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.recording import Recording
from androstep_analysis.stats.changes import changes

_TIMES: Final = {"requests": order_ns(), "io": order_ns(), "samples": pl.col("ts_ns")}
"""The time that decides to which phase a row belongs."""


def phases(capture: Capture | Recording, *, window_ns: int = 1_000_000_000) -> list[Recording]:
    """Split a recording at the times at which its rate of reads or writes changes.

    Parameters
    ----------
    capture : Capture or Recording
        The recording to split.
    window_ns : int
        Length of the windows in which requests are counted, in ns. A phase has at least twenty windows.

    Returns
    -------
    list of Recording
        A recording for each phase, with its rows and with its times in the title. The recording itself if nothing
        changes.

    Raises
    ------
    InputError
        If `window_ns` is not positive or gives too many windows.

    Notes
    -----
    At a change, the mean of the logarithm of reads or writes in a window (plus one) differs before and after. The test
    is that of `compare`, corrected for all times that were examined (`stats.changes`). In simulated recordings without
    changes, a change was found in at most 5 %.

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
    """Return the logarithm of the number of requests in each window, plus one."""
    rows = requests.filter(pl.col("op").cast(pl.String) == op).group_by("window").agg(n=pl.len()).collect()
    found = np.zeros(count)
    found[rows["window"].to_numpy()] = rows["n"].to_numpy()
    return np.log1p(found)


def _phase(recording: Recording, number: int, first_ns: int, last_ns: int) -> Recording:
    """Return the part of a recording between two times.

    The first and the last phase include everything before and after.
    """
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
