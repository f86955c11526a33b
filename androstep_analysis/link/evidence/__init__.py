"""Combine all evidence on the locations and names of files: events, images, listings, the journal, and fanotify.

Each kind of evidence has a module that turns it into extents with a span of validity and a source. Requests are then
mapped by the source with the highest confidence (`extents.CONFIDENCE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import (
    age,
    entries,
    filetype,
    images,
    incarnations,
    inodes,
    journals,
    names,
    remade,
    reused,
    unnumbered,
)
from androstep_analysis.link.evidence.inodes import FILE
from androstep_analysis.link.evidence.snapshots import SOURCES, Images, Snapshot
from androstep_analysis.link.extents import bio_pages, direct_io, operations, timeline
from androstep_analysis.link.extents.blocksize import Sizes


@dataclass(frozen=True)
class Evidence:
    """Tables `extents` and `files` from all evidence on one filesystem.

    `renamed` are the files (`FILE`) that may have got their name after the image that states it (`age`).
    """

    extents: pl.DataFrame
    files: pl.DataFrame
    renamed: pl.DataFrame

    @property
    def files_marked(self) -> pl.DataFrame:
        """Table `files`, in which the `renamed` ones are inferred."""
        joined = self.files.join(self.renamed.with_columns(is_renamed=True), on=FILE, how="left", maintain_order="left")
        source = pl.when("is_renamed").then(images.as_source("inferred")).otherwise("source")
        return joined.with_columns(source=source).select(self.files.columns)


def evidence(
    snapshots: Images,
    staging: Staging,
    kinds: pl.DataFrame,
    all_events: pl.LazyFrame,
    requests: pl.LazyFrame,
    block_bytes: Sizes,
    sources: frozenset[str] = SOURCES,
    mounts: Mapping[int, str] | None = None,
    fs_types: Mapping[int, str] | None = None,
    *,
    page_bytes: int | None,
    others: remade.Times,
    one_size: Mapping[int, remade.Span],
) -> Evidence:
    """Return the extents and files that the trace and the images prove, each with its span of validity.

    `staging` has no repetitions of events (`tracepoints.without_repetitions`), `all_events` has them, and `kinds` are
    the `tracepoints.kinds`. Only `sources` are used; the times of commits count as evidence of the journal.
    `block_bytes`, `mounts` (for names) and `fs_types` have what is known of each device. Mappings with an inferred
    block size are inferred. `page_bytes` is the size of a page (None: unknown). `others` are the times at which a
    device got another filesystem, and `one_size` the span of such a device in which `block_bytes` holds.

    If the recording has no offset between CLOCK_REALTIME and its clock, the offset comes from files whose creation
    both the trace and the image after have. Without any, the times of inodes cannot be compared with those of the
    trace, and what depends on them is inferred.
    """
    snapshots = snapshots.of_sources(sources)
    used = staging
    if "tracepoint" not in sources:
        used = replace(staging.with_tables(fs_events=staging.fs_events.clear()), recorded=frozenset())
        kinds = kinds.clear()
    if kinds.is_empty() and not (snapshots.by_role or snapshots.journal or snapshots.names):
        return Evidence(schema.empty("extents"), schema.empty("files"), schema.empty("files").select(FILE))
    lifetimes = tracepoints.lifetimes(used.fs_events, fs_types)
    offset_ns = incarnations.realtime_offset_ns(used, snapshots.last, lifetimes)
    offset_error_ns = 0 if staging.realtime_offset_ns == offset_ns else incarnations.TICK_NS
    staging, used = (replace(one, realtime_offset_ns=offset_ns) for one in (staging, used))
    numbers = _numbers(snapshots, lifetimes, used, kinds, offset_error_ns, others)
    unchanged = age.unchanged_until_begin(snapshots, used, lifetimes)
    located = {
        role: images.located(role, one, numbers.of_role(role), unchanged) for role, one in snapshots.by_role.items()
    }
    lifetimes = _with_types(lifetimes, located)
    all_sizes = {**block_bytes.inferred, **block_bytes.facts}
    statements = tracepoints.statements(used.fs_events, lifetimes, all_sizes, used.recorded or ())
    after = [_numbered(one, role, numbers) for role, one in snapshots.by_role.items() if role.endswith("after")]
    statements = remade.statements(statements, others, one_size, lifetimes, after)
    is_placed = ~pl.col("dev").is_in(list(block_bytes.inferred))
    statements = statements.with_columns(doubt_ns=pl.when(is_placed).then("doubt_ns").otherwise("valid_from_ns"))
    traced = _without_placed_metadata(tracepoints.extents(statements), snapshots)
    queued = used.block.filter(pl.col("action") == "queue").select("ts_ns", "tid")
    pages = bio_pages.extents(
        *(used.fs_events, lifetimes, queued, fs_types), all_events=all_events, page_bytes=page_bytes
    )
    bios = pl.concat([pages, direct_io.extents(used.fs_events, used.block, used.lost)])
    changed = age.changed_since_end(snapshots, used)
    files = _files(snapshots, numbers, lifetimes, used, mounts or {}, changed)
    complete = _completely_mapped(located, used, kinds, fs_types)
    extents = [
        *_of_filesystems(traced, located, lifetimes, requests, used, kinds, complete, others, one_size),
        timeline.succeeding(tracepoints.likely(statements)),
        operations.extents(statements.filter(is_placed), used.fs_events, used.block, used.lost),
        unnumbered.typed_by_location(bios, snapshots.placed_filesystems),
        unnumbered.confirmed(bios, snapshots.after, files),
    ]
    if snapshots.journal is not None:
        of_journal = journals.extents(snapshots.journal, numbers.journal, staging, offset_error_ns)
        extents.append(remade.begun(of_journal, others))
    table = images.mark_unproven(images.table(extents), snapshots)
    if not complete and not others:  # These prove by themselves that the images belong to the trace.
        table = pl.concat([table, images.table(unnumbered.held(located.get("image_before"), snapshots, used))])
    renamed = files.filter(pl.col("source") == "image_after", pl.col("ino").is_in(changed.implode()))
    if snapshots.listed_after is not None:
        listed = _numbered(snapshots.listed_after, "listing_after", numbers)
        renamed = renamed.join(listed, on=[*FILE, "path"], how="anti")
    if unchanged is not None:
        is_older = (pl.col("source") == "image_before") & ~pl.col("ino").is_in(unchanged.implode())
        renamed = pl.concat([renamed, files.filter(is_older)])
    if snapshots.listed_before is not None:
        listed = _numbered(snapshots.listed_before, "listing_before", numbers)
        renamed = renamed.join(listed, on=[*FILE, "path"], how="anti")
    return Evidence(table.sort("dev", "sector", "valid_from_ns"), files, renamed.select(FILE))


class _Numbers(NamedTuple):
    """The incarnations of the files in images, listings and journal: dev, ino, generation, incarnation."""

    images: pl.DataFrame
    listings: pl.DataFrame
    journal: pl.DataFrame
    unrecorded: list[int]
    """The devices without events of creation and deletion."""

    def of_role(self, role: str) -> pl.DataFrame:
        return self.images if role.startswith("image") else self.listings


def _numbers(
    snapshots: Images,
    lifetimes: pl.DataFrame,
    staging: Staging,
    kinds: pl.DataFrame,
    offset_error_ns: int,
    others: remade.Times,
) -> _Numbers:
    of_images, listings = incarnations.combined(
        incarnations.numbered(snapshots.before, snapshots.after, lifetimes, staging, kinds, others),
        incarnations.numbered(snapshots.listed_before, snapshots.listed_after, lifetimes, staging, kinds, others),
    )
    unrecorded = tracepoints.without_lifetimes(kinds, staging.recorded or ())
    listings = incarnations.with_traced(listings, lifetimes, unrecorded)
    journal = of_images.clear()
    if snapshots.journal is not None:
        journal = journals.incarnations(snapshots.journal, of_images, lifetimes, staging, offset_error_ns)
    return _Numbers(of_images, listings, journal, unrecorded)


def _with_types(lifetimes: pl.DataFrame, located: Mapping[str, images.Located]) -> pl.DataFrame:
    """Replace block_type and subtype of the lifetimes by those in images, which the trace may lack."""
    parts = [one.extents.filter(pl.col("file_offset_bytes").is_not_null()) for one in located.values()]
    if not parts:
        return lifetimes
    types = pl.concat([part.select(*FILE, "block_type", "subtype") for part in parts])
    # An inode without an incarnation belongs to the filesystem itself, and existed before the recording.
    types = types.with_columns(pl.col("incarnation").fill_null(0)).unique(FILE, keep="first", maintain_order=True)
    joined = lifetimes.join(types, on=FILE, how="left", maintain_order="left", suffix="_image")
    has_type = pl.col("block_type_image").is_not_null()
    return joined.with_columns(
        pl.when(has_type).then(f"{name}_image").otherwise(name).alias(name) for name in ("block_type", "subtype")
    ).select(lifetimes.columns)


def _without_placed_metadata(traced: pl.DataFrame, snapshots: Images) -> pl.DataFrame:
    """Drop the events' extents of F2FS's static areas on devices whose image shows which area each is."""
    devices = [image.dev for image in snapshots.placed_filesystems]
    is_static = ((pl.col("block_type") == "metadata") & pl.col("subtype").is_null()).fill_null(False)
    return traced.filter(~is_static | ~pl.col("dev").is_in(devices))


def _completely_mapped(
    located: Mapping[str, images.Located], staging: Staging, kinds: pl.DataFrame, fs_types: Mapping[int, str] | None
) -> list[int]:
    """Return the devices of images and listings for which every change of the block map was recorded."""
    devices = {one.snapshot.dev for one in located.values() if one.extents.height}
    stated = {dev: fs_type for dev, fs_type in (fs_types or {}).items() if dev not in staging.untraced}
    recorded = staging.recorded or frozenset()
    return [dev for dev in devices if tracepoints.maps_completely(kinds, dev, recorded, stated.get(dev))]


def _of_filesystems(
    traced: pl.DataFrame,
    located: Mapping[str, images.Located],
    lifetimes: pl.DataFrame,
    requests: pl.LazyFrame,
    staging: Staging,
    kinds: pl.DataFrame,
    complete: list[int],
    others: remade.Times,
    one_size: Mapping[int, remade.Span],
) -> list[pl.DataFrame]:
    """Return the extents of `_of_changes`, where images after are of other filesystems than before on some devices."""
    if not others:
        return _of_changes(traced, located, lifetimes, requests, staging, kinds, complete)
    earlier, later = dict(located), {}
    for role, one in located.items():
        begin, end = one_size.get(one.snapshot.dev, (None, None))
        is_later = role.endswith("after") and one.snapshot.dev in others
        other_size_ns = end if is_later else begin
        if is_later or other_size_ns is not None:
            del earlier[role]
        if is_later and other_size_ns is None:
            later[role] = one
    parts = _of_changes(traced, earlier, lifetimes, requests, staging, kinds, complete)
    is_of_image = pl.col("source").cast(pl.String) != "tracepoint"
    of_later = _of_changes(traced, later, lifetimes, requests, staging, kinds, complete) if later else []
    begun = [remade.begun(part.filter(is_of_image), others) for part in of_later]
    return [*(remade.ended(part, others) for part in parts), *begun]


def _of_changes(
    traced: pl.DataFrame,
    located: Mapping[str, images.Located],
    lifetimes: pl.DataFrame,
    requests: pl.LazyFrame,
    staging: Staging,
    kinds: pl.DataFrame,
    complete: list[int],
) -> list[pl.DataFrame]:
    """Return the extents of the trace, images and listings. `complete` is that of `_completely_mapped`."""
    is_lost = any(staging.lost.touching("fs_events", dev=dev) for dev in complete)
    if complete and not is_lost:
        return images.with_all_changes(located, traced, lifetimes, staging)
    return [
        reused.until_reused(timeline.succeeding(traced), requests, kinds, staging.recorded or frozenset()),
        *images.without_changes(located, staging),
        *(images.until_first_loss(located, traced, lifetimes, staging, dev) for dev in complete),
    ]


def _files(
    snapshots: Images,
    numbers: _Numbers,
    lifetimes: pl.DataFrame,
    staging: Staging,
    mounts: Mapping[int, str],
    changed: pl.Series,
) -> pl.DataFrame:
    """Return table `files`: a row per inode and incarnation, with times from the trace.

    The name is that of the first of these sources that has a path:

    1. images and listings after, but with the path in the listing if they differ, because it is closer to the
       recording, and without those that may be of a later time (`changed`) if the trace has one
    2. images and listings before likewise, but with the trace's path if that differs, because it is later
    3. the trace's events and fanotify
    4. the journal


    A path with ciphertext is the last resort: while a file is used, its key is available, and the trace has its names.
    """
    columns = list(schema.table("files").polars)
    numbered = {role: _numbered(one, role, numbers) for role, one in snapshots.by_role.items()}
    after, before = (_of_one_time(numbered, when) for when in ("after", "before"))
    traced = _traced_files(snapshots, [*after, *before], lifetimes, staging, mounts)
    is_later = (pl.col("source") == "image_after") & pl.col("ino").is_in(changed.implode())
    has_name = traced.drop_nulls("path").select(FILE)
    after = [
        pl.concat([files.filter(~is_later), files.filter(is_later).join(has_name, on=FILE, how="anti")])
        for files in after
    ]
    in_snapshots = pl.concat([schema.empty("files"), *after, *(_with_later_paths(files, traced) for files in before)])
    parts = [in_snapshots, traced]
    if snapshots.journal is not None:
        parts.append(incarnations.assigned(snapshots.journal.files, numbers.journal).select(columns))
    table = pl.concat([*map(_classified, parts), tracepoints.files(lifetimes)])
    table = table.sort(pl.col("path").is_null(), "name_encrypted", maintain_order=True)
    table = table.unique(FILE, keep="first", maintain_order=True).drop("created_ns", "deleted_ns")
    times = lifetimes.select(*FILE, "created_ns", "deleted_ns")
    table = inodes.with_spans(table.join(times, on=FILE, how="left", maintain_order="left"), lifetimes, staging.last_ns)
    table = _mark_ambiguous(table, snapshots, numbers.unrecorded)
    return schema.conform(table.select(columns).sort(FILE), "files")


def _numbered(one: Snapshot, role: str, numbers: _Numbers) -> pl.DataFrame:
    """Return table `files` of an image or a listing with the incarnations of the trace."""
    return incarnations.assigned(one.files, numbers.of_role(role)).select(list(schema.table("files").polars))


def _of_one_time(numbered: Mapping[str, pl.DataFrame], when: str) -> list[pl.DataFrame]:
    """Return tables `files` of image and listing, without files of the image that have another name in the listing.

    Where the names are equal, the image comes first: it has the types of contents.
    """
    image, listing = (numbered.get(f"{kind}_{when}") for kind in ("image", "listing"))
    if image is not None and listing is not None:
        listed = listing.select(*FILE, listed="path")
        both = image.join(listed, on=FILE, how="left", maintain_order="left")
        image = both.filter((pl.col("path") == pl.col("listed")).fill_null(True)).select(image.columns)
    return [files for files in (image, listing) if files is not None]


def _traced_files(
    snapshots: Images,
    snapshot_files: list[pl.DataFrame],
    lifetimes: pl.DataFrame,
    staging: Staging,
    mounts: Mapping[int, str],
) -> pl.DataFrame:
    """Return table `files` of the names that the trace's events and fanotify prove."""
    events, recorded = staging.fs_events, staging.recorded or frozenset()
    in_snapshots = pl.concat([schema.empty("files"), *snapshot_files])
    traced = names.files(events, lifetimes, in_snapshots, mounts, staging.lost, recorded)
    if snapshots.names is None:
        return traced
    doubtful = names.without_creations(events, recorded)
    reported = entries.files(snapshots.names, lifetimes, snapshot_files, names.roots(events), staging.lost, doubtful)
    return entries.combined(reported, traced)


