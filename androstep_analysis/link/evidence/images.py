"""What images and listings prove about a time at which they were not taken, alone and together with the trace.

An image, or a listing, taken before or after the recording states who owned each block *then*. Between the two a block
may have been freed and given to another file, so that a plain lookup names the wrong file for a part of the writes
(measured: 6.5 % of the blocks of an SQLite workload) and never a deleted one. This module turns them into extents with
a span of validity and a source that says what the statement is worth (definitions.toml, image).

Where the trace tells every change of the map (`tracepoints.maps_completely`):

- what the image before says is a fact until an event says that the block was freed or mapped elsewhere;
- what the image after says of a file's block is a fact for the whole capture if no event speaks of that block and the
  file did not change between the end of the trace and the image.

Where it does not:

- both images agree on inode, generation and file offset of a file that did not change between them, or on fixed
  metadata: a fact for the whole capture;
- only the image before says so, or the file changed: inferred;
- only the image after says so: as below.

Metadata that moves (extent trees, extended attributes) gets blocks without an event. What only the image after says
of such a block is a fact from the time on when the inode's last change was certainly written out; before that, back to
the inode's creation, inferred; before its creation it is no answer at all.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import intervals
from androstep_analysis.link.evidence.snapshots import Images, Snapshot, is_numbered
from androstep_analysis.link.extents import timeline

FIXED = (
    "superblock",
    "group_descriptors",
    "reserved_gdt",
    "block_bitmap",
    "inode_bitmap",
    "inode_table",
    "resize_inode",
    "mmp",
    "boot_record",
    "fat",
    "upcase_table",
    "checkpoint",
    "sit",
    "nat",
    "ssa",
)
"""Metadata that lies where mkfs put it for as long as the filesystem is not resized. The journal does too."""

_IDENTITY = ("block_type", "subtype", "ino", "incarnation", "start_of_file")


MOVES = "f2fs"
"""The filesystem that may move a block at any time without its file changing."""

WRITTEN_OUT_NS = 60_000_000_000
"""How long after a file's change its blocks may still be allocated: twice the 30 s after which Linux writes it out."""


def with_all_changes(
    olds: tuple[pl.DataFrame | None, pl.DataFrame | None],
    news: tuple[pl.DataFrame | None, pl.DataFrame | None],
    snapshots: Images,
    traced: pl.DataFrame,
    lives: pl.DataFrame,
    staging: Staging,
) -> list[pl.DataFrame]:
    """Extents where the trace tells every change of the map. `olds` and `news` are each the listing and the image."""
    ends = lives.select("dev", "ino", "incarnation", "end_ns").join(
        tracepoints.doubts(staging.fs_events, staging.recorded or ()), on=["dev", "ino", "incarnation"], how="left"
    )
    held = [
        _open_ended(old.filter(pl.col("block_type") != "unknown"), source)
        .join(ends, on=["dev", "ino", "incarnation"], how="left", maintain_order="left")
        .with_columns(valid_to_ns=pl.min_horizontal("end_ns", "doubt_ns"))
        .select(traced.columns)
        for old, source in zip(olds, ("fiemap", "image_before"), strict=True)
        if old is not None
    ]
    parts = [identified_rows(timeline.succeeding(pl.concat([*held, traced]).drop("start_of_file")))]
    listed, new = news
    if listed is not None:
        parts += _settled(unmentioned(listed.filter(_is_content()), traced), snapshots.listed_after, "fiemap", staging)
    if new is None:
        return parts
    if olds[1] is None:
        parts.append(_fixed(new, "image_after"))
        parts += _settled(unmentioned(new.filter(_is_content()), traced), snapshots.after, "image_after", staging)
    return [
        *parts,
        *_dated(_moving(new).filter(~_is_content()), snapshots.after, "image_after", staging.realtime_offset_ns),
    ]


def until_first_loss(
    olds: tuple[pl.DataFrame | None, pl.DataFrame | None],
    snapshots: Images,
    traced: pl.DataFrame,
    lives: pl.DataFrame,
    staging: Staging,
    dev: int,
) -> pl.DataFrame:
    """What the listing and the image before (`olds`) say, as far as no change of the map of `dev` can be missing."""
    (extents,) = with_all_changes(olds, (None, None), snapshots, traced, lives, staging)
    lost_ns = staging.lost.first_ns("fs_events", dev=dev)
    if lost_ns is None:
        return extents.clear()
    held = extents.filter(pl.col("source").is_in(["image_before", "fiemap"]), pl.col("dev") == dev)
    held = held.filter(pl.col("valid_from_ns").fill_null(int(intervals.ALWAYS)) < lost_ns)
    return held.with_columns(valid_to_ns=pl.min_horizontal("valid_to_ns", pl.lit(lost_ns)))


