"""Details of one piece: its request, its owner, and the page cache events that preceded it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.losses import Losses
from androstep_analysis.common.markup import visible
from androstep_analysis.common.quantities import duration, marked, size
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import pagesize
from androstep_analysis.link.owner import handles

_STEPS = ("queue", "insert", "issue", "complete")

_VIA = {
    "write_begin": "wrote to the page since its previous writeback",
    "dirty_folio": "dirtied the page since its previous writeback",
    "submitter": "submitted the request",
    "handle": "held a handle of the journal transaction",
    "filesystem": "a thread of the filesystem; the process behind it is unknown",
    "inferred": "likely, but not proven by an event",
    "unknown": "no event shows the owner",
}

_LIFETIMES = (*tracepoints.CREATIONS, *tracepoints.DELETIONS)
_OF_FILES = (*tracepoints.PAGES, *_LIFETIMES)

_NAMED = 3
"""Processes that are named. Of more, only the number is given."""


class Section(NamedTuple):
    """A part of the details: a title, and lines of label and value."""

    title: str
    lines: list[tuple[str, str]]


class Stories:
    """Details of single pieces, from the tables of a capture.

    `page_bytes` is the size of the kernel's pages, if it was reported. Times count from `begin_ns`. `lost` has the
    events that the recording lost.
    """

    def __init__(self, tables: Mapping[str, pl.LazyFrame], page_bytes: int | None, begin_ns: int, lost: Losses) -> None:
        self._requests, self._io = tables["requests"], tables["io"]
        self._begin_ns, self._lost = begin_ns, lost
        events = tables["fs_events"]
        self._is_empty = events.head(1).collect().is_empty()
        self._has_journal = bool(events.select((pl.col("event") == "jbd2_start_commit").any()).collect().item())
        self._page_bytes = None if self._is_empty else pagesize.proven(page_bytes, events)
        placed = tracepoints.on_filesystems(events, tracepoints.on_disks(events, self._requests))
        self._events = pagesize.counted(placed, self._page_bytes)

    def tell(self, request_id: int, piece: int) -> list[Section]:
        """Return the details of one piece of a request."""
        request = self._requests.filter(pl.col("request_id") == request_id).collect().row(0, named=True)
        pieces = self._io.filter(pl.col("request_id") == request_id).collect()
        one = pieces.row(by_predicate=pl.col("piece") == piece, named=True)
        asked_ns = next((one[name] for name in ("queue_ns", "issue_ns", "complete_ns") if one[name] is not None), None)
        sections = [
            Section(f"Request {request_id:,}", list(self._of_request(request))),
            Section("Steps", list(self._steps(request))),
            Section(f"Piece {piece + 1} of {pieces.height}", list(self._of_piece(one))),
            Section("Who", list(_whose(request, one))),
        ]
        if one["op"] == "write" and asked_ns is not None:
            sections.append(Section("Before it was queued", list(self._before(request, one, asked_ns))))
            sections.append(Section("Journal", list(self._transaction(request, one, asked_ns))))
        return sections

    def _seconds(self, time_ns: int) -> str:
        return f"{(time_ns - self._begin_ns) / 1e9:.6f} s"

    def _at(self, time_ns: int) -> str:
        return f"at {self._seconds(time_ns)}"

    def _of_request(self, request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield "operation", f"{request['op'].replace('_', ' ')}{_flags(request)}"
        yield "device", units.format_dev(request["dev"])
        if request["sector"] is not None:
            yield "position", f"sector {request['sector']:,}, {size(request['nr_sectors'] * units.SECTOR_BYTES)}"
        error = request["error"]
        if request["complete_ns"] is None:
            yield "result", "unknown: the completion was not recorded"
        elif request["matched"] == "interchangeable":
            yield "result", "the completion may be that of an equal request in flight; its time is uncertain"
        else:
            yield "result", "done" if error == 0 else "unknown" if error is None else f"error {error}"

    def _steps(self, request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the time of each stage, and the time since the previous stage."""
        before = None
        for step in _STEPS:
            time_ns = request[f"{step}_ns"]
            if time_ns is None:
                yield step, "unknown: no event" + (" (it may not have been inserted)" if step == "insert" else "")
                continue
            since = "" if before is None else f", {duration(time_ns - before[1])} after {before[0]}"
            yield step, f"{self._at(time_ns)}{since}"
            before = step, time_ns

    def _of_piece(self, one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        kind = one["block_type"] or "no blocks"
        likely = one["map_source"] == "inferred"
        blocks = kind if one["subtype"] is None else f"{kind}, {one['subtype'].replace('_', ' ')}"
        yield "blocks", marked(blocks, likely and kind != "unknown")
        if one["block_type"] is not None:
            yield "bytes", size(one["bytes"])
            unnamed = "unknown" if one["ino"] is None else f"inode {one['ino']}, path unknown"
            file = unnamed if one["path"] is None else f"{visible(one['path'])} (inode {one['ino']})"
            yield "file", marked(file, likely and (one["ino"] is not None or one["path"] is not None))
            if one["file_offset_bytes"] is not None:
                yield "offset in it", f"{one['file_offset_bytes']:,} B"
            yield "known from", (one["map_source"] or "nothing").replace("_", " ")

    # -- before it was queued ------------------------------------------------------------------------------------------

    def _before(self, request: Mapping[str, Any], one: Mapping[str, Any], asked_ns: int) -> Iterator[tuple[str, str]]:
        """Yield which processes wrote the data, and when the pages became dirty.

        Both count since the previous writeback of these bytes.
        """
        if one["ino"] is None or one["file_offset_bytes"] is None:
            yield "written by", "unknown: the file or the file offset of these blocks is unknown"
            return
        if self._is_empty:
            yield "written by", "unknown: the recording has no filesystem events"
            return
        begin, end = one["file_offset_bytes"], one["file_offset_bytes"] + one["bytes"]
        is_of_file = (pl.col("dev") == request["part_dev"]) & (pl.col("ino") == one["ino"])
        of_file = self._events.filter(is_of_file, pl.col("ts_ns") <= asked_ns, pl.col("event").is_in(_OF_FILES))
        file_events = of_file.collect()
        writeback_ns = self._written_out(request, one, begin, end, asked_ns)
        # Before that event, the inode number belonged to another file, or the file had no pages.
        lifetime_ns = _latest(file_events.filter(pl.col("event").is_in(_LIFETIMES)))
        since_ns = max((time for time in (writeback_ns, lifetime_ns) if time is not None), default=None)
        is_writeback = since_ns is not None and since_ns == writeback_ns
        since = f" since its writeback {self._at(since_ns)}" if since_ns is not None and is_writeback else ""
        events = file_events.filter(pl.col("event").is_in(tracepoints.PAGES))
        if since_ns is not None:
            events = events.filter(pl.col("ts_ns") > since_ns)
        if self._may_lack(since_ns, asked_ns, request["part_dev"]):
            yield "lost", "filesystem events were lost in this time: the following may be incomplete"
        writes = events.filter(
            pl.col("event").is_in(tracepoints.WRITES),
            pl.col("offset_bytes") < end,
            pl.col("offset_bytes") + pl.col("nr_bytes") > begin,
        )
        if writes.height:
            last = self._at(int(writes["ts_ns"].to_numpy().max()))
            yield "written by", f"{_names(writes)}: {writes.height:,} × write, the last {last}{since}"
        else:
            yield "written by", f"unknown: no write to these bytes was recorded{since}"
        yield from self._dirtied(events, begin, end, asked_ns, since)

    def _may_lack(self, begin_ns: int | None, end_ns: int, dev: int) -> bool:
        begin, end = (pl.Series([time], dtype=pl.Int64) for time in (begin_ns, end_ns))
        return bool(self._lost.between(begin, end, pl.Series([dev], dtype=pl.UInt32), "fs_events").item())

    def _written_out(
        self, request: Mapping[str, Any], one: Mapping[str, Any], begin: int, end: int, asked_ns: int
    ) -> int | None:
        """Return when any of these bytes were last queued in a write before this one."""
        is_same = pl.all_horizontal(pl.col(name).eq_missing(one[name]) for name in ("dev", "ino", "incarnation"))
        is_same &= pl.col("op") == "write"
        is_same &= (pl.col("file_offset_bytes") < end) & (pl.col("file_offset_bytes") + pl.col("bytes") > begin)
        is_other = (pl.col("request_id") != request["request_id"]) & (pl.col("queue_ns") < asked_ns)
        found: int | None = self._io.filter(is_same & is_other).select(pl.col("queue_ns").max()).collect().item()
        return found

    def _dirtied(
        self, events: pl.DataFrame, begin: int, end: int, asked_ns: int, since: str
    ) -> Iterator[tuple[str, str]]:
        """Yield when the pages became dirty. The events of a folio of several pages name its first page."""
        if self._page_bytes is None:
            yield "became dirty", "unknown: the size of the kernel's pages is unknown"
            return
        first, last = begin // self._page_bytes, (end - 1) // self._page_bytes
        cached = events.filter(event=tracepoints.CACHED).select("page", "ts_ns", order="page_order").sort("ts_ns")
        dirtied = events.filter(pl.col("event").is_in(tracepoints.DIRTIED), pl.col("page").is_not_null())
        dirtied = dirtied.sort("ts_ns").join_asof(cached, on="ts_ns", by="page", check_sortedness=False)
        length = 2 ** pl.coalesce("page_order", "order", pl.lit(0))
        dirtied = dirtied.filter(pl.col("page") <= last, pl.col("page") + length > first)
        if dirtied.is_empty():
            yield "became dirty", f"unknown: no such event was recorded{since}"
            return
        first_ns, last_ns = int(dirtied["ts_ns"].to_numpy().min()), int(dirtied["ts_ns"].to_numpy().max())
        is_of_these = pl.col("page").is_between(first, last) & (pl.col("event") == tracepoints.UNCACHED)
        if events.filter(is_of_these, pl.col("ts_ns") > last_ns).height:
            yield "became dirty", f"unknown: its pages left the page cache after they were last dirtied{since}"
            return
        when = self._at(first_ns) + ("" if first_ns == last_ns else f" to {self._seconds(last_ns)}")
        yield "became dirty", f"{when}, by {_names(dirtied)}"
        yield "waited in the cache", f"{duration(asked_ns - first_ns)} until it was queued"

    def _transaction(
        self, request: Mapping[str, Any], one: Mapping[str, Any], asked_ns: int
    ) -> Iterator[tuple[str, str]]:
        """Yield the transaction of a journal block.

        For other blocks, yield the transaction that was being committed then.
        """
        if not self._has_journal:
            yield "transaction", "unknown: the recording has no journal events"
            return
        of_journal = ("jbd2_start_commit", "jbd2_end_commit", tracepoints.HANDLE)
        is_here = (pl.col("dev") == request["part_dev"]) & pl.col("event").is_in(of_journal)
        events = self._events.filter(is_here).collect()
        running = handles.commits(events.lazy()).filter(
            pl.col("start_ns") <= asked_ns, (pl.col("end_ns") >= asked_ns).fill_null(True)
        )
        is_journal = one["block_type"] == "journal"
        label = "transaction" if is_journal else "being committed then"
        if running.is_empty():
            yield label, "unknown: no journal commit was running" if is_journal else "none"
            return
        commit = running.row(-1, named=True)
        end = "end not recorded" if commit["end_ns"] is None else f"to {self._seconds(commit['end_ns'])}"
        commit_text = f"transaction {commit['transaction']:,}, {self._at(commit['start_ns'])} {end}"
        yield label, commit_text
        changes = events.filter(
            pl.col("event") == tracepoints.HANDLE,
            pl.col("transaction") == commit["transaction"],
            pl.col("nr_blocks") > 0,
        )
        yield "changed in it by", _names(changes) if changes.height else "unknown: its handles were not recorded"


def _whose(request: Mapping[str, Any], one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    submitter = _process(request["submit_comm"], request["submit_pid"] or request["submit_tid"])
    yield "submitted by", submitter or "unknown"
    owner = _process(one["owner_comm"], one["owner_pid"])
    likely = one["owner_via"] == "inferred"
    yield "owner", f"{marked(owner or 'unknown', likely and owner != '')}: {_VIA[one['owner_via']]}"
    if one["owner_package"] is not None:
        yield "app", marked(visible(one["owner_package"]), likely)
    if one["owner_count"] is not None and one["owner_count"] > 1:
        yield "shared by", f"{one['owner_count']} processes; the owner is the last of them"


def _latest(events: pl.DataFrame) -> int | None:
    return int(events["ts_ns"].to_numpy().max()) if events.height else None


def _names(events: pl.DataFrame) -> str:
    """Return the names of the processes of these events, the latest first."""
    rows = events.sort("ts_ns", descending=True).select("comm", pl.coalesce("pid", "tid")).unique(maintain_order=True)
    named = [_process(*row) or "a thread without a known name" for row in rows.head(_NAMED).iter_rows()]
    more = rows.height - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _process(comm: str | None, number: int | None) -> str:
    if comm is None:
        return "" if number is None else f"process {number}"
    return visible(comm) if number is None else f"{visible(comm)} ({number})"


def _flags(request: Mapping[str, Any]) -> str:
    names = ("sync", "meta", "fua", "preflush", "readahead", "prio", "swap")
    flags = [name for name in names if request[name]]
    return f" ({', '.join(flags)})" if flags else ""
