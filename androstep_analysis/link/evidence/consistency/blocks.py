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
from androstep_analysis.link.evidence.consistency.trace import DeviceTrace
from androstep_analysis.link.evidence.consistency.verdict import CHANCE, LAYOUT_TOLERATED, Comparison, Tally
from androstep_analysis.link.evidence.snapshots import Snapshot
from androstep_analysis.link.extents import bio_pages


def extents_before(comparison: Comparison) -> Tally:
    """Compare the first file that events state for each block with the file in an image before.

    Only files from before the trace count. A file that ends in the trace explains a difference.
    """
    trace, snapshot = comparison.trace, comparison.snapshot
    points = _compared_blocks(comparison)
    points = points.filter(pl.col("incarnation") == (points["incarnation"].min() if points.height else 0))
    if points.is_empty():
        return Tally()
    both = _with_content(comparison, points)
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
    return _tally(comparison, points, both, pl.col("is_same"), differs)


def extents_after(comparison: Comparison) -> Tally:
    """Compare the last file that events state for each block with the file in an image after.

    A file in the image that was created or changed after the recording explains a difference. So does a file that an
    image of a later time no longer has.
    """
    trace = comparison.trace
    points = _compared_blocks(comparison)
    ends = trace.lifetimes.select("ino", "incarnation", "end_ns")
    points = points.join(ends, on=["ino", "incarnation"], how="left").filter(pl.col("end_ns").is_null())
    listed_from = incarnations.listed_from(comparison.snapshot, trace.staging)
    if listed_from is not None:  # A listing may or may not have a change that was made meanwhile.
        points = points.filter(pl.col("valid_from_ns") < listed_from)
    if points.is_empty():
        return Tally()
    both, end = _with_content(comparison, points), pl.lit(trace.staging.last_ns)
    is_newer = (pl.col("created_ns") > end).fill_null(False)
    is_explained = is_newer | (pl.col("changed_ns") >= end - incarnations.TICK_NS).fill_null(False)
    existing = _times(comparison).filter((pl.col("created_ns") <= end).fill_null(True))["ino"].implode()
    exists = pl.col("stated_ino").is_in(existing)
    is_later = comparison.agrees_in("commits")
    if is_later:
        is_explained |= ~exists
    differs = images.is_fixed() | (~pl.col("is_same") & pl.col("ino").is_not_null() & ~is_explained)
    agrees = pl.col("is_same") & ~is_newer
    # ext4 writes in place: of files that are still there, not all blocks can have moved.
    if comparison.family == "ext" and comparison.agrees_in("births") and both.filter(agrees).is_empty():
        differs = ~pl.col("is_same") & exists if is_later else ~pl.col("is_same")
    return _tally(comparison, points, both, agrees, differs)


def _compared_blocks(comparison: Comparison) -> pl.DataFrame:
    """Return the statements of events on blocks of ordinary files: the last of each block, or the first."""
    trace, block_bytes = comparison.trace, {comparison.trace.dev: comparison.snapshot.block_bytes}
    statements = tracepoints.statements(trace.events, trace.lifetimes, block_bytes, trace.staging.recorded or ())
    points = _outermost(images.with_start_of_file(statements), is_after=not comparison.is_before)
    # The first numbers are those of quota files, on ext4 also of lost+found.
    first = tracepoints_f2fs.QUOTA_INODES[-1] if comparison.family == "f2fs" else tracepoints_ext4.FIRST_INODE
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
    covering = _covering(own["sector"], statements.rename({"valid_from_ns": "ts_ns"}), is_after=is_after)
    outermost, own = statements.select(identity)[covering.row], own[covering.query]
    return own.filter(pl.all_horizontal(outermost[name].eq_missing(own[name]) for name in identity))


def _covering(places: pl.Series, rows: pl.DataFrame, *, is_after: bool) -> intervals.Pieces:
    """Return for each place the last, by ts_ns, of the rows (sector, nr_sectors) that cover it, or the first one."""
    zeros, time = np.zeros(max(len(places), rows.height), np.int64), rows["ts_ns"].to_numpy()
    queries = intervals.Queries(
        *(zeros[: len(places)], places.to_numpy(), np.ones(len(places), np.int64)),
        np.full(len(places), intervals.FOREVER - 1),
    )
    lengths = rows["nr_sectors"].to_numpy().astype(np.int64)
    begin, end = time if is_after else -time, np.full(rows.height, intervals.FOREVER)
    return intervals.stab(queries, intervals.Rows(zeros[: rows.height], rows["sector"].to_numpy(), lengths, begin, end))


def _with_content(comparison: Comparison, points: pl.DataFrame) -> pl.DataFrame:
    """Return the stated file of each block, that in the image with its times in the trace's clock, and `is_same`."""
    stated = points.select(stated_ino="ino", stated_start="start_of_file")
    both = pl.concat([stated, _content_at(comparison.snapshot, points["sector"])], how="horizontal")
    is_same = (pl.col("stated_ino") == pl.col("ino")) & (pl.col("stated_start") == pl.col("start_of_file"))
    return both.join(_times(comparison), on="ino", how="left", maintain_order="left").with_columns(
        is_same=is_same.fill_null(False)
    )


