"""Bytes of files that processes write, and that the page cache reads for them (definitions.toml, file_io)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.fs import tracepoints
from androstep_analysis.fs.f2fs.tracepoints import META_INODE
from androstep_analysis.link.evidence import inodes
from androstep_analysis.link.owner.processes import Processes
from androstep_analysis.measures.fsyncs import BY, NAMES
from androstep_analysis.measures.measure import Applied, Measure
from androstep_analysis.measures.tables import Table, columns_as_rows, lazy
from androstep_analysis.measures.write_causes import FILE

_EVENTS: Final = (*tracepoints.WRITES, *tracepoints.WRITE_ENDS, tracepoints.CACHED)
_OF_FILES: Final = {*FILE} - {"ino", "incarnation"}
_COLUMNS: Final = ("ts_ns", "tid", "pid", "comm", "event", "dev", "ino", "offset_bytes", "nr_bytes", "page")


def file_io(tables: Mapping[str, Table], *, by: Sequence[str] = NAMES, page_bytes: int | None = None) -> pl.DataFrame:
    """Return the bytes that processes wrote to files, and that were read into the page cache for them.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `fs_events`, `files` and `tasks` of one capture (`Capture.tables`).
    by : sequence of str
        The columns to group by, as for `fsyncs`.
    page_bytes : int, optional
        The size of a page. Without it, `read` is unknown.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`. Metrics written and read [B], writes [count]. `n` is the number of events, coverage is null,
        and `inferred` is the share of a row's events with an inferred file name. Direct I/O and stores through a memory
        map are not included. There are no rows if the recording has no such events.

    Raises
    ------
    ValueError
        If bytes of files cannot be grouped by a column in `by`.

    References
    ----------
    ``schemas/definitions.toml``, file_io; Linux 6.18, include/trace/events/ext4.h, f2fs.h and filemap.h.

    Examples
    --------
    >>> measures.file_io(capture.tables, by=("owner_comm",)).columns
    ['metric', 'owner_comm', 'value', 'unit', 'n', 'coverage']
    """
    if strange := [name for name in by if name not in BY]:
        raise ValueError(f"{', '.join(strange)}: bytes of files can be grouped by {', '.join(BY)}")
    by = [*dict.fromkeys(column for name in by for column in (inodes.FILE if name == "ino" else [name]))]
    events = lazy(tables["fs_events"], ("fs_events",)).filter(pl.col("event").is_in(_EVENTS))
    moved = _moved(events.select(*_COLUMNS, "page_order").collect(), page_bytes)
    tasks = lazy(tables["tasks"], ("tasks",)).collect()
    owned = Processes(tasks).of_threads(moved)
    del moved
    # Further columns would be sorted and joined for each event.
    owned = owned.select("ts_ns", *inodes.NUMBER, "written", "read", *(n for n in by if n.startswith("owner_")))
    of_files = ("dev", *FILE, "valid_from_ns", "valid_to_ns", "source")
    named = inodes.at_time(owned, lazy(tables["files"], ("files",)).select(of_files).collect())
    table = named.group_by(by, maintain_order=True).agg(
        n=pl.len().cast(pl.Int64),
        inferred=(pl.col("source") == "inferred").mean(),
        written=pl.sum("written"),
        read=pl.sum("read"),
        writes=(pl.col("written") > 0).sum().cast(pl.Int64),
    )
    table = table.sort(pl.col("written") + pl.col("read"), *by, descending=[True, *(False for _ in by)])
    rows = columns_as_rows(table, list(by), {"written": "B", "read": "B", "writes": "count"})
    if _OF_FILES.isdisjoint(by):
        return rows
    return rows.join(table.select(*by, "inferred"), on=list(by), how="left", nulls_equal=True, maintain_order="left")


def _moved(events: pl.DataFrame, page_bytes: int | None) -> pl.DataFrame:
    """Return the bytes that each event writes or reads: ts_ns, tid, pid, comm, dev, ino, written, read.

    The end event of a write has the number of bytes that were copied. If a filesystem's end events were not recorded,
    its begin events give the number that was requested. These pages do not count as read:

    - pages that a thread adds to the cache in order to write to them,
    - on F2FS, nodes and metadata, which it caches as pages of inodes 1 and 2,
    - pages of the block device itself.
    """
    event = pl.col("event")
    is_end, is_begin = event.is_in(tracepoints.WRITE_ENDS), event.is_in(tracepoints.WRITES)
    in_order = events if events["ts_ns"].is_sorted() else events.sort("ts_ns", maintain_order=True)
    rows = in_order.with_columns(
        has_ends=is_end.any().over("dev"),
        is_f2fs=tracepoints.is_own("f2fs").any().over("dev"),
        begin=pl.coalesce("offset_bytes", pl.col("page") * pl.lit(page_bytes, pl.Int64)),
    )
    last = {
        name: pl.when(is_begin).then(name).forward_fill().over("tid").alias(f"last_{name}")
        for name in ("dev", "ino", "offset_bytes", "nr_bytes")
    }
    rows = rows.with_columns(*last.values())
    end = pl.col("last_offset_bytes") + pl.col("last_nr_bytes")
    is_own = (pl.col("last_dev") == pl.col("dev")) & (pl.col("last_ino") == pl.col("ino"))
    is_own &= (pl.col("begin") < end) & (pl.col("begin") + pl.lit(page_bytes, pl.Int64) > pl.col("last_offset_bytes"))
    is_metadata = (pl.col("ino") == pl.col("dev")) | (pl.col("is_f2fs") & (pl.col("ino") <= META_INODE))
    is_read = (event == tracepoints.CACHED) & ~is_own.fill_null(False) & ~is_metadata.fill_null(False)
    pages = pl.lit(2, pl.Int64).pow(pl.col("page_order").fill_null(0))
    is_write = pl.when("has_ends").then(is_end).otherwise(is_begin)
    return rows.select(
        *("ts_ns", "tid", "pid", "comm", "dev", "ino"),
        written=pl.when(is_write).then(pl.col("nr_bytes").clip(0)).fill_null(0),
        read=pl.when(is_read).then(pages * pl.lit(page_bytes, pl.Int64)).fill_null(0),
    ).filter((pl.col("written") > 0) | (pl.col("read") > 0))


FILE_IO: Final = Measure(
    "bytes of files that processes wrote and read, by their calls",
    ("fs_events", "files", "tasks"),
    lambda t, by, recording: file_io(t, by=by, page_bytes=recording.facts.get("page_bytes")),
    by=NAMES,
    takes=BY,
    has_windows=False,
    asks_recording=True,
    applied=Applied.RESULT,
)
