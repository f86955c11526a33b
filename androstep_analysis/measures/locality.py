"""Sequential and random: does a request begin where the one before it ended?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.tables import KNOWN, Table, counted, is_known, known_share, lazy, ordered, tidy

CLASSES = ("consecutive", "forward", "random")


def locality(requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ("op",)) -> pl.DataFrame:
    """Consecutive, forward and random requests.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for streams and groups that only pieces know: request_id, dev, sector, nr_sectors, op,
        queue_ns, issue_ns, complete_ns.
    stream : sequence of str
        The columns that tell streams apart, such as ``("dev", "op", "owner_comm")`` or ``("dev", "ino")``.
    by : sequence of str
        The columns to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and class (String: consecutive, forward, random). Metrics count [requests], bytes [B],
        count_ratio and bytes_ratio [1] (of all requests of the `by` group). Forward includes consecutive, so the three
        classes do not add up to one: consecutive and random do.

    References
    ----------
    ``schemas/definitions.toml``, consecutive, forward and random; AndroStep (ME 2013); Darshan.

    Examples
    --------
    >>> table = measures.locality(capture.requests)
    >>> table.filter(pl.col("class") != "forward", metric="count_ratio", op="read")["value"].sum()
    1.0
    """
    dimensions = [*by, "class"]
    rows = lazy(requests)
    rows = rows.with_columns(is_known((*stream, *by), rows.collect_schema().names()).alias(KNOWN))
    classes = classify(rows, stream=stream, by=(*by, KNOWN))
    sums = summed((_sums(part, by) for part in classes), dimensions)
    every = sums.filter(pl.col("class") == CLASSES[0]).select("known", bytes="whole")
    table = tidy(sums, dimensions, known_share(every))
    # Consecutive and random are all there is: their sum is the whole of each group.
    group = [pl.col("metric"), *by]
    whole = pl.col("value").filter(pl.col("class") != "forward").sum().over(group)
    ratios = table.with_columns(
        value=pl.when(whole > 0).then(pl.col("value") / whole), metric=pl.col("metric") + "_ratio", unit=pl.lit("1")
    )
    return with_inferred(ordered(pl.concat([table, ratios]), dimensions), rows)


def _sums(part: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Of each group and class of a part of `classify` count and bytes; of the group its bytes, and what is known."""
    size, request = pl.col("bytes"), pl.col(REQUEST)
    counts = {f"count_{kind}": request.filter(kind).n_unique().cast(pl.Int64) for kind in CLASSES}
    sizes = {f"bytes_{kind}": size.filter(kind).sum() for kind in CLASSES}
    groups = (
        part.with_columns(pl.lit("").alias("class"))
        .group_by(*by, "class")
        .agg(**counts, **sizes, whole=size.sum(), known=size.filter(KNOWN).sum())
    )
    return pl.concat(
        groups.with_columns(pl.lit(kind).alias("class")).select(
            *by, "class", "whole", "known", count=f"count_{kind}", bytes=f"bytes_{kind}"
        )
        for kind in CLASSES
    )


def classify(
    requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """The counted rows that carry data, part by part.

    Columns request_id, `stream`, `by`, time_ns, bytes and Boolean columns consecutive, forward and random.

    Order is that of issue, of queueing where there is no issue, of completion where there is neither; equal times by
    request. What a request has in one stream is of one class: where its pieces begin and end together decides, so
    that a piece never follows another of the same request. All that a request has is in one part, and rows come in that
    order.
    """
    rows = counted(requests).filter(pl.col("nr_sectors") > 0)
    rows = rows.with_columns(
        time_ns=order_ns(),
        end=pl.col("sector") + pl.col("nr_sectors"),
        bytes=pl.col("nr_sectors") * SECTOR_BYTES,
        at=order_ns().fill_null(pl.Int64.min()),  # what has no time comes first
    )
    one = list(dict.fromkeys([REQUEST, *stream]))
    columns = list(dict.fromkeys([*one, *by, "time_ns", "sector", "end", "bytes", "at"]))
    last: pl.DataFrame | None = None
    for part in parts(rows.select(columns), "at"):
        # Of table requests: a row is a request, and nothing has to be put together.
        is_whole = bool((part[REQUEST].diff().drop_nulls() > 0).all())
        part = part.sort("time_ns", REQUEST)
        whole = part
        if not is_whole:
            edges = (pl.col("time_ns").min(), pl.col("sector").min(), pl.col("end").max())
            whole = part.group_by(one).agg(edges).sort("time_ns", REQUEST)
        places = whole.select(*stream, "end")
        places = places if last is None else pl.concat([last, places])
        ended = places.select(pl.col("end").shift(1).over(list(stream))).tail(whole.height)["end"]
        last = places.group_by(list(stream)).agg(pl.col("end").last())
        consecutive, forward = (whole["sector"] == ended).fill_null(False), (whole["sector"] >= ended).fill_null(False)
        classes = whole.with_columns(consecutive=consecutive, forward=forward, random=~consecutive)
        if not is_whole:
            classes = part.join(
                classes.select(*one, *CLASSES), on=one, how="left", nulls_equal=True, maintain_order="left"
            )
        yield classes.drop("sector", "end", "at")


def order_ns() -> pl.Expr:
    """The time that orders requests: issue, else queueing, else completion.

    Returns
    -------
    polars.Expr
        Int64, in ns, of a table with columns issue_ns, queue_ns and complete_ns.

    Examples
    --------
    >>> capture.requests.sort(measures.order_ns()).select("request_id").first().collect().item()
    0
    """
    return pl.coalesce("issue_ns", "queue_ns", "complete_ns")


LOCALITY: Final = Measure(
    "sequential and random",
    ("requests",),
    lambda t, by: locality(t["requests"], by=(*by, "op")),
    own=("op",),
    within=("op",),
    applied=Applied.AFTER,
    natural=("class",),
    worse="higher",
    costly=("random",),
)
