"""Makes the figures of the papers: runs notebooks/figures/*.ipynb, checks what they wrote, and writes an index.

python tools/figures.py [-o DIR] [PAPER ...]    into DIR/PAPER/ (default build/figures), with an index.html
python tools/figures.py --list FILE             only the list of figures and their data, into docs/figures.md

Fails when a figure of a paper's list was not made and its list does not say why, when its files are incomplete or made
from other data than listed, and when a published number in it is not the one in datasets/published/.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError

sys.path.append(str(Path(__file__).resolve().parents[1] / "notebooks" / "figures"))
import papers
import run_notebooks
from papers import Item, Paper

from androstep_analysis.errors import InputError
from androstep_analysis.markup import Element, el

LIST_BEGINS = "<!-- Written by `make tables` from notebooks/figures/*.toml; do not edit below. -->\n"

_STYLE = """\
body { font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
img { max-width: 28rem; display: block }
section { border-top: 1px solid #ddd; padding: 0.5rem 0 }
.source { color: #555 }
"""


def run(paper: Paper, out: Path) -> None:
    """Executes a paper's notebook; its figures replace those in `out`/PAPER."""
    for item in paper.items:
        for suffix in papers.SUFFIXES:
            (out / paper.name / f"{item.stem}{suffix}").unlink(missing_ok=True)
    path = paper.path.with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    run_notebooks.executed(notebook, path.parent, ANDROSTEP_FIGURES=str(out.resolve()))


def problems(paper: Paper, out: Path) -> list[str]:
    """What is wrong with the figures of a paper in `out`/PAPER: a sentence each."""
    found = []
    expected: set[str] = set()
    for item in paper.items:
        if item.missing:
            continue
        if item.here:
            expected |= {item.stem + suffix for suffix in papers.SUFFIXES}
            found += [f"{paper.name}: {item.title}: {words}" for words in _problems_of(paper, item, out / paper.name)]
        elif not item.needs_corpus:
            found.append(f"{paper.name}: {item.title}: its data {', '.join(item.lacking)} is not in the tree")
    written = {path.name for path in (out / paper.name).glob("*")}
    found += [f"{paper.name}: {name} belongs to no entry of its list; remove it" for name in sorted(written - expected)]
    return found


def _problems_of(paper: Paper, item: Item, directory: Path) -> Iterable[str]:
    """What is wrong with the files of one figure."""
    files = [directory / (item.stem + suffix) for suffix in papers.SUFFIXES]
    absent = [path.name for path in files if not path.is_file() or not path.stat().st_size]
    if absent:
        yield f"was not made ({', '.join(absent)}); make it in {paper.name}.ipynb or list why it is missing"
        return
    written = json.loads(files[-1].read_text("utf-8"))
    if not written["data"]:
        yield "names no data"
    if written["data"] != papers.origin(item):
        yield "was made from other data than its entry lists"
    for cited in written["published"]:
        if cited not in paper.published.filter(id=cited["id"]).rows(named=True):
            yield f"the published number {cited['id']} is not as in {paper.published_path.name}"
        elif item.name.startswith(("Figure", "Table")) and cited["item"] not in (item.name, "text"):
            yield f"the published number {cited['id']} is of {cited['item']}"


# -- the index --------------------------------------------------------------------------------------------------------


def markdown(selected: Sequence[Paper]) -> str:
    """The list: figure of the paper, file, data, or why there is none."""
    return "\n".join(_section_markdown(paper) for paper in selected)


def _section_markdown(paper: Paper) -> str:
    rows = [f"| {' | '.join(map(_cell, _row(paper, item)))} |" for item in paper.items]
    head = ["| figure | it shows | file | made from |", "|---|---|---|---|"]
    return "\n".join([f"### {paper.title}\n", f"{paper.cite}\n", *head, *rows]) + "\n"


def _row(paper: Paper, item: Item) -> list[str]:
    if item.missing:
        return [item.title, item.shows, "–", f"not made: {item.missing}"]
    files = ", ".join(f"`{name}`" for name in item.data)
    return [item.title, item.shows, f"`{paper.name}/{item.stem}`", f"{item.source} ({files})"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def html(selected: Sequence[Paper], out: Path) -> str:
    """A page with every figure that was made, and why the others were not."""
    body: list[Element] = [el("h1", "The figures of the papers")]
    for paper in selected:
        body += [el("h2", paper.title), el("p", paper.cite)]
        body += [_section_html(paper, item, out) for item in paper.items]
    head = el("head", el("meta", charset="utf-8"), el("title", "Figures · AndroStep"), el("style", _STYLE))
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


def _section_html(paper: Paper, item: Item, out: Path) -> Element:
    parts = [el("h3", item.title), el("p", item.shows)]
    stem = f"{paper.name}/{item.stem}"
    if item.missing:
        parts.append(el("p", f"Not made: {item.missing}.", class_="source"))
    elif not (out / f"{stem}.png").is_file():
        parts.append(el("p", f"Not made here: its data ({', '.join(item.data)}) is not here.", class_="source"))
    else:
        links = [el("a", suffix[1:], href=stem + suffix) for suffix in papers.SUFFIXES]
        parts.append(el("img", src=f"{stem}.png", alt=item.shows))
        parts.append(el("p", f"Data: {item.source}. ", *_spaced(links), class_="source"))
    return el("section", *parts)


def _spaced(links: Sequence[Element]) -> list[Element | str]:
    return [part for link in links for part in (link, " ")]


def write_list(page: Path) -> None:
    """Replaces the list in a page, which follows `LIST_BEGINS`."""
    text, mark, _ = page.read_text("utf-8").partition(LIST_BEGINS)
    if not mark:
        raise InputError(f"{page.name}: has no line {LIST_BEGINS.strip()!r}; put it where the list begins")
    page.write_text(f"{text}{mark}\n{markdown(papers.all_papers())}", encoding="utf-8")


# -- the command ------------------------------------------------------------------------------------------------------


def make(selected: Sequence[Paper], out: Path) -> list[str]:
    """Runs the notebooks, writes the index; what is wrong with the figures."""
    found: list[str] = []
    for paper in selected:
        if all(item.missing for item in paper.items):
            continue
        print(f"{paper.name}: {sum(not item.missing for item in paper.items)} figures and tables", flush=True)
        try:
            run(paper, out)
        except (CellExecutionError, FileNotFoundError) as error:
            last = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()[-1]
            found.append(f"{paper.name}: its notebook failed: {last}")
        else:
            found += problems(paper, out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.md").write_text(markdown(selected), encoding="utf-8")
    (out / "index.html").write_text(html(selected, out), encoding="utf-8")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("papers", nargs="*", help="the papers whose figures to make (default: all)")
    parser.add_argument(
        "-o", "--output", type=Path, default=papers.ROOT / "build" / "figures", help="directory for them"
    )
    parser.add_argument("--list", type=Path, metavar="FILE", help="only write the list into this page")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            write_list(options.list)
            return 0
        selected = [Paper(name) for name in options.papers] or papers.all_papers()
        found = make(selected, options.output)
    except (InputError, OSError) as error:
        found = [str(error)]
    for sentence in found:
        print(sentence, file=sys.stderr)
    if not found:
        print(f"The figures are in {options.output}/, the list is {options.output}/index.html.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
