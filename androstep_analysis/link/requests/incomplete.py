"""Detect losses that no file states: requests show that events are missing, or that CPUs have different clocks.

Every issued request is completed, and every completed one was issued. A complete recording lacks one of the two events
only for requests in flight when it began or ended. If more requests lack one, events are missing (as those of one CPU),
and not only those of the block layer: the loss concerns every table at any time. If such requests seem to be completed
before they are issued, the timestamps of the CPUs are of different clocks, and the order of events is not that of time.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import clock

_MIN_COUNT = 16
_MIN_SHARE = 0.01
"""A loss is reported if so many requests of a device, and such a share of them, lack an event."""

_EDGE_NS = 1_000_000_000
"""Requests so close to the begin or end of the recording may lack an event."""


def losses(requests: pl.LazyFrame) -> tuple[Loss, ...]:
    """Return the losses that table `requests` shows.

    Devices on which no request has both events are left out: they only pass bios on.
    """
    moved = requests.filter(pl.col("op").is_in(["read", "write"]) & (pl.col("nr_sectors") > 0))
    issued, completed = pl.col("issue_ns").is_not_null(), pl.col("complete_ns").is_not_null()
    counts = moved.group_by("dev").agg(
        whole=(issued & completed).sum(), first=pl.col("complete_ns").min(), last=pl.col("issue_ns").max()
    )
    lacking = moved.filter(issued != completed).select("dev", "sector", "nr_sectors", "issue_ns", "complete_ns")
    rows = lacking.collect().join(counts.filter(pl.col("whole") > 0).collect(), on="dev")
    is_edge = (pl.col("complete_ns") < pl.col("first") + _EDGE_NS) | (pl.col("issue_ns") > pl.col("last") - _EDGE_NS)
    rows = rows.filter(~is_edge.fill_null(False))
    parts = rows.group_by("dev").agg(n=pl.len(), whole=pl.col("whole").first())
    parts = parts.filter(pl.col("n") >= pl.max_horizontal(pl.lit(_MIN_COUNT), (pl.col("whole") * _MIN_SHARE)))
    count = int(parts["n"].sum())
    if not count:
        return ()
    if (reversed_count := _count_reversed(rows)) >= max(_MIN_COUNT, count // 4):
        return clock.mixed(reversed_count)
    message = (
        f"{count:,} requests have an issue and no completion, or a completion and no issue, for a reason that no"
        " file states: the events of a CPU, or of some time, are missing"
    )
    return (Loss("missing", count, message),)


def _count_reversed(rows: pl.DataFrame) -> int:
    """Count the issues without completion that follow a completion without issue of the same sectors."""
    place = ["dev", "sector", "nr_sectors"]
    ends = rows.filter(pl.col("issue_ns").is_null()).select(*place, end_ns="complete_ns").sort("end_ns")
    begun = rows.filter(pl.col("complete_ns").is_null()).select(*place, "issue_ns").sort("issue_ns")
    before = begun.join_asof(ends, left_on="issue_ns", right_on="end_ns", by=place, check_sortedness=False)
    return before["end_ns"].count()
