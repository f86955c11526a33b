"""`androstep replay`: ioreplay is run, its results are a capture, and the directory is left as it was."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support import built, made, replayed

import androstep_analysis as androstep
from androstep_analysis import cli, replay, runs
from androstep_analysis.common.errors import InputError
from androstep_analysis.device import probe
from androstep_analysis.replay import device
from androstep_analysis.replay.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Return a program in file app.rec."""
    return replayed.program(tmp_path / "app.rec")


@pytest.mark.prove
def test_a_replay_is_a_capture(program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, box = tmp_path / "out", tmp_path / "box"
    assert cli.main(["replay", str(tmp_path / "app.rec"), str(box), "-o", str(out), "--repeats", "3"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.rec", "out"]
    opened = androstep.open(out)
    asked = program.operations.filter(~program.operations["inserted"]).height
    assert f"operations {3 * asked:,} of {3 * asked:,} done, 0 diverged" in repr(opened)
    stated = json.loads((out / "capture.json").read_text())
    assert {(source["role"], source["path"]) for source in stated["sources"]} == {
        *(("replay", f"raw/replay-{number}.rec") for number in range(3)),
        ("program", "raw/app.rec"),
    }
    kept = hashlib.sha256((out / "raw/app.rec").read_bytes()).hexdigest()
    assert set(opened.replay["replay_runs"]["program"]) == {kept}
    assert stated["facts"]["workload"] == f"ioreplay {tmp_path / 'app.rec'} {box}"
    assert (stated["facts"]["kernel"], stated["facts"]["rooted"]) == (os.uname().release, os.geteuid() == 0)
    assert len(re.findall(r"(?m)^\S+ +as recorded .*s$", printed.out)) == 3
    for command in ("summary", "tables", "doctor"):
        assert cli.main([command, str(out)]) == 0
    assert "replay_ops" in capsys.readouterr().out
    assert cli.main(["summary", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)["replay"]
    assert (summary["runs"], summary["operations"], summary["diverged"]) == (3, 3 * asked, 0)
    assert (
        cli.main(["report", str(out), "-o", str(tmp_path / "page.html"), "--figures", str(tmp_path / "figures")]) == 0
    )
    page = (tmp_path / "page.html").read_text()
    assert all(run in page for run in opened.replay["replay_runs"]["run_id"])
    assert page.count("<figure>") == 2 and "Total I/O time of a replay" in page
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"replay_io_time", "replay_lateness"}


def test_what_was_replayed_is_what_was_recorded(program: Program, tmp_path: Path) -> None:
    done = runs.replay(tmp_path / "app.rec", tmp_path / "box", ["--mode", "as-fast"], out=tmp_path / "out")
    assert done.status == 0 and done.capture is not None
    tables = done.capture.replay
    keys = ["operation", "thread", "call", "inserted", "result"]
    assert tables["replay_ops"].select(keys).equals(program.operations.select(keys))
    (run,) = tables["replay_runs"].iter_rows(named=True)
    assert (run["mode"], run["operations"] + run["inserted"]) == ("as_fast", program.operations.height)
    again = replay.metrics(tables, program)
    assert again.filter(metric="bytes_written", file_type="sqlite_db")["value"].to_list() == [6 * 4096]


def test_a_result_that_differs_is_told(program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is there where the recording says there was none."""
    there = made.table("replay_files", [{"path": "a", "inode_type": "directory"}, replayed.file("a/none", 1)])
    Program.make(program.operations, there, program.threads, program.duration_ns).write(tmp_path / "other.rec")
    out = tmp_path / "out"
    assert cli.main(["replay", str(tmp_path / "other.rec"), str(tmp_path / "box"), "-o", str(out)]) == 0
    found = replay.metrics(androstep.open(out).replay).filter(metric="divergences", call="stat")
    assert dict(found.select("divergence", "value").iter_rows())["succeeded"] == 1
    assert "1 with another result than recorded" in " ".join(capsys.readouterr().out.split())


def test_a_replay_that_ended_before_its_first_operation_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed.write(tmp_path / "none.rec", [], interrupted=True, result=-4)
    for command in (["summary", "--all"], ["report", "-o", str(tmp_path / "page.html")]):
        assert cli.main([command[0], str(tmp_path / "none.rec"), *command[1:]]) == 0
    assert "ended early: interrupted (0 of 0 operations done)" in capsys.readouterr().out


def test_a_dry_run_touches_nothing(program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replay", str(tmp_path / "app.rec"), str(tmp_path / "box"), "-o", str(tmp_path / "out")]
    assert cli.main([*words, "--", "--dry-run"]) == 0
    assert "descriptors     2 at once" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["app.rec"]


@pytest.mark.parametrize(
    ("before", "behind", "status", "says"),
    [
        ([], ["--colour"], 1, "ioreplay: --colour is not an option"),
        ([], ["-o", "x.rec"], 1, "name the capture with -o before --"),
        ([], ["-ox.rec"], 1, "name the capture with -o before --"),
        (["--repeats", "2"], ["--keep"], 1, "each repetition needs an empty one"),
        (["--repeats", "0"], [], 2, "not a number from 1 to 10,000"),
    ],
)
def test_what_cannot_be_replayed(
    before: list[str],
    behind: list[str],
    status: int,
    says: str,
    program: Program,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["replay", str(tmp_path / "app.rec"), str(tmp_path / "box"), "-o", str(tmp_path / "out"), *before]
    try:
        assert cli.main([*words, "--", *behind]) == status
    except SystemExit as usage:
        assert usage.code == status
    assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["app.rec"]


def test_files_of_the_user_stay(program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    box = tmp_path / "box"
    box.mkdir()
    (box / "precious").write_text("kept")
    words = ["replay", str(tmp_path / "app.rec"), str(box), "-o", str(tmp_path / "out")]
    assert cli.main(words) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "ioreplay: " in told and "is not empty" in told
    assert (box / "precious").read_text() == "kept" and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert cli.main(words) == 1
    assert "exists already" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"not a replay program; make one with `androstep program`"):
        runs.replay(box / "precious", tmp_path / "other", out=tmp_path / "fine")
    with pytest.raises(ValueError, match="once or more"):
        runs.replay(tmp_path / "app.rec", tmp_path / "other", out=tmp_path / "fine", repeats=0)


def test_another_runner(program: Program, tmp_path: Path) -> None:
    """What a device's transport will do: run the program elsewhere, and bring the records."""
    asked: list[Sequence[str]] = []

    def elsewhere(options: Sequence[str], record: Path, progress: Callable[[str], None]) -> int:
        asked.append(options)
        progress("ioreplay:  50 % 5/10 operations")
        return probe.local("ioreplay", tmp_path / "app.rec", tmp_path / "box")(options, record, progress)

    options = ["--mode", "as-fast"]
    known = {"device": "a phone", "sdk": 35}
    done = runs.replay(
        tmp_path / "app.rec", "/data/x", options, out=tmp_path / "out", repeats=2, runner=elsewhere, facts=known
    )
    assert asked == [options, options] and done.status == 0 and done.capture is not None
    assert (done.capture.facts["device"], done.capture.facts["rooted"]) == ("a phone", None)


def test_requests_of_a_device_go_to_a_file(tmp_path: Path) -> None:
    requests = androstep.open(built.ROOT / "datasets" / "demo").requests
    made = device.program(requests)
    made.write(tmp_path / "dev.rec")
    done = runs.replay(tmp_path / "dev.rec", tmp_path / "target", ["--mode", "as-fast"], out=tmp_path / "out")
    assert done.status == 0 and done.capture is not None and not (tmp_path / "target").exists()
    found = replay.metrics(done.capture.replay).filter(metric="bytes_written")
    writes = made.operations.filter(made.operations["call"] == "pwrite")
    assert found.filter(call="pwrite")["value"].to_list() == [writes["bytes"].sum()]
