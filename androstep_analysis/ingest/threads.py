"""Determine the name and the process of each thread over time, from task events and the maps saved by the recorder.

A recorder saves one name per thread, mostly the last (tracefs' ``saved_cmdlines``). Events of
include/trace/events/task.h and sched.h, Linux 3.10 to 6.18, record when a thread was created and renamed. Block events
record the name of the running thread.

Thread ids are reused. All that is known of a thread ends when another thread with the same id is created.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest import tasks

FIELDS = {
    "task_newtask": ("pid", "comm", "clone_flags"),
    "sched_process_fork": ("child_pid", "child_comm"),
    "task_rename": ("pid", "oldcomm", "newcomm"),
    "sched_process_exec": ("pid", "filename"),
}
"""The task events that record names, and their relevant fields."""

_CLONE_THREAD = 0x10000  # include/uapi/linux/sched.h
_NAME_BYTES = 15  # TASK_COMM_LEN without the NUL
_ALWAYS, _NEVER = -(1 << 63), (1 << 63) - 1
_IDLE = pl.DataFrame({"tid": [0], "comm": ["<idle>"]}, schema={"tid": pl.Int32, "comm": pl.String})

_ROW = {
    **{"ts_ns": pl.Int64, "order": pl.Int64, "tid": pl.Int32, "comm": pl.String},
    **{"is_created": pl.Boolean, "is_noted": pl.Boolean},
}
"""A name at a time. `is_noted`: it begins at this time; otherwise the thread was only seen under it."""


def versions(
    events: Mapping[str, pl.DataFrame], seen: pl.DataFrame, cmdlines: Mapping[int, str], tgids: pl.DataFrame
) -> pl.DataFrame:
    """Return one row for each name of a thread, sorted by tid and time: tid, from_ns, comm, lifetime, pid, is_between.

    A name ends when it was last seen before another name that no event notes. The row that follows has no name
    (`is_between`): the thread may have been renamed at any time in between.

    Parameters
    ----------
    events
        The task events (`FIELDS`, and common_order, common_ts_ns, common_pid).
    seen
        The names in other events: ts_ns, order, tid, comm. `comm` is null if only the id of the thread is known. The
        first and the last time of each name are enough.
    cmdlines
        The names of threads as saved by the recorder. Used for threads without any other name.
    tgids
        The processes of threads as read by the recorder: tid, saved, and ts_ns (null if unknown).

    Returns
    -------
    polars.DataFrame
        `from_ns` is the least Int64 for a name from before the recording. `lifetime` counts the threads that were
        created with this id; 0 is one from before the recording.
    """
    created = _created(events)
    if "task_rename" in events:
        seen = seen.filter(
            pl.col("ts_ns").is_null() | (pl.col("ts_ns") != _NEVER)
        )  # a rename may be later than the save
    observed = pl.concat(
        [
            created.drop("parent", "is_thread"),
            *_names(events),
            seen.with_columns(is_created=False, is_noted=False).select(list(_ROW)),
        ]
    )
    rows = observed.filter((pl.col("tid") != 0) & (pl.col("comm").is_not_null() | pl.col("is_created")))
    rows = rows.sort("ts_ns", "order", maintain_order=True).with_columns(
        lifetime=pl.col("is_created").cast(pl.Int32).cum_sum().over("tid")
    )
    changed = pl.col("is_created") | pl.col("comm").ne_missing(pl.col("comm").shift().over("tid"))
    rows = rows.with_columns(changed=changed).with_columns(name=pl.col("changed").cum_sum().over("tid"))
    rows = rows.with_columns(last_ns=pl.col("ts_ns").max().over("tid", "name")).filter("changed")
    is_first = pl.col("tid").is_first_distinct()
    rows = rows.with_columns(
        from_ns=pl.when(is_first & ~pl.col("is_created")).then(_ALWAYS).otherwise("ts_ns"), is_between=pl.lit(False)
    )
    rows = pl.concat([rows, _between(rows)]).filter(pl.col("from_ns") != _NEVER)
    rest = pl.concat([_IDLE, _saved(seen, cmdlines, tgids)]).unique("tid", keep="first", maintain_order=True)
    rest = rest.join(rows, on="tid", how="anti").with_columns(
        from_ns=pl.lit(_ALWAYS, pl.Int64), lifetime=pl.lit(0, pl.Int32), is_between=pl.lit(False)
    )
    columns = ("tid", "from_ns", "comm", "lifetime", "is_between")
    named = pl.concat([rows.select(columns), rest.select(columns)])
    with_pids = named.join(_processes(named, created, tgids), on=["tid", "lifetime"], how="left", maintain_order="left")
    # Of two names with the same time, the one that was replaced at once comes first.
    return with_pids.sort("tid", "from_ns", maintain_order=True)


def _between(names: pl.DataFrame) -> pl.DataFrame:
    """Return a row without a name for each time between two sightings of a thread under different names.

    `names` has a row for each name, with the columns of `_ROW`, from_ns, and last_ns: when the name was last seen.
    """
    of_next = pl.all().shift(-1).over("tid").name.prefix("next_")
    following = names.sort("tid", "ts_ns", "order", maintain_order=True).select(*names.columns, of_next)
    is_seen = ~(pl.col("next_is_noted") | pl.col("next_is_created"))
    ended = following.filter(is_seen, pl.col("comm").is_not_null(), pl.col("last_ns") + 1 < pl.col("next_ts_ns"))
    return ended.with_columns(
        from_ns=pl.col("last_ns") + 1, comm=pl.lit(None, pl.String), is_between=pl.lit(True)
    ).select(names.columns)


def table(versions: pl.DataFrame) -> pl.DataFrame:
    """Return table `tasks` of the threads in `versions`, without the rows that are `is_between`."""
    rows = versions.with_columns(
        tasks.kind(pl.col("comm").fill_null("")),
        valid_from_ns=pl.when(pl.col("from_ns") != _ALWAYS).then("from_ns"),
        valid_to_ns=pl.when(pl.col("tid") == pl.col("tid").shift(-1)).then(pl.col("from_ns").shift(-1)),
    )
    return schema.complete(rows.filter(~pl.col("is_between")).drop("from_ns", "lifetime", "is_between"), "tasks")


def ended(tgids: Mapping[int, int]) -> pl.DataFrame:
    """Return the processes of threads that were read at the end of a recording, for `versions`."""
    columns = {"tid": list(tgids), "ts_ns": [_NEVER] * len(tgids), "saved": list(tgids.values())}
    return pl.DataFrame(columns, schema={"tid": pl.Int32, "ts_ns": pl.Int64, "saved": pl.Int32})


def until_saved(seen: pl.DataFrame, cmdlines: Mapping[int, str]) -> pl.DataFrame:
    """Return `seen` for `versions` with the names that the recorder saved at the end as the last sightings."""
    named = seen.filter(pl.col("tid").is_in([*cmdlines]), pl.col("comm").is_not_null())
    if named.is_empty():
        return seen
    saved = named.unique("tid", maintain_order=True).with_columns(
        ts_ns=pl.lit(_NEVER, pl.Int64),
        comm=pl.col("tid").replace_strict([*cmdlines], [*cmdlines.values()], return_dtype=pl.String),
    )
    return pl.concat([seen, saved])


def in_lifetimes(rows: pl.DataFrame, versions: pl.DataFrame, tid: str = "tid") -> pl.DataFrame:
    """Return `rows` with column `lifetime`: which thread had the id in column `tid` at `ts_ns`.

    Rows without a time are omitted if a thread with the id was created during the recording.
    """
    begun = versions.filter(pl.col("lifetime") > 0).group_by("tid", "lifetime").agg(pl.col("from_ns").min())
    begun = begun.select("lifetime", "from_ns", pl.col("tid").alias(tid)).sort("from_ns")
    undated = rows.filter(pl.col("ts_ns").is_null()).join(begun, on=tid, how="anti")
    dated = rows.drop_nulls("ts_ns").sort("ts_ns", maintain_order=True)
    dated = dated.join_asof(begun, left_on="ts_ns", right_on="from_ns", by=tid, check_sortedness=False).drop("from_ns")
    return pl.concat([undated, dated], how="diagonal").with_columns(pl.col("lifetime").fill_null(0))


def _created(events: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the threads that were created: the columns of `_ROW`, their parent, and whether they share its process.

    The name at creation is used only if later renames were recorded, since a new thread has the name of its parent.
    """
    renamed = "task_rename" in events or "sched_process_exec" in events
    comm = pl.lit(None, pl.String)
    if "task_newtask" in events:
        return events["task_newtask"].select(
            *_when("pid"),
            comm=pl.col("comm") if renamed else comm,
            is_created=pl.lit(True),
            is_noted=pl.lit(True),
            parent="common_pid",
            is_thread=pl.col("clone_flags").cast(pl.UInt64) & _CLONE_THREAD != 0,
        )
    if "sched_process_fork" in events:
        return events["sched_process_fork"].select(
            *_when("child_pid"),
            comm=pl.col("child_comm") if renamed else comm,
            is_created=pl.lit(True),
            is_noted=pl.lit(True),
            parent="common_pid",
            is_thread=pl.lit(None, pl.Boolean),
        )
    return pl.DataFrame(schema={**_ROW, "parent": pl.Int32, "is_thread": pl.Boolean})


