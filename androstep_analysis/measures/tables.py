"""Functions that all measures share: reading tables, selecting the rows that count, and shaping a tidy result."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.units import SECTOR_BYTES

Table: TypeAlias = pl.LazyFrame | pl.DataFrame | Any
"""A LazyFrame, a DataFrame, or anything with `__arrow_c_stream__` (pyarrow, pandas, DuckDB)."""


MEASURES: Final = ("metric", "value", "unit", "n", "coverage", "lo", "hi", "confidence", "inferred")
"""Columns of a result table that are not dimensions."""

_NAMES = ("requests", "io")

KNOWN: Final = "_known"
"""Name of the working column that is true if the values of all columns in use are known as facts (`is_known`)."""

_OF_MAP: Final = {"block_type", "subtype", "ino", "path", "file_type", "package", "file_offset_bytes"}
_OF_OWNER: Final = {"owner_pid", "owner_comm", "owner_package", "state", "uid"}
INFERABLE: Final = _OF_MAP | _OF_OWNER
"""Columns of table `io` that may be inferred."""


def lazy(table: Table, names: tuple[str, ...] = _NAMES) -> pl.LazyFrame:
    """Return the table, of one of the kinds in `names`, as a LazyFrame. Raises `TypeError` if it is not a table.

    Columns that another library holds in types of its own get the types of schemas/*.json back, and enums their order.
    (pandas has categories for enums, and floats for integers with nulls.) A value that is not in the enum raises
    `polars.exceptions.InvalidOperationError`.
    """
    if not isinstance(table, pl.LazyFrame):
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(f"{type(table).__name__} is not a table; give a polars, pandas or Arrow table")
        table = pl.DataFrame(table).lazy()
    columns = table.collect_schema().names()
    if names == _NAMES and "ino" in columns and "incarnation" not in columns:  # captures of earlier releases lack it
        table = table.with_columns(incarnation=pl.lit(None, pl.Int32))
    types = _types(names)
    return table.cast(
        {
            name: types[name]
            for name, have in table.collect_schema().items()
            if not schema.is_of(name, have, types.get(name, have))
        }
    )


def is_interchangeable(table: pl.DataFrame | pl.LazyFrame) -> pl.Expr:
    """Return whether the latency of a request is unknown: its completion may be that of an equal request."""
    if "matched" not in table.collect_schema():
        return pl.lit(False)
    return pl.col("matched").cast(pl.String) == "interchangeable"


def device_time(requests: pl.DataFrame | pl.LazyFrame) -> pl.Expr:
    """Return the time of a request in the device in ns: from issue to completion, null if it is unknown."""
    return pl.when(~is_interchangeable(requests)).then(pl.col("complete_ns") - pl.col("issue_ns"))


def frame(table: Table) -> pl.DataFrame:
    """Return a result, or another table without a schema, as a DataFrame. Categories (pandas) become strings."""
    rows = lazy(table, ()).collect()
    is_own = isinstance(table, pl.DataFrame | pl.LazyFrame)
    return rows if is_own else rows.cast({pl.Categorical: pl.String, pl.Enum: pl.String})


@functools.cache
def _types(names: tuple[str, ...]) -> dict[str, pl.DataType]:
    """Return the type of every column of these tables. Columns of the same name have the same type."""
    return {column.name: column.polars for name in names for column in schema.table(name).columns}


def counted(table: Table) -> pl.LazyFrame:
    """Return the rows of `requests` or `io` that all measures, figures and exports count.

    These are the requests that reached their device: they were issued to it or completed by it. If a capture records
    neither, every row counts.

    Parameters
    ----------
    table : Table
        Table `requests` or `io`: issue_ns, complete_ns.

    Returns
    -------
    polars.LazyFrame
        Those rows with all their columns.

    Raises
    ------
    TypeError
        If `table` is not a table.

    References
    ----------
    ``schemas/definitions.toml``, counted.

    Examples
    --------
    >>> measures.counted(capture.requests).collect().height
    4555
    """
    rows = lazy(table)
    is_reached = pl.col("issue_ns").is_not_null() | pl.col("complete_ns").is_not_null()
    # Evaluated here, since within the filter it would keep all rows in memory until the last one is read. In most
    # captures, the first rows suffice.
    for some in (rows.head(_FIRST_ROWS), rows):
        if some.filter(is_reached).head(1).select(pl.len()).collect().item():
            return rows.filter(is_reached)
    return rows


_FIRST_ROWS: Final = 100


def population(requests: Table) -> dict[str, int]:
    """Return the number of requests that count, and the part that was recorded completely.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, issue_ns, complete_ns.

    Returns
    -------
    dict of int
        Keys count and bytes (of counted requests), completed and completed_bytes (those that completed within the
        capture), issued (those with an issue event), queued and queued_bytes (requests that do not count: queued, but
        neither issued nor completed).

    References
    ----------
    ``schemas/definitions.toml``, counted.

    Examples
    --------
    >>> measures.population(capture.requests)["completed"]
    4555
    """
    size = pl.col("nr_sectors") * SECTOR_BYTES
    is_complete = pl.col("complete_ns").is_not_null()
    whole = lazy(requests).select(seen=pl.len(), seen_bytes=size.sum())
    of_counted = counted(requests).select(
        count=pl.len(),
        bytes=size.sum(),
        completed=is_complete.sum(),
        completed_bytes=size.filter(is_complete).sum(),
        issued=pl.col("issue_ns").is_not_null().sum(),
    )
    seen, counts = whole.collect().row(0, named=True), of_counted.collect().row(0, named=True)
    queued = {"queued": seen["seen"] - counts["count"], "queued_bytes": seen["seen_bytes"] - counts["bytes"]}
    return {name: int(value) for name, value in (counts | queued).items()}


def tidy(groups: pl.DataFrame, dimensions: Sequence[str], coverage: float | None = None) -> pl.DataFrame:
    """Return metrics count and bytes from a table with one row per group and columns `count` and `bytes`."""
    rows = groups.select(
        *dimensions,
        pl.col("count").cast(pl.Int64),
        pl.col("bytes").cast(pl.Int64),
        coverage=pl.lit(coverage, pl.Float64),
    )
    parts = [_metric(rows, dimensions, "count", "requests"), _metric(rows, dimensions, "bytes", "B")]
    return ordered(pl.concat(parts), dimensions)


def columns_as_rows(wide: pl.DataFrame, dimensions: Sequence[str], units: Mapping[str, str]) -> pl.DataFrame:
    """Return a result from a table with columns n, coverage (optional) and one for each metric of `units`."""
    coverage = pl.col("coverage") if "coverage" in wide.columns else pl.lit(None, pl.Float64).alias("coverage")
    parts = [
        wide.select(
            *dimensions,
            "n",
            coverage,
            metric=pl.lit(metric),
            value=pl.col(metric).cast(pl.Float64),
            unit=pl.lit(unit),
        )
        for metric, unit in units.items()
    ]
    return ordered(pl.concat(parts), dimensions)


def shares(table: pl.DataFrame, dimensions: Sequence[str], within: Sequence[str]) -> pl.DataFrame:
    """Return `table` (of `tidy`) with count_ratio and bytes_ratio: the share of each row in its `within` group."""
    total = pl.col("value").sum().over("metric", *within) if within else pl.col("value").sum().over("metric")
    ratios = table.with_columns(
        value=pl.when(total > 0).then(pl.col("value") / total),
        metric=pl.col("metric") + "_ratio",
        unit=pl.lit("1"),
    )
    return ordered(pl.concat([table, ratios]), dimensions)


def ordered(table: pl.DataFrame, dimensions: Iterable[str]) -> pl.DataFrame:
    """Return the result with columns in the tidy order, and rows sorted by metric and dimensions."""
    dimensions = list(dimensions)
    by_metric = table.with_columns(pl.col("metric").cast(pl.Enum(table["metric"].unique(maintain_order=True))))
    certainty = ["inferred"] if "inferred" in table.columns else []
    return by_metric.sort("metric", *dimensions, nulls_last=True, maintain_order=True).select(
        pl.col("metric").cast(pl.String), *dimensions, "value", "unit", "n", "coverage", *certainty
    )


def up_to_power(number: pl.Expr) -> pl.Expr:
    """Return the least power of two that is not less than a positive integer (Int64)."""
    # Computed from the binary digits of number - 1, since a logarithm is not exact.
    return pl.lit(2, pl.Int64).pow(64 - (number - 1).bitwise_leading_zeros().cast(pl.Int64))


def known_share(groups: pl.DataFrame, size: str = "bytes") -> float | None:
    """Return the share of all groups, by their `size`, that is known (column `known`); None without groups."""
    whole, known = groups.select(pl.col(size, "known").sum()).row(0)
    return known / whole if whole else None


def inferred_share(rows: pl.Expr | None = None) -> pl.Expr:
    """Return the inferred share of these rows of a measure together (default: all), as an aggregation."""
    is_meant = pl.col("inferred").is_not_null() & (pl.lit(True) if rows is None else rows)
    value, inferred = (pl.col(name).filter(is_meant) for name in ("value", "inferred"))
    return pl.when(value.sum() > 0).then((value * inferred).sum() / value.sum())


def with_known_share(table: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Return the result with coverage: the known share of the bytes of each row's operation.

    `groups` has columns op, bytes and known (the known part of bytes) for groups that make up the operation.
    """
    of_op = groups.group_by("op").agg(pl.col("bytes", "known").sum())
    whole = pl.col("bytes")
    shares = of_op.select("op", coverage=pl.when(whole > 0).then(pl.col("known") / whole))
    return table.drop("coverage").join(shares, on="op", how="left", maintain_order="left")


def coverage(requests: Table, io: Table) -> pl.DataFrame:
    """Return the shares of the counted requests that are matched, mapped, inferred and owned.

    Shares are by operation, since one discard may be larger than all reads and writes.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, issue_ns, complete_ns, matched.
    io : Table
        Table `io`: nr_sectors, op, issue_ns, complete_ns, block_type, path, owner_count, owner_via, map_source.

    Returns
    -------
    polars.DataFrame
        Columns op (Enum), metric (String: matched, mapped, inferred, owned), value (Float64: share of the bytes of the
        operation; for empty flushes, which cannot be mapped, share of their number), unit (1) and n (Int64: requests
        for matched, else pieces).

    References
    ----------
    ``schemas/definitions.toml``, coverage.

    Examples
    --------
    >>> table = measures.coverage(capture.requests, capture.io)
    >>> round(table.filter(op="read", metric="mapped")["value"].item(), 4)
    0.9986
    """
    is_mapped = known_type() | (_is_fact() & pl.col("path").is_not_null())
    is_attributed = (
        pl.col("block_type").is_not_null() & (pl.col("block_type") != "unknown") | pl.col("path").is_not_null()
    )
    is_owned = (pl.col("owner_count") != 0).fill_null(True) & (pl.col("owner_via") != "inferred")
    known = {
        "matched": ~pl.col("matched").is_in(["no_issue", "no_complete"]),
        "mapped": is_mapped,
        "inferred": is_attributed & (pl.col("map_source") == "inferred").fill_null(False),
        "owned": is_owned,
    }
    # Flushes carry no bytes, so each counts one.
    weight = pl.when(pl.col("op") == "flush").then(1).otherwise(pl.col("nr_sectors"))
    parts = [
        counted(table)
        .filter(weight > 0)
        .group_by("op")
        .agg(
            pl.len().cast(pl.Int64).alias("n"),
            *((weight.filter(known[name]).sum() / weight.sum()).alias(name) for name in names),
        )
        .collect()
        .unpivot(names, index=["op", "n"], variable_name="metric", value_name="value")
        for table, names in ((requests, ["matched"]), (io, ["mapped", "inferred", "owned"]))
    ]
    table = pl.concat(parts).filter((pl.col("op") != "flush") | pl.col("metric").is_in(["matched", "owned"]))
    metric = pl.col("metric").cast(pl.Enum(list(known)))
    return table.sort("op", metric).select("op", "metric", "value", pl.lit("1").alias("unit"), "n")


def known_type() -> pl.Expr:
    """Return whether the block type of the piece (table `io`) is known as a fact."""
    return _is_fact() & (pl.col("block_type") != "unknown").fill_null(False)


def is_named(by: Sequence[str]) -> pl.Expr:
    """Return whether all of `by` has a value, be it only an inferred one."""
    known = [pl.col(name).is_not_null() for name in by]
    known += [pl.col(name).cast(pl.String) != "unknown" for name in ("block_type", "file_type") if name in by]
    return pl.all_horizontal(pl.lit(True), *known).fill_null(False)


def is_known(by: Sequence[str], columns: Sequence[str]) -> pl.Expr:
    """Return whether all of `by` is known as a fact, in a table with these columns; null, unknown and inferred are not.

    Columns of table `io` that describe the file and the blocks are as certain as map_source, those of the owner as
    owner_via. Other tables have neither.
    """
    known = [is_named(by)]
    if "map_source" in columns and not _OF_MAP.isdisjoint(by):
        known.append(_is_fact())
    if "owner_via" in columns and not _OF_OWNER.isdisjoint(by):
        known.append(pl.col("owner_via") != "inferred")
    return pl.all_horizontal(known).fill_null(False)


def is_inferred(by: Sequence[str], columns: Sequence[str]) -> pl.Expr:
    """Return whether all of `by` has a value, and some of it is only inferred.

    `columns` are those of the table, as for `is_known`.
    """
    likely = [pl.lit(False)]
    if "map_source" in columns and not _OF_MAP.isdisjoint(by):
        likely.append(pl.col("map_source") == "inferred")
    if "owner_via" in columns and not _OF_OWNER.isdisjoint(by):
        likely.append(pl.col("owner_via") == "inferred")
    return (is_named(by) & pl.any_horizontal(likely)).fill_null(False)


def _is_fact() -> pl.Expr:
    """Return whether the mapping of the piece is a fact."""
    return (pl.col("map_source") != "inferred").fill_null(False)


def _metric(rows: pl.DataFrame, dimensions: Sequence[str], name: str, unit: str) -> pl.DataFrame:
    return rows.select(
        *dimensions,
        "coverage",
        metric=pl.lit(name),
        value=pl.col(name).cast(pl.Float64),
        unit=pl.lit(unit),
        n=pl.col("count"),
    )
