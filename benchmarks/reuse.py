"""Misses of an LRU cache, by reuse distances and simulated: `measures.miss_ratio` beside libCacheSim's cachesim.

``python benchmarks/reuse.py --cachesim PATH [--requests N] TRACE ...``. For each trace, and for N made-up requests of
one block each (Zipf, exponent 1.1), both get the same touches of blocks of 4 KiB in the same order. Ours works out all
sizes at once; cachesim (github.com/1a1a11a/libCacheSim, built by its cmake) simulates each, and prints four digits.
Told are the largest difference, elapsed time and greatest memory, each in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import androstep_analysis as androstep
from androstep_analysis import measures

SIZES = tuple(1 << power for power in range(20, 31, 2))
BLOCK = 4096

OURS = """
import sys, time, polars as pl
from androstep_analysis import measures
began = time.perf_counter()
print(measures.miss_ratio(pl.scan_parquet(sys.argv[1]), cache_bytes=list(map(int, sys.argv[2:])))["value"].to_list())
print(time.perf_counter() - began)
"""


def main() -> None:
    """Print a row for each trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--cachesim", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=0)
    options = parser.parse_args()
    print("| touches | of | largest difference | ours s | MiB | cachesim s | MiB |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "requests.parquet"
        for trace in options.traces:
            androstep.open(trace).requests.sink_parquet(place)
            print(row(trace.name, place, options.cachesim))
        if options.requests:
            made_up(options.requests).write_parquet(place)
            print(row("made up", place, options.cachesim))


def row(title: str, place: Path, cachesim: Path) -> str:
    """Both on one table of requests."""
    told, _, our_bytes = run([sys.executable, "-c", OURS, place, *map(str, SIZES)], place.parent)
    values, took = told.splitlines()
    ours = [float(value) for value in values.strip("[]").split(",")]
    touched = touches(pl.read_parquet(place))
    trace = place.with_suffix(".bin")
    touched.tofile(trace)
    sizes = ",".join(str(size // BLOCK) for size in SIZES)
    words = [cachesim.resolve(), trace, "oracleGeneral", "lru", sizes, "--ignore-obj-size", "1", "--num-thread", "1"]
    told, their_s, their_bytes = run(words, place.parent)
    theirs = [float(value) for value in re.findall(r", miss ratio ([\d.]+)", told)]
    apart = max(abs(round(one, 4) - other) for one, other in zip(ours, theirs, strict=True))
    numbers = f"{float(took):.2f} | {our_bytes >> 20} | {their_s:.2f} | {their_bytes >> 20}"
    return f"| {len(touched):,} | {title} | {apart:.4f} | {numbers} |"


def run(words: list[str | Path], directory: Path) -> tuple[str, float, int]:
    """What a program prints, the seconds it takes and its greatest memory in bytes. (cachesim writes where it runs.)"""
    began = time.perf_counter()
    silent = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, cwd=directory, text=True, **silent) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} ended with status {process.returncode}")
    return told, time.perf_counter() - began, usage.ru_maxrss << 10


def touches(requests: pl.DataFrame) -> np.ndarray:
    """Every touch of a block, in order, as libCacheSim's oracleGeneral: time, object, size, next access."""
    rows = requests.filter(pl.col("op").is_in(["read", "write"]), pl.col("nr_sectors") > 0)
    rows = measures.counted(rows).sort(measures.order_ns(), "request_id", "sector").collect()
    first = rows["sector"].to_numpy() * 512 // BLOCK
    count = (rows["sector"] + rows["nr_sectors"] - 1).to_numpy() * 512 // BLOCK - first + 1
    inside = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    made = np.zeros(len(inside), np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")]))
    made["object"] = (
        (np.repeat(rows["dev"].to_numpy().astype(np.uint64), count) << np.uint64(40))
        + np.repeat(first, count).astype(np.uint64)
        + inside.astype(np.uint64)
    )
    made["size"], made["next"], made["time"] = 1, -1, np.arange(len(inside)) & 0xFFFFFFFF
    return made


def made_up(number: int) -> pl.DataFrame:
    """Table requests of reads of one block each."""
    from androstep_analysis import schema

    block = np.random.default_rng(1).zipf(1.1, number) % (1 << 30)
    at = pl.int_range(number, eager=True)
    given = {"request_id": at, "issue_ns": at, "sector": pl.Series(block * (BLOCK // 512))}
    types = schema.table("requests").polars
    rows = pl.DataFrame(given).with_columns(
        nr_sectors=pl.lit(BLOCK // 512), dev=pl.lit(8 << 20), op=pl.lit("read"), matched=pl.lit("full")
    )
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in types.items() if name not in rows.columns]
    return rows.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in types.items())


if __name__ == "__main__":
    main()
