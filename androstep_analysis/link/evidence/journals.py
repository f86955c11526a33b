"""Turn the journal's states of deleted files into extents and names in the trace's clock.

The journal of ext4 still has earlier versions of directories and inode tables (`androstep_analysis.fs.ext4.journal`).
Each statement is valid from one transaction to another. The time of a transaction is that of its commit in the trace,
or else the time stamp of its commit block. The journal states nothing on the time before its oldest transaction.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence.incarnations import GENERATION, LAG_NS, assigned
from androstep_analysis.link.evidence.inodes import FILE, NUMBER


def extents(journal: Journal, incarnations: pl.DataFrame, staging: Staging, offset_error_ns: int) -> pl.DataFrame:
    """Return table `extents` of the journal's statements with a known time, with source `journal`.

    `incarnations` is that of `incarnations`. By `staging.realtime_offset_ns`, a time stamp may seem up to
    `offset_error_ns` later than it was.
    """
    rows = journal.extents
    if rows.is_empty():
        return schema.empty("extents")
    times = commits(staging.fs_events)
    for edge, name in (("from", "start_ns"), ("to", "end_ns")):
        of_edge = times.select("dev", name, pl.col("transaction").alias(f"{edge}_transaction"))
        rows = rows.join(of_edge, on=["dev", f"{edge}_transaction"], how="left", maintain_order="left")
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    has_no_end = pl.col("to_transaction").is_null() & pl.col("valid_to_epoch_ns").is_null()
    end = pl.coalesce("end_ns", pl.col("valid_to_epoch_ns") - offset - offset_error_ns)
    rows = rows.with_columns(
        valid_from_ns=pl.coalesce("start_ns", pl.col("valid_from_epoch_ns") - offset),
        valid_to_ns=pl.when(~has_no_end).then(end),
    )
    is_timed = pl.col("valid_from_ns").is_not_null() & (has_no_end | (pl.col("valid_to_ns") > pl.col("valid_from_ns")))
    rows = rows.filter(is_timed.fill_null(False)).select(list(schema.table("extents").polars))
    return schema.conform(assigned(rows, incarnations), "extents")


def commits(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return dev, transaction, start_ns (of the first start of its commit) and end_ns (of the last end)."""
    is_start, ts_ns = pl.col("event") == "jbd2_start_commit", pl.col("ts_ns")
    rows = fs_events.filter(pl.col("event").is_in(tracepoints.COMMITS), pl.col("transaction").is_not_null())
    ends = {"start_ns": ts_ns.filter(is_start).first(), "end_ns": ts_ns.filter(~is_start).last()}
    return rows.select("dev", "transaction", "event", "ts_ns").collect().group_by("dev", "transaction").agg(**ends)


def incarnations(
    journal: Journal, imaged: pl.DataFrame, lifetimes: pl.DataFrame, staging: Staging, offset_error_ns: int
) -> pl.DataFrame:
    """Return dev, ino, generation and incarnation of every file in the journal.

    | file | incarnation |
    |---|---|
    | in an image, by number and generation (`imaged`) | that in the image |
    | the only one that the trace created with its number at its time of creation | that in the trace |
    | any other | a new one |

    Times of commits prove nothing: a transaction has the state at the time of its lock, and its time stamp is from the
    tick before, or from much later. `lifetimes` are those of the trace. `offset_error_ns` is as in `extents`.
    """
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    created = journal.times.select("ino", "generation", created_ns=pl.col("created_epoch_ns") - offset)
    rows = (
        journal.files.select(GENERATION)
        .unique(maintain_order=True)
        .join(created, on=["ino", "generation"], how="left", nulls_equal=True, maintain_order="left")
        .join(
            imaged.rename({"incarnation": "imaged"}), on=GENERATION, how="left", nulls_equal=True, maintain_order="left"
        )
    )
    traced = _by_creation(rows.filter(pl.col("imaged").is_null()), lifetimes, staging, offset_error_ns)
    rows = rows.join(traced, on=GENERATION, how="left", nulls_equal=True, maintain_order="left")
    used = pl.concat([imaged.select(FILE), lifetimes.select(FILE)])
    used = used.group_by(NUMBER).agg(latest=pl.col("incarnation").max())
    rows = rows.join(used, on=NUMBER, how="left", maintain_order="left").sort("created_ns", *GENERATION)
    matched = pl.coalesce("imaged", "traced")
    new = pl.col("latest").fill_null(0) + 1 + matched.is_null().cast(pl.Int32).cum_sum().over(NUMBER)
    return rows.select(*GENERATION, incarnation=pl.coalesce(matched, new).cast(pl.Int32))


def _by_creation(rows: pl.DataFrame, lifetimes: pl.DataFrame, staging: Staging, offset_error_ns: int) -> pl.DataFrame:
    """Return dev, ino, generation and `traced`, the only incarnation in the trace with that time of creation."""
    creations = lifetimes.drop_nulls("created_ns").select(*NUMBER, traced_ns="created_ns", traced="incarnation")
    delay = pl.col("traced_ns") - pl.col("created_ns")
    # At the edges of the trace, an unrecorded file may have been created at that time.
    is_inside = (pl.col("created_ns") >= staging.first_ns) & (pl.col("created_ns") + LAG_NS <= staging.last_ns)
    pairs = rows.join(creations, on=NUMBER)
    pairs = pairs.filter(delay.is_between(-offset_error_ns, LAG_NS), is_inside.fill_null(False))
    is_only_pair = (pl.len().over(GENERATION) == 1) & (pl.len().over(*NUMBER, "traced") == 1)
    return pairs.filter(is_only_pair).select(*GENERATION, "traced")
