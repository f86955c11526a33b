"""Everything that tells what lies where and what it is called, put together: events, images, listings, the journal.

Each kind of evidence has a module that turns it into extents with a span of validity and a source; which is believed
first is decided where requests are mapped (`extents.CONFIDENCE`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import (
    entries,
    filetype,
    images,
    incarnations,
    inodes,
    journals,
    names,
    reused,
    unnumbered,
)
from androstep_analysis.link.evidence.snapshots import SOURCES, Images
from androstep_analysis.link.extents import bio_pages, direct_io, operations, timeline


@dataclass(frozen=True)
class Evidence:
    """Tables `extents` and `files` as events, images, listings and journal of one filesystem support them."""

    extents: pl.DataFrame
    files: pl.DataFrame


def evidence(
    snapshots: Images,
    staging: Staging,
    all_events: pl.LazyFrame,
    requests: pl.LazyFrame,
    block_bytes: Mapping[int, int],
    sources: frozenset[str] = SOURCES,
    mounts: Mapping[int, str] | None = None,
    fs_types: Mapping[int, str] | None = None,
    *,
    page_bytes: int | None,
) -> Evidence:
    """What the trace and the images of one filesystem say, each statement with its span of validity.

    Where the recording does not tell the offset of CLOCK_REALTIME from the capture's clock, files tell it whose
    creation the trace and the image after both have; without it an inode's times cannot be compared with the trace's,
    and what rests on them is inferred. Without images there is what the trace says. `sources` leaves only the evidence
    of these kinds; when the journal committed a transaction is part of the journal's.
    `block_bytes` is the block size of the filesystem on each device, as far as it is known; `mounts` tells where a
    device's filesystem was mounted, for the names, and `fs_types` which it is, as far as it is said; `page_bytes`
    is the size of a page (None: unknown). `all_events` are those of which the staging has no repetitions
    (`tracepoints.without_repetitions`), `requests` is the table of that name.
    """
    snapshots = snapshots.of(sources)
    full_staging = staging
    if "tracepoint" not in sources:
        staging = staging.with_tables(fs_events=staging.fs_events.clear())
    events = staging.fs_events
    recorded = staging.recorded or frozenset() if "tracepoint" in sources else frozenset()
    lives = tracepoints.lives(events, fs_types)
    last_seen = snapshots.after or snapshots.listed_after
    late_ns = 0
    if staging.realtime_offset_ns is None and last_seen is not None:
        late_ns = incarnations.TICK_NS
        offset = incarnations.realtime_offset_ns(last_seen, lives)
        staging, full_staging = (replace(one, realtime_offset_ns=offset) for one in (staging, full_staging))
    imaged, listed = incarnations.agreed(
        incarnations.numbered(snapshots.before, snapshots.after, lives, staging),
        incarnations.numbered(snapshots.listed_before, snapshots.listed_after, lives, staging),
    )
    silent = tracepoints.without_lives(events, recorded)
    listed = incarnations.of_trace(listed, lives, silent)
    old, new = (
        images.identified(image, imaged) if image is not None else None for image in (snapshots.before, snapshots.after)
    )
    first, last = (
        images.identified(listing, listed) if listing is not None else None
        for listing in (snapshots.listed_before, snapshots.listed_after)
    )
    snapshot_extents = [extents for extents in (old, new, first, last) if extents is not None]
    lives = _typed(lives, snapshot_extents)
    stated = tracepoints.statements(events, lives, block_bytes, staging.recorded or ())
    traced = tracepoints.extents(stated)
    imaged_devices = [image.dev for image in snapshots.placed_filesystems]
    traced = images.identified_rows(traced.filter(~_is_static_area() | ~pl.col("dev").is_in(imaged_devices)))
    devices = {int(extents["dev"][0]) for extents in snapshot_extents if extents.height}
    told = {dev: fs_type for dev, fs_type in (fs_types or {}).items() if dev not in staging.untraced}
    complete = [dev for dev in devices if tracepoints.maps_completely(events, dev, recorded, told.get(dev))]
    is_lost = any(staging.lost.touching("fs_events", dev=dev) for dev in complete)
    if complete and not is_lost:
        parts = images.with_all_changes((first, old), (last, new), snapshots, traced, lives, staging)
    else:
        succeeding = timeline.succeeding(traced.drop("start_of_file"))
        parts = [images.identified_rows(reused.until_reused(succeeding, requests, events, recorded))]
        parts += images.without_changes(old, new, snapshots, staging.realtime_offset_ns)
        parts += images.listed_without_changes(first, last, snapshots, staging.realtime_offset_ns)
        for dev in complete:
            parts.append(images.until_first_loss((first, old), snapshots, traced, lives, staging, dev))
    parts.append(images.identified_rows(timeline.succeeding(tracepoints.likely(stated))))
    within = operations.extents(stated, events, staging.block, staging.lost)
    parts.append(images.identified_rows(within))
    queued = staging.block.filter(pl.col("action") == "queue").select("ts_ns", "tid")
    bios = bio_pages.extents(events, lives, queued, fs_types, all_events=all_events, page_bytes=page_bytes)
    bios = pl.concat([bios, direct_io.extents(events, staging.block, staging.lost)])
    parts.append(images.identified_rows(unnumbered.typed_by_place(bios, snapshots.placed_filesystems)))
    in_journal = None
    if snapshots.journal is not None:
        in_journal = journals.incarnations(snapshots.journal, imaged, lives, staging, late_ns)
    files = _files(snapshots, imaged, listed, in_journal, lives, staging, mounts or {}, silent)
    parts.append(images.identified_rows(unnumbered.confirmed(bios, snapshots.after, files)))
    if snapshots.journal is not None and in_journal is not None:
        parts.append(images.identified_rows(journals.extents(snapshots.journal, in_journal, full_staging, late_ns)))
    weighed = images.demoted(images.table(parts), snapshots)
    if not complete:  # held proves by itself that the images belong to the trace
        weighed = pl.concat([weighed, images.table(unnumbered.held(old, snapshots, staging))])
    return Evidence(weighed.sort("dev", "sector", "valid_from_ns"), files)


def _is_static_area() -> pl.Expr:
    """Whether a statement of an event is about F2FS's static areas: an image tells which of them it is."""
    return ((pl.col("block_type") == "metadata") & pl.col("subtype").is_null()).fill_null(False)


