"""Table `blocked`: the uninterruptible sleeps of main threads, against a simulated scheduler."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.perfetto_messages import bundle, trace

from androstep_analysis import schema
from androstep_analysis.ingest.perfetto import decoder
from androstep_analysis.ingest.perfetto import trace as perfetto
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool

SOURCES = Path(decoder.__file__).parents[2] / "native" / "decode" / "perfetto"
PROCESSES = {"processes": [{"pid": pid, "ppid": 1, "cmdline": [f"p{pid}"]} for pid in (10, 20)]}
THREADS = {"threads": [{"tid": 11, "tgid": 10}, {"tid": 21, "tgid": 20}]}
RUNNABLE, SLEEPING, BLOCKED, IDLE, OLD_IDLE, KILLABLE = 0, 1, 2, 0x80, 0x402, 0x102
CPUS = 3


def read(data: bytes) -> pl.DataFrame:
    spool = Spool()
    staging = perfetto.read(Source.of(Path("a.pftrace"), data), spool)
    assert not staging.losses
    return spool.table("blocked").collect() if spool.rows("blocked") else schema.empty("blocked")


def test_columns_are_those_of_the_schema() -> None:
    source = (SOURCES / "rows.c").read_text()
    body = source[source.index("enum switch_column {") :].partition("{")[2].partition("}")[0]
    names = [f"SWITCH_{column.name.upper()}" for column in schema.table("switch_events").columns]
    assert [name.strip() for name in body.split(",")] == names


def simulated(choose: random.Random) -> tuple[list[tuple[int, dict[str, Any]]], list[tuple[Any, ...]]]:
    """Run threads on CPUs; return the events with their CPUs in order of time, and the expected sleeps."""
    running = dict.fromkeys(range(CPUS), 0)
    waiting, asleep = {10, 11, 20, 21}, {}
    events: list[tuple[int, dict[str, Any]]] = []
    sleeps = []
    now = 0
    for _ in range(choose.randrange(400)):
        now += choose.randrange(1, 50)
        cpu = choose.randrange(CPUS)
        before = running[cpu]
        sleepers = sorted(asleep.keys() - waiting)
        if sleepers and choose.random() < 0.4:
            tid = choose.choice(sleepers)
            if asleep[tid][1] in (BLOCKED, KILLABLE) and choose.random() < 0.5:
                reason = choose.randrange(2)
                events.append((cpu, {"timestamp": now, "sched_blocked_reason": {"pid": tid, "io_wait": reason}}))
                asleep[tid] = (*asleep[tid][:2], bool(reason))
            waiting.add(tid)
            continue
        state = choose.choice([RUNNABLE, SLEEPING, BLOCKED, IDLE, OLD_IDLE, KILLABLE])
        following = choose.choice(sorted(waiting)) if waiting and choose.random() < 0.8 else 0
        if following == before:
            continue
        fields = {"prev_comm": "", "prev_pid": before, "prev_state": state, "next_comm": "", "next_pid": following}
        events.append((cpu, {"timestamp": now, "pid": before, "sched_switch": fields}))
        running[cpu] = following
        if before:
            asleep[before] = (now, state, None)
            if state == RUNNABLE:
                waiting.add(before)
        if following:
            waiting.discard(following)
            begin, state, reason = asleep.pop(following, (0, RUNNABLE, None))
            if state in (BLOCKED, KILLABLE) and following in (10, 20):
                sleeps.append((begin, now, following, reason))
    return events, sleeps


@pytest.mark.sanitized
def test_sleeps_are_those_of_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "_ROWS", 64)  # so that the table is full again and again
    total = 0
    for seed in range(40):
        choose = random.Random(seed)
        events, sleeps = simulated(choose)
        packets = []
        while events:  # the recorder drains the buffer of each CPU in turn
            drained, events = events[:90], events[90:]
            for cpu in choose.sample(range(CPUS), CPUS):
                packets.append(bundle(*(event for of, event in drained if of == cpu), cpu=cpu))
        found = read(trace(*packets, {"process_tree": PROCESSES | THREADS}))
        assert sorted(found.rows()) == sorted(sleeps)
        total += len(sleeps)
    assert total > 100


def test_a_sleep_without_its_end_is_left_out() -> None:
    def switch(ts_ns: int, before: int, state: int, following: int) -> dict[str, Any]:
        fields = {"prev_comm": "", "prev_pid": before, "prev_state": state, "next_comm": "", "next_pid": following}
        return {"timestamp": ts_ns, "pid": before, "sched_switch": fields}

    events = [switch(1, 10, BLOCKED, 0), switch(5, 10, BLOCKED, 0), switch(7, 0, 0, 10), switch(9, 10, BLOCKED, 0)]
    assert read(trace(bundle(*events), {"process_tree": PROCESSES})).rows() == [(5, 7, 10, None)]
