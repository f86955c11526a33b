"""Benchmark results: what other tools' output says, medians with intervals, merged histograms, and comparisons."""

from __future__ import annotations

import io
import itertools
import json
import lzma
import random
import re
import shutil
import statistics
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import benched, corpus
from support.tree import ROOT

import androstep_analysis as androstep
from androstep_analysis import bench, runs, schema
from androstep_analysis.bench import fio, tables
from androstep_analysis.bench.measures import QUANTILES
from androstep_analysis.bench.tables import Part, foreign
from androstep_analysis.capture import tool_results
from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.results import Results
from androstep_analysis.datasets.unpack import unpack
from androstep_analysis.stats.exact import moses, rank, ratio

# -- results of others: two archives of a Pixel phone ------------------------------------------------------------------

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def unpacked(kind: str, directory: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """Return the files of an archive by name, and the results of the independent tool on those that exist."""
    unpack(corpus.path(f"bench_results/pixel_{kind}_outputs.tar.gz"), directory, 1 << 30)
    files = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    stated = json.loads(corpus.path(f"bench_results/pixel_{kind}_outputs.expected.json").read_text())["values"]
    return files, stated


def as_printed(value: float, text: str) -> bool:
    """Return whether a value, rounded or truncated to the digits of `text`, equals it in its unit."""
    found = re.fullmatch(r"([\d.]+)(\w*?)(?:/s)?", text)
    assert found is not None
    unit = {**UNITS, "": 1, "k": 1000, "M": 10**6}[found[2]]
    step = Decimal(1).scaleb(-len(found[1].partition(".")[2]))
    return abs(Decimal(value) / unit - Decimal(found[1])) < step


def test_every_fio_output_of_the_phone(tmp_path: Path) -> None:
    files, stated = unpacked("fio", tmp_path)
    assert len(files) >= 192
    found = bench.read(*files.values())
    results = {path: bench.read(path) for path in files.values()}
    assert found.tables["bench_runs"].height == len(files)
    for name, path in files.items():
        want = stated[name]
        (run,) = results[path].tables["bench_runs"].to_dicts()
        parts = {row["part"]: row for row in results[path].tables["bench"].to_dicts()}
        moved = parts[want["dir"]]
        quantiles = dict(zip(moved["quantile_ppm"], moved["quantile_ns"], strict=True))
        rates = {row["metric"]: row["value"] for row in bench.measures(results[path].tables).to_dicts()}
        ((group, size, threads, depth),) = re.findall(r"/(\w+)_(\d+)K_(\d+)t_(\d+)Q$", name)
        assert group and run["valid"], name
        assert run["test"] == {"read": "rand_read", "write": "rand_write"}[want["dir"]], name
        assert (run["block_bytes"], run["threads"]) == (int(size) * 1024, max(int(threads), want["jobs"])), name
        assert run["depth"] == int(depth), name
        assert run["duration_ns"] == want["runtime_ms"] * 10**6, name
        assert moved["ops"] == want["issued"][want["dir"] == "write"], name
        assert as_printed(moved["bytes"], want["io"]), name
        assert as_printed(rates["iops"], want["iops"]), name
        assert as_printed(rates["bandwidth"], want["bw"]) and as_printed(rates["bandwidth"], want["bw_si"]), name
        assert quantiles[990_000] == want["clat_p99"] * {"nsec": 1, "usec": 10**3, "msec": 10**6}[want["clat_unit"]]


@pytest.mark.parametrize("kind", ["fio", "mobibench"])
@pytest.mark.parametrize("end", [b"\r\n", b"  \n", b" \r\n"])
def test_other_ends_of_lines_change_no_result(kind: str, end: bytes, tmp_path: Path) -> None:
    files, _ = unpacked(kind, tmp_path)
    path = next(iter(files.values()))
    plain, copy = path.read_bytes(), tmp_path / "copy"
    copy.write_bytes(plain.replace(b"\n", end))
    of = {"run_id"}  # which is that of the bytes of the file
    for name, table in bench.read(path).tables.items():
        got = bench.read(copy).tables[name]
        assert got.drop(of & {*got.columns}).equals(table.drop(of & {*table.columns}))


@pytest.mark.parametrize("kind", ["fio", "mobibench"])
def test_an_archive_or_a_directory_is_its_files_together(tmp_path: Path, kind: str) -> None:
    files, _ = unpacked(kind, tmp_path / "files")
    (tmp_path / "files/notes.txt").write_text("what else lay there\n")
    archive = corpus.path(f"bench_results/pixel_{kind}_outputs.tar.gz")
    one_by_one = bench.read(*files.values()).tables
    for path in (archive, tmp_path / "files"):
        found, capture = bench.read(path).tables, androstep.open(path)
        for name in ("bench_runs", "bench"):
            expected = one_by_one[name].sort("run_id", maintain_order=True)
            assert found[name].sort("run_id", maintain_order=True).equals(expected)
            assert capture.tables[name].collect().sort("run_id", maintain_order=True).equals(expected)
    if kind == "fio":
        disks = dict(one_by_one["bench_runs"]["device"].value_counts().iter_rows())
        assert disks == {"dm-5": 48, "nbd0": 96, "zram0": 48}


def test_of_an_archive_everything_readable_is_read_and_once(tmp_path: Path) -> None:
    files, _ = unpacked("mobibench", tmp_path / "files")
    names = sorted(files)[:3]
    with tarfile.open(tmp_path / "results.tar", "w") as archive:
        archive.add(__file__, "first/other.txt")
        for at, name in enumerate([*names, names[0]]):
            archive.add(files[name], f"{at}/result")
        damaged = tarfile.TarInfo("broken.json")
        text = b'{"fio version": "fio-3.33", "jobs": 7}'
        damaged.size = len(text)
        archive.addfile(damaged, io.BytesIO(text))
    with pytest.warns(LossWarning, match="broken.json: not in the format of its tool"):
        found = bench.read(tmp_path / "results.tar")
    assert found.tables["bench_runs"].height == 3


def test_of_a_directory_a_damaged_file_costs_itself(tmp_path: Path) -> None:
    files, _ = unpacked("mobibench", tmp_path / "files")
    together = tmp_path / "together"
    together.mkdir()
    for name in sorted(files)[:3]:
        shutil.copy(files[name], together)
    broken = together / "broken.json"
    broken.write_text('{"fio version": "fio-3.33", "jobs": 7}')
    for read in (lambda: bench.read(together).tables, lambda: androstep.open(together).tables):
        with pytest.warns(LossWarning, match=r"broken\.json: not in the format of its tool"):
            assert read()["bench_runs"].lazy().collect().height == 3
    with pytest.raises(InputError, match=r"broken\.json: not in the format of its tool"):
        bench.read(broken)
    with pytest.raises(InputError, match=r"broken\.json: not in the format of its tool"):
        bench.read(sorted(together.iterdir())[1], broken)


HOSTILE = ("x\ud800<script>\x1b[31m", 2**70, -1, 0.5, float("nan"), float("inf"), None, [], {}, True)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_value_in_output_of_fio_is_read_or_a_sentence(data: st.DataObject) -> None:
    document = json.loads(lzma.decompress((ROOT / "datasets/bench/ext4_peers/writes-0.json.xz").read_bytes()))
    document["jobs"] = document["jobs"][:1]
    part: Any = document
    while True:
        key = data.draw(st.sampled_from(list(part) if isinstance(part, dict) else range(len(part))))
        if not (isinstance(part[key], dict | list) and part[key] and data.draw(st.integers(0, 9))):
            break
        part = part[key]
    part[key] = data.draw(st.sampled_from(HOSTILE))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "fio.json")
        path.write_text(json.dumps(document))
        try:
            results = bench.read(path)
        except InputError as error:
            assert "fio.json" in str(error)
        else:
            results.tables["bench"].lazy().collect().write_ipc(None)


