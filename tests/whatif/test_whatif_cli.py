"""`androstep whatif` on the shipped capture and results, and what it says of input that it cannot use."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from androstep_analysis import bench, cli, schema, whatif
from androstep_analysis.whatif import measure

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
DEMO = str(DATASETS / "demo")
SIZES = str(DATASETS / "bench" / "ext4_disk" / "sizes.rec.xz")


def test_changes_and_prediction_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "after.parquet"
    words = ["--without", "fs-journal", "--without", "sqlite-fsync", "--log-structured", "--model", SIZES]
    assert cli.main(["whatif", DEMO, *words, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    # SQLite first in any order of options, since its fsyncs cause many commits.
    parts = re.findall(r"^(Without .*|Log-structured.*|Predicted.*)$", told, re.MULTILINE)
    assert [part.split(",")[0] for part in parts] == [
        "Without sqlite-fsync",
        "Without fs-journal",
        "Log-structured",
        "Predicted",
    ]
    assert re.search(r"before: [\d,]+ × fdatasync", told), "the results have no flushes"
    after = schema.conform(pl.read_parquet(out), "requests")
    assert f"{after.height:,} requests are in" in told


@pytest.mark.parametrize("policy", ["greedy", "cost_benefit"])
def test_flash_is_told_by_who_caused_it(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    assert cli.main(["whatif", DEMO, "--flash", "process", "--spare", "28", "--policy", policy]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^On flash, 28 % to spare; a block is erased [\d.]+ times \(\d+ to \d+\)$", told, re.MULTILINE)
    assert re.search(r"^owner comm .* write amplification", told, re.MULTILINE)


def test_merges_of_a_hybrid_device_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["whatif", DEMO, "--flash", "process", "--mapping", "hybrid"]) == 0
    assert re.search(
        r"^On flash, .*; 0 switch merges; 20 partial merges; 30 full merges$", capsys.readouterr().out, re.M
    )


def test_a_saved_model_tells_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tmp_path / "model.parquet"
    whatif.fit(bench.read(SIZES).tables).write_parquet(model)
    told = []
    for path in (SIZES, str(model)):
        assert cli.main(["whatif", DEMO, "--model", path, "--mode", "as-recorded"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert "Predicted, as recorded" in told[0]


def test_a_device_is_measured_and_predicted_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All experiments, with a few requests for each point."""
    monkeypatch.setattr(measure, "_EACH", f"{measure._EACH} --number_ios 32 --size 1m --repeats 1")
    place, kept = tmp_path / "place", tmp_path / "mydevice"
    place.mkdir()
    assert cli.main(["model", "build", str(place), "-o", str(kept)]) == 0
    told = capsys.readouterr().out
    header = "KiB seq read ms rand read ms seq write ms rand write ms seq fua write ms rand fua write ms flush ms"
    assert told.splitlines()[1].split() == header.split()
    rows = [line.split() for line in told.splitlines()[3:16]]
    assert [int(row[0]) for row in rows] == [4 << step for step in range(13)]  # flushes of up to 16 × 1 MiB
    assert all(float(cell) > 0 for row in rows[:9] for cell in row)
    assert {tuple(row[1:7]) for row in rows[9:]} == {("–",) * 6}
    assert f"androstep whatif CAPTURE --model {kept}" in told
    assert list(place.iterdir()) == []
    assert cli.main(["whatif", DEMO, "--model", str(kept)]) == 0
    assert "fdatasync" not in capsys.readouterr().out, "every flush was measured"
    assert cli.main(["model", "build", str(place), "-o", str(kept)]) == 1
    assert "exists" in capsys.readouterr().err


def test_a_place_that_cannot_be_measured_gives_no_model(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["model", "build", str(tmp_path / "file"), "-o", str(tmp_path / "kept")]) != 0
    said = capfd.readouterr()
    assert "file" in said.err
    assert "predict with" not in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([DEMO], "name a change"),
        ([DEMO, "--without", "everything"], "invalid choice"),
        ([DEMO, "--log-structured", "--spare", "-1"], "not a number from 0 to 1,000"),
        ([DEMO, "--log-structured", "--spare", "nan"], "not a number from 0 to 1,000"),
    ],
)
def test_wrong_usage_is_status_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["whatif", *words])
    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([DEMO, "--device", "8:0", "--log-structured"], "no request of device 8:0; the recording has 7:0"),
        ([SIZES, "--log-structured"], "no requests of block devices"),
        ([DEMO, "--model", str(DATASETS / "bench" / "ext4_disk" / "journal_modes.rec.xz")], "androstep model build"),
        ([DEMO, "--model", str(DATASETS / "README.parquet")], "README.parquet"),
    ],
)
def test_input_that_cannot_be_used_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["whatif", *words]) == 1
    assert says in capsys.readouterr().err
