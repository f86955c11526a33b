"""The published numbers: every one stands in its paper's text, and the lists have every figure of the papers.

The papers are not part of the repository: ANDROSTEP_PAPERS names a directory with their texts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl
import pytest
from support.figure_lists import LISTS, of
from support.tree import ROOT

TEXTS = Path(os.environ.get("ANDROSTEP_PAPERS", ROOT.parent / "shared" / "papers"))

FILES = {"androstep_me13": "000_", "kim": "001_", "luo": "002_", "easyco": "003_", "androstep_fi2013": "004_"}
"""How the name of a paper's text begins."""

WORDS = {
    **{"one": 1, "two": 2, "twice": 2, "three": 3, "four": 4, "quad": 4, "five": 5, "six": 6, "hexa": 6, "seven": 7},
    **{"eight": 8, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8},
}
"""Numbers as words."""

CAPTIONS = {
    "androstep_fi2013": {"Figure": r"图(\d+)", "Table": r"表(\d+)"},
    "easyco": {"Slide": r"(?!)"},
}
"""How a text calls its figures, where it is not by the word in English; slides have no numbers."""


def text(name: str) -> str:
    """Return the text of a paper with single spaces. Skip the test if it is not on this machine."""
    found = sorted(TEXTS.glob(f"{FILES[name]}*.txt"))
    if not found:
        pytest.skip(f"no text of {name} in {TEXTS} (set ANDROSTEP_PAPERS)")
    return " ".join(found[0].read_text("utf-8").split())


def numbers(printed: str) -> set[float]:
    """Return the numbers in a text."""
    figures = re.findall(r"\d+(?:\.\d+)?", printed.replace(",", ""))
    return {float(figure) for figure in figures} | {
        float(number) for word, number in WORDS.items() if word in printed.lower()
    }


def test_every_list_is_of_a_paper() -> None:
    assert set(FILES) == {path.stem for path in LISTS.glob("*.toml")}


@pytest.mark.parametrize("name", FILES)
def test_a_list_has_every_figure_and_table_of_its_paper(name: str) -> None:
    mentioned: set[str] = set()
    patterns = CAPTIONS.get(name, {word: rf"{word}\s+(\d+)" for word in ("Figure", "Table")})
    for word, pattern in patterns.items():
        mentioned |= {f"{word} {number}" for number in re.findall(pattern, text(name))}
    names = {item.name for item in of(name).items}
    if name == "easyco":
        assert names >= {"Slide 5", "Slide 6", "Slide 12", "Slide 13"}
    else:
        assert mentioned
        assert {item for item in names if re.match("Figure|Table", item)} == mentioned


@pytest.mark.parametrize("name", FILES)
def test_every_stated_number_stands_in_the_text(name: str) -> None:
    whole = text(name)
    for row in of(name).published.iter_rows(named=True):
        printed = " ".join(row["printed"].split())
        assert printed in whole, row["id"]
        if row["kind"] == "derived" or row["unit"] == "0/1":
            continue
        if row["item"] == "Table 3" and name == "androstep_fi2013":
            # Both columns without a space between them.
            assert f"{row['value']:g}" in printed.replace(",", ""), row["id"]
        else:
            assert row["value"] in numbers(printed), row["id"]


@pytest.mark.parametrize("name", FILES)
def test_published_numbers_are_whole(name: str) -> None:
    paper = of(name)
    known = paper.published
    assert known.height > 30
    assert known["id"].is_unique().all()
    assert set(known["kind"]) <= {"stated", "derived"}
    told = known.select("id", "item", "place", "metric", "value", "unit", "printed", "meaning")
    assert told.null_count().sum_horizontal().item() == 0
    assert set(known["item"]) <= {item.name for item in paper.items} | {"text"}


@pytest.mark.parametrize("name", FILES)
def test_a_derived_number_is_what_it_is_derived_from(name: str) -> None:
    for row in of(name).published.filter(kind="derived").iter_rows(named=True):
        division = re.match(r"([\d.]+)(?: s)? / ([\d.]+)", row["meaning"])
        assert division, row["id"]
        assert row["value"] == pytest.approx(float(division[1]) / float(division[2]), rel=1e-3), row["id"]
        assert float(division[1]) in numbers(row["printed"]), row["id"]


def test_functions_of_the_tools_are_as_both_papers_have_them() -> None:
    """Table 1 is the same in both."""
    first, second = (
        of(name).published.filter(item="Table 1").select("condition", "metric", "value").sort(pl.all())
        for name in ("androstep_me13", "androstep_fi2013")
    )
    assert first.equals(second)
    assert first.height == 48
