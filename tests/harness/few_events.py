"""Judge what is inferred from the events of a phone without root: python tests/harness/few_events.py [NAME...]

Each workload of few_apps.c, and that of workload.c, is recorded in a guest with all events, on ext4 and on F2FS. Facts
of the whole recording are the truth for the same recording reduced to the permitted events (tests/support/stock.py). A
NAME is such as f2fs-wal, or f2fs-wal-2 with two CPUs. Results are shares of the written blocks of files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import polars as pl
from support import built, stock

from androstep_analysis import ingest, link
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging
from androstep_analysis.link import requests
from harness import build, guest
from harness.made import Made

FILESYSTEMS = ("ext4", "f2fs")
MODES = (
    *("apps", "delete", "truncate", "persist", "wal", "copy", "small", "mapped", "direct", "shared", "background"),
    *("rewrite", "mixture"),
)
"""Modes of few_apps.c, and the workload of the harness (workload.c)."""
PERCENTS = {"file": "map_percent", "owner": "owner_percent"}
CLASSES = (80, 94, 96, 98)
"""Edges between the five classes of stated percentages."""
QUESTIONS = {"file": ("ino", "map_source"), "owner": ("owner_pid", "owner_via")}

RUN = """set -x
echo 100 >/proc/sys/vm/dirty_writeback_centisecs; echo 200 >/proc/sys/vm/dirty_expire_centisecs
attach() {{ mount -t {fs_type} -o noatime /dev/vda /mnt; }}
attach && few_apps /mnt prepare 1 && umount /mnt && attach || return
iotrace -o /tmp/out/recording --device /dev/vda --list none --readahead -- \
    sh -c 'few_apps /mnt {mode} {seed}; sleep 8; umount /mnt'
"""


def recorded(directory: Path, fs_type: str, mode: str, cpus: int, seed: int = 1) -> Staging:
    """Return a recording of the workload, made in `directory`."""
    if mode == "mixture":
        iotrace = built.program("iotrace", "x86_64-linux-musl")
        guest.record(directory, Made(fs_type, cpus=cpus), iotrace, seed=seed, preset="block+fs --readahead")
        return ingest.read(directory / "recording" / "trace.dat")
    programs = [built.program("iotrace", "x86_64-linux-musl"), build.tool("few_apps", "amd64")]
    guest.run(directory, fs_type, programs, RUN.format(fs_type=fs_type, mode=mode, seed=seed), cpus, log_writes=False)
    return ingest.read(directory / "recording" / "trace.dat")


def blocks(staging: Staging) -> pl.DataFrame:
    """Return the written blocks of 4 KiB with the columns of table io."""
    tables = link.tables(staging, requests.link(staging.block), link.Images(), Spool())
    pieces = tables["io"].filter(pl.col("op") == "write", pl.col("nr_sectors") > 0).collect()
    first, last = pl.col("sector") // 8, (pl.col("sector") + pl.col("nr_sectors") - 1) // 8
    return pieces.with_columns(block=pl.int_ranges(first, last + 1)).explode("block").unique(["issue_ns", "block"])


def judged(staging: Staging) -> dict[str, pl.DataFrame]:
    """Return for each question a row for each block: its outcome, and the stated percentage of an inferred answer."""
    truth = blocks(staging).filter(pl.col("block_type") == "data", pl.col("map_source") != "inferred")
    both = truth.join(blocks(stock.reduced(staging)), on=["issue_ns", "block"], how="left", suffix="_few")
    results = {}
    for question, (column, source) in QUESTIONS.items():
        known = both.filter(pl.col(source) != "inferred", pl.col(column).is_not_null())
        answer = pl.col(f"{column}_few")
        percent = pl.col(f"{PERCENTS[question]}_few")
        outcome = stock.outcome(pl.col(column) == answer, answer, pl.col(f"{source}_few"))
        results[question] = known.select(outcome=outcome, percent=percent)
    return results


def print_calibration(answers: pl.DataFrame) -> None:
    """Print the mean stated percentage and the share of right answers in classes of the stated percentage."""
    classes = pl.col("percent").cut(CLASSES).alias("class")
    stated = answers.filter(pl.col("outcome").str.starts_with("inferred"))
    right = (pl.col("outcome") == "inferred right").mean() * 100
    table = stated.group_by(classes).agg(blocks=pl.len(), stated=pl.col("percent").mean(), right=right).sort("class")
    print("\n| stated | blocks | mean stated | right |\n|---|---:|---:|---:|")
    for name, count, mean, share in table.iter_rows():
        print(f"| {name} | {count} | {mean:.1f} % | {share:.1f} % |")


def main(names: list[str]) -> None:
    print(f"| recording | question | {' | '.join(stock.OUTCOMES)} |")
    print("|---|---|" + "---:|" * len(stock.OUTCOMES))
    answers: list[pl.DataFrame] = []
    for name in names or [f"{fs_type}-{mode}" for fs_type in FILESYSTEMS for mode in MODES]:
        fs_type, mode, *cpus = name.split("-")
        with tempfile.TemporaryDirectory() as directory:
            results = judged(recorded(Path(directory), fs_type, mode, int(cpus[0]) if cpus else 1))
        answers += results.values()
        for question, judgements in results.items():
            shares = stock.shares(judgements["outcome"])
            cells = " | ".join(f"{shares[outcome]:.1%}" for outcome in stock.OUTCOMES)
            print(f"| {name} | {question} | {cells} |", flush=True)
    print_calibration(pl.concat(answers))


if __name__ == "__main__":
    main(sys.argv[1:])
