"""What a capture has beside requests, laid out as tables: system calls, commands to the device, CPUs and counters."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common import quantities, units
from androstep_analysis.present.sheets import Column, Sheet, in_unit

_COUNT, _TIME = Column("Calls", quantities.count), Column("Time", quantities.duration)


def calls(syscalls: pl.LazyFrame) -> Iterator[Sheet]:
    """Lay out which system calls were made, on which paths, and by which threads."""
    moved = {"read": Column("Read", quantities.size), "written": Column("Written", quantities.size)}
    of_calls = {
        "call": Column("Call"),
        "count": _COUNT,
        "failed": Column("Failed", quantities.count),
        "bytes": Column("Read or written", quantities.size),
        "duration_ns": _TIME,
    }
    of_paths = {"path": Column("Path"), "count": _COUNT, **moved, "duration_ns": _TIME}
    of_threads = {"comm": Column("Thread", pick=True), "count": _COUNT, "duration_ns": _TIME}
    yield Sheet("System calls", measures.calls(syscalls), of_calls)
    yield Sheet("Paths of system calls", measures.called_paths(syscalls), of_paths)
    yield Sheet("Threads that made system calls", measures.callers(syscalls), of_threads)


def commands(table: pl.LazyFrame) -> Sheet:
    """Lay out which commands the device got."""
    opcode = pl.col("opcode").map_elements("{:02x}".format, return_dtype=pl.String)
    columns = {
        "device": Column("Device", pick=True),
        "event": Column("Event"),
        "step": Column("Step"),
        "code": Column("Opcode"),
        "count": Column("Events", quantities.count),
        "bytes": Column("Bytes", quantities.size),
    }
    counted = measures.commands(table).with_columns(code=pl.format("0x{}", opcode))
    return Sheet("Commands to the device", counted, columns)


def cpus(samples: pl.LazyFrame) -> Iterator[Sheet]:
    """Lay out what the CPUs did, for whom, and how busy disks were, as far as samples say."""
    wide = measures.cpu(samples).pivot("metric", index="state", values="value", maintain_order=True)
    states = {
        "state": Column("State"),
        "cpu_time": Column("Time", _seconds),
        "cpu_share": Column("Share", quantities.per_cent),
    }
    yield Sheet("CPU time by state", wide, {name: one for name, one in states.items() if name in wide.columns})
    users = measures.cpu_by_process(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    yield Sheet("CPU time by process", users, {"comm": Column("Process"), "value": Column("Time", _seconds)})
    busy = measures.busyness(samples).filter(pl.col("value") > 0).sort("value", descending=True)
    yield Sheet("How busy disks were", busy, {"disk": Column("Disk"), "value": Column("Busy", quantities.per_cent)})


def counters(samples: pl.LazyFrame) -> Sheet:
    """Lay out every counter: what it belongs to, and its readings in its unit."""
    device = pl.col("dev").map_elements(units.format_dev, return_dtype=pl.String)
    found = measures.counters(samples).with_columns(
        of=pl.coalesce(device, pl.format("process {}", "pid"), "instance", pl.lit("–"))
    )
    columns = {
        "counter": Column("Counter"),
        "of": Column("of"),
        "count": Column("Readings", quantities.count),
        **{f"said_{name}": Column(name.title(), by=name) for name in ("least", "greatest", "last")},
    }
    return Sheet("Counters", in_unit(found, ("least", "greatest", "last")), columns)


def _seconds(value: float) -> str:
    return quantities.duration(value * 1e9)
