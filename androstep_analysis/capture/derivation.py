"""Derive the tables of a capture: join its trace with filesystem images and extent listings."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import fs, link
from androstep_analysis.capture.window import of as window_of
from androstep_analysis.capture.window import within
from androstep_analysis.common import losses, schema, units
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.fs import fiemap, shell_listing, tracepoints
from androstep_analysis.fs.ext4 import journal
from androstep_analysis.ingest import Spool, entries, record, staging, tasks
from androstep_analysis.ingest.record import Records
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence.entries import contradicted
from androstep_analysis.link.owner import processes
from androstep_analysis.link.requests import Device, incomplete, layers
from androstep_analysis.link.requests import link as link_requests
from androstep_analysis.measures.tables import coverage, population

EVIDENCE_TABLES = ("extents", "files")
"""The tables that a loss of an image or a listing can affect."""

TABLES = (*staging.TABLES, "tasks", "requests", "extents", "files", "io")
"""The tables of a capture: those that the recording fills, then those derived from them."""


ADDED_TO = ("importance",)
"""Tables of the recording to which listings add rows."""


@dataclass(frozen=True)
class Image:
    """An image file and its device (``MAJ:MIN``), if known."""

    path: Path
    device: str | None = None


@dataclass(frozen=True)
class Evidence:
    """The evidence in addition to the trace.

    Attributes
    ----------
    image_before, image_after : Image, optional
        Images of the filesystem from before and after the trace.
    listing_before, listing_after : Path or Records, optional
        Listings of extmap or of adb's shell from before and after the trace, as files or as parsed records.
    names : Path or Records, optional
        The file names that iotrace got from fanotify.
    devices, mounts, swaps : sequence of dict
        The block devices, the mounted filesystems and the swap spaces, as in the manifest.
    extents : frozenset of str
        The kinds of evidence to use (`link.SOURCES`).
    is_earlier : bool
        Whether `listing_before` was made before the first event that the trace still holds. The recorder removed files
        that changed in between from it, so that it is incomplete.
    """

    image_before: Image | None = None
    image_after: Image | None = None
    listing_before: Path | Records | None = None
    listing_after: Path | Records | None = None
    names: Path | Records | None = None
    devices: Sequence[dict[str, Any]] = ()
    mounts: Sequence[dict[str, Any]] = ()
    swaps: Sequence[dict[str, Any]] = ()
    extents: frozenset[str] = field(default=link.SOURCES)
    is_earlier: bool = False


def derive(recorded: Staging, evidence: Evidence, spool: Spool) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """Return all tables (`TABLES`) and their description (`Capture.about`).

    The recording's own tables are not changed. The tables are of the whole recording; the counts and shares in the
    description are of its window, if it has one. Tables that may be large are written through `spool`. Raises
    `InputError` if an image or a listing cannot be read, or belongs to a device without requests in the trace.
    """
    from tqdm.auto import tqdm  # imports asyncio

    with tqdm(total=3, desc="deriving tables", disable=None, delay=2, leave=False) as bar:
        devices = [_device(row) for row in evidence.devices]
        untraced = frozenset(units.parse_dev(row["dev"]) for row in evidence.devices if row.get("traced") is False)
        recorded = replace(recorded, untraced=recorded.untraced | untraced)
        linked = link_requests(
            recorded.block, devices, words=recorded.words, names_submitters=recorded.names_submitters
        )
        if not recorded.lost.touching("block_events"):
            recorded = replace(recorded, losses=(*recorded.losses, *incomplete.losses(linked.requests)))
        recorded = replace(recorded, losses=(*recorded.losses, *layers.losses(linked.layers)))
        bar.update()
        with contextlib.ExitStack() as stack:
            before = _read_image(stack, evidence.image_before, "image_before", linked.requests)
            after = _read_image(stack, evidence.image_after, "image_after", linked.requests)
            listings = [
                None if path is None else _read_listing(path)
                for path in (evidence.listing_before, evidence.listing_after)
            ]
            dev = next((int(image.extents["dev"][0]) for image in (after, before) if image is not None), None)
            first, last = (
                None if read is None else _listing(read, dev, linked.requests, recorded.fs_events) for read in listings
            )
            listings = [None if read is None else _without_files(read) for read in listings]
            if first is not None and evidence.is_earlier:
                first = replace(first, is_whole=False)
            names = None if evidence.names is None else _read_names(evidence.names, recorded.clock)
            snapshots = link.Images(before, after, first, last, _journal(after), names)
            bar.update()
            recorded = _with_listed_tasks(recorded, listings)
            mounts = {units.parse_dev(mount["dev"]): mount["path"] for mount in reversed(evidence.mounts)}
            fs_types = {
                units.parse_dev(mount["dev"]): mount["fs_type"]
                for mount in evidence.mounts
                if isinstance(mount.get("fs_type"), str)
            }
            sizes = {
                units.parse_dev(mount["dev"]): mount["block_bytes"]
                for mount in evidence.mounts
                if mount.get("block_bytes")
            }
            derived = link.tables(
                recorded,
                linked,
                snapshots,
                spool,
                sources=evidence.extents,
                mounts=mounts,
                swaps=evidence.swaps,
                block_bytes=sizes,
                fs_types=fs_types,
                nr_sectors={device.dev: device.nr_sectors for device in devices},
            )
        bar.update()
    unowned = processes.served(derived["requests"], derived["io"], derived["servers"].collect())
    recorded = replace(recorded, losses=(*recorded.losses, *unowned))
    all_tables = {name: recorded.table(name) for name in staging.TABLES} | derived
    tables = {name: all_tables[name] for name in TABLES}
    return tables, _about(recorded, snapshots, listings, within(tables, window_of(recorded))) | {
        "snapshots": _compared(all_tables["comparison"].collect())
    }


def _compared(comparison: pl.DataFrame) -> list[dict[str, Any]]:
    """Sum up how far each image and listing agrees with the trace: role, proven, agreements, contradictions, kinds."""
    return [
        {
            "role": rows["role"][0],
            "proven": rows["proven"][0],
            **rows.select(pl.sum("agreements", "contradictions")).row(0, named=True),
            "kinds": {
                kind: {"agreements": agreeing, "contradictions": contradicting}
                for kind, agreeing, contradicting in rows.group_by("kind", maintain_order=True)
                .agg(pl.sum("agreements", "contradictions"))
                .iter_rows()
            },
        }
        for rows in comparison.partition_by("role", maintain_order=True)
    ]


def _about(
    recorded: Staging,
    snapshots: link.Images,
    listings: Sequence[Records | None],
    tables: Mapping[str, pl.LazyFrame],
) -> dict[str, Any]:
    parts = [
        part
        for part in (snapshots.after, snapshots.before, snapshots.listed_after, snapshots.listed_before)
        if part is not None
    ]
    evidence_losses: list[Loss] = [loss for part in parts for loss in part.losses]
    evidence_losses += [loss for read in listings if read is not None for loss in read.losses]
    evidence_losses += snapshots.journal.losses if snapshots.journal is not None else ()
    lost = [*recorded.losses, *(replace(loss, tables=EVIDENCE_TABLES) for loss in evidence_losses)]
    lost += _losses_of_names(snapshots.names, tables["files"])
    return {
        "format": recorded.format,
        "events": recorded.events,
        "first_ns": recorded.first_ns,
        "last_ns": recorded.last_ns,
        "clock": recorded.clock,
        "realtime_offset_ns": recorded.realtime_offset_ns,
        "flags": sorted(recorded.flags),
        "words": sorted(recorded.words),
        "names_submitters": recorded.names_submitters,
        "fs_type": next((part.fs_type for part in parts), None),
        "window": None if (window := window_of(recorded)) is None else list(window),
        "jumps": [list(jump) for jump in recorded.jumps],
        "names": 0 if snapshots.names is None else snapshots.names.events.height,
        "lost_events": recorded.lost_events,
        "losses": [losses.as_json(loss) for loss in lost],
        "rows": {
            name: rows.item()
            for name, rows in zip(
                tables, pl.collect_all(table.select(pl.len()) for table in tables.values()), strict=True
            )
        },
        "coverage": coverage(tables["requests"], tables["io"]).to_dicts(),
        "population": population(tables["requests"]),
    }


def _read_image(
    stack: contextlib.ExitStack, image: Image | None, role: str, requests: pl.LazyFrame
) -> fs.Filesystem | None:
    if image is None:
        return None
    dev = _device_of_image(image, requests)
    return link.classified(fs.read(stack.enter_context(fs.opened(image.path)), dev=dev, source=role))


def _device_of_image(image: Image, requests: pl.LazyFrame) -> int:
    """Return the device of an image: the one the user named, else the only device with requests in the trace.

    Flushes do not count. They go to the whole disk even if all writes go to a partition.
    """
    seen = (
        requests.filter(pl.col("nr_sectors") > 0)
        .group_by("part_dev")
        .len("count")
        .sort("count", descending=True)
        .collect()
    )
    listed = ", ".join(f"{units.format_dev(dev)} ({count} requests)" for dev, count in seen.iter_rows()) or "no request"
    if image.device is not None:
        dev = units.parse_dev(image.device)
        if dev not in seen["part_dev"]:
            raise InputError(f"{image.path}: assigned to device {image.device}, but the trace has {listed}")
        return dev
    if seen.height != 1:
        raise InputError(
            f"{image.path}: the trace has several devices ({listed}); name the image's device with --device MAJ:MIN"
        )
    return int(seen["part_dev"][0])


def _read_listing(path: Path | Records) -> Records:
    if isinstance(path, Path) and shell_listing.is_one(path):
        return shell_listing.read(path)
    records = path if isinstance(path, Records) else record.read(path)
    if not fiemap.is_listing(records):
        raise InputError(f"{path}: not a listing of files; give one written by extmap or iotrace")
    return records


def _without_files(listing: Records) -> Records:
    """Return a listing without its files, which take the most memory."""
    return replace(listing, tables={kind: rows for kind, rows in listing.tables.items() if kind == "task"})


def _read_names(path: Path | Records, clock: str) -> entries.Entries:
    records = path if isinstance(path, Records) else record.read(path)
    if not entries.are_entries(records):
        raise InputError(f"{path}: not a file of names; give the names.rec written by iotrace")
    return entries.entries(records, clock)


def _losses_of_names(names: entries.Entries | None, files: pl.LazyFrame) -> list[Loss]:
    """Return the losses of fanotify's names, and the number of files whose names the trace's events contradict."""
    if names is None:
        return []
    count = contradicted(files.collect())
    message = f"{count} files have different names in the trace's events and from fanotify; neither name is used"
    return [*names.losses, *([Loss("contradicted", count, message, ())] if count else [])]


def _listing(
    records: Records, dev: int | None, requests: pl.LazyFrame, fs_events: pl.LazyFrame
) -> fiemap.Listing | None:
    """Return the listing of the filesystem on `dev`, or without an image that of the device with most requests.

    A phone without root records no remaps of device-mapper. If no request names a listed device, it is the only one
    with events of a filesystem.
    """
    listings = {listing.dev: listing for listing in fiemap.listings(records)}
    if dev is None:
        seen = requests.filter(pl.col("part_dev").is_in(list(listings))).group_by("part_dev").len("count")
        dev = next(iter(seen.sort("count", "part_dev", descending=[True, False]).collect()["part_dev"]), None)
        if dev is None:
            own = tracepoints.devices(fs_events, tracepoints.is_own())
            dev = next(iter(listings), None) if listings.keys() <= set(own) and len(listings) == 1 else None
    listing = None if dev is None else listings.get(dev)
    return None if listing is None else link.classified(listing)


def _journal(image: fs.Filesystem | None) -> journal.Journal | None:
    return None if image is None else journal.read(image.image, image)


def _with_listed_tasks(recorded: Staging, listings: Sequence[Records | None]) -> Staging:
    """Add the threads in the listings to the recording, and the importance of their processes at that time."""
    parts = [schema.empty("tasks") if recorded.tasks is None else recorded.tasks]
    scores = []
    for read in listings:
        if read is not None:
            offsets = {"mono": read.header["monotonic_offset_ns"], "boot": 0}
            parts.append(tasks.listed(read.tables["task"], offsets.get(recorded.clock)))
            scores.append(tasks.importance(read.tables["task"], offsets.get(recorded.clock)))
    combined = replace(recorded, tasks=pl.concat(parts).unique(maintain_order=True))
    if not any(rows.height for rows in scores):
        return combined
    listed = pl.concat(scores).sort("ts_ns", maintain_order=True)
    return combined.with_tables(importance=recorded.importance.merge_sorted(listed.lazy(), "ts_ns"))


def _device(row: dict[str, Any]) -> Device:
    parent = row.get("parent")
    return Device(
        dev=units.parse_dev(row["dev"]),
        parent=units.parse_dev(parent) if parent else None,
        start_sector=row["start_sector"],
        nr_sectors=row["nr_sectors"],
    )
