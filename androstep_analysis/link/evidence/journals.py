"""What the filesystem's journal tells of files that were deleted, as extents and names in the capture's time.

The journal still holds old states of directories and inode tables (`androstep_analysis.fs.ext4.journal`). Each
statement reaches from one transaction to another: where the trace shows their commits, it has the capture's own time,
else the commit's time stamp. The journal says nothing of the time before the oldest transaction it retains.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence.incarnations import LAG_NS

_FILE = ["dev", "ino", "generation"]


def extents(journal: Journal, incarnations: pl.DataFrame, staging: Staging, late_ns: int) -> pl.DataFrame:
    """Table `extents` of the journal's statements, source `journal`; those without a time in the capture are left out.

    By `staging.realtime_offset_ns` a time stamp may seem up to `late_ns` later than it was.
    """
    rows = journal.extents
    if rows.is_empty():
        return schema.empty("extents")
    starts, ends = (
        staging.fs_events.filter(pl.col("event") == f"jbd2_{event}_commit")
        .select("dev", "transaction", pl.col("ts_ns").alias(f"{event}_ns"))
        .unique(["dev", "transaction"])
        .collect()
        for event in ("start", "end")
    )
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    rows = rows.join(
        starts, left_on=["dev", "from_transaction"], right_on=["dev", "transaction"], how="left", maintain_order="left"
    ).join(ends, left_on=["dev", "to_transaction"], right_on=["dev", "transaction"], how="left", maintain_order="left")
    is_open = pl.col("to_transaction").is_null() & pl.col("valid_to_epoch_ns").is_null()
    rows = rows.with_columns(
        valid_from_ns=pl.coalesce("start_ns", pl.col("valid_from_epoch_ns") - offset),
        valid_to_ns=pl.when(~is_open).then(pl.coalesce("end_ns", pl.col("valid_to_epoch_ns") - offset - late_ns)),
    )
    is_timed = pl.col("valid_from_ns").is_not_null() & (is_open | (pl.col("valid_to_ns") > pl.col("valid_from_ns")))
    rows = rows.filter(is_timed.fill_null(False)).drop("incarnation")
    rows = rows.join(incarnations, on=_FILE, how="left", nulls_equal=True, maintain_order="left")
    return schema.conform(rows.select(list(schema.table("extents").polars)), "extents")


def files(journal: Journal, incarnations: pl.DataFrame) -> pl.DataFrame:
    """Table `files` of the files that the journal saw, source `journal`."""
    rows = journal.files.drop("incarnation").join(incarnations, on=_FILE, nulls_equal=True, maintain_order="left")
    return schema.conform(rows.select(list(schema.table("files").polars)), "files")


def incarnations(
    journal: Journal, imaged: pl.DataFrame, lives: pl.DataFrame, staging: Staging, late_ns: int
) -> pl.DataFrame:
    """dev, ino, generation and incarnation of every file that the journal saw.

    `imaged` (dev, ino, generation, incarnation) numbers the files that the images hold, `lives`
    (`tracepoints.lives`) those of the trace; `late_ns` as `extents` has it. A file of an image's generation is that
    file. Another is the one that the trace created with its number at its time of creation, if that is one alone; else
    a file of its own. The time of a commit tells nothing here: a transaction holds what was so when it was locked, and
    its time stamp may be that of a tick before, or of much later.
    """
    seen = journal.files.select(_FILE).unique(maintain_order=True)
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    created = journal.times.select("ino", "generation", created_ns=pl.col("created_epoch_ns") - offset)
    same = imaged.rename({"incarnation": "same"})
    seen = seen.join(created, on=["ino", "generation"], how="left", nulls_equal=True, maintain_order="left")
    seen = seen.join(same, on=_FILE, how="left", nulls_equal=True, maintain_order="left")
    born = lives.drop_nulls("created_ns").select("dev", "ino", born_ns="created_ns", at="incarnation")
    late = pl.col("born_ns") - pl.col("created_ns")
    matching = seen.filter(pl.col("same").is_null()).join(born, on=["dev", "ino"])
    # At the edges of the trace another file, of which it has nothing, may be the one that was created at that time.
    is_traced = (pl.col("created_ns") >= staging.first_ns) & (pl.col("created_ns") + LAG_NS <= staging.last_ns)
    matching = matching.filter(late.is_between(-late_ns, LAG_NS), is_traced.fill_null(False)).select(*_FILE, "at")
    matching = matching.filter((pl.len().over(_FILE) == 1) & (pl.len().over("dev", "ino", "at") == 1))
    seen = seen.join(matching, on=_FILE, how="left", nulls_equal=True, maintain_order="left")
    taken = pl.concat([imaged.select("dev", "ino", "incarnation"), lives.select("dev", "ino", "incarnation")])
    taken = taken.group_by("dev", "ino").agg(pl.col("incarnation").max().alias("latest"))
    seen = seen.join(taken, on=["dev", "ino"], how="left", maintain_order="left").sort("created_ns", *_FILE)
    matched = pl.coalesce("same", "at")
    own = pl.col("latest").fill_null(0) + 1 + matched.is_null().cast(pl.Int32).cum_sum().over("dev", "ino")
    return seen.select(*_FILE, incarnation=pl.coalesce(matched, own).cast(pl.Int32))
