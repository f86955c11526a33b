"""The Perfetto trace against its source tables, read by Google's protobuf (perfetto_slices.py)."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import perfetto_slices
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto_slices import Slice, Trace
from support import made
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import schema, units
from androstep_analysis.capture import Capture
from androstep_analysis.datasets import export

pytestmark = pytest.mark.sanitized

DEMO = ROOT / "datasets/demo"

PEER = Path(os.environ.get("ANDROSTEP_TRACE_PROCESSOR") or ROOT / "build/peers/trace-processor")

TIMES = ("queue_ns", "issue_ns", "complete_ns")


def demo() -> Capture:
    return made.of_tables({name: table.collect() for name, table in androstep.open(DEMO).tables.items()}, clock="boot")


def traced(opened: Capture, path: Path) -> Trace:
    with path.open("w+b") as file:
        export.write(opened, "perfetto", file)
    return perfetto_slices.read(path)


def rows(table: pl.LazyFrame) -> list[dict[str, Any]]:
    """Return the expected arguments of the slices: every non-null value, with devices as MAJ:MIN."""
    found = []
    for row in table.collect().iter_rows(named=True):
        devices = {name: units.format_dev(row[name]) for name in ("dev", "part_dev") if name in row}
        found.append({name: value for name, value in (row | devices).items() if value is not None})
    return found


def of(trace: Trace, category: str) -> list[Slice]:
    keys = ("request_id", "piece") if category == "io" else ("request_id",)
    return sorted(
        (one for one in trace.slices if one.category == category), key=lambda one: [one.arguments[key] for key in keys]
    )


def check(opened: Capture, trace: Trace) -> None:
    """Check that slices and rows that reached a device correspond one to one, in times, tracks and values."""
    seen = rows(opened.requests)
    reached = [row for row in seen if "issue_ns" in row or "complete_ns" in row] or seen
    reached_ids = {row["request_id"] for row in reached}
    first = min(
        [
            0,
            *(
                row[name]
                for table in (opened.io, opened.requests)
                for row in rows(table)
                for name in TIMES
                if name in row
            ),
        ]
    )
    pieces = of(trace, "io")
    assert [one.arguments for one in pieces] == [row for row in rows(opened.io) if row["request_id"] in reached_ids]
    for one in pieces:
        times = [one.arguments[name] - first for name in TIMES if name in one.arguments]
        assert one.begin == times[0]
        assert one.end == (max(times[-1], times[0]) if "complete_ns" in one.arguments and len(times) > 1 else None)
        pid = one.arguments.get("owner_pid")
        root = one.track[0]
        name = one.arguments.get("owner_package", one.arguments.get("owner_comm"))
        below = one.track[1:]
        if pid is not None:
            assert root.startswith(f"{pid} ")
        elif one.arguments.get("owner_via") == "filesystem":
            assert root == "filesystem"
        elif name is None:
            assert root == "owner unknown"
        else:
            assert (root, below[0]) == ("owners known by name", name)
            below = below[1:]
        if "path" in one.arguments:
            assert below == (one.arguments["path"],)
    requests = of(trace, "requests")
    columns = schema.table("requests").polars.names()
    arguments = [{name: one.arguments[name] for name in columns if name in one.arguments} for one in requests]
    assert arguments == reached
    by_request: dict[int, list[Slice]] = {}
    for one in pieces:
        by_request.setdefault(one.arguments["request_id"], []).append(one)
    for one in requests:
        own = by_request.get(one.arguments["request_id"], [])
        issue = one.arguments.get("issue_ns", one.arguments.get("queue_ns"))
        complete = one.arguments.get("complete_ns")
        assert one.begin == (complete if issue is None else issue) - first
        assert one.end == (None if issue is None or complete is None else max(issue, complete) - first)
        assert one.track == ("block devices", one.arguments["dev"], "requests")
        assert one.arguments["bytes"] == 512 * one.arguments["nr_sectors"]
        assert one.arguments["pieces"] == len(own)
        for name in ("block_type", "path", "owner_pid", "owner_comm"):
            values = {piece.arguments.get(name) for piece in own} or {None}
            assert one.arguments.get(name) == (values.pop() if len(values) == 1 else None)
        assert one.last_flows == [flow for piece in own for flow in piece.flows]
    flows = [flow for one in pieces for flow in one.flows]
    assert len(set(flows)) == len(flows) == len(pieces)
    check_depth(opened, trace, first)


def check_depth(opened: Capture, trace: Trace, first: int) -> None:
    """Compare each counter value with the number of requests issued and not completed, counted one by one."""
    done = [row for row in rows(opened.requests) if "issue_ns" in row and "complete_ns" in row]
    for dev in {row["dev"] for row in done}:
        own = [(row["issue_ns"], max(row["issue_ns"], row["complete_ns"])) for row in done if row["dev"] == dev]
        values = list(dict(trace.counters["block devices", dev, "queue depth"]).items())  # the last value at each time
        assert [time for time, _ in values] == sorted({moment - first for pair in own for moment in pair})
        for time, depth in values[:: max(1, len(values) // 500)]:
            assert depth == sum(issue <= time + first < complete for issue, complete in own)
    assert len(trace.counters) == len({row["dev"] for row in done})


@pytest.mark.prove
def test_the_demo(tmp_path: Path) -> None:
    opened = demo()
    trace = traced(opened, tmp_path / "x")
    check(opened, trace)
    assert trace.clocks == [{6: opened.first_ns}]
    assert (trace.clock, trace.primary) == (6, [6])


@pytest.mark.prove
def test_a_trace_in_many_pieces_has_the_same_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", 137)
    opened = demo()
    check(opened, traced(opened, tmp_path / "x"))


OWNERS = ("write_begin", "filesystem", "unknown")
NAMES = st.one_of(st.none(), st.sampled_from(["/a", "/a\n\x1b[2J", "=1+1", "", "\u202e", "x" * 3000]))
SOME = st.one_of(st.none(), st.integers(-50, 50))


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw requests in order of issue like the tables, and their pieces."""
    wholes, pieces = [], []
    for number in range(draw(st.integers(0, 12))):
        times = draw(st.tuples(SOME, SOME, SOME).filter(lambda times: any(t is not None for t in times)))
        queue, issue, complete = times
        if queue is not None and issue is not None:
            queue, issue = sorted((queue, issue))
        common = {
            "queue_ns": queue,
            "issue_ns": issue,
            "complete_ns": complete,
            "op": draw(st.sampled_from(["read", "flush"])),
        }
        whole = {**common, "request_id": number, "dev": draw(st.sampled_from([1 << 20, 8 << 20])), "rwbs": draw(NAMES)}
        wholes.append(whole)
        for piece in range(draw(st.integers(1, 3))):  # a request always has a piece
            owner = {
                "owner_pid": draw(st.one_of(st.none(), st.integers(1, 3))),
                "owner_via": draw(st.sampled_from(OWNERS)),
            }
            what = {
                "path": draw(NAMES),
                "ino": draw(SOME),
                "block_type": draw(st.sampled_from([None, "data", "journal"])),
            }
            named = {"owner_comm": draw(NAMES), "piece": piece, "bytes": 0, "nr_sectors": 0}
            pieces.append({**common, "request_id": number, "dev": whole["dev"], **owner, **what, **named})
    order = sorted(
        range(len(wholes)),
        key=lambda n: next(wholes[n][t] for t in ("issue_ns", "queue_ns", "complete_ns") if wholes[n][t] is not None),
    )
    place = {number: at for at, number in enumerate(order)}
    wholes = [{**wholes[number], "request_id": at} for at, number in enumerate(order)]
    pieces = sorted(
        ({**piece, "request_id": place[piece["request_id"]]} for piece in pieces),
        key=lambda p: (p["request_id"], p["piece"]),
    )
    return wholes, pieces


