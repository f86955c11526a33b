"""Figures of easyco.ipynb: curves, tables of PostMark's results, await, and predictions for the controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from androstep_analysis import bench, schema, units, whatif
from androstep_analysis.replay import device as device_replay

_MIB = 1 << 20
_CONTROLLER = {"capacity_bytes": 96 * _MIB, "spare_ratio": 16 / 96, "segment_bytes": _MIB}
"""Size and spare units of the controller in the emulated card (datasets/whatif/card.py)."""

_POSTMARK = ("total run time", "transaction time", "transactions", "read", "write")
"""The columns of the slides' tables, as named in column metric of the published numbers."""


def postmark(files: Sequence[Path], stated: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each device: the slides' first, then those measured here (``postmark_DEVICE/sync.rec.xz``).

    The run time includes creating and removing the files, the transaction time does not. Rates of bytes are the bytes
    of the transactions divided by the run time.
    """
    slides = (
        stated.filter(pl.col("metric").is_in(_POSTMARK))
        .pivot("metric", index=["device", "condition"], values="value", maintain_order=True)
        .select("device", pl.col("condition").str.replace("PostMark 1.50, ", ""), *_POSTMARK)
    )
    here = pl.concat(_measured(path) for path in files)
    names = {"total run time": "run s", "transaction time": "transactions s", "transactions": "per s"}
    return pl.concat([slides, here]).rename(names | {"read": "read MB/s", "write": "write MB/s"})


def _measured(path: Path) -> pl.DataFrame:
    tables = bench.read(path).tables
    parts = tables["bench"].filter(pl.col("thread") == -1)
    sums = {
        part: (ops, moved or 0, took / 1e9)
        for part, ops, moved, took in parts.group_by(pl.col("part").cast(pl.String))
        .agg(pl.col("ops").sum(), pl.col("bytes").sum(), pl.col("latency_sum_ns").sum())
        .iter_rows()
    }
    transactions, _, seconds = sums["op"]
    total = seconds + sums["fill"][2] + sums["clear"][2]
    written = sum(sums[part][1] for part in ("fill", "create", "append"))
    kind = path.parent.name.removeprefix("postmark_")
    return pl.DataFrame(
        {
            "device": DEVICES[kind],
            "condition": "log-structured" if kind == "card_log" else "bare",
            "total run time": total,
            "transaction time": seconds,
            "transactions": transactions / seconds,
            "read": sums["read"][1] / total / 1e6,
            "write": written / total / 1e6,
        }
    )


DEVICES = {
    "disk": "loop device on a disk, here",
    "throttled": "throttled loop device, here",
    "card": "emulated card, here",
    "card_log": "emulated card, here",
}


def waits(files: Sequence[Path], stated: pl.DataFrame) -> pl.DataFrame:
    """Return await during the writeback of PostMark's files: the mean of the worst second, and the longest one.

    The slides' bounds come first.
    """
    rows = [
        {
            "device": device or "with Flash SuperCharger",
            "condition": "the slides: " + ("less than" if "upper" in metric else "more than"),
            "await, worst second, ms": value * {"s": 1000.0, "ms": 1.0}[unit],
            "longest, ms": None,
            "writes": None,
        }
        for device, metric, value, unit in stated.select("device", "metric", "value", "unit").iter_rows()
    ]
    for path in files:
        requests = pl.read_parquet(path).filter(pl.col("op") == "write", pl.col("complete_ns").is_not_null())
        waited = (pl.col("complete_ns") - pl.col("queue_ns")) / 1e6
        by_second = requests.group_by(pl.col("complete_ns") // 1_000_000_000).agg(waited.mean().alias("ms"))
        kind = path.parent.name.removeprefix("postmark_")
        rows.append(
            {
                "device": DEVICES[kind],
                "condition": "log-structured" if kind == "card_log" else "bare",
                "await, worst second, ms": by_second.select(pl.col("ms").max()).item(),
                "longest, ms": requests.select(waited.max()).item(),
                "writes": requests.height,
            }
        )
    return pl.DataFrame(rows)


def behind_controller(files: Sequence[Path], *, count: int = 300, mib: int = 32) -> pl.DataFrame:
    """Predict operations per second by size with the simulated controller in front of a measured device.

    For each size, `count` requests follow one after the other in `mib` MiB, whose pages were written before in random
    order. That is as many as the benchmark's three repetitions, or as the initially empty units allow.
    """
    model = whatif.fit(bench.read(*files).tables)
    sizes = sorted(model.filter(access="seq_write")["block_bytes"])
    parts = [_predicted(model, test, size, count, mib) for test in ("seq_write", "rand_write") for size in sizes]
    return pl.concat(parts)


def _predicted(model: pl.DataFrame, test: str, size: int, count: int, mib: int) -> pl.DataFrame:
    places = np.arange(mib * _MIB // size)
    if test == "rand_write":
        np.random.default_rng(1).shuffle(places)
    sectors = np.resize(places, count) * (size // units.SECTOR_BYTES)
    at = np.arange(count)
    flags = dict.fromkeys(("sync", "meta", "fua", "preflush", "readahead"), False)
    rows = pl.DataFrame(
        {"request_id": at, "sector": sectors, "queue_ns": at * 2, "complete_ns": at * 2 + 1}
    ).with_columns(
        dev=pl.lit(0, pl.UInt32),
        part_dev=pl.lit(0, pl.UInt32),
        nr_sectors=pl.lit(size // units.SECTOR_BYTES, pl.Int64),
        op=pl.lit("write", schema.enum("requests", "op")),
        nr_bios=pl.lit(1, pl.Int32),
        matched=pl.lit("full", schema.enum("requests", "matched")),
        **{name: pl.lit(value) for name, value in flags.items()},
    )
    made = whatif.log_structured(schema.complete(rows, "requests"), **_CONTROLLER)
    totals = whatif.predict(device_replay.program(made.requests.lazy()), model).totals.filter(metric="elapsed")
    value, low, high = totals.select("value", "lo", "hi").row(0)
    rate = {"value": count / value * 1e9, "lo": count / high * 1e9, "hi": count / low * 1e9}
    return pl.DataFrame({"metric": "iops", "test": test, "block_bytes": size, "unit": "1/s", "n": count} | rate)