def test_terse_lines_of_fio_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """They have no word of reads or writes in order, record size or engine (fio(1), "Terse output")."""
    terse = tmp_path / "terse"
    terse.write_text("3;fio-3.33;random-writers;0;0;" + "0;" * 120 + "\n")
    with pytest.raises(InputError, match=r"terse: fio's terse output lacks .* --output-format=json"):
        bench.read(terse)


def test_every_mobibench_output_of_the_phone(tmp_path: Path) -> None:
    files, stated = unpacked("mobibench", tmp_path)
    assert len(files) >= 65
    failed = 0
    for name, path in files.items():
        found = bench.read(path).tables
        valid = found["bench_runs"].filter("valid")
        assert found["bench_runs"].height == 1 and valid.height == len(stated[name]), name
        failed += 1 - valid.height
        if not stated[name]:
            assert "File write error!!! [no: 28" in found["bench_runs"]["invalid"][0], name
            assert bench.measures(found).is_empty(), name
            continue
        (want,), (run,) = stated[name], valid.to_dicts()
        rates = {row["metric"]: row["value"] for row in bench.measures(found).to_dicts()}
        assert run["duration_ns"] == (want["sec"] * 10**6 + want["us"]) * 1000, name
        assert run["block_bytes"] == int(want["kb"]) * 1024, name
        assert rates["bandwidth"] == pytest.approx(want["B_per_s"], abs=1), name
        assert rates["bandwidth"] / 1024 == pytest.approx(want["KB_per_s"], abs=0.0051), name
        assert rates["iops"] == pytest.approx(want["iops"], abs=0.0051), name
    assert failed == 10


# -- fio ---------------------------------------------------------------------------------------------------------------

FIO_TEXT = """\
job: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1
...
fio-3.33
Starting 2 processes

job: (groupid=0, jobs=1): err= 0: pid=1: Sat Nov 21 17:16:05 2026
  read: IOPS=5111, BW=20.0MiB/s (20.9MB/s)(184KiB/9msec)
    clat (usec): min=28, max=378, avg=86.16, stdev=51.87
     lat (usec): min=29, max=379, avg=86.24, stdev=51.98
    clat percentiles (usec):
     |  1.00th=[   29], 50.00th=[   81],
     | 99.99th=[  379]
  write: IOPS=6000, BW=23.4MiB/s (24.6MB/s)(216KiB/9msec); 0 zone resets
    clat (nsec): min=2684, max=64.7k, avg=9840.35, stdev=12810.04
     lat (nsec): min=2734, max=64837, avg=9943.07, stdev=12830.34
  fsync/fdatasync/sync_file_range:
    sync (usec): min=51, max=299, avg=135.12, stdev=74.16
    sync percentiles (usec):
     | 50.00th=[   92], 99.00th=[  302]
  cpu          : usr=0.00%, sys=25.00%, ctx=96, majf=3, minf=13
     issued rwts: total=46,54,0,28 short=0,0,0,0 dropped=0,0,0,0
job: (groupid=0, jobs=1): err= 0: pid=2: Sat Nov 21 17:16:05 2026
  read: IOPS=5333, BW=20.8MiB/s (21.8MB/s)(192KiB/8msec)
    clat (usec): min=29, max=202, avg=70.49, stdev=31.67
  write: IOPS=5777, BW=22.6MiB/s (23.7MB/s)(208KiB/9msec); 0 zone resets
  cpu          : usr=0.00%, sys=25.00%, ctx=96, majf=0, minf=13
     issued rwts: total=48,52,0,28 short=0,0,0,0 dropped=0,0,0,0
"""


