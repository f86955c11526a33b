"""A recording in several files states the same as in one file, and never more than each file states for its part."""

from __future__ import annotations

import gzip
import random
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import corpus

from androstep_analysis import capture
from androstep_analysis.capture import sources
from androstep_analysis.common import manifest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.ingest import staging, tasks
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.owner.processes import Processes
from androstep_analysis.present import terminal

WHOLE = Staging(
    format="ftrace_text",
    events={},
    first_ns=0,
    last_ns=1000,
    clock="boot",
    realtime_offset_ns=5,
    realtime_moved_ns=-7,
    recorded=frozenset({"a", "b"}),
    untraced=frozenset({1, 2}),
    facts={"kernel": "6.1", "page_bytes": 4096},
)

# --- what a file states for its part ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 999), max_size=5, unique=True),
    st.lists(st.integers(-9, 9), min_size=5, max_size=5),
    st.data(),
)
def test_files_that_divide_the_time_state_what_the_whole_states(
    cuts: list[int], steps: list[int], data: st.DataObject
) -> None:
    """The clock moves at each cut, and in the end by `realtime_moved_ns`."""
    moved = {0: 0, **dict(zip(cuts, steps, strict=False)), 1000: -7}
    parts = [
        replace(WHOLE, first_ns=begin, last_ns=end, realtime_offset_ns=5 + moved[begin],
                realtime_moved_ns=moved[end] - moved[begin])
        for begin, end in pairwise(sorted(moved))
    ]  # fmt: skip
    assert staging.merge(data.draw(st.permutations(parts))) == WHOLE


EVENTS = st.none() | st.frozensets(st.sampled_from("abcd"))


@given(st.lists(st.tuples(EVENTS, st.frozensets(st.integers(0, 3))), min_size=1))
def test_no_absence_is_stated_that_a_file_does_not_prove(
    stated: list[tuple[frozenset[str] | None, frozenset[int]]],
) -> None:
    """An event that did not occur on a device proves something only if every file recorded it there."""
    whole = staging.merge([replace(WHOLE, recorded=recorded, untraced=untraced) for recorded, untraced in stated])
    for event in "abcd":
        for device in range(4):
            proves = [
                recorded is not None and event in recorded and device not in untraced for recorded, untraced in stated
            ]
            assert (event in (whole.recorded or ()) and device not in whole.untraced) <= all(proves)


@pytest.mark.parametrize("missing", [{"realtime_moved_ns": None}, {"realtime_offset_ns": None}])
def test_the_change_of_the_clock_is_unknown_if_a_file_does_not_state_it(missing: dict[str, None]) -> None:
    later = replace(WHOLE, first_ns=2000, last_ns=3000)
    assert staging.merge([WHOLE, replace(later, **missing)]).realtime_moved_ns is None
    assert staging.merge([WHOLE, later]).realtime_moved_ns == -7


def test_facts_that_files_state_differently_are_unknown() -> None:
    other = replace(WHOLE, facts={"kernel": "5.10", "device": "demo"})
    assert staging.merge([WHOLE, other]).facts == {"page_bytes": 4096, "device": "demo"}


def test_files_of_different_clocks_are_refused() -> None:
    with pytest.raises(InputError, match=r"files of different clocks \(boot, mono\) cannot form one recording"):
        staging.merge([WHOLE, replace(WHOLE, clock="mono")])
    assert staging.merge([replace(WHOLE, clock="unknown"), WHOLE]).clock == "boot"


# --- names of threads ------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["sh", "cat", None])), min_size=1, max_size=30)


