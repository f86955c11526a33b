"""Find the processes whose changes a journal transaction carries: those with handles in it.

A process that changes metadata opens a handle of the running transaction. When it closes it, ``jbd2_handle_stats``
records how many blocks it dirtied. The journal's thread writes the transaction between ``jbd2_start_commit`` and
``jbd2_end_commit``. These events are in include/trace/events/jbd2.h.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner.processes import Processes

_PROCESS = pl.coalesce("owner_pid", -pl.col("owner_tid"))
"""A process, or the thread of an unknown process."""

_OWNER = ("owner_pid", "owner_tid", "owner_comm", "owner_package", "owner_count")


class Transactions(NamedTuple):
    """The `commits` of the journals, their `_changes` of metadata, and the `_participants` of their transactions."""

    commits: pl.DataFrame
    changes: pl.DataFrame
    participants: pl.DataFrame


def transactions(fs_events: pl.LazyFrame, tasks: Processes) -> Transactions:
    """Return the transactions that table fs_events records."""
    changes = _changes(fs_events, tasks)
    return Transactions(commits(fs_events), changes, _participants(changes))


def owned(pieces: pl.DataFrame, journals: Transactions, lost: Losses) -> pl.DataFrame:
    """Return the pieces; journal blocks with a known transaction and handles have these processes as owner.

    The owner is the last process that dirtied blocks in the transaction, and `owner_count` the number of all. The trace
    must hold every event since the previous commit, because no handle is older. The first transaction may have begun
    before the trace, with unknown handles: its blocks keep their owner.
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


def without_uninvolved_owners(pieces: pl.DataFrame, journals: Transactions, lost: Losses) -> pl.DataFrame:
    """Return the pieces; metadata that a process wrote back without having changed any has no owner.

    sync and umount write back what others changed. A process that changed metadata has a handle, unless events are
    missing; what it writes back stays inferred. Requests with such blocks have REQ_META (`set_buffer_meta` in
    fs/ext4/ext4_jbd2.c); mkfs and fsck, which have no handles, write without it.
    """
    changes = journals.changes
    if changes.is_empty() or lost.touching("fs_events"):
        return pieces
    changed = changes.select(part_dev="dev", process=_PROCESS, has_changed=True).unique()
    pieces = pieces.with_columns(process=_PROCESS).join(
        changed, on=["part_dev", "process"], how="left", maintain_order="left"
    )
    is_metadata = pl.col("meta").fill_null(pl.col("block_type").is_in(["metadata", "directory"]))
    is_metadata &= (pl.col("op") == "write") & pl.col("part_dev").is_in(changed["part_dev"].implode())
    is_of_others = is_metadata & (pl.col("owner_via") == "inferred") & pl.col("has_changed").is_null()
    unknown = {"owner_count": pl.lit(0, pl.Int32), "owner_via": pl.lit("unknown").cast(schema.enum("io", "owner_via"))}
    return pieces.with_columns(
        pl.when(is_of_others.fill_null(False)).then(unknown.get(name, pl.lit(None))).otherwise(name).alias(name)
        for name in (*_OWNER, "owner_via")
    ).drop("process", "has_changed")


def mark_journal_blocks(pieces: pl.DataFrame, committed: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces (`extents.pieces`); those that can only be journal blocks are so, with map_source `context`.

    During a commit (`commits`), the journal's thread writes data, which never carries REQ_META, and blocks of the
    journal, which do. Pieces with a file or block type as a fact do not change.
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
    """Return a row for each commit: dev, tid (of the thread that commits), transaction, start_ns, end_ns and begun_ns.

    `begun_ns` is when the previous commit began: the transaction cannot have begun earlier. `begun_ns` and `end_ns` are
    null if not recorded.
    """
    recorded = fs_events.filter(pl.col("event").is_in(tracepoints.COMMITS))
    events = recorded.select("ts_ns", "event", "dev", "tid", "transaction").collect()
    is_start = pl.col("event") == "jbd2_start_commit"
    ends = events.filter(~is_start).select("dev", "transaction", end_ns="ts_ns")
    starts = events.filter(is_start).select("dev", "tid", "transaction", start_ns="ts_ns").sort("start_ns")
    both = starts.join(
        ends.unique(["dev", "transaction"]), on=["dev", "transaction"], how="left", maintain_order="left"
    )
    before = starts.select("dev", pl.col("transaction") + 1, begun_ns="start_ns").unique(["dev", "transaction"])
    return both.join(before, on=["dev", "transaction"], how="left", maintain_order="left")


def _changes(fs_events: pl.LazyFrame, tasks: Processes) -> pl.DataFrame:
    """Return the handles with which processes dirtied blocks: dev, transaction, is_first, tid, owner_pid, ….

    `is_first` is whether the transaction is the first that the trace shows.
    """
    columns = ("ts_ns", "dev", "transaction", "tid", "pid", "comm", "nr_blocks")
    stats = fs_events.filter(pl.col("event") == tracepoints.HANDLE).select(columns).collect()
    stats = stats.with_columns(is_first=pl.col("transaction") == pl.col("transaction").min().over("dev"))
    return tasks.of_threads(stats.filter(pl.col("nr_blocks") > 0).drop("nr_blocks")).filter("is_process")


def _participants(changes: pl.DataFrame) -> pl.DataFrame:
    """Return the processes that dirtied blocks in each transaction: dev, transaction, handle_pid, handle_comm, …."""
    return (
        changes.filter(~pl.col("is_first"))
        .group_by("dev", "transaction", maintain_order=True)
        .agg(
            *(pl.col(name).last().alias(f"handle{name[5:]}") for name in _OWNER[:4]),
            handle_count=_PROCESS.n_unique().cast(pl.Int32),
        )
    )
