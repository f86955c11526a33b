"""Bytes on the device for each fsync and each SQLite transaction (definitions.toml, sync_cost and sqlite_cost)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.link.owner import handles
from androstep_analysis.measures import synced_files
from androstep_analysis.measures.measure import of_costs
from androstep_analysis.measures.syscalls import FAILED
from androstep_analysis.measures.tables import Table, lazy, ordered
from androstep_analysis.measures.write_causes import FILE, OWNER
from androstep_analysis.measures.write_cost import PARTS
from androstep_analysis.measures.write_shares import WriteData, shares, write_data

SYNCS: Final = ("fsync", "fdatasync")
BY: Final = (*OWNER, *FILE)

LOGS: Final = ("journal", "wal", "none")
"""The log of a SQLite transaction. Journal modes MEMORY and OFF have none."""

_CALLER: Final = ("ts_ns", "tid", "pid", "comm", "dev", "ino")

_SUFFIXES: Final = {"journal": "-journal", "wal": "-wal"}
_WAL_HEADER_BYTES: Final = 32
_ZEROED_BYTES: Final = 28
"""Journal mode PERSIST overwrites this many bytes of the journal's header at the end. A header is longer."""


def sync_cost(
    tables: Mapping[str, Table],
    *,
    by: Sequence[str] = (),
    page_bytes: int | None = None,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Return the bytes that fsync and fdatasync cause on the device.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `requests`, `io`, `fs_events`, `files`, `tasks` and `syscalls` of one capture (`Capture.tables`).
    by : sequence of str
        Further columns to group the calls by: any of owner_pid, owner_comm, owner_package (the caller), ino, path,
        file_type, package (of the file; null if the file is unknown).
    page_bytes, recorded, lost : optional
        As in `write_cost`.

    Returns
    -------
    polars.DataFrame
        Dimensions call (String: fsync, fdatasync), `by` and part (Enum, as in `write_cost`). Metric cost [B]. Bytes
        that no call causes are in rows with a null call. Without part discard, the cost adds up to the bytes of all
        write requests. Metric cost_per_sync [B] is the cost divided by the number of calls. `n` is the number of calls,
        `coverage` the share of the bytes that calls cause. There are no rows if the recording has no such calls.

    Raises
    ------
    ValueError
        If calls of fsync cannot be grouped by a column in `by`.

    References
    ----------
    ``schemas/definitions.toml``, sync_cost.

    Examples
    --------
    >>> measures.sync_cost(capture.tables).is_empty()  # no system calls were recorded
    True
    """
    if strange := [name for name in by if name not in BY]:
        raise ValueError(f"{', '.join(strange)}: calls of fsync can be grouped by {', '.join(BY)}")
    known = write_data(tables, page_bytes, lost, recorded)
    calls = known.causes.named(syncs(known, tables), "named_ns")
    of_pieces = ("at", "part_dev", "time", "part")
    rows = pl.concat(shares(known, ())).group_by(of_pieces, maintain_order=True).agg(pl.sum("bytes"))
    rows = rows if calls.height else rows.clear()
    threads = known.pieces.select("at", "submit_tid", "owner_via")
    rows = rows.join(threads, on="at", how="left", maintain_order="left").with_row_index("row")
    submitted = _submitted(rows, calls)
    found = pl.concat([submitted, _waited_for(known, rows.join(submitted, on="row", how="anti"), calls)])
    cost = rows.drop("bytes").join(found, on="row")
    rest = rows.join(found.group_by("row").agg(taken=pl.sum("bytes")), on="row", how="left")
    rest = rest.with_columns(pl.col("bytes") - pl.col("taken").fill_null(0), sync=pl.lit(None, pl.UInt32))
    every = pl.concat([cost, rest.select(cost.columns)]).filter(pl.col("bytes") > 0)
    whole, on_account = int(every["bytes"].sum()), int(cost["bytes"].sum())
    dimensions = ["call", *by]
    every = every.join(calls.select("sync", *dimensions), on="sync", how="left")
    sums = every.group_by(*dimensions, "part").agg(value=pl.col("bytes").sum().cast(pl.Float64))
    numbers = calls.group_by(dimensions).agg(n=pl.len().cast(pl.Int64))
    sums = sums.join(numbers, on=dimensions, how="left", nulls_equal=True)
    return _with_ratio(sums, [*dimensions, "part"], "cost_per_sync", on_account / whole if whole else None)


def sqlite_cost(
    tables: Mapping[str, Table],
    *,
    databases: Collection[str] = (),
    page_bytes: int | None = None,
    recorded: Collection[str] | None = None,
    lost: Losses | None = None,
) -> pl.DataFrame:
    """Return the bytes that a transaction of SQLite causes on the device.

    Parameters
    ----------
    tables : mapping of str to Table
        Tables `requests`, `io`, `fs_events`, `files`, `tasks` and `syscalls` of one capture (`Capture.tables`).
    databases : collection of str
        Paths of further databases. Those with a file type of SQLite in table `files`, or with a journal or a WAL, are
        recognized.
    page_bytes, recorded, lost : optional
        As in `write_cost`.

    Returns
    -------
    polars.DataFrame
        Dimensions database (String: its path), log (Enum: journal, wal, none; null: unknown) and part (Enum, as in
        `write_cost`). Metrics cost [B], of all transactions, cost_per_transaction [B], and syncs_per_transaction [1],
        the calls of fsync and fdatasync on these files, with a null part. `n` is the number of transactions. `coverage`
        is the share of the bytes of database files that were written within transactions. There are no rows if the
        recording has no such calls.

    References
    ----------
    ``schemas/definitions.toml``, sqlite_cost; https://www.sqlite.org/fileformat.html.

    Examples
    --------
    >>> measures.sqlite_cost(capture.tables).is_empty()  # no system calls were recorded
    True
    """
    known = write_data(tables, page_bytes, lost, recorded)
    made = syncs(known, tables)
    rows = without_log(known, transactions(database_calls(known, made, databases)))
    found = pl.concat([_of_transactions(part, rows) for part in shares(known, ("path", "owner_pid"))])
    inside = found.filter(pl.col("time") < pl.col("end_ns"))
    whole, within = int(found["bytes"].sum()), int(inside["bytes"].sum())
    sums = inside.group_by("database", "log", "part").agg(value=pl.col("bytes").sum().cast(pl.Float64))
    numbers = rows.group_by("database", "log").agg(n=pl.len().cast(pl.Int64), syncs=pl.col("syncs").mean())
    coverage = within / whole if whole else None
    sums = sums.join(numbers.drop("syncs"), on=["database", "log"], nulls_equal=True)
    table = _with_ratio(sums, ["database", "log", "part"], "cost_per_transaction", coverage)
    per_transaction = numbers.select(
        "database", "log", "n", metric=pl.lit("syncs_per_transaction"), value=pl.col("syncs"), unit=pl.lit("1"),
        part=pl.lit(None, pl.Enum(PARTS)), coverage=pl.lit(coverage, pl.Float64),
    )  # fmt: skip
    return ordered(pl.concat([table, per_transaction.select(table.columns)]), ["database", "log", "part"])


def _with_ratio(sums: pl.DataFrame, dimensions: Sequence[str], ratio: str, coverage: float | None) -> pl.DataFrame:
    """Return metrics cost and `ratio` (cost divided by `n`) of these sums (value, n)."""
    cost = sums.with_columns(
        pl.col("part").cast(pl.Enum(PARTS)),
        metric=pl.lit("cost"),
        unit=pl.lit("B"),
        coverage=pl.lit(coverage, pl.Float64),
    )
    each = cost.filter(pl.col("n") > 0).with_columns(metric=pl.lit(ratio), value=pl.col("value") / pl.col("n"))
    return ordered(pl.concat([cost, each]).with_columns(pl.col("n").fill_null(0)), dimensions)


# -- calls of fsync ---------------------------------------------------------------------------------------------------


def syncs(known: WriteData, tables: Mapping[str, Table]) -> pl.DataFrame:
    """Return the successful calls of fsync in order of time.

    Columns are sync (index), call, ts_ns, end_ns, tid, pid, comm, and dev, ino and named_ns of the file
    (`synced_files`), which are null if the file is unknown.
    """
    calls = lazy(tables.get("syscalls", schema.empty("syscalls")), ("syscalls",))
    made = calls.filter(pl.col("call").is_in(SYNCS), pl.col("state") == "whole", ~FAILED).drop_nulls(["ts_ns", "tid"])
    rows = made.select(
        "call", "ts_ns", "tid", "pid", "comm", "fd", end_ns=pl.col("ts_ns") + pl.col("duration_ns").fill_null(0)
    ).collect()  # fmt: skip
    tasks = lazy(tables.get("tasks", schema.empty("tasks")), ("tasks",))
    named = synced_files.with_files(rows.sort("ts_ns"), calls, known.fs_events, tasks, known.lost)
    return named.drop("fd").with_row_index("sync")


def _submitted(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes that the calling thread submits during its call: row, sync, bytes."""
    found = rows.drop_nulls(["time", "submit_tid"]).sort("time").join_asof(
        calls.select("sync", "end_ns", submit_tid="tid", time="ts_ns").sort("time"),
        on="time", by="submit_tid", check_sortedness=False,
    )  # fmt: skip
    return found.filter(pl.col("time") <= pl.col("end_ns")).select("row", "sync", "bytes")


def _waited_for(known: WriteData, rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes that the filesystem's own threads submit while calls wait: row, sync, bytes.

    Calls that wait at the same time get equal shares, in whole bytes.
    """
    committing = handles.commits(known.fs_events)["tid"].unique()
    is_moved = pl.col("owner_via").is_in(["handle", "filesystem"]) | pl.col("submit_tid").is_in(committing.implode())
    moved = rows.filter(is_moved).select("row", "part_dev", "time", "bytes")
    waiting = calls.select("sync", "dev", "ts_ns", "end_ns")
    pairs = moved.join_where(
        waiting,
        pl.col("part_dev") == pl.col("dev"),
        pl.col("time") >= pl.col("ts_ns"),
        pl.col("time") <= pl.col("end_ns"),
    ).sort("row", "sync")
    number, count = pl.int_range(pl.len()).over("row"), pl.len().over("row")
    size = pl.col("bytes")
    return pairs.select("row", "sync", bytes=size * (number + 1) // count - size * number // count)


# -- transactions of SQLite -------------------------------------------------------------------------------------------


def _database(path: pl.Expr) -> pl.Expr:
    """Return the path of the database of a file: itself, or the one to which a journal or WAL belongs."""
    return path.str.strip_suffix(_SUFFIXES["journal"]).str.strip_suffix(_SUFFIXES["wal"])


def _of_databases(rows: pl.DataFrame, databases: pl.Series) -> pl.DataFrame:
    """Return the rows (path) for files of these databases, with column database."""
    database = _database(pl.col("path").str.strip_suffix("-shm"))
    return rows.with_columns(database=database).filter(pl.col("database").is_in(databases.implode()))


def _of_transactions(rows: pl.DataFrame, transactions: pl.DataFrame) -> pl.DataFrame:
    """Return the shares (path, owner_pid) of writes by transactions.

    A write to a file of a database belongs to the last transaction of the database that began before it. A write
    without a known file belongs to the last one that its process began.
    """
    begun = transactions.sort("begin_ns").with_columns(time="begin_ns")
    named = _of_databases(rows, transactions["database"].unique()).sort("time")
    nameless = rows.filter(pl.col("path").is_null(), pl.col("part") != "discard").drop_nulls("owner_pid").sort("time")
    found = named.join_asof(begun.drop("owner_pid"), on="time", by="database", check_sortedness=False)
    more = nameless.join_asof(begun, on="time", by="owner_pid", check_sortedness=False)
    return pl.concat([found, more.filter(pl.col("time") < pl.col("end_ns")).select(found.columns)])


def database_calls(known: WriteData, syncs: pl.DataFrame, given_databases: Collection[str]) -> pl.DataFrame:
    """Return the writes to files of databases and their syncs, in order of time.

    Columns are ts_ns, end_ns, database, kind (journal, wal or none: the database itself), is_sync, offset_bytes,
    nr_bytes.
    """
    writers = known.causes.writers
    logs = writers.filter(pl.any_horizontal(pl.col("path").str.ends_with(end) for end in _SUFFIXES.values()))
    by_type = _database_of(writers.filter(file_type="sqlite_db"))
    databases = pl.concat([_database_of(logs), by_type, pl.Series(given_databases, dtype=pl.String)]).unique()
    wrote = known.fs_events.filter(pl.col("event").is_in(tracepoints.WRITES))
    writes = wrote.select(*_CALLER, "offset_bytes", "nr_bytes").collect()
    none = {name: pl.lit(None, pl.Int64) for name in ("offset_bytes", "nr_bytes")}
    both = pl.concat([
        writes.with_columns(end_ns="ts_ns", named_ns="ts_ns", is_sync=pl.lit(False)),
        syncs.select(*_CALLER, **none, end_ns="end_ns", named_ns="named_ns", is_sync=pl.lit(True)),
    ])  # fmt: skip
    rows = _of_databases(known.causes.named(both, "named_ns"), databases)
    kind = pl.lit("none")
    for name, suffix in _SUFFIXES.items():
        kind = pl.when(pl.col("path").str.ends_with(suffix)).then(pl.lit(name)).otherwise(kind)
    return rows.with_columns(kind=kind).sort("ts_ns", maintain_order=True)


def without_log(known: WriteData, transactions: pl.DataFrame) -> pl.DataFrame:
    """Return the transactions, with a null log if SQLite may have kept one in a file without a known name.

    Writes to the journal of a transaction come after the begin of the previous transaction.
    """
    writes = known.fs_events.filter(pl.col("event").is_in(tracepoints.WRITES)).select(_CALLER).collect()
    nameless = known.causes.named(writes).filter(pl.col("path").is_null()).drop_nulls("owner_pid").sort("ts_ns")
    rows = transactions.with_columns(
        since_ns=pl.col("begin_ns").shift().over("database").fill_null(-1), ts_ns=pl.col("end_ns")
    ).with_row_index("row")  # fmt: skip
    found = rows.sort("ts_ns").join_asof(
        nameless.select("owner_pid", "ts_ns", nameless_ns="ts_ns"), on="ts_ns", by="owner_pid", check_sortedness=False
    ).sort("row")  # fmt: skip
    may_have_log = (pl.col("log") == "none") & (pl.col("nameless_ns") >= pl.col("since_ns")).fill_null(False)
    return found.with_columns(pl.when(~may_have_log).then("log")).select(transactions.columns)


def _database_of(files: pl.DataFrame) -> pl.Series:
    return files.select(_database(pl.col("path"))).to_series()


def transactions(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the transactions that contain a sync: database, log, owner_pid, begin_ns, end_ns, syncs.

    A transaction begins with one of these:

    - the write of a journal's header,
    - the first write to the WAL after a sync of it, unless the previous write was the WAL's own header,
    - without journal or WAL, the first write to the database after a sync of it.

    It ends at the begin of the next one, the last one with its last sync.
    """
    of, of_kind = "database", ("database", "kind")
    is_write, kind = ~pl.col("is_sync"), pl.col("kind")
    begin, size = pl.col("offset_bytes"), pl.col("nr_bytes")
    synced = (pl.col("is_sync").cum_sum() - pl.col("is_sync")).over(of_kind)
    rows = calls.with_columns(
        synced=synced,
        is_header=(begin == 0) & pl.when(kind == "wal").then(size == _WAL_HEADER_BYTES).otherwise(size > _ZEROED_BYTES),
        since=pl.when(pl.col("is_sync") & (kind == "none")).then("ts_ns").forward_fill().over(of),
        logged=pl.when(is_write & (kind != "none")).then("ts_ns").forward_fill().over(of),
        last_log=pl.when(is_write & (kind != "none")).then("kind").forward_fill().over(of),
    )
    before = rows.filter(is_write).with_columns(
        is_first=(pl.col("synced") > pl.col("synced").shift().over(of_kind)).fill_null(True),
        follows_header=pl.col("is_header").shift().over(of_kind).fill_null(False),
    )
    # With a WAL, every write to the database is a checkpoint, possibly of frames from before the last checkpoint.
    is_logged = (pl.col("last_log") == "wal").fill_null(False) | (
        pl.col("logged").is_not_null() & (pl.col("since").is_null() | (pl.col("logged") >= pl.col("since")))
    )
    begins = (
        pl.when(kind == "journal")
        .then(pl.col("is_header"))
        .when(kind == "wal")
        .then(pl.col("is_first") & ~pl.col("follows_header"))
        .otherwise(pl.col("is_first") & ~is_logged)
    )
    marked = pl.concat([before.with_columns(begins=begins), rows.filter("is_sync").with_columns(begins=pl.lit(False))],
                       how="diagonal").sort("ts_ns", maintain_order=True)  # fmt: skip
    numbered = marked.with_columns(number=pl.col("begins").cast(pl.Int64).cum_sum().over(of))
    found = (
        numbered.filter(pl.col("number") > 0)
        .group_by(of, "number", maintain_order=True)
        .agg(
            log=pl.when((kind == "wal").any()).then(pl.lit("wal")).when((kind == "journal").any())
            .then(pl.lit("journal")).otherwise(pl.lit("none")),
            begin_ns=pl.col("ts_ns").first(),
            owner_pid=pl.col("owner_pid").first(),
            last_ns=pl.col("end_ns").filter("is_sync").max() + 1,
            syncs=pl.col("is_sync").sum(),
        )
        .sort(of, "number")
    )  # fmt: skip
    end = pl.coalesce(pl.col("begin_ns").shift(-1).over(of), "last_ns")
    log = pl.col("log").cast(pl.Enum(LOGS))
    return found.with_columns(log, end_ns=end).filter(pl.col("syncs") > 0).select(
        of, "log", "owner_pid", "begin_ns", "end_ns", "syncs"
    )  # fmt: skip


SYNC_COST: Final = of_costs("bytes on the device for each call of fsync", ("io", "syscalls"), sync_cost, takes=BY)

SQLITE_COST: Final = of_costs(
    "bytes on the device for each transaction of SQLite",
    ("io", "syscalls"),
    lambda t, *, by, **known: sqlite_cost(t, **known),
    takes=(),
)
