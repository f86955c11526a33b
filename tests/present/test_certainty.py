"""An inferred result is marked as inferred wherever a person reads it, and a fact never is.

The demo is displayed twice: once with all owners, files and types inferred, and once with all of them facts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.needs import left_to_prove

import androstep_analysis as androstep
from androstep_analysis import advice, compare, measures, plot, report, schema
from androstep_analysis.capture.capture import Capture
from androstep_analysis.compare.measures import dimensions, known, measured
from androstep_analysis.datasets import export
from androstep_analysis.explore import Explorer
from androstep_analysis.measures.recording import Recording
from androstep_analysis.present import headline, sheets, terminal
from androstep_analysis.present.advice import words
from androstep_analysis.present.live import KEYS, Moment, ranking
from androstep_analysis.present.live.words import cells
from androstep_analysis.present.sheets import Sheet
from androstep_analysis.present.terminal import text
from androstep_analysis.present.terminal.headline import shown

DEMO = Path(__file__).parents[2] / "datasets/demo"
NAMES = ("path", "package", "owner_comm", "owner_package")
LEAST = 6
"""Shorter names are ignored, because they may be part of any word."""

FACTS = {"map_source": "tracepoint", "owner_via": "write_begin", "source": "tracepoint"}


@cache
def as_all(certainty: str) -> Capture:
    """Return the demo with all names `inferred`, or all of them a `fact`.

    It has no metadata without an owner, whose cost is always divided by inference among those who changed metadata.
    """
    demo = androstep.open(DEMO)
    tables = dict(demo.tables)
    for name in ("io", "files"):
        columns = [column for column in FACTS if column in schema.table(name).polars]
        tables[name] = tables[name].with_columns(
            pl.when(pl.col(column).is_not_null() & (pl.col(column) != "unknown"))
            .then(pl.lit("inferred" if certainty == "inferred" else FACTS[column]))
            .otherwise(pl.col(column).cast(pl.String))
            .cast(schema.enum(name, column))
            .alias(column)
            for column in columns
        )  # fmt: skip
    package = pl.when(pl.col("owner_pid").is_not_null()).then("com.example." + pl.col("owner_comm"))
    is_nobodys = pl.col("block_type").is_in(["metadata", "directory"]) & (pl.col("owner_via") == "unknown")
    tables["io"] = tables["io"].with_columns(owner_package=package).filter(~is_nobodys)
    return Capture(demo.title, demo.manifest, tables, demo.about)


def names(capture: Capture) -> set[str]:
    io = capture.io.select(NAMES).unique().collect()
    return {name for column in io for name in column.drop_nulls() if len(name) >= LEAST}


def check(certainty: str, pieces: Iterable[str]) -> None:
    """Check that all pieces with a name are marked as inferred, or that none is."""
    every = list(pieces)
    naming = [piece for piece in every if any(name in piece for name in names(as_all(certainty)))]
    assert naming
    if certainty == "inferred":
        assert not [piece for piece in naming if "inferred" not in piece]
    else:
        assert not [piece for piece in every if "inferred" in piece]


OF_PIECES = [name for name, one in compare.measures().items() if one.needs == ("io",) and name != "write_cost"]
"""Measures whose names come from pieces alone. Other measures also have facts from events."""

both = pytest.mark.parametrize("certainty", ["inferred", "fact"])


@both
def test_the_summary(certainty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    capture = as_all(certainty)
    told = headline.of(capture)
    (types,) = (one for one in told.sentences if one.about == "types")
    causes = [one for one in told.tables if isinstance(one, Sheet)]
    clauses = re.split(r"; |\), ", str(types))
    lines = [line for one in causes for line in text.sheet(replace(one, note="")).splitlines()[3:]]
    clauses += [line for line in lines if "unknown" not in line]
    assert all("inferred" in one for one in clauses) == (certainty == "inferred")
    check(certainty, clauses)
    tables = terminal.tables(capture).split("\n\n")
    named = [table for table in tables if re.match(r"(Processes|Apps|Files|Block types|File types)\b", table)]
    assert len(named) == 5
    check(certainty, [line for table in named for line in table.splitlines()[1:] if "unknown" not in line][1:])


def test_the_only_name_of_a_row_has_the_mark() -> None:
    capture = as_all("inferred")
    largest = measures.largest(capture.tables, 5).filter(pl.col("owner").is_not_null())
    nothing = [pl.lit(None, largest.schema[name]).alias(name) for name in ("path", "ino", "block_type")]
    for rows, marked in ((largest.with_columns(nothing), "owner"), (largest, "why")):
        for sheet in sheets.causes(rows, measures.mix(capture.requests)):
            for name in ("owner", "why"):
                assert {one.endswith("(inferred)") for one in sheet.rows[name]} == {name == marked}


def test_types_in_tables_have_their_certainty() -> None:
    for table in ("Block types", "File types"):
        (found,) = (one for one in terminal.tables(as_all("inferred")).split("\n\n") if one.startswith(table))
        rows = [line for line in found.splitlines()[3:] if "unknown" not in line and " –  " not in line]
        assert rows and all(line.rstrip().endswith("inferred") for line in rows)


@both
@pytest.mark.parametrize("by", ["app", "process", "file", "type"])
def test_top(certainty: str, by: str) -> None:
    capture = as_all(certainty)
    moment = Moment(0, 10**9, capture.requests.collect(), capture.io.collect(), 1, 0, 1.0, 0.0, 0.0)
    found = [row[0] for row in cells(ranking(moment, by), by)]
    named = [one for one in found if one != "unknown" and not one.startswith("(")]
    assert named and all(one.endswith("(inferred)") == (certainty == "inferred") for one in named)
    assert KEYS.keys() > {by}


@both
def test_findings(certainty: str) -> None:
    capture = as_all(certainty)
    found = advice.advise(capture)
    check(certainty, found.filter(status="found")["evidence"])
    told = words.headline(found, advice.triggers(), capture.first_ns, every=False)
    check(certainty, [line for line in shown(told).split("\n\n") if line])


@both
def test_the_explorer(certainty: str) -> None:
    capture = as_all(certainty)
    explorer = Explorer(capture.tables, "demo")
    answers: list[dict[str, Any]] = []
    explorer.widget.send = lambda content, buffers=None: answers.append(content)

    def ask(kind: str, **more: Any) -> dict[str, Any]:
        explorer._answer({"kind": kind, "from": "here", **more})
        return answers[-1]

    about = ask("about")
    low, high = about["axes"]["sector"]
    view = {"of": "sector", "begin_ns": about["begin"], "end_ns": about["end"], "low": low, "high": high}
    lists = ask("lists", view=view, open=[])["lists"]
    rows = [row["name"] for name in ("file", "app", "process") for row in lists[name] if "name" in row]
    check(certainty, rows)
    story = ask("story", row=None, begin_ns=about["begin"], by=1)
    lines = [f"{title}: {text}" for section in story["sections"] for title, text in section["lines"]]
    of_names = [line for line in lines if line.startswith(("owner", "app", "file")) and "unknown" not in line]
    assert all("inferred" in line for line in of_names) or certainty == "fact"


@both
@pytest.mark.parametrize("name", left_to_prove(OF_PIECES, {"volume", "latency", "write_cost"}.__contains__))
def test_measures(certainty: str, name: str) -> None:
    """Every row with a name has its inferred share."""
    capture = as_all(certainty)
    there = compare.measures()[name].dimensions
    for by in (("file",), ("process",)):
        columns = tuple(there[word] for word in by if word in there)
        if not columns:
            continue
        try:
            found = measured(Recording.of(capture), known(name, None), None, columns).table
        except androstep.InputError:
            continue
        table = found.select("metric", *columns, *[c for c in found.columns if c in OTHERS], "value", "unit", "n",
                             "inferred")  # fmt: skip
        if table.filter(pl.col(columns[0]).str.len_chars() >= LEAST).is_empty():
            continue
        told = table.drop_nulls(columns)
        in_io = told.join(capture.io.select(columns).unique().collect(), on=columns, how="semi")
        is_whole = 1.0 if certainty == "inferred" else 0.0
        assert set(in_io["inferred"].drop_nulls()) <= {is_whole}
        assert in_io["inferred"].null_count() == 0
        check(certainty, (" ".join(row) for row in androstep.show(told.drop_nulls("inferred")).rows))


@pytest.mark.parametrize("name", ["file_types", "block_types", "bursts"])
def test_a_comparison_says_where_names_are_only_inferred(name: str) -> None:
    sure, likely = (Recording.of(as_all(certainty)) for certainty in ("fact", "inferred"))
    likely = replace(likely, title="likely", facts={**likely.facts, "capture_id": "0" * 32})
    measured = compare.measure_all([replace(sure, title="sure"), likely], name)
    groups = compare.summarise(measured, by=["capture"])
    named = groups.drop_nulls("inferred")
    assert set(named.filter(capture="sure")["inferred"]) == {0.0}
    assert set(named.filter(capture="likely")["inferred"]) == {1.0}
    notes = compare.compare(measured, by=["capture"]).join(
        named.select("metric", *dimensions(measured)).unique(),
        on=["metric", *dimensions(measured)],
        nulls_equal=True,
    )["note"]
    assert notes.len()
    assert notes.str.contains("names only inferred of 0% and 100% of the bytes", literal=True).all()


OTHERS = ("op", "class", "part", "period", "duration_up_to_ns", "top", "cache_bytes", "dev", "block_type", "file_type",
          "sync", "step", "date", "day_from_start")  # fmt: skip


@both
def test_figures(certainty: str) -> None:
    capture = as_all(certainty)
    io = measures.counted(capture.io)
    drawn = [
        plot.volume(measures.volume(io)),
        plot.volume(measures.volume(io, by=("path",))),
        plot.bursts(measures.bursts(io)),
        plot.write_cost(measures.write_cost(capture.tables, by=("owner_comm",))),
        plot.readahead(measures.readahead(capture.tables, by=["owner_comm"])),
        plot.block_types(measures.block_types(io)),
        plot.file_types(measures.file_types(io)),
        plot.lifetimes(measures.lifetimes(io, by=["file_type"])),
    ]
    for number, ax in enumerate(drawn):
        legend = ax.get_legend()
        texts = {label.get_text() for label in ax.get_yticklabels()}
        texts |= {label.get_text() for label in legend.get_texts()} if legend else set()
        assert any("inferred" in one for one in texts) == (certainty == "inferred"), number


@both
def test_a_perfetto_trace(certainty: str, tmp_path: Path) -> None:
    """The name of a slice says whether owner and file are inferred."""
    with (tmp_path / "trace").open("wb") as file:
        export.write(as_all(certainty), "perfetto", file)
    trace = (tmp_path / "trace").read_bytes()
    assert (b"write data, file (inferred), owner (inferred)" in trace) == (certainty == "inferred")
    assert (b"write data" in trace) and (b"owner (inferred)" in trace) == (certainty == "inferred")


@pytest.mark.prove
@both
def test_the_report(certainty: str, tmp_path: Path) -> None:
    report.write(as_all(certainty), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = page[: page.index('id="trust"')] if 'id="trust"' in page else page
    page = re.sub(r"<dd>.*?</dd>", "", page, flags=re.DOTALL)  # the definitions, which have lists, too
    rows = re.findall(r"<tr>.*?</tr>|<li>.*?</li>", page, re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]*>", " ", row)) for row in rows]
    check(certainty, texts)
