"""Checks of identity: the kind of filesystem, its journal, its age, and the boot of a listing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.fs import tsk
from androstep_analysis.fs.fiemap import Listing
from androstep_analysis.link.evidence import incarnations, journals
from androstep_analysis.link.evidence.consistency.trace import CLOCK_NS, family
from androstep_analysis.link.evidence.consistency.verdict import CHANCE, Comparison, Tally


def events_of_other_filesystem(comparison: Comparison) -> Tally:
    own = comparison.trace.events.filter(pl.col("dev") == comparison.trace.dev)
    events = own.select(pl.col("event").unique().cast(pl.String)).collect()["event"].sort()
    other = next((event for event in events if family(event) not in ("", comparison.family)), None)
    return Tally(contradictions=int(other is not None and comparison.family != ""), detail=other)


def mounted_as_other_filesystem(comparison: Comparison) -> Tally:
    mounted = comparison.trace.stated.fs_types.get(comparison.trace.dev, "")
    families = {family(mounted), comparison.family}
    return Tally(contradictions=int(len(families) > 1 and "" not in families), detail=mounted)


def other_block_size(comparison: Comparison) -> Tally:
    """Compare the block sizes. FAT and foreign filesystems have no certain one."""
    block_bytes = comparison.trace.stated.block_bytes.get(comparison.trace.dev)
    is_compared = block_bytes is not None and comparison.family not in ("fat", *tsk.FS_TYPES)
    return Tally(contradictions=int(is_compared and block_bytes != comparison.snapshot.block_bytes), detail=block_bytes)


def made_later(comparison: Comparison) -> Tally:
    """Compare the time of mkfs with the end of the recording."""
    span = comparison.trace.span_epoch_ns
    is_later = span is not None and (comparison.image.made_epoch_ns or 0) > span[1] + CLOCK_NS
    return Tally(contradictions=int(is_later))


def changed_later(comparison: Comparison) -> Tally:
    """Compare the times of files in an image before with the end of the recording."""
    span = comparison.trace.span_epoch_ns
    times = comparison.image.times.select(pl.max("changed_epoch_ns", "created_epoch_ns")).row(0)
    newest = max((time for time in times if time is not None), default=0)
    return Tally(contradictions=int(span is not None and newest > span[1] + 60 * CLOCK_NS))


def younger_than_after(before: Comparison, after: Comparison) -> Tally:
    """Compare the journals or checkpoints of two images, or the times of two listings."""
    first, last = before.snapshot, after.snapshot
    if isinstance(first, Listing) and isinstance(last, Listing):
        return Tally(contradictions=int(first.first_ns > last.first_ns))
    older, newer = before.image.version, after.image.version
    return Tally(contradictions=int(older is not None and newer is not None and older > newer))


def other_than_after(before: Comparison, after: Comparison) -> Tally:
    return Tally(contradictions=int(before.family != after.family))


def commits_before(comparison: Comparison) -> Tally:
    """Count the recording's transactions that an image before has; if it lacks others, it is too young."""
    counts = _commits(comparison)
    if counts is None:
        return Tally()
    if counts.lacking and counts.is_of_filesystem:
        return Tally(age=counts.total - counts.lacking)
    return Tally(contradictions=max(counts.total - 2 * counts.lacking, 0))


def commits_after(comparison: Comparison) -> Tally:
    """Count the recording's transactions that the journal of an image after has at the same time, or does not have."""
    counts = _commits(comparison)
    if counts is None:
        return Tally()
    is_older = counts.lacking > counts.differing
    detail = "committed the recording's transactions at other times"
    if counts.is_of_filesystem:
        return Tally(counts.agreeing, counts.differing, age=counts.lacking if is_older else 0, detail=detail)
    if is_older:
        detail = "lacks transactions of the recording: it is older (are before and after swapped?)"
    return Tally(counts.agreeing, counts.differing + counts.lacking, detail=detail)


class _Commits(NamedTuple):
    """The traced transactions: all, not in the image's journal, and there at the same or another time."""

    total: int
    lacking: int
    agreeing: int
    differing: int
    is_of_filesystem: bool
    """Whether the image is certainly of the recorded filesystem, at whatever time."""


def _commits(comparison: Comparison) -> _Commits | None:
    image, trace = comparison.image, comparison.trace
    if image.version is None or image.commits is None:
        return None
    committed = image.commits.unique("transaction", keep="last")
    rows = journals.commits(trace.events).drop_nulls("end_ns").join(committed, on="transaction", how="left")
    recorded_offset = offset = trace.staging.realtime_offset_ns
    if offset is None:
        offset = _most_common_offset(rows.select(pl.col("epoch_ns") - pl.col("end_ns")).to_series().drop_nulls())
    begin, end = (pl.coalesce(edge, "end_ns") + pl.lit(offset, pl.Int64) for edge in ("start_ns", "end_ns"))
    agrees, may_agree = (
        pl.col("epoch_ns").is_between(begin - difference_ns, end + difference_ns)
        for difference_ns in (trace.tolerance_ns, trace.limit_ns)
    )
    there = rows.filter(pl.col("transaction") <= image.version)
    agreeing, differing = there.filter(agrees).height, there.filter(~may_agree).height
    is_of_filesystem = agreeing > CHANCE and recorded_offset is not None
    return _Commits(rows.height, rows.height - there.height, agreeing, differing, is_of_filesystem)


def _most_common_offset(differences: pl.Series) -> int | None:
    """Return the greatest of the differences within the clock tick that has most; None if none has three."""
    ordered = differences.sort().to_numpy()
    if len(ordered) < 3:
        return None
    count = np.searchsorted(ordered, ordered + incarnations.TICK_NS, "right") - np.arange(len(ordered))
    best = int(np.argmax(count))
    return int(ordered[best + count[best] - 1]) if count[best] >= 3 else None


def boot(comparison: Comparison) -> Tally:
    """Compare CLOCK_REALTIME minus the trace's clock, which differs between boots."""
    listing, staging = comparison.snapshot, comparison.trace.staging
    if not isinstance(listing, Listing) or staging.realtime_offset_ns is None or staging.clock not in ("mono", "boot"):
        return Tally()
    clock_offset = listing.monotonic_offset_ns if staging.clock == "mono" else 0
    if clock_offset is None:
        return Tally()
    difference = listing.realtime_offset_ns - clock_offset - staging.realtime_offset_ns
    return Tally(agreements=int(abs(difference) <= CLOCK_NS))
