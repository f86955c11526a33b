"""The page of a comparison has the contents of the tables, and no name in a capture can inject markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support import made
from support.pages import HOSTILE, Page

from androstep_analysis import cli, compare
from androstep_analysis.common import markup, quantities
from androstep_analysis.compare import words
from androstep_analysis.compare.result import Result
from androstep_analysis.present.report import comparison


def result(names: list[str], *, limit: float | None = None, by: tuple[str, ...] = ("workload",)) -> Result:
    """Return the result for recordings with different shares of reads, in windows of 100 ms."""
    random = np.random.default_rng(7)
    recordings = [
        made.named(
            name,
            [
                {"op": "read" if random.random() < 0.2 + 0.6 * number / len(names) else "write", "issue_ns": at * 10**6}
                for at in range(4000)
            ],
            workload=name,
        )
        for number, name in enumerate(names)
    ]
    measured = compare.measure_all(recordings, "mix", window_ns=10**8)
    return Result(
        measure="mix",
        by=by,
        recordings=recordings,
        measured=measured,
        ranked=compare.ranking(measured, by=by),
        compared=compare.compare(measured, by=by),
        gated=None if limit is None else compare.gate(measured, by=by, limit=limit),
    )


def page_of(one: Result, directory: Path) -> Page:
    comparison.write(one, directory / "new" / "page.html")
    return Page((directory / "new" / "page.html").read_text("utf-8"))


def test_hostile_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    page = page_of(result([HOSTILE[1], HOSTILE[8]]), tmp_path)
    page.check_harmless()
    for name in (HOSTILE[1], HOSTILE[8]):
        assert markup.visible(name) in "\n".join(page.text)


def test_every_row_of_the_tables_is_on_the_page(tmp_path: Path) -> None:
    one = result(["mail", "game", "maps"], limit=0.05)
    assert one.gated is not None
    page = page_of(one, tmp_path)
    for row in one.compared.iter_rows(named=True):
        key = (*words.key(row, one.dims), row["group_first"], row["group_second"], words.verdict(row))
        assert page.row(*key)[:3] == [
            quantities.in_unit(row[name], row["unit"]) for name in ("first", "second", "difference")
        ]
    for row in one.gated.iter_rows(named=True):
        assert page.row(*words.key(row, one.dims), row["group_first"], row["group_second"], row["gate"])
    for row in one.ranked.iter_rows(named=True):
        cells = page.row(*words.key(row, one.dims), row["workload"], quantities.in_unit(row["value"], row["unit"]))
        assert cells[-1] == words.rank(row)
    sentences = words.sentences(one.compared, one.dims)
    assert sentences and set(sentences) <= set(page.text)
    figures = sum(tag == "img" for tag, _ in page.elements)
    metrics = one.compared["metric"].n_unique()
    assert figures == 2 * metrics, "for each metric the values and the differences"


def test_one_group_has_values_and_nothing_to_compare_with(tmp_path: Path) -> None:
    page = page_of(result(["mail"]), tmp_path)
    assert "One group: there is nothing to compare it with." in page.text
    assert sum(tag == "img" for tag, _ in page.elements) > 0


def test_an_empty_measure_is_said(tmp_path: Path) -> None:
    one = result(["mail", "game"])
    empty: dict[str, Any] = {name: getattr(one, name).clear() for name in ("measured", "ranked", "compared")}
    page = page_of(Result(measure="mix", by=one.by, recordings=one.recordings, **empty), tmp_path)
    assert any("nothing of this measure is in it" in text for text in page.text)


def test_sentences_keep_the_sign_of_an_interval_that_holds_zero() -> None:
    one = result(["mail", "game"])
    row = one.compared.filter(pl.col("verdict").is_in(["higher", "lower"])).head(1)
    wide = row.with_columns(difference_lo=pl.lit(-0.1), difference_hi=pl.lit(0.5), verdict=pl.lit("higher"))
    assert "[-10 to 50]" in words.sentences(wide, one.dims)[0]


def test_the_command_writes_the_page_beside_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo = Path(__file__).parents[2] / "datasets" / "demo"
    page = tmp_path / "page.html"
    arguments = ["compare", str(demo), "--measure", "mix", "--by", "workload", "--windows", "1s"]
    assert cli.main([*arguments, "--report", str(page)]) == 0
    assert "Values, with 95 % intervals" in capsys.readouterr().out
    Page(page.read_text("utf-8")).check_harmless()
