"""Table `importance` from every kind of recording."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import readers, tracing
from support.perfetto_messages import bundle, trace
from support.tracedat_files import File, Machine, event_format

from androstep_analysis import schema
from androstep_analysis.ingest.perfetto import trace as perfetto
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool

HEAD = "           lmkd-77  (  70) [001] ....     5.000001: "
COLUMNS = ("event", "task", "task_comm", "oom_score_adj", "clone_flags")
LINES: dict[str, tuple[Any, ...]] = {
    "oom_score_adj_update: pid=1234 comm=com.android.mail oom_score_adj=900": (
        *("oom_score_adj_update", 1234, "com.android.mail", 900, None),
    ),
    "oom_score_adj_update: pid=9 comm=x oom_score_adj=5 oom_score_adj=-1000": (
        *("oom_score_adj_update", 9, "x oom_score_adj=5", -1000, None),
    ),
    "oom_score_adj_update: pid=9 comm= oom_score_adj=0": ("oom_score_adj_update", 9, None, 0, None),
    "task_newtask: pid=78 comm=x y clone_flags=3d0f00 oom_score_adj=-800": (
        *("task_newtask", 78, "x y", -800, 0x3D0F00),
    ),
    # trace-cmd 3
    "task_newtask:         pid=78 comm=x clone_flags=0x1200011 oom_score_adj=200": (
        *("task_newtask", 78, "x", 200, 0x1200011),
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_lines_of_text(tmp_path: Path, line: str) -> None:
    found = readers.read_bytes(tmp_path, f"{HEAD}{line}\n".encode())
    assert found.losses == ()
    assert found.importance.select(COLUMNS).rows() == [LINES[line]]
    assert found.importance.select("ts_ns", "tid", "pid", "comm").rows() == [(5_000_001_000, 77, 70, "lmkd")]


@pytest.mark.parametrize(
    "line",
    [
        *("oom_score_adj_update: pid=1234 comm=x", "oom_score_adj_update: pid=1234 comm=x oom_score_adj="),
        *("oom_score_adj_update: comm=x oom_score_adj=9", "oom_score_adj_update: pid=1 comm=x oom_score_adj=9x"),
        *("task_newtask: pid=78 comm=x oom_score_adj=0", "task_newtask: pid=78 comm=x clone_flags=0 oom_score_adj"),
    ],
)
def test_a_torn_line_is_a_loss(tmp_path: Path, line: str) -> None:
    found = readers.read_bytes(tmp_path, f"{HEAD}{line}\n{HEAD}{next(iter(LINES))}\n".encode())
    assert readers.losses(found.staging) == {"unreadable": 1}
    assert found.importance.height == 1


@pytest.mark.parametrize(("kind", "size"), [("int", 4), ("short", 2)])
def test_records_of_old_and_new_kernels(tmp_path: Path, kind: str, size: int) -> None:
    """Linux 3.4 records the value as an int, 5.10 as a short."""
    machine = Machine()
    fields = [("pid_t pid", 8, 4, 1), ("char comm[16]", 12, 16, 0), (f"{kind} oom_score_adj", 28, size, 1)]
    values = [(12, b"mail", 0), (13, b"a b", -1000), (12, b"mail", 999)]
    code = {4: "i", 2: "h"}[size]
    records = b"".join(
        machine.record(1000, machine.fields(1, 77, machine.pack(f"i16s{code}", *row).ljust(24, b"\0")))
        for row in values
    )
    path = tmp_path / "trace.dat"
    path.write_bytes(
        File(machine, [("oom", event_format("oom_score_adj_update", 1, fields))], [machine.page(0, records)]).v6()
    )
    found = readers.read(path).importance
    assert found.select("task", "task_comm", "oom_score_adj").rows() == [(n, c.decode(), v) for n, c, v in values]
    assert found["tid"].to_list() == [77] * 3


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Path]:
    with tracing.instance(tmp_path) as path:
        yield path


PROGRAM = """
import os, threading
def score(value):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(value))
for value in (0, 900, 200, 700):
    score(value)
    if not os.fork():
        score(value + 1)
        os._exit(0)
    os.wait()