def written(directory: Path, text: str, name: str = "result.txt") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def part(results: Results, name: str, thread: int = -1) -> dict[str, Any]:
    """Return the one row of table bench of a part."""
    (row,) = results.tables["bench"].filter(part=name, thread=thread).to_dicts()
    return row


def test_clones_that_fio_reports_one_by_one_are_threads_of_one_run(tmp_path: Path) -> None:
    found = bench.read(written(tmp_path, FIO_TEXT))
    (run,) = found.tables["bench_runs"].to_dicts()
    assert (run["tool"], run["tool_version"], run["test"]) == ("fio", "3.33", "rand_mixed")
    assert (run["threads"], run["duration_ns"], run["valid"]) == (2, 9_000_000, True)
    whole, first, second = (part(found, "op", thread) for thread in (-1, 0, 1))
    assert (whole["ops"], first["ops"], second["ops"]) == (200, 100, 100)
    assert whole["bytes"] == 200 * 4096
    assert (first["latency_min_ns"], first["latency_max_ns"]) == (2734, 379_000)
    assert (first["major_faults"], first["minor_faults"]) == (3, 13)
    writes, reads, syncs = (part(found, name, 0) for name in ("write", "read", "sync"))
    assert (writes["latency_min_ns"], writes["latency_max_ns"]) == (2684, 64_700)
    assert (reads["quantile_ppm"], reads["quantile_ns"]) == ([10_000, 500_000, 999_900], [29_000, 81_000, 379_000])
    assert (syncs["ops"], syncs["quantile_ns"]) == (28, [92_000, 302_000])
    assert part(found, "read")["quantile_ppm"] is None, "quantiles of two jobs cannot be told from theirs"
    assert part(found, "read")["latency_max_ns"] == 378_000


@pytest.mark.parametrize(
    ("change", "invalid"),
    [
        (lambda text: text.replace("err= 0: pid=2", "err=28 (file:x.c:1, func=y): pid=2"), "error 28"),
        (lambda text: text[: text.index("job: (groupid")], "fio printed no result"),
        (lambda text: re.sub(r"(?m)^  (read|write):.*\n", "", text), "fio counted no operation"),
    ],
)
def test_a_failed_fio_run_is_there_and_invalid(tmp_path: Path, change: Any, invalid: str) -> None:
    (run,) = bench.read(written(tmp_path, change(FIO_TEXT))).tables["bench_runs"].to_dicts()
    assert not run["valid"] and invalid in run["invalid"]


def test_a_size_that_varies_leaves_bytes_as_they_are_printed(tmp_path: Path) -> None:
    text = FIO_TEXT.replace("(R) 4096B-4096B", "(R) 4096B-8192B")
    found = bench.read(written(tmp_path, text))
    assert found.tables["bench_runs"]["block_bytes"][0] is None
    assert part(found, "read", 0)["bytes"] == 184 << 10


def test_trims_are_a_loss(tmp_path: Path) -> None:
    with pytest.warns(LossWarning, match="job 'job' has an unknown test of reads or writes"):
        found = bench.read(written(tmp_path, FIO_TEXT.replace("rw=randrw", "rw=trim")))
    assert found.tables["bench_runs"].is_empty()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "buffered"),
        ({"direct": "1"}, "direct"),
        ({"sync": "1"}, "osync"),
        ({"sync": "dsync"}, "odsync"),
        ({"direct": "1", "sync": "sync"}, "direct_osync"),
        ({"fsync": "1"}, "fsync"),
        ({"fdatasync": "1"}, "fdatasync"),
        ({"ioengine": "mmap"}, "mmap"),
        ({"direct": "1", "fsync": "8"}, "direct+fsync"),
    ],
)
def test_sync_modes_of_fio(options: dict[str, str], name: str) -> None:
    assert fio._sync_mode(options) == name


