"""Requests by the kind of block: data, directory, journal, metadata (MOST's Data/Journal/Metadata, refined)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.certainty import share_inferred
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import by_group, of_requests
from androstep_analysis.measures.tables import (
    Table,
    counted,
    known_type,
    ordered,
    shares,
    tidy,
    with_known_share,
)


def block_types(io: Table, *, subtypes: bool = False, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return requests and bytes by operation and block type.

    Empty flushes are rows of op flush with a null block type. They are not part of any ratio.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, block_type, map_source.
    subtypes : bool
        Whether to distinguish kinds of metadata (column `subtype`).
    by : sequence of str
        Further columns of `io` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, op and block_type (Enum), with `subtypes` also subtype (Enum). Metrics count [requests]
        (requests that touch the type), bytes [B], count_ratio and bytes_ratio [1] (within `by` group and operation).
        `inferred` is the share of a row's bytes with an inferred type.

    References
    ----------
    ``schemas/definitions.toml``, block_type; MOST's Data/Journal/Metadata, refined.

    Examples
    --------
    >>> table = measures.block_types(capture.io)
    >>> table.filter(metric="count", op="read", block_type="data")["value"].item()
    666.0
    """
    dimensions = [*by, "op", "block_type", *(["subtype"] if subtypes else [])]
    pieces = counted(io)
    groups = by_group(pieces, dimensions, known_type())
    table = with_known_share(tidy(groups, dimensions), groups)
    with_type = shares(table.filter(pl.col("block_type").is_not_null()), dimensions, within=[*by, "op"])
    every = ordered(pl.concat([with_type, table.filter(pl.col("block_type").is_null())]), dimensions)
    inferred = share_inferred(groups, ["block_type"])
    return every.join(inferred, on=dimensions, how="left", nulls_equal=True, maintain_order="left")


def metadata_fraction(io: Table) -> pl.DataFrame:
    """Return the share of metadata and directory blocks in all mapped blocks.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, block_type, map_source.

    Returns
    -------
    polars.DataFrame
        Dimension op (Enum: read, write). Metrics count_ratio and bytes_ratio [1]. The whole includes the journal, which
        is not metadata. Its share is journal_count_ratio and journal_bytes_ratio [1].

    References
    ----------
    ``schemas/definitions.toml``, metadata_fraction.

    Examples
    --------
    >>> measures.metadata_fraction(capture.io).filter(metric="journal_bytes_ratio", op="read")["value"].item()
    0.0
    """
    pieces = counted(io).filter(pl.col("op").is_in(["read", "write"]))
    is_mapped = ~pl.col("block_type").is_in(["unknown", "free"])
    kinds = {
        "mapped": is_mapped,
        "metadata": pl.col("block_type").is_in(["metadata", "directory"]),
        "journal": pl.col("block_type") == "journal",
    }
    request, size = pl.col("request_id"), pl.col("bytes")
    sums = of_requests(
        pieces.with_columns(known=known_type()),
        ["op"],
        **{f"{name}_count": request.filter(is_kind).n_unique().cast(pl.Int64) for name, is_kind in kinds.items()},
        **{f"{name}_bytes": size.filter(is_kind).sum() for name, is_kind in kinds.items()},
        bytes=size.sum(),
        known=size.filter("known").sum(),
    )
    rows = sums.filter(pl.col("mapped_count") > 0).select(
        "op",
        n="mapped_count",
        count_ratio=pl.col("metadata_count") / pl.col("mapped_count"),
        bytes_ratio=pl.col("metadata_bytes") / pl.col("mapped_bytes"),
        journal_count_ratio=pl.col("journal_count") / pl.col("mapped_count"),
        journal_bytes_ratio=pl.col("journal_bytes") / pl.col("mapped_bytes"),
    )
    long = rows.unpivot(index=["op", "n"], variable_name="metric", value_name="value")
    long = long.with_columns(unit=pl.lit("1"), coverage=pl.lit(None, pl.Float64))
    return ordered(with_known_share(long, sums), ["op"])


BLOCK_TYPES: Final = Measure(
    "data, directory, journal, metadata",
    ("io",),
    lambda t, by: block_types(t["io"], by=by),
    own=("op", "block_type"),
    within=("op",),
    worse="higher",
    costly=("journal", "metadata", "directory"),
)
