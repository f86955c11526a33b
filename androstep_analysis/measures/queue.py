"""Number of requests in a device over time, and its idle periods (definitions.toml, queue_depth, idle_period)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common.errors import InputError
from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.order import error_ns
from androstep_analysis.measures.parts import REQUEST, parts, summed
from androstep_analysis.measures.recording import Recording, Tables
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy, up_to_power
from androstep_analysis.measures.volume import MOST_BINS

_COMPLETION, _ISSUE, _OWN_COMPLETION = 0, 1, 2
"""Order of events at the same time: a request that takes no time is issued before it is completed."""

_CARRIED: Final = -1


def queue(
    requests: Table,
    *,
    by: Sequence[str] = (),
    lost: Lost = (),
    window_ns: int | None = None,
    span: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """Return the time at each queue depth of a device, and the number of requests issued at it.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, issue_ns, complete_ns, and optionally issue_error_ns.
    by : sequence of str
        Further columns of `requests` that identify a queue, such as submit_comm. The depth of a queue counts its own
        requests only.
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). Depth is unknown then.
    window_ns : int, optional
        Length of a window of time, in ns; by default there are no windows. The depth at the start of a window includes
        requests issued before it.
    span : pair of int, optional
        Start and end of the time that is divided into windows, in ns; by default from the first issue to the last
        completion.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the window, only with windows), dev, `by` and depth (Int64). Metrics time [ns]
        and time_ratio [1] at that depth, of the time with known depth, and issued [requests] whose issue raised the
        queue to that depth. `coverage` is the known share of the time from the first issue of the queue to its last
        completion. `n` is the number of requests issued in known time. A queue (or a window of it) without known time
        has no rows.

    Raises
    ------
    InputError
        If `window_ns` is not positive, or if there are more windows than `volume.MOST_BINS`.

    References
    ----------
    ``schemas/definitions.toml``, queue_depth and order.

    Examples
    --------
    >>> table = measures.queue(capture.requests)
    >>> table.filter(metric="issued", depth=1)["value"].item() > 0
    True
    """
    return _queue_of(*_times(requests, by, lost, window_ns, span))


def depth(
    requests: Table,
    *,
    by: Sequence[str] = (),
    lost: Lost = (),
    window_ns: int | None = None,
    span: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """Return the mean and maximum queue depth of a device, and its share of idle time.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, issue_ns, complete_ns, and optionally issue_error_ns.
    by : sequence of str
        Further columns of `requests`, as for `queue`.
    lost : sequence of pairs of int or None
        Times in which events may be missing, as for `queue`.
    window_ns : int, optional
        Length of a window of time, in ns; by default there are no windows.
    span : pair of int, optional
        Start and end of the time that is divided into windows, in ns; by default from the first issue to the last
        completion.

    Returns
    -------
    polars.DataFrame
        Dimensions ts_ns (Int64, start of the window, only with windows), dev and `by`. Metrics time [ns] with known
        depth, mean and max depth [requests] in it, and idle_ratio [1], the share of it without a request. `coverage`,
        `n` and missing rows are as for `queue`.

    Raises
    ------
    InputError
        If `window_ns` is not positive, or if there are more windows than `volume.MOST_BINS`.

    References
    ----------
    ``schemas/definitions.toml``, queue_depth and order.

    Examples
    --------
    >>> table = measures.depth(capture.requests, window_ns=10**9)
    >>> bool((table.filter(metric="time")["value"] <= 10**9).all())
    True
    """
    spent, groups = _times(requests, by, lost, window_ns, span)
    return _depth_of(spent, groups)


def queues(
    requests: Table, *, lost: Lost = (), window_ns: int, span: tuple[int, int] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return `queue` and `depth` of the whole time and `depth` of windows for each device, in one pass over a table."""
    groups = ["dev"]
    in_windows = _sums(requests, groups, lost, window_ns, span)
    whole = in_windows.group_by(*groups, "depth").agg(pl.col("time", "issued", "whole").sum())
    spent, of_windows = _shares(whole, groups), ["ts_ns", *groups]
    over_time = _depth_of(_shares(in_windows, of_windows), of_windows)
    return _queue_of(spent, groups), _depth_of(spent, groups), over_time


