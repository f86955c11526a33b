"""Export to fio's iolog, for replay with fio (fio(1), "trace file format"; iolog.c).

fio 1.17 and later read version 2. Its `wait` is the time since fio started, in milliseconds: `read_iolog_get` compares
it with `mtime_since_genesis`, although the manual says microseconds since the last wait.

Version 3 came with fio 3.31. Each line has its time in microseconds, and fio waits for the difference between two
lines. It does not wait before the second line if the first has time 0, so times start at 1 here.
"""

from __future__ import annotations

from typing import BinaryIO

import polars as pl

from androstep_analysis import measures
from androstep_analysis.capture import Capture
from androstep_analysis.common import units
from androstep_analysis.datasets.export.batches import batches, major, minor, write_lines

ACTIONS = {"read": "read", "write": "write", "discard": "trim", "secure_erase": "trim", "flush": "sync"}
"""fio's action of each operation. Other operations are omitted."""

MAX_BYTES = 1 << 30
"""Longer requests are split into lines of this length, because fio parses lengths as 32 bits."""


def write_v2(capture: Capture, file: BinaryIO) -> None:
    """Write the requests in order of issue, with waits of a millisecond or more between them."""
    _write(capture, file, 2)


def write_v3(capture: Capture, file: BinaryIO) -> None:
    """Write the requests in order of issue, each with its time in microseconds."""
    _write(capture, file, 3)


def _write(capture: Capture, file: BinaryIO, version: int) -> None:
    requests = _replayable(measures.counted(capture.requests))
    first_ns = requests.select(pl.col("time_ns").min()).collect().item()
    files = [
        f"/replay_redirect/{units.format_dev(dev)}"
        for dev in requests.select(pl.col("dev").unique().sort()).collect().to_series()
    ]
    at, end = ("", "") if version == 2 else ("0 ", "0 ")
    file.write(f"fio version {version} iolog\n".encode())
    file.write("".join(f"{at}{name} {action}\n" for name in files for action in ("add", "open")).encode())
    waited_ms, latest_ns = 0, first_ns
    for batch in batches(requests):
        # Keep the table's order. fio does not wait for a time that goes back.
        times = pl.max_horizontal(pl.col("time_ns").cum_max(), pl.lit(latest_ns)) - first_ns
        rows = _cut(batch.with_columns(since_ns=times))
        lines = _lines_v2(rows, waited_ms) if version == 2 else _lines_v3(rows)
        write_lines(lines, file)
        latest_ns = first_ns + int(rows["since_ns"][-1])
        waited_ms = (latest_ns - first_ns) // 1_000_000
        end = "" if version == 2 else f"{(latest_ns - first_ns) // 1000 + 1} "
    file.write("".join(f"{end}{name} close\n" for name in files).encode())


def _replayable(requests: pl.LazyFrame) -> pl.LazyFrame:
    """Return columns dev, action, offset, bytes (Int64), time_ns of the requests that have an action in fio."""
    op = pl.col("op").cast(pl.String)
    is_placed = pl.col("sector").is_not_null() & (pl.col("nr_sectors") > 0)
    return requests.filter(op.is_in(list(ACTIONS)) & (is_placed | (op == "flush"))).select(
        "dev",
        action=op.replace_strict(ACTIONS, default=None, return_dtype=pl.String),
        offset=pl.when(op == "flush").then(0).otherwise(pl.col("sector") * units.SECTOR_BYTES),
        bytes=pl.when(op == "flush").then(0).otherwise(pl.col("nr_sectors") * units.SECTOR_BYTES),
        time_ns=measures.order_ns(),
    )


def _cut(rows: pl.DataFrame) -> pl.DataFrame:
    """Split rows longer than `MAX_BYTES`."""
    parts = pl.int_ranges(0, pl.max_horizontal(1, (pl.col("bytes") + MAX_BYTES - 1) // MAX_BYTES))
    each = rows.with_columns(part=parts).explode("part")
    start = pl.col("part") * MAX_BYTES
    return each.with_columns(
        offset=pl.col("offset") + start, bytes=pl.min_horizontal(pl.col("bytes") - start, MAX_BYTES)
    )


def _name() -> pl.Expr:
    """Return the device's name in the log. No such file exists, so that a replay cannot write to a disk by mistake."""
    return pl.format("/replay_redirect/{}:{}", major(pl.col("dev")), minor(pl.col("dev")))


def _action() -> pl.Expr:
    return pl.format("{} {} {} {}", _name(), "action", "offset", "bytes")


def _lines_v2(rows: pl.DataFrame, waited_ms: int) -> pl.Series:
    ms = pl.col("since_ns") // 1_000_000
    waits = ms > ms.shift(1, fill_value=waited_ms)
    wait = pl.when(waits).then(pl.format("{} wait {} 0\n", _name(), ms)).otherwise(pl.lit(""))
    return rows.select(wait + _action()).to_series()


def _lines_v3(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.format("{} {}", pl.col("since_ns") // 1000 + 1, _action())).to_series()
