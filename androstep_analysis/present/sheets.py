"""Results of measures as tables, independent of how they are rendered.

A `Sheet` holds the rows, columns and number formats of a table. `terminal.text.sheet` renders it as aligned text,
`report.cells.sheet` as HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.measures.tables import MEASURES, inferred_share


class Column(NamedTuple):
    """How a column of a frame is displayed.

    A column with a `format` holds numbers; others hold text. Text is sorted by the numbers in column `by`, if given. A
    column to `pick` from has few values, and the page offers a filter for them. A minor one is omitted on a narrow
    terminal.
    """

    title: str
    format: Callable[[float], str] | None = None
    by: str | None = None
    pick: bool = False
    is_minor: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table with a title. It displays the `columns` of `rows`, in their order. Null means unknown.

    `note` is an explanation below the table.
    """

    title: str
    rows: pl.DataFrame
    columns: Mapping[str, Column]
    note: str = ""

    def texts(self, name: str) -> list[str | None]:
        """Return the formatted cells of a column."""
        form = self.columns[name].format
        if form is None:
            return self.rows[name].cast(pl.String).to_list()
        return [None if value is None else form(value) for value in self.rows[name].to_list()]


CERTAINTY: Final[Mapping[str, Column]] = {"inferred": Column("Certainty", quantities.certainty)}
"""Column of results that name owners, files or types: the share of the row that was inferred."""

MOVED: Final[Mapping[str, Column]] = {
    "read": Column("Read", quantities.size),
    "written": Column("Written", quantities.size),
    "share": Column("of bytes", quantities.per_cent),
    **CERTAINTY,
}
"""Columns of `moved`."""

_SHARES: Final[Mapping[str, Column]] = {
    "count": Column("Requests", quantities.count),
    "count_ratio": Column("of requests", quantities.per_cent),
    "bytes": Column("Bytes", quantities.size),
    "bytes_ratio": Column("of bytes", quantities.per_cent),
}

_DIMENSIONS: Final = {
    "op": "Operation",
    "block_type": "Block type",
    "file_type": "File type",
    "class": "Class",
    "map_source": "Source",
    "owner_via": "Rule",
}


def in_unit(rows: pl.DataFrame, numbers: Sequence[str]) -> pl.DataFrame:
    """Add columns said_NAME with these numbers as text, in the unit of each row (column unit)."""
    texts = {
        f"said_{name}": [quantities.in_unit(value, unit) for value, unit in rows.select(name, "unit").iter_rows()]
        for name in numbers
    }
    return rows.with_columns(pl.Series(name, column, pl.String) for name, column in texts.items())


def shares(title: str, dims: Sequence[str], table: pl.DataFrame) -> Sheet:
    """Return a table of count, bytes and their shares, with one row for each combination of `dims`."""
    return _wide(title, dims, _SHARES, table)


def fraction(table: pl.DataFrame) -> Sheet:
    """Return the table of `measures.metadata_fraction`."""
    titles = {
        "count_ratio": "Metadata, of requests",
        "bytes_ratio": "Metadata, of bytes",
        "journal_count_ratio": "Journal, of requests",
        "journal_bytes_ratio": "Journal, of bytes",
    }
    columns = {name: Column(title, quantities.per_cent) for name, title in titles.items()}
    return _wide("Fraction of metadata", ("op",), columns, table)


def quantiles(title: str, table: pl.DataFrame) -> Sheet:
    """Return the table of `measures.latency`: one row for each stage and operation, with its coverage."""
    names = table["quantile"].cast(pl.String).unique(maintain_order=True).to_list()
    wide = table.pivot(on="quantile", index=["step", "op", "n", "coverage"], values="value", maintain_order=True)
    columns = {
        "step": Column("Step"),
        "op": Column("Operation"),
        "n": Column("Requests", quantities.count),
        "coverage": Column("of bytes", quantities.per_cent),
        **{name: Column(name, quantities.duration) for name in names},
    }
    return Sheet(title, wide, columns)


