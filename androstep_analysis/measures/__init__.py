"""Measures: functions that take tables of a capture and return one small tidy table.

Every result has the columns ``metric, <dimensions…>, value (Float64), unit, n (Int64), coverage (Float64)``. `n` is the
number of requests behind the value, for samples the number of readings. `coverage` is the share of bytes with known
dimensions. If the result has dimension op, it is a share of the bytes of that operation. It is null if a result has
nothing to attribute. `schemas/definitions.toml` defines each measure.

`calls`, `called_paths`, `callers`, `commands` and `counters` return plain tables instead. `clipped` returns a part of
table `samples`.

Tables may be LazyFrames, DataFrames or any object with the Arrow C stream interface.
"""

from collections.abc import Mapping
from typing import Final

from androstep_analysis.measures.bio_steps import BIO_STEPS, steps
from androstep_analysis.measures.block_types import BLOCK_TYPES, block_types, metadata_fraction
from androstep_analysis.measures.bursts import BURSTS, bursts
from androstep_analysis.measures.causes import CAUSE, causes, largest
from androstep_analysis.measures.command_latency import COMMAND_LATENCY, command_latency
from androstep_analysis.measures.commands import commands
from androstep_analysis.measures.counters import counters
from androstep_analysis.measures.evidence import evidence
from androstep_analysis.measures.file_io import FILE_IO, file_io
from androstep_analysis.measures.file_types import FILE_TYPES, file_types
from androstep_analysis.measures.fsyncs import FSYNCS, fsyncs
from androstep_analysis.measures.hotness import BLOCK_USES, HOTNESS, block_uses, hotness
from androstep_analysis.measures.latency import LATENCY, latency, latency_distribution
from androstep_analysis.measures.lifetimes import LIFETIMES, lifetimes
from androstep_analysis.measures.locality import LOCALITY, locality
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.merges import MERGES, merges
from androstep_analysis.measures.miss_ratio import MISS_RATIO, miss_ratio
from androstep_analysis.measures.mix import MIX, RATE, mix, rwbs, sizes
from androstep_analysis.measures.order import order_ns
from androstep_analysis.measures.owners import states, with_state, with_uid
from androstep_analysis.measures.priority import priorities
from androstep_analysis.measures.queue import DEPTH, IDLE, QUEUE, depth, idle, queue
from androstep_analysis.measures.readahead import READAHEAD, readahead
from androstep_analysis.measures.reuse import REUSE, reuse
from androstep_analysis.measures.samples import (
    SAMPLES,
    busyness,
    clipped,
    counter_rate,
    cpu,
    cpu_by_process,
    levels,
    pressure,
    process_io,
)
from androstep_analysis.measures.seeks import SEEK_DISTANCES, SEEKS_BETWEEN, seek_distances, seeks
from androstep_analysis.measures.sync import SYNC, sync
from androstep_analysis.measures.sync_cost import SQLITE_COST, SYNC_COST, sqlite_cost, sync_cost
from androstep_analysis.measures.syscalls import called_paths, callers, calls
from androstep_analysis.measures.tables import counted, coverage, population
from androstep_analysis.measures.volume import DAILY, VOLUME, cumulative, daily, rate, volume
from androstep_analysis.measures.working_set import WORKING_SET, working_set
from androstep_analysis.measures.write_cost import WRITE_COST, write_cost

REGISTRY: Final[Mapping[str, Measure]] = {
    "causes": CAUSE,
    "mix": MIX,
    "rate": RATE,
    "locality": LOCALITY,
    "sync": SYNC,
    "block_types": BLOCK_TYPES,
    "file_types": FILE_TYPES,
    "latency": LATENCY,
    "volume": VOLUME,
    "daily": DAILY,
    "bursts": BURSTS,
    "queue": QUEUE,
    "depth": DEPTH,
    "idle": IDLE,
    "steps": BIO_STEPS,
    "seeks": SEEKS_BETWEEN,
    "seek_distances": SEEK_DISTANCES,
    "merges": MERGES,
    "command_latency": COMMAND_LATENCY,
    "file_io": FILE_IO,
    "fsyncs": FSYNCS,
    "write_cost": WRITE_COST,
    "sync_cost": SYNC_COST,
    "sqlite_cost": SQLITE_COST,
    "readahead": READAHEAD,
    "reuse": REUSE,
    "miss_ratio": MISS_RATIO,
    "working_set": WORKING_SET,
    "hotness": HOTNESS,
    "block_uses": BLOCK_USES,
    "lifetimes": LIFETIMES,
    "samples": SAMPLES,
}
"""The measures of `androstep measure` and `androstep compare`, in the order in which both list them."""

__all__ = [
    "REGISTRY",
    "block_types",
    "block_uses",
    "bursts",
    "busyness",
    "called_paths",
    "callers",
    "calls",
    "causes",
    "clipped",
    "command_latency",
    "commands",
    "counted",
    "counter_rate",
    "counters",
    "coverage",
    "cpu",
    "cpu_by_process",
    "cumulative",
    "daily",
    "depth",
    "evidence",
    "file_io",
    "file_types",
    "fsyncs",
    "hotness",
    "idle",
    "largest",
    "latency",
    "latency_distribution",
    "levels",
    "lifetimes",
    "locality",
    "merges",
    "metadata_fraction",
    "miss_ratio",
    "mix",
    "order_ns",
    "population",
    "pressure",
    "priorities",
    "process_io",
    "queue",
    "rate",
    "readahead",
    "reuse",
    "rwbs",
    "seek_distances",
    "seeks",
    "sizes",
    "sqlite_cost",
    "states",
    "steps",
    "sync",
    "sync_cost",
    "volume",
    "with_state",
    "with_uid",
    "working_set",
    "write_cost",
]
