"""The numbers that `compare.overview` compares (`questions`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.bench.measures import distinguishing
from androstep_analysis.compare.estimates import (
    AMOUNT,
    CACHED,
    LEAST_REQUESTS,
    PER_REQUEST,
    SHARE,
    SPEED,
    TIME,
    Estimate,
    Kind,
    Question,
    amount_of,
    histogram,
    in_all,
    of_repeats,
    per,
    quantile_of,
    series,
    share_of,
    total,
)
from androstep_analysis.compare.measures import dimensions, measures, together
from androstep_analysis.compare.observed import IN_WINDOWS, Observed
from androstep_analysis.measures.measure import Worse
from androstep_analysis.stats.blocks import Series

BUSY: Final = 0.45
"""If both sides wait for storage for this part of the time or more, amounts depend on the speed of storage."""

UNEVEN_LENGTHS: Final = 1.1
"""Recordings whose lengths differ by a larger factor may be whole runs of a program instead of parts with equal
rate."""

LEAST_SHARE: Final = 0.03
"""A process or file type with a smaller share of the written bytes on both sides is not compared."""

MOST_GROUPS: Final = 6
"""The most processes, and the most file types, that are compared: those with most bytes."""

LEAST_COVERAGE: Final = 0.5
"""Owners or types that are known for a smaller share of the bytes are not compared."""

MOST_UNEVEN: Final = 0.1
"""Owners or types are not compared either if that share differs by more between the sides: the rest is unknown."""


class Sides:
    """The observed recordings of both sides, and their series of windows."""

    def __init__(self, first: Sequence[Observed], second: Sequence[Observed]) -> None:
        self.observed = (first, second)
        self.ids = tuple([str(one.facts["capture_id"]) for one in side] for side in self.observed)
        self.tables = {name: self._table(name) for name in {*first[0].tables, *second[0].tables}}

    @property
    def lengths(self) -> tuple[float, float]:
        """The mean length of the recordings of each side, in seconds."""
        first, second = (sum(one.seconds or 0.0 for one in side) / len(side) for side in self.observed)
        return first, second

    @property
    def are_busy(self) -> bool:
        """Whether both sides always waited for storage, so that amounts per second depend on its speed."""
        return all(one.busy >= BUSY for side in self.observed for one in side)

    def amount(
        self,
        what: str,
        unit: str,
        worse: Worse,
        amounts: tuple[list[Series], list[Series]],
        share: float = 1.0,
        kind: Kind = AMOUNT,
    ) -> Question:
        """Return the question for an amount per second, or for the total amount if recordings differ in length.

        Parts of the same work have equal amounts per second, and whole runs of it have equal total amounts. A recording
        does not show which of the two it is, so the amount that differs less is compared.
        """
        first, second = map(amount_of, amounts)
        lengths = self.lengths
        if max(lengths) > UNEVEN_LENGTHS * min(lengths) > 0 and min(first.mean.value, second.mean.value) > 0:
            rate = math.log(second.mean.value / first.mean.value)
            if abs(rate + math.log(lengths[1] / lengths[0])) < abs(rate):
                first, second = (in_all(one, length) for one, length in zip((first, second), lengths, strict=True))
                what, unit = f"{what} in all", unit.removesuffix("/s").replace("1", "")
        if self.are_busy:
            return Question(what, unit, SPEED, None, first, second, share)
        return Question(what, unit, kind, worse, first, second, share)

    def _table(self, name: str) -> pl.DataFrame | None:
        """Return the measure of all recordings as from `compare.measures.together`; None if a recording lacks it."""
        if any(name not in one.tables for side in self.observed for one in side):
            return None
        measure = IN_WINDOWS.get(name) or measures()[name]
        parts = [one.tables[name] for side in self.observed for one in side]
        return together(parts, measure, 1 if name in IN_WINDOWS else None)

    def of(self, name: str, **conditions: str) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return the rows of each side; None without such a table."""
        table = self.tables.get(name)
        if table is None:
            return None
        chosen = [pl.col(column).cast(pl.String) == value for column, value in conditions.items()]
        rows = table.filter(*chosen)
        first, second = (rows.filter(pl.col("capture_id").is_in(ids)) for ids in self.ids)
        return first, second

    def amounts(self, name: str, **conditions: str) -> tuple[list[Series], list[Series]] | None:
        """Return amounts per second in the windows of each recording."""
        found = self.of(name, **conditions)
        if found is None or not found[0].height or not found[1].height:
            return None
        return series(found[0]), series(found[1])


