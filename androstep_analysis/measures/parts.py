"""Reading tables in parts, in bounded memory, for measures that need all pieces of a request at once or rows in order.

Tables are written in order of request_id, and requests are nearly in order of time. Rows are therefore read in batches,
and held only until no later row can come before them or belong to the same request.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import polars as pl

ROWS = 1 << 17
"""Rows of a batch."""

MOST = 1 << 20
"""The most rows that are held in memory to read a table only once."""

REQUEST = "request_id"


def batches(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Return an iterator over the rows of `table` in order, up to `ROWS` at a time."""
    return iter(table.collect_batches(chunk_size=ROWS, maintain_order=True))


def in_step(events: pl.LazyFrame, others: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Merge two tables with the same columns, both in order of ts_ns, and yield the result in parts.

    At equal times, rows of `events` come first.
    """
    consumed = 0
    for batch in batches(events):
        if batch.is_empty():
            continue
        end = int(others["ts_ns"].search_sorted(batch["ts_ns"][-1], "left"))
        yield pl.concat([batch, others[consumed:end]]).sort("ts_ns", maintain_order=True)
        consumed = max(consumed, end)
    yield others[consumed:]


def parts(table: pl.LazyFrame, order: str = REQUEST) -> Iterator[pl.DataFrame]:
    """Yield the rows in at least one part, in each part in the order of the table.

    Every row has a lower value in column `order` (Int64 without nulls) than all rows of later parts, and all rows of a
    request are in one part. A table with more than `MOST` rows is read twice, and must have the same order of rows both
    times. Memory then holds a batch, and the rows that are out of order.
    """
    few = _few(table)
    ends, least, requests = [0], [0], [0]
    for batch in few or batches(table.select({order, REQUEST})):
        ends.append(ends[-1] + batch.height)
        least.append(int(batch[order].to_numpy().min()))
        requests.append(int(batch[REQUEST].to_numpy().min()))
    # The minimum over each batch and all later ones.
    least, requests = ([*accumulate(reversed(those), min)][::-1] for those in (least, requests))
    held, seen = table.head(0).collect(), 0
    for batch in few or batches(table):
        held = pl.concat([held, batch])
        seen += batch.height
        if seen < ends[-1]:
            # The batches of the two readings may differ. Rows of the first reading's batch in which this one ends may
            # still be missing.
            at = bisect_right(ends, seen)
            ready, held = _split_ready(held, order, least[at], requests[at])
            if ready.height:
                yield ready
    yield held


def _few(table: pl.LazyFrame) -> list[pl.DataFrame]:
    """Return the batches of a table with at most `MOST` rows; none of a larger one."""
    few: list[pl.DataFrame] = []
    for batch in batches(table):
        few.append(batch)
        if sum(map(len, few)) > MOST:
            return []
    return few


def _split_ready(rows: pl.DataFrame, order: str, least: int, request: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the rows into those that are ready and those that must wait.

    Rows with `order` or `REQUEST` at or above these values may still come.
    """
    end, before = least, None
    while end != before:
        is_ready = pl.col(order) < end
        ready, waiting = rows.filter(is_ready), rows.filter(~is_ready)
        if order == REQUEST:
            break
        is_incomplete = (pl.col(REQUEST) >= request) | pl.col(REQUEST).is_in(waiting[REQUEST].implode())
        incomplete = ready.filter(is_incomplete)[order]
        before, end = end, int(incomplete.to_numpy().min()) if incomplete.len() else end
    return ready, waiting


def by_group(pieces: pl.LazyFrame, dimensions: Sequence[str], known: pl.Expr | None = None) -> pl.DataFrame:
    """Return columns `dimensions`, count (requests with such a piece), bytes and known, for each group of table `io`.

    All are Int64. known is the bytes of the pieces for which `known` holds, by default of all.
    """
    return of_requests(
        pieces.with_columns(known=pl.lit(True) if known is None else known),
        dimensions,
        count=pl.col(REQUEST).n_unique().cast(pl.Int64),
        bytes=pl.col("bytes").sum(),
        known=pl.col("bytes").filter("known").sum(),
    )


def of_requests(rows: pl.LazyFrame, dimensions: Sequence[str], **sums: pl.Expr) -> pl.DataFrame:
    """Return a row for each group with sums over requests. Each expression sees all rows of a request at once."""
    columns = dict.fromkeys([*dimensions, REQUEST, *(name for one in sums.values() for name in one.meta.root_names())])
    table = rows.select(list(columns))

    def groups(some: Iterable[pl.DataFrame]) -> pl.DataFrame:
        return summed((part.group_by(dimensions).agg(**sums) for part in some), dimensions)

    try:
        return groups(_as_ordered(table))
    except _DisorderError:
        return groups(parts(table))


class _DisorderError(Exception):
    """The table is not in order of its requests."""


def _as_ordered(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Yield the same parts as `parts` for a table in order of its requests, reading it once."""
    held = table.head(0).collect()
    for batch in batches(table):
        rows = pl.concat([held, batch])
        requests = rows[REQUEST]
        if not requests.is_sorted():
            raise _DisorderError
        cut = int(requests.search_sorted(requests[-1]))
        yield rows[:cut]
        held = rows[cut:]
    yield held


def summed(groups: Iterable[pl.DataFrame], dimensions: Sequence[str]) -> pl.DataFrame:
    """Return one table from tables with a row for each group (`dimensions`); all other columns are added up."""
    total: pl.DataFrame | None = None
    waiting: list[pl.DataFrame] = []
    for part in groups:
        rows = part.select(*dimensions, *(name for name in part.columns if name not in dimensions))
        if total is None:
            total = rows
            continue
        waiting.append(rows)
        # Adding up many groups is slow. Wait until the waiting rows are as many as the total.
        if sum(map(len, waiting)) >= total.height:
            total, waiting = _added_up([total, *waiting], dimensions), []
    assert total is not None, "at least one part is expected"
    return _added_up([total, *waiting], dimensions) if waiting else total


def _added_up(tables: list[pl.DataFrame], dimensions: Sequence[str]) -> pl.DataFrame:
    return pl.concat(tables).group_by(dimensions).agg(pl.exclude(dimensions).sum())
