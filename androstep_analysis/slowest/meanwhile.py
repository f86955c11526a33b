"""Other requests on the device during an operation, and the queue depth."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.slowest.stages import Span

TOP: Final = 3
"""The number of processes that are named."""

Times = npt.NDArray[np.int64]


class Others(NamedTuple):
    """Columns others_process, others_pid, others_op, others_bytes and others_inferred_bytes of an operation."""

    process: list[str | None]
    pid: list[int | None]
    op: list[str]
    bytes: list[int]
    inferred_bytes: list[int]


class Disks:
    """The requests of a capture (`operations.requests`) as arrays, for queries by time.

    `requests` are those with a duration.
    """

    def __init__(self, requests: pl.DataFrame) -> None:
        whole = requests.drop_nulls("duration_ns")
        begin, end, issue = pl.col("begin_ns"), pl.col("end_ns"), pl.col("issue_ns")
        in_device = pl.when(issue.is_between(begin, end)).then(issue).otherwise(begin)
        self.requests = whole.with_columns(device_ns=in_device)
        self._dev, self._begin, self._device, self._end = (
            self.requests[name].to_numpy() for name in ("dev", "begin_ns", "device_ns", "end_ns")
        )
        halves = requests.filter(pl.col("duration_ns").is_null())
        self._unended = halves.drop_nulls("issue_ns").select("dev", "issue_ns")
        self._unbegun = halves.drop_nulls("complete_ns").select("dev", "complete_ns")
        self._pairs = requests.select("part_dev", "dev").unique()

    def of_filesystem(self, dev: int | None) -> tuple[frozenset[int], str]:
        """Return the disks below the device of a filesystem, and the certainty of this.

        They are the disks that carried its requests. If the filesystem has no requests and all requests are of one
        disk, that disk is inferred.
        """
        if dev is None:
            return frozenset(), "unknown"
        below = self._pairs.filter(pl.col("part_dev") == dev)["dev"].to_list()
        if below or self._pairs["dev"].eq(dev).any():
            return frozenset(below) or frozenset({dev}), "fact"
        every = frozenset(self._pairs["dev"].to_list())
        return (every, "inferred") if len(every) == 1 else (frozenset(), "unknown")

    def during(self, disks: Collection[int], span: Span) -> pl.DataFrame:
        """Return the requests that were queued or in the device during the span.

        A request is in the device from device_ns on.
        """
        at = np.flatnonzero((self._begin < _after(span)) & (self._end > span[0]))
        return self.requests[at[np.isin(self._dev[at], list(disks))]]

    def depth(self, disk: int, time_ns: int) -> int | None:
        """Return the number of requests in the disk at a time, including those issued then; None if unknown.

        A request with one missing event may have been in the device from its issue on, or until its completion.
        """
        ends = (("issue_ns", self._unended, pl.col("issue_ns") <= time_ns),
                ("complete_ns", self._unbegun, pl.col("complete_ns") > time_ns))  # fmt: skip
        if any(halves.filter(pl.col("dev") == disk, may_be).height for _, halves, may_be in ends):
            return None
        is_there = (self._device <= time_ns) & (self._end > time_ns) & (self._dev == disk)
        return int(np.count_nonzero(is_there))


def in_device(requests: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Return the requests that were in the device during the span."""
    return requests.filter(pl.col("device_ns") < _after(span), pl.col("end_ns") > span[0])


def spans(requests: pl.DataFrame, begin: str) -> list[Span]:
    """Return the times of the requests, each from column `begin` to its completion."""
    return list(requests.select(begin, "end_ns").iter_rows())


def others(requests: pl.DataFrame, parts: pl.DataFrame, pid: int | None) -> Others:
    """Return the processes with most bytes among these requests. Their pieces are in `parts` (`details.pieces`).

    Processes of one name or package are counted together, except for the process `pid` of the operation itself.
    """
    of_these = parts.join(requests.select("request_id", "op"), on="request_id", how="inner", maintain_order="left")
    inferred = pl.when(pl.col("process_certainty") == "inferred").then("bytes").otherwise(0)
    is_own = (pl.col("pid") == pl.lit(pid, pl.Int32)).fill_null(False)
    groups = of_these.group_by(process=pl.coalesce("package", "comm"), is_own=is_own, op="op").agg(
        pl.col("bytes").sum(),
        inferred_bytes=inferred.sum(),
        pid=pl.when(pl.col("pid").n_unique() == 1).then(pl.col("pid").first()),
    )
    order = ("bytes", "process", "op", "is_own")
    most = groups.sort(order, descending=[True, False, False, False]).filter(pl.col("bytes") > 0).head(TOP)
    return Others(*(most[name].to_list() for name in Others._fields))


def ids(tables: Iterable[pl.DataFrame]) -> pl.Series:
    """Return the request ids of all tables, each once."""
    return pl.concat([pl.Series("request_id", [], pl.Int64), *(one["request_id"] for one in tables)]).unique()


def _after(span: Span) -> int:
    """Return the end of the span. A span without length is extended to 1 ns."""
    return max(span[1], span[0] + 1)
