"""What a user waited for: of a capture worked out by hand, by each way to tell when a wait ended."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from support import made, waiting
from support.tree import ROOT
from support.waiting import MS

from androstep_analysis import cli, perceived, schema
from androstep_analysis.perceived import tables as steps_file
from androstep_analysis.present import terminal, waits
from androstep_analysis.present.summary import summary


def of(**about: Any) -> waits.Waits:
    found = waits.of(waiting.capture(**about))
    assert found is not None
    return found


def test_waits_are_those_worked_out_by_hand() -> None:
    found = of()
    assert (found.watched, found.apps) == ("snapshots", (waiting.APP,))
    assert found.counts() == {"stable": 2, "unstable": 0, "no_change": 1}
    rows = {row["label"]: row for row in found.actions().iter_rows(named=True)}
    assert list(rows) == ["Go", "Dialog", "Nothing"], "the slowest first, what never ended last"
    for label, (least, greatest) in waiting.LATENCIES.items():
        assert rows[label]["value"] == (least + greatest) / 2
    of_classes = {label: tuple(row[name] for name in (*waits.CLASSES, "unsure")) for label, row in rows.items()}
    assert of_classes == {"Go": (0, 1, 0, 0, 0), "Dialog": (0, 0, 0, 0, 1), "Nothing": (0, 0, 0, 0, 0)}
    assert [(row["inputs"], row["n"]) for row in rows.values()] == [(1, 1), (1, 1), (1, 0)]


def test_the_longest_waits_come_first_with_their_io() -> None:
    longest = of().longest(10)
    assert longest["label"].to_list() == ["Go", "Dialog"]
    for row in longest.iter_rows(named=True):
        assert (row["latency_lo_ns"], row["latency_hi_ns"]) == waiting.LATENCIES[row["label"]]
        assert (row["any"], row["app"]) == pytest.approx(waiting.IN_FLIGHT[row["label"]])
    assert longest["coverage"].to_list() == [1, None], "of no bytes nothing is known"
    assert of().longest(1)["label"].to_list() == ["Go"]


def test_the_numbers_are_the_librarys() -> None:
    capture = waiting.capture()
    transitions = perceived.transitions(perceived.seen(capture.gui_states), perceived.inputs(capture.steps))
    found = of()
    assert found.found.equals(transitions)
    windows = perceived.windows(transitions)
    assert found.windows.equals(windows)
    assert found.in_flight.equals(perceived.in_flight(capture.io, windows, apps=[waiting.APP]))
    told = summary(capture)["waits"]
    answered = perceived.responses(transitions)
    assert [row.get("value") for row in told["responses"]] == answered["value"].to_list()
    assert [row["n"] for row in told["classes"]] == perceived.classes(transitions, by=("label",))["n"].to_list()
    assert (told["inputs"], told["stable"], told["no_change"], told["apps"]) == (3, 2, 1, [waiting.APP])
    whole = {(row["label"], row["whose"]): row["value"] for row in told["in_flight"] if row["kind"] == "all"}
    for label, shares in waiting.IN_FLIGHT.items():
        assert (whole[label, "any"], whole[label, "app"]) == pytest.approx(shares)


def test_a_terminal_shows_them() -> None:
    text = terminal.tables(waiting.capture(("Go\x1b[31m", "Dialog", "Nothing")))
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["Go\\x1b[31m", *["1", "1", "640", "ms", "–", "–", "0", "1", "0", "0"]] in rows
    assert ["Go\\x1b[31m", *["390", "ms", "890", "ms", "56.2", "%", "33.7", "%", "100.0", "%"]] in rows
    assert ["Dialog", *["0", "ns", "140", "ms", "0.0", "%", "0.0", "%", "–"]] in rows


def test_without_requests_nothing_is_said_of_storage() -> None:
    found = of(has_requests=False)
    assert found.in_flight.is_empty()
    assert found.longest(10).columns == ["window", "label", "latency_lo_ns", "latency_hi_ns"]
    assert summary(waiting.capture(has_requests=False))["waits"]["in_flight"] == []


def test_a_capture_without_steps_tells_of_no_wait() -> None:
    assert waits.of(made.capture([{"sector": 0, "issue_ns": 1}])) is None
    pause = {"workload": "w", "repeat": 0, "number": 0, "what": "pause", "label": "", "ts_ns": 1, "end_ns": 2}
    steps = made.table("steps", [pause | {"error_ns": 0, "outcome": "completed"}])
    told = {"workloads": ["w"], "steps": 1, "completed": 1}
    empty = {name: schema.empty(name) for name in ("requests", "io", "frames")}
    assert waits.of(made.of_tables(empty | {"steps": steps}, steps=told)) is None
    assert summary(made.capture())["waits"] is None


def test_frames_tell_where_there_are_no_snapshots() -> None:
    frames = [
        {"ts_ns": at * MS, "end_ns": (at + 5) * MS, "timeline": "actual_surface", "token": at, "present": "on_time"}
        for at in (100, 700, 720)
    ]
    capture = waiting.capture()
    tables = {name: table.collect() for name, table in capture.tables.items() if name != "gui_states"}
    tables["frames"] = made.table("frames", frames)
    found = waits.of(made.of_tables(tables, steps=capture.about["steps"], first_ns=0, last_ns=30_000 * MS))
    assert found is not None and (found.watched, found.apps) == ("frames", ())
    # The last frame of the first tap is presented at 725 ms; it was tapped between 500 and 510.
    assert found.found.filter(outcome="stable").select("label", "latency_lo_ns", "latency_hi_ns").rows() == [
        ("Go", 215 * MS, 225 * MS)
    ]
    assert set(found.in_flight["whose"]) == {"any"}


# --- pages -----------------------------------------------------------------------------------------------------------


def test_a_load_is_a_wait_where_nothing_watched_the_screen() -> None:
    steps = pl.read_parquet(ROOT / "datasets/apps/luo_paused/steps.parquet")
    found = perceived.loads(steps)
    rows = sorted((row["ts_ns"], row["label"], row["end_ns"] - row["ts_ns"]) for row in steps.iter_rows(named=True))
    assert found.height == 10
    assert found.select("ts_ns", "label", "latency_lo_ns").rows() == rows
    assert found["latency_hi_ns"].to_list() == [took for _, _, took in rows]
    assert set(found["outcome"]) == {"stable"}
    assert perceived.windows(found).equals(perceived.windows(steps))
    nothing = perceived.transitions(perceived.seen(schema.empty("gui_states")), perceived.inputs(steps.clear()))
    assert found.schema == nothing.schema, "a table of transitions"


def test_a_page_that_was_not_loaded_has_no_latency(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    common = {"workload": "w", "repeat": 0, "what": "load", "error_ns": 5, "ts_ns": 10}
    rows = [
        common | {"number": number, "label": outcome, "outcome": outcome, "end_ns": 10 + 10**9 + number}
        for number, outcome in enumerate(("completed", "timeout", "failed"))
    ]
    path = tmp_path_factory.mktemp("pages") / "steps.json"
    steps_file.write(made.table("steps", rows), path)
    assert cli.main(["summary", "--json", str(path)]) == 0
    told = json.loads(capsys.readouterr().out)["waits"]
    assert (told["watched"], told["inputs"], told["stable"], told["unstable"]) == ("loads", 3, 1, 2)
    assert {row["label"]: row.get("value") for row in told["responses"]} == (
        {"completed": 1e9, "timeout": None, "failed": None}
    )
    assert [(row["label"], row["class"], row["n"]) for row in told["classes"]] == [("completed", "flow", 1)] * 2
    assert told["in_flight"] == []
