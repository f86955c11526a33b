"""What apps write while nobody uses them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.owners import as_told, states
from androstep_analysis.present.advice.evidence import Evidence, owners, span
from androstep_analysis.present.advice.findings import findings

_PAUSE_NS = 1_000_000_000
_WRITER = ("owner_pid", "owner_comm", "ino", "incarnation")


def background(evidence: Evidence, limits: Mapping[str, float]) -> pl.DataFrame:
    """Processes that write once they have been in the background for a while, in rounds with pauses between.

    What the kernel writes later of what an app wrote before it left the foreground does not count: a piece is of when
    its owner last wrote to the file, and where no event tells that, of when it is queued, if it is synchronous.
    """
    since = _since(evidence)
    # What the filesystem writes of its own for several is no app's doing at that time.
    is_data = pl.col("block_type").cast(pl.String).is_in(["data", "unknown"]) & (pl.col("owner_via") != "handle")
    of_apps = pl.col("owner_pid").is_in(since["owner_pid"].implode())
    written = _written(evidence, evidence.pieces("write").filter(is_data, of_apps, pl.col("bytes") > 0).collect())
    told = as_told(written.lazy(), since, "background_ns", ["owner_pid"], evidence.lost_states, pl.col("written_ns"))
    late = told.filter(pl.col("written_ns") - pl.col("background_ns") >= limits["after"] * 1e9).collect().sort("time")
    process = ["owner_pid", "owner_comm"]
    pause = pl.col("time") - pl.col("time").shift().over(process)
    rows = late.with_columns(is_round=(pause > _PAUSE_NS).fill_null(True)).group_by(process).agg(
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


def _since(evidence: Evidence) -> pl.DataFrame:
    """From when on (told_ns) a process (owner_pid) was in the background, and since when (background_ns), if it was."""
    run = pl.col("state").rle_id().over("pid")
    told = states(evidence.tables["importance"]).with_columns(run=run)
    begin = pl.when(pl.col("state") == "background").then(pl.col("ts_ns").first().over("pid", "run"))
    return told.select(owner_pid="pid", told_ns="ts_ns", background_ns=begin)


def _written(evidence: Evidence, pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces with written_ns: when their owner wrote what they hold, as far as that is known."""
    events = evidence.tables["fs_events"].filter(pl.col("event").is_in(tracepoints.WRITES), pl.col("ino").is_not_null())
    made = events.select("ts_ns", "tid", "pid", "comm", "dev", "ino").collect()
    wrote = evidence.told.causes.named(made).drop_nulls("owner_pid").sort("ts_ns")
    last = pieces.drop_nulls("time").sort("time").join_asof(
        wrote.select(*_WRITER, part_dev="dev", last_ns="ts_ns"),
        left_on="time", right_on="last_ns", by=[*_WRITER, "part_dev"], check_sortedness=False,
    )  # fmt: skip
    return last.with_columns(written_ns=pl.coalesce("last_ns", pl.when("sync").then("time")))
