"""Detect where the clock of a recording jumped or was set back, and close the gaps in its time axis.

A clock is *set back* where the time of a line is long before the time of an earlier line of the same CPU
(native/decode/text/lines.c). Causes are a reset, a wrap, or two recordings in one file. The later segment is then moved
after the earlier one, in file order.

A clock *jumps* where no event is recorded for at least an hour, and for longer than the rest of the recording lasts.
Causes are a clock that was set, or two recordings in sequence: a recorder that ran all that time would hardly have
recorded anything. Shorter silences are pauses of the device and stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import SEVERAL_CLOCKS, UNORDERED
from androstep_analysis.ingest.lines import MAX_SETBACKS, Totals

Jumps: TypeAlias = tuple[tuple[int, int], ...]
"""The gaps between segments, in order: the last time of one segment and the first time of the next, in ns."""

LEAST_JUMP_NS: Final = 3600 * 10**9

LEAST_GAP_NS: Final = 10**6
"""The shortest gap between two recordings. Enabling the tracepoints of one event takes longer, since the kernel patches
its code on all CPUs.
"""

_LEAST_EVENTS: Final = 16
"""In a recording with fewer events, silence says nothing about the clock."""


def set_back(totals: Totals, *, is_moved: bool = True) -> tuple[Loss, ...]:
    """Return the `Loss` for a clock that was set back in a text trace.

    `is_moved`: the reader moves the later segment after the earlier one.
    """
    count = totals.setbacks
    if not count:
        return ()
    if is_moved and count > MAX_SETBACKS:
        return mixed(count)
    if is_moved:
        message = (
            f"the clock was set back {_times(count)}, or the file has several recordings: later events were moved "
            "after the earlier ones"
        )
    else:
        message = (
            f"{_times(count)} a row is over 60 s earlier than the previous one of its device: rows were sorted by time"
        )
    return (Loss("clock", count, message),)


def mixed(setbacks: int) -> tuple[Loss, ...]:
    """Return the `Loss` for a clock that went back so often that its times are used unchanged."""
    message = (
        f"the clock goes back {_times(setbacks)}: times come from several clocks, and the order of events is unknown"
    )
    return (Loss(SEVERAL_CLOCKS, setbacks, message),) if setbacks else ()


def unordered(block_events: pl.LazyFrame, error_ns: int) -> tuple[Loss, ...]:
    """Return the `Loss` for issues on one device whose order is unknown: their times differ by `error_ns` at most."""
    if not error_ns:
        return ()
    action = pl.col("action").cast(pl.String)
    has_issues = block_events.select((action == "issue").any()).collect().item()
    issues = block_events.filter(action == ("issue" if has_issues else "queue"), pl.col("nr_sectors") > 0)
    issues = issues.select("dev", "ts_ns").sort("dev", "ts_ns")
    before, after = (pl.col("ts_ns").diff(n).over("dev").abs() <= error_ns for n in (1, -1))
    count, rows = issues.select((before.fill_null(False) | after.fill_null(False)).sum(), pl.len()).collect().row(0)
    if not count:
        return ()
    message = (
        f"{count:,} of {rows:,} requests were issued within {quantities.duration(error_ns)} of another one of "
        "their disk; the list rounds its times to that, so that their order is unknown"
    )
    return (Loss(UNORDERED, count, message, ()),)


def _times(count: int) -> str:
    return "1 time" if count == 1 else f"{count:,} times"


def is_mixed(losses: Iterable[Loss]) -> bool:
    """Return whether the order of the events is unknown because their times come from several clocks."""
    return any(loss.kind == SEVERAL_CLOCKS for loss in losses)


def jumps(tables: Mapping[str, pl.LazyFrame], first_ns: int | None, last_ns: int | None) -> Jumps:
    """Return the jumps of a recording from `first_ns` to `last_ns`. The tables hold its events, sorted by time."""
    if first_ns is None or last_ns is None or last_ns - first_ns < LEAST_JUMP_NS:
        return ()
    silent = [(first_ns, last_ns)]
    events = 0
    for table in tables.values():
        silences, rows = _silences(table, first_ns, last_ns)
        silent, events = _intersection(silent, silences), events + rows
    if events < _LEAST_EVENTS:
        return ()
    rest, chosen = last_ns - first_ns, []
    for begin, end in sorted(silent, key=lambda one: one[0] - one[1]):
        rest -= end - begin
        if end - begin <= rest:
            break
        chosen.append((begin, end))
    return tuple(sorted(one for one in chosen if first_ns < one[0] or one[1] < last_ns))


def jumped(spans: Jumps) -> tuple[Loss, ...]:
    """Return jumps as a `Loss`."""
    if not spans:
        return ()
    begin, end = max(spans, key=lambda one: one[1] - one[0])
    longest = f"{(end - begin) / 1e9:,.0f} s after {begin / 1e9:,.6f} s"
    where = f"the clock jumps by {longest}" if len(spans) == 1 else f"{len(spans)} times, by up to {longest}"
    start = "" if len(spans) == 1 else "the clock jumps "
    message = (
        f"{start}{where}, more than the rest of the recording: durations across it do not count, and time axes omit it"
    )
    return (Loss("clock", len(spans), message, spans=spans),)


def gaps(recorded: Iterable[tuple[int | None, int | None]]) -> Jumps:
    """Return the gaps between recordings of one machine, given the first and the last time of each.

    Files that follow each other within `LEAST_GAP_NS` are one recording that was split: no recorder can stop and start
    as fast.
    """
    between: list[tuple[int, int]] = []
    end: int | None = None
    for first, last in sorted((first, last) for first, last in recorded if first is not None and last is not None):
        if end is not None and first - end >= LEAST_GAP_NS:
            between.append((end, first))
        end = last if end is None else max(end, last)
    return tuple(between)


def lost_between(spans: Jumps) -> tuple[Loss, ...]:
    """Return gaps between recordings as a `Loss`."""
    if not spans:
        return ()
    begin, end = max(spans, key=lambda one: one[1] - one[0])
    longest = f"{(end - begin) / 1e9:,.6f} s after {begin / 1e9:,.6f} s"
    where = f"for {longest}" if len(spans) == 1 else f"{len(spans)} times, for up to {longest}"
    message = f"nothing was recorded between the files {where}: time axes omit the gap"
    return (Loss("gap", len(spans), message, spans=spans),)


def continued(time: Any, jumps: Jumps) -> Any:
    """Return times (an integer or an expression) on a time axis without the jumps of the clock."""
    for before, after in reversed(jumps):
        if isinstance(time, int):
            time = time - (after - before) if time >= after else time
        else:
            time = pl.when(time >= after).then(time - (after - before)).otherwise(time)
    return time


def on_one_axis(table: pl.LazyFrame, jumps: Jumps) -> pl.LazyFrame:
    """Return a table, such as requests, io or samples, with its times on that axis."""
    names = ("ts_ns", "queue_ns", "insert_ns", "issue_ns", "complete_ns", "valid_from_ns", "valid_to_ns")
    have = table.collect_schema()
    return table.with_columns(continued(pl.col(name), jumps).alias(name) for name in names if jumps and name in have)


def _silences(table: pl.LazyFrame, first_ns: int, last_ns: int) -> tuple[list[tuple[int, int]], int]:
    """Return the periods of at least `LEAST_JUMP_NS` in which a table has no row, and its number of rows."""
    silences: list[tuple[int, int]] = []
    before, rows = first_ns, 0
    for batch in table.select(pl.col("ts_ns").drop_nulls()).collect_batches(maintain_order=True, chunk_size=1 << 17):
        times: npt.NDArray[np.int64] = np.append(np.int64(before), batch["ts_ns"].to_numpy())
        for at in np.flatnonzero(np.diff(times) >= LEAST_JUMP_NS):
            silences.append((int(times[at]), int(times[at + 1])))
        before, rows = int(times[-1]), rows + batch.height
    if last_ns - before >= LEAST_JUMP_NS:
        silences.append((before, last_ns))
    return silences, rows


def _intersection(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the periods of at least `LEAST_JUMP_NS` that are in both lists. Both lists are in order."""
    shared = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if end - begin >= LEAST_JUMP_NS:
            shared.append((begin, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return shared
