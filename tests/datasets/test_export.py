"""Exports for other tools, checked by hand, by our own readers, and by the tools."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import corpus, made
from support.tree import ROOT

from androstep_analysis import capture, cli, schema
from androstep_analysis.capture import Capture, derivation
from androstep_analysis.datasets import export

DEMO = ROOT / "datasets/demo"
TEXTS = [name for name, target in export.TARGETS.items() if target.is_text]


def exported(opened: Capture, target: str) -> str:
    written = io.BytesIO()
    export.write(opened, target, written)
    return written.getvalue().decode()


def written(opened: Capture, target: str, path: Path) -> Path:
    with path.open("w+b") as file:
        export.write(opened, target, file)
    return path


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", export.TARGETS)
def test_an_empty_capture(target: str, tmp_path: Path) -> None:
    content = written(made.capture(), target, tmp_path / "x").read_bytes()
    expected = {"fio2": b"fio version 2 iolog\n", "fio3": b"fio version 3 iolog\n"}
    assert target == "perfetto" or content == expected.get(target, b"")


@pytest.mark.prove
@pytest.mark.parametrize("target", export.TARGETS)
def test_the_command_writes_what_the_library_writes(target: str, tmp_path: Path) -> None:
    assert cli.main(["export", str(DEMO), "--to", target, "-o", str(tmp_path / "a")]) == 0
    assert (tmp_path / "a").read_bytes() == written(capture.open(DEMO), target, tmp_path / "b").read_bytes()


def test_nothing_half_made_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_capture: Capture, file: io.BytesIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setitem(export.TARGETS, "msr", export.Target("", "", fail))
    assert cli.main(["export", str(DEMO), "--to", "msr", "-o", str(tmp_path / "x")]) == 130
    assert list(tmp_path.iterdir()) == []


HOSTILE = "=a\x1b[2J\x9b\n\t\r\u202e\u2028],\"'/b"


@pytest.mark.parametrize("target", TEXTS)
def test_names_cannot_break_a_line_or_steer_a_terminal(target: str) -> None:
    times = {"queue_ns": 1, "issue_ns": 2, "complete_ns": 3}
    request = {**times, "sector": 8, "submit_comm": HOSTILE, "rwbs": HOSTILE}
    piece = {"request_id": 0, **times, "sector": 8, "block_type": "data", "path": HOSTILE, "owner_comm": HOSTILE}
    event = {"event": HOSTILE, "dev": made.DEV, "sector": 8, "nr_sectors": 8, "comm": HOSTILE, "rwbs": HOSTILE}
    opened = made.capture([request], [{**piece, "nr_sectors": 8, "bytes": 4096}], [event])
    opened.facts["device"] = HOSTILE
    lines = exported(opened, target).split("\n")
    assert len(lines) == {"fio2": 6, "fio3": 6, "mobigen": 1, "btt": 37}.get(target, 2)
    assert lines[-1] == ""
    assert all(character.isprintable() or character == "\t" for line in lines for character in line)


_MEMORY = """
import sys
from pathlib import Path
import polars as pl
sys.path.insert(0, sys.argv[4])
from support import made
from androstep_analysis import schema
from androstep_analysis.datasets import export
from androstep_analysis.capture import derivation
tables = {name: schema.empty(name) for name in derivation.TABLES}
opened = made.of_tables(tables)
opened.about["first_ns"], opened.about["last_ns"] = 0, 10**9
for name in ("requests", "io", "block_events"):
    opened.tables[name] = pl.scan_parquet(f"{sys.argv[1]}/{name}.parquet")
export.batches.BATCH_ROWS = 1 << 14
with open(sys.argv[3], "w+b") as file:
    export.write(opened, sys.argv[2], file)
