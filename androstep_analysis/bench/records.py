"""Reader of iobench's record stream (probes/FORMAT.md): runs, results, histograms, windows and operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from androstep_analysis.bench.tables import RUN
from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.common.results import Results, fit
from androstep_analysis.ingest import record
from androstep_analysis.ingest.source import Source

PROBE = "iobench"

_RUN = ("point", "repeat")
"""The columns that identify a repetition within one file."""

_PART = (*_RUN, "thread", "part")
_FROM_RUN = ("run_id", "test", "sync_mode", "journal_mode", "block_bytes", "file_bytes", "threads", "seed")


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a record stream of iobench."""
    return record.is_of(head, PROBE)


def read(source: Source) -> Results:
    """Return the results in a file of iobench, including those before and after damage.

    A repetition without its results is marked invalid. A histogram that lacks operations of its row is left out, since
    its percentiles would be wrong. Raises `InputError` for a file that is not from iobench.
    """
    records = record.of(source)
    missing = {"bench_run", "bench_result", "bench_histogram", "bench_window"} - records.tables.keys()
    if records.header.get("probe") != PROBE or missing:
        raise InputError(
            f"{source.name}: a record stream of {records.header.get('probe')}, not of {PROBE}; "
            f"give a file of {PROBE} --record"
        )
    tables = records.tables
    runs = tables["bench_run"].with_columns(
        tool=pl.lit(PROBE),
        tool_version=pl.lit(records.header.get("probe_version"), pl.String),
        kernel=pl.lit(records.header.get("kernel"), pl.String),
        machine=pl.lit(records.header.get("machine"), pl.String),
        dev=pl.when(pl.col("dev") != 0).then("dev"),
    )
    if "steady_from_ns" not in runs.columns:  # iobench recorded it until version 0.3
        runs = runs.with_columns(steady_from_ns=pl.Series(_steady_starts(runs, tables["bench_window"]), dtype=pl.Int64))
    results, losses = _results(runs, tables["bench_result"], tables["bench_histogram"])
    logged = tables.get("bench_op")
    found = {
        "bench_runs": fit(_judged(runs, results), "bench_runs"),
        "bench": fit(results, "bench"),
        "bench_series": fit(_named(tables["bench_window"], runs), "bench_series"),
        "bench_ops": schema.empty("bench_ops") if logged is None else fit(_named(logged, runs), "bench_ops"),
    }
    return Results(
        format="iobench records",
        tables=found,
        losses=(*records.losses, *losses),
        clock="boot",
        monotonic_offset_ns=records.header.get("monotonic_offset_ns"),
        realtime_offset_ns=records.header.get("realtime_offset_ns"),
    )


def _results(
    runs: pl.DataFrame, results: pl.DataFrame, histograms: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[Loss, ...]]:
    """Return the rows of table bench: results with their histogram and the configuration of their run."""
    of_workers = histograms.filter(pl.col("thread") >= 0)
    of_workers = of_workers.select(*_PART, "bucket_ns", "width_ns", pl.col("count").cast(pl.Int64))
    # The file has the histograms of workers. That of all workers together is their sum.
    of_all = (
        of_workers.group_by(*_RUN, "part", "bucket_ns", "width_ns")
        .agg(pl.col("count").sum())
        .with_columns(thread=pl.lit(-1, pl.Int32))
    )
    whole = (
        pl.concat([of_workers, of_all.select(of_workers.columns)])
        .sort(*_PART, "bucket_ns")
        .group_by(_PART, maintain_order=True)
        .agg(
            hist_bucket_ns=pl.col("bucket_ns").cast(pl.Int64),
            hist_width_ns=pl.col("width_ns").cast(pl.Int64),
            hist_count="count",
        )
    )
    lists = [pl.col(name).fill_null(pl.lit([], pl.List(pl.Int64))) for name in whole.columns[len(_PART) :]]
    joined = results.join(whole, on=_PART, how="left", maintain_order="left").with_columns(lists)
    sound = pl.col("hist_count").list.sum() == pl.col("ops")
    joined = joined.with_columns(pl.when(sound).then(pl.col(name)).alias(name) for name in whole.columns[len(_PART) :])
    known = joined.join(runs.select(*_RUN, *_FROM_RUN), on=_RUN, how="inner", maintain_order="left")
    return known, _losses_of(known["hist_count"].null_count(), joined.height - known.height)