def run_fio(directory: Path, *options: str) -> Path:
    """Run fio, and return its JSON."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    out = directory / "fio.json"
    command = ["fio", "--name=job", "--size=1m", "--output-format=json+", f"--output={out}", *options]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return out


def test_fios_bins_hold_the_latencies_that_fio_logged(tmp_path: Path) -> None:
    options = ["--rw=randwrite", "--bs=2k", "--fsync=1", "--write_lat_log=log", "--log_unix_epoch=0"]
    found = bench.read(run_fio(tmp_path, *options))
    (run,) = found.tables["bench_runs"].to_dicts()
    assert (run["test"], run["sync_mode"], run["block_bytes"]) == ("rand_write", "fsync", 2048)
    assert (run["file_bytes"], run["threads"]) == (1 << 20, 1)
    (log,) = tmp_path.glob("log_clat.*log")
    lines = [[int(word) for word in line.split(",")] for line in log.read_text().splitlines()]
    raw = [line[1] for line in lines if line[2] == 1]
    row = part(found, "write")
    assert row["ops"] == len(raw) == 512 and row["bytes"] == 1 << 20
    counted = dict.fromkeys(row["hist_bucket_ns"], 0)
    for value in raw:
        (bucket,) = [
            lower
            for lower, width in zip(row["hist_bucket_ns"], row["hist_width_ns"], strict=True)
            if lower <= value < lower + width
        ]
        counted[bucket] += 1
    assert list(counted.values()) == row["hist_count"]
    stated = json.loads((tmp_path / "fio.json").read_text())["jobs"][0]["write"]
    rates = {line["metric"]: line["value"] for line in bench.measures(found.tables).to_dicts()}
    assert rates["iops"] == pytest.approx(stated["iops"], abs=1e-5)


def test_fios_text_and_json_agree(tmp_path: Path) -> None:
    found = bench.read(run_fio(tmp_path, "--rw=randrw", "--number_ios=100", "--numjobs=2"))
    (run,) = found.tables["bench_runs"].to_dicts()
    assert (run["test"], run["threads"], run["sync_mode"]) == ("rand_mixed", 2, "buffered")
    stated = json.loads((tmp_path / "fio.json").read_text())["jobs"]
    for name in ("read", "write"):
        row = part(found, name)
        assert row["ops"] == sum(job[name]["total_ios"] for job in stated)
        assert row["bytes"] == sum(job[name]["io_bytes"] for job in stated)
        assert sum(row["hist_count"]) == row["ops"]
    assert part(found, "op")["ops"] == 200


# -- Mobibench ---------------------------------------------------------------------------------------------------------

SETUP = """\
-----------------------------------------
[mobibench measurement setup]
-----------------------------------------
"""
OF_FILES = f"""{SETUP}File size per thread : 1024 KB
IO size : 4 KB
IO count : 256\x20
Access Mode 0, Sync Mode 2
# of Threads : 2
setState: 1
setState: 2
10%\r20%\r
-----------------------------------------
[Messurement Result]
-----------------------------------------
[CPU] : Active,Idle,IoWait : 67.44 0.00 32.56
[TIME] :       1 sec 256153us. \t1669503 B/sec, \t1630.37 KB/sec, \t1.59 MB/sec.
[CON SWITCHES] : 2050 2049
setState: 3
Err string : No error
"""
OF_SQLITE = f"""{SETUP}DB teset mode enabled.
Operation : 1
Transactions per thread: 100
# of Tables : 3
# of Databases : 1
# of Threads : 1
[DB information of db ./mobibench/test.db0_0]
sqlite_version=3.40.1
page_size=4096
journal_mode=wal
synchronous=2
[TIME] :       0 sec 999362us. \t100.06 Transactions/sec
Err string : No error
"""


def test_runs_of_mobibench_in_one_file(tmp_path: Path) -> None:
    found = bench.read(written(tmp_path, OF_FILES + OF_SQLITE))
    files, sqlite = found.tables["bench_runs"].to_dicts()
    assert (files["test"], files["sync_mode"], files["threads"]) == ("seq_write", "fsync", 2)
    assert (files["file_bytes"], files["duration_ns"], files["valid"]) == (1 << 20, 1_256_153_000, True)
    assert (sqlite["test"], sqlite["journal_mode"], sqlite["synchronous"]) == ("sqlite_update", "WAL", "FULL")
    assert (sqlite["tables"], sqlite["databases"], sqlite["sqlite_version"]) == (3, 1, "3.40.1")
    rows = found.tables["bench"].to_dicts()
    assert [(row["ops"], row["bytes"]) for row in rows] == [(512, 2 << 20), (100, None)]
    assert (rows[0]["ctx_voluntary"], rows[0]["ctx_involuntary"]) == (2049, 1)
    rates = {(row["test"], row["metric"]): row["value"] for row in bench.measures(found.tables).to_dicts()}
    assert rates["seq_write", "bandwidth"] == pytest.approx(1_669_503, abs=1)
    assert rates["sqlite_update", "tps"] == pytest.approx(100.06, abs=0.01)
    assert ("sqlite_update", "bandwidth") not in rates, "no bandwidth of transactions"
    assert rates["seq_write", "context_switches"] == 2050


@pytest.mark.parametrize(
    ("text", "invalid"),
    [
        (OF_FILES.replace("No error", "File open error"), "Mobibench: File open error"),
        (OF_FILES.replace("10%", "File write error!!! [no: 28, pos: 0]"), "Mobibench: File write error!!! [no: 28"),
        (OF_FILES[: OF_FILES.index("setState: 1")], "Mobibench printed no result"),
        (OF_SQLITE[: OF_SQLITE.index("[TIME]")], "Mobibench printed no result"),
    ],
)
def test_a_failed_run_of_mobibench_is_there_and_invalid(tmp_path: Path, text: str, invalid: str) -> None:
    (run,) = bench.read(written(tmp_path, text)).tables["bench_runs"].to_dicts()
    assert not run["valid"] and run["invalid"].startswith(invalid)


# -- what is no result -------------------------------------------------------------------------------------------------


def test_what_is_no_result_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not results of a known benchmark; known are iobench records, fio"):
        bench.read(written(tmp_path, "nothing\n"))
    with pytest.raises(InputError, match="is in two files"):
        bench.read(written(tmp_path, OF_FILES), written(tmp_path, OF_FILES, "copy.txt"))
    with pytest.raises(
        InputError, match=r"result\.txt: not in the format of its tool \(KeyError: .*\); give the unchanged output"
    ):
        bench.read(written(tmp_path, '{"fio version": "fio-3.33", "jobs": [{}]}'))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no results of a benchmark and is not a capture"):
        bench.read(tmp_path / "empty")
    with pytest.raises(InputError, match="no file with results was given"):
        bench.read()


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore::androstep_analysis.LossWarning")
@pytest.mark.parametrize("text", [FIO_TEXT, OF_FILES, OF_SQLITE], ids=["fio", "files", "sqlite"])
def test_what_is_damaged_is_read_or_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    lines = text.splitlines(keepends=True)
    shuffled = [random.Random(seed).sample(lines, len(lines)) for seed in range(10)]
    damaged = [
        *(text[:at] for at in range(0, len(text), 40)),
        *("".join(lines[:at] + lines[at + 1 :]) for at in range(len(lines))),
        *(re.sub(r"\d+", "9" * 25, text, count=count) for count in (1, 5, 0)),
        *("".join(mixed) for mixed in shuffled),
    ]
    refused = 0
    for content in damaged:
        try:
            found = bench.read(written(tmp_path, content)).tables
            bench.summarise(found)
            bench.latencies(found)
        except InputError as error:
            assert str(error).startswith(str(tmp_path / "result.txt")), error
            refused += 1
    assert refused < len(damaged) / 2


# -- tables ------------------------------------------------------------------------------------------------------------


def test_every_column_of_a_run_is_asked_for_machine_or_outcome() -> None:
    columns = [*tables.JOB, *tables.MACHINE, *tables.OUTCOME]
    assert sorted(columns) == sorted(schema.table("bench_runs").polars)
    assert len(columns) == len(set(columns))


def made(*points: tuple[dict[str, Any], Sequence[float | None]]) -> dict[str, pl.DataFrame]:
    """Return tables of runs of 1 s: a configuration and the operations of each repetition, None for an invalid one."""
    runs, parts = [], []
    for number, (configuration, counts) in enumerate(points):
        for repeat, count in enumerate(counts):
            runs.append(
                {
                    **{"run_id": f"r{number}", "repeat": repeat, "tool": "iobench", "workload": "file", "threads": 1},
                    **{"test": "rand_write", "duration_ns": 10**9, "valid": count is not None},
                    **{"invalid": None if count is not None else "the cache was warm"},
                    **configuration,
                }
            )
            parts.append([] if count is None else [Part("op", ops=int(count), bytes=int(count) * 4096)])
    return foreign("made", runs, parts, ()).tables


# -- write amplification -----------------------------------------------------------------------------------------------


def amplified(configuration: dict[str, Any], written: int = 4096, read: int = 0) -> list[float]:
    known = {"run_id": "r", "tool": "iobench", "test": "seq_write", "threads": 1, "valid": True}
    run = known | {"device_write_bytes": 8192} | configuration
    parts = [Part("op", ops=1, bytes=written), *([Part("read", ops=1, bytes=read)] if read else [])]
    return bench.write_amplification(foreign("made", [run], [parts], ()).tables)["value"].to_list()


@pytest.mark.parametrize(
    ("sync_mode", "after_every", "final_sync", "known"),
    [
        *(
            ("fsync", 1, False, True),
            ("fsync", 2, False, False),
            ("fsync", 2, True, True),
            ("mmap_sync", 1, False, True),
        ),
        *(("buffered", None, False, False), ("buffered", None, True, True), ("sync_file_range", 1, False, False)),
        *(
            ("io_uring+direct", None, False, True),
            ("direct+odsync+fsync", 8, False, True),
            ("rwf_dsync", None, False, True),
        ),
    ],
)
def test_write_amplification_of_files(sync_mode: str, after_every: int, final_sync: bool, known: bool) -> None:
    """Without all writes on the device a quotient says nothing."""
    asked = {"workload": "file", "sync_mode": sync_mode, "after_every": after_every, "final_sync": final_sync}
    assert amplified(asked) == [2.0] * known
    assert amplified(asked, read=2048) == [4.0] * known
    assert amplified(asked, read=4096) == []
    assert amplified(asked | {"device_write_bytes": None}) == []


@pytest.mark.parametrize(
    ("journal_mode", "synchronous", "final_sync", "known"),
    [
        *(("DELETE", "OFF", True, False), ("DELETE", "NORMAL", False, True), ("WAL", "FULL", False, True)),
        *(("WAL", "NORMAL", False, False), ("WAL", "NORMAL", True, True), ("WAL", "OFF", True, False)),
    ],
)
def test_write_amplification_of_sqlite(journal_mode: str, synchronous: str, final_sync: bool, known: bool) -> None:
    modes = {"journal_mode": journal_mode, "synchronous": synchronous, "final_sync": final_sync}
    assert amplified({"workload": "sqlite"} | modes) == [2.0] * known


def test_write_amplification_of_postmark_needs_its_sync() -> None:
    assert amplified({"workload": "postmark", "final_sync": True}) == [2.0]
    assert amplified({"workload": "postmark", "final_sync": False}) == []


# -- medians -----------------------------------------------------------------------------------------------------------


def covers(count: int, place: int) -> float:
    """Return how often the median lies between the k-th least and greatest of `count` values, by trying all cases."""
    hits = 0
    for below in itertools.product((0, 1), repeat=count):
        hits += place <= sum(below) <= count - place
    return hits / 2**count


def test_the_interval_of_the_median_is_the_shortest_of_95_percent() -> None:
    for count in range(1, 15):
        place, confidence = rank(count)
        assert confidence == pytest.approx(covers(count, place) if count > 1 else 0)
        if place > 1:
            assert confidence >= 0.95
        if place < count // 2:
            assert covers(count, place + 1) < 0.95
        assert (confidence >= 0.95) == (count >= 6)


@pytest.mark.parametrize(
    ("counts", "value", "lo", "hi"),
    [
        ([5, 1, 3], 3, 1, 5),
        ([4, 2], 3, 2, 4),
        ([7], 7, None, None),
        ([10, 20, 30, 40, 50, 60], 35, 10, 60),
        (list(range(1, 12)), 6, 2, 10),  # of 11 the second least and greatest: 98.8 %
    ],
)
def test_medians_by_hand(counts: list[float], value: float, lo: float | None, hi: float | None) -> None:
    summary = bench.summarise(made(({}, counts)))
    (row,) = summary.filter(metric="iops").to_dicts()
    assert (row["value"], row["lo"], row["hi"], row["n"]) == (value, lo, hi, len(counts))
    (moved,) = summary.filter(metric="bandwidth").to_dicts()
    assert (moved["value"], moved["unit"]) == (value * 4096, "B/s")


def test_invalid_repetitions_are_left_out_and_counted() -> None:
    found = bench.summarise(made(({"sync_mode": "fsync"}, [10, None, 30]), ({"sync_mode": "osync"}, [None])))
    rates = {row["sync_mode"]: (row["value"], row["n"]) for row in found.filter(metric="iops").to_dicts()}
    assert rates == {"fsync": (20, 2)}
    invalid = {row["sync_mode"]: (row["value"], row["n"]) for row in found.filter(metric="invalid_runs").to_dicts()}
    assert invalid == {"fsync": (1, 3), "osync": (1, 1)}


def test_repetitions_of_one_configuration_belong_together_whatever_run_they_are_of() -> None:
    found = bench.summarise(made(({"block_bytes": 4096}, [1, 2]), ({"block_bytes": 4096}, [3]), ({}, [9])))
    rows = {row["block_bytes"]: (row["value"], row["n"]) for row in found.filter(metric="iops").to_dicts()}
    assert rows == {4096: (2, 3), None: (9, 1)}


def test_a_pause_that_was_asked_for_is_no_part_of_the_time() -> None:
    found = made(({}, [100]))
    found["bench"] = found["bench"].with_columns(paused_ns=pl.lit(6 * 10**8, pl.Int64))
    assert bench.measures(found).filter(metric="iops")["value"].to_list() == pytest.approx([250])


# -- histograms --------------------------------------------------------------------------------------------------------


def bucket(value: int, bits: int = 6) -> tuple[int, int]:
    """Return lower bound and width of a value's bucket, as described in probes/iobench/bench.h."""
    if value < 1 << bits:
        return value, 1
    width = 1 << (value.bit_length() - 1 - bits)
    return value // width * width, width


