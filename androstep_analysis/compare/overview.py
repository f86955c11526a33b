"""What is different between two recordings, or two sets of them: the answer of `androstep compare A B`.

A question is one number of both sides, such as bytes written per second. All questions that both sides can answer are
asked at once, and the intervals are so wide that all of them together hold with 95 % (Bonferroni). With three
recordings or more on a side these are the repeats, and their spread is measured. With fewer, windows of time are the
repeats (`stats.blocks`); they cannot tell how runs of one workload differ from each other, so that an assumed spread
between runs (`Kind.run_spread`) widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from androstep_analysis.bench.measures import telling as telling_columns
from androstep_analysis.capture import Capture
from androstep_analysis.common.errors import InputError
from androstep_analysis.compare.measures import dimensions, measures, together
from androstep_analysis.compare.observed import IN_WINDOWS, Observed, observe
from androstep_analysis.measures.measure import Worse
from androstep_analysis.measures.recording import Recording
from androstep_analysis.stats import blocks, distributions
from androstep_analysis.stats.blocks import Difference, Mean, Scale, Series
from androstep_analysis.stats.quantiles import Histogram, quantile

LEVEL: Final = 0.05
"""How often any verdict of an overview may be false."""

REPEATS: Final = 3
"""So many recordings on a side measure the spread between runs."""

RECOMMENDED: Final = 5
"""So many recordings on each side are recommended: of three, an interval is several times as wide."""

UNEVEN_LENGTHS: Final = 1.1
"""Where recordings differ more in their lengths, they may be whole runs of a program, and not parts of equal rate."""

VERDICTS: Final = ("worse", "better", "different", "cannot be decided", "same")

LEAST_REQUESTS: Final = 20
"""What happened less often on both sides is not compared."""

LEAST_SHARE: Final = 0.03
"""A process or a type of file with less of the bytes written on both sides is not compared."""

MOST_GROUPS: Final = 6
"""So many processes and types of files are compared, those with most bytes."""

LEAST_COVERAGE: Final = 0.5
"""Owners or types that are known of a smaller part of the bytes are not compared."""

MOST_UNEVEN: Final = 0.1
"""Nor are they where that part differs by more between the sides: the unknown part may be anybody's."""


class Kind(NamedTuple):
    """How far numbers of one kind differ without a cause, and by how much they must differ to matter.

    Of shares both are parts of the whole; of others they are parts of the value. `run_spread` is the standard deviation
    between runs of one workload on one machine, assumed where fewer than `REPEATS` recordings measure it.
    `most_same` is the widest interval of which "the same within" is still said.
    """

    is_share: bool
    run_spread: float
    smallest: float
    most_same: float


AMOUNT: Final = Kind(is_share=False, run_spread=0.10, smallest=0.05, most_same=0.6)
PER_REQUEST: Final = Kind(is_share=False, run_spread=0.05, smallest=0.05, most_same=0.6)
SHARE: Final = Kind(is_share=True, run_spread=0.03, smallest=0.03, most_same=0.15)
TIME: Final = Kind(is_share=False, run_spread=0.50, smallest=0.10, most_same=0.6)


@dataclass(frozen=True)
class Estimate:
    """One number of one side: the mean, and of how many recordings.

    Of an amount also in how many independent blocks of time something happened, and how long all of them are.
    """

    mean: Mean
    recordings: int
    occupied: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Question:
    """One number of both sides.

    `worse` is what is worse: a higher value, a lower one, or none of both. `share` is the part of the whole that this
    is of, on the side where it is larger.
    """

    what: str
    unit: str
    kind: Kind
    worse: Worse
    first: Estimate
    second: Estimate
    share: float = 1.0


