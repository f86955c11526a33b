"""Trigger: bursts of fsync."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.link.evidence import inodes
from androstep_analysis.present.advice.evidence import Evidence
from androstep_analysis.present.advice.findings import findings

_SECOND_NS = 1_000_000_000


def storms(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find files that a process syncs often within a second."""
    file = ["owner_pid", "owner_comm", *inodes.FILE]
    calls = evidence.syncs.drop_nulls(["ino", "path"]).with_columns(second=pl.col("ts_ns") // _SECOND_NS)
    number = int(limits["per_second"])
    begins = (pl.col("ts_ns").shift(1 - number) - pl.col("ts_ns") <= _SECOND_NS).fill_null(False)
    is_stormy = begins.cast(pl.Int8).rolling_max(number, min_samples=1).over(file) == 1
    stormy = calls.sort("ts_ns").filter(is_stormy)
    rows = stormy.group_by(file, maintain_order=True).agg(
        process=pl.col("owner_comm").first(),
        package=pl.col("owner_package").first(),
        path=pl.col("path").first(),
        begin_ns=pl.col("ts_ns").min(),
        end_ns=pl.col("end_ns").max(),
        times=pl.len(),
        took_ns=(pl.col("end_ns") - pl.col("ts_ns")).sum(),
        saved_times=pl.len() - pl.col("second").n_unique(),
    )
    own = _own(evidence, stormy).group_by(file).agg(requests=pl.len(), bytes=pl.sum("bytes"))
    costly = rows.join(own, on=file, how="left", nulls_equal=True, maintain_order="left")
    return findings(costly.with_columns(pl.col("requests", "bytes").fill_null(0)))


def _own(evidence: Evidence, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the requests that a thread submits during its fsync call, with the columns of the call."""
    requests = evidence.pieces("write", "flush").group_by("request_id").agg(
        pl.col("submit_tid", "time").first(), pl.col("bytes").sum()
    )  # fmt: skip
    sent = requests.drop_nulls(["submit_tid", "time"]).collect().sort("time")
    during = calls.select("owner_pid", "owner_comm", *inodes.FILE, "end_ns", submit_tid="tid", time="ts_ns").sort(
        "time"
    )
    found = sent.join_asof(during, on="time", by="submit_tid", check_sortedness=False)
    return found.filter(pl.col("time") <= pl.col("end_ns"))
