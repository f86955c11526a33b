"""Hot and cold blocks and files, and classes of blocks, against plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import measures

pytestmark = pytest.mark.unit

ROW = st.tuples(
    st.integers(1, 2),
    st.integers(0, 60),
    st.integers(0, 20),
    st.sampled_from(["read", "write", "discard"]),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from(["context", "inferred"]),
    st.integers(0, 1),
)
ROWS = st.lists(ROW, max_size=60)
Row = tuple[int, int, int, str, str | None, str, int]
SHARES = (0.01, 0.2, 0.5, 1.0)


def table(rows: list[Row]) -> pl.DataFrame:
    """The last of a row: whether it is a piece of the same request as the row before."""
    columns = {"dev": pl.UInt32, "sector": pl.Int64, "nr_sectors": pl.Int64, "op": pl.String, "path": pl.String}
    frame = pl.DataFrame(rows, schema=columns | {"map_source": pl.String, "same": pl.Int64}, orient="row")
    request = pl.Series(requests(rows), dtype=pl.Int64)
    return frame.with_columns(request_id=request, queue_ns=request, issue_ns=request, complete_ns=request)


def requests(rows: list[Row]) -> list[int]:
    ids: list[int] = []
    for number, row in enumerate(rows):
        ids.append(ids[-1] if number and row[-1] and rows[number - 1][3] == row[3] else number)
    return ids


def accesses(rows: list[Row]) -> list[tuple[tuple[int, int], str, str | None, str, int]]:
    return [
        ((dev, block), op, path, source, request)
        for (dev, sector, length, op, path, source, _), request in zip(rows, requests(rows), strict=True)
        if length and op != "discard"
        for block in range(sector // 8, (sector + length - 1) // 8 + 1)
    ]


@given(ROWS)
def test_the_hottest_blocks_are_those_that_plain_python_counts(rows: list[Row]) -> None:
    uses: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    for block, op, *_ in accesses(rows):
        uses[op][block] += 1
    got = measures.hotness(table(rows), shares=SHARES)
    told = {(metric, op, top): (value, n) for metric, op, top, value, _, n, _ in got.iter_rows()}
    for op, counts in uses.items():
        for share in SHARES:
            number = math.ceil(len(counts) * share)
            hottest = sum(sorted(counts.values(), reverse=True)[:number])
            whole = counts.total()
            assert told.pop(("access_ratio", op, share)) == (pytest.approx(hottest / whole), whole)
            assert told.pop(("size", op, share)) == (number, whole)
    assert not told


@given(ROWS)
def test_the_hottest_files_are_those_of_a_known_path(rows: list[Row]) -> None:
    counts = Counter(path for _, _, path, _, _ in accesses(rows) if path is not None)
    known = [path is not None and source != "inferred" for _, _, path, source, _ in accesses(rows)]
    got = measures.hotness(table(rows), shares=[0.5], by=[], of="files").filter(metric="access_ratio")
    hottest = sum(sorted(counts.values(), reverse=True)[: math.ceil(len(counts) / 2)])
    assert got["value"].to_list() == ([pytest.approx(hottest / counts.total())] if counts else [])
    by_op = measures.hotness(table(rows), shares=[0.5], by=["op"], of="files")
    assert by_op["coverage"].unique().to_list() == ([pytest.approx(sum(known) / len(known))] if counts else [])


@given(ROWS)
def test_a_block_is_of_one_class_in_the_whole_capture(rows: list[Row]) -> None:
    writes: dict[tuple[int, int], set[int]] = defaultdict(set)
    users: dict[str | None, set[tuple[int, int]]] = defaultdict(set)
    for block, op, path, _, request in accesses(rows):
        users[path].add(block)
        if op == "write":
            writes[block].add(request)
    names = ("read_only", "write_once", "rewritten")
    want = Counter((path, names[min(2, len(writes[block]))]) for path, blocks in users.items() for block in blocks)
    got = measures.block_uses(table(rows), by=["path"])
    by_class = got.filter(metric="bytes").select("path", "class", "value").rows()
    assert {(path, kind): value for path, kind, value in by_class} == {key: 4096 * n for key, n in want.items()}
    whole = Counter(names[min(2, len(writes[block]))] for block in {block for block, *_ in accesses(rows)})
    got = measures.block_uses(table(rows)).filter(metric="bytes_ratio").select("class", "value", "coverage")
    assert got.rows() == [(kind, pytest.approx(whole[kind] / whole.total()), None) for kind in sorted(whole)]
