"""Which kind of block: data, directory, journal, metadata (MOST's Data/Journal/Metadata, refined)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import (
    Table,
    counted,
    known_type,
    lazy,
    ordered,
    shares,
    tidy,
    with_known_share,
)


def block_types(io: Table, *, subtypes: bool = False, by: Sequence[str] = ()) -> pl.DataFrame:
    """Requests and bytes by operation and block type.

    Empty flushes are rows of op flush with a null block type and no part of any ratio.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, block_type, map_source.
    subtypes : bool
        Whether to tell kinds of metadata apart (column `subtype`).
    by : sequence of str
        Further columns of `io` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, op and block_type (Enum), with `subtypes` also subtype (Enum). Metrics count [requests] (that
        touch the type), bytes [B], count_ratio and bytes_ratio [1] (within `by` group and operation).

    References
    ----------
    ``schemas/definitions.toml``, block_type; MOST's Data/Journal/Metadata, refined.

    Examples
    --------
    >>> table = measures.block_types(capture.io)
    >>> table.filter(metric="count", op="read", block_type="data")["value"].item()
    669.0
    """
    dimensions = [*by, "op", "block_type", *(["subtype"] if subtypes else [])]
    pieces = counted(io)
    groups = pieces.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    table = with_known_share(tidy(groups, dimensions), pieces, known_type())
    with_type = shares(table.filter(pl.col("block_type").is_not_null()), dimensions, within=[*by, "op"])
    return ordered(pl.concat([with_type, table.filter(pl.col("block_type").is_null())]), dimensions)


def metadata_fraction(io: Table) -> pl.DataFrame:
    """Share of metadata and directory blocks in what is mapped.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, block_type, map_source.

    Returns
    -------
    polars.DataFrame
        Dimension op (Enum: read, write). Metrics count_ratio and bytes_ratio [1]; the journal counts in the whole but
        not as metadata, and its own share stands as journal_count_ratio and journal_bytes_ratio [1].

    References
    ----------
    ``schemas/definitions.toml``, metadata_fraction.

    Examples
    --------
    >>> measures.metadata_fraction(capture.io).filter(metric="journal_bytes_ratio", op="read")["value"].item()
    0.0
    """
    pieces = counted(io).filter(pl.col("op").is_in(["read", "write"]))
    mapped = pieces.filter(~pl.col("block_type").is_in(["unknown", "free"]))
    metadata = pl.col("block_type").is_in(["metadata", "directory"])
    journal = pl.col("block_type") == "journal"
    request = pl.col("request_id")
    rows = mapped.group_by("op").agg(
        n=request.n_unique().cast(pl.Int64),
        count_ratio=request.filter(metadata).n_unique() / request.n_unique(),
        bytes_ratio=pl.col("bytes").filter(metadata).sum() / pl.col("bytes").sum(),
        journal_count_ratio=request.filter(journal).n_unique() / request.n_unique(),
        journal_bytes_ratio=pl.col("bytes").filter(journal).sum() / pl.col("bytes").sum(),
    )
    long = lazy(rows.collect()).unpivot(index=["op", "n"], variable_name="metric", value_name="value").collect()
    long = long.with_columns(unit=pl.lit("1"), coverage=pl.lit(None, pl.Float64))
    return ordered(with_known_share(long, pieces, known_type()), ["op"])
