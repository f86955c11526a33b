"""Export captures to the formats of other tools, one module for each.

docs/export.md explains the purpose and the limits of each format. Every module has a function ``write(capture, file)``
that writes to a binary file in batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from androstep_analysis.capture import Capture
from androstep_analysis.datasets.export import blkparse, blktrace, btt, fio, mobigen, most, msr, oraclegeneral, perfetto

Write = Callable[..., None]


@dataclass(frozen=True)
class Target:
    """An export format: its purpose, what is lost, and its function.

    `is_text` is false for binary formats. `rows_of` is the table that is exported. `options` are the function's
    arguments after the capture and the file.
    """

    purpose: str
    lost: str
    write: Write
    is_text: bool = True
    rows_of: str = "requests"
    options: tuple[str, ...] = ()


TARGETS = {
    "perfetto": Target(
        "a trace for ui.perfetto.dev and trace_processor: requests by device, pieces by process and file",
        "the block events themselves",
        perfetto.write,
        is_text=False,
    ),
    "blktrace": Target(
        "the binary stream of blktrace: for fio --read_iolog, blkparse -i -, btt, iowatcher",
        "files and owners; sequence numbers are counted anew",
        blktrace.write,
        is_text=False,
        rows_of="block_events",
    ),
    "blkparse": Target(
        "the text of blkparse, a line per block event, for everything that reads blktrace's text",
        "files and owners; sequence numbers are counted anew",
        blkparse.write,
        rows_of="block_events",
    ),
    "btt": Target(
        "the averages of btt: steps from queue to completion, merges, seeks, active requests",
        "plugs, active periods, ranges of activity; the events themselves",
        btt.write,
        rows_of="block_events",
    ),
    "most": Target(
        "the .po file of MOST: a line per block event with block type and path, for the MOST Viewer",
        "devices, what a remap came from, completion errors; owners",
        most.write,
        rows_of="block_events",
    ),
    "fio2": Target(
        "an iolog of version 2 for fio --read_iolog (any fio): the requests, with waits of milliseconds",
        "files and owners, flags (sync, FUA); what was written",
        fio.write_v2,
    ),
    "fio3": Target(
        "an iolog of version 3 (fio 3.31 or later): the same with times of microseconds",
        "as fio2",
        fio.write_v3,
    ),
    "oraclegeneral": Target(
        "libCacheSim's oracleGeneral: every use of a block and when it is used next, for cache simulation",
        "everything but time (seconds), block and size",
        oraclegeneral.write,
        is_text=False,
        options=("block_bytes", "objects", "op"),
    ),
    "mobigen": Target(
        "a script of MobiGen for mobibench -g: the system calls that it can replay, by thread",
        "other calls, most of each path, descriptors that were opened before the recording; block I/O",
        mobigen.write,
        rows_of="syscalls",
    ),
    "msr": Target(
        "CSV of the MSR Cambridge traces (SNIA), for simulators",
        "everything but time, device, read or write, place, size and latency",
        msr.write,
    ),
}
"""The formats by their name in `androstep export --to`."""


def write(capture: Capture, target: str, file: BinaryIO, **options: Any) -> None:
    """Write `capture` in the format `target` (one of `TARGETS`, else `KeyError`) to a binary file."""
    TARGETS[target].write(capture, file, **options)
