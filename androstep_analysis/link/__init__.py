"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest import clock
from androstep_analysis.ingest.spool import Spool, batches, on_disk
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import evidence, extents, inferred, owner
from androstep_analysis.link.evidence import consistency, filetype
from androstep_analysis.link.evidence.consistency import Stated
from androstep_analysis.link.evidence.snapshots import SOURCES, Images
from androstep_analysis.link.extents import blocksize, pagesize
from androstep_analysis.link.owner import handles, processes
from androstep_analysis.link.requests import Requests, rwbs
from androstep_analysis.link.shelf import Shelf

__all__ = ["SOURCES", "Images", "classified", "tables"]

_PART_SECTORS = 1 << 21
"""Of how many sectors owners are decided at once: of a quarter of a million blocks of 4 KiB."""

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

    In memory is what the filesystem's events prove; of pages what is known of those that were in the cache at one time.
    """
    recorded = staging.recorded or frozenset()
    disks = tracepoints.on_disks(staging.fs_events, linked.requests)
    all_events = tracepoints.on_filesystems(staging.fs_events, disks)
    if clock.is_mixed(staging.losses):  # events in no order prove nothing
        all_events, recorded = schema.empty("fs_events").lazy(), frozenset[str]()
    page_bytes = pagesize.proven(staging.facts.get("page_bytes"), all_events)
    all_events = pagesize.counted(all_events, page_bytes)
    fs_events = _numbered(on_disk(tracepoints.without_repetitions(all_events)), recorded)
    staging = replace(staging.with_tables(fs_events=fs_events), recorded=recorded)
    stated = Stated(fs_types or {}, block_bytes or {}, nr_sectors or {}, page_bytes)
    snapshots, standings = consistency.weighed(snapshots, staging, all_events, linked.requests, stated)
    sizes = {**(block_bytes or {}), **snapshots.block_bytes}
    sizes = blocksize.by_device(sizes, linked, all_events, page_bytes)
    fs_types = {**_of_only_device(linked, staging.facts.get("fs_type")), **(fs_types or {}), **snapshots.fs_types}
    mapping = evidence.evidence(
        *(snapshots, staging, all_events, linked.requests, sizes, sources, mounts, fs_types),
        page_bytes=page_bytes,
    )
    tasks = schema.empty("tasks") if staging.tasks is None else staging.tasks
    devices = owner.telling(_devices(linked), fs_events, recorded)
    owners = owner.Owners(
        *(fs_events, tasks, sizes, staging.lost, recorded),
        page_bytes=page_bytes,
        devices=devices,
        sharing=tracepoints.sharing(disks),
    )
    homes = inferred.homes(fs_events, linked.requests, recorded, fs_types) if "tracepoint" in sources else {}
    runs = inferred.runs(
        *(all_events, fs_events, linked.requests, staging.block, homes, sizes, page_bytes),
        *(processes.Processes(tasks), staging.lost),
    )
    for pieces in _owned(_mapped(linked, mapping, fs_events, sources, staging, spool), owners, all_events):
        filled = inferred.applied(pieces, runs, mapping.files)
        spool.append("io", extents.table(filled.with_columns(_within_one_segment(staging, ("queue_ns",)))))
    return {
        "tasks": schema.conform(tasks, "tasks").lazy(),
        "requests": spool.table("requests"),
        "extents": mapping.extents.lazy(),
        "files": mapping.files.lazy(),
        "io": spool.table("io"),
        "comparison": consistency.table(standings).lazy(),
    }


def _numbered(fs_events: pl.LazyFrame, recorded: frozenset[str]) -> pl.LazyFrame:
    """The events with the incarnations of their inodes (`tracepoints.numbered`), on disk."""
    told = fs_events.select(tracepoints.OF_NUMBERS).collect()
    incarnation = tracepoints.numbered(told, recorded)["incarnation"]
    ends = 0

    def part(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal ends
        ends += rows.height
        return rows.with_columns(incarnation=incarnation[ends - rows.height : ends])

    return on_disk(part(rows) for rows in batches(fs_events, owner.BATCH))


def _mapped(
    linked: Requests,
    mapping: evidence.Evidence,
    fs_events: pl.LazyFrame,
    sources: frozenset[str],
    staging: Staging,
    spool: Spool,
) -> Iterator[pl.DataFrame]:
    """The pieces of all requests, in parts and in order; the requests are left in `spool`."""
    marking = frozenset(tracepoints.devices(fs_events, tracepoints.is_own("ext4")))
    silent = frozenset(tracepoints_ext4.without_frees(fs_events, staging.recorded or ()))
    with_events = frozenset(tracepoints.devices(fs_events, tracepoints.is_own()) if "tracepoint" in sources else ())
    commits = handles.commits(fs_events)
    for window in linked.windows():
        requests = rwbs.with_recorded_flags(window.requests, staging.flags)
        window = replace(window, requests=requests)
        pieces = extents.pieces(window, mapping.extents, mapping.files, marking, silent, with_events)
        yield handles.journalled(pieces, commits) if "tracepoint" in sources else pieces
        spool.append("requests", requests.with_columns(_within_one_segment(staging, ("queue_ns", "insert_ns"))))


def _owned(mapped: Iterator[pl.DataFrame], owners: owner.Owners, all_events: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The pieces with their owners. Where writers are recorded they wait until all events are read."""
    if not owners.asks_events:
        for pieces in mapped:
            yield owners.owned(owners.prepared(pieces)[0], None)
        return
    waiting, decided, outs = Shelf(), Shelf(), Spool()
    firsts: list[int] = []
    for pieces in mapped:
        prepared, written = owners.prepared(pieces)
        outs.append("outs", written)
        for part in _parts(prepared):
            waiting.put(len(firsts), part)
            firsts.append(int(part["at"][0]))
    parts = pl.Series(firsts, dtype=pl.Int64)
    written_out = batches(outs.table("outs"), owner.BATCH)
    for turns in owners.turns(all_events, written_out):
        of_part = turns.with_columns(part=parts.search_sorted(turns["piece"], "right").cast(pl.Int64) - 1)
        for (part,), rows in of_part.group_by("part"):
            decided.put(int(part), rows.drop("part"))
    for number in range(len(firsts)):
        pieces_of_part = waiting.take(number)
        assert pieces_of_part is not None
        yield owners.owned(pieces_of_part, decided.take(number))


def _parts(pieces: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The pieces cut between requests so that no part writes out too many blocks to have in memory."""
    pieces = pieces.with_columns(part=pl.col("nr_sectors").cum_sum() // _PART_SECTORS)
    of_request = pl.col("part").first().over("request_id")
    yield from pieces.with_columns(part=of_request).partition_by("part", maintain_order=True, include_key=False)


def _devices(linked: Requests) -> pl.Series:
    """The devices that filesystems put their requests to."""
    return linked.requests.select(pl.col("part_dev").unique()).collect(engine="streaming")["part_dev"]


def _of_only_device(linked: Requests, fs_type: str | None) -> dict[int, str]:
    """What filesystem the only device of the trace holds, if it is the only one and its recorder says so."""
    devices = _devices(linked).drop_nulls()
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


def classified(snapshot: AnySnapshot) -> AnySnapshot:
    """An image or a listing with the package of every file and its type: by name, and in an image by first bytes."""
    files = filetype.classify(snapshot.files, snapshot.heads if isinstance(snapshot, Filesystem) else None)
    return replace(snapshot, files=files.with_columns(package=filetype.package(pl.col("path"))))
