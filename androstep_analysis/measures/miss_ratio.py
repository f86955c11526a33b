"""Miss ratio of a cache by its size, from reuse distances (LRU) or by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis import native
from androstep_analysis.common.errors import InputError
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
from androstep_analysis.measures.reuse import distances, stack
from androstep_analysis.measures.tables import KNOWN, Table, columns_as_rows

CACHE_BYTES: Final = tuple(1 << power for power in range(20, 35))
"""1 MiB to 16 GiB."""

Policy = Literal["lru", "fifo", "s3fifo", "arc"]

_SIMULATED: Final = ("fifo", "s3fifo", "arc")
"""Simulated policies, in the order of ``enum policy``."""

_HASHES: Final = 1 << 24

Misses = Callable[[pl.DataFrame], pl.DataFrame]
"""For touches (dev, block), a Boolean column for each size: whether a cache of that size misses the block."""


def miss_ratio(
    requests: Table,
    *,
    cache_bytes: Sequence[int] = CACHE_BYTES,
    by: Sequence[str] = (),
    block_bytes: int = BLOCK_BYTES,
    policy: Policy = "lru",
    sample_ratio: float = 1.0,
) -> pl.DataFrame:
    """Return the miss ratio of a cache of each size.

    Parameters
    ----------
    requests : Table
        As for `reuse`.
    cache_bytes : sequence of int
        Sizes of the cache. All requests of the table share one cache.
    by : sequence of str
        The columns to group the misses by.
    block_bytes : int
        Size of a block, a multiple of 512.
    policy : {"lru", "fifo", "s3fifo", "arc"}
        The replacement policy. LRU takes one pass for all sizes. The others are simulated for each size, in memory that
        is proportional to it.
    sample_ratio : float
        Sample this share of the blocks, chosen by a hash of their address, with a cache that is scaled down by the same
        factor (SHARDS). The result is exact by default, and an estimate if the share is below 1.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and cache_bytes (Int64). Metric miss_ratio [1] of accesses to blocks. `n` is their number. Where
        the place of an access in the order of issue is unknown, that access and the next one to its block are left out;
        with other policies than LRU, so are all later ones. `coverage` is the share of accesses that are not left out
        and whose `by` is known.

    Raises
    ------
    InputError
        If `block_bytes` is not a multiple of 512, `policy` is unknown, or `sample_ratio` is not above 0 and at most 1.

    References
    ----------
    ``schemas/definitions.toml``, miss_ratio and order; Mattson et al. (IBM Systems Journal 1970); Megiddo and Modha
    (FAST 2003); Yang et al. (SOSP 2023); Waldspurger et al. (FAST 2015, USENIX ATC 2017).

    Examples
    --------
    >>> measures.miss_ratio(capture.requests)["value"].is_sorted(descending=True)
    True
    """
    if policy not in ("lru", *_SIMULATED):
        raise InputError(f"unknown policy {policy}; choose one of lru, {', '.join(_SIMULATED)}")
    if not 0 < sample_ratio <= 1:
        raise InputError(f"sample_ratio is {sample_ratio}: give a share of the blocks above 0 and up to 1")
    least = max(1, round(sample_ratio * _HASHES))
    ratio = least / _HASHES
    sizes = {str(size): size // block_bytes * ratio for size in dict.fromkeys(cache_bytes)}
    with _lru(sizes) if policy == "lru" else _caches(_SIMULATED.index(policy), sizes) as misses:
        touched = with_sure(touches(with_order(requests, ()), [*by, IS_ORDERED], block_bytes, share=ratio))
        touched = touched if policy == "lru" else _until_unsure(touched)
        sums = summed((_counted(part, by, misses, least) for part in touched), [*by, KNOWN])
    sums = sums.with_columns(known=pl.when(KNOWN).then("sure").otherwise(0))
    n, sure = (pl.col(name).sum() for name in ("n", "sure"))
    ratios = {name: pl.when(sure > 0).then((pl.col(name).sum() / ratio / sure).clip(0, 1)) for name in sizes}
    groups = of_groups(sums, by, known_touches(sums, by), n=n, **ratios)
    rows = groups.unpivot(
        list(sizes), index=[*by, "n", "coverage"], variable_name="cache_bytes", value_name="miss_ratio"
    ).with_columns(pl.col("cache_bytes").cast(pl.Int64))
    return with_inferred(columns_as_rows(rows, [*by, "cache_bytes"], {"miss_ratio": "1"}), requests)


def _counted(part: pl.DataFrame, by: Sequence[str], misses: Misses, least: int) -> pl.DataFrame:
    """Return columns `by`, KNOWN, n (all touches), sure (those with is_sure), and their sampled misses by size."""
    sample = part if least == _HASHES else part.filter(_hashes(part) < least)
    missed = misses(sample).select(pl.all() & sample["is_sure"])
    sums = (
        missed.with_columns(sample[name] for name in (*by, KNOWN))
        .group_by(*by, KNOWN)
        .agg(pl.col(missed.columns).sum().cast(pl.Int64))
    )
    whole = part.group_by(*by, KNOWN).agg(n=pl.len().cast(pl.Int64), sure=pl.col("is_sure").sum().cast(pl.Int64))
    joined = whole.join(sums, on=[*by, KNOWN], how="left", nulls_equal=True)
    return joined.with_columns(pl.col(missed.columns).fill_null(0))


def _until_unsure(touched: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the touches, of which none after the first one in unknown order is sure: the cache may hold anything."""
    are_all = True
    for part in touched:
        is_sure = part[IS_ORDERED].cast(pl.Int8).cum_min().cast(pl.Boolean) & are_all
        are_all = bool(is_sure.all())
        yield part.with_columns(is_sure=is_sure)