def _mark_ambiguous(table: pl.DataFrame, snapshots: Images, unrecorded: list[int]) -> pl.DataFrame:
    """Mark the names of inodes that may be another file's, on devices without events of creation and deletion.

    | name from | condition | result |
    |---|---|---|
    | the trace | | inferred |
    | listings, if the inode has no generation | both have it, at one time of change (rename and unlink set it) | fact |
    | | both have it, and the file was changed; or only one listing has the inode | inferred |
    | | the listings have different names: a rename, or a reused number | unknown |
    """
    is_named = pl.col("dev").is_in(unrecorded) & pl.col("path").is_not_null()
    is_listed = is_named & (pl.col("source") == "fiemap") & pl.col("generation").is_null()
    is_uncertain = is_named & (pl.col("source") == "tracepoint") | is_listed
    first, last = snapshots.listed_before, snapshots.listed_after
    if first is None or last is None:
        source = pl.when(is_uncertain).then(images.as_source("inferred")).otherwise("source")
        return table.with_columns(source=source)
    both = first.files.select("ino", first="names").join(last.files.select("ino", last="names"), on="ino")
    both = both.select("ino", is_same=pl.col("first") == pl.col("last"))
    both = both.join(images.unchanged(first.times, last.times), on="ino", how="left")
    joined = table.join(both, on="ino", how="left", maintain_order="left")
    is_other = is_listed & ~pl.col("is_same").fill_null(True)
    is_fact = is_listed & pl.col("is_same").fill_null(False) & pl.col("is_unchanged").fill_null(False)
    return joined.with_columns(
        *(pl.when(~is_other).then(name).alias(name) for name in ("path", "package", "file_type_rule")),
        file_type=pl.when(is_other).then(pl.lit("unknown", table.schema["file_type"])).otherwise("file_type"),
        source=pl.when(is_other)
        .then(images.as_source("tracepoint"))
        .when(is_uncertain & ~is_fact)
        .then(images.as_source("inferred"))
        .otherwise("source"),
    ).select(table.columns)


def _with_later_paths(before: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """Replace the paths in table `files` of an image before by those of the trace (`traced`), if they differ."""
    later = traced.drop_nulls("path").select(*FILE, later="path", later_names="names")
    both = before.join(later, on=FILE, how="left", maintain_order="left")
    is_other = (pl.col("later") != pl.col("path")).fill_null(False) & ~pl.col("name_encrypted")
    all_names = pl.col("names").list.concat("later_names").list.unique(maintain_order=True)
    return both.with_columns(
        path=pl.when(is_other).then("later").otherwise("path"),
        names=pl.when(is_other).then(all_names).otherwise("names"),
        package=pl.when(is_other).then(filetype.package(pl.col("later"))).otherwise("package"),
    ).select(before.columns)


def _classified(files: pl.DataFrame) -> pl.DataFrame:
    """Add type and package by path to the files of unknown type."""
    is_unknown = (pl.col("file_type") == "unknown") & pl.col("path").is_not_null()
    if not files.select(is_unknown.any()).item():
        return files
    classified = filetype.classify(files.filter(is_unknown)).with_columns(package=filetype.package(pl.col("path")))
    return pl.concat([files.filter(~is_unknown), classified])
