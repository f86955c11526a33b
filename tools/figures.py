"""Make the figures of the papers: run notebooks/figures/*.ipynb, check their output, and write an index.

python tools/figures.py [-o DIR] [PAPER ...]    into DIR/PAPER/ (default build/figures), with an index.html
python tools/figures.py --list FILE             only the list of figures and their data, into docs/figures.md
python tools/figures.py --pictures DIR          also a small picture of each figure, for that list

The command fails in these cases: a figure of a paper's list was not made and the list does not say why; its files are
incomplete or were made from other data than listed; a published number in it differs from datasets/published/.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import Element, el
from androstep_analysis.present.papers import Item, Paper

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "notebooks" / "figures"

PICTURES = ROOT / "docs" / "pictures" / "figures"
"""Small pictures of the figures, committed, for docs/figures.md."""

PICTURE_WIDTH = 320
"""Of a small picture, in pixels."""

LIST_BEGINS = "<!-- Written by `make tables` from notebooks/figures/*.toml; do not edit below. -->\n"

_STYLE = """\
:root { color-scheme: light dark; --line: #ddd; --soft: #555; --page: #fff }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #aaa; --page: #16181c } body { color: #ddd } }
body { font: 1rem/1.45 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; background: var(--page) }
h2 { border-top: 2px solid var(--line); padding-top: 1rem; margin-top: 3rem }
section { border-top: 1px solid var(--line); padding: 0.5rem 0 1rem }
img { background: #fff; display: block; max-width: 100% }
section img { width: 32rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 0.9rem }
th, td { border-bottom: 1px solid var(--line); padding: 0.25rem 0.7rem 0.25rem 0; text-align: left }
td { vertical-align: top }
.right { text-align: right }
.contents td:nth-child(2) { width: 9rem } .contents img { width: 8rem }
.says { font-weight: bold } .source { color: var(--soft) }
@media (max-width: 40rem) { .contents td:nth-child(2) { display: none } }
"""


def all_papers() -> list[Paper]:
    """Return every paper that has a list."""
    return [Paper(path) for path in sorted(LISTS.glob("*.toml"))]


def run(paper: Paper, out: Path) -> None:
    """Execute a paper's notebook, whose figures replace those in `out`/PAPER; `InputError` if it fails."""
    import nbformat  # slow to import, and not needed for the lists
    import run_notebooks
    from nbclient.exceptions import CellExecutionError

    for item in paper.items:
        for suffix in item.suffixes:
            (out / paper.name / f"{item.stem}{suffix}").unlink(missing_ok=True)
    path = paper.path.with_suffix(".ipynb")
    try:
        notebook = nbformat.read(path, as_version=4)
        run_notebooks.executed(notebook, path.parent, ANDROSTEP_FIGURES=str(out.resolve()))
    except (CellExecutionError, FileNotFoundError) as error:
        last = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()[-1]
        raise InputError(f"{paper.name}: its notebook failed: {last}") from error


def problems(paper: Paper, out: Path) -> list[str]:
    """Return a sentence for each problem with the figures of a paper in `out`/PAPER."""
    found = []
    expected: set[str] = set()
    for item in paper.items:
        if item.missing:
            continue
        if item.here:
            expected |= {item.stem + suffix for suffix in item.suffixes}
            found += [f"{paper.name}: {item.title}: {words}" for words in _problems_of(paper, item, out / paper.name)]
        elif not item.needs_corpus:
            found.append(f"{paper.name}: {item.title}: its data {', '.join(item.lacking)} is not in the tree")
    written = {path.name for path in (out / paper.name).glob("*")}
    found += [f"{paper.name}: {name} belongs to no entry of its list; remove it" for name in sorted(written - expected)]
    return found


def _problems_of(paper: Paper, item: Item, directory: Path) -> Iterable[str]:
    """Yield the problems with the files of one figure."""
    files = [directory / (item.stem + suffix) for suffix in item.suffixes]
    absent = [path.name for path in files if not path.is_file() or not path.stat().st_size]
    if absent:
        yield f"was not made ({', '.join(absent)}); make it in {paper.name}.ipynb or list why it is missing"
        return
    written = json.loads(files[-1].read_text("utf-8"))
    if not written["data"]:
        yield "names no data"
    if written["data"] != item.origin:
        yield "was made from other data than its entry lists"
    for cited in written["published"]:
        if cited not in paper.published.filter(id=cited["id"]).rows(named=True):
            yield f"the published number {cited['id']} is not as in {paper.published_path.name}"
        elif item.name.startswith(("Figure", "Table")) and cited["item"] not in (item.name, "text"):
            yield f"the published number {cited['id']} is of {cited['item']}"


# -- the index --------------------------------------------------------------------------------------------------------


def markdown(selected: Sequence[Paper]) -> str:
    """Return the list: contents, and for each figure of a paper its files and data, or why it is missing."""
    contents = "\n".join(
        f"- [{paper.title}](#{_slug(paper.title)}): {_count(paper)}; "
        f"[its notebook](../notebooks/figures/{paper.name}.ipynb)"
        for paper in selected
    )
    return "\n".join([f"{contents}\n", *(_section_markdown(paper) for paper in selected)])


def _count(paper: Paper) -> str:
    made = sum(not item.missing for item in paper.items)
    missing = len(paper.items) - made
    return f"{made} figures and tables" + (f", {missing} not made" if missing else "")


def _slug(heading: str) -> str:
    """Return the anchor of a heading, as Markdown renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _section_markdown(paper: Paper) -> str:
    rows = [f"| {' | '.join(map(_cell, _row(paper, item)))} |" for item in paper.items]
    head = ["| figure | | it shows | made from |", "|---|---|---|---|"]
    return "\n".join([f"### {paper.title}\n", f"{paper.cite}\n", *head, *rows]) + "\n"


def _row(paper: Paper, item: Item) -> list[str]:
    if item.missing:
        return [item.title, "–", item.shows, f"not made: {item.missing}"]
    image = PICTURES / paper.name / f"{item.stem}.png"
    picture = f"![{item.title}](pictures/figures/{paper.name}/{item.stem}.png)" if image.exists() else "–"
    return [f"{item.title}<br>`{paper.name}/{item.stem}`", picture, item.shows, item.source]


def draw_pictures(paper: Paper, out: Path, pictures: Path) -> None:
    """Write a small copy of each figure of a paper in `out` to `pictures`/PAPER, at most `PICTURE_WIDTH` pixels wide.

    Figures made from the corpus are left out: the repository holds nothing of it.
    """
    (pictures / paper.name).mkdir(parents=True, exist_ok=True)
    for item in paper.items:
        if item.missing or item.table or item.needs_corpus:
            continue
        small_picture(out / paper.name / f"{item.stem}.png").save(
            pictures / paper.name / f"{item.stem}.png", optimize=True
        )


def small_picture(figure: Path) -> Image.Image:
    """Return a figure's picture, at most `PICTURE_WIDTH` pixels wide, in 64 colours."""
    image = Image.open(figure).convert("RGB")
    image.thumbnail((PICTURE_WIDTH, 2 * PICTURE_WIDTH))
    return image.quantize(64)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def html(selected: Sequence[Paper], out: Path) -> str:
    """Return a page with contents, every figure and table that was made, and why others are missing."""
    body: list[Element] = [
        el("h1", "The figures of the papers"),
        el(
            "p",
            "What five papers print, made again from our data. Nothing was measured on a phone, but where it says so.",
        ),
        el("ul", *(el("li", el("a", paper.title, href=f"#{paper.name}"), f": {_count(paper)}") for paper in selected)),
    ]
    for paper in selected:
        body += [el("h2", paper.title, id=paper.name), el("p", paper.cite), _contents(paper, out)]
        body += [_section_html(paper, item, out) for item in paper.items]
    metas = el("meta", charset="utf-8"), el("meta", name="viewport", content="width=device-width")
    head = el("head", *metas, el("title", "Figures · AndroStep"), el("style", _STYLE))
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *body), lang='en')}\n"


