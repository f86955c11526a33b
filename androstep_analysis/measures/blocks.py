"""Blocks that requests touch, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.tables import KNOWN, Table, counted, is_known, known_share

BLOCK_BYTES: Final = 4096

OPS: Final = ("read", "write")
"""What touches a block."""


MOST_TOUCHES: Final = 1 << 22
"""As many are in memory at one time."""

MOST_BLOCKS: Final = 1 << 25
"""The most different blocks whose last access is kept in memory: about 4 GiB."""


def touches(requests: Table, columns: Sequence[str], block_bytes: int, *, share: float = 1.0) -> Iterator[pl.DataFrame]:
    """Columns `columns`, KNOWN, at (ns, Int64.min for no time), dev and block (Int64), in order of time, part by part.

    A row for each block that a request, or a piece, covers, also in part. Raises `InputError` where the last access to
    this `share` of the blocks does not fit into memory (`MOST_BLOCKS`).
    """
    _check_memory(requests, block_bytes, share)
    for part in ranges(requests, columns, block_bytes):
        short = _cut(part)
        touched = short["nr_blocks"].cum_sum()
        starts = np.flatnonzero(np.diff(touched.to_numpy() // MOST_TOUCHES, prepend=0)).tolist()
        for start, stop in pairwise([0, *starts, short.height]):
            yield _touched(short[start:stop])


def _check_memory(requests: Table, block_bytes: int, share: float) -> None:
    sizes = (int(part["nr_blocks"].sum()) for part in ranges(requests, (), block_bytes))
    if share * sum(sizes) <= MOST_BLOCKS:
        return
    covered = runs(summed((bounds(part, ()) for part in ranges(requests, (), block_bytes)), ["dev", "block"]), ())
    blocks = int(int(covered["nr_blocks"].sum()) * share)
    if blocks > MOST_BLOCKS:
        raise InputError(
            f"{blocks:,} blocks of {block_bytes} B are touched, more than the {MOST_BLOCKS:,} that fit into memory; "
            "in Python, give a larger block_bytes, or to miss_ratio a sample_ratio"
        )


def _cut(rows: pl.DataFrame) -> pl.DataFrame:
    """The ranges, in as many parts as none is longer than `MOST_TOUCHES`."""
    nr_parts = ((rows["nr_blocks"] - 1) // MOST_TOUCHES + 1).to_numpy()
    if rows.is_empty() or nr_parts.max() == 1:
        return rows
    row = np.repeat(np.arange(rows.height), nr_parts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(nr_parts) - nr_parts, nr_parts)
    before = pl.Series(part * MOST_TOUCHES)
    return rows[row].with_columns(
        pl.col("first_block") + before, nr_blocks=(pl.col("nr_blocks") - before).clip(upper_bound=MOST_TOUCHES)
    )


def _touched(rows: pl.DataFrame) -> pl.DataFrame:
    lengths = rows["nr_blocks"].to_numpy()
    row = np.repeat(np.arange(rows.height), lengths)
    inside = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    each = rows[row].with_columns(block=pl.col("first_block") + pl.Series(inside, dtype=pl.Int64))
    return each.drop("first_block", "nr_blocks")


def ranges(
    requests: Table, columns: Sequence[str], block_bytes: int, ops: Sequence[str] = OPS
) -> Iterator[pl.DataFrame]:
    """As `touches`, but a row for each request or piece, with first_block and nr_blocks (Int64) in place of block."""
    if block_bytes <= 0 or block_bytes % SECTOR_BYTES:
        raise InputError(f"blocks of {block_bytes} B: a block is a multiple of {SECTOR_BYTES} B; give one")
    sectors = block_bytes // SECTOR_BYTES
    rows = counted(requests).filter(pl.col("nr_sectors") > 0, pl.col("op").is_in(list(ops)))
    first = pl.col("sector") // sectors
    last = (pl.col("sector") + pl.col("nr_sectors") - 1) // sectors
    names = rows.collect_schema().names()
    rows = rows.select(
        *dict.fromkeys([REQUEST, "dev", "sector", *columns]),
        is_known(columns, names).alias(KNOWN),
        at=order_ns().fill_null(pl.Int64.min()),
        first_block=first,
        nr_blocks=last - first + 1,
    )
    kept = [*dict.fromkeys([*columns, KNOWN, "at", "dev", "first_block", "nr_blocks"])]
    for part in parts(rows, "at"):
        yield part.sort("at", REQUEST, "sector").select(kept)


def bounds(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Where `ranges` begin and end: columns `keys`, dev, block, step (how many more begin there than end), n, known.

    `n` are the touches of the ranges that begin there, `known` those with KNOWN. Summed up by the others the rows of
    several parts are those of all: `runs` has what they cover.
    """
    size, place = pl.col("nr_blocks"), [*dict.fromkeys([*keys, "dev"])]
    begins = rows.select(*place, block="first_block", step=1, n=size, known=pl.when(KNOWN).then(size).otherwise(0))
    ends = rows.select(*place, block=pl.col("first_block") + size, step=-1, n=pl.lit(0, pl.Int64), known=0)
    counts = pl.col("step", "n", "known").cast(pl.Int64)
    return pl.concat([begins, ends], how="vertical_relaxed").group_by(*place, "block").agg(counts.sum())


def runs(summed_bounds: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Columns `keys`, dev, block (the first), nr_blocks and uses of each run of blocks that ranges cover equally often.

    In order of `keys`, dev and block.
    """
    rows = summed_bounds.sort(*dict.fromkeys([*keys, "dev", "block"]))
    # What begins in one group also ends there, so that the sum is zero at its end.
    told = rows.with_columns(uses=pl.col("step").cum_sum(), nr_blocks=pl.col("block").shift(-1) - pl.col("block"))
    return told.filter(pl.col("uses") > 0).drop("step", "n", "known")


def places(touched: pl.DataFrame, *names: str) -> list[np.ndarray]:
    """Columns of Int64 as C takes them."""
    return [np.ascontiguousarray(touched[name].cast(pl.Int64).to_numpy()) for name in names]


def known_touches(sums: pl.DataFrame, by: Sequence[str]) -> float | None:
    """The share of touches (column n) of which the groups are known (column known); None where there are no groups."""
    return known_share(sums, "n") if by else None


def of_groups(rows: pl.DataFrame, by: Sequence[str], coverage: float | None, **values: pl.Expr) -> pl.DataFrame:
    """A row for each group (columns `by`) of `rows` with `values` and `coverage`; none where there is nothing."""
    if by:
        groups = rows.group_by(by, maintain_order=True).agg(**values)
    else:
        groups = rows.select(**values) if rows.height else rows.select(**values).clear()
    return groups.with_columns(coverage=pl.lit(coverage, pl.Float64))


@contextmanager
def simulated(handle: int | None, free: Callable[[int], None]) -> Iterator[int]:
    """What a C function has made, given back in the end."""
    if not handle:
        raise MemoryError
    try:
        yield handle
    finally:
        free(handle)
