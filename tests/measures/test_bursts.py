"""Bursts of requests and totals of days, compared with plain Python."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import made
from support.in_parts import read_in_parts

from androstep_analysis import compare, measures
from androstep_analysis.measures.volume import NS_PER_DAY

TIMES = st.integers(0, 60)
APPS = st.sampled_from(["mail", "game", None])
PIECES = st.lists(st.tuples(APPS, st.integers(1, 8)), min_size=1, max_size=3)
OPS = st.sampled_from(["read", "write", "discard"])
SHORT = st.tuples(TIMES, st.integers(0, 8)).map(lambda one: (one[0], sum(one)))
WHOLE = st.lists(st.tuples(SHORT, OPS, PIECES).map(lambda one: (*one[0], *one[1:])), max_size=25)
# Of these one alone makes all before it, or all behind it, unknown.
TORN = st.lists(st.tuples(st.none(), TIMES, OPS, PIECES) | st.tuples(TIMES, st.none(), OPS, PIECES), max_size=1)
LOST = st.lists(SHORT | st.tuples(st.none(), TIMES) | st.tuples(TIMES, st.none()), max_size=1)

Rows = list[tuple[int | None, int | None, str, list[tuple[str | None, int]]]]
Spans = list[tuple[int | None, int | None]]


def table(rows: Rows) -> pl.DataFrame:
    """Table `io` of these requests in order of issue, none of which ends before it begins."""
    ordered = sorted(rows, key=lambda row: -1 if row[0] is None else row[0])
    return made.table(
        "io",
        [
            {"request_id": number, "piece": piece, "op": op, "owner_comm": app, "nr_sectors": size}
            | {"issue_ns": begin, "complete_ns": None if end is None else max(end, begin or 0)}
            for number, (begin, end, op, pieces) in enumerate(ordered)
            for piece, (app, size) in enumerate(pieces)
        ],
    )


def runs(requests: list[tuple[int, int, int]], gap_ns: int) -> list[list[tuple[int, int, int]]]:
    """Return requests (issue, completion, bytes) of one app in bursts."""
    found: list[list[tuple[int, int, int]]] = []
    for one in sorted(requests):
        if found and one[0] - max(end for _, end, _ in found[-1]) <= gap_ns:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def expected(io: pl.DataFrame, gap_ns: int, lost: Spans) -> dict[tuple[str | None, str, int | None], list[int]]:
    """Return the number, requests, bytes and time of each app, period and class of length."""
    rows = io.select("request_id", "owner_comm", "op", "issue_ns", "complete_ns", "nr_sectors").rows()
    since = max((end for *_, begin, end, _ in rows if begin is None and end is not None), default=-1)
    until = min((begin for *_, begin, end, _ in rows if end is None and begin is not None), default=1000)
    reached = [row for row in rows if row[3] is not None or row[4] is not None] or rows
    apps: dict[str | None, dict[int, tuple[int | None, int | None, int]]] = defaultdict(dict)
    for request, app, op, begin, end, size in reached:
        before = apps[app].get(request, (begin, end, 0))[2]
        apps[app][request] = (begin, end, before + (size * 512 if op != "discard" else 0))
    told: dict[tuple[str | None, str, int | None], list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def add(app: str | None, period: str, length: int | None, *numbers: int) -> None:
        bucket = None if length is None else 1 << max(length - 1, 0).bit_length()
        told[app, period, bucket] = [a + b for a, b in zip(told[app, period, bucket], numbers, strict=True)]

    for app, requests in apps.items():
        both = [(begin, end, size) for begin, end, size in requests.values() if begin is not None and end is not None]
        edges = sorted({time for begin, end, _ in both for time in (begin, end)})

        def is_known(begin: int, end: int, edges: list[int] = edges) -> bool:
            return all(
                since <= a and b <= until and not any((x is None or x <= b) and (y is None or y >= a) for x, y in lost)
                for a, b in itertools.pairwise(edges)
                if begin <= a and b <= end
            )

        whole = [0, 0]
        found = [(run[0][0], max(end for _, end, _ in run), run) for run in runs(both, gap_ns)]
        for (_, last, _), (first, _, _) in itertools.pairwise(found):
            if is_known(last, first):
                add(app, "gap", first - last, 1, 0, 0, first - last)
        for before, (first, last, run), behind in zip(found, found[1:], found[2:], strict=False):
            if is_known(before[1], behind[0]):
                size = sum(one[2] for one in run)
                add(app, "burst", last - first, 1, len(run), size, last - first)
                whole = [whole[0] + len(run), whole[1] + size]
        if len(requests) > whole[0]:
            rest = sum(size for *_, size in requests.values()) - whole[1]
            add(app, "cut", None, 0, len(requests) - whole[0], rest, 0)
    return dict(told)


# Bursts of no length, of which one is whole.
@pytest.mark.prove
@example([(time, time, "read", [("mail", 1)]) for time in (0, 20, 40)], [], 5, [])
@given(WHOLE, TORN, st.integers(0, 12), LOST)
def test_bursts_of_each_app(whole: Rows, torn: Rows, gap_ns: int, lost: Spans) -> None:
    io = table([*whole, *torn])
    truth = expected(io, gap_ns, lost)
    for at_once in (None, 3):
        with read_in_parts(at_once):
            found = measures.bursts(io, gap_ns=gap_ns, lost=lost)
        keys = ["owner_comm", pl.col("period").cast(pl.String), "duration_up_to_ns"]
        told = {name: found.filter(metric=name).select(*keys, "value").rows() for name in found["metric"].unique()}
        for number, name in enumerate(("periods", "requests", "bytes", "time")):
            of = {"periods": ("burst", "gap"), "requests": ("burst", "cut"), "time": ("burst", "gap")}
            kinds = of.get(name, ("burst", "cut"))
            want = {key: float(row[number]) for key, row in truth.items() if key[1] in kinds}
            assert {tuple(row[:3]): row[3] for row in told.get(name, [])} == want, name
        has_whole = {app for app, period, _ in truth if period == "burst"}
        for app in {app for app, _, _ in truth}:
            of_app = found.filter(pl.col("owner_comm").eq_missing(pl.lit(app)))
            shares = {name: of_app.filter(metric=f"{name}_ratio")["value"] for name in ("time", "bytes")}
            assert (shares["time"].len() > 0) == (app in has_whole)
            if app in has_whole:
                assert shares["time"].sum() == pytest.approx(1)
            if shares["bytes"].len():
                assert shares["bytes"].sum() == pytest.approx(1)
                share = of_app.filter(metric="bytes_ratio", period="burst")["value"].sum()
                assert of_app["coverage"].unique().to_list() == [pytest.approx(share)]


def test_a_burst_longer_than_its_requests() -> None:
    """One that is issued within the gap of the latest completion, not of the one before it."""
    rows: Rows = [(0, 1, "read", [("mail", 1)]), (100, 200, "read", [("mail", 1)]), (110, 120, "write", [("mail", 2)])]
    io = table([*rows, (209, 210, "read", [("mail", 4)]), (300, 301, "read", [("mail", 1)])])
    found = measures.bursts(io, gap_ns=10).filter(period="burst")
    assert dict(found.select("metric", "value").rows()) == {
        **{"periods": 1, "requests": 3, "bytes": 7 * 512, "time": 110, "bytes_ratio": 7 / 9},
        "time_ratio": pytest.approx(110 / 299),
    }
    assert found["duration_up_to_ns"].unique().to_list() == [128]


@pytest.mark.parametrize("lost", [(100, 100), (150, 160), (50, 60), (200, 209), (205, None), (None, 1)])
def test_lost_time_cuts_what_it_touches(lost: tuple[int | None, int | None]) -> None:
    rows: Rows = [(begin, end, "read", [("mail", 1)]) for begin, end in ((0, 1), (100, 120), (125, 200), (300, 301))]
    found = measures.bursts(table(rows), gap_ns=10, lost=[lost])
    gaps = [begin for begin, end in ((1, 100), (200, 300)) if (lost[1] or 999) < begin or end < (lost[0] or 0)]
    periods = found.filter(metric="periods")
    assert (set(periods["period"]) <= {"gap"}, periods["value"].sum()) == (True, len(gaps))
    assert found.filter(metric="requests").select(pl.col("period").cast(pl.String), "value").rows() == [("cut", 4)]


def test_bursts_of_requests() -> None:
    requests = made.table(
        "requests",
        [{"request_id": n, "issue_ns": n * 100, "complete_ns": n * 100 + 1, "submit_comm": "a"} for n in range(4)],
    )
    found = measures.bursts(requests, by=["submit_comm"], gap_ns=10)
    assert found.filter(metric="bytes").select("period", "value").rows() == [("burst", 8192.0), ("cut", 8192.0)]
    with pytest.raises(ValueError, match="gap_ns is -1"):
        measures.bursts(requests, gap_ns=-1)


# -- days -------------------------------------------------------------------------------------------------------------

DAYS = st.lists(
    st.tuples(st.integers(0, 3 * NS_PER_DAY), st.sampled_from(["read", "write"]), st.integers(1, 8)),
    min_size=1,
    max_size=20,
)


@given(DAYS, st.one_of(st.none(), st.integers(0, 2 * 10**18)))
def test_days(rows: list[tuple[int, str, int]], offset: int | None) -> None:
    io = made.table(
        "io",
        [
            {"request_id": number, "issue_ns": time, "op": op, "nr_sectors": size, "bytes": size * 512}
            for number, (time, op, size) in enumerate(rows)
        ],
    )
    first = min(time for time, _, _ in rows)
    truth: Counter[tuple[str | int, str]] = Counter()
    for time, op, size in rows:
        if offset is None:
            day: str | int = (time - first) // NS_PER_DAY
        else:
            day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=(time + offset) // 10**9)).date().isoformat()
        truth[day, op] += size * 512
    name = "day_from_start" if offset is None else "date"
    found = measures.daily(io, by=(), realtime_offset_ns=offset).filter(metric="bytes")
    assert {(day, op): int(value) for day, op, value in found.select(name, "op", "value").rows()} == truth


@pytest.mark.parametrize(
    ("about", "column", "days"),
    [
        ({"realtime_offset_ns": 1_795_580_423 * 10**9}, "date", ["2026-11-25", "2026-11-26"]),
        ({"realtime_offset_ns": 1_795_580_423 * 10**9, "realtime_moved_ns": -2 * 10**9}, "day_from_start", [0]),
        ({"realtime_offset_ns": 1_795_580_423 * 10**9, "jumps": [(1, 5)]}, "day_from_start", [0]),
        ({"realtime_offset_ns": None}, "day_from_start", [0]),
    ],
)
def test_days_of_the_calendar_only_where_it_is_known(about: dict[str, object], column: str, days: list[object]) -> None:
    times = (0, NS_PER_DAY - 1)
    capture = made.capture([{"issue_ns": time, "complete_ns": time} for time in times], **about)
    found = compare.measure_all([capture], "daily")
    assert found.filter(metric="bytes")[column].to_list() == days
