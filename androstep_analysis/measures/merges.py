"""How many bios become one request, and how many are split (definitions.toml, merge)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.measure import of_events
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy


def merges(block_events: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """How many bios became one request, and how many were split.

    Parameters
    ----------
    block_events : Table
        Table `block_events`: ts_ns, dev, action, sector, nr_sectors.
    by : sequence of str
        What else to group by: dev, tid.
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`): events in them are left out.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics queued, issued [count], bios_per_request, merge_ratio and splits_per_bio [1]: bios
        queued per request issued, the share of bios that were merged into a request of others, and how often a bio was
        split. Empty flushes are in none. What the trace has no events for is null: bios where
        none is queued, merges and splits where there is no such event at all. `coverage` is the share of these events
        that are not left out.

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
    # A recorder that shows no merge at all may only not have been asked for them.
    sums |= {f"has_{name}": of[name].any() for name in ("merged", "splits")}
    found = (rows.group_by(by).agg(**sums) if by else rows.select(**sums)).collect()
    has = {name: pl.lit(bool(found[f"has_{name}"].any())) for name in ("merged", "splits")}
    told = found.with_columns(
        *(pl.when(pl.col(name) > 0).then(name) for name in ("queued", "issued")),
        *(pl.when(is_told).then(name) for name, is_told in has.items()),
        n="queued",
        coverage=pl.col("known") / pl.col("seen"),
    ).filter(pl.any_horizontal(pl.col("queued", "issued").is_not_null()))
    queued = pl.col("queued")
    wide = told.with_columns(
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
