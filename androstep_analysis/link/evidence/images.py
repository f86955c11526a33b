"""Extend the statements of images and listings to the time of the recording.

An image or a listing states the file of each block at one time. Until a request, the block may have been given to
another file: a plain look-up returns the wrong file for 6.5 % of the blocks of an SQLite workload, and never a deleted
one. This module returns extents with a span of validity and a source, which states their confidence.

| the trace has all changes of the map | statement | confidence |
|---|---|---|
| yes (`maps_completely`) | image before | fact until an event frees or maps the block |
| yes | image after, blocks of files without events | fact if the file did not change after the trace, else inferred |
| no | both images agree on inode, generation and file offset, and the file did not change | fact |
| no | both images agree on metadata at a fixed location | fact |
| no | only the image before, or the file changed | inferred |
| no; or metadata that moves | only the image after | inferred from the creation of the inode on, and a fact once its \
last change was certainly written to disk |

Metadata that moves (extent trees, extended attributes) gets blocks without an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence import incarnations
from androstep_analysis.link.evidence.inodes import FILE
from androstep_analysis.link.evidence.snapshots import Images, Snapshot, is_numbered
from androstep_analysis.link.extents import timeline

FIXED = (
    *("superblock", "group_descriptors", "reserved_gdt", "block_bitmap", "inode_bitmap", "inode_table", "resize_inode"),
    *("mmp", "boot_record", "fat", "upcase_table", "checkpoint", "sit", "nat", "ssa"),
)
"""Metadata that stays where mkfs put it, unless the filesystem is resized. So does the journal."""

MOVES = "f2fs"
"""The filesystem that may move a block at any time without a change of its file."""

WRITEBACK_NS = 60_000_000_000
"""How long after a change of a file its blocks may still be allocated: twice the 30 s until Linux writes it to disk."""

SOURCE_OF_ROLE = {
    "image_before": "image_before",
    "image_after": "image_after",
    "listing_before": "fiemap",
    "listing_after": "fiemap",
}

_IDENTITY = ("block_type", "subtype", "ino", "incarnation", "start_of_file")


class Located(NamedTuple):
    """An image or a listing, with its extents as in `with_start_of_file`, and with the incarnations of the trace.

    `outdated` are the extents of an image before that may no longer have held at the begin of the recording (`age`).
    """

    snapshot: Snapshot
    extents: pl.DataFrame
    source: str
    outdated: pl.DataFrame | None = None


def located(role: str, snapshot: Snapshot, numbers: pl.DataFrame, unchanged: pl.Series | None) -> Located:
    """Return an image or a listing with the incarnations of its files (`incarnations.numbered`).

    `unchanged` are the inodes of which an image before states what they were at the begin (`age`); None: all.
    """
    extents = with_start_of_file(incarnations.assigned(snapshot.extents, numbers))
    if role != "image_before" or unchanged is None:
        return Located(snapshot, extents, SOURCE_OF_ROLE[role])
    is_kept = pl.col("ino").is_in(unchanged.implode()).fill_null(False)
    holds = is_fixed() | (is_kept & pl.lit(not (snapshot.fs_type or "").startswith(MOVES)))
    return Located(snapshot, extents.filter(holds), SOURCE_OF_ROLE[role], extents.filter(~holds))


def with_start_of_file(extents: pl.DataFrame) -> pl.DataFrame:
    """Add `start_of_file`, the sector of the file's first byte if the extent began there.

    Two extents on one sector then have equal values if they state the same offset in the file.
    """
    return extents.with_columns(start_of_file=pl.col("sector") - pl.col("file_offset_bytes") // units.SECTOR_BYTES)


def with_all_changes(
    snapshots: Mapping[str, Located], traced: pl.DataFrame, lifetimes: pl.DataFrame, staging: Staging
) -> list[pl.DataFrame]:
    """Return the extents if the trace (`traced`) has every change of the block map. `snapshots` are by role."""
    parts = [_changed_by_trace(snapshots, traced, lifetimes, staging)]
    listing, image = snapshots.get("listing_after"), snapshots.get("image_after")
    if listing is not None:
        parts += _final(listing, traced, staging)
    if image is not None:
        if "image_before" not in snapshots:
            parts.append(_fixed(image))
            parts += _final(image, traced, staging)
        parts += dated(image._replace(extents=_moving(image.extents).filter(~_is_content())), staging)
    return parts


def _changed_by_trace(
    snapshots: Mapping[str, Located], traced: pl.DataFrame, lifetimes: pl.DataFrame, staging: Staging
) -> pl.DataFrame:
    """Return the extents of the listing and the image before until the trace changes them, and those of the trace.

    The outdated ones of the image are inferred.
    """
    doubts = tracepoints.doubts(staging.fs_events, staging.recorded or ())
    ends = lifetimes.select(*FILE, "end_ns").join(doubts, on=FILE, how="left")

    def until_event(extents: pl.DataFrame, source: str) -> pl.DataFrame:
        ended = _throughout(extents, source).join(ends, on=FILE, how="left", maintain_order="left")
        return ended.with_columns(valid_to_ns=pl.min_horizontal("end_ns", "doubt_ns")).select(traced.columns)

    image, listing = snapshots.get("image_before"), snapshots.get("listing_before")
    before = [until_event(_known(one.extents), one.source) for one in (image, listing) if one is not None]
    extents = timeline.succeeding(pl.concat([*before, traced]))
    if image is None or image.outdated is None:
        return extents
    outdated = timeline.succeeding(pl.concat([until_event(_used(image.outdated), image.source), traced]))
    outdated = outdated.filter(pl.col("source") == image.source).with_columns(source=as_source("inferred"))
    return pl.concat([extents, outdated])


def until_first_loss(
    snapshots: Mapping[str, Located], traced: pl.DataFrame, lifetimes: pl.DataFrame, staging: Staging, dev: int
) -> pl.DataFrame:
    """Return the extents of the listing and the image before until an event of device `dev` may be missing."""
    extents = _changed_by_trace(snapshots, traced, lifetimes, staging)
    lost_ns = staging.lost.first_ns("fs_events", dev=dev)
    if lost_ns is None:
        return extents.clear()
    of_before = extents.filter(pl.col("source").is_in(["image_before", "fiemap"]), pl.col("dev") == dev)
    of_before = of_before.filter(pl.col("valid_from_ns").fill_null(int(intervals.ALWAYS)) < lost_ns)
    return of_before.with_columns(valid_to_ns=pl.min_horizontal("valid_to_ns", pl.lit(lost_ns)))


def without_changes(snapshots: Mapping[str, Located], staging: Staging) -> list[pl.DataFrame]:
    """Return the extents if changes of the block map may be missing in the trace. `snapshots` are by role."""
    before, after = snapshots.get("image_before"), snapshots.get("image_after")
    if before is not None and before.outdated is not None:  # What follows holds for an image of any age.
        before = before._replace(extents=pl.concat([before.extents, before.outdated]).sort("sector"))
    parts: list[pl.DataFrame] = []
    if before is not None and after is not None:
        parts += _of_both(before, after, staging)
    elif after is not None:
        parts += [_fixed(after), *dated(after._replace(extents=_moving(after.extents)), staging)]
    elif before is not None:
        parts += [_fixed(before), _throughout(_moving(before.extents), "inferred")]
    before, after = snapshots.get("listing_before"), snapshots.get("listing_after")
    if before is not None:
        parts.append(_throughout(_used(before.extents), "inferred"))
    if after is not None:
        parts += dated(after._replace(extents=_used(after.extents)), staging)
    return parts


def _of_both(before: Located, after: Located, staging: Staging) -> list[pl.DataFrame]:
    """Return the extents of two images between which anything may have happened."""
    pairs = split_at(before.extents, after.extents, _IDENTITY)
    is_same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_other")) for name in _IDENTITY)
    same, differing = pairs.filter(is_same), pairs.filter(~is_same)
    files = unchanged(before.snapshot.times, after.snapshot.times)
    same = same.join(files, on="ino", how="left", maintain_order="left")
    # A file that changed may have lost a block and got it back.
    is_fact = is_fixed() | pl.col("is_unchanged").fill_null(False)
    later = differing.with_columns(
        *(pl.col(f"{name}_other").alias(name) for name in _IDENTITY),
        file_offset_bytes=(pl.col("sector") - pl.col("start_of_file_other")) * units.SECTOR_BYTES,
    )
    return [
        _throughout(same.filter(is_fact), before.source),
        _throughout(_used(same.filter(~is_fact)), "inferred"),
        _throughout(_used(differing), "inferred"),
        *dated(after._replace(extents=_used(later)), staging),
    ]


def unchanged(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Return the inodes that are the same file with the same time of change in both: ino, is_unchanged (true)."""
    both = before.join(after, on=["ino", "changed_epoch_ns"], suffix="_after")
    is_same = (pl.col("generation") == pl.col("generation_after")).fill_null(True)  # null: not known
    return both.filter(is_same).select("ino", is_unchanged=pl.lit(True)).unique("ino")


