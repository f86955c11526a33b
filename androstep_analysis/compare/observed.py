"""Measurement of a recording for `compare.overview`: rates, shares and latencies in windows of time (`observe`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from androstep_analysis.common.units import NS_PER_S
from androstep_analysis.compare.measures import Measured, measured, measures
from androstep_analysis.compare.windows import Windows
from androstep_analysis.fs.tracepoints import SYNC_BEGINS, SYNC_ENDS
from androstep_analysis.measures import REGISTRY, counted, volume
from androstep_analysis.measures.fsyncs import calls
from androstep_analysis.measures.latency import STEPS
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.recording import Recording
from androstep_analysis.measures.tables import is_interchangeable

WINDOWS: Final = 200
"""Number of windows of a recording. `stats.blocks` makes at most 32 blocks of them."""

LATENCY: Final = pl.Schema(
    {"metric": pl.String, "op": pl.String, "window": pl.Int64, "count": pl.Int64, "value": pl.Int64}
)
"""Columns of `Observed.latencies`: `count` requests took up to `value` ns, which is exact to a thousandth."""

_PER_FACTOR_E: Final = 1000
"""Classes of latencies for each factor e."""


@dataclass(frozen=True)
class Observed:
    """The measurements of one recording.

    `tables` are those of measures by name, in windows or for each repetition. `latencies` has the columns `LATENCY`.
    `nr_windows` is the number of windows, and `records_fsyncs` whether calls of fsync were recorded. `busy` is the part
    of the time in which a request or a call of fsync was in progress (0 if no begin and end are known).
    """

    title: str
    facts: Mapping[str, Any]
    seconds: float | None
    tables: Mapping[str, Measured]
    latencies: pl.DataFrame
    nr_windows: int
    records_fsyncs: bool
    busy: float

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare."""
        return all(one.table.is_empty() for one in self.tables.values()) and self.latencies.is_empty()


def _volume(description: str, name: str, column: pl.Expr) -> Measure:
    """Make a measure of requests and bytes per second by an expression on table `io`."""

    def of(tables: Mapping[str, pl.LazyFrame], by: tuple[str, ...]) -> pl.DataFrame:
        return volume(tables["io"].with_columns(column.alias(name)), by=(*by, name)).cast({name: pl.String})

    return Measure(description, ("io",), of, is_rate=True)


_KERNEL_THREAD: Final = r"^(kworker|jbd2|kswapd|f2fs_[a-z]+|xfs[a-z-]*|dmcrypt_write)[/:\-\d].*$"
"""Names of kernel threads contain a device or a CPU, which would differ between otherwise equal recordings."""


def _flushes(tables: Mapping[str, pl.LazyFrame], by: tuple[str, ...]) -> pl.DataFrame:
    """Count the empty flushes.

    A write with a flush flag counts once, since the block layer sends an empty flush before it.
    """
    found = (
        counted(tables["requests"])
        .filter(pl.col("op") == "flush")
        .group_by(by)
        .agg(n=pl.len().cast(pl.Int64))
        .collect()
    )
    return found.with_columns(
        metric=pl.lit("count"), op=pl.lit("flushes"), value=pl.col("n").cast(pl.Float64), unit=pl.lit("requests")
    )


IN_WINDOWS: Final[Mapping[str, Measure]] = {
    **{name: REGISTRY[name] for name in ("rate", "locality", "sync", "block_types")},
    "by_process": _volume(
        "what processes write", "owner", pl.col("owner_comm").cast(pl.String).str.replace(_KERNEL_THREAD, "$1")
    ),
    "by_file_type": _volume("what is written to files of a type", "file_type", pl.col("file_type")),
    "flushes": Measure("flushes of the device's cache", ("requests",), _flushes, is_rate=True),
}
"""The measures in windows, by their names in `Observed.tables`."""

_WHOLE: Final = ("write_cost",)


