"""The text and numbers of notebooks/05_versions.ipynb agree with `androstep compare` on datasets/kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.notebooks import NOTEBOOKS, run
from support.tree import ROOT

from androstep_analysis import cli

DATA = ROOT / "datasets/kernels"

TOLD = """\
rows = lambda table: table.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
import json, os
from pathlib import Path
found = {"mix": rows(mix), "counts": rows(counts.select(COLUMNS)), "claims": rows(claims)}
Path(os.environ["ANDROSTEP_FIGURES"], "tables.json").write_text(json.dumps(found))
"""


@pytest.mark.prove
def test_its_numbers_and_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(NOTEBOOKS / "05_versions.ipynb", tmp_path, TOLD)
    told: dict[str, list[dict[str, Any]]] = json.loads((tmp_path / "tables.json").read_text())
    check_numbers(told, capsys)
    check_text(told)


def check_numbers(told: dict[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the numbers are those of `androstep compare`."""
    words = (
        "--measure",
        "mix",
        "--metric",
        "bytes",
        "--where",
        "op=write",
        "--by",
        "kernel,page_bytes,fs_type,workload",
    )
    capsys.readouterr()
    assert cli.main(["compare", str(DATA), *words, "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    keys = ["kernel", "page_bytes", "fs_type", "workload"]
    mine = (
        pl.DataFrame(told["mix"]).filter(metric="bytes", op="write").group_by(keys).agg(value=pl.col("value").median())
    )
    said = {tuple(str(row[key]) for key in keys): row["value"] for row in groups}
    assert {tuple(str(row[key]) for key in keys): row["value"] for row in mine.iter_rows(named=True)} == pytest.approx(
        said
    )
    assert len(said) == 100
    assert {row["n"] for row in groups} == {8}


def check_text(told: dict[str, list[dict[str, Any]]]) -> None:
    """Check what the text says of the numbers."""

    def ratios(metric: str, op: str, workload: str, fs_type: str) -> dict[str, tuple[str, float]]:
        return {
            row["group_second"] if row["group_first"] == "arm64-6.12" else row["group_first"]: (
                row["verdict"],
                row["ratio_lo"],
            )
            for row in told["counts"]
            if (row["metric"], row["op"], row["workload"], row["fs_type"]) == (metric, op, workload, fs_type)
        }

    assert "arm64-6.12-16k" in ratios("bytes", "write", "sqlite_delete", "f2fs")
    assert ratios("bytes", "write", "sqlite_delete", "ext4") == {}
    assert set(ratios("count", "flush", "sqlite_delete", "f2fs")) == {"arm64-6.1"}
    assert "arm64-sid" in ratios("count", "write", "camera", "ext4")
    claims = {row["measured"]: row for row in told["claims"]}
    assert 1.05 < claims["WAL (FULL) over DELETE"]["bytes"] < 1.15
