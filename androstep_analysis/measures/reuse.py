"""Reuse: how many other blocks are touched before one is touched again, and so what a cache would hold."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.measures.blocks import BLOCK_BYTES, KNOWN, of_groups, places, simulated, touches
from androstep_analysis.measures.parts import summed
from androstep_analysis.measures.tables import Table, columns_as_rows

CACHE_BYTES: Final = tuple(1 << power for power in range(20, 35))
"""1 MiB to 16 GiB."""

_TOUCHES: Final = pl.len().cast(pl.Int64)
_QUANTILES: Final = {"distance_p50": 0.5, "distance_p90": 0.9, "distance_p99": 0.99}


def reuse(requests: Table, *, by: Sequence[str] = ("op",), block_bytes: int = BLOCK_BYTES) -> pl.DataFrame:
    """Reuse (stack) distances of blocks that are read or written, exactly.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for groups that only pieces know: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns.
    by : sequence of str
        The columns to group by. Distances are those in the whole capture; each belongs to the row that touches again.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics accesses [blocks], first_ratio [1] (share of accesses to a block not seen before), and
        distance_p50, distance_p90, distance_p99 [B] of the others (nearest rank; null where there is none). `n` is the
        number of accesses.

    Raises
    ------
    InputError
        For a size of a block that is no multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, reuse; Mattson et al. (IBM Systems Journal 1970).

    Examples
    --------
    >>> table = measures.reuse(capture.requests)
    >>> table["metric"].unique(maintain_order=True).to_list()[:2]
    ['accesses', 'first_ratio']
    """
    library = _library()
    with simulated(library.distances_new(), library.distances_free) as handle:
        sums = summed(
            (
                part.with_columns(distance=_distances(handle, part)).group_by(*by, KNOWN, "distance").agg(n=_TOUCHES)
                for part in touches(requests, by, block_bytes)
            ),
            [*by, KNOWN, "distance"],
        ).sort("distance")
    again = pl.col("distance") >= 0
    count = pl.col("n").filter(again)
    rank = count.cum_sum()
    groups = of_groups(
        sums,
        by,
        n=pl.col("n").sum(),
        accesses=pl.col("n").sum(),
        first_ratio=pl.col("n").filter(~again).sum() / pl.col("n").sum(),
        **{
            name: pl.col("distance").filter(again).filter(rank >= quantile * count.sum()).first() * block_bytes
            for name, quantile in _QUANTILES.items()
        },
    )
    return columns_as_rows(groups, by, {"accesses": "blocks", "first_ratio": "1"} | dict.fromkeys(_QUANTILES, "B"))


def miss_ratio(
    requests: Table,
    *,
    cache_bytes: Sequence[int] = CACHE_BYTES,
    by: Sequence[str] = (),
    block_bytes: int = BLOCK_BYTES,
) -> pl.DataFrame:
    """What an LRU cache of each size would miss, from reuse distances.

    Parameters
    ----------
    requests : Table
        As for `reuse`.
    cache_bytes : sequence of int
        Sizes of the cache, which is shared by all that the table holds.
    by : sequence of str
        The columns to group by: whose misses they are.
    block_bytes : int
        Size of a block, a multiple of 512.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and cache_bytes (Int64). Metric miss_ratio [1], of accesses to blocks; `n` is their number.

    Raises
    ------
    InputError
        For a size of a block that is no multiple of 512.

    References
    ----------
    ``schemas/definitions.toml``, miss_ratio; Mattson et al. (IBM Systems Journal 1970).

    Examples
    --------
    >>> measures.miss_ratio(capture.requests)["value"].is_sorted(descending=True)
    True
    """
    sizes = {str(size): size // block_bytes for size in dict.fromkeys(cache_bytes)}
    library = _library()
    with simulated(library.distances_new(), library.distances_free) as handle:
        sums = summed(
            (
                _misses(_distances(handle, part), sizes)
                .with_columns(part[name] for name in (*by, KNOWN))
                .group_by(*by, KNOWN)
                .agg(pl.col(list(sizes)).sum().cast(pl.Int64), n=_TOUCHES)
                for part in touches(requests, by, block_bytes)
            ),
            [*by, KNOWN],
        )
    n = pl.col("n").sum()
    groups = of_groups(sums, by, n=n, **{name: pl.col(name).sum() / n for name in sizes})
    rows = groups.unpivot(
        list(sizes), index=[*by, "n", "coverage"], variable_name="cache_bytes", value_name="miss_ratio"
    ).with_columns(pl.col("cache_bytes").cast(pl.Int64))
    return columns_as_rows(rows, [*by, "cache_bytes"], {"miss_ratio": "1"})


def _misses(distances: pl.Series, sizes: Mapping[str, int]) -> pl.DataFrame:
    """Of each touch whether an LRU cache of so many blocks misses it."""
    is_first = distances < 0
    return pl.DataFrame({name: is_first | (distances >= blocks) for name, blocks in sizes.items()})


def _distances(handle: int, touched: pl.DataFrame) -> pl.Series:
    """Other blocks since the block was touched before; -1 for a first touch."""
    devs, blocks = places(touched, "dev", "block")
    found = np.empty(touched.height, np.int64)
    if not _library().distances_run(handle, found.size, devs.ctypes.data, blocks.ctypes.data, found.ctypes.data):
        raise MemoryError
    return pl.Series("distance", found, pl.Int64)


@functools.cache
def _library() -> ctypes.CDLL:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    return native.declared(
        ("distances_new", pointer, ()),
        ("distances_free", None, (pointer,)),
        ("distances_run", ctypes.c_bool, (pointer, size, pointer, pointer, pointer)),
    )
