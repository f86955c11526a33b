"""Reduce recordings to what a user build of Android permits, and judge the answers about them.

A phone without root records with its own perfetto. The permitted kernel events are those that Android's policy labels
`debugfs_tracing` (AOSP, system/sepolicy, private/genfs_contexts; Android 11 to 16).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging

PERMITTED = {
    *("block_rq_issue", "block_rq_complete", "ext4_da_write_begin", "ext4_da_write_end", "ext4_load_inode"),
    *("ext4_es_lookup_extent_enter", "ext4_es_lookup_extent_exit", "ext4_sync_file_enter", "ext4_sync_file_exit"),
    *("f2fs_get_data_block", "f2fs_iget", "f2fs_sync_file_enter", "f2fs_sync_file_exit"),
    *("f2fs_write_begin", "f2fs_write_end"),
    *("mm_filemap_add_to_page_cache", "mm_filemap_delete_from_page_cache", "oom_score_adj_update"),
    *("sched_switch", "sched_waking", "sched_blocked_reason", "sched_process_exit", "sched_process_free"),
    *("task_newtask", "task_rename"),
}
"""The events of block devices, filesystems, page cache and threads. Memory and power events are irrelevant to I/O."""

OUTCOMES = ("fact right", "fact wrong", "inferred right", "inferred wrong", "unknown")

_KEY = ("dev", "ino")
_BLOCK_SECTORS = 8
_EARLY_NS = 1_000_000
"""The truth may date a bio slightly later than the trace dates its request."""


def reduced(recorded: Staging) -> Staging:
    """Return the recording with only the permitted events.

    Recordings of the corpus lack `mm_filemap_delete_from_page_cache`. The eviction of a deleted file replaces it.
    """
    event = pl.col("event").cast(pl.String)
    fs_events = recorded.fs_events.collect()
    kept = fs_events.filter(event.is_in(list(PERMITTED)))
    if tracepoints.UNCACHED not in recorded.events:
        kept = pl.concat([kept, _drops(fs_events)]).sort("ts_ns", maintain_order=True)
    return replace(
        recorded.with_tables(
            fs_events=kept, block_events=recorded.block.filter(pl.col("event").is_in(list(PERMITTED)))
        ),
        events={name: count for name, count in recorded.events.items() if name in PERMITTED},
        recorded=None if recorded.recorded is None else recorded.recorded & PERMITTED,
    )


def _drops(fs_events: pl.DataFrame) -> pl.DataFrame:
    """Return events that drop the pages of each deleted file when its inode is evicted."""
    event = pl.col("event").cast(pl.String)
    gone = fs_events.filter(event.is_in(tracepoints.EVICTIONS), nlink=0)
    cached = fs_events.filter(event == tracepoints.CACHED).sort("ts_ns")
    ends = gone.select(*_KEY, "ts_ns", "tid", "pid", "comm", gone_ns="ts_ns").sort("ts_ns")
    ended = cached.drop("tid", "pid", "comm").join_asof(
        ends, on="ts_ns", by=_KEY, strategy="forward", check_sortedness=False
    )
    dropped = ended.drop_nulls("gone_ns").unique([*_KEY, "page", "gone_ns"], maintain_order=True)
    uncached = pl.lit(tracepoints.UNCACHED).cast(fs_events.schema["event"])
    return dropped.with_columns(ts_ns="gone_ns", event=uncached).select(fs_events.columns)


def judged(io: pl.DataFrame, truth: pl.DataFrame) -> pl.DataFrame:
    """Return each written data block of the truth with the `OUTCOMES` of its file and owner (columns file, owner).

    `truth` comes from `truth.writes`. A block is matched with the first request issued there after its bio.
    """
    pieces = io.filter(pl.col("op") == "write", pl.col("nr_sectors") > 0)
    first = pl.col("sector") // _BLOCK_SECTORS
    last = (pl.col("sector") + pl.col("nr_sectors") - 1) // _BLOCK_SECTORS
    blocks = pieces.with_columns(block=pl.int_ranges(first, last + 1)).explode("block").sort("issue_ns")
    rows = truth.filter(pl.col("kind") == "data").with_columns(
        issue_ns=pl.col("ts") - _EARLY_NS, block=pl.col("sector") // _BLOCK_SECTORS, true_ino="ino"
    )
    answers = rows.drop("sector", "ino").sort("issue_ns").join_asof(
        blocks, on="issue_ns", by="block", strategy="forward", check_sortedness=False
    )  # fmt: skip
    has_writer = pl.col("writer_pids").list.len() > 0
    is_writer = pl.col("owner_pid").is_in(pl.col("writer_pids"))
    return answers.with_columns(
        file=outcome(pl.col("ino") == pl.col("true_ino"), pl.col("ino"), pl.col("map_source")),
        owner=pl.when(has_writer).then(outcome(is_writer, pl.col("owner_pid"), pl.col("owner_via"))),
    )


def outcome(is_right: pl.Expr, answer: pl.Expr, source: pl.Expr) -> pl.Expr:
    certainty = pl.when(source.cast(pl.String) == "inferred").then(pl.lit("inferred ")).otherwise(pl.lit("fact "))
    said = certainty + pl.when(is_right).then(pl.lit("right")).otherwise(pl.lit("wrong"))
    return pl.when(answer.is_null()).then(pl.lit("unknown")).otherwise(said)


def shares(outcomes: pl.Series) -> dict[str, float]:
    """Return the share of each of `OUTCOMES` among the judged ones."""
    judged = outcomes.drop_nulls()
    return {outcome: (judged == outcome).sum() / max(judged.len(), 1) for outcome in OUTCOMES}
