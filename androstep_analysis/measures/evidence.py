"""Bytes by the evidence for their attribution: the source that mapped them, and the rule that gave their owner."""

from __future__ import annotations

from typing import Literal

import polars as pl

from androstep_analysis.measures.parts import by_group
from androstep_analysis.measures.tables import Table, counted, ordered, shares, tidy


def evidence(io: Table, column: Literal["map_source", "owner_via"]) -> pl.DataFrame:
    """Return requests and bytes by operation and kind of evidence.

    Empty flushes carry no bytes and are left out.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, and `column`.
    column : {"map_source", "owner_via"}
        The source that mapped the bytes, or the rule that gave their owner.

    Returns
    -------
    polars.DataFrame
        Dimensions op and `column` (Enum; a null map_source is unmapped). Metrics count [requests] (requests with such a
        piece), bytes [B], count_ratio and bytes_ratio [1] (within the operation).

    References
    ----------
    ``schemas/definitions.toml``, map_source and owner.

    Examples
    --------
    >>> measures.evidence(capture.io, "owner_via").columns
    ['metric', 'op', 'owner_via', 'value', 'unit', 'n', 'coverage']
    """
    dimensions = ["op", column]
    pieces = counted(io).filter(pl.col("bytes") > 0)
    return ordered(shares(tidy(by_group(pieces, dimensions), dimensions), dimensions, within=["op"]), dimensions)