def dated(after: Located, staging: Staging) -> list[pl.DataFrame]:
    """Return the extents of an image or a listing after, with the time from which each is a fact, or inferred.

    All are inferred on filesystems that move blocks, and where the times of files are in whole seconds or may not be
    the kernel's (`is_numbered`).
    """
    if staging.realtime_offset_ns is None:
        return [_throughout(after.extents, "inferred")]
    times = after.snapshot.times.select(
        "ino",
        created=pl.col("created_epoch_ns") - staging.realtime_offset_ns,
        on_disk=pl.col("changed_epoch_ns") - staging.realtime_offset_ns + WRITEBACK_NS,
    )
    rows = after.extents.join(times, on="ino", how="left", maintain_order="left")
    if not is_numbered(after.snapshot) or (after.snapshot.fs_type or "").startswith(MOVES):
        rows = rows.with_columns(on_disk=pl.lit(None, pl.Int64))
    facts = rows.filter(pl.col("on_disk").is_not_null())
    return [
        facts.with_columns(valid_from_ns="on_disk", valid_to_ns=pl.lit(None, pl.Int64), source=as_source(after.source)),
        rows.with_columns(valid_from_ns="created", valid_to_ns="on_disk", source=as_source("inferred")),
    ]


def _final(one: Located, traced: pl.DataFrame, staging: Staging) -> list[pl.DataFrame]:
    """Return the blocks of files without events: facts if the file did not change after the trace, else inferred."""
    extents = without_events(one.extents.filter(_is_content()), traced)
    if staging.realtime_offset_ns is None or staging.last_ns is None:
        return [_throughout(extents, "inferred")]
    is_unchanged = pl.col("changed_epoch_ns") <= staging.last_ns + staging.realtime_offset_ns
    files = one.snapshot.times.filter(is_unchanged)
    return [
        _throughout(extents.join(files, on="ino", how="semi", maintain_order="left"), one.source),
        _throughout(extents.join(files, on="ino", how="anti", maintain_order="left"), "inferred"),
    ]