def with_histograms(*repetitions: Sequence[int]) -> dict[str, pl.DataFrame]:
    """Return tables of one configuration with these latencies in each repetition."""
    rows: list[list[Part]] = []
    for values in repetitions:
        counts: dict[tuple[int, int], int] = {}
        for value in values:
            counts[bucket(value)] = counts.get(bucket(value), 0) + 1
        ordered = sorted(counts)
        known = {
            **{"latency_min_ns": min(values), "latency_max_ns": max(values)},
            **{"hist_bucket_ns": [lower for lower, _ in ordered], "hist_width_ns": [width for _, width in ordered]},
            **{"hist_count": [counts[key] for key in ordered]},
        }
        rows.append([Part("op", ops=len(values), bytes=0, known=known)])
    run = {"run_id": "r", "tool": "iobench", "workload": "file", "threads": 1, "test": "rand_write", "valid": True}
    runs = [{**run, "repeat": number, "duration_ns": 10**9} for number in range(len(rows))]
    return foreign("made", runs, rows, ()).tables


@pytest.mark.prove
@given(st.lists(st.lists(st.integers(0, 1 << 38), min_size=1, max_size=60), min_size=1, max_size=4))
def test_quantiles_of_merged_histograms_are_those_of_the_values_to_the_width_of_a_bucket(values: Any) -> None:
    found = with_histograms(*values)
    together = np.array([value for repetition in values for value in repetition])
    for row in bench.latencies(found).to_dicts():
        share = 1.0 if row["quantile"] == "max" else QUANTILES[row["quantile"]] / 1e6
        exact = int(np.quantile(together, share, method="inverted_cdf"))
        assert row["lo"] <= exact <= row["hi"] == row["value"] <= together.max()
        assert row["hi"] - row["lo"] <= max(1, row["lo"]) / 64
        assert row["n"] == len(together)
    each = bench.measures(found).filter(metric="latency_p99")["value"].to_list()
    for value, repetition in zip(each, values, strict=True):
        exact = int(np.quantile(repetition, 0.99, method="inverted_cdf"))
        assert exact <= value <= max(exact * (1 + 1 / 64), exact)