peak = next(line for line in Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM'))
print(int(peak.split()[1]) // 1024)
"""


def many(rows: int, directory: Path) -> None:
    """Write tables of a capture with this many requests, in row groups."""
    number = np.arange(rows)
    times = {"queue_ns": number * 1000, "issue_ns": number * 1000 + 100, "complete_ns": number * 1000 + 5000}
    common = {"request_id": number, "sector": number * 8 % 1_000_000, "nr_sectors": np.full(rows, 8), **times}
    for name, columns in {
        "requests": common,
        "io": {**common, "bytes": np.full(rows, 4096), "ino": number % 1000, "file_offset_bytes": number % 7 * 4096},
        "block_events": {"ts_ns": number * 1000, "sector": number * 8, "nr_sectors": np.full(rows, 8)},
    }.items():
        one = made.table(name, [{"action": "queue"}]).drop(list(columns))
        frame = pl.DataFrame(columns).join(one, how="cross").select(schema.table(name).polars.names())
        frame.cast(dict(schema.table(name).polars)).write_parquet(directory / f"{name}.parquet", row_group_size=1 << 14)


@pytest.mark.prove
@pytest.mark.parametrize("target", sorted(set(export.TARGETS) - {"most"}))
def test_memory_does_not_grow_with_the_capture(target: str, tmp_path: Path) -> None:
    peaks = []
    for rows in (100_000, 400_000):
        directory = tmp_path / str(rows)
        directory.mkdir()
        many(rows, directory)
        arguments = [directory, target, tmp_path / "x", ROOT / "tests"]
        done = subprocess.run([sys.executable, "-c", _MEMORY, *arguments], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 100


# -- blkparse ---------------------------------------------------------------------------------------------------------

_SEQUENCE = re.compile(r"^( *\d+,\d+ +\d+) +\d+ ")
_UNPLUGGED = re.compile(r"( U.*\]) \d+$")


def comparable(text: str) -> list[str]:
    """Return event lines without sequence numbers and requests of an unplug, which table block_events lacks."""
    lines = [line for line in text.splitlines() if _SEQUENCE.match(line) and " m " not in line]
    return [_UNPLUGGED.sub(r"\1", _SEQUENCE.sub(r"\1 ", line)) for line in lines]


@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")  # times before the start
@pytest.mark.parametrize(
    "name",
    [
        "blktrace_bin/centos7.blkparse.txt.gz",
        "blktrace_bin/romeus_trace_x_0_y_0.blkparse.txt.gz",
        "blktrace_bin/takeoverjp_sample.blkparse.txt.gz",
        "blkparse_text/android_blktrace.flash.facebook.txt",
        "blkparse_text/android_candycrush_straight_1.txt",
        "blkparse_text/android_swapcache_2.txt",
        "blkparse_text/leveldb_ram0_blk_data.txt",
    ],
)
def test_blkparses_own_lines_come_back(name: str, tmp_path: Path) -> None:
    """Every line of the recording is equal, except for its order: ours is by time over all CPUs."""
    opened = capture.open(corpus.path(name))
    plain = corpus.path(name)
    original = subprocess.run(["zcat", "-f", plain], capture_output=True, check=True).stdout.decode("utf-8", "replace")
    ours = comparable(exported(opened, "blkparse"))
    assert ours
    assert sorted(ours) == sorted(comparable(original))


def test_our_text_reads_back(tmp_path: Path) -> None:
    first = capture.open(DEMO)
    again = capture.open(written(first, "blkparse", tmp_path / "x.txt"))
    kept = ["ts_ns", "cpu", "tid", "action", "dev", "nr_sectors", "rwbs", "error", "old_dev", "old_sector"]
    place = pl.when(pl.col("nr_sectors") > 0).then("sector")  # blkparse prints no sector for an empty flush
    name = pl.when(pl.col("action").cast(pl.String) != "complete").then("comm")
    original = first.block_events.filter(pl.col("action").cast(pl.String).is_in(list(export.blkparse.LETTERS)))
    assert_frame_equal(again.block_events.select(*kept, place, name), original.select(*kept, place, name))
    assert_frame_equal(again.requests.drop("submit_pid"), first.requests.drop("submit_pid"))


def test_sequence_numbers_count_the_events_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", 3)
    cpus = [0, 1, 0, None, 1, 0, 0, 1]
    lines = exported(made.capture(events=[{"cpu": cpu, "ts_ns": n} for n, cpu in enumerate(cpus)]), "blkparse")
    assert [line.split()[1:3] for line in lines.splitlines()] == [
        [str(cpu), str(number)] for cpu, number in zip([0, 1, 0, 0, 1, 0, 0, 1], [1, 1, 2, 3, 2, 4, 5, 3], strict=True)
    ]


# -- blktrace ---------------------------------------------------------------------------------------------------------


def for_blktrace(events: pl.DataFrame) -> Capture:
    """Return the events as far as blktrace can represent them: from time 0, with the flags that it has bits for."""
    last = pl.col("comm").forward_fill().over("tid")
    representable = events.with_columns(
        pl.col("ts_ns") - events["ts_ns"].min(),
        pl.col("rwbs").replace("FF", "FN"),
        sector=pl.when(pl.col("sector").is_null()).then(0).otherwise("sector"),
        comm=pl.when(pl.col("comm").is_null()).then(last).otherwise("comm"),
    )
    tables = {name: schema.empty(name) for name in derivation.TABLES}
    return made.of_tables(tables | {"block_events": representable})


def printed_by_blkparse(path: Path) -> str:
    if shutil.which("blkparse") is None:
        pytest.skip("blkparse is not installed")
    with path.open("rb") as stream:
        done = subprocess.run(["blkparse", "-q", "-i", "-"], stdin=stream, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return re.sub(r"Trace started at .*\n\n\Z", "", done.stdout)  # the end of blkparse 1.3's output


@pytest.mark.parametrize("rows", [1000, 1 << 17])
def test_blkparse_prints_of_the_stream_what_we_print(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two formats agree through blktrace's own program, including sequence numbers."""
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", rows)
    opened = for_blktrace(pl.read_parquet(DEMO / "tables/block_events.parquet"))
    text = printed_by_blkparse(written(opened, "blktrace", tmp_path / "x"))
    assert len(text.splitlines()) > 10_000
    assert text == exported(opened, "blkparse")


def test_every_action_in_blktraces_stream(tmp_path: Path) -> None:
    actions = ["queue", "remap", "split", "bounce", "getrq", "sleep", "insert", "backmerge", "frontmerge", "issue"]
    events = [
        {"action": action, "ts_ns": number, "sector": 8 * number, "nr_sectors": 8, "rwbs": "WSM", "comm": "a name"}
        | {"tid": 7, "cpu": 0, "dev": made.DEV + 2, "old_dev": made.DEV if action == "remap" else None}
        | {"old_sector": 1 << 40 if action == "remap" else None}
        for number, action in enumerate([*actions, "requeue"])
    ]
    opened = for_blktrace(made.table("block_events", events))
    assert printed_by_blkparse(written(opened, "blktrace", tmp_path / "x")) == exported(opened, "blkparse")


def test_fio_replays_blktraces_stream(tmp_path: Path) -> None:
    """fio replays the queue events."""
    events = [
        {"action": action, "ts_ns": n * 1000, "sector": n // 3 * 8, "nr_sectors": 8, "rwbs": rwbs, "tid": 7, "cpu": 0}
        | {"dev": made.DEV}
        for n, (rwbs, action) in enumerate((rwbs, a) for rwbs in "WR" * 20 for a in ("queue", "issue", "complete"))
    ]
    place = tmp_path / "place"
    place.write_bytes(bytes(1 << 20))
    log = written(for_blktrace(made.table("block_events", events)), "blktrace", tmp_path / "x")
    said, calls = replayed(log, place, tmp_path, "--replay_no_stall=1")
    assert calls == [("pwrite64" if n % 2 == 0 else "pread64", n * 4096, 4096) for n in range(40)]
    assert said["error"] == 0


# -- fio --------------------------------------------------------------------------------------------------------------


def replayed(
    log: Path, target: Path, tmp_path: Path, *options: str
) -> tuple[dict[str, Any], list[tuple[str, int, int]]]:
    """Run a replay with fio; return its results, and its calls (name, offset, bytes)."""
    for program in ("fio", "strace"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    calls, result = tmp_path / "calls", tmp_path / "result.json"
    subprocess.run(
        [
            *("strace", "-f", "-qq", "-o", calls, "-P", target, "-e", "trace=pread64,pwrite64,fsync"),
            *("fio", "--name=replay", "--ioengine=psync", f"--read_iolog={log}", f"--replay_redirect={target}"),
            *("--output-format=json", f"--output={result}", *options),
        ],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=120,
    )
    text = result.read_text()
    said: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["jobs"][0]
    found = []
    for line in calls.read_text().splitlines():
        if match := re.search(r"(pread64|pwrite64)\(\d+, .*, (\d+), (\d+)\) += \d+$", line):
            found.append((match[1], int(match[3]), int(match[2])))
        elif re.search(r"fsync\(\d+\) += 0$", line):
            found.append(("fsync", 0, 0))
    return said, found


@pytest.mark.parametrize("target", ["fio2", "fio3"])
def test_fio_replays_the_requests(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    requests = [
        {
            "op": op,
            "dev": made.DEV + number % 2,
            "sector": None if op == "flush" else int(rng.integers(0, 1000)) * 8,
            "nr_sectors": 0 if op == "flush" else int(rng.integers(1, 65)),
            "queue_ns": number * 1000,
            "issue_ns": None if number % 10 == 0 else number * 1000 + 10,
            "complete_ns": number * 1000 + 500,
        }
        for number, op in enumerate(rng.choice(["read", "write", "flush", "other"], 300))
    ]
    place = tmp_path / "place"
    place.touch()
    with place.open("r+b") as file:
        file.truncate(16 << 20)
    log = written(made.capture(requests), target, tmp_path / "log")
    said, calls = replayed(log, place, tmp_path, "--replay_no_stall=1")
    names = {"read": "pread64", "write": "pwrite64", "flush": "fsync"}
    expected = [
        (names[str(row["op"])], 512 * (row["sector"] or 0), 512 * row["nr_sectors"])
        for row in requests
        if row["op"] in names
    ]
    assert calls == expected
    for op in ("read", "write"):
        of_op = [row for row in requests if row["op"] == op]
        assert said[op]["total_ios"] == len(of_op)
        assert said[op]["io_bytes"] == 512 * sum(row["nr_sectors"] for row in of_op)
    assert said["error"] == 0


@pytest.mark.prove
@pytest.mark.parametrize("target", ["fio2", "fio3"])
def test_fio_waits_between_requests(target: str, tmp_path: Path) -> None:
    """At least one wait is complete, because fio catches up on lost time.

    A wrong unit would give 1 ms or 15 minutes.
    """
    requests = [{"op": "read", "sector": 0, "issue_ns": 10**12 + number * 300_000_000} for number in range(4)]
    place = tmp_path / "place"
    place.write_bytes(bytes(4096))
    said, calls = replayed(written(made.capture(requests), target, tmp_path / "log"), place, tmp_path)
    assert len(calls) == 4
    assert said["job_runtime"] >= 250


def test_the_lines_of_fio() -> None:
    requests = [
        {"op": "write", "sector": 8, "queue_ns": 5_000_000, "complete_ns": 5_500_000},
        {"op": "discard", "sector": 16, "nr_sectors": (1 << 30) // 512 + 8, "issue_ns": 4_000_000},
        {"op": "flush", "sector": None, "nr_sectors": 0, "complete_ns": 7_999_999},
        {"op": "zone", "sector": 0, "issue_ns": 8_000_000},
    ]
    name = "/replay_redirect/8:0"
    assert exported(made.capture(requests), "fio2").splitlines() == [
        "fio version 2 iolog",
        *(f"{name} add", f"{name} open"),
        *(f"{name} wait 1 0", f"{name} write 4096 4096"),
        *(f"{name} trim 8192 {1 << 30}", f"{name} trim {8192 + (1 << 30)} 4096"),
        *(f"{name} wait 3 0", f"{name} sync 0 0", f"{name} close"),
    ]
    assert exported(made.capture(requests), "fio3").splitlines() == [
        "fio version 3 iolog",
        *(f"0 {name} add", f"0 {name} open"),
        f"1001 {name} write 4096 4096",
        *(f"1001 {name} trim 8192 {1 << 30}", f"1001 {name} trim {8192 + (1 << 30)} 4096"),
        *(f"4000 {name} sync 0 0", f"4000 {name} close"),
    ]


@pytest.mark.parametrize("target", ["fio2", "fio3"])
def test_a_log_is_the_same_in_one_piece_or_many(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = capture.open(DEMO)
    whole = exported(opened, target)
    monkeypatch.setattr("androstep_analysis.datasets.export.batches.BATCH_ROWS", 100)
    assert exported(opened, target) == whole


# -- MSR --------------------------------------------------------------------------------------------------------------


def test_the_rows_of_msr() -> None:
    requests = [
        {"op": "read", "sector": 8, "nr_sectors": 2, "queue_ns": 5, "issue_ns": 1_000, "complete_ns": 3_050},
        {"op": "flush", "nr_sectors": 0, "issue_ns": 2_000},
        {"op": "write", "dev": made.DEV - 1, "sector": 0, "nr_sectors": 8, "queue_ns": 4_000, "issue_ns": 4_000},
    ]
    start = 116_444_736_000_000_000
    assert exported(made.capture(requests), "msr").splitlines() == [
        f"{start + 10},unknown,1,Read,4096,1024,20",
        f"{start + 40},unknown,0,Write,0,4096,0",
    ]
    opened = made.capture(requests, realtime_offset_ns=1_700_000_000 * 10**9)
    assert exported(opened, "msr").startswith(f"{start + 10 + 17_000_000_000_000_000},")


def test_latencies_of_equal_requests_are_unknown_in_msr_rows(tmp_path: Path) -> None:
    """Two equal reads in flight at once: nothing states which ended first, here and in the file that reads back."""
    read = {"op": "read", "sector": 8, "nr_sectors": 8}
    requests = [
        {**read, "issue_ns": 1_000 * n, "complete_ns": 9_000 + n, "matched": matched}
        for n, matched in enumerate(["full", "interchangeable", "interchangeable"])
    ]
    path = written(made.capture(requests), "msr", tmp_path / "x.csv")
    assert [line.rpartition(",")[2] for line in path.read_text().splitlines()] == ["90", "0", "0"]
    again = capture.open(path).requests.select(pl.col("complete_ns").is_not_null()).collect().to_series()
    assert again.to_list() == [True, False, False]


def test_our_csv_reads_back(tmp_path: Path) -> None:
    """The same requests, except for columns that MSR lacks. Its times are in 100 ns and include the date."""
    day_ns = 1_700_000_000 * 10**9
    requests = [
        {"op": op, "dev": made.DEV + number % 2, "sector": number * 8, "nr_sectors": 1 + number % 300}
        | {"issue_ns": number * 1000, "complete_ns": number * 1000 + 700}
        for number, op in enumerate(["read", "write"] * 50)
    ]
    first = made.capture(requests, realtime_offset_ns=day_ns)
    again = capture.open(written(first, "msr", tmp_path / "x.csv"))
    kept = ["sector", "nr_sectors", "op"]
    took = pl.col("complete_ns") - pl.coalesce("issue_ns", "queue_ns")
    start = pl.coalesce("issue_ns", "queue_ns")
    disk = pl.col("dev") - pl.col("dev").min()
    columns = [*kept, disk.alias("disk"), took.alias("took"), (start - start.min()).alias("start")]
    assert_frame_equal(again.requests.select(columns).collect(), first.requests.select(columns).collect())
