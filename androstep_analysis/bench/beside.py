"""Benchmark results as part of a capture: in its clock, counted in what is told of it."""

from __future__ import annotations

from typing import Any

import polars as pl

from androstep_analysis import schema
from androstep_analysis.bench.tables import Results
from androstep_analysis.errors import InputError
from androstep_analysis.ingest.staging import Staging


def alone(results: Results) -> Staging:
    """The recording of a capture that has results and no trace: nothing, while the benchmark ran."""
    runs = results.tables["bench_runs"].filter(pl.col("ts_ns").is_not_null())
    return Staging(
        format=results.format,
        tasks=schema.empty("tasks"),
        events={},
        first_ns=None if runs.is_empty() else int(runs["ts_ns"].to_numpy().min()),
        last_ns=None if runs.is_empty() else int((runs["ts_ns"] + runs["duration_ns"].fill_null(0)).to_numpy().max()),
        clock=results.clock,
        realtime_offset_ns=results.realtime_offset_ns,
    )


def add(
    results: Results, tables: dict[str, pl.LazyFrame], about: dict[str, Any]
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """The tables of a recording and what is told of it, with the results.

    Raises `InputError` where nothing tells how the clocks of the two lie to each other.
    """
    timed = _in_clock(results, about["clock"]) if about["events"] else results.tables
    runs = timed["bench_runs"]
    found = {
        "tests": sorted(runs["test"].cast(pl.String).unique()),
        "runs": runs.height,
        "invalid": runs.filter(~pl.col("valid")).height,
    }
    losses = [{"kind": loss.kind, "count": loss.count, "message": loss.message} for loss in results.losses]
    rows = {name: table.height for name, table in timed.items()}
    return tables | {name: table.lazy() for name, table in timed.items()}, about | {
        "bench": found,
        "losses": about["losses"] + losses,
        "rows": about["rows"] | rows,
    }


def facts(results: Results) -> dict[str, Any]:
    """Facts of the machine (`manifest.FACTS`) that all runs agree on."""
    runs = results.tables["bench_runs"]
    columns = {"kernel": "kernel", "fs_type": "fs_type", "storage_model": "device_model", "workload": "command"}
    return {fact: runs[column][0] for fact, column in columns.items() if runs[column].n_unique() == 1}


def _in_clock(results: Results, clock: str) -> dict[str, pl.DataFrame]:
    """The tables with their times in this clock; results of an unknown clock have no times."""
    if results.clock in (clock, "unknown"):
        return results.tables
    if clock != "mono" or results.monotonic_offset_ns is None:
        raise InputError(
            f"the trace's clock is {clock} and that of the benchmark's results {results.clock}, and nothing tells how "
            "they lie to each other; ingest them apart"
        )
    shift = pl.col("ts_ns") + results.monotonic_offset_ns
    return {name: table.with_columns(shift) for name, table in results.tables.items()}
