"""Sequential and random: does a request begin where the one before it ended?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from androstep_analysis.measures.tables import Table, counted, known_share, ordered, tidy
from androstep_analysis.units import SECTOR_BYTES

CLASSES = ("consecutive", "forward", "random")


def locality(requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ("op",)) -> pl.DataFrame:
    """Consecutive, forward and random requests; dimensions `by` and `class`.

    Takes table `requests`, or `io` for streams and groups that only pieces know, such as
    ``stream=("dev", "op", "owner_comm")`` or ``stream=("dev", "ino")``. Metrics count, bytes, count_ratio and
    bytes_ratio (of all requests of the `by` group). Forward includes consecutive, so the three classes do not add up
    to one: consecutive and random do. Definitions: definitions.toml, consecutive, forward, random.
    """
    classified = classify(requests, stream=stream)
    dimensions = [*by, "class"]
    of_class = classified.unpivot(CLASSES, index=["request_id", "bytes", *by], variable_name="class", value_name="is")
    groups = of_class.group_by(dimensions).agg(
        count=pl.col("request_id").filter("is").n_unique(), bytes=pl.col("bytes").filter("is").sum()
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


def classify(requests: Table, *, stream: Sequence[str] = ("dev", "op")) -> pl.LazyFrame:
    """The counted rows that carry data, with time_ns, bytes and Boolean columns consecutive, forward and random.

    Order is that of issue, of queueing where there is no issue, of completion where there is neither; equal times by
    request. What a request has in one stream is of one class: where its pieces begin and end together decides, so
    that a piece never follows another of the same request. Rows come in no particular order.
    """
    rows = counted(requests).filter(pl.col("nr_sectors") > 0)
    rows = rows.with_columns(time_ns=order_ns(), bytes=pl.col("nr_sectors") * SECTOR_BYTES)
    one = list(dict.fromkeys(["request_id", *stream]))
    whole = rows.group_by(one).agg(
        pl.col("time_ns").min(), pl.col("sector").min(), end=(pl.col("sector") + pl.col("nr_sectors")).max()
    )
    ended = pl.col("end").shift(1).over(list(stream), order_by=["time_ns", "request_id"])
    consecutive = (pl.col("sector") == ended).fill_null(False)
    forward = (pl.col("sector") >= ended).fill_null(False)
    classes = whole.select(*one, consecutive=consecutive, forward=forward, random=~consecutive)
    return rows.join(classes, on=one, how="left", nulls_equal=True)


def order_ns() -> pl.Expr:
    """The time that orders requests: issue, else queueing, else completion."""
    return pl.coalesce("issue_ns", "queue_ns", "complete_ns")
