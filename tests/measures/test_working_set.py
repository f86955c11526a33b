"""Working sets, against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import compare, measures
from androstep_analysis.common.errors import InputError

pytestmark = pytest.mark.unit

Row = tuple[int | None, int, int, int, str]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-30, 60)),
        st.integers(1, 2),
        st.integers(0, 60),
        st.integers(0, 20),
        st.sampled_from(["read", "write", "discard"]),
    ),
    max_size=60,
)


def table(rows: list[Row]) -> pl.DataFrame:
    columns = {"issue_ns": pl.Int64, "dev": pl.UInt32, "sector": pl.Int64, "nr_sectors": pl.Int64, "op": pl.String}
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    none = pl.lit(None, pl.Int64)
    done = pl.when(pl.col("issue_ns").is_null()).then(none).otherwise(pl.col("issue_ns") + 1000)
    return frame.with_columns(request_id=pl.int_range(pl.len(), dtype=pl.Int64), queue_ns=none, complete_ns=done)


@pytest.mark.parametrize("batch", [1 << 17, 4])
@pytest.mark.prove
@given(rows=ROWS)
def test_a_working_set_is_what_plain_python_counts(batch: int, rows: list[Row]) -> None:
    blocks: dict[tuple[int, str], set[tuple[int, int]]] = defaultdict(set)
    accesses: Counter[tuple[int, str]] = Counter()
    for time, dev, sector, length, op in rows:
        for block in range(sector // 8, (sector + length - 1) // 8 + 1):
            if time is not None and length and op != "discard":
                blocks[time // 10 * 10, op].add((dev, block))
                accesses[time // 10 * 10, op] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("androstep_analysis.measures.parts.ROWS", batch)
        got = measures.working_set(table(rows), window_ns=10)
        whole = measures.working_set(table(rows), window_ns=10, by=[])
    told = {(start, op): (value, n) for start, op, value, n in got.select("ts_ns", "op", "value", "n").iter_rows()}
    assert told == {key: (4096 * len(own), accesses[key]) for key, own in blocks.items()}
    both: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for (start, _), own in blocks.items():
        both[start] |= own
    assert whole.select("ts_ns", "value").rows() == [(start, 4096 * len(own)) for start, own in sorted(both.items())]


def test_the_mean_is_over_all_windows() -> None:
    second = 10**9
    rows = table([(0, 1, 0, 16, "read"), (5, 1, 0, 8, "write"), (3 * second, 1, 0, 8, "read")])
    got = compare.measures()["working_set"].of({"io": rows}, ())
    told = {(metric, op): value for metric, op, value in got.select("metric", "op", "value").iter_rows()}
    assert told == {
        ("mean", "read"): 3 * 4096 / 4,
        ("mean", "write"): 4096 / 4,
        ("largest", "read"): 8192,
        ("largest", "write"): 4096,
    }


def test_nothing_has_no_working_set_and_a_window_has_a_length() -> None:
    assert measures.working_set(table([])).is_empty()
    assert compare.measures()["working_set"].of({"io": table([])}, ()).is_empty()
    with pytest.raises(InputError, match="at least 1 ns"):
        measures.working_set(table([]), window_ns=0)
