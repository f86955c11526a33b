"""The interval join: which row held a place at a time. Everything that joins by sector and time is this one join.

A row is a rectangle: it covers sectors ``[start, start + length)`` of one space (a device, say) during
``[valid_from, valid_to)``. A query is a run of sectors at one instant. The join cuts every query at the edges of the
rows that cover it, so that the pieces of a query always add up to the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

ALWAYS = np.iinfo(np.int64).min
"""`valid_from` of a row that has held since before the capture."""
FOREVER = np.iinfo(np.int64).max
"""`valid_to` of a row that holds until after the capture."""

PART = 1 << 18
"""How many runs of sectors are joined at once: what a join takes of memory is of one part."""


@dataclass(frozen=True)
class Queries:
    """Runs of sectors, each at one instant: parallel Int64 arrays. A length is at least 1."""

    space: Int64s
    start: Int64s
    length: Int64s
    time: Int64s

    def take(self, at: Int64s) -> Queries:
        """The queries at these positions."""
        return Queries(self.space[at], self.start[at], self.length[at], self.time[at])


@dataclass(frozen=True)
class Rows:
    """Runs of sectors, each for a span of time: parallel Int64 arrays. A row of length 0 covers nothing."""

    space: Int64s
    start: Int64s
    length: Int64s
    valid_from: Int64s
    valid_to: Int64s

    def take(self, at: Int64s) -> Rows:
        """The rows at these positions."""
        return Rows(self.space[at], self.start[at], self.length[at], self.valid_from[at], self.valid_to[at])


@dataclass(frozen=True)
class Pieces:
    """Queries cut at the edges of rows: parallel Int64 arrays, in order of query and start.

    `query` and `row` are positions in the inputs; `row` is -1 where no row covers the piece.
    """

    query: Int64s
    row: Int64s
    start: Int64s
    length: Int64s


def stab(queries: Queries, rows: Rows) -> Pieces:
    """Cut each query into pieces and name the row that covers each piece at the query's time.

    Of several rows that cover a place, the one with the latest `valid_from` wins, then the last in the input.

    Memory is proportional to the pieces, plus the rows of a part of the space (`apart`) cut at each other's edges: rows
    that do not overlap are not cut at all.
    """
    parts = []
    for space in np.unique(queries.space):
        query_at = np.flatnonzero(queries.space == space)
        times = queries.time[query_at]
        # Of a window of a long recording most rows are of another time.
        is_met = (rows.valid_from <= times.max()) & (rows.valid_to > times.min())
        row_at = np.flatnonzero((rows.space == space) & (rows.length > 0) & is_met)
        for some_queries, some_rows in _met(queries, rows, query_at, row_at):
            query, row, start, length = _coalesced(*_stab_one_space(queries.take(some_queries), rows.take(some_rows)))
            parts.append((some_queries[query], np.where(row >= 0, np.append(some_rows, -1)[row], -1), start, length))
    if not parts:
        none = np.empty(0, np.int64)
        return Pieces(none, none, none, none)
    if len(parts) == 1:
        return Pieces(*parts[0])
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Pieces(*(column[order] for column in columns))


def apart(start: Int64s, end: Int64s, most: int) -> list[Int64s]:
    """The positions of the runs ``[start, end)``, in parts of which no run overlaps one of another part.

    A part has the positions in ascending order. It has at most twice `most` of them where the runs allow that: runs
    that overlap, or overlap what they overlap, stay together.
    """
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    gaps = np.flatnonzero(start[order][1:] >= reach[:-1]) + 1
    wanted = np.searchsorted(gaps, np.arange(most, start.size, most))
    cuts = np.unique(gaps[wanted[wanted < gaps.size]])
    return [np.sort(part) for part in np.split(order, cuts)]


def _met(queries: Queries, rows: Rows, query_at: Int64s, row_at: Int64s) -> Iterator[tuple[Int64s, Int64s]]:
    """Queries and the rows that they can meet, of those at these positions, part by part of their space."""
    if query_at.size + row_at.size <= PART:
        yield query_at, row_at
        return
    start = np.concatenate([queries.start[query_at], rows.start[row_at]])
    length = np.concatenate([queries.length[query_at], rows.length[row_at]])
    for part in apart(start, start + length, PART):
        nr_queries = int(np.searchsorted(part, query_at.size))
        if nr_queries:
            yield query_at[part[:nr_queries]], row_at[part[nr_queries:] - query_at.size]


def _stab_one_space(queries: Queries, rows: Rows) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Query, row, start and length of every piece, where all queries and rows are of one space."""
    row_end = rows.start + rows.length
    edges = np.unique(np.concatenate([rows.start, row_end]))

    # Segment i is [edges[i - 1], edges[i]); segment 0 lies before the first edge, the last one after the last edge.
    end = queries.start + queries.length
    first = np.searchsorted(edges, queries.start, "right")
    last = np.searchsorted(edges, end, "left")
    query, segment = _expand(first, last - first + 1)
    bounds = np.concatenate([[ALWAYS], edges, [FOREVER]])
    start = np.maximum(queries.start[query], bounds[segment])
    length = np.minimum(end[query], bounds[segment + 1]) - start

    row, row_segment = _expand(
        np.searchsorted(edges, rows.start, "right"),
        np.searchsorted(edges, row_end, "right") - np.searchsorted(edges, rows.start, "right"),
    )
    return query, _latest_row(segment, queries.time[query], row, row_segment, rows), start, length


def _latest_row(segment: Int64s, time: Int64s, row: Int64s, row_segment: Int64s, rows: Rows) -> Int64s:
    """For each (segment, time) the row with the latest `valid_from` that covers it; -1 where there is none.

    `row` and `row_segment` pair every row with every segment it covers.
    """
    times, rank = np.unique(rows.valid_from, return_inverse=True)
    order = np.lexsort((row, rank[row], row_segment))
    row, row_segment = row[order], row_segment[order]
    # One sortable number for (segment, rank of valid_from): a search finds the last version begun by `time`.
    base = np.int64(times.size + 1)
    keys = row_segment * base + rank[row] + 1
    at = np.searchsorted(keys, segment * base + np.searchsorted(times, time, "right"), "right") - 1
    latest = np.full(segment.size, -1, np.int64)
    pending = np.arange(segment.size)
    while pending.size:
        pending = pending[at[pending] >= 0]
        pending = pending[row_segment[at[pending]] == segment[pending]]
        candidate = row[at[pending]]
        alive = rows.valid_to[candidate] > time[pending]
        latest[pending[alive]] = candidate[alive]
        pending = pending[~alive]
        at[pending] -= 1
    return latest


def _expand(first: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """For each i the numbers first[i] … first[i] + count[i] - 1, as (i, number)."""
    owner = np.repeat(np.arange(first.size), count)
    before = np.cumsum(count) - count
    return owner, np.arange(owner.size) - before[owner] + first[owner]


def _coalesced(query: Int64s, row: Int64s, start: Int64s, length: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Pieces in order of query and start, those joined that are neighbours and that the same row (or no row) covers."""
    begins = np.ones(query.size, np.bool_)
    begins[1:] = (query[1:] != query[:-1]) | (row[1:] != row[:-1])
    heads = np.flatnonzero(begins)
    if not heads.size:
        return query, row, start, length
    return query[heads], row[heads], start[heads], np.add.reduceat(length, heads)
