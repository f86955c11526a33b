"""Reuse distance: the number of other blocks that are touched before a block is touched again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.blocks import (
    BLOCK_BYTES,
    int64_columns,
    known_touches,
    of_groups,
    simulated,
    touches,
    with_sure,
)
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.order import IS_ORDERED, with_order
from androstep_analysis.measures.parts import summed
from androstep_analysis.measures.tables import KNOWN, Table, columns_as_rows

_TOUCHES: Final = {"n": pl.len().cast(pl.Int64), "known": (pl.col(KNOWN) & pl.col("is_sure")).sum().cast(pl.Int64)}
_QUANTILES: Final = {"distance_p50": 0.5, "distance_p90": 0.9, "distance_p99": 0.99}


def reuse(requests: Table, *, by: Sequence[str] = ("op",), block_bytes: int = BLOCK_BYTES) -> pl.DataFrame:
    """Return the exact reuse (stack) distances of blocks that are read or written.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for columns that only `io` has: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns, and optionally issue_error_ns.
    by : sequence of str
        The columns to group by. Distances are computed over the whole capture. Each belongs to the row of the later
        touch.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics accesses [blocks], first_ratio [1] (share of accesses to a block not seen before), and
        distance_p50, distance_p90, distance_p99 [B] of the other accesses (nearest rank; null without such). All but
        the first leave out accesses whose place in the order of issue is unknown, or that of the previous access to the
        block. `n` is the number of accesses. `coverage` is the share of them that are not left out and whose `by` is
        known.

    Raises
    ------
    InputError
        If `block_bytes` is not a multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, reuse and order; Mattson et al. (IBM Systems Journal 1970).

    Examples
    --------
    >>> table = measures.reuse(capture.requests)
    >>> table["metric"].unique(maintain_order=True).to_list()[:2]
    ['accesses', 'first_ratio']
    """
    with stack() as handle:
        sums = summed(
            (
                part.with_columns(distance=pl.when("is_sure").then(distances(handle, part)))
                .group_by(*by, "distance")
                .agg(**_TOUCHES)
                for part in with_sure(touches(with_order(requests, ()), [*by, IS_ORDERED], block_bytes))
            ),
            [*by, "distance"],
        ).sort("distance")
    again, is_sure = pl.col("distance") >= 0, pl.col("distance").is_not_null()
    sure = pl.col("n").filter(is_sure).sum()
    count = pl.col("n").filter(again)
    rank = count.cum_sum()
    groups = of_groups(
        sums,
        by,
        known_touches(sums, by),
        n=pl.col("n").sum(),
        accesses=pl.col("n").sum(),
        first_ratio=pl.when(sure > 0).then(pl.col("n").filter(~again).sum() / sure),
        **{
            name: pl.col("distance").filter(again).filter(rank >= quantile * count.sum()).first() * block_bytes
            for name, quantile in _QUANTILES.items()
        },
    )
    units = {"accesses": "blocks", "first_ratio": "1"} | dict.fromkeys(_QUANTILES, "B")
    return with_inferred(columns_as_rows(groups, by, units), requests)


def distances(handle: int, touched: pl.DataFrame) -> pl.Series:
    """Return the number of other blocks since the previous touch of each block; -1 for a first touch."""
    devs, blocks = int64_columns(touched, "dev", "block")
    found = np.empty(touched.height, np.int64)
    if not _library().distances_run(handle, found.size, devs.ctypes.data, blocks.ctypes.data, found.ctypes.data):
        raise MemoryError
    return pl.Series("distance", found, pl.Int64)


def stack() -> AbstractContextManager[int]:
    """Return the state that `distances` updates, as a context manager."""
    return simulated(_library().distances_new(), _library().distances_free)


_library = native.library


REUSE: Final = Measure(
    "how soon blocks are touched again",
    ("io",),
    lambda t, by: reuse(t["io"], by=(*by, "op")),
    own=("op",),
    has_windows=False,
    applied=Applied.AFTER,
)
