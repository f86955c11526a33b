"""Misses of caches: `measures.miss_ratio` beside libCacheSim's cachesim, and the error of a sample of the blocks.

``python benchmarks/reuse.py --cachesim PATH [--requests N] TRACE ...``. For each trace, and for N made-up requests of
one block each (Zipf, exponent 1.1), both get the same touches of blocks of 4 KiB in the same order, for every policy.
Of LRU ours works out all sizes at once; cachesim (github.com/1a1a11a/libCacheSim, built by its cmake) simulates each
size, and prints four digits. Told are the largest difference, elapsed time and greatest memory, each in a process of
its own. The second table has the difference of what a sample of the blocks gives from the whole: of the sizes of which
the whole misses neither all nor only first touches, the mean and the largest.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl

import androstep_analysis as androstep
from androstep_analysis import measures

SIZES = tuple(1 << power for power in range(20, 31, 2))
BLOCK = 4096
POLICIES = ("lru", "fifo", "s3fifo", "arc")
SAMPLES = (0.1, 0.01, 0.001)

OURS = """
import sys, time, polars as pl
from androstep_analysis import measures
began = time.perf_counter()
of = {"policy": sys.argv[2], "sample_ratio": float(sys.argv[3]), "cache_bytes": list(map(int, sys.argv[4:]))}
print(measures.miss_ratio(pl.scan_parquet(sys.argv[1]), **of)["value"].to_list())
print(time.perf_counter() - began)
"""


def main() -> None:
    """Print a row for each trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--cachesim", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=0)
    options = parser.parse_args()
    rows: dict[str, list[str]] = {"policies": [], "samples": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "requests.parquet"
        for trace in options.traces:
            aside(convert, trace, place)
            add(rows, trace.name, place, options.cachesim)
        if options.requests:
            aside(make_up, options.requests, place)
            add(rows, "made up", place, options.cachesim)
    heads = ["touches", "of", "policy", "largest difference", "ours s", "MiB", "cachesim s", "MiB"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    print("\n".join(rows["policies"]))
    print("\n| of | policy | sample | mean | largest | s | MiB |\n|---|---|---|---|---|---|---|")
    print("\n".join(rows["samples"]))


def add(rows: dict[str, list[str]], title: str, place: Path, cachesim: Path) -> None:
    """Both on one table of requests, with each policy; then ours with samples."""
    trace = place.with_suffix(".bin")
    number = aside(write_touches, place, trace)
    sizes = ",".join(str(size // BLOCK) for size in SIZES)
    for policy in POLICIES:
        whole, took, our_bytes = ours(place, policy, 1)
        words = [
            cachesim.resolve(),
            trace,
            "oracleGeneral",
            policy,
            sizes,
            "--ignore-obj-size",
            "1",
            "--num-thread",
            "1",
        ]
        told, their_s, their_bytes = run(words, place.parent)
        theirs = [float(value) for value in re.findall(r", miss ratio ([\d.]+)", told)]
        apart = max(abs(round(one, 4) - other) for one, other in zip(whole, theirs, strict=True))
        numbers = f"{took:.2f} | {our_bytes >> 20} | {their_s:.2f} | {their_bytes >> 20}"
        rows["policies"].append(f"| {number:,} | {title} | {policy} | {apart:.4f} | {numbers} |")
        for share in SAMPLES:
            part, took, our_bytes = ours(place, policy, share)
            apart = [abs(one - other) for one, other in zip(part, whole, strict=True) if whole[-1] < other < 1]
            apart = apart or [abs(part[-1] - whole[-1])]
            numbers = f"{np.mean(apart):.4f} | {max(apart):.4f} | {took:.2f} | {our_bytes >> 20}"
            rows["samples"].append(f"| {title} | {policy} | {share} | {numbers} |")


def ours(place: Path, policy: str, share: float) -> tuple[list[float], float, int]:
    """The miss ratios, the seconds and the bytes."""
    told, _, our_bytes = run([sys.executable, "-c", OURS, place, policy, str(share), *map(str, SIZES)], place.parent)
    values, took = told.splitlines()
    return [float(value) for value in values.strip("[]").split(",")], float(took), our_bytes


def aside(work: Callable[..., int], *of: object) -> int:
    """In a process of its own: the greatest memory of a program is at least that of the process which started it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *of).result()


def convert(trace: Path, place: Path) -> int:
    """Table requests of a trace."""
    androstep.open(trace).requests.sink_parquet(place)
    return 0


def make_up(number: int, place: Path) -> int:
    """Table requests that are made up."""
    made_up(number).write_parquet(place)
    return number


def write_touches(place: Path, trace: Path) -> int:
    """What cachesim reads; how many touches there are."""
    touched = touches(pl.read_parquet(place))
    touched.tofile(trace)
    return len(touched)


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
