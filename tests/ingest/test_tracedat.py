"""trace.dat, compared with trace-cmd, with the text of the same recordings, and with handwritten pages."""

from __future__ import annotations

import collections
import gzip
import json
import random
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus, readers, tracedat_files, tracing
from support.oracles import ftrace as ftrace_oracle
from support.tracedat_files import FORMAT, MACHINES, File, Machine, event_format, everything, random_file
from support.tracing import FLAGS, trace_cmd

from androstep_analysis import ingest
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.fs import tracepoints
from androstep_analysis.ingest.ftrace import binary as ftrace
from androstep_analysis.ingest.ftrace import pages as ftrace_pages
from androstep_analysis.ingest.ftrace import tracedat_file
from androstep_analysis.ingest.source import load

KERNEL = ["ext4_host_6.18", "ext4_guest_6.1", "f2fs_guest_6.1", "vfat_guest_6.1"]
OTHERS = ["labsisop_trace.dat", "lisa_sched_load_trace.dat", "trappy_raw_trace.dat", "trappy_trace_idle.dat"]
OF_MACHINES = [(machine, form) for machine in MACHINES for form in ("v6", "none")]
"""Both versions of the file from every machine. Compression does not depend on the machine."""
LINE = re.compile(
    r"^ *(?P<comm>.*)-(?P<tid>\d+) +\[(?P<cpu>\d+)\] *"
    + FLAGS
    + r" *(?P<time>[0-9.]+): +(?P<event>[^ :(]+):? *(?P<rest>.*)$"
)


def unpacked(directory: Path, name: str) -> Path:
    """Return the decompressed trace.dat of a recording of the corpus."""
    path = directory / f"{name}.dat"
    path.write_bytes(load(corpus.path(f"kernel/{name}/trace.dat.zst")).data)
    return path


# --- trace-cmd's own files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OTHERS)
def test_counts_of_the_corpus(name: str) -> None:
    path = corpus.path(f"trace_dat/{name}")
    staging = readers.read(path)
    expected: dict[str, Any] = json.loads(corpus.path(f"trace_dat/{name}.expected.json").read_text())
    assert staging.losses == ()
    assert staging.events == dict(sorted(expected["event_counts"].items()))
    container = tracedat_file.open_container(load(path))
    per_cpu = ftrace.census(container, ftrace.formats(container)).per_cpu
    assert {f"{cpu:03}": n for cpu, n in per_cpu.items()} == expected["events_per_cpu"]
    assert staging.first_ns is not None and staging.last_ns is not None
    # trace-cmd rounds to microseconds.
    assert abs(staging.first_ns - readers.ns(expected["first_ts"])) <= 500
    assert abs(staging.last_ns - readers.ns(expected["last_ts"])) <= 500


@pytest.mark.parametrize("name", OTHERS)
def test_records_of_the_corpus_stand_in_its_report(name: str) -> None:
    report = gzip.decompress(corpus.path(f"trace_dat/{name}.report.txt.gz").read_bytes()).decode(errors="replace")
    lines = [line for text in report.splitlines() if (line := LINE.match(text))]
    decoded = ftrace_oracle.decoded(corpus.path(f"trace_dat/{name}"))
    rows = pl.concat(
        frame.select("common_ts_ns", "common_cpu", "common_pid") for frame in decoded.frames.values()
    ).sort("common_ts_ns")
    assert [int(line["tid"]) for line in lines] == rows["common_pid"].to_list()
    assert [int(line["cpu"]) for line in lines] == rows["common_cpu"].to_list()
    times = [readers.ns(line["time"]) for line in lines]
    assert max(abs(a - b) for a, b in zip(times, rows["common_ts_ns"], strict=True)) <= 500


@pytest.mark.parametrize("name", KERNEL)
def test_every_field_of_every_event_is_as_trace_cmd_reads_it(tmp_path: Path, name: str) -> None:
    path = unpacked(tmp_path, name)
    decoded = ftrace_oracle.decoded(path)
    lines: dict[str, list[re.Match[str]]] = collections.defaultdict(list)
    for text in trace_cmd("report", "-R", "-t", "-i", path).splitlines():
        if line := LINE.match(text):
            lines[line["event"]].append(line)
    assert {event: len(found) for event, found in lines.items()} == dict(decoded.counts)
    for number, frame in decoded.frames.items():
        event = decoded.events[number]
        rows = frame.sort("common_ts_ns", "common_order")
        fields = [field for field in event.fields if not field.startswith("common_")]
        pick = random.Random(event.name).sample(range(rows.height), min(rows.height, 50))
        for row, line in ((rows.row(at, named=True), lines[event.name][at]) for at in pick):
            assert (row["common_ts_ns"], row["common_pid"]) == (readers.ns(line["time"]), int(line["tid"]))
            printed = re.fullmatch(" ".join(rf"{field}=(.*)" for field in fields), line["rest"].strip(" "))
            if printed is None:  # a name with spaces, or something that trace-cmd does not print as a field
                continue
            for field, value in zip(fields, printed.groups(), strict=True):
                if row[field] is None:  # for a string of length 0, trace-cmd prints the bytes that follow
                    continue
                assert value in _printed(row[field]), (event.name, field)


def _printed(value: object) -> set[str]:
    """Return the ways in which trace-cmd may print a field."""
    if not isinstance(value, int):
        return {str(value)}
    unsigned = value % (1 << 64)
    return {str(value), str(unsigned), f"{unsigned:x}", f"{unsigned:o}", *(f"0x{unsigned:0{n}x}" for n in (1, 2, 8))}


def assert_same_fs_events(binary: ingest.Staging, printed: ingest.Staging) -> None:
    """Assert that rows are equal. Text has no processes, and has byte offsets of pages added to the cache."""
    of_cache = pl.col("event") == tracepoints.CACHED
    place = pl.when(of_cache).then(pl.col("page") * 4096).otherwise("offset_bytes")
    page = pl.when(~of_cache).then("page")
    in_bytes = binary.fs_events.with_columns(offset_bytes=place, page=page)
    assert in_bytes.drop("comm", "pid").equals(printed.fs_events.drop("comm", "pid"))


