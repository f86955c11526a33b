"""Synchronous and buffered writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import by_group
from androstep_analysis.measures.recording import Tables
from androstep_analysis.measures.tables import Table, counted, is_known, known_share, shares, tidy


def sync(io: Table, *, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return synchronous and buffered writes.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, sync, issue_ns, complete_ns.
    by : sequence of str
        Further columns of `io` to group by, such as block_type, owner_comm or file_type.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and class (String: sync, buffered, unknown). Metrics count [requests], bytes [B], count_ratio
        and bytes_ratio [1] (within each `by` group).

    References
    ----------
    ``schemas/definitions.toml``, sync; Linux include/linux/blk_types.h.

    Examples
    --------
    >>> table = measures.sync(capture.io)
    >>> sorted(table["class"].unique())
    ['buffered', 'sync']
    """
    writes = counted(io).filter(pl.col("op") == "write", pl.col("bytes") > 0)
    kind = pl.when("sync").then(pl.lit("sync")).when(~pl.col("sync")).then(pl.lit("buffered"))
    classes = writes.with_columns(kind.otherwise(pl.lit("unknown")).alias("class"))
    dimensions = [*by, "class"]
    known = is_known(("sync", *by), writes.collect_schema().names())
    groups = by_group(classes, dimensions, known)
    table = shares(tidy(groups, dimensions, known_share(groups)), dimensions, within=list(by))
    return with_inferred(table, writes)


def _known(tables: Tables, by: tuple[str, ...]) -> pl.DataFrame:
    """Leave out class unknown: without recorded flags, a write may also have been synchronous."""
    return sync(tables["io"], by=by).filter(pl.col("class") != "unknown")


SYNC: Final = Measure("synchronous and buffered writes", ("io",), _known, within=(), worse="higher", costly=("sync",))
