"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import polars as pl

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest import clock
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import evidence, extents, owner
from androstep_analysis.link.evidence import consistency, filetype
from androstep_analysis.link.evidence.consistency import Stated
from androstep_analysis.link.evidence.snapshots import SOURCES, Images
from androstep_analysis.link.extents import blocksize, pagesize
from androstep_analysis.link.owner import handles
from androstep_analysis.link.requests import Requests, rwbs

__all__ = ["SOURCES", "Images", "classified", "tables"]

AnySnapshot = TypeVar("AnySnapshot", Filesystem, Listing)


def tables(
    staging: Staging,
    linked: Requests,
    snapshots: Images,
    spool: Spool,
    *,
    sources: frozenset[str] = SOURCES,
    mounts: Mapping[int, str] | None = None,
    block_bytes: Mapping[int, int] | None = None,
    fs_types: Mapping[int, str] | None = None,
    nr_sectors: Mapping[int, int] | None = None,
) -> dict[str, pl.LazyFrame]:
    """Every table that follows from a recording, its requests (`requests.link`) and the images of its filesystem.

    Keys tasks, requests, extents, files and io; all that neither the recording nor an image tells is unknown. Requests
    and io are left in `spool`. Of what maps blocks and names files only the kinds of evidence in `sources` (`SOURCES`)
    are used; who wrote what is always taken from the events. Key comparison has how far images and listings agree with
    the trace (`consistency.table`); `InputError` where one contradicts it.

    `mounts` tells where the filesystem of a device was mounted, so that paths in events are understood where no image
    shows it, `fs_types` which filesystem that is (as the recording's fact `fs_type` does where the trace has one
    device), `block_bytes` the size of its blocks, and `nr_sectors` the size of the device. Type and block size are also
    taken from the images and listings, whatever `sources` says; else the events may prove them
    (`tracepoints.filesystems`, `blocksize`).

    In memory are all filesystem events; and all requests only if some of those events tell who wrote what.
    """
    fs_events = tracepoints.on_filesystems(staging.fs_events.collect(), linked.requests)
    if clock.is_mixed(staging.losses):  # events in no order prove nothing
        fs_events = fs_events.clear()
    page_bytes = pagesize.proven(staging.facts.get("page_bytes"), fs_events)
    fs_events = tracepoints.numbered(pagesize.counted(fs_events, page_bytes), staging.recorded or frozenset())
    staging = staging.with_tables(fs_events=fs_events)
    stated = Stated(fs_types or {}, block_bytes or {}, nr_sectors or {}, page_bytes)
    snapshots, standings = consistency.weighed(snapshots, staging, linked.requests, stated)
    sizes = {**(block_bytes or {}), **snapshots.block_bytes}
    sizes = blocksize.by_device(sizes, linked, fs_events, page_bytes)
    fs_types = {**_of_only_device(linked, staging.facts.get("fs_type")), **(fs_types or {}), **snapshots.fs_types}
    mapping = evidence.evidence(snapshots, staging, sizes, sources, mounts, fs_types, page_bytes=page_bytes)
    tasks = schema.empty("tasks") if staging.tasks is None else staging.tasks
    ext4 = fs_events.filter(tracepoints.is_own("ext4"))["dev"].drop_nulls().unique()
    has_writers = not owner.touches(fs_events).is_empty()
    for window in [linked.joined()] if has_writers else linked.windows():
        pieces = extents.pieces(window, mapping.extents, mapping.files, frozenset(ext4))
        if "tracepoint" in sources:
            pieces = handles.journalled(pieces, fs_events)
        recorded = staging.recorded or frozenset()
        pieces = owner.owned(pieces, fs_events, tasks, sizes, staging.lost, recorded, page_bytes=page_bytes)
        requests = _with_recorded_flags(window.requests, staging.flags)
        pieces = pieces if "sync" in staging.flags else extents.without_sync(pieces)
        spool.append("requests", requests.with_columns(_within_one_segment(staging, ("queue_ns", "insert_ns"))))
        spool.append("io", extents.table(pieces.with_columns(_within_one_segment(staging, ("queue_ns",)))))
    return {
        "tasks": schema.conform(tasks, "tasks").lazy(),
        "requests": spool.table("requests"),
        "extents": mapping.extents.lazy(),
        "files": mapping.files.lazy(),
        "io": spool.table("io"),
        "comparison": consistency.table(standings).lazy(),
    }


def _of_only_device(linked: Requests, fs_type: str | None) -> dict[int, str]:
    """What filesystem the only device of the trace holds, if it is the only one and its recorder says so."""
    devices = linked.requests.select(pl.col("part_dev").unique()).collect()["part_dev"].drop_nulls()
    return {int(devices[0]): fs_type} if fs_type is not None and len(devices) == 1 else {}


def _within_one_segment(staging: Staging, waits: tuple[str, ...]) -> list[pl.Expr]:
    """The times of requests, of which those are null that lie before a jump of the clock that others lie behind.

    No time is counted across a jump. Where times are of several clocks, only the last one of each request is left.
    """
    names = (*waits, "issue_ns", "complete_ns")
    if clock.is_mixed(staging.losses):
        last = pl.coalesce(*reversed(names))
        return [pl.when(pl.col(name) == last).then(name).alias(name) for name in names]
    borders = [after for _, after in staging.jumps]
    segment = {name: pl.sum_horizontal(pl.lit(0), *(pl.col(name) >= border for border in borders)) for name in names}
    last = pl.coalesce(*(pl.when(pl.col(name).is_not_null()).then(segment[name]) for name in reversed(names)))
    return [pl.when(segment[name] == last).then(name).alias(name) for name in names] if borders else []


def _with_recorded_flags(requests: pl.DataFrame, recorded_flags: frozenset[str]) -> pl.DataFrame:
    """Table requests with null for flags that the format cannot tell, and for those of a request without letters."""
    conditions = {flag: pl.col("rwbs").is_not_null() & pl.lit(flag in recorded_flags) for flag in rwbs.FLAGS}
    return requests.with_columns(
        pl.when(is_recorded).then(flag).alias(flag) for flag, is_recorded in conditions.items()
    )


def classified(snapshot: AnySnapshot) -> AnySnapshot:
    """An image or a listing with the package of every file and its type: by name, and in an image by first bytes."""
    files = filetype.classify(snapshot.files, snapshot.heads if isinstance(snapshot, Filesystem) else None)
    return replace(snapshot, files=files.with_columns(package=filetype.package(pl.col("path"))))
