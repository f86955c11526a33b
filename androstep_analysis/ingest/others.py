"""Recognise files that are often found next to recordings but cannot be read, and suggest what to open instead."""

from __future__ import annotations

import re

from androstep_analysis.ingest import record
from androstep_analysis.ingest.ftrace import text

_IMAGE = re.compile(rb"(?s).{510}\x55\xaa|.{1024}\x10\x20\xf5\xf2|.{1080}\x53\xef")
"""The signatures of FAT, exFAT and whole disks, of F2FS, and of ext4 (`androstep_analysis.fs`)."""

_KINDS = (
    (
        re.compile(rb"(?m)\A(?:[^\n]*\n){0,20}?(?:READS|WRITES) :\r?\n_+\r?\n"),
        "a report of ioblame: it has sums and no events; open the trace that it was made from",
    ),
    (
        re.compile(rb"\A(?:#[^\n]*\n|\s)*packet\s*:?\s*\{"),
        "a Perfetto trace as text; open the binary one (protoc --encode=perfetto.protos.Trace makes it)",
    ),
    (re.compile(rb"\APERFILE2"), "a recording of perf; open the output of perf trace, or record with trace-cmd"),
    (re.compile(rb"\A\s*[\[{]\s*[\"\[{\]}]"), "JSON, which is not a format of block I/O traces; open the trace itself"),
    (_IMAGE, "an image of a filesystem; pass it with --image-before or --image-after and a trace, or to lookup"),
    (
        re.compile(rb"\A" + re.escape(record.MAGIC)),
        "records of extmap, iotrace or iobench; pass a listing with --listing-before or --listing-after and a trace",
    ),
)


def kind(head: bytes) -> str | None:
    """Return a description of a file that begins with `head`, and advice; None if it is unknown."""
    if text.is_latency_format(head):
        return (
            "ftrace text in latency format, which truncates the names of threads; use trace-cmd report without -l, or "
            "record again after echo nolatency-format > trace_options"
        )
    return next((what for pattern, what in _KINDS if pattern.match(head)), None)
