"""Reuse: how many other blocks are touched before one is touched again, and so what a cache would hold."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.errors import InputError
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.tables import Table, columns_as_rows, counted
from androstep_analysis.units import SECTOR_BYTES

BLOCK_BYTES: Final = 4096
CACHE_BYTES: Final = tuple(1 << power for power in range(20, 35))
"""1 MiB to 16 GiB."""

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
    distances = _distances(requests, by, block_bytes).sort("distance")
    again = pl.col("distance") >= 0
    touches = pl.col("touches").filter(again)
    rank = touches.cum_sum()
    groups = _grouped(
        distances,
        by,
        n=pl.col("touches").sum(),
        accesses=pl.col("touches").sum(),
        first_ratio=pl.col("touches").filter(~again).sum() / pl.col("touches").sum(),
        **{
            name: pl.col("distance").filter(again).filter(rank >= quantile * touches.sum()).first() * block_bytes
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
    distances = _distances(requests, by, block_bytes)
    whole, touches = pl.col("touches").sum(), pl.col("touches")
    tables = [
        _grouped(
            distances,
            by,
            n=whole,
            miss_ratio=1 - touches.filter(pl.col("distance").is_between(0, size // block_bytes - 1)).sum() / whole,
        ).with_columns(cache_bytes=pl.lit(size, pl.Int64))
        for size in cache_bytes
    ]
    return columns_as_rows(pl.concat(tables), [*by, "cache_bytes"], {"miss_ratio": "1"})


def _grouped(distances: pl.DataFrame, by: Sequence[str], **sums: pl.Expr) -> pl.DataFrame:
    """A row for each group, none where there is nothing, with the share of touches whose group is known."""
    whole, known = (
        pl.col("touches").sum(),
        pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in by)),
    )
    share = distances.select(pl.col("touches").filter(known).sum() / whole).item() if by and distances.height else None
    if by:
        groups = distances.group_by(by, maintain_order=True).agg(**sums)
    else:
        groups = distances.select(**sums) if distances.height else distances.select(**sums).clear()
    return groups.with_columns(coverage=pl.lit(share, pl.Float64))


def _distances(requests: Table, by: Sequence[str], block_bytes: int) -> pl.DataFrame:
    """Columns `by`, distance (Int64: other blocks since; -1 for a first touch) and touches (Int64: how many)."""
    if block_bytes <= 0 or block_bytes % SECTOR_BYTES:
        raise InputError(f"blocks of {block_bytes} B: a block is a multiple of {SECTOR_BYTES} B; give one")
    groups = (
        part.group_by(*by, "distance").agg(touches=pl.len().cast(pl.Int64))
        for part in _touches(requests, by, block_bytes // SECTOR_BYTES)
    )
    return summed(groups, [*by, "distance"])


def _touches(requests: Table, by: Sequence[str], sectors: int) -> Iterator[pl.DataFrame]:
    """Columns `by` and distance, a row for each block touched, in order."""
    rows = counted(requests).filter(pl.col("nr_sectors") > 0, pl.col("op").is_in(["read", "write"]))
    first = pl.col("sector") // sectors
    last = (pl.col("sector") + pl.col("nr_sectors") - 1) // sectors
    rows = rows.select(
        *dict.fromkeys([REQUEST, "dev", "sector", *by]),
        at=order_ns().fill_null(pl.Int64.min()),
        first_block=first,
        nr_blocks=last - first + 1,
    )
    library = _library()
    handle = library.distances_new()
    if not handle:
        raise MemoryError
    try:
        for part in parts(rows, "at"):
            ordered = part.sort("at", REQUEST, "sector")
            devs, firsts, lengths = (
                np.ascontiguousarray(ordered[name].cast(pl.Int64).to_numpy())
                for name in ("dev", "first_block", "nr_blocks")
            )
            found = np.empty(int(lengths.sum()), np.int64)
            places = (array.ctypes.data for array in (devs, firsts, lengths, found))
            if not library.distances_run(handle, ordered.height, *places):
                raise MemoryError
            distance = pl.Series("distance", found, pl.Int64)
            of_row = np.repeat(np.arange(ordered.height), lengths)
            yield pl.DataFrame([*(ordered[name][of_row] for name in by), distance])
    finally:
        library.distances_free(handle)


@functools.cache
def _library() -> ctypes.CDLL:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    return native.declared(
        ("distances_new", pointer, ()),
        ("distances_free", None, (pointer,)),
        ("distances_run", ctypes.c_bool, (pointer, size, pointer, pointer, pointer, pointer)),
    )
