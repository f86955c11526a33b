"""Check the common properties of readers, and count independently to compare with them."""

from __future__ import annotations

import re
import warnings
import zlib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import ingest, schema
from androstep_analysis.common.errors import LossWarning
from androstep_analysis.ingest import Staging
from androstep_analysis.ingest.staging import TABLES

FTRACE_EVENT = re.compile(rb"\[[0-9]{3}\].* [0-9]+\.[0-9]{6,9}: ")
"""The pattern with which the corpus counts event lines (`grep_total_command` of the expected.json files)."""

BLKPARSE_TEXTS = {
    "blkparse_text/android_blktrace.flash.facebook.txt": "blkparse_text/android_blktrace.flash.facebook",
    "blkparse_text/android_candycrush_straight_1.txt": "blkparse_text/android_candycrush_straight_1",
    "blkparse_text/android_swapcache_2.txt": "blkparse_text/android_swapcache_2",
    "blkparse_text/leveldb_ram0_blk_data.txt": "blkparse_text/leveldb_ram0_blk_data",
    "blktrace_bin/centos7.blkparse.txt.gz": "blktrace_bin/centos7",
    "blktrace_bin/romeus_trace_x_0_y_0.blkparse.txt.gz": "blktrace_bin/romeus_trace_x_0_y_0",
    "blktrace_bin/takeoverjp_sample.blkparse.txt.gz": "blktrace_bin/takeoverjp_sample",
}
"""blkparse text in the corpus, and the stem of its expected values."""

FTRACE_TEXTS = [
    "catapult_android_systrace.txt",
    "catapult_atrace_data",
    "catapult_decompressed_atrace_data.txt",
    "emdc_pixel_play_trace_0.txt",
    "lisa_trace.txt",
    "novelinux_ext4-jbd2-open-write-fsync_traces.md",
    "slicedroid_trace.trace.gz",
    "systrace_trace_input_blog_launcher_scroll.html.zip",
    "systrace_wangzherongyao.html.zip",
    "tracecompass_atrace-test",
    "tracecompass_ftrace_syscalls.txt",
    "tracecompass_trace-android-sched-irq",
    "tracecompass_trace-android-sched-irq-syscall",
    "trappy_trace_filesystem.txt",
]
"""ftrace text in the corpus' folder ftrace_text whose events were counted with grep."""


@dataclass(frozen=True)
class Read:
    """A recording with its tables collected for tests."""

    staging: Staging
    block: pl.DataFrame
    fs_events: pl.DataFrame
    syscalls: pl.DataFrame
    commands: pl.DataFrame
    samples: pl.DataFrame
    frames: pl.DataFrame
    importance: pl.DataFrame
    blocked: pl.DataFrame
    tasks: pl.DataFrame

    def __getattr__(self, name: str) -> Any:
        return getattr(self.staging, name)


def read(path: Path) -> Read:
    """Run `ingest.read` and check the properties of every reader."""
    if path.is_file():
        ingest.check(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        staging = ingest.read(path)
    # A jump of the clock is reported once for all files.
    assert {w.category for w in caught} == ({LossWarning} if staging.losses else set())
    assert all(loss.count > 0 for loss in staging.losses)
    assert staging.tasks is not None
    schema.conform(staging.tasks, "tasks")
    tables = {name: schema.conform(staging.table(name).collect(), name) for name in TABLES}
    rows = {name: table.height for name, table in tables.items() if table.height}
    assert rows.keys() == staging.tables.keys()
    # One event may hold many counters, and belong to a call and a process.
    several = ("samples", "importance")
    assert sum(staging.events.values()) >= sum(n for name, n in rows.items() if name not in several)
    for table in tables.values():
        times = table["ts_ns"].drop_nulls()
        assert times.is_sorted()
        if len(times):
            assert staging.first_ns is not None and staging.last_ns is not None
            assert staging.first_ns <= times[0] <= times[-1] <= staging.last_ns
    return Read(staging, *(tables[name] for name in TABLES), staging.tasks)


def read_bytes(directory: Path, data: bytes) -> Read:
    """Run `read` on a file with these contents."""
    path = directory / "input"
    path.write_bytes(data)
    return read(path)


def losses(staging: Read) -> dict[str, int]:
    """Return the count of each kind of loss."""
    return {loss.kind: loss.count for loss in staging.losses}


def ns(seconds: str) -> int:
    """Convert decimal seconds to nanoseconds exactly."""
    return int(Decimal(seconds) * 1_000_000_000)


def tally(block: pl.DataFrame, *columns: str) -> dict[str, int]:
    """Count rows by the joined values of columns, with the keys of the expected.json files."""
    keys = block.select(pl.concat_str(*(pl.col(c).cast(pl.String) for c in columns), separator=" ").alias("key"))
    return dict(keys["key"].value_counts().rows())


def total(block: pl.DataFrame, value: str, *columns: str) -> dict[str, int]:
    """Sum a column by the joined values of others."""
    key = pl.concat_str(*(pl.col(c).cast(pl.String) for c in columns), separator=" ").alias("key")
    return dict(block.group_by(key).agg(pl.col(value).sum()).rows())


def gunzip_what_is_there(data: bytes) -> bytes:
    """Decompress a possibly truncated gzip stream with the standard library."""
    return zlib.decompressobj(31).decompress(data)
