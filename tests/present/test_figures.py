"""The figures of the papers: their lists are complete, and errors in a figure are reported.

The notebooks themselves run in test_notebooks.py, which checks what they write.
"""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from support import figure_lists
from support.figure_lists import figures, of, papers
from support.notebooks import of_one_cell
from support.tree import ROOT

from androstep_analysis import plot
from androstep_analysis.common.errors import InputError

LISTS = sorted(path.stem for path in figure_lists.LISTS.glob("*.toml"))

LIST = """\
title = "A paper"
cite = "Somebody, 2013"
published = "androstep_fi2013.csv"

[[figure]]
name = "Figure 8"
shows = "inserts of <phones> | others"
source = "numbers made up by a test"
data = ["datasets/published/*.csv"]
cites = ["fig8-gs3-jb"]

[[figure]]
name = "Table 1"
table = true
shows = "what there is"
source = "more numbers made up by a test"
data = ["datasets/published/androstep_fi2013.csv"]
cites = ["table1-sequential-write-mobibench"]

[[figure]]
name = "Figure 9"
shows = "a drawing"
missing = "it has no data"
"""

HOSTILE = "<b>a</b> | [b](c) $d$"
ROWS = pl.DataFrame({"name": [HOSTILE, None], "count": [1234567, 8], "share": [0.123456, 25516.0]})

NOTEBOOK = """\
import polars as pl
from pathlib import Path

from androstep_analysis import plot
from androstep_analysis.present.papers import Paper

paper = Paper("paper.toml", Path({root!r}))
table = pl.DataFrame({{"metric": ["tps"], "test": ["sqlite_insert"], "device": ["this"], "value": [2.0]}})
says = "This does <2> a second."
paper.save("Figure 8", plot.bench_devices(table, device="device"), table, says=says)
paper.save("Table 1", table, says="There is one.")
"""


FILES = {f"figure-08{x}" for x in papers.FIGURE_SUFFIXES} | {f"table-01{x}" for x in papers.TABLE_SUFFIXES}


def listed(directory: Path, text: str = LIST) -> papers.Paper:
    """Return a paper with this list."""
    (directory / "paper.toml").write_text(text)
    return papers.Paper(directory / "paper.toml", ROOT)


def made(paper: papers.Paper, out: Path) -> Path:
    """Make Figure 8 and Table 1 of the paper in `out`, and return the directory of their files."""
    table = pl.DataFrame({"metric": ["tps"], "test": ["sqlite_insert"], "device": ["this"], "value": [2.0]})
    drawn = plot.bench_devices(table, device="device")
    paper.save("Figure 8", drawn, table, says="It does <2> a second.", out=out)
    paper.save("Table 1", ROWS, says="There are two.", out=out)
    return out / paper.name


# -- the lists --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_a_list_names_data_that_is_there(name: str) -> None:
    paper = of(name)
    made_items = [item for item in paper.items if not item.missing]
    assert [item.title for item in made_items if item.lacking and not item.needs_corpus] == []
    assert paper.path.with_suffix(".ipynb").exists() == bool(made_items)
    # Every figure that needs the corpus also has a variant without it.
    everywhere = {item.name for item in paper.items if item.missing or not item.needs_corpus}
    assert {item.name for item in paper.items} == everywhere


def test_every_notebook_has_a_list() -> None:
    assert {path.stem for path in figure_lists.LISTS.glob("*.ipynb")} <= set(LISTS)


def test_the_page_has_the_list(tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text((ROOT / "docs" / "figures.md").read_text("utf-8"), encoding="utf-8")
    figures.write_list(page)
    assert page.read_text("utf-8") == (ROOT / "docs" / "figures.md").read_text("utf-8"), "run `make tables`"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('missing = "it has no data"', ""), r"Figure 9 needs either source and data, or why it is missing"),
        (('data = ["datasets/published/*.csv"]', ""), r"Figure 8 needs either source and data"),
        (('name = "Figure 9"', 'name = "Figure 8"'), r"Figure 8: listed twice"),
        (('shows = "a drawing"', 'show = "a drawing"'), r"Figure 9: .*'show'"),
        (('cite = "Somebody, 2013"', ""), r"no cite"),
        (('title = "A paper"', "title = A paper"), r"paper.toml: no TOML"),
    ],
)
def test_a_list_that_is_wrong_is_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        listed(tmp_path, LIST.replace(*change))


# -- what is wrong with a figure --------------------------------------------------------------------------------------


