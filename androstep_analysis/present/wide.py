"""Small tables for reading: a row for each combination of dimensions, a column for each metric, values with units."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import polars as pl

from androstep_analysis.common import quantities, schema
from androstep_analysis.common.markup import Element, el, visible
from androstep_analysis.measures.tables import MEASURES, Table, frame, lazy
from androstep_analysis.present.blocks import element
from androstep_analysis.present.headline import Headline, slow, unknown
from androstep_analysis.present.terminal.headline import shown
from androstep_analysis.present.terminal.rows import cell
from androstep_analysis.present.terminal.text import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from androstep_analysis.capture import Capture

MOST: Final = 50
"""Rows displayed by default."""

_WIDEST: Final = 10
"""Maximum number of metric columns. With more metrics, the table is transposed: one row for each metric."""

_OF_UNIT: Final = ("value", "lo", "hi")
_OF_UNIT_TOO: Final = ("first", "second", "difference", "difference_lo", "difference_hi", "least", "greatest", "last")
"""Columns whose numbers have the unit in column unit. The second tuple applies if there is no column value."""

_KNOWN: Final = "known"

_WHOLES: Final = ("count", "bytes")
"""Metrics whose shares are the metrics with the suffix _ratio."""

_NUMBER: Final = re.compile(r"(-|[<>] )?\d[\d,.]*(e[+-]?\d+)?( ?[%µA-Za-z/]{1,5})?( \(.*\))?")


_MARKUP: Final = re.compile(r"[\\\\`*_\[\]<>|&~$]")
"""Characters that may have a meaning in Markdown within a cell."""


@dataclass(frozen=True)
class Shown:
    """A table of texts. A notebook displays it as HTML with all text escaped; printed, it is aligned text.

    Attributes
    ----------
    header : tuple of str
        Titles of the columns.
    rows : tuple of tuple of str
        The cells of each row.
    more : int
        Number of omitted rows.
    why : str
        Why there are no rows.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    why: str = "No rows."

    @property
    def sides(self) -> list[str]:
        """The side to which each column is aligned: right for numbers, else left."""
        return ["right" if _are_numbers(column) else "left" for column in zip(*self.rows, strict=True)]

    def __repr__(self) -> str:
        return "\n".join([table(self.header, self.rows) if self.rows else self.why, *self._rest()])

    def _repr_html_(self) -> str:
        if not self.rows:
            return str(el("p", self.why))
        head = el("thead", _row("th", self.header, self.sides))
        body = el("tbody", *(_row("td", row, self.sides) for row in self.rows))
        return "".join(map(str, [el("table", head, body), *(el("p", words) for words in self._rest())]))

    def markdown(self) -> str:
        """Return the table in GitHub's Markdown, with all text escaped."""
        if not self.rows:
            return self.why
        sides = ["--:" if side == "right" else ":--" for side in self.sides]
        lines = ([_MARKUP.sub(r"\\\g<0>", visible(text)) for text in row] for row in (self.header, *self.rows))
        head, *body = (f"| {' | '.join(cells)} |" for cells in lines)
        return "\n".join([head, f"|{'|'.join(sides)}|", *body, *(f"\n{words}" for words in self._rest())])

    def _rest(self) -> list[str]:
        return [f"… and {self.more:,} more rows"] if self.more else []


@dataclass(frozen=True)
class ShownBlocks:
    """The slowest operations (`androstep.slow`), one block for each: HTML in a notebook, text when printed.

    Attributes
    ----------
    blocks : tuple of present.headline.slow.Block
        The blocks.
    """

    blocks: tuple[slow.Block, ...]

    def __repr__(self) -> str:
        return "\n\n".join(shown(Headline(block.sentences)) for block in self.blocks) or "No rows."

    def _repr_html_(self) -> str:
        return "".join(str(element(block)) for block in self.blocks) or str(el("p", "No rows."))