@dataclass(frozen=True)
class Overview:
    """What is different between two sides (`overview`).

    Attributes
    ----------
    first, second : str
        What the sides are called.
    table : polars.DataFrame
        A row for each question, those that matter most first: what, unit, first, second, difference, lo, hi (Float64:
        second over first, of shares second minus first; null where one is 0), verdict (Enum `VERDICTS`), within
        (Float64: "the same within"), reason (String: what a decision lacks), weight (Float64, how much it matters).
    not_compared : tuple of str
        What only one side records, in words.
    recordings : tuple of int
        How many recordings each side has.
    seconds : tuple
        How long each side was recorded, in all; None where no times are known.
    """

    first: str
    second: str
    table: pl.DataFrame
    not_compared: tuple[str, ...]
    recordings: tuple[int, int]
    seconds: tuple[float | None, float | None]

    @property
    def lengths(self) -> list[float]:
        """The mean length of the recordings of each side, in seconds; empty where one is not known."""
        known = [one for one in self.seconds if one is not None]
        return [one / count for one, count in zip(known, self.recordings, strict=False)] if len(known) == 2 else []


_SCHEMA: Final[dict[str, Any]] = {
    **{"what": pl.String, "unit": pl.String},
    **dict.fromkeys(("first", "second", "difference", "lo", "hi"), pl.Float64),
    **{"verdict": pl.Enum(VERDICTS), "within": pl.Float64, "reason": pl.String, "weight": pl.Float64},
}

TOO_FEW_RUNS: Final = "runs"
"""Reason: windows show a difference that may be one between runs."""
TOO_SHORT: Final = "length"
"""Reason: the windows differ too much among themselves."""
TOO_FEW_REPEATS: Final = "repeats"
"""Reason: the recordings differ too much among themselves."""


def overview(
    first: Sequence[Capture | Recording], second: Sequence[Capture | Recording], *, names: tuple[str, str] | None = None
) -> Overview:
    """Answer what is different between two sides.

    Parameters
    ----------
    first, second : sequence of Capture or Recording
        One recording or more of each side. Three or more measure how runs differ; five are recommended.
    names : tuple of str, optional
        What the sides are called; by default the title of their first recording.

    Returns
    -------
    Overview

    Raises
    ------
    InputError
        Where a side has nothing to compare, the sides have nothing in common, or both have the same recording.

    References
    ----------
    ``schemas/definitions.toml``, compare_overview.

    Examples
    --------
    >>> again = dataclasses.replace(compare.Recording.of(capture), facts={**capture.facts, "capture_id": "0"})
    >>> set(compare.overview([capture], [again]).table["verdict"]) <= {"same", "cannot be decided"}
    True
    """
    sides = [
        [observe(one if isinstance(one, Recording) else Recording.of(one)) for one in side] for side in (first, second)
    ]
    return of_observed(sides[0], sides[1], names)


def of_observed(
    first: Sequence[Observed], second: Sequence[Observed], names: tuple[str, str] | None = None
) -> Overview:
    """Return the `overview` of what was observed."""
    sides = (first, second)
    titles = names or (first[0].title, second[0].title)
    for title, side in zip(titles, sides, strict=True):
        if all(one.is_empty for one in side):
            raise InputError(f"{title}: has no requests, benchmark results or replays, so there is nothing to compare")
    asked = list(_questions(Sides(first, second)))
    if not asked:
        raise InputError(f"{titles[0]} and {titles[1]}: no measure has enough data in both, so nothing was compared")
    rows = [_row(one, LEVEL / len(asked)) for one in asked]
    order = pl.col("verdict").to_physical().replace_strict({0: 0, 1: 0, 2: 0, 3: 1, 4: 2}, return_dtype=pl.Int8)
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort(order, -pl.col("weight"), maintain_order=True)
    lengths = [[one.seconds for one in side] for side in sides]
    return Overview(
        *titles,
        table,
        tuple(_not_compared(titles, sides)),
        (len(first), len(second)),
        (_sum(lengths[0]), _sum(lengths[1])),
    )


def _sum(lengths: Sequence[float | None]) -> float | None:
    known = [length for length in lengths if length is not None]
    return sum(known) if len(known) == len(lengths) else None


# -- questions --------------------------------------------------------------------------------------------------------