def test_the_distribution_counts_every_operation() -> None:
    values = [random.Random(7).randrange(1, 10**7) for _ in range(2000)]
    found = bench.distribution(with_histograms(values[:900], values[900:]))
    assert found["n"].sum() == 2000 and found["value"].to_list()[-1] == 1.0
    for row in found.to_dicts():
        assert row["value"] == pytest.approx(sum(value <= row["latency_ns"] for value in values) / 2000)


# -- comparisons -------------------------------------------------------------------------------------------------------


def coverage_of_moses(first: int, second: int, place: int) -> float:
    """Return how often 1 lies between the k-th least and greatest ratio of equal samples, by trying all orders."""
    hits = total = 0
    for chosen in itertools.combinations(range(first + second), first):
        others = [rank_ for rank_ in range(first + second) if rank_ not in chosen]
        above = sum(b > a for a in chosen for b in others)
        hits += place <= above <= first * second - place
        total += 1
    return hits / total


def test_the_interval_of_a_ratio_is_the_shortest_of_95_percent() -> None:
    for first, second in itertools.product(range(1, 7), repeat=2):
        place = moses(first, second)
        assert place == moses(second, first)
        if place:
            assert coverage_of_moses(first, second, place) >= 0.95
        if 2 * (place + 1) <= first * second:
            assert coverage_of_moses(first, second, place + 1) < 0.95


def test_ratio_by_hand() -> None:
    assert ratio([1, 2, 3, 4], [2, 4, 6, 8]) == (2.0, 0.5, 8.0)
    assert ratio([10, 10, 10, 10, 10], [20, 21, 22, 23, 24]) == (2.2, 2.0, 2.4)
    assert ratio([1, 2], [3, 4]) == (pytest.approx(3.5 / 1.5), None, None)
    assert ratio([], [1]) == ratio([0, 1], [1, 2]) == (None, None, None)


def test_ratio_against_all_pairs() -> None:
    generator = np.random.default_rng(11)
    for _ in range(50):
        first, second = (generator.lognormal(size=int(generator.integers(4, 12))) for _ in range(2))
        value, lo, hi = ratio(first.tolist(), second.tolist())
        pairs = sorted(b / a for a in first for b in second)
        place = moses(len(first), len(second))
        assert value == pytest.approx(statistics.median(second) / statistics.median(first))
        assert lo == min(value, pairs[place - 1]) and hi == max(value, pairs[len(pairs) - place])


