"""Find slowly when a device got another filesystem (link.evidence.remade)."""

from __future__ import annotations

from typing import Any

import polars as pl

ROOTS = {"ext4": 2, "f2fs": 3}


def times(fs_events: pl.DataFrame, requests: pl.DataFrame) -> dict[int, list[int]]:
    """Return the times by device. Events of a device are of one filesystem, and no two rows have equal times."""
    found: dict[int, set[int]] = {}
    for request in requests.rows(named=True):
        begin = request["part_sector"]
        if begin is None or not begin <= 2 < begin + request["nr_sectors"]:
            continue
        is_discard = request["op"] in ("discard", "secure_erase")
        is_write = request["op"] == "write" and request["meta"] is False
        if is_discard or (is_write and _is_by_another(request, fs_events)):
            found.setdefault(request["part_dev"], set()).add(request["queue_ns"])
    return {dev: sorted(of_device) for dev, of_device in found.items()}


def _is_by_another(request: dict[str, Any], fs_events: pl.DataFrame) -> bool:
    own = [
        row
        for row in fs_events.sort("ts_ns").rows(named=True)
        if row["dev"] == request["part_dev"] and row["event"].startswith(("ext4_", "f2fs_"))
    ]
    before = [row for row in own if row["ts_ns"] <= request["queue_ns"]]
    after = [row for row in own if row["ts_ns"] >= request["queue_ns"]]
    unmounting = None
    for row in before:
        if row["event"].endswith("_evict_inode") and row["ino"] == ROOTS[row["event"][:4]]:
            unmounting = row["tid"]
        elif row["tid"] != unmounting:
            unmounting = None
    mounting = after[0]["tid"] if after else None
    return unmounting is not None and request["submit_tid"] not in (None, unmounting, mounting)