@pytest.mark.prove
@settings(max_examples=40)
@given(requests(), st.integers(1, 5))
def test_any_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: tuple[list[dict[str, Any]], list[dict[str, Any]]], size: int
) -> None:
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", size)
    opened = made.capture(*told)
    check(opened, traced(opened, tmp_path / "x"))


@pytest.mark.parametrize(
    ("clock", "offset", "expected", "default"),
    [
        ("boot", None, [{6: 100}], 6),
        ("boot", 10**18, [{6: 100, 1: 10**18 + 100}], 6),
        ("mono", 10**18, [{3: 100, 1: 10**18 + 100}], 3),
        ("unknown", None, [], 6),
    ],
)
def test_clocks(clock: str, offset: int | None, expected: list[dict[int, int]], default: int, tmp_path: Path) -> None:
    opened = made.capture([{"issue_ns": 100, "complete_ns": 200}], clock=clock, realtime_offset_ns=offset)
    trace = traced(opened, tmp_path / "x")
    assert (trace.clocks, trace.clock) == (expected, default)
    assert trace.primary == [default] * len(expected)


def test_an_empty_capture_is_a_trace(tmp_path: Path) -> None:
    trace = traced(made.capture(), tmp_path / "x")
    assert (trace.slices, trace.counters) == ([], {})


