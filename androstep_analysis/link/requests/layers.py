"""Which devices of a trace are layers of each other, where no block_bio_remap says so.

Device-mapper hands every bio on to a device below at a constant distance (dm-linear, dm-crypt, dm-default-key). With
block_bio_remap recorded, the trace states that; recorders often leave the event out, and the same bytes seem to move
on two devices. The bios themselves show it:

- the device above gets bios and issues no request, as device-mapper has no request queue;
- its bios are found again on one device below, of the same operation, at one distance, before they complete.

A device that issues requests of its own is never taken for a layer, whatever the pattern. If a recording has no issues
at all, nothing tells a disk from a layer: devices of which bios match are reported, and counted apart.
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

_SHARE = 0.9
"""So much of what a device gets must be found again below."""

_LEAST_SHARE = 0.05
"""A distance at which less of it is found is chance."""

_MOST = 1 << 16
"""Bios of a device that are looked at, the first ones."""

_MOST_DEVICES = 64
"""Volumes of a storage server, of which there may be more, are no layers of a machine."""

_FIRST_BLOCK_DEVICE = 1 << 20
"""Major number 0 has no block devices: these are volumes that a table numbers."""

_PLACE = ["op", "sector"]


@dataclass(frozen=True)
class Layer:
    """Device `dev` hands bios on to `below`, `offset` sectors further on.

    `nr_sectors` is up to where its bios reach. If `is_certain` is False, the devices may as well be two disks.
    """

    dev: int
    below: int
    offset: int
    nr_sectors: int
    is_certain: bool


def inferred(block: pl.LazyFrame, steps: Collection[tuple[int, str]], remapped: Collection[int]) -> tuple[Layer, ...]:
    """Return the layers that table block_events shows, the lowest first.

    `steps` are device and action of all events, `remapped` the devices of which remaps tell where their bios go.
    """
    issuing = {dev for dev, step in steps if step == "issue"} or _completing_requests(block)
    moving = {dev for dev, step in steps if step in ("queue", "issue", "complete") and dev >= _FIRST_BLOCK_DEVICE}
    above = moving - issuing - set(remapped)
    if not above or not 2 <= len(moving) <= _MOST_DEVICES:
        return ()
    devices = {dev: _Bios.of(block, dev, {step for one, step in steps if one == dev}) for dev in moving}
    found = {dev: _below(devices[dev], [devices[one] for one in moving - {dev}]) for dev in above}
    return tuple(_from_the_lowest(found, issuing))


def _completing_requests(block: pl.LazyFrame) -> set[int]:
    """The devices that complete requests, where events have names that tell them from bios."""
    return set(
        block.filter(pl.col("event") == "block_rq_complete").select("dev").unique().collect()["dev"].drop_nulls()
    )


def _from_the_lowest(found: dict[int, list[Layer]], issuing: set[int]) -> Iterator[Layer]:
    """The layers, each after those below it. They are certain if requests are issued at the lowest device."""
    placed = set(issuing)
    while ready := [dev for dev in sorted(found) if found[dev] and {layer.below for layer in found[dev]} <= placed]:
        for dev in ready:
            yield from (replace(layer, is_certain=True) for layer in found.pop(dev))
            placed.add(dev)
    yield from (layer for layers in found.values() for layer in layers)


@dataclass(frozen=True)
class _Bios:
    """What a device gets, by the first event of it that was recorded: queueing, issue or completion of each."""

    dev: int
    step: str
    rows: pl.DataFrame
    """ts_ns, end_ns (completion, null if it was not recorded), op, sector, nr_sectors, tid (null for completions)."""

    @classmethod
    def of(cls, block: pl.LazyFrame, dev: int, steps: set[str]) -> _Bios:
        step = next(one for one in ("queue", "issue", "complete") if one in steps)
        moving = block.filter(pl.col("dev") == dev, pl.col("nr_sectors") > 0).drop_nulls("sector")
        columns = ("ts_ns", "rwbs", "sector", "nr_sectors", "tid")
        both = [moving.filter(pl.col("action") == one).select(columns).head(_MOST) for one in (step, "complete")]
        begun, ended = (_with_op(part) for part in pl.collect_all(both))
        ends = ended.select(*_PLACE, "ts_ns", end_ns="ts_ns")
        rows = begun.join_asof(ends, on="ts_ns", by=_PLACE, strategy="forward", check_sortedness=False)
        tid = pl.when(pl.lit(step != "complete")).then("tid")
        return cls(dev, step, rows.with_columns(tid).with_row_index("row"))


def _with_op(events: pl.DataFrame) -> pl.DataFrame:
    ops = {text: rwbs.meaning(text).op for text in events["rwbs"].drop_nulls().unique()}
    op = pl.col("rwbs").replace_strict(ops, default="other", return_dtype=pl.String)
    return events.select("ts_ns", "sector", "nr_sectors", "tid", op=op)


def _below(above: _Bios, others: Sequence[_Bios]) -> list[Layer]:
    """Where the bios of a device are found again: the distance that most of them have first, then what that leaves."""
    places = [
        (found["row"].n_unique(), -float(np.median(found["delay_ns"].to_numpy())), below.dev, offset, found)
        for below in others
        for offset in _distances(above, below)
        if (found := _found(above, below, offset)).height
    ]
    left, layers = above.rows, list[Layer]()
    for _, _, dev, offset, found in sorted(places, key=lambda place: place[:2], reverse=True):
        matched = left.filter(pl.col("row").is_in(found["row"].implode()))
        if matched.height >= max(1, _LEAST_SHARE * above.rows.height):
            end = int(matched.select((pl.col("sector") + pl.col("nr_sectors")).max()).item())
            layers.append(Layer(above.dev, dev, offset, end, is_certain=False))
            left = left.join(matched, on="row", how="anti")
    return layers if left.height <= (1 - _SHARE) * above.rows.height else []


def _follows(above: _Bios) -> Literal["forward", "backward"]:
    """Bios are queued below later, and completed there earlier."""
    return "backward" if above.step == "complete" else "forward"


def _distances(above: _Bios, below: _Bios) -> list[int]:
    """Distances at which bios are found again that have the same length, or are of the same thread."""
    rows = below.rows.select("ts_ns", "op", "nr_sectors", "tid", there="sector")
    keys = [["op", "nr_sectors"], *([["op", "tid"]] if above.step != "complete" else [])]
    next_there = [
        above.rows.drop_nulls(key).join_asof(
            rows.drop_nulls(key).select("ts_ns", *key, "there"),
            on="ts_ns", by=key, strategy=_follows(above), check_sortedness=False,
        ).select(offset=pl.col("there") - pl.col("sector"))
        for key in keys
    ]  # fmt: skip
    offsets = pl.concat(next_there).drop_nulls().group_by("offset").len().sort("len", "offset", descending=True)
    return [int(offset) for offset in offsets["offset"].head(8)]


def _found(above: _Bios, below: _Bios, offset: int) -> pl.DataFrame:
    """The rows of `above` that are found again at this distance, within their time: row, delay_ns."""
    rows = below.rows.select("op", "ts_ns", sector=pl.col("sector") - offset, there_ns="ts_ns")
    matched = above.rows.join_asof(rows, on="ts_ns", by=_PLACE, strategy=_follows(above), check_sortedness=False)
    is_within = (pl.col("there_ns") <= pl.col("end_ns")).fill_null(True)
    delay = (pl.col("there_ns") - pl.col("ts_ns")).abs()
    return matched.filter(pl.col("there_ns").is_not_null() & is_within).select("row", delay_ns=delay)


def losses(layers: Sequence[Layer]) -> tuple[Loss, ...]:
    """Say which devices are taken for layers of each other, and which may be; no row is missing for that."""
    name = units.format_dev
    sure, unsure = (
        sorted({f"{name(one.dev)} on {name(one.below)}" for one in layers if one.is_certain is is_certain})
        for is_certain in (True, False)
    )
    parts = []
    if sure:
        message = f"the requests show that devices are layers ({', '.join(sure)}), and no block_bio_remap was recorded"
        parts.append(Loss("layers", len(sure), message, ()))
    if unsure:
        message = f"devices may be layers of each other ({', '.join(unsure)}); then the same bytes are counted twice"
        parts.append(Loss("layers", len(unsure), f"{message}. Record block_bio_remap and block_rq_issue", ()))
    return tuple(parts)