def causes(largest: pl.DataFrame, mix: pl.DataFrame) -> list[Sheet]:
    """Return a table of writes and one of reads from `measures.largest`. `measures.mix` has the total of each."""
    kind = pl.col("block_type").cast(pl.String)
    unplaced = pl.when(kind == "free").then(pl.lit("(free blocks)")).otherwise(pl.format("({})", kind))
    # If the flags of a write are unknown, the cause is unknown too; name the operation instead.
    rows = largest.with_columns(
        why=pl.coalesce(pl.col("cause", "op").cast(pl.String)).str.replace_all("_", " "),
        file=pl.coalesce(
            "path",
            pl.format("inode {}", "ino"),
            pl.when(kind != "unknown").then(unplaced),
            pl.when((pl.col("cause") == "swap").fill_null(False)).then(pl.lit("(swap)")),
        ),
    )
    marked = [_marked(*row) for row in rows.select("owner", "file", "why", "inferred").iter_rows()]
    rows = rows.with_columns(pl.DataFrame(marked, schema=["owner", "why"], schema_overrides=_TEXTS, orient="row"))
    columns = {
        "bytes": Column("Bytes", quantities.size),
        "share": Column("Share", quantities.per_cent),
        "owner": Column("By"),
        "file": Column("File"),
        "why": Column("Why", pick=True),
        "count": Column("Requests", quantities.count, is_minor=True),
    }
    note = "share: of the total"
    if rows["p99_ns"].count():
        columns["p99_ns"] = Column("p99", quantities.duration)
        note += "; p99: time from issue, or else from queueing, to completion"
    totals = dict(mix.filter(metric="bytes").select(pl.col("op").cast(pl.String), "value").iter_rows())
    titles = {op: f"{verb}: {quantities.size(totals.get(op, 0))}" for op, verb in _MOVED.items()}
    of_ops = [Sheet(titles[op], of_op, columns) for op in _MOVED if (of_op := rows.filter(op=op)).height]
    return [*of_ops[:-1], *(replace(last, note=note) for last in of_ops[-1:])]


_TEXTS: Final = {"owner": pl.String, "why": pl.String}


def _marked(owner: str | None, file: str | None, why: str, inferred: float) -> tuple[str | None, str]:
    """Return owner and cause with the inferred share: at the owner if it is the only name, else at the cause."""
    if owner is not None and file is None:
        return quantities.marked(owner, inferred), why
    return owner, quantities.marked(why, inferred)


_MOVED: Final = {"write": "Written", "read": "Read"}
"""The operations that move data."""


def volume(title: str, what: str, table: pl.DataFrame) -> Sheet:
    """Return the table of `measures.volume` by one dimension, with the largest volume first."""
    rows = moved(table)
    total = quantities.size(float(rows["read"].sum()) + float(rows["written"].sum()))
    note = f"Shares: of {total}, the sum of all rows."
    return Sheet(title, rows, {rows.columns[0]: Column(what), **MOVED}, note)


def moved(table: pl.DataFrame) -> pl.DataFrame:
    """Return bytes ``read`` and ``written`` of `measures.volume` and their ``share``, largest first."""
    name = next(column for column in table.columns if column not in (*MEASURES, "op"))
    of_bytes = table.filter(pl.col("metric") == "bytes", pl.col("op").is_in(["read", "write"]))
    return (
        of_bytes.group_by(name)
        .agg(
            read=pl.col("value").filter(pl.col("op") == "read").sum(),
            written=pl.col("value").filter(pl.col("op") == "write").sum(),
            inferred=inferred_share(),
        )
        .with_columns(share=(pl.col("read") + pl.col("written")) / (pl.col("read") + pl.col("written")).sum())
        .sort(["share", name], descending=[True, False])
    )


def _wide(title: str, dims: Sequence[str], metrics: Mapping[str, Column], table: pl.DataFrame) -> Sheet:
    """Return a tidy table with its `metrics` as columns."""
    more = {name: column for name, column in CERTAINTY.items() if name in table.columns}
    wide = table.pivot(on="metric", index=[*dims, *more], values="value", maintain_order=True)
    names = {name: Column(_DIMENSIONS.get(name, name)) for name in dims}
    there = {name: one for name, one in metrics.items() if name in wide.columns}
    return Sheet(title, wide, names | there | more)