def _fixed(one: Located) -> pl.DataFrame:
    return _throughout(one.extents.filter(is_fixed()), one.source)


def _throughout(extents: pl.DataFrame, source: str) -> pl.DataFrame:
    """Make the extents valid throughout the recording."""
    null = pl.lit(None, pl.Int64)
    return extents.with_columns(valid_from_ns=null, valid_to_ns=null, source=as_source(source))


def as_source(name: str) -> pl.Expr:
    return pl.lit(name).cast(schema.enum("extents", "source"))


def is_fixed() -> pl.Expr:
    """Return whether a block is metadata at a fixed location."""
    fixed = pl.col("subtype").cast(pl.String).is_in(FIXED) | (pl.col("block_type") == "journal")
    return fixed.fill_null(False)


def _is_content() -> pl.Expr:
    """Return whether a block is part of a file's map, so that an event shows when it becomes that."""
    return pl.col("block_type").is_in(["data", "directory"])


def _known(extents: pl.DataFrame) -> pl.DataFrame:
    return extents.filter(pl.col("block_type") != "unknown")


def _used(extents: pl.DataFrame) -> pl.DataFrame:
    """Drop free space: a block that is free at one time may be used at the time of a request."""
    return extents.filter(~pl.col("block_type").is_in(["free", "unknown"]))


def _moving(extents: pl.DataFrame) -> pl.DataFrame:
    return _used(extents).filter(~is_fixed())


def split_at(extents: pl.DataFrame, others: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Split extents at the edges of others, and add `is_covered` and the columns `names` of the other (…_other)."""
    pieces = intervals.stab(
        intervals.Queries(
            extents["dev"].cast(pl.Int64).to_numpy(),
            extents["sector"].to_numpy(),
            extents["nr_sectors"].to_numpy(),
            np.zeros(extents.height, np.int64),
        ),
        intervals.Rows(
            others["dev"].cast(pl.Int64).to_numpy(),
            others["sector"].to_numpy(),
            others["nr_sectors"].to_numpy(),
            np.full(others.height, intervals.ALWAYS),
            np.full(others.height, intervals.FOREVER),
        ),
    )
    row = pl.Series(pieces.row)
    at = row.set(row < 0, None)
    start = pl.Series(pieces.start)
    return extents[pieces.query].with_columns(
        *(others[name].gather(at).alias(f"{name}_other") for name in names),
        offset_after(start),
        sector=start,
        nr_sectors=pl.Series(pieces.length),
        is_covered=row >= 0,
    )


def offset_after(start: pl.Series | pl.Expr) -> pl.Expr:
    """Return `file_offset_bytes` of an extent that is cut so that it begins at sector `start`."""
    return pl.col("file_offset_bytes") + (start - pl.col("sector")) * units.SECTOR_BYTES


def without_events(extents: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of the extents to which no extent of the trace applies."""
    return split_at(extents, traced, ()).filter(~pl.col("is_covered")).select(extents.columns)


def mark_unproven(extents: pl.DataFrame, snapshots: Images) -> pl.DataFrame:
    """Set source `inferred` for the statements of images and listings that the trace does not prove (`consistency`).

    Listings of both times count as one source. The journal counts as a part of the image after.
    """
    unproven, unplaced = (
        {SOURCE_OF_ROLE[role] for role in snapshots.by_role.keys() - proven}
        for proven in (snapshots.proven, snapshots.placed)
    )
    if "image_after" in unproven:
        unproven.add("journal")
    source = pl.col("source").cast(pl.String)
    is_unproven = (source.is_in(unproven) & ~is_fixed()) | source.is_in(unplaced)
    return extents.with_columns(source=pl.when(is_unproven).then(as_source("inferred")).otherwise("source"))


def table(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Combine extents into table `extents`."""
    names = list(schema.table("extents").polars)
    rows = pl.concat([schema.empty("extents"), *(part.select(names) for part in parts)], how="vertical_relaxed")
    return schema.conform(rows.sort("dev", "sector", "valid_from_ns"), "extents")