def show(
    result: Table | Axes, most: int = MOST, *, across: str = "", of: Capture | None = None, needs: str = ""
) -> Shown | ShownBlocks | Axes:
    """Return a table for reading: a measure with one column per metric, or the first rows of another table.

    A tidy result (columns metric or quantile, value, unit) gets one row for each combination of its dimensions and one
    column for each metric and quantile. An interval (lo, hi) follows its value. Other tables keep their rows; columns
    without any value are omitted. Null in a column of table `io` is displayed as unknown. The rows of `androstep.slow`
    become blocks, as `androstep slow` prints them.

    With `of` and `needs`, a result without data is replaced by a sentence that says what the recording lacks.

    Parameters
    ----------
    result : Table or Axes
        A result of a measure or of a comparison, or any other table. A figure is returned as it is.
    most : int
        Maximum number of rows.
    across : str, optional
        A dimension whose values become columns instead of the metrics, of a result with a single metric.
    of : Capture, optional
        The capture of the result.
    needs : str, optional
        The column of table `io` without which the result says nothing, such as op, path or owner_comm; or the table
        that the result is of (bench, commands, samples, syscalls).

    Returns
    -------
    Shown, ShownBlocks or Axes
        A notebook displays its `_repr_html_`; printed, it is text.

    Raises
    ------
    TypeError
        If `result` is neither a table nor a figure.

    Examples
    --------
    >>> androstep.show(measures.mix(capture.requests))
    op       requests  of requests  bytes      of bytes
    -------  --------  -----------  ---------  --------
    read          817       24.3 %  13.88 MiB    20.3 %
    write       2,335       69.5 %  35.52 MiB    51.8 %
    flush       1,195            –        0 B         –
    discard       208        6.2 %  19.14 MiB    27.9 %
    >>> androstep.show(measures.calls(capture.syscalls), of=capture, needs="syscalls")
    The recording has no system calls.
    """
    if of is not None and (why := unknown.missing(of, needs)):
        return Shown((), (), why=why)
    if _is_figure(result):
        return cast("Axes", result)
    table = cast("Table", result)
    if across:
        table = lazy(table, ()).drop("metric").rename({across: "metric"})
    if lazy(table, ()).collect_schema().names() == schema.table("slow").polars.names():
        return ShownBlocks(tuple(slow.blocks(frame(table))))
    return laid_out(table, most)


def _is_figure(result: Table | Axes) -> bool:
    """Return whether a result is a figure, without importing matplotlib, which takes a second."""
    drawn = sys.modules.get("matplotlib.axes")
    return drawn is not None and isinstance(result, drawn.Axes)


def laid_out(table: Table, most: int = MOST) -> Shown:
    """Return a table in the layout of `show`, always as rows and columns."""
    rows = lazy(table, ())
    names = rows.collect_schema().names()
    is_tidy = {"value", "unit"} <= set(names) and {"metric", "quantile"} & set(names)
    wide = _wide(_with_factors(frame(table), ["metric"])) if is_tidy else None
    if wide is not None:
        header, texts = wide
        return Shown(header, texts[:most], max(0, len(texts) - most))
    number = rows.select(pl.len()).collect().item()
    return Shown(*_plain(_with_factors(frame(rows.head(most)), [])), max(0, number - most))


