"""The tables of replay results, and expressions on their rows."""

from __future__ import annotations

from typing import Final

import polars as pl

TABLES: Final = ("replay_runs", "replay_ops")

RUN: Final = ("run_id",)
"""The columns that identify a replay in every table."""

ALIKE: Final = ("program", "mode", "scale_ppm")
"""The columns of replay_runs that must be equal for replays to be repetitions of one another."""

DIVERGED: Final = ("failed", "succeeded", "error", "bytes")
"""Values of replay_ops.divergence for results that differ from the recording."""

READS: Final = ("read", "pread", "readv", "preadv", "mapped_read")
WRITES: Final = ("write", "pwrite", "writev", "pwritev", "mapped_write")
COPIES: Final = ("sendfile", "splice", "copy_file_range")
"""Calls that read and write the same bytes. One of the two sides may not be a file."""


def lateness() -> pl.Expr:
    """Return the time from the due time of an operation of replay_ops to its begin, in ns; null without a due time.

    An operation that began before it was due, which the clock of a guest may show, is not late.
    """
    return (pl.col("start_ns") - pl.col("due_ns")).clip(lower_bound=0)
