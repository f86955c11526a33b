"""What is known of a filesystem besides its events: images, listings and the journal, as a caller gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.fs import Filesystem, tsk
from androstep_analysis.fs.ext4 import tracepoints as tracepoints_ext4
from androstep_analysis.fs.ext4.journal import Journal
from androstep_analysis.fs.f2fs import tracepoints as tracepoints_f2fs
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.entries import Entries

Snapshot = Filesystem | Listing
"""What is known of a filesystem at one instant: its image, or a listing of its tree."""

SOURCES = frozenset({"tracepoint", "image", "fiemap", "journal"})
"""Kinds of evidence."""

UNNUMBERED = ("vfat", "fat", "exfat")
"""Such filesystems (the beginning of `fs_type`)."""

_NAMES = {
    "image_before": "before",
    "image_after": "after",
    "listing_before": "listed_before",
    "listing_after": "listed_after",
}
ROLES = frozenset(_NAMES)
"""What a snapshot can be to a recording: the roles of their sources."""

OWN_NUMBERS = 1 << 48
"""Where the numbers of an image's files begin where they are not the trace's (`is_numbered`), or not proven to be."""

_FIRST_INODE = {"ext": tracepoints_ext4.FIRST_INODE, "f2fs": tracepoints_f2fs.FIRST_INODE}
"""The first number that is not reserved, by the beginning of `fs_type`."""


@dataclass(frozen=True)
class Images:
    """What belongs to a recording of one filesystem besides its events, with files classified.

    Images taken `before` and `after`, listings of the mounted tree (`listed_before`, `listed_after`), the journal in
    the image after, and the `names` that fanotify told. Of those whose roles (`by_role`) are not in `proven` the trace
    does not prove what they say of files, of those not in `placed` neither what they say of metadata at fixed places
    (`consistency`).
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
        parts = {role: getattr(self, name) for role, name in _NAMES.items()}
        return {role: part for role, part in parts.items() if part is not None}

    def of(self, sources: frozenset[str]) -> Images:
        """The evidence of these kinds (`SOURCES`), files of unnumbered filesystems with numbers of their own.

        What fanotify told is of the trace's kind: which of its files are meant only the trace tells.
        """
        unnumbered = [role for role, one in self.by_role.items() if not is_numbered(one)]
        snapshots = self.numbered_apart(unnumbered)
        if "image" not in sources:
            snapshots = replace(snapshots, before=None, after=None)
        if "fiemap" not in sources:
            snapshots = replace(snapshots, listed_before=None, listed_after=None)
        if "tracepoint" not in sources:
            snapshots = replace(snapshots, names=None)
        return snapshots if "journal" in sources else replace(snapshots, journal=None)

    def numbered_apart(self, roles: Iterable[str]) -> Images:
        """The evidence with the files of these snapshots numbered from `OWN_NUMBERS` on, listings apart from images.

        Reserved numbers stay: root and journal have the same on every filesystem of a type.
        """
        by_role = self.by_role
        changed = {_NAMES[role]: _numbered_apart(by_role[role]) for role in roles}
        return replace(self, **changed)  # type: ignore[arg-type]

    @property
    def filesystems(self) -> list[Filesystem]:
        """The images there are, the latest first."""
        return [image for image in (self.after, self.before) if image is not None]

    @property
    def placed_filesystems(self) -> list[Filesystem]:
        """Those images, the latest first, whose fixed metadata the trace proves to lie where they say."""
        parts = {"image_after": self.after, "image_before": self.before}
        return [image for role, image in parts.items() if image is not None and role in self.placed]

    @property
    def listings(self) -> list[Listing]:
        """The listings there are, the latest first."""
        return [listing for listing in (self.listed_after, self.listed_before) if listing is not None]

    @property
    def block_bytes(self) -> dict[int, int]:
        """The block size of the filesystem by device, as the latest image or else listing tells it that is `placed`."""
        latest_last = ("listing_before", "listing_after", "image_before", "image_after")
        by_role = self.by_role
        return {
            by_role[role].dev: by_role[role].block_bytes
            for role in latest_last
            if role in by_role and role in self.placed
        }

    @property
    def fs_types(self) -> dict[int, str]:
        """The filesystem by device."""
        by_listing = {listing.dev: listing.fs_type for listing in self.listings if listing.fs_type}
        return by_listing | {int(image.extents["dev"][0]): image.fs_type for image in self.filesystems}


def is_numbered(one: Snapshot) -> bool:
    """Whether the numbers that the snapshot gives to files are certainly those by which the trace speaks of them."""
    is_foreign = isinstance(one, Filesystem) and one.fs_type in tsk.FS_TYPES
    return not is_foreign and not (one.fs_type or "").startswith(UNNUMBERED)


def _numbered_apart(one: Snapshot) -> Snapshot:
    is_image = isinstance(one, Filesystem)
    first = next((first for fs_type, first in _FIRST_INODE.items() if (one.fs_type or "").startswith(fs_type)), 0)
    apart = pl.col("ino") + (OWN_NUMBERS if is_image else 2 * OWN_NUMBERS)
    number = pl.when(pl.col("ino") >= first).then(apart).otherwise("ino")
    tables = ("extents", "files", "times", *(("first_bytes",) if is_image else ()))
    return replace(one, **{name: getattr(one, name).with_columns(number) for name in tables})
