"""What iobench writes, records that agree and a line for each repetition, and Mobibench's lines and logs of it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support import benched, built, corpus
from support.needs import left_to_prove

from androstep_analysis import bench, cli
from androstep_analysis.bench import records, write_mobibench
from androstep_analysis.ingest import record


def measured(path: Path, *words: str) -> list[dict[str, Any]]:
    """Return the repetitions of a run."""
    return benched.measured(*benched.program(), *words, "--directory", path, "--cache=any", "-q")[0]


# -- records ----------------------------------------------------------------------------------------------------------


def test_the_command_line_can_be_run_again(tmp_path: Path) -> None:
    place = tmp_path / "it's a $HOME"
    place.mkdir()
    words = ["--directory", str(place), "--size=64k", "--cache=any", "-q", "--record", str(tmp_path / "out.rec")]
    benched.run(*words)
    (run,) = benched.repetitions(tmp_path / "out.rec")
    assert shlex.split(run["command"])[1:] == words
    assert run["directory"] == str(place)


WORKLOADS = {
    "file": ("--rw=randrw", "--size=256k", "--mode=fdatasync", "--numjobs=2", "--interval=1"),
    "sqlite": ("sqlite", "-n", "30", "-j", "WAL", "--tables=2", "--interval=1"),
    "postmark": ("postmark", "--files=30", "--transactions=40", "--interval=1"),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_records_of_a_repetition_agree(tmp_path: Path, workload: str) -> None:
    path = tmp_path / "out.rec"
    words = (*WORKLOADS[workload], "--directory", str(tmp_path), "--cache=any", "-q", "--repeats=2")
    benched.run(*words, "--record", path)
    read = record.read(path)
    assert read.complete and not read.losses
    assert read.tables["bench_run"].height == 2
    for run in read.tables["bench_run"].iter_rows(named=True):
        mine = pl.col("repeat") == run["repeat"]
        check_results(read.tables["bench_result"].filter(mine), read.tables["bench_histogram"].filter(mine))
        of_all = mine & (pl.col("thread") == -1) & (pl.col("part") == "op")
        whole = read.tables["bench_result"].row(by_predicate=of_all, named=True)
        check_series(read.tables["bench_window"].filter(mine), run, whole)


def check_results(results: pl.DataFrame, histogram: pl.DataFrame) -> None:
    """Check that rows of all workers are sums of the workers', and that buckets hold all operations."""
    assert (histogram["thread"] >= 0).all() and (histogram["count"] > 0).all()
    usage = ("cpu_user_ns", "cpu_system_ns", "ctx_voluntary", "ctx_involuntary", "major_faults", "minor_faults")
    for row in results.iter_rows(named=True):
        alone = row["thread"] >= 0
        of_part = results.filter(pl.col("part") == row["part"], pl.col("thread") >= 0)
        if not alone:
            assert (row["ops"], row["bytes"]) == (of_part["ops"].sum(), of_part["bytes"].sum())
            assert row["latency_max_ns"] == of_part["latency_max_ns"].max()
            workers = results.filter(pl.col("part") == "op", pl.col("thread") >= 0)
            assert {key: row[key] for key in usage} == {key: workers[key].sum() for key in usage}
        mine = (pl.col("thread") == row["thread"]) if alone else (pl.col("thread") >= 0)
        buckets = histogram.filter(mine & (pl.col("part") == row["part"])).sort("bucket_ns")
        assert buckets["count"].sum() == row["ops"]
        if row["ops"]:
            first, last = buckets.row(0, named=True), buckets.row(-1, named=True)
            assert 0 <= row["latency_min_ns"] - first["bucket_ns"] < first["width_ns"]
            assert 0 <= row["latency_max_ns"] - last["bucket_ns"] < last["width_ns"]
            assert row["latency_min_ns"] <= row["latency_sum_ns"] / row["ops"] <= row["latency_max_ns"]
            assert (buckets["width_ns"] <= (buckets["bucket_ns"] // 64).clip(lower_bound=1)).all()


def check_series(windows: pl.DataFrame, run: dict[str, Any], whole: dict[str, Any]) -> None:
    """Check that the windows of one repetition hold every operation once, and follow each other."""
    assert (windows["ops"].sum(), windows["bytes"].sum()) == (whole["ops"], whole["bytes"])
    starts = windows["ts_ns"].unique().sort().to_list()
    assert starts[0] == run["ts_ns"]
    assert all(0 < after - before <= run["interval_ns"] for before, after in pairwise(starts[:2]))
    assert {after - before for before, after in pairwise(starts[1:])} <= {run["interval_ns"]}
    assert starts[-1] < run["ts_ns"] + run["duration_ns"]
    assert (windows["duration_ns"] > 0).all() and (windows["duration_ns"] <= run["interval_ns"]).all()


def check_buckets(histogram: pl.DataFrame, ops: pl.DataFrame) -> None:
    """Check that every latency is counted in the bucket around it, of those that split powers of two in 64 parts."""
    for (thread,), mine in ops.group_by("thread"):
        buckets = histogram.filter(pl.col("thread") == thread).sort("bucket_ns")
        assert (buckets["bucket_ns"] % buckets["width_ns"] == 0).all()
        inside = mine.sort("latency_ns").join_asof(buckets, left_on="latency_ns", right_on="bucket_ns")
        assert (inside["latency_ns"] < inside["bucket_ns"] + inside["width_ns"]).all()
        counted = inside.group_by("bucket_ns").len("count").sort("bucket_ns")
        assert counted["count"].to_list() == buckets["count"].to_list()


def test_operations_are_due_to_the_nanosecond(tmp_path: Path) -> None:
    path, rate = tmp_path / "out.rec", 2999
    words = ("--size=256k", "--numjobs=2", f"--rate_iops={rate}", "--number_ios=128", "--log-ops", "--record", path)
    benched.run(*words, "-p", tmp_path, "--cache=any", "-q")
    starts = record.read(path).tables["bench_op"].filter(pl.col("part") == "op")["ts_ns"].sort()
    assert (starts - starts.min()).to_list() == [number * 10**9 // rate for number in range(128)]


def test_each_operation_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "out.rec"
    words = ("--rw=randwrite", "--size=128k", "--mode=fsync", "--numjobs=2", "--log-ops", "--record", path)
    benched.run(*words, "-p", tmp_path, "--cache=any", "-q")
    (run,) = benched.repetitions(path)
    read = record.read(path)
    ops = read.tables["bench_op"]
    assert ops.filter(pl.col("part") == "op").height == 64
    for name, part in run["parts"].items():
        mine = ops.filter(pl.col("part") == name)
        assert mine.height == part["ops"], name
        assert mine["bytes"].sum() == part["bytes"], name
        assert mine["latency_ns"].max() == part["latency_max_ns"], name
        check_buckets(read.tables["bench_histogram"].filter(pl.col("part") == name), mine)
        ends = mine["ts_ns"] + mine["latency_ns"]
        assert (mine["ts_ns"] >= run["ts_ns"] - 1_000_000).all(), name
        assert (ends <= run["ts_ns"] + run["duration_ns"] + 1_000_000).all(), name


def test_repeats_and_points(tmp_path: Path) -> None:
    runs = measured(tmp_path, "--size=64k", "--sweep", "numjobs=1,2", "--repeats=3")
    assert [(run["point"], run["repeat"]) for run in runs] == [
        (point, repeat) for point in (0, 1) for repeat in range(3)
    ]
    assert len({run["run_id"] for run in runs}) == 2


# -- Mobibench's lines ------------------------------------------------------------------------------------------------

RULE = "-" * 41
FILE_SETUP = f"""\
{RULE}
[mobibench measurement setup]
{RULE}
File size per thread : N KB
IO size : N KB
IO count : N\x20
Access Mode N, Sync Mode N
# of Threads : N
"""
SQLITE_SETUP = f"""\
{RULE}
[mobibench measurement setup]
{RULE}
DB teset mode enabled.
DB time interval : N ms
Operation : N
Transactions per thread: N
# of Tables : N
# of Databases : N
# of Threads : N
"""
DATABASE = f"""\
{RULE}
[DB information of db PATH/test.dbN_N]
{RULE}
sqlite_version=N.N.N
page_size=N
journal_mode=truncate
synchronous=N
"""
READY, EXEC, END = "setState: N\n", "setState: N\n", "setState: N\nErr string : No error\n"
RESULT = f"""\
{RULE}
[Messurement Result]
{RULE}
"""
CPU = "[CPU] : Active,Idle,IoWait : N.NN N.NN N.NN\n"
RATE = "[TIME] :N8 sec N6us. \tN B/sec, \tN.NN KB/sec, \tN.NN MB/sec."
IOPS = " N.NN IOPS(NKB) "
TRANSACTIONS = "[TIME] :N8 sec N6us. \tN.NN Transactions/sec\n"
SWITCHES = "[CON SWITCHES] : N N\n"


def masked(text: str) -> str:
    """`text` with N for its numbers. For some, the width or the number of decimals is included."""
    text = re.sub(r"(?<=\[TIME\] :)( {0,7}\d+)(?= sec)", lambda found: f"N{len(found[0])}", text)
    text = re.sub(r"(?<= sec )\d+(?=us\.)", lambda found: f"N{len(found[0])}", text)
    text = re.sub(r"\b\d+\.\d\d(?![.\d])", "N.NN", text)
    return re.sub(r"(?<![N\d])\d+", "N", text)


def reported(path: Path, *words: str, status: int = 0) -> tuple[str, dict[str, Any]]:
    """Return the output of `androstep bench --mobibench`, and its repetition."""
    out = path / "out"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["bench", str(path), "--mobibench", "-o", str(out), "--", *words, "--cache=any"]) == status
    (run,) = benched.repetitions(out / "raw" / "bench.rec")
    shutil.rmtree(out)
    return printed.getvalue().replace(str(path), "PATH"), run


def mobibench(path: Path, *words: str) -> str:
    return reported(path, *words)[0]


def optional(text: str, lines: str) -> str:
    """Return `lines` without the line [CPU] if `text` has none, since its clock ticks only a hundred times a second."""
    return lines if "[CPU]" in text else lines.replace(CPU, "")


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("access", left_to_prove(range(5), {0, 3}.__contains__))
def test_mobibench_lines_of_files(tmp_path: Path, access: int, threads: int) -> None:
    text = mobibench(tmp_path, "-f", "256", "-r", "4", "-a", str(access), "-y", "2", "-t", str(threads))
    rate = RATE + (IOPS if access in (1, 3) else "") + "\n"
    switches = SWITCHES if threads == 1 else ""
    expected = FILE_SETUP + READY + EXEC + RESULT + CPU + rate + switches + END
    assert masked(text) == optional(text, expected)
    size, record_kb, count = (int(found) for found in re.findall(r" : (\d+)", text)[:3])
    assert (size, record_kb, count) == (256 // threads, 4, 64 // threads)
    assert f"Access Mode {access}, Sync Mode 2\n# of Threads : {threads}\nsetState: 1\nsetState: 2\n" in text
    assert "setState: 3\n" in text
    seconds, us, rate_b, rate_kb, rate_mb = re.findall(r"[\d.]+(?= sec|us|.?[KM]?B/sec)", text.split("[TIME]")[1])
    time_us = int(seconds) * 1_000_000 + int(us)
    assert float(rate_b) * time_us / 1e6 == pytest.approx(256 * 1024, rel=1 / time_us, abs=1)
    assert float(rate_kb) == pytest.approx(float(rate_b) / 1024, abs=0.006)
    assert float(rate_mb) == pytest.approx(float(rate_b) / 1024**2, abs=0.006)


@pytest.mark.parametrize("operation", range(3))
def test_mobibench_lines_of_databases(tmp_path: Path, operation: int) -> None:
    text = mobibench(tmp_path, "-d", str(operation), "-n", "10", "-i", "1", "-j", "1", "-s", "1", "-T", "2", "-D", "2")
    expected = SQLITE_SETUP + READY + 2 * DATABASE + EXEC + RESULT + CPU + TRANSACTIONS + SWITCHES + END
    assert masked(text) == optional(text, expected)
    assert f"Operation : {operation}\n" in text and "synchronous=1\n" in text
    for line in ("Transactions per thread: 10", "# of Tables : 2", "# of Databases : 2", "DB time interval : 1 ms"):
        assert f"{line}\n" in text
    assert "test.db0_0]" in text and "test.db0_1]" in text


def test_the_expected_lines_are_those_of_the_original() -> None:
    """Outputs of Mobibench on a phone, without its progress: the same lines as ours."""
    seen = set()
    with tarfile.open(corpus.path("bench_results/pixel_mobibench_outputs.tar.gz")) as archive:
        for member in archive:
            extracted = archive.extractfile(member)
            if extracted is None:
                continue
            text = re.sub(r"\d\d+%\r", "", extracted.read().decode())
            if "[Messurement Result]" not in text or "nan" in text:
                continue
            switches = SWITCHES if "# of Threads : 1\n" in text else ""
            assert masked(text) == FILE_SETUP + READY + EXEC + RESULT + CPU + RATE + IOPS + "\n" + switches + END
            seen.add(switches)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--rw=randrw",), "mixed"),
        (("--mode=rwf_dsync",), "-y"),
        (("--bs=512",), "whole KB"),
        (("sqlite", "--sqlite-op=select"), "selects"),
        (("postmark",), "PostMark"),
    ],
)
def test_what_mobibench_cannot_tell_is_refused(
    tmp_path: Path, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", str(tmp_path), "--mobibench", "-o", str(tmp_path / "out"), "--", *words]) == 1
    printed = capsys.readouterr()
    assert reason in printed.err and not printed.out
    assert list(tmp_path.iterdir()) == []


RUN: dict[str, Any] = {
    **{"workload": "file", "test": "rand_write", "sync_mode": "fsync", "after_every": 1},
    **{"block_bytes": 4096, "file_bytes": 1 << 20},
}


@pytest.mark.parametrize(
    ("change", "is_lacking"),
    [
        ({}, False),
        ({"test": "rand_mixed"}, True),
        ({"block_bytes": 512}, True),
        ({"after_every": 2}, True),
        ({"sync_mode": "sync_file_range"}, True),
        ({"workload": "postmark"}, True),
        ({"workload": "sqlite", "test": "sqlite_delete"}, False),
        ({"workload": "sqlite", "test": "sqlite_select"}, True),
    ],
)
def test_what_mobibench_lacks(change: dict[str, Any], is_lacking: bool) -> None:
    assert (write_mobibench.lacks(RUN | change) is not None) == is_lacking


# -- Mobibench's logs -------------------------------------------------------------------------------------------------


def reported_with_log(path: Path, *words: str) -> dict[str, Any]:
    """Return the repetition of `androstep bench` with these options."""
    out = path / "out"
    assert cli.main(["bench", str(path), "-o", str(out), "--", *words, "--cache=any"]) == 0
    (run,) = benched.repetitions(out / "raw" / "bench.rec")
    shutil.rmtree(out)
    return run


def sections(path: Path) -> list[list[str]]:
    """Return the lines of a log below each of its headings."""
    return [part.splitlines() for part in path.read_text().split("\n#In ")[1:]]


LOGGED = {
    "fsync": (("-f", "256", "-a", "1", "-y", "2", "-t", "2"), "1 IO mode and 2 sync mode", 64),
    "mmap": (("-f", "256", "-a", "0", "-y", "7", "-t", "2"), "0 IO mode and 7 sync mode", 64),
    "read": (("-f", "256", "-a", "2"), "2 IO mode and 0 sync mode", 64),
    "sqlite": (("-d", "0", "-n", "20", "-t", "2"), "sqlite_insert IO mode and FULL sync mode", 20),
    "io_uring": (
        ("--rw=randwrite", "--size=256k", "--ioengine=io_uring", "--direct=1"),
        "rand_write IO mode and io_uring+direct sync mode",
        64,
    ),
}


@pytest.mark.parametrize("job", left_to_prove(LOGGED, {"sqlite", "io_uring"}.__contains__))
def test_the_log_of_latencies_has_every_operation(tmp_path: Path, job: str) -> None:
    words, heading, ops = LOGGED[job]
    log = tmp_path / "latency"
    for run in range(2):
        own = reported_with_log(tmp_path, *words, "-L", str(log))
        found = sections(log)[run * own["threads"] :]
        assert [part[0] for part in found] == own["threads"] * [heading]
        lines = [line for part in found for line in part[1:]]
        assert lines.pop().startswith("[TIME] :")
        assert len(lines) == ops
        assert all(re.fullmatch(r"\d+\tusec", line) for line in lines)
        total_us = sum(int(line.split("\t")[0]) for line in lines)
        assert total_us == pytest.approx(own["parts"]["op"]["latency_sum_ns"] / 1000, abs=ops)


@pytest.mark.parametrize("job", LOGGED)
def test_the_log_of_rates_adds_up(tmp_path: Path, job: str) -> None:
    words, heading, ops = LOGGED[job]
    log = tmp_path / "rates"
    own = reported_with_log(tmp_path, *words, "-k", str(log))
    found = sections(log)
    assert [part[0] for part in found] == own["threads"] * [heading]
    unit = "Transactions/sec" if job == "sqlite" else "IOPS" if "rand" in own["test"] else "KB/s"
    lines = [line for part in found for line in part[1:]]
    assert all(re.fullmatch(rf"\d+ {unit}(\t0\.\d\d\d sec)?", line) for line in lines)
    assert sum(int(line.split(" ")[0]) for line in lines) == (256 if unit == "KB/s" else ops)


@pytest.mark.prove
def test_the_log_of_rates_has_a_line_for_every_second(tmp_path: Path) -> None:
    """By the end of each operation, however late others on the machine made it."""
    path = tmp_path / "out.rec"
    words = ("--rw=randread", "--size=64k", "--rate_iops=40", "--number_ios=90", "-k", str(tmp_path / "rates"))
    benched.run(*words, "--log-ops", "--record", path, "-p", tmp_path, "--cache=any", "-q")
    heading, *lines = write_mobibench.iops_log(bench.read(path).tables).splitlines()[1:]
    assert heading == "#In 3 IO mode and 0 sync mode"
    tables = record.read(path).tables
    ops = tables["bench_op"].filter(pl.col("part") == "op")
    window = tables["bench_window"].row(0, named=True)
    # Of the first window the part before the first operation is cut off.
    start_ns = window["ts_ns"] + window["duration_ns"] - tables["bench_run"]["interval_ns"][0]
    ends = (ops["ts_ns"] + ops["latency_ns"] - start_ns).to_list()
    second = Counter(end // 1_000_000_000 for end in ends)
    amounts = [int(line.split(" ")[0]) for line in lines]
    assert amounts == [second[number] for number in range(max(second) + 1)]
    assert len(amounts) >= 3 and sum(amounts) == 90
    assert all(sum(amounts[:number]) <= 40 * number + 1 for number in range(len(amounts)))  # none before it is due
    assert [("sec" in line) for line in lines] == [*[False] * (len(lines) - 1), True]


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    words = ("--rw=randread", "--size=64k", "--runtime=60", "--cache=any", "--record", tmp_path / "out.rec")
    command = (built.program("iobench"), "--directory", tmp_path, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None and running.stdout is not None
        running.stderr.readline()
        running.send_signal(signal.SIGINT)
        text = running.stdout.read()
        assert running.wait(timeout=60) == 1
    assert b"*** INVALID: " in text
    lines = write_mobibench.lines(bench.read(tmp_path / "out.rec").tables)
    assert "setState: 4\nErr string : " in lines and "No error" not in lines and "[TIME]" not in lines
    assert [path.name for path in tmp_path.iterdir()] == ["out.rec"]


def refused(top: Path) -> subprocess.CompletedProcess[bytes]:
    """Measure in a directory with a hostile name that is a file: nothing is done, and the reason names it."""
    place = os.fsencode(top) + b"/\x1b[31m\n \xe2\x80\xae\xff"
    Path(os.fsdecode(place)).touch()
    words = (b"--directory", place, b"--size=64k", b"--cache=any", b"-q", b"--record")
    return built.run(*benched.program(), *words, top / "out.rec", status=1)


def test_names_do_no_harm_to_a_terminal(tmp_path: Path) -> None:
    text = refused(tmp_path).stdout
    assert re.search(rb"\b-?(nan|inf)", text, re.IGNORECASE) is None
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", text) and "\u202e" not in text.decode()
    assert text.count(rb"/\x1b[31m\x0a \xe2\x80\xae\xff") == 2 and b"*** INVALID: " in text


def test_records_of_a_refused_repetition(tmp_path: Path) -> None:
    refused(tmp_path)
    read = record.read(tmp_path / "out.rec")
    assert read.complete and not read.losses
    (run,) = read.tables["bench_run"].iter_rows(named=True)
    assert run["valid"] == 0 and "\x1b[31m\n \u202e\\xff: Not a directory; " in run["invalid"]
    assert run["duration_ns"] == 0
    whole = read.tables["bench_result"].filter(pl.col("thread") == -1).row(0, named=True)
    assert (whole["part"], whole["ops"], whole["latency_max_ns"], whole["result"]) == ("op", 0, None, -errno.EIO)
    text = write_mobibench.lines(bench.read(tmp_path / "out.rec").tables)
    assert re.search(r"\b-?(nan|inf)|[\x00-\x08\x0b-\x1f\x7f\u202e]", text, re.IGNORECASE) is None
    assert r"\x1b[31m\n" in text


# -- for people -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_repetition_is_a_line(tmp_path: Path, workload: str) -> None:
    """Of what would steer a terminal not as it is."""
    hostile = tmp_path / "a\x1b[31mb"
    words = (*WORKLOADS[workload], "--directory", str(hostile), "--repeats=2", "--cache=any", "-q")
    lines = benched.run(*words).stdout.decode().splitlines()
    assert len(lines) == 2
    for line in lines:
        rates = r"\d+(\.\d)? ops/s, [\d.]+ \w+/s, latency mean [\d.]+ \w+, max [\d.]+ \w+"
        assert re.fullmatch(rf"{rates}, cache (cold|warm|unknown): \w+, .*a\\x1b\[31mb", line), line


# -- steady state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "is_steady"),
    [
        ((100, 100, 100, 100, 100), True),
        ((0, 0, 0, 0, 0), False),
        ((110, 90, 100, 110, 90), True),  # a range of 20 %
        ((111, 90, 99, 110, 90), False),
        ((95, 98, 99, 103, 105), True),  # a rise of 10 %
        ((95, 97, 100, 103, 105), False),
        ((105, 103, 100, 97, 95), False),
        ((100, 100, 100, 100), False),
    ],
)
def test_edges_of_the_steady_state(ops: tuple[int, ...], is_steady: bool) -> None:
    assert (records.first_steady(np.array(ops)) == 0) == is_steady


def steady_by_hand(ops: list[int]) -> int | None:
    """Evaluate SNIA's two conditions for five windows, with numpy's line of best fit, in fractions."""
    for first in range(len(ops) - 4):
        window = ops[first : first + 5]
        mean = Fraction(sum(window), 5)
        slope = Fraction(sum((x - 2) * y for x, y in enumerate(window)), 10)
        if mean and max(window) - min(window) <= mean / 5 and abs(slope) * 4 <= mean / 10:
            return first
    return None


def test_the_steady_state_is_found_where_a_calculation_by_hand_finds_it() -> None:
    draw = random.Random(1)
    found = set()
    for _ in range(3000):
        noise, drift = draw.randint(1, 60), draw.randint(-10, 10)
        ops = [200 + draw.randrange(noise) + index * drift for index in range(draw.randint(0, 12))]
        by_hand = steady_by_hand(ops)
        assert records.first_steady(np.array(ops, dtype=np.int64)) == by_hand
        found.add(by_hand)
    assert found >= {None, 0, 1, 7}


@pytest.mark.parametrize(("first", "steady_from_ns"), [(9, 0), (2, 1_000), (1000, 1_000)])
def test_windows_of_the_workers_add_up(first: int, steady_from_ns: int) -> None:
    """The first window begins before the first operation, the last one is not whole, one worker ends early."""
    run = pl.DataFrame({"point": [0], "repeat": [0], "ts_ns": [5_300], "duration_ns": [6_000], "interval_ns": [1_000]})
    starts = [5_300, *range(6_000, 12_000, 1_000)]
    ops = [[first, 10, 10, 10, 10, 10, 1], [1]]
    windows = pl.concat(pl.DataFrame({"ts_ns": starts[: len(own)], "ops": own}) for own in ops)
    windows = windows.with_columns(point=0, repeat=0)
    assert list(records._steady_starts(run, windows)) == [steady_from_ns]
