"""Test that a capture counts only what lies in the window that its recorder stated."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from androstep_analysis import capture
from androstep_analysis.capture import Capture
from androstep_analysis.capture.derivation import TABLES
from androstep_analysis.capture.window import within
from androstep_analysis.common import manifest, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest.staging import TABLES as STAGED
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import summary
from androstep_analysis.present.headline.recorded import recorded
from androstep_analysis.present.headline.words import Amount

LINES = "".join(
    f"  8,0    0  {3 * number + step + 1}  {number}.00000{step}000  100  {action}  WS {8 * number} + 8 [sh]\n"
    for number in range(1, 6)
    for step, action in enumerate("QDC")
)
"""Five writes in the format of blkparse: one a second, from 1 s to 5 s."""
S = 10**9


def made(directory: Path, window: Any) -> Path:
    """Make a capture of the five writes whose recorder stated this window."""
    trace = directory.with_suffix(".txt")
    trace.write_text(LINES)
    capture.create([trace], directory)
    path = directory / manifest.FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"window": window}))
    return directory


def sectors(opened: Capture) -> list[int]:
    return opened.requests.collect()["sector"].to_list()


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "expected"),
    [
        (2 * S, 4 * S, [16, 24]),
        (2 * S + 1001, 4 * S + 1001, [24, 32]),  # by issue: 1 µs after each second
        (2 * S + 1000, 4 * S + 1000, [16, 24]),
        (2 * S, None, [16, 24, 32, 40]),  # the recorder was killed
        (2 * S, 2 * S, []),  # it ended during its first listing
        (0, 9 * S, [8, 16, 24, 32, 40]),
        (7 * S, 9 * S, []),
        (7 * S, None, []),
    ],
)
def test_only_requests_issued_in_the_window_count(
    tmp_path: Path, start_ns: int, end_ns: int | None, expected: list[int]
) -> None:
    opened = capture.open(made(tmp_path / "made", {"start_ns": start_ns, "end_ns": end_ns}))
    assert sectors(opened) == expected
    last_ns = max(start_ns, 5 * S + 2001) if end_ns is None else end_ns
    assert (opened.first_ns, opened.last_ns) == (start_ns, last_ns)
    assert opened.facts["t_start_ns"] == start_ns and Recording.of(opened).span == (start_ns, last_ns)
    assert opened.recorded_ns == 4 * S + 2000
    assert opened.population["count"] == opened.about["rows"]["requests"] == len(expected)
    assert opened.about["rows"]["block_events"] == opened.block_events.collect().height
    assert opened.coverage.filter(op="write")["n"].unique().to_list() == [len(expected)] * bool(expected)
    assert summary.summary(opened)["first_ns"] == start_ns
    parts = recorded(opened).parts
    assert parts[parts.index(" recorded)") - 1] == Amount(4 * S + 2000, "ns")
    assert "of 4.000 s recorded" in repr(opened)


def test_the_window_survives_reading_writing_and_pickling(tmp_path: Path) -> None:
    directory = made(tmp_path / "made", {"start_ns": 2 * S, "end_ns": 4 * S})
    opened = capture.open(directory)
    described = manifest.read(directory)
    assert described.window == (2 * S, 4 * S)
    manifest.write(described, tmp_path)
    assert json.loads((tmp_path / manifest.FILE_NAME).read_text())["window"] == {"start_ns": 2 * S, "end_ns": 4 * S}
    assert sectors(pickle.loads(pickle.dumps(opened))) == [16, 24]
    again = capture.create([directory / "raw/made.txt"], tmp_path / "again")
    assert again.manifest.window == (2 * S, 4 * S) and sectors(again) == [16, 24]


def test_other_evidence_is_joined_with_the_whole_recording(tmp_path: Path) -> None:
    opened = capture.open(made(tmp_path / "made", {"start_ns": 2 * S, "end_ns": 4 * S}))
    again = opened.with_filesystem(extents=())
    assert sectors(again) == [16, 24] and again.recorded_ns == opened.recorded_ns
    assert again.first_ns == 2 * S and again.population == opened.population


def test_a_window_of_the_window_is_smaller(tmp_path: Path) -> None:
    opened = capture.open(made(tmp_path / "made", {"start_ns": 2 * S, "end_ns": 4 * S}))
    part = opened.window(0, 3 * S)
    assert sectors(part) == [16] and (part.first_ns, part.last_ns, part.recorded_ns) == (0, 3 * S, None)
    assert sectors(part.with_filesystem(extents=())) == [16]


def test_several_traces_have_no_common_window(tmp_path: Path) -> None:
    directory = made(tmp_path / "made", {"start_ns": 2 * S, "end_ns": 4 * S})
    (tmp_path / "more").write_text(LINES.replace("8,0 ", "8,16"))
    both = capture.create([directory / "raw/made.txt", tmp_path / "more"], tmp_path / "both")
    assert both.manifest.window is None and both.population["count"] == 10


@pytest.mark.parametrize(
    "window",
    [{}, [1, 2], {"start_ns": 2, "end_ns": 1}, {"start_ns": None, "end_ns": 1}, {"start_ns": "1", "end_ns": 2}],
)
def test_a_window_that_is_none_is_refused(tmp_path: Path, window: Any) -> None:
    with pytest.raises(InputError, match="not a valid manifest"):
        capture.open(made(tmp_path / "made", window))


def test_the_importance_of_a_process_holds_until_its_next_row() -> None:
    tables = {name: schema.empty(name).lazy() for name in TABLES}
    types = schema.table("importance").polars
    rows = pl.DataFrame({"ts_ns": [1, 5, 9], "event": "reading", "task": 7, "oom_score_adj": [0, 900, 0]})
    rows = rows.cast({name: types[name] for name in rows.columns})
    tables["importance"] = schema.complete(rows, "importance").lazy()
    kept = within(tables, (6, 9))
    assert kept["importance"].collect()["ts_ns"].to_list() == [1, 5]
    assert all(kept[name].collect_schema() == tables[name].collect_schema() for name in STAGED)
    assert_frame_equal(within(tables, None)["importance"].collect(), tables["importance"].collect())
