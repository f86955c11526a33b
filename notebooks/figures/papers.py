"""List the papers' figures and tables with their data, and save ours with their origin.

PAPER.toml in this directory lists every figure and table of a paper; PAPER.ipynb makes those that can be made. An entry
`[[figure]]` has:

    name      as the paper calls it ("Figure 7", "Table 3")
    part      optional: several entries may be of one figure ("a", "phone")
    shows     what the paper shows there, in our words
    source    a description of our data, printed under the figure
    data      the files ours is made from, relative to the root of the tree, with * for any; corpus/NAME for the corpus
    table     true if ours is a table, not a figure
    missing   instead of source and data: why there is none

An entry with files of the corpus is made only if the corpus is present (ANDROSTEP_CORPUS). For a capture, list its
capture.json, which has the sha256 of the other files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import bench, plot
from androstep_analysis.common import csvfile
from androstep_analysis.common.errors import InputError
from androstep_analysis.present.plot import paper as style
from androstep_analysis.stats.exact import ratio

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PUBLISHED = ROOT / "datasets" / "published"
CORPUS = Path(os.environ.get("ANDROSTEP_CORPUS", ROOT.parent / "shared" / "corpus"))
OUTPUT = Path(os.environ.get("ANDROSTEP_FIGURES", ROOT / "build" / "figures"))
"""Output directory, with a subdirectory for each paper."""

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
        """Base name of its files: ``Figure 7`` is figure-07."""
        words = re.sub(r"\d+", lambda number: number[0].zfill(2), f"{self.name} {self.part}".lower())
        return re.sub(r"[^a-z0-9]+", "-", words).strip("-")

    @property
    def needs_corpus(self) -> bool:
        return any(name.startswith("corpus/") for name in self.data)

    @property
    def files(self) -> dict[str, Path]:
        """The files of `data` that exist on this machine, by name."""
        return {name: path for pattern in self.data for name, path in _found(pattern)}

    @property
    def lacking(self) -> list[str]:
        """The entries of `data` without files on this machine."""
        return [pattern for pattern in self.data if not _found(pattern)]

    @property
    def here(self) -> bool:
        """Whether it can be made, because all its data is on this machine."""
        return not self.missing and not self.lacking


class Paper:
    """A paper: its list, its published numbers, and our figures. `name` is that of the list and the notebook."""

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
        """Return the entry of a figure or table."""
        for item in self.items:
            if (item.name, item.part) == (name, part):
                return item
        raise InputError(f"{self.path.name}: no entry is called {name!r}, part {part!r}; list what is made")

    def files(self, name: str, part: str = "") -> list[Path]:
        """Return the files of a figure's data."""
        return list(self.item(name, part).files.values())

    @cached_property
    def published(self) -> pl.DataFrame:
        """Every number that the paper's text states (datasets/published/README.md explains the columns)."""
        return pl.read_csv(self.published_path, schema=PUBLISHED_COLUMNS)

    def stated(self, *ids: str) -> pl.DataFrame:
        """Return the published numbers with these ids, in this order."""
        found = pl.DataFrame({"id": ids}, {"id": pl.String}).join(
            self.published, on="id", how="inner", maintain_order="left"
        )
        if found.height != len(ids):
            unknown = sorted(set(ids) - set(found["id"]))
            raise InputError(f"{self.published_path.name}: has no {', '.join(unknown)}; cite by column id")
        return found

    def between(self, least: str, most: str | None = None) -> tuple[float, float]:
        """Return the published numbers with these ids as minimum and maximum."""
        values = self.stated(*dict.fromkeys((least, most or least)))["value"]
        return float(values[0]), float(values[-1])

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
        """Write a figure (PDF, PNG), its table (CSV) and its origin (JSON), and display it with its caption.

        `says` is one sentence: what ours shows, and how it differs from the paper. `note` is further information for
        the reader. `published` are the ids of the paper's numbers that are in it. The data source is printed under the
        figure.
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
        """Write a table (Markdown, CSV) and its origin (JSON), and display it with its caption, like `save`."""
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
        """Return the entry of a figure or table that is about to be written."""
        item = self.item(name, part)
        if item.missing:
            raise InputError(f"{self.path.name}: {item.title} is listed as missing; list its data instead")
        if item.table != table:
            raise InputError(f"{self.path.name}: {item.title} is listed as a {'table' if item.table else 'figure'}")
        return item

    def _provenance(
        self, item: Item, table: pl.DataFrame, says: str, note: str, published: Sequence[str]
    ) -> dict[str, Any]:
        """Return the contents and origin of a figure or table; `cells` is a table's formatted text."""
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


