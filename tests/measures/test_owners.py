"""State and user of the owners of I/O, compared with plain Python that examines every row."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import made
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep
from androstep_analysis import cli, compare, measures
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.compare.measures import measured
from androstep_analysis.measures.recording import Recording

UPDATE, BIRTH, READING = "oom_score_adj_update", "task_newtask", "reading"
PIDS = st.integers(1, 3)
SCORES = st.sampled_from([-1000, -800, -1, 0, 100, 200, 224, 225, 250, 700, 900, 1000])
TOLD = st.lists(st.tuples(st.integers(0, 30), st.sampled_from([UPDATE, BIRTH, READING]), PIDS, SCORES), max_size=8)
PIECES = st.lists(st.tuples(st.none() | PIDS, *[st.none() | st.integers(0, 30)] * 3), min_size=1, max_size=12)
LOST = st.lists(st.tuples(st.none() | st.integers(0, 30), st.none() | st.integers(0, 30)), max_size=1)

Told = list[tuple[int, str, int, int]]


def importance(scores: Told) -> pl.DataFrame:
    rows = [{"ts_ns": at, "event": event, "task": pid, "oom_score_adj": score} for at, event, pid, score in scores]
    return made.table("importance", rows).sort("ts_ns", maintain_order=True)


def state(score: int) -> str:
    return "system" if score < 0 else "foreground" if score < 225 else "background"


def expected(scores: Told, pid: int | None, at: int | None, lost: list[tuple[int | None, int | None]]) -> str | None:
    """Return the last recorded state of the process, unless events may be lost since then."""
    android = any(score == -800 for _, _, _, score in scores)
    before = [
        row for row in sorted(scores, key=lambda row: row[0]) if row[2] == pid and at is not None and row[0] <= at
    ]
    if not before:
        return None
    since, event, _, score = before[-1]
    for first, last in lost:
        if (last is None or since <= last) and (first is None or at is None or at >= first):
            return None
    creations = [n for n, row in enumerate(before) if row[1] == BIRTH]
    life = before[creations[-1] if creations else 0 :]
    was_set = any(event == UPDATE or (event == READING and score != 0) for _, event, _, score in life)
    if event == BIRTH or not (was_set or (android and event == READING)):
        return None
    return state(score)


@given(TOLD, PIECES, LOST)
def test_every_piece_has_the_last_state_told_of_its_owner(
    scores: Told, pieces: list[tuple[int | None, ...]], lost: list[tuple[int | None, int | None]]
) -> None:
    lost = [(first, last) for first, last in lost if first is None or last is None or first <= last]
    names = ("owner_pid", "queue_ns", "issue_ns", "complete_ns")
    own = {"owner_via": "submitter"}
    io = made.table(
        "io", [dict(zip(names, row, strict=True)) | own | {"request_id": n} for n, row in enumerate(pieces)]
    )
    found = measures.with_state(io, importance(scores), lost=lost).collect()
    assert found.drop("state").equals(io)
    times = [next((one for one in row[1:] if one is not None), None) for row in pieces]
    assert found["state"].to_list() == [
        expected(scores, row[0], at, lost) for row, at in zip(pieces, times, strict=True)
    ]


class Life(NamedTuple):
    """A process: its pid, name, begin and end, and the states that were set, with their times."""

    pid: int
    comm: str
    begin: int
    end: int
    scores: list[tuple[int, int]]

    def state_at(self, at: int) -> str | None:
        before = [score for since, score in self.scores if since <= at]
        return state(before[-1]) if before else None


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    """Return processes that had one of two pids one after another. The first ones are from before the recording."""
    found = []
    for pid in (1, 2):
        ends = sorted(draw(st.sets(st.integers(1, 60), max_size=4)))
        for begin, end in itertools.pairwise([-100, *ends, 100]):
            at = draw(st.lists(st.integers(max(begin, 0) + 1, end), unique=True, max_size=2))
            scores = [(one, draw(SCORES)) for one in sorted(at) if one < end]
            found.append(Life(pid, draw(st.sampled_from("abcd")), begin, end, scores))
    return found


def recorded(processes: list[Life], has_creations: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tables importance and tasks of these processes."""
    scores = []
    for life in processes:
        named = {"task": life.pid, "task_comm": life.comm}
        if has_creations and life.begin >= 0:
            scores.append({"ts_ns": life.begin, "event": BIRTH, "oom_score_adj": 900, **named, "task_comm": "zygote"})
        scores += [{"ts_ns": at, "event": UPDATE, "oom_score_adj": score, **named} for at, score in life.scores]
    runs = []
    for pid, of_pid in itertools.groupby(processes, lambda life: life.pid):
        for comm, group in itertools.groupby(of_pid, lambda life: None if has_creations else life.comm):
            same = list(group)
            names = [(life.comm, life) for life in same] if has_creations else [(comm, same[0])]
            runs += [(pid, name, life.begin) for name, life in names]
    tasks = [
        {"tid": pid, "comm": comm, "kind": "other", "valid_from_ns": None if begin < 0 else begin}
        | {"valid_to_ns": following[2] if following and following[0] == pid else None}
        for (pid, comm, begin), following in itertools.zip_longest(runs, runs[1:])
    ]
    return made.table("importance", scores).sort("ts_ns", maintain_order=True), made.table("tasks", tasks)