@pytest.mark.parametrize("name", KERNEL)
def test_the_same_recording_as_text(tmp_path: Path, name: str) -> None:
    path = unpacked(tmp_path, name)
    text = tmp_path / "report.txt"
    text.write_text(trace_cmd("report", "-t", "-i", path))
    binary, printed = readers.read(path), readers.read(text)
    assert (binary.losses, printed.losses) == ((), ())
    assert (binary.events, binary.first_ns, binary.last_ns) == (printed.events, printed.first_ns, printed.last_ns)
    assert (binary.format, binary.clock) == ("trace.dat", "mono")
    # The report contains the last name of each thread for all times, and no processes.
    apart = ("comm", "pid")
    assert binary.block.drop(apart).equals(printed.block.drop(apart))
    assert_same_fs_events(binary, printed)


def test_the_text_in_the_corpus() -> None:
    binary = readers.read(corpus.path("kernel/ext4_host_6.18/trace.dat.zst"))
    printed = readers.read(corpus.path("kernel/ext4_host_6.18/trace.txt.gz"))
    assert binary.events == printed.events
    assert binary.block.drop("comm", "pid").equals(printed.block.drop("comm", "pid"))
    assert_same_fs_events(binary, printed)


@pytest.mark.parametrize("name", KERNEL)
def test_names_are_those_of_the_time(tmp_path: Path, name: str) -> None:
    """The expected names are derived line by line.

    The name is that of the last event about a thread, the process that of its parent.
    """
    path = unpacked(tmp_path, name)
    saved = dict(line.split(" ", 1) for line in tracedat_file.open_container(load(path)).cmdlines.splitlines())
    names: dict[int, str] = {0: "<idle>"}
    processes: dict[int, int] = {}
    first: dict[int, str] = {}
    expected = []
    for text in trace_cmd("report", "-t", "-i", path).splitlines():
        line = LINE.match(text)
        if line is None:
            continue
        tid, rest = int(line["tid"]), line["rest"]
        if line["event"] == "task_newtask":
            made, comm, flags = re.findall(r"pid=(\d+) comm=(.*) clone_flags=(\w+)", rest)[0]
            names[int(made)] = comm
            is_thread = int(flags, 16) & 0x10000
            processes[int(made)] = processes.get(tid, -1) if is_thread else int(made)
        elif line["event"] == "task_rename":
            renamed, old, new = re.findall(r"pid=(\d+) oldcomm=(.*) newcomm=(.*) oom", rest)[0]
            first.setdefault(int(renamed), old)
            names[int(renamed)] = new
        elif line["event"].startswith("block_") and (own := re.search(r" \[(\D.*)\]$| ?\[([^ ].*)\](?: \d+)?$", rest)):
            comm = own[1] or own[2]
            if not re.fullmatch(r"-?\d+", comm) and tid:
                first.setdefault(tid, comm)
                names[tid] = comm
        if line["event"] in ("ext4_da_write_begin", "writeback_dirty_folio", "f2fs_write_begin"):
            expected.append((readers.ns(line["time"]), tid, names.get(tid), processes.get(tid, -1)))
    events = ["ext4_da_write_begin", "writeback_dirty_folio", "f2fs_write_begin"]
    table = readers.read(path).fs_events.filter(pl.col("event").is_in(events))
    rows = [
        (ts, tid, comm or first.get(tid) or saved.get(str(tid)), None if pid < 0 else pid)
        for ts, tid, comm, pid in expected
    ]
    assert len(rows) > 3000
    assert table.select("ts_ns", "tid", "comm", "pid").rows() == rows


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_version_7(tmp_path: Path, compression: str) -> None:
    path = unpacked(tmp_path, "ext4_host_6.18")
    other = tmp_path / "v7.dat"
    trace_cmd("convert", "-i", path, "-o", other, "--file-version", "7", "--compression", compression)
    assert other.read_bytes()[10:12] == b"7\0"
    same(readers.read(other), readers.read(path))


def same(one: readers.Read, two: readers.Read) -> None:
    assert one.events == two.events
    assert (one.first_ns, one.last_ns, one.lost_events, one.clock) == (
        two.first_ns,
        two.last_ns,
        two.lost_events,
        two.clock,
    )
    assert one.block.equals(two.block)
    assert one.fs_events.equals(two.fs_events)
    assert one.tasks.equals(two.tasks)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Path]:
    with tracing.instance(tmp_path) as path:
        yield path


