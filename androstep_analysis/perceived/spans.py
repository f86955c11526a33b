"""Spans of time and their overlaps, as parallel Int64 arrays of begins and ends, in ns.

A span is ``[start, end)`` with ``start <= end``. A span of length 0 covers nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def merged(start: Int64s, end: Int64s, gap: int = 0) -> tuple[Int64s, Int64s]:
    """Return the union of spans as disjoint spans in order of time, which do not touch.

    Spans with a distance of less than `gap` are joined, including the time between them.
    """
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    begins = np.empty(len(start), bool)
    begins[0] = True
    begins[1:] = start[1:] - latest[:-1] >= max(gap, 1)
    firsts = np.flatnonzero(begins)
    return start[firsts], latest[np.append(firsts[1:] - 1, len(start) - 1)]


def covered(start: Int64s, end: Int64s, window_start: Int64s, window_end: Int64s) -> Int64s:
    """Return the length of the part of each window that the spans cover, in ns. Spans and windows may overlap."""
    start, end = merged(start, end)
    if not len(start):
        return np.zeros(len(window_start), np.int64)
    before = np.concatenate([[0], np.cumsum(end - start)])

    def up_to(time: Int64s) -> Int64s:
        index = np.searchsorted(start, time, "right")
        last = np.maximum(index - 1, 0)
        beyond = np.where(index > 0, np.maximum(end[last] - time, 0), 0)
        total: Int64s = before[index] - beyond
        return total

    return up_to(window_end) - up_to(window_start)


def overlapping(start: Int64s, end: Int64s, weight: Int64s, window_start: Int64s, window_end: Int64s) -> Int64s:
    """Return the sum of the weights of the spans that overlap each window.

    A span of length 0 counts as a point in time.
    """
    end = np.maximum(end, start + 1)
    begun = np.concatenate([[0], np.cumsum(weight[np.argsort(start)])])
    ended = np.concatenate([[0], np.cumsum(weight[np.argsort(end)])])
    sums: Int64s = begun[np.searchsorted(np.sort(start), window_end, "left")]
    sums = sums - ended[np.searchsorted(np.sort(end), window_start, "right")]
    return np.where(window_end > window_start, sums, 0)


def gaps(start: Int64s, end: Int64s, first: int, last: int) -> tuple[Int64s, Int64s]:
    """Return the parts of ``[first, last)`` that the spans do not cover, in order of time."""
    start, end = merged(np.clip(start, first, last), np.clip(end, first, last))
    begins, ends = np.concatenate([[first], end]), np.concatenate([start, [last]])
    some = ends > begins
    return begins[some], ends[some]
