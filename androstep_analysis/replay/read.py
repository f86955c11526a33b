"""Reader of `ioreplay` results: record streams (probes/FORMAT.md), one file for each replay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.common import results
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.results import Kind, Results
from androstep_analysis.ingest import record
from androstep_analysis.ingest.source import head
from androstep_analysis.replay.tables import RUN, TABLES

PROBE = "ioreplay"


def sniff(path: Path) -> bool:
    """Return whether a file, plain or compressed, holds the results of a replay."""
    return record.is_of(head(path), PROBE)


def read(*paths: str | os.PathLike[str]) -> Results:
    """Return the replays in files or capture directories, combined.

    Parameters
    ----------
    *paths : path-like
        Files of ``ioreplay --record``, plain or compressed, and captures of `androstep replay`.

    Returns
    -------
    Results
        The results, with tables replay_runs and replay_ops (docs/tables.md). Column run_id identifies the replays.

    Raises
    ------
    InputError
        If a file is not from ioreplay or too damaged to read, or if the same replay is given twice.

    Warns
    -----
    LossWarning
        For data that could not be read.

    References
    ----------
    ``probes/FORMAT.md``.

    Examples
    --------
    >>> results = replay.read(*(f"datasets/replay/ext4_disk/replay-{number}.rec.xz" for number in range(6)))
    >>> results.tables["replay_runs"].select("fs_type", "done", "diverged").unique().rows()
    [('ext4', 841, 0)]
    """
    return results.read(KIND, paths)


def read_file(path: Path) -> Results:
    """Return the replay in one file, as `read`, without warnings: losses are part of the result.

    Raises `InputError` also if the file lacks the run, which ioreplay writes at the end.
    """
    records = record.read(path)
    shown = printable(str(path))
    if records.header.get("probe") != PROBE or {"replay_run", "replay_op"} - records.tables.keys():
        probe = printable(str(records.header.get("probe")))
        raise InputError(f"{shown}: a record stream of {probe}, not of {PROBE}; give a file of {PROBE} --record")
    run = records.tables["replay_run"]
    if run.height != 1:
        raise InputError(
            f"{shown}: has {run.height} replays instead of one, so it is truncated or damaged; replay again"
        )
    name = pl.lit(run["run_id"][0], pl.String)
    operations = records.tables["replay_op"].with_columns(run_id=name).sort("operation")
    lost = int(run["done"][0] + run["inserted"][0]) - operations.height
    losses = (Loss("torn", lost, f"{lost} completed operations are missing from the file"),) if lost > 0 else ()
    return Results(
        format="ioreplay records",
        tables={
            "replay_runs": results.fit(run, "replay_runs"),
            "replay_ops": results.fit(operations, "replay_ops"),
        },
        losses=(*records.losses, *losses),
        clock="boot",
        monotonic_offset_ns=records.header.get("monotonic_offset_ns"),
        realtime_offset_ns=records.header.get("realtime_offset_ns"),
    )


def has_no_run(path: Path) -> bool:
    """Return whether ioreplay refused the replay before its first operation, after it had created the file."""
    records = record.read(path)
    return records.complete and records.tables["replay_run"].is_empty()


def _runs_summary(runs: pl.DataFrame) -> dict[str, Any]:
    return {
        "runs": runs.height,
        "fs_types": sorted(runs["fs_type"].fill_null("unknown").unique()),
        **{name: int(runs[name].sum()) for name in ("operations", "done", "diverged", "interrupted")},
    }


KIND = Kind(
    role="replay",
    noun="results of a replay",
    command="androstep replay",
    tables=TABLES,
    key=RUN,
    facts={"fs_type": "fs_type"},
    sniff=sniff,
    read_file=read_file,
    summary=_runs_summary,
)