def without_changes(
    old: pl.DataFrame | None, new: pl.DataFrame | None, snapshots: Images, realtime_offset_ns: int | None
) -> list[pl.DataFrame]:
    """Extents of images between which anything may have happened."""
    if old is not None and new is not None:
        assert snapshots.before is not None and snapshots.after is not None
        pairs = _overlay(old, new)
        same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_after")) for name in _IDENTITY)
        agreeing = pairs.filter(same).join(
            unchanged(snapshots.before.times, snapshots.after.times), on="ino", how="left", maintain_order="left"
        )
        # A file that changed may have given a block away and got it back.
        is_settled = is_fixed() | pl.col("is_unchanged").fill_null(False)
        differing = pairs.filter(~same)
        changed = differing.with_columns(pl.col(f"{name}_after").alias(name) for name in _IDENTITY)
        return [
            _open_ended(agreeing.filter(is_settled), "image_before"),
            _open_ended(_used(agreeing.filter(~is_settled)), "inferred"),
            _open_ended(_used(differing), "inferred"),
            *_dated(_used(changed), snapshots.after, "image_after", realtime_offset_ns),
        ]
    if new is not None:
        return [_fixed(new, "image_after"), *_dated(_moving(new), snapshots.after, "image_after", realtime_offset_ns)]
    if old is not None:
        return [_fixed(old, "image_before"), _open_ended(_moving(old), "inferred")]
    return []


def listed_without_changes(
    first: pl.DataFrame | None, last: pl.DataFrame | None, snapshots: Images, realtime_offset_ns: int | None
) -> list[pl.DataFrame]:
    """Extents of listings between which anything may have happened."""
    parts = [] if first is None else [_open_ended(_used(first), "inferred")]
    return parts + ([] if last is None else _dated(_used(last), snapshots.listed_after, "fiemap", realtime_offset_ns))


