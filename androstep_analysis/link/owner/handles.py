"""Whose changes a journal transaction carries: the processes that had handles in it.

A process that changes metadata opens a handle of the running transaction; ``jbd2_handle_stats`` tells at its end how
many blocks it made dirty. The journal's thread writes all of a transaction between ``jbd2_start_commit`` and
``jbd2_end_commit``. Both are in include/trace/events/jbd2.h.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner.processes import Processes

_OWNER = ("owner_pid", "owner_comm", "owner_package", "owner_count")


class Transactions(NamedTuple):
    """The transactions of the journals: when they were committed, and whose changes they carry."""

    commits: pl.DataFrame
    participants: pl.DataFrame


def transactions(fs_events: pl.LazyFrame, tasks: Processes) -> Transactions:
    """What table fs_events tells of them; tables as `commits` and `_participants` give them."""
    return Transactions(commits(fs_events), _participants(fs_events, tasks))


def owned(pieces: pl.DataFrame, journals: Transactions, lost: Losses) -> pl.DataFrame:
    """The pieces with the owner columns of table io set for journal blocks whose transaction and handles are known.

    The last of the processes that made blocks dirty in the transaction is named, `owner_count` says how many they
    are. The trace must hold every event since the commit before: no handle can be older. The first transaction it
    speaks of may have begun before the trace, so that its handles are not all known: its blocks keep the owner they
    have.
    """
    if journals.participants.is_empty():
        return pieces
    is_journal = (pl.col("op") == "write") & (pl.col("block_type") == "journal") & pl.col("time").is_not_null()
    journal = pieces.filter(is_journal)
    if journal.is_empty():
        return pieces
    committed = journal.sort("time", maintain_order=True).join_asof(
        journals.commits,
        left_on="time",
        right_on="start_ns",
        by_left=["part_dev", "submit_tid"],
        by_right=["dev", "tid"],
        check_sortedness=False,
    )
    is_within = pl.col("time") <= pl.col("end_ns").fill_null(pl.col("time"))
    committed = committed.with_columns(transaction=pl.when(is_within).then("transaction")).join(
        journals.participants, left_on=["part_dev", "transaction"], right_on=["dev", "transaction"], how="left",
        maintain_order="left",
    )  # fmt: skip
    is_lost = lost.between(committed["begun_ns"], committed["time"], committed["part_dev"], "fs_events")
    is_complete = pl.col("handle_count").is_not_null() & ~pl.lit(is_lost)
    handle = pl.lit("handle").cast(schema.enum("io", "owner_via"))
    named = committed.with_columns(
        *(pl.when(is_complete).then(f"handle{name[5:]}").otherwise(name).alias(name) for name in _OWNER),
        owner_via=pl.when(is_complete).then(handle).otherwise("owner_via"),
    ).select(pieces.columns)
    return pl.concat([pieces.filter(~is_journal.fill_null(False)), named])


def journalled(pieces: pl.DataFrame, committed: pl.DataFrame) -> pl.DataFrame:
    """The pieces (`extents.pieces`), those as journal blocks that can be nothing else: map_source `context`.

    `committed` are the `commits`.

    While it commits a transaction, the journal's thread writes data, which never carries REQ_META, and blocks of the
    journal, which do. What a fact already maps is left as it is.
    """
    ended = committed.drop_nulls("end_ns")
    if ended.is_empty():
        return pieces
    is_open = (pl.col("block_type") == "unknown") | (pl.col("map_source") == "inferred").fill_null(False)
    may_be = (pl.col("op") == "write") & pl.col("meta") & is_open & pl.col("time").is_not_null()
    writes = pieces.filter(may_be)
    if writes.is_empty():
        return pieces
    writes = writes.sort("time", maintain_order=True).join_asof(
        ended, left_on="time", right_on="start_ns", by_left=["part_dev", "submit_tid"], by_right=["dev", "tid"],
        check_sortedness=False,
    )  # fmt: skip
    other = pl.when(~(pl.col("time") <= pl.col("end_ns")).fill_null(False))
    of_file = ("subtype", "ino", "incarnation", "path", "file_type", "package", "file_offset_bytes")
    facts = {"block_type": "journal", "map_source": "context"}
    journal = writes.with_columns(
        *(other.then(name).alias(name) for name in of_file),
        *(other.then(name).otherwise(pl.lit(v).cast(schema.enum("io", name))).alias(name) for name, v in facts.items()),
    )
    return pl.concat([pieces.filter(~may_be.fill_null(False)), journal.select(pieces.columns)])


def commits(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """A row per commit: dev, tid (of the thread that commits), transaction, start_ns, end_ns and begun_ns.

    `end_ns` is null where the end was not seen. A transaction cannot have begun before the commit of the one before
    did: `begun_ns`, null where that was not seen.
    """
    told = fs_events.filter(pl.col("event").is_in(tracepoints.COMMITS))
    events = told.select("ts_ns", "event", "dev", "tid", "transaction").collect()
    is_start = pl.col("event") == "jbd2_start_commit"
    ends = events.filter(~is_start).select("dev", "transaction", end_ns="ts_ns")
    starts = events.filter(is_start).select("dev", "tid", "transaction", start_ns="ts_ns").sort("start_ns")
    both = starts.join(
        ends.unique(["dev", "transaction"]), on=["dev", "transaction"], how="left", maintain_order="left"
    )
    before = starts.select("dev", pl.col("transaction") + 1, begun_ns="start_ns").unique(["dev", "transaction"])
    return both.join(before, on=["dev", "transaction"], how="left", maintain_order="left")


def _participants(fs_events: pl.LazyFrame, tasks: Processes) -> pl.DataFrame:
    """The processes that made blocks dirty in each transaction: dev, transaction, handle_pid, handle_comm, …."""
    told = ("ts_ns", "dev", "transaction", "tid", "pid", "comm", "nr_blocks")
    stats = fs_events.filter(pl.col("event") == tracepoints.HANDLE).select(told).collect()
    stats = stats.filter(pl.col("transaction") > pl.col("transaction").min().over("dev"), pl.col("nr_blocks") > 0)
    rows = tasks.of_threads(stats.drop("nr_blocks"))
    process = pl.coalesce("owner_pid", -pl.col("tid"))
    return (
        rows.filter("is_process")
        .group_by("dev", "transaction", maintain_order=True)
        .agg(
            *(pl.col(name).last().alias(f"handle{name[5:]}") for name in _OWNER[:3]),
            handle_count=process.n_unique().cast(pl.Int32),
        )
    )
