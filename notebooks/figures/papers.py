"""The papers' figures and tables: what each shows, what ours is made from, and saving it with its origin.

PAPER.toml beside this file lists every figure and table that a paper prints; PAPER.ipynb makes those that can be made.
An entry `[[figure]]` has

    name      as the paper calls it ("Figure 7", "Table 3")
    part      optional: several entries may be of one figure ("a", "phone")
    shows     what the paper shows there, in our words
    source    what our data is, in words: it is printed under the figure
    data      the files ours is made from, from the root of the tree, * for any; those of the corpus as corpus/NAME
    missing   instead of source and data: why there is none

An entry with files of the corpus is made only where the corpus is (ANDROSTEP_CORPUS). Of a capture, name its
capture.json: it has the sha256 of the rest.
"""

from __future__ import annotations

import hashlib
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
from androstep_analysis.errors import InputError
from androstep_analysis.plot import paper as style

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PUBLISHED = ROOT / "datasets" / "published"
CORPUS = Path(os.environ.get("ANDROSTEP_CORPUS", ROOT.parent / "shared" / "corpus"))
OUTPUT = Path(os.environ.get("ANDROSTEP_FIGURES", ROOT / "build" / "figures"))
"""Where figures go: a directory for each paper."""

SUFFIXES = (".pdf", ".png", ".csv", ".json")

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
    missing: str = ""

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
        part: str = "",
        note: str = "",
        published: Sequence[str] = (),
        out: Path | None = None,
    ) -> None:
        """Write a figure (PDF, PNG), the table behind it (CSV) and its origin (JSON), and show it with its caption.

        `note` is what a reader must know beside what the list says; `published` are the ids of the paper's numbers
        that are drawn in it. The source of the data is printed under the figure itself.
        """
        from IPython.display import Image, Markdown, display

        item = self.item(name, part)
        if item.missing:
            raise InputError(f"{self.path.name}: {item.title} is listed as missing; list its data instead")
        _print_source(ax, f"Data: {item.source}")
        provenance = {
            "paper": self.cite,
            "item": item.title,
            "shows": item.shows,
            "source": item.source,
            "data": origin(item),
            "note": note,
            "published": self.stated(*published).rows(named=True),
        }
        stem = (OUTPUT if out is None else out) / self.name / item.stem
        _, image, *_ = plot.save(ax, stem, table=table, provenance=provenance)
        display(Image(image.read_bytes(), retina=True))
        display(Markdown(f"*{self.caption(item, note)}*"))

    def caption(self, item: Item, note: str = "") -> str:
        """What the paper's figure shows, and what ours is made from."""
        shows = item.shows[0].upper() + item.shows[1:]
        return " ".join(part for part in (f"{item.title}. {shows}. Here: {item.source}.", note) if part)


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
