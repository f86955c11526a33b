"""`androstep whatif` on the shipped capture and results, and what it says of input that it cannot use."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from androstep_analysis import bench, cli, schema, whatif

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
DEMO = str(DATASETS / "demo")
SIZES = str(DATASETS / "bench" / "ext4_disk" / "sizes.rec.xz")


def test_changes_and_prediction_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "after.parquet"
    words = ["--without", "fs-journal", "--without", "sqlite-fsync", "--log-structured", "--model", SIZES]
    assert cli.main(["whatif", DEMO, *words, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    # SQLite first, whatever the order of the words: its fsyncs are what many commits are for.
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


def test_a_saved_model_tells_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tmp_path / "model.parquet"
    whatif.fit(bench.read(SIZES).tables).write_parquet(model)
    told = []
    for path in (SIZES, str(model)):
        assert cli.main(["whatif", DEMO, "--model", path, "--mode", "as-recorded"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert "Predicted, as recorded" in told[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([DEMO], "name a change"),
        ([DEMO, "--without", "everything"], "invalid choice"),
        ([DEMO, "--log-structured", "--spare", "-1"], "no number from 0 to 1,000"),
        ([DEMO, "--log-structured", "--spare", "nan"], "no number from 0 to 1,000"),
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
        ([DEMO, "--device", "8:0", "--log-structured"], "no request is of device 8:0; there are those of 7:0"),
        ([SIZES, "--log-structured"], "no requests of block devices"),
        ([DEMO, "--model", str(DATASETS / "bench" / "ext4_disk" / "journal_modes.rec.xz")], "--direct 1"),
        ([DEMO, "--model", str(DATASETS / "README.parquet")], "README.parquet"),
    ],
)
def test_input_that_cannot_be_used_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["whatif", *words]) == 1
    assert says in capsys.readouterr().err