def _contents(paper: Paper, out: Path) -> Element:
    """Return a row for each figure: its name, a thumbnail, and its statement."""
    rows = [el("tr", *(el("th", name, scope="col") for name in ("figure", "", "what it says")))]
    for item in paper.items:
        link = el("a", item.title, href=f"#{_anchor(paper, item)}")
        picture: Element | str = ""
        if _is_made(paper, item, out) and not item.table:
            image = el("img", src=f"{paper.name}/{item.stem}.png", alt="", loading="lazy")
            picture = el("a", image, href=f"#{_anchor(paper, item)}", tabindex="-1", aria_hidden="true")
        rows.append(el("tr", el("td", link), el("td", picture), el("td", _says(paper, item, out))))
    return el("div", el("table", *rows, class_="contents"), class_="wide")


def _says(paper: Paper, item: Item, out: Path) -> str:
    if item.missing:
        return f"Not made: {item.missing}."
    if not _is_made(paper, item, out):
        return f"Not made here: its data ({', '.join(item.data)}) is not here."
    return str(_origin(paper, item, out)["says"])


def _anchor(paper: Paper, item: Item) -> str:
    return f"{paper.name}-{item.stem}"


def _is_made(paper: Paper, item: Item, out: Path) -> bool:
    return (out / paper.name / f"{item.stem}.json").is_file()


