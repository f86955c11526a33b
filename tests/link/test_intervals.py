"""Compare the interval join with a brute-force oracle that checks every sector of every query."""

from __future__ import annotations

from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from androstep_analysis import schema
from androstep_analysis.link import intervals
from androstep_analysis.link.extents import timeline

numbers = st.integers(0, 12)
query = st.tuples(st.integers(0, 3), numbers, st.integers(1, 8), numbers)
row = st.tuples(st.integers(0, 3), numbers, st.integers(0, 8), numbers, st.integers(0, 14))


def oracle(queries, rows, sector_query, sector):
    """Return the row that covers one sector of one query, from a search of all rows."""
    space, _, _, time = queries[sector_query]
    best = -1
    for index, (row_space, start, length, valid_from, valid_to) in enumerate(rows):
        covers = row_space == space and start <= sector < start + length and valid_from <= time < valid_to
        if covers and (best < 0 or valid_from >= rows[best][3]):
            best = index
    return best


@settings(max_examples=300)
@given(
    st.lists(query, max_size=6),
    st.lists(row, max_size=10),
    st.sampled_from([1, 3, intervals.PART]),
    st.sampled_from([0.0, 2.0**62]),
)
@pytest.mark.sanitized
def test_every_sector_gets_the_row_that_brute_force_finds(queries, rows, part, widest):
    columns = [np.array(c, np.int64) for c in zip(*queries, strict=True)] or [np.empty(0, np.int64)] * 4
    row_columns = [np.array(c, np.int64) for c in zip(*rows, strict=True)] or [np.empty(0, np.int64)] * 5
    with mock.patch.object(intervals, "PART", part), mock.patch.object(intervals, "_WIDEST", widest):
        pieces = intervals.stab(intervals.Queries(*columns), intervals.Rows(*row_columns))
    assert list(zip(pieces.query, pieces.start, strict=True)) == sorted(zip(pieces.query, pieces.start, strict=True))
    got = {
        (int(q), sector): int(r)
        for q, r, start, length in zip(pieces.query, pieces.row, pieces.start, pieces.length, strict=True)
        for sector in range(start, start + length)
    }
    want = {
        (index, sector): oracle(queries, rows, index, sector)
        for index, (_, start, length, _) in enumerate(queries)
        for sector in range(start, start + length)
    }
    assert got == want
    assert sum(pieces.length) == sum(length for _, _, length, _ in queries)


def test_neighbouring_pieces_of_one_row_are_joined():
    ones = np.ones(2, np.int64)
    early, late, end = np.int64(0), np.int64(9), np.int64(intervals.FOREVER)
    rows = intervals.Rows(ones, np.array([0, 8]), np.array([20, 4]), np.array([early, late]), np.array([end, end]))
    pieces = intervals.stab(intervals.Queries(ones[:1], ones[:1] * 0, ones[:1] * 20, ones[:1] * 5), rows)
    assert pieces.start.tolist() == [0]
    assert pieces.length.tolist() == [20]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=30), st.integers(1, 5))
def test_parts_hold_every_run_once_and_share_no_sector(runs, most):
    start = np.array([first for first, _ in runs], np.int64)
    end = start + np.array([length for _, length in runs], np.int64)
    parts = intervals.apart(start, end, most)
    assert sorted(position for part in parts for position in part) == list(range(len(runs)))
    assert all(list(part) == sorted(part) for part in parts)
    sectors = [{sector for at in part for sector in range(start[at], end[at])} for part in parts]
    assert sum(map(len, sectors)) == len(set().union(*sectors))
    if all(length <= 1 for _, length in runs) and len(set(runs)) == len(runs):
        assert max(map(len, parts)) <= 2 * most


statement = st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, 2), st.none() | st.integers(0, 15))


@settings(max_examples=200)
@given(st.lists(statement, max_size=12))
def test_statements_succeed_each_other_alike_in_parts_and_as_a_whole(statements):
    rows = [
        {"dev": 1, "sector": sector, "nr_sectors": length, "ino": ino, "valid_from_ns": time, "valid_to_ns": until}
        | {"file_offset_bytes": 0}
        for time, (sector, length, ino, until) in enumerate(statements)
    ]
    extents = pl.DataFrame(rows, schema=schema.table("extents").polars)
    whole = timeline.succeeding(extents)
    with mock.patch.object(intervals, "PART", 1):
        assert timeline.succeeding(extents).equals(whole)


def test_many_spaces_are_one_join():
    count = 5000
    space, one = np.arange(count), np.ones(count, np.int64)
    queries = intervals.Queries(space, 8 * one, 16 * one, 5 * one)
    rows = intervals.Rows(space, 12 * one, 100 * one, one, 9 * one)
    with mock.patch.object(intervals, "_stab_one_space", wraps=intervals._stab_one_space) as join:
        pieces = intervals.stab(queries, rows)
    assert join.call_count == 1
    assert pieces.query.tolist() == np.repeat(space, 2).tolist()
    assert pieces.start.tolist() == [8, 12] * count
    assert pieces.row.tolist() == [row for at in range(count) for row in (-1, at)]
