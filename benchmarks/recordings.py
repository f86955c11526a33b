"""Make large recordings by repeating the events of the repository's small ones with later times."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import polars as pl
from support import perfetto_messages

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from androstep_analysis.datasets import export
from androstep_analysis.ingest import source
from androstep_analysis.ingest.ftrace import binary, tracedat_file
from benchmarks import ROOT

DEMO = ROOT / "datasets" / "demo"
PERFETTO = ROOT / "tests" / "data" / "perfetto_compact.pftrace.xz"
"""Perfetto 56 on Linux 6.18. Six of ten events are the scheduler's, which name threads and make no rows."""

GAP_NS = 1000
"""Time between the last event of one repetition and the first of the next."""

CPU_TABLE = b"flyrecord\0"
"""The bytes before the table of CPU offsets in a trace.dat."""


def block_events(events: int) -> Capture:
    """Return the demo with about `events` block events, as iotrace records them."""
    demo = androstep.open(DEMO)
    once = demo.block_events.collect()
    span = once.select(pl.col("ts_ns").max() - pl.col("ts_ns").min()).item() + GAP_NS
    copies = [once.with_columns(pl.col("ts_ns") + number * span) for number in range(-(-events // once.height))]
    return Capture(demo.title, demo.manifest, demo.tables | {"block_events": pl.concat(copies).lazy()}, demo.about)


def exported(capture: Capture, target: str, path: Path) -> Path:
    """Write the capture in the format of another tool and return the path."""
    with path.open("w+b") as file:
        export.TARGETS[target].write(capture, file)
    return path


def tracedat(path: Path, events: int) -> Path:
    """Write a trace.dat of about `events` events and return its path."""
    container = tracedat_file.open_container(source.load(DEMO / "raw" / "trace.dat.zst"))
    census = binary.census(container, binary.formats(container))
    assert census.first_ns is not None and census.last_ns is not None
    copies = -(-events // census.per_cpu.total())
    span = census.last_ns - census.first_ns + GAP_NS
    data = container.source.data
    table = data.index(CPU_TABLE) + len(CPU_TABLE)
    (buffer,) = container.buffers
    of_cpus = [np.frombuffer(data[offset : offset + size], np.uint64) for _, offset, size in buffer.cpus]
    table_rows, offset = [], buffer.cpus[0][1]
    for pages in of_cpus:
        table_rows += [offset, copies * pages.nbytes]
        offset += copies * pages.nbytes
    with path.open("w+b") as file:
        file.write((data[:table] + np.array(table_rows, np.uint64).tobytes()).ljust(table_rows[0], b"\0"))
        for pages in of_cpus:
            for number in range(copies):
                # Each page begins with the time of its first record. The other times are relative to it.
                later = pages.copy()
                later[:: buffer.page_bytes // 8] += np.uint64(number * span)
                file.write(later.tobytes())
    return path


def perfetto(path: Path, events: int) -> Path:
    """Write a Perfetto trace of about `events` events and return its path."""
    trace = perfetto_messages.Trace()
    trace.ParseFromString(lzma.decompress(PERFETTO.read_bytes()))
    bundles = [packet for packet in trace.packet if packet.HasField("ftrace_events")]
    each = sum(len(one.event) + len(one.compact_sched.switch_timestamp) + len(one.compact_sched.waking_timestamp)
               for one in (packet.ftrace_events for packet in bundles))  # fmt: skip
    times = [event.timestamp for packet in bundles for event in packet.ftrace_events.event]
    span = max(times) - min(times) + 1000 * GAP_NS
    with path.open("w+b") as file:
        file.write(trace.SerializeToString())
        for _ in range(1, -(-events // each)):
            for packet in bundles:
                bundle = packet.ftrace_events
                for event in bundle.event:
                    event.timestamp += span
                # Only the first of a column of times is absolute.
                for column in (bundle.compact_sched.switch_timestamp, bundle.compact_sched.waking_timestamp):
                    if column:
                        column[0] += span
            file.write(type(trace)(packet=bundles).SerializeToString())
    return path
