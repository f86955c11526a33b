"""Which bio of the trace each sector came with that the disk's log has.

The log tells an order and no times, the trace times. Two bios write one sector only one after the other, so that the
writes of a sector come in one order in both; but either may lack some. A write came to the disk between the times at
which its bio was queued and completed. So what the log has before (after) came no later (no earlier), which leaves a
span of time for every entry: a bio and an entry can be the same only if their spans meet. A pair is taken where both
have no other choice, which narrows the spans of others; where some are left that may be several things, as many on
both sides, they are the same in their order.
"""

from __future__ import annotations

import polars as pl

FOREVER = (1 << 63) - 1


def bio_sectors(bios: pl.DataFrame) -> pl.DataFrame:
    """A row for each sector of bios (ts, done, sector, nr_sectors …): also bio, bio_sector, ts_ns and done_ns."""
    inside = pl.int_ranges("sector", pl.col("sector") + pl.col("nr_sectors"))
    numbered = bios.with_row_index("bio").with_columns(
        bio_sector="sector", ts_ns="ts", done_ns=pl.col("done").fill_null(FOREVER), sector=inside
    )
    return numbered.explode("sector", empty_as_null=False, keep_nulls=False)


def matched(written: pl.DataFrame, queued: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The sectors of the log with column `bio` (null where the trace has none), and each entry's span of time.

    `written` has a row for each sector of an entry (entry, sector), `queued` for each of a bio (bio, sector, ts_ns,
    done_ns: FOREVER where it is not known). The span is entry, earliest_ns, latest_ns, inclusive.
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
    """Of the pairs that may be, those of the same place in the order of their sector, where both sides are as many.

    A group is what follows in one sector without a break, where no entry before may be a bio after.
    """
    rows = pairs.sort("sector", "entry", "bio")
    far = pl.col("bio").cum_max().shift().over("sector")
    first = pl.col("bio").min().over("sector", "entry")
    is_new = (pl.col("entry") != pl.col("entry").shift().over("sector")) & (first > far)
    rows = rows.with_columns(group=is_new.fill_null(True).cum_sum().over("sector"))
    key = ["sector", "group"]
    nth = {name: pl.col(name).rank("dense").over(key) for name in ("entry", "bio")}
    return rows.filter((nth["entry"].max().over(key) == nth["bio"].max().over(key)) & (nth["entry"] == nth["bio"]))
