"""Summaries over repetitions: medians with intervals, and latencies from merged histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TypeAlias

import polars as pl

from androstep_analysis.bench.measures import QUANTILES, UNITS, buckets, dimensions, measures, quantile
from androstep_analysis.bench.read import read
from androstep_analysis.bench.tables import RUN
from androstep_analysis.stats.exact import rank

Paths: TypeAlias = Sequence[str | PathLike[str]]
"""Captures or files with the repetitions of one side."""


def summarise(tables: Mapping[str, pl.DataFrame], *, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the median of every metric and configuration over its valid repetitions, with its confidence interval.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `measures`.
    by : sequence of str, optional
        Columns of bench_runs that identify a configuration; by default those that differ, and those in
        `bench.tables.ALWAYS`.

    Returns
    -------
    polars.DataFrame
        Columns metric (String), `by`, value (Float64), unit, n (Int64, repetitions), lo, hi, confidence (Float64).
        Metrics are those of `measures`, and invalid_runs [repetitions]: the number of the configuration's n repetitions
        that are left out as invalid.

    Notes
    -----
    The interval runs from the j-th least to the j-th greatest repetition. With the largest possible j, it contains the
    median with a probability `confidence` of at least 0.95, for any distribution. Fewer than 6 repetitions cannot reach
    that level. The interval then runs from the least to the greatest, and `confidence` is lower. A single repetition
    has no interval.

    References
    ----------
    ``schemas/definitions.toml``, bench_rate and bench_interval; Le Boudec, Performance Evaluation of Computer and
    Communication Systems, 2010, section 2.2.2.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> summary = bench.summarise(tables, by=["test", "sync_mode"])
    >>> fsync = summary.filter(metric="iops", test="rand_write", sync_mode="fsync")
    >>> fsync.select(pl.col("value", "lo", "hi").round(), "n", "confidence").row(0)
    (4774.0, 3878.0, 4972.0, 9, 0.9609375)
    """
    runs = tables["bench_runs"]
    dims = dimensions(runs) if by is None else list(by)
    found = medians(measures(tables).filter("valid"), dims)
    return _tidy(pl.concat([found, _invalid(runs, dims)]), dims, [*UNITS, "invalid_runs"])