def _times(comparison: Comparison) -> pl.DataFrame:
    """Return ino, created_ns and changed_ns of the files in the image, in the trace's clock."""
    offset = pl.lit(comparison.trace.realtime_offset_ns, pl.Int64)
    return comparison.snapshot.times.unique("ino").select(
        "ino", created_ns=pl.col("created_epoch_ns") - offset, changed_ns=pl.col("changed_epoch_ns") - offset
    )


def _tally(compared: Comparison, points: pl.DataFrame, both: pl.DataFrame, agrees: pl.Expr, differs: pl.Expr) -> Tally:
    """Count the rows. An event that was lost between statement and image may explain a difference."""
    times = (points["valid_from_ns"], pl.Series([None] * points.height, dtype=pl.Int64))
    begin, end = reversed(times) if compared.is_before else times
    lost = pl.lit(compared.trace.staging.lost.between(begin, end, points["dev"], "fs_events"))
    return Tally(both.filter(agrees).height, both.filter(differs & ~lost).height, both.filter(differs & lost).height)


def pages(comparison: Comparison) -> Tally:
    """Compare the buffered writes of files, by the image, with the pages that became dirty."""
    trace = comparison.trace
    if not _is_without_mappings(comparison) or trace.stated.page_bytes is None:
        return Tally()
    dirtied = bio_pages.touched(trace.dirtied).select("ino", "page").unique().collect(engine="streaming")
    if dirtied.is_empty():
        return Tally()
    page = (pl.col("part_sector") - pl.col("start_of_file")) * units.SECTOR_BYTES // trace.stated.page_bytes
    written = _data_writes(comparison).filter(~pl.col("sync")).select("ts_ns", "ino", page=page)
    clean = written.join(dirtied, on=["ino", "page"], how="anti")
    # Pages that are written to disk soon after the recording began were dirtied before.
    contradictions = clean.filter(pl.col("ts_ns") > (trace.staging.first_ns or 0) + images.WRITEBACK_NS).height
    # Low numbers and first pages match by chance, but not almost all of them.
    agreements = written.height - clean.height
    return Tally(agreements if clean.height <= LAYOUT_TOLERATED * agreements else 0, contradictions)


def changes(comparison: Comparison) -> Tally:
    """Compare the times of writes with the last changes of their files: data are not written long after a change."""
    trace, first, last = comparison.trace, comparison.trace.staging.first_ns, comparison.trace.staging.last_ns
    if not _is_without_mappings(comparison) or trace.staging.realtime_offset_ns is None or last is None:
        return Tally()
    changed = _times(comparison).select("ino", "changed_ns")
    timed = _data_writes(comparison).join(changed, on="ino", how="left").drop_nulls("changed_ns")
    is_late = pl.col("changed_ns") < pl.col("ts_ns") - images.WRITEBACK_NS
    agreements = timed.filter(~is_late & pl.col("changed_ns").is_between(first, last)).height
    return Tally(agreements, timed.filter(is_late).height)


def _is_without_mappings(comparison: Comparison) -> bool:
    return comparison.image.fs_type.startswith("ext") and not comparison.agrees_in("extents")


def _data_writes(comparison: Comparison) -> pl.DataFrame:
    """Return the last write at each sector that is data of a file in the image, with the content there."""
    is_data = (pl.col("op") == "write") & ~pl.col("meta").fill_null(False)
    writes = comparison.trace.requests.filter(is_data).drop_nulls("ts_ns").collect()
    writes = writes.sort("ts_ns").unique("part_sector", keep="last", maintain_order=True)
    both = pl.concat([writes, _content_at(comparison.snapshot, writes["part_sector"])], how="horizontal")
    return both.filter(pl.col("block_type") == "data", pl.col("ino") > 0)


def size(comparison: Comparison) -> Tally:
    """Compare the end of the filesystem with the writes, and with the end of its device.

    Writes after the end count from 1 % of all on. Fewer may belong to no filesystem: some partition tables have a copy
    at the end of the disk. If the filesystem is larger than its device, all writes count.
    """
    trace, nr_sectors = comparison.trace, comparison.image.nr_sectors
    device_sectors = trace.stated.nr_sectors.get(trace.dev, 0)
    is_beyond = pl.col("part_sector") + pl.col("nr_sectors") > nr_sectors
    writes = trace.requests.filter(pl.col("op") == "write").select(pl.len(), beyond=is_beyond.sum())
    total, beyond = writes.collect(engine="streaming").row(0)
    if 0 < device_sectors < nr_sectors:
        detail = f"it has {nr_sectors:,} sectors, and the device that was written to {device_sectors:,}"
        return Tally(0, total + CHANCE + 1, detail=detail)
    return Tally(0, beyond if beyond * 100 >= total else 0, detail="writes of the recording lie after its end")


