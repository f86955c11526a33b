"""Ranking of a moment: rates and times by app, process, file, block type or device."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import polars as pl

from androstep_analysis.measures.tables import device_time, is_inferred, is_known
from androstep_analysis.present.live.live import Moment

KEYS: Final = {
    "app": ("owner_package",),
    "process": ("owner_comm", "owner_pid"),
    "file": ("path", "without_file"),
    "type": ("block_type",),
    "device": ("dev",),
}
"""Ranking keys and their columns of table `io`; without_file is the block type of blocks that belong to no file."""

SORTS: Final = {
    "bytes": "bytes_per_s",
    "read": "read_bytes_per_s",
    "write": "written_bytes_per_s",
    "requests": "requests_per_s",
    "sync": "sync_ratio",
    "latency": "d2c_p99_ns",
}
"""Sort orders and their columns of `ranking`."""

_QUANTILES: Final = {"d2c_p50_ns": 0.5, "d2c_p99_ns": 0.99}


def ranking(moment: Moment, by: str, sort: str = "bytes") -> pl.DataFrame:
    """Return the reads and writes of a moment by one of the keys.

    Parameters
    ----------
    moment : Moment
        A moment of `Live`.
    by : str
        One of `KEYS`.
    sort : str
        One of `SORTS`; the largest value comes first. Rows with an unknown key are sorted like the others.

    Returns
    -------
    polars.DataFrame
        The columns of `KEYS`, null if unknown; requests_per_s, read_bytes_per_s, written_bytes_per_s,
        bytes_per_s (Float64; a request counts in each row that has a part of it); sync_ratio (Float64, of bytes
        written; null if none), d2c_p50_ns and d2c_p99_ns (Int64, nearest rank of the time in the device; null
        if no issue is known); inferred (Float64, share of bytes whose key is only inferred).
    """
    keys, seconds = list(KEYS[by]), moment.seconds
    written, sync = pl.col("op") == "write", pl.col("sync")
    times = moment.requests.select("request_id", span=device_time(moment.requests))
    of_row = is_inferred([keys[0]], moment.io.columns)
    requests = (
        moment.io.filter(pl.col("op").is_in(["read", "write"]))
        .with_columns(
            without_file=pl.when(pl.col("path").is_null()).then("block_type"),
            inferred_bytes=pl.when(of_row).then("bytes").otherwise(0),
        )
        .group_by(*keys, "request_id", "op")
        .agg(pl.col("bytes", "inferred_bytes").sum(), pl.col("sync").first())
        .join(times, on="request_id", how="left")
    )
    span = pl.col("span").drop_nulls().sort()
    rank = {name: (span.len() * quantile).ceil().cast(pl.Int64) - 1 for name, quantile in _QUANTILES.items()}
    size = pl.col("bytes")
    groups = requests.group_by(keys).agg(
        requests_per_s=pl.len() / seconds,
        read_bytes_per_s=size.filter(~written).sum() / seconds,
        written_bytes_per_s=size.filter(written).sum() / seconds,
        bytes_per_s=size.sum() / seconds,
        inferred=pl.col("inferred_bytes").sum() / size.sum(),
        sync_ratio=size.filter(written & sync).sum() / size.filter(written & sync.is_not_null()).sum(),
        **{name: span.get(place, null_on_oob=True) for name, place in rank.items()},
    )
    groups = groups.with_columns(pl.col("sync_ratio", "inferred").fill_nan(None))
    return groups.sort(SORTS[sort], *keys, descending=[True] + [False] * len(keys), nulls_last=True)


def totals(moment: Moment) -> dict[str, float | None]:
    """Return the figures of `ranking` for the whole moment, and the share of its bytes whose owner is a fact."""
    whole = ranking(replace(moment, io=moment.io.with_columns(dev=pl.lit(0))), "device").drop("dev", "inferred")
    size = pl.col("bytes")
    is_owned = is_known(["owner_comm"], moment.io.columns)
    owned = moment.io.select(size.filter(is_owned).sum() / size.sum()).fill_nan(None).item()
    return {**(whole.row(0, named=True) if whole.height else dict.fromkeys(whole.columns)), "owned_ratio": owned}
