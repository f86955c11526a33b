"""Attribution of flushes to writes: commits of the journal, and flushes that were requested by themselves.

A write with REQ_PREFLUSH waits for a flush that begins after it was queued and ends before it is issued. If the device
does not support REQ_FUA, it is replaced by a flush after the write. Linux does these flushes as requests of their own
(block/blk-flush.c), which do not name the write. Of several candidates, the last flush before the write and the first
one after it are used. A flush without a write was requested as such, as by an fsync when the journal has nothing to
commit.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from androstep_analysis.link.requests import rwbs

COMMIT_INTERVAL_NS: Final = 5_000_000_000
"""The time after which ext4 commits by itself (mount option ``commit``, by default 5 s). A commit that follows another
sooner was requested."""


def journal_pieces(io: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces of table `io` that write the filesystem's journal."""
    return io.filter(pl.col("block_type") == "journal", pl.col("op") == "write", pl.col("nr_sectors") > 0)


def commits(requests: pl.DataFrame, io: pl.DataFrame) -> pl.DataFrame:
    """Return the requests that write the journal, by commit.

    Columns are request_id, dev, commit (Int64, from 0 for each device), begun_ns (Int64: when the first request of the
    commit was queued), is_record (Boolean: the commit record, which ends it) and is_forced (Boolean: it followed the
    previous one sooner than a commit by itself; null for the first). Requests after the last record form a commit too.
    """
    of_journal = journal_pieces(io).select("request_id").unique()
    asked = pl.coalesce("queue_ns", "insert_ns", "issue_ns", "complete_ns")
    rows = (
        requests.join(of_journal, on="request_id", how="semi")
        .with_columns(asked_ns=asked, is_record=pl.col("preflush").fill_null(value=False))
        .sort("dev", "asked_ns", "request_id")
    )
    number = pl.col("is_record").cast(pl.Int64).cum_sum().over("dev") - pl.col("is_record").cast(pl.Int64)
    rows = rows.with_columns(commit=number)
    rows = rows.with_columns(begun_ns=pl.col("asked_ns").min().over("dev", "commit"))
    starts = rows.select("dev", "commit", "begun_ns").unique().sort("dev", "commit")
    gap = pl.col("begun_ns") - pl.col("begun_ns").shift(1).over("dev", order_by="commit")
    starts = starts.with_columns(is_forced=gap < COMMIT_INTERVAL_NS)
    return rows.join(starts.drop("begun_ns"), on=["dev", "commit"], maintain_order="left").select(
        "request_id", "dev", "commit", "begun_ns", "is_record", "is_forced"
    )


def served(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the flush that each write with REQ_PREFLUSH or REQ_FUA waited for.

    Columns are request_id (of the write), flush_id (of the flush) and is_behind (Boolean: the flush replaces REQ_FUA).
    There are no rows if the recording has no flushes.
    """
    flushes = requests.filter(pl.col("op") == "flush", pl.col("issue_ns").is_not_null()).select(
        "dev", "issue_ns", "complete_ns", flush_id="request_id"
    )
    writes = requests.filter(pl.col("op") == "write", pl.col("issue_ns").is_not_null())
    queued = pl.coalesce("queue_ns", "insert_ns", "issue_ns")
    before = (
        writes.filter("preflush")
        .select("dev", "request_id", queued_ns=queued, at="issue_ns")
        .sort("at")
        .join_asof(
            flushes.filter(pl.col("complete_ns").is_not_null()).with_columns(at="complete_ns").sort("at"),
            on="at",
            by="dev",
            strategy="backward",
            check_sortedness=False,
        )
        .filter(pl.col("issue_ns") >= pl.col("queued_ns"))
    )
    after = (
        writes.filter(_is_fua_done_by_flush(writes), pl.col("complete_ns").is_not_null())
        .select("dev", "request_id", at="complete_ns")
        .sort("at")
        .join_asof(
            flushes.with_columns(at="issue_ns").sort("at"),
            on="at",
            by="dev",
            strategy="forward",
            check_sortedness=False,
        )
        .filter(pl.col("flush_id").is_not_null())
    )
    return pl.concat(
        part.select("request_id", "flush_id", is_behind=pl.lit(is_behind))
        for part, is_behind in ((before, False), (after, True))
    )


def _is_fua_done_by_flush(writes: pl.DataFrame) -> pl.Expr:
    """Return whether a write requested REQ_FUA and the request that the device got did not have it."""
    letters = writes["rwbs"].drop_nulls().unique().to_list()
    reached = [word for word in letters if rwbs.meaning(word).fua]
    return pl.col("fua") & ~pl.col("rwbs").is_in(reached).fill_null(False)