def _typed(lives: pl.DataFrame, snapshot_extents: list[pl.DataFrame]) -> pl.DataFrame:
    """The lives with block_type and subtype of their content as the images know it; the trace may not."""
    keys = ["dev", "ino", "incarnation"]
    content = [extents.filter(pl.col("file_offset_bytes").is_not_null()) for extents in snapshot_extents]
    if not content:
        return lives
    # An inode without incarnation is the filesystem's own and has been there from before the capture.
    types = pl.concat([e.select(*keys, stated_type="block_type", stated_subtype="subtype") for e in content])
    types = types.with_columns(pl.col("incarnation").fill_null(0)).unique(keys, keep="first", maintain_order=True)
    is_stated = pl.col("stated_type").is_not_null()
    joined = lives.join(types, on=keys, how="left", maintain_order="left")
    return joined.with_columns(
        block_type=pl.when(is_stated).then("stated_type").otherwise("block_type"),
        subtype=pl.when(is_stated).then("stated_subtype").otherwise("subtype"),
    ).drop("stated_type", "stated_subtype")


def _files(
    snapshots: Images,
    imaged: pl.DataFrame,
    listed: pl.DataFrame,
    in_journal: pl.DataFrame | None,
    lives: pl.DataFrame,
    staging: Staging,
    mounts: Mapping[int, str],
    silent: Sequence[int],
) -> pl.DataFrame:
    """A row per inode and incarnation, named by the first that knows its path; the trace tells its times.

    Asked are the images and the listings, the latest first, then the trace's own names and those of fanotify, then the
    journal. The trace's names are later than those of an image or a listing from before it. A path of which a part is
    ciphertext is the last resort: while a file is used, its key is there, and the trace has the names. On devices that
    are `silent`, no event shows that a file was created or deleted.
    """
    keys = ["dev", "ino", "incarnation"]
    columns = list(schema.table("files").polars)
    after, before = (
        [
            images.numbered(one.files, numbers).select(columns)
            for one, numbers in ((image, imaged), (listing, listed))
            if one is not None
        ]
        for image, listing in (
            (snapshots.after, snapshots.listed_after),
            (snapshots.before, snapshots.listed_before),
        )
    )
    named = [*after, *before]
    snapshot_files = pl.concat([schema.empty("files"), *named])
    recorded, events = staging.recorded or frozenset(), staging.fs_events
    traced = names.files(events, lives, snapshot_files, mounts, staging.lost, recorded)
    if snapshots.names is not None:
        doubtful = names.without_births(events, recorded)
        told = entries.files(snapshots.names, lives, named, names.roots(events), staging.lost, doubtful)
        traced = entries.agreeing(told, traced)
    snapshot_files = pl.concat([schema.empty("files"), *after, *(_renamed(files, traced) for files in before)])
    other_sources = [traced]
    if snapshots.journal is not None and in_journal is not None:
        other_sources.append(journals.files(snapshots.journal, in_journal))
    table = pl.concat([_named(snapshot_files), *(_named(files) for files in other_sources), tracepoints.files(lives)])
    worst_last = table.sort(pl.col("path").is_null(), "name_encrypted", maintain_order=True)
    table = worst_last.unique(keys, keep="first", maintain_order=True)
    times = lives.select(*keys, "created_ns", "deleted_ns")
    table = table.drop("created_ns", "deleted_ns").join(times, on=keys, how="left", maintain_order="left")
    table = inodes.with_spans(table, lives, staging.last_ns)
    # Where neither births nor ends of files are recorded, another file may have the number by now.
    may_be_other = (pl.col("source") == "tracepoint") & pl.col("path").is_not_null()
    may_be_other &= pl.col("dev").is_in(silent)
    inferred = images.as_source("inferred")
    table = table.with_columns(source=pl.when(may_be_other).then(inferred).otherwise("source"))
    table = _unidentified(table, snapshots, silent)
    return schema.conform(table.select(columns).sort(keys), "files")