def by_place(places: Mapping[str, Paths], *, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the medians of `summarise` for each of several places, such as devices or filesystems.

    Parameters
    ----------
    places : mapping of sequence of path-like
        The captures or files (`read`) of each place, by its name.
    by : sequence of str, optional
        As in `summarise`.

    Returns
    -------
    polars.DataFrame
        The columns of `summarise`, and place (String). Rows are in the order of the places.

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figure 8; AndroStep (Jeong et al., ME 2013), Figure 6; Kim, Agrawal and
    Ungureanu (MobiHeld 2011), Table 2; Luo, Jiang and Cohen, Figure 2.

    Examples
    --------
    >>> places = {fs: [f"datasets/bench/{fs}_disk/modes.rec.xz"] for fs in ("ext4", "xfs")}
    >>> rates = bench.by_place(places, by=("test", "sync_mode")).filter(test="rand_write", sync_mode="fsync")
    >>> rates.filter(metric="iops")["place"].to_list()
    ['ext4', 'xfs']
    """
    found = (summarise(read(*paths).tables, by=by).with_columns(place=pl.lit(name)) for name, paths in places.items())
    return pl.concat(found, how="diagonal_relaxed")


def written(tables: Mapping[str, pl.DataFrame], *, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the bytes that the device wrote, for all processes, for each operation: medians as in `summarise`.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `measures`.
    by : sequence of str, optional
        As in `summarise`.

    Returns
    -------
    polars.DataFrame
        The columns of `summarise`, with metrics written_per_op [B], for configurations with known bytes of the device,
        and invalid_runs. Data that is still in the page cache when the last worker ends does not count.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/journal_modes.rec.xz").tables
    >>> cost = bench.written(tables, by=["test", "journal_mode"]).filter(metric="written_per_op", test="sqlite_update")
    >>> cost.filter(pl.col("journal_mode").is_in(["DELETE", "OFF", "WAL"])).select("journal_mode", "value").rows()
    [('DELETE', 57344.0), ('OFF', 8192.0), ('WAL', 32727.04)]
    """
    runs = tables["bench_runs"]
    dims = dimensions(runs) if by is None else list(by)
    done = tables["bench"].filter(thread=-1, part="op").select(*RUN, "ops")
    of_runs = runs.filter("valid").join(done, on=RUN).filter(pl.col("ops") > 0)
    per_op = of_runs.select(
        *dims, metric=pl.lit("written_per_op"), unit=pl.lit("B"), value=pl.col("device_write_bytes") / pl.col("ops")
    )
    found = medians(per_op.drop_nulls("value"), dims)
    return _tidy(pl.concat([found, _invalid(runs, dims)]), dims, ["written_per_op", "invalid_runs"])


def medians(measured: pl.DataFrame, dims: Sequence[str]) -> pl.DataFrame:
    """Return the median of every metric and configuration `dims` with its interval, as `summarise`, in no order.

    `measured` has columns metric, `dims`, value and unit, with a row for each repetition.
    """
    gathered = measured.group_by("metric", *dims).agg(
        unit=pl.col("unit").first(), n=pl.len().cast(pl.Int64), values=pl.col("value").sort()
    )
    ranks = [rank(n) for n in gathered["n"]]
    return (
        gathered.with_columns(
            value=pl.col("values").list.median(),
            rank=pl.Series([position for position, _ in ranks], dtype=pl.Int64),
            confidence=pl.Series([confidence for _, confidence in ranks], dtype=pl.Float64),
        )
        .with_columns(
            lo=pl.when(pl.col("n") > 1).then(pl.col("values").list.get(pl.col("rank") - 1)),
            hi=pl.when(pl.col("n") > 1).then(pl.col("values").list.get(pl.col("n") - pl.col("rank"))),
        )
        .select(_columns(dims))
    )


def latencies(tables: Mapping[str, pl.DataFrame], *, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Return quantiles of latency of every part of the operations, over all valid repetitions of a configuration.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `measures`.
    by : sequence of str, optional
        As in `summarise`.

    Returns
    -------
    polars.DataFrame
        Columns metric (latency), `by`, part (Enum), quantile (Enum: p50, p90, p99, p99.9, p99.99, max), value (Float64
        [ns]), unit, n (Int64, operations), lo, hi (Float64 [ns]). Results without a histogram have max only.

    Notes
    -----
    Quantiles are computed from the merged histograms. A quantile lies in the bucket ``[lo, hi]``, which is a 64th of
    its value wide for iobench. `value` is the upper end of the bucket. The bucket is the resolution of the number, not
    the variation between repetitions.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> table = bench.latencies(tables, by=["sync_mode"]).filter(part="op", quantile="p99", sync_mode="fsync")
    >>> table.select("value", "n", "lo", "hi").row(0)
    (770047.0, 18432, 761856.0, 770047.0)
    """
    dims = dimensions(tables["bench_runs"]) if by is None else list(by)
    keys = [*dims, "part"]
    whole = _valid(tables, dims)
    counts = buckets(whole, keys)
    most = whole.group_by(keys).agg(pl.col("latency_max_ns").max(), n=pl.col("ops").sum())
    parts = [
        quantile(counts, keys, millionths).with_columns(quantile=pl.lit(name)) for name, millionths in QUANTILES.items()
    ]
    known = pl.concat(parts).join(most.drop("n"), on=keys, nulls_equal=True)
    known = known.with_columns(upper_ns=pl.min_horizontal("upper_ns", "latency_max_ns"))
    last = most.filter(pl.col("latency_max_ns").is_not_null()).select(
        *keys, "n", lower_ns="latency_max_ns", upper_ns="latency_max_ns", quantile=pl.lit("max")
    )
    columns = [*keys, "n", "lower_ns", "upper_ns", "quantile"]
    rows = pl.concat([known.select(columns), last.select(columns)]).with_columns(
        metric=pl.lit("latency"),
        unit=pl.lit("ns"),
        quantile=pl.col("quantile").cast(pl.Enum([*QUANTILES, "max"])),
        value=pl.col("upper_ns").cast(pl.Float64),
        lo=pl.col("lower_ns").cast(pl.Float64),
        hi=pl.col("upper_ns").cast(pl.Float64),
    )
    order = [*dims, "part", "quantile"]
    return rows.sort(order, nulls_last=True).select("metric", *order, "value", "unit", "n", "lo", "hi")


def distribution(tables: Mapping[str, pl.DataFrame], *, by: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the cumulative distribution of latency of every part, over all valid repetitions of a configuration.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `measures`.
    by : sequence of str, optional
        As in `summarise`.

    Returns
    -------
    polars.DataFrame
        Columns metric (cumulative_ratio), `by`, part (Enum), latency_ns (Int64), value (Float64 [1]: share of the
        operations that took at most `latency_ns`, which is the end of a bucket), unit, n (Int64, operations in the
        bucket).

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> table = bench.distribution(tables, by=["sync_mode"]).filter(part="sync", sync_mode="fsync")
    >>> table.filter(pl.col("value") >= 0.5)["latency_ns"].min()
    176127
    """
    dims = dimensions(tables["bench_runs"]) if by is None else list(by)
    keys = [*dims, "part"]
    whole = _valid(tables, dims)
    most = whole.group_by(keys).agg(pl.col("latency_max_ns").max())
    counts = buckets(whole, keys).group_by(*keys, "bucket_ns", "width_ns").agg(n=pl.col("count").sum())
    rows = counts.join(most, on=keys, nulls_equal=True).with_columns(
        latency_ns=pl.min_horizontal(pl.col("bucket_ns") + pl.col("width_ns") - 1, "latency_max_ns"),
        value=pl.col("n").cum_sum().over(keys, order_by="bucket_ns") / pl.col("n").sum().over(keys),
        metric=pl.lit("cumulative_ratio"),
        unit=pl.lit("1"),
    )
    order = [*keys, "latency_ns"]
    return rows.sort(order, nulls_last=True).select("metric", *order, "value", "unit", "n")


def series(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return throughput over time of every repetition, all workers together.

    Parameters
    ----------
    tables : mapping of DataFrame
        Tables bench_runs and bench_series.

    Returns
    -------
    polars.DataFrame
        Columns metric (iops [1/s], bandwidth [B/s]), run_id (String), repeat (Int32), ts_ns (Int64, the start of a
        window), duration_ns (Int64), valid (Boolean), value (Float64), unit, n (Int64, operations in the window).

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/threads.rec.xz").tables
    >>> table = bench.series(tables).filter(metric="iops")
    >>> table["n"].sum() == tables["bench_series"]["ops"].sum()
    True
    """
    known = tables["bench_series"].join(tables["bench_runs"].select(*RUN, "valid", "ts_ns"), on=RUN, suffix="_run")
    windows = known.group_by(*RUN, "valid", "ts_ns").agg(
        pl.col("duration_ns").max(), n=pl.col("ops").sum(), bytes=pl.col("bytes").sum()
    )
    parts = [
        windows.with_columns(
            metric=pl.lit(metric), unit=pl.lit(UNITS[metric]), value=pl.col(column) * 1e9 / pl.col("duration_ns")
        )
        for metric, column in (("iops", "n"), ("bandwidth", "bytes"))
    ]
    order = [*RUN, "ts_ns", "duration_ns", "valid"]
    return pl.concat(parts).sort("metric", *order).select("metric", *order, "value", "unit", "n")


def _valid(tables: Mapping[str, pl.DataFrame], dims: Sequence[str]) -> pl.DataFrame:
    """Return the rows of table bench of all workers together in valid repetitions, with their run's configuration."""
    whole = tables["bench"].filter(thread=-1)
    shared = [name for name in dims if name in whole.columns]
    return whole.drop(shared).join(tables["bench_runs"].filter("valid").select(*RUN, *dims), on=RUN)


def _invalid(runs: pl.DataFrame, dims: Sequence[str]) -> pl.DataFrame:
    counted = runs.group_by(dims).agg(n=pl.len().cast(pl.Int64), value=(~pl.col("valid")).sum().cast(pl.Float64))
    return counted.with_columns(
        metric=pl.lit("invalid_runs"),
        unit=pl.lit("repetitions"),
        **{name: pl.lit(None, pl.Float64) for name in ("lo", "hi", "confidence")},
    ).select(_columns(dims))


def _columns(dims: Sequence[str]) -> list[str]:
    return ["metric", *dims, "value", "unit", "n", "lo", "hi", "confidence"]


def _tidy(table: pl.DataFrame, dims: Sequence[str], metrics: Sequence[str]) -> pl.DataFrame:
    ordered = table.with_columns(pl.col("metric").cast(pl.Enum(metrics))).sort("metric", *dims, nulls_last=True)
    return ordered.with_columns(pl.col("metric").cast(pl.String))
