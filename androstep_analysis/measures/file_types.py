"""Which type of file: SQLite databases and journals, executables, multimedia, …"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis import schema
from androstep_analysis.measures.tables import Table, counted, known_type, shares, tidy, with_known_share


def file_types(io: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Requests and bytes by operation and file type, data blocks only; dimensions `by`, `op`, `file_type`.

    Takes table `io`. Metrics count, bytes, count_ratio and bytes_ratio (within `by` group and operation). Data whose
    file has no known type stands as `unknown`. `coverage` is the share of the operation's bytes whose block type
    is known as a fact: bytes that no extent claims may have been a file's too.
    """
    pieces = counted(io)
    data = pieces.filter(pl.col("block_type") == "data").with_columns(
        pl.col("file_type").fill_null(pl.lit("unknown").cast(schema.enum("io", "file_type")))
    )
    dimensions = [*by, "op", "file_type"]
    groups = data.group_by(dimensions).agg(count=pl.col("request_id").n_unique(), bytes=pl.col("bytes").sum())
    table = with_known_share(tidy(groups, dimensions), pieces, known_type())
    return shares(table, dimensions, within=[*by, "op"])
