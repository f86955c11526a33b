"""Checks of blocks: the files and metadata in an image at the sectors that the trace read and wrote."""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence import images, incarnations
from androstep_analysis.link.evidence.consistency.subject import DeviceTrace, Subject, Tally, content_at
from androstep_analysis.link.evidence.consistency.verdict import CHANCE, LAYOUT_TOLERATED
from androstep_analysis.link.extents import bio_pages


def extents_before(subject: Subject) -> Tally:
    """Compare the first file that events state for each block with the file in an image before.

    Only files from before the trace count. A file that ends in the trace explains a difference.
    """
    trace, snapshot = subject.trace, subject.snapshot
    points = _compared_blocks(subject, is_after=False)
    points = points.filter(pl.col("incarnation") == (points["incarnation"].min() if points.height else 0))
    if points.is_empty():
        return Tally()
    both = _with_content(subject, points)
    gone = trace.lifetimes.filter(pl.col("incarnation") == 0, pl.col("end_ns").is_not_null())["ino"].implode()
    is_missing = ~pl.col("stated_ino").is_in(snapshot.times["ino"].implode())
    if points["incarnation"][0] != 0:  # The trace created all of them.
        is_missing = pl.lit(False)
    elif isinstance(snapshot, Listing):  # The file may have been deleted before it was listed.
        is_missing &= ~pl.col("stated_ino").is_in(gone) & snapshot.is_whole
    is_other = ~pl.col("is_same") & pl.col("ino").is_not_null() & ~pl.col("ino").is_in(gone)
    differs = is_missing | images.is_fixed() | is_other
    if trace.lifetimes["created_ns"].null_count() == trace.lifetimes.height:
        differs = pl.lit(False)  # Without creations, the file may be one of the recording.
    return _tally(subject, points, both, pl.col("is_same"), differs)


def extents_after(subject: Subject) -> Tally:
    """Compare the last file that events state for each block with the file in an image after.

    A file in the image that was created or changed after the recording explains a difference. So does a file that an
    image of a later time no longer has.
    """
    trace = subject.trace
    points = _compared_blocks(subject, is_after=True)
    ends = trace.lifetimes.select("ino", "incarnation", "end_ns")
    points = points.join(ends, on=["ino", "incarnation"], how="left").filter(pl.col("end_ns").is_null())
    listed_from = incarnations.listed_from(subject.snapshot, trace.staging)
    if listed_from is not None:  # A listing may or may not have a change that was made meanwhile.
        points = points.filter(pl.col("valid_from_ns") < listed_from)
    if points.is_empty():
        return Tally()
    both, end = _with_content(subject, points), pl.lit(trace.staging.last_ns)
    is_newer = (pl.col("created_ns") > end).fill_null(False)
    is_explained = is_newer | (pl.col("changed_ns") >= end - incarnations.TICK_NS).fill_null(False)
    existing = _times(subject).filter((pl.col("created_ns") <= end).fill_null(True))["ino"].implode()
    exists = pl.col("stated_ino").is_in(existing)
    is_later = subject.agrees_in("commits")
    if is_later:
        is_explained |= ~exists
    differs = images.is_fixed() | (~pl.col("is_same") & pl.col("ino").is_not_null() & ~is_explained)
    agrees = pl.col("is_same") & ~is_newer
    # ext4 writes in place: of files that are still there, not all blocks can have moved.
    if subject.family == "ext" and subject.agrees_in("births") and both.filter(agrees).is_empty():
        differs = ~pl.col("is_same") & exists if is_later else ~pl.col("is_same")
    return _tally(subject, points, both, agrees, differs)


