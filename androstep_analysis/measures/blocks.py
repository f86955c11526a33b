"""The blocks that requests touch, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.order import IS_ORDERED, order_ns
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.tables import KNOWN, Table, counted, is_known, known_share

BLOCK_BYTES: Final = 4096

OPS: Final = ("read", "write")
"""The operations that touch a block."""


MOST_TOUCHES: Final = 1 << 22
"""The most touches in memory at once."""

MOST_BLOCKS: Final = 1 << 25
"""The most different blocks whose last access is kept in memory. They take about 4 GiB."""


def touches(requests: Table, columns: Sequence[str], block_bytes: int, *, share: float = 1.0) -> Iterator[pl.DataFrame]:
    """Yield the touches of blocks in order of time, in batches.

    A request, or a piece, touches each block that it covers at least in part. Columns are `columns`, KNOWN, at (ns,
    Int64.min if the request has no time), dev and block (Int64). Raises `InputError` if the last accesses to this
    `share` of the blocks do not fit into memory (`MOST_BLOCKS`).
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
            f"{blocks:,} blocks of {block_bytes} B are accessed, but at most {MOST_BLOCKS:,} fit into memory; "
            "in Python, pass a larger block_bytes, or a sample_ratio to miss_ratio"
        )


def _cut(rows: pl.DataFrame) -> pl.DataFrame:
    """Split ranges that are longer than `MOST_TOUCHES`."""
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
    """Yield the ranges of blocks that requests or pieces cover.

    Columns are those of `touches`, with first_block and nr_blocks (Int64) in place of block.
    """
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
    selected = [*dict.fromkeys([*columns, KNOWN, "at", "dev", "first_block", "nr_blocks"])]
    for part in parts(rows, "at"):
        yield part.sort("at", REQUEST, "sector").select(selected)


def bounds(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the blocks at which `ranges` begin and end: columns `keys`, dev, block, step, n and known.

    step is the number of ranges that begin at the block minus the number that end there. `n` is the number of touches
    of the ranges that begin there, `known` that of those with KNOWN. The bounds of several parts may be added up, and
    `runs` turns the sum into the covered blocks.
    """
    size, index = pl.col("nr_blocks"), [*dict.fromkeys([*keys, "dev"])]
    begins = rows.select(*index, block="first_block", step=1, n=size, known=pl.when(KNOWN).then(size).otherwise(0))
    ends = rows.select(*index, block=pl.col("first_block") + size, step=-1, n=pl.lit(0, pl.Int64), known=0)
    counts = pl.col("step", "n", "known").cast(pl.Int64)
    return pl.concat([begins, ends], how="vertical_relaxed").group_by(*index, "block").agg(counts.sum())


def runs(summed_bounds: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the runs of blocks that are covered equally often.

    Columns are `keys`, dev, block (the first), nr_blocks and uses. Rows are in order of `keys`, dev and block.
    """
    rows = summed_bounds.sort(*dict.fromkeys([*keys, "dev", "block"]))
    # Each range begins and ends in the same group, so the sum is zero at the end of a group.
    covered = rows.with_columns(uses=pl.col("step").cum_sum(), nr_blocks=pl.col("block").shift(-1) - pl.col("block"))
    return covered.filter(pl.col("uses") > 0).drop("step", "n", "known")


def int64_columns(touched: pl.DataFrame, *names: str) -> list[np.ndarray]:
    """Return columns of Int64 as contiguous arrays for C."""
    return [np.ascontiguousarray(touched[name].cast(pl.Int64).to_numpy()) for name in names]


def known_touches(sums: pl.DataFrame, by: Sequence[str]) -> float | None:
    """Return the share of touches (column n) that are known (column known); None without groups if all are known."""
    share = known_share(sums, "n")
    return share if by or (share is not None and share < 1) else None


def with_sure(touched: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield `touches` that have column is_ordered (of any device) with column is_sure.

    It says whether the order of the touch and that of the previous touch of the same block are known. All touches
    between the two are then known, too.
    """
    block = ["dev", "block"]
    unsure = pl.DataFrame(schema={"dev": pl.UInt32, "block": pl.Int64})  # the last touches of these blocks
    for part in touched:
        if part[IS_ORDERED].all() and unsure.is_empty():
            yield part.with_columns(is_sure=True)
            continue
        rows = part.join(unsure.with_columns(is_before=False), on=block, how="left", maintain_order="left")
        before = pl.col(IS_ORDERED).shift(1).over(block)
        yield rows.with_columns(is_sure=pl.col(IS_ORDERED) & pl.coalesce(before, "is_before", pl.lit(True))).drop(
            "is_before"
        )
        last = part.group_by(block).agg(pl.col(IS_ORDERED).last())
        unsure = pl.concat([unsure.join(last, on=block, how="anti"), last.filter(~pl.col(IS_ORDERED)).select(block)])


def of_groups(rows: pl.DataFrame, by: Sequence[str], coverage: float | None, **values: pl.Expr) -> pl.DataFrame:
    """Return a row for each group (columns `by`) of `rows` with `values` and `coverage`.

    An empty table has no groups.
    """
    if by:
        groups = rows.group_by(by, maintain_order=True).agg(**values)
    else:
        groups = rows.select(**values) if rows.height else rows.select(**values).clear()
    return groups.with_columns(coverage=pl.lit(coverage, pl.Float64))


@contextmanager
def simulated(handle: int | None, free: Callable[[int], None]) -> Iterator[int]:
    """Yield the handle that a C function returned, and free it at the end."""
    if not handle:
        raise MemoryError
    try:
        yield handle
    finally:
        free(handle)
