"""The translation layer and the prediction beside the same in plain Python: requests per second.

``python benchmarks/whatif.py [--requests N] [--rounds N]``. Random writes and reads of 4 to 64 KiB on a device of 32
MiB that is full, so that cleaning never ends. The plain layer is the oracle of tests (support/whatif_oracles.py), on
fewer requests: it is as slow as it is plain. The prediction's peer is a heap of threads, as one would write it.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis import schema, units, whatif
from androstep_analysis.replay import device
from androstep_analysis.replay.program import Program
from androstep_analysis.whatif.log_structured import accesses

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.whatif_oracles import Layer

CAPACITY = 32 << 20
SEGMENT = 1 << 20
PAGE_SECTORS = 8
FEWER = 1000
"""How many times fewer requests the plain layer gets."""


def trace(count: int) -> pl.DataFrame:
    """Table `requests`: two writes for each read, four on their way at a time."""
    chance = np.random.default_rng(1)
    pages = chance.integers(1, 17, count)
    sectors = chance.integers(0, CAPACITY // 4096 - 16, count) * PAGE_SECTORS
    at = np.arange(count, dtype=np.int64) * 1000
    ops = np.array(["write", "write", "read"])[chance.integers(0, 3, count)]
    flags = dict.fromkeys(("sync", "meta", "fua", "preflush", "readahead"), False)
    device_number = pl.lit(units.dev(8, 0), pl.UInt32)
    rows = pl.DataFrame({"request_id": np.arange(count), "sector": sectors, "nr_sectors": pages * PAGE_SECTORS})
    rows = rows.with_columns(
        op=pl.Series(ops).cast(schema.enum("requests", "op")),
        queue_ns=pl.Series(at),
        issue_ns=pl.Series(at),
        complete_ns=pl.Series(at + 3999),
        dev=device_number,
        part_dev=device_number,
        nr_bios=pl.lit(1, pl.Int32),
        matched=pl.lit("full", schema.enum("requests", "matched")),
        **{name: pl.lit(value) for name, value in flags.items()},
    )
    return schema.complete(rows, "requests")


def model() -> pl.DataFrame:
    """A device of made-up costs: what they are does not matter for the speed."""
    rows = [
        {"access": access, "block_bytes": size, "service_ns": base + size, "depth": 4, "repeats": 1, "operations": 1}
        for access, base in {"seq_read": 100, "rand_read": 900, "seq_write": 300, "rand_write": 9000}.items()
        for size in (4096, 1 << 20)
    ]
    names = {name: schema.table("device_model").polars[name] for name in rows[0]}
    return schema.complete(pl.DataFrame(rows, names), "device_model")


def plain_layer(requests: pl.DataFrame) -> None:
    """The oracle of the tests."""
    pages, per_segment = CAPACITY // 4096, SEGMENT // 4096
    layer = Layer(pages, per_segment, pages // per_segment + 3, range(pages))
    for row, (op, sector, length) in enumerate(requests.select("op", "sector", "nr_sectors").iter_rows()):
        layer.request(row, op, sector, length)


def plain_queue(program: Program, costs: pl.DataFrame) -> int:
    """Threads in a heap, by when they ask; one device that serves one at a time."""
    times = {(row[0], row[1] > 4096): row[2] for row in costs.select("access", "block_bytes", "service_ns").iter_rows()}
    lanes: dict[int, list[tuple[str, int, int]]] = {}
    for thread, call, offset, size in program.operations.select("thread", "call", "offset_bytes", "bytes").iter_rows():
        if call != "open":
            lanes.setdefault(thread, []).append((call, offset, size))
    asking = [(0, thread, 0) for thread in lanes]
    heapq.heapify(asking)
    free, ends = 0, {"pread": -1, "pwrite": -1}
    while asking:
        now, thread, place = heapq.heappop(asking)
        call, offset, size = lanes[thread][place]
        access = ("seq_" if ends[call] == offset else "rand_") + call[1:]
        ends[call] = offset + size
        free = max(now, free) + times[access, False] + size - 4096
        if place + 1 < len(lanes[thread]):
            heapq.heappush(asking, (free, thread, place + 1))
    return free


def rate(work: Callable[[], object], count: int, rounds: int) -> float:
    """Requests per second: the median of the rounds."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return count / statistics.median(seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    requests, costs = trace(options.requests), model()
    few = requests.head(options.requests // FEWER)
    program = device.program(requests.lazy())
    sizes = {"capacity_bytes": CAPACITY, "segment_bytes": SEGMENT, "spare_ratio": 3 * SEGMENT / CAPACITY}
    rows = {
        "layer, accesses only": (lambda: accesses(requests, **sizes), requests.height),
        "layer, as requests": (lambda: whatif.log_structured(requests, **sizes), requests.height),
        "layer, plain Python": (lambda: plain_layer(few), few.height),
        "prediction": (lambda: whatif.predict(program, costs), requests.height),
        "prediction, plain Python": (lambda: plain_queue(program, costs), requests.height),
    }
    for name, (work, count) in rows.items():
        print(f"{name:28}{rate(work, count, options.rounds):14,.0f} requests/s  ({count:,})", flush=True)


if __name__ == "__main__":
    main()
