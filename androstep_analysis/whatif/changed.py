"""A stream of requests after a change, with an account of the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from androstep_analysis.common import schema, units

EFFECTS: Final = ("before", "removed", "added", "after", "moved", "unknown")
"""Effects of a row of an account: before − removed + added = after. Requests that are moved in place or time are part
of `after`. So are unknown ones, which are kept because their relation to the change is unknown."""


_EFFECT: Final = pl.Enum(EFFECTS)


@dataclass(frozen=True)
class Changed:
    """Table `requests` after a change, and the account of the change.

    Attributes
    ----------
    requests : polars.DataFrame
        Table `requests` (docs/tables.md) in the order of issue, with new request_ids.
    account : polars.DataFrame
        Columns effect (Enum: before, removed, added, after, moved, unknown), change (String, in words), op (Enum),
        count (Int64, requests), bytes (Int64). before − removed + added = after. Requests that are moved (in place or
        in time) and unknown ones (kept because their relation to the change is unknown) are part of after.
    io : polars.DataFrame
        The pieces of table `io` whose requests are unchanged, with the new request_ids, for a further change. After
        `log_structured` there are none.
    """

    requests: pl.DataFrame
    account: pl.DataFrame
    io: pl.DataFrame


@dataclass(frozen=True)
class Part:
    """Requests (columns op, nr_sectors) that a change treats in the same way."""

    effect: str
    change: str
    requests: pl.DataFrame


def changed(
    before: pl.DataFrame, after: pl.DataFrame, parts: Sequence[Part], io: pl.DataFrame | None = None
) -> Changed:
    """Return the change of table `before` to the rows `after`, with an account of the `parts`.

    Requests that a change splits or joins are counted as removed or added, without bytes.
    """
    every = [Part("before", "as recorded", before), *parts, Part("after", "after the change", after)]
    rows = pl.concat(_row(part) for part in every)
    sign = pl.col("effect").replace_strict({"before": 1, "removed": -1, "added": 1, "after": -1}, default=0)
    left = rows.group_by("op").agg((pl.col("count", "bytes") * sign).sum())
    assert not (left["bytes"] != 0).any(), "a change must account for every byte"
    cut = left.filter(pl.col("count") != 0).select(
        effect=pl.when(pl.col("count") > 0).then(pl.lit("removed")).otherwise(pl.lit("added")).cast(_EFFECT),
        change=pl.lit("number of requests, by cutting and joining"),
        op="op",
        count=pl.col("count").abs(),
        bytes=pl.lit(0, pl.Int64),
    )
    ordered = _ordered(after)
    pieces = schema.empty("io") if io is None else _unchanged_pieces(io, ordered)
    return Changed(_numbered(ordered), pl.concat([rows, cut]).sort("effect", "change", "op"), pieces)


def _row(part: Part) -> pl.DataFrame:
    counts = part.requests.group_by("op").agg(
        count=pl.len().cast(pl.Int64), bytes=pl.col("nr_sectors").sum().cast(pl.Int64) * units.SECTOR_BYTES
    )
    return counts.select(
        pl.lit(part.effect).cast(_EFFECT).alias("effect"), pl.lit(part.change).alias("change"), pl.all()
    )


def _ordered(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the requests in the order of issue, else of queueing."""
    time = pl.coalesce("issue_ns", "insert_ns", "queue_ns", "complete_ns")
    return requests.sort(time, "request_id", nulls_last=True, maintain_order=True)


def _numbered(requests: pl.DataFrame) -> pl.DataFrame:
    """Return table `requests` with request_ids from 0 in its order."""
    rows = requests.with_columns(request_id=pl.int_range(pl.len(), dtype=pl.Int64))
    return schema.complete(rows, "requests")


def _unchanged_pieces(io: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces that lie in a request with the same request_id, with its new one."""
    ranges = requests.select(
        "request_id",
        first="sector",
        end=pl.col("sector") + pl.col("nr_sectors"),
        number=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    inside = pl.col("sector").is_null() | (
        (pl.col("sector") >= pl.col("first")) & (pl.col("sector") + pl.col("nr_sectors") <= pl.col("end"))
    )
    found = io.join(ranges, on="request_id", maintain_order="left").filter(inside)
    return schema.complete(found.with_columns(request_id="number").drop("first", "end", "number"), "io")


def without_pieces(requests: pl.DataFrame, pieces: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return table `requests` without these pieces (columns request_id, sector, nr_sectors), and these as requests.

    Adjacent pieces are one request. A request that consists of them only in part is split: each remaining run of
    sectors becomes a request of its own, with the times and flags of the whole.
    """
    whole = requests.filter(pl.col("request_id").is_in(pieces["request_id"].implode()))
    runs = _runs(pieces)
    others = requests.filter(~pl.col("request_id").is_in(pieces["request_id"].implode()))
    removed = runs.join(whole.drop("sector", "nr_sectors"), on="request_id").with_columns(
        part_sector=pl.lit(None, pl.Int64)
    )
    return pl.concat([others, _remainders(whole, runs)]), removed.select(requests.columns)


def _runs(pieces: pl.DataFrame) -> pl.DataFrame:
    """Join adjacent pieces of a request: columns request_id, sector, nr_sectors."""
    end = (pl.col("sector") + pl.col("nr_sectors")).shift(1).over("request_id", order_by="sector")
    rows = pieces.select("request_id", "sector", "nr_sectors").sort("request_id", "sector")
    runs = rows.with_columns(run=(pl.col("sector") != end).fill_null(value=True).cum_sum())
    return (
        runs.group_by("request_id", "run", maintain_order=True)
        .agg(pl.col("sector").first(), pl.col("nr_sectors").sum())
        .drop("run")
    )


def _remainders(whole: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of sectors of each request that are not in `taken`."""
    end = pl.col("sector") + pl.col("nr_sectors")
    begins = runs.select("request_id", from_sector="sector", to_sector=end)
    last = whole.select("request_id", from_sector=end, to_sector=end)
    gaps = (
        pl.concat([begins, last])
        .sort("request_id", "from_sector")
        .join(whole.select("request_id", first="sector"), on="request_id")
        .with_columns(
            left=pl.max_horizontal(
                "first", pl.col("to_sector").cum_max().shift(1).over("request_id", order_by="from_sector")
            )
        )
        .filter(pl.col("from_sector") > pl.col("left"))
        .select("request_id", sector="left", nr_sectors=pl.col("from_sector") - pl.col("left"))
    )
    shift = pl.col("sector_new") - pl.col("sector")
    rests = whole.join(gaps.rename({"sector": "sector_new", "nr_sectors": "nr_new"}), on="request_id")
    return rests.with_columns(
        part_sector=pl.col("part_sector") + shift, sector="sector_new", nr_sectors="nr_new"
    ).select(whole.columns)
