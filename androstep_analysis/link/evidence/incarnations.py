"""Which file of the trace a file of an image is: an inode number may have been given to another in between."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import Filesystem
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence.snapshots import Snapshot

TICK_NS = 20_000_000
"""How far an inode's time stamps may lag behind the clock: the kernel takes them from its last tick (HZ >= 100)."""

LAG_NS = 100_000_000
"""How late the clock that filesystems take times from may be: it ticks, and a guest's CPU may not get to it."""

_FILE = ["dev", "ino", "generation"]


def numbered(before: Snapshot | None, after: Snapshot | None, lives: pl.DataFrame, staging: Staging) -> pl.DataFrame:
    """dev, ino, generation and incarnation of every file in two images (or listings) of one filesystem.

    A file of the image before is incarnation 0, and so is one of the image after that is the same by number and
    generation or was made before the trace began. One that was made during the trace is the last that the trace knows
    by its number, if the trace lost nothing since, its creation is of that time, and no file after the trace can have
    been created then: it is older than a tick, or the listing was made while the events were still recorded. Any other
    is a file of its own: it was made after the trace had ended, or nothing proves that it was not.
    """
    parts = []
    if before is not None:
        parts.append(before.files.select(*_FILE, incarnation=pl.lit(0, pl.Int32)))
    if after is not None:
        parts.append(_of_after(after, schema.empty("files") if before is None else before.files, lives, staging))
    if not parts:
        return schema.empty("files").select(*_FILE, "incarnation")
    return pl.concat(parts).unique(_FILE, keep="last", maintain_order=True)


def agreed(*tables: pl.DataFrame) -> tuple[pl.DataFrame, ...]:
    """Tables of `numbered` with one number for the same file (by generation): what one could not prove, another may.

    A number that is not proven is greater than any that is.
    """
    least = pl.concat(tables).group_by(_FILE).agg(pl.col("incarnation").min())
    return tuple(
        table.join(least.drop_nulls("generation"), on=_FILE, how="left", suffix="_least", maintain_order="left").select(
            *_FILE, pl.min_horizontal("incarnation", "incarnation_least").alias("incarnation")
        )
        for table in tables
    )


def of_trace(table: pl.DataFrame, lives: pl.DataFrame, devices: Sequence[int]) -> pl.DataFrame:
    """Return a table of `numbered` in which files without a generation are those of the trace, if it has the number.

    `devices` are those without events of creation and deletion. There the trace has one incarnation of each number, and
    its name is only inferred if nothing proves that it was the same file all the time.
    """
    traced = lives.filter(pl.col("dev").is_in(devices)).group_by("dev", "ino").agg(traced=pl.col("incarnation").max())
    both = table.join(traced, on=["dev", "ino"], how="left", maintain_order="left")
    is_open = pl.col("generation").is_null() & pl.col("traced").is_not_null()
    return both.with_columns(incarnation=pl.when(is_open).then("traced").otherwise("incarnation")).select(table.columns)


def _of_after(after: Snapshot, before: pl.DataFrame, lives: pl.DataFrame, staging: Staging) -> pl.DataFrame:
    """dev, ino, generation and incarnation of every file in the image after."""
    last = lives.sort("incarnation").group_by("dev", "ino").last()
    last = last.select("dev", "ino", latest="incarnation", born_ns="created_ns", gone_ns="deleted_ns")
    same = before.select(_FILE).unique().with_columns(is_same=pl.lit(True))
    older = before.select("dev", "ino").unique().with_columns(older=pl.lit(0, pl.Int32))
    times = after.times.select("ino", "generation", "created_epoch_ns", "changed_epoch_ns")
    files = (
        after.files.select(_FILE)
        .join(last, on=["dev", "ino"], how="left", maintain_order="left")
        .join(same, on=_FILE, how="left", nulls_equal=True, maintain_order="left")
        .join(older, on=["dev", "ino"], how="left", maintain_order="left")
        .join(times, on=["ino", "generation"], how="left", nulls_equal=True, maintain_order="left")
    )
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    created, changed = pl.col("created_epoch_ns") - offset, pl.col("changed_epoch_ns") - offset
    latest, first_ns, last_ns = pl.col("latest").fill_null(0), pl.lit(staging.first_ns), pl.lit(staging.last_ns)
    is_older = pl.col("is_same") | (created < first_ns - TICK_NS)
    is_last = (created - pl.col("born_ns")).abs() <= TICK_NS
    # Without the time of its creation a file is the trace's last if nothing happened to it since.
    is_unchanged = created.is_null() & (changed < last_ns - TICK_NS)
    ever = pl.Series([None] * files.height, dtype=pl.Int64)
    is_lost = staging.lost.between(files["born_ns"] - TICK_NS, ever, files["dev"], "fs_events")
    is_undeleted = ~pl.lit(is_lost) & pl.col("gone_ns").is_null()
    cannot_follow = (created < last_ns - TICK_NS) | (pl.col("born_ns") < pl.lit(listed_from(after, staging), pl.Int64))
    number = (
        pl.when((latest == 0) & is_older.fill_null(False))
        .then(0)
        .when(is_undeleted & ((is_last & cannot_follow) | is_unchanged).fill_null(False))
        .then(latest)
        .otherwise(pl.max_horizontal("latest", "older").fill_null(-1) + 1)
    )
    return files.select(*_FILE, incarnation=number.cast(pl.Int32))


def listed_from(after: Snapshot, staging: Staging) -> int | None:
    """When `after` began to be listed, in the trace's clock; None if the events do not certainly go on to its end."""
    if isinstance(after, Filesystem) or staging.first_ns is None or staging.last_ns is None:
        return None
    offset = {"boot": 0, "mono": after.monotonic_offset_ns}.get(staging.clock)
    if offset is None or not staging.first_ns <= after.first_ns + offset <= after.last_ns + offset <= staging.last_ns:
        return None
    return after.first_ns + offset


def realtime_offset_ns(after: Snapshot, lives: pl.DataFrame) -> int | None:
    """CLOCK_REALTIME minus the trace's clock, as the creation of files tells it that the trace and `after` both have.

    A file that was made after another of its number is younger than the trace says, never older: the smallest
    difference is the true one if several agree on it. It is at most `TICK_NS` less than that.
    """
    last = lives.group_by("ino").agg(born_ns=pl.col("created_ns").sort_by("incarnation").last())
    files = after.times.join(last, on="ino", maintain_order="left")
    differences = files.select(pl.col("created_epoch_ns") - pl.col("born_ns")).to_series().drop_nulls().sort()
    if len(differences) < 2:
        return None
    smallest = int(differences[0])
    return smallest if int(differences[1]) - smallest <= TICK_NS else None
