"""What iobench prints: JSON by fio's names, Mobibench's lines and logs, tables for people, and records that agree."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import benched, built, corpus

from androstep_analysis.ingest import record

BINS, PERCENTILE = "bins", "percentile"

JOBS = {
    "psync": ("--rw=randrw", "--size=256k", "--ioengine=psync", "--fsync=4", "--numjobs=2"),
    "direct": ("--rw=read", "--size=256k", "--ioengine=psync", "--direct=1"),
    "io_uring": ("--rw=randwrite", "--size=256k", "--ioengine=io_uring", "--iodepth=4", "--direct=1"),
}
"""Words that mean the same to fio and to iobench."""


def loads(text: bytes) -> dict[str, Any]:
    """JSON without what is no number, and without a key that an object has twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), [key for key, _ in pairs]
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is printed")

    loaded: dict[str, Any] = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    return loaded


def printed(path: Path, *words: str) -> dict[str, Any]:
    """What iobench prints as JSON."""
    return loads(benched.run(*words, "--directory", path, "--cache=any", "--json", "-q").stdout)


def names(value: Any, path: str = "") -> set[str]:
    """The paths of all members, `bins` and `percentile` as one each, items of lists as one."""
    if isinstance(value, list):
        return {name for item in value for name in names(item, path + "[]")}
    if not isinstance(value, dict) or path.endswith((BINS, PERCENTILE, "job options")):
        return {path}
    return {name for key, item in value.items() for name in names(item, f"{path}/{key}")}


def without_own(value: dict[str, Any]) -> dict[str, Any]:
    """Without the two kinds of objects that fio does not have."""
    jobs = [{key: item for key, item in job.items() if key != "iobench"} for job in value["jobs"]]
    return {key: item for key, item in value.items() if key != "iobench"} | {"jobs": jobs}


