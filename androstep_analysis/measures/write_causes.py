"""Shares of common writes: journal, checkpoints and discards are divided among those who changed something in them.

A *period* is what is written together: on ext4 a transaction of the journal, on F2FS the time from one checkpoint to
the next. Its bytes are divided in proportion to the changes of each file and process (definitions.toml, write_cost).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.evidence import inodes
from androstep_analysis.link.owner import handles
from androstep_analysis.link.owner.processes import Processes
from androstep_analysis.measures.parts import batches
from androstep_analysis.measures.tables import Table, lazy

OWNER: Final = ("owner_pid", "owner_comm", "owner_package")
FILE: Final = ("ino", "incarnation", "path", "file_type", "package")

CHANGE: Final[Mapping[str, type[pl.DataType]]] = {
    "dev": pl.UInt32,
    "ts_ns": pl.Int64,
    "tid": pl.Int32,
    "pid": pl.Int32,
    "comm": pl.String,
    "ino": pl.Int64,
    "transaction": pl.Int64,
    "weight": pl.Int64,
    "file_inferred": pl.Boolean,
}
"""Columns of a table of changes: process, file and amount, and whether the file is only inferred."""

_F2FS_CHANGES: Final = ("f2fs_write_begin", "f2fs_new_inode", "f2fs_unlink_enter", "f2fs_rename_start",
                        "f2fs_vm_page_mkwrite")  # fmt: skip
_FREES: Final = "ext4_free_blocks"


def handle_changes(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the handles of ext4's journal that dirtied blocks (`CHANGE`), with the number of blocks as weight.

    The file of a handle is that of the previous event of its thread, unless that is a handle too. This is inferred,
    since some operations, such as rename, have no event of their own. A call of fsync changes no file.
    """
    is_handle = (pl.col("event") == tracepoints.HANDLE) & (pl.col("nr_blocks") > 0)
    is_sync = pl.col("event").is_in([*tracepoints.SYNC_BEGINS, *tracepoints.SYNC_ENDS])
    is_change = tracepoints.is_own("ext4") & pl.col("ino").is_not_null() & ~is_sync
    rows = fs_events.filter(is_handle | is_change).select(
        "dev", "ts_ns", "tid", "pid", "comm", "ino", "transaction", weight=pl.when(is_handle).then("nr_blocks"),
        file_inferred=pl.lit(True),
    )  # fmt: skip
    return pl.concat([pl.DataFrame(schema=CHANGE), *_with_previous_inode(rows)])


