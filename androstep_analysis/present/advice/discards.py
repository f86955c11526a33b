"""Trigger: discards that delay other requests."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.units import SECTOR_BYTES
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import findings


def discards(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find discards that are issued close to reads or synchronous writes on the same device."""
    requests = measures.counted(evidence.tables["requests"]).drop_nulls("issue_ns")
    waited = (pl.col("op") == "read") | ((pl.col("op") == "write") & pl.col("sync").fill_null(False))
    others = requests.filter(waited).select("dev", "issue_ns", other="issue_ns").collect().sort("issue_ns")
    sent = requests.filter(pl.col("op") == "discard").select("dev", "issue_ns", "complete_ns", "nr_sectors").collect()
    near = sent.sort("issue_ns").join_asof(
        others, on="issue_ns", by="dev", strategy="nearest", tolerance=int(limits["within"] * 1e9),
        check_sortedness=False,
    )  # fmt: skip
    rows = near.drop_nulls("other").group_by("dev").agg(
        begin_ns=pl.col("issue_ns").min(),
        end_ns=pl.col("complete_ns").max(),
        times=pl.len(),
        requests=pl.len(),
        bytes=pl.col("nr_sectors").sum() * SECTOR_BYTES,
        took_ns=(pl.col("complete_ns") - pl.col("issue_ns")).sum(),
        saved_times=pl.len(),
    )  # fmt: skip
    return findings(rows.filter(pl.col("times") >= limits["times"]))
