"""Find the file that had an inode number at a time. Filesystems reuse the numbers of deleted files.

An *incarnation* is one of the files that had an inode number during the recording (`tracepoints.numbered`). Its span
is from its first event to the first event of the next incarnation. All joins of other tables with table `files` by time
are here. Other joins are by dev, ino and incarnation.
"""

from __future__ import annotations

import polars as pl

NUMBER = ("dev", "ino")
FILE = (*NUMBER, "incarnation")

_ALWAYS = -(1 << 62)


def with_spans(files: pl.DataFrame, lifetimes: pl.DataFrame, last_ns: int | None) -> pl.DataFrame:
    """Return table `files` with valid_from_ns and valid_to_ns: the span in which each has its inode number.

    `lifetimes` are those in the trace (`tracepoints.lifetimes`), which ends at `last_ns`. The span of other files from
    images and listings is after the trace, because nothing proves that they existed before.
    """
    begun = lifetimes.filter(pl.col("incarnation") > 0).select(*FILE, begins_ns="first_ns")
    both = pl.concat([files.select(FILE), begun.select(FILE)]).unique().join(begun, on=FILE, how="left")
    is_unseen = (pl.col("incarnation") > 0) & pl.col("begins_ns").is_null()
    after_ns = pl.lit(None if last_ns is None else last_ns + 1, pl.Int64)
    spans = both.sort(FILE).select(
        *FILE, valid_from_ns=pl.when(is_unseen).then(after_ns).otherwise("begins_ns")
    ).with_columns(valid_to_ns=pl.col("valid_from_ns").shift(-1).over(NUMBER))  # fmt: skip
    return files.drop("valid_from_ns", "valid_to_ns").join(spans, on=FILE, how="left", maintain_order="left")


def at_time(rows: pl.DataFrame, files: pl.DataFrame, at: str = "ts_ns") -> pl.DataFrame:
    """Return the rows (dev, ino and time `at`) in order of time, with the file that had the inode number then.

    Adds incarnation and every other column of `files`, all null if no file is known to have had the number then.
    """
    known = files.drop_nulls(NUMBER).with_columns(begins=pl.col("valid_from_ns").fill_null(_ALWAYS)).sort("begins")
    added = [name for name in known.columns if name not in (*NUMBER, "begins", "valid_from_ns", "valid_to_ns")]
    timed = rows.drop(added, strict=False).sort(at, maintain_order=True, nulls_last=True)
    found = timed.join_asof(
        known.select(*NUMBER, "begins", "valid_to_ns", *added),
        left_on=at, right_on="begins", by=list(NUMBER), check_sortedness=False,
    )  # fmt: skip
    has_number = (pl.col(at) < pl.col("valid_to_ns")).fill_null(True)
    return found.with_columns(pl.when(has_number).then(name).alias(name) for name in added).drop(
        "begins", "valid_to_ns", strict=False
    )