def questions(sides: Sides) -> Iterator[Question]:
    yield from _rates(sides)
    yield from _shares(sides)
    yield from _latencies(sides)
    yield from _groups(sides, "by_process", "owner", "by {}", "higher")
    yield from _groups(sides, "by_file_type", "file_type", "to {} files", None)
    yield from _costs(sides)
    yield from _repetitions(sides)


def _rates(sides: Sides) -> Iterator[Question]:
    """Yield requests and bytes per second, their ratio, flushes and calls of fsync."""
    worse = IN_WINDOWS["rate"].worse_of("B/s")
    flushes = sides.amounts("flushes", metric="iops")
    for op, done in (("write", "written"), ("read", "read")):
        counts = sides.amounts("rate", metric="iops", op=op)
        sizes = sides.amounts("rate", metric="bandwidth", op=op)
        if counts is None or sizes is None or max(map(total, counts)) < LEAST_REQUESTS:
            continue
        kind = CACHED if op == "read" else AMOUNT
        yield sides.amount(f"bytes {done}", "B/s", worse, sizes, kind=kind)
        yield sides.amount(f"requests {done}", "1/s", worse, counts, kind=kind)
        yield from _ratio(f"size of a {op}", "B", None, sizes, counts)
        if op == "write" and flushes is not None:
            yield from _ratio("flushes per write", "", worse, flushes, counts)
    if flushes is not None and max(map(total, flushes)) >= LEAST_REQUESTS:
        yield sides.amount("flushes", "1/s", worse, flushes)
    calls = _fsyncs(sides)
    if calls is not None and max(map(total, calls)) >= LEAST_REQUESTS:
        yield sides.amount("fsyncs", "1/s", worse, calls)
        sizes = sides.amounts("rate", metric="bandwidth", op="write")
        if sizes is not None:
            yield from _ratio("bytes written per fsync", "B", None, sizes, calls)


def _ratio(
    what: str,
    unit: str,
    worse: Worse,
    amounts: tuple[list[Series], list[Series]],
    counts: tuple[list[Series], list[Series]],
) -> Iterator[Question]:
    first, second = (per(amount, count) for amount, count in zip(amounts, counts, strict=True))
    if first is not None and second is not None:
        yield Question(what, unit, PER_REQUEST, worse, first, second)


def _fsyncs(sides: Sides) -> tuple[list[Series], list[Series]] | None:
    """Return calls of fsync per second in the windows of each recording; None if a recording lacks them."""
    if not all(one.records_fsyncs and one.seconds for side in sides.observed for one in side):
        return None
    first, second = ([_calls(one) for one in side] for side in sides.observed)
    return first, second


def _calls(one: Observed) -> Series:
    calls = one.latencies.filter(metric="fsync").group_by("window").agg(pl.col("count").sum())
    length = (one.seconds or 0.0) / one.nr_windows
    values = np.zeros(one.nr_windows)
    values[calls["window"].to_numpy()] = calls["count"].to_numpy()
    return Series(values / length, np.full(one.nr_windows, length))


_SHARES: Final = (
    ("random reads", "locality", "count_ratio", {"op": "read", "class": "random"}),
    ("random writes", "locality", "count_ratio", {"op": "write", "class": "random"}),
    ("synchronous, of bytes", "sync", "bytes_ratio", {"class": "sync"}),
    ("journal, of bytes", "block_types", "bytes_ratio", {"op": "write", "block_type": "journal"}),
    ("metadata, of bytes", "block_types", "bytes_ratio", {"op": "write", "block_type": "metadata"}),
)


