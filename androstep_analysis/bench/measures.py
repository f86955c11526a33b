"""Rates and latency quantiles of each repetition, computed from the recorded tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.bench.tables import ALWAYS, JOB, MACHINE, RUN

QUANTILES: Final = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p99.9": 999_000, "p99.99": 999_900}
"""Quantiles of latency, in millionths of the operations."""

_CPU: Final = ("active", "idle", "iowait", "steal")
"""Parts of the time of all CPUs (columns cpu_…_ns of bench_runs)."""

UNITS: Final = {
    **{"iops": "1/s", "tps": "1/s", "bandwidth": "B/s"},
    **dict.fromkeys((f"latency_{name}" for name in QUANTILES), "ns"),
    **{"cpu_active": "1", "cpu_iowait": "1", "context_switches": "count"},
}
"""The metrics of a repetition and their units."""


_DURABLE: Final = ("osync", "odsync", "direct", "direct_osync", "rwf_dsync")
_DURABLE_AFTER: Final = ("fsync", "fdatasync", "mmap_sync")
"""Words of sync_mode for writes that reach the device by themselves, and by a following call."""


def measures(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return rates and quantiles of latency of every repetition, including invalid ones.

    Parameters
    ----------
    tables : mapping of DataFrame
        Tables bench_runs and bench, as in ``read(…).tables`` and `Capture.bench`.

    Returns
    -------
    polars.DataFrame
        The columns of bench_runs, then metric (String), value (Float64), unit; a row for each repetition and metric.
        iops of files and tps of SQLite and PostMark [1/s] count whole operations of all workers. bandwidth [B/s] is of
        the bytes that they moved; SQLite has none. latency_p50, latency_p90, latency_p99, latency_p99.9 and
        latency_p99.99 [ns] are quantiles of whole operations. cpu_active and cpu_iowait [1] are shares of the time of
        all CPUs of the machine. context_switches [count] are those of the workers, voluntary or not. Metrics that a
        tool did not report have no row.

    Notes
    -----
    A quantile is the nearest rank. From a histogram, it is the upper end of its bucket, at most the longest latency.
    Without a histogram, it is the value that the tool printed.

    References
    ----------
    ``schemas/definitions.toml``, bench_rate.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> rates = bench.measures(tables).filter(metric="iops", test="seq_write", sync_mode="fsync")
    >>> rates["value"].round().to_list()
    [4732.0, 4851.0, 4511.0, 4688.0, 5295.0, 5307.0, 5437.0, 4765.0, 4574.0]
    """
    whole = tables["bench"].filter(thread=-1, part="op")
    seconds = (pl.col("duration_ns") - pl.col("paused_ns").fill_null(0)) / 1e9
    per_second = pl.when(seconds > 0).then(pl.lit(1.0) / seconds)
    columns = [*RUN, *(f"latency_{name}" for name in QUANTILES), "iops", "bandwidth", "context_switches"]
    found = whole.with_columns(
        *(pl.lit(None, pl.Float64).alias(f"latency_{name}") for name in QUANTILES),
        iops=pl.coalesce(pl.col("ops") * per_second, pl.col("stated_ops_rate") / 1000),
        bandwidth=pl.coalesce(pl.col("bytes") * per_second, pl.col("stated_bytes_rate")),
        context_switches=(pl.col("ctx_voluntary") + pl.col("ctx_involuntary")).cast(pl.Float64),
    ).select(columns)
    latencies = _latencies(whole)
    found = found.update(latencies, on=list(RUN)) if not latencies.is_empty() else found
    runs = tables["bench_runs"].join(found, on=RUN, how="left", maintain_order="left")
    of_files = pl.col("workload") == "file"
    times = {name: pl.col(f"cpu_{name}_ns") for name in _CPU}
    whole_ns = pl.sum_horizontal(times.values())
    runs = runs.with_columns(
        *((pl.when(whole_ns > 0).then(times[name] / whole_ns)).alias(f"cpu_{name}") for name in ("active", "iowait")),
        tps=pl.when(~of_files).then("iops"),
        iops=pl.when(of_files).then("iops"),
        bandwidth=pl.when(pl.col("workload") != "sqlite").then("bandwidth"),
    )
    index = tables["bench_runs"].columns
    long = runs.unpivot(list(UNITS), index=index, variable_name="metric", value_name="value")
    long = long.filter(pl.col("value").is_not_null())
    return long.with_columns(unit=pl.col("metric").replace_strict(UNITS, return_dtype=pl.String))


