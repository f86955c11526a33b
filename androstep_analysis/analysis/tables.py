"""What all measures share: taking a table, choosing what counts, and the tidy shape of a result."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import polars as pl

from androstep_analysis import schema

Table: TypeAlias = pl.LazyFrame | pl.DataFrame | Any
"""A LazyFrame, a DataFrame, or anything with `__arrow_c_stream__` (pyarrow, pandas, DuckDB)."""


_NAMES = ("requests", "io")


def lazy(table: Table, names: tuple[str, ...] = _NAMES) -> pl.LazyFrame:
    """The table, which is one of those called `names`, as a LazyFrame; `TypeError` for something that is no table.

    Columns that another library holds in types of its own (pandas: categories for enums, floats for integers with
    nulls) get the types of schemas/*.json back, and with them the order of the enums. A value that is none of the
    enum's raises `polars.exceptions.InvalidOperationError`.
    """
    if not isinstance(table, pl.LazyFrame):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(f"{type(table).__name__} is no table; give a polars, pandas or Arrow table")
        table = pl.DataFrame(table).lazy()
    types = _types(names)
    return table.cast(
        {name: types[name] for name, have in table.collect_schema().items() if have != types.get(name, have)}
    )


@functools.cache
def _types(names: tuple[str, ...]) -> dict[str, pl.DataType]:
    """The type of every column of these tables; a name that several have is of one type."""
    return {column.name: column.polars for name in names for column in schema.table(name).columns}


def counted(table: Table) -> pl.LazyFrame:
    """The rows of `requests` or `io` that measures count (definitions.toml, counted).

    That is those that completed, if any did; a capture that records no completions counts everything.
    """
    completed = pl.col("complete_ns").is_not_null()
    return lazy(table).filter(completed | ~completed.any())


def tidy(groups: pl.LazyFrame, dimensions: Sequence[str], coverage: float | None = None) -> pl.DataFrame:
    """A result from one row per group with columns `count` and `bytes`: four metrics, ratios left to `shares`."""
    rows = groups.select(
        *dimensions,
        pl.col("count").cast(pl.Int64),
        pl.col("bytes").cast(pl.Int64),
        coverage=pl.lit(coverage, pl.Float64),
    ).collect()
    parts = [_metric(rows, dimensions, "count", "requests"), _metric(rows, dimensions, "bytes", "B")]
    return ordered(pl.concat(parts), dimensions)


def shares(table: pl.DataFrame, dimensions: Sequence[str], within: Sequence[str]) -> pl.DataFrame:
    """`table` (of `tidy`) with count_ratio and bytes_ratio added: the share of each row in its `within` group."""
    total = pl.col("value").sum().over("metric", *within) if within else pl.col("value").sum().over("metric")
    ratios = table.with_columns(
        value=pl.when(total > 0).then(pl.col("value") / total),
        metric=pl.col("metric") + "_ratio",
        unit=pl.lit("1"),
    )
    return ordered(pl.concat([table, ratios]), dimensions)


def ordered(table: pl.DataFrame, dimensions: Iterable[str]) -> pl.DataFrame:
    """The result with its columns in the tidy order, rows sorted by metric and dimensions."""
    dimensions = list(dimensions)
    by_metric = table.with_columns(pl.col("metric").cast(pl.Enum(table["metric"].unique(maintain_order=True))))
    return by_metric.sort("metric", *dimensions, nulls_last=True, maintain_order=True).select(
        pl.col("metric").cast(pl.String), *dimensions, "value", "unit", "n", "coverage"
    )


def known_share(table: pl.LazyFrame, known: pl.Expr) -> float | None:
    """Share of the bytes (column `bytes`) of the table on which `known` holds; None where there are no bytes."""
    whole, part = (
        table.select(pl.col("bytes").sum(), pl.col("bytes").filter(known).sum().alias("known")).collect().row(0)
    )
    return part / whole if whole else None


def coverage(requests: Table, io: Table) -> pl.DataFrame:
    """How much of the capture is known: matched, mapped, inferred, owned, each a share of bytes.

    Takes tables `requests` and `io`. Shares are of all requests seen, also of unfinished ones (definitions.toml,
    coverage).
    """
    seen = lazy(requests).select("matched", bytes=pl.col("nr_sectors") * 512)
    pieces = lazy(io)
    inferred = (pl.col("map_source") == "inferred").fill_null(False)
    parts = {
        "matched": (seen, ~pl.col("matched").is_in(["no_issue", "no_complete"])),
        "mapped": (pieces, pl.col("map_source").is_not_null() & ~inferred),
        "inferred": (pieces, inferred),
        "owned": (pieces, (pl.col("owner_count") != 0).fill_null(True) & (pl.col("owner_via") != "inferred")),
    }
    rows = [
        {"metric": name, "value": known_share(table, known), "unit": "1", "n": _rows_with_bytes(table)}
        for name, (table, known) in parts.items()
    ]
    return pl.DataFrame(rows, schema={"metric": pl.String, "value": pl.Float64, "unit": pl.String, "n": pl.Int64})


def _rows_with_bytes(table: pl.LazyFrame) -> int:
    return int(table.select((pl.col("bytes") > 0).sum()).collect().item())


def _metric(rows: pl.DataFrame, dimensions: Sequence[str], name: str, unit: str) -> pl.DataFrame:
    return rows.select(
        *dimensions,
        "coverage",
        metric=pl.lit(name),
        value=pl.col(name).cast(pl.Float64),
        unit=pl.lit(unit),
        n=pl.col("count"),
    )
