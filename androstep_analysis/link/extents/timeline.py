"""Make extents of statements in order of time: each ends where the next one about the same sectors begins."""

from __future__ import annotations

import numpy as np
import polars as pl

from androstep_analysis.common import schema, units
from androstep_analysis.link import intervals
from androstep_analysis.link.intervals import ALWAYS, FOREVER, Int64s

_IDENTITY = ("source", "block_type", "subtype", "ino", "incarnation", "generation", "start_of_file")


def succeeding(extents: pl.DataFrame) -> pl.DataFrame:
    """Return table `extents`, with each row split so that only the latest statement holds at each sector and time.

    The rows are statements in order of time (`valid_from_ns` ascending, null first); of equal times the later row is
    the later statement. A row ends at its own end or where another row states something else about the same sectors,
    whichever is first. A row that only repeats the previous one is part of it.
    """
    parts = [
        _of_device(rows[at])
        for _, rows in extents.group_by("dev", maintain_order=True)
        for at in intervals.apart(*_ranges(rows), intervals.PART)
    ]
    return pl.concat([extents.clear(), *parts]).sort("dev", "sector", "valid_from_ns", maintain_order=True)


def _ranges(extents: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Return the begin and end of the sectors of each extent."""
    start = extents["sector"].to_numpy()
    return start, start + extents["nr_sectors"].to_numpy()


def _of_device(extents: pl.DataFrame) -> pl.DataFrame:
    """Return `succeeding` of one device."""
    start, end = _ranges(extents)
    valid_from = extents["valid_from_ns"].fill_null(int(ALWAYS)).to_numpy()
    valid_to = extents["valid_to_ns"].fill_null(int(FOREVER)).to_numpy()
    start_of_file = pl.col("sector") * units.SECTOR_BYTES - pl.col("file_offset_bytes")
    numbered = extents.with_row_index("identity").with_columns(start_of_file=start_of_file)
    identity = numbered.select(pl.col("identity").first().over(_IDENTITY)).to_series().to_numpy()

    # Pair every row with the segments between two edges that it covers, by segment and in order of time.
    edges = intervals.distinct(np.concatenate([start, end]))
    first = np.searchsorted(edges, start)
    count = np.searchsorted(edges, end) - first
    row = np.repeat(np.arange(len(start)), count)
    segment = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    order = np.lexsort((row, segment))
    row, segment = row[order], segment[order]

    repeats = np.zeros(len(row), np.bool_)
    same = (segment[1:] == segment[:-1]) & (identity[row[1:]] == identity[row[:-1]])
    repeats[1:] = same & (valid_to[row[1:]] == valid_to[row[:-1]])
    row, segment = row[~repeats], segment[~repeats]

    until = valid_to[row]
    followed = np.flatnonzero(segment[1:] == segment[:-1])
    until[followed] = np.minimum(until[followed], valid_from[row[followed + 1]])
    held = until > valid_from[row]
    row, segment, until = row[held], segment[held], until[held]

    # Neighbouring segments of one row that end together are one extent again.
    order = np.lexsort((segment, row))
    row, segment, until = row[order], segment[order], until[order]
    begins = np.ones(len(row), np.bool_)
    begins[1:] = (row[1:] != row[:-1]) | (until[1:] != until[:-1]) | (segment[1:] != segment[:-1] + 1)
    head = np.flatnonzero(begins)
    tail = np.append(head[1:], len(row))[: len(head)] - 1
    split = extents[row[head]]
    sector, last = edges[segment[head]], edges[segment[tail] + 1]
    skipped = (pl.Series(sector) - split["sector"]) * units.SECTOR_BYTES
    ends = pl.Series(until[head])
    return split.with_columns(
        sector=pl.Series(sector),
        nr_sectors=pl.Series(last - sector),
        file_offset_bytes=pl.col("file_offset_bytes") + skipped,
        valid_to_ns=ends.set(ends == int(FOREVER), None),
    )


def completed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return table `extents` of rows that have some of its columns; the others are null."""
    want = schema.table("extents").polars
    absent = [pl.lit(None).alias(name) for name in want if name not in rows.columns]
    table = rows.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in want.items())
    return schema.conform(table, "extents")
