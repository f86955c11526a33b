"""Tables of everything in a capture except requests: file I/O, system calls, device commands, CPUs and counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common import quantities, units
from androstep_analysis.common.losses import Losses
from androstep_analysis.present.sheets import CERTAINTY, Column, Sheet, in_unit

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_COUNT, _TIME = Column("Calls", quantities.count), Column("Time", quantities.duration)


def calls(syscalls: pl.LazyFrame) -> Iterator[Sheet]:
    """Yield the tables of system calls: by call, by path and by thread."""
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


def files(capture: Capture) -> Sheet:
    """Return what processes wrote, read and synced, by file, whether or not it reached the device."""
    keys = ["owner_comm", "path", "dev", "ino", "incarnation"]
    lost = Losses(capture.losses, capture.lost_events)
    moved = measures.file_io(capture.tables, by=keys, page_bytes=capture.facts["page_bytes"])
    synced = measures.fsyncs(capture.tables, by=keys, lost=lost)
    wide = [one.pivot("metric", index=[*keys, "inferred"], values="value") for one in (moved, synced)]
    both = wide[0].join(wide[1], on=keys, how="full", nulls_equal=True, coalesce=True)
    numbers = ("written", "read", "calls", "latency_p50", "latency_max")
    missing = [pl.lit(None, pl.Float64).alias(name) for name in numbers if name not in both.columns]
    rows = both.with_columns(
        *missing,
        file=pl.coalesce("path", pl.format("inode {}", "ino")),
        inferred=pl.max_horizontal("inferred", "inferred_right"),
    )
    order = [pl.col("written").fill_null(0) + pl.col("read").fill_null(0), pl.col("calls").fill_null(0)]
    columns = {
        "owner_comm": Column("Process", pick=True),
        "file": Column("File"),
        "written": Column("Written", quantities.size),
        "read": Column("Read", quantities.size),
        "calls": Column("fsync calls", quantities.count),
        "latency_p50": Column("Median", quantities.duration),
        "latency_max": Column("Longest", quantities.duration),
        **CERTAINTY,
    }
    note = "From page cache and fsync events. Direct I/O and stores through a memory map cause no such events."
    ordered = rows.sort(*order, *keys, descending=[True, True, *[False] * len(keys)], nulls_last=True)
    return Sheet("What processes wrote, read and synced", ordered, columns, note)


def commands(table: pl.LazyFrame) -> Sheet:
    """Return the table of commands that the device received."""
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
    """Yield CPU time by state and by process, and how busy disks were."""
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
    yield Sheet("Busy time of disks", busy, {"disk": Column("Disk"), "value": Column("Busy", quantities.per_cent)})


def counters(samples: pl.LazyFrame) -> Sheet:
    """Return every counter, the object that it belongs to, and its readings."""
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
