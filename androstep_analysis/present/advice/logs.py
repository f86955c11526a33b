"""Trigger: log files that grow by small appends."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.link.evidence import inodes
from androstep_analysis.present.advice.evidence import Evidence, owners
from androstep_analysis.present.advice.findings import findings, with_cost

_SUFFIX = r"\.(?:log|txt)(?:\.\d+)?$"
_WRITEBACK_NS = 35_000_000_000
"""The kernel writes appended data back within this time: vm.dirty_expire_centisecs plus a wake-up."""


def logs(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find log and text files with small appends that cause many more bytes to be written."""
    events = evidence.tables["fs_events"].filter(
        pl.col("event").is_in(tracepoints.WRITES), pl.col("nr_bytes") <= limits["bytes"]
    )
    made = events.drop_nulls("ino").select("ts_ns", "tid", "pid", "comm", "dev", "ino", "offset_bytes", "nr_bytes")
    is_log = (pl.col("file_type") == "log") | pl.col("path").str.contains(_SUFFIX)
    calls = evidence.write_data.causes.named(made.collect()).filter(is_log).sort("ts_ns")
    end = (pl.col("offset_bytes") + pl.col("nr_bytes")).shift().over(inodes.FILE)
    appended = calls.filter((pl.col("offset_bytes") == end).fill_null(True))
    rows = appended.group_by("path").agg(
        **owners(),
        begin_ns=pl.col("ts_ns").min(),
        end_ns=pl.col("ts_ns").max() + _WRITEBACK_NS,
        times=pl.len(),
        appended=pl.col("nr_bytes").sum(),
    )
    pieces = evidence.pieces("write").select("request_id", "path", "time", "bytes", "took_ns").collect()
    costly = with_cost(rows.filter(pl.col("times") >= limits["times"]).drop_nulls("path"), pieces)
    costly = costly.filter(pl.col("bytes") >= limits["ratio"] * pl.col("appended"))
    saved = pl.col("bytes") - pl.col("appended")
    return findings(costly.with_columns(saved_bytes=saved, end_ns=pl.col("end_ns") - _WRITEBACK_NS))
