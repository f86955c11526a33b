"""Checks of identity: the kind of filesystem, its journal, its age, and the boot of a listing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.fs import Filesystem, tracepoints, tsk
from androstep_analysis.link.evidence import incarnations
from androstep_analysis.link.evidence.consistency.subject import CLOCK_NS, Subject, Tally, family
from androstep_analysis.link.evidence.consistency.verdict import CHANCE


def events_of_other_filesystem(subject: Subject) -> Tally:
    own = subject.trace.events.filter(pl.col("dev") == subject.trace.dev)
    events = own.select(pl.col("event").unique().cast(pl.String)).collect()["event"].sort()
    other = next((event for event in events if family(event) not in ("", subject.family)), None)
    return Tally(contradictions=int(other is not None and subject.family != ""), detail=other)


def mounted_as_other_filesystem(subject: Subject) -> Tally:
    mounted = subject.trace.stated.fs_types.get(subject.trace.dev, "")
    families = {family(mounted), subject.family}
    return Tally(contradictions=int(len(families) > 1 and "" not in families), detail=mounted)


def other_block_size(subject: Subject) -> Tally:
    """Compare the block sizes. FAT and foreign filesystems have no certain one."""
    block_bytes = subject.trace.stated.block_bytes.get(subject.trace.dev)
    is_compared = block_bytes is not None and subject.family not in ("fat", *tsk.FS_TYPES)
    return Tally(contradictions=int(is_compared and block_bytes != subject.snapshot.block_bytes), detail=block_bytes)


def made_later(subject: Subject) -> Tally:
    """Compare the time of mkfs with the end of the recording."""
    span = subject.trace.span_epoch_ns
    is_later = span is not None and (subject.image.made_epoch_ns or 0) > span[1] + CLOCK_NS
    return Tally(contradictions=int(is_later))


def changed_later(subject: Subject) -> Tally:
    """Compare the times of files in an image before with the end of the recording."""
    span = subject.trace.span_epoch_ns
    times = subject.image.times.select(pl.max("changed_epoch_ns", "created_epoch_ns")).row(0)
    newest = max((time for time in times if time is not None), default=0)
    return Tally(contradictions=int(span is not None and newest > span[1] + 60 * CLOCK_NS))


def younger_than_after(before: Subject, after: Subject) -> Tally:
    """Compare the journals or checkpoints of two images, or the times of two listings."""
    first, last = before.snapshot, after.snapshot
    if isinstance(first, Filesystem) and isinstance(last, Filesystem):
        is_younger = first.version is not None and last.version is not None and first.version > last.version
    else:
        is_younger = before.listing.first_ns > after.listing.first_ns
    return Tally(contradictions=int(is_younger))


def other_than_after(before: Subject, after: Subject) -> Tally:
    return Tally(contradictions=int(before.family != after.family))


def commits_before(subject: Subject) -> Tally:
    """Count the recording's transactions that an image before has; if it lacks others, it is too young."""
    counts = _commits(subject)
    if counts is None:
        return Tally()
    if counts.lacking and counts.is_of_filesystem:
        return Tally(age=counts.total - counts.lacking)
    return Tally(contradictions=max(counts.total - 2 * counts.lacking, 0))


def commits_after(subject: Subject) -> Tally:
    """Count the recording's transactions that the journal of an image after has at the same time, or does not have."""
    counts = _commits(subject)
    if counts is None:
        return Tally()
    if counts.lacking > counts.differing and not counts.is_of_filesystem:
        detail = "lacks transactions of the recording: it is older (are before and after swapped?)"
        return Tally(counts.agreeing, counts.lacking, detail=detail)
    age = counts.lacking if counts.lacking > counts.differing else 0
    detail = "committed the recording's transactions at other times"
    return Tally(counts.agreeing, counts.differing, age=age, detail=detail)


class _Commits(NamedTuple):
    """The traced transactions: all, not in the image's journal, and there at the same or another time."""

    total: int
    lacking: int
    agreeing: int
    differing: int
    is_of_filesystem: bool
    """Whether the image is certainly of the recorded filesystem, at whatever time."""


def _commits(subject: Subject) -> _Commits | None:
    image, trace = subject.image, subject.trace
    if image.version is None or image.commits is None:
        return None
    committed = image.commits.unique("transaction", keep="last")
    rows = _traced_commits(trace.events).join(committed, on="transaction", how="left")
    recorded_offset = offset = trace.staging.realtime_offset_ns
    if offset is None:
        offset = _most_common_offset(rows.select(pl.col("epoch_ns") - pl.col("end")).to_series().drop_nulls())
    begin, end = (pl.coalesce(edge, "end") + pl.lit(offset, pl.Int64) for edge in ("start", "end"))
    agrees, may_agree = (
        pl.col("epoch_ns").is_between(begin - difference_ns, end + difference_ns)
        for difference_ns in (trace.tolerance_ns, trace.limit_ns)
    )
    there = rows.filter(pl.col("transaction") <= image.version)
    agreeing, differing = there.filter(agrees).height, there.filter(~may_agree).height
    is_of_filesystem = agreeing > CHANCE and recorded_offset is not None
    return _Commits(rows.height, rows.height - there.height, agreeing, differing, is_of_filesystem)


def _traced_commits(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the transactions whose end was recorded: transaction, end (of the last commit), start (of the first)."""
    is_commit = pl.col("transaction").is_not_null() & pl.col("event").is_in(tracepoints.COMMITS)
    commits = events.filter(is_commit).select("ts_ns", "event", "transaction").collect()
    ends, starts = (
        commits.filter(pl.col("event") == f"jbd2_{edge}_commit").group_by("transaction", maintain_order=True)
        for edge in ("end", "start")
    )
    first, last = starts.agg(start=pl.col("ts_ns").first()), ends.agg(end=pl.col("ts_ns").last())
    return last.join(first, on="transaction", how="left")


def _most_common_offset(differences: pl.Series) -> int | None:
    """Return the greatest of the differences within the clock tick that has most; None if none has three."""
    ordered = differences.sort().to_numpy()
    if len(ordered) < 3:
        return None
    count = np.searchsorted(ordered, ordered + incarnations.TICK_NS, "right") - np.arange(len(ordered))
    best = int(np.argmax(count))
    return int(ordered[best + count[best] - 1]) if count[best] >= 3 else None


def boot(subject: Subject) -> Tally:
    """Compare CLOCK_REALTIME minus the trace's clock, which differs between boots."""
    listing, staging = subject.listing, subject.trace.staging
    clock_offset = listing.monotonic_offset_ns if staging.clock == "mono" else 0
    if clock_offset is None or staging.realtime_offset_ns is None or staging.clock not in ("mono", "boot"):
        return Tally()
    difference = listing.realtime_offset_ns - clock_offset - staging.realtime_offset_ns
    return Tally(agreements=int(abs(difference) <= CLOCK_NS))