def _compared_blocks(subject: Subject, *, is_after: bool) -> pl.DataFrame:
    """Return the statements of events on blocks of ordinary files: the last of each block, or the first."""
    trace, block_bytes = subject.trace, {subject.trace.dev: subject.snapshot.block_bytes}
    statements = tracepoints.statements(trace.events, trace.lifetimes, block_bytes, trace.staging.recorded or ())
    points = _outermost(images.with_start_of_file(statements), is_after=is_after)
    # The first numbers are those of quota files, on ext4 also of lost+found.
    first = tracepoints_f2fs.QUOTA_INODES[-1] if subject.family == "f2fs" else tracepoints_ext4.FIRST_INODE
    return points.filter(pl.col("ino") > first, pl.col("start_of_file").is_not_null())


def _outermost(statements: pl.DataFrame, *, is_after: bool) -> pl.DataFrame:
    """Return for each first sector the last of the statements, in order of time, that cover it, or the first one.

    Sectors on which that statement differs from the last, or first, one that begins there have no row.
    """
    identity = ["ino", "incarnation", "start_of_file"]
    own = statements.filter(pl.col("ino").is_not_null())
    own = own.unique("sector", keep="last" if is_after else "first", maintain_order=True)
    if own.is_empty():
        return own
    covering = _covering(own["sector"], *statements["sector", "nr_sectors", "valid_from_ns"], is_after=is_after)
    outermost, own = statements.select(identity)[covering.row], own[covering.query]
    return own.filter(pl.all_horizontal(outermost[name].eq_missing(own[name]) for name in identity))


def _covering(
    places: pl.Series, sector: pl.Series, nr_sectors: pl.Series, ts_ns: pl.Series, *, is_after: bool
) -> intervals.Pieces:
    """Return for each place the last of the rows that cover it, or the first one."""
    time = ts_ns.to_numpy()
    return intervals.stab(
        intervals.Queries(
            np.zeros(len(places), np.int64),
            places.to_numpy(),
            np.ones(len(places), np.int64),
            np.full(len(places), intervals.FOREVER - 1),
        ),
        intervals.Rows(
            np.zeros(len(time), np.int64),
            sector.to_numpy(),
            nr_sectors.to_numpy().astype(np.int64),
            time if is_after else -time,
            np.full(len(time), intervals.FOREVER),
        ),
    )


def _with_content(subject: Subject, points: pl.DataFrame) -> pl.DataFrame:
    """Return the stated file of each block, that in the image with its times in the trace's clock, and `is_same`."""
    stated = points.select(stated_ino="ino", stated_start="start_of_file")
    both = pl.concat([stated, content_at(subject.snapshot, points["sector"])], how="horizontal")
    is_same = (pl.col("stated_ino") == pl.col("ino")) & (pl.col("stated_start") == pl.col("start_of_file"))
    return both.join(_times(subject), on="ino", how="left", maintain_order="left").with_columns(
        is_same=is_same.fill_null(False)
    )


def _times(subject: Subject) -> pl.DataFrame:
    """Return ino, created_ns and changed_ns of the files in the image, in the trace's clock."""
    offset = pl.lit(subject.trace.realtime_offset_ns, pl.Int64)
    return subject.snapshot.times.unique("ino").select(
        "ino", created_ns=pl.col("created_epoch_ns") - offset, changed_ns=pl.col("changed_epoch_ns") - offset
    )


def _tally(subject: Subject, points: pl.DataFrame, both: pl.DataFrame, agrees: pl.Expr, differs: pl.Expr) -> Tally:
    """Count the rows. An event that was lost between statement and image may explain a difference."""
    times = (points["valid_from_ns"], pl.Series([None] * points.height, dtype=pl.Int64))
    begin, end = reversed(times) if subject.is_before else times
    lost = pl.lit(subject.trace.staging.lost.between(begin, end, points["dev"], "fs_events"))
    return Tally(both.filter(agrees).height, both.filter(differs & ~lost).height, both.filter(differs & lost).height)


