"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import polars as pl

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem, tracepoints
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import blocksize, consistency, evidence, extents, filetype, handles, owner
from androstep_analysis.link.consistency import Stated
from androstep_analysis.link.given import SOURCES, Images
from androstep_analysis.link.requests import Requests

__all__ = ["SOURCES", "Images", "classified", "tables"]

Known = TypeVar("Known", Filesystem, Listing)


def tables(
    staging: Staging,
    linked: Requests,
    given: Images,
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
    shows it; `block_bytes` the size of the blocks of that filesystem, `fs_types` its type, `nr_sectors` the size of the
    device. The block size is also taken from the images and listings, whatever `sources` says; else the requests may
    prove it (`blocksize`).

    In memory are all filesystem events; and all requests only if some of those events tell who wrote what.
    """
    fs_events = tracepoints.on_filesystems(staging.fs_events.collect(), linked.requests)
    staging = staging.with_tables(fs_events=fs_events)
    stated = Stated(fs_types or {}, block_bytes or {}, nr_sectors or {})
    given, standings = consistency.weighed(given, staging, linked.requests, stated)
    sizes = {**(block_bytes or {}), **given.block_bytes}
    sizes = blocksize.known(sizes, linked) if fs_events.height else sizes
    known = evidence.evidence(given, staging, sizes, sources, mounts)
    tasks = schema.empty("tasks") if staging.tasks is None else staging.tasks
    ext4 = fs_events.filter(pl.col("event").cast(pl.String).str.starts_with("ext4_"))["dev"].drop_nulls().unique()
    has_writers = not owner.touches(fs_events).is_empty()
    for window in [linked.joined()] if has_writers else linked.windows():
        pieces = extents.pieces(window, known.extents, known.files, frozenset(ext4))
        if "tracepoint" in sources:
            pieces = handles.journalled(pieces, fs_events)
        pieces = owner.owned(pieces, fs_events, tasks, sizes, staging.lost, staging.recorded or frozenset())
        spool.append("requests", window.requests)
        spool.append("io", extents.table(pieces if staging.has_flags else extents.without_flags(pieces)))
    return {
        "tasks": schema.conform(tasks, "tasks").lazy(),
        "requests": spool.table("requests"),
        "extents": known.extents.lazy(),
        "files": known.files.lazy(),
        "io": spool.table("io"),
        "comparison": consistency.table(standings).lazy(),
    }


def classified(known: Known) -> Known:
    """An image or a listing with the package of every file and its type: by name, and in an image by first bytes."""
    files = filetype.classify(known.files, known.heads if isinstance(known, Filesystem) else None)
    return replace(known, files=files.with_columns(package=filetype.package(pl.col("path"))))
