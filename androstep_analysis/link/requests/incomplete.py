"""What no file tells of and requests show: that events are missing, as those of one CPU, or that clocks differ.

A request that is issued is completed, and the other way round. In a whole recording only those lack a step that were
under way when it began or ended. Where more do, other events are missing with those of the block layer, so that it is a
loss of everything at any time. And where what lacks one step is completed first and issued later, the times of the
CPUs are of several clocks, and the order of events is not that of their times.
"""

from __future__ import annotations

import polars as pl

from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import clock

_LEAST = 16
_SHARE = 0.01
"""So many requests of a device, and such a part of them, lack a step before it is told of."""

_EDGE_NS = 1_000_000_000
"""How long before its end, or after its beginning, a recording may hold one step of a request only."""


def losses(requests: pl.LazyFrame) -> tuple[Loss, ...]:
    """What table `requests` (of the linker, in memory only what lacks a step) shows to be missing; often nothing.

    Devices on which no request has both steps have no requests of their own: they pass on bios.
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
    parts = parts.filter(pl.col("n") >= pl.max_horizontal(pl.lit(_LEAST), (pl.col("whole") * _SHARE)))
    count = int(parts["n"].sum())
    if not count:
        return ()
    if (turned := _turned_round(rows)) >= max(_LEAST, count // 4):
        return clock.mixed(turned)
    message = (
        f"{count:,} requests have an issue and no completion, or a completion and no issue, for a reason that no"
        " file states: the events of a CPU, or of some time, are missing"
    )
    return (Loss("missing", count, message),)


def _turned_round(rows: pl.DataFrame) -> int:
    """How many issues without completion follow a completion without issue of the same sectors."""
    place = ["dev", "sector", "nr_sectors"]
    ends = rows.filter(pl.col("issue_ns").is_null()).select(*place, end_ns="complete_ns").sort("end_ns")
    begun = rows.filter(pl.col("complete_ns").is_null()).select(*place, "issue_ns").sort("issue_ns")
    before = begun.join_asof(ends, left_on="issue_ns", right_on="end_ns", by=place, check_sortedness=False)
    return before["end_ns"].count()
