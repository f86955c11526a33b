"""Blocks that an ext4 file no longer has, where the freeing of blocks is not recorded.

An event records which freed block is given to data, none which is given to metadata. The first sign of that is a
request: a write with REQ_META, or a discard of the freed block. From then on the owner of the block is unknown, until
an event maps it again.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.link.extents import timeline

_REUSE_TYPE = "metadata"
"""The block type by which rows of reuse are found again: no event of ext4 maps blocks of this type."""


def until_reused(
    extents: pl.DataFrame, requests: pl.LazyFrame, fs_events: pl.LazyFrame, recorded: Collection[str]
) -> pl.DataFrame:
    """Return the extents that events state (`timeline.succeeding`), each until its block is reused.

    A write of metadata may be to a directory's own block: it ends mappings of files only. A discard ends all.
    """
    silent = tracepoints_ext4.without_frees(fs_events, recorded)
    if not silent:
        return extents
    is_data = (pl.col("block_type") == "data") & (pl.col("subtype").cast(pl.String) != "symlink").fill_null(True)
    is_metadata = (pl.col("op") == "write") & pl.col("meta").fill_null(False)
    of_files = _cut(extents.filter(is_data), _reuses(requests, silent, is_metadata | (pl.col("op") == "discard")))
    others = _cut(extents.filter(~is_data), _reuses(requests, silent, pl.col("op") == "discard"))
    return pl.concat([of_files, others])


def _cut(extents: pl.DataFrame, reuses: pl.DataFrame) -> pl.DataFrame:
    rows = pl.concat([extents, reuses.select(extents.columns)]).sort("valid_from_ns", maintain_order=True)
    is_reuse = (pl.col("block_type") == _REUSE_TYPE) & pl.col("subtype").is_null() & pl.col("ino").is_null()
    return timeline.succeeding(rows).filter(~is_reuse)


def _reuses(requests: pl.LazyFrame, devices: list[int], condition: pl.Expr) -> pl.DataFrame:
    """The requests for which the condition holds, as extents of `_REUSE_TYPE`."""
    reuses = (
        requests.filter(pl.col("part_dev").is_in(devices), condition, pl.col("nr_sectors") > 0)
        .select(
            dev="part_dev",
            sector="part_sector",
            nr_sectors="nr_sectors",
            block_type=pl.lit(_REUSE_TYPE),
            valid_from_ns=pl.coalesce("queue_ns", "issue_ns", "complete_ns"),
            source=pl.lit("tracepoint"),
        )
        .drop_nulls()
        .collect(engine="streaming")
    )
    want = schema.table("extents").polars
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in want.items() if name not in reuses.columns]
    return reuses.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
