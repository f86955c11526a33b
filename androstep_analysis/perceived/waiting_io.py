"""I/O while a user waited (definitions.toml, io_in_flight, burst).

A *window* is a time in which a user waited: a row of a table with columns ``start_ns``, ``end_ns`` and ``label``, as
returned by `perceived.windows`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common.units import NS_PER_S, SECTOR_BYTES
from androstep_analysis.measures.tables import Table, counted, lazy, ordered
from androstep_analysis.perceived import spans
from androstep_analysis.perceived.spans import Int64s

KINDS: Final = {
    "all": pl.col("op").is_in(["read", "write"]),
    "read": pl.col("op") == "read",
    "write": pl.col("op") == "write",
    "sync_write": (pl.col("op") == "write") & pl.col("sync"),
}
"""The kinds of I/O that are distinguished."""

BURST_IDLE_NS: Final = 100_000_000
BURST_REQUESTS: Final = 10

_BEGUN = pl.coalesce("queue_ns", "issue_ns")
_OWNER_KNOWN = (pl.col("owner_count") != 0).fill_null(True) & ~pl.col("owner_via").is_in(["inferred", "unknown"])


def in_flight(io: Table, windows: Table, *, apps: Collection[str] | None = None) -> pl.DataFrame:
    """Return the part of each window with I/O in flight.

    A request is in flight from its queueing to its completion.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, op, sync, bytes, queue_ns, issue_ns, complete_ns, owner_count, owner_via, and with
        `apps` owner_package and owner_comm.
    windows : Table
        The result of `windows`: label, start_ns, end_ns.
    apps : collection of str, optional
        Packages of owners, or their processes if the package is unknown. Without it, `whose` is any only.

    Returns
    -------
    polars.DataFrame
        Dimensions window (Int64, from 0), label, whose (Enum: any, app) and kind (Enum: all, read, write, sync_write).
        Metrics in_flight [ns], in_flight_ratio [1] of the window (null for a window of no length) and in_flight_bytes
        [B]: the bytes of those requests. `coverage` is the share of those bytes, of the window's kind, with known data:
        both times, and for an app also the owner.

    Raises
    ------
    ValueError
        If a window ends before it begins.

    References
    ----------
    ``schemas/definitions.toml``, io_in_flight; Luo, Jiang and Cohen, Figure 5, as a number.

    Examples
    --------
    >>> waits = pl.DataFrame({"label": "all of it", "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> table = perceived.in_flight(capture.io, waits)
    >>> table.filter(metric="in_flight_ratio", kind="all")["n"].item()
    3152
    """
    waits = _windows(windows)
    starts, ends = _bounds(waits)
    pieces = _flights(io, apps)
    parts = []
    for kind, of_kind in KINDS.items():
        rows = pieces.filter(of_kind)
        timed = rows.filter(pl.col("begun_ns").is_not_null() & pl.col("complete_ns").is_not_null())
        every = _bytes_within(pieces.filter(of_kind.fill_null(True)), starts, ends)
        chosen = {"any": (timed, timed)}
        if apps is not None:
            chosen["app"] = (timed.filter("mine"), timed.filter("known"))
        for whose, (of_them, known) in chosen.items():
            known_share = np.where(every > 0, _bytes_within(known, starts, ends) / np.maximum(every, 1), np.nan)
            parts.append(
                _measured(waits, of_them, starts, ends, known_share).with_columns(
                    whose=pl.lit(whose), kind=pl.lit(kind)
                )
            )
    rows = pl.concat(parts).with_columns(
        pl.col("whose").cast(pl.Enum(["any", "app"])), pl.col("kind").cast(pl.Enum(list(KINDS)))
    )
    return ordered(rows, ["window", "label", "whose", "kind"])


def breakdown(
    views: pl.DataFrame, wait: dict[str, Any], *, io: Table | None = None, apps: Collection[str] | None = None
) -> pl.DataFrame:
    """Return the events from one input to the stable state.

    Parameters
    ----------
    views : polars.DataFrame
        The result of `seen` or `presented`.
    wait : dict
        A row of `transitions` of these views that became stable, as a dict (``rows(named=True)``).
    io : Table, optional
        Table `io`, with the columns of `in_flight`. It adds the times with I/O in flight.
    apps : collection of str, optional
        As for `in_flight`. It adds the times with I/O of the app in flight.

    Returns
    -------
    polars.DataFrame
        Columns track (String), start_ns, end_ns (Int64), sorted. Tracks are input, waiting, GUI changes (a span for
        each state that was not yet stable), GUI stable, any I/O and app I/O.

    Raises
    ------
    ValueError
        If the input was not followed by a stable state.

    References
    ----------
    Luo, Jiang and Cohen, Figure 1.

    Examples
    --------
    >>> views = pl.DataFrame({"state": ["a", "b"], "from_hi_ns": [0, 500]})
    >>> wait = {"label": "open", "ts_ns": 100, "end_ns": 110, "stable_hi_ns": 500}
    >>> perceived.breakdown(views, wait).rows()
    [('GUI stable', 500, 540), ('input', 100, 110), ('waiting', 100, 500)]
    """
    start, stable = wait["ts_ns"], wait["stable_hi_ns"]
    if stable is None:
        raise ValueError(f"the input {wait['label']!r} was not followed by a stable state")
    end = stable + max((stable - start) // 10, 1)
    entered = views.select(start_ns="from_hi_ns", end_ns=pl.col("from_hi_ns").shift(-1)).drop_nulls()
    states = entered.filter(pl.col("start_ns") > start, pl.col("start_ns") < stable)
    tracks = [
        ("input", np.array([start]), np.array([wait["end_ns"]])),
        ("waiting", np.array([start]), np.array([stable])),
        ("GUI changes", states["start_ns"].to_numpy(), states["end_ns"].to_numpy()),
        ("GUI stable", np.array([stable]), np.array([end])),
    ]
    if io is not None:
        timed = _flights(io, apps).drop_nulls(["begun_ns", "complete_ns"])
        whose = {"any I/O": timed} | ({} if apps is None else {"app I/O": timed.filter("mine")})
        for track, rows in whose.items():
            tracks.append((track, *spans.merged(rows["begun_ns"].to_numpy(), rows["complete_ns"].to_numpy())))
    parts = [
        pl.DataFrame(
            {
                "track": [track] * len(begins),
                "start_ns": np.clip(begins, start, end),
                "end_ns": np.clip(ends, start, end),
            },
            schema={"track": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
        )
        for track, begins, ends in tracks
    ]
    return pl.concat(parts).filter(pl.col("end_ns") > pl.col("start_ns")).sort("track", "start_ns")


def requests(io: Table, windows: Table, *, until_ns: int, apps: Collection[str] | None = None) -> pl.DataFrame:
    """Return the requests that were issued after each window began.

    Parameters
    ----------
    io : Table
        Table `io`: request_id, issue_ns, complete_ns, and with `apps` owner_count, owner_via, owner_package and
        owner_comm.
    windows : Table
        The result of `windows`: label, start_ns, end_ns.
    until_ns : int
        How long after the begin of a window requests are included [ns].
    apps : collection of str, optional
        Packages of owners, or their processes if the package is unknown. Without it, all requests are included.

    Returns
    -------
    polars.DataFrame
        Columns window (Int64, from 0), label (String), wait_ns (Int64, length of the window), after_ns (Int64, from the
        begin of the window to the issue), took_ns (Int64, from the issue to the completion) and waited (Boolean,
        whether it was issued within the window), in order of time. Requests without one of the times are left out.

    Raises
    ------
    ValueError
        If a window ends before it begins.

    References
    ----------
    Luo, Jiang and Cohen, Figure 5.

    Examples
    --------
    >>> waits = pl.DataFrame({"label": "all of it", "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> perceived.requests(capture.io, waits, until_ns=10**9).height
    134
    """
    chosen = lazy(io) if apps is None else lazy(io).filter(_mine(apps))
    every = chosen.select("request_id", "issue_ns", "complete_ns").drop_nulls().unique().sort("issue_ns", "request_id")
    each = every.collect()
    after = pl.col("issue_ns") - pl.col("start_ns")
    parts = [
        wait.join(each.filter(pl.col("issue_ns").is_between(begin, begin + until_ns)), how="cross")
        for wait in _windows(windows).iter_slices(1)
        for begin in wait["start_ns"]
    ]
    nothing = _windows(windows).clear().join(each.clear(), how="cross")
    return pl.concat([nothing, *parts]).select(
        "window",
        "label",
        wait_ns=pl.col("end_ns") - pl.col("start_ns"),
        after_ns=after,
        took_ns=pl.col("complete_ns") - pl.col("issue_ns"),
        waited=pl.col("issue_ns") < pl.col("end_ns"),
    )


def _flights(io: Table, apps: Collection[str] | None) -> pl.DataFrame:
    """Return the pieces that carry data: request_id, op, sync, bytes, begun_ns, complete_ns, known (owner), mine."""
    return (
        lazy(io)
        .filter(KINDS["all"], pl.col("bytes") > 0)
        .with_columns(begun_ns=_BEGUN, known=_OWNER_KNOWN, mine=_mine(apps))
        .select("request_id", "op", "sync", "bytes", "begun_ns", "complete_ns", "known", "mine")
        .collect()
    )


def _mine(apps: Collection[str] | None) -> pl.Expr:
    if apps is None:
        return pl.lit(False)
    return _OWNER_KNOWN & pl.coalesce("owner_package", "owner_comm").is_in(list(apps)).fill_null(False)


def _measured(
    waits: pl.DataFrame, rows: pl.DataFrame, starts: Int64s, ends: Int64s, known: npt.NDArray[np.float64]
) -> pl.DataFrame:
    """Return the metrics of the rows' requests, a row for each window and metric."""
    requests = rows.group_by("request_id").agg(pl.col("begun_ns").min(), pl.col("complete_ns").max())
    begun, done = (requests[name].to_numpy() for name in ("begun_ns", "complete_ns"))
    covered = spans.covered(begun, done, starts, ends)
    numbers = spans.overlapping(begun, done, np.ones(len(begun), np.int64), starts, ends)
    table = waits.select("window", "label", length=pl.col("end_ns") - pl.col("start_ns")).with_columns(
        covered=pl.Series(covered, dtype=pl.Int64),
        n=pl.Series(numbers, dtype=pl.Int64),
        bytes=pl.Series(_bytes_within(rows, starts, ends), dtype=pl.Int64),
        coverage=pl.Series(known, dtype=pl.Float64).fill_nan(None),
    )
    metrics = {
        "in_flight": (pl.col("covered").cast(pl.Float64), "ns"),
        "in_flight_ratio": (pl.when(pl.col("length") > 0).then(pl.col("covered") / pl.col("length")), "1"),
        "in_flight_bytes": (pl.col("bytes").cast(pl.Float64), "B"),
    }
    return pl.concat(
        table.select("window", "label", "n", "coverage", metric=pl.lit(metric), value=value, unit=pl.lit(unit))
        for metric, (value, unit) in metrics.items()
    )


def _bytes_within(rows: pl.DataFrame, starts: Int64s, ends: Int64s) -> Int64s:
    """Return the bytes of the rows that were in flight at some time of each window.

    A missing time equals the other one.
    """
    times = rows.select(
        "bytes",
        begun=pl.coalesce("begun_ns", "complete_ns"),
        done=pl.coalesce("complete_ns", "begun_ns"),
    ).filter(pl.col("begun").is_not_null())
    begun, done, weight = (times[name].to_numpy() for name in ("begun", "done", "bytes"))
    return spans.overlapping(begun, done, weight, starts, ends)


def rates(requests: Table, windows: Table, *, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return requests and bytes per second while a user waited and at other times.

    A request counts at its completion. Overlapping windows count once.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    windows : Table
        The result of `windows`: label, start_ns, end_ns.
    start_ns, end_ns : int
        Begin and end of the recording, in ns of its clock.

    Returns
    -------
    polars.DataFrame
        Dimensions waiting (Boolean) and op (Enum: read, write). Metrics count [requests], bytes [B], iops [1/s] and
        bandwidth [B/s] (null if there was no such time).

    Raises
    ------
    ValueError
        If the recording has no length, or a window ends before it begins.

    References
    ----------
    ``schemas/definitions.toml``, rate.

    Examples
    --------
    >>> first_ns, end_ns = capture.first_ns, capture.last_ns + 1
    >>> waits = pl.DataFrame({"label": "all of it", "start_ns": [first_ns], "end_ns": [end_ns]})
    >>> table = perceived.rates(capture.requests, waits, start_ns=first_ns, end_ns=end_ns)
    >>> table.filter(metric="count", op="read", waiting=True)["value"].item()
    817.0
    """
    if end_ns <= start_ns:
        raise ValueError(f"a recording from {start_ns} to {end_ns} has no length")
    starts, ends = (np.clip(times, start_ns, end_ns) for times in _bounds(_windows(windows)))
    starts, ends = spans.merged(starts, ends)
    waited = int((ends - starts).sum())
    lengths = {True: waited, False: end_ns - start_ns - waited}
    done = pl.coalesce("complete_ns", "issue_ns", "queue_ns")
    rows = (
        counted(requests)
        .filter(pl.col("nr_sectors") > 0, KINDS["all"])
        .select("op", done_ns=done, bytes=pl.col("nr_sectors") * SECTOR_BYTES)
        .filter(pl.col("done_ns").is_between(start_ns, end_ns, "left"))
        .collect()
    )
    index = np.searchsorted(starts, rows["done_ns"].to_numpy(), "right")
    within = (index > 0) & (rows["done_ns"].to_numpy() < np.append(ends, 0)[index - 1])
    sums = (
        rows.with_columns(waiting=pl.Series(within, dtype=pl.Boolean))
        .group_by("waiting", "op")
        .agg(n=pl.len().cast(pl.Int64), bytes=pl.col("bytes").sum())
    )
    every = pl.DataFrame({"waiting": [True, False]}).join(sums.select("op").unique(), how="cross")
    full = every.join(sums, on=["waiting", "op"], how="left").with_columns(
        pl.col("n", "bytes").fill_null(0),
        coverage=pl.lit(1.0),
        seconds=pl.col("waiting").replace_strict(lengths, return_dtype=pl.Int64) / NS_PER_S,
    )
    per_second = pl.when(pl.col("seconds") > 0)
    metrics = {
        "count": (pl.col("n").cast(pl.Float64), "requests"),
        "bytes": (pl.col("bytes").cast(pl.Float64), "B"),
        "iops": (per_second.then(pl.col("n") / pl.col("seconds")), "1/s"),
        "bandwidth": (per_second.then(pl.col("bytes") / pl.col("seconds")), "B/s"),
    }
    parts = [
        full.select("waiting", "op", "n", "coverage", metric=pl.lit(metric), value=value, unit=pl.lit(unit))
        for metric, (value, unit) in metrics.items()
    ]
    return ordered(pl.concat(parts), ["waiting", "op"])


def bursts(
    requests: Table, windows: Table, *, idle_ns: int = BURST_IDLE_NS, least: int = BURST_REQUESTS
) -> pl.DataFrame:
    """Return the bursts of I/O, a row each in order of time, with their overlap with the windows.

    A burst is a period without a pause of `idle_ns` between the I/O in flight, with at least `least` requests.

    Parameters
    ----------
    requests : Table
        Table `requests`: nr_sectors, op, queue_ns, issue_ns, complete_ns.
    windows : Table
        The result of `windows`: label, start_ns, end_ns.
    idle_ns : int
        The shortest pause between two bursts, in ns.
    least : int
        The fewest requests of a burst.

    Returns
    -------
    polars.DataFrame
        Columns burst (from 0), start_ns, end_ns, requests, reads, writes, bytes, waited_ns (Int64: the part of it in
        which a user waited), waited_ratio (Float64: of its length; null for a burst of length 0).

    Raises
    ------
    ValueError
        If `idle_ns` or `least` is below 1, or a window ends before it begins.

    References
    ----------
    ``schemas/definitions.toml``, burst.

    Examples
    --------
    >>> waits = pl.DataFrame({"label": "all of it", "start_ns": [capture.first_ns], "end_ns": [capture.last_ns]})
    >>> perceived.bursts(capture.requests, waits)["waited_ratio"].min()
    1.0
    """
    if min(idle_ns, least) < 1:
        raise ValueError(f"idle_ns is {idle_ns} and least {least}: both must be at least 1")
    rows = (
        counted(requests)
        .filter(pl.col("nr_sectors") > 0, KINDS["all"])
        .select(
            "op", bytes=pl.col("nr_sectors") * SECTOR_BYTES, begun_ns=_BEGUN, done_ns=pl.coalesce("complete_ns", _BEGUN)
        )
        .filter(pl.col("begun_ns").is_not_null())
        .collect()
    )
    starts, ends = spans.merged(rows["begun_ns"].to_numpy(), rows["done_ns"].to_numpy(), idle_ns)
    number = np.searchsorted(starts, rows["begun_ns"].to_numpy(), "right") - 1
    groups = (
        rows.with_columns(burst=pl.Series(number, dtype=pl.Int64))
        .group_by("burst")
        .agg(
            requests=pl.len().cast(pl.Int64),
            reads=(pl.col("op") == "read").sum().cast(pl.Int64),
            writes=(pl.col("op") == "write").sum().cast(pl.Int64),
            bytes=pl.col("bytes").sum(),
        )
        .filter(pl.col("requests") >= least)
        .sort("burst")
    )
    begin, end = starts[groups["burst"].to_numpy()], ends[groups["burst"].to_numpy()]
    wait_starts, wait_ends = _bounds(_windows(windows))
    waited = spans.covered(wait_starts, wait_ends, begin, end)
    lengths = pl.col("end_ns") - pl.col("start_ns")
    return groups.select(
        pl.int_range(pl.len()).cast(pl.Int64).alias("burst"),
        pl.Series("start_ns", begin, dtype=pl.Int64),
        pl.Series("end_ns", end, dtype=pl.Int64),
        *("requests", "reads", "writes", "bytes"),
        pl.Series("waited_ns", waited, dtype=pl.Int64),
    ).with_columns(waited_ratio=pl.when(lengths > 0).then(pl.col("waited_ns") / lengths))


def alignment(bursts: pl.DataFrame, windows: Table, *, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return whether bursts coincide with the times in which a user waits.

    Parameters
    ----------
    bursts : polars.DataFrame
        The result of `bursts`: start_ns, end_ns, waited_ns.
    windows : Table
        The result of `windows`: label, start_ns, end_ns.
    start_ns, end_ns : int
        Begin and end of the recording, in ns of its clock.

    Returns
    -------
    polars.DataFrame
        Metrics burst_waited_ratio [1], the share of the time of all bursts in which a user waited, and waited_ratio
        [1], that of the whole recording. The first equals the second if bursts are independent of waiting. `n` is the
        number of bursts and of windows.

    Raises
    ------
    ValueError
        If a window ends before it begins.

    References
    ----------
    ``schemas/definitions.toml``, burst.

    Examples
    --------
    >>> found = pl.DataFrame({"start_ns": [100], "end_ns": [200], "waited_ns": [50]})
    >>> waits = pl.DataFrame({"label": "open", "start_ns": [150], "end_ns": [250]})
    >>> perceived.alignment(found, waits, start_ns=0, end_ns=1000)["value"].to_list()
    [0.5, 0.1]
    """
    waits = _windows(windows)
    starts, ends = _bounds(waits)
    begin, end = np.array([start_ns], np.int64), np.array([end_ns], np.int64)
    waited = int(spans.covered(starts, ends, begin, end)[0])
    length = int((bursts["end_ns"] - bursts["start_ns"]).sum())
    rows = [
        ("burst_waited_ratio", int(bursts["waited_ns"].sum()) / length if length else None, bursts.height),
        ("waited_ratio", waited / (end_ns - start_ns) if end_ns > start_ns else None, waits.height),
    ]
    table = pl.DataFrame(rows, schema={"metric": pl.String, "value": pl.Float64, "n": pl.Int64}, orient="row")
    return ordered(table.with_columns(unit=pl.lit("1"), coverage=pl.lit(1.0)), [])


def _windows(windows: Table) -> pl.DataFrame:
    """Return the windows with their index. Raises `ValueError` if one ends before it begins."""
    rows = lazy(windows, ()).select("label", "start_ns", "end_ns").collect()
    inverted = rows.filter(pl.col("end_ns") < pl.col("start_ns"))
    if inverted.height:
        raise ValueError(f"a window from {inverted['start_ns'][0]} to {inverted['end_ns'][0]} ends before it begins")
    return rows.select(pl.int_range(pl.len()).cast(pl.Int64).alias("window"), "label", "start_ns", "end_ns")


def _bounds(waits: pl.DataFrame) -> tuple[Int64s, Int64s]:
    return waits["start_ns"].to_numpy().astype(np.int64), waits["end_ns"].to_numpy().astype(np.int64)
