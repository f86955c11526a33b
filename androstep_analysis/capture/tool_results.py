"""Add the results of benchmarks, replays and workloads to a capture, with times in its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import polars as pl

from androstep_analysis.bench.read import KIND as BENCH
from androstep_analysis.common import losses, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.results import Kind, Results
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.perceived import GUI, STEPS
from androstep_analysis.replay.read import KIND as REPLAY

KINDS: Final[Mapping[str, Kind]] = {kind.role: kind for kind in (BENCH, REPLAY, STEPS, GUI)}
"""The kinds of results that a capture can contain, by the role of their files."""


def alone(results_by_role: Mapping[str, Results]) -> Staging:
    """Return an empty recording for a capture with results but no trace; it spans the time of the results."""
    clocks = {results.clock for results in results_by_role.values()}
    offsets = {results.realtime_offset_ns for results in results_by_role.values()}
    spans = pl.concat(
        _runs(role, results).select(first="ts_ns", last=_end_ns(_runs(role, results)))
        for role, results in results_by_role.items()
    ).drop_nulls()
    return Staging(
        format=", ".join(dict.fromkeys(results.format for results in results_by_role.values())),
        tasks=schema.empty("tasks"),
        events={},
        first_ns=None if spans.is_empty() else int(spans["first"].to_numpy().min()),
        last_ns=None if spans.is_empty() else int(spans["last"].to_numpy().max()),
        clock=clocks.pop() if len(clocks) == 1 else "unknown",
        realtime_offset_ns=offsets.pop() if len(offsets) == 1 else None,
    )


def add(
    results_by_role: Mapping[str, Results], tables: dict[str, pl.LazyFrame], about: dict[str, Any]
) -> tuple[dict[str, pl.LazyFrame], dict[str, Any]]:
    """Add the results of each role to the tables of a recording and their description.

    Raises `InputError` if the offset between the clocks of trace and results is unknown.
    """
    about = about | dict.fromkeys(KINDS)
    for role, results in results_by_role.items():
        timed = _in_clock(results, about["clock"], about["realtime_offset_ns"]) if about["events"] else results.tables
        losses_of_role = [losses.as_json(replace(loss, tables=KINDS[role].tables)) for loss in results.losses]
        tables = tables | {name: table.lazy() for name, table in timed.items()}
        about = about | {
            role: KINDS[role].summary(timed[KINDS[role].tables[0]]),
            "losses": about["losses"] + losses_of_role,
            "rows": about["rows"] | {name: table.height for name, table in timed.items()},
        }
    return tables, about


def facts(results_by_role: Mapping[str, Results]) -> dict[str, Any]:
    """Return the facts of the machine (`manifest.FACTS`) on which all runs agree."""
    return {
        fact: runs[column][0]
        for role, results in results_by_role.items()
        for runs in (_runs(role, results),)
        for fact, column in KINDS[role].facts.items()
        if runs[column].n_unique() == 1
    }


def _runs(role: str, results: Results) -> pl.DataFrame:
    return results.tables[KINDS[role].tables[0]]


def _end_ns(runs: pl.DataFrame) -> pl.Expr:
    """Return the end time of each run, step or snapshot."""
    return pl.col("end_ns") if "end_ns" in runs.columns else pl.col("ts_ns") + pl.col("duration_ns").fill_null(0)


def _in_clock(results: Results, clock: str, realtime_offset_ns: int | None) -> dict[str, pl.DataFrame]:
    """Convert the times of the tables to this clock.

    `realtime_offset_ns` is CLOCK_REALTIME minus the clock. Results with an unknown clock have no times to convert.
    """
    if results.clock in (clock, "unknown"):
        return results.tables
    if clock == "mono" and results.monotonic_offset_ns is not None:
        shift = results.monotonic_offset_ns
    elif clock != "unknown" and results.realtime_offset_ns is not None and realtime_offset_ns is not None:
        shift = results.realtime_offset_ns - realtime_offset_ns
    else:
        raise InputError(
            f"the trace's clock is {clock} and that of the results {results.clock}, and their offset is unknown; "
            "ingest them separately"
        )
    times = ("ts_ns", "end_ns")
    return {
        name: table.with_columns(pl.col(time) + shift for time in times if time in table.columns)
        for name, table in results.tables.items()
    }
