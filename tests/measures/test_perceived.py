"""User-perceived latency: states of dumps, transitions against a naive search, I/O against waiting, and its figures."""

from __future__ import annotations

import io
import itertools
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import gui_dumps
import matplotlib.axes
import numpy as np
import polars as pl
import pytest
from gui_dumps import dump, node
from hypothesis import given, settings
from hypothesis import strategies as st
from support import made

import androstep_analysis as androstep
from androstep_analysis import capture, perceived, plot, schema
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.perceived import archive, gui, spans, tables
from androstep_analysis.perceived.gui import Snapshot

S = 10**9

# --- states of dumps -------------------------------------------------------------------------------------------------


def test_a_state_is_the_set_of_objects_properties_and_values() -> None:
    state = gui.parse(
        dump(node("android.widget.FrameLayout", node(text="one", resource_id="a:id/t"), node(text="two")))
    )
    root = "0:hierarchy:/0:android.widget.FrameLayout:"
    first, second = f"{root}/0:android.widget.TextView:a:id/t", f"{root}/1:android.widget.TextView:"
    assert state.objects == {"0:hierarchy:", root, first, second}
    assert {(name, value) for thing, name, value in state.triples if thing == first} == {
        ("class", "android.widget.TextView"),
        ("text", "one"),
        ("package", gui_dumps.PACKAGE),
        ("bounds", "[0,0][10,10]"),
    }
    assert state.package == gui_dumps.PACKAGE and not state.is_busy


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (node(text="a"), node(text="a"), True),
        (node(text="a"), node(text="b"), False),
        (node(text="a") + node(text="b"), node(text="b") + node(text="a"), False),
        (node(checked="false"), node(checked="true"), False),
        (node() + node("android.widget.TextClock", text="9:59"), node() + node("android.widget.TextClock"), True),
        (node() + node(text="9:59", package="com.android.systemui"), node(), True),
        (node() + node("x.Bar", node(text="80 %"), package="com.android.systemui"), node(), True),
        (node(index="1"), node(index="2"), True),
        (node(text="a&b<c>\"'"), node(text="a&b<c>\"'"), True),
        (node("android.widget.ProgressBar"), node(), False),
    ],
)
def test_which_states_are_the_same(one: str, other: str, is_same: bool) -> None:
    assert (gui.parse(dump(one)).digest == gui.parse(dump(other)).digest) is is_same


def test_rules_say_what_belongs_to_the_state() -> None:
    whole = gui.Rules(packages=frozenset(), classes=frozenset(), busy=())
    clock = dump(node("android.widget.TextClock", text="9:59"), node("android.widget.ProgressBar"))
    assert len(gui.parse(clock, whole).objects) == 3 and not gui.parse(clock, whole).is_busy
    assert len(gui.parse(clock).objects) == 2 and gui.parse(clock).is_busy
    focus = gui.Rules(properties=frozenset({"focused"}))
    assert gui.parse(dump(node(focused="true")), focus) == gui.parse(dump(node(focused="false")), focus)


LAUGHS = '<!DOCTYPE h [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><hierarchy><node text="&b;" class="x"/></hierarchy>'
OUTSIDE = '<!DOCTYPE h [<!ENTITY a SYSTEM "file:///etc/passwd">]><hierarchy><node text="&a;"/></hierarchy>'


