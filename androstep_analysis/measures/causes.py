"""The owner, the file and the cause of the I/O (definitions.toml, cause)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.measure import Measure
from androstep_analysis.measures.parts import of_requests
from androstep_analysis.measures.quantiles import quantiles
from androstep_analysis.measures.tables import (
    Table,
    counted,
    is_interchangeable,
    lazy,
    ordered,
    shares,
    tidy,
    with_known_share,
)

CAUSES: Final = (
    *("fsync", "direct", "synchronous", "writeback"),
    *("journal", "metadata", "metadata_or_journal", "swap"),
    *("read", "readahead", "fault", "discard", "other"),
)
"""The causes of a request, in the order of definitions.toml."""

BY: Final = ("owner", "path")
"""The default grouping. `owner` is the package of the process if it is known, else the name of the process."""

_UNPLACED: Final = ("dev", "ino", "incarnation", "block_type")
"""The columns that distinguish groups without a path."""

_P99: Final = {"p99": 0.99}


def causes(
    tables: Mapping[str, Table],
    *,
    by: Sequence[str] = BY,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Add up requests and bytes by owner, file and cause.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `io`, `requests` and `fs_events` of one capture (`Capture.tables`).
    by : sequence of str
        The columns to group by: ``owner``, and any of table `io`.
    recorded, lost : optional
        As in `with_cause`.

    Returns
    -------
    polars.DataFrame
        Dimensions `by`, op (Enum) and cause (Enum of `CAUSES`). Metrics count [requests], bytes [B], count_ratio and
        bytes_ratio [1] (shares of the operation). `coverage` is the share of the operation's bytes for which everything
        in `by` is known as a fact. `inferred` is the share of a row's bytes with an inferred name or block type. Empty
        flushes carry no data and have no row.

    References
    ----------
    ``schemas/definitions.toml``, cause.

    Examples
    --------
    >>> table = measures.causes(capture.tables, by=())
    >>> table.filter(metric="bytes", op="write").select("cause", "value").rows()[:2]
    [('fsync', 17104896.0), ('direct', 4194304.0)]
    """
    dimensions = [*by, "op", "cause"]
    pieces = with_cause(tables, recorded=recorded, lost=lost)
    is_named = pl.all_horizontal(pl.lit(True), *(pl.col(name).is_not_null() for name in by))
    groups = _sums(pieces.with_columns(named=is_named), dimensions, known=pl.col("bytes").filter(~_INFERRED, "named"))
    table = shares(with_known_share(tidy(groups, dimensions), groups), dimensions, within=("op",))
    inferred = groups.select(*dimensions, _share_inferred())
    return ordered(table.join(inferred, on=dimensions, how="left", nulls_equal=True), dimensions)


