"""Blocks that requests touch, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.errors import InputError
from androstep_analysis.measures.locality import order_ns
from androstep_analysis.measures.parts import REQUEST, parts
from androstep_analysis.measures.tables import Table, counted, is_known
from androstep_analysis.units import SECTOR_BYTES

BLOCK_BYTES: Final = 4096

KNOWN: Final = "_known"
"""Column of `touches`: whether the values of the columns asked for are known as facts."""


def touches(
    requests: Table, columns: Sequence[str], block_bytes: int, ops: Sequence[str] = ("read", "write")
) -> Iterator[pl.DataFrame]:
    """Columns `columns`, KNOWN, at (ns, Int64.min for no time), dev and block (Int64), in order of time, part by part.

    A row for each block that a request, or a piece, covers, also in part.
    """
    for part in ranges(requests, columns, block_bytes, ops):
        lengths = part["nr_blocks"].to_numpy()
        row = np.repeat(np.arange(part.height), lengths)
        inside = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        each = part[row].with_columns(block=pl.col("first_block") + pl.Series(inside, dtype=pl.Int64))
        yield each.drop("first_block", "nr_blocks")


def ranges(requests: Table, columns: Sequence[str], block_bytes: int, ops: Sequence[str]) -> Iterator[pl.DataFrame]:
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


def places(touched: pl.DataFrame, *names: str) -> list[np.ndarray]:
    """Columns of Int64 as C takes them."""
    return [np.ascontiguousarray(touched[name].cast(pl.Int64).to_numpy()) for name in names]


def of_groups(sums: pl.DataFrame, by: Sequence[str], **values: pl.Expr) -> pl.DataFrame:
    """A row for each group of `sums` (columns `by`, KNOWN, n: touches), none where there is nothing, with `coverage`.

    That is the share of all touches whose group is known; null where nothing is told apart.
    """
    share = sums.select(pl.col("n").filter(KNOWN).sum() / pl.col("n").sum()).item() if by and sums.height else None
    if by:
        groups = sums.group_by(by, maintain_order=True).agg(**values)
    else:
        groups = sums.select(**values) if sums.height else sums.select(**values).clear()
    return groups.with_columns(coverage=pl.lit(share, pl.Float64))


@contextmanager
def simulated(handle: int | None, free: Callable[[int], None]) -> Iterator[int]:
    """What a C function has made, given back in the end."""
    if not handle:
        raise MemoryError
    try:
        yield handle
    finally:
        free(handle)