@pytest.mark.parametrize(
    "xml",
    [
        *(b"", b"\0", b"<", b"<hierarchy>", b"ERROR: could not get idle state.", b"<html></html>", dump(node())[:-5]),
        LAUGHS.encode(),
        OUTSIDE.encode(),
        b"<hierarchy>" + b"<node>" * (gui.MAX_DEPTH + 1) + b"</node>" * (gui.MAX_DEPTH + 1) + b"</hierarchy>",
        b"<hierarchy>" + b"<node/>" * (gui.MAX_OBJECTS + 1) + b"</hierarchy>",
        b" " * (gui.MAX_BYTES + 1),
        b'<hierarchy><node text="&#0;"/></hierarchy>',
    ],
)
def test_what_is_no_dump_is_none(xml: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        gui.parse(xml)


def test_snapshots_become_states() -> None:
    first, second = dump(node(text="a"), node()), dump(node(text="b"), node())
    shots = [Snapshot(30, 35, second), Snapshot(10, 15, first), Snapshot(20, 25, first), Snapshot(40, 45, b"<torn")]
    table, unreadable = gui.states(shots)
    assert unreadable == 1
    assert schema.conform(table, "gui_states").height == 3
    assert table["ts_ns"].to_list() == [10, 20, 30]
    assert table["changed_objects"].to_list() == [None, 0, 1]
    assert table["changed_properties"].to_list() == [None, 0, 2]
    assert table["state"].n_unique() == 2 and table["objects"].to_list() == [3, 3, 3]


# --- archives of dumps -----------------------------------------------------------------------------------------------

SHOTS = [Snapshot(10, 15, dump(node(text="a"))), Snapshot(20, 25, dump(node(text="b")))]


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    archive.write(SHOTS, tmp_path / "a.zip")
    archive.write(SHOTS, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert archive.read(tmp_path / "a.zip") == (SHOTS, ())
    assert perceived.gui_states(tmp_path / "a.zip")["ts_ns"].to_list() == [10, 20]
    assert archive.realtime_offset(tmp_path / "a.zip") is None
    archive.write(SHOTS, tmp_path / "c.zip", -(10**18))
    assert archive.realtime_offset(tmp_path / "c.zip") == -(10**18)
    assert archive.realtime_offset(tmp_path) is None


@pytest.mark.parametrize("kind", ["directory", "tar", "zip"])
def test_dumps_of_other_programs(kind: str, tmp_path: Path) -> None:
    files = {"window-10-15.xml": SHOTS[0].xml, "20-25.xml": SHOTS[1].xml, "notes.txt": b"x", "30.xml": SHOTS[0].xml}
    path = tmp_path / "dumps"
    if kind == "directory":
        path.mkdir()
        for name, data in files.items():
            (path / name).write_bytes(data)
        (path / "99.xml").symlink_to(path / "30.xml")
    elif kind == "tar":
        with tarfile.open(path, "w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(f"../../etc/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in files.items():
                packed.writestr(f"../../etc/{name}", data)
    assert archive.read(path) == ([*SHOTS, Snapshot(30, 30, SHOTS[0].xml)], ())


def test_a_damaged_archive_gives_what_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    archive.write(SHOTS, path)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF  # within the first file
    path.write_bytes(data)
    with pytest.warns(LossWarning, match="1 files in the archive are damaged"):
        assert perceived.gui_states(path)["ts_ns"].to_list() == [20]


def test_zeros_do_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("000000-1-2.xml", b"\0" * (gui.MAX_BYTES + 5))
        packed.writestr("000001-10-15.xml", SHOTS[0].xml)
    found, losses = archive.read(path)
    assert found == SHOTS[:1]
    assert [(loss.kind, loss.count) for loss in losses] == [("unread", 1)]


@pytest.mark.parametrize("contents", [None, b"", b"PK\3\4", b"hello"])
def test_what_holds_no_dump_is_refused(contents: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m"
    path.mkdir() if contents is None else path.write_bytes(contents)
    with pytest.raises(InputError) as refused:
        perceived.gui_states(path)
    assert str(refused.value).isprintable()


# --- steps and states in a capture -----------------------------------------------------------------------------------


STARTED = ("wait_duration_ns", "shown_duration_ns")


def some_steps(**columns: Any) -> pl.DataFrame:
    row = {"workload": "w", "repeat": 0, "number": 0, "what": "load", "label": "a; rm -rf /", "ts_ns": 5, "end_ns": 9}
    rows = [
        row | {"error_ns": 1, "outcome": "completed", "bytes": None, "detail": None} | dict.fromkeys(STARTED) | columns
    ]
    return pl.DataFrame(rows, schema=schema.table("steps").polars)


def test_steps_and_states_are_parts_of_a_capture(tmp_path: Path) -> None:
    tables.write(some_steps(), tmp_path / "steps.json", 7)
    archive.write(SHOTS, tmp_path / "gui.zip")
    made_ = capture.create([tmp_path / "steps.json", tmp_path / "gui.zip"], tmp_path / "capture")
    again = androstep.open(tmp_path / "capture")
    for one in (made_, again):
        assert one.steps.equals(some_steps())
        assert one.gui_states["ts_ns"].to_list() == [10, 20]
        assert one.about["steps"] == {"workloads": ["w"], "steps": 1, "completed": 1}
        assert one.about["gui"] == {"snapshots": 2, "states": 2}
        assert (one.first_ns, one.last_ns, one.facts["workload"], one.facts["clock"]) == (5, 25, "w", "boot")
        assert "1, 1 completed" in repr(one)
    with pytest.raises(InputError, match="a capture without results of a benchmark"):
        _ = again.bench


@pytest.mark.parametrize(
    "text",
    [
        '{"androstep_steps": 1}',
        '{"androstep_steps": 2, "steps": []}',
        '{"androstep_steps": 1, "clock": "mono", "realtime_offset_ns": null, "steps": []}',
        '{"androstep_steps": 1, "clock": "boot", "realtime_offset_ns": 1e400, "steps": []}',
        '{"androstep_steps": 1, "clock": "boot", "realtime_offset_ns": null, "steps": [{"what": "\x1b[2J"}]}',
        '{"androstep_steps": 1, "clock": "boot", "realtime_offset_ns": null, "steps": [1, 2]}',
        '{"androstep_steps": ' + "[" * 100_000,
    ],
)
def test_damaged_steps_are_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "steps.json").write_text(text)
    with pytest.raises(InputError, match=r"steps\.json") as refused:
        androstep.open(tmp_path / "steps.json")
    assert str(refused.value).isprintable()


# --- transitions -----------------------------------------------------------------------------------------------------

Shot = tuple[int, int, str, bool]


def oracle(
    shots: list[Shot], inputs: list[tuple[int, int]], settle: int, work: list[tuple[int, int]]
) -> list[tuple[str, int | None, int | None]]:
    """Outcome and bounds of the latency of each input, straight from the definition: every snapshot is tried."""
    found: list[tuple[str, int | None, int | None]] = []
    for number, (begin, end) in enumerate(inputs):
        following = inputs[number + 1][0] if number + 1 < len(inputs) else 1 << 62
        answer: tuple[str, int | None, int | None] = ("no_change", None, None)
        firsts = [
            place
            for place in range(1, len(shots))
            if shots[place][2] != shots[place - 1][2] and begin < entered(shots, place) <= following
        ]
        if firsts:
            answer = ("unstable", None, None)
        best: tuple[int, int] | None = None
        for place in range(len(shots)):
            if place and shots[place][2] == shots[place - 1][2]:
                continue
            last = place
            while last + 1 < len(shots) and shots[last + 1][2] == shots[place][2]:
                last += 1
            if any(shot[3] for shot in shots[place : last + 1]):
                continue
            bounds = [] if place == 0 else [(shots[place - 1][0], entered(shots, place))]
            lowest = -(1 << 62) if place == 0 else shots[place - 1][0]
            bounds += [(max(lowest, stop), max(entered(shots, place), stop)) for _, stop in work]
            for low, high in bounds:
                if not begin < high <= following:
                    continue
                low = max([low, *(stop for _, stop in work if stop <= high)])
                until = min(shots[last][0], following)
                # Nothing may be at work from then on until it has stayed for long enough.
                if any(start <= max(low, high - 1) < stop or start <= high < stop for start, stop in work):
                    continue
                until = min([until, *(start for start, stop in work if stop > start and start >= high)])
                if until - high >= settle and (best is None or high < best[1]):
                    best = (low, high)
        if best is not None:
            low, high = max(best[0], begin), best[1]
            answer = ("stable", max(low - end, 0), high - begin)
        found.append(answer)
    return found


def entered(shots: list[Shot], place: int) -> int:
    """Return the latest time at which the state of a view was first observed."""
    return shots[place][1]


def table_of(shots: list[Shot]) -> pl.DataFrame:
    return pl.DataFrame(
        shots, schema={"ts_ns": pl.Int64, "end_ns": pl.Int64, "state": pl.String, "busy": pl.Boolean}, orient="row"
    )


def inputs_of(inputs: list[tuple[int, int]]) -> pl.DataFrame:
    names = [f"input {number}" for number in range(len(inputs))]
    begins, ends = ([one[place] for one in inputs] for place in (0, 1))
    types = {"label": pl.String, "ts_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame({"label": names, "ts_ns": begins, "end_ns": ends}, schema=types)


def random_shots(choose: random.Random) -> list[Shot]:
    """Draw consecutive snapshots with few states; a state is busy or it is not."""
    shots, time = [], 0
    busy = {letter: choose.random() < 0.2 for letter in "abcd"}
    for _ in range(choose.randrange(1, 25)):
        begin = time + choose.randrange(0, 6)
        time = begin + choose.randrange(0, 4)
        state = choose.choice("abcd") if not shots or choose.random() < 0.5 else shots[-1][2]
        shots.append((begin, time, state, busy[state]))
        time += 1
    return shots


@pytest.mark.prove
def test_transitions_are_those_of_the_definition() -> None:
    for seed in range(100):
        choose = random.Random(seed)
        shots = random_shots(choose)
        times = sorted(choose.randrange(0, 120) for _ in range(choose.randrange(0, 5)))
        inputs = [(time, time + choose.randrange(0, 3)) for time in dict.fromkeys(times)]
        edges = sorted(choose.sample(range(130), 2 * choose.randrange(0, 4)))
        work = list(zip(edges[::2], edges[1::2], strict=True))
        settle = choose.randrange(0, 12)
        jobs = pl.DataFrame(work, schema={"start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row") if work else None
        views = perceived.seen(table_of(shots))
        ours = perceived.transitions(views, inputs_of(inputs), settle_ns=settle, work=jobs)
        rows = ours.select(pl.col("outcome").cast(pl.String), "latency_lo_ns", "latency_hi_ns").rows()
        assert rows == oracle(shots, inputs, settle, work), seed


@pytest.mark.prove
def test_the_true_latency_is_within_its_bounds() -> None:
    """A screen that is known at every time, watched by snapshots at times of their own."""
    stable = unstable = 0
    for seed in range(200):
        choose = random.Random(seed)
        changes = [0, *sorted(choose.sample(range(100, 900), choose.randrange(1, 6)))]  # the screen shows their number
        shots: list[Shot] = []
        time = -80
        while time < 2500:
            length = choose.randrange(1, 40)
            instant = choose.randrange(time, time + length + 1)
            shots.append((time, time + length, str(sum(change <= instant for change in changes)), False))
            time += length + choose.randrange(0, 60)
        tapped = choose.randrange(50, 100)
        begin, end = tapped - choose.randrange(0, 20), tapped + choose.randrange(0, 20)
        row = perceived.transitions(perceived.seen(table_of(shots)), inputs_of([(begin, end)]), settle_ns=900).row(
            0, named=True
        )
        if row["outcome"] != "stable":
            unstable += 1
            continue
        stable += 1
        assert row["latency_lo_ns"] <= changes[-1] - tapped <= row["latency_hi_ns"]
        assert row["state"] == str(len(changes)) and row["later_changes"] == 0
    assert stable > 150 and unstable < 50


@pytest.mark.parametrize(
    ("latency", "name"),
    [
        (0, "instant"),
        (S // 10, "instant"),
        (S // 10 + 1, "flow"),
        (S, "flow"),
        (S + 1, "attention"),
        (10 * S, "attention"),
        (10 * S + 1, "lost"),
    ],
)
def test_classes_are_nielsens(latency: int, name: str) -> None:
    shots = [(-5, -5, "a", False), (latency - 1, latency - 1, "a", False), (latency, latency, "b", False)]
    rows = table_of([*shots, (latency + 20 * S, latency + 20 * S, "b", False)])
    row = perceived.transitions(perceived.seen(rows), inputs_of([(0, 0)])).row(0, named=True)
    assert row["latency_hi_ns"] == latency or latency == 0
    if latency:
        assert row["class_hi"] == name


def test_a_page_that_goes_on_changing_is_told() -> None:
    rows = table_of(
        [(0, 0, "a", False), (5, 5, "b", False), (50, 50, "b", False), (60, 60, "c", False), (70, 70, "d", False)]
    )
    row = perceived.transitions(perceived.seen(rows), inputs_of([(1, 1)]), settle_ns=20).row(0, named=True)
    assert (row["outcome"], row["changes"], row["later_changes"], row["first_ns"]) == ("stable", 3, 2, 5)


def test_inputs_are_steps_widened_by_the_error_of_the_clock() -> None:
    parts = [
        some_steps(number=0, what="tap", ts_ns=10, end_ns=20),
        some_steps(number=1, what="wait", ts_ns=30, end_ns=40),
    ]
    rows = pl.concat([*parts, some_steps(number=2, what="load", ts_ns=50, end_ns=90)])
    assert perceived.inputs(rows).rows() == [("a; rm -rf /", 9, 21), ("a; rm -rf /", 49, 51)]
    assert perceived.windows(rows).rows() == [("a; rm -rf /", 50, 90)]


def test_nothing_gives_nothing() -> None:
    views = perceived.seen(schema.empty("gui_states"))
    nothing = perceived.transitions(views, inputs_of([]))
    assert nothing.is_empty()
    assert perceived.windows(nothing).is_empty()
    assert perceived.responses(nothing).is_empty() and perceived.classes(nothing).is_empty()
    assert perceived.transitions(views, inputs_of([(1, 2)]))["outcome"].to_list() == ["no_change"]
    with pytest.raises(ValueError, match="settle_ns is -1"):
        perceived.transitions(views, inputs_of([]), settle_ns=-1)


# --- frames ----------------------------------------------------------------------------------------------------------


def frame(ts: int, end: int | None, timeline: str, token: int, **more: Any) -> dict[str, Any]:
    return {"ts_ns": ts, "end_ns": end, "timeline": timeline, "token": token, **more}


def test_presented_frames_are_states() -> None:
    rows = made.table(
        "frames",
        [
            frame(10, 20, "actual_display", 100),
            frame(1, 8, "expected_surface", 1, display_token=100, pid=7),
            frame(1, 9, "actual_surface", 1, display_token=100, pid=7, present="on_time"),
            frame(2, 9, "actual_surface", 2, display_token=100, pid=8, present="late"),
            frame(30, 35, "actual_surface", 3, display_token=101, pid=7, present="on_time"),  # its display is not there
            frame(40, 45, "actual_surface", 4, display_token=102, pid=7, present="dropped"),
            frame(50, None, "actual_surface", 5, display_token=103, pid=7, present="on_time"),
        ],
    )
    views = perceived.presented(rows, until_ns=1000, pids=[7])
    assert views.select("from_lo_ns", "from_hi_ns", "until_ns").rows() == [(20, 20, 35), (35, 35, 1000)]
    row = perceived.transitions(views, inputs_of([(5, 5)]), settle_ns=100).row(0, named=True)
    assert (row["latency_lo_ns"], row["latency_hi_ns"], row["changes"]) == (30, 30, 2)
    assert perceived.presented(rows, until_ns=1000, pids=[99]).is_empty()


# --- spans -----------------------------------------------------------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)).map(lambda one: (one[0], sum(one))), max_size=12)


def arrays(rows: list[tuple[int, int]]) -> tuple[spans.Int64s, spans.Int64s]:
    return np.array([one for one, _ in rows], np.int64), np.array([other for _, other in rows], np.int64)


def instants(rows: list[tuple[int, int]]) -> set[int]:
    return {time for start, end in rows for time in range(start, end)}


@given(SPANS, SPANS, st.integers(1, 10))
def test_spans_are_sets_of_instants(rows: list[tuple[int, int]], windows: list[tuple[int, int]], gap: int) -> None:
    covered = spans.covered(*arrays(rows), *arrays(windows)).tolist()
    assert covered == [len(instants(rows) & instants([window])) for window in windows]
    starts, ends = spans.merged(*arrays(rows))
    some = [(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if end > start]
    assert instants(some) == instants(rows) and all(a[1] < b[0] for a, b in itertools.pairwise(some))
    weights = np.arange(1, len(rows) + 1, dtype=np.int64)
    touching = [
        sum(
            weight
            for weight, (start, end) in zip(weights.tolist(), rows, strict=True)
            if start < stop and max(end, start + 1) > begin and stop > begin
        )
        for begin, stop in windows
    ]
    assert spans.overlapping(*arrays(rows), weights, *arrays(windows)).tolist() == touching
    left = instants([tuple(pair) for pair in np.stack(spans.gaps(*arrays(rows), 5, 50), 1).tolist()])
    assert left == set(range(5, 50)) - instants(rows)
    apart = spans.merged(*arrays(rows), gap)
    assert all(
        later - before >= gap for before, later in zip(apart[1][:-1].tolist(), apart[0][1:].tolist(), strict=True)
    )


# --- I/O against waiting ---------------------------------------------------------------------------------------------


def random_io(choose: random.Random) -> list[dict[str, Any]]:
    rows = []
    for request in range(choose.randrange(1, 40)):
        begin = choose.randrange(0, 1000)
        op = choose.choice(["read", "write", "write", "discard"])
        for piece in range(choose.randrange(1, 3)):
            known = choose.random() < 0.8
            rows.append(
                {
                    "request_id": request,
                    "piece": piece,
                    "op": op,
                    "sync": None if op == "write" and request % 5 == 3 else op == "write" and request % 2 == 0,
                    "bytes": 4096 * choose.randrange(0, 3),
                    "queue_ns": begin if request % 7 else None,
                    "issue_ns": begin + 1,
                    "complete_ns": None if request % 11 == 5 else begin + 1 + request * 3,
                    "owner_via": "submitter" if known else "unknown",
                    "owner_count": 1 if known else 0,
                    "owner_comm": choose.choice(["app", "other"]),
                    "owner_package": choose.choice(["org.example", None]),
                }
            )
    return rows


@settings(max_examples=40)
@given(st.integers(0, 1 << 32))
def test_in_flight_is_what_every_instant_says(seed: int) -> None:
    choose = random.Random(seed)
    rows = random_io(choose)
    bounds = [(start, start + choose.randrange(0, 300)) for start in (choose.randrange(0, 900) for _ in range(5))]
    windows = pl.DataFrame([{"label": str(n), "start_ns": a, "end_ns": b} for n, (a, b) in enumerate(bounds)])
    ours = perceived.in_flight(made.table("io", rows), windows, apps=["org.example", "app"])
    told = {
        (row["window"], row["whose"], row["kind"], row["metric"]): (row["value"], row["n"], row["coverage"])
        for row in ours.iter_rows(named=True)
    }
    kinds = {"all": ("read", "write"), "read": ("read",), "write": ("write",), "sync_write": ("write",)}
    for number, (start, end) in enumerate(bounds):
        for kind, whose in itertools.product(kinds, ("any", "app")):
            possible = [
                row
                for row in rows
                if row["op"] in kinds[kind] and row["bytes"] and (kind != "sync_write" or row["sync"] is not False)
            ]
            of_kind = [row for row in possible if kind != "sync_write" or row["sync"]]
            times = {
                (row["request_id"], row["piece"]): (row["queue_ns"] or row["issue_ns"], row["complete_ns"])
                for row in possible
            }

            def within(row: dict[str, Any], start: int = start, end: int = end, times: Any = times) -> bool:
                begin, done = times[row["request_id"], row["piece"]]
                return begin < end and max(begin + 1, begin if done is None else done) > start and end > start

            timed = [row for row in of_kind if row["complete_ns"] is not None]
            known = [row for row in timed if row["owner_via"] != "unknown"]
            app = [row for row in known if (row["owner_package"] or row["owner_comm"]) in ("org.example", "app")]
            chosen, sure = (timed, timed) if whose == "any" else (app, known)
            busy = {
                time for row in chosen for time in range(*times[row["request_id"], row["piece"]]) if start <= time < end
            }
            every = sum(row["bytes"] for row in possible if within(row))
            coverage = sum(row["bytes"] for row in sure if within(row)) / every if every else None
            n = len({row["request_id"] for row in chosen if within(row)})
            key = (number, whose, kind)
            assert told[*key, "in_flight"] == (len(busy), n, coverage)
            ratio = len(busy) / (end - start) if end > start else None
            assert told[*key, "in_flight_ratio"] == (ratio, n, coverage)
            assert told[*key, "in_flight_bytes"][0] == sum(row["bytes"] for row in chosen if within(row))


def random_requests(choose: random.Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(choose.randrange(0, 60)):
        begin = choose.randrange(0, 20) * 50 + choose.randrange(0, 20)
        row = {"request_id": number, "op": choose.choice(["read", "write"]), "nr_sectors": choose.randrange(0, 9)}
        rows.append(row | {"queue_ns": begin, "issue_ns": begin, "complete_ns": begin + choose.randrange(0, 30)})
    return rows


@settings(max_examples=40)
@given(st.integers(0, 1 << 32))
def test_rates_and_bursts_against_windows(seed: int) -> None:
    choose = random.Random(seed)
    rows = random_requests(choose)
    bounds = [(start, start + choose.randrange(0, 200)) for start in (choose.randrange(0, 900) for _ in range(4))]
    windows = pl.DataFrame([{"label": "", "start_ns": a, "end_ns": b} for a, b in bounds])
    requests = made.table("requests", rows)
    waited = instants(bounds) & set(range(100, 1000))
    rates = perceived.rates(requests, windows, start_ns=100, end_ns=1000)
    counted = [row for row in rows if row["nr_sectors"] and 100 <= row["complete_ns"] < 1000]
    for row in rates.iter_rows(named=True):
        of = [one for one in counted if one["op"] == row["op"] and (one["complete_ns"] in waited) is row["waiting"]]
        seconds = (len(waited) if row["waiting"] else 900 - len(waited)) / 1e9
        moved = sum(one["nr_sectors"] for one in of) * 512
        expected = {"count": len(of), "bytes": moved}
        expected |= {"iops": len(of) / seconds, "bandwidth": moved / seconds} if seconds else {}
        assert (
            row["value"] == pytest.approx(expected[row["metric"]])
            if row["metric"] in expected
            else row["value"] is None
        )
    assert rates.filter(metric="count")["value"].sum() == len(counted)
    # Bursts: instants less than 20 apart from the next, grown from each request.
    groups: list[list[dict[str, Any]]] = []
    for one in sorted((row for row in rows if row["nr_sectors"]), key=lambda row: row["queue_ns"]):
        if groups and one["queue_ns"] - max(other["complete_ns"] for other in groups[-1]) < 20:
            groups[-1].append(one)
        else:
            groups.append([one])
    bursts = perceived.bursts(requests, windows, idle_ns=20, least=3)
    expected_bursts = [
        (min(one["queue_ns"] for one in group), max(one["complete_ns"] for one in group), len(group))
        for group in groups
        if len(group) >= 3
    ]
    assert bursts.select("start_ns", "end_ns", "requests").rows() == expected_bursts
    for row in bursts.iter_rows(named=True):
        assert row["reads"] + row["writes"] == row["requests"]
        assert row["waited_ns"] == len(instants([(row["start_ns"], row["end_ns"])]) & instants(bounds))
    told = perceived.alignment(bursts, windows, start_ns=100, end_ns=1000)
    assert dict(told.select("metric", "value").rows())["waited_ratio"] == pytest.approx(len(waited) / 900)


def test_windows_that_end_before_they_begin_are_refused() -> None:
    windows = pl.DataFrame({"label": [""], "start_ns": [5], "end_ns": [4]})
    with pytest.raises(ValueError, match="ends before it begins"):
        perceived.in_flight(schema.empty("io"), windows)
    with pytest.raises(ValueError, match="has no length"):
        perceived.rates(schema.empty("requests"), windows, start_ns=1, end_ns=1)
    with pytest.raises(ValueError, match="at least 1"):
        perceived.bursts(schema.empty("requests"), windows, idle_ns=0)


# --- responses and figures -------------------------------------------------------------------------------------------


def some_transitions() -> pl.DataFrame:
    """Return Luo's four configurations of one app, three runs each, observed by snapshots 0.2 s apart."""
    parts = []
    for config, base in (("stock", 1.9), ("no sync", 1.8), ("no journal", 0.05)):
        for run in range(3):
            end = int((base + 0.1 * run) * S)
            rows = table_of([(-S, -S, "a", False), (end - S // 5, end - S // 5, "a", False), (end, end, "b", False)])
            seen = perceived.seen(pl.concat([rows, table_of([(end + S, end + S, "b", False)])]))
            one = perceived.transitions(seen, inputs_of([(0, 0)]))
            parts.append(one.with_columns(config=pl.lit(config), label=pl.lit("Web")))
    return pl.concat(parts)


def test_responses_are_means_with_intervals() -> None:
    table = perceived.responses(some_transitions(), by=["label", "config"])
    row = table.filter(config="stock").row(0, named=True)
    assert row["n"] == 3 and row["value"] == pytest.approx(1.9 * S) and row["coverage"] == 1
    # Student's t for two degrees of freedom is 4.303; half of what a snapshot leaves open is 0.1 s.
    assert row["hi"] - row["value"] == pytest.approx(4.3027 * 0.1 * S / 3**0.5 + 0.1 * S, rel=1e-4)
    one = perceived.responses(some_transitions().head(1))
    assert one.select("lo", "hi").row(0) == (None, None)
    counts = perceived.classes(some_transitions(), by=["config"]).filter(metric="count")
    assert {(row["config"], row["class"]): row["value"] for row in counts.iter_rows(named=True)} == {
        ("stock", "attention"): 3,
        ("no sync", "attention"): 3,
        ("no journal", None): 2,
        ("no journal", "instant"): 1,
    }


def texts(ax: matplotlib.axes.Axes) -> set[str]:
    return {text.get_text() for text in (*ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts)}


def heights(ax: matplotlib.axes.Axes) -> list[float]:
    """Return the heights of the bars in order, without those of the legend, which have no width."""
    return sorted(round(bar.get_height(), 3) for bar in ax.patches if bar.get_width())


def test_figures_show_what_the_tables_say() -> None:
    ax = plot.perceived_responses(perceived.responses(some_transitions(), by=["label", "config"]), series="config")
    assert heights(ax) == [0.083, 1.8, 1.9]
    assert {"Web", "flow", "instant"} <= texts(ax)
    windows = pl.DataFrame({"label": ["$a$", "b"], "start_ns": [0, 500], "end_ns": [100, 600]})
    pieces = [{"request_id": 0, "op": "write", "sync": True, "queue_ns": 50, "complete_ns": 525}]
    table = perceived.in_flight(made.table("io", pieces), windows)
    ax = plot.perceived_in_flight(table)
    assert heights(ax) == [0, 0, 25, 25, 50, 50]
    views = perceived.seen(
        table_of([(0, 0, "a", False), (40, 40, "b", False), (60, 60, "c", False), (900, 900, "c", False)])
    )
    wait = perceived.transitions(views, inputs_of([(10, 12)]), settle_ns=100).row(0, named=True)
    spans_ = perceived.breakdown(views, wait, io=made.table("io", pieces))
    assert spans_.rows() == [
        ("GUI changes", 40, 60),
        ("GUI stable", 60, 65),
        ("any I/O", 50, 65),
        ("input", 10, 12),
        ("waiting", 10, 60),
    ]
    assert {"waiting", "GUI changes", "GUI stable", "any I/O", "input"} <= texts(plot.perceived_breakdown(spans_))
    for empty in (
        plot.perceived_responses(table.clear().with_columns(metric=pl.lit("response"))),
        plot.perceived_breakdown(spans_.clear()),
    ):
        assert "no data" in texts(empty)
    with pytest.raises(ValueError, match="not followed by a stable state"):
        perceived.breakdown(views, wait | {"stable_hi_ns": None})


def test_requests_after_a_wait_began_are_marks_in_its_row() -> None:
    facts = {"owner_via": "submitter", "owner_count": 1, "owner_comm": "app"}
    pieces = [
        {"request_id": 0, "issue_ns": 5, "complete_ns": 9, **facts},
        {"request_id": 0, "piece": 1, "issue_ns": 5, "complete_ns": 9, **facts},
        {"request_id": 1, "issue_ns": 40, "complete_ns": 41, **facts},
        {"request_id": 2, "issue_ns": 41, "complete_ns": None, **facts},
        {"request_id": 3, "issue_ns": 42, "complete_ns": 44, **facts, "owner_comm": "other"},
        {"request_id": 4, "issue_ns": 43, "complete_ns": 44, **facts, "owner_via": "inferred"},
        {"request_id": 5, "issue_ns": 101, "complete_ns": 110, **facts},
    ]
    windows = pl.DataFrame({"label": ["$a$", "b"], "start_ns": [0, 30], "end_ns": [20, 35]})
    io = made.table("io", pieces)
    table = perceived.requests(io, windows, until_ns=50, apps=["app"])
    assert table.rows() == [
        (0, "$a$", 20, 5, 4, True),
        (0, "$a$", 20, 40, 1, False),
        (1, "b", 5, 10, 1, False),
    ]
    assert perceived.requests(io, windows, until_ns=50).group_by("window").len().sort("window")["len"].to_list() == [
        4,
        3,
    ]
    ax = plot.perceived_requests(table, windows=windows)
    assert {"$a$", "b"} <= texts(ax)
    assert [patch.get_width() for patch in ax.patches] == [20, 5]
    assert list(zip(*ax.lines[0].get_data(), strict=True)) == [(5, 0), (40, 0), (10, 1)]
    many = pl.concat([windows] * 300)
    ax = plot.perceived_requests(perceived.requests(io, many, until_ns=50), windows=many)
    assert len(ax.patches) == 600 and "$a$" not in texts(ax)
    assert ax.figure.get_size_inches()[1] < 8


def test_waits_are_shaded_behind_rates() -> None:
    from androstep_analysis.measures import rate

    requests = [{"queue_ns": t * S, "issue_ns": t * S, "complete_ns": t * S} for t in range(10)]
    windows = pl.DataFrame({"start_ns": [2 * S, 5 * S], "end_ns": [3 * S, 7 * S]})
    ax = plot.rate(rate(made.table("requests", requests)), windows=windows)
    shaded = sorted((round(patch.get_x(), 3), round(patch.get_width(), 3)) for patch in ax.patches)
    assert shaded == [(2, 1), (5, 2)]