def pages(subject: Subject) -> Tally:
    """Compare the buffered writes of files, by the image, with the pages that became dirty."""
    trace = subject.trace
    if not _is_without_mappings(subject) or trace.stated.page_bytes is None:
        return Tally()
    dirtied = bio_pages.touched(trace.dirtied).select("ino", "page").unique().collect(engine="streaming")
    if dirtied.is_empty():
        return Tally()
    page = (pl.col("part_sector") - pl.col("start_of_file")) * units.SECTOR_BYTES // trace.stated.page_bytes
    written = _data_writes(subject).filter(~pl.col("sync")).select("ts_ns", "ino", page=page)
    clean = written.join(dirtied, on=["ino", "page"], how="anti")
    # Pages that are written to disk soon after the recording began were dirtied before.
    contradictions = clean.filter(pl.col("ts_ns") > (trace.staging.first_ns or 0) + images.WRITEBACK_NS).height
    # Low numbers and first pages match by chance, but not almost all of them.
    agreements = written.height - clean.height
    return Tally(agreements if clean.height <= LAYOUT_TOLERATED * agreements else 0, contradictions)


def changes(subject: Subject) -> Tally:
    """Compare the times of writes with the last changes of their files: data are not written long after a change."""
    trace, first, last = subject.trace, subject.trace.staging.first_ns, subject.trace.staging.last_ns
    if not _is_without_mappings(subject) or trace.staging.realtime_offset_ns is None or last is None:
        return Tally()
    changed = _times(subject).select("ino", "changed_ns")
    timed = _data_writes(subject).join(changed, on="ino", how="left").drop_nulls("changed_ns")
    is_late = pl.col("changed_ns") < pl.col("ts_ns") - images.WRITEBACK_NS
    agreements = timed.filter(~is_late & pl.col("changed_ns").is_between(first, last)).height
    return Tally(agreements, timed.filter(is_late).height)


def _is_without_mappings(subject: Subject) -> bool:
    return subject.image.fs_type.startswith("ext") and not subject.agrees_in("extents")


def _data_writes(subject: Subject) -> pl.DataFrame:
    """Return the last write at each sector that is data of a file in the image, with the content there."""
    is_data = (pl.col("op") == "write") & ~pl.col("meta").fill_null(False)
    writes = subject.trace.requests.filter(is_data).drop_nulls("ts_ns").collect()
    writes = writes.sort("ts_ns").unique("part_sector", keep="last", maintain_order=True)
    both = pl.concat([writes, content_at(subject.snapshot, writes["part_sector"])], how="horizontal")
    return both.filter(pl.col("block_type") == "data", pl.col("ino") > 0)


def size(subject: Subject) -> Tally:
    """Compare the end of the filesystem with the writes, and with the end of its device.

    Writes after the end count from 1 % of all on. Fewer may belong to no filesystem: some partition tables have a copy
    at the end of the disk. If the filesystem is larger than its device, all writes count.
    """
    device_sectors, nr_sectors = subject.trace.stated.nr_sectors.get(subject.trace.dev, 0), subject.image.nr_sectors
    is_beyond = pl.col("part_sector") + pl.col("nr_sectors") > nr_sectors
    writes = subject.trace.requests.filter(pl.col("op") == "write").select(pl.len(), beyond=is_beyond.sum())
    total, beyond = writes.collect(engine="streaming").row(0)
    if 0 < device_sectors < nr_sectors:
        detail = f"it has {nr_sectors:,} sectors, and the device that was written to {device_sectors:,}"
        return Tally(0, total + CHANCE + 1, detail=detail)
    return Tally(0, beyond if beyond * 100 >= total else 0, detail="writes of the recording lie after its end")