def _hashes(touched: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Return a hash below `_HASHES` for each touch, equal for equal blocks (the mixing function of SplitMix64)."""
    devs, blocks = (values.view(np.uint64) for values in int64_columns(touched, "dev", "block"))
    mixed = devs * np.uint64(0x9E3779B97F4A7C15) + blocks
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) % np.uint64(_HASHES)


@contextmanager
def _lru(sizes: Mapping[str, float]) -> Iterator[Misses]:
    """Yield the misses of LRU caches: a cache misses a block if its reuse distance is not below the size in blocks."""
    with stack() as handle:

        def misses(touched: pl.DataFrame) -> pl.DataFrame:
            others = distances(handle, touched)
            return pl.DataFrame({name: (others < 0) | (others >= blocks) for name, blocks in sizes.items()})

        yield misses


@contextmanager
def _caches(policy: int, sizes: Mapping[str, float]) -> Iterator[Misses]:
    """Yield the misses of one simulated cache for each size. A size above 0 is at least one block."""
    library = _library()
    with ExitStack() as opened:
        caches = {
            name: opened.enter_context(simulated(library.cache_new(policy, _rounded(blocks)), library.cache_free))
            for name, blocks in sizes.items()
        }

        def misses(touched: pl.DataFrame) -> pl.DataFrame:
            devs, blocks = int64_columns(touched, "dev", "block")
            found = {name: np.empty(touched.height, np.bool_) for name in caches}
            for name, handle in caches.items():
                at = (array.ctypes.data for array in (devs, blocks, found[name]))
                if not library.cache_run(handle, touched.height, *at):
                    raise MemoryError
            return pl.DataFrame(found, schema=dict.fromkeys(found, pl.Boolean))

        yield misses


def _rounded(blocks: float) -> int:
    return max(1, round(blocks)) if blocks else 0


_library = native.library


MISS_RATIO: Final = Measure(
    "miss ratio of a cache, by its size",
    ("io",),
    lambda t, by: miss_ratio(t["io"], by=by),
    has_windows=False,
    applied=Applied.AFTER,
    natural=("cache_bytes",),
)