def _shares(sides: Sides) -> Iterator[Question]:
    """Yield random, synchronous, journal and metadata I/O as shares of requests or bytes."""
    for what, name, metric, of in _SHARES:
        found = sides.of(name, metric=metric, **of)
        if found is None or any(rows["weight"].sum() <= 0 for rows in found):
            continue
        if max(rows["n"].fill_null(0).sum() for rows in found) < LEAST_REQUESTS or not _is_known(found):
            continue
        first, second = (share_of(series(rows)) for rows in found)
        kind = of.get("class") or of.get("block_type")
        yield Question(what, "1", SHARE, IN_WINDOWS[name].worse_of("1", kind), first, second)


def _is_known(found: Sequence[pl.DataFrame]) -> bool:
    """Return whether owners, types or flags are known for enough of the bytes of both sides."""
    known = [rows.select(pl.col("coverage").fill_null(1.0).mean()).item() for rows in found]
    return all(one is not None and one >= LEAST_COVERAGE for one in known)


def _latencies(sides: Sides) -> Iterator[Question]:
    """Yield median and 99th percentile of latency by operation, from issue if both sides recorded it, and of fsync."""
    tables = [[one.latencies for one in side] for side in sides.observed]
    has_issue = all((table["metric"] == "D2C").any() for side in tables for table in side)
    for metric, op in (("D2C" if has_issue else "Q2C", op) for op in ("read", "write", "flush")):
        yield from _quantiles(sides, f"{op} latency", metric, op)
    yield from _quantiles(sides, "fsync time", "fsync", "fsync")


def _quantiles(sides: Sides, what: str, metric: str, op: str) -> Iterator[Question]:
    histograms = [
        [histogram(one.latencies.filter(metric=metric, op=op), one.nr_windows) for one in side]
        for side in sides.observed
    ]
    if any(sum(float(one.counts.sum()) for one in side) < LEAST_REQUESTS for side in histograms):
        return
    for name, level in (("p50", 0.5), ("p99", 0.99)):
        first, second = (Estimate(quantile_of(side, level), len(side)) for side in histograms)
        yield Question(f"{what} {name}", "ns", TIME, "higher", first, second)


def _groups(sides: Sides, name: str, column: str, title: str, worse: Worse) -> Iterator[Question]:
    """Yield bytes per second of the processes, or file types, that write most.

    They are chosen by size and not by their difference, so that the choice causes no false verdicts.
    """
    found = sides.of(name, metric="bandwidth", op="write")
    if found is None or not all(rows.height for rows in found):
        return
    totals = [rows.group_by(column).agg(bytes=(pl.col("value") * pl.col("weight")).sum()) for rows in found]
    known = [_coverage(rows, column) for rows in totals]
    if min(known) < LEAST_COVERAGE or abs(known[0] - known[1]) > MOST_UNEVEN:
        return
    parts = [rows.with_columns(share=pl.col("bytes") / pl.col("bytes").sum()) for rows in totals]
    shares = pl.concat(parts).drop_nulls().group_by(column).agg(pl.col("share").max())
    largest = shares.filter(pl.col("share") >= LEAST_SHARE).sort("share", column, descending=[True, False])
    for key, share in largest.head(MOST_GROUPS).select(column, "share").iter_rows():
        first, second = (series(rows.filter(pl.col(column) == key)) for rows in found)
        yield sides.amount(title.format(key), "B/s", worse, (first, second), share)


def _coverage(totals: pl.DataFrame, column: str) -> float:
    """Return the share of the bytes for which the column is known."""
    whole, known = totals.select(
        pl.col("bytes").sum(), known=pl.col("bytes").filter(pl.col(column).is_not_null()).sum()
    ).row(0)
    return float(known / whole) if whole else 0.0