def _origin(paper: Paper, item: Item, out: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((out / paper.name / f"{item.stem}.json").read_text("utf-8"))
    return known


def _section_html(paper: Paper, item: Item, out: Path) -> Element:
    parts: list[Element] = [el("h3", item.title, id=_anchor(paper, item))]
    says = _says(paper, item, out)
    if item.missing or not _is_made(paper, item, out):
        return el("section", *parts, el("p", f"The paper: {item.shows}."), el("p", says, class_="source"))
    stem, known = f"{paper.name}/{item.stem}", _origin(paper, item, out)
    parts.append(el("p", says, class_="says"))
    if item.table:
        parts.append(_table(known["cells"], [side == "right" for side in known["sides"]]))
    else:
        parts.append(el("a", el("img", src=f"{stem}.png", alt=says, loading="lazy"), href=f"{stem}.pdf"))
    words = f"The paper: {item.shows}. Here: {known['source']}. {known['note']}"
    links = [el("a", suffix[1:], href=stem + suffix) for suffix in item.suffixes]
    parts.append(el("p", words, " ", *_spaced(links), class_="source"))
    if known["published"]:
        head = ["number", "unit", "of", "where the paper states it", "its words"]
        rows = [
            [f"{row['value']:,.10g}", row["unit"], _of(row), row["place"], row["printed"]] for row in known["published"]
        ]
        table = _table([head, *rows], [True, False, False, False, False])
        summary = f"The paper's numbers in it ({paper.published_path.name})"
        parts.append(el("details", el("summary", summary), table))
    return el("section", *parts)


def _of(row: dict[str, Any]) -> str:
    """Return what a published number measures."""
    return ", ".join(part for part in (row["metric"], row["condition"], row["device"]) if part)


def _table(cells: Sequence[Sequence[str]], right: Sequence[bool]) -> Element:
    """Return a table whose first row is the header; `right` marks the columns of numbers."""
    looks = [{"class_": "right"} if is_right else {} for is_right in right]
    head, *rows = [
        el("tr", *(el("td" if number else "th", cell, **look) for cell, look in zip(row, looks, strict=True)))
        for number, row in enumerate(cells)
    ]
    return el("div", el("table", head, *rows), class_="wide")


def _spaced(links: Sequence[Element]) -> list[Element | str]:
    return [part for link in links for part in (link, " ")]


def write_list(page: Path) -> None:
    """Replace the list in a page, which follows `LIST_BEGINS`."""
    text, mark, _ = page.read_text("utf-8").partition(LIST_BEGINS)
    if not mark:
        raise InputError(f"{page.name}: has no line {LIST_BEGINS.strip()!r}; put it where the list begins")
    page.write_text(f"{text}{mark}\n{markdown(all_papers())}", encoding="utf-8")


# -- the command ------------------------------------------------------------------------------------------------------


def make(selected: Sequence[Paper], out: Path, pictures: Path | None = None) -> list[str]:
    """Run the notebooks, write the index and the small pictures; return what is wrong with the figures."""
    found: list[str] = []
    for paper in selected:
        if all(item.missing for item in paper.items):
            continue
        print(f"{paper.name}: {sum(not item.missing for item in paper.items)} figures and tables", flush=True)
        try:
            run(paper, out)
        except InputError as error:
            found.append(str(error))
        else:
            found += problems(paper, out)
            if pictures and not found:
                draw_pictures(paper, out, pictures)
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(html(selected, out), encoding="utf-8")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("papers", nargs="*", help="the papers whose figures to make (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "figures", help="directory for them")
    parser.add_argument("--list", type=Path, metavar="FILE", help="only write the list into this page")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="also write a small picture of each figure there")
    options = parser.parse_args(arguments)
    try:
        if options.list:
            write_list(options.list)
            return 0
        selected = [Paper(LISTS / f"{name}.toml") for name in options.papers] or all_papers()
        found = make(selected, options.output, options.pictures)
    except (InputError, OSError) as error:
        found = [str(error)]
    for sentence in found:
        print(sentence, file=sys.stderr)
    if not found:
        print(f"The figures are in {options.output}/, the list is {options.output}/index.html.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
