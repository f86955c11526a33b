"""Merges of bios into requests, and splits (definitions.toml, merge)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.measure import of_events
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy


def merges(block_events: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """Return the number of bios per request, and the shares that were merged or split.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, action, sector, nr_sectors.
    by : sequence of str
        Further columns to group by: dev, tid.
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). Events in them are left out.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics queued and issued [count], bios_per_request [1] (bios queued per request issued),
        merge_ratio [1] (share of bios that were merged into an existing request) and splits_per_bio [1]. Empty flushes
        are left out. A metric is null if the trace has no events for it: bios if none is queued in the group, merges
        and splits if the whole trace has none. `coverage` is the share of these events that is not left out.

    References
    ----------
    ``schemas/definitions.toml``, merge.

    Examples
    --------
    >>> table = measures.merges(capture.block_events)
    >>> table.filter(metric="issued")["value"].item()
    3360.0
    """
    rows = lazy(block_events, ("block_events",)).filter(pl.col("sector").is_not_null(), pl.col("nr_sectors") > 0)
    is_known, action = ~touched("ts_ns", "ts_ns", lost), pl.col("action").cast(pl.String)
    of = {name: action.is_in(actions) for name, actions in _COUNTED.items()}
    any_of = pl.any_horizontal(*of.values())
    sums = {name: (is_one & is_known).sum().cast(pl.Int64) for name, is_one in of.items()}
    sums |= {"seen": any_of.sum(), "known": (any_of & is_known).sum()}
    # A trace without any merge or split may come from a recorder that did not enable these events.
    sums |= {f"has_{name}": of[name].any() for name in ("merged", "splits")}
    counts = (rows.group_by(by).agg(**sums) if by else rows.select(**sums)).collect()
    has = {name: pl.lit(bool(counts[f"has_{name}"].any())) for name in ("merged", "splits")}
    recorded = counts.with_columns(
        *(pl.when(pl.col(name) > 0).then(name) for name in ("queued", "issued")),
        *(pl.when(is_recorded).then(name) for name, is_recorded in has.items()),
        n="queued",
        coverage=pl.col("known") / pl.col("seen"),
    ).filter(pl.any_horizontal(pl.col("queued", "issued").is_not_null()))
    queued = pl.col("queued")
    wide = recorded.with_columns(
        bios_per_request=queued / pl.col("issued"),
        merge_ratio=pl.col("merged") / queued,
        splits_per_bio=pl.col("splits") / queued,
    )
    return columns_as_rows(wide, list(by), _UNITS)


_COUNTED: Final = {
    "queued": ("queue",),
    "issued": ("issue",),
    "merged": ("backmerge", "frontmerge"),
    "splits": ("split",),
}
_UNITS: Final = {"queued": "count", "issued": "count"} | dict.fromkeys(
    ("bios_per_request", "merge_ratio", "splits_per_bio"), "1"
)


MERGES: Final = of_events("bios merged and split", merges)