def _costs(sides: Sides) -> Iterator[Question]:
    """Yield write amplification of whole recordings: bytes on the device for each byte written to files."""
    found = sides.of("write_cost", metric="cost_per_byte")
    if found is None or not all(rows.height for rows in found):
        return
    estimates = []
    for rows in found:
        sums = (
            rows.filter(pl.col("part").cast(pl.String) != "discard").group_by("capture_id").agg(pl.col("value").sum())
        )
        estimates.append(Estimate(of_repeats(sums["value"].to_list()), sums.height))
    worse = measures()["write_cost"].worse
    yield Question("write amplification", "", PER_REQUEST, worse, estimates[0], estimates[1])


_REPEATED: Final = {
    "bench": pl.col("metric").is_in(["iops", "tps", "latency_p99"]),
    "replay": (pl.col("metric").is_in(["elapsed", "io_time"]) & pl.col("call").is_null())
    | ((pl.col("metric") == "latency") & (pl.col("quantile").cast(pl.String) == "p99")),
}
"""The rows of benchmarks and replays that are compared."""


def _repetitions(sides: Sides) -> Iterator[Question]:
    """Yield results of benchmarks and replays, for configurations that both sides have."""
    for name, is_compared in _REPEATED.items():
        table = sides.tables.get(name)
        if table is None:
            continue
        measure, dims = measures()[name], dimensions(table)
        rows = table.filter(is_compared, pl.col("value").is_finite())
        of_test = ["test"] if "test" in dims else []
        for _, group in rows.group_by(of_test, maintain_order=True) if of_test else [((), rows)]:
            seen = [group.filter(pl.col("capture_id").is_in(ids)) for ids in sides.ids]
            group = group.join(
                seen[0].join(seen[1], on=dims, how="semi", nulls_equal=True), on=dims, how="semi", nulls_equal=True
            )
            columns = distinguishing(group, dims) if of_test else [one for one in dims if group[one].n_unique() > 1]
            for key, cell in group.group_by(*columns, "metric", maintain_order=True):
                values = [_of_captures(cell.filter(pl.col("capture_id").is_in(ids))) for ids in sides.ids]
                if not all(len(one) for one, _ in values):
                    continue
                first, second = (Estimate(of_repeats(one), count) for one, count in values)
                unit = cell["unit"][0]
                what = " ".join(str(part) for part in key if part is not None).replace("latency_p99", "p99")
                kind = TIME if unit == "ns" else AMOUNT
                yield Question(what, unit, kind, measure.worse_of(unit), first, second)


def _of_captures(rows: pl.DataFrame) -> tuple[list[float], int]:
    """Return the repetitions of one capture, or the median of each of several; and the number of captures."""
    count = rows["capture_id"].n_unique()
    if count < 2:
        return rows["value"].to_list(), count
    return rows.group_by("capture_id", maintain_order=True).agg(pl.col("value").median())["value"].to_list(), count


def not_compared(titles: Sequence[str], sides: Sequence[Sequence[Observed]]) -> Iterator[str]:
    """Yield sentences on data that only one side recorded."""
    kinds: tuple[tuple[str, Callable[[Observed], bool]], ...] = (
        ("requests", lambda one: "rate" in one.tables),
        ("whether writes are synchronous", lambda one: "sync" in one.tables),
        ("calls of fsync", lambda one: one.records_fsyncs),
        ("latency from issue on", lambda one: bool((one.latencies["metric"] == "D2C").any())),
        ("write amplification", lambda one: "write_cost" in one.tables),
        ("results of benchmarks", lambda one: "bench" in one.tables),
        ("replays", lambda one: "replay" in one.tables),
    )
    for what, has in kinds:
        first, second = (all(has(one) for one in side) for side in sides)
        if first != second:
            yield f"{what}: only recorded in {titles[0] if first else titles[1]}"
