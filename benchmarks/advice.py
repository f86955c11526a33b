"""Carry out two findings of `androstep advise`, and compare the predicted savings with the measured ones."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
from recorded import recorded
from support.needs import needs

import androstep_analysis as androstep
from androstep_analysis.capture import Capture
from benchmarks.paired import Row, compared, probe


def _syncs(capture: Capture) -> int:
    """Return the number of fsync and fdatasync calls of the workload."""
    is_sync = pl.col("call").is_in(["fsync", "fdatasync"]) & pl.col("comm").str.contains("python")
    return capture.syscalls.filter(is_sync).collect().height


def _reads(capture: Capture) -> int:
    """Return the number of requests that read the file of workload `pieces`."""
    is_read = (pl.col("path") == "/large") & (pl.col("op") == "read")
    return capture.io.filter(is_read).collect()["request_id"].n_unique()


FINDINGS: dict[str, tuple[str, str, Callable[[Capture], int]]] = {
    # Trigger `rollback` advises a WAL, which is the workload of trigger `journals`.
    "rollback": ("journals", "saved_times", _syncs),
    "pieces": ("pieces", "saved_requests", _reads),
}
"""By trigger: the workload that follows the advice, the column of the prediction, and the function that counts."""


@needs("root")
def advice(repeats: int = 3) -> Iterator[Row]:
    """Record workloads of tests/present/traits.py: 30 transactions of SQLite, and reads of 1 MiB by 4 KiB."""
    probe("iotrace")
    for trigger, (workload, column, count) in FINDINGS.items():
        predicted, saved = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                before = recorded(Path(one), trigger, bad=True)
                after = recorded(Path(other), workload, bad=workload != trigger)
                predicted.append(androstep.advise(before).filter(trigger=trigger, status="found")[column][0])
                saved.append(count(before) - count(after))
        what = {"saved_times": "syncs", "saved_requests": "requests"}[column]
        yield compared(f"{trigger}: {what} saved", statistics.median(predicted), "measured", statistics.median(saved))
