"""The input of triggers: the tables of a capture, and intermediate results that several triggers share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from androstep_analysis import measures
from androstep_analysis.common.losses import Losses
from androstep_analysis.measures import write_shares
from androstep_analysis.measures.sync_cost import syncs
from androstep_analysis.measures.tables import device_time
from androstep_analysis.measures.write_shares import WriteData

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

_COMMON = pl.col("owner_comm").drop_nulls().mode().sort().first()


class Evidence:
    """The tables of a capture, with column state added to `io`, and results that are computed once on demand."""

    def __init__(self, capture: Capture) -> None:
        self.page_bytes: int | None = capture.facts["page_bytes"]
        self.recorded = capture.manifest.events
        self.lost = Losses(capture.losses, capture.lost_events)
        self.lost_states = self.lost.spans("importance")
        io = measures.with_state(capture.io, capture.importance, capture.tasks, lost=self.lost_states)
        self.tables = {**capture.tables, "io": io}

    @cached_property
    def write_data(self) -> WriteData:
        """Return the writes of processes to files (`measures.write_cost`)."""
        return write_shares.write_data(self.tables, self.page_bytes, self.lost, self.recorded)

    @cached_property
    def calls(self) -> pl.DataFrame:
        """Return the successful fsync calls (`measures.sync_cost.syncs`)."""
        return syncs(self.write_data, self.tables)

    @cached_property
    def syncs(self) -> pl.DataFrame:
        """Return the successful fsync calls with process (owner_comm, …) and file (path, …)."""
        return self.write_data.causes.named(self.calls, "named_ns").sort("ts_ns")

    @cached_property
    def write_cost(self) -> pl.DataFrame:
        """Return `measures.write_cost` by file."""
        by = ("path", "file_type")
        return measures.write_cost(
            self.tables, by=by, page_bytes=self.page_bytes, recorded=self.recorded, lost=self.lost
        )

    def pieces(self, *ops: str) -> pl.LazyFrame:
        """Return the rows of table `io` of these operations, with added columns.

        `time` is when the request was queued (else issued, else completed). `took_ns` is from issue to completion of
        the request. `part_dev` and `submit_tid` are those of the request.
        """
        requests = self.tables["requests"]
        of_requests = requests.select("request_id", "part_dev", "submit_tid", took_ns=device_time(requests))
        time = pl.coalesce("queue_ns", "issue_ns", "complete_ns")
        rows = measures.counted(self.tables["io"]).filter(pl.col("op").is_in(ops))
        rows = rows.with_columns(time=time)
        return rows.join(of_requests, on="request_id", how="left").with_columns(part_dev=pl.coalesce("part_dev", "dev"))


def owners() -> dict[str, pl.Expr]:
    """Return expressions for the most frequent process and package of a group of rows (owner_comm, owner_package)."""
    return {"process": _COMMON, "package": pl.col("owner_package").drop_nulls().mode().sort().first()}


def span() -> dict[str, pl.Expr]:
    """Return expressions for the first and last time of a group of rows."""
    return {"begin_ns": pl.col("time").min(), "end_ns": pl.col("time").max()}
