"""Sequential and random access: whether a request begins at the end of the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.order import IS_ORDERED, order_ns, with_order
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.tables import KNOWN, Table, counted, is_known, known_share, lazy, ordered, tidy

CLASSES = ("consecutive", "forward", "random", "unknown")


def locality(requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ("op",)) -> pl.DataFrame:
    """Return consecutive, forward and random requests, and those whose order of issue is unknown.

    Parameters
    ----------
    requests : Table
        Table `requests`, or `io` for columns that only `io` has: request_id, dev, sector, nr_sectors, op, queue_ns,
        issue_ns, complete_ns, and optionally issue_error_ns.
    stream : sequence of str
        The columns that identify a stream, such as ``("dev", "op", "owner_comm")`` or ``("dev", "ino")``.
    by : sequence of str
        The columns to group by.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and class (String: consecutive, forward, random, and unknown if there are such). Metrics
        count [requests], bytes [B], count_ratio and bytes_ratio [1]. The ratios of unknown are of all requests of the
        `by` group, the others of those that are not unknown; they are null if no request of the operation has a known
        predecessor. Consecutive and random add up to one. Forward includes consecutive. `coverage` is the share of the
        bytes whose class and `by` are known.

    References
    ----------
    ``schemas/definitions.toml``, consecutive, forward, random and order; AndroStep (ME 2013); Darshan.

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
    table = table.filter((pl.col("class") != "unknown") | (pl.col("n") > 0))
    # Consecutive, random and unknown add up to the total of each group.
    group, kind = [pl.col("metric"), *by], pl.col("class")
    whole = pl.col("value").filter(kind != "forward").sum().over(group)
    known = pl.col("value").filter(kind.is_in(["consecutive", "random"])).sum().over(group)
    # Without any known predecessor, the requests of an operation say nothing about order.
    preceded = sums.filter(pl.col("preceded") > 0)
    has_order = pl.col("op").is_in(preceded["op"].implode()) if "op" in by else pl.lit(preceded.height > 0)
    ratios = table.with_columns(
        value=pl.when(kind == "unknown")
        .then(pl.col("value") / whole)
        .when(has_order, known > 0)
        .then(pl.col("value") / known),
        metric=pl.col("metric") + "_ratio",
        unit=pl.lit("1"),
    )
    return with_inferred(ordered(pl.concat([table, ratios]), dimensions), rows)


def _sums(part: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return count and bytes of each group and class of a part of `classify`.

    `whole`, `known` and `preceded` are those of the group: its bytes, its known bytes, and its rows with a known
    predecessor.
    """
    size, request = pl.col("bytes"), pl.col(REQUEST)
    counts = {f"count_{kind}": request.filter(kind).n_unique().cast(pl.Int64) for kind in CLASSES}
    sizes = {f"bytes_{kind}": size.filter(kind).sum() for kind in CLASSES}
    is_sure = ~pl.col("unknown")
    groups = (
        part.with_columns(pl.lit("").alias("class"))
        .group_by(*by, "class")
        .agg(
            **counts,
            **sizes,
            whole=size.sum(),
            known=size.filter(KNOWN, is_sure).sum(),
            preceded=(is_sure & ~pl.col("is_first")).sum(),
        )
    )
    return pl.concat(
        groups.with_columns(pl.lit(kind).alias("class")).select(
            *by, "class", "whole", "known", "preceded", count=f"count_{kind}", bytes=f"bytes_{kind}"
        )
        for kind in CLASSES
    )


def classify(
    requests: Table, *, stream: Sequence[str] = ("dev", "op"), by: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield the counted rows that carry data, part by part, with their class.

    Columns are request_id, `stream`, `by`, time_ns, bytes and the Boolean columns consecutive, forward, random,
    unknown, and is_first: the request is the first one of its stream. A request is unknown if its own place in the
    order of issue is (`with_order`), or that of the previous request of its stream.

    Requests are in order of issue, else of queueing, else of completion; equal times in order of request_id. All pieces
    of a request in one stream have the same class, which depends on the first and the last sector of all of them. A
    piece therefore never follows another piece of the same request. All pieces of a request are in one part.
    """
    rows = with_order(counted(requests).filter(pl.col("nr_sectors") > 0)).with_columns(
        time_ns=order_ns(),
        end=pl.col("sector") + pl.col("nr_sectors"),
        bytes=pl.col("nr_sectors") * SECTOR_BYTES,
        at=order_ns().fill_null(pl.Int64.min()),  # rows without a time come first
    )
    one = list(dict.fromkeys([REQUEST, *stream]))
    columns = list(dict.fromkeys([*one, *by, "time_ns", "sector", "end", "bytes", "at", IS_ORDERED]))
    last: pl.DataFrame | None = None
    for part in parts(rows.select(columns), "at"):
        # In table requests, each row is a complete request.
        is_whole = bool((part[REQUEST].diff().drop_nulls() > 0).all())
        part = part.sort("time_ns", REQUEST)
        whole = part
        if not is_whole:
            edges = (pl.col("time_ns", "sector", IS_ORDERED).min(), pl.col("end").max())
            whole = part.group_by(one).agg(edges).sort("time_ns", REQUEST)
        ends = ("end", IS_ORDERED)
        stream_ends = whole.select(*stream, *ends)
        stream_ends = stream_ends if last is None else pl.concat([last, stream_ends])
        before = stream_ends.select(pl.col(ends).shift(1).over(list(stream))).tail(whole.height)
        ended = before["end"]
        last = stream_ends.group_by(list(stream)).agg(pl.col(ends).last())
        is_sure = whole[IS_ORDERED] & before[IS_ORDERED].fill_null(True)
        consecutive, forward = (
            (one & is_sure).fill_null(False) for one in (whole["sector"] == ended, whole["sector"] >= ended)
        )
        classes = whole.with_columns(
            consecutive=consecutive,
            forward=forward,
            random=~consecutive & is_sure,
            unknown=~is_sure,
            is_first=ended.is_null(),
        )
        if not is_whole:
            classes = part.join(
                classes.select(*one, *CLASSES, "is_first"), on=one, how="left", nulls_equal=True, maintain_order="left"
            )
        yield classes.drop("sector", "end", "at", IS_ORDERED)


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