@settings(max_examples=30)
@given(ROWS, st.lists(st.integers(0, 29)))
def test_a_name_holds_in_the_file_that_states_it(rows: list[tuple[int, str | None]], cuts: list[int]) -> None:
    """Each event finds the name that it states itself, as in the whole recording."""
    events = pl.DataFrame(
        [(at, tid, None, comm) for at, (tid, comm) in enumerate(rows)],
        schema={"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String},
        orient="row",
    )
    parts = [
        events.slice(begin, end - begin) for begin, end in pairwise(sorted({0, *cuts, len(rows)})) if begin < len(rows)
    ]
    parts = [part for part in parts if part.height]
    joined = tasks.joined([(tasks.seen(part), part["ts_ns"][0], part["ts_ns"][-1]) for part in parts])
    assert joined is not None
    nameless = events.with_columns(comm=pl.lit(None, pl.String))
    for threads in (tasks.seen(events), joined):
        found = Processes(threads).of_threads(nameless)["owner_comm"]
        assert found.filter(events["comm"].is_not_null()).to_list() == events["comm"].drop_nulls().to_list()
    assert joined["valid_from_ns"].null_count() == joined["tid"].n_unique()


def test_of_files_that_overlap_no_order_of_names_is_known() -> None:
    rows = {"ts_ns": [0, 5], "tid": [7, 7], "pid": [None, None], "comm": ["sh", "cat"]}
    events = pl.DataFrame(rows, schema={"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String})
    joined = tasks.joined([(tasks.seen(events.slice(at, 1)), 0, 9) for at in range(2)])
    assert joined is not None
    nameless = events.with_columns(comm=pl.lit(None, pl.String))
    assert Processes(joined).of_threads(nameless)["owner_comm"].to_list() == [None, None]


# --- whole recordings ------------------------------------------------------------------------------------------------

TIME = re.compile(r" (\d+\.\d+): ")
EVENT = re.compile(r" \d+\.\d+: (\w+): ")
CPU = re.compile(r" \[(\d+)\] ")


def divided(lines: list[str], how: str) -> list[list[str]]:
    """Divide the lines of a trace by CPU, or by time where no gap lies between two lines."""
    if how == "cpu":
        return [[line for line in lines if int(CPU.findall(line)[0]) == cpu] for cpu in range(2)]
    times = [float(TIME.findall(line)[0]) for line in lines]
    close = [at for at in range(1, len(lines)) if times[at] - times[at - 1] < 0.0005]
    cuts = [0, *sorted(random.Random(how).sample(close, 3)), len(lines)]
    return [lines[begin:end] for begin, end in pairwise(cuts)]


def described(directory: Path, lines: list[str], events: Sequence[str]) -> Path:
    """Write a capture whose recorder listed these events, and return its trace."""
    trace = directory / "raw" / f"{directory.name}.txt"
    trace.parent.mkdir(parents=True)
    trace.write_text("".join(lines))
    source = replace(manifest.in_place(trace, "trace"), path=f"raw/{trace.name}")
    manifest.write(manifest.Manifest((source,), events=tuple(events)), directory)
    return trace


def joined(*traces: Path) -> manifest.Manifest:
    return sources.manifest_of(traces, capture.Description())


@pytest.mark.parametrize("how", ["cpu", "time"])
def test_a_divided_recording_gives_the_tables_of_the_whole(tmp_path: Path, how: str) -> None:
    with gzip.open(corpus.path("kernel/ext4_host_6.18/trace.txt.gz"), "rt") as file:
        lines = [line for line in file if TIME.search(line)][:6000]
    events = sorted({EVENT.findall(line)[0] for line in lines})
    described(tmp_path / "whole", lines, events)
    traces = [described(tmp_path / f"part{at}", part, events) for at, part in enumerate(divided(lines, how))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        whole, parts = capture.open(tmp_path / "whole"), capture.create(traces, tmp_path / "parts")
    assert whole.manifest.events == parts.manifest.events == tuple(events)
    for name in ("block_events", "fs_events", "requests", "extents", "files", "io"):
        assert whole.tables[name].collect().equals(parts.tables[name].collect()), name
    assert terminal.summary(whole, "x").replace("whole", "parts") == terminal.summary(parts, "x")


def test_captures_of_one_recording_state_what_each_of_them_states(tmp_path: Path) -> None:
    line = " app-1 [000] .... 1.000001: block_rq_issue: 8,0 W 4096 () 64 + 8 [app]\n"
    one = described(tmp_path / "one", [line], ["a", "b"])
    other = described(tmp_path / "other", [line.replace("1.0", "2.0")], ["b", "c"])
    bare = tmp_path / "bare.txt"
    bare.write_text(line)
    assert joined(one).events == ("a", "b")
    assert joined(one, other).events == joined(other, one).events == ("b",)
    assert joined(one, bare).events is joined(bare, one).events is None


DISKS = ({"dev": "8:0", "traced": True}, {"dev": "8:16", "traced": False})


def test_a_device_counts_as_traced_if_every_capture_traced_it() -> None:
    first = manifest.Manifest((), devices=DISKS, lost_events=2, realtime_moved_ns=1, facts={"kernel": "6.1"})
    second = replace(first, devices=tuple(row | {"traced": not row["traced"]} for row in DISKS), lost_events=3)
    both = manifest.common([first, second])
    assert [row["traced"] for row in both.devices] == [False, False]
    assert (both.lost_events, both.realtime_moved_ns, both.facts) == (5, 1, {"kernel": "6.1"})
    assert manifest.common([first, replace(second, devices=DISKS[:1])]).devices == ()
    assert manifest.common([first, replace(second, lost_events=None)]).lost_events is None