def test_an_owner_of_whom_only_the_name_is_known_has_tracks_of_that_name(tmp_path: Path) -> None:
    times = {"queue_ns": 1, "complete_ns": 2}
    owners = [{"owner_comm": "mail"}, {"owner_comm": "main", "owner_package": "com.example"}, {}]
    io = [{"request_id": at, **times, "ino": 5, **owner} for at, owner in enumerate(owners)]
    pieces = of(traced(made.capture([times] * 3, io), tmp_path / "x"), "io")
    assert [one.track[:-1] for one in pieces] == [
        *(("owners known by name", "mail"), ("owners known by name", "com.example"), ("owner unknown",))
    ]


def test_a_process_is_called_by_its_package(tmp_path: Path) -> None:
    times = {"queue_ns": 1, "complete_ns": 2}
    piece = {"request_id": 0, **times, "owner_pid": 7, "owner_via": "write_begin", "owner_comm": "main"}
    opened = made.capture([times], [{**piece, "owner_package": "com.example", "block_type": "data", "ino": 5}])
    (one,) = of(traced(opened, tmp_path / "x"), "io")
    assert one.track == ("7 com.example", "inode 5 on 8:0")
    assert one.name == "write data"


def test_processes_and_files_that_had_one_number_have_tracks_of_their_own(tmp_path: Path) -> None:
    times = {"queue_ns": 1, "complete_ns": 2}
    piece = {**times, "owner_pid": 7, "owner_via": "write_begin", "block_type": "data", "ino": 5}
    own = [{"owner_comm": "cp", "incarnation": 0}, {"owner_comm": "rm", "incarnation": 1}]
    io = [{"request_id": at, **piece, **more} for at, more in enumerate(own)]
    pieces = of(traced(made.capture([times] * 2, io), tmp_path / "x"), "io")
    assert [one.track for one in pieces] == [
        ("7 cp", "inode 5 on 8:0"),
        ("7 rm", "inode 5, file 2 with that number on 8:0"),
    ]


def test_processes_of_one_name_that_had_one_pid_have_tracks_of_their_own(tmp_path: Path) -> None:
    """A process that is renamed keeps its track. A write whose process is unknown is on neither track."""
    creation = {"ts_ns": 10, "event": "task_newtask", "task": 7, "oom_score_adj": 0, "task_comm": "sh"}
    names = [(None, 5, "sh"), (5, 10, "cp"), (10, None, "sh")]
    threads = [
        {"tid": 7, "comm": comm, "kind": "other", "valid_from_ns": since, "valid_to_ns": until}
        for since, until, comm in names
    ]
    piece = {"owner_pid": 7, "owner_via": "submitter", "block_type": "data", "ino": 5}
    late = {"owner_via": "write_begin"}
    own = [(1, "sh", {}), (6, "cp", {}), (12, "sh", {}), (13, "sh", late), (14, "cp", late)]
    times = [{"queue_ns": at, "complete_ns": at + 1} for at, *_ in own]
    io = [{"request_id": n, **times[n], **piece, "owner_comm": comm, **more} for n, (_, comm, more) in enumerate(own)]
    tables = {name: table.collect() for name, table in made.capture(times, io).tables.items()}
    tables |= {"importance": made.table("importance", [creation]), "tasks": made.table("tasks", threads)}
    uuids = [one.root for one in of(traced(made.of_tables(tables), tmp_path / "x"), "io")]
    assert uuids[0] == uuids[1] == uuids[4] and len(set(uuids)) == 3