def _queue_of(spent: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    return columns_as_rows(spent, [*groups, "depth"], {"time": "ns", "time_ratio": "1", "issued": "requests"})


def _depth_of(spent: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    share = pl.col("time_ratio")
    wide = spent.group_by(*groups, "n", "coverage").agg(
        pl.col("time").sum(),
        # A fixed order makes the sum of floats the same in every run.
        mean=pl.when(share.is_not_null().all()).then((pl.col("depth") * share).sort_by("depth").sum()),
        max=pl.col("depth").max(),
        idle_ratio=pl.when(share.is_not_null().all()).then(share.filter(pl.col("depth") == 0).sum()),
    )
    return columns_as_rows(wide, groups, {"time": "ns", "mean": "requests", "max": "requests", "idle_ratio": "1"})


def idle(requests: Table, *, by: Sequence[str] = (), lost: Lost = ()) -> pl.DataFrame:
    """Return the idle periods of a device, and the busy periods between them, by duration.

    Parameters
    ----------
    requests : Table
        Table `requests`: request_id, dev, issue_ns, complete_ns, and optionally issue_error_ns.
    by : sequence of str
        Further columns of `requests` that identify a queue, such as submit_comm. The depth of a queue counts its own
        requests only.
    lost : sequence of pairs of int or None
        Times in which events may be missing (`losses.Losses.spans`). They are left out.

    Returns
    -------
    polars.DataFrame
        Dimensions dev, `by`, period (Enum: idle, busy) and duration_up_to_ns (Int64, a power of two: periods longer
        than half of it and at most it). Metrics periods [count], time [ns] and time_ratio [1] (of the time of all
        periods). The first and the last period are left out, and so are those that overlap time with unknown depth.

    References
    ----------
    ``schemas/definitions.toml``, idle_period and order.

    Examples
    --------
    >>> table = measures.idle(capture.requests)
    >>> table.filter(metric="time_ratio")["value"].sum() > 0.99
    True
    """
    groups = ["dev", *(name for name in by if name != "dev")]
    dimensions = [*groups, "period", "duration_up_to_ns"]
    kind = pl.Enum(["idle", "busy"])
    found = summed(
        (
            part.filter(pl.col("time") > 0)
            .with_columns(pl.col("period").cast(kind), duration_up_to_ns=up_to_power(pl.col("time")))
            .group_by(dimensions)
            .agg(pl.col("time").sum(), periods=pl.len().cast(pl.Int64))
            for part in periods(requests, groups, lost)
        ),
        dimensions,
    )
    wide = found.with_columns(
        n=pl.col("periods"),
        coverage=pl.lit(None, pl.Float64),
        time_ratio=pl.col("time") / pl.col("time").sum().over(groups),
    )
    return columns_as_rows(wide, dimensions, {"periods": "count", "time": "ns", "time_ratio": "1"})


def _times(
    requests: Table, by: Sequence[str], lost: Lost, window_ns: int | None, span: tuple[int, int] | None
) -> tuple[pl.DataFrame, list[str]]:
    """Return time, time_ratio and issued of each depth, with n and coverage of its group; and the grouping columns."""
    groups = ["dev", *(name for name in by if name != "dev")]
    found = _sums(requests, groups, lost, window_ns, span)
    groups = groups if window_ns is None else ["ts_ns", *groups]
    return _shares(found, groups), groups


def _sums(
    requests: Table, groups: Sequence[str], lost: Lost, window_ns: int | None, span: tuple[int, int] | None
) -> pl.DataFrame:
    """Return columns groups, depth, time (known), issued and whole (all time). With windows, groups include ts_ns."""
    depths = _depths(requests, groups, lost)
    if window_ns is not None:
        depths = _in_windows(depths, window_ns, span or _span(requests))
        groups = ["ts_ns", *groups]
    length = pl.col("end_ns") - pl.col("begin_ns")
    known = pl.col("is_known")
    return summed(
        (
            part.group_by(*groups, "depth").agg(
                time=length.filter(known).sum(),
                issued=(pl.col("is_issue") & known & pl.col("is_sure")).sum().cast(pl.Int64),
                whole=length.sum(),
            )
            for part in depths
        ),
        [*groups, "depth"],
    )


def _shares(found: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Return `_sums` with time_ratio, n and coverage, without rows that have neither time nor requests."""
    whole, time = pl.col("whole").sum().over(groups), pl.col("time").sum().over(groups)
    with_shares = found.with_columns(
        n=pl.col("issued").sum().over(groups),
        coverage=pl.when(whole > 0).then(time / whole),
        time_ratio=pl.when(time > 0).then(pl.col("time") / time),
    )
    return with_shares.filter((pl.col("time") > 0) | (pl.col("issued") > 0))


def _depths(
    requests: Table, groups: Sequence[str], lost: Lost, sums: Sequence[str] = (), error: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the spans of time between two events of a queue, in order.

    Columns are groups, begin_ns, end_ns, depth, is_issue, is_known, and is_sure: whether it is known which event came
    before begin_ns. A span is not known if it is not longer than `error`, by default that of the issues of the table:
    the order of its two events is unknown then. Columns requests and `sums` (Int64 columns of
    the table) are running totals of the requests issued up to begin_ns. With `sums`, the table has pieces (table `io`),
    and the pieces of a request in one queue count as one request. Memory holds a part of the table and the earlier
    requests that are not complete.
    """
    rows = lazy(requests)
    bounds, error = _bounds(rows), error_ns(rows) if error is None else error
    both = rows.filter(pl.col("issue_ns").is_not_null(), pl.col("complete_ns").is_not_null())
    moves = both.select(REQUEST, *groups, *sums, "issue_ns", complete_ns=pl.max_horizontal("issue_ns", "complete_ns"))
    waiting: pl.DataFrame | None = None
    for part in parts(moves, "issue_ns"):
        last = part["issue_ns"].max()
        events = _events(part, groups, sums)
        if waiting is not None:
            events = pl.concat([waiting, events])
        is_ready = pl.col("ts_ns") <= last if last is not None else pl.lit(True)
        found, carried = _segments(events.filter(is_ready), groups, sums)
        waiting = pl.concat([carried, events.filter(~is_ready)])
        yield _with_is_known(found, bounds, lost, error)
    if waiting is not None:
        yield _with_is_known(_segments(waiting, groups, sums)[0], bounds, lost, error)


def _events(part: pl.DataFrame, groups: Sequence[str], sums: Sequence[str]) -> pl.DataFrame:
    """Return columns groups, ts_ns, order, delta, requests and `sums` of each issue and completion."""
    # Tables with `sums` consist of pieces, which are joined to requests here. Other tables consist of requests.
    whole = part.group_by(REQUEST, *groups, "issue_ns", "complete_ns").agg(pl.col(sums).sum()) if sums else part
    own = pl.when(pl.col("complete_ns") > pl.col("issue_ns")).then(_COMPLETION).otherwise(_OWN_COMPLETION)
    one, nothing = pl.lit(1, pl.Int64), pl.lit(0, pl.Int64)
    begun = whole.select(
        *groups, ts_ns="issue_ns", order=pl.lit(_ISSUE, pl.Int32), delta=one, requests=one, **{n: n for n in sums}
    )
    ended = whole.select(
        *groups,
        ts_ns="complete_ns",
        order=own.cast(pl.Int32),
        delta=-one,
        requests=nothing,
        **dict.fromkeys(sums, nothing),
    )
    return pl.concat([begun, ended])


def _segments(events: pl.DataFrame, groups: Sequence[str], sums: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the spans between events, and the last event of each queue with its depth, to begin the next part with."""
    counts = ["requests", *sums]
    rows = events.sort("ts_ns", "order", maintain_order=True).with_columns(
        pl.col(counts).cum_sum().over(groups),
        depth=pl.col("delta").cum_sum().over(groups),
        end_ns=pl.col("ts_ns").shift(-1).over(groups),
        since_ns=pl.col("ts_ns").shift(1).over(groups),
        is_issue=pl.col("order") == _ISSUE,
    )
    is_last = pl.col("end_ns").is_null()
    carried = rows.filter(is_last).select(
        *groups, "ts_ns", pl.lit(_CARRIED, pl.Int32).alias("order"), pl.col("depth").alias("delta"), *counts
    )
    # The last event counts here as a span of no length. When carried to the next part, it is no issue.
    found = rows.with_columns(pl.col("end_ns").fill_null(pl.col("ts_ns")))
    return found.select(*groups, "depth", "since_ns", "end_ns", "is_issue", *counts, begin_ns="ts_ns"), carried


def _bounds(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the time in which the depth of each device is known.

    A request without an issue was in the device for an unknown time before its completion, one without a completion
    after its issue.
    """
    issue, complete = pl.col("issue_ns"), pl.col("complete_ns")
    return (
        rows.group_by("dev")
        .agg(
            from_ns=complete.filter(issue.is_null()).max(),
            to_ns=issue.filter(complete.is_null()).min(),
        )
        .collect()
    )


def _with_is_known(found: pl.DataFrame, bounds: pl.DataFrame, lost: Lost, error: int) -> pl.DataFrame:
    """Return the spans with columns is_known (whether their depth is known) and is_sure."""
    rows = found.join(bounds, on="dev", how="left", maintain_order="left")
    is_within = (pl.col("begin_ns") >= pl.col("from_ns")).fill_null(True) & (
        pl.col("end_ns") <= pl.col("to_ns")
    ).fill_null(True)
    is_long, is_sure = pl.lit(True), pl.lit(True)
    if error:
        is_long = pl.col("end_ns") - pl.col("begin_ns") > error
        is_sure = pl.col("begin_ns") - pl.col("since_ns") > error
    is_known = is_within & is_long & ~touched("begin_ns", "end_ns", lost)
    return rows.with_columns(is_known=is_known, is_sure=is_sure.fill_null(True)).drop("from_ns", "to_ns", "since_ns")


def _span(requests: Table) -> tuple[int, int]:
    """Return the first issue and the last completion; 0 if there is none."""
    first, last = lazy(requests).select(pl.col("issue_ns").min(), pl.col("complete_ns").max()).collect().row(0)
    return first or 0, last or 0


def _in_windows(depths: Iterator[pl.DataFrame], window_ns: int, span: tuple[int, int]) -> Iterator[pl.DataFrame]:
    """Split the spans at the bounds of windows and add the start of the window as ts_ns.

    The last window includes the end.
    """
    first, last = span
    if window_ns <= 0:
        raise InputError(f"window_ns is {window_ns}: a window must be at least 1 ns long")
    count = max(1, -(-(last - first) // window_ns))
    if count > MOST_BINS:
        raise InputError(f"{count:,} windows of {window_ns:,} ns are too many; use longer ones")
    begin, end = pl.col("begin_ns"), pl.col("end_ns")
    of_begin, of_end = (
        ((time - first) // window_ns).clip(0, count - 1) for time in (begin, pl.max_horizontal(begin, end - 1))
    )
    number, window = pl.col("number"), pl.col("ts_ns")
    is_inside = pl.col("of_begin") == pl.col("of_end")
    for part in depths:
        rows = part.with_columns(of_begin=of_begin, of_end=of_end)
        # Most times lie in one window.
        yield rows.filter(is_inside).with_columns(ts_ns=first + pl.col("of_begin") * window_ns)
        yield (
            rows.filter(~is_inside)
            .with_columns(number=pl.int_ranges("of_begin", pl.col("of_end") + 1))
            .explode("number")
            .with_columns(ts_ns=first + number * window_ns)
            .with_columns(
                begin_ns=pl.when(number == pl.col("of_begin")).then(begin).otherwise(window),
                end_ns=pl.when(number == pl.col("of_end")).then(end).otherwise(window + window_ns),
                is_issue=pl.col("is_issue") & (number == pl.col("of_begin")),
            )
        )


def periods(
    requests: Table, groups: Sequence[str], lost: Lost, *, gap_ns: int = 0, sums: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield the idle periods longer than `gap_ns` and the busy periods between them.

    Columns are groups, period and time (ns). Columns requests and `sums` (Int64 columns of the table) are the totals of
    the requests issued in the period.
    """
    columns = ["end_ns", "is_known", "requests", *sums]
    carried: pl.DataFrame | None = None
    error = error_ns(requests)
    # A gap that counts is longer than a short span, whose order then does not matter.
    for part in _depths(requests, groups, lost, sums, error if error > gap_ns else 0):
        # A gap begins when all earlier requests are complete. Unknown time counts as a gap of no length that ends a
        # period.
        is_gap = (pl.col("depth") == 0) & (pl.col("end_ns") - pl.col("begin_ns") > gap_ns)
        cuts = part.filter(is_gap | ~pl.col("is_known")).select(*groups, "begin_ns", *columns)
        cuts = cuts if carried is None else pl.concat([carried, cuts])
        before = pl.col(columns).shift(1).over(groups).name.prefix("before_")
        fresh = cuts.with_columns(before).slice(0 if carried is None else carried.height)
        carried = cuts.group_by(groups, maintain_order=True).last()
        gaps = fresh.filter("is_known").select(
            *groups,
            period=pl.lit("idle"),
            time=pl.col("end_ns") - pl.col("begin_ns"),
            **dict.fromkeys(("requests", *sums), pl.lit(0, pl.Int64)),
        )
        bursts = fresh.filter(pl.col("is_known") & pl.col("before_is_known")).select(
            *groups,
            period=pl.lit("busy"),
            time=pl.col("begin_ns") - pl.col("before_end_ns"),
            **{name: pl.col(name) - pl.col(f"before_{name}") for name in ("requests", *sums)},
        )
        yield pl.concat([gaps, bursts])


def _queue(tables: Tables, by: tuple[str, ...], recording: Recording, window_ns: int | None) -> pl.DataFrame:
    return queue(tables["requests"], by=by, lost=recording.lost, window_ns=window_ns, span=recording.span)


def _depth(tables: Tables, by: tuple[str, ...], recording: Recording, window_ns: int | None) -> pl.DataFrame:
    """Return `depth` with column weight: means over time are weighted by the length of that time."""
    found = depth(tables["requests"], by=by, lost=recording.lost, window_ns=window_ns, span=recording.span)
    times = found.filter(metric="time").drop("metric", "unit", "n", "coverage").rename({"value": "weight"})
    keys = [name for name in times.columns if name != "weight"]
    weighed = found.join(times, on=keys, how="left", nulls_equal=True, maintain_order="left")
    is_of_time = pl.col("metric").is_in(["mean", "idle_ratio"])
    return weighed.with_columns(weight=pl.when(is_of_time).then("weight").otherwise(1.0))


QUEUE: Final = Measure(
    "requests in the device at a time",
    ("requests",),
    _queue,
    own=("dev",),
    within=("dev",),
    asks_recording=True,
    cuts_time=True,
    applied=Applied.AFTER,
    natural=("depth",),
)

DEPTH: Final = Measure(
    "requests in the device on average, and idle time",
    ("requests",),
    _depth,
    own=("dev",),
    asks_recording=True,
    cuts_time=True,
    applied=Applied.AFTER,
)

IDLE: Final = Measure(
    "idle and busy periods of the device",
    ("requests",),
    lambda t, by, recording: idle(t["requests"], by=by, lost=recording.lost),
    own=("dev",),
    has_windows=False,
    instead=", or use depth, which has idle_ratio for windows",
    asks_recording=True,
    applied=Applied.AFTER,
    natural=("period", "duration_up_to_ns"),
)
