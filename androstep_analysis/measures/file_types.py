"""Requests by the type of file: SQLite databases and journals, executables, multimedia and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.certainty import share_inferred
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import by_group
from androstep_analysis.measures.tables import Table, counted, known_type, shares, tidy, with_known_share


def file_types(io: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return requests and bytes of data blocks by operation and file type.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, block_type, file_type, map_source.
    by : sequence of str
        Further columns of `io` to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, op and file_type (Enum; `unknown` if the file has no known type). Metrics count [requests],
        bytes [B], count_ratio and bytes_ratio [1] (within `by` group and operation). `coverage` is the share of the
        operation's bytes with a block type that is known as a fact: unmapped bytes may also belong to files. `inferred`
        is the share of a row's bytes with an inferred file.

    References
    ----------
    ``schemas/definitions.toml``, file_type.

    Examples
    --------
    >>> table = measures.file_types(capture.io)
    >>> table.filter(metric="count", op="read", file_type="sqlite_db")["value"].item()
    46.0
    """
    pieces = counted(io)
    unknown = pl.lit("unknown", pieces.collect_schema()["file_type"])
    data = pieces.filter(pl.col("block_type") == "data").with_columns(pl.col("file_type").fill_null(unknown))
    dimensions = [*by, "op", "file_type"]
    of_op = pieces.group_by("op").agg(pl.col("bytes").sum(), known=pl.col("bytes").filter(known_type()).sum())
    groups = by_group(data, dimensions, known_type())
    table = with_known_share(tidy(groups, dimensions), of_op.collect())
    inferred = share_inferred(groups, ["file_type"])
    return shares(table, dimensions, within=[*by, "op"]).join(
        inferred, on=dimensions, how="left", nulls_equal=True, maintain_order="left"
    )


FILE_TYPES: Final = Measure(
    "types of files", ("io",), lambda t, by: file_types(t["io"], by=by), own=("op", "file_type"), within=("op",)
)