# -- numbers of the papers' texts and ours ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Stated:
    """A number or range from a paper's text, and ours: `value` with its interval, if there is one."""

    label: str
    published: tuple[float, float]
    value: float
    lo: float | None = None
    hi: float | None = None
    n: int = 1

    @property
    def said(self) -> str:
        """Our value with its interval, and whether the paper's number lies in it."""
        interval = "" if self.lo is None or self.hi is None else f" [{number(self.lo)}, {number(self.hi)}]"
        return f"{number(self.value)}{interval} ({against(self.value, self.lo, self.hi, *self.published)})"


def compared(
    label: str,
    published: tuple[float, float],
    tables: dict[str, pl.DataFrame],
    first: Mapping[str, str],
    second: Mapping[str, str],
) -> Stated:
    """Return the rate of the runs `second` relative to that of the runs `first` (values of columns of bench_runs)."""
    measured = bench.measures(tables).filter("valid", pl.col("metric").is_in(["iops", "tps"]))
    base, other = (measured.filter(**side)["value"].to_list() for side in (first, second))
    value, lo, hi = ratio(base, other)
    assert value is not None, f"{label}: no runs"
    return Stated(label, published, value, lo, hi, len(base) + len(other))


def table_of(found: Sequence[Stated], unit: str = "1") -> pl.DataFrame:
    """Return the table that `plot.published` draws."""
    return pl.DataFrame(
        [
            {
                "what": row.label,
                "published_least": row.published[0],
                "published_most": row.published[1],
                "value": row.value,
                "lo": row.lo,
                "hi": row.hi,
                "unit": unit,
                "n": row.n,
            }
            for row in found
        ],
        schema_overrides={"lo": pl.Float64, "hi": pl.Float64},
    )


# -- words ------------------------------------------------------------------------------------------------------------


def _source(item: Item, table: pl.DataFrame) -> str:
    """Return the data source and the number of repetitions."""
    return "; ".join(part for part in (item.source, repetitions(table)) if part)


def repetitions(table: pl.DataFrame) -> str:
    """Describe the values and intervals of `bench.summarise`, from columns n and confidence."""
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
    """Describe whether our value's interval covers the paper's number or range."""
    stated = f"the paper: {number(least) if least == most else f'{number(least)} to {number(most)}'}"
    if lo is None or hi is None:
        return stated
    return f"{stated}, {'within' if lo <= most and least <= hi else 'outside of'} this interval"


def number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _caption(origin_of: dict[str, Any]) -> str:
    """Return the caption in Markdown: our statement, the paper's figure, and our source."""
    words = f"{origin_of['item']}, {origin_of['shows']}. Here: {origin_of['source']}. {origin_of['note']}".strip()
    return f"**{origin_of['says']}** *{words}*"


# -- tables -----------------------------------------------------------------------------------------------------------


def cells(table: pl.DataFrame) -> list[list[str]]:
    """Return a table's column names and its rows as formatted text."""
    return [table.columns, *([_cell(value) for value in row] for row in table.iter_rows())]


def right(table: pl.DataFrame) -> list[bool]:
    """Return whether each column is numeric and is aligned to the right."""
    return [kind.is_numeric() for kind in table.dtypes]


def markdown_table(table: pl.DataFrame) -> str:
    """Format a table in Markdown."""
    head, *rows = [[_escaped(cell) for cell in row] for row in cells(table)]
    ruler = ["---:" if is_right else "---" for is_right in right(table)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ruler, *rows))


def _cell(value: object) -> str:
    """Format a value with four significant digits, or all digits before the point; null is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _escaped(text: str) -> str:
    """Escape a cell for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


# -- lists ------------------------------------------------------------------------------------------------------------


def all_papers(directory: Path = HERE) -> list[Paper]:
    """Return every paper that has a list."""
    return [Paper(path.stem, directory) for path in sorted(directory.glob("*.toml"))]


def origin(item: Item) -> list[dict[str, str]]:
    """Return the files of a figure's data with their sha256."""
    return [
        {"path": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for name, path in item.files.items()
    ]


def _found(pattern: str) -> list[tuple[str, Path]]:
    """Return the sorted names and paths that match an entry of `data`."""
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
    """Print a small paragraph below the figure."""
    with style.style():
        figure = style.settled(ax)
        if figure.get_layout_engine() is not None:
            # Lay out once: the text below would not move with a second layout.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        lines = textwrap.fill(words, max(40, int(box.width * 25)))
        left, top = box.x0 / width, (box.y0 - 0.05) / height
        figure.text(left, top, lines, fontsize=5, color="#555555", va="top", parse_math=False)
