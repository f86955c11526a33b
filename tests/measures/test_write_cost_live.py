"""Costs of written bytes against known values: the harness, which logs all writes, and SQLite with diskstats.

The tables of a whole recording of the harness, and one recording of each journal mode of SQLite on ext4.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from harness import oplog, recordings
from support import benched
from support.devices import needs_probe
from support.loops import make_ext4, mounted

import androstep_analysis as androstep
from androstep_analysis import bench, link, measures
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.link import requests

PAGE = 4096
TRANSACTIONS = 30
LOG = {"DELETE": "journal", "TRUNCATE": "journal", "PERSIST": "journal", "WAL": "wal", "MEMORY": "none", "OFF": "none"}


@pytest.mark.prove
@pytest.mark.root
def test_the_harness(tmp_path: Path) -> None:
    """Compared with the writes that the processes logged, and those that the disk logged."""
    name = "ext4-android"
    if lacking := recordings.missing(name):
        pytest.skip(lacking)
    recording = recordings.make(name, tmp_path)
    images = link.Images(before=recording.before, after=recording.after, names=recording.names)
    linked = requests.link(recording.staging.block)
    tables: dict[str, Any] = link.tables(recording.staging, linked, images, Spool(), mounts=recording.mounts)
    tables["fs_events"] = recording.staging.fs_events
    cost = measures.write_cost(tables, page_bytes=PAGE).filter(metric="cost")
    value: dict[str, float] = dict(cost.select("part", "value").iter_rows())
    # What each block is that the disk got, by its content; its log also has two marks of a block.
    truth: dict[str, int] = dict(recording.truth.rows.group_by("kind").agg(512 * pl.sum("sectors")).iter_rows())
    open_bytes = PAGE * recording.truth.ambiguous.total()
    assert recording.truth.unmatched == 0
    assert value["journal"] == truth["journal"]
    assert 0 <= value["data"] + value["rewritten"] - truth["data"] <= open_bytes
    # A block of data that the disk got more than once was rewritten, unless its file was made anew.
    data = recording.truth.rows.filter(kind="data").select("ino", "gen", "offset_bytes", "sectors")
    again = data.filter(~pl.struct("ino", "gen", "offset_bytes").is_first_distinct())
    assert abs(value["rewritten"] - 512 * again["sectors"].sum()) <= open_bytes
    # SQLite extends its -shm past the file system that logs, by single bytes.
    told = measures.write_cost(tables, by=("owner_pid",), page_bytes=PAGE).filter(metric="written")
    found = dict(told.group_by("owner_pid").agg(pl.col("value").sum()).iter_rows())
    assert found.keys() == (logged := written(recording.directory / "oplog")).keys()
    assert all(0 <= found[pid] - count <= 8 for pid, count in logged.items())


def written(directory: Path) -> Counter[int]:
    """Return the bytes that each process wrote in the run."""
    operations = oplog.read(directory)
    run = next(one.sequence for one in operations if one.op == oplog.RUN)
    found: Counter[int] = Counter()
    for one in operations:
        if one.sequence > run and one.op in (oplog.STAMP, oplog.DATA):
            found[one.pid] += one.length
    return found


@pytest.mark.prove
@pytest.mark.root
@pytest.mark.parametrize("mode", LOG)
def test_a_transaction_in_each_journal_mode(tmp_path: Path, mode: str) -> None:
    """The costs of all transactions of iobench equal the bytes of diskstats in the same time.

    What the kernel wrote back meanwhile for others, by its timer, is in diskstats as well.
    """
    for probe in ("iotrace", "iobench"):
        needs_probe(probe)
    make_ext4(tmp_path / "image", ["-b", "4096"], 128)
    results, recording = tmp_path / "run.rec", tmp_path / "capture"
    with mounted(tmp_path / "image", "noatime") as place:
        job = ["sqlite", "-T", "1", "-n", str(TRANSACTIONS), "-d", "update", "-j", mode, "-s", "FULL"]
        job += ["--prefilled", "100", "--cache", "any", "-q", "-p", str(place.top), "-o", str(results)]
        record = ["record", "--on", "local", "-o", str(recording), "--preset", "block+fs+syscalls"]
        command = [sys.executable, "-m", "androstep_analysis", *record, "--device", place.device, "--"]
        subprocess.run([*command, *benched.program("native"), *job], check=True, capture_output=True)
    capture = androstep.open(recording)
    (database,) = capture.files.filter(pl.col("path").str.ends_with("test.db0_0")).collect()["path"]
    table = measures.sqlite_cost(capture.tables, databases=[database], page_bytes=capture.facts["page_bytes"])
    rows = table.filter(log=LOG[mode], metric="cost")
    # Without a log the transaction that makes the table is of the same kind: 5 pages.
    more, prefilled = (1, 5 * PAGE) if LOG[mode] == "none" else (0, 0)
    assert set(rows["n"]) == {TRANSACTIONS + more}
    run = bench.read(results).tables["bench_runs"].row(0, named=True)
    is_meanwhile = pl.col("complete_ns").is_between(run["ts_ns"], run["ts_ns"] + run["duration_ns"])
    others = capture.io.filter(is_meanwhile, pl.col("owner_comm").ne_missing("iobench"), op="write")
    written_back = others.select(pl.col("bytes").sum()).collect().item()
    assert rows["value"].sum() - prefilled == run["device_write_bytes"] - written_back
