"""I/O priorities as `ionice` sets them, in a recording and in text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from support import built, loops

import androstep_analysis as androstep
from androstep_analysis import cli
from androstep_analysis.common import conditions
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare.measures import known, measured
from androstep_analysis.measures.priority import priorities
from androstep_analysis.measures.recording import Recording

ISSUE = "dd-{tid} [000] ..... 5.{tid:06}: block_rq_issue: 8,0 {op} 4096 () {sector} + 8 {priority}[dd]\n"


def trace(path: Path, *requests: tuple[str, str]) -> Path:
    """Write a trace with an issue for each operation and priority."""
    lines = (
        ISSUE.format(tid=tid, op=op, sector=100 * tid, priority=f"{priority} " if priority else "")
        for tid, (op, priority) in enumerate(requests, 1)
    )
    path.write_text("".join(lines))
    return path


def of(path: Path, name: str, *where: str) -> pl.DataFrame:
    recording = Recording.of(androstep.open(path))
    return measured(recording, known(name, None), None, ("priority",), [conditions.parse(one) for one in where]).table


def test_requests_and_pieces_have_the_priority_of_the_issue(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.txt", ("W", "rt,0,3"), ("R", "idle,0,0"), ("W", "none,0,0"), ("W", "be,0,7"), ("W", ""))
    for name in ("mix", "volume"):
        counts = of(path, name).filter(metric="count")
        rows = sorted(counts.select(pl.col("op").cast(pl.String), "priority", "value").rows(), key=repr)
        assert rows == sorted(
            [("read", "idle", 1.0), ("write", "be 7", 1.0), ("write", "none", 1.0), ("write", "rt 3", 1.0),
             ("write", None, 1.0)], key=repr,
        )  # fmt: skip


def test_of_two_issues_at_one_place_and_time_no_priority_is_known() -> None:
    request = pl.DataFrame({"request_id": 0, "dev": 1, "sector": 8, "issue_ns": 7})
    issue = {"ts_ns": 7, "action": "issue", "dev": 1, "sector": 8}
    for classes, expected in (((1, 2), []), ((1, 1), ["rt 0"])):
        issues = pl.DataFrame([{**issue, "ioprio": of_class << 13} for of_class in classes])
        assert priorities(request, issues).collect()["priority"].to_list() == expected


def test_a_condition_selects_a_priority(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "a.txt", ("W", "rt,0,3"), ("R", "idle,0,0"))
    assert cli.main(["measure", str(path), "volume", "--where", "priority=rt*", "--format", "csv"]) == 0
    rows = [line.split(",")[:3] for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["count", "write", "1.0"], ["bytes", "write", "4096.0"]]


def test_a_recording_without_priorities_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no I/O priorities are recorded"):
        of(trace(tmp_path / "a.txt", ("W", "")), "mix")


@pytest.mark.root
def test_a_recording_has_the_priority_that_was_set(tmp_path: Path) -> None:
    image, out = tmp_path / "disk.img", tmp_path / "recording"
    loops.make_ext4(image, [], nr_mib=16)
    ionice = shutil.which("ionice")
    assert ionice
    with loops.mounted(image, "noatime") as place:
        command = [ionice, "-c1", "-n2", "dd", "if=/dev/zero", f"of={place.top}/file", "bs=64k", "count=4"]
        command += ["oflag=direct", "status=none"]
        iotrace = built.program("iotrace", "native")
        record = [iotrace, "-o", out, "--device", place.device, "--list", "none", "--", *command]
        subprocess.run(record, check=True, capture_output=True)
    written = of(out / "trace.dat", "volume", "op=write", "process=dd").filter(metric="bytes")
    direct = written.filter(priority="rt 2")
    assert direct["value"].sum() >= 4 << 16
