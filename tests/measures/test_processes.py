"""The process of a thread, and its name at the time."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from androstep_analysis import schema
from androstep_analysis.ingest import tasks as kinds
from androstep_analysis.link.owner import processes

ZYGOTE, APP, PACKAGE = "zygote64", "com.example.app", "com.example.application"


def tasks(*rows):
    """Table tasks of (tid, pid, comm, valid_from_ns) as from a trace, with package as from a listing."""
    full = [
        {"tid": tid, "pid": pid, "comm": comm, "valid_from_ns": since, "kind": "other", "package": (*package, None)[0],
         "uid": 10001 if package else None}
        for tid, pid, comm, since, *package in rows
    ]  # fmt: skip
    return schema.complete(pl.DataFrame(full, schema_overrides=schema.table("tasks").polars), "tasks")


def owners(table, *threads):
    """(owner_pid, owner_comm, owner_package) of threads (ts_ns, tid, pid, comm), in their order."""
    want = {"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String}
    rows = processes.Processes(table).of_threads(pl.DataFrame(threads, schema=want, orient="row"))
    assert rows.select(list(want)).rows() == list(threads)
    return rows.select("owner_pid", "owner_comm", "owner_package").rows()


RENAMED = [(70, 70, ZYGOTE, None), (70, 70, APP, 100), (71, 70, "pool-1", 50)]


def test_threads_are_of_the_process_as_it_was_called_then():
    at = [(time, tid, 70, comm) for time, tid, comm in ((200, 71, "pool-1"), (60, 71, "pool-1"), (99, 70, ZYGOTE))]
    assert owners(tasks(*RENAMED), *at) == [(70, APP, None), (70, ZYGOTE, None), (70, ZYGOTE, None)]
    assert owners(tasks(*RENAMED), (100, 71, None, None)) == [(70, APP, None)]


def test_at_an_unknown_time_only_what_was_always_so_is_known():
    assert owners(tasks(*RENAMED), (None, 71, 70, "pool-1")) == [(70, "pool-1", None)]
    assert owners(tasks((70, 70, APP, None)), (None, 71, 70, "pool-1")) == [(70, APP, None)]


def test_a_later_process_of_the_number_does_not_name_an_earlier_one():
    later = tasks((71, 70, "pool-1", None), (70, 70, "sh", 500))
    assert owners(later, (400, 71, 70, "pool-1"), (600, 71, 70, "x")) == [(70, "pool-1", None), (70, "sh", None)]
    thread = tasks((71, 70, "pool-1", None), (71, 90, "other", 500), (90, 90, "sh", None), (70, 70, APP, None))
    assert owners(thread, (400, 71, None, None), (600, 71, None, None)) == [(70, APP, None), (90, "sh", None)]


def test_what_a_listing_says_is_not_so_from_the_start_of_the_process_on():
    listed = [(70, 70, ZYGOTE, 10, None), (70, 70, APP, 10, PACKAGE)]  # before and after
    at = [(60, 71, 70, "pool-1"), (200, 71, 70, "pool-1")]
    assert owners(tasks(*RENAMED, *listed), *at) == [(70, ZYGOTE, None), (70, APP, PACKAGE)]
    assert owners(tasks(*listed), *at) == [(70, "pool-1", None)] * 2
    assert owners(tasks(listed[1]), *at) == [(70, APP, PACKAGE)] * 2


def test_a_listing_does_not_name_a_process_that_was_made_later_with_the_number():
    reused = tasks((70, 70, APP, 10, PACKAGE), (70, 70, None, 50_000_000))
    assert owners(reused, (40_000_000, 71, 70, "a"), (60_000_000, 71, 70, "b")) == [(70, APP, PACKAGE), (70, "b", None)]


@settings(max_examples=10)
@given(st.integers(0, 1 << 32))
def test_names_are_those_that_a_history_tells(seed):
    draw = random.Random(seed)
    rows, history = [], {}
    for pid in range(10, 20):
        names = [(None, f"first{pid}"), *((time, f"{pid}at{time}") for time in sorted(draw.sample(range(1, 99), 3)))]
        history[pid] = names
        rows += [(pid, pid, name, time) for time, name in names]
    draw.shuffle(rows)
    threads = [(draw.randrange(100), 1000 + draw.randrange(9), draw.randrange(10, 20), "thread") for _ in range(200)]
    expected = [
        (pid, [name for since, name in history[pid] if since is None or since <= time][-1], None)
        for time, _, pid, _ in threads
    ]
    assert owners(tasks(*rows), *threads) == expected


@given(
    st.sets(st.integers(1, 99), max_size=3),
    st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=20, unique_by=lambda event: event[0]),
    st.integers(0, 20),
)
def test_a_process_has_no_name_that_it_had_before_or_gets_later(renames, events, cut):
    """The first thread is seen now and then. Between two of its names, the process has the name of no one else."""
    names = [(-1, "name0"), *((at, f"name{n}") for n, at in enumerate(sorted(renames), 1))]

    def true_name(at):
        return [name for since, name in names if since <= at][-1]

    rows = [(at, 70 if is_first else 71, 70, true_name(at) if is_first else "pool") for at, is_first in sorted(events)]
    want = {"ts_ns": pl.Int64, "tid": pl.Int32, "pid": pl.Int32, "comm": pl.String}
    table = pl.DataFrame(rows, want, orient="row")
    seen = kinds.Seen()
    seen.add(table.head(cut))
    seen.add(table.slice(cut))
    for (at, tid, _, _), (pid, comm, _) in zip(rows, owners(seen.table(), *rows), strict=True):
        sighted = [(then, name) for then, thread, _, name in rows if thread == 70]
        near = [name for then, name in sighted if then <= at][-1:] + [name for then, name in sighted if then >= at][:1]
        is_sure = tid == 70 or (len(near) == 2 and near[0] == near[1])
        assert pid == 70
        assert comm in ({true_name(at)} if is_sure else {true_name(at), "pool", *(near if len(near) == 1 else [])})