class Sides:
    """The observed recordings of both sides, and what series of windows they have."""

    def __init__(self, first: Sequence[Observed], second: Sequence[Observed]) -> None:
        self.observed = (first, second)
        self.ids = tuple([str(one.facts["capture_id"]) for one in side] for side in self.observed)
        self.tables = {name: self._table(name) for name in {*first[0].tables, *second[0].tables}}

    @property
    def lengths(self) -> tuple[float, float]:
        """The mean length of the recordings of each side, in seconds."""
        first, second = (sum(one.seconds or 0.0 for one in side) / len(side) for side in self.observed)
        return first, second

    def amount(
        self, what: str, unit: str, worse: Worse, amounts: tuple[list[Series], list[Series]], share: float = 1.0
    ) -> Question:
        """Ask for an amount per second; where recordings are not equally long perhaps for that in all.

        The same work in parts of equal rate gives equal amounts per second, and as whole runs equal amounts in all. No
        recording says which it is, so the one that differs less is asked for.
        """
        first, second = map(_amount, amounts)
        lengths = self.lengths
        if max(lengths) > UNEVEN_LENGTHS * min(lengths) > 0 and min(first.mean.value, second.mean.value) > 0:
            rate = math.log(second.mean.value / first.mean.value)
            if abs(rate + math.log(lengths[1] / lengths[0])) < abs(rate):
                first, second = (_in_all(one, length) for one, length in zip((first, second), lengths, strict=True))
                what, unit = f"{what} in all", unit.removesuffix("/s").replace("1", "")
        return Question(what, unit, AMOUNT, worse, first, second, share)

    def _table(self, name: str) -> pl.DataFrame | None:
        """The measure of all recordings as `compare.measures.together` gives it; None where a recording lacks it."""
        if any(name not in one.tables for side in self.observed for one in side):
            return None
        measure = IN_WINDOWS.get(name) or measures()[name]
        parts = [one.tables[name] for side in self.observed for one in side]
        return together(parts, measure, 1 if name in IN_WINDOWS else None)

    def of(self, name: str, **conditions: str) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """The rows of each side; None where nothing of the kind is in them."""
        table = self.tables.get(name)
        if table is None:
            return None
        chosen = [pl.col(column).cast(pl.String) == value for column, value in conditions.items()]
        rows = table.filter(*chosen)
        first, second = (rows.filter(pl.col("capture_id").is_in(ids)) for ids in self.ids)
        return first, second

    def amounts(self, name: str, **conditions: str) -> tuple[list[Series], list[Series]] | None:
        """Amounts per second in the windows of each recording."""
        found = self.of(name, **conditions)
        if found is None or not found[0].height or not found[1].height:
            return None
        return _series(found[0]), _series(found[1])


def _series(rows: pl.DataFrame) -> list[Series]:
    """The windows of each recording in order."""
    recordings = rows.filter(pl.col("weight") > 0).sort("repeat").partition_by("capture_id", maintain_order=True)
    return [Series(one["value"].to_numpy(), one["weight"].to_numpy()) for one in recordings]


def _total(recordings: Sequence[Series]) -> float:
    """What happened in all windows together."""
    return sum(float(one.values @ one.weights) for one in recordings)


def _amount(recordings: Sequence[Series]) -> Estimate:
    """An amount per second; of few recordings also in how many independent blocks something happened."""
    if len(recordings) >= REPEATS:
        return Estimate(_of_repeats([_total([one]) / float(one.weights.sum()) for one in recordings]), len(recordings))
    mean = blocks.mean(recordings)
    occupied = min(sum(map(_occupied, recordings)), mean.effective)
    return Estimate(mean, len(recordings), occupied, sum(float(one.weights.sum()) for one in recordings))


def _of_repeats(values: Sequence[float]) -> Mean:
    """The geometric mean of independent repeats, whose logarithms are taken as nearly normal.

    On logarithms one slow repetition does not hide what all others say. Zeros have none, and then it is the plain mean.
    """
    if len(values) < REPEATS or min(values) <= 0:
        return blocks.of_repeats(values)
    logarithms, count = np.log(values), len(values)
    value = math.exp(float(logarithms.mean()))
    error = value * float(logarithms.std(ddof=1)) / math.sqrt(count)
    return Mean(value, error, count - 1.0, count, float(count), 0.0, float(count))


def _in_all(per_second: Estimate, seconds: float) -> Estimate:
    """An amount of a whole recording that is so long."""
    mean = per_second.mean
    return replace(per_second, mean=replace(mean, value=mean.value * seconds, error=mean.error * seconds))


