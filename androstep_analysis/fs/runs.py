"""Arithmetic on runs of blocks: half-open intervals [start, end), as parallel Int64 arrays."""

from __future__ import annotations

import heapq
import itertools

import numpy as np


def first_wins(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split runs so that none overlap; every block goes to the first of the runs that contain it.

    Returns (start, end, index of the original run), sorted by start. Runs without overlap, which are all of them on an
    intact filesystem, are handled with array operations. The others are handled by a sweep in O(n log n).
    """
    index = np.flatnonzero(end > start)
    index = index[np.argsort(start[index], kind="stable")]
    if not index.size:
        return start[index], end[index], index
    # A cluster is a chain of overlapping runs. It ends at the highest end of its runs.
    reach = np.maximum.accumulate(end[index])
    begins = np.concatenate([[True], start[index][1:] >= reach[:-1]])
    cluster = np.cumsum(begins) - 1
    alone = np.bincount(cluster)[cluster] == 1
    pieces = _sweep(start, end, index[~alone])
    whole = index[alone]
    starts = np.concatenate([start[whole], pieces[:, 0]])
    ends = np.concatenate([end[whole], pieces[:, 1]])
    indices = np.concatenate([whole, pieces[:, 2]])
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order], indices[order]


def _sweep(start: np.ndarray, end: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Split the overlapping runs `index` into (start, end, index), sorted by start; Int64 array of shape (n, 3)."""
    pieces: list[tuple[int, int, int]] = []
    open_runs: list[tuple[int, int]] = []  # heap of (index, end): the smallest index is the first run
    upcoming = [(int(start[i]), int(end[i]), int(i)) for i in index]
    edges = sorted({edge for first, last, _ in upcoming for edge in (first, last)})
    upcoming.reverse()
    for here, there in itertools.pairwise(edges):
        while upcoming and upcoming[-1][0] == here:
            _, last, i = upcoming.pop()
            heapq.heappush(open_runs, (i, last))
        while open_runs and open_runs[0][1] <= here:
            heapq.heappop(open_runs)
        if not open_runs:
            continue
        winner = open_runs[0][0]
        if pieces and pieces[-1][1] == here and pieces[-1][2] == winner:
            pieces[-1] = (pieces[-1][0], there, winner)
        else:
            pieces.append((here, there, winner))
    return np.array(pieces, dtype=np.int64).reshape(-1, 3)


def overlapping(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the intervals that more than one run contains: (start, end), sorted and disjoint."""
    edges = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(end), -1)])
    at, where = np.unique(edges, return_inverse=True)
    depth = np.cumsum(np.bincount(where, weights=change, minlength=len(at)).astype(np.int64))
    several = np.flatnonzero(depth > 1)
    return at[several], at[several + 1]


def gaps(start: np.ndarray, end: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the gaps in [0, `total`) between sorted, disjoint runs: (start, end), sorted."""
    gap_start = np.concatenate([[0], end]).astype(np.int64)
    gap_end = np.concatenate([start, [total]]).astype(np.int64)
    some = gap_end > gap_start
    return gap_start[some], gap_end[some]


def intersect(
    start: np.ndarray, end: np.ndarray, other_start: np.ndarray, other_end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intersect two lists of sorted, disjoint runs: (start, end, index in the first list), sorted."""
    first = np.searchsorted(other_end, start, side="right")
    count = np.maximum(np.searchsorted(other_start, end, side="left") - first, 0)
    index = np.repeat(np.arange(len(start)), count)
    nth = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
    other = np.repeat(first, count) + nth
    return np.maximum(start[index], other_start[other]), np.minimum(end[index], other_end[other]), index
