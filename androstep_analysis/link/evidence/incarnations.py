"""Match the files of images and listings with the inode lifetimes in the trace.

A filesystem reuses inode numbers. A file in an image after may therefore be another one than the trace's file of the
same number. An image identifies a file by inode number and generation, the trace by number and incarnation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence.inodes import NUMBER
from androstep_analysis.link.evidence.snapshots import Snapshot

TICK_NS = 20_000_000
"""The maximum delay of an inode's time stamps: the kernel takes them from its last clock tick (HZ >= 100)."""

LAG_NS = 100_000_000
"""The maximum delay of the clock of the last tick: a CPU of a guest may miss ticks."""

LAST_ROOT = max(tracepoints_ext4.ROOT_INODE, tracepoints_f2fs.ROOT_INODE)
"""The highest number of a root directory. Files have higher ones."""

GENERATION = (*NUMBER, "generation")
"""The key of a file in images, listings and journals."""


def numbered(
    before: Snapshot | None,
    after: Snapshot | None,
    lifetimes: pl.DataFrame,
    staging: Staging,
    kinds: pl.DataFrame,
    remade: Collection[int] = (),
) -> pl.DataFrame:
    """Return dev, ino, generation and incarnation of every file in two images (or listings) of one filesystem.

    On devices that are `remade` (`link.evidence.remade`), only the generation shows that a file was there before.

    | file | incarnation |
    |---|---|
    | in the image before | 0 |
    | in the image after, with the number and generation of one before | 0 |
    | in the image after, created before the trace, and the trace has only incarnation 0 of the number | 0 |
    | the same, or in both images, and the trace does not record creation and deletion | the only one |
    | in the image after, certainly the last one that the trace has of the number (`_is_last`, `_is_alive`) | that one |
    | any other | a new one: it was created after the trace, or may have been |
    """
    parts = [schema.empty("files").select(*GENERATION, "incarnation")]
    if before is not None:
        parts.append(before.files.select(*GENERATION, incarnation=pl.lit(0, pl.Int32)))
    if after is not None:
        older = schema.empty("files") if before is None else before.files
        parts.append(_of_after(after, older, lifetimes, staging, kinds, bool(remade) and after.dev in remade))
    return pl.concat(parts).unique(GENERATION, keep="last", maintain_order=True)


