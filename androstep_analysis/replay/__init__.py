"""Replay: extract an app's file operations from a trace, repeat them elsewhere, and measure the result.

>>> capture = androstep.open("app.strace")
>>> cleaned = clean(capture.syscalls, capture.tables["tasks"])
>>> cleaned.program.write("app.rec")
>>> done = runs.replay("app.rec", "/mnt/test", out="build/ext4")
>>> metrics(done.capture.replay)

`ioreplay` replays a `Program`. ``replay.device.program`` makes one from the requests of a block device.
"""

from androstep_analysis.replay import device, program
from androstep_analysis.replay.clean import REASONS, Cleaned, clean
from androstep_analysis.replay.compare import compare, over_repetitions, summarise
from androstep_analysis.replay.dependencies import dependencies
from androstep_analysis.replay.metrics import file_types, lateness_distribution, metrics, timeline
from androstep_analysis.replay.program import Program
from androstep_analysis.replay.read import read
from androstep_analysis.replay.statistics import statistics
from androstep_analysis.replay.tables import TABLES

__all__ = [
    "REASONS",
    "TABLES",
    "Cleaned",
    "Program",
    "clean",
    "compare",
    "dependencies",
    "device",
    "file_types",
    "lateness_distribution",
    "metrics",
    "over_repetitions",
    "program",
    "read",
    "statistics",
    "summarise",
    "timeline",
]
