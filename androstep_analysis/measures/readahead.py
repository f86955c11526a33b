"""Bytes that were read from the device and never requested (definitions.toml, readahead).

The events of the page cache show the pages that enter and leave it, and those that read calls, faults and writes use.
The requests show the bytes that were read into these pages. One pass follows both in order of time
(native/reuse/readahead.c).
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from androstep_analysis import native
from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.extents import pagesize
from androstep_analysis.measures.certainty import with_inferred
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.parts import in_step
from androstep_analysis.measures.recording import Recording, Tables
from androstep_analysis.measures.tables import Table, counted, is_known, lazy, ordered

PARTS: Final = ("asked", "mapped", "dropped", "pending", "direct", "unknown")
"""Parts of the bytes that were read, in the order of ``enum part``."""

EVENTS: Final = (tracepoints.CACHED, tracepoints.UNCACHED, tracepoints.FAULTED, tracepoints.MAPPED)
"""The events that are necessary to see which pages are used, together with `READ_CALL` or `READ`."""

_IN, _GONE, _ASKED, _WANTED, _MAPPED, _DIRTY, _READ, _DIRECT, _LOST = range(9)
"""``enum row_kind``."""

_KINDS: Final = {
    _IN: (tracepoints.CACHED,),
    _GONE: (tracepoints.UNCACHED,),
    _ASKED: (tracepoints.READ,),
    _WANTED: (tracepoints.READ_CALL, tracepoints.FAULTED, *tracepoints.WRITES),
    _MAPPED: (tracepoints.MAPPED,),
    _DIRTY: tracepoints.DIRTIED,
    _DIRECT: tracepoints.DIRECT,
}

_LARGEST_FILE, _LARGEST_READ, _LARGEST_WRITE, _LARGEST_ORDER = 1 << 60, 1 << 31, 1 << 29, 17
_BEHIND = 1 << 62
"""A time after all others."""
_SOME_PAGE_BYTES = 4096
"""The page size if it is unknown. No page is followed then."""

_NO_INT64, _NO_INT32 = native.none("int64"), native.none("int32")
_ROW: Final[dict[str, Any]] = {
    "ts_ns": pl.Int64,
    "dev": pl.UInt32,
    **dict.fromkeys(("ino", "begin", "end", "done_ns"), pl.Int64),
    "tid": pl.Int32,
    "group": pl.UInt32,
    "kind": pl.UInt8,
}
"""Columns of ``struct page_rows``."""

_SUMS: Final = np.dtype([("bytes", np.int64, len(PARTS)), ("pages", np.int64, len(PARTS))])
"""``struct sums``."""


_library = native.library


def readahead(
    tables: Mapping[str, Table],
    *,
    by: Sequence[str] = (),
    page_bytes: int | None = None,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Return the use of file data that was read from the device: requested, or read ahead and never used.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `requests`, `io` and `fs_events` of one capture (`Capture.tables`).
    by : sequence of str
        Further columns of `io` to group by.
    page_bytes : int, optional
        Size of the kernel's pages (``capture.facts["page_bytes"]``); by default the size that follows from the events.
    recorded : collection of str, optional
        Names of the events that were recorded, including those that never occurred (``capture.manifest.events``); by
        default those in the table.
    lost : Losses, optional
        The losses of the recording; by default none.

    Returns
    -------
    polars.DataFrame
        Dimensions `by` and part (Enum: asked, mapped, dropped, pending, direct, unknown). Metrics bytes [B], which add
        up to all file data that was read, and bytes_ratio [1] (within `by` group). `n` is the number of page reads.
        `coverage` is the share of the bytes for which part and `by` are known. If the recording lacks one of the
        necessary events, everything but direct reads is unknown. ``androstep record --readahead`` records them.

    References
    ----------
    ``schemas/definitions.toml``, readahead.

    Examples
    --------
    >>> table = measures.readahead(capture.tables, page_bytes=capture.facts["page_bytes"])
    >>> table.filter(metric="bytes").select("part", "value").rows()  # the demo is recorded without --readahead
    [('direct', 524288.0), ('unknown', 13365248.0)]
    """
    reads = counted(tables["io"]).filter(pl.col("op") == "read", pl.col("block_type") == "data", pl.col("bytes") > 0)
    is_sure = is_known(by, reads.collect_schema().names())
    groups = reads.select(*by, is_sure=is_sure).unique(maintain_order=True).with_row_index("group").collect()
    fs_events = lazy(tables.get("fs_events", schema.empty("fs_events")), ("fs_events",))
    page_bytes = pagesize.proven(page_bytes, fs_events)
    recorded_names = {*(recorded or ()), *fs_events.select(pl.col("event").cast(pl.String).unique()).collect()["event"]}
    has_reads = not recorded_names.isdisjoint((tracepoints.READ_CALL, tracepoints.READ))
    has_all_events = page_bytes is not None and has_reads and recorded_names.issuperset(EVENTS)
    sums = _follow(
        _event_rows(
            _on_filesystems(fs_events, tables["requests"], page_bytes),
            _KINDS if has_all_events else {_DIRECT: tracepoints.DIRECT},
            page_bytes,
        ),
        pl.concat([_reads(reads, tables["requests"], groups, is_sure, by), _gaps(lost or Losses())]),
        page_bytes or _SOME_PAGE_BYTES,
        groups.height,
    )
    return with_inferred(_tidy(groups, sums, by), reads)


