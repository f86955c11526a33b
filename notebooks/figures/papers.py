"""The papers' figures and tables: what each shows, what ours is made from, and saving it with its origin.

PAPER.toml beside this file lists every figure and table that a paper prints; PAPER.ipynb makes those that can be made.
An entry `[[figure]]` has

    name      as the paper calls it ("Figure 7", "Table 3")
    part      optional: several entries may be of one figure ("a", "phone")
    shows     what the paper shows there, in our words
    source    what our data is, in words: it is printed under the figure
    data      the files ours is made from, from the root of the tree, * for any; those of the corpus as corpus/NAME
    table     true where ours is a table, not a figure
    missing   instead of source and data: why there is none

An entry with files of the corpus is made only where the corpus is (ANDROSTEP_CORPUS). Of a capture, name its
capture.json: it has the sha256 of the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import plot
from androstep_analysis.common import csvfile
from androstep_analysis.common.errors import InputError
from androstep_analysis.present.plot import paper as style

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PUBLISHED = ROOT / "datasets" / "published"
CORPUS = Path(os.environ.get("ANDROSTEP_CORPUS", ROOT.parent / "shared" / "corpus"))
OUTPUT = Path(os.environ.get("ANDROSTEP_FIGURES", ROOT / "build" / "figures"))
"""Where figures go: a directory for each paper."""

FIGURE_SUFFIXES, TABLE_SUFFIXES = (".pdf", ".png", ".csv", ".json"), (".md", ".csv", ".json")
"""The files of a figure and of a table."""

PUBLISHED_COLUMNS = {
    **dict.fromkeys(("id", "item", "place", "device", "condition", "metric"), pl.String()),
    "value": pl.Float64(),
    **dict.fromkeys(("unit", "kind", "printed", "meaning"), pl.String()),
}
"""Columns of datasets/published/*.csv; its README explains them."""


@dataclass(frozen=True)
class Item:
    """A figure or table of a paper, or a part of it."""

    name: str
    shows: str
    part: str = ""
    source: str = ""
    data: tuple[str, ...] = field(default_factory=tuple)
    table: bool = False
    missing: str = ""

    @property
    def suffixes(self) -> tuple[str, ...]:
        return TABLE_SUFFIXES if self.table else FIGURE_SUFFIXES

    @property
    def title(self) -> str:
        return f"{self.name} ({self.part})" if self.part else self.name

    @property
    def stem(self) -> str:
        """Name of its files: ``Figure 7`` is figure-07."""
        words = re.sub(r"\d+", lambda number: number[0].zfill(2), f"{self.name} {self.part}".lower())
        return re.sub(r"[^a-z0-9]+", "-", words).strip("-")

    @property
    def needs_corpus(self) -> bool:
        return any(name.startswith("corpus/") for name in self.data)

    @property
    def files(self) -> dict[str, Path]:
        """The files of `data` that are on this machine, by name."""
        return {name: path for pattern in self.data for name, path in _found(pattern)}

    @property
    def lacking(self) -> list[str]:
        """What of `data` is not on this machine."""
        return [pattern for pattern in self.data if not _found(pattern)]

    @property
    def here(self) -> bool:
        """Whether it is made, and all its data is on this machine."""
        return not self.missing and not self.lacking


class Paper:
    """A paper: its list, its published numbers, and what is made of it. `name` is that of the list and the notebook."""

    def __init__(self, name: str, directory: Path = HERE) -> None:
        self.name = name
        self.path = directory / f"{name}.toml"
        known = _toml(self.path)
        try:
            self.title, self.cite, published = (str(known[key]) for key in ("title", "cite", "published"))
            self.items = [_item(entry, self.path) for entry in known["figure"]]
        except KeyError as error:
            raise InputError(f"{self.path.name}: no {error.args[0]}; papers.py says what a list holds") from None
        self.published_path = PUBLISHED / published
        stems = [item.stem for item in self.items]
        if twice := sorted({item.title for item in self.items if stems.count(item.stem) > 1}):
            raise InputError(f"{self.path.name}: {', '.join(twice)}: listed twice; give each part a name of its own")

    def item(self, name: str, part: str = "") -> Item:
        """The entry of a figure or table."""
        for item in self.items:
            if (item.name, item.part) == (name, part):
                return item
        raise InputError(f"{self.path.name}: no entry is called {name!r}, part {part!r}; list what is made")

    def files(self, name: str, part: str = "") -> list[Path]:
        """The files that a figure is made from, as its entry lists them."""
        return list(self.item(name, part).files.values())

    @cached_property
    def published(self) -> pl.DataFrame:
        """Every number that the paper's text states (datasets/published/README.md explains the columns)."""
        return pl.read_csv(self.published_path, schema=PUBLISHED_COLUMNS)

    def stated(self, *ids: str) -> pl.DataFrame:
        """These published numbers, in this order."""
        found = pl.DataFrame({"id": ids}, {"id": pl.String}).join(
            self.published, on="id", how="inner", maintain_order="left"
        )
        if found.height != len(ids):
            unknown = sorted(set(ids) - set(found["id"]))
            raise InputError(f"{self.published_path.name}: has no {', '.join(unknown)}; cite by column id")
        return found

    def save(
        self,
        name: str,
        ax: Axes,
        table: pl.DataFrame,
        *,
        says: str,
        part: str = "",
        note: str = "",
        published: Sequence[str] = (),
        out: Path | None = None,
    ) -> None:
        """Write a figure (PDF, PNG), the table behind it (CSV) and its origin (JSON), and show it with its caption.

        `says` is one sentence: what ours shows, and where it is not what the paper found. `note` is what a reader must
        know beside that; `published` are the ids of the paper's numbers that are in it. The source of the data is
        printed under the figure itself.
        """
        from IPython.display import Image, Markdown, display

        item = self._made(name, part, table=False)
        _print_source(ax, f"Data: {_source(item, table)}.")
        origin_of = self._provenance(item, table, says, note, published)
        stem = (OUTPUT if out is None else out) / self.name / item.stem
        _, image, *_ = plot.save(ax, stem, table=table, provenance=origin_of)
        display(Image(image.read_bytes(), retina=True))
        display(Markdown(_caption(origin_of)))

    def save_table(
        self,
        name: str,
        table: pl.DataFrame,
        *,
        says: str,
        part: str = "",
        note: str = "",
        published: Sequence[str] = (),
        out: Path | None = None,
    ) -> None:
        """Write a table (Markdown, CSV) and its origin (JSON), and show it with its caption; else as `save`."""
        from IPython.display import Markdown, display

        item = self._made(name, part, table=True)
        origin_of = self._provenance(item, table, says, note, published)
        stem = (OUTPUT if out is None else out) / self.name / item.stem
        stem.parent.mkdir(parents=True, exist_ok=True)
        shown = markdown_table(table)
        stem.with_suffix(".md").write_text(f"{shown}\n{_caption(origin_of)}\n", encoding="utf-8")
        csvfile.write(table, stem.with_suffix(".csv"))
        words = json.dumps(origin_of, indent=2, sort_keys=True, ensure_ascii=False)
        stem.with_suffix(".json").write_text(f"{words}\n", encoding="utf-8")
        display(Markdown(shown))
        display(Markdown(_caption(origin_of)))

    def _made(self, name: str, part: str, *, table: bool) -> Item:
        """The entry of what is about to be written."""
        item = self.item(name, part)
        if item.missing:
            raise InputError(f"{self.path.name}: {item.title} is listed as missing; list its data instead")
        if item.table != table:
            raise InputError(f"{self.path.name}: {item.title} is listed as a {'table' if item.table else 'figure'}")
        return item

    def _provenance(
        self, item: Item, table: pl.DataFrame, says: str, note: str, published: Sequence[str]
    ) -> dict[str, Any]:
        """What a figure or table shows, and where that comes from; `cells` is how a table's are written."""
        return {
            "paper": self.cite,
            "item": item.title,
            "shows": item.shows,
            "says": says,
            "source": _source(item, table),
            "data": origin(item),
            "note": note,
            "published": self.stated(*published).rows(named=True),
            **({"cells": cells(table), "right": right(table)} if item.table else {}),
        }


# -- words ------------------------------------------------------------------------------------------------------------


def _source(item: Item, table: pl.DataFrame) -> str:
    """Where the data is from, and of how many repetitions."""
    return "; ".join(part for part in (item.source, repetitions(table)) if part)


def repetitions(table: pl.DataFrame) -> str:
    """What the values of a table with `bench.summarise`'s intervals are, as its columns n and confidence say."""
    if not {"n", "lo", "confidence"} <= set(table.columns):
        return ""
    known = table.filter(pl.col("lo").is_not_null())
    if known.is_empty():
        return ""
    least, most = known.select(pl.col("n").min(), most=pl.col("n").max()).row(0)
    number = f"{least}" if least == most else f"{least} to {most}"
    low, high = known.select(pl.col("confidence").min(), high=pl.col("confidence").max()).row(0)
    if high < 0.95:
        return f"medians of {number}, least and greatest"
    per_cent = f"{low:.0%}" if round(low, 2) == round(high, 2) else f"{low:.0%} to {high:.0%}"
    return f"medians of {number} with {per_cent.replace('%', ' %')} intervals"


def against(value: float, lo: float | None, hi: float | None, least: float, most: float) -> str:
    """What our value with its interval says of the paper's, which is one number or a range."""
    stated = f"the paper: {number(least) if least == most else f'{number(least)} to {number(most)}'}"
    if lo is None or hi is None:
        return stated
    return f"{stated}, {'within' if lo <= most and least <= hi else 'outside of'} this interval"


def number(value: float) -> str:
    """Three digits are enough in a sentence."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _caption(origin_of: dict[str, Any]) -> str:
    """What ours says, what the paper's figure shows, and what ours is made from; text is Markdown."""
    words = f"{origin_of['item']}, {origin_of['shows']}. Here: {origin_of['source']}. {origin_of['note']}".strip()
    return f"**{origin_of['says']}** *{words}*"


# -- tables -----------------------------------------------------------------------------------------------------------


def cells(table: pl.DataFrame) -> list[list[str]]:
    """The names of a table's columns, then its rows, as they are written."""
    return [table.columns, *([_cell(value) for value in row] for row in table.iter_rows())]


def right(table: pl.DataFrame) -> list[bool]:
    """Which columns hold numbers, which stand to the right."""
    return [kind.is_numeric() for kind in table.dtypes]


def markdown_table(table: pl.DataFrame) -> str:
    """A table in Markdown."""
    head, *rows = [[_escaped(cell) for cell in row] for row in cells(table)]
    ruler = ["---:" if is_right else "---" for is_right in right(table)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ruler, *rows))


def _cell(value: object) -> str:
    """Numbers have four significant digits, or all before the point; null is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _escaped(text: str) -> str:
    """A cell as text of Markdown, whatever it holds."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


# -- lists ------------------------------------------------------------------------------------------------------------


def all_papers(directory: Path = HERE) -> list[Paper]:
    """Every paper that has a list."""
    return [Paper(path.stem, directory) for path in sorted(directory.glob("*.toml"))]


def origin(item: Item) -> list[dict[str, str]]:
    """The files that a figure is made from, each with its sha256."""
    return [
        {"path": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for name, path in item.files.items()
    ]


def _found(pattern: str) -> list[tuple[str, Path]]:
    """The files that a name in a list stands for, sorted: their names and where they are."""
    in_corpus = pattern.removeprefix("corpus/")
    root, prefix = (ROOT, "") if in_corpus == pattern else (CORPUS, "corpus/")
    paths = sorted(path for path in root.glob(in_corpus) if path.is_file())
    return [(prefix + path.relative_to(root).as_posix(), path) for path in paths]


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path.name}: no TOML ({error}); correct it") from None


def _item(entry: dict[str, Any], path: Path) -> Item:
    try:
        item = Item(**{**entry, "data": tuple(entry.get("data", ()))})
    except TypeError as error:
        raise InputError(f"{path.name}: {entry.get('name')}: {error}; papers.py says what an entry holds") from None
    if bool(item.missing) == bool(item.source and item.data):
        raise InputError(f"{path.name}: {item.title} needs either source and data, or why it is missing")
    return item


def _print_source(ax: Axes, words: str) -> None:
    """One small paragraph under everything the figure shows."""
    with style.style():
        figure = style.settled(ax)
        if figure.get_layout_engine() is not None:
            # Laid out once: what is printed below would not move with the rest.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        lines = textwrap.fill(words, max(40, int(box.width * 25)))
        left, top = box.x0 / width, (box.y0 - 0.05) / height
        figure.text(left, top, lines, fontsize=5, color="#555555", va="top", parse_math=False)
