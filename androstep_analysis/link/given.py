"""What is known of a filesystem besides its events: images, listings and the journal, as a caller gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from androstep_analysis.fs import Filesystem
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.fs.journal import Journal

Snapshot = Filesystem | Listing
"""What is known of a filesystem at one instant: its image, or a listing of its tree."""

SOURCES = frozenset({"tracepoint", "image", "fiemap", "journal"})
"""Kinds of evidence."""

UNNUMBERED = ("vfat", "fat", "exfat")
"""Such filesystems (the beginning of `fs_type`)."""

OWN_NUMBERS = 1 << 48
"""Where the numbers of an image's files begin on such filesystems, so that none is taken for one of the kernel's."""


@dataclass(frozen=True)
class Images:
    """What belongs to a recording of one filesystem besides its events, with files classified.

    Images taken `before` and `after`, listings of the mounted tree (`listed_before`, `listed_after`), and the journal
    in the image after.
    """

    before: Filesystem | None = None
    after: Filesystem | None = None
    listed_before: Listing | None = None
    listed_after: Listing | None = None
    journal: Journal | None = None

    def of(self, sources: frozenset[str]) -> Images:
        """The evidence of these kinds (`SOURCES`), files of unnumbered filesystems with numbers of their own."""
        has = {kind: kind in sources for kind in SOURCES}
        return Images(
            _own_numbers(self.before) if has["image"] else None,
            _own_numbers(self.after) if has["image"] else None,
            _listed_numbers(self.listed_before) if has["fiemap"] else None,
            _listed_numbers(self.listed_after) if has["fiemap"] else None,
            self.journal if has["journal"] else None,
        )

    @property
    def filesystems(self) -> list[Filesystem]:
        """The images there are, the latest first."""
        return [image for image in (self.after, self.before) if image is not None]

    @property
    def listings(self) -> list[Listing]:
        """The listings there are, the latest first."""
        return [listing for listing in (self.listed_after, self.listed_before) if listing is not None]

    @property
    def block_bytes(self) -> dict[int, int]:
        """The block size of the filesystem by device."""
        by_image = {int(image.extents["dev"][0]): image.block_bytes for image in self.filesystems}
        return {listing.dev: listing.block_bytes for listing in self.listings} | by_image

    @property
    def fs_types(self) -> dict[int, str]:
        """The filesystem by device."""
        by_listing = {listing.dev: listing.fs_type for listing in self.listings if listing.fs_type}
        return by_listing | {int(image.extents["dev"][0]): image.fs_type for image in self.filesystems}


def _own_numbers(image: Filesystem | None) -> Filesystem | None:
    """The image with its files numbered from `OWN_NUMBERS` on where the filesystem itself has no numbers."""
    if image is None or not image.fs_type.startswith(UNNUMBERED):
        return image
    number = pl.col("ino") + OWN_NUMBERS
    tables = ("extents", "files", "times", "first_bytes")
    return replace(image, **{name: getattr(image, name).with_columns(number) for name in tables})


def _listed_numbers(listing: Listing | None) -> Listing | None:
    """The listing, numbered as `_own_numbers`: the kernel may have given its numbers to other files since."""
    if listing is None or not (listing.fs_type or "").startswith(UNNUMBERED):
        return listing
    number = pl.col("ino") + 2 * OWN_NUMBERS
    tables = ("extents", "files", "times")
    return replace(listing, **{name: getattr(listing, name).with_columns(number) for name in tables})
