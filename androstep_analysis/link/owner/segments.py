"""Split pieces where the owner of their blocks changes."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.link.owner import submitters, writebacks

_OWNER = ("pid", "tid", "comm", "package")


def blocks(written: pl.DataFrame, intervals: pl.DataFrame, block_bytes: Mapping[int, int]) -> pl.DataFrame:
    """Return each block that the pieces write back, with its dirty interval and the facts about its bio, in order."""
    intervals = intervals.rename({"piece": "at"}).sort("at", "file_block")
    bios = written.select(
        "is_pageless",
        "ino",
        "submit_tid",
        "submit_pid",
        dev="part_dev",
        ts_ns="time",
        begin="file_offset_bytes",
        end=writebacks.end_bytes(),
        is_by_process=pl.col("owner_via") == "submitter",
        is_caller=submitters.is_caller(),
    )[written["at"].search_sorted(intervals["at"])]
    return pl.concat([intervals, bios], how="horizontal").with_columns(size=block_size(block_bytes))


def block_size(block_bytes: Mapping[int, int]) -> pl.Expr:
    """Return the block size of a row's device; files of devices without one are written in sectors."""
    return pl.col("dev").replace_strict(block_bytes, default=units.SECTOR_BYTES, return_dtype=pl.Int64)


def split(written: pl.DataFrame, modified: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces, split where the modifiers of their blocks change, with the last modifier as owner.

    `modified` are the `blocks` after `rules.name_modifiers`, with the columns of `Processes.of_threads`.
    """
    runs = _runs(modified.rename({f"owner_{name}": f"modifier_{name}" for name in _OWNER}))
    segments = pl.concat([written[written["at"].search_sorted(runs["at"])], runs.drop("at")], how="horizontal")
    inside = (pl.col("start") - pl.col("file_offset_bytes")) // units.SECTOR_BYTES
    # If the modifier is unknown, the submitter is the best guess.
    vias = schema.enum("io", "owner_via")
    is_guess = (pl.col("via") == "unknown") & (pl.col("owner_via") == "submitter")
    segments = segments.with_columns(
        via=pl.when(~is_guess).then("via"),
        owner_via=pl.when(is_guess).then(pl.lit("inferred").cast(vias)).otherwise("owner_via"),
    )
    has_verdict = pl.col("via").is_not_null()
    is_modified = has_verdict & (pl.col("via") != "unknown") & pl.col("is_process")
    via = pl.when("is_process").then("via").otherwise(pl.lit("unknown")).cast(vias)
    count = pl.when("is_process").then("count").otherwise(0).cast(pl.Int32)
    return segments.with_columns(
        pl.col("sector") + inside,
        pl.col("part_sector") + inside,
        nr_sectors=(pl.col("stop") - pl.col("start")) // units.SECTOR_BYTES,
        is_changed=pl.col("is_changed") | is_modified,
        file_offset_bytes=pl.col("start"),
        owner_via=pl.when(has_verdict).then(via).otherwise("owner_via"),
        owner_count=pl.when(has_verdict).then(count).otherwise("owner_count"),
        **{
            f"owner_{name}": pl.when(has_verdict).then(f"modifier_{name}").otherwise(f"owner_{name}") for name in _OWNER
        },
    ).drop("start", "stop", "via", "count", "is_process", *(f"modifier_{name}" for name in _OWNER))


def _runs(modified: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of neighbouring blocks of a piece with the same modifiers, and where they start and stop."""
    # A first writeback of a page with an event shows that the page was modified, whoever did it.
    is_changed = (pl.col("is_first") & pl.col("touched_ns").is_not_null()).fill_null(False)
    same = ("at", "via", "modifiers", "tid", *(f"modifier_{name}" for name in _OWNER), "is_changed")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in same)
    return (
        modified.with_columns(is_changed=is_changed)
        .with_columns(run=differs.cum_sum())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col(*same, "count", "is_process").first(),
            start=pl.max_horizontal("begin", pl.col("file_block") * pl.col("size")).first(),
            stop=pl.min_horizontal("end", (pl.col("file_block") + 1) * pl.col("size")).last(),
        )
        .drop("run", "modifiers", "tid")
    )
