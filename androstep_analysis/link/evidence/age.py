"""Decide which statements of an image before the recording still hold at its begin.

Days may lie between the image and the recording. Files that changed meanwhile have other blocks, names and numbers.

| evidence | the image is older if | statements hold of files with one time of change in |
|---|---|---|
| a listing before of the whole tree | a file changed, appeared or disappeared between them | both |
| otherwise, the transactions of ext4 | one is missing between image and recording | it and a later listing or image |
| none (other filesystems) | never: it counts as of the begin | |

Mounting a filesystem and opening its first file takes one transaction (`s_last_mounted`), which changes no file.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.fs import Filesystem
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link.evidence import incarnations, journals
from androstep_analysis.link.evidence.images import unchanged
from androstep_analysis.link.evidence.snapshots import Images, is_numbered

OF_MOUNTING = 1
"""Transactions that change no file, after the filesystem was mounted."""


def unchanged_until_begin(snapshots: Images, staging: Staging, lifetimes: pl.DataFrame) -> pl.Series | None:
    """Return the inodes of which the image before states what they were at the begin; None: all, it is not older."""
    image, listing = snapshots.before, snapshots.listed_before
    if image is None or not is_numbered(image):
        return None
    if listing is not None and "listing_before" in snapshots.proven and "/" in listing.roots:
        is_older = _differs(image, listing, staging, lifetimes)
    else:
        is_older = _lacks_transactions(image, staging)
    if not is_older:
        return None
    by_role = snapshots.by_role
    later = (by_role[role] for role in ("listing_before", "image_after", "listing_after") if role in snapshots.proven)
    same = [unchanged(image.times, one.times)["ino"] for one in later]
    return pl.concat([pl.Series("ino", [], pl.Int64), *same]).unique()


def _differs(image: Filesystem, listing: Listing, staging: Staging, lifetimes: pl.DataFrame) -> bool:
    """Return whether a file changed, appeared or disappeared between the image and the begin of the recording."""
    same = unchanged(image.times, listing.times)["ino"].implode()
    times = listing.times.filter(~pl.col("ino").is_in(same))
    if staging.realtime_offset_ns is not None and staging.first_ns is not None:
        begin = staging.first_ns + staging.realtime_offset_ns - incarnations.TICK_NS
        times = times.filter(pl.col("changed_epoch_ns") < begin)
    deleted = lifetimes.filter(pl.col("incarnation") == 0, pl.col("end_ns").is_not_null())["ino"].implode()
    named = image.files.filter(pl.col("path").is_not_null(), ~pl.col("ino").is_in(deleted))
    return times.height > 0 or named.filter(~pl.col("ino").is_in(listing.times["ino"].implode())).height > 0


def _lacks_transactions(image: Filesystem, staging: Staging) -> bool:
    """Return whether the filesystem had transactions between the image and the first one of the recording."""
    if image.version is None or not image.fs_type.startswith("ext"):
        return False
    first = journals.commits(staging.fs_events).filter(dev=image.dev)["transaction"].min()
    return isinstance(first, int) and first - image.version - 1 > OF_MOUNTING
