"""Attribute block I/O: join requests, filesystem extents and tasks to the tables `requests` and `io`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest import clock
from androstep_analysis.ingest.spool import Spool, batches, on_disk
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import evidence, extents, inferred, owner
from androstep_analysis.link.evidence import consistency, filetype, remade
from androstep_analysis.link.evidence.consistency import Stated
from androstep_analysis.link.evidence.snapshots import SOURCES, Images
from androstep_analysis.link.extents import blocksize, pagesize
from androstep_analysis.link.owner import handles, processes
from androstep_analysis.link.requests import Requests, rwbs
from androstep_analysis.link.spill import PartitionSpill
from androstep_analysis.link.swap import Swap

__all__ = ["SOURCES", "Images", "classified", "tables"]

_PARTITION_SECTORS = 1 << 21
"""Owners are decided for so many sectors at a time: a quarter of a million blocks of 4 KiB."""

AnySnapshot = TypeVar("AnySnapshot", Filesystem, Listing)


class _Recording(NamedTuple):
    """A recording whose events are prepared for attribution."""

    linked: Requests
    devices: pl.Series
    """The devices to which filesystems submit their requests."""
    staging: Staging
    """`fs_events` without repetitions, and with incarnations."""
    all_events: pl.LazyFrame
    """Table fs_events with repetitions, and without incarnations."""
    page_events: pl.LazyFrame
    """The same, with dirtying events of a shared disk on each of its filesystems (`tracepoints.on_each_filesystem`)."""
    kinds: pl.DataFrame
    """The kinds of events of each device (`tracepoints.kinds`)."""
    disks: dict[int, list[int]]
    page_bytes: int | None

    @property
    def fs_events(self) -> pl.LazyFrame:
        return self.staging.fs_events

    @property
    def recorded(self) -> frozenset[str]:
        return self.staging.recorded or frozenset()


def tables(
    staging: Staging,
    linked: Requests,
    snapshots: Images,
    spool: Spool,
    *,
    sources: frozenset[str] = SOURCES,
    mounts: Mapping[int, str] | None = None,
    swaps: Iterable[Mapping[str, Any]] = (),
    block_bytes: Mapping[int, int] | None = None,
    fs_types: Mapping[int, str] | None = None,
    nr_sectors: Mapping[int, int] | None = None,
) -> dict[str, pl.LazyFrame]:
    """Return every table that follows from a recording, its requests (`requests.link`), and images of its filesystems.

    The keys are tasks, requests, extents, files, io, comparison: how far images and listings agree with the trace
    (`consistency.table`), and servers (`Owners.servers`). Requests and io are stored in `spool`. What no evidence shows
    is unknown. Raises `InputError` if an image or a listing contradicts the trace.

    `sources` are the kinds of evidence that may map blocks and name files; owners are always decided from the events.
    By device, `mounts` has the mount point, to resolve the paths in events without an image, and `fs_types`,
    `block_bytes` and `nr_sectors` type, block size and size of the filesystem. Type and block size are also taken from
    images and listings, whatever `sources` is, or are proven by the events (`tracepoints.filesystems`, `blocksize`).
    `swaps` are the swap spaces that were in use all the time.

    In memory are the facts that the events of filesystems prove, and the state of the pages in the cache.
    """
    recording = _prepare_events(staging, linked)
    reported = Stated(fs_types or {}, block_bytes or {}, nr_sectors or {}, recording.page_bytes)
    requests = rwbs.with_recorded_flags(linked.requests, staging.flags)
    others = remade.times(recording.fs_events, requests)
    images, checks = consistency.compare(
        snapshots, recording.staging, recording.all_events, linked.requests, reported, others
    )
    types, sizes = _classify_devices(recording, images, reported)
    one_size = _sizes_of_filesystems(recording, images, reported, others, sizes)
    mapping = evidence.evidence(
        *(images, recording.staging, recording.kinds, recording.all_events, linked.requests),
        *(sizes, sources, mounts, types),
        page_bytes=recording.page_bytes,
        others=others,
        one_size=one_size,
    )
    tasks = schema.empty("tasks") if staging.tasks is None else staging.tasks
    homes = _homes(recording, types) if "tracepoint" in sources else {}
    threads = processes.Processes(tasks)
    issuers = inferred.issuers(linked.requests, staging.block, threads, inferred.with_pages(recording.kinds, homes))
    placing = inferred.with_placements(recording.kinds)
    inferred_runs = _infer(recording, homes, {**sizes.inferred, **sizes.facts}, threads)
    swap = Swap(swaps, recording.page_bytes)
    owners = _owners(recording, sizes.facts, threads)
    mapped = _map_requests(recording, mapping, sources, owners.transactions.commits, swap, spool)
    for pieces in _decide_owners(mapped, owners, recording.page_events):
        filled = inferred.with_issuers(inferred.applied(pieces, inferred_runs, mapping.files, placing), issuers)
        filled = swap.without_writers(extents.with_inferred_names(filled, mapping.renamed))
        spool.append("io", extents.table(filled.with_columns(_timed(staging, ("queue_ns",)))))
    return {
        "tasks": schema.conform(tasks, "tasks").lazy(),
        "requests": spool.table("requests"),
        "extents": mapping.extents.lazy(),
        "files": mapping.files_marked.lazy(),
        "io": spool.table("io"),
        "comparison": consistency.table(checks).lazy(),
        "servers": owners.servers.lazy(),
    }


def _prepare_events(staging: Staging, linked: Requests) -> _Recording:
    """Return the recording with each event on the device of its filesystem, counted in pages, and numbered."""
    disks = tracepoints.on_disks(staging.fs_events, linked.requests)
    fs_events, recorded = staging.fs_events, staging.recorded or frozenset()
    if clock.is_mixed(staging.losses):  # events without a common order prove nothing
        fs_events, recorded = schema.empty("fs_events").lazy(), frozenset()
    events = tracepoints.on_filesystems(fs_events, disks)
    page_bytes = pagesize.proven(staging.facts.get("page_bytes"), events)
    events = pagesize.counted(events, page_bytes)
    page_events = events
    if tracepoints.sharing(disks):
        page_events = pagesize.counted(tracepoints.on_each_filesystem(fs_events, disks), page_bytes)
    incarnations = tracepoints.Incarnations(events, recorded)
    numbered = on_disk(map(incarnations.added, tracepoints.without_repetitions(events)))
    prepared = replace(staging.with_tables(fs_events=numbered), recorded=recorded)
    devices = linked.requests.select(pl.col("part_dev").unique()).collect(engine="streaming")["part_dev"].drop_nulls()
    return _Recording(linked, devices, prepared, events, page_events, tracepoints.kinds(numbered), disks, page_bytes)


def _classify_devices(
    recording: _Recording, images: Images, reported: Stated
) -> tuple[dict[int, str], blocksize.Sizes]:
    """Return type and block size of the filesystem of each device."""
    devices, fs_type = recording.devices, recording.staging.facts.get("fs_type")
    of_single = {int(devices[0]): fs_type} if fs_type is not None and len(devices) == 1 else {}
    types = {**of_single, **reported.fs_types, **images.fs_types}
    sizes = {**reported.block_bytes, **images.block_bytes}
    return types, blocksize.by_device(sizes, recording.linked, recording.all_events, recording.page_bytes)


def _sizes_of_filesystems(
    recording: _Recording, images: Images, reported: Stated, others: remade.Times, sizes: blocksize.Sizes
) -> dict[int, remade.Span]:
    """Return the span of each device with several filesystems (`others`) in which its blocks have one known size.

    This is the whole recording if the first and the last filesystem have the same size, else the time of the first one,
    or the time of the last one if only its size is known. Replaces the size in `sizes` if necessary.
    """
    spans: dict[int, remade.Span] = {}
    for dev, times in others.items():
        dated = {role: one for role, one in images.by_role.items() if one.dev == dev and role in images.placed}
        events = recording.all_events.filter(pl.col("dev") == dev)
        found = []
        for when, is_then in (("before", pl.col("ts_ns") < times[0]), ("after", pl.col("ts_ns") >= times[-1])):
            stated = [one.block_bytes for role, one in dated.items() if role.endswith(when)]
            if when == "before" and dev in reported.block_bytes:
                stated = [reported.block_bytes[dev]]
            proven = blocksize.by_device({}, recording.linked, events.filter(is_then), recording.page_bytes)
            found.append(stated[0] if stated else proven.facts.get(dev))
        first, last = found
        spans[dev] = (None, None) if first == last else (times[-1], None) if first is None else (None, times[0])
        size = last if first is None else first
        sizes.inferred.pop(dev, None)
        sizes.facts.pop(dev, None)
        if size is not None:
            sizes.facts[dev] = size
    return spans


def _map_requests(
    recording: _Recording,
    mapping: evidence.Evidence,
    sources: frozenset[str],
    commits: pl.DataFrame,
    swap: Swap,
    spool: Spool,
) -> Iterator[pl.DataFrame]:
    """Yield the pieces of all requests, in order, with their extents. Store the requests in `spool`."""
    staging, has_events, kinds = recording.staging, "tracepoint" in sources, recording.kinds
    marking = frozenset(tracepoints.devices(kinds, tracepoints.is_own("ext4")))
    without_frees = frozenset(tracepoints_ext4.without_frees(kinds, recording.recorded))
    with_events = frozenset(tracepoints.devices(kinds, tracepoints.is_own()) if has_events else ())
    for window in recording.linked.windows():
        requests = rwbs.with_recorded_flags(window.requests, staging.flags)
        window = replace(window, requests=requests)
        pieces = extents.pieces(window, mapping.extents, mapping.files, marking, without_frees, with_events)
        requests = swap.mark_requests(requests, pieces)
        yield handles.mark_journal_blocks(pieces, commits) if has_events else pieces
        spool.append("requests", requests.with_columns(_timed(staging, ("queue_ns", "insert_ns"))))


def _owners(recording: _Recording, sizes: Mapping[int, int], threads: processes.Processes) -> owner.Owners:
    """Return the rules of owners for this recording."""
    recorded = recording.recorded
    return owner.Owners(
        *(recording.fs_events, recording.kinds, threads, sizes, recording.staging.lost, recorded),
        page_bytes=recording.page_bytes,
        devices=owner.coverage.with_modifications(recording.devices, recording.kinds, recorded),
        sharing=tracepoints.sharing(recording.disks),
        page_events=recording.page_events,
    )


def _decide_owners(
    mapped: Iterator[pl.DataFrame], owners: owner.Owners, page_events: pl.LazyFrame
) -> Iterator[pl.DataFrame]:
    """Yield the pieces with their owners. If writers are recorded, the pieces wait on disk for the pass over events."""
    if not owners.needs_events:
        for pieces in mapped:
            yield owners.split(owners.prepare(pieces)[0], None)
        return
    waiting, intervals, writebacks = PartitionSpill(), PartitionSpill(), Spool()
    first_pieces: list[int] = []
    for pieces in mapped:
        prepared, written = owners.prepare(pieces)
        writebacks.append("writebacks", written)
        for partition in _partitioned(prepared):
            waiting.append(len(first_pieces), partition)
            first_pieces.append(int(partition["at"][0]))
    begins = pl.Series(first_pieces, dtype=pl.Int64)
    for rows in owners.attribute(page_events, batches(writebacks.table("writebacks"), owner.BATCH)):
        partition_of = begins.search_sorted(rows["piece"], "right").cast(pl.Int64) - 1
        for (index,), of_partition in rows.with_columns(partition=partition_of).group_by("partition"):
            intervals.append(int(index), of_partition.drop("partition"))
    for partition_index in range(len(first_pieces)):
        pieces_of_partition = waiting.pop(partition_index)
        assert pieces_of_partition is not None
        yield owners.split(pieces_of_partition, intervals.pop(partition_index))


def _partitioned(pieces: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the pieces in partitions with a limited number of sectors. Each request is in one partition."""
    partition = pl.col("partition")
    pieces = pieces.with_columns(partition=pl.col("nr_sectors").cum_sum() // _PARTITION_SECTORS)
    pieces = pieces.with_columns(partition.first().over("request_id"))
    yield from pieces.partition_by("partition", maintain_order=True, include_key=False)


def _homes(recording: _Recording, types: Mapping[int, str]) -> dict[int, int]:
    return inferred.homes(recording.kinds, recording.linked.requests, recording.recorded, types)


def _infer(
    recording: _Recording, homes: Mapping[int, int], sizes: Mapping[int, int], threads: processes.Processes
) -> pl.DataFrame:
    """Return the answers that are inferred where facts are missing (`inferred.runs`)."""
    fs_events, requests = recording.fs_events, recording.linked.requests
    return inferred.runs(
        *(recording.all_events, fs_events, requests, recording.staging.block, homes, sizes, recording.page_bytes),
        *(threads, recording.staging.lost),
    )


def _timed(staging: Staging, waits: tuple[str, ...]) -> list[pl.Expr]:
    """Return the times of requests (`_within_one_segment`), and their error."""
    error = staging.issue_error_ns
    if clock.is_mixed(staging.losses):
        error = max(1, (staging.last_ns or 0) - (staging.first_ns or 0))  # any order of the events is possible
    return [*_within_one_segment(staging, waits), pl.lit(error or None, pl.Int64).alias("issue_error_ns")]


def _within_one_segment(staging: Staging, waits: tuple[str, ...]) -> list[pl.Expr]:
    """Return the times of requests without those that lie before a jump of the clock if others lie after it.

    Thus no duration includes a jump. If the times are of several clocks, only the last one of each request remains.
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
    """Return an image or listing with package and type of every file: by name, and in an image also by first bytes."""
    files = filetype.classify(snapshot.files, snapshot.heads if isinstance(snapshot, Filesystem) else None)
    return replace(snapshot, files=files.with_columns(package=filetype.package(pl.col("path"))))
