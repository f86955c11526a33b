"""Every number, figure and export of a capture is of the same requests, and the first lines say of which."""

from __future__ import annotations

import io as io_module
import json
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from androstep_analysis import capture, compare, measures, plot
from androstep_analysis.capture import population
from androstep_analysis.cli import main
from androstep_analysis.common.errors import Loss, LossWarning
from androstep_analysis.datasets import export
from androstep_analysis.present import terminal
from androstep_analysis.present.report import requests as sections
from androstep_analysis.present.summary import summary

EVENTS = """\
  8,0    1        1     0.000000000    10  Q   W 0 + 8 [app]
  8,0    1        2     0.001000000    10  D   W 0 + 8 [app]
  8,0    1        3     0.002000000    10  C   W 0 + 8 [0]
  8,0    1        4     0.003000000    10  Q   W 100 + 16 [app]
  8,0    1        5     0.004000000    10  D   W 100 + 16 [app]
  8,0    1        6     0.005000000     0  C   R 300 + 32 [0]
  8,0    1        7     0.006000000    10  Q   R 500 + 64 [app]
"""
"""A whole write, one whose completion and a read whose issue was recorded by a CPU that is missing, a queued read."""

COUNTED = {"read": 32 * 512, "write": 24 * 512}


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> capture.Capture:
    path = tmp_path_factory.mktemp("partial") / "trace.txt"
    path.write_text(EVENTS)
    return capture.open(path)


def by_op(table: pl.DataFrame, metric: str = "bytes") -> dict[str, float]:
    rows = table.filter(pl.col("metric") == metric).group_by(pl.col("op").cast(pl.String)).agg(pl.col("value").sum())
    return dict(rows.iter_rows())


def test_measures_are_of_the_same_requests(partial: capture.Capture) -> None:
    requests, io = partial.requests, partial.io
    found = {
        "mix": by_op(measures.mix(requests)),
        "block_types": by_op(measures.block_types(io)),
        "volume": by_op(measures.volume(io)),
        "evidence": by_op(measures.evidence(io, "map_source")),
        "rate": {op: value / 1000 for op, value in by_op(measures.rate(requests, bin_ns=10**6), "bandwidth").items()},
        "sizes": {
            op: sum(size * n for size, n in rows.select("size_bytes", "value").iter_rows())
            for (op,), rows in measures.sizes(requests).with_columns(pl.col("op").cast(pl.String)).group_by("op")
        },
        "locality": by_op(measures.locality(requests).filter(pl.col("class") != "forward")),
        "cumulative": by_op(measures.cumulative(requests).group_by("metric", "op", "class").agg(pl.col("value").max()),
                            "cumulative_bytes"),
    }  # fmt: skip
    assert found == dict.fromkeys(found, COUNTED)
    writes = measures.sync(io).filter(metric="bytes")["value"].sum()
    assert writes == COUNTED["write"]


def test_summary_report_and_comparison_are_of_the_same_requests(partial: capture.Capture) -> None:
    told = summary(partial)
    assert {op: entry["bytes"] for op, entry in told["requests"].items()} == COUNTED
    assert told["population"] == {
        "count": 3, "bytes": 56 * 512, "issued": 2, "completed": 2, "completed_bytes": 40 * 512,
        "queued": 1, "queued_bytes": 64 * 512,
    }  # fmt: skip
    _, tables = sections.results(partial)
    points, device, mix = (tables[name].lazy().collect() for name in ("points", "device", "mix"))
    assert points.height == device.height == told["population"]["count"]
    assert by_op(mix) == COUNTED
    assert by_op(compare.measure_all([partial], "mix")) == COUNTED


def test_figures_draw_the_same_requests(partial: capture.Capture) -> None:
    for draw in (plot.size_over_time, plot.sector_over_time):
        points = [np.asarray(of.get_offsets()).shape[0] for of in draw(partial.requests).collections]
        assert sum(points) == 3


def test_exports_are_of_the_same_requests(partial: capture.Capture) -> None:
    def lines(target: str) -> list[str]:
        file = io_module.BytesIO()
        export.write(partial, target, file)
        return file.getvalue().decode().splitlines()

    msr = [line.split(",") for line in lines("msr")]
    moved = {word: sum(int(row[5]) for row in msr if row[3] == word) for word in ("Read", "Write")}
    assert moved == {"Read": COUNTED["read"], "Write": COUNTED["write"]}
    fio = [line.split() for line in lines("fio3")]
    moved = {word: sum(int(row[4]) for row in fio if len(row) == 5 and row[2] == word) for word in COUNTED}
    assert moved == COUNTED


def test_the_first_lines_say_which_and_why(partial: capture.Capture, tmp_path: Path) -> None:
    said = population.sentence(partial.population)
    for part in (
        "3 (28 KiB)",
        "2 (20 KiB) of them (66.7 %)",
        "No completion is recorded for 1 ",
        "No issue is recorded for 1 ",
        "1 (32 KiB) queued",
    ):
        assert part in said
    assert said in " ".join(terminal.tables(partial).splitlines()[:10])
    assert "counted 3 that reached a device, 2 of them completed" in repr(partial)
    whole = tmp_path / "whole.txt"
    whole.write_text("".join(EVENTS.splitlines(keepends=True)[:3]))
    assert "counted" not in repr(capture.open(whole)), "nothing is missing of it"


def test_a_missing_cpu_is_named_as_the_reason(partial: capture.Capture) -> None:
    lost = population.sentence(partial.population, [Loss("missing", 1, "files of the set are missing")])
    assert "it may be among the lost events" in lost and "no loss is recorded" not in lost
    assert "no loss is recorded" in population.sentence(partial.population)


def test_a_comparison_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", EVENTS), ("b", EVENTS.replace("100 +", "200 +"))):
        (tmp_path / name).write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--measure", "mix", "--json"])
        told = json.loads(capsys.readouterr().out)
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--measure", "mix"])
    assert [one["population"]["count"] for one in told["captures"]] == [3, 3]
    assert "a: All numbers count the requests that reached a device, 3 (28 KiB)." in capsys.readouterr().out