def observe(recording: Recording) -> Observed:
    span = recording.span
    tables: dict[str, Measured] = {}
    latencies = pl.DataFrame(schema=LATENCY)
    windows, busy = None, 0.0
    if span is not None and _has_rows(recording, "requests"):
        length_ns = max(1, -(-(span[1] - span[0]) // WINDOWS))
        windows = Windows.of(recording.title, *span, length_ns)
        found = {name: measured(recording, one, length_ns) for name, one in IN_WINDOWS.items()}
        tables |= {name: one for name, one in found.items() if not one.table.is_empty()}
        tables |= {name: measured(recording, REGISTRY[name], None) for name in _whole(recording)}
        fsyncs = _fsyncs(recording)
        spans = fsyncs.select(op=pl.lit("fsync"), window=windows.number(pl.col("ts_ns")), span="latency_ns")
        latencies = pl.concat([*_of_requests(recording, windows), _classes(spans.lazy(), "fsync")])
        busy = _busy_ns(recording, fsyncs) / max(1, span[1] - span[0])
    for name, needed in (("bench", "bench"), ("replay", "replay_ops")):
        if _has_rows(recording, needed):
            tables[name] = measured(recording, measures()[name], None)
    return Observed(
        recording.title,
        recording.facts,
        None if span is None else (span[1] - span[0]) / NS_PER_S,
        tables,
        latencies,
        1 if windows is None else windows.count,
        _records_fsyncs(recording),
        busy,
    )


def _has_rows(recording: Recording, table: str) -> bool:
    return table in recording.tables and not recording.tables[table].head(1).collect().is_empty()


def _whole(recording: Recording) -> Iterator[str]:
    """Yield the measures of a whole recording for which it has events."""
    if _has_rows(recording, "fs_events"):
        yield from _WHOLE


def _records_fsyncs(recording: Recording) -> bool:
    if recording.events is not None:
        return not set(SYNC_BEGINS).isdisjoint(recording.events)
    events = recording.tables.get("fs_events")
    return events is not None and not events.filter(pl.col("event").is_in(SYNC_BEGINS)).head(1).collect().is_empty()


def _of_requests(recording: Recording, windows: Windows) -> Iterator[pl.DataFrame]:
    """Yield the latencies of requests, counted in classes, for each step that was recorded."""
    rows = counted(recording.timed["requests"])
    rows = rows.filter(~is_interchangeable(rows))
    for step in ("D2C", "Q2C"):
        begin, end = STEPS[step]
        spans = rows.select(
            pl.col("op").cast(pl.String), window=windows.number(order_ns()), span=pl.col(end) - pl.col(begin)
        )
        yield _classes(spans, step)


def _fsyncs(recording: Recording) -> pl.DataFrame:
    """Return the calls of fsync: ts_ns and latency_ns."""
    if not _records_fsyncs(recording):
        return pl.DataFrame(schema={"ts_ns": pl.Int64, "latency_ns": pl.Int64})
    columns = ("ts_ns", "tid", "pid", "comm", "event", "dev", "ino", "error")
    events = recording.tables["fs_events"].filter(pl.col("event").is_in([*SYNC_BEGINS, *SYNC_ENDS]))
    return calls(events.select(columns).collect(), recording.losses).select("ts_ns", "latency_ns")


def _busy_ns(recording: Recording, fsyncs: pl.DataFrame) -> int:
    """Return the time in which at least one request or call of fsync was in progress."""
    requests = recording.timed["requests"].select(begin=pl.coalesce("issue_ns", "queue_ns"), end="complete_ns")
    of_calls = fsyncs.lazy().select(begin="ts_ns", end=pl.col("ts_ns") + pl.col("latency_ns"))
    spans = pl.concat([requests, of_calls]).drop_nulls().sort("begin")
    before = pl.col("end").cum_max().shift(1).fill_null(pl.col("begin"))
    longer = pl.col("end") - pl.max_horizontal("begin", before)
    return int(spans.select(longer.clip(lower_bound=0).sum()).collect().item())


def _classes(spans: pl.LazyFrame, metric: str) -> pl.DataFrame:
    """Count latencies in classes that are a thousandth wide. Those without a latency are counted with a null value."""
    size = (pl.col("span").clip(lower_bound=1).log() * _PER_FACTOR_E).floor().cast(pl.Int64)
    groups = spans.filter(pl.col("window").is_not_null()).group_by("op", "window", size=size)
    found = groups.agg(count=pl.len().cast(pl.Int64), value=pl.col("span").max()).collect()
    return found.select(pl.lit(metric).alias("metric"), "op", "window", "count", "value").cast(LATENCY)
