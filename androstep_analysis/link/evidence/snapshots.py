"""The evidence on a filesystem in addition to its events: images, listings, the journal, and names from fanotify."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from androstep_analysis.fs import Filesystem, tsk
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.entries import Entries

Snapshot = Filesystem | Listing
"""The state of a filesystem at one time: its image, or a listing of its tree."""

SOURCES = frozenset({"tracepoint", "image", "fiemap", "journal"})
"""Kinds of evidence."""

UNNUMBERED = ("vfat", "fat", "exfat")
"""Filesystems without inode numbers on disk (the beginning of `fs_type`)."""

_ATTRIBUTES = {
    "image_before": "before",
    "image_after": "after",
    "listing_before": "listed_before",
    "listing_after": "listed_after",
}
ROLES = frozenset(_ATTRIBUTES)
"""The roles of images and listings in a recording."""

OWN_NUMBERS = 1 << 48
"""The first inode number of an image's files where its numbers are not, or not certainly, those of the trace."""

_FIRST_INODE = {"ext": tracepoints_ext4.FIRST_INODE, "f2fs": tracepoints_f2fs.FIRST_INODE}
"""The first number that is not reserved, by the beginning of `fs_type`."""


@dataclass(frozen=True)
class Images:
    """The evidence on one filesystem in addition to its events. Files are classified.

    These are images from before and after the recording, listings of the mounted tree, the journal in the image after,
    and the names from fanotify. `proven` are the roles (`by_role`) of those whose statements on files the trace proves
    (`consistency`), and `placed` those whose metadata at fixed locations it proves.
    """

    before: Filesystem | None = None
    after: Filesystem | None = None
    listed_before: Listing | None = None
    listed_after: Listing | None = None
    journal: Journal | None = None
    names: Entries | None = None
    proven: frozenset[str] = ROLES
    placed: frozenset[str] = ROLES

    @property
    def by_role(self) -> dict[str, Snapshot]:
        """Images and listings by the role of their source."""
        snapshots = {role: getattr(self, attribute) for role, attribute in _ATTRIBUTES.items()}
        return {role: snapshot for role, snapshot in snapshots.items() if snapshot is not None}

    @property
    def last(self) -> Snapshot | None:
        return self.after or self.listed_after

    def of_sources(self, sources: frozenset[str]) -> Images:
        """Return the evidence of these kinds (`SOURCES`). Files of unnumbered filesystems get numbers of their own.

        Names from fanotify count as `tracepoint`, because only the trace identifies their files.
        """
        absent = {
            "image": ("before", "after"),
            "fiemap": ("listed_before", "listed_after"),
            "tracepoint": ("names",),
            "journal": ("journal",),
        }
        changes: dict[str, Any] = {
            attribute: None for source, names in absent.items() if source not in sources for attribute in names
        }
        return replace(self.renumbered(role for role, one in self.by_role.items() if not is_numbered(one)), **changes)

    def renumbered(self, roles: Iterable[str]) -> Images:
        """Give the files of images numbers from `OWN_NUMBERS` on, and those of listings from twice that on.

        Reserved numbers do not change: the root and the journal have the same ones on every filesystem of a type.
        """
        by_role = self.by_role
        changes: dict[str, Any] = {_ATTRIBUTES[role]: _renumbered(by_role[role]) for role in roles}
        return replace(self, **changes)

    @property
    def placed_filesystems(self) -> list[Filesystem]:
        """The images whose fixed metadata have proven locations, the latest first."""
        images = {"image_after": self.after, "image_before": self.before}
        return [image for role, image in images.items() if image is not None and role in self.placed]

    @property
    def block_bytes(self) -> dict[int, int]:
        """The block size by device, from the latest `placed` image, or else from the latest `placed` listing."""
        latest_last = ("listing_before", "listing_after", "image_before", "image_after")
        by_role = {role: one for role, one in self.by_role.items() if role in self.placed}
        return {by_role[role].dev: by_role[role].block_bytes for role in latest_last if role in by_role}

    @property
    def fs_types(self) -> dict[int, str]:
        """The filesystem by device, from the earliest image, or else from the earliest listing."""
        latest_first = (self.listed_after, self.listed_before, self.after, self.before)
        return {one.dev: one.fs_type for one in latest_first if one is not None and one.fs_type}


def is_numbered(snapshot: Snapshot) -> bool:
    """Return whether the inode numbers of a snapshot are certainly those of the trace."""
    is_foreign = isinstance(snapshot, Filesystem) and snapshot.fs_type in tsk.FS_TYPES
    return not is_foreign and not (snapshot.fs_type or "").startswith(UNNUMBERED)


def _renumbered(snapshot: Snapshot) -> Snapshot:
    is_image = isinstance(snapshot, Filesystem)
    fs_type = snapshot.fs_type or ""
    first = next((first for prefix, first in _FIRST_INODE.items() if fs_type.startswith(prefix)), 0)
    apart = pl.col("ino") + (OWN_NUMBERS if is_image else 2 * OWN_NUMBERS)
    number = pl.when(pl.col("ino") >= first).then(apart).otherwise("ino")
    tables = ("extents", "files", "times", *(("first_bytes",) if is_image else ()))
    return replace(snapshot, **{name: getattr(snapshot, name).with_columns(number) for name in tables})
