"""Decide which statements of an image hold for a recording that began later, or had ended.

Days may lie between an image before and the recording. Files that changed meanwhile have other blocks, names and
numbers.

| evidence | the image is older if | statements hold of files with one time of change in |
|---|---|---|
| a listing before of the whole tree | a file changed, appeared or disappeared between them | both |
| otherwise, the transactions of ext4 | one is missing between image and recording | it and a later listing or image |
| none (other filesystems) | never: it counts as of the begin | |

Mounting a filesystem and opening its first file takes one transaction (`s_last_mounted`), which changes no file.

Days may also lie between the recording and an image after. A rename sets the time of change of what it moves and of the
directory that it moves it to (ext4_rename, f2fs_rename). The path of a file is therefore one of the recording unless
the file and its directory changed since, or a directory above and that above it. The clock of these times lags by up to
a tick.
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


def changed_since_end(snapshots: Images, staging: Staging) -> pl.Series:
    """Return the inodes that may have got their name in the image after since the end of the recording.

    They are unknown, and none is returned, if the image has no times of change that can be compared with the recording.
    """
    image, none = snapshots.after, pl.Series("ino", [], pl.Int64)
    if image is None or not is_numbered(image) or staging.realtime_offset_ns is None or staging.last_ns is None:
        return none
    end = staging.last_ns + staging.realtime_offset_ns - incarnations.TICK_NS
    changed = image.times.filter(pl.col("changed_epoch_ns") > end).select("ino")
    named = image.files.drop_nulls("path").select("ino", "path", depth=pl.col("path").str.count_matches("/"))
    since = named.join(changed, on="ino", how="semi").select("path")
    # The directory of /name is /, whose path here is empty.
    above = since.with_columns(path=pl.col("path").str.strip_suffix("/"))
    moved = since.filter(pl.col("path").str.replace(r"/[^/]*$", "").is_in(above["path"].implode()))
    if moved.is_empty():
        return none
    upto = pl.int_ranges(2, pl.col("depth") + 2)
    parents = named.with_columns(upto=upto).explode("upto").drop_nulls("upto")
    parents = parents.with_columns(path=pl.col("path").str.split("/").list.head("upto").list.join("/"))
    return parents.join(moved, on="path", how="semi")["ino"].unique()


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
