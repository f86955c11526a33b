"""`androstep measure` on the demo: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.tree import ROOT

from androstep_analysis import capture, cli, compare, measures

DEMO = str(ROOT / "datasets/demo")


def rows(out: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads(out)
    return told


def test_by_what_one_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, "volume", "--by", "app,file_type,op", "--json"]) == 0
    expected = measures.volume(capture.open(DEMO).io, by=("package", "file_type"))
    told = {
        (row["metric"], row["package"], row["file_type"], row["op"], row["value"])
        for row in rows(capsys.readouterr().out)
    }
    assert told == set(expected.select("metric", "package", pl.col("file_type", "op").cast(pl.String), "value").rows())


def test_windows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, "rate", "--window", "2s", "--json"]) == 0
    told = rows(capsys.readouterr().out)
    expected = compare.measure_all([capture.open(DEMO)], "rate", window_ns=2 * 10**9)
    rates = expected.select("repeat", "metric", pl.col("op").cast(pl.String), "value").rows()
    assert sorted((row["window"], row["metric"], row["op"], row["value"]) for row in told) == sorted(rates)


def test_depth_in_windows_adds_up_to_that_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, "depth", "--window", "700ms", "--json"]) == 0
    told = pl.DataFrame(rows(capsys.readouterr().out)).pivot("metric", index="window", values="value")
    assert told["window"].to_list() == list(range(told.height))
    whole = dict(measures.depth(capture.open(DEMO).requests).select("metric", "value").iter_rows())
    assert told["time"].sum() == whole["time"]
    for name in ("mean", "idle_ratio"):
        assert (told[name] * told["time"]).sum() / whole["time"] == pytest.approx(whole[name])
    assert told["max"].max() == whole["max"]


@pytest.mark.parametrize("name", [name for name, one in compare.measures().items() if one.needs != ("samples",)])
def test_each_measure_is_printed_with_all_that_it_can_tell_apart(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = compare.measures()[name]
    if not set(one.needs) <= set(capture.open(DEMO).tables):
        assert cli.main(["measure", DEMO, name]) == 1
        assert "has no table" in capsys.readouterr().err
        return
    taken = one.dimensions
    for dimension in taken:
        # The demo was recorded before importance was.
        assert cli.main(["measure", DEMO, name, "--by", dimension]) == (dimension == "state"), dimension
    told = capsys.readouterr()
    assert told.out.strip() or not taken
    assert ("which app was in the foreground" in told.err) == ("state" in taken)


def test_the_list_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(compare.measures())
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "there is no measure nothing"),
        (["mix", "--by", "app"], "--by app: mix, which is of table requests, has device, process"),
        (["idle", "--window", "1s"], "omit the windows, or use depth"),
        (["seeks", "--window", "1s"], "omit the windows"),
    ],
)
def test_what_it_refuses(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["measure", DEMO, *arguments]) == 1
    assert said in capsys.readouterr().err


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending, read in ((".csv", pl.read_csv), (".parquet", pl.read_parquet)):
        place = str(tmp_path / f"x{ending}")
        assert cli.main(["measure", DEMO, "merges", "-o", place]) == 0
        assert read(place).height == 5


def test_the_reason_for_no_rows_and_for_a_wrong_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "app.strace"
    log.write_text("1 0.000001 close(3) = 0 <0.000001>\n")
    assert cli.main(["measure", str(log), "causes"]) == 0
    assert "No rows.\nEmpty tables of this capture: io, requests" in capsys.readouterr().out
    assert cli.main(["measure", "causes", str(log)]) == 1
    assert "the capture comes before the measure" in capsys.readouterr().err
