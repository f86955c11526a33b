"""notebooks/05_versions.ipynb says of datasets/kernels what `androstep compare` says, and what stands in its text."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from support.tree import ROOT

from androstep_analysis import cli

NOTEBOOK = ROOT / "notebooks/05_versions.ipynb"
DATA = ROOT / "datasets/kernels"

TOLD = """\
rows = lambda table: table.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts()
import json
print(json.dumps({"mix": rows(mix), "counts": rows(counts.select(COLUMNS)), "claims": rows(claims)}))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, list[dict[str, Any]]]:
    """Tables of the notebook, run from top to bottom."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(TOLD))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    printed = "".join(one["text"] for one in notebook.cells[-1]["outputs"] if one.get("name") == "stdout")
    return json.loads(printed)


def test_its_numbers_are_those_of_the_command(
    told: dict[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_what_its_text_says(told: dict[str, list[dict[str, Any]]]) -> None:
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