def unchanged(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The inodes that are the same file with the same time of change in both: ino, is_unchanged."""
    keys = ["ino", "generation", "changed_epoch_ns"]
    same = before.join(after, on=keys, how="semi", nulls_equal=True).filter(pl.col("changed_epoch_ns").is_not_null())
    return same.select("ino", is_unchanged=pl.lit(True)).unique("ino")


def numbered(table: pl.DataFrame, incarnations: pl.DataFrame) -> pl.DataFrame:
    """The table with the incarnation that belongs to each row's inode and generation."""
    keys = ["dev", "ino", "generation"]
    return table.drop("incarnation").join(incarnations, on=keys, how="left", nulls_equal=True, maintain_order="left")


def identified(image: Snapshot, incarnations: pl.DataFrame) -> pl.DataFrame:
    """The image's extents with their incarnations, and as `_identified_rows`."""
    return identified_rows(numbered(image.extents, incarnations).select(image.extents.columns))


def identified_rows(extents: pl.DataFrame) -> pl.DataFrame:
    """The extents with the sector at which their file would begin, so that equal means the same place."""
    return extents.with_columns(
        start_of_file=pl.col("sector") - pl.col("file_offset_bytes") // units.SECTOR_BYTES,
    )


def is_fixed() -> pl.Expr:
    fixed = pl.col("subtype").cast(pl.String).is_in(FIXED) | (pl.col("block_type") == "journal")
    return fixed.fill_null(False)


def _used(extents: pl.DataFrame) -> pl.DataFrame:
    """Without free space: that a block is free at one time says nothing about the time a request touched it."""
    return extents.filter(~pl.col("block_type").is_in(["free", "unknown"]))


def _moving(extents: pl.DataFrame) -> pl.DataFrame:
    return _used(extents).filter(~is_fixed())


def _fixed(extents: pl.DataFrame, source: str) -> pl.DataFrame:
    return _open_ended(extents.filter(is_fixed()), source)


def as_source(name: str) -> pl.Expr:
    return pl.lit(name).cast(schema.enum("extents", "source"))


def _open_ended(extents: pl.DataFrame, source: str) -> pl.DataFrame:
    """The extents as holding throughout the capture."""
    null = pl.lit(None, pl.Int64)
    return extents.with_columns(valid_from_ns=null, valid_to_ns=null, source=as_source(source))


def _dated(
    extents: pl.DataFrame, image: Snapshot | None, source: str, realtime_offset_ns: int | None
) -> list[pl.DataFrame]:
    """Extents of a later time: a fact since the inode was last changed and written out, before that inferred.

    Nothing is said of the time before the inode was created. On filesystems that move blocks, or whose times are of
    whole seconds or not known to be the kernel's, all is inferred.
    """
    assert image is not None
    if realtime_offset_ns is None:
        return [_open_ended(extents, "inferred")]
    times = image.times.select(
        "ino",
        created=pl.col("created_epoch_ns") - realtime_offset_ns,
        settled=pl.col("changed_epoch_ns") - realtime_offset_ns + WRITTEN_OUT_NS,
    )
    dated = extents.join(times, on="ino", how="left", maintain_order="left")
    if not is_numbered(image) or (image.fs_type or "").startswith(MOVES):
        dated = dated.with_columns(settled=pl.lit(None, pl.Int64))
    fact = dated.with_columns(valid_from_ns=pl.col("settled"), valid_to_ns=pl.lit(None, pl.Int64))
    guess = dated.with_columns(valid_from_ns=pl.col("created"), valid_to_ns=pl.col("settled"))
    return [
        fact.filter(pl.col("settled").is_not_null()).with_columns(source=as_source(source)),
        guess.with_columns(source=as_source("inferred")),
    ]


def _is_content() -> pl.Expr:
    """What a file's map is made of, in the sense that an event tells when a block becomes such."""
    return pl.col("block_type").is_in(["data", "directory"])


def unmentioned(extents: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """The parts of the extents that no statement of the trace speaks of."""
    cut = cut_by(extents, traced)
    return (
        extents[cut.query]
        .with_columns(sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length))
        .filter(pl.Series(cut.row < 0))
    )


def _settled(extents: pl.DataFrame, image: Snapshot | None, source: str, staging: Staging) -> list[pl.DataFrame]:
    """Extents that no event speaks of: a fact if their inode did not change after the trace had ended."""
    assert image is not None
    if staging.realtime_offset_ns is None or staging.last_ns is None:
        return [_open_ended(extents, "inferred")]
    ended = staging.last_ns + staging.realtime_offset_ns
    unchanged = image.times.filter(pl.col("changed_epoch_ns") <= ended)
    return [
        _open_ended(extents.join(unchanged, on="ino", how="semi", maintain_order="left"), source),
        _open_ended(extents.join(unchanged, on="ino", how="anti", maintain_order="left"), "inferred"),
    ]


def _overlay(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The old extents cut at the edges of the new ones, each with the identity of the new extent there."""
    cut = cut_by(old, new)
    row = pl.Series(cut.row)
    place = row.set(row < 0, None)
    below = new.select(pl.col(name).gather(place).alias(f"{name}_after") for name in _IDENTITY)
    return pl.concat([old[cut.query], below], how="horizontal").with_columns(
        sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length)
    )


def cut_by(extents: pl.DataFrame, by: pl.DataFrame) -> intervals.Pieces:
    """The extents cut at the edges of others, whenever those held."""
    return intervals.stab(
        intervals.Queries(
            extents["dev"].cast(pl.Int64).to_numpy(),
            extents["sector"].to_numpy(),
            extents["nr_sectors"].to_numpy(),
            np.zeros(extents.height, np.int64),
        ),
        intervals.Rows(
            by["dev"].cast(pl.Int64).to_numpy(),
            by["sector"].to_numpy(),
            by["nr_sectors"].to_numpy(),
            np.full(by.height, intervals.ALWAYS),
            np.full(by.height, intervals.FOREVER),
        ),
    )


def demoted(extents: pl.DataFrame, snapshots: Images) -> pl.DataFrame:
    """The extents, `inferred` what an image or a listing says that the trace does not prove to belong to it.

    Listings of both times are one source, and so are the journal and the image that it is in.
    """
    sources = {"image_before": "image_before", "image_after": "image_after"}
    sources |= {"listing_before": "fiemap", "listing_after": "fiemap"}
    doubted, unplaced = (
        {sources[role] for role in snapshots.by_role.keys() - trusted}
        for trusted in (snapshots.proven, snapshots.placed)
    )
    doubted |= {"journal"} if "image_after" in doubted else set()
    source = pl.col("source").cast(pl.String)
    is_doubted = (source.is_in(doubted) & ~is_fixed()) | source.is_in(unplaced)
    return extents.with_columns(source=pl.when(is_doubted).then(as_source("inferred")).otherwise("source"))


def table(parts: list[pl.DataFrame]) -> pl.DataFrame:
    want = schema.table("extents").polars
    named = [
        part.with_columns(
            file_offset_bytes=(pl.col("sector") - pl.col("start_of_file")) * units.SECTOR_BYTES,
        ).select(list(want))
        for part in parts
    ]
    rows = pl.concat([schema.empty("extents").select(list(want)), *named], how="vertical_relaxed")
    return schema.conform(rows.sort("dev", "sector", "valid_from_ns"), "extents")
