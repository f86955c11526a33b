"""`androstep bench`: iobench is run, its results are a capture, and nothing else is left, whatever happens."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from support import built
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import bench, cli, runs
from androstep_analysis.common import quantities
from androstep_analysis.device import probe

PROGRAM = Path(sys.executable).with_name("androstep")
SMALL = ("--rw", "randwrite", "--size", "256k", "--number_ios", "32", "--cache", "any", "--repeats", "3")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the directory to measure."""
    directory = tmp_path / "place"
    directory.mkdir()
    return directory


def test_a_run_is_a_capture(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "out"
    assert cli.main(["bench", str(place), "-o", str(out), "--", *SMALL, "--sweep", "mode=buffered,fsync"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert list(place.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "place"]
    opened = androstep.open(out)
    assert re.search(r"tests rand_write; runs 6; invalid 0>", repr(opened))
    stated = json.loads((out / "capture.json").read_text())
    (source,) = stated["sources"]
    assert (source["role"], source["path"]) == ("bench", "raw/bench.rec")
    assert source["sha256"] == hashlib.sha256((out / "raw/bench.rec").read_bytes()).hexdigest()
    assert stated["facts"]["kernel"] == os.uname().release and stated["facts"]["rooted"] == (os.geteuid() == 0)
    assert stated["facts"]["workload"] == f"iobench {' '.join(SMALL)} --sweep mode=buffered,fsync --directory {place}"
    tables = opened.bench
    medians = {
        row["sync_mode"]: row["value"] for row in bench.summarise(tables).filter(metric="iops").iter_rows(named=True)
    }
    for mode, median in medians.items():
        (line,) = [line.split() for line in printed.out.splitlines() if re.match(rf"rand_write +{mode} ", line)]
        assert line[2] == quantities.in_unit(median, "1/s") and line[-1] == "3"
    for command in ("summary", "tables", "doctor"):
        assert cli.main([command, str(out)]) == 0
    assert "bench_series" in capsys.readouterr().out
    assert cli.main(["summary", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)["bench"]
    assert (summary["runs"], summary["invalid"]) == (6, 0)
    assert {row["value"] for row in summary["measures"] if row["metric"] == "iops"} == set(medians.values())


def test_a_run_as_json(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cli.main(["bench", str(place), "-o", str(out), "--json", "--", *SMALL]) == 0
    told = json.loads(capsys.readouterr().out)
    jsonschema.validate(told, json.loads((ROOT / "schemas/answers/bench.json").read_text()))
    assert (told["capture"], told["runs"]) == (str(out), 3)
    found = {row["metric"]: (row["value"], row["lo"]) for row in told["measures"]}
    expected = bench.summarise(androstep.open(out).bench)
    assert found == {row["metric"]: (row["value"], row["lo"]) for row in expected.iter_rows(named=True)}


def test_the_rates_are_those_that_iobench_prints(place: Path, tmp_path: Path) -> None:
    record = tmp_path / "x.rec"
    command = [built.program("iobench", "native"), *SMALL, "--thinktime", "500", "--directory", place, "-o", record]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    rates = [float(line.split()[0]) for line in printed.splitlines()]
    values = bench.measures(bench.read(record).tables).filter(metric="iops")["value"].to_list()
    assert values == pytest.approx(rates, abs=0.5)


def test_an_invalid_run_is_kept_and_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Path("/dev/shm")
    if subprocess.run(["stat", "-f", "-c", "%T", memory], capture_output=True).stdout != b"tmpfs\n":
        pytest.skip("/dev/shm is no tmpfs, whose files cannot be cold")
    out = tmp_path / "out"
    options = ["--size", "64k", "--number_ios", "4", "--cache", "cold"]
    assert cli.main(["bench", str(memory), "-o", str(out), "--", *options]) == 1
    printed = capsys.readouterr()
    assert "1 of 1 repetitions are invalid and not counted: the page cache should be cold" in " ".join(
        printed.out.split()
    )
    assert "invalid 1>" in repr(androstep.open(out))
    assert bench.measures(androstep.open(out).bench).filter("valid").is_empty()


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["--", "--colour"], 1, "iobench: --colour is not an option"),
        (["--", "-o", "x.rec"], 1, "name the capture with -o before --"),
        (["--", "--record=x.rec"], 1, "name the capture with -o before --"),
        (["--compare", "a"], 2, "expected 2 arguments"),
        (["--compare", "a", "b", "--", "--rw", "read"], 2, "--compare measures nothing"),
        (["--compare", "/proc/nowhere/a", "/proc/nowhere/b"], 1, "/proc/nowhere/a: no such file"),
    ],
)
def test_what_cannot_be_run(
    options: list[str],
    status: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        assert cli.main(["bench", *options]) == status
    except SystemExit as usage:
        assert usage.code == status
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_iobenchs_own_help_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "-o", str(tmp_path / "out"), "--", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: iobench")
    assert not (tmp_path / "out").exists()


def test_a_capture_that_is_there_stays(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert cli.main(["bench", str(place), "-o", str(out), "--", *SMALL]) == 1
    assert "exists already" in capsys.readouterr().err
    assert list(out.iterdir()) == [] and list(place.iterdir()) == []


def test_another_runner(place: Path, tmp_path: Path) -> None:
    """What a device's transport will do: run the program elsewhere, and bring the records."""
    asked: list[Sequence[str]] = []

    def elsewhere(options: Sequence[str], record: Path, progress: Callable[[str], None]) -> int:
        asked.append(options)
        progress("iobench:  50 % repeat 2/3 1000 ops/s")
        return probe.local("iobench")([*options, "--directory", str(place)], record, progress)

    done = runs.bench(SMALL, tmp_path / "out", runner=elsewhere, facts={"device": "a phone", "sdk": 35})
    assert asked == [list(SMALL)] and done.status == 0 and done.capture is not None
    assert (done.capture.facts["device"], done.capture.facts["sdk"], done.capture.facts["rooted"]) == (
        "a phone",
        35,
        None,
    )


def test_progress_is_passed_on_line_by_line(place: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    options = ["--size", "256k", "--runtime", "500ms", "--cache", "any", "--repeats", "2", "--directory", str(place)]
    status = probe.local("iobench")(options, tmp_path / "x.rec", lines.append)
    assert status == 0 and (tmp_path / "x.rec").exists()
    shares = [int(found[1]) for line in lines if (found := re.fullmatch(r"iobench: +(\d+) % .+", line))]
    assert shares and shares == sorted(set(shares)) and shares[0] >= 0 and shares[-1] <= 100
    assert len(shares) == len(lines), lines
    assert [line.endswith(", done") for line in lines].count(True) == 2, lines


def test_results_of_several_machines_are_no_side_of_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two filesystems in one release or capture: one sentence says what to do."""
    places = [ROOT / "datasets/bench" / place / "modes.rec.xz" for place in ("ext4_disk", "xfs_disk")]
    androstep.create(places, tmp_path / "both")
    assert cli.main(["bench", "--compare", str(tmp_path / "both"), str(places[0])]) == 1
    assert "one side holds results of several fs_type" in capsys.readouterr().err


@pytest.mark.prove
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing(number: signal.Signals, status: int, place: Path, tmp_path: Path) -> None:
    command = [
        PROGRAM,
        "bench",
        place,
        "-o",
        tmp_path / "out",
        "--",
        "--size",
        "1m",
        "--runtime",
        "60s",
        "--cache",
        "any",
    ]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list(place.glob("iobench-*/*")) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, b""), err
    assert b"Traceback" not in err
    assert list(place.iterdir()) == [] and list(scratch.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place", "scratch"]


def test_an_interrupt_while_the_program_begins_ends_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the program may be at work before `Popen` returns."""
    popen = subprocess.Popen

    def begun(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        process = popen(*arguments, **options)
        while not list(place.glob("iobench-*/*")):
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", begun)
    before = signal.getsignal(signal.SIGTERM)
    options = ["--size", "1m", "--runtime", "60s", "--cache", "any", "--directory", str(place)]
    with pytest.raises(KeyboardInterrupt):
        probe.local("iobench")(options, tmp_path / "x.rec", lambda _: None)
    assert list(place.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before


def test_comparing_two_runs(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        assert cli.main(["bench", str(place), "-o", str(tmp_path / name), "--", *SMALL]) == 0
    capsys.readouterr()
    assert cli.main(["bench", "--compare", str(tmp_path / "a"), str(tmp_path / "b/raw/bench.rec")]) == 0
    *blocks, below = capsys.readouterr().out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["Operations", "Latency p50", "Latency p99"]
    assert all(block.endswith("too few") for block in blocks) and "3 and 3 repetitions" in below
    tables = [bench.read(tmp_path / name).tables for name in ("a", "b")]
    medians = [bench.summarise(side).filter(metric="iops")["value"][0] for side in tables]
    assert blocks[0].splitlines()[3].split()[1:4] == [
        *(quantities.in_unit(median, "1/s") for median in medians),
        f"{medians[1] / medians[0]:.2f}",
    ]


def test_tables_of_results_are_written(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli.main(["bench", str(place), "-o", str(out), "--", *SMALL]) == 0
    assert cli.main(["tables", str(out), "bench_runs", "-o", str(tmp_path / "runs.parquet")]) == 0
    assert pl.read_parquet(tmp_path / "runs.parquet")["repeat"].to_list() == [0, 1, 2]
