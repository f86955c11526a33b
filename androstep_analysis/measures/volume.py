"""Requests and bytes by any columns, by day and over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.units import NS_PER_S, SECTOR_BYTES
from androstep_analysis.measures import thinned
from androstep_analysis.measures.certainty import share_inferred
from androstep_analysis.measures.locality import classify
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.parts import by_group, summed
from androstep_analysis.measures.recording import Recording, Tables
from androstep_analysis.measures.tables import Table, counted, is_known, ordered, tidy, with_known_share

NS_PER_DAY = 86_400 * NS_PER_S

MOST_BINS = 1_000_000
"""This many bins of three operations take 1.1 GB. Without a limit, a mistaken unit would use up all memory."""


def volume(io: Table, *, by: Sequence[str] = ("owner_comm",)) -> pl.DataFrame:
    """Return requests and bytes by any columns of table `io`.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, bytes, op, issue_ns, complete_ns, and for coverage map_source and owner_via.
    by : sequence of str
        The columns to group by, such as ``("owner_comm",)`` for processes or ``("path",)`` for files.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and op (Enum). Metrics count [requests] and bytes [B]. Bytes with an unknown dimension are in
        rows with a null there. `coverage` is the share of bytes for which all of `by` is known as a fact. `inferred` is
        the share of a row's bytes for which `by` is only inferred, null if a dimension is unknown.

    Examples
    --------
    >>> measures.volume(capture.io, by=()).filter(metric="count", op="read")["value"].item()
    817.0
    """
    dimensions = [*by, "op"]
    pieces = counted(io).filter(pl.col("bytes") > 0)
    groups = by_group(pieces, dimensions, is_known(by, pieces.collect_schema().names()))
    table = ordered(with_known_share(tidy(groups, dimensions), groups), dimensions)
    shares = share_inferred(groups, by)
    return table.join(shares, on=dimensions, how="left", nulls_equal=True, maintain_order="left")


def daily(
    io: Table,
    *,
    by: Sequence[str] = ("owner_comm",),
    realtime_offset_ns: int | None = None,
    first_ns: int | None = None,
) -> pl.DataFrame:
    """Return requests and bytes of each day.

    Parameters
    ----------
    io : Table
        Table `io`, as for `volume`, and queue_ns.
    by : sequence of str
        The columns to group by, such as owner_package for totals by app.
    realtime_offset_ns : int, optional
        CLOCK_REALTIME minus the clock of the table (``capture.about``). Days are then calendar days in UTC. Without it,
        they are 24 h each from the first request on.
    first_ns : int, optional
        Start of the first 24 h, in the clock of the table; by default the first request.

    Returns
    -------
    polars.DataFrame
        The result of `volume` with a further dimension before `by`: date (String, as 2026-11-25), or day_from_start
        (Int64, from 0) if the date is unknown. A day without requests has no rows.

    References
    ----------
    ``schemas/definitions.toml``, daily; storaged in Android (system/core/storaged).

    Examples
    --------
    >>> table = measures.daily(capture.io, by=(), realtime_offset_ns=capture.about["realtime_offset_ns"])
    >>> table.filter(metric="count", op="read").select("date", "value").row(0)
    ('2026-11-25', 817.0)
    """
    rows = counted(io)
    if realtime_offset_ns is None:
        first = _first(rows) if first_ns is None else first_ns
        day = ((order_ns() - pl.lit(first, pl.Int64)) // NS_PER_DAY).alias("day_from_start")
    else:
        day = pl.from_epoch(order_ns() + realtime_offset_ns, time_unit="ns").dt.strftime("%Y-%m-%d").alias("date")
    return volume(rows.with_columns(day), by=(day.meta.output_name(), *by))


def _first(rows: pl.LazyFrame) -> int | None:
    found: int | None = rows.select(order_ns().min()).collect().item()
    return found


def rate(requests: Table, *, bin_ns: int = NS_PER_S) -> pl.DataFrame:
    """Return requests and bytes per second over time.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    bin_ns : int
        Length of a bin, in ns.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the bin) and op (Enum). Metrics iops [1/s] and bandwidth [B/s]. A bin without
        requests of an operation has a row with 0, so that the rows can be plotted as a line.

    Raises
    ------
    ValueError
        If `bin_ns` is not positive, or if there are more bins than `MOST_BINS`.

    References
    ----------
    ``schemas/definitions.toml``, rate.

    Examples
    --------
    >>> table = measures.rate(capture.requests)
    >>> table.filter(metric="iops", op="read")["value"].sum()
    817.0
    """
    if bin_ns <= 0:
        raise ValueError(f"bin_ns is {bin_ns}: a bin must be at least 1 ns long")
    done = pl.coalesce("complete_ns", "issue_ns", "queue_ns")
    rows = counted(requests).filter(pl.col("nr_sectors") > 0).with_columns(bin=done // bin_ns)
    sums = (
        rows.group_by("bin", "op")
        .agg(n=pl.len().cast(pl.Int64), bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES)
        .collect()
    )
    (count,) = sums.select(pl.col("bin").max() - pl.col("bin").min() + 1).row(0)  # null where there is no row
    if count is not None and count > MOST_BINS:
        raise ValueError(f"{count:,} bins of {bin_ns:,} ns are too many; use longer ones")
    bins = (
        sums.select(pl.int_range(pl.col("bin").min(), pl.col("bin").max() + 1)) if sums.height else sums.select("bin")
    )
    full = bins.join(sums.select("op").unique(), how="cross").join(sums, on=["bin", "op"], how="left")
    full = full.with_columns(pl.col("n", "bytes").fill_null(0))
    seconds = bin_ns / NS_PER_S
    full = full.with_columns(ts_ns=pl.col("bin") * bin_ns, coverage=pl.lit(1.0))
    parts = [
        full.with_columns(metric=pl.lit(metric), value=pl.col(column) / seconds, unit=pl.lit(unit))
        for metric, column, unit in (("iops", "n", "1/s"), ("bandwidth", "bytes", "B/s"))
    ]
    return ordered(pl.concat(parts), ["ts_ns", "op"])


def cumulative(requests: Table, *, columns: int | None = None) -> pl.DataFrame:
    """Return the running sums of sequential and random I/O.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, sector, nr_sectors, op, queue_ns, issue_ns, complete_ns.
    columns : int, optional
        Thin out the rows for a figure with this many columns. For each line with more than twice as many rows, only the
        first and the last row in each column are returned. By default there is a row for each request.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64), op (Enum) and class (String: sequential, which is consecutive, random, and unknown, as
        for `locality`). Metric cumulative_bytes [B], a row per request that carries data.

    References
    ----------
    ``schemas/definitions.toml``, cumulative; Kim, Agrawal and Ungureanu (MobiHeld 2011), Figure 6.

    Examples
    --------
    >>> measures.cumulative(capture.requests).height
    3360
    """
    line, time = ["op", "class"], pl.col("ts_ns")
    rows = _running(requests)
    if columns is not None:
        position = pl.col("time_ns")
        spans = pl.concat(
            part.group_by("op", _KIND).agg(least=position.min(), greatest=position.max(), rows=pl.len())
            for part in classify(requests)
        )
        spans = spans.group_by(line).agg(pl.col("least").min(), pl.col("greatest").max(), pl.col("rows").sum())
        at = thinned.column(time, pl.col("least"), pl.col("greatest"), columns)
        # In a short line, each row has a column of its own.
        at = pl.when(pl.col("rows") > 2 * columns).then(at).otherwise("n")
        rows = (
            part.join(spans, on=line, nulls_equal=True, maintain_order="left")
            .with_columns(column=at)
            .filter(thinned.is_edge("column", line))
            for part in _running(requests)
        )
    table = pl.concat(rows)
    if columns is not None:
        table = table.filter(thinned.is_edge("column", line))
    labelled = table.with_columns(metric=pl.lit("cumulative_bytes"), unit=pl.lit("B"), coverage=pl.lit(1.0))
    return ordered(labelled, ["ts_ns", "op", "class"])


_KIND: Final = (
    pl.when("consecutive").then(pl.lit("sequential")).when("random").then(pl.lit("random")).otherwise(pl.lit("unknown"))
).alias("class")


def _running(requests: Table) -> Iterator[pl.DataFrame]:
    """Yield columns ts_ns, op, class, value and n of `cumulative`, in parts in order of time."""
    line = ["op", "class"]
    before: pl.DataFrame | None = None
    for part in classify(requests):
        rows = part.select("op", _KIND, "bytes", ts_ns="time_ns")
        sums = rows.group_by(line).agg(before=pl.col("bytes").sum(), count=pl.len().cast(pl.Int64))
        before = sums.clear() if before is None else before
        yield rows.join(before, on=line, how="left", nulls_equal=True, maintain_order="left").select(
            "ts_ns",
            *line,
            value=(pl.col("bytes").cum_sum().over(line) + pl.col("before").fill_null(0)).cast(pl.Float64),
            n=pl.int_range(1, pl.len() + 1).over(line).cast(pl.Int64) + pl.col("count").fill_null(0),
        )
        before = summed([before, sums], line)


VOLUME: Final = Measure(
    "requests and bytes by any columns",
    ("io",),
    lambda t, by: volume(t["io"], by=by),
    own=("op",),
    worse="higher",
)


def _of_recording(tables: Tables, by: tuple[str, ...], recording: Recording) -> pl.DataFrame:
    """Count days from the first request of the recording, also if conditions select a part of the requests."""
    offset = recording.realtime_offset_ns
    first_ns = _first(counted(recording.timed["io"])) if offset is None else None
    return daily(tables["io"], by=by, realtime_offset_ns=offset, first_ns=first_ns)


DAILY: Final = Measure(
    "requests and bytes of each day",
    ("io",),
    _of_recording,
    own=("op",),
    has_windows=False,
    asks_recording=True,
    natural=("date", "day_from_start"),
)
