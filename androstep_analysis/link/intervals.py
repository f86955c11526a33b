"""The interval join: find the row that covers a sector at a time.

A row is a rectangle: it covers sectors ``[start, start + length)`` of one space (such as a device) during
``[valid_from, valid_to)``. A query is a run of sectors at one instant. The join splits each query at the edges of the
rows that cover it, so that the pieces of a query always add up to the query.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from androstep_analysis import native

Int64s = npt.NDArray[np.int64]
Columns = tuple[Int64s, Int64s, Int64s, Int64s]

ALWAYS = np.iinfo(np.int64).min
"""`valid_from` of a row that has held since before the capture."""
FOREVER = np.iinfo(np.int64).max
"""`valid_to` of a row that holds until after the capture."""

PART = 1 << 18
"""Number of runs of sectors that are joined at once, to limit memory."""

_WIDEST = 2.0**62
"""Number of sectors that one space can have."""


@dataclass(frozen=True)
class Queries:
    """Runs of sectors, each at one instant: parallel Int64 arrays. A length is at least 1."""

    space: Int64s
    start: Int64s
    length: Int64s
    time: Int64s

    def take(self, at: Int64s) -> Queries:
        """Return the queries at these positions."""
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
        """Return the rows at these positions."""
        return Rows(self.space[at], self.start[at], self.length[at], self.valid_from[at], self.valid_to[at])


@dataclass(frozen=True)
class Pieces:
    """Queries split at the edges of rows: parallel Int64 arrays, in order of query and start.

    `query` and `row` are positions in the inputs; `row` is -1 where no row covers the piece.
    """

    query: Int64s
    row: Int64s
    start: Int64s
    length: Int64s


def stab(queries: Queries, rows: Rows) -> Pieces:
    """Split each query into pieces and find the row that covers each piece at the query's time.

    Of several rows that cover a sector, the one with the latest `valid_from` counts, then the last in the input. Memory
    is proportional to the pieces, plus the rows of a part of the space (`apart`), split at the edges of those that
    overlap.
    """
    if not queries.start.size:
        none = np.empty(0, np.int64)
        return Pieces(none, none, none, none)
    spaces, space_of_query = np.unique(queries.space, return_inverse=True)
    low, high = np.full(spaces.size, FOREVER), np.full(spaces.size, ALWAYS)
    np.minimum.at(low, space_of_query, queries.start)
    np.maximum.at(high, space_of_query, queries.start + queries.length)
    if spaces.size > 1 and (high.astype(float) - low).sum() > _WIDEST:  # sectors of damaged input
        of_spaces = [np.flatnonzero(space_of_query == space) for space in range(spaces.size)]
        return _in_order([(at, *_columns(stab(queries.take(at), rows))) for at in of_spaces])
    # The spaces are laid end to end, so that one join serves all of them: there may be as many as requests.
    shift = np.cumsum(high - low) - high
    shift_of_query = shift[space_of_query]
    row_at, rows = _valid_rows(rows, queries.time, spaces, low, high, shift)
    shifted = Queries(np.zeros_like(queries.space), queries.start + shift_of_query, queries.length, queries.time)
    parts = []
    for some_queries, some_rows in _overlapping(shifted, rows):
        query, row, start, length = _stab_one_space(shifted.take(some_queries), rows.take(some_rows))
        row = np.where(row >= 0, np.append(row_at[some_rows], -1)[row], -1)
        parts.append((some_queries, query, row, start - shift_of_query[some_queries[query]], length))
    return _in_order(parts)


def _valid_rows(
    rows: Rows, times: Int64s, spaces: Int64s, low: Int64s, high: Int64s, shift: Int64s
) -> tuple[Int64s, Rows]:
    """Return the positions of the rows that can cover a query, and these rows, limited to the queries of their space.

    The queries of each of the sorted `spaces` lie in ``[low, high)``, and `shift` is added to the sectors of a space.
    Most rows of a long recording are not valid in the time of a window.
    """
    space = np.minimum(np.searchsorted(spaces, rows.space), spaces.size - 1)
    start = np.maximum(rows.start, low[space])
    length = np.minimum(rows.start + rows.length, high[space]) - start
    is_valid = (spaces[space] == rows.space) & (length > 0)
    is_valid &= (rows.valid_from <= times.max()) & (rows.valid_to > times.min())
    at = np.flatnonzero(is_valid)
    space = space[at]
    cut = Rows(np.zeros_like(space), start[at] + shift[space], length[at], rows.valid_from[at], rows.valid_to[at])
    return at, cut


def _columns(pieces: Pieces) -> Columns:
    return pieces.query, pieces.row, pieces.start, pieces.length


def _in_order(parts: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]]) -> Pieces:
    """Concatenate parts in order of query. A part has the positions of its queries and the columns of its pieces."""
    of_parts = [(queries[query], *columns) for queries, query, *columns in parts]
    if len(of_parts) == 1:
        return Pieces(*of_parts[0])
    columns = [np.concatenate(column) for column in zip(*of_parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Pieces(*(column[order] for column in columns))


def apart(start: Int64s, end: Int64s, most: int) -> list[Int64s]:
    """Return the positions of the runs ``[start, end)`` in parts, so that no runs of different parts overlap.

    The positions in a part ascend. There are at most twice `most` of them if the runs allow that: runs that are
    connected by overlaps stay together.
    """
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    gaps = np.flatnonzero(start[order][1:] >= reach[:-1]) + 1
    wanted = np.searchsorted(gaps, np.arange(most, start.size, most))
    borders = distinct(gaps[wanted[wanted < gaps.size]])
    return [np.sort(part) for part in np.split(order, borders)]


def _overlapping(queries: Queries, rows: Rows) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the positions of queries and of the rows that can cover them, by part of the space."""
    nr_queries = queries.start.size
    if nr_queries + rows.start.size <= PART:
        yield np.arange(nr_queries), np.arange(rows.start.size)
        return
    start = np.concatenate([queries.start, rows.start])
    length = np.concatenate([queries.length, rows.length])
    for part in apart(start, start + length, PART):
        of_queries = int(np.searchsorted(part, nr_queries))
        if of_queries:
            yield part[:of_queries], part[of_queries:] - nr_queries


