"""MOST's output and the counts of its Viewer, compared with the Viewer's files and with independent code."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus, made
from support.tree import ROOT

from androstep_analysis import capture, cli
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.datasets import export
from androstep_analysis.datasets.export import most_viewer as most
from androstep_analysis.present.summary import summary

DEMO = ROOT / "datasets/demo"
DAT = [f"{stem}_rwbs{number}.dat" for stem in ("block", "file") for number in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    expected: dict[str, Any] = json.loads(corpus.path("androstep/oracle_most.json").read_text())
    return expected


def exported(path: Path, to: Path) -> Path:
    assert cli.main(["export", str(path), "--to", "most", "-o", str(to)]) == 0
    return to


# The Viewer's test2.py reduces result.po to result3.po, which its counting scripts read.
@pytest.mark.parametrize("name", ["result.po", "result3.po"])
def test_the_viewers_eight_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["summary", str(corpus.path(f"androstep/{name}")), "--compat", "most"]) == 0
    expected = "".join(f"{dat}\n{corpus.path(f'androstep/{dat}').read_text()}\n" for dat in DAT)
    assert capsys.readouterr().out == expected


def test_the_viewers_counts_as_json(oracle: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["summary", str(corpus.path("androstep/result.po")), "--compat", "most", "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    for direction, expected in oracle["result_po"]["completions_by_dir"].items():
        assert counted["block_types"][direction] == {
            letter: {"count": expected["count_by_block"][letter], "kb": expected["KB_by_block"][letter]}
            for letter in "DJM"
        }
    for direction, expected in oracle["result_po"]["file_types_of_completions"]["viewer_rule"].items():
        found = {name: values for name, values in counted["file_types"][direction].items() if values["count"]}
        assert {name: values["count"] for name, values in found.items()} == expected["count"]
        assert {name: values["kb"] for name, values in found.items()} == expected["KB"]


def test_what_the_old_parser_said_of_hard_cases_is_counted_as_it_stands() -> None:
    """The original wrote these lines for a handmade image: flags with two letters of direction, discards, flushes."""
    path = corpus.path("androstep/most_cases.out.txt")
    with pytest.warns(LossWarning, match="1 line cannot be read"):
        counted = summary(capture.open(path), compat="most")["block_types"]
    direction, expected = "N", dict[tuple[str, str], tuple[int, int]]()
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        # The Viewer's rule: a line without a direction has that of the previous line.
        direction = next((d for d in ("R", "W") if d in fields[2]), "N" if fields[2] == "N" else direction)
        if fields[1] == "C" and len(fields) > 7 and fields[7]:
            count, kb = expected.get((direction, fields[7]), (0, 0))
            expected[direction, fields[7]] = (count + 1, kb + int(fields[4]) // 2)
    found = {(d, kind): (value["count"], value["kb"]) for d, row in counted.items() for kind, value in row.items()}
    assert {key: value for key, value in found.items() if value[0]} == expected


def test_export_gives_back_a_po_file(tmp_path: Path) -> None:
    """The file is equal byte for byte, except for the number that MOST's kernel added to the pid.

    It is 100000 for a journal and 500000 for a database. A capture stores the thread id without it, and the path shows
    the class of the file.
    """
    original = corpus.path("androstep/result.po").read_text()
    without_class, changed = re.subn(
        r"(?m)^((?:[^\t]*\t){5})([15])(\d{5})(?=\t)", lambda m: f"{m[1]}{int(m[3]):4}", original
    )
    assert changed == 250  # oracle_most.json, pid_class_prefix: 202 and 48
    assert exported(corpus.path("androstep/result.po"), tmp_path / "result.po").read_text() == without_class


@pytest.mark.parametrize("name", ["demo", "androstep/result.po", "blktrace_bin/centos7.blkparse.txt.gz"])
def test_an_exported_capture_counts_the_same(name: str, tmp_path: Path) -> None:
    first = capture.open(DEMO if name == "demo" else corpus.path(name))
    again = capture.open(exported(DEMO if name == "demo" else corpus.path(name), tmp_path / "again.po"))
    one, two = summary(first, compat="most"), summary(again, compat="most")
    assert two["block_types"] == one["block_types"]
    assert two["file_types"] == one["file_types"]
    assert two["requests"] == one["requests"]
    events = first.block_events.select(letter(), "rwbs").drop_nulls().group_by("letter", "rwbs").len().collect()
    expected = {f"{action} {rwbs}": n for action, rwbs, n in events.iter_rows()}
    assert two["events_by_rwbs"] == expected


def letter() -> pl.Expr:
    """Return blkparse's letter for the action of an event; null if a line cannot state it."""
    return pl.col("action").cast(pl.String).replace_strict(export.most.LETTERS, default=None).alias("letter")


def test_a_piece_of_the_default_summary_is_a_letter_of_the_export(tmp_path: Path) -> None:
    """The demo's completed writes of journal blocks are counted by this package and in the lines of the export."""
    done = [line.split("\t") for line in exported(DEMO, tmp_path / "demo.po").read_text().splitlines()]
    kib = sum(int(line[4]) // 2 for line in done if line[1] == "C" and "W" in line[2] and line[7:8] == ["J"])
    assert kib * 1024 == summary(capture.open(DEMO))["block_types"]["write"]["journal"]["bytes"]


HOSTILE = """\
    0.000000000\tQ\tWS\t       8\t   8\t  10\t     evil\x1b[2J\x9b31m\x07\tD\t/data/a\x1b]0;x\x07.db
    0.000001000\tD\tWS\t       8\t   8\t  10\t     evil\x1b[2J\x9b31m\x07\tD\t/data/a\x1b]0;x\x07.db
    0.000002000\tC\tWS\t       8\t   8\t  10\t     evil\x1b[2J\x9b31m\x07\tD\t/data/a\x1b]0;x\x07.db
"""


def test_names_cannot_break_a_line_or_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hostile.po"
    path.write_text(HOSTILE)
    assert cli.main(["export", str(path), "--to", "most"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(len(line.split("\t")) == 9 for line in lines)
    assert all(character.isprintable() or character == "\t" for line in lines for character in line)
    assert lines[2].split("\t")[6:] == [f"{'evil?[2J?31m?':>20}", "D", "/data/a?]0;x?.db"]


def test_a_name_with_a_line_break_stays_one_line() -> None:
    name, path = "a\nb\tc\r", "/x\ny"
    event = {"sector": 8, "nr_sectors": 8, "rwbs": "WS", "comm": name, "block_type": "data", "path": path}
    opened = made.capture(events=[{**event, "ts_ns": number} for number in range(3)], format="most_po")
    written = io.BytesIO()
    export.most.write(opened, written)
    lines = written.getvalue().decode().split("\n")
    assert [line.split("\t")[6:] for line in lines] == [[f"{'a?b?c?':>20}", "D", "/x?y"]] * 3 + [[]]


def test_a_percentage_is_printed_as_python_2_did() -> None:
    none = {"count": 0, "kb": 0}
    rows = {"R": {"A": none, "B": none}, "W": {"A": {"count": 1, "kb": 8}, "B": {"count": 2, "kb": 0}}}
    tables = most.viewer_tables({"block_types": rows, "file_types": rows})
    assert list(tables) == DAT
    assert tables["block_rwbs2.dat"] == "\tA\tB\nR:0\t0\t0\nW:3\t33.3333333333\t66.6666666667\nN:0\t0\t0\n"
    assert tables["file_rwbs4.dat"] == "\tA\tB\nR:0KB\t0\t0\nW:8KB\t100.0\t0.0\nN:0KB\t0\t0\n"
