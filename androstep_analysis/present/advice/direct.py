"""Trigger: direct I/O that is small or misaligned."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import findings, with_cost

_GATHERED_BYTES = 16384


def direct(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find files with direct reads or writes that do not begin and end at block boundaries."""
    events = evidence.tables["fs_events"].filter(pl.col("event").is_in(tracepoints.DIRECT), pl.col("nr_bytes") > 0)
    off = (pl.col("offset_bytes") % limits["block"] != 0) | (pl.col("nr_bytes") % limits["block"] != 0)
    made = events.filter(off).drop_nulls("ino").select(
        *("ts_ns", "tid", "pid", "comm", "dev", "ino", "nr_bytes")
    ).collect()  # fmt: skip
    calls = evidence.write_data.causes.named(made)
    rows = calls.group_by("owner_pid", "owner_comm", "path").agg(
        package=pl.col("owner_package").first(),
        begin_ns=pl.col("ts_ns").min(),
        end_ns=pl.col("ts_ns").max() + 1_000_000_000,
        times=pl.len(),
        nr_bytes=pl.col("nr_bytes").sum(),
    )
    rows = rows.rename({"owner_comm": "process"}).filter(pl.col("times") >= limits["times"])
    pieces = evidence.pieces("read", "write").select("request_id", "path", "time", "bytes", "took_ns").collect()
    gathered = (pl.col("nr_bytes") / _GATHERED_BYTES).ceil().cast(pl.Int64)
    costly = with_cost(rows, pieces).with_columns(end_ns=pl.col("end_ns") - 1_000_000_000)
    return findings(costly.with_columns(saved_times=(pl.col("times") - gathered).clip(0)))