thread = threading.Thread(target=print)
thread.start()
thread.join()
print(os.getpid())
"""


@pytest.mark.root
def test_this_kernel_as_trace_cmd_prints_it(tmp_path: Path, instance: Path) -> None:
    """Binary records and their text agree in every column."""
    for event in ("oom/oom_score_adj_update", "task/task_newtask"):
        (instance / "events" / event / "enable").write_text("1")
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    (instance / "tracing_on").write_text("0")
    tracing.extract(instance, tmp_path / "trace.dat")
    text = tmp_path / "report.txt"
    text.write_text(tracing.trace_cmd("report", "-t", "-i", tmp_path / "trace.dat"))
    records, printed = readers.read(tmp_path / "trace.dat").importance, readers.read(text).importance
    assert records.height > 12
    assert records.select("ts_ns", "tid", *COLUMNS).equals(printed.select("ts_ns", "tid", *COLUMNS))
    pid = int(said.stdout)
    own = records.filter(pl.col("task") == pid, event="oom_score_adj_update")
    assert own["oom_score_adj"].to_list() == [0, 900, 200, 700]
    born = records.filter(event="task_newtask", tid=pid)
    assert born["oom_score_adj"].to_list() == [0, 900, 200, 700, 700]
    assert (born["clone_flags"] & 0x10000 > 0).to_list() == [False] * 4 + [True]
    children = records.filter(pl.col("task").is_in(born["task"].implode()), event="oom_score_adj_update")
    assert children.select("task", "oom_score_adj").rows() == list(zip(born["task"], (1, 901, 201, 701), strict=False))
    assert len(re.findall("oom_score_adj_update", text.read_text())) == records.filter(
        event="oom_score_adj_update"
    ).height  # fmt: skip


def of_perfetto(data: bytes) -> tuple[pl.DataFrame, dict[str, int]]:
    spool = Spool()
    staging = perfetto.read(Source.of(Path("a.pftrace"), data), spool)
    rows = spool.table("importance").collect() if spool.rows("importance") else schema.empty("importance")
    return rows, readers.losses(staging)


UPDATES = st.tuples(st.integers(1, 99), st.text("ab =", max_size=8), st.integers(-1000, 1000), st.none())
CREATIONS = st.tuples(
    st.integers(1, 99), st.text("ab =", max_size=8), st.integers(-1000, 1000), st.integers(0, 1 << 40)
)


@given(st.lists(UPDATES | CREATIONS, max_size=12))
def test_perfetto_tells_the_same_as_was_written(rows: list[tuple[int, str, int, int | None]]) -> None:
    events: list[dict[str, Any]] = []
    for at, (task, comm, score, flags) in enumerate(rows):
        body = {"pid": task, "comm": comm, "oom_score_adj": score}
        new = {"task_newtask": {**body, "clone_flags": flags}}
        events.append({"timestamp": at, "pid": 7} | ({"oom_score_adj_update": body} if flags is None else new))
    found, losses = of_perfetto(trace(bundle(*events)))
    assert losses == {}
    assert found.select("ts_ns", "tid", *COLUMNS).rows() == [
        (at, 7, "task_newtask" if flags is not None else "oom_score_adj_update", task, comm, score, flags)
        for at, (task, comm, score, flags) in enumerate(rows)
    ]


def test_perfetto_reads_processes_at_the_start() -> None:
    """An omitted value is unchanged. Values outside of Linux' range are dropped."""
    first = [{"pid": 1, "oom_score_adj": -1000}, {"pid": 5, "oom_score_adj": 0}, {"pid": 6}]
    second = [{"pid": 5, "oom_score_adj": 900}, {"pid": 8, "oom_score_adj": 1 << 40}]
    packets = [
        {"process_stats": {"processes": processes}, "timestamp": at, "trusted_packet_sequence_id": 1}
        for at, processes in ((2_000, first), (3_000, second))
    ]
    found, losses = of_perfetto(trace(*packets))
    assert losses == {}
    assert found.select("ts_ns", "event", "task", "oom_score_adj").rows() == [
        *((2_000, "reading", 1, -1000), (2_000, "reading", 5, 0), (3_000, "reading", 5, 900)),
    ]
