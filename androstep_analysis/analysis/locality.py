"""Sequential and random: does a request begin where the one before it ended?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.analysis.tables import Table, counted, known_share, ordered, tidy
from androstep_analysis.units import SECTOR_BYTES

CLASSES = ("consecutive", "forward", "random")


def locality(requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ("op",)) -> pl.DataFrame:
    """Consecutive, forward and random requests; dimensions `by` and `class`.

    Takes table `requests`, or `io` for streams and groups that only pieces know, such as
    ``stream=("dev", "op", "owner_comm")`` or ``stream=("dev", "ino")``. Metrics count, bytes, count_ratio and
    bytes_ratio (of all requests of the `by` group). Forward includes consecutive, so the three classes do not add up
    to one: consecutive and random do. Definitions: definitions.toml, consecutive, forward, random.
    """
    classified = classify(requests, stream=stream, keep=by)
    dimensions = [*by, "class"]
    groups = pl.concat(
        classified.group_by(pl.lit(name).alias("class"), *by).agg(
            count=pl.col("request_id").filter(name).n_unique(), bytes=pl.col("bytes").filter(name).sum()
        )
        for name in CLASSES
    )
    known = pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in (*stream, *by)))
    table = tidy(groups, dimensions, known_share(classified, known))
    # Consecutive and random are all there is: their sum is the whole of each group.
    group = [pl.col("metric"), *by]
    whole = pl.col("value").filter(pl.col("class") != "forward").sum().over(group)
    ratios = table.with_columns(
        value=pl.when(whole > 0).then(pl.col("value") / whole), metric=pl.col("metric") + "_ratio", unit=pl.lit("1")
    )
    return ordered(pl.concat([table, ratios]), dimensions)


def classify(requests: Table, *, stream: Sequence[str] = ("dev", "op"), keep: Sequence[str] = ()) -> pl.LazyFrame:
    """The counted requests that carry data, in order, with Boolean columns consecutive, forward and random.

    Order is that of issue, of queueing where there is no issue, of completion where there is neither; equal times by
    request. The pieces that a request has in one stream (and one group of `keep`) stand together as one row. Columns:
    request_id, `stream`, `keep`, time_ns, sector, bytes and the three classes.
    """
    names = list(dict.fromkeys(["request_id", *stream, *keep]))
    end = pl.col("sector") + pl.col("nr_sectors")
    rows = counted(requests).filter(pl.col("nr_sectors") > 0).with_columns(time_ns=order_ns())
    rows = rows.group_by(names).agg(
        pl.col("time_ns").min(),
        pl.col("sector").min(),
        end=end.max(),
        bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES,
    )
    rows = rows.sort("time_ns", "request_id", "sector")
    ended = pl.col("end").shift(1).over(list(stream))
    consecutive = (pl.col("sector") == ended).fill_null(False)
    return rows.with_columns(
        consecutive=consecutive, forward=(pl.col("sector") >= ended).fill_null(False), random=~consecutive
    )


def order_ns() -> pl.Expr:
    """The time that orders requests: issue, else queueing, else completion."""
    return pl.coalesce("issue_ns", "queue_ns", "complete_ns")
