"""Read the samples of procmon: texts of files in /proc and /sys, as a record stream (probes/FORMAT.md).

They become table `samples`. Records `text` hold a whole text, or only the numbers that changed since the previous one.
Records `tick` describe each sampling tick and become counters of procmon itself.

A file of samples can be read alone, or together with a recording. It then uses the clock of that recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.ingest import procmon_readings, record, tasks
from androstep_analysis.ingest.procmon_files import Machine
from androstep_analysis.ingest.record import Records
from androstep_analysis.ingest.source import Source, load
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

PROBE = "procmon"

sniff = partial(record.is_of, probe=PROBE)

_TEXT = {
    **dict.fromkeys(("ts_ns", "before_ns"), pl.Int64),
    **dict.fromkeys(("file", "parts_left"), pl.UInt32),
    **dict.fromkeys(("path", "text", "numbers"), pl.String),
}
_TICK = {
    "ts_ns": pl.Int64,
    **dict.fromkeys(("late_ns", "took_ns", "cpu_ns"), pl.Int64),
    **dict.fromkeys(("missed", "processes", "began", "ended"), pl.UInt32),
}
_TASK = {
    **dict.fromkeys(("started_ns", "listed_ns"), pl.Int64),
    **dict.fromkeys(("pid", "tid", "uid"), pl.Int32),
    **dict.fromkeys(("comm", "cmdline", "package"), pl.String),
}
_TYPES: Mapping[str, Mapping[str, type[pl.DataType]]] = {
    "text": _TEXT,
    "tick": _TICK,
    "task": _TASK,
}


def read(source: Source, spool: Spool) -> Staging:
    """Read a whole file: table samples, and the processes as tasks."""
    return _read(source, spool, 0)


def with_samples(recorded: Staging, path: Path, spool: Spool) -> Staging:
    """Return `recorded` with the samples of the file at `path`, converted to its clock. Its time span stays the same.

    `spool` is the spool of the recording, of which no table may be finished.

    Raises
    ------
    InputError
        If the clock of the recording cannot be related to the clock of the samples.
    """
    source = load(path)
    header = record.of(source).header
    offsets = {"boot": 0, "mono": header.get("monotonic_offset_ns"), "realtime": header.get("realtime_offset_ns")}
    offset = offsets.get(recorded.clock)
    if not isinstance(offset, int):
        raise InputError(
            f"{source.name}: the samples use the clock boot, the recording uses {recorded.clock}, and "
            "the offset between them is unknown; ingest them separately"
        )
    samples = _read(source, spool, offset)
    task_tables = [part.tasks for part in (recorded, samples) if part.tasks is not None]
    return replace(
        recorded,
        events=recorded.events | samples.events,
        tasks=pl.concat(task_tables).unique(maintain_order=True),
        losses=(*recorded.losses, *samples.losses),
        facts={**samples.facts, **recorded.facts},
    )


def _read(source: Source, spool: Spool, offset_ns: int) -> Staging:
    records = record.of(source)
    tables = {name: _checked(source, records, name) for name in _TYPES}
    rows, missing = procmon_readings.samples(tables["text"], _machine(source, records.header))
    samples = pl.concat([rows, _of_ticks(tables["tick"])]).with_columns(pl.col("ts_ns") + offset_ns)
    spool.append("samples", schema.conform(samples, "samples"))
    times = samples["ts_ns"]
    kernel = records.header.get("kernel")
    realtime_offset_ns = records.header.get("realtime_offset_ns")
    return Staging(
        format="procmon samples",
        events={"procmon reading": rows.height, "procmon tick": tables["tick"].height} if rows.height else {},
        first_ns=None if times.is_empty() else int(times.to_numpy().min()),
        last_ns=None if times.is_empty() else int(times.to_numpy().max()),
        tasks=tasks.listed(tables["task"].select(*_TASK, "^serves$"), offset_ns),
        clock="boot",
        realtime_offset_ns=realtime_offset_ns if isinstance(realtime_offset_ns, int) else None,
        losses=tuple(replace(loss, tables=("samples", "tasks")) for loss in (*records.losses, *_losses(missing))),
        facts={"kernel": kernel} if isinstance(kernel, str) else {},
    )


def _checked(source: Source, records: Records, name: str) -> pl.DataFrame:
    """Return the records of one type. Raise `InputError` if they lack fields that procmon writes."""
    have = records.tables.get(name, pl.DataFrame())
    if any(have.schema.get(column) != dtype for column, dtype in _TYPES[name].items()):
        raise InputError(
            f"{source.name}: its {name} records lack fields of procmon; record again with a matching version of the "
            "probe"
        )
    return have


def _machine(source: Source, header: Mapping[str, object]) -> Machine:
    facts = [header.get(name) for name in ("page_bytes", "clock_hz", "opened_ns")]
    if not all(isinstance(fact, int) and fact > 0 for fact in facts):
        raise InputError(
            f"{source.name}: its header lacks page_bytes, clock_hz and opened_ns; record again with a "
            "matching version of the probe"
        )
    page_bytes, clock_hz, opened_ns = (int(str(fact)) for fact in facts)
    return Machine(page_bytes, 1_000_000_000 // clock_hz, opened_ns)


def _losses(missing: int) -> tuple[Loss, ...]:
    message = f"{missing} readings cannot be decoded: the texts that they depend on are lost or damaged"
    return (Loss("baseless", missing, message),) if missing else ()


def _of_ticks(ticks: pl.DataFrame) -> pl.DataFrame:
    """Return the counters of procmon itself, at the end of each tick."""
    types = schema.table("samples").polars
    durations = {"late_ns": "ns", "took_ns": "ns", "cpu_ns": "ns"}
    counts = {name: "count" for name, dtype in _TICK.items() if dtype == pl.UInt32}
    parts = [
        ticks.drop_nulls(["ts_ns", "late_ns", "took_ns", name]).select(
            ts_ns=pl.col("ts_ns") + pl.col("late_ns") + pl.col("took_ns"),
            scope=pl.lit("system", types["scope"]),
            dev=pl.lit(None, types["dev"]),
            pid=pl.lit(None, types["pid"]),
            instance=pl.lit(None, pl.String),
            counter=pl.lit(f"{PROBE}.{name.removesuffix('_ns')}"),
            value=pl.col(name).cast(pl.Int64),
            unit=pl.lit(unit),
        )
        for name, unit in (durations | counts).items()
    ]
    return pl.concat(parts)
