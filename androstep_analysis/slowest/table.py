"""Select the slowest operations of a capture, and build their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from androstep_analysis.common import conditions, schema
from androstep_analysis.common.conditions import Condition
from androstep_analysis.common.losses import Losses
from androstep_analysis.ingest import clock
from androstep_analysis.link.owner import handles
from androstep_analysis.slowest import details, meanwhile, operations, stages
from androstep_analysis.slowest.meanwhile import Disks
from androstep_analysis.slowest.stages import Span, Stages

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture

OPERATIONS: Final = ("fsync", "read", "write", "discard", "flush")
"""The operations that `slow` accepts."""

_CALL: Final = "fsync"
_CANDIDATES: Final = 64
"""Requests that are examined first, in addition to those asked for. Most others belong to waits that are already
listed."""

Row = dict[str, Any]


def slow(
    capture: Capture, op: str | None = None, top: int = 5, *, where: Sequence[Condition | str] = ()
) -> pl.DataFrame:
    """Find the slowest operations, with duration, process, file, stages, and the other load of the device.

    Parameters
    ----------
    capture : Capture
        The capture.
    op : {"fsync", "read", "write", "discard", "flush"}, optional
        Only these operations. fsync includes all calls that wait until data is on the device. By default, the slowest
        waits are returned: such calls, and requests with a waiter that do not belong to a wait that is already listed.
    top : int, optional
        The largest number of operations.
    where : sequence of str, optional
        Conditions that all must hold, such as ``["app=com.example.*", "time=2s..5s"]``. They can use columns of the
        result up to `file_certainty`, and app, process, file and time (since the start of the capture).

    Returns
    -------
    polars.DataFrame
        A row for each operation, the slowest first, with the columns of ``schemas/slow.json``. There are no rows if no
        operation has both a begin and an end.

    Raises
    ------
    ValueError
        If `op` is unknown.
    InputError
        If a condition names no column or matches nothing.

    References
    ----------
    ``schemas/definitions.toml``, slow and stage; ``docs/slow.md``.

    Examples
    --------
    >>> table = androstep.slow(capture, top=1)
    >>> table.select("op", "comm", "duration_ns", "stages").row(0)
    ('write', '.example.mail', 80994064, ['Q2D', 'D2C'])
    """
    if op is not None and op not in OPERATIONS:
        raise ValueError(f"unknown operation {op!r}; choose one of {', '.join(OPERATIONS)}")
    lost = Losses(capture.losses, capture.lost_events)
    disks = Disks(operations.requests(capture))
    calls = operations.calls(capture, lost) if op in (None, _CALL) else None
    # The duration of an interchangeable request is unknown, but not the time in which it or its equal was in flight.
    known = disks.requests.filter(~pl.col("is_interchangeable"))
    durations = pl.concat([one.select("op", "duration_ns") for one in (known, *([] if calls is None else [calls]))])
    if where:
        calls, known = _matching(capture, calls, known if op is None else known.filter(op=op), where)
    slowest_calls = [] if calls is None else _slowest(calls, top).to_dicts()
    if op is None:
        chosen = _waits(capture, disks, known, slowest_calls, top)
    else:
        of_op = _slowest(known.filter(op=op), top)
        chosen = slowest_calls or details.of_requests(capture, of_op).to_dicts()
    chosen = sorted(chosen, key=lambda row: (-row["duration_ns"], row["begin_ns"]))[:top]
    if not chosen:
        return schema.empty("slow")
    pairs = zip(chosen, _stages_and_load(capture, disks, chosen), strict=True)
    rows = [
        row | more | _peers(durations, row) | {"at_ns": _at(capture, row), "lost": _is_lost(lost, row)}
        for row, more in pairs
    ]
    columns = schema.table("slow").polars
    return schema.conform(pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], columns), "slow")


def _slowest(rows: pl.DataFrame, top: int) -> pl.DataFrame:
    least = rows["duration_ns"].top_k(top).min()  # sorting a few rows is faster and takes less memory
    few = rows.filter(pl.col("duration_ns") >= pl.lit(least, pl.Int64))
    return few.sort("duration_ns", "begin_ns", descending=[True, False], maintain_order=True).head(top)


def _matching(
    capture: Capture, calls: pl.DataFrame | None, requests: pl.DataFrame, where: Sequence[Condition | str]
) -> tuple[pl.DataFrame | None, pl.DataFrame]:
    """Return the calls and requests that match all conditions."""
    columns = schema.table("slow").polars.names()
    parts = [details.of_requests(capture, requests), *([] if calls is None else [calls])]
    tables = [one.select(name for name in columns if name in one.columns) for one in parts]
    both = pl.concat(tables, how="diagonal_relaxed")
    first_ns = capture.first_ns or 0
    words = {
        "app": pl.col("package"),
        "process": pl.coalesce("package", "comm"),
        "file": pl.col("path"),
        "time": (clock.continued(pl.col("begin_ns"), capture.jumps) - first_ns).alias("time_ns"),
    }
    found = conditions.matching(both, where, words)
    if calls is not None:
        calls = calls.join(found.filter(op=_CALL), on=["tid", "begin_ns", "end_ns"], how="semi", nulls_equal=True)
    return calls, requests.join(found.select("request_id").drop_nulls(), on="request_id", how="semi")


# -- one wait is listed once ------------------------------------------------------------------------------------------


def _waits(capture: Capture, disks: Disks, requests: pl.DataFrame, calls: list[Row], top: int) -> list[Row]:
    """Return the calls, and the slowest awaited requests that belong to none of these waits.

    If no request is awaited, all requests count.
    """
    listed = [(call, _disks_of(disks, call)[0]) for call in calls]
    awaited = requests.filter("is_awaited")
    ranked = awaited if awaited.height or calls else requests
    count = _CANDIDATES + top
    while True:
        rows = details.of_requests(capture, _slowest(ranked, count)).to_dicts()
        found: list[tuple[Row, frozenset[int]]] = []
        for row in rows:
            if len(found) < top and not any(_is_same(*one, row) for one in (*listed, *found)):
                found.append((row, _disks_of(disks, row)[0]))
        if len(found) == top or count >= ranked.height:
            return [*calls, *(row for row, _ in found)]
        count *= 8


def _is_same(wait: Row, disks: frozenset[int], request: Row) -> bool:
    """Return whether a request belongs to a wait on these disks.

    At least half of it must lie within the wait, and it must have the same process or be work of the wait. Flushes and
    journal writes are work of a call. A flush is also work of a write with PREFLUSH or FUA.
    """
    within = min(wait["end_ns"], request["end_ns"]) - max(wait["begin_ns"], request["begin_ns"])
    if within < 0 or within * 2 < request["duration_ns"]:
        return False
    if any(wait[name] is not None and wait[name] == request[name] for name in ("pid", "tid")):
        return True
    is_call: bool = wait["op"] == _CALL
    if request["op"] == "flush":
        return request["dev"] in disks and (is_call or wait["is_barrier"] is True)
    return is_call and request["block_type"] == "journal" and bool(request["part_dev"] == wait["dev"])


def _peers(durations: pl.DataFrame, row: Row) -> Row:
    """Return the rank of the operation among all of its kind (`durations`)."""
    of_kind = durations.filter(op=row["op"])["duration_ns"]
    median = of_kind.quantile(0.5, "equiprobable")
    return {"peers": len(of_kind), "faster": int((of_kind < row["duration_ns"]).sum()), "median_ns": median}


def _at(capture: Capture, row: Row) -> int:
    first = row["begin_ns"] if capture.first_ns is None else capture.first_ns
    return int(clock.continued(row["begin_ns"], capture.jumps) - first)


def _is_lost(lost: Losses, row: Row) -> bool:
    begin, end = (pl.Series([row[name]], dtype=pl.Int64) for name in ("begin_ns", "end_ns"))
    return bool(lost.between(begin, end, pl.Series([None], dtype=pl.UInt32), "block_events").item())


# -- stages, and what competed ----------------------------------------------------------------------------------------


def _stages_and_load(capture: Capture, disks: Disks, chosen: list[Row]) -> Iterator[Row]:
    """Yield the stages, depth, flush_ns and the columns of others for each operation."""
    locations = [_disks_of(disks, row) for row in chosen]
    around = [disks.during(on, _span(row)) for row, (on, _) in zip(chosen, locations, strict=True)]
    parts = details.pieces(capture, meanwhile.ids(around))
    commits = (
        handles.commits(operations.table(capture, "fs_events")) if any(row["op"] == _CALL for row in chosen) else None
    )
    allocated = _allocations(capture, chosen)
    for row, (on, certainty), near in zip(chosen, locations, around, strict=True):
        if row["op"] == _CALL:
            work = _Work(row, near, parts)
            split, own = work.stages(commits, certainty), work.own
            depths = [disks.depth(disk, row["begin_ns"]) for disk in on]
            depth = sum(one for one in depths if one is not None) if depths and None not in depths else None
        else:
            times = (row["queue_ns"], allocated.get(row["request_id"]), row["insert_ns"], row["issue_ns"])
            split, own = stages.of_request(*times, row["complete_ns"]), pl.Series([row["request_id"]])
            depth = None if row["issue_ns"] is None else disks.depth(row["dev"], row["issue_ns"])
        rest = meanwhile.in_device(near.filter(~pl.col("request_id").is_in(own.implode())), _span(row))
        flushes = meanwhile.spans(rest.filter(op="flush"), "device_ns")
        who = meanwhile.others(rest, parts, row["pid"])
        yield {
            "stages": split.names,
            "stages_ns": split.lengths_ns,
            "stages_certainty": split.certainty,
            "depth": depth,
            "flush_ns": stages.covered_ns(_span(row), flushes),
            "others": rest.height,
            **{f"others_{name}": values for name, values in who._asdict().items()},
        }


def _disks_of(disks: Disks, row: Row) -> tuple[frozenset[int], str]:
    """Return the disks of an operation, and the certainty of this."""
    return disks.of_filesystem(row["dev"]) if row["op"] == _CALL else (frozenset({row["dev"]}), "fact")


def _span(row: Mapping[str, Any]) -> Span:
    return row["begin_ns"], row["end_ns"]


class _Work:
    """The requests that belong to the stages of a call (`own`), among the requests `near` it with pieces `parts`."""

    def __init__(self, call: Row, near: pl.DataFrame, parts: pl.DataFrame) -> None:
        self._call = call
        of_filesystem = near.clear() if call["dev"] is None else near.filter(part_dev=call["dev"])
        on_filesystem = parts.join(of_filesystem.select("request_id"), on="request_id", how="semi")
        journal = on_filesystem.filter(block_type="journal")["request_id"]
        # A file that had the inode number before may still be written back.
        ino, incarnation = (pl.lit(call[name], pl.Int64) for name in ("ino", "incarnation"))
        is_same_file = (pl.col("ino") == ino) & (pl.col("incarnation") == incarnation).fill_null(True)
        file = on_filesystem.filter(is_same_file)["request_id"]
        is_journal = pl.col("request_id").is_in(journal.implode()) & (pl.col("op") == "write")
        is_of_file = pl.col("request_id").is_in(file.implode()) & (pl.col("op") == "write")
        begun = pl.col("begin_ns").is_between(call["begin_ns"], call["end_ns"])
        is_of_thread = pl.lit(False) if call["tid"] is None else (pl.col("submit_tid") == call["tid"]) & begun
        self._flushes = near.filter(op="flush")
        self._journal = near.filter(is_journal)
        self._requests = near.filter(is_of_file | is_of_thread.fill_null(False), ~is_journal, pl.col("op") != "flush")
        self.own = meanwhile.ids([self._flushes, self._journal, self._requests])

    def stages(self, commits: pl.DataFrame | None, certainty: str) -> Stages:
        """Return the stages of the call (definitions.toml, stage).

        The only stage is `unknown` if neither requests nor commits show any.
        """
        call = self._call
        running = [] if commits is None or call["dev"] is None else _commits(commits, call)
        if certainty == "unknown" and not running:
            return Stages(["unknown"], [call["duration_ns"]], certainty)
        requests = self._requests
        waiting = list(requests.select("begin_ns", "device_ns").iter_rows())
        layers = [
            ("requests", meanwhile.spans(requests, "device_ns")),
            ("flush", meanwhile.spans(self._flushes, "device_ns")),
            ("journal", [*running, *meanwhile.spans(self._journal, "begin_ns")]),
            ("requests", waiting),
        ]
        return stages.of_call(_span(call), layers, certainty)


def _commits(commits: pl.DataFrame, call: Row) -> list[Span]:
    """Return the spans in which the journal of the call's filesystem was committed during the call."""
    end = pl.col("end_ns").fill_null(call["end_ns"])
    near = commits.filter(pl.col("dev") == call["dev"], pl.col("start_ns") < call["end_ns"], end > call["begin_ns"])
    return list(near.select("start_ns", end).iter_rows())


def _allocations(capture: Capture, chosen: list[Row]) -> dict[int, int]:
    """Return the time of allocation (G) of each of these requests, if the event was recorded."""
    queued = [row for row in chosen if row.get("queue_ns") is not None and row["sector"] is not None]
    if not queued:
        return {}
    begin, end = min(row["queue_ns"] for row in queued), max(row["end_ns"] for row in queued)
    events = operations.table(capture, "block_events").filter(
        pl.col("action") == "getrq", pl.col("ts_ns").is_between(begin, end)
    )
    found = events.select("ts_ns", "dev", "sector").sort("ts_ns").collect()
    allocated = {}
    for row in queued:
        last_ns = row["end_ns"] if row["issue_ns"] is None else row["issue_ns"]
        own = found.filter(
            pl.col("ts_ns").is_between(row["queue_ns"], last_ns if row["insert_ns"] is None else row["insert_ns"]),
            pl.col("dev") == row["dev"],
            pl.col("sector").is_between(row["sector"], row["sector"] + row["nr_sectors"], closed="left"),
        )
        if own.height:
            allocated[row["request_id"]] = int(own["ts_ns"][0])
    return allocated
