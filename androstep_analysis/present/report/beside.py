"""What a capture has beside requests: system calls, commands to the device, samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.markup import Element
from androstep_analysis.present.report import cells, samples
from androstep_analysis.present.report.document import Part
from androstep_analysis.present.report.section import Glossary
from androstep_analysis.present.sheets import Column

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def parts(capture: Capture, glossary: Glossary) -> list[Part]:
    """All of that; nothing where there is none of it."""
    rows = capture.about["rows"]
    return [
        Part("calls", "Which system calls?", _calls(capture.syscalls) if rows["syscalls"] else ()),
        Part("commands", "Which commands got the device?", _commands(capture.commands) if rows["commands"] else ()),
        *(samples.parts(capture.samples, glossary) if rows["samples"] else ()),
    ]


def _calls(syscalls: pl.LazyFrame) -> list[Element]:
    calls = {
        "call": Column("Call"),
        "count": Column("Calls", cells.count),
        "failed": Column("Failed", cells.count),
        "bytes": Column("Read or written", cells.size),
        "duration_ns": Column("Time", cells.duration),
    }
    paths = {
        "path": Column("Path"),
        "count": Column("Calls", cells.count),
        "read": Column("Read", cells.size),
        "written": Column("Written", cells.size),
        "duration_ns": Column("Time", cells.duration),
    }
    callers = {
        "comm": Column("Thread", pick=True),
        "count": Column("Calls", cells.count),
        "duration_ns": Column("Time", cells.duration),
    }
    return [
        cells.table(measures.calls(syscalls), calls, "System calls"),
        *cells.unless_empty(measures.called_paths(syscalls), paths, "Paths of system calls"),
        *cells.unless_empty(measures.callers(syscalls), callers, "Threads that made system calls"),
    ]


def _commands(commands: pl.LazyFrame) -> list[Element]:
    counted = measures.commands(commands)
    opcode = pl.col("opcode").map_elements("{:02x}".format, return_dtype=pl.String)
    columns = {
        "device": Column("Device", pick=True),
        "event": Column("Event"),
        "step": Column("Step"),
        "code": Column("Opcode"),
        "count": Column("Events", cells.count),
        "bytes": Column("Bytes", cells.size),
    }
    return [cells.table(counted.with_columns(code=pl.format("0x{}", opcode)), columns, "Commands to the device")]
