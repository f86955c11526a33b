"""Tables of the measures of requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.markup import Element, el
from androstep_analysis.measures.tables import MEASURES, inferred_share
from androstep_analysis.present.report import cells
from androstep_analysis.present.report.cells import Column

CERTAINTY: Mapping[str, Column] = {"inferred": Column("Certainty", quantities.certainty)}
"""Column of results that name owners, files or types: how much of that is inferred."""

_SHARES: Mapping[str, Column] = {
    "count": Column("Requests", cells.count),
    "count_ratio": Column("of requests", cells.per_cent),
    "bytes": Column("Bytes", cells.size),
    "bytes_ratio": Column("of bytes", cells.per_cent),
}


def shares(label: str, *dims: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders count, bytes and their shares, a row for each combination of `dims`."""
    return lambda table: [_wide(table, dims, _SHARES, label), *known(table)]


def fraction(table: pl.DataFrame) -> list[Element]:
    """Renders `measures.metadata_fraction`."""
    titles = {
        "count_ratio": "Metadata, of requests",
        "bytes_ratio": "Metadata, of bytes",
        "journal_count_ratio": "Journal, of requests",
        "journal_bytes_ratio": "Journal, of bytes",
    }
    columns = {name: Column(title, cells.per_cent) for name, title in titles.items()}
    return [_wide(table, ("op",), columns, "Fraction of metadata")]


def quantiles(table: pl.DataFrame) -> list[Element]:
    """Renders `measures.latency`: a row per step and operation, with how much of it was measured."""
    names = table["quantile"].cast(pl.String).unique(maintain_order=True).to_list()
    wide = table.pivot(on="quantile", index=["step", "op", "n", "coverage"], values="value", maintain_order=True)
    columns = {
        "step": Column("Step"),
        "op": Column("Operation"),
        "n": Column("Requests", cells.count),
        "coverage": Column("of bytes", cells.per_cent),
        **{name: Column(name, cells.duration) for name in names},
    }
    return [cells.table(wide, columns, "Quantiles of latency")]


def moved(table: pl.DataFrame) -> pl.DataFrame:
    """Bytes ``read`` and ``written`` of `measures.volume` by its one dimension, and their ``share``; most first."""
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


def volume(what: str, label: str) -> Callable[[pl.DataFrame], list[Element]]:
    """Renders `moved`: a row for each `what`."""

    def render(table: pl.DataFrame) -> list[Element]:
        rows = moved(table)
        return [cells.table(rows, {rows.columns[0]: Column(what), **MOVED}, label), *known(table)]

    return render


MOVED: Mapping[str, Column] = {
    "read": Column("Read", cells.size),
    "written": Column("Written", cells.size),
    "share": Column("of bytes", cells.per_cent),
    **CERTAINTY,
}
"""Columns of `moved`."""


def _wide(table: pl.DataFrame, dims: Sequence[str], metrics: Mapping[str, Column], label: str) -> Element:
    """A tidy table with its `metrics` as columns."""
    more = {name: column for name, column in CERTAINTY.items() if name in table.columns}
    wide = table.pivot(on="metric", index=[*dims, *more], values="value", maintain_order=True)
    names = {name: Column(_TITLES.get(name, name)) for name in dims}
    there = {name: one for name, one in metrics.items() if name in wide.columns}
    return cells.table(wide, names | there | more, label)


_TITLES = {
    "op": "Operation",
    "block_type": "Block type",
    "file_type": "File type",
    "class": "Class",
    "map_source": "Source",
    "owner_via": "Rule",
}


def known(table: pl.DataFrame) -> list[Element]:
    """The coverage of a result, for each operation where it tells them apart, unless it is simply everything."""
    rows = table.drop_nulls("coverage")
    if rows.is_empty() or (rows["coverage"] == 1).all():
        return []
    if "op" in table.columns:
        of_op = rows.select(pl.col("op").cast(pl.String), "coverage").unique(maintain_order=True).sort("op")
        listed = ", ".join(f"{op} {cells.per_cent(value)}" for op, value in of_op.iter_rows())
        return [el("p", f"Known, of the bytes of each operation: {listed}.", class_="note")]
    values = rows["coverage"].unique()
    return [el("p", f"Known for {cells.bytes_share(values[0])}.", class_="note")] if len(values) == 1 else []