def _on_filesystems(fs_events: pl.LazyFrame, requests: Table, page_bytes: int | None) -> pl.LazyFrame:
    """Return the events with their filesystem and their pages."""
    disks = tracepoints.on_disks(fs_events, lazy(requests))
    return pagesize.counted(tracepoints.on_filesystems(fs_events, disks), page_bytes)


def _event_rows(fs_events: pl.LazyFrame, kinds: Mapping[int, tuple[str, ...]], page_bytes: int | None) -> pl.LazyFrame:
    """Return the events as rows (`_ROW`), without those that have no valid offset in a file."""
    event, size = pl.col("event"), pl.lit(page_bytes, pl.Int64)
    kind = pl.coalesce(pl.when(event.is_in(names)).then(pl.lit(number, pl.UInt8)) for number, names in kinds.items())
    order = pl.col("page_order").fill_null(0).clip(0, _LARGEST_ORDER)
    pages = (
        pl.when(event.is_in([tracepoints.CACHED, tracepoints.UNCACHED]))
        .then(pl.lit(2, pl.Int64).pow(order))
        .when(event.is_in([tracepoints.READ, tracepoints.MAPPED]))
        .then(pl.col("last_page") - pl.col("page") + 1)
        .otherwise(1)
    )
    is_read, is_write = event == tracepoints.READ_CALL, event.is_in(tracepoints.WRITES)
    in_bytes = is_read | is_write | event.is_in(tracepoints.DIRECT)
    begin = pl.when(in_bytes).then("offset_bytes").otherwise(pl.col("page") * size)
    end = begin + pl.when(in_bytes).then("nr_bytes").otherwise(pages * size)
    in_file = pl.min_horizontal(end, (pl.col("last_page") + 1) * size)
    most = pl.when(is_write).then(_LARGEST_WRITE).when(is_read).then(_LARGEST_READ).otherwise(_LARGEST_FILE)
    # The event of a write call is more precise than that of the folio it dirties.
    written = tracepoints.devices(fs_events, event.is_in(tracepoints.WRITES))
    is_double = event.is_in(tracepoints.DIRTIED) & pl.col("dev").is_in(written)
    fits = pl.col("begin").is_between(0, _LARGEST_FILE) & (pl.col("end") - pl.col("begin")).is_between(1, most)
    return (
        fs_events.with_columns(kind=kind, begin=begin, end=pl.when(is_read).then(in_file).otherwise(end))
        .filter(pl.col("kind").is_not_null() & ~is_double & fits)
        .drop_nulls(["dev", "ino"])
        .select(
            *("ts_ns", "dev", "ino", "begin", "end"),
            pl.lit(_NO_INT64, pl.Int64).alias("done_ns"),
            pl.col("tid").fill_null(_NO_INT32),
            pl.lit(0, pl.UInt32).alias("group"),
            "kind",
        )
    )


def _reads(
    reads: pl.LazyFrame, requests: Table, groups: pl.DataFrame, is_sure: pl.Expr, by: Sequence[str]
) -> pl.DataFrame:
    """Return the file data that was read as rows, with the group of each.

    Reads without a known file offset have inode -1.
    """
    is_placed = pl.col("ino").is_not_null() & pl.col("file_offset_bytes").is_between(0, _LARGEST_FILE)
    begin = pl.when(is_placed).then("file_offset_bytes").otherwise(0)
    rows = (
        reads.with_columns(is_sure=is_sure)
        .join(lazy(requests).select("request_id", "part_dev", "submit_tid"), on="request_id", how="left")
        .join(groups.lazy(), on=[*by, "is_sure"], how="left", nulls_equal=True)
        .select(
            ts_ns=pl.coalesce("queue_ns", "issue_ns", "complete_ns").fill_null(0),
            dev=pl.coalesce("part_dev", "dev"),
            ino=pl.when(is_placed).then("ino").otherwise(-1),
            begin=begin,
            end=begin + pl.col("bytes"),
            done_ns=pl.col("complete_ns").fill_null(_NO_INT64),
            tid=pl.col("submit_tid").fill_null(_NO_INT32),
            group="group",
            kind=pl.lit(_READ, pl.UInt8),
        )
    )
    return rows.cast(pl.Schema(_ROW)).collect()