def test_a_slice_says_what_of_its_names_is_inferred(tmp_path: Path) -> None:
    times = {"queue_ns": 1, "complete_ns": 2}
    piece = {"op": "write", "block_type": "data", "path": "/a", "owner_comm": "mail", "map_source": "tracepoint"}
    more = [
        {"owner_via": "write_begin"},
        {"owner_via": "inferred"},
        {"owner_via": "inferred", "map_source": "inferred"},
        {"owner_via": "unknown", "owner_comm": None, "map_source": "inferred", "path": None, "block_type": "journal"},
    ]
    io = [{"request_id": at, **times, **piece, **one} for at, one in enumerate(more)]
    pieces = of(traced(made.capture([times] * 4, io), tmp_path / "x"), "io")
    assert [one.name for one in pieces] == [
        "write data",
        "write data, owner (inferred)",
        "write data, file (inferred), owner (inferred)",
        "write journal, type (inferred)",
    ]


# -- by Perfetto's own tables -----------------------------------------------------------------------------------------

SLICES = """
select s.ts, s.dur, s.category, s.name, extract_arg(s.arg_set_id, 'debug.request_id'),
  extract_arg(s.arg_set_id, 'debug.path'), extract_arg(s.arg_set_id, 'debug.owner_comm'),
  process.pid || ' ' || process.name, upper.name, parent.name, track.name
from slice s join track on s.track_id = track.id left join track parent on parent.id = track.parent_id
left join track upper on upper.id = parent.parent_id left join process_track on process_track.id = track.id
left join process using (upid)"""
DEPTHS = """
select c.ts, cast(c.value as int), upper.name, parent.name, track.name
from counter c join track on c.track_id = track.id join track parent on parent.id = track.parent_id
join track upper on upper.id = parent.parent_id order by c.id"""
FLOWS = """
select a.category, b.category, extract_arg(a.arg_set_id, 'debug.request_id') = extract_arg(b.arg_set_id,
  'debug.request_id'), count(*)
from flow join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in group by 1, 2, 3"""
ERRORS = "select count(*) from stats where severity != 'info' and value != 0"


@pytest.mark.prove
@pytest.mark.skipif(not PEER.is_dir(), reason="no trace processor (tests/support/trace_processor.mjs)")
def test_perfetto_has_every_slice_counter_and_arrow_on_its_track(tmp_path: Path) -> None:
    """Compare with the viewer's data model: the tables of Perfetto's trace processor for the demo."""
    trace = traced(demo(), tmp_path / "x")

    def told(query: str) -> list[tuple[str, ...]]:
        script = ROOT / "tests/support/trace_processor.mjs"
        words = ["node", str(script), str(PEER), str(tmp_path / "x"), query.replace("\n", " ")]
        with (tmp_path / "told").open("w+") as printed:  # node exits before a pipe is drained
            subprocess.run(words, stdout=printed, stderr=subprocess.DEVNULL, check=True, timeout=600)
            printed.seek(0)
            return [tuple(line.split("\t")) for line in printed.read().splitlines()]

    def of_slice(one: Slice) -> tuple[str, ...]:
        assert one.end is not None
        begin, length = str(one.begin), str(one.end - one.begin)
        asked = (one.arguments.get(name) for name in ("request_id", "path", "owner_comm"))
        texts = ("null" if value is None else str(value) for value in asked)
        is_of_process = one.track[0][0].isdigit()
        process, names = (one.track[0], one.track[1:]) if is_of_process else ("null", one.track)
        above = ("null",) * (3 - len(names)) + names
        return (begin, length, one.category, one.name, *texts, process, *above)

    assert Counter(told(SLICES)) == Counter(map(of_slice, trace.slices))
    (((devices, dev, name), depths),) = trace.counters.items()
    assert name == "queue depth"
    assert told(DEPTHS) == [(str(time), str(depth), devices, dev, name) for time, depth in depths]
    pieces = len(of(trace, "io"))
    assert told(FLOWS) == [("io", "requests", "1", str(pieces))] and pieces > 6000
    assert told(ERRORS) == [("0",)]
