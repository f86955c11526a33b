"""Reuse distances and misses of an LRU cache, against plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import measures
from androstep_analysis.common.errors import InputError

pytestmark = pytest.mark.unit

ROWS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 60), st.integers(0, 20), st.sampled_from(["read", "write", "discard"])),
    max_size=60,
)


def table(rows: list[tuple[int, int, int, str]]) -> pl.DataFrame:
    columns = {"dev": pl.UInt32, "sector": pl.Int64, "nr_sectors": pl.Int64, "op": pl.String}
    times = pl.int_range(pl.len(), dtype=pl.Int64)
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return frame.with_columns(request_id=times, queue_ns=times, issue_ns=times, complete_ns=times)


def touched(rows: list[tuple[int, int, int, str]]) -> list[tuple[str, tuple[int, int]]]:
    return [
        (op, (dev, block))
        for dev, sector, length, op in rows
        if length and op != "discard"
        for block in range(sector // 8, (sector + length - 1) // 8 + 1)
    ]


def missed(blocks: list[tuple[int, int]], room: int) -> list[bool]:
    """Simulate a cache as a list, with the last touched block at its end."""
    cache: list[tuple[int, int]] = []
    misses = []
    for block in blocks:
        misses.append(block not in cache)
        cache = [*(other for other in cache if other != block), block][-room:]
    return misses


@pytest.mark.sanitized
@given(ROWS)
def test_an_lru_cache_misses_what_one_of_plain_python_misses(rows: list[tuple[int, int, int, str]]) -> None:
    accesses = touched(rows)
    curve = measures.miss_ratio(table(rows), cache_bytes=[4096 * room for room in (1, 2, 3, 5, 40)], by=["op"])
    got = {(op, size): value for op, size, value in curve.select("op", "cache_bytes", "value").iter_rows()}
    for room in (1, 2, 3, 5, 40):
        misses = missed([block for _, block in accesses], room)
        for op in {op for op, _ in accesses}:
            of_op = [miss for miss, (own, _) in zip(misses, accesses, strict=True) if own == op]
            assert got[op, 4096 * room] == pytest.approx(sum(of_op) / len(of_op), abs=1e-12)
    assert len(got) == 5 * len({op for op, _ in accesses})
    if accesses:
        (whole,) = measures.miss_ratio(table(rows), cache_bytes=[3 * 4096])["value"]
        assert whole * len(accesses) == pytest.approx(sum(missed([block for _, block in accesses], 3)))


def distances(blocks: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return reuse distances from a list of the blocks, last touched first; None for a new block."""
    stack: list[tuple[int, int]] = []
    found: list[int | None] = []
    seen: set[tuple[int, int]] = set()
    for block in blocks:
        place = stack.index(block) if block in seen else None
        if place is not None:
            del stack[place]
        seen.add(block)
        stack.insert(0, block)
        found.append(place)
    return found


@pytest.mark.prove
def test_distances_stay_right_however_often_touches_are_numbered_anew() -> None:
    # Numbers run out at 4096 and 8192 touches, then after every 16384 less the blocks there are: five times and more.
    draw = random.Random(1)
    wide = [(draw.randint(1, 2), int(6000 * draw.random() ** 4)) for _ in range(28_000)]
    narrow = [(1, draw.randint(0, 99)) for _ in range(10_000)]
    blocks = [*wide[:20_000], *narrow, *wide[20_000:]]
    assert len(set(blocks)) > 4096
    got = measures.reuse(table([(dev, 8 * block, 8, "read") for dev, block in blocks]), by=["request_id"])
    of_each = got.filter(metric="distance_p50").sort("request_id")["value"].to_list()
    assert of_each == [None if one is None else 4096.0 * one for one in distances(blocks)]


def test_accesses_of_no_known_file_are_a_group_of_their_own_and_counted() -> None:
    rows = table([(1, 0, 8, "read"), (1, 0, 8, "read"), (1, 8, 8, "read"), (1, 0, 8, "read")])
    got = measures.reuse(rows.with_columns(path=pl.Series([None, "a", "a", "a"])), by=["path"])
    of_accesses = got.filter(metric="accesses").select("path", "value", "coverage")
    assert of_accesses.rows() == [("a", 3.0, 0.75), (None, 1.0, 0.75)]
    assert got.filter(pl.col("path").is_null(), metric="distance_p50")["value"].to_list() == [None]


def test_nothing_gives_no_row() -> None:
    assert measures.reuse(table([])).is_empty()
    assert measures.miss_ratio(table([])).is_empty()


def test_a_block_is_whole_sectors() -> None:
    with pytest.raises(InputError, match="multiple of 512"):
        measures.reuse(table([]), block_bytes=1000)


def test_what_is_inferred_is_not_known() -> None:
    rows = table([(1, 0, 8, "read")] * 4).with_columns(
        path=pl.Series(["a", "a", "b", None]),
        file_type=pl.Series(["other", "unknown", "other", "other"]),
        owner_comm=pl.Series(["x", "x", "x", "y"]),
        map_source=pl.Series(["context", "inferred", "image_after", None]),
        owner_via=pl.Series(["submitter", "submitter", "inferred", "inferred"]),
    )
    covered = {"op": 1.0, "path": 0.5, "file_type": 0.5, "owner_comm": 0.5}
    for column, share in covered.items():
        for got in (measures.reuse(rows, by=[column]), measures.miss_ratio(rows, by=[column])):
            assert got["coverage"].unique().to_list() == [share]
    assert measures.reuse(rows, by=["path", "owner_comm"])["coverage"].unique().to_list() == [0.25]
