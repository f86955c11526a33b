"""Queue depth and idle periods, steps, seeks and merges, compared with plain Python."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from support import corpus, made
from support.in_parts import read_in_parts

from androstep_analysis import capture, compare, measures
from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.queue import queues

TIMES = st.one_of(st.none(), st.integers(0, 30))
REQUESTS = st.lists(st.tuples(st.sampled_from([made.DEV, made.DEV + 16]), TIMES, TIMES), max_size=30)
LOST = st.lists(st.tuples(TIMES, TIMES), max_size=2)


def requests(rows: list[tuple[int, int | None, int | None]]) -> pl.DataFrame:
    times = [
        {"dev": dev, "issue_ns": begin, "complete_ns": None if end is None else max(end, begin or 0)}
        for dev, begin, end in rows
    ]
    ordered = sorted(times, key=lambda row: -1 if row["issue_ns"] is None else row["issue_ns"])
    return made.table("requests", [{**row, "request_id": number} for number, row in enumerate(ordered)])


Times = dict[int, list[tuple[int, int, bool]]]


def nanoseconds(table: pl.DataFrame, lost: list[tuple[int | None, int | None]]) -> Times:
    """Return time, depth and whether it is known for each ns of each device, from first issue to last completion."""
    told: Times = {}
    for dev in table["dev"].unique():
        rows = table.filter(dev=dev).select("issue_ns", "complete_ns").rows()
        both = [(begin, end) for begin, end in rows if begin is not None and end is not None]
        if not both:
            continue
        since = max((end for begin, end in rows if begin is None and end is not None), default=-1)
        until = min((begin for begin, end in rows if end is None and begin is not None), default=1000)
        depths: list[tuple[int, int, bool]] = []
        edges = sorted({time for request in both for time in request})
        for begin, end in itertools.pairwise(edges):
            # Between two events of the queue all is known or nothing.
            hurt = any((last is None or begin <= last) and (first is None or end >= first) for first, last in lost)
            is_known = begin >= since and end <= until and not hurt
            depth = sum(b <= begin and e >= end for b, e in both)
            depths += [(time, depth, is_known) for time in range(begin, end)]
        told[dev] = depths
    return told


@given(REQUESTS, LOST)
def test_time_at_each_depth(rows: list[tuple[int, int | None, int | None]], lost: list[tuple[int, int]]) -> None:
    table = requests(rows)
    expected = {
        (dev, depth): float(time)
        for dev, of in nanoseconds(table, lost).items()
        for depth, time in Counter(depth for _, depth, is_known in of if is_known).items()
    }
    for at_once in (None, 3):
        with read_in_parts(at_once):
            found = measures.queue(table, lost=lost).filter(pl.col("metric") == "time", pl.col("value") > 0)
        assert {(dev, depth): value for dev, depth, value in found.select("dev", "depth", "value").rows()} == expected


@pytest.mark.prove
@given(REQUESTS, LOST, st.integers(1, 40), st.integers(-5, 5), st.integers(0, 40))
def test_windows_are_the_whole_recording_cut(
    rows: list[tuple[int, int | None, int | None]], lost: list[tuple[int, int]], length: int, first: int, more: int
) -> None:
    """Also where windows begin later or end earlier than the requests: the first and the last hold the rest."""
    table, span = requests(rows), (first, first + more)
    last_window = max(0, -(-more // length) - 1)

    def window(time: int) -> int:
        return first + min(max((time - first) // length, 0), last_window) * length

    times: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    whole: Counter[tuple[int, int]] = Counter()
    for dev, of in nanoseconds(table, lost).items():
        for time, depth, is_known in of:
            whole[window(time), dev] += 1
            if is_known:
                times[window(time), dev][depth] += 1
    for at_once in (None, 3):
        with read_in_parts(at_once):
            told = measures.queue(table, lost=lost, window_ns=length, span=span)
            sums = measures.depth(table, lost=lost, window_ns=length, span=span)
        keys = ["ts_ns", "dev"]
        long = told.filter(pl.col("metric") == "time", pl.col("value") > 0)
        assert {tuple(row) for row in long.select(*keys, "depth", "value").rows()} == {
            (*key, depth, float(time)) for key, of in times.items() for depth, time in of.items()
        }
        assert all(
            share == sum(times[at, dev].values()) / whole[at, dev]
            for at, dev, share in long.select(*keys, "coverage").rows()
        )
        is_timed = sums.filter(pl.col("metric") == "time", pl.col("value") > 0).select(keys)
        found = sums.join(is_timed, on=keys).pivot(
            "metric", on_columns=["time", "mean", "max", "idle_ratio"], index=keys, values="value"
        )
        assert found.height == len(times)
        for at, dev, time, mean, _, idle in found.select(*keys, "time", "mean", "max", "idle_ratio").rows():
            of = times[at, dev]
            assert time == sum(of.values())
            assert mean == pytest.approx(sum(depth * length for depth, length in of.items()) / time)
            assert idle == pytest.approx(of[0] / time)


@pytest.mark.prove
@given(REQUESTS, LOST, st.integers(1, 40))
def test_one_pass_gives_what_each_measure_gives(
    rows: list[tuple[int, int | None, int | None]], lost: list[tuple[int, int]], length: int
) -> None:
    table = requests(rows)
    each = (
        measures.queue(table, lost=lost),
        measures.depth(table, lost=lost),
        measures.depth(table, lost=lost, window_ns=length),
    )
    for one, at_once in zip(each, queues(table, lost=lost, window_ns=length), strict=True):
        assert_frame_equal(one, at_once)


@pytest.mark.prove
@given(REQUESTS, st.integers(1, 40))
def test_issues_are_in_the_window_of_their_time(rows: list[tuple[int, int | None, int | None]], length: int) -> None:
    table = requests([row for row in rows if row[1] is not None and row[2] is not None])
    first, last = table["issue_ns"].min() or 0, table["complete_ns"].max() or 0
    windows = max(0, -(-(last - first) // length) - 1)
    expected = Counter(
        (first + min((begin - first) // length, windows) * length, dev)
        for dev, begin in table.select("dev", "issue_ns").rows()
    )
    told = measures.queue(table, window_ns=length).filter(metric="issued").group_by("ts_ns", "dev")
    found = told.agg(pl.col("value").sum(), pl.col("n").first(), pl.col("depth").max())
    assert {(at, dev): value for at, dev, value in found.select("ts_ns", "dev", "value").rows() if value} == expected
    assert found.select(pl.col("value") == pl.col("n")).to_series().all()
    deepest = measures.depth(table, window_ns=length).filter(metric="max").select("ts_ns", "dev", "value")
    assert set(deepest.rows()) == set(found.select("ts_ns", "dev", "depth").rows())


@given(REQUESTS)
def test_mean_depth_is_that_of_littles_law(rows: list[tuple[int, int | None, int | None]]) -> None:
    table = requests([row for row in rows if row[1] is not None and row[2] is not None])
    waits = table.group_by("dev").agg(
        area=(pl.col("complete_ns") - pl.col("issue_ns")).sum(),
        time=pl.col("complete_ns").max() - pl.col("issue_ns").min(),
    )
    expected = {dev: area / time for dev, area, time in waits.rows() if time}
    means = measures.depth(table).filter(pl.col("metric") == "mean", pl.col("value").is_not_null())
    assert dict(means.select("dev", "value").rows()) == pytest.approx(expected)


@pytest.mark.parametrize(("length", "said"), [(0, "must be at least 1 ns"), (1, "use longer ones")])
def test_windows_that_cannot_be(length: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        measures.queue(requests([(made.DEV, 0, 10**7)]), window_ns=length)


@given(REQUESTS)
def test_depth_that_each_request_is_issued_to(rows: list[tuple[int, int | None, int | None]]) -> None:
    table = requests([row for row in rows if row[1] is not None and row[2] is not None])
    expected: Counter[tuple[int, int]] = Counter()
    under_way: dict[int, list[int]] = defaultdict(list)
    for dev, begin, end in table.select("dev", "issue_ns", "complete_ns").rows():
        # Of one time those that end come first, unless they begin then.
        under_way[dev] = [(b, e) for b, e in under_way[dev] if e > begin or b == e == begin]
        under_way[dev].append((begin, end))
        expected[dev, len(under_way[dev])] += 1
    found = measures.queue(table).filter(pl.col("metric") == "issued", pl.col("value") > 0)
    assert {(dev, depth): int(value) for dev, depth, value in found.select("dev", "depth", "value").rows()} == expected


@given(REQUESTS)
def test_idle_and_busy_periods(rows: list[tuple[int, int | None, int | None]]) -> None:
    table = requests([row for row in rows if row[1] is not None and row[2] is not None and row[2] > row[1]])
    expected: Counter[tuple[int, str, int]] = Counter()
    for dev, of in nanoseconds(table, []).items():
        runs: list[tuple[str, int]] = []
        for _, depth, _ in of:
            name = "busy" if depth else "idle"
            if runs and runs[-1][0] == name:
                runs[-1] = (name, runs[-1][1] + 1)
            else:
                runs.append((name, 1))
        for name, length in runs[1:-1]:
            expected[dev, name, 1 << (length - 1).bit_length()] += 1
    for at_once in (None, 3):
        with read_in_parts(at_once):
            found = measures.idle(table).filter(metric="periods")
        told = found.select("dev", pl.col("period").cast(pl.String), "duration_up_to_ns", "value").rows()
        assert {tuple(row[:3]): int(row[3]) for row in told} == expected


def test_what_nothing_tells_is_unknown() -> None:
    table = requests([(made.DEV, 0, 10), (made.DEV, 5, None), (made.DEV, 20, 30)])
    found = measures.queue(table).filter(metric="time")
    assert found.select("depth", "value", "coverage").rows() == []
    assert measures.queue(requests([(made.DEV, 0, 10)]), lost=[(None, None)]).is_empty()


@pytest.mark.parametrize("function", [measures.queue, measures.depth, measures.idle])
def test_no_requests(function: object) -> None:
    assert function(made.table("requests", [])).is_empty()  # type: ignore[operator]


# -- recordings of others ---------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize(
    "name",
    [
        "blktrace_bin/centos7",
        "blktrace_bin/takeoverjp_sample.blktrace.0",
        "blkparse_text/android_blktrace.flash.facebook.txt",
        "blkparse_text/android_candycrush_straight_1.txt",
        "blkparse_text/android_swapcache_2.txt",
        "blkparse_text/leveldb_ram0_blk_data.txt",
        "kernel/ext4_guest_6.1/blktrace.tgz",
        "block_csv",
        "ftrace_text",
        "perfetto",
        "trace_dat",
    ],
)
def test_nothing_is_invented_of_recordings(name: str) -> None:
    """Every measure of every recording: shares are shares, and what has no events has no rows."""
    place = corpus.path(name)
    is_many = place.is_dir() and place.name != "centos7"
    files = sorted(place.iterdir()) if is_many else [place]
    for file in files:
        if file.name.endswith((".json", ".md")):
            continue
        try:
            opened = capture.open(file)
        except InputError:
            continue
        if not opened.about["rows"].get("requests"):
            continue
        actions = set(opened.block_events.select(pl.col("action").cast(pl.String).unique()).collect()["action"])
        for measure, one in compare.measures().items():
            if not set(one.needs) <= set(opened.tables):
                continue
            found = compare.measure_all([opened], measure)
            shares = found.filter(pl.col("metric").str.ends_with("_ratio"), pl.col("value").is_not_null())
            assert shares["value"].is_between(0, 1 + 1e-9).all(), (file, measure)
            if measure == "steps":
                told = set(found["step"].cast(pl.String)) if found.height else set()
                needed = {"G2I": "insert", "Q2G": "getrq", "D2C": "complete", "Q2Q": "queue", "I2D": "insert"}
                assert {step for step, action in needed.items() if action not in actions}.isdisjoint(told), file
            if measure == "queue":
                issued = opened.requests.filter(pl.col("issue_ns").is_not_null()).select(pl.len()).collect().item()
                assert found.filter(metric="issued")["value"].sum() <= issued, file
