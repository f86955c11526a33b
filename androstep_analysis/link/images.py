"""What filesystem images prove about a time at which they were not taken, alone and together with the trace.

An image taken before or after the recording states who owned each block *then*. Between the two a block may have been
freed and given to another file, so that a plain lookup names the wrong file for a part of the writes (measured: 6.5 %
of the blocks of an SQLite workload) and never a deleted one. This module turns images into extents with a span of
validity and a source that says what the statement is worth (definitions.toml, image).

Where the trace tells every change of the map (`tracepoints.maps_completely`):

- what the image before says is a fact until an event says that the block was freed or mapped elsewhere;
- what the image after says of a file's block is a fact for the whole capture if no event speaks of that block and the
  file did not change between the end of the trace and the image.

Where it does not:

- both images agree on inode, generation and file offset (or on fixed metadata): a fact for the whole capture;
- only the image before says so: inferred;
- only the image after says so: as below.

Metadata that moves (extent trees, extended attributes) gets blocks without an event. What only the image after says
of such a block is a fact from the last change of the inode on; before that, back to the inode's creation, inferred;
before its creation it is no answer at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from androstep_analysis import schema, units
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import intervals, timeline

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


@dataclass(frozen=True)
class Evidence:
    """Tables `extents` and `files` as the images of one filesystem support them."""

    extents: pl.DataFrame
    files: pl.DataFrame


def evidence(before: Filesystem | None, after: Filesystem | None, staging: Staging) -> Evidence:
    """What the trace and the images of one filesystem say, each statement with its span of validity.

    Without the offset of CLOCK_REALTIME from the capture's clock, an inode's times cannot be compared with the
    trace's, and what rests on them is inferred. Without images there is what the trace says.
    """
    images = [image for image in (before, after) if image is not None]
    lives = tracepoints.lives(staging.fs_events)
    incarnations = _incarnations(before, after, lives, staging)
    old, new = (_identified(image, incarnations) if image is not None else None for image in (before, after))
    known = [extents for extents in (old, new) if extents is not None]
    lives = _typed(lives, known)
    block_bytes = {int(image.extents["dev"][0]): image.block_bytes for image in images}
    traced = tracepoints.extents(staging.fs_events, lives, block_bytes)
    is_complete = any(tracepoints.maps_completely(staging.fs_events, dev, staging.lost_events) for dev in block_bytes)
    if is_complete:
        parts = _with_all_changes(old, new, after, _identified_rows(traced), lives, staging)
    else:
        parts = [_identified_rows(timeline.succeeding(traced))]
        parts += _without_changes(old, new, after, staging.realtime_offset_ns)
    return Evidence(_table(parts), _files(images, incarnations, lives))


def _with_all_changes(
    old: pl.DataFrame | None,
    new: pl.DataFrame | None,
    after: Filesystem | None,
    traced: pl.DataFrame,
    lives: pl.DataFrame,
    staging: Staging,
) -> list[pl.DataFrame]:
    """Extents where the trace tells every change of the map."""
    if old is None:
        assert new is not None, "no image was given"
        parts = [
            _fixed(new, "image_after"),
            *_settled(_unmentioned(new.filter(_is_content()), traced), after, staging),
        ]
        held = traced
    else:
        parts = []
        ends = lives.select("dev", "ino", "incarnation", "end_ns")
        stated = _open_ended(old.filter(pl.col("block_type") != "unknown"), "image_before").join(
            ends, on=["dev", "ino", "incarnation"], how="left", maintain_order="left"
        )
        stated = stated.with_columns(valid_to_ns="end_ns")
        held = pl.concat([stated.select(traced.columns), traced])
    parts.append(_identified_rows(timeline.succeeding(held.drop("start_of_file"))))
    if new is not None:
        parts += _dated(_moving(new).filter(~_is_content()), after, staging.realtime_offset_ns)
    return parts


def _without_changes(
    old: pl.DataFrame | None, new: pl.DataFrame | None, after: Filesystem | None, realtime_offset_ns: int | None
) -> list[pl.DataFrame]:
    """Extents of images between which anything may have happened."""
    if old is not None and new is not None:
        pairs = _overlay(old, new)
        same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_after")) for name in _IDENTITY)
        differing = pairs.filter(~same)
        changed = differing.with_columns(pl.col(f"{name}_after").alias(name) for name in _IDENTITY)
        return [
            _open_ended(pairs.filter(same), "image_before"),
            _open_ended(_used(differing), "inferred"),
            *_dated(_used(changed), after, realtime_offset_ns),
        ]
    if new is not None:
        return [_fixed(new, "image_after"), *_dated(_moving(new), after, realtime_offset_ns)]
    if old is not None:
        return [_fixed(old, "image_before"), _open_ended(_moving(old), "inferred")]
    return []


def _incarnations(
    before: Filesystem | None, after: Filesystem | None, lives: pl.DataFrame, staging: Staging
) -> pl.DataFrame:
    """dev, ino, generation and incarnation (`tracepoints`) of every file in the images.

    A file of the image after is the last that the trace knows by its number only where the trace cannot have missed a
    later one: it lost nothing and has creations, or the inode is older than the capture. Else, and where it was made
    after the trace had ended, it is a file of its own.
    """
    keys = ["dev", "ino", "generation"]
    parts = []
    if before is not None:
        parts.append(before.files.select(*keys, incarnation=pl.lit(0, pl.Int32)))
    if after is not None:
        creations = lives.filter(pl.col("created_ns").is_not_null())["dev"].unique().implode()
        latest = lives.group_by("dev", "ino").agg(
            pl.col("incarnation").max().alias("latest"),
            is_gone=pl.col("deleted_ns").sort_by("incarnation").last().is_not_null(),
        )
        earlier = pl.concat([*parts, after.files.clear().select(*keys, "incarnation")])
        offset = pl.lit(staging.realtime_offset_ns, pl.Int64)
        created = after.times.select("ino", "generation", created_ns=pl.col("created_epoch_ns") - offset)
        numbers = (
            after.files.select(keys)
            .join(latest, on=["dev", "ino"], how="left", maintain_order="left")
            .join(earlier.rename({"incarnation": "same"}), on=keys, how="left", nulls_equal=True, maintain_order="left")
            .join(earlier.select("dev", "ino", older="incarnation"), on=["dev", "ino"], how="left")
            .join(created, on=["ino", "generation"], how="left", nulls_equal=True)
        )
        is_older = pl.col("same").is_not_null() | (pl.col("created_ns") < staging.first_ns).fill_null(False)
        is_newer = pl.col("is_gone") | (pl.col("created_ns") > staging.last_ns)
        is_told = pl.col("dev").is_in(creations) & (staging.lost_events == 0) & ~is_newer.fill_null(False)
        number = (
            pl.when(is_older & (pl.col("latest").fill_null(0) == 0))
            .then(0)
            .when(is_told)
            .then(pl.col("latest").fill_null(0))
            .otherwise(pl.max_horizontal("latest", "older").fill_null(-1) + 1)
        )
        parts.append(numbers.select(*keys, incarnation=number.cast(pl.Int32)))
    if not parts:
        return schema.empty("files").select(*keys, "incarnation")
    return pl.concat(parts).unique(keys, keep="last", maintain_order=True)


def _typed(lives: pl.DataFrame, images: list[pl.DataFrame]) -> pl.DataFrame:
    """The lives with block_type and subtype of their content as the images know it; the trace may not."""
    keys = ["dev", "ino", "incarnation"]
    content = [extents.filter(pl.col("file_offset_bytes").is_not_null()) for extents in images]
    if not content:
        return lives
    # An inode without incarnation is the filesystem's own and has been there from before the capture.
    told = pl.concat([e.select(*keys, told_type="block_type", told_subtype="subtype") for e in content])
    told = told.with_columns(pl.col("incarnation").fill_null(0)).unique(keys, keep="first", maintain_order=True)
    is_told = pl.col("told_type").is_not_null()
    joined = lives.join(told, on=keys, how="left", maintain_order="left")
    return joined.with_columns(
        block_type=pl.when(is_told).then("told_type").otherwise("block_type"),
        subtype=pl.when(is_told).then("told_subtype").otherwise("subtype"),
    ).drop("told_type", "told_subtype")


def _numbered(table: pl.DataFrame, incarnations: pl.DataFrame) -> pl.DataFrame:
    """The table with the incarnation that belongs to each row's inode and generation."""
    keys = ["dev", "ino", "generation"]
    return table.drop("incarnation").join(incarnations, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _files(images: list[Filesystem], incarnations: pl.DataFrame, lives: pl.DataFrame) -> pl.DataFrame:
    """A row per inode and incarnation; the latest image that holds a file names it, the trace tells its times."""
    keys = ["dev", "ino", "incarnation"]
    named = [_numbered(image.files, incarnations).select(image.files.columns) for image in reversed(images)]
    table = pl.concat([*named, tracepoints.files(lives)]).unique(keys, keep="first", maintain_order=True)
    times = lives.select(*keys, "created_ns", "deleted_ns")
    table = table.drop("created_ns", "deleted_ns").join(times, on=keys, how="left", maintain_order="left")
    return schema.conform(table.select(list(schema.table("files").polars)).sort(keys), "files")


def _identified(image: Filesystem, incarnations: pl.DataFrame) -> pl.DataFrame:
    """The image's extents with their incarnations, and as `_identified_rows`."""
    return _identified_rows(_numbered(image.extents, incarnations).select(image.extents.columns))


def _identified_rows(extents: pl.DataFrame) -> pl.DataFrame:
    """The extents with the sector at which their file would begin, so that equal means the same place."""
    return extents.with_columns(
        start_of_file=pl.col("sector") - pl.col("file_offset_bytes") // units.SECTOR_BYTES,
    )


def _is_fixed() -> pl.Expr:
    fixed = pl.col("subtype").cast(pl.String).is_in(FIXED) | (pl.col("block_type") == "journal")
    return fixed.fill_null(False)


def _used(extents: pl.DataFrame) -> pl.DataFrame:
    """Without free space: that a block is free at one time says nothing about the time a request touched it."""
    return extents.filter(~pl.col("block_type").is_in(["free", "unknown"]))


def _moving(extents: pl.DataFrame) -> pl.DataFrame:
    return _used(extents).filter(~_is_fixed())


def _fixed(extents: pl.DataFrame, source: str) -> pl.DataFrame:
    return _open_ended(extents.filter(_is_fixed()), source)


def _source(name: str) -> pl.Expr:
    return pl.lit(name).cast(schema.enum("extents", "source"))


def _open_ended(extents: pl.DataFrame, source: str) -> pl.DataFrame:
    """The extents as holding throughout the capture."""
    null = pl.lit(None, pl.Int64)
    return extents.with_columns(valid_from_ns=null, valid_to_ns=null, source=_source(source))


def _dated(extents: pl.DataFrame, image: Filesystem | None, realtime_offset_ns: int | None) -> list[pl.DataFrame]:
    """Extents of the image after: a fact since the inode last changed, inferred from its creation until then."""
    assert image is not None
    if realtime_offset_ns is None:
        return [_open_ended(extents, "inferred")]
    times = image.times.select(
        "ino",
        created=pl.col("created_epoch_ns") - realtime_offset_ns,
        changed=pl.col("changed_epoch_ns") - realtime_offset_ns,
    )
    dated = extents.join(times, on="ino", how="left", maintain_order="left")
    fact = dated.with_columns(valid_from_ns=pl.col("changed"), valid_to_ns=pl.lit(None, pl.Int64))
    guess = dated.with_columns(valid_from_ns=pl.col("created"), valid_to_ns=pl.col("changed"))
    return [
        fact.filter(pl.col("changed").is_not_null()).with_columns(source=_source("image_after")),
        guess.with_columns(source=_source("inferred")),
    ]


def _is_content() -> pl.Expr:
    """What a file's map is made of, in the sense that an event tells when a block becomes such."""
    return pl.col("block_type").is_in(["data", "directory"])


def _unmentioned(extents: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """The parts of the extents that no statement of the trace speaks of."""
    cut = _cut(extents, traced)
    return (
        extents[cut.query]
        .with_columns(sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length))
        .filter(pl.Series(cut.row < 0))
    )


def _settled(extents: pl.DataFrame, after: Filesystem | None, staging: Staging) -> list[pl.DataFrame]:
    """Extents that no event speaks of: a fact if their inode did not change after the trace had ended."""
    assert after is not None
    if staging.realtime_offset_ns is None or staging.last_ns is None:
        return [_open_ended(extents, "inferred")]
    ended = staging.last_ns + staging.realtime_offset_ns
    unchanged = after.times.filter(pl.col("changed_epoch_ns") <= ended)
    return [
        _open_ended(extents.join(unchanged, on="ino", how="semi", maintain_order="left"), "image_after"),
        _open_ended(extents.join(unchanged, on="ino", how="anti", maintain_order="left"), "inferred"),
    ]


def _overlay(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The old extents cut at the edges of the new ones, each with the identity of the new extent there."""
    cut = _cut(old, new)
    row = pl.Series(cut.row)
    below = new.select(pl.col(name).alias(f"{name}_after") for name in _IDENTITY)[row.set(row < 0, None)]
    return pl.concat([old[cut.query], below], how="horizontal").with_columns(
        sector=pl.Series(cut.start), nr_sectors=pl.Series(cut.length)
    )


def _cut(extents: pl.DataFrame, by: pl.DataFrame) -> intervals.Pieces:
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


def _table(parts: list[pl.DataFrame]) -> pl.DataFrame:
    want = schema.table("extents").polars
    named = [
        part.with_columns(
            file_offset_bytes=(pl.col("sector") - pl.col("start_of_file")) * units.SECTOR_BYTES,
        ).select(list(want))
        for part in parts
    ]
    return schema.conform(pl.concat(named).sort("dev", "sector", "valid_from_ns"), "extents")
