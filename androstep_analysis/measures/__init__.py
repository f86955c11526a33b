"""The measures: plain functions, tables in, one small tidy table out.

Every result has the columns ``metric, <dimensions…>, value (Float64), unit, n (Int64), coverage (Float64)``. `n` is
the number of requests (of samples: of readings) behind the value. `coverage` is the share of bytes (of the operation,
where the table tells operations apart) on which the row's dimensions are known, null where there is nothing to know.
What each measure counts stands in `schemas/definitions.toml`.

`calls`, `called_paths`, `callers`, `commands` and `counters` are plain tables instead; `clipped` is a part of table
`samples`.

Tables may be LazyFrames, DataFrames or anything with the Arrow C stream interface.
"""

from androstep_analysis.measures.bio_steps import steps
from androstep_analysis.measures.block_types import block_types, metadata_fraction
from androstep_analysis.measures.bursts import bursts
from androstep_analysis.measures.command_latency import command_latency
from androstep_analysis.measures.commands import commands
from androstep_analysis.measures.counters import counters
from androstep_analysis.measures.evidence import evidence
from androstep_analysis.measures.file_types import file_types
from androstep_analysis.measures.fsyncs import fsyncs
from androstep_analysis.measures.hotness import block_uses, hotness
from androstep_analysis.measures.latency import latency, latency_distribution
from androstep_analysis.measures.lifetimes import lifetimes
from androstep_analysis.measures.locality import locality, order_ns
from androstep_analysis.measures.merges import merges
from androstep_analysis.measures.miss_ratio import miss_ratio
from androstep_analysis.measures.mix import mix, rwbs, sizes
from androstep_analysis.measures.owners import states, with_state, with_uid
from androstep_analysis.measures.queue import depth, idle, queue
from androstep_analysis.measures.readahead import readahead
from androstep_analysis.measures.reuse import reuse
from androstep_analysis.measures.samples import (
    busyness,
    clipped,
    counter_rate,
    cpu,
    cpu_by_process,
    levels,
    pressure,
    process_io,
)
from androstep_analysis.measures.seeks import seek_distances, seeks
from androstep_analysis.measures.sync import sync
from androstep_analysis.measures.sync_cost import sqlite_cost, sync_cost
from androstep_analysis.measures.syscalls import called_paths, callers, calls
from androstep_analysis.measures.tables import counted, coverage, population
from androstep_analysis.measures.volume import cumulative, daily, rate, volume
from androstep_analysis.measures.working_set import working_set
from androstep_analysis.measures.write_cost import write_cost

__all__ = [
    "block_types",
    "block_uses",
    "bursts",
    "busyness",
    "called_paths",
    "callers",
    "calls",
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
    "file_types",
    "fsyncs",
    "hotness",
    "idle",
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