def assigned(table: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    """Return a table of an image, a listing or a journal with the incarnations of the trace (`numbers`)."""
    other = table.drop("incarnation")
    return other.join(numbers, on=GENERATION, how="left", nulls_equal=True, maintain_order="left").select(table.columns)


def combined(*tables: pl.DataFrame) -> tuple[pl.DataFrame, ...]:
    """Return tables of `numbered` with equal incarnations for files of equal generation.

    The lowest one is right: a new incarnation, for a file that could not be matched, is greater than all others.
    """
    lowest = pl.concat(tables).group_by(GENERATION).agg(lowest=pl.col("incarnation").min()).drop_nulls("generation")
    return tuple(
        table.join(lowest, on=GENERATION, how="left", maintain_order="left").select(
            *GENERATION, incarnation=pl.min_horizontal("incarnation", "lowest")
        )
        for table in tables
    )


def with_traced(table: pl.DataFrame, lifetimes: pl.DataFrame, devices: Sequence[int]) -> pl.DataFrame:
    """Give files without a generation the incarnation of the trace, in a table of `numbered`.

    `devices` have no events of creation and deletion, so that the trace has one incarnation of each number.
    """
    of_device = lifetimes.filter(pl.col("dev").is_in(devices))
    traced = of_device.group_by(NUMBER).agg(traced=pl.col("incarnation").max())
    both = table.join(traced, on=NUMBER, how="left", maintain_order="left")
    is_traced = pl.col("generation").is_null() & pl.col("traced").is_not_null()
    return both.with_columns(incarnation=pl.when(is_traced).then("traced").otherwise("incarnation")).select(
        table.columns
    )


def _of_after(
    after: Snapshot,
    before: pl.DataFrame,
    lifetimes: pl.DataFrame,
    staging: Staging,
    kinds: pl.DataFrame,
    is_remade: bool,
) -> pl.DataFrame:
    """Return dev, ino, generation and incarnation of every file in the image after."""
    last = lifetimes.sort("incarnation").group_by(NUMBER).last()
    last = last.select(*NUMBER, latest="incarnation", traced_creation_ns="created_ns", traced_deletion_ns="deleted_ns")
    unrecorded = tracepoints.without_lifetimes(kinds, staging.recorded or ())
    same = before.select(GENERATION).unique().with_columns(is_same=pl.lit(True))
    older = before.select(NUMBER).unique().with_columns(older=pl.lit(0, pl.Int32))
    offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
    times = after.times.select(
        "ino",
        "generation",
        created_ns=pl.col("created_epoch_ns") - offset,
        changed_ns=pl.col("changed_epoch_ns") - offset,
    )
    files = (
        after.files.select(GENERATION)
        .join(last, on=NUMBER, how="left", maintain_order="left")
        .join(same, on=GENERATION, how="left", nulls_equal=True, maintain_order="left")
        .join(older, on=NUMBER, how="left", maintain_order="left")
        .join(times, on=["ino", "generation"], how="left", nulls_equal=True, maintain_order="left")
    )
    latest = pl.col("latest").fill_null(0)
    is_before = pl.col("created_ns") < pl.lit(None if is_remade else staging.first_ns, pl.Int64) - TICK_NS
    is_same_number = pl.col("is_same") & pl.col("generation").is_not_null()
    is_root = pl.col("ino") <= LAST_ROOT
    is_older = (is_same_number | is_root if is_remade else pl.col("is_same")) | is_before
    is_throughout = is_same_number | is_before
    is_last = _is_last(files, after, staging) & (pl.col("created_ns").is_not_null() | pl.lit(not is_remade))
    is_only = pl.col("dev").is_in(unrecorded) & (pl.col("latest") == 1)
    number = (
        pl.when((latest == 0) & is_older.fill_null(False))
        .then(0)
        .when((is_only & is_throughout).fill_null(False))
        .then(latest)
        .when(is_last | (_is_alive(staging, kinds) & pl.lit(not is_remade)))
        .then(latest)
        .otherwise(pl.max_horizontal("latest", "older").fill_null(-1) + 1)
    )
    return files.select(*GENERATION, incarnation=number.cast(pl.Int32))


def _is_last(files: pl.DataFrame, after: Snapshot, staging: Staging) -> pl.Expr:
    """Return whether a file is certainly the last one that the trace has of its number.

    - The trace has no deletion of the last one, and lost no event since its creation.
    - The creation times are equal, and no file can have been created later at such a time: it is more than a tick
      before the end of the trace, or events were recorded during the listing.
    - Or the image has no creation time, and the file did not change after the trace.
    """
    created, traced, end = pl.col("created_ns"), pl.col("traced_creation_ns"), pl.lit(staging.last_ns)
    ever = pl.Series([None] * files.height, dtype=pl.Int64)
    is_lost = staging.lost.between(files["traced_creation_ns"] - TICK_NS, ever, files["dev"], "fs_events")
    is_recorded = ~pl.lit(is_lost) & pl.col("traced_deletion_ns").is_null()
    is_same_time = (created - traced).abs() <= TICK_NS
    is_final = (created < end - TICK_NS) | (traced < pl.lit(listed_from(after, staging), pl.Int64))
    is_unchanged = created.is_null() & (pl.col("changed_ns") < end - TICK_NS)
    return is_recorded & ((is_same_time & is_final) | is_unchanged).fill_null(False)


def _is_alive(staging: Staging, kinds: pl.DataFrame) -> pl.Expr:
    """Return whether a file is certainly the one that had its number when the trace ended.

    It was created before, the trace records deletions and has none of the last file of the number, and it records no
    creations, which `_is_last` compares. Freed blocks are no substitute for deletions: a file that is deleted before it
    gets a block frees none, but it has page events.
    """
    ext4 = tracepoints.devices(kinds, tracepoints.is_own("ext4"))
    lossy = [dev for dev in ext4 if staging.lost.touching("fs_events", dev=dev)]
    dev = pl.col("dev")
    records_deletions = dev.is_in(_recording(tracepoints.DELETIONS, staging, kinds))
    records_deletions &= ~dev.is_in(_recording(tracepoints.CREATIONS, staging, kinds))
    is_certain = dev.is_in(ext4) & ~dev.is_in(lossy) & records_deletions & pl.col("traced_deletion_ns").is_null()
    is_before_end = pl.col("created_ns") < pl.lit(staging.last_ns, pl.Int64) - TICK_NS
    return (is_certain & is_before_end & pl.col("latest").is_not_null()).fill_null(False)


def _recording(names: Sequence[str], staging: Staging, kinds: pl.DataFrame) -> list[int]:
    """Return the devices on which one of the events is recorded."""
    is_recorded = tracepoints.is_recorded(names, staging.recorded or ())
    return tracepoints.devices(kinds, pl.col("event").is_in(names) | is_recorded)


def listed_from(after: Snapshot, staging: Staging) -> int | None:
    """Return when a listing began, in the trace's clock. None if events were not certainly recorded until its end."""
    if isinstance(after, Filesystem) or staging.first_ns is None or staging.last_ns is None:
        return None
    offset = {"boot": 0, "mono": after.monotonic_offset_ns}.get(staging.clock)
    if offset is None or not staging.first_ns <= after.first_ns + offset <= after.last_ns + offset <= staging.last_ns:
        return None
    return after.first_ns + offset


def listed_at_start(before: Listing, staging: Staging) -> Listing:
    """Drop files that were created, and blocks of files that changed, while iotrace listed and already recorded."""
    if staging.realtime_offset_ns is None or staging.first_ns is None:
        return before
    begin = staging.first_ns + staging.realtime_offset_ns - TICK_NS
    is_created = pl.coalesce("created_epoch_ns", "changed_epoch_ns") >= begin
    created = before.times.filter(is_created)["ino"].implode()
    changed = before.times.filter(pl.col("changed_epoch_ns") >= begin)["ino"].implode()
    return replace(
        before,
        extents=before.extents.filter(~pl.col("ino").is_in(changed)),
        files=before.files.filter(~pl.col("ino").is_in(created)),
        times=before.times.filter(~pl.col("ino").is_in(created)),
    )


def realtime_offset_ns(staging: Staging, after: Snapshot | None, lifetimes: pl.DataFrame) -> int | None:
    """Return CLOCK_REALTIME minus the trace's clock, as recorded, or else from files created in trace and `after`.

    A file that reuses a number is younger than the trace states, never older. The smallest difference is therefore
    right if a second file agrees with it. It is at most `TICK_NS` too small.
    """
    if staging.realtime_offset_ns is not None or after is None:
        return staging.realtime_offset_ns
    last = lifetimes.group_by("ino").agg(traced_ns=pl.col("created_ns").sort_by("incarnation").last())
    files = after.times.join(last, on="ino", maintain_order="left")
    differences = files.select(pl.col("created_epoch_ns") - pl.col("traced_ns")).to_series().drop_nulls().sort()
    if len(differences) < 2:
        return None
    smallest = int(differences[0])
    return smallest if int(differences[1]) - smallest <= TICK_NS else None
