"""End the mappings of ext4 blocks that were reused, if the trace does not record the freeing of blocks.

An event shows when a freed block becomes data, none when it becomes metadata. The first sign of that is a request: a
write with REQ_META, or a discard of the freed block. From then on the owner of the block is unknown until an event
maps it again.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.link.extents import timeline

_REUSE_TYPE = "metadata"
"""The block type of rows of reuse, by which they are removed again: no event of ext4 maps blocks of this type."""


def until_reused(
    extents: pl.DataFrame, requests: pl.LazyFrame, kinds: pl.DataFrame, recorded: Collection[str]
) -> pl.DataFrame:
    """Return the extents of events (`timeline.succeeding`), each until its block is reused.

    A discard ends every mapping. A write of metadata ends those of files only, because it may be to a block that the
    directory still has.
    """
    devices = tracepoints_ext4.without_frees(kinds, recorded)
    if not devices:
        return extents
    is_data = (pl.col("block_type") == "data") & (pl.col("subtype").cast(pl.String) != "symlink").fill_null(True)
    is_discard = pl.col("op") == "discard"
    is_metadata = (pl.col("op") == "write") & pl.col("meta").fill_null(False)
    of_files = _end_at(extents.filter(is_data), _reuses(requests, devices, is_metadata | is_discard))
    others = _end_at(extents.filter(~is_data), _reuses(requests, devices, is_discard))
    return pl.concat([of_files, others])


def _end_at(extents: pl.DataFrame, reuses: pl.DataFrame) -> pl.DataFrame:
    rows = pl.concat([extents, reuses.select(extents.columns)]).sort("valid_from_ns", maintain_order=True)
    is_reuse = (pl.col("block_type") == _REUSE_TYPE) & pl.col("subtype").is_null() & pl.col("ino").is_null()
    return timeline.succeeding(rows).filter(~is_reuse)


def _reuses(requests: pl.LazyFrame, devices: list[int], condition: pl.Expr) -> pl.DataFrame:
    """Return table `extents` of the requests for which the condition holds, with `_REUSE_TYPE`."""
    types = schema.table("extents").polars
    columns = {
        "dev": pl.col("part_dev"),
        "sector": pl.col("part_sector"),
        "nr_sectors": pl.col("nr_sectors"),
        "block_type": pl.lit(_REUSE_TYPE),
        "valid_from_ns": pl.coalesce("queue_ns", "issue_ns", "complete_ns"),
        "source": pl.lit("tracepoint"),
    }
    rows = requests.filter(pl.col("part_dev").is_in(devices), condition, pl.col("nr_sectors") > 0)
    rows = rows.select(column.cast(types[name]).alias(name) for name, column in columns.items())
    return schema.complete(rows.drop_nulls().collect(engine="streaming"), "extents")
