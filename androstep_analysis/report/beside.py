"""What a capture has beside requests: system calls, commands to the device, samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from androstep_analysis import measures
from androstep_analysis.markup import Element, el
from androstep_analysis.report import cells, samples

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def elements(capture: Capture) -> list[Element]:
    """All of that; nothing where there is none of it."""
    rows = capture.about["rows"]
    return [
        *(_calls(capture.syscalls) if rows["syscalls"] else []),
        *(_commands(capture.commands) if rows["commands"] else []),
        *(samples.elements(capture.samples) if rows["samples"] else []),
    ]


def _calls(syscalls: pl.LazyFrame) -> list[Element]:
    calls = measures.calls(syscalls).select(
        pl.col("call").alias("Call"),
        cells.formatted("count", cells.count).alias("Calls"),
        cells.formatted("failed", cells.count).alias("Failed"),
        cells.formatted("bytes", cells.size).alias("Read or written"),
        cells.formatted("duration_ns", cells.duration).alias("Time"),
    )
    paths = measures.called_paths(syscalls).select(
        pl.col("path").alias("Path"),
        cells.formatted("count", cells.count).alias("Calls"),
        cells.formatted("read", cells.size).alias("Read"),
        cells.formatted("written", cells.size).alias("Written"),
    )
    return [el("h2", "System calls"), *cells.first(calls, 1), *cells.first(paths, 1)]


def _commands(commands: pl.LazyFrame) -> list[Element]:
    counted = measures.commands(commands).select(
        pl.col("device").alias("Device"),
        pl.col("event", "step").cast(pl.String).name.map(str.title),
        pl.format("0x{}", pl.col("opcode").map_elements("{:02x}".format, return_dtype=pl.String)).alias("Opcode"),
        cells.formatted("count", cells.count).alias("Events"),
        cells.formatted("bytes", cells.size).alias("Bytes"),
    )
    return [el("h2", "Commands to the device"), *cells.first(counted, 4)]