def metadata(comparison: Comparison) -> Tally:
    """Compare the sectors that certainly hold metadata with the image. Each sector counts once.

    Requests with REQ_META are of metadata, on FAT the pages of the device itself. Metadata that moves (directories,
    extent trees, all nodes of F2FS) may have been data before the recording and after it. But if the image has no
    fixed metadata at any of the sectors, it has another layout.
    """
    trace, image = comparison.trace, comparison.image
    is_fat = comparison.family == "fat"
    sectors = _distinct(trace.requests.filter(pl.col("meta").fill_null(False)), "part_sector")
    contradictions = _file_pages_at_fixed_metadata(comparison)
    if is_fat:
        contradictions += len(sectors)
        sectors, undirtied = _device_pages(comparison)
        contradictions += undirtied
    there = _content_at(image, sectors).with_columns(place=sectors)
    fixed = there.filter(images.is_fixed())
    # Free space on FAT may have been a directory before, or become one later.
    is_other = pl.col("block_type").is_in(["data"] if is_fat else ["data", "free"]) & pl.col("subtype").is_null()
    differing = there.filter(is_other)
    if fixed.is_empty():
        return Tally(0, contradictions + differing.height)
    unexplained = 0 if is_fat else _unexplained(differing, trace, is_after=not comparison.is_before)
    # One area can match by chance: that of another filesystem begins at the same sector.
    agreements = fixed.height if fixed.select("block_type", "subtype").n_unique() > 1 else 0
    return Tally(agreements, contradictions + unexplained, differing.height - unexplained)


def _file_pages_at_fixed_metadata(comparison: Comparison) -> int:
    is_file_page = (pl.col("event") == "bio_page") & (pl.col("dev") == pl.col("bio_dev"))
    if comparison.family == "f2fs":
        is_file_page &= pl.col("ino") >= tracepoints_f2fs.ROOT_INODE
    sectors = _distinct(comparison.trace.events.filter(is_file_page), "sector")
    return _content_at(comparison.image, sectors).filter(images.is_fixed()).height


def _unexplained(differing: pl.DataFrame, trace: DeviceTrace, *, is_after: bool) -> int:
    """Count the places that were metadata as close to the image's time as the recording shows, but not in the image.

    Before: the first access is a read of metadata. After: the last access is of metadata, and the image has a file
    there. A block that is free there was freed after the recording.
    """
    begin, end = pl.lit(differing["place"].min(), pl.Int64), pl.lit(differing["place"].max(), pl.Int64)
    is_near = (pl.col("part_sector") <= end) & (pl.col("part_sector") + pl.col("nr_sectors") > begin)
    accesses = trace.requests.drop_nulls("ts_ns").filter(is_near).collect(engine="streaming")
    nearest = _covering(differing["place"], accesses.rename({"part_sector": "sector"}), is_after=is_after)
    is_covered = nearest.row >= 0
    access, there = accesses[nearest.row[is_covered]], differing[nearest.query[is_covered]]
    is_relevant = there["block_type"] == "data" if is_after else access["op"] == "read"
    return int((access["meta"].fill_null(False) & is_relevant).sum())


def _device_pages(comparison: Comparison) -> tuple[pl.Series, int]:
    """Return the sectors of pages of the device itself, and the number of fixed metadata written without such a page.

    The pages are those that became dirty, and those in bios. The number counts first sectors of writes.
    """
    trace, is_own = comparison.trace, pl.col("ino") == comparison.trace.dev
    carried = _distinct(trace.events.filter((pl.col("event") == "bio_page") & is_own), "sector")
    dirty = bio_pages.touched(trace.dirtied.filter(is_own)).select(pl.col("page").unique()).collect()["page"]
    if dirty.is_empty() or trace.stated.page_bytes is None:
        return carried, 0
    page_sectors = trace.stated.page_bytes // units.SECTOR_BYTES
    written = _distinct(trace.requests.filter(pl.col("op") == "write"), "part_sector")
    fixed = written.filter(_content_at(comparison.image, written).select(images.is_fixed()).to_series())
    is_clean = ~(fixed // page_sectors).is_in(dirty.implode())
    return pl.concat([dirty * page_sectors, carried]).unique(), int(is_clean.sum())


def _content_at(snapshot: Snapshot, sectors: pl.Series) -> pl.DataFrame:
    """Return block_type, subtype, ino and start_of_file at each sector, null where the snapshot states nothing."""
    rows = images.with_start_of_file(snapshot.extents)
    begin = rows["sector"].to_numpy()
    at = np.searchsorted(begin, sectors.to_numpy(), "right") - 1
    end = np.append(begin + rows["nr_sectors"].to_numpy(), 0)
    row = pl.Series(at, dtype=pl.Int64).set(pl.Series((at < 0) | (sectors.to_numpy() >= end[at])), None)
    return rows.select(pl.col("block_type", "subtype", "ino", "start_of_file").gather(row))


def _distinct(rows: pl.LazyFrame, column: str) -> pl.Series:
    return rows.select(pl.col(column).drop_nulls().unique()).collect(engine="streaming")[column]