def _occupied(series: Series) -> float:
    """In how many of `blocks.MOST_BLOCKS` blocks something happened."""
    begins = np.linspace(0, len(series.values), min(blocks.MOST_BLOCKS, len(series.values)), endpoint=False).astype(int)
    return float(np.count_nonzero(np.add.reduceat(series.values, begins)))


def _per(amounts: Sequence[Series], counts: Sequence[Series]) -> Estimate | None:
    """Return what comes on one of what is counted: the ratio of sums, whose error is that of its residuals."""
    count = _total(counts)
    if count < LEAST_REQUESTS:
        return None
    value = _total(amounts) / count
    if len(amounts) >= REPEATS and all(_total([one]) > 0 for one in counts):
        ratios = [_total([one]) / _total([other]) for one, other in zip(amounts, counts, strict=True)]
        return Estimate(_of_repeats(ratios), len(amounts))
    windows = [
        Series(one.values * one.weights - value * other.values * other.weights, np.ones(len(one.values)))
        for one, other in zip(amounts, counts, strict=True)
    ]
    each = count / sum(len(one.values) for one in windows)
    residual = blocks.mean(windows)
    return Estimate(replace(residual, value=value, error=residual.error / each), len(amounts))


def _questions(sides: Sides) -> Iterator[Question]:
    yield from _rates(sides)
    yield from _shares(sides)
    yield from _latencies(sides)
    yield from _groups(sides, "by_process", "owner", "by {}", "higher")
    yield from _groups(sides, "by_file_type", "file_type", "to {} files", None)
    yield from _costs(sides)
    yield from _repetitions(sides)


def _rates(sides: Sides) -> Iterator[Question]:
    """Requests and bytes per second and in each other; flushes and calls of fsync."""
    worse = IN_WINDOWS["rate"].worse_of("B/s")
    flushes = sides.amounts("flushes", metric="iops")
    for op, done in (("write", "written"), ("read", "read")):
        counts = sides.amounts("rate", metric="iops", op=op)
        sizes = sides.amounts("rate", metric="bandwidth", op=op)
        if counts is None or sizes is None or max(map(_total, counts)) < LEAST_REQUESTS:
            continue
        yield sides.amount(f"bytes {done}", "B/s", worse, sizes)
        yield sides.amount(f"requests {done}", "1/s", worse, counts)
        yield from _ratio(f"size of a {op}", "B", None, sizes, counts)
        if op == "write" and flushes is not None:
            yield from _ratio("flushes per write", "", worse, flushes, counts)
    if flushes is not None and max(map(_total, flushes)) >= LEAST_REQUESTS:
        yield sides.amount("flushes", "1/s", worse, flushes)
    calls = _fsyncs(sides)
    if calls is not None and max(map(_total, calls)) >= LEAST_REQUESTS:
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
    first, second = (_per(amount, count) for amount, count in zip(amounts, counts, strict=True))
    if first is not None and second is not None:
        yield Question(what, unit, PER_REQUEST, worse, first, second)


def _fsyncs(sides: Sides) -> tuple[list[Series], list[Series]] | None:
    """Calls of fsync per second in the windows of each recording; None where a recording does not record them."""
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
    """Random, synchronous, journal and metadata, as parts of requests or bytes."""
    for what, name, metric, of in _SHARES:
        found = sides.of(name, metric=metric, **of)
        if found is None or any(rows["weight"].sum() <= 0 for rows in found):
            continue
        if max(rows["n"].fill_null(0).sum() for rows in found) < LEAST_REQUESTS or not _is_known(found):
            continue
        first, second = (_share(_series(rows)) for rows in found)
        kind = of.get("class") or of.get("block_type")
        yield Question(what, "1", SHARE, IN_WINDOWS[name].worse_of("1", kind), first, second)


def _share(recordings: Sequence[Series]) -> Estimate:
    """The share in all of few recordings; the mean of those of each where recordings are the repeats."""
    heavy = [one for one in recordings if one.weights.sum() > 0]
    if len(recordings) < REPEATS:
        return Estimate(blocks.mean(heavy, is_share=True), len(recordings))
    return Estimate(blocks.of_repeats([_total([one]) / float(one.weights.sum()) for one in heavy]), len(heavy))