def test_verdicts() -> None:
    low, high = [10, 11, 12, 13], [20, 21, 22, 23]
    first = made(
        ({"sync_mode": "fsync"}, low),
        ({"sync_mode": "osync"}, high),
        ({"sync_mode": "direct"}, low),
        ({"sync_mode": "mmap"}, [10, 11, 12]),
        ({"sync_mode": "odsync"}, low),
        ({"sync_mode": "buffered"}, [None]),
    )
    second = made(
        ({"sync_mode": "fsync"}, high),
        ({"sync_mode": "osync"}, low),
        ({"sync_mode": "direct"}, [12, 9, 14, 11]),
        ({"sync_mode": "mmap"}, [20, 21, 22]),
        ({"sync_mode": "fdatasync"}, low),
        ({"sync_mode": "buffered"}, low),
    )
    rows = {row["sync_mode"]: row for row in bench.compare(first, second).filter(metric="iops").to_dicts()}
    assert {mode: row["verdict"] for mode, row in rows.items()} == {
        **{"fsync": "faster", "osync": "slower", "direct": "no difference shown", "mmap": "too few repetitions"},
        **{"odsync": "only in the first", "fdatasync": "only in the second"},
        **{"buffered": "no valid repetition in both"},
    }
    assert rows["fsync"]["value"] == 21.5 / 11.5
    assert (rows["fsync"]["lo"], rows["fsync"]["hi"]) == (20 / 13, 23 / 10)
    assert (rows["fsync"]["n_first"], rows["fsync"]["n_second"], rows["fsync"]["n"]) == (4, 4, 8)


def test_less_latency_is_faster() -> None:
    quick, slow = ([[10_000 + step] * 5 for step in range(0, 4000, 1000)], [[90_000 + step] * 5 for step in range(4)])
    found = bench.compare(with_histograms(*slow), with_histograms(*quick)).filter(metric="latency_p50")
    assert found["verdict"].to_list() == ["faster"] and found["value"][0] < 0.2


def test_two_filesystems_on_one_side_are_refused() -> None:
    mixed = made(({"fs_type": "ext4"}, [1, 2]), ({"fs_type": "xfs"}, [3, 4]))
    with pytest.raises(ValueError, match="several fs_type"):
        bench.compare(mixed, mixed)
    assert bench.compare(mixed, mixed, by=("test", "fs_type")).filter(metric="iops").height == 2


# -- iobench -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return records of a small sweep with every operation logged."""
    directory = tmp_path_factory.mktemp("recorded")
    words = ["--rw", "randwrite", "--size", "1m", "--number_ios", "200", "--repeats", "3", "--numjobs", "2"]
    sweep = ["--sweep", "mode=buffered,fsync", "--cache", "any", "--log-ops", "--interval", "1"]
    ran = runs.bench([*words, *sweep, "--directory", str(directory)], directory / "out")
    assert ran.status == 0
    return directory / "out" / "raw" / "bench.rec"


def test_iobenchs_records_become_the_tables(recorded: Path) -> None:
    found = bench.read(recorded)
    assert found.losses == () and found.clock == "boot"
    for name, table in found.tables.items():
        schema.conform(table, name)
    runs, results, ops = (found.tables[name] for name in ("bench_runs", "bench", "bench_ops"))
    assert runs.height == 6 and runs["run_id"].n_unique() == 2
    assert runs["valid"].all() and set(runs["kernel"]) == {Path("/proc/sys/kernel/osrelease").read_text().strip()}
    for row in results.iter_rows(named=True):
        assert sum(row["hist_count"]) == row["ops"]
        raw = ops.filter(run_id=row["run_id"], repeat=row["repeat"], part=row["part"])
        raw = raw if row["thread"] == -1 else raw.filter(thread=row["thread"])
        if row["part"] == "finish":
            continue
        values = raw["latency_ns"].to_list()
        assert (len(values), sum(values)) == (row["ops"], row["latency_sum_ns"])
        counts: dict[int, int] = {}
        for value in values:
            counts[bucket(value)[0]] = counts.get(bucket(value)[0], 0) + 1
        assert counts == dict(zip(row["hist_bucket_ns"], row["hist_count"], strict=True))
    windows = found.tables["bench_series"].group_by("run_id", "repeat").agg(pl.col("ops").sum(), pl.col("bytes").sum())
    assert set(windows["ops"]) == {200} and set(windows["bytes"]) == {200 * 4096}


def test_merged_percentiles_of_iobench_against_its_logged_operations(recorded: Path) -> None:
    found = bench.read(recorded).tables
    names = dict(found["bench_runs"].select("run_id", "sync_mode").iter_rows())
    ops = found["bench_ops"].with_columns(sync_mode=pl.col("run_id").replace_strict(names))
    seen = 0
    for row in bench.latencies(found).filter(pl.col("part").is_in(["op", "write", "sync"])).to_dicts():
        raw = ops.filter(sync_mode=row["sync_mode"], part=row["part"])["latency_ns"].to_numpy()
        share = 1.0 if row["quantile"] == "max" else QUANTILES[row["quantile"]] / 1e6
        assert row["lo"] <= np.quantile(raw, share, method="inverted_cdf") <= row["hi"]
        assert row["n"] == len(raw) == 600
        seen += 1
    assert seen == 5 * (len(QUANTILES) + 1)


def test_series_adds_up(recorded: Path) -> None:
    found = bench.series(bench.read(recorded).tables)
    sums = found.filter(metric="iops").group_by("run_id", "repeat").agg(pl.col("n").sum())
    assert sums.height == 6 and set(sums["n"]) == {200}
    assert (
        found["value"]
        == found["n"]
        * 1e9
        / found["duration_ns"]
        * pl.Series([1 if metric == "iops" else 4096 for metric in found["metric"]])
    ).all()


def frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Return the begin and end of each frame (probes/FORMAT.md)."""
    place = 0
    while place < len(data):
        end = place + 24 + int.from_bytes(data[place + 16 : place + 20], "little")
        yield place, end
        place = end


def test_a_flipped_bit_makes_nothing_wrong(recorded: Path, tmp_path: Path) -> None:
    """Whichever block is damaged: what is still there is as it was, and a run without results is invalid."""
    data = recorded.read_bytes()
    whole = bench.read(recorded).tables
    known = {(row["run_id"], row["repeat"], row["thread"], row["part"]): row for row in whole["bench"].to_dicts()}
    kinds = set()
    for number, (start, end) in enumerate(frames(data)):
        kind = int.from_bytes(data[start + 6 : start + 8], "little")
        if kind in kinds or kind < 2:
            continue
        kinds.add(kind)
        damaged = bytearray(data)
        damaged[(start + end) // 2] ^= 1
        path = tmp_path / f"{number}.rec"
        path.write_bytes(damaged)
        with pytest.warns(LossWarning):
            found = bench.read(path).tables
        for row in found["bench"].to_dicts():
            before = known[row["run_id"], row["repeat"], row["thread"], row["part"]]
            if row["hist_count"] is None:
                before = before | dict.fromkeys(("hist_bucket_ns", "hist_width_ns", "hist_count"))
            assert row == before
        have = {(row["run_id"], row["repeat"]) for row in found["bench"].filter(thread=-1, part="op").to_dicts()}
        for run in found["bench_runs"].to_dicts():
            assert run["valid"] == ((run["run_id"], run["repeat"]) in have)
            assert run["valid"] or run["invalid"] == "its results are missing in the file"
    assert len(kinds) == 5


def test_a_record_stream_of_another_probe_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "listing.rec"
    listing = [benched.built.program("extmap", "native"), "-o", path, "--tasks"]
    subprocess.run(listing, check=True, timeout=60)
    with pytest.raises(InputError, match="not results of a known benchmark"):
        bench.read(path)


# -- captures ----------------------------------------------------------------------------------------------------------


def test_results_are_a_capture(tmp_path: Path) -> None:
    source = written(tmp_path, OF_FILES + OF_FILES[: OF_FILES.index("setState: 1")])
    opened = androstep.open(source)
    assert repr(opened) == "<Capture of result.txt; format Mobibench text; tests seq_write; runs 2; invalid 1>"
    kept = androstep.create([source], tmp_path / "capture", androstep.Description(facts={"device": "a phone"}))
    assert repr(kept) == "<Capture of a phone; format Mobibench text; tests seq_write; runs 2; invalid 1>"
    (stated,) = json.loads((tmp_path / "capture/capture.json").read_text())["sources"]
    assert (stated["role"], stated["path"]) == ("bench", "raw/result.txt")
    again = androstep.open(tmp_path / "capture")
    assert set(bench.TABLES) < set(again.tables)
    for name, table in again.bench.items():
        assert table.equals(kept.bench[name]) and table.equals(opened.bench[name])
    assert again.requests.collect().is_empty() and "<th" in again._repr_html_()
    assert bench.read(tmp_path / "capture").tables["bench"].equals(again.bench["bench"])


BLKPARSE = """\
  8,0    0        1     0.000001000   100  Q  WS 8 + 8 [sh]
  8,0    0        2     0.000003000   100  C  WS 8 + 8 [0]
"""


def test_results_beside_a_trace(recorded: Path, tmp_path: Path) -> None:
    trace, result = written(tmp_path, BLKPARSE, "trace.txt"), written(tmp_path, OF_FILES)
    with pytest.raises(InputError, match="their offset is unknown; ingest them separately"):
        androstep.create([trace, recorded], tmp_path / "no")
    assert not (tmp_path / "no").exists()
    both = androstep.create([trace, result], tmp_path / "both")
    assert re.search(r"format blkparse_text; window .*; tests seq_write; runs 1; invalid 0; requests 1", repr(both))
    assert both.requests.collect().height == 1
    traced = androstep.create([trace], tmp_path / "traced")
    assert "tests" not in repr(traced) and "bench" not in traced.tables
    with pytest.raises(InputError, match="a capture without results of a benchmark"):
        _ = traced.bench
    with pytest.raises(InputError, match="a capture without results of a benchmark"):
        bench.read(tmp_path / "traced")


def test_times_of_results_are_in_the_clock_of_the_trace(recorded: Path, tmp_path: Path) -> None:
    found = bench.read(recorded)
    assert found.monotonic_offset_ns is not None
    about = {"clock": "mono", "realtime_offset_ns": None, "events": {"x": 1}, "losses": [], "rows": {}}
    shifted, told = tool_results.add({"bench": found}, {}, about)
    assert told["bench"] == {"tests": ["rand_write"], "runs": 6, "invalid": 0}
    for name in bench.TABLES:
        difference = shifted[name].lazy().collect()["ts_ns"] - found.tables[name]["ts_ns"]
        assert set(difference) == {found.monotonic_offset_ns}
    same, _ = tool_results.add({"bench": found}, {}, about | {"clock": "boot"})
    assert same["bench"].lazy().collect().equals(found.tables["bench"])
    # CLOCK_REALTIME relates the two clocks if both offsets are known.
    untold = replace(found, monotonic_offset_ns=None, realtime_offset_ns=1000)
    shifted, _ = tool_results.add({"bench": untold}, {}, about | {"realtime_offset_ns": 1300})
    difference = shifted["bench"].lazy().collect()["ts_ns"] - found.tables["bench"]["ts_ns"]
    assert set(difference) == {-300}
