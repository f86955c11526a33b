"""The share of a result that is inferred: column `inferred` of results with owners, files or types."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import INFERABLE, Table, counted, is_known, is_named, lazy


def with_inferred(result: pl.DataFrame, io: Table) -> pl.DataFrame:
    """Return the result with column inferred: the share of each row's bytes whose names are only inferred.

    Parameters
    ----------
    result : polars.DataFrame
        The result of a measure, with any columns of table `io` that name an owner, a file or a type.
    io : Table
        The table `io` that was measured: nr_sectors, op, issue_ns, complete_ns, map_source, owner_via.

    Returns
    -------
    polars.DataFrame
        The rows with column inferred (Float64). It is computed from the pieces that agree with the row in all columns
        of table `io`, as the share of their bytes for which not all names are facts. It is null if a name is unknown or
        no piece agrees. A result without names is returned unchanged.
    """
    pieces = lazy(io)
    columns = pieces.collect_schema().names()
    dimensions = [name for name in result.columns if name in columns]
    by = [name for name in dimensions if name in INFERABLE]
    if not by:
        return result
    named = counted(pieces).filter(*(pl.col(name).is_not_null() for name in by))
    size, known = pl.col("nr_sectors"), is_known(by, columns)
    groups = named.group_by(dimensions).agg(bytes=size.sum(), known=size.filter(known).sum()).collect()
    shares = share_inferred(groups, by)
    types = pl.Schema({name: result.schema[name] for name in dimensions})
    return result.join(shares.cast(types), on=dimensions, how="left", nulls_equal=True, maintain_order="left")


def share_inferred(groups: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the groups with column inferred, the share of `bytes` that is not in `known` (bytes known as facts)."""
    share = pl.when(is_named(by), pl.col("bytes") > 0).then(1 - pl.col("known") / pl.col("bytes"))
    return groups.select(pl.exclude("^count$", "bytes", "known"), inferred=share)