@pytest.mark.root
def test_a_recording_of_this_kernel_by_trace_cmd(tmp_path: Path, instance: Path) -> None:
    """Version 7, compressed, of a second instance, with more events than its buffer holds."""
    (instance / "buffer_size_kb").write_text("64")
    for name in ("task", "sched", "block", "ext4", "jbd2"):
        (instance / "events" / name / "enable").write_text("1")
    subprocess.run(["dd", "if=/dev/zero", f"of={tmp_path}/x", "bs=4k", "count=2000", "conv=fsync"], stderr=-3)
    for _ in range(20):
        subprocess.run(["true"], check=True)
    (instance / "tracing_on").write_text("0")
    stats = "".join(path.read_text() for path in instance.glob("per_cpu/cpu*/stats"))
    overrun = sum(map(int, re.findall(r"^overrun: (\d+)$", stats, re.MULTILINE)))
    path = tmp_path / "trace.dat"
    tracing.extract(instance, path)
    assert path.read_bytes()[10:14] == b"7\0\0\x08"
    report = trace_cmd("report", "-t", "-i", path)
    lines = [line for text in report.splitlines() if (line := LINE.match(text))]
    staging = readers.read(path)
    assert collections.Counter(line["event"] for line in lines) == staging.events
    times = [readers.ns(line["time"]) for line in lines]
    assert (min(times), max(times)) == (staging.first_ns, staging.last_ns)
    lost = sum(map(int, re.findall(r"CPU:\d+ \[(\d+) EVENTS DROPPED\]", report)))
    # A page with only overwritten records has no mark, and trace-cmd prints nothing.
    assert staging.lost_events == max(lost, overrun) > 0
    assert readers.losses(staging) == {"overwritten": staging.lost_events}
    queued = staging.block.filter(pl.col("event") == "block_rq_issue")
    said = [line for line in lines if line["event"] == "block_rq_issue"]
    assert queued["ts_ns"].to_list() == [readers.ns(line["time"]) for line in said]
    dev = (pl.col("dev") // (1 << 20)).cast(pl.String) + "," + (pl.col("dev") % (1 << 20)).cast(pl.String)
    start = pl.concat_str(dev, "rwbs", separator=" ")
    assert all(line["rest"].startswith(text) for line, text in zip(said, queued.select(start).to_series(), strict=True))


# --- files written by hand -----------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize(("machine", "form"), [*OF_MACHINES, (MACHINES[0], "zlib"), (MACHINES[0], "zstd")], ids=str)
def test_every_machine(tmp_path: Path, machine: Machine, form: str) -> None:
    file, rows, lost = random_file(machine, str(machine))
    path = tmp_path / "trace.dat"
    path.write_bytes(file.v6() if form == "v6" else file.v7(form))
    staging = readers.read(path)
    assert staging.events == {"everything": len(rows)}
    assert (staging.lost_events, staging.clock) == (lost, "boot")
    assert readers.losses(staging) == {"overwritten": lost}
    (frame,) = ftrace_oracle.decoded(path).frames.values()
    frame = frame.with_columns(pl.col(name).fill_null("") for name in ("name", "near"))
    assert frame.select(list(rows[0])).rows(named=True) == rows
    assert staging.tasks.select("tid", "comm").rows() == [(0, "<idle>"), (10, "one name"), (11, "two")]


@pytest.mark.parametrize("form", ["none", "zlib", "zstd"])
@pytest.mark.parametrize("more", [-7, 3, 1 << 40])
def test_names_that_changed_while_trace_cmd_copied_them(tmp_path: Path, form: str, more: int) -> None:
    """The stated length of the kernel's file is that of another time. All that was copied is read, without a loss."""
    file, rows, lost = random_file(MACHINES[0], "changed")
    path = tmp_path / "trace.dat"
    path.write_bytes(replace(file, cmdlines_more=more).v7(form))
    staging = readers.read(path)
    assert staging.events == {"everything": len(rows)}
    assert readers.losses(staging) == {"overwritten": lost}
    assert staging.tasks.select("tid", "comm").rows() == [(0, "<idle>"), (10, "one name"), (11, "two")]


@pytest.mark.parametrize(("machine", "form"), [*OF_MACHINES, (MACHINES[0], "zstd")], ids=str)
def test_trace_cmd_reads_the_same(tmp_path: Path, machine: Machine, form: str) -> None:
    file, rows, _ = random_file(machine, str(machine))
    path = tmp_path / "trace.dat"
    path.write_bytes(file.v6() if form == "v6" else file.v7(form))
    report = trace_cmd("report", "-t", "-i", path).splitlines()
    lines = [line for text in report if (line := LINE.match(text))]
    # The nanoseconds of a clock that trace-cmd does not know are printed as they are.
    seen = sorted((int(line["cpu"]), int(line["time"]), line["rest"]) for line in lines)
    said = [
        (
            row["common_cpu"],
            row["common_ts_ns"],
            "c={c} d={d} a={a} b={b} fixed={fixed} name={name}.".format_map(row | {"d": row["d"] % (1 << 16)}),
        )
        for row in rows
    ]
    assert seen == sorted(said)


SOMETHING: dict[str, Any] = {
    **{"c": 1, "d": 2, "a": 3, "b": 4, "fixed": "x", "name": "n", "list": [1, 2, 3], "numbers": [], "near": ""}
}


def plain_page(machine: Machine, time: int, lost: int | None = None, tid: int = 9) -> bytes:
    """Return a page of three events."""
    record = machine.record(5, everything(machine, tid, SOMETHING))
    return machine.page(time, record * 3, lost)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_lost_events_as_trace_cmd_counts_them(tmp_path: Path, machine: Machine) -> None:
    counts = [5, None, 0, 7, 1 << 20, None, 3]
    data = b"".join(plain_page(machine, 1000 * (i + 1), lost) for i, lost in enumerate(counts))
    path = tmp_path / "trace.dat"
    path.write_bytes(File(machine, [("made", FORMAT)], [data]).v6())
    said = re.findall(r"^CPU:0 \[(?:(\d+) )?EVENTS DROPPED\]", trace_cmd("report", "-i", path), re.MULTILINE)
    assert [int(n or 0) for n in said] == [n for n in counts if n is not None]
    # What was not counted is at least one.
    assert readers.read(path).lost_events == 5 + 1 + 7 + (1 << 20) + 3


def test_lost_events_of_the_statistics(tmp_path: Path) -> None:
    machine = Machine()
    stats = "CPU: 0\nentries: 3\noverrun: {}\ncommit overrun: 1\nbytes: 9\ndropped events: {}\nread events: 3\n"
    path = tmp_path / "trace.dat"

    def read(overrun: int, dropped: int) -> tuple[int, dict[str, int]]:
        options = [(2, stats.format(overrun, dropped).encode() + b"\0"), (2, stats.format(0, 0).encode() + b"\0")]
        path.write_bytes(File(machine, [("made", FORMAT)], [plain_page(machine, 1, 10)], "", options).v6())
        staging = readers.read(path)
        return staging.lost_events, readers.losses(staging)

    assert read(10, 0) == (12, {"overwritten": 10, "dropped": 2})
    assert read(40, 5) == (47, {"overwritten": 40, "dropped": 7})


def test_absolute_times(tmp_path: Path) -> None:
    """An absolute time stamp keeps the upper 5 bits of the previous time, since they do not fit in it."""
    machine = Machine()
    event = everything(machine, 9, SOMETHING)
    for start, stamp, expected in [
        (100, 7 << 40, 7 << 40),
        ((1 << 59) + 100, 7 << 40, (1 << 59) + (7 << 40)),
    ]:
        records = machine.record(5, event) + machine.stamp(stamp) + machine.record(3, event)
        path = tmp_path / "trace.dat"
        path.write_bytes(File(machine, [("made", FORMAT)], [machine.page(start, records)]).v6())
        staging = readers.read(path)
        assert (staging.first_ns, staging.last_ns) == (start + 5, expected + 3)
        (page,) = tracedat_files.pages(machine, machine.page(start, records))
        assert [time for time, *_ in tracedat_files.follow(machine, page)] == [start + 5, expected + 3]


@pytest.mark.parametrize(
    ("options", "shift", "realtime_ns"),
    [
        ([(7, b"1000\0")], 1000, None),
        ([(7, b"-500\0"), (7, b"0x10\0")], -484, None),
        ([(7, b"nothing\0")], 0, None),
        ([(99, b"unknown")], 0, None),
        ([(1, b"0x5f5e100\0")], 0, 0x5F5E100 * 1000),
    ],
)
def test_offsets_and_time_of_day_as_trace_cmd_adds_them(
    tmp_path: Path, options: list[tuple[int, bytes]], shift: int, realtime_ns: int | None
) -> None:
    machine = Machine()
    path = tmp_path / "trace.dat"
    clock = (4, b"[mono]")
    path.write_bytes(File(machine, [("made", FORMAT)], [plain_page(machine, 10**12)], "", [clock, *options]).v6())
    staging = readers.read(path)
    assert (staging.first_ns, staging.realtime_offset_ns) == (10**12 + 5 + shift, realtime_ns)
    line = LINE.match(trace_cmd("report", "-t", "-i", path).splitlines()[1])
    assert line is not None and readers.ns(line["time"]) == staging.first_ns + (realtime_ns or 0)


@pytest.mark.parametrize("zero", [0, 5000])
@pytest.mark.parametrize("multiplier", [(1 << 31) - 1, 1431655765, 3])
def test_cycles_as_trace_cmd_converts_them(tmp_path: Path, multiplier: int, zero: int) -> None:
    machine = Machine()
    path = tmp_path / "trace.dat"
    options = [(4, b"[x86-tsc]"), (14, machine.pack("IIQ", multiplier, 32, zero))]
    start = (1 << 62) + 12345
    path.write_bytes(File(machine, [("made", FORMAT)], [plain_page(machine, start)], "", options).v6())
    staging = readers.read(path)
    assert staging.first_ns == (start + 5) * multiplier >> 32
    assert staging.losses == ()
    line = LINE.match(trace_cmd("report", "-t", "-i", path).splitlines()[1])
    assert line is not None and readers.ns(line["time"]) == staging.first_ns
    path.write_bytes(File(machine, [("made", FORMAT)], [plain_page(machine, start)], "", options[:1]).v6())
    assert readers.losses(readers.read(path)) == {"clock": 1}


@pytest.mark.parametrize("form", ["v6", "zstd"])
def test_instances(tmp_path: Path, form: str) -> None:
    machine = Machine()
    cpus = [plain_page(machine, 100), plain_page(machine, 50)]
    others = [plain_page(machine, 70, tid=3), b""]
    file = File(machine, [("made", FORMAT)], cpus, "9 nine\n3 three\n", [], [("second", others)])
    path = tmp_path / "trace.dat"
    path.write_bytes(file.v6() if form == "v6" else file.v7(form))
    staging = readers.read(path)
    assert (staging.events, staging.first_ns, staging.last_ns) == ({"everything": 9}, 55, 115)
    assert set(staging.tasks["comm"]) == {"<idle>", "nine", "three"}


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_any_pages_as_the_slow_version_follows_them(machine: Machine) -> None:
    """Pages are real ones with changed bytes, and random ones."""
    pick = random.Random(str(machine))
    layout = ftrace_pages.layout(
        machine.header_page.decode(), machine.big_endian, machine.page_bytes, machine.long_bytes
    )
    first, second = random_file(machine, "any")[0].cpus
    for _ in range(40):
        pages = bytearray(first + second)
        for _ in range(pick.randrange(200)):
            at = pick.randrange(len(pages)) if pick.randrange(4) else pick.randrange(24)
            pages[at] = pick.choice([0, 29, 30, 31, 255, pick.randrange(256)])
        if pick.randrange(4) == 0:
            pages[machine.data_at :] = pick.randbytes(len(pages) - machine.data_at)
        found = ftrace_pages.records(layout, bytes(pages))
        walked = ftrace_oracle.walk(layout, bytes(pages))
        columns = (found.start.tolist(), found.size.tolist(), found.ts.tolist())
        assert list(zip(*columns, strict=True)) == walked.records
        assert (found.broken, min(found.lost, 1 << 63)) == (walked.broken, min(walked.lost, 1 << 63))


# --- threads -------------------------------------------------------------------------------------------------------

TASK_FORMATS = [
    (
        "task",
        event_format(
            "task_newtask",
            1,
            [("pid_t pid", 8, 4, 1), ("char comm[16]", 12, 16, 0), ("unsigned long clone_flags", 32, 8, 0)],
        ),
    ),
    (
        "task",
        event_format(
            "task_rename", 2, [("pid_t pid", 8, 4, 1), ("char oldcomm[16]", 12, 16, 0), ("char newcomm[16]", 28, 16, 0)]
        ),
    ),
    ("jbd2", event_format("jbd2_start_commit", 3, [("dev_t dev", 8, 4, 0), ("tid_t transaction", 12, 4, 0)])),
    ("block", event_format("block_plug", 4, [("char comm[16]", 8, 16, 0)])),
    (
        "sched",
        event_format("sched_process_exec", 5, [("__data_loc char[] filename", 8, 4, 0), ("pid_t pid", 12, 4, 1)]),
    ),
    (
        "sched",
        event_format("sched_process_fork", 6, [("char child_comm[16]", 8, 16, 0), ("pid_t child_pid", 24, 4, 1)]),
    ),
]


def task_file(events: list[tuple[int, str, tuple[Any, ...]]], cmdlines: str = "", tgids: str = "") -> bytes:
    """Return a trace of task events one microsecond apart: (running thread, event, fields)."""
    machine = Machine()
    records = b""
    for tid, event, values in events:
        if event == "newtask":
            made, comm, is_thread = values
            data = machine.pack("i16s4xQ", made, comm.encode(), 0x10000 if is_thread else 0)
        elif event == "rename":
            data = machine.pack("i16s16s", values[0], values[1].encode(), values[2].encode())
        elif event == "commit":
            data = machine.pack("II", 7 << 20, values[0])
        elif event == "plug":
            data = machine.pack("16s", values[0].encode())
        elif event == "exec":
            name = values[1].encode() + b"\0"
            data = machine.pack("Ii", len(name) << 16 | 16, values[0]) + name
        else:
            data = machine.pack("16si", values[1].encode(), values[0])
        number = {"newtask": 1, "rename": 2, "commit": 3, "plug": 4, "exec": 5, "fork": 6}[event]
        records += machine.record(1000, machine.fields(number, tid, data))
    options = [(32, tgids.encode() + b"\0")] if tgids else []
    return File(machine, TASK_FORMATS, [machine.page(0, records)], cmdlines, options).v6()


def test_a_thread_over_time(tmp_path: Path) -> None:
    """Id 20 is first a thread of process 10. It is then reused for a process that is renamed."""
    data = task_file(
        [
            (20, "commit", (1,)),  # before anything is known of it
            (10, "newtask", (20, "parent", True)),
            (20, "commit", (2,)),
            (20, "rename", (20, "parent", "worker")),
            (20, "commit", (3,)),
            (20, "newtask", (30, "worker", True)),
            (30, "commit", (4,)),
            (11, "newtask", (20, "sh", False)),
            (20, "rename", (20, "sh", "ls")),
            (20, "commit", (5,)),
            (40, "commit", (6,)),
            (40, "plug", ("late",)),
            (0, "commit", (7,)),
            (50, "commit", (8,)),
            (60, "commit", (9,)),
        ],
        cmdlines="20 ls\n50 saved\n60 <...>\n30 later\n",
        tgids="10 10\n50 49\n",
    )
    staging = readers.read_bytes(tmp_path, data)
    rows = staging.fs_events.select("transaction", "tid", "pid", "comm").rows()
    assert rows == [
        (1, 20, None, None),
        (2, 20, 10, "parent"),
        (3, 20, 10, "worker"),
        (4, 30, 10, "worker"),
        (5, 20, 20, "ls"),
        (6, 40, None, "late"),
        (7, 0, None, "<idle>"),
        (8, 50, 49, "saved"),
        (9, 60, None, None),
    ]
    named = staging.tasks.filter(pl.col("tid") == 20).select("pid", "comm", "valid_from_ns", "valid_to_ns").rows()
    assert named == [
        (10, "parent", 2000, 4000),
        (10, "worker", 4000, 8000),
        (20, "sh", 8000, 9000),
        (20, "ls", 9000, None),
    ]


def test_threads_where_names_are_not_recorded(tmp_path: Path) -> None:
    made = [(10, "fork", (20, "sh")), (20, "commit", (1,))]
    rows = readers.read_bytes(tmp_path, task_file(made, "20 ls\n")).fs_events
    assert rows["comm"].to_list() == [None]
    run = [*made, (20, "exec", (20, "/usr/bin/a-long-program-name")), (20, "commit", (2,))]
    rows = readers.read_bytes(tmp_path, task_file(run)).fs_events
    assert rows["comm"].to_list() == ["sh", "a-long-program-"[:15]]


# --- fields that differ between kernels ----------------------------------------------------------------------------


def test_block_events_of_linux_3_10(tmp_path: Path) -> None:
    """`errors` is the driver's status, rwbs is followed by stale bytes, the sector of a flush is all ones."""
    machine = Machine(long_bytes=4)
    formats = [
        ("block", event_format("block_rq_complete", 1, [
            ("dev_t dev", 8, 4, 0), ("sector_t sector", 16, 8, 0), ("unsigned int nr_sector", 24, 4, 0),
            ("int errors", 28, 4, 1), ("char rwbs[8]", 32, 8, 0), ("__data_loc char[] cmd", 40, 4, 0),
        ])),
        ("block", event_format("block_rq_requeue", 2, [
            ("dev_t dev", 8, 4, 0), ("sector_t sector", 16, 8, 0), ("unsigned int nr_sector", 24, 4, 0),
            ("int errors", 28, 4, 1), ("char rwbs[8]", 32, 8, 0), ("__data_loc char[] cmd", 40, 4, 0),
        ])),
        ("block", event_format("block_split", 3, [
            ("dev_t dev", 8, 4, 0), ("sector_t sector", 16, 8, 0), ("sector_t new_sector", 24, 8, 0),
            ("char rwbs[8]", 32, 8, 0), ("char comm[16]", 40, 16, 0),
        ])),
    ]  # fmt: skip
    dev = 179 << 20 | 3

    def done(number: int, sector: int, status: int) -> bytes:
        data = machine.pack("I4xQIi8sI", dev, sector, 16, status, b"WS\0dirty", 0)
        return machine.record(10, machine.fields(number, 5, data))

    records = done(1, 8, 0) + done(1, 8, -5) + done(1, 8, 65536) + done(1, (1 << 64) - 1, 0) + done(2, 8, 0)
    split = machine.pack("I4xQQ8s16s", dev, 8, 24, b"W", b"dd\0garbage")
    records += machine.record(10, machine.fields(3, 6, split))
    staging = readers.read_bytes(tmp_path, File(machine, formats, [machine.page(0, records)], "5 x\n").v6())
    columns = ("action", "dev", "sector", "nr_sectors", "rwbs", "error", "comm")
    assert staging.block.select(columns).rows() == [
        ("complete", dev, 8, 16, "WS", 0, "x"),
        ("complete", dev, 8, 16, "WS", -5, "x"),
        ("complete", dev, 8, 16, "WS", None, "x"),
        ("complete", dev, None, 16, "WS", 0, "x"),
        ("requeue", dev, 8, 16, "WS", None, "x"),
        ("split", dev, 8, 16, "W", None, "dd"),
    ]


@pytest.mark.parametrize(
    ("kind", "size", "flags"),
    [
        ("char status", 1, '{ (1 << 0), "W" }, { (1 << 1), "U" }, { (1 << 2), "D" }, { (1 << 3), "H" }'),
        ("unsigned long long status", 8, '{ (1ULL << 60), "W" }, { (1ULL << 61), "U" }, { 0x2, "D" }'),
    ],
)
def test_status_of_an_extent(tmp_path: Path, kind: str, size: int, flags: str) -> None:
    machine = Machine()
    fields = [("dev_t dev", 8, 4, 0), ("ino_t ino", 16, 8, 0), ("ext4_lblk_t lblk", 24, 4, 0),
              ("ext4_lblk_t len", 28, 4, 0), ("ext4_fsblk_t pblk", 32, 8, 0), (kind, 40, size, 0)]  # fmt: skip
    form = event_format("ext4_es_insert_extent", 1, fields, f'"%s", __print_flags(REC->status, "", {flags})')
    values = [1, 2, 3, 0, 0x40 | 1] if size == 1 else [1 << 60, 1 << 61, 3 << 60, 0, 1 << 63 | 1 << 60]
    records = b"".join(
        machine.record(1, machine.fields(1, 5, machine.pack("I4xQIIQ", 7, 11, 1, 2, (1 << 64) - 1) + value))
        for value in (machine.pack({1: "B", 8: "Q"}[size], value) for value in values)
    )
    staging = readers.read_bytes(tmp_path, File(machine, [("ext4", form)], [machine.page(0, records)]).v6())
    rest = "0x40" if size == 1 else hex(1 << 63)
    assert staging.fs_events["status"].to_list() == ["W", "U", "WU", "", f"W{rest}"]
    assert staging.fs_events["block"].null_count() == 5  # all ones is no block


def test_a_device_without_number(tmp_path: Path) -> None:
    machine = Machine()
    fields = [("char name[32]", 8, 32, 0), ("ino_t ino", 40, 8, 0), ("unsigned long index", 48, 8, 0)]
    names = [b"8:0\0xyz", b"btrfs-1", b"259:1048575", b"99999999:0"]
    records = b"".join(machine.record(1, machine.fields(1, 5, machine.pack("32sQQ", name, 11, 3))) for name in names)
    form = event_format("writeback_dirty_page", 1, fields)
    staging = readers.read_bytes(tmp_path, File(machine, [("writeback", form)], [machine.page(0, records)]).v6())
    assert staging.fs_events.select("dev", "ino", "page").rows() == [
        (8 << 20, 11, 3), (None, 11, 3), (259 << 20 | 1048575, 11, 3), (None, 11, 3),
    ]  # fmt: skip


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("form", ["v6", "none", "zlib", "zstd"])
def test_truncation(tmp_path: Path, form: str) -> None:
    """Every complete page is read, and each loss is reported once."""
    machine = Machine()
    file, _, _ = random_file(machine, "cut")
    data = file.v6() if form == "v6" else file.v7(form)
    whole = readers.read_bytes(tmp_path, data).events["everything"]
    pick = random.Random(form)
    complete = 0
    for cut in sorted(pick.randrange(1, len(data)) for _ in range(50)):
        path = tmp_path / "input"
        path.write_bytes(data[:cut])
        try:
            staging = readers.read(path)
        except InputError as error:
            assert "\n" not in str(error)
            assert form == "zlib" or form == "zstd" or _pages_before(file, data, cut) == 0
            continue
        assert staging.losses
        assert _pages_before(file, data, cut) <= staging.events["everything"] <= whole
        complete += 1
    assert complete > 10


def _pages_before(file: File, data: bytes, cut: int) -> int:
    """Return the number of events on complete, uncompressed pages before `cut`."""
    total = 0
    for cpu in file.cpus:
        start = data.find(cpu)
        if start >= 0:
            whole = list(tracedat_files.pages(file.machine, data[start : min(cut, start + len(cpu))]))
            total += sum(len(tracedat_files.follow(file.machine, page)) for page in whole)
    return total


@pytest.mark.parametrize("name", KERNEL)
def test_truncated_recordings(tmp_path: Path, name: str) -> None:
    data = load(corpus.path(f"kernel/{name}/trace.dat.zst")).data
    machine = Machine()
    path = tmp_path / "cut.dat"
    path.write_bytes(data)
    container = tracedat_file.open_container(load(path))
    pick = random.Random(name)
    for cut in (pick.randrange(container.buffers[0].cpus[0][1] + 4096, len(data)) for _ in range(5)):
        expected = 0
        for _, offset, size in container.buffers[0].cpus:
            for page in tracedat_files.pages(machine, data[offset : min(offset + size, cut)]):
                expected += len(tracedat_files.follow(machine, page))
        staging = readers.read_bytes(tmp_path, data[:cut])
        # The page at the cut holds at most as many records of 8 bytes.
        assert expected <= sum(staging.events.values()) <= expected + 512
        assert readers.losses(staging)["torn"] >= 1


def test_version_7_without_its_last_list_of_contents(tmp_path: Path) -> None:
    path, other = unpacked(tmp_path, "ext4_host_6.18"), tmp_path / "v7.dat"
    whole = readers.read(path)
    for compression in ("zstd", "none"):
        trace_cmd("convert", "-i", path, "-o", other, "--file-version", "7", "--compression", compression)
        staging = readers.read_bytes(tmp_path, other.read_bytes()[:-200])
        assert staging.events == whole.events
        assert staging.block.drop("cpu").equals(whole.block.drop("cpu"))
        assert staging.block["cpu"].null_count() == staging.block.height
        assert len(staging.losses) == 1


@pytest.mark.prove
@pytest.mark.parametrize("form", ["v6", "none", "zlib", "zstd"])
def test_damage_anywhere(tmp_path: Path, form: str) -> None:
    """Changed bytes result in a table or in one message."""
    file, _, _ = random_file(Machine(), "damage")
    data = file.v6() if form == "v6" else file.v7(form)
    pick = random.Random(form)
    head = data.find(b"flyrecord") + 64 if form == "v6" else len(data)
    for _ in range(60):
        changed = bytearray(data)
        for _ in range(pick.randrange(1, 6)):
            changed[pick.randrange(10, pick.choice([64, head, len(data)]))] = pick.choice(
                [0, 1, 255, pick.randrange(256)]
            )
        path = tmp_path / "input"
        path.write_bytes(changed)
        try:
            readers.read(path)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 600


def test_numbers_that_promise_too_much(tmp_path: Path) -> None:
    """Sizes and counts are limited by the size of the file."""
    machine = Machine()
    file = File(machine, [("made", FORMAT)], [plain_page(machine, 1)])
    data = file.v6()
    table = data.index(b"flyrecord") + 10
    size = bytearray(data)
    size[table + 8 : table + 16] = machine.pack("Q", 1 << 62)
    staging = readers.read_bytes(tmp_path, bytes(size))
    assert (staging.events, readers.losses(staging)) == ({"everything": 3}, {"torn": 1})
    cpus = bytearray(data)
    at = data.index(b"options  ") - 4
    cpus[at : at + 4] = machine.pack("I", (1 << 32) - 1)
    with pytest.raises(InputError, match="no event"):
        ingest.read(_written(tmp_path, bytes(cpus)))
    # A table whose entries all point to the same pages.
    again = File(machine, [("made", FORMAT)], [plain_page(machine, 1)] + [b""] * 1000).v6()
    table = again.index(b"flyrecord") + 10
    entry = again[table : table + 16]
    many = again[:table] + entry * 1001 + again[table + 16 * 1001 :]
    staging = readers.read_bytes(tmp_path, many)
    assert staging.events["everything"] <= 3 * len(many) // 4096
    assert readers.losses(staging) == {"unreadable": 1}


def test_tables_that_point_to_themselves(tmp_path: Path) -> None:
    machine = Machine()
    file = File(machine, [("made", FORMAT)], [plain_page(machine, 1)])
    data = file.v6()
    at = data.index(b"options  ")
    nested = data[:at] + (b"options  \0" + machine.pack("H", 0)) * 5000
    with pytest.raises(InputError, match="no event"):
        ingest.read(_written(tmp_path, nested))
    instance = (3, machine.pack("Q", at) + b"itself\0")
    staging = readers.read_bytes(tmp_path, File(machine, file.formats, file.cpus, "", [instance]).v6())
    assert staging.events["everything"] == 3
    packed = file.v7("none")
    place = 10 + 2 + 2 + 4 + len(b"none\x001\0")
    (options,) = struct.unpack_from("<Q", packed, place)
    last = packed.rindex(machine.pack("HIQ", 0, 8, 0)) + 6
    staging = readers.read_bytes(tmp_path, packed[:last] + machine.pack("Q", options) + packed[last + 8 :])
    assert staging.events["everything"] == 3


def _written(directory: Path, data: bytes) -> Path:
    path = directory / "input"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x17\x08\x44tracing8\0", "only versions 6 and 7 of trace.dat"),
        (b"\x17\x08\x44tracing", "header of this trace.dat is damaged"),
        (b"\x17\x08\x44tracing6\0\0\3\0\x10\0\0", "4 or 8 bytes"),
        (b"\x17\x08\x44tracing6\0\0\x08\1\0\0\0", "a page of"),
        (b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0", "contains no event"),
        (b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0lz4\x001\0", "zstd, zlib or none was expected"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ingest.read(_written(tmp_path, data))


def test_events_without_a_format_are_counted(tmp_path: Path) -> None:
    machine = Machine()
    records = machine.record(1, everything(machine, 5, SOMETHING)) + machine.record(1, machine.fields(9, 5, b""))
    staging = readers.read_bytes(tmp_path, File(machine, [("made", FORMAT)], [machine.page(0, records)]).v6())
    assert staging.events == {"event 9": 1, "everything": 1}
    assert readers.losses(staging) == {"unreadable": 1}


def test_fields_of_another_kind_than_expected_are_null(tmp_path: Path) -> None:
    machine = Machine()
    form = event_format("jbd2_start_commit", 1, [("char dev[8]", 8, 8, 0), ("u32 transaction", 5000, 4, 0)])
    data = machine.page(0, machine.record(1, machine.fields(1, 5, b"abcdefgh")))
    staging = readers.read_bytes(tmp_path, File(machine, [("jbd2", form)], [data]).v6())
    assert staging.fs_events.select("event", "dev", "transaction").rows() == [("jbd2_start_commit", None, None)]


@pytest.mark.parametrize("lost", [0, 7])
def test_what_was_overwritten_lies_between_the_records_around_it(tmp_path: Path, lost: int) -> None:
    machine = tracedat_files.Machine()
    body = machine.record(10, tracedat_files.everything(machine, 5, tracedat_files.random_values(random.Random(1))))
    early, late = machine.page(1000, body + body), machine.page(9000, body, lost)
    other = machine.page(500, body, lost)  # the start of the loss is unknown
    after = machine.page(20_000, body)
    container = tracedat_files.File(machine, [("made", tracedat_files.FORMAT)], [early + late + after, other])
    path = tmp_path / "trace.dat"
    path.write_bytes(container.v6())
    with pytest.warns(LossWarning):
        (loss,) = ingest.read(path).losses
    assert (loss.kind, loss.count) == ("overwritten", 2 * max(lost, 1))
    assert loss.tables is None and loss.spans == ((None, 510), (1020, 9010))
    # Losses that the kernel counted without a mark on a page may be at any time.
    stats = replace(container, options=[(2, f"CPU: 0\noverrun: {3 * max(lost, 1)}\n".encode())])
    path.write_bytes(stats.v6())
    with pytest.warns(LossWarning):
        (loss,) = ingest.read(path).losses
    assert (loss.count, loss.spans) == (3 * max(lost, 1), ((None, None),))


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
@pytest.mark.parametrize("name", ["ext4_guest_6.1", "vfat_guest_6.1"])
def test_the_same_block_events_as_raw_fields(tmp_path: Path, name: str) -> None:
    """``trace-cmd report -R`` prints fields by their names, and devices as numbers."""
    path = unpacked(tmp_path, name)
    found = []
    for option in ((), ("-R",)):
        text = tmp_path / f"report{len(found)}.txt"
        text.write_text(trace_cmd("report", *option, "-i", path))
        found.append(readers.read(text).block)
    assert found[0].height and found[1].equals(found[0])


def test_values_of_raw_fields_may_contain_spaces(tmp_path: Path) -> None:
    fields = "dev=8388624 sector=18446744073709551615 nr_sector=0 bytes=0x0 rwbs=FF comm=a b/c:1 cmd="
    lines = [
        f"  dd-7  [001]  1.000001: block_rq_issue:  {fields}",
        "  dd-7  [001]  1.000002: block_bio_remap:  dev=0x800010 sector=0x40 nr_sector=8 "
        "old_dev=265289728 old_sector=8 rwbs=R",
        "  dd-7  [001]  1.000003: block_split:  dev=8388624 sector=64 new_sector=96 rwbs=WS comm=dd",
        "  dd-7  [001]  1.000004: block_rq_complete:  dev=8388624 sector=64 nr_sector=8 error=-5 rwbs=R cmd=",
    ]
    (tmp_path / "report.txt").write_text("\n".join([*lines, ""]))
    block = readers.read(tmp_path / "report.txt").block
    columns = ("action", "dev", "sector", "nr_sectors", "rwbs", "comm", "error", "old_dev", "old_sector")
    dev = (8 << 20) + 16
    assert block.select(columns).rows() == [
        ("issue", dev, None, 0, "FF", "a b/c:1", None, None, None),
        ("remap", dev, 64, 8, "R", "dd", None, 253 << 20, 8),
        ("split", dev, 64, 32, "WS", "dd", None, None, None),
        ("complete", dev, 64, 8, "R", "dd", -5, None, None),
    ]


# --- names of threads --------------------------------------------------------------------------------------------

ISSUE = event_format(
    "block_rq_issue",
    900,
    [
        *(("dev_t dev", 8, 4, 0), ("sector_t sector", 16, 8, 0), ("unsigned int nr_sector", 24, 4, 0)),
        *(("unsigned int bytes", 28, 4, 0), ("char rwbs[8]", 32, 8, 0), ("char comm[16]", 40, 16, 0)),
    ],
)
EVICT = event_format(
    "ext4_evict_inode", 901, [("dev_t dev", 8, 4, 0), ("ino_t ino", 16, 8, 0), ("int nlink", 24, 4, 1)]
)


@pytest.mark.parametrize("saved", [None, "second", "third"])
def test_a_thread_has_no_name_between_sightings_of_two_names(saved: str | None, tmp_path: Path) -> None:
    """Without events that note names, an old name is known until it was last seen, and the saved one at the end."""
    machine = Machine()
    names = {100: "first", 110: "first", 120: "first", 210: "second", 220: "second"}
    records, before = b"", 80
    for at in (90, 100, 105, 110, 120, 150, 210, 215, 220, 250):
        if at in names:
            data = (
                machine.pack("IxxxxQII", 8 << 20, 8, 8, 4096)
                + b"R".ljust(8, b"\0")
                + names[at].encode().ljust(16, b"\0")
            )
            body = machine.fields(900, 70, data)
        else:
            body = machine.fields(901, 70, machine.pack("IxxxxQi", 8 << 20, 12, 0))
        records += machine.record(at - before, body)
        before = at
    file = File(
        machine, [("block", ISSUE), ("ext4", EVICT)], [machine.page(80, records)], f"70 {saved}\n" if saved else ""
    )
    (tmp_path / "trace.dat").write_bytes(file.v6())
    staging = readers.read(tmp_path / "trace.dat")
    found = staging.fs_events["comm"].to_list()
    assert found == ["first", "first", None, "second", None if saved == "third" else "second"]
    assert staging.tasks is not None
    spans = staging.tasks.filter(tid=70).select("comm", "valid_from_ns", "valid_to_ns").rows()
    assert spans == [("first", None, 121), ("second", 210, 221 if saved == "third" else None)]
