"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem, tracepoints
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

    Keys block_events, fs_events, tasks, requests, extents, files and io; all that neither the recording nor an image
    tells is unknown.
    """
    fs_events = tracepoints.on_filesystems(staging.fs_events, linked.requests)
    # Events that the file should hold and does not are as lost as those that the recorder dropped.
    missing = sum(loss.count for loss in staging.losses if loss.kind == "missing")
    staging = replace(staging, fs_events=fs_events, lost_events=staging.lost_events + missing)
    evidence = images.evidence(given.before, given.after, staging)
    block_bytes = {
        int(image.extents["dev"][0]): image.block_bytes for image in (given.before, given.after) if image is not None
    }
    pieces = extents.pieces(linked, evidence.extents, evidence.files)
    return {
        "block_events": schema.conform(staging.block, "block_events"),
        "fs_events": schema.conform(fs_events, "fs_events"),
        "tasks": schema.conform(staging.tasks, "tasks"),
        "requests": linked.requests,
        "extents": evidence.extents,
        "files": evidence.files,
        "io": extents.table(owner.owned(pieces, fs_events, staging.tasks, block_bytes, staging.lost_events)),
    }


def classified(filesystem: Filesystem) -> Filesystem:
    """The filesystem with the type of every file told, by name and first bytes, and the package it belongs to."""
    files = filetype.classify(filesystem.files, filesystem.heads)
    return replace(filesystem, files=files.with_columns(package=filetype.package(pl.col("path"))))
