"""A thousand captures measured and compared: on one process, on several, and on a cluster of Dask on this machine.

``python benchmarks/many_captures.py DIR [--captures 1000] [--requests 100000] [--workers 2]``. DIR gets the traces (CSV
of phones of ten apps) and their captures, and keeps them for the next time. In each row the same measure of the first
10, 100, … captures; elapsed time, the greatest memory of all processes together, and whether the tables are equal bit
for bit to those of one process. A worker is killed in the middle of the last row.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import distributed
import numpy as np
import polars as pl
import psutil

import androstep_analysis as androstep
from androstep_analysis.collections import Collection

APPS = 10
KILLED_AFTER_S = 5


def trace(path: Path, seed: int, requests: int) -> None:
    """A CSV of a phone with an app that has its own share of reads and its own locality."""
    random, app = np.random.default_rng(seed), seed % APPS
    goes_on = random.random(requests) < 0.1 + 0.05 * app
    starts = np.where(goes_on, -1, random.integers(0, 10**8, requests))
    last = np.maximum.accumulate(np.where(goes_on, 0, np.arange(requests)))
    at = np.arange(requests)
    pl.DataFrame({
        "process": f"app{app}-1",
        "device": 8388608,
        "rw_flag": np.where(random.random(requests) < 0.2 + 0.06 * app, "R", "W"),
        "sector": np.maximum(starts[last], 0) + 8 * (at - last),
        "size": 8,
        "timestamp": np.cumsum(random.exponential(0.01, requests)).round(6),
    }).write_csv(path)  # fmt: skip


def made(directory: Path, captures: int, requests: int, workers: int) -> Collection:
    """The captures of so many traces, each made once."""
    traces = directory / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    for seed in range(captures):
        path = traces / f"app{seed % APPS}-{seed:05}.csv"
        if not path.exists():
            trace(path, seed, requests)
    began = time.perf_counter()
    collection, failed = Collection.ingest([traces], directory / "captures", jobs=workers)
    print(
        f"{len(collection):,} captures made in {time.perf_counter() - began:.0f} s by {workers} processes: {failed}\n"
    )
    return collection


@contextmanager
def memory() -> Iterator[Callable[[], int]]:
    """A function that tells the greatest resident memory so far of this process and all below it, together."""
    greatest, done, me = [0], threading.Event(), psutil.Process()

    def sample() -> None:
        while not done.wait(0.05):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.Error:
                    continue
            greatest[0] = max(greatest[0], total)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield lambda: greatest[0]
    finally:
        done.set()
        thread.join()


def digest(table: pl.DataFrame) -> str:
    return hashlib.sha256(table.write_csv(float_precision=17).encode()).hexdigest()[:12]


def row(title: str, collection: Collection, expected: str | None, **where: object) -> str:
    """Measures, compares every app with the first, and prints what it took; the digest of both tables."""
    began = time.perf_counter()
    with memory() as greatest:
        table = collection.measure("locality", **where)
        facts = table.with_columns(workload=pl.col("capture").str.head(4))
        compared = androstep.compare.compare(facts.drop("error"), by=["workload"], baseline="app0")
        took = time.perf_counter() - began
        peak = greatest()
    found = digest(table) + digest(compared)
    same = "" if expected is None else "equal" if found == expected else "DIFFERENT"
    print(f"| {len(collection):,} | {title} | {took:.1f} | {peak / 2**20:,.0f} | {same} |", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    everything = made(options.directory, options.captures, options.requests, options.workers)
    print("| captures | where | s | MiB of all processes | tables |\n|---|---|---|---|---|")
    counts = [count for count in (10, 100, 1000, 10_000) if count <= options.captures]
    some = {count: Collection(everything.places[:: len(everything) // count][:count]) for count in counts}
    told = {count: row("1 process", some[count], None, jobs=1) for count in counts}
    for count in counts:
        row(f"{options.workers} processes", some[count], told[count], jobs=options.workers)
    scratch = options.directory / "dask"
    with (
        distributed.LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address=":0", local_directory=scratch
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for count in counts:
            row(f"Dask, {options.workers} workers", some[count], told[count], executor=client)
        victim = next(iter(client.run(os.getpid).values()))
        timer = threading.Timer(KILLED_AFTER_S, os.kill, (victim, signal.SIGKILL))
        timer.start()
        title = f"Dask, a worker killed after {KILLED_AFTER_S} s"
        row(title, some[counts[-1]], told[counts[-1]], executor=client)
        timer.cancel()
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
