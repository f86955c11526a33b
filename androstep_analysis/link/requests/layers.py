"""Infer which devices of a trace are layers of each other if it has no block_bio_remap.

Device-mapper passes every bio on to a device below at a constant distance (dm-linear, dm-crypt, dm-default-key). The
event block_bio_remap states this, but recorders often leave it out. Then the same bytes seem to move on two devices.
The bios show it:

- The device above gets bios and issues no request, as device-mapper has no request queue.
- Its bios occur again on one device below, with the same operation and at one distance, before they complete.

A device that issues requests is never considered a layer. If a recording has no issues at all, a disk cannot be
distinguished from a layer: devices with matching bios are reported and counted separately.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from androstep_analysis.common import units
from androstep_analysis.common.errors import Loss
from androstep_analysis.link.requests import rwbs

_MIN_SHARE = 0.9
"""This share of the bios of a device must occur again below."""

_MIN_SHARE_OF_DISTANCE = 0.05
"""A distance at which a smaller share occurs again is a coincidence."""

_MAX_BIOS = 1 << 16
"""Number of bios of a device that are examined, the first ones."""

_MAX_DEVICES = 64
"""A trace with more devices is of a storage server, whose volumes are not layers of a machine."""

_FIRST_BLOCK_DEVICE = 1 << 20
"""Major number 0 has no block devices: smaller numbers are volumes that a reader numbers."""

_SECTOR_KEY = ["op", "sector"]


@dataclass(frozen=True)
class Layer:
    """Device `dev` passes bios on to `below`, `offset` sectors later.

    `nr_sectors` is the end of its last bio. If `is_certain` is False, the devices may also be two disks.
    """

    dev: int
    below: int
    offset: int
    nr_sectors: int
    is_certain: bool


def inferred(block: pl.LazyFrame, actions: Collection[tuple[int, str]], remapped: Collection[int]) -> tuple[Layer, ...]:
    """Return the layers that table block_events shows, the lowest first.

    `actions` are device and action of all events, `remapped` the devices whose remaps were recorded.
    """
    issuing = {dev for dev, action in actions if action == "issue"} or _completing_requests(block)
    moving = {dev for dev, action in actions if action in ("queue", "issue", "complete") and dev >= _FIRST_BLOCK_DEVICE}
    above = moving - issuing - set(remapped)
    if not above or not 2 <= len(moving) <= _MAX_DEVICES:
        return ()
    devices = {dev: _Bios.of(block, dev, {action for one, action in actions if one == dev}) for dev in moving}
    found = {dev: _below(devices[dev], [devices[one] for one in moving - {dev}]) for dev in above}
    return tuple(_from_the_lowest(found, issuing))


def _completing_requests(block: pl.LazyFrame) -> set[int]:
    """Return the devices that complete requests, where events of requests and of bios have different names."""
    return set(
        block.filter(pl.col("event") == "block_rq_complete").select("dev").unique().collect()["dev"].drop_nulls()
    )


def _from_the_lowest(found: dict[int, list[Layer]], issuing: set[int]) -> Iterator[Layer]:
    """Yield the layers, each after those below it. They are certain if requests are issued to the lowest device."""
    placed = set(issuing)
    while ready := [dev for dev in sorted(found) if found[dev] and {layer.below for layer in found[dev]} <= placed]:
        for dev in ready:
            yield from (replace(layer, is_certain=True) for layer in found.pop(dev))
            placed.add(dev)
    yield from (layer for layers in found.values() for layer in layers)


@dataclass(frozen=True)
class _Bios:
    """The bios of a device, by their first recorded action: queue, issue, or complete."""

    dev: int
    action: str
    rows: pl.DataFrame
    """ts_ns, end_ns (completion, null if it was not recorded), op, sector, nr_sectors, tid (null for completions)."""

    @classmethod
    def of(cls, block: pl.LazyFrame, dev: int, actions: set[str]) -> _Bios:
        first = next(action for action in ("queue", "issue", "complete") if action in actions)
        moving = block.filter(pl.col("dev") == dev, pl.col("nr_sectors") > 0).drop_nulls("sector")
        columns = ("ts_ns", "rwbs", "sector", "nr_sectors", "tid")
        both = [moving.filter(pl.col("action") == one).select(columns).head(_MAX_BIOS) for one in (first, "complete")]
        begun, ended = (_with_op(part) for part in pl.collect_all(both))
        ends = ended.select(*_SECTOR_KEY, "ts_ns", end_ns="ts_ns")
        rows = begun.join_asof(ends, on="ts_ns", by=_SECTOR_KEY, strategy="forward", check_sortedness=False)
        tid = pl.when(pl.lit(first != "complete")).then("tid")
        return cls(dev, first, rows.with_columns(tid).with_row_index("row"))


def _with_op(events: pl.DataFrame) -> pl.DataFrame:
    ops = {text: rwbs.meaning(text).op for text in events["rwbs"].drop_nulls().unique()}
    op = pl.col("rwbs").replace_strict(ops, default="other", return_dtype=pl.String)
    return events.select("ts_ns", "sector", "nr_sectors", "tid", op=op)


def _below(above: _Bios, others: Sequence[_Bios]) -> list[Layer]:
    """Return where the bios of a device occur again: at the distance of most of them, then the remaining ones."""
    candidates = [
        (found["row"].n_unique(), -float(np.median(found["delay_ns"].to_numpy())), below.dev, offset, found)
        for below in others
        for offset in _distances(above, below)
        if (found := _found(above, below, offset)).height
    ]
    left, layers = above.rows, list[Layer]()
    for _, _, dev, offset, found in sorted(candidates, key=lambda candidate: candidate[:2], reverse=True):
        matched = left.filter(pl.col("row").is_in(found["row"].implode()))
        if matched.height >= max(1, _MIN_SHARE_OF_DISTANCE * above.rows.height):
            end = int(matched.select((pl.col("sector") + pl.col("nr_sectors")).max()).item())
            layers.append(Layer(above.dev, dev, offset, end, is_certain=False))
            left = left.join(matched, on="row", how="anti")
    return layers if left.height <= (1 - _MIN_SHARE) * above.rows.height else []


def _follows(above: _Bios) -> Literal["forward", "backward"]:
    """Return the direction in time: bios are queued later below, and completed earlier there."""
    return "backward" if above.action == "complete" else "forward"


def _distances(above: _Bios, below: _Bios) -> list[int]:
    """Return the distances at which bios of the same length, or of the same thread, occur again."""
    rows = below.rows.select("ts_ns", "op", "nr_sectors", "tid", below="sector")
    keys = [["op", "nr_sectors"], *([["op", "tid"]] if above.action != "complete" else [])]
    next_below = [
        above.rows.drop_nulls(key).join_asof(
            rows.drop_nulls(key).select("ts_ns", *key, "below"),
            on="ts_ns", by=key, strategy=_follows(above), check_sortedness=False,
        ).select(offset=pl.col("below") - pl.col("sector"))
        for key in keys
    ]  # fmt: skip
    offsets = pl.concat(next_below).drop_nulls().group_by("offset").len().sort("len", "offset", descending=True)
    return [int(offset) for offset in offsets["offset"].head(8)]


def _found(above: _Bios, below: _Bios, offset: int) -> pl.DataFrame:
    """Return the rows of `above` that occur again at this distance, before they complete: row, delay_ns."""
    rows = below.rows.select("op", "ts_ns", sector=pl.col("sector") - offset, below_ns="ts_ns")
    matched = above.rows.join_asof(rows, on="ts_ns", by=_SECTOR_KEY, strategy=_follows(above), check_sortedness=False)
    is_within = (pl.col("below_ns") <= pl.col("end_ns")).fill_null(True)
    delay = (pl.col("below_ns") - pl.col("ts_ns")).abs()
    return matched.filter(pl.col("below_ns").is_not_null() & is_within).select("row", delay_ns=delay)


def losses(layers: Sequence[Layer]) -> tuple[Loss, ...]:
    """Return notes about the devices that are layers of each other, or may be. They concern no row of any table."""
    name = units.format_dev
    sure, unsure = (
        sorted({f"{name(one.dev)} on {name(one.below)}" for one in layers if one.is_certain is is_certain})
        for is_certain in (True, False)
    )
    parts = []
    if sure:
        message = f"block_bio_remap is missing; by the requests, {', '.join(sure)} are layers, whose bytes count once"
        parts.append(Loss("layers", len(sure), message, ()))
    if unsure:
        message = f"devices may be layers of each other ({', '.join(unsure)}); in that case their bytes count twice"
        parts.append(
            Loss("layers", len(unsure), f"{message}; record block_bio_remap and block_rq_issue to exclude this", ())
        )
    return tuple(parts)