def write_amplification(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the bytes that the device wrote, for all processes, for each byte that a repetition wrote.

    Parameters
    ----------
    tables : mapping of DataFrame
        As for `measures`.

    Returns
    -------
    polars.DataFrame
        The columns of bench_runs, then value (Float64 [1]). There is a row, also for invalid repetitions, if all
        written data had to be on the device when the last worker ended, and the device's bytes are known.

    Examples
    --------
    >>> tables = bench.read("datasets/bench/ext4_disk/modes.rec.xz").tables
    >>> written = bench.write_amplification(tables).filter(test="seq_write", sync_mode="osync")
    >>> written["value"].round(2).to_list()
    [1.15, 1.16, 1.15, 1.13, 1.14, 1.15, 1.21, 1.17, 1.15]
    """
    whole = tables["bench"].filter(thread=-1)
    written = whole.group_by(RUN).agg(
        written=pl.col("bytes").filter(part="op").sum() - pl.col("bytes").filter(part="read").sum()
    )
    runs = tables["bench_runs"].join(written, on=RUN, maintain_order="left")
    known = runs.filter(_reaches_device(), pl.col("written") > 0, pl.col("device_write_bytes").is_not_null())
    return known.with_columns(value=pl.col("device_write_bytes") / pl.col("written")).drop("written")


def quantile(counts: pl.DataFrame, by: Sequence[str], millionths: int) -> pl.DataFrame:
    """Return the bucket that contains a quantile: columns `by`, n, lower_ns, upper_ns (Int64, both within the bucket).

    `counts` has columns `by`, bucket_ns, width_ns, count. The quantile is the nearest rank: the least latency that at
    least this share of the operations did not exceed. It lies in ``[lower_ns, upper_ns]``.
    """
    merged = counts.group_by(*by, "bucket_ns", "width_ns").agg(pl.col("count").sum()).sort("bucket_ns")
    rank = (pl.col("n") * millionths + 999_999) // 1_000_000
    running = merged.with_columns(
        n=pl.col("count").sum().over(by), reached=pl.col("count").cum_sum().over(by, order_by="bucket_ns")
    )
    reached = running.filter(pl.col("reached") >= pl.max_horizontal(rank, 1))
    return reached.group_by(by, maintain_order=True).agg(
        n=pl.col("n").first(),
        lower_ns=pl.col("bucket_ns").first(),
        upper_ns=(pl.col("bucket_ns") + pl.col("width_ns") - 1).first(),
    )


def buckets(results: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the histograms of rows of table bench: columns `by`, bucket_ns, width_ns, count, a row for each bucket."""
    known = results.filter(pl.col("hist_bucket_ns").list.len() > 0)
    lists = {"bucket_ns": "hist_bucket_ns", "width_ns": "hist_width_ns", "count": "hist_count"}
    return known.select(*by, **{name: pl.col(column) for name, column in lists.items()}).explode(list(lists))


def dimensions(runs: pl.DataFrame) -> list[str]:
    """Return the columns in which the configurations of these runs differ, and those of every result (`ALWAYS`)."""
    return [name for name in (*JOB, *MACHINE) if name in ALWAYS or runs[name].n_unique() > 1]


def distinguishing(table: pl.DataFrame, dims: Sequence[str]) -> list[str]:
    """Return the columns that distinguish configurations, test first.

    Columns that are determined by earlier ones are left out.
    """
    names = ["test"]
    for name in dims:
        if name not in names and table.select(names).n_unique() < table.select(*names, name).n_unique():
            names.append(name)
    return names


def _latencies(whole: pl.DataFrame) -> pl.DataFrame:
    """Return quantiles of each repetition as Float64 columns, such as latency_p50.

    They are computed from its histogram, or else are those that the tool printed.
    """
    counts = buckets(whole, RUN)
    most = whole.select(*RUN, "latency_max_ns")
    wide = whole.select(RUN)
    printed = whole.filter(pl.col("quantile_ppm").is_not_null()).select(*RUN, "quantile_ppm", "quantile_ns")
    printed = printed.explode("quantile_ppm", "quantile_ns")
    for name, millionths in QUANTILES.items():
        found = quantile(counts, RUN, millionths).join(most, on=RUN)
        # The longest latency is known exactly and limits the bucket.
        value = pl.min_horizontal("upper_ns", "latency_max_ns").cast(pl.Float64)
        column = f"latency_{name}"
        of_histogram = found.select(*RUN, value.alias(column))
        of_print = printed.filter(quantile_ppm=millionths).select(
            *RUN, pl.col("quantile_ns").cast(pl.Float64).alias(column)
        )
        wide = wide.join(pl.concat([of_histogram, of_print]), on=RUN, how="left", maintain_order="left")
    return wide


def _reaches_device() -> pl.Expr:
    """Return whether all that a run wrote is on the device when its last worker ends."""
    words = pl.col("sync_mode").cast(pl.String).str.split("+").list
    followed = (words.set_intersection(_DURABLE_AFTER).list.len() > 0) & (pl.col("after_every") == 1)
    of_file = (words.set_intersection(_DURABLE).list.len() > 0) | followed
    synchronous = pl.col("synchronous").cast(pl.String)
    # With synchronous=NORMAL, a WAL is synced by checkpoints only.
    at_checkpoints = (pl.col("journal_mode").cast(pl.String) == "WAL") & (synchronous == "NORMAL")
    of_sqlite = (synchronous != "OFF") & (~at_checkpoints | pl.col("final_sync"))
    otherwise = pl.col("final_sync") | of_file.fill_null(value=False)
    return pl.when(pl.col("workload") == "sqlite").then(of_sqlite).otherwise(otherwise)