def _is_known(found: Sequence[pl.DataFrame]) -> bool:
    """Whether owners, types or flags are known of enough of the bytes of both sides."""
    known = [rows.select(pl.col("coverage").fill_null(1.0).mean()).item() for rows in found]
    return all(one is not None and one >= LEAST_COVERAGE for one in known)


def _latencies(sides: Sides) -> Iterator[Question]:
    """Median and 99th percentile of requests by operation, from issue on where both know that, and of fsync."""
    tables = [[one.latencies for one in side] for side in sides.observed]
    has_issue = all((table["metric"] == "D2C").any() for side in tables for table in side)
    for metric, op in (("D2C" if has_issue else "Q2C", op) for op in ("read", "write", "flush")):
        yield from _quantiles(sides, f"{op} latency", metric, op)
    yield from _quantiles(sides, "fsync time", "fsync", "fsync")


def _quantiles(sides: Sides, what: str, metric: str, op: str) -> Iterator[Question]:
    histograms = [
        [_histogram(one.latencies.filter(metric=metric, op=op), one.nr_windows) for one in side]
        for side in sides.observed
    ]
    if any(sum(float(one.counts.sum()) for one in side) < LEAST_REQUESTS for side in histograms):
        return
    for name, level in (("p50", 0.5), ("p99", 0.99)):
        first, second = (Estimate(_quantile(side, level), len(side)) for side in histograms)
        yield Question(f"{what} {name}", "ns", TIME, "higher", first, second)


def _quantile(recordings: Sequence[Histogram], level: float) -> Mean:
    """The quantile of all requests of few recordings; the mean of those of each where recordings are the repeats."""
    if len(recordings) < REPEATS or not all(one.counts.sum() for one in recordings):
        return quantile(recordings, level)
    return _of_repeats([quantile([one], level).value for one in recordings])


def _histogram(rows: pl.DataFrame, nr_windows: int) -> Histogram:
    known = rows.drop_nulls("value")
    return Histogram(
        known["value"].to_numpy().astype(float),
        known["window"].to_numpy(),
        known["count"].to_numpy().astype(float),
        nr_windows,
    )


def _groups(sides: Sides, name: str, column: str, title: str, worse: Worse) -> Iterator[Question]:
    """Bytes per second of each of the processes, or types of files, that write most.

    They are chosen by their size and not by how far the sides differ, so that the choice makes no false verdict.
    """
    found = sides.of(name, metric="bandwidth", op="write")
    if found is None or not all(rows.height for rows in found):
        return
    totals = [rows.group_by(column).agg(bytes=(pl.col("value") * pl.col("weight")).sum()) for rows in found]
    known = [coverage(rows, column) for rows in totals]
    if min(known) < LEAST_COVERAGE or abs(known[0] - known[1]) > MOST_UNEVEN:
        return
    parts = [rows.with_columns(share=pl.col("bytes") / pl.col("bytes").sum()) for rows in totals]
    shares = pl.concat(parts).drop_nulls().group_by(column).agg(pl.col("share").max())
    largest = shares.filter(pl.col("share") >= LEAST_SHARE).sort("share", column, descending=[True, False])
    for key, share in largest.head(MOST_GROUPS).select(column, "share").iter_rows():
        first, second = (_series(rows.filter(pl.col(column) == key)) for rows in found)
        yield sides.amount(title.format(key), "B/s", worse, (first, second), share)


def coverage(totals: pl.DataFrame, column: str) -> float:
    """Of which part of the bytes the column is known."""
    whole, known = totals.select(
        pl.col("bytes").sum(), known=pl.col("bytes").filter(pl.col(column).is_not_null()).sum()
    ).row(0)
    return float(known / whole) if whole else 0.0


def _costs(sides: Sides) -> Iterator[Question]:
    """Write amplification: bytes of the device for each byte that was written to files, of whole recordings."""
    found = sides.of("write_cost", metric="cost_per_byte")
    if found is None or not all(rows.height for rows in found):
        return
    estimates = []
    for rows in found:
        sums = (
            rows.filter(pl.col("part").cast(pl.String) != "discard").group_by("capture_id").agg(pl.col("value").sum())
        )
        estimates.append(Estimate(_of_repeats(sums["value"].to_list()), sums.height))
    worse = measures()["write_cost"].worse
    yield Question("write amplification", "", PER_REQUEST, worse, estimates[0], estimates[1])