def _with_factors(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Remove unit 1 from metrics with a value above 1: they are factors, and not shares to show in per cent."""
    numbers = [name for name in _OF_UNIT if name in rows.columns]
    if "unit" not in rows.columns or not numbers:
        return rows
    largest = pl.max_horizontal(numbers).max()
    groups = [name for name in by if name in rows.columns]
    largest = largest.over(groups) if groups else largest
    is_factor = (pl.col("unit") == "1") & (largest > 1)
    return rows.with_columns(unit=pl.when(is_factor).then(pl.lit("")).otherwise(pl.col("unit")))


# -- tidy results -----------------------------------------------------------------------------------------------------


def _wide(tidy: pl.DataFrame) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None:
    """Return header and rows of a tidy result, or None if its dimensions do not identify its rows."""
    across = [name for name in ("metric", "quantile") if name in tidy.columns]
    dims = [name for name in _with_values(tidy) if name not in (*MEASURES, *across)]
    places: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, Any]]] = {}
    metrics: dict[tuple[Any, ...], str] = {}
    for row in tidy.iter_rows(named=True):
        metric = tuple(row[name] for name in across)
        of_row = places.setdefault(tuple(row[name] for name in dims), {})
        if metric in of_row:
            return None
        of_row[metric] = row
        metrics[metric] = row["unit"]
    order = _ordered(metrics)
    header = [_title(name) for name in dims] + _metric_titles(order, metrics)
    body = [
        [_text(name, value) for name, value in zip(dims, key, strict=True)]
        + [_measured(of_row[metric]) if metric in of_row else "–" for metric in order]
        for key, of_row in places.items()
    ]
    beside = [_beside(list(of_row.values())) for of_row in places.values()]
    sure = [_certainty(list(of_row.values())) for of_row in places.values()]
    if any(sure):
        header.append("certainty")
        body = [[*row, text] for row, text in zip(body, sure, strict=True)]
    for name, texts in (("n", [n for n, _ in beside]), (_KNOWN, [known for _, known in beside])):
        if all(text is not None for text in texts) and not (name == _KNOWN and set(texts) == {quantities.per_cent(1)}):
            header.append(name)
            body = [[*row, text or ""] for row, text in zip(body, texts, strict=True)]
    if len(order) > max(_WIDEST, len(body)):
        of_things = [" ".join(row[: len(dims)]) or "value" for row in body]
        columns = zip(*(row[len(dims) :] for row in body), strict=True)
        body = [[title, *column] for title, column in zip(header[len(dims) :], columns, strict=True)]
        header = ["metric", *of_things]
    return tuple(header), tuple(map(tuple, body))


def _ordered(metrics: dict[tuple[Any, ...], str]) -> list[tuple[Any, ...]]:
    """Return the metrics in their order, each share directly after the metric it is a share of."""
    order: list[tuple[Any, ...]] = []
    for metric in metrics:
        whole = (str(metric[0]).removesuffix("_ratio"), *metric[1:])
        order.insert(order.index(whole) + 1 if whole != metric and whole in order else len(order), metric)
    return order


def _metric_titles(order: Sequence[tuple[Any, ...]], units: dict[tuple[Any, ...], str]) -> list[str]:
    """Return the column titles: the counted unit for counts, "of …" for shares, otherwise the name and the quantile."""
    names = {metric: [str(part) for part in metric if part is not None] for metric in order}
    if len({metric[0] for metric in order}) == 1:
        names = {metric: words[1:] or words for metric, words in names.items()}
    titles = {}
    for metric, words in names.items():
        whole = str(metric[0]).removesuffix("_ratio")
        counted = units.get(("count",), "count")
        name = words[0]
        if name == "count":
            name = units[metric]
        elif whole != name and whole in _WHOLES and (whole,) in units:
            name = f"of {counted if whole == 'count' else whole}"
        titles[metric] = " ".join([_title(name), *words[1:]])
    return list(titles.values())


def _measured(row: dict[str, Any]) -> str:
    """Format the value of a row with its unit, and with its interval if it has one."""
    if row["value"] is None:
        return "–"
    value = quantities.in_unit(row["value"], row["unit"])
    if row.get("lo") is None or row.get("hi") is None or row["lo"] == row["hi"]:
        return value
    return f"{value} ({quantities.in_unit(row['lo'], row['unit'])} to {quantities.in_unit(row['hi'], row['unit'])})"


def _beside(rows: Sequence[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Return n, if it is equal in all rows and no metric is a count, and the coverage, if it is equal in all rows."""
    numbers = {row.get("n") for row in rows} if all(row.get("metric") != "count" for row in rows) else {None}
    known = {row.get("coverage") for row in rows}
    n, share = (next(iter(values)) if len(values) == 1 else None for values in (numbers, known))
    return (None if n is None else quantities.count(n)), (None if share is None else quantities.per_cent(share))


def _certainty(rows: Sequence[dict[str, Any]]) -> str:
    """Return the inferred share of a row in words. Of several shares the largest counts."""
    shares = [row["inferred"] for row in rows if row.get("inferred") is not None]
    return quantities.certainty(max(shares, default=None))


# -- other tables -----------------------------------------------------------------------------------------------------


def _plain(rows: pl.DataFrame) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return header and rows of a table that is not tidy."""
    of_unit = () if "unit" not in rows.columns else _OF_UNIT if "value" in rows.columns else _OF_UNIT_TOO
    numbers = [name for name in of_unit if name in rows.columns]
    names = [name for name in _with_values(rows) if not (name == "unit" and numbers)]
    texts = (
        tuple(
            quantities.in_unit(row[name], row["unit"])
            if name in numbers and row[name] is not None
            else _text(name, row[name])
            for name in names
        )
        for row in rows.iter_rows(named=True)
    )
    return tuple(map(_title, names)), tuple(texts)


def _with_values(rows: pl.DataFrame) -> list[str]:
    """Return the columns that have any value."""
    return [column.name for column in rows if column.null_count() < rows.height]


def _text(name: str, value: object) -> str:
    """Format a value that belongs to no metric."""
    if value is None:
        return "unknown" if name in _of_io() else "–"
    if isinstance(value, int) and not isinstance(value, bool) and _unit(name) is None and name not in _columns():
        return f"{value:,}"
    if isinstance(value, float):
        return cell(name, None, value) if _unit(name) is None else quantities.in_unit(value, _unit(name) or "")
    return cell(name, _unit(name), value)


def _title(name: str) -> str:
    """Return a column's name without the unit, which is in the cells."""
    words = name.removesuffix("_ns").removesuffix("_bytes") if _unit(name) else name
    return (words or name).replace("_", " ")


def _unit(name: str) -> str | None:
    """Return the unit of a column (``B``, ``ns`` or None) from schemas/*.json, or from its suffix."""
    if name in _columns():
        return _columns()[name].unit
    return "ns" if name.endswith("_ns") else "B" if name == "bytes" or name.endswith("_bytes") else None


@functools.cache
def _columns() -> dict[str, schema.Column]:
    """Return the columns of all tables."""
    return {column.name: column for name in schema.names() for column in schema.table(name).columns}


@functools.cache
def _of_io() -> frozenset[str]:
    return frozenset(column.name for column in schema.table("io").columns)


# -- as HTML ----------------------------------------------------------------------------------------------------------


def _row(tag: str, texts: Iterable[str], sides: Iterable[str]) -> Element:
    return el("tr", *(el(tag, text, style=f"text-align: {side}") for text, side in zip(texts, sides, strict=True)))


def _are_numbers(texts: Iterable[str]) -> bool:
    return all(text == "–" or _NUMBER.fullmatch(text) for text in texts)