@given(
    lives(), st.booleans(), st.lists(st.tuples(st.integers(0, 9), *[st.integers(0, 90)] * 2), min_size=1, max_size=9)
)
def test_a_process_has_no_state_of_another_one_that_had_its_pid(
    processes: list[Life], has_creations: bool, pieces: list[tuple[int, int, int]]
) -> None:
    """Data is often written back when its process has ended, and another one has its pid."""
    rows, truth = [], []
    for number, at, later in pieces:
        life = processes[number % len(processes)]
        at = min(max(at, life.begin, 0), life.end - 1)
        for via, queued in (("submitter", at), ("write_begin", at + later)):
            rows.append({"owner_pid": life.pid, "owner_comm": life.comm, "owner_via": via, "queue_ns": queued})
            truth.append((life, via, queued))
    importance, tasks = recorded(processes, has_creations)
    found = measures.with_state(made.table("io", rows), importance, tasks).collect()["state"].to_list()
    for (life, via, queued), one in zip(truth, found, strict=True):
        same = [other for other in processes if (other.pid, other.comm) == (life.pid, life.comm)]
        is_clear = has_creations and (via == "submitter" or len(same) == 1)
        allowed = {life.state_at(queued)} | (set() if is_clear else {None})
        is_hidden = not has_creations and len(same) > 1  # nothing shows that the pid was reused
        assert is_hidden or one in allowed


@given(
    lives(), st.booleans(), st.booleans(), st.lists(st.tuples(st.integers(0, 9), *[st.integers(0, 90)] * 2), min_size=1)
)
def test_a_process_has_no_user_of_another_one_that_had_its_pid(
    processes: list[Life], has_creations: bool, is_listed_later: bool, pieces: list[tuple[int, int, int]]
) -> None:
    """Listings at the begin or at the end of the recording list the processes of that time, with their starts."""
    importance, tasks = recorded(processes, has_creations)
    users = {life: 1000 + n for n, life in enumerate(map(tuple_of, processes))}
    listed = [life for life in processes if (life.end == 100 if is_listed_later else life.begin < 0)]
    listing = made.table(
        "tasks",
        [
            {"pid": life.pid, "tid": life.pid, "comm": life.comm, "uid": users[tuple_of(life)], "kind": "app"}
            | {"valid_from_ns": life.begin * TICK_NS}
            for life in listed
        ],
    )
    times = ("valid_from_ns", "valid_to_ns")
    table = pl.concat([tasks.with_columns(pl.col(name) * TICK_NS for name in times), listing])
    importance = importance.with_columns(pl.col("ts_ns") * TICK_NS)
    rows, truth = [], []
    for number, at, later in pieces:
        life = processes[number % len(processes)]
        at = min(max(at, life.begin, 0), life.end - 1)
        for via, queued in (("submitter", at), ("write_begin", at + later)):
            rows.append(
                {"owner_pid": life.pid, "owner_comm": life.comm, "owner_via": via, "queue_ns": queued * TICK_NS}
            )
            truth.append((life, via))
    found = measures.with_uid(made.table("io", rows), table, importance).collect()["uid"].to_list()
    for (life, via), uid in zip(truth, found, strict=True):
        same = [other for other in processes if (other.pid, other.comm) == (life.pid, life.comm)]
        if not has_creations and len(same) > 1:
            continue  # nothing shows that the pid was reused
        assert uid in {users[tuple_of(life)], None}
        is_clear = has_creations and (via == "submitter" or len(same) == 1)
        assert (uid is not None) == (life in listed) or not is_clear