STEADY_WINDOWS: Final = 5


def _steady_starts(runs: pl.DataFrame, windows: pl.DataFrame) -> Iterator[int | None]:
    """Yield the time at which the throughput of each repetition became steady, since its start; None: never.

    Only whole windows count. The last one is usually shorter, and the first one lacks the part before the first
    operation.
    """
    for run in runs.iter_rows(named=True):
        windows_of_run = windows.filter(point=run["point"], repeat=run["repeat"])
        starts = windows_of_run["ts_ns"].unique().sort()
        interval_ns = run["interval_ns"]
        if len(starts) < STEADY_WINDOWS:
            yield None
            continue
        first_ns = starts[1] - interval_ns
        whole = (run["ts_ns"] + run["duration_ns"] - first_ns) // interval_ns
        number = ((windows_of_run["ts_ns"] - first_ns) // interval_ns).clip(lower_bound=0)
        is_whole = (number < whole).to_numpy()
        ops = np.bincount(
            number.to_numpy()[is_whole], weights=windows_of_run["ops"].to_numpy()[is_whole], minlength=whole
        )
        steady = first_steady(ops.astype(np.int64))
        yield None if steady is None else steady * interval_ns


def first_steady(ops: np.ndarray) -> int | None:
    """Return the index of the first of five consecutive windows with steady throughput, from the `ops` of each window.

    Their rates differ by no more than 20 % of their mean, and their line of best fit rises or falls by no more than 10
    % of it.

    References
    ----------
    SNIA Solid State Storage Performance Test Specification, steady state.
    """
    if len(ops) < STEADY_WINDOWS:
        return None
    groups = np.lib.stride_tricks.sliding_window_view(ops, STEADY_WINDOWS)
    total = groups.sum(axis=1)
    positions = np.arange(STEADY_WINDOWS) - STEADY_WINDOWS // 2
    # The line goes through the mean and rises by moment / spread from window to window.
    moment, spread = np.abs(groups @ positions), int((positions**2).sum())
    is_level = np.ptp(groups, axis=1) * STEADY_WINDOWS * 100 <= 20 * total
    is_flat = moment * (STEADY_WINDOWS - 1) * STEADY_WINDOWS * 100 <= 10 * total * spread
    found = np.flatnonzero((total > 0) & is_level & is_flat)
    return int(found[0]) if len(found) else None


def _named(rows: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of runs that are in the file, with the run's name."""
    return rows.join(runs.select(*_RUN, "run_id"), on=_RUN, how="inner", maintain_order="left")


def _losses_of(histograms: int, orphans: int) -> tuple[Loss, ...]:
    losses = []
    if histograms:
        losses.append(Loss("torn", histograms, f"{histograms} histograms are incomplete and were left out"))
    if orphans:
        losses.append(Loss("torn", orphans, f"{orphans} results belong to runs that are missing from the file"))
    return tuple(losses)


def _judged(runs: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Return the runs. A run that is marked valid but has lost its result becomes invalid."""
    have = results.filter(thread=-1, part="op").select(*RUN, found=pl.lit(value=True))
    judged = runs.join(have, on=RUN, how="left", maintain_order="left")
    lost = pl.col("found").is_null() & (pl.col("valid") != 0)
    return judged.with_columns(
        valid=(pl.col("valid") != 0) & pl.col("found").is_not_null(),
        invalid=pl.when(lost).then(pl.lit("its results are missing in the file")).otherwise("invalid"),
    )
