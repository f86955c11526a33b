"""State and user of the owner of each piece of I/O at its time: foreground or background, and uid.

Each is added to table `io` as a column, so that every measure of `io` can group by it. The few rows of table
`importance` or `tasks` are looked up for a batch of pieces at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.tables import Table, lazy

STATE: Final = pl.Enum(["foreground", "background", "system"])

PERCEPTIBLE_MEDIUM: Final = 225
"""The lowest oom_score_adj of Android for processes that the user does not perceive. An app that plays music in the
background has 200."""

PERSISTENT: Final = -800
"""The oom_score_adj of persistent parts of Android, such as the status bar. Only Android sets this value."""

_ALWAYS: Final = -(1 << 62)
_NEVER: Final = 1 << 62

_START_NS: Final = 10_000_000
"""A listing dates the start of a process in units of 1/100 s (proc_pid_stat(5), USER_HZ), rounded down."""

_QUEUED: Final = pl.coalesce("queue_ns", "issue_ns", "complete_ns")


def states(importance: Table) -> pl.DataFrame:
    """Return the times at which each process entered or left the foreground.

    Parameters
    ----------
    importance : Table
        Table `importance`: ts_ns, event, task, oom_score_adj.

    Returns
    -------
    polars.DataFrame
        Columns pid (Int32), ts_ns (Int64), oom_score_adj (Int32) and state (Enum: foreground, background, system), in
        order of time. Each row holds until the next row of the process, which may have the same state. A state is null
        if it is unknown: a new process inherits the value of its parent, which was not chosen for it.

    References
    ----------
    ``schemas/definitions.toml``, state; Android Open Source Project, ``ProcessList.java``.

    Examples
    --------
    >>> changes = pl.DataFrame({"ts_ns": [5, 9], "task": [42, 42], "oom_score_adj": [0, 900]}).with_columns(
    ...     event=pl.lit("oom_score_adj_update")
    ... )
    >>> measures.states(changes)["state"].to_list()
    ['foreground', 'background']
    """
    value, event = pl.col("oom_score_adj"), pl.col("event").cast(pl.String)
    is_read = event == "reading"
    is_set = (event == "oom_score_adj_update") | (is_read & (value != 0))
    was_set = is_set.cum_sum().over("pid", (event == "task_newtask").cum_sum().over("pid")) > 0
    # The kernel's default is 0. A reading of 0 is a deliberate value only if Android runs (another process has
    # PERSISTENT) or if the process had another value before.
    is_choice = is_set | (is_read & (was_set | (value == PERSISTENT).any()))
    of_value = (
        pl.when(value < 0)
        .then(pl.lit("system", STATE))
        .when(value < PERCEPTIBLE_MEDIUM)
        .then(pl.lit("foreground", STATE))
        .when(value.is_not_null())
        .then(pl.lit("background", STATE))
    )
    return (
        lazy(importance, ("importance",))
        .filter(pl.col("task").is_not_null())
        .select("ts_ns", "event", "oom_score_adj", pid="task")
        .sort("ts_ns", maintain_order=True)
        .with_columns(is_choice=is_choice)
        .filter(pl.col("is_choice").any().over("pid"))
        .select("pid", "ts_ns", "oom_score_adj", state=pl.when("is_choice").then(of_value))
        .collect()
    )


def with_state(io: Table, importance: Table, tasks: Table | None = None, *, lost: Lost = ()) -> pl.LazyFrame:
    """Return table `io` with the state of the owner: foreground, background or system.

    Parameters
    ----------
    io : Table
        Table `io`: owner_pid, owner_comm, owner_via, queue_ns, issue_ns, complete_ns.
    importance : Table
        Table `importance`, as for `states`, and task_comm.
    tasks : Table, optional
        Table `tasks`: tid, comm, valid_from_ns, valid_to_ns. It distinguishes processes that had the same pid.
    lost : sequence of pairs of int or None
        Times in which its events may be missing (`losses.Losses.spans`). Earlier states are unknown from then on.

    Returns
    -------
    polars.LazyFrame
        The rows with column state (Enum, as in `states`) at the time of queueing, else of issue, else of completion. It
        is null if the owner is unknown, before the first event of the owner, after lost time, and if the pid was reused
        and it is unknown which of the processes is the owner.

    References
    ----------
    ``schemas/definitions.toml``, state.

    Examples
    --------
    >>> changes = pl.DataFrame({"ts_ns": [0], "task": [13777], "oom_score_adj": [900]}).with_columns(
    ...     event=pl.lit("oom_score_adj_update"), task_comm=pl.lit("example.mail")
    ... )
    >>> rows = measures.with_state(capture.io, changes)
    >>> measures.volume(rows, by=("state",)).filter(metric="count", op="write", state="background")["value"].item()
    1420.0
    """
    rows = lazy(importance, ("importance",)).collect()
    listed = schema.empty("tasks") if tasks is None else lazy(tasks, ("tasks",)).collect()
    processes = Processes(rows, listed.filter(pl.col("tid").is_in(rows["task"].unique().implode())))
    changes = processes.numbered(states(rows).rename({"ts_ns": "begin_ns"}))
    changes = changes.select("state", "process", owner_pid="pid", since_ns="begin_ns").sort("since_ns")
    numbered = processes.of_owners(lazy(io))
    return with_latest(numbered, changes, "state", ["owner_pid", "process"], lost).drop("process")


def with_uid(io: Table, tasks: Table, importance: Table | None = None) -> pl.LazyFrame:
    """Return table `io` with the user of its owner, by which Android's storaged adds up.

    Parameters
    ----------
    io : Table
        Table `io`: owner_pid, owner_comm, owner_via, queue_ns, issue_ns, complete_ns.
    tasks : Table
        Table `tasks`: tid, comm, uid, valid_from_ns, valid_to_ns.
    importance : Table, optional
        Table `importance`: ts_ns, event, task, task_comm. Its creations distinguish processes that had the same pid.

    Returns
    -------
    polars.LazyFrame
        The rows with column uid (Int32): that of the process with the owner's pid and name. It is null if no process
        listing has such a process, and if the pid was reused and it is unknown which of the processes is the owner.

    References
    ----------
    ``schemas/definitions.toml``, daily.

    Examples
    --------
    >>> rows = measures.with_uid(capture.io, capture.tasks)
    >>> measures.volume(rows, by=("uid",)).filter(metric="count", op="read", uid=0)["value"].item()
    60.0
    """
    threads = lazy(tasks, ("tasks",)).collect()
    users = threads.filter(pl.col("uid").is_not_null(), pl.col("comm").is_not_null())
    events = schema.empty("importance") if importance is None else lazy(importance, ("importance",)).collect()
    pids = users["tid"].unique().implode()
    processes = Processes(events.filter(pl.col("task").is_in(pids)), threads.filter(pl.col("tid").is_in(pids)))
    # A listing may date a start earlier than the creation.
    begun = users.select("uid", pid="tid", owner_comm="comm", since_ns=pl.col("valid_from_ns").fill_null(_ALWAYS))
    numbered = processes.numbered(begun.with_columns(begin_ns=pl.col("since_ns") + _START_NS))
    keys = ["owner_pid", "process", "owner_comm"]
    uid = pl.when(pl.col("uid").n_unique() == 1).then(pl.col("uid").first())
    of_process = numbered.rename({"pid": "owner_pid"}).group_by(keys).agg(uid, pl.min("since_ns")).sort("since_ns")
    owned = processes.of_owners(lazy(io))
    return with_latest(owned, of_process, "uid", keys).drop("process")


class Processes:
    """The processes that had a pid, numbered from 0 in the order of their creation.

    If no creation is recorded, a process counts as another one as soon as it has another name.
    """

    def __init__(self, importance: pl.DataFrame, tasks: pl.DataFrame) -> None:
        is_created = pl.col("event") == "task_newtask"
        events = importance.drop_nulls("task").select(
            is_created=is_created, pid="task", comm="task_comm", begin_ns="ts_ns"
        )
        stated = events.filter(~pl.col("is_created")).with_columns(end_ns=pl.col("begin_ns") + 1)
        # Only listings have users. They name the process that began at valid_from_ns, and no later one.
        is_listed = pl.col("uid").is_not_null() if "uid" in tasks.columns else pl.lit(False)
        since = pl.col("valid_from_ns").fill_null(_ALWAYS)
        begin = since + pl.when(is_listed).then(_START_NS).otherwise(0)
        listed = tasks.select(
            "comm",
            begin.alias("begin_ns"),
            pid="tid",
            end_ns=pl.when(is_listed).then(begin + 1).otherwise(pl.col("valid_to_ns").fill_null(_NEVER)),
        )
        named = pl.concat([listed, stated.select(listed.columns)]).sort("begin_ns", maintain_order=True)
        created = events.filter("is_created")
        self.has_creations = not created.is_empty()
        if not self.has_creations:
            before = pl.col("comm").shift().over("pid")
            created = named.drop_nulls("comm").filter(pl.col("comm") != before)
        self._created = created.sort("begin_ns").select(
            "pid", "begin_ns", process=pl.int_range(1, pl.len() + 1).over("pid")
        )
        first = self.numbered(named).rename({"process": "first"})
        spans = self.numbered(first.with_columns(begin_ns=pl.col("end_ns") - 1))
        known = spans.select("pid", "comm", process=pl.int_ranges("first", pl.col("process") + 1)).explode("process")
        self._of_names = _ranked(known.drop_nulls("comm"), "pid", "comm")
        self._of_pids = _ranked(pl.concat([known.drop("comm"), self._created.select("pid", "process")]), "pid")

    def numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows (pid, begin_ns) in order of time, with column process: which process had the pid then."""
        found = rows.sort("begin_ns", maintain_order=True).join_asof(
            self._created, on="begin_ns", by="pid", check_sortedness=False
        )
        return found.with_columns(pl.col("process").fill_null(0))

    def of_owners(self, io: pl.LazyFrame) -> pl.LazyFrame:
        """Return table `io` with column process of the owner, or null if it is unknown.

        A submitter had the pid when the request was queued. Another owner may have ended before. It is known if its
        name, or else its pid, was that of one process only.
        """

        def look_up(batch: pl.Series) -> pl.Series:
            pieces = batch.struct.unnest().with_row_index("nth")
            rows = self.numbered(pieces.drop_nulls(["begin_ns", "pid"])).sort("process")
            for name, known, by in (("named", self._of_names, ["pid", "comm"]), ("any", self._of_pids, ["pid"])):
                other = known.rename({"rank": f"{name}_rank"}).with_columns(pl.col("process").alias(name))
                rows = rows.join_asof(other, on="process", by=by, check_sortedness=False)
            found = (
                pl.when(pl.col("is_submitter") | (pl.col("process") == 0))
                .then("process")
                .when(pl.col("named").is_not_null())
                .then(pl.when(pl.col("named_rank") == 0).then("named"))
                .when(pl.col("any_rank") == 0)
                .then("any")
            )
            known = rows.select("nth", process=found)
            return pieces.join(known, on="nth", how="left", maintain_order="left")["process"]

        owner = pl.struct(
            _QUEUED.alias("begin_ns"),
            pid="owner_pid",
            comm="owner_comm",
            is_submitter=pl.col("owner_via") == "submitter",
        )
        return io.with_columns(owner.map_batches(look_up, pl.Int64, is_elementwise=True).alias("process"))


