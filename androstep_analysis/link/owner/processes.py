"""Find the process of each thread that an event names, and whether it acts on its own behalf."""

from __future__ import annotations

import polars as pl

from androstep_analysis.common import quantities
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest import tasks as kinds

OTHERS_BYTES = ("writeback", "journal", "gc", "kernel")
"""Kinds of threads that move data of other processes."""

_FILESYSTEM = ("journal", "gc")
"""Kinds of threads that belong to the filesystem itself."""

_WORKER = r"^iou-(?:wrk|sqp|mgr)-(\d+)$"
"""A thread of io_uring, with the thread that it works for (Linux io_uring/io-wq.c and sqpoll.c, since 5.12)."""

_ALWAYS = -(1 << 62)

_FOUND = {
    **dict.fromkeys(("is_process", "is_server", "is_filesystem"), pl.Boolean),
    **{"owner_pid": pl.Int32, "owner_tid": pl.Int32, "owner_comm": pl.String, "owner_package": pl.String},
}
"""The columns that `Processes.of_threads` adds."""

_NAMED = 5
"""Number of names in a message."""

_START_NS = 10_000_000
"""A listing may date the start of a thread so much earlier than the trace: /proc counts in 1/100 s (USER_HZ)."""


class Processes:
    """The processes and names of threads by table `tasks`.

    The name of a process is that of its first thread at the time, or the thread's own name if that is unknown. A thread
    of io_uring belongs to the process of the thread in its name.
    """

    def __init__(self, tasks: pl.DataFrame) -> None:
        self._changes = pl.concat([tasks["valid_from_ns"], tasks["valid_to_ns"]]).drop_nulls().unique().sort()
        # Only listings have users. Their names are those at one time, not since the start of the thread.
        is_listed = pl.col("uid").is_not_null()
        traced, listed = tasks.filter(~is_listed), tasks.filter(is_listed)
        columns, ns = ("tid", "valid_from_ns"), pl.col("valid_from_ns")
        named = {"traced_comm": "comm", "traced_pid": "pid", "traced_end_ns": "valid_to_ns"}
        self._traced = _Versions(traced.select(*columns, traced_ns=ns, **named), ["tid"])
        self._listed = _Versions(
            listed.select(*columns, listed_ns=ns, listed_comm="comm", listed_pid="pid", listed_kind="kind"), ["tid"]
        )
        self._packages = _Versions(listed.select(*columns, "comm", listed_package="package"), ["tid", "comm"])

    def of_threads(self, threads: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of `threads` (ts_ns, tid, pid, comm of an event, and any other columns) with further columns.

        - owner_pid, owner_tid, owner_comm, owner_package: null for threads that move data of other processes, or serve
          them
        - is_process
        - is_server: `tasks.serves_others`; never with is_process
        - is_filesystem: a thread of the filesystem itself (journal, checkpoint, garbage collection)
        """
        if threads.is_empty():
            return threads.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _FOUND.items())
        keys = ["change", "tid", "pid", "comm"]
        change = pl.when(pl.col("ts_ns").is_not_null()).then(self._changes.search_sorted(threads["ts_ns"], "right"))
        rows = threads.with_columns(change=change)
        # The result for a thread changes only when table tasks does: most rows are equal.
        alike = rows.select("ts_ns", *keys).unique(keys, keep="first", maintain_order=True).sort("ts_ns")
        parts = [self._of_each(alike.filter(pl.col("ts_ns").is_not_null()), is_dated=True)]
        if threads["ts_ns"].has_nulls():
            parts.append(self._of_each(alike.filter(pl.col("ts_ns").is_null()), is_dated=False))
        attributed = pl.concat(parts).drop("ts_ns")
        return rows.join(attributed, on=keys, how="left", nulls_equal=True, maintain_order="left").drop("change")

    def _of_each(self, threads: pl.DataFrame, *, is_dated: bool) -> pl.DataFrame:
        """Return `of_threads` of rows without repetitions, sorted by time, if they have one (`is_dated`)."""
        worker = pl.when(pl.col("pid").is_null()).then(pl.col("comm").str.extract(_WORKER).cast(pl.Int32, strict=False))
        asking = threads.with_columns(asking_tid=pl.coalesce(worker, "tid"))
        table = self._thread_at(asking, "asking_tid", is_dated).with_columns(
            task_pid=pl.coalesce("pid", "thread_pid"),
            task_comm=pl.coalesce(pl.when(worker.is_null()).then("comm"), "thread_comm", "comm"),
            task_kind="thread_kind",
        )
        first = self._thread_at(table.drop("thread_pid", "thread_comm", "thread_kind"), "task_pid", is_dated)
        is_first = pl.col("asking_tid") == pl.col("task_pid")
        is_other = (pl.col("thread_pid") != pl.col("task_pid")).fill_null(False)
        table = first.with_columns(
            process_comm=pl.when(is_first).then("task_comm").when(~is_other).then("thread_comm"),
        ).with_columns(kind=kinds.kind(pl.col("task_comm")), process_kind=kinds.kind(pl.col("process_comm")))
        is_listed_kernel = (pl.col("task_kind") == "kernel").fill_null(False)
        is_listed_server = ((pl.col("task_kind") == "server") | (pl.col("thread_kind") == "server")).fill_null(False)
        table = self._packages.at(table, ["task_pid", "process_comm"], is_dated)
        moves_others = pl.col("kind").is_in(OTHERS_BYTES).fill_null(False) | is_listed_kernel
        package = pl.col("listed_package")
        is_server = (
            is_listed_server
            | kinds.serves_others(pl.col("kind"), package)
            | kinds.serves_others(pl.col("process_kind"), package)
        )
        is_process = pl.col("task_comm").is_not_null() & ~moves_others & ~is_server
        own = pl.col("kind").is_in(_FILESYSTEM) | pl.col("task_comm").str.starts_with("f2fs_")
        return table.with_columns(
            is_process=is_process, is_server=is_server, is_filesystem=own.fill_null(False) & ~is_process
        ).select(
            *("ts_ns", "change", "tid", "pid", "comm"),
            *list(_FOUND)[:3],
            owner_pid=pl.when("is_process").then("task_pid"),
            owner_tid=pl.when("is_process").then("asking_tid"),
            owner_comm=pl.when("is_process").then(pl.coalesce("process_comm", "task_comm")),
            owner_package=pl.when("is_process").then("listed_package"),
        )

    def _thread_at(self, rows: pl.DataFrame, tid: str, is_dated: bool) -> pl.DataFrame:
        """Return the rows with thread_comm, thread_pid and thread_kind: name, process and kind of `tid` at ts_ns.

        The trace takes precedence over a listing. A listing counts only if the thread id was not reused since. Between
        the times at which the thread was last seen under one name and first under another, its name is unknown.
        """
        found = self._listed.at(self._traced.at(rows, [tid], is_dated), [tid], is_dated)
        is_named = (pl.col("ts_ns") < pl.col("traced_end_ns")).fill_null(True)
        since, listed_since = (pl.col(name).fill_null(_ALWAYS) for name in ("traced_ns", "listed_ns"))
        is_same = pl.when(listed_since >= since - _START_NS)
        return found.with_columns(
            thread_comm=pl.coalesce(pl.when(is_named).then("traced_comm"), is_same.then("listed_comm")),
            thread_pid=pl.coalesce("traced_pid", is_same.then("listed_pid")),
            thread_kind=is_same.then("listed_kind"),
        ).drop(*self._traced.values, *self._listed.values)


def served(requests: pl.LazyFrame, io: pl.LazyFrame, servers: pl.DataFrame) -> tuple[Loss, ...]:
    """Return a loss that states how many bytes have no owner because their submitter is one of `servers`."""
    if servers.is_empty():
        return ()
    submitted = requests.select("request_id", tid="submit_tid", pid="submit_pid", comm="submit_comm")
    unowned = io.filter(pl.col("owner_via") == "unknown", pl.col("bytes") > 0).select("request_id", "bytes")
    of_servers = submitted.join(servers.lazy(), on=["tid", "pid", "comm"], how="semi", nulls_equal=True)
    size, names = unowned.join(of_servers, on="request_id").select(pl.sum("bytes"), pl.col("comm").unique()).collect()
    if not size[0]:
        return ()
    listed = ", ".join(names.drop_nulls().sort().head(_NAMED))
    moved = f"{quantities.size(size[0])} were moved by processes that serve others ({listed})"
    message = f"{moved}: on whose behalf is unknown"
    return (Loss("served", len(names), message, ()),)


class _Versions:
    """Values of threads from valid_from_ns on; the columns `of` identify the thread, its number first.

    The latest values before a time count. Of several at one time, and for rows without a time, only equal values count.
    """

    def __init__(self, tasks: pl.DataFrame, of: list[str]) -> None:
        self._of = of
        self.values = [name for name in tasks.columns if name not in (*of, "valid_from_ns")]
        self._tasks = tasks.with_columns(pl.col("valid_from_ns").fill_null(_ALWAYS)).drop_nulls(of)
        self._dated = self._alike([*of, "valid_from_ns"]).sort("valid_from_ns")

    def _alike(self, keys: list[str]) -> pl.DataFrame:
        """Return the only value of each column, by `keys`."""
        one = [pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name) for name in self.values]
        return self._tasks.group_by(keys).agg(one)

    def at(self, rows: pl.DataFrame, keys: list[str], is_dated: bool) -> pl.DataFrame:
        """Return the rows, whose `keys` are the columns `of`, with the other columns at ts_ns.

        The rows are sorted by ts_ns, or have none if not `is_dated`.
        """
        if not is_dated:
            return rows.join(self._alike(self._of), left_on=keys, right_on=self._of, how="left")
        # Most threads of a long recording have ended or not begun, and the join would search all of them.
        dated = self._dated.join(rows, left_on=self._of[0], right_on=keys[0], how="semi", maintain_order="left")
        return rows.join_asof(
            dated, left_on="ts_ns", right_on="valid_from_ns", by_left=keys, by_right=self._of, check_sortedness=False
        ).drop("valid_from_ns")