def test_nothing_is_wrong(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    directory = made(paper, tmp_path)
    assert figures.problems(paper, tmp_path) == []
    assert {path.name for path in directory.iterdir()} == FILES
    told = json.loads((directory / "figure-08.json").read_text())
    assert told["source"] == "numbers made up by a test"
    assert [file["path"] for file in told["data"]] == sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "datasets/published").glob("*.csv")
    )
    assert [(row["id"], row["value"]) for row in told["published"]] == [("fig8-gs3-jb", 63.0)]


@pytest.mark.parametrize("suffix", papers.FIGURE_SUFFIXES)
def test_a_file_that_was_not_made_is_told(suffix: str, tmp_path: Path) -> None:
    paper = listed(tmp_path)
    (made(paper, tmp_path) / f"figure-08{suffix}").unlink()
    assert figures.problems(paper, tmp_path) == [
        f"paper: Figure 8: was not made (figure-08{suffix}); make it in paper.ipynb or list why it is missing"
    ]


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    (made(paper, tmp_path) / "figure-08.png").write_bytes(b"")
    assert "figure-08.png" in figures.problems(paper, tmp_path)[0]


def test_a_figure_that_nothing_lists_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    (made(paper, tmp_path) / "figure-77.png").write_bytes(b"png")
    assert figures.problems(paper, tmp_path) == ["paper: figure-77.png belongs to no entry of its list; remove it"]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("data", [], "names no data"),
        ("data", [{"path": "datasets/published/kim2011.csv", "sha256": "0" * 64}], "made from other data"),
    ],
)
def test_a_figure_of_other_data_is_told(field: str, value: list[object], message: str, tmp_path: Path) -> None:
    paper = listed(tmp_path)
    origin = made(paper, tmp_path) / "figure-08.json"
    origin.write_text(json.dumps({**json.loads(origin.read_text()), field: value}))
    assert message in "\n".join(figures.problems(paper, tmp_path))


def test_a_published_number_that_is_another_one_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    origin = made(paper, tmp_path) / "figure-08.json"
    told = json.loads(origin.read_text())
    told["published"][0]["value"] = 64.0
    origin.write_text(json.dumps(told))
    assert figures.problems(paper, tmp_path) == [
        "paper: Figure 8: the published number fig8-gs3-jb is not as in androstep_fi2013.csv"
    ]


def test_a_published_number_of_another_figure_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path, LIST.replace('"fig8-gs3-jb"', '"fig9-fsync", "s4-ram"'))
    made(paper, tmp_path)
    assert figures.problems(paper, tmp_path) == ["paper: Figure 8: the published number fig9-fsync is of Figure 9"]


def test_data_that_is_not_in_the_tree_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path, LIST.replace("published/*.csv", "published/*.parquet"))
    assert figures.problems(paper, tmp_path)[0] == (
        "paper: Figure 8: its data datasets/published/*.parquet is not in the tree"
    )


def test_without_the_corpus_its_figures_are_left_out(tmp_path: Path) -> None:
    paper = listed(tmp_path, LIST.replace("datasets/published/*.csv", "corpus/no such file"))
    assert not any("Figure 8" in sentence for sentence in figures.problems(paper, tmp_path))
    assert "Not made here" in figures.html([paper], tmp_path)