def _unidentified(table: pl.DataFrame, snapshots: Images, silent: Sequence[int]) -> pl.DataFrame:
    """Return table `files` with what is known of the names that listings state of inodes without a generation.

    On devices where no event shows that a file was created or deleted (`silent`), such a number may have been
    another file's in between. The name is

    - a fact if both listings have it at the same time of change: unlink and rename set that time,
    - inferred if both listings have it and the file was changed, or if only one has the inode,
    - unknown if the listings have different names: it was renamed, or another file got the number.
    """
    first, last = snapshots.listed_before, snapshots.listed_after
    is_silent = pl.col("dev").is_in(silent)
    is_open = is_silent & (pl.col("source") == "fiemap") & pl.col("generation").is_null() & pl.col("path").is_not_null()
    if first is None or last is None:
        return table.with_columns(source=pl.when(is_open).then(images.as_source("inferred")).otherwise("source"))
    both = first.files.select("ino", first="names").join(last.files.select("ino", last="names"), on="ino")
    listed = both.select("ino", is_same=pl.col("first") == pl.col("last"))
    listed = listed.join(images.unchanged(first.times, last.times), on="ino", how="left")
    joined = table.join(listed, on="ino", how="left", maintain_order="left")
    is_other = is_open & ~pl.col("is_same").fill_null(True)
    is_fact = pl.col("is_same").fill_null(False) & pl.col("is_unchanged").fill_null(False)
    return joined.with_columns(
        *(pl.when(~is_other).then(name).alias(name) for name in ("path", "package", "file_type_rule")),
        file_type=pl.when(is_other).then(pl.lit("unknown", table.schema["file_type"])).otherwise("file_type"),
        source=pl.when(is_other)
        .then(images.as_source("tracepoint"))
        .when(is_open & ~is_fact)
        .then(images.as_source("inferred"))
        .otherwise("source"),
    ).select(table.columns)


def _renamed(before: pl.DataFrame, traced: pl.DataFrame) -> pl.DataFrame:
    """Table `files` of a snapshot from before, with the paths that its files got in the trace (`traced`)."""
    later = traced.drop_nulls("path").select("dev", "ino", "incarnation", later="path", later_names="names")
    both = before.join(later, on=["dev", "ino", "incarnation"], how="left", maintain_order="left")
    is_other = (pl.col("later") != pl.col("path")).fill_null(False) & ~pl.col("name_encrypted")
    names = pl.col("names").list.concat("later_names").list.unique(maintain_order=True)
    return both.with_columns(
        path=pl.when(is_other).then("later").otherwise("path"),
        names=pl.when(is_other).then(names).otherwise("names"),
        package=pl.when(is_other).then(filetype.package(pl.col("later"))).otherwise("package"),
    ).select(before.columns)


def _named(files: pl.DataFrame) -> pl.DataFrame:
    """The files, those of unknown type with the type and the package that their path tells."""
    is_open = (pl.col("file_type") == "unknown") & pl.col("path").is_not_null()
    classified = filetype.classify(files.filter(is_open)).with_columns(package=filetype.package(pl.col("path")))
    return pl.concat([files.filter(~is_open), classified])
