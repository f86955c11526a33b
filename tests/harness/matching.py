"""Match each sector in the disk's log to a bio of the trace.

The log has an order without times, the trace has times. Both have the writes of one sector in the same order, because
two bios write a sector one after the other. Either may lack some of them.

1. A write reaches the disk between queueing and completion of its bio. Entries before (after) it in the log arrived no
   later (no earlier). This gives each entry a time span.
2. A bio and an entry can match only if their spans overlap. A pair without alternatives on both sides matches, which
   narrows the spans of other entries. This step is repeated.
3. If several pairs remain, with equal numbers on both sides, they match in order.
"""

from __future__ import annotations

import polars as pl

FOREVER = (1 << 63) - 1


def bio_sectors(bios: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each sector of bios (ts, done, sector, nr_sectors …); adds bio, bio_sector, ts_ns, done_ns."""
    inside = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors"))
    numbered = bios.with_row_index("bio").with_columns(
        bio_sector="sector", ts_ns="ts", done_ns=pl.col("done").fill_null(FOREVER), sector=inside
    )
    return numbered.explode("sector", empty_as_null=False, keep_nulls=False)


def matched(written: pl.DataFrame, queued: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the sectors of the log with column `bio` (null without a match), and each entry's time span.

    `written` has a row for each sector of an entry (entry, sector), `queued` for each of a bio (bio, sector, ts_ns,
    done_ns: FOREVER if unknown). The columns of spans are entry, earliest_ns and latest_ns, inclusive.
    """
    pairs = written.select("entry", "sector").join(queued, on="sector")
    alone = pairs.filter((pl.len().over("entry", "sector") == 1) & (pl.len().over("bio", "sector") == 1))
    entries = written.select("entry").unique().sort("entry")
    while True:
        spans = _spans(entries, alone)
        possible = pairs.join(spans, on="entry").filter(
            (pl.col("ts_ns") <= pl.col("latest_ns")) & (pl.col("done_ns") >= pl.col("earliest_ns"))
        )
        is_only = (pl.len().over("entry", "sector") == 1) & (pl.len().over("bio", "sector") == 1)
        certain = possible.filter(is_only).select(pairs.columns)
        if certain.height <= alone.height:
            break
        rest = pairs.join(certain, on=["entry", "sector"], how="anti").join(certain, on=["bio", "sector"], how="anti")
        pairs, alone = pl.concat([certain, rest]), certain
    open_ = possible.filter(~is_only)
    found = pl.concat([certain, _in_order(open_).select(pairs.columns)])
    return written.join(found.select("entry", "sector", "bio"), on=["entry", "sector"], how="left"), spans


def _spans(entries: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    own = pairs.group_by("entry").agg(pl.col("ts_ns").max(), pl.col("done_ns").min())
    return (
        entries.join(own, on="entry", how="left")
        .sort("entry")
        .select(
            "entry",
            earliest_ns=pl.col("ts_ns").cum_max().forward_fill().fill_null(-1),
            latest_ns=pl.col("done_ns").cum_min(reverse=True).backward_fill().fill_null(FOREVER),
        )
    )


def _in_order(pairs: pl.DataFrame) -> pl.DataFrame:
    """Match possible pairs by their order in the sector, in groups with equally many entries and bios.

    A new group of a sector begins where no earlier entry can match a later bio.
    """
    rows = pairs.sort("sector", "entry", "bio")
    far = pl.col("bio").cum_max().shift().over("sector")
    first = pl.col("bio").min().over("sector", "entry")
    is_new = (pl.col("entry") != pl.col("entry").shift().over("sector")) & (first > far)
    rows = rows.with_columns(group=is_new.fill_null(True).cum_sum().over("sector"))
    key = ["sector", "group"]
    nth = {name: pl.col(name).rank("dense").over(key) for name in ("entry", "bio")}
    return rows.filter((nth["entry"].max().over(key) == nth["bio"].max().over(key)) & (nth["entry"] == nth["bio"]))