_REPEATED: Final = {
    "bench": pl.col("metric").is_in(["iops", "tps", "latency_p99"]),
    "replay": (pl.col("metric").is_in(["elapsed", "io_time"]) & pl.col("call").is_null())
    | ((pl.col("metric") == "latency") & (pl.col("quantile").cast(pl.String) == "p99")),
}
"""Which rows of benchmarks and replays are compared."""


def _repetitions(sides: Sides) -> Iterator[Question]:
    """Results of benchmarks and replays, of configurations that both sides have."""
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
            telling = telling_columns(group, dims) if of_test else [one for one in dims if group[one].n_unique() > 1]
            for key, cell in group.group_by(*telling, "metric", maintain_order=True):
                values = [_of_captures(cell.filter(pl.col("capture_id").is_in(ids))) for ids in sides.ids]
                if not all(len(one) for one, _ in values):
                    continue
                first, second = (Estimate(_of_repeats(one), count) for one, count in values)
                unit = cell["unit"][0]
                what = " ".join(str(part) for part in key if part is not None).replace("latency_p99", "p99")
                kind = TIME if unit == "ns" else AMOUNT
                yield Question(what, unit, kind, measure.worse_of(unit), first, second)


def _of_captures(rows: pl.DataFrame) -> tuple[list[float], int]:
    """The repetitions of one capture, or the median of each of several; and how many captures there are."""
    count = rows["capture_id"].n_unique()
    if count < 2:
        return rows["value"].to_list(), count
    return rows.group_by("capture_id", maintain_order=True).agg(pl.col("value").median())["value"].to_list(), count


# -- verdicts ---------------------------------------------------------------------------------------------------------


def _row(asked: Question, level: float) -> dict[str, Any]:
    """The question with its interval, which does not hold with probability `level`, and its verdict."""
    first, second = asked.first.mean.value, asked.second.mean.value
    row: dict[str, Any] = {"what": asked.what, "unit": asked.unit, "first": first, "second": second}
    if asked.kind.is_share:
        row["difference"] = second - first
        bounds = _points(asked, level)
    else:
        row["difference"] = second / first if first > 0 and second > 0 else None
        if row["difference"] is None:
            return row | _only_on_one_side(asked, level)
        bounds = _ratio_bounds(asked, level)
    if bounds is None:
        return row | {
            "verdict": "cannot be decided",
            "reason": _lacking(asked),
            "weight": _weight(asked, row["difference"]),
        }
    return row | {"lo": bounds[0], "hi": bounds[1]} | _verdict(asked, row["difference"], bounds, level)


def _spread(asked: Question, level: float) -> float:
    """How far an assumed spread between runs moves a bound: nothing where recordings measure it."""
    assumed = [1 / one.recordings for one in (asked.first, asked.second) if one.recordings < REPEATS]
    return distributions.deviates(level) * asked.kind.run_spread * math.sqrt(sum(assumed))


def _points(asked: Question, level: float, *, widened: bool = True) -> tuple[float, float] | None:
    is_few = min(asked.first.recordings, asked.second.recordings) < REPEATS
    difference = Difference(asked.first.mean, asked.second.mean, Scale.SHARE if is_few else Scale.ANY)
    value = difference.value
    if difference.is_known:
        low, high = difference.interval(1 - level)
    elif _are_constant(asked):
        low = high = value
    else:
        return None
    far = _spread(asked, level) if widened else 0.0
    return value - math.hypot(value - low, far), value + math.hypot(high - value, far)


def _ratio_bounds(asked: Question, level: float, *, widened: bool = True) -> tuple[float, float] | None:
    difference = Difference(asked.first.mean, asked.second.mean, Scale.POSITIVE)
    ratio = difference.second.value / difference.first.value
    found = difference.ratio(1 - level) if difference.is_known else (ratio, ratio) if _are_constant(asked) else None
    if found is None or found[0] <= 0:
        return None
    middle, far = math.log(ratio), _spread(asked, level) if widened else 0.0
    below, above = math.hypot(middle - math.log(found[0]), far), math.hypot(math.log(found[1]) - middle, far)
    return math.exp(max(middle - below, -700.0)), math.exp(min(middle + above, 700.0))


