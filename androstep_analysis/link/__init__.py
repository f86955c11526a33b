"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import extents, filetype, images, owner, requests

__all__ = ["Images", "classified", "tables"]


@dataclass(frozen=True)
class Images:
    """The images of one filesystem that belong to a recording, with their files classified."""

    before: Filesystem | None = None
    after: Filesystem | None = None


def tables(staging: Staging, linked: requests.Linked, given: Images) -> dict[str, pl.DataFrame]:
    """Every table that follows from a recording, its requests (`requests.link`) and the images of its filesystem.

    Keys block_events, tasks, requests, extents, files and io; without images `extents` and `files` are empty and all
    that the recording does not state itself is unknown.
    """
    files, mapped = schema.empty("files"), schema.empty("extents")
    if given.before is not None or given.after is not None:
        evidence = images.evidence(given.before, given.after, staging.realtime_offset_ns)
        files, mapped = evidence.files, evidence.extents
    owners = owner.owners(linked.bios, staging.tasks)
    return {
        "block_events": schema.conform(staging.block, "block_events"),
        "tasks": schema.conform(staging.tasks, "tasks"),
        "requests": linked.requests,
        "extents": mapped,
        "files": files,
        "io": extents.pieces(linked, mapped, files, owners),
    }


def classified(filesystem: Filesystem) -> Filesystem:
    """The filesystem with the type of every file told, by name and first bytes (`filetype.classify`)."""
    return replace(filesystem, files=filetype.classify(filesystem.files, filesystem.heads))