def metadata(subject: Subject) -> Tally:
    """Compare the sectors that certainly hold metadata with the image. Each sector counts once.

    Requests with REQ_META are of metadata, on FAT the pages of the device itself. Metadata that moves (directories,
    extent trees, all nodes of F2FS) may have been data before the recording and after it. But if the image has no
    fixed metadata at any of the sectors, it has another layout.
    """
    trace, image = subject.trace, subject.image
    is_fat = subject.family == "fat"
    sectors = _starts(trace.requests.filter(pl.col("meta").fill_null(False)))
    contradictions = _file_pages_at_fixed_metadata(subject)
    if is_fat:
        contradictions += len(sectors)
        sectors, undirtied = _device_pages(subject)
        contradictions += undirtied
    there = content_at(image, sectors).with_columns(place=sectors)
    fixed = there.filter(images.is_fixed())
    # Free space on FAT may have been a directory before, or become one later.
    is_other = pl.col("block_type").is_in(["data"] if is_fat else ["data", "free"]) & pl.col("subtype").is_null()
    differing = there.filter(is_other)
    if fixed.is_empty():
        return Tally(0, contradictions + differing.height)
    unexplained = 0 if is_fat else _unexplained(differing, trace, is_after=not subject.is_before)
    # One area can match by chance: that of another filesystem begins at the same sector.
    agreements = fixed.height if fixed.select("block_type", "subtype").n_unique() > 1 else 0
    return Tally(agreements, contradictions + unexplained, differing.height - unexplained)


def _file_pages_at_fixed_metadata(subject: Subject) -> int:
    is_file_page = (pl.col("event") == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    if subject.family == "f2fs":
        is_file_page &= pl.col("ino") >= tracepoints_f2fs.ROOT_INODE
    sectors = _event_sectors(subject.trace.events.filter(is_file_page))
    return content_at(subject.image, sectors).filter(images.is_fixed()).height


def _unexplained(differing: pl.DataFrame, trace: DeviceTrace, *, is_after: bool) -> int:
    """Count the places that were metadata as close to the image's time as the recording shows, but not in the image.

    Before: the first access is a read of metadata. After: the last access is of metadata, and the image has a file
    there. A block that is free there was freed after the recording.
    """
    begin, end = pl.lit(differing["place"].min(), pl.Int64), pl.lit(differing["place"].max(), pl.Int64)
    is_near = (pl.col("part_sector") <= end) & (pl.col("part_sector") + pl.col("nr_sectors") > begin)
    accesses = trace.requests.drop_nulls("ts_ns").filter(is_near).collect(engine="streaming")
    nearest = _covering(differing["place"], *accesses["part_sector", "nr_sectors", "ts_ns"], is_after=is_after)
    is_covered = nearest.row >= 0
    access, there = accesses[nearest.row[is_covered]], differing[nearest.query[is_covered]]
    is_relevant = there["block_type"] == "data" if is_after else access["op"] == "read"
    return int((access["meta"].fill_null(False) & is_relevant).sum())


def _device_pages(subject: Subject) -> tuple[pl.Series, int]:
    """Return the sectors of pages of the device itself, and the number of fixed metadata written without such a page.

    The pages are those that became dirty, and those in bios. The number counts first sectors of writes.
    """
    trace, is_own = subject.trace, pl.col("ino") == subject.trace.dev
    carried = _event_sectors(trace.events.filter((pl.col("event") == "bio_page") & is_own))
    dirty = bio_pages.touched(trace.dirtied.filter(is_own)).select(pl.col("page").unique()).collect()["page"]
    if dirty.is_empty() or trace.stated.page_bytes is None:
        return carried, 0
    page_sectors = trace.stated.page_bytes // units.SECTOR_BYTES
    written = _starts(trace.requests.filter(pl.col("op") == "write"))
    fixed = written.filter(content_at(subject.image, written).select(images.is_fixed()).to_series())
    is_clean = ~(fixed // page_sectors).is_in(dirty.implode())
    return pl.concat([dirty * page_sectors, carried]).unique(), int(is_clean.sum())


def _event_sectors(events: pl.LazyFrame) -> pl.Series:
    """Return the sectors of the events, each once."""
    return events.select(pl.col("sector").drop_nulls().unique()).collect()["sector"]


def _starts(requests: pl.LazyFrame) -> pl.Series:
    """Return the first sectors of the requests, each once."""
    return requests.select(pl.col("part_sector").unique()).collect(engine="streaming").to_series()