def _stab_one_space(queries: Queries, rows: Rows) -> Columns:
    """Return query, row, start and length of every piece of one space (native/intervals)."""
    edges = distinct(np.concatenate([rows.start, rows.start + rows.length]))
    order = np.argsort(rows.valid_from, kind="stable")
    asked = [np.ascontiguousarray(column) for column in (queries.start, queries.length, queries.time)]
    held = [
        np.ascontiguousarray(column)
        for column in (rows.start, rows.length, rows.valid_from, rows.valid_to, order.astype(np.int64), edges)
    ]
    *of_rows, of_edges = (column.ctypes.data for column in held)
    count = ctypes.c_size_t()
    address = native.library().stab_find(
        ctypes.byref(_CQueries(queries.start.size, *(column.ctypes.data for column in asked))),
        ctypes.byref(_CRows(rows.start.size, *of_rows, edges.size, of_edges)),
        ctypes.byref(count),
    )
    native.check(bool(address))
    pieces = np.empty((count.value, 4), np.int64)
    ctypes.memmove(pieces.ctypes.data, address, pieces.nbytes)
    native.library().stab_free(address)
    query, row, start, length = (np.ascontiguousarray(column) for column in pieces.T)
    return query, row, start, length


class _CQueries(ctypes.Structure):
    """``struct stab_queries`` of stab.h."""

    _fields_ = (("count", ctypes.c_size_t), *((name, ctypes.c_void_p) for name in ("start", "length", "time")))


class _CRows(ctypes.Structure):
    """``struct stab_rows`` of stab.h."""

    _fields_ = (
        ("count", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("start", "length", "valid_from", "valid_to", "order")),
        ("nr_edges", ctypes.c_size_t),
        ("edges", ctypes.c_void_p),
    )


def distinct(numbers: Int64s) -> Int64s:
    """Return the distinct numbers, sorted, as `np.unique`, which uses a hash table and is ten times as slow."""
    ordered = np.sort(numbers)
    is_new = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