def _with_previous_inode(changes: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows with a weight, each with the inode of the previous row of its thread and device.

    The inode is null if the previous row has a weight too.
    """
    last = pl.DataFrame(schema=CHANGE)
    thread = ["dev", "tid"]
    for batch in batches(changes):
        rows = pl.concat([last, batch.cast(pl.Schema(CHANGE))])
        before = rows.with_columns(before=pl.col("ino").shift().over(thread), is_new=pl.int_range(pl.len()))
        new = before.filter(pl.col("is_new") >= last.height, pl.col("weight").is_not_null())
        yield new.with_columns(ino=pl.when(pl.col("tid").is_not_null()).then("before")).select(list(CHANGE))
        last = rows.group_by(thread, maintain_order=True).last().select(list(CHANGE))


def frees(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the blocks that were freed on ext4, by process and file (`CHANGE`)."""
    return _changes(fs_events.filter(pl.col("event") == _FREES, pl.col("nr_blocks") > 0), pl.col("nr_blocks"))


def file_changes(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the changes to files of F2FS (`CHANGE`). Each event counts one."""
    return _changes(fs_events.filter(pl.col("event").is_in(_F2FS_CHANGES)), pl.lit(1))


def _changes(events: pl.LazyFrame, weight: pl.Expr) -> pl.DataFrame:
    rows = events.drop_nulls("dev").with_columns(
        transaction=pl.lit(None, pl.Int64), weight=weight.cast(pl.Int64), file_inferred=pl.lit(False)
    )
    return rows.select(list(CHANGE)).collect()


def commits(fs_events: pl.LazyFrame) -> pl.DataFrame:
    """Return the committed transactions of ext4: dev, transaction, start_ns, end_ns and period (their order by device).

    Not all handles of the first one, period 0, are known.
    """
    rows = handles.commits(fs_events).sort("dev", "start_ns").unique(["dev", "transaction"], maintain_order=True)
    period = pl.int_range(pl.len(), dtype=pl.Int64).over("dev")
    return rows.select("dev", "transaction", "start_ns", "end_ns", period=period)


class Causes:
    """Processes and files of changes, from tables `tasks` and `files`.

    `writers` (`write_outcomes.WRITERS`) are the threads that wrote to files, with `OWNER`, `FILE` and is_process.
    """

    def __init__(self, tasks: pl.DataFrame, files: Table, writers: pl.DataFrame) -> None:
        self._processes = Processes(tasks)
        self._files = lazy(files, ("files",)).select("dev", *FILE, "valid_from_ns", "valid_to_ns").collect()
        self.writers = self.of_files(self._processes.of_threads(writers))
        processes = self.writers.filter("is_process")
        self._first_writes = processes.select("dev", "ino", "ts_ns", *OWNER, _file_number()).sort("ts_ns")

    def named(self, changes: pl.DataFrame, at: str = "ts_ns") -> pl.DataFrame:
        """Return the changes (`CHANGE`) with `OWNER` and `FILE`: the file that had the inode number at time `at`.

        A kernel thread only moves the data of processes. Its change is attributed to the process that last began to
        write to the file, which is inferred (owner_inferred).
        """
        is_moved = ~pl.col("is_process") & ~pl.col("is_server")
        rows = self.of_files(self._processes.of_threads(changes), at).with_columns(owner_inferred=is_moved)
        moved = rows.filter(is_moved).drop(OWNER).with_columns(_file_number())
        moved = moved.sort("ts_ns", maintain_order=True).join_asof(
            self._first_writes, on="ts_ns", by=["dev", "ino", "_number"], check_sortedness=False
        )
        return pl.concat([rows.filter(~is_moved), moved.select(rows.columns)]).sort("ts_ns", maintain_order=True)

    def of_files(self, rows: pl.DataFrame, at: str = "ts_ns") -> pl.DataFrame:
        """Return the rows (dev, ino and time `at`) with `FILE` of the file that had the inode number then."""
        return inodes.at_time(rows, self._files, at).with_columns(pl.col("file_type").cast(pl.String))


def _file_number() -> pl.Expr:
    """Return the incarnation as a key.

    Files that table `files` lacks existed before the recording, one for each inode.
    """
    return pl.col("incarnation").fill_null(-1).alias("_number")


def weights(changes: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the amount that each of `by` changed (weight) in each period, in order of device and period."""
    return changes.group_by("dev", "period", *by).agg(pl.col("weight").sum()).sort("dev", "period")


def within(pieces: pl.DataFrame, weights: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `weights` for the periods of each piece: columns begin and behind (Int64, a half-open range).

    The range is empty for a piece without periods.
    """
    last_rows = weights.select(part_dev="dev", period="period", behind=pl.int_range(1, pl.len() + 1))
    of_periods = last_rows.unique(["part_dev", "period"], keep="last").sort("period")
    of_devices = last_rows.group_by("part_dev").agg(begin=pl.col("behind").min() - 1)
    rows = pieces.select("part_dev", "last", before=pl.col("first") - 1).with_row_index("row")
    rows = rows.join(of_devices, on="part_dev", how="left", maintain_order="left")

    def rows_up_to(period: str) -> pl.Series:
        known = rows.drop_nulls(period).sort(period)
        found = known.join_asof(of_periods, left_on=period, right_on="period", by="part_dev", check_sortedness=False)
        found = found.select("row", behind=pl.coalesce("behind", "begin"))
        return rows.join(found, on="row", how="left", maintain_order="left")["behind"].fill_null(0)

    return pl.DataFrame({"begin": rows_up_to("before"), "behind": rows_up_to("last")})


def shared(pieces: pl.DataFrame, weights: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Split the pieces (bytes, part_dev, first and last: periods) into shares by the changes in them.

    `weights` are those of the changes. They provide the columns `by` of the shares. Shares are whole bytes that add up
    to the piece: the sum of the first k shares is rounded down. A piece without periods, or without changes in them,
    has no owner.
    """
    period_keys = ["part_dev", "first", "last"]
    ranges = pieces.select(period_keys).unique().drop_nulls().with_row_index("range")
    numbered = ranges.select("range").with_columns(within(ranges, weights)).filter(pl.col("begin") < pl.col("behind"))
    found = numbered.select("range", row=pl.int_ranges("begin", "behind")).explode("row")
    causes = found.select("range").with_columns(weights[found["row"]].select(*by, "weight"))
    causes = causes.group_by("range", *by).agg(pl.col("weight").sum())
    upto = pl.col("weight").cum_sum().over("range")
    causes = causes.sort("range", *by, nulls_last=True).with_columns(
        upto=upto, before=upto - pl.col("weight"), whole=pl.col("weight").sum().over("range")
    )
    rows = pieces.drop(by, strict=False).join(ranges, on=period_keys, how="left", maintain_order="left")
    rows = rows.join(causes, on="range", how="left", maintain_order="left")
    size = pl.col("bytes").cast(pl.Int128)  # bytes times a weight
    upto, before = (size * pl.col(name) // pl.col("whole") for name in ("upto", "before"))
    share = (upto - before).cast(pl.Int64)
    return rows.with_columns(bytes=pl.when(pl.col("whole") > 0).then(share).otherwise("bytes"))


def periods_between(pieces: pl.DataFrame, committed: pl.DataFrame, lost: Losses) -> pl.DataFrame:
    """Return the pieces (part_dev, before_ns, time) with the periods that were committed in between as first and last.

    Both are null if none was committed, if `before_ns` is null, or if not all changes of the transactions are known.
    """
    ends = committed.drop_nulls("end_ns").sort("end_ns").select("end_ns", "period", part_dev="dev")
    ends = ends.with_columns(period=pl.col("period").cum_max().over("part_dev"))
    rows = pieces.with_row_index("row")
    for name, time in (("last", "time"), ("first", "before_ns")):
        known = rows.drop_nulls(time).sort(time)
        known = known.join_asof(ends, left_on=time, right_on="end_ns", by="part_dev", check_sortedness=False)
        rows = rows.join(known.select("row", pl.col("period").alias(name)), on="row", how="left", maintain_order="left")
    rows = rows.with_columns(first=pl.when(pl.col("before_ns").is_not_null()).then(pl.col("first").fill_null(-1) + 1))
    is_lost = pl.lit(lost.between(rows["before_ns"], rows["time"], rows["part_dev"], "fs_events"))
    is_known = (pl.col("first") > 0) & (pl.col("first") <= pl.col("last")) & ~is_lost
    return rows.with_columns(pl.when(is_known).then(name).alias(name) for name in ("first", "last")).drop("row")
