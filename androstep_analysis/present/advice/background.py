"""Trigger: apps that write while they are in the background."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.owners import Processes, states, with_latest
from androstep_analysis.present.advice.evidence import Evidence, owners, span
from androstep_analysis.present.advice.findings import findings

_PAUSE_NS = 1_000_000_000
_WRITER = ("owner_pid", "owner_comm", "ino", "incarnation")


def background(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Find processes that write after some time in the background, in rounds with pauses between them.

    Delayed writeback of data that an app modified in the foreground does not count. The time of a piece is the owner's
    last write to the file. If that was not recorded, it is the queue time of a synchronous request.
    """
    processes = Processes(*(evidence.tables[name].collect() for name in ("importance", "tasks")))
    since = _since(evidence, processes)
    # The filesystem writes shared metadata for several processes, so its time says nothing about one app.
    is_data = pl.col("block_type").cast(pl.String).is_in(["data", "unknown"]) & (pl.col("owner_via") != "handle")
    of_apps = pl.col("owner_pid").is_in(since["owner_pid"].implode())
    written = _written(evidence, evidence.pieces("write").filter(is_data, of_apps, pl.col("bytes") > 0).collect())
    # The owner had its pid when it wrote the data.
    numbered = processes.numbered(written.rename({"owner_pid": "pid", "written_ns": "begin_ns"}).drop_nulls("begin_ns"))
    with_state = with_latest(
        numbered.rename({"pid": "owner_pid", "begin_ns": "written_ns"}).lazy(),
        since,
        "background_ns",
        ["owner_pid", "process"],
        evidence.lost_states,
        pl.col("written_ns"),
    )
    in_background = (
        with_state.filter(pl.col("written_ns") - pl.col("background_ns") >= limits["after"] * 1e9)
        .collect()
        .sort("time")
    )
    process = ["owner_pid", "owner_comm"]
    pause = pl.col("time") - pl.col("time").shift().over(process)
    rows = in_background.with_columns(is_round=(pause > _PAUSE_NS).fill_null(True)).group_by(process).agg(
        **owners(),
        **span(),
        path=pl.col("path").drop_nulls().mode().sort().first(),
        times=pl.col("is_round").sum(),
        requests=pl.col("request_id").n_unique(),
        bytes=pl.col("bytes").sum(),
        took_ns=pl.col("took_ns").filter(pl.col("request_id").is_first_distinct()).sum(),
    )  # fmt: skip
    whole = written.group_by(process).agg(whole=pl.col("bytes").sum())
    found = rows.join(whole, on=process, nulls_equal=True).filter(pl.col("bytes") >= limits["bytes"])
    return findings(found.with_columns(value=pl.col("bytes") / pl.col("whole"), saved_times=pl.col("times") - 1))


def _since(evidence: Evidence, processes: Processes) -> pl.DataFrame:
    """Return since when each process is in the background (background_ns, null in the foreground), from since_ns on."""
    changes = processes.numbered(states(evidence.tables["importance"]).rename({"ts_ns": "begin_ns"}))
    changes = changes.with_columns(run=pl.col("state").rle_id().over("pid", "process"))
    begin = pl.when(pl.col("state") == "background").then(pl.col("begin_ns").first().over("pid", "process", "run"))
    return changes.select("process", owner_pid="pid", since_ns="begin_ns", background_ns=begin)


def _written(evidence: Evidence, pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the pieces with written_ns: when their owner wrote the data, if known."""
    events = evidence.tables["fs_events"].filter(pl.col("event").is_in(tracepoints.WRITES), pl.col("ino").is_not_null())
    made = events.select("ts_ns", "tid", "pid", "comm", "dev", "ino").collect()
    wrote = evidence.write_data.causes.named(made).drop_nulls("owner_pid").sort("ts_ns")
    last = pieces.drop_nulls("time").sort("time").join_asof(
        wrote.select(*_WRITER, part_dev="dev", last_ns="ts_ns"),
        left_on="time", right_on="last_ns", by=[*_WRITER, "part_dev"], check_sortedness=False,
    )  # fmt: skip
    return last.with_columns(written_ns=pl.coalesce("last_ns", pl.when("sync").then("time")))