def _ranked(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the processes of each `by` once, in order, with their rank among them."""
    unique = rows.select(*by, pl.col("process").cast(pl.Int64)).unique().sort("process")
    return unique.with_columns(rank=pl.int_range(pl.len()).over(*by))


def with_latest(
    rows: pl.LazyFrame, changes: pl.DataFrame, name: str, keys: Sequence[str], lost: Lost = (), time: pl.Expr = _QUEUED
) -> pl.LazyFrame:
    """Return the rows with column `name` of the last row of `changes` with the same `keys` at or before their `time`.

    `changes` is small, and in order of its column since_ns. The column is null if there is no such row, or if a later
    one may be `lost`.
    """

    def look_up(batch: pl.Series) -> pl.Series:
        pieces = batch.struct.unnest().with_row_index("nth")
        dated = pieces.drop_nulls(["time", *keys]).sort("time")
        found = dated.join_asof(changes, left_on="time", right_on="since_ns", by=keys, check_sortedness=False)
        known = found.filter(pl.col("since_ns").is_not_null(), ~touched("since_ns", "time", lost))
        return pieces.join(known.select("nth", name), on="nth", how="left", maintain_order="left")[name]

    of_row = pl.struct(time.alias("time"), *keys)
    return rows.with_columns(of_row.map_batches(look_up, changes.schema[name], is_elementwise=True).alias(name))
