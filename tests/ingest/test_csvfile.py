"""CSV files that a spreadsheet displays without evaluating formulas."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from androstep_analysis.common import csvfile


def cells(table: pl.DataFrame, path: Path) -> list[list[str]]:
    """Return the contents of the file, read by Python's csv module."""
    csvfile.write(table, path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_name_is_no_formula(start: str, tmp_path: Path) -> None:
    name = f"{start}cmd|' /C calc'!A0"
    table = pl.DataFrame({"path": [name], "offset": [-5], "values": [[name, "b"]]})
    header, row = cells(table, tmp_path / "x.csv")
    escaped = name.replace("\t", "\\x09").replace("\r", "\\x0d")
    assert header == ["path", "offset", "values"]
    assert row == [f"'{escaped}", "-5", f"'{escaped}\nb"]


def test_control_characters_are_written_out(tmp_path: Path) -> None:
    table = pl.DataFrame({"path": ['a\x1b[2J\n\x9b\x7f\x00,"b"', None, ""]})
    assert cells(table, tmp_path / "x.csv")[1:] == [['a\\x1b[2J\\x0a\\x9b\\x7f\\x00,"b"'], [], [""]]


@pytest.mark.prove
@given(st.lists(st.text(), min_size=1))
def test_other_text_stays_as_it_is(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    found = [row[0] for row in cells(pl.DataFrame({"name": names, "number": 1}), path)[1:]]
    for name, cell in zip(names, found, strict=True):
        assert cell[:1] not in ("=", "+", "-", "@")
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in cell)
        if name.isprintable() and name[:1] not in ("=", "+", "-", "@"):
            assert cell == name


def test_an_output_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        csvfile.write(pl.DataFrame({"a": [1]}), tmp_path / "missing" / "x.csv")
