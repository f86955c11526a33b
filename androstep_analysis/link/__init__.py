"""Joining: block events, filesystem extents and tasks become the tables `requests` and `io`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from androstep_analysis import schema
from androstep_analysis.fs import Filesystem
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import extents, filetype, images, owner, requests

__all__ = ["Images", "tables"]


@dataclass(frozen=True)
class Images:
    """The images of one filesystem that belong to a recording."""

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
        files, mapped = _classified(evidence.files, given), evidence.extents
    owners = owner.owners(linked.bios, staging.tasks)
    return {
        "block_events": schema.conform(staging.block, "block_events"),
        "tasks": schema.conform(staging.tasks, "tasks"),
        "requests": linked.requests,
        "extents": mapped,
        "files": files,
        "io": extents.pieces(linked, mapped, files, owners),
    }


def _classified(files: pl.DataFrame, given: Images) -> pl.DataFrame:
    """The files with their types; the first bytes of a file come from the image that holds it."""
    parts = [
        filetype.classify(files.filter(pl.col("source") == source), image.heads) for source, image in _by_source(given)
    ]
    return pl.concat(parts).sort("dev", "ino", "incarnation")


def _by_source(given: Images) -> Iterator[tuple[str, Filesystem]]:
    if given.before is not None:
        yield "image_before", given.before
    if given.after is not None:
        yield "image_after", given.after