TICK_NS = 20_000_000
"""Longer than the 10 ms by which a listing may date a start too early."""


def tuple_of(life: Life) -> tuple[int, str, int]:
    return life.pid, life.comm, life.begin


@given(
    st.lists(
        st.tuples(PIDS, st.sampled_from("ab"), st.none() | st.integers(0, 9), st.none() | st.integers(0, 3)),
        max_size=8,
        unique_by=lambda row: row[0],
    ),
    st.lists(st.tuples(st.none() | PIDS, st.none() | st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=8),
)
def test_a_user_is_that_of_the_number_and_name(tasks: list[Any], pieces: list[Any]) -> None:
    table = made.table(
        "tasks",
        [
            {"pid": pid, "tid": pid, "comm": comm, "uid": uid, "valid_from_ns": since, "kind": "other"}
            for pid, comm, since, uid in tasks
        ],
    )
    io = made.table("io", [dict(zip(("owner_pid", "owner_comm", "queue_ns"), row, strict=True)) for row in pieces])
    users = []
    for pid, comm, at in pieces:
        rows = [(-1 if since is None else since, uid) for p, c, since, uid in tasks if (p, c) == (pid, comm)]
        before = [row for row in sorted(rows, key=lambda row: row[0]) if row[1] is not None and row[0] <= at]
        users.append(before[-1][1] if before else None)
    assert measures.with_uid(io, table).collect()["uid"].to_list() == users


def test_a_zero_that_was_read_is_a_choice_only_of_android_or_after_another() -> None:
    """The kernel gives it to all."""

    def scores(*rows: tuple[int, str, int, int]) -> list[str | None]:
        return measures.states(importance(list(rows))).filter(pid=1)["state"].to_list()

    assert scores((0, READING, 1, 0)) == []
    assert scores((0, READING, 1, 0), (1, READING, 2, -800)) == ["foreground"]
    assert scores((0, READING, 1, 0), (1, UPDATE, 1, 900), (2, READING, 1, 0)) == [None, "background", "foreground"]
    assert scores((0, UPDATE, 1, 900), (1, BIRTH, 1, 0), (2, READING, 1, 0)) == ["background", None, None]


def recording(scores: Told, lost: Losses | None = None, **more: Any) -> Recording:
    io = made.table(
        "io",
        [
            {"request_id": n, "op": "write", "owner_pid": 1 + n % 2, "queue_ns": 2 * n, "issue_ns": 2 * n + 1}
            | {"complete_ns": 2 * n + 2, "nr_sectors": 8, "bytes": 4096, "owner_via": "submitter", "owner_comm": "a"}
            for n in range(10)
        ],
    )
    tables = {"io": io.lazy(), "importance": importance(scores).lazy(), **more}
    facts = dict.fromkeys(androstep.schema.table("captures").polars) | {"t_start_ns": 0, "t_end_ns": 22}
    return Recording("made", facts, tables, losses=lost or Losses())


def by_state(one: Recording, name: str, window_ns: int | None = None) -> pl.DataFrame:
    return measured(one, compare.measures()[name], window_ns, ("state",)).table


def test_every_measure_of_io_tells_states_apart_and_adds_up() -> None:
    scores = [(0, UPDATE, 1, 0), (9, UPDATE, 1, 900), (4, UPDATE, 2, -900)]
    rows = by_state(recording(scores), "volume").filter(metric="count").select("state", "value").rows()
    assert set(rows) == {("foreground", 3), ("background", 2), ("system", 4), (None, 1)}
    assert set(by_state(recording(scores), "daily").filter(metric="count").select("state", "value").rows()) == set(rows)
    bursts = by_state(recording(scores), "bursts").filter(metric="requests")
    sums = Counter[Any]()
    for name, value in bursts.select("state", "value").rows():
        sums[name] += value
    assert sums == dict(rows)
    windows = by_state(recording(scores), "volume", 11).filter(metric="count").select("repeat", "state", "value").rows()
    assert (0, "foreground", 3) in windows and (1, "background", 2) in windows


def test_where_events_may_be_lost_the_state_is_unknown_until_the_next() -> None:
    scores = [(0, UPDATE, 1, 0), (14, UPDATE, 1, 0), (0, UPDATE, 2, 0)]
    lost = Losses([Loss("overwritten", 1, "x", spans=((6, 8),))])
    rows = by_state(recording(scores, lost), "volume").filter(metric="count").select("state", "value").rows()
    assert set(rows) == {("foreground", 2 + 1 + 1), (None, 6)}  # of 1 at 0, 4 and 16, of 2 at 2


def test_a_capture_that_tells_of_none_says_what_would() -> None:
    with pytest.raises(
        InputError,
        match=r"cannot tell which app was in the foreground; .*oom_score_adj_update",
    ):
        by_state(recording([(0, BIRTH, 1, 0)]), "volume")
    with pytest.raises(InputError, match="cannot resolve the users of processes"):
        measured(recording([]), compare.measures()["volume"], None, ("uid",))


PROGRAM = """
import os, sys, time
def score(value):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(value))
def work(name, number):
    with open(f"{sys.argv[1]}/{name}", "wb", buffering=0) as file:
        for _ in range(number):
            file.write(os.urandom(8192))
            os.fsync(file)
work("before", 3)
score(0)
work("seen", 5)
score(900)
work("unseen", 7)
score(200)
work("heard", 4)
open(f"{sys.argv[1]}/go", "w").close()
while not os.path.islink(f"{sys.argv[1]}/done"):
    time.sleep(0.01)
stat = f"/proc/{os.readlink(f'{sys.argv[1]}/done')}/stat"
while ") Z " not in open(stat).read():
    time.sleep(0.01)
"""

EARLIER = (
    PROGRAM.partition('work("before')[0]
    + """
score(700)
print(flush=True)
while not os.path.exists(f"{sys.argv[1]}/go"):
    time.sleep(0.01)
work("earlier", 6)
os.symlink(str(os.getpid()), f"{sys.argv[1]}/done")
"""
)
"""It is in the background before the recording begins, which reads that of it. When it ends, this is a zombie."""


@pytest.mark.root
@pytest.mark.prove
def test_a_program_that_goes_to_the_background(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It synced a file of its own in each state, so that what is written to it is of that state."""
    needs_probe("iotrace")
    make_ext4(tmp_path / "image", ["-b", "4096"], 256)
    with mounted(tmp_path / "image") as disk:
        record = ["record", "--on", "local", "-o", str(tmp_path / "capture"), "--device", disk.device]
        workload = [sys.executable, "-c", PROGRAM, str(disk.top)]
        command = [sys.executable, "-m", "androstep_analysis", *record, "--", *workload]
        earlier = [sys.executable, "-c", EARLIER, str(disk.top)]
        with subprocess.Popen(earlier, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            subprocess.run(command, check=True, capture_output=True)
    capture = androstep.open(tmp_path / "capture")
    rows = measures.with_state(capture.io, capture.importance)
    table = measures.volume(rows, by=("path", "state")).filter(metric="count", op="write").drop_nulls("path")
    files = {"/before": None, "/seen": "foreground", "/unseen": "background", "/heard": "foreground"}
    files["/earlier"] = "background"
    counts = {
        path: (state, value) for path, state, value in table.select("path", "state", "value").rows() if path in files
    }
    assert counts == {path: (state, n) for (path, state), n in zip(files.items(), (3, 5, 7, 4, 6), strict=True)}
    assert cli.main(["measure", str(tmp_path / "capture"), "daily", "--by", "state,uid"]) == 0
    assert "background" in capsys.readouterr().out
