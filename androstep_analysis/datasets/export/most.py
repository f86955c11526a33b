"""Export to the output of MOST, for scripts that read `.po` files.

The lines are those of Table 2 of the AndroStep paper (Jeong et al., ME 2013) as MOST's user program wrote them: time,
action, flags, sector, sectors, thread, name, block type, path. There are three intentional differences:

- The block type is the one at the time of the request. It is empty if it is unknown (MOST wrote M).
- The file class is not added to the thread number.
- A path has a single leading slash.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import polars as pl

from androstep_analysis.capture import Capture
from androstep_analysis.datasets.export import blkparse
from androstep_analysis.datasets.export.batches import batches, decimal, one_field, write_lines, zeros
from androstep_analysis.link import intervals

LETTERS = {action: letter for action, letter in blkparse.LETTERS.items() if action not in ("plug", "unplug")}
"""blkparse's letter of each action with sectors. Plugs, unplugs and merges of requests have none."""

BLOCK_TYPES = {"data": "D", "directory": "D", "journal": "J", "metadata": "M"}
"""The paper counts directory entries as data. Free and unknown blocks have no letter."""


def lines(capture: Capture) -> pl.DataFrame:
    """Return one row per block event.

    The columns are ts_ns Int64, action, rwbs, sector Int64, nr_sectors Int64, tid Int32, comm, block_type (D, J, M or
    null) and path. A `.po` trace keeps its own block types and paths.
    """
    events = (
        capture.block_events.filter(pl.col("action").cast(pl.String).is_in(list(LETTERS)))
        .with_columns(action=pl.col("action").cast(pl.String).replace_strict(LETTERS))
        .collect()
    )
    if capture.format == "most_po":
        stated = events.select(pl.col("block_type").cast(pl.String), "path")
    else:
        stated = _mapped(events, capture.io.collect())
    typed = events.select("ts_ns", "action", "rwbs", "sector", "nr_sectors", "tid", "comm").hstack(stated)
    letter = pl.col("block_type").replace_strict(BLOCK_TYPES, default=None, return_dtype=pl.String)
    return typed.with_columns(
        block_type=letter,
        path=pl.when(letter == "D").then("path"),
        sector=pl.col("sector").fill_null(0),
        nr_sectors=pl.col("nr_sectors").fill_null(0),
    )


def _mapped(events: pl.DataFrame, io: pl.DataFrame) -> pl.DataFrame:
    """Return block_type and path of each event's first sector, from the first completed request that contains it."""
    pieces = io.filter(pl.col("nr_sectors") > 0)
    placed = events.with_row_index("at").filter(pl.col("nr_sectors") > 0, pl.col("sector").is_not_null())
    done = pieces.select(pl.coalesce("complete_ns", "issue_ns", "queue_ns")).to_series().to_numpy()
    found = intervals.stab(
        intervals.Queries(
            placed["dev"].fill_null(0).cast(pl.Int64).to_numpy(),
            placed["sector"].to_numpy(),
            np.ones(placed.height, np.int64),
            -placed["ts_ns"].to_numpy(),
        ),
        intervals.Rows(
            pieces["dev"].cast(pl.Int64).to_numpy(),
            pieces["sector"].to_numpy(),
            pieces["nr_sectors"].to_numpy(),
            -done,
            np.full(pieces.height, intervals.FOREVER),
        ),
    )
    row = np.full(events.height, -1)
    row[placed["at"].to_numpy()[found.query]] = found.row
    where = pl.Series(row)
    found_at = where.set(where < 0, None)
    return pieces.select(pl.col("block_type").cast(pl.String).gather(found_at), pl.col("path").gather(found_at))


def write(capture: Capture, file: BinaryIO) -> None:
    r"""Write `lines` in the columns of MOST's README (``%5T.%9t\t%a\t%d\t%8S\t%4n\t%4p\t%20C``)."""
    for part in batches(lines(capture).lazy()):
        write_lines(part.select(_line()).to_series(), file)


def _line() -> pl.Expr:
    return pl.concat_str(
        pl.format("{}.{}", decimal(pl.col("ts_ns") // 1_000_000_000, 5), zeros(pl.col("ts_ns") % 1_000_000_000, 9)),
        "action",
        one_field(pl.col("rwbs").fill_null("N")),
        decimal(pl.col("sector"), 8),
        decimal(pl.col("nr_sectors"), 4),
        decimal(pl.col("tid").fill_null(0), 4),
        one_field(pl.col("comm").fill_null("")).str.pad_start(20),
        pl.col("block_type"),
        one_field(pl.col("path")),
        separator="\t",
        ignore_nulls=True,
    )
