"""State and user of the owner of each piece of I/O at its time: foreground or background, and uid.

Each is added to table `io` as a column, so that every measure of `io` can group by it. The few rows of table
`importance` or `tasks` are looked up for a batch of pieces at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from androstep_analysis.measures.lost import Lost, touched
from androstep_analysis.measures.tables import Table, lazy

STATE: Final = pl.Enum(["foreground", "background", "system"])

PERCEPTIBLE_MEDIUM: Final = 225
"""The lowest oom_score_adj of Android for processes that the user does not perceive. An app that plays music in the
background has 200."""

PERSISTENT: Final = -800
"""The oom_score_adj of persistent parts of Android, such as the status bar. Only Android sets this value."""

_ALWAYS: Final = -(1 << 62)

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


def with_state(io: Table, importance: Table, *, lost: Lost = ()) -> pl.LazyFrame:
    """Return table `io` with the state of the owner: foreground, background or system.

    Parameters
    ----------
    io : Table
        Table `io`: owner_pid, queue_ns, issue_ns, complete_ns.
    importance : Table
        Table `importance`, as for `states`.
    lost : sequence of pairs of int or None
        Times in which its events may be missing (`losses.Losses.spans`). Earlier states are unknown from then on.

    Returns
    -------
    polars.LazyFrame
        The rows with column state (Enum, as in `states`) at the time of queueing, else of issue, else of completion. It
        is null if the owner is unknown, before the first event of the owner, and after lost time.

    References
    ----------
    ``schemas/definitions.toml``, state.

    Examples
    --------
    >>> changes = pl.DataFrame({"ts_ns": [0], "task": [13777], "oom_score_adj": [900]}).with_columns(
    ...     event=pl.lit("oom_score_adj_update")
    ... )
    >>> rows = measures.with_state(capture.io, changes)
    >>> measures.volume(rows, by=("state",)).filter(metric="count", op="write", state="background")["value"].item()
    1420.0
    """
    changes = states(importance).select("state", owner_pid="pid", since_ns="ts_ns")
    return with_latest(lazy(io), changes, "state", ["owner_pid"], lost)


def with_uid(io: Table, tasks: Table) -> pl.LazyFrame:
    """Return table `io` with the user of its owner, by which Android's storaged adds up.

    Parameters
    ----------
    io : Table
        Table `io`: owner_pid, owner_comm, queue_ns, issue_ns, complete_ns.
    tasks : Table
        Table `tasks`: tid, comm, uid, valid_from_ns.

    Returns
    -------
    polars.LazyFrame
        The rows with column uid (Int32): that of the process with the owner's pid and name. It is null if no process
        listing has such a process.

    References
    ----------
    ``schemas/definitions.toml``, daily.

    Examples
    --------
    >>> rows = measures.with_uid(capture.io, capture.tasks)
    >>> measures.volume(rows, by=("uid",)).filter(metric="count", op="read", uid=0)["value"].item()
    60.0
    """
    users = (
        lazy(tasks, ("tasks",))
        .filter(pl.col("uid").is_not_null(), pl.col("comm").is_not_null())
        .select("uid", owner_pid="tid", owner_comm="comm", since_ns=pl.col("valid_from_ns").fill_null(_ALWAYS))
        .sort("since_ns", maintain_order=True)
        .collect()
    )
    return with_latest(lazy(io), users, "uid", ["owner_pid", "owner_comm"])


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