def _names(events: Mapping[str, pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the names of threads before and after each rename, in this order."""
    if "task_rename" in events:
        rename = events["task_rename"]
        return [
            rename.select(*_when("pid"), comm=name, is_created=pl.lit(False), is_noted=pl.lit(name == "newcomm"))
            for name in ("oldcomm", "newcomm")
        ]
    if "sched_process_exec" in events:
        name = pl.col("filename").str.extract("([^/]*)$", 1).str.slice(0, _NAME_BYTES)
        return [
            events["sched_process_exec"].select(
                *_when("pid"), comm=name, is_created=pl.lit(False), is_noted=pl.lit(True)
            )
        ]
    return []


def _when(tid: str) -> tuple[pl.Expr, ...]:
    return (
        pl.col("common_ts_ns").alias("ts_ns"),
        pl.col("common_order").alias("order"),
        pl.col(tid).cast(pl.Int32).alias("tid"),
    )


def _saved(seen: pl.DataFrame, cmdlines: Mapping[int, str], tgids: pl.DataFrame) -> pl.DataFrame:
    """Return the threads that were seen or saved, each with its saved name."""
    numbers = sorted({*seen["tid"].drop_nulls().unique(), *cmdlines, *tgids["tid"]})
    return pl.DataFrame(
        {"tid": numbers, "comm": [cmdlines.get(tid) for tid in numbers]}, schema={"tid": pl.Int32, "comm": pl.String}
    )


def _processes(named: pl.DataFrame, created: pl.DataFrame, tgids: pl.DataFrame) -> pl.DataFrame:
    """Return the process of each lifetime of a thread id: tid, lifetime, pid.

    A thread that was created without CLONE_THREAD is a process of its own. Other threads belong to the process that
    their parent belonged to at that time. The parent may itself have been created during the recording. A process that
    the recorder read applies to the lifetime in which it was read.
    """
    lifetimes = pl.concat(
        [named.select("tid", "lifetime"), created.select("tid", lifetime=pl.lit(0, pl.Int32))]
    ).unique()
    creations = created.sort("ts_ns", "order").with_columns(
        lifetime=pl.col("tid").cum_count().over("tid").cast(pl.Int32)
    )
    earlier = creations.select("ts_ns", parent="tid", parent_lifetime="lifetime")
    creations = creations.join_asof(earlier, on="ts_ns", by="parent", allow_exact_matches=False, check_sortedness=False)
    saved = in_lifetimes(tgids, named).unique(["tid", "lifetime"], keep="last", maintain_order=True).drop("ts_ns")
    creations = creations.select(
        "tid", "lifetime", "parent", "is_thread", parent_lifetime=pl.col("parent_lifetime").fill_null(0)
    )
    parentage = lifetimes.join(creations, on=["tid", "lifetime"], how="left").join(
        saved, on=["tid", "lifetime"], how="left"
    )
    parentage = parentage.with_columns(
        pid=pl.when(pl.col("is_thread").not_()).then("tid").when(pl.col("saved") > 0).then("saved")
    )
    unknown = -1
    while unknown != (unknown := parentage["pid"].null_count()):
        parents = parentage.select(parent="tid", parent_lifetime="lifetime", parent_pid="pid")
        parentage = (
            parentage.join(parents, on=["parent", "parent_lifetime"], how="left")
            .with_columns(pid=pl.coalesce("pid", pl.when("is_thread").then("parent_pid")))
            .drop("parent_pid")
        )
    return parentage.select("tid", "lifetime", "pid")