def largest(
    tables: Mapping[str, Table],
    most: int,
    *,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Return the combinations of owner, file and cause with the most bytes written, and those with the most bytes read.

    Parameters
    ----------
    tables : mapping of str to Table
        As in `causes`.
    most : int
        The largest number of rows to return. If there are enough, three tenths of them are reads and three tenths are
        writes, whatever their size.
    recorded, lost : optional
        As in `with_cause`.

    Returns
    -------
    polars.DataFrame
        The writes, then the reads, each with the largest first. Operations that move no data, such as discards, have
        no row. Columns owner and path (String), dev (UInt32), ino (Int64), incarnation (Int32) and block_type (Enum;
        these four only where there is no path), op and cause (Enum), count and bytes (Int64), share (Float64, of all
        bytes of the operation), p99_ns (Int64: latency from issue to completion, or from queueing if the recording has
        no such latency; null where it is unknown for all requests) and inferred (Float64, as in `causes`).

    Examples
    --------
    >>> measures.largest(capture.tables, 2).select("owner", "cause", "bytes").rows()
    [('.example.mail', 'journal', 5853184), ('.example.game', 'readahead', 9437184)]
    """
    unplaced = pl.col("path").is_null()
    # ext4's journal has an inode number, which is less clear than its block type.
    has_number = unplaced & pl.col("ino").is_not_null() & (pl.col("block_type") != "journal").fill_null(True)
    pieces = with_cause(tables, recorded=recorded, lost=lost).with_columns(
        *(pl.when(has_number).then(name).alias(name) for name in _UNPLACED[:-1]),
        block_type=pl.when(unplaced & ~has_number).then("block_type"),
    )
    groups = ["owner", "path", *_UNPLACED, "op", "cause"]
    sums = _sums(pieces.filter(pl.col("op").is_in(["read", "write"])), groups)
    rows = sums.with_columns(_share_inferred(), share=pl.col("bytes") / pl.col("bytes").sum().over("op"))
    # Sort by all columns, so that the order of rows of equal size does not depend on the order of the groups.
    rows = rows.sort("bytes", *groups, descending=[True, *[False] * len(groups)], nulls_last=True)
    written, read = rows.filter(op="write"), rows.filter(op="read")
    least = most * 3 // 10
    reads = min(max(rows.head(most).filter(op="read").height, least), most - least)
    reads = min(max(reads, most - written.height), read.height)
    rows = pl.concat([written.head(most - reads), read.head(reads)]).with_row_index("row")
    requests = lazy(tables["requests"])
    has_issue = requests.select(pl.all_horizontal(pl.col("issue_ns", "complete_ns").is_not_null()).any())
    begin = pl.col("issue_ns" if has_issue.collect().item() else "queue_ns")
    is_candidate = pl.col("path").is_in(rows["path"].drop_nulls().implode()).fill_null(True)
    ends = pieces.filter(is_candidate).join(rows.lazy().select("row", *groups), on=groups, nulls_equal=True)
    ends = ends.select("row", "request_id", span=pl.col("complete_ns") - begin).drop_nulls("span")
    unknown = requests.filter(is_interchangeable(requests)).select("request_id")
    spans = ends.unique(["row", "request_id"]).join(unknown, on="request_id", how="anti").collect()
    of_rows = spans.group_by("row").agg(n=pl.len().cast(pl.Int64), least=pl.col("span").min())
    p99 = quantiles(spans.lazy(), "span", of_rows, _P99).select("row", p99_ns="value")
    rows = rows.join(p99, on="row", how="left", maintain_order="left")
    return rows.select(*groups, "count", "bytes", "share", "p99_ns", "inferred")


def with_cause(
    tables: Mapping[str, Table], *, recorded: Collection[str] | None = None, lost: Losses | None = None
) -> pl.LazyFrame:
    """Return the pieces of I/O that carry data, with their owner and cause.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `io`, `requests` and `fs_events` of one capture.
    recorded : collection of str, optional
        Names of the events that were recorded (``capture.manifest.events``); by default those in the table.
    lost : Losses, optional
        The losses of the recording. A read after lost events is not counted as a page fault.

    Returns
    -------
    polars.LazyFrame
        The rows of table `io` that are `counted` and carry data, with two columns more. owner (String) is the package
        of the owner if it is known, else its process; null: unknown. cause is an Enum of `CAUSES`.
    """
    flags = ("readahead", "meta", "swap")
    pieces, requests = counted(tables["io"]).filter(pl.col("bytes") > 0), lazy(tables["requests"])
    fs_events = lazy(tables.get("fs_events", schema.empty("fs_events")), ("fs_events",))
    faults = _faults(pieces, requests, fs_events, recorded, lost)
    # The join keeps these rows in memory. Most requests have none of the flags.
    flagged = requests.filter(pl.any_horizontal(flags)).select("request_id", *flags)
    pieces = pieces.join(flagged, on="request_id", how="left", maintain_order="left")
    if faults is None:
        pieces = pieces.with_columns(is_fault=pl.lit(False))
    else:
        marked = faults.lazy().with_columns(is_fault=pl.lit(True))
        pieces = pieces.join(marked, on=["request_id", "piece"], how="left", maintain_order="left")
    return pieces.with_columns(owner=pl.coalesce("owner_package", "owner_comm"), cause=_cause()).drop(
        *flags, "is_fault"
    )


def _cause() -> pl.Expr:
    """Return the cause of a piece: the first rule that holds. A write without flags has none (null)."""
    op, block_type, via = pl.col("op"), pl.col("block_type"), pl.col("owner_via")
    is_data = block_type == "data"
    # The events of a buffered write show which page was written or dirtied. A direct write has no page: its submitter
    # is the owner.
    is_buffered = via.is_in(["write_begin", "dirty_folio"])
    is_flagged = pl.col("meta") & (block_type.is_null() | (block_type == "unknown"))
    lines = [
        (op.is_in(["discard", "secure_erase"]), "discard"),
        (~op.is_in(["read", "write"]), "other"),
        (pl.col("swap"), "swap"),
        (block_type == "journal", "journal"),
        (block_type.is_in(["metadata", "directory"]), "metadata"),
        (is_flagged, "metadata_or_journal"),
        ((op == "read") & pl.col("is_fault"), "fault"),
        ((op == "read") & pl.col("readahead"), "readahead"),
        (op == "read", "read"),
        (is_data & (via == "submitter"), "direct"),
        (is_data & is_buffered & pl.col("sync"), "fsync"),
        (pl.col("sync"), "synchronous"),
        (~pl.col("sync"), "writeback"),
    ]
    kind = pl.Enum(CAUSES)
    return pl.coalesce(*(pl.when(holds.fill_null(False)).then(pl.lit(cause, kind)) for holds, cause in lines))


def _faults(
    pieces: pl.LazyFrame,
    requests: pl.LazyFrame,
    fs_events: pl.LazyFrame,
    recorded: Collection[str] | None,
    lost: Losses | None,
) -> pl.DataFrame | None:
    """Return the pieces (request_id, piece) that a page fault read, or None if the recording lacks the events.

    Linux 6.12 and later report both ways to read through the page cache before the read: ``filemap_fault`` and
    ``filemap_get_pages``. The last of the two events in the submitting thread decides.
    """
    reads = (tracepoints.READ_CALL, tracepoints.READ)
    recorded_names = {*(recorded or ()), *fs_events.select(pl.col("event").unique().cast(pl.String)).collect()["event"]}
    if tracepoints.FAULTED not in recorded_names or recorded_names.isdisjoint(reads):
        return None
    lookups = fs_events.filter(pl.col("event").cast(pl.String).is_in([*reads, tracepoints.FAULTED]))
    lookup_times = lookups.select(
        "tid", "dev", "ino", asked_ns="ts_ns", is_fault=pl.col("event").cast(pl.String) == tracepoints.FAULTED
    )
    data = pieces.filter(pl.col("op") == "read", pl.col("block_type") == "data").drop_nulls("queue_ns")
    data = data.select("request_id", "piece", "queue_ns", of_ino="ino")
    threads = requests.select("request_id", "part_dev", "submit_tid").drop_nulls("submit_tid")
    of_thread = data.join(threads, on="request_id").collect()
    last_lookups = of_thread.sort("queue_ns").join_asof(
        lookup_times.drop_nulls("tid").sort("asked_ns").collect(),
        left_on="queue_ns", right_on="asked_ns", by_left="submit_tid", by_right="tid", check_sortedness=False,
    )  # fmt: skip
    last_lookups = last_lookups.filter(
        pl.col("is_fault"), pl.col("of_ino") == pl.col("ino"), pl.col("part_dev") == pl.col("dev")
    )
    if lost is not None and last_lookups.height:
        is_lost = lost.between(
            last_lookups["asked_ns"], last_lookups["queue_ns"], last_lookups["part_dev"], "fs_events"
        )
        last_lookups = last_lookups.filter(~is_lost)
    return last_lookups.select("request_id", "piece")


_INFERRED: Final = (
    ((pl.col("owner_via") == "inferred") & pl.col("owner").is_not_null())
    | ((pl.col("map_source") == "inferred") & (pl.col("path").is_not_null() | (pl.col("block_type") != "unknown")))
).fill_null(False)
"""Whether the owner, the file or the block type of a piece is only inferred."""


def _sums(pieces: pl.LazyFrame, dimensions: Sequence[str], known: pl.Expr | None = None) -> pl.DataFrame:
    """Return the requests (count), bytes, inferred bytes and known bytes of each group."""
    rows = pieces.with_columns(inferred=_INFERRED)
    return of_requests(
        rows,
        dimensions,
        count=pl.col("request_id").n_unique().cast(pl.Int64),
        bytes=pl.col("bytes").sum(),
        inferred=pl.col("bytes").filter("inferred").sum(),
        **({} if known is None else {"known": known.sum()}),
    )


def _share_inferred() -> pl.Expr:
    return (pl.col("inferred") / pl.col("bytes")).alias("inferred")


CAUSE: Final = Measure(
    "I/O by owner, file and cause: fsync, writeback, journal, read, …",
    ("io", "requests", "fs_events"),
    lambda t, by, recording: causes(t, by=by, recorded=recording.events, lost=recording.losses),
    by=BY,
    own=("op", "cause"),
    within=("op",),
    has_windows=False,
    asks_recording=True,
)
