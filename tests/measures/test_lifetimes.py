"""Lifetimes of what is written, against plain Python that looks for the end of each write."""

from __future__ import annotations

import math
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis import measures

pytestmark = pytest.mark.unit

Row = tuple[int, int, int, str, str | None, int, int]
ROWS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 40),
        st.one_of(st.integers(0, 20), st.sampled_from([100, 1 << 20])),
        st.sampled_from(["write", "write", "read", "discard", "secure_erase"]),
        st.sampled_from(["a", "b", None]),
        st.integers(0, 5),
        st.integers(0, 1),
    ).filter(lambda row: row[2] <= 20 or row[3] != "write"),
    max_size=60,
)


def placed(rows: list[Row]) -> list[tuple[int, int]]:
    """Request and time of each row, which may be a piece of the request before."""
    found: list[tuple[int, int]] = []
    for number, (*_, op, _, wait, same) in enumerate(rows):
        if number and same and rows[number - 1][3] == op:
            found.append(found[-1])
        else:
            found.append((number, (found[-1][1] if found else 0) + wait))
    return found


def table(rows: list[Row]) -> pl.DataFrame:
    columns = {"dev": pl.UInt32, "sector": pl.Int64, "nr_sectors": pl.Int64, "op": pl.String, "path": pl.String}
    frame = pl.DataFrame([row[:5] for row in rows], schema=columns, orient="row")
    requests, times = (pl.Series([one[place] for one in placed(rows)], dtype=pl.Int64) for place in (0, 1))
    return frame.with_columns(request_id=requests, queue_ns=times, issue_ns=times, complete_ns=times)


def ends(rows: list[Row]) -> dict[str | None, list[tuple[str, int]]]:
    """Return how each write of a block in each group ends, and its age, by searching forward from every write."""
    # Pieces of a request come in order of their sectors.
    events = sorted(zip(placed(rows), rows, strict=True), key=lambda one: (one[0][1], one[0][0], one[1][1]))
    found = defaultdict(list)
    for number, ((request, at), (dev, sector, length, op, path, *_)) in enumerate(events):
        for block in range(sector // 8, -(-(sector + length) // 8)) if op == "write" and length else ():
            fate, is_first = ("alive", 0), True
            for (earlier, _), other in events[:number]:
                covers = other[1] // 8 <= block < -(-(other[1] + other[2]) // 8) and other[2] > 0
                is_first &= not (earlier == request and other[0] == dev and covers)
            for (later, time), other in events[number + 1 :]:
                if other[0] != dev or later == request or other[3] == "read":
                    continue
                if other[3] == "write" and other[2] and other[1] < 8 * block + 8 and 8 * block < other[1] + other[2]:
                    fate = ("rewritten", time - at)
                    break
                if other[3] != "write" and other[1] <= 8 * block and 8 * block + 8 <= other[1] + other[2]:
                    fate = ("discarded", time - at)
                    break
            if is_first:
                found[path].append(fate)
    return found


@pytest.mark.prove
@pytest.mark.sanitized
@given(ROWS)
def test_every_write_ends_as_plain_python_finds(rows: list[Row]) -> None:
    got = measures.lifetimes(table(rows), by=["path"])
    told = {(path, metric): value for metric, path, value in got.select("metric", "path", "value").iter_rows()}
    for path, fates in ends(rows).items():
        assert told.pop((path, "writes")) == len(fates)
        for end in ("rewritten", "discarded", "alive"):
            ages = sorted(age for fate, age in fates if fate == end)
            assert told.pop((path, f"{end}_ratio")) == pytest.approx(len(ages) / len(fates))
            for quantile in (50, 90, 99) if end != "alive" else ():
                want = ages[math.ceil(len(ages) * quantile / 100) - 1] if ages else None
                assert told.pop((path, f"{end}_p{quantile}")) == want
    assert not told
    whole = measures.lifetimes(table(rows))
    number = sum(map(len, ends(rows).values()))
    assert whole.filter(metric="writes")["value"].to_list() == ([number] if number else [])


def test_lives_go_on_from_part_to_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [(1, 8 * (number % 7), 8, "write", "ab"[number % 2], 1, 0) for number in range(100)]
    whole = measures.lifetimes(table(rows), by=["path"])
    monkeypatch.setattr("androstep_analysis.measures.parts.ROWS", 3)
    monkeypatch.setattr("androstep_analysis.measures.parts.MOST", 0)
    assert measures.lifetimes(table(rows), by=["path"]).equals(whole)
    assert whole.filter(metric="rewritten_p50")["value"].to_list() == [7, 7]


def test_a_write_of_an_unknown_or_inferred_file_is_told_by_the_coverage() -> None:
    rows = table([(1, 0, 8, "write", path, 1, 0) for path in ("a", "a", "a", None)])
    inferred = rows.with_columns(map_source=pl.Series(["context", "inferred", "context", "context"]))
    assert measures.lifetimes(inferred, by=["path"])["coverage"].unique().to_list() == [0.5]


def test_a_recording_without_writes_has_no_lifetimes() -> None:
    assert measures.lifetimes(table([(1, 0, 8, "read", "a", 1, 0)]), by=["path"]).is_empty()


def test_a_discard_of_more_blocks_than_are_known_ends_those_it_covers_whole() -> None:
    written: list[Row] = [(dev, 8 * block, 8, "write", "a", 1, 0) for dev, block in ((1, 0), (1, 99), (1, 100), (2, 5))]
    got = measures.lifetimes(table([*written, (1, 4, 796, "discard", None, 1, 0)]))
    assert got["coverage"].is_null().all()  # without groups nothing has to be known
    assert dict(got.select("metric", "value").iter_rows())["discarded_ratio"] == 0.25