def test_saving_what_cannot_be_is_refused(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    table = pl.DataFrame({"a": [1]})
    for name, message in {
        "Figure 9": "Figure 9 is listed as missing",
        "Figure 10": "no entry is called 'Figure 10'",
        "Figure 8": "Figure 8 is listed as a figure",
    }.items():
        with pytest.raises(InputError, match=message):
            paper.save(name, table, says="", out=tmp_path)
    with pytest.raises(InputError, match="has no fig8-gs9"):
        made(listed(tmp_path, LIST.replace("fig8-gs3-jb", "fig8-gs9-*")), tmp_path)
    assert not (tmp_path / "paper").exists()


# -- making them ------------------------------------------------------------------------------------------------------


def write_notebook(directory: Path, source: str) -> None:
    (directory / "paper.ipynb").write_text(of_one_cell(source.format(root=str(ROOT))))


@pytest.mark.prove
def test_figures_made_twice_are_the_same(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    write_notebook(tmp_path, NOTEBOOK)
    files = []
    (tmp_path / "two" / "paper").mkdir(parents=True)
    (tmp_path / "two" / "paper" / "figure-09.png").write_bytes(b"of an earlier list")
    for name in ("one", "two"):
        assert figures.make([paper], tmp_path / name) == []
        files.append(
            {
                path.relative_to(tmp_path / name): path.read_bytes()
                for path in (tmp_path / name).rglob("*")
                if path.is_file()
            }
        )
    assert files[0] == files[1]
    assert {path.name for path in files[0]} == {"index.html", *FILES}
    page = (tmp_path / "one" / "index.html").read_text()
    assert "inserts of &lt;phones&gt; | others" in page
    assert "This does &lt;2&gt; a second." in page
    assert "Not made: it has no data." in page
    assert "| inserts of <phones> \\| others |" in figures.markdown([paper])


@pytest.mark.prove
def test_a_notebook_that_fails_is_told(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    assert "its notebook failed" in figures.make([paper], tmp_path / "none")[0]
    write_notebook(tmp_path, "raise ValueError('of this')")
    assert figures.make([paper], tmp_path / "out") == ["paper: its notebook failed: ValueError: of this"]


def test_the_command_says_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["-o", str(tmp_path), "no_such_paper"]) == 1
    assert "no_such_paper" in capsys.readouterr().err
    page = tmp_path / "page.md"
    page.write_text("without a list\n")
    assert figures.main(["--list", str(page)]) == 1
    assert "put it where the list begins" in capsys.readouterr().err
    assert page.read_text() == "without a list\n"


# -- the index --------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The anchors, links and pictures of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if name := known.get("id"):
            self.anchors.append(name)
        self.links += [link for link in (known.get("href"), known.get("src")) if link]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_index_has_every_figure_of_every_list(tmp_path: Path) -> None:
    """Also of those that are not made, as here: each has its place, and a row in the contents that leads there."""
    everything = figures.all_papers()
    page = Page(figures.html(everything, tmp_path))
    expected = [f"{paper.name}-{item.stem}" for paper in everything for item in paper.items]
    assert [anchor for anchor in page.anchors if anchor not in LISTS] == expected
    assert page.links == [
        *(f"#{name}" for name in LISTS),
        *(f"#{paper.name}-{item.stem}" for paper in everything for item in paper.items),
    ]


def test_the_index_leads_to_all_that_was_made(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    made(paper, tmp_path)
    page = Page(figures.html([paper], tmp_path))
    leads = {link for link in page.links if not link.startswith("#")}
    assert leads == {f"paper/{name}" for name in FILES}
    assert all((tmp_path / link).is_file() for link in leads)
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.anchors)
    assert page.text.count("It does <2> a second.") == 2  # in the contents and above the figure


def test_the_index_tells_where_published_numbers_are_from(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    made(paper, tmp_path)
    text = Page(figures.html([paper], tmp_path)).text
    cited = paper.stated("fig8-gs3-jb", "table1-sequential-write-mobibench")
    assert text.count("androstep_fi2013.csv") == 2
    for row in cited.iter_rows(named=True):
        assert f"{row['value']:g}" in text and row["place"] in text and row["printed"] in text


def test_a_table_is_text(tmp_path: Path) -> None:
    paper = listed(tmp_path)
    directory = made(paper, tmp_path)
    page = figures.html([paper], tmp_path)
    assert "<td>&lt;b&gt;a&lt;/b&gt; | [b](c) $d$</td>" in page
    assert [cell for cell in ("1,234,567", "0.1235", "25,516", "–") if f">{cell}</td>" not in page] == []
    lines = (directory / "table-01.md").read_text("utf-8").splitlines()
    assert lines[:3] == [
        "| name | count | share |",
        "|:--|--:|--:|",
        r"| \<b\>a\</b\> \| \[b\](c) \$d\$ | 1,234,567 | 0.1235 |",
    ]


@pytest.mark.parametrize(
    ("n", "confidence", "words"),
    [
        ([5, 5], [0.9375, 0.9375], "medians of 5, least and greatest"),
        ([9, 9], [0.961, 0.961], "medians of 9 with 96 % intervals"),
        ([6, 9], [0.969, 0.961], "medians of 6 to 9 with 96 % to 97 % intervals"),
    ],
)
def test_the_source_says_of_how_many_repetitions(n: list[int], confidence: list[float], words: str) -> None:
    table = pl.DataFrame({"value": [1.0, 2.0], "lo": [1.0, 2.0], "n": n, "confidence": confidence})
    assert papers.repetitions(table) == words
    assert papers.repetitions(table.drop("confidence")) == ""


def test_what_the_paper_states_is_in_or_outside_of_an_interval() -> None:
    one = papers.Stated("a ratio", (1.05, 2.0), 1.0, 0.9, 1.1)
    assert one.said == "1 [0.9, 1.1] (the paper: 1.05 to 2, within this interval)"
    assert replace(one, published=(2.0, 2.0)).said == "1 [0.9, 1.1] (the paper: 2, outside of this interval)"
    assert replace(one, published=(2.0, 2.0), lo=None, hi=None).said == "1 (the paper: 2)"