def _are_constant(asked: Question) -> bool:
    """Whether the values of both sides are known and do not vary, so that only the spread between runs is left."""
    return asked.first.mean.error == asked.second.mean.error == 0


def _verdict(asked: Question, difference: float, bounds: tuple[float, float], level: float) -> dict[str, Any]:
    size, low, high = (_size(asked, one) for one in (difference, *bounds))
    is_shown = low > 0 or high < 0
    weight = _weight(asked, difference if not is_shown else bounds[0] if low > 0 else bounds[1])
    smallest = asked.kind.smallest if asked.kind.is_share else math.log1p(asked.kind.smallest)
    if is_shown and abs(size) >= smallest:
        is_worse = (asked.worse == "higher") == (size > 0)
        return {"verdict": "different" if asked.worse is None else "worse" if is_worse else "better", "weight": weight}
    within = _within(asked, max(-low, high))
    if within <= asked.kind.most_same:
        return {"verdict": "same", "within": within, "weight": weight}
    return {"verdict": "cannot be decided", "reason": _reason(asked, level), "weight": _weight(asked, difference)}


def _reason(asked: Question, level: float) -> str:
    """Return what a decision lacks: runs, or longer recordings, or more of them."""
    if min(asked.first.recordings, asked.second.recordings) >= REPEATS:
        return TOO_FEW_REPEATS
    bounds = (_points if asked.kind.is_share else _ratio_bounds)(asked, level, widened=False)
    if bounds is None:
        return TOO_SHORT
    low, high = (_size(asked, one) for one in bounds)
    is_same = _within(asked, max(-low, high)) <= asked.kind.most_same
    return TOO_FEW_RUNS if is_same or low > 0 or high < 0 else TOO_SHORT


def _lacking(asked: Question) -> str:
    """Return what an interval lacks: a number of a whole recording has none without further recordings."""
    sides = (asked.first, asked.second)
    if min(one.recordings for one in sides) >= REPEATS:
        return TOO_FEW_REPEATS
    return TOO_SHORT if all(one.mean.windows >= REPEATS for one in sides) else TOO_FEW_RUNS


def _only_on_one_side(asked: Question, level: float) -> dict[str, Any]:
    """The verdict of what did not happen at all on one side.

    If it happened as often on both, each block in which it happened would lie on this side or the other by chance, as
    their lengths are.
    """
    is_in_second = asked.second.mean.value > 0
    there, other = (asked.second, asked.first) if is_in_second else (asked.first, asked.second)
    weight = asked.share
    if min(there.recordings, other.recordings) >= REPEATS:
        bounds = there.mean.bounds(distributions.deviates(level), there.mean.freedom, Scale.ANY)
        is_shown = there.mean.is_known and bounds[0] > 0
    else:
        is_shown = 2 * (there.seconds / (there.seconds + other.seconds)) ** there.occupied <= level
    if not is_shown:
        return {"verdict": "cannot be decided", "reason": _lacking(asked), "weight": weight}
    is_worse = (asked.worse == "higher") == is_in_second
    return {"verdict": "different" if asked.worse is None else "worse" if is_worse else "better", "weight": weight}


def _size(asked: Question, value: float) -> float:
    """A difference as a number that is 0 where there is none."""
    return value if asked.kind.is_share else math.log(value)


def _within(asked: Question, size: float) -> float:
    """A size as points, or as a part of the lower value."""
    return size if asked.kind.is_share else math.expm1(min(size, 700.0))


def _weight(asked: Question, value: float | None) -> float:
    """How much a difference matters: twice as much counts as 25 points, and a part as much of it as it is."""
    if value is None:
        return asked.share
    size = abs(_size(asked, value))
    return asked.share * (4 * size if asked.kind.is_share else size / math.log(2))


def _not_compared(titles: Sequence[str], sides: Sequence[Sequence[Observed]]) -> Iterator[str]:
    """What only one side records."""
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