def _gaps(lost: Losses) -> pl.DataFrame:
    """Return a row for each start and each end of lost time within the recording."""
    spans = lost.spans("fs_events")
    times = sorted({begin for begin, _ in spans if begin is not None} | {end or _BEHIND for _, end in spans})
    row = {**dict.fromkeys(_ROW, 0), "kind": _LOST}
    return pl.DataFrame([row | {"ts_ns": time} for time in times], schema=_ROW)


def _follow(events: pl.LazyFrame, others: pl.DataFrame, page_bytes: int, nr_groups: int) -> Any:
    """Return the sums of each group's reads, an array of `_SUMS`."""
    handle = _library().readahead_new(page_bytes, nr_groups)
    if not handle:
        raise MemoryError
    try:
        for rows in in_step(events, others.sort("ts_ns", maintain_order=True)):
            arrays = [np.ascontiguousarray(rows[name].cast(dtype).rechunk().to_numpy()) for name, dtype in _ROW.items()]
            if not _library().readahead_follow(handle, native.columns(rows.height, arrays)):
                raise MemoryError
        address = _library().readahead_finish(handle)
        memory: Any = (ctypes.c_char * ((nr_groups + 1) * _SUMS.itemsize)).from_address(address)
        return np.ndarray(nr_groups + 1, _SUMS, memoryview(memory))[:nr_groups].copy()
    finally:
        _library().readahead_free(handle)


def _tidy(groups: pl.DataFrame, sums: Any, by: Sequence[str]) -> pl.DataFrame:
    dimensions = [*by, "part"]
    parts = [
        groups.with_columns(
            part=pl.lit(part, pl.Enum(PARTS)),
            bytes=pl.Series(sums["bytes"][:, number]),
            pages=pl.Series(sums["pages"][:, number]),
        )
        for number, part in enumerate(PARTS)
    ]
    rows = pl.concat(parts).filter(pl.col("bytes") > 0)
    is_sure = pl.col("is_sure") & (pl.col("part") != "unknown")
    known, whole = rows.select(pl.col("bytes").filter(is_sure).sum(), whole=pl.sum("bytes")).row(0)
    table = rows.group_by(dimensions).agg(
        value=pl.col("bytes").sum().cast(pl.Float64), n=pl.col("pages").sum().cast(pl.Int64)
    )
    of_group = pl.col("value").sum().over(by) if by else pl.col("value").sum()
    coverage = pl.lit(known / whole if whole else None, pl.Float64)
    both = [
        table.with_columns(metric=pl.lit("bytes"), unit=pl.lit("B"), coverage=coverage),
        table.with_columns(
            metric=pl.lit("bytes_ratio"), value=pl.col("value") / of_group, unit=pl.lit("1"), coverage=coverage
        ),
    ]
    return ordered(
        pl.concat([one.select("metric", *dimensions, "value", "unit", "n", "coverage") for one in both]), dimensions
    )


def _of_recording(tables: Tables, by: tuple[str, ...], recording: Recording) -> pl.DataFrame:
    """Measure the tables on their own clock, since events and requests must be in one order."""
    facts = {"page_bytes": recording.facts["page_bytes"], "recorded": recording.events, "lost": recording.losses}
    io = recording.tables["io"]
    there = io.collect_schema().names()
    if added := [name for name in by if name not in there]:
        # The events of the page cache are on the recording's own clock, so the pieces must be too.
        keys = ["request_id", "piece"]
        io = io.lazy().join(tables["io"].lazy().select(*keys, *added), on=keys, how="left", maintain_order="left")
    return readahead({**recording.tables, "io": io}, by=by, **facts)


READAHEAD: Final = Measure(
    "bytes that were read and never requested",
    ("io",),
    _of_recording,
    own=("op", "sync", "block_type"),
    within=(),
    has_windows=False,
    asks_recording=True,
    applied=Applied.AFTER,
)
