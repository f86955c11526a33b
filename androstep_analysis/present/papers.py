"""Figures and tables of a paper, made from your data: a list of them, and files with their origin.

A list PAPER.toml has `title`, `cite` and `published` (a file of datasets/published with the paper's numbers), and an
entry `[[figure]]` for every figure and table of the paper:

    name      as the paper calls it ("Figure 7", "Table 3")
    part      optional: several entries may be of one figure ("a", "phone")
    shows     what the paper shows there, in our words
    source    a description of our data, printed under the figure
    data      the files ours is made from, relative to the root of the tree, with * for any; corpus/NAME for the corpus
    cites     optional: the ids of the published numbers in ours, with * for any
    note      optional: further information for the reader
    table     true if ours is a table, not a figure
    missing   instead of source and data: why there is none

The root is the nearest directory above the list that has a directory `datasets`. An entry with files of the corpus is
made only if the corpus is present (ANDROSTEP_CORPUS). For a capture, list its capture.json, which has the sha256 of the
other files. Files are written to ANDROSTEP_FIGURES, by default build/figures in the root.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from androstep_analysis import bench
from androstep_analysis.common import conditions, csvfile, files
from androstep_analysis.common.errors import InputError
from androstep_analysis.present import plot
from androstep_analysis.present.plot import paper as style
from androstep_analysis.present.wide import Shown, laid_out
from androstep_analysis.stats.exact import ratio

FIGURE_SUFFIXES: Final = (".pdf", ".png", ".csv", ".json")
TABLE_SUFFIXES: Final = (".md", ".csv", ".json")
"""The files of a figure and of a table."""

PUBLISHED_COLUMNS: Final = {
    **dict.fromkeys(("id", "item", "place", "device", "condition", "metric"), pl.String()),
    "value": pl.Float64(),
    **dict.fromkeys(("unit", "kind", "printed", "meaning"), pl.String()),
}
"""Columns of datasets/published/*.csv; its README explains them."""


_FLOATS: Final = pl.selectors.float()
_ROUNDED: Final = pl.when(_FLOATS.abs() < 10_000).then(_FLOATS.round_sig_figs(4)).otherwise(_FLOATS.round(0))
"""Numbers of a table for reading: four significant digits, or all before the point."""


@dataclass(frozen=True)
class Item:
    """A figure or table of a paper, or a part of it. `root` is the directory to which `data` is relative."""

    root: Path
    name: str
    shows: str
    part: str = ""
    source: str = ""
    data: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    note: str = ""
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
        return {name: path for pattern in self.data for name, path in self._found(pattern)}

    @property
    def lacking(self) -> list[str]:
        """The entries of `data` without files on this machine."""
        return [pattern for pattern in self.data if not self._found(pattern)]

    @property
    def here(self) -> bool:
        """Whether it can be made, because all its data is on this machine."""
        return not self.missing and not self.lacking

    @property
    def origin(self) -> list[dict[str, str]]:
        """The files of its data with their sha256."""
        return [
            {"path": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for name, path in self.files.items()
        ]

    def _found(self, pattern: str) -> list[tuple[str, Path]]:
        """Return the sorted names and paths that match an entry of `data`."""
        in_corpus = pattern.removeprefix("corpus/")
        corpus = Path(os.environ.get("ANDROSTEP_CORPUS", self.root.parent / "shared" / "corpus"))
        root, prefix = (self.root, "") if in_corpus == pattern else (corpus, "corpus/")
        paths = sorted(path for path in root.glob(in_corpus) if path.is_file())
        return [(prefix + path.relative_to(root).as_posix(), path) for path in paths]


class Paper:
    """A paper: its list, its published numbers, and our figures.

    Parameters
    ----------
    path : path-like
        The list, such as ``kim.toml``.
    root : pathlib.Path, optional
        The directory to which the data in the list is relative; by default as the module describes.

    Raises
    ------
    InputError
        If the list is damaged or lacks something.
    """

    def __init__(self, path: str | os.PathLike[str], root: Path | None = None) -> None:
        self.path = Path(path)
        self.name = self.path.stem
        parents = self.path.resolve().parents
        self.root = root or next((one for one in parents if (one / "datasets").is_dir()), parents[0])
        known = self._read()
        try:
            self.title, self.cite, published = (str(known[key]) for key in ("title", "cite", "published"))
            self.items = [self._item(entry) for entry in known["figure"]]
        except KeyError as error:
            raise InputError(f"{self.path.name}: no {error.args[0]}; papers.py lists what is necessary") from None
        self.published_path = self.root / "datasets" / "published" / published
        stems = [item.stem for item in self.items]
        if twice := sorted({item.title for item in self.items if stems.count(item.stem) > 1}):
            raise InputError(f"{self.path.name}: {', '.join(twice)}: listed twice; give each part a name of its own")

    def item(self, name: str, part: str = "") -> Item:
        """Return the entry of a figure or table."""
        for item in self.items:
            if (item.name, item.part) == (name, part):
                return item
        raise InputError(f"{self.path.name}: no entry is called {name!r}, part {part!r}; list what is made")

    def files(self, name: str, part: str = "", *, pattern: str = "*") -> list[Path]:
        """Return the files of a figure's data whose names match `pattern`."""
        return [path for path in self.item(name, part).files.values() if path.match(pattern)]

    def tables(self, name: str, part: str = "") -> dict[str, pl.DataFrame]:
        """Return the Parquet files of a figure's data by name, without the suffix."""
        return {path.stem: pl.read_parquet(path) for path in self.files(name, part, pattern="*.parquet")}

    def recorded(self, name: str, part: str = "") -> Any:
        """Return the contents of the JSON file of a figure's data."""
        return json.loads(self.files(name, part, pattern="*.json")[0].read_text("utf-8"))

    @cached_property
    def published(self) -> pl.DataFrame:
        """Every number that the paper's text states (datasets/published/README.md explains the columns)."""
        return pl.read_csv(self.published_path, schema=PUBLISHED_COLUMNS)

    def stated(self, *ids: str) -> pl.DataFrame:
        """Return the published numbers with these ids, with * for any, in this order."""
        rows = [self.published.filter(conditions.like(pl.col("id"), name)) for name in ids]
        if unknown := [name for name, found in zip(ids, rows, strict=True) if found.is_empty()]:
            raise InputError(f"{self.published_path.name}: has no {', '.join(unknown)}; cite by column id")
        return pl.concat([self.published.clear(), *rows])

    def between(self, least: str, most: str | None = None) -> tuple[float, float]:
        """Return the published numbers with these ids as minimum and maximum."""
        values = self.stated(*dict.fromkeys((least, most or least)))["value"]
        return float(values[0]), float(values[-1])

    def save(
        self,
        name: str,
        made: Axes | pl.DataFrame,
        table: pl.DataFrame | None = None,
        *,
        says: str,
        part: str = "",
        note: str = "",
        out: Path | None = None,
    ) -> None:
        """Write a figure or table with its data and origin, and display it with its caption.

        A figure is written as PDF and PNG with the data source below it, a table as Markdown.

        Parameters
        ----------
        name, part : str
            The entry of the list.
        made : Axes or polars.DataFrame
            The figure or the table.
        table : polars.DataFrame, optional
            The data of a figure.
        says : str
            One sentence: the result of ours, and its difference from the paper.
        note : str, optional
            The note of the entry if it depends on the data.
        out : pathlib.Path, optional
            Directory for the files.
        """
        import IPython.display

        notebook: Any = IPython.display
        is_table = isinstance(made, pl.DataFrame)
        data = made if isinstance(made, pl.DataFrame) else table
        assert data is not None, f"{name}: a figure needs its data"
        item = self._made(name, part, is_table=is_table)
        shown = laid_out(data.with_columns(_ROUNDED), data.height) if is_table else None
        origin = self._provenance(item, data, says, note, shown)
        directory = out or Path(os.environ.get("ANDROSTEP_FIGURES", self.root / "build" / "figures"))
        stem = directory / self.name / item.stem
        if shown is None:
            assert isinstance(made, Axes)
            _print_source(made, f"Data: {origin['source']}.")
            _, image, *_ = plot.save(made, stem, table=data, provenance=origin)
            notebook.display(notebook.Image(image.read_bytes(), retina=True))
        else:
            stem.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(stem.with_suffix(".md"), f"{shown.markdown()}\n\n{_caption(origin)}\n")
            csvfile.write(data, stem.with_suffix(".csv"))
            words = json.dumps(origin, indent=2, sort_keys=True, ensure_ascii=False)
            files.write_text(stem.with_suffix(".json"), f"{words}\n")
            notebook.display(notebook.Markdown(shown.markdown()))
        notebook.display(notebook.Markdown(_caption(origin)))

    def _made(self, name: str, part: str, *, is_table: bool) -> Item:
        """Return the entry of a figure or table that is about to be written."""
        item = self.item(name, part)
        if item.missing:
            raise InputError(f"{self.path.name}: {item.title} is listed as missing; list its data instead")
        if item.table != is_table:
            raise InputError(f"{self.path.name}: {item.title} is listed as a {'table' if item.table else 'figure'}")
        return item

    def _provenance(self, item: Item, table: pl.DataFrame, says: str, note: str, shown: Shown | None) -> dict[str, Any]:
        """Return the contents and origin of a figure or table; `cells` is a table's formatted text."""
        return {
            "paper": self.cite,
            "item": item.title,
            "shows": item.shows,
            "says": says,
            "source": "; ".join(part for part in (item.source, repetitions(table)) if part),
            "data": item.origin,
            "note": note or item.note,
            "published": self.stated(*item.cites).rows(named=True),
            **({"cells": [shown.header, *shown.rows], "sides": shown.sides} if shown is not None else {}),
        }

    def _read(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.path.read_text("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{self.path.name}: no TOML ({error}); correct it") from None

    def _item(self, entry: dict[str, Any]) -> Item:
        lists = {name: tuple(entry.get(name, ())) for name in ("data", "cites")}
        try:
            item = Item(self.root, **{**entry, **lists})
        except TypeError as error:
            name = f"{self.path.name}: {entry.get('name')}"
            raise InputError(f"{name}: {error}; papers.py lists what an entry holds") from None
        if bool(item.missing) == bool(item.source and item.data):
            raise InputError(f"{self.path.name}: {item.title} needs either source and data, or why it is missing")
        return item


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
    def is_within(self) -> bool:
        """Whether the paper's number or range overlaps our interval."""
        return (
            self.lo is not None
            and self.hi is not None
            and self.lo <= self.published[1]
            and self.published[0] <= self.hi
        )

    @property
    def said(self) -> str:
        """Our value with its interval, and whether the paper's number lies in it."""
        least, most = self.published
        stated = f"the paper: {number(least) if least == most else f'{number(least)} to {number(most)}'}"
        if self.lo is None or self.hi is None:
            return f"{number(self.value)} ({stated})"
        place = "within" if self.is_within else "outside of"
        return f"{number(self.value)} [{number(self.lo)}, {number(self.hi)}] ({stated}, {place} this interval)"


def over(label: str, published: tuple[float, float], first: Sequence[float], second: Sequence[float]) -> Stated:
    """Return the ratio of the medians of two samples, second over first, with its interval (`bench.compare`)."""
    value, lo, hi = ratio(first, second)
    assert value is not None, f"{label}: no values"
    return Stated(label, published, value, lo, hi, len(first) + len(second))


def compared(
    label: str,
    published: tuple[float, float],
    tables: Mapping[str, pl.DataFrame],
    first: Mapping[str, str],
    second: Mapping[str, str],
    **both: str,
) -> Stated:
    """Return the rate of the runs `second` relative to that of the runs `first` (values of columns of bench_runs).

    `both` are the values that they have in common.
    """
    measured = bench.measures(tables).filter("valid", pl.col("metric").is_in(["iops", "tps"]), **both)
    return over(label, published, *(measured.filter(**side)["value"].to_list() for side in (first, second)))


def table_of(found: Sequence[Stated], unit: str = "1") -> pl.DataFrame:
    """Return the table that `plot.published` draws."""
    columns = ("what", "published_least", "published_most", "value", "lo", "hi", "unit", "n")
    rows = [(row.label, *row.published, row.value, row.lo, row.hi, unit, row.n) for row in found]
    return pl.DataFrame(rows, columns, orient="row", schema_overrides={"lo": pl.Float64, "hi": pl.Float64})


# -- words ------------------------------------------------------------------------------------------------------------


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


def number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _caption(origin: Mapping[str, Any]) -> str:
    """Return the caption in Markdown: our statement, the paper's figure, and our source."""
    words = f"{origin['item']}, {origin['shows']}. Here: {origin['source']}. {origin['note']}".strip()
    return f"**{origin['says']}** *{words}*"


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
