"""The tables of what replays came to, and what follows from each of their rows."""

from __future__ import annotations

from typing import Final

import polars as pl

TABLES: Final = ("replay_runs", "replay_ops")

RUN: Final = ("run_id",)
"""The columns that name a replay in every table."""

ALIKE: Final = ("program", "mode", "scale_ppm")
"""The columns of replay_runs in which replays must agree to be repetitions of one another."""

DIVERGED: Final = ("failed", "succeeded", "error", "bytes")
"""Values of replay_ops.divergence that say: not as recorded."""

READS: Final = ("read", "pread", "readv", "preadv", "mapped_read")
WRITES: Final = ("write", "pwrite", "writev", "pwritev", "mapped_write")
COPIES: Final = ("sendfile", "splice", "copy_file_range")
"""Calls that read what they write; one of their two sides may be no file."""


def lateness() -> pl.Expr:
    """How long after it was due an operation of replay_ops began, in ns; null where it had no time to be due at.

    One that began before it was due, as the clock of a guest may tell it, is not late.
    """
    return (pl.col("start_ns") - pl.col("due_ns")).clip(lower_bound=0)