def fio(path: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """A run of fio."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    return subprocess.run(["fio", *words], cwd=path, capture_output=True, check=True, timeout=120)


def latencies(tally: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of latencies in `tally`, at any depth, that have bins."""
    found = [tally] if BINS in tally else []
    return found + [
        entry
        for item in tally.values()
        for part in (item if isinstance(item, list) else [item])
        if isinstance(part, dict)
        for entry in latencies(part)
    ]


# -- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", JOBS)
def test_json_has_no_name_that_fio_lacks(tmp_path: Path, job: str) -> None:
    words = (*JOBS[job], "--bs=4k", "--end_fsync=1") if job != "direct" else (*JOBS[job], "--bs=4k")
    theirs = loads(
        fio(
            tmp_path,
            *("--name=x", "--directory=.", "--group_reporting", "--thread", "--output-format=json+"),
            *("--clat_percentiles=1", "--lat_percentiles=1"),
            *words,
        ).stdout
    )
    ours = printed(tmp_path, *words)
    assert names(without_own(ours)) - names(theirs) == set()
    for direction in ("read", "write"):
        counts = [
            (whole["jobs"][0][direction]["io_bytes"], whole["jobs"][0][direction]["total_ios"])
            for whole in (ours, theirs)
        ]
        if job != "psync":
            assert counts[0] == counts[1]
    totals = [sum(whole["jobs"][0][key]["io_bytes"] for key in ("read", "write")) for whole in (ours, theirs)]
    assert totals[0] == totals[1]
    sample = "clat_ns" if job != "io_uring" else "lat_ns"
    direction = "read" if job == "direct" else "write"
    assert (
        ours["jobs"][0][direction][sample][PERCENTILE].keys() == theirs["jobs"][0][direction][sample][PERCENTILE].keys()
    )


@pytest.mark.parametrize("job", JOBS)
def test_fio_takes_the_job_options(tmp_path: Path, job: str) -> None:
    options = printed(tmp_path, *JOBS[job])["jobs"][0]["job options"]
    assert {"rw", "size", "bs", "ioengine"} <= options.keys()
    assert all(isinstance(value, str) for value in options.values())
    lines = [f"{key}={value}" for key, value in options.items() if key != "name"]
    (tmp_path / "job").write_text("\n".join(["[x]", *lines, ""]))
    fio(tmp_path, "--parse-only", "job")


def test_the_converter_of_fio_takes_it(tmp_path: Path) -> None:
    converter = shutil.which("fio_jsonplus_clat2csv")
    if converter is None:
        pytest.skip("fio_jsonplus_clat2csv is not installed")
    whole = printed(tmp_path, "--rw=randrw", "--size=256k")
    (tmp_path / "out.json").write_text(json.dumps(whole))
    subprocess.run([sys.executable, converter, "out.json", "out.csv"], cwd=tmp_path, capture_output=True, check=True)
    heading, *lines = (tmp_path / "out_job0.csv").read_text().splitlines()
    column = heading.split(", ").index("read_clat_ns_count")
    counts = [line.split(", ")[column].strip() for line in lines]
    assert sum(int(count) for count in counts if count) == whole["jobs"][0]["read"]["total_ios"] > 0


@pytest.mark.parametrize("job", JOBS)
def test_the_numbers_of_a_direction_agree(tmp_path: Path, job: str) -> None:
    (entry,) = printed(tmp_path, *JOBS[job])["jobs"]
    seconds = (entry["iobench"]["duration_ns"] - entry["iobench"]["paused_ns"]) / 1e9
    for direction in (entry["read"], entry["write"]):
        assert direction["io_kbytes"] == direction["io_bytes"] // 1024
        assert direction["bw_bytes"] == pytest.approx(direction["io_bytes"] / seconds, abs=1)
        assert direction["bw"] == pytest.approx(direction["io_bytes"] / seconds / 1024, abs=1)
        assert direction["iops"] == pytest.approx(direction["total_ios"] / seconds, abs=1e-5)
        assert direction["runtime"] == (int(seconds * 1000) if direction["total_ios"] else 0)
    done = entry["read"]["total_ios"] + entry["write"]["total_ios"]
    assert done == entry["iobench"]["parts"]["op"]["ops"] == 64 * int(entry["job options"]["numjobs"])
    assert entry["error"] == 0 and entry["iobench"]["valid"] is True and "invalid" not in entry["iobench"]


def nearest_rank(bins: dict[int, int], percent: float) -> int:
    """The percentile of a histogram, by counting."""
    ordered = [value for value, count in sorted(bins.items()) for _ in range(count)]
    rank = -(-len(ordered) * round(percent * 1e4) // 1_000_000)
    return ordered[max(rank, 1) - 1]


def test_bins_hold_every_operation_and_give_the_percentiles(tmp_path: Path) -> None:
    (entry,) = printed(tmp_path, "--rw=randrw", "--size=512k", "--mode=fsync", "--numjobs=2")["jobs"]
    found = latencies(entry)
    assert len(found) >= 8
    for latency in found:
        bins = {int(value): count for value, count in latency[BINS].items()}
        assert sum(bins.values()) == latency["N"]
        assert latency["min"] <= min(bins) <= latency["min"] * (1 + 1 / 64)
        assert max(bins) == latency["max"]
        assert latency["min"] <= latency["mean"] <= latency["max"]
        for percent, value in latency[PERCENTILE].items():
            assert value == nearest_rank(bins, float(percent)), percent
    for name, part in entry["iobench"]["parts"].items():
        assert part["ops"] == part["lat_ns"]["N"], name
        assert part["ops"] == sum(
            worker["parts"].get(name, {"ops": 0})["ops"] for worker in entry["iobench"]["workers"]
        )


def test_the_command_line_can_be_run_again(tmp_path: Path) -> None:
    place = tmp_path / "it's a $HOME"
    place.mkdir()
    words = ["--directory", str(place), "--size=64k", "--cache=any", "--json", "-q"]
    whole = loads(benched.run(*words).stdout)
    assert shlex.split(whole["iobench"]["command"])[1:] == words
    assert whole["jobs"][0]["iobench"]["directory"] == str(place)


WORKLOADS = {
    "file": ("--rw=randrw", "--size=256k", "--mode=fdatasync", "--numjobs=2", "--interval=1"),
    "sqlite": ("sqlite", "-n", "30", "-j", "WAL", "--tables=2", "--interval=1"),
    "postmark": ("postmark", "--files=30", "--transactions=40", "--interval=1"),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_records_equal_the_json(tmp_path: Path, workload: str) -> None:
    path = tmp_path / "out.rec"
    whole = printed(tmp_path, *WORKLOADS[workload], "--repeats=2", "--record", str(path))
    read = record.read(path)
    assert read.complete and not read.losses
    assert len(whole["jobs"]) == read.tables["bench_run"].height == 2
    for row, entry in zip(read.tables["bench_run"].iter_rows(named=True), whole["jobs"], strict=True):
        own = entry["iobench"]
        told = {key: value for key, value in row.items() if value is not None}
        assert {key: own[key] for key in told} == told
        assert all(key not in own for key in row.keys() - told.keys())
        mine = pl.col("repeat") == row["repeat"]
        check_results(read.tables["bench_result"].filter(mine), read.tables["bench_histogram"].filter(mine), own)
        check_series(read.tables["bench_window"].filter(mine), own)


def check_results(results: pl.DataFrame, histogram: pl.DataFrame, own: dict[str, Any]) -> None:
    """Rows of one repetition against its object in the JSON."""
    told = [(-1, own), *((worker["thread"], worker) for worker in own["workers"])]
    parts = {(thread, part): tally for thread, entry in told for part, tally in entry["parts"].items()}
    assert {(row["thread"], row["part"]) for row in results.iter_rows(named=True)} == parts.keys()
    usage = ("cpu_user_ns", "cpu_system_ns", "ctx_voluntary", "ctx_involuntary", "major_faults", "minor_faults")
    for row in results.iter_rows(named=True):
        tally = parts[row["thread"], row["part"]]
        assert (row["ops"], row["bytes"]) == (tally["ops"], tally["bytes"])
        assert {key: row[key] for key in usage} == {key: dict(told)[row["thread"]][key] for key in usage}
        latency = tally.get("lat_ns", {"min": None, "max": None})
        assert (row["latency_min_ns"], row["latency_max_ns"]) == (latency["min"], latency["max"])
        if row["ops"]:
            assert latency["mean"] == pytest.approx(row["latency_sum_ns"] / row["ops"], abs=1e-5)
        mine = (pl.col("thread") == row["thread"]) | (row["thread"] == -1)
        buckets = histogram.filter(mine & (pl.col("part") == row["part"]))
        assert (buckets["thread"] >= 0).all() and (buckets["count"] > 0).all()
        assert buckets["count"].sum() == row["ops"]
        buckets = buckets.group_by("bucket_ns", "width_ns").agg(pl.col("count").sum())
        bins = {
            str(min(bucket + width - 1, row["latency_max_ns"])): count
            for bucket, width, count in buckets.select("bucket_ns", "width_ns", "count").iter_rows()
        }
        assert BINS not in latency or bins == latency[BINS]


def check_series(windows: pl.DataFrame, own: dict[str, Any]) -> None:
    """Windows of one repetition: they hold every operation once, and follow each other."""
    assert sum(own["series"]["ops"]) == windows["ops"].sum() == own["parts"]["op"]["ops"]
    assert sum(own["series"]["bytes"]) == windows["bytes"].sum() == own["parts"]["op"]["bytes"]
    start = own["ts_ns"] + own["series"]["offset_ns"]
    assert -own["interval_ns"] < own["series"]["offset_ns"] <= 0
    by_start = windows.group_by("ts_ns").agg(pl.col("ops").sum()).sort("ts_ns")
    assert by_start["ops"].to_list() == own["series"]["ops"]
    starts = [start + number * own["interval_ns"] for number in range(by_start.height)]
    assert by_start["ts_ns"].to_list() == [max(each, own["ts_ns"]) for each in starts]
    assert (windows["duration_ns"] > 0).all() and (windows["duration_ns"] <= own["interval_ns"]).all()


def test_each_operation_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "out.rec"
    words = ("--rw=randwrite", "--size=128k", "--mode=fsync", "--numjobs=2", "--log-ops", "--record", str(path))
    (entry,) = printed(tmp_path, *words)["jobs"]
    tables = record.read(path).tables
    ops = tables["bench_op"]
    run = tables["bench_run"].row(0, named=True)
    assert ops.filter(pl.col("part") == "op").height == 64
    for name, part in entry["iobench"]["parts"].items():
        mine = ops.filter(pl.col("part") == name)
        assert mine.height == part["ops"], name
        assert mine["bytes"].sum() == part["bytes"], name
        assert mine["latency_ns"].max() == part["lat_ns"]["max"], name
        ends = mine["ts_ns"] + mine["latency_ns"]
        assert (mine["ts_ns"] >= run["ts_ns"] - 1_000_000).all(), name
        assert (ends <= run["ts_ns"] + run["duration_ns"] + 1_000_000).all(), name


def test_fio_has_no_names_for_sqlite(tmp_path: Path) -> None:
    (entry,) = printed(tmp_path, "sqlite", "-n", "5")["jobs"]
    assert not {"read", "write", "sync"} & entry.keys()
    assert entry["job options"].keys() == {"name"}
    assert {"op", "begin", "statement", "commit"} <= entry["iobench"]["parts"].keys()
    assert entry["iobench"]["sqlite_version"][0] == "3"


def test_repeats_and_points(tmp_path: Path) -> None:
    whole = printed(tmp_path, "--size=64k", "--sweep", "numjobs=1,2", "--repeats=3")
    assert [(job["groupid"], job["iobench"]["repeat"]) for job in whole["jobs"]] == [
        (point, repeat) for point in range(2) for repeat in range(3)
    ]
    assert len({job["iobench"]["run_id"] for job in whole["jobs"]}) == 2
    for point in whole["iobench"]["points"]:
        rates = sorted(job["iobench"]["iops"] for job in whole["jobs"] if job["groupid"] == point["point"])
        assert point["valid_repeats"] == 3
        assert [point["iops"][key] for key in ("low", "median", "high")] == rates


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
    """`text` with N for its numbers; of some the width, or the digits behind the point, are told."""
    text = re.sub(r"(?<=\[TIME\] :)( {0,7}\d+)(?= sec)", lambda found: f"N{len(found[0])}", text)
    text = re.sub(r"(?<= sec )\d+(?=us\.)", lambda found: f"N{len(found[0])}", text)
    text = re.sub(r"\b\d+\.\d\d(?![.\d])", "N.NN", text)
    return re.sub(r"(?<![N\d])\d+", "N", text)


def mobibench(path: Path, *words: str) -> str:
    """What iobench prints in Mobibench's words."""
    done = benched.run("-p", path, *words, "--cache=any", "-q", "--output=mobibench")
    return done.stdout.decode().replace(str(path), "PATH")


def optional(text: str, lines: str) -> str:
    """`lines` without the line [CPU] where `text` has none: its clock ticks only a hundred times a second."""
    return lines if "[CPU]" in text else lines.replace(CPU, "")


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("access", range(5))
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
    text = re.sub(r"PATH/iobench-\w+/", "PATH/", text)
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
def test_what_mobibench_cannot_tell_is_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    done = benched.run(*words, "--directory", tmp_path, "--output=mobibench", status=1)
    assert reason in done.stderr.decode() and not done.stdout
    assert list(tmp_path.iterdir()) == []


# -- Mobibench's logs -------------------------------------------------------------------------------------------------


def sections(path: Path) -> list[list[str]]:
    """The lines of a log below each of its headings."""
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


@pytest.mark.parametrize("job", LOGGED)
def test_the_log_of_latencies_has_every_operation(tmp_path: Path, job: str) -> None:
    words, heading, ops = LOGGED[job]
    log = tmp_path / "latency"
    for run in range(2):
        whole = printed(tmp_path, *words, "-L", str(log))
        own = whole["jobs"][0]["iobench"]
        found = sections(log)[run * own["threads"] :]
        assert [part[0] for part in found] == own["threads"] * [heading]
        lines = [line for part in found for line in part[1:]]
        assert lines.pop().startswith("[TIME] :")
        assert len(lines) == ops
        assert all(re.fullmatch(r"\d+\tusec", line) for line in lines)
        total_us = sum(int(line.split("\t")[0]) for line in lines)
        assert total_us == pytest.approx(own["parts"]["op"]["lat_ns"]["mean"] * ops / 1000, abs=ops)


@pytest.mark.parametrize("job", LOGGED)
def test_the_log_of_rates_adds_up(tmp_path: Path, job: str) -> None:
    words, heading, ops = LOGGED[job]
    log = tmp_path / "rates"
    (entry,) = printed(tmp_path, *words, "-k", str(log))["jobs"]
    found = sections(log)
    assert [part[0] for part in found] == entry["iobench"]["threads"] * [heading]
    unit = "Transactions/sec" if job == "sqlite" else "IOPS" if "rand" in entry["iobench"]["test"] else "KB/s"
    lines = [line for part in found for line in part[1:]]
    assert all(re.fullmatch(rf"\d+ {unit}(\t0\.\d\d\d sec)?", line) for line in lines)
    assert sum(int(line.split(" ")[0]) for line in lines) == (256 if unit == "KB/s" else ops)


def test_the_log_of_rates_has_a_line_for_every_second(tmp_path: Path) -> None:
    """By the end of each operation, however late others on the machine made it."""
    log, path = tmp_path / "rates", tmp_path / "out.rec"
    words = ("--rw=randread", "--size=64k", "--rate_iops=40", "--number_ios=90", "-k", str(log))
    (entry,) = printed(tmp_path, *words, "--log-ops", "--record", str(path))["jobs"]
    own = entry["iobench"]
    assert own["valid"]
    (lines,) = (part[1:] for part in sections(log))
    ops = record.read(path).tables["bench_op"].filter(pl.col("part") == "op")
    ends = (ops["ts_ns"] + ops["latency_ns"] - own["ts_ns"] - own["series"]["offset_ns"]).to_list()
    second = Counter(end // 1_000_000_000 for end in ends)
    amounts = [int(line.split(" ")[0]) for line in lines]
    assert amounts == [second[number] for number in range(max(second) + 1)]
    assert len(amounts) >= 3 and sum(amounts) == 90
    assert all(sum(amounts[:number]) <= 40 * number + 1 for number in range(len(amounts)))  # none before it is due
    assert [("sec" in line) for line in lines] == [*[False] * (len(lines) - 1), True]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["human", "json", "mobibench"])
def test_an_interrupted_run_says_so(tmp_path: Path, output: str) -> None:
    words = ("--rw=randread", "--size=64k", "--runtime=60", "--cache=any", f"--output={output}")
    command = (built.program("iobench"), "--directory", tmp_path, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None and running.stdout is not None
        running.stderr.readline()
        running.send_signal(signal.SIGINT)
        text = running.stdout.read()
        assert running.wait(timeout=60) == 1
    if output == "json":
        (entry,) = loads(text)["jobs"]
        assert entry["error"] != 0
        assert entry["iobench"]["valid"] is False and entry["iobench"]["interrupted"] and entry["iobench"]["invalid"]
        assert loads(text)["iobench"]["points"][0]["valid_repeats"] == 0
    elif output == "mobibench":
        assert b"setState: 4\nErr string : " in text and b"No error" not in text and b"[TIME]" not in text
    else:
        assert b"*** INVALID: " in text
    assert list(tmp_path.iterdir()) == []


def made_up(what: str, *more: str | Path) -> bytes:
    """What probes/iobench/tests/test_results.c makes up: of no time, of one operation, of none, and hostile names."""
    return built.run(built.program("test_results"), what, *more).stdout


@pytest.mark.parametrize("what", ["human", "json", "mobibench"])
def test_nothing_that_is_no_number_is_printed(what: str) -> None:
    assert re.search(rb"\b-?(nan|inf)", made_up(what), re.IGNORECASE) is None


@pytest.mark.parametrize("what", ["human", "mobibench"])
def test_names_do_no_harm_to_a_terminal(what: str) -> None:
    text = made_up(what)
    text.decode()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", text)
    assert "‮" not in text.decode()
    if what == "human":
        assert rb"disk\x1b]0;x\x07 \xe2\x80\xae\xff" in text
    assert rb"\xff\x1b[31m\x0a" in text


def test_json_of_hostile_and_extreme_results() -> None:
    whole = loads(made_up("json"))
    one, no_time, nothing, failed = whole["jobs"]
    assert one["write"]["total_ios"] == 1 and one["write"]["iops"] == 1.0
    assert one["write"]["lat_ns"][BINS] == {"123456000": 1}
    for entry in (no_time, nothing):
        assert not {"iops", "bw", "bw_bytes"} & entry["write"].keys()
    assert "lat_ns" not in nothing["write"]
    assert failed["error"] == 5 and failed["iobench"]["valid"] is False
    assert os.fsencode(failed["iobench"]["invalid"]) == b'write of "\xff\x1b[31m\n" failed'
    assert os.fsencode(failed["iobench"]["device_model"]).endswith(b"\xff")
    assert not any("cpu_active_ns" in entry["iobench"] for entry in whole["jobs"])


def test_records_of_hostile_and_extreme_results(tmp_path: Path) -> None:
    made_up("record", tmp_path / "out.rec")
    read = record.read(tmp_path / "out.rec")
    assert read.complete and not read.losses
    runs = read.tables["bench_run"]
    assert runs["valid"].to_list() == [1, 1, 1, 0]
    assert runs["invalid"].to_list() == [None, None, None, 'write of "\\xff\x1b[31m\n" failed']
    assert runs["cpu_active_ns"].null_count() == 4
    whole = read.tables["bench_result"].filter((pl.col("thread") == -1) & (pl.col("part") == "op"))
    assert whole["ops"].to_list() == [1, 1, 0, 0]
    assert whole["latency_max_ns"].to_list() == [123456789, 0, None, None]
    assert whole["result"].to_list() == [0, 0, 0, -5]


# -- for people -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_table_can_be_read(tmp_path: Path, workload: str) -> None:
    words = (*WORKLOADS[workload], "--directory", str(tmp_path), "--repeats=2", "--cache=any", "-q")
    text = benched.run(*words).stdout.decode()
    labels = [line.split()[0] for line in text.splitlines()]
    rate = "IOPS" if workload == "file" else "TPS"
    assert {"test", "filesystem", "page", rate, "bandwidth", "latency", "op", "CPU", "context"} <= set(labels)
    assert ("SQLite" in labels) == (workload == "sqlite")
    assert max(len(line) for line in text.replace(str(tmp_path), "").splitlines()) <= 100
    for line in text.splitlines():
        if line.split()[0] in ("op", "sync", "commit"):
            assert len(re.findall(r"[\d.]+ (?:ns|us|ms|s)\b", line)) == 6


SWEPT = {
    "end_fsync=0,1": (),
    "loops=1,2": (),
    "ramp_time=0,1ms": ("--runtime=1s",),
    "buffer_compress_percentage=0,100": (),
    "dedupe_percentage=0,50": (),
    "randseed=1,2": (),
    "sync_file_range=write:1,wait_after:1": (),
    "prefilled=10,20": ("sqlite", "--sqlite-op=select", "-n", "2"),
    "mix=1:0:0:0,0:1:0:0": ("sqlite", "--sqlite-op=mixed", "-n", "2"),
    "read-block=512,1k": ("postmark", "-n", "4"),
    "write-block=512,1k": ("postmark", "-n", "4"),
    "bias-read=5,10": ("postmark", "-n", "4"),
    "bias-create=5,10": ("postmark", "-n", "4"),
    "subdirectories=0,2": ("postmark", "-n", "4"),
}


@pytest.mark.parametrize("sweep", SWEPT)
def test_the_lines_of_a_sweep_can_be_told_apart(tmp_path: Path, sweep: str) -> None:
    size = () if SWEPT[sweep][:1] in (("sqlite",), ("postmark",)) else ("--size=64k",)
    words = (*SWEPT[sweep], *size, "--sweep", sweep, "-p", tmp_path, "--cache=any", "-q")
    lines = benched.run(*words).stdout.decode().splitlines()
    heading = next(number for number, line in enumerate(lines) if "low-high" in line)
    left = len(re.split("IOPS|TPS", lines[heading])[0]) - len("123456")
    one, other = (line[:left] for line in lines[heading + 1 :])
    assert one != other


def test_a_sweep_over_directories_names_them(tmp_path: Path) -> None:
    """A name too long for the line by its end, and what would steer a terminal not as it is."""
    long, hostile = tmp_path / ("x" * 100 + "end"), tmp_path / "a\x1b[31mb"
    words = ("--size=64k", "--sweep", f"directory={long},{hostile}", "--cache=any", "-q")
    text = benched.run(*words).stdout.decode()
    assert re.search(r"^\.\.\.x+end ", text, re.MULTILINE)
    assert "\x1b" not in text and "[31mb " in text
    assert "filesystem" not in text


def test_a_sweep_is_a_line_for_each_point(tmp_path: Path) -> None:
    words = ("--size=64k", "--sweep", "bs=4k,8k", "--sweep", "mode=buffered,fsync", "--repeats=2")
    lines = benched.run("--directory", tmp_path, *words, "--cache=any", "-q").stdout.decode().splitlines()
    heading = next(number for number, line in enumerate(lines) if "IOPS" in line)
    assert lines[heading].split()[:3] == ["mode", "bs", "IOPS"]
    points = [line.split() for line in lines[heading + 1 :]]
    assert sorted((mode, bs) for mode, bs, *_ in points) == [
        (mode, bs) for mode in ("buffered", "fsync") for bs in ("4", "8")
    ]
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
