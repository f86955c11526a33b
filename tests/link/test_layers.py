"""Test stacked devices without block_bio_remap events, and separate disks that look like stacked devices."""

from __future__ import annotations

import random
from collections.abc import Iterable

import polars as pl
import pytest
from support import corpus, readers
from support.blocks import block_events

from androstep_analysis.link import requests

DISK, OTHER, MAPPER, UPPER, CRYPT = 8 << 20 | 32, 8 << 20, 254 << 20 | 4, 254 << 20 | 5, 254 << 20 | 6

Row = dict[str, object]


def event(ts: int, action: str, dev: int, sector: int, nr: int = 8, rwbs: str = "R", tid: int = 10) -> Row:
    name = {"queue": "block_bio_queue", "issue": "block_rq_issue", "complete": "block_rq_complete"}[action]
    if action == "complete" and dev >> 20 == 254:
        name = "block_bio_complete"
    return {"ts_ns": ts, "action": action, "event": name, "dev": dev, "sector": sector, "nr_sectors": nr, "rwbs": rwbs,
            "tid": tid, "pid": tid, "comm": f"t{tid}"}  # fmt: skip


def through(ts: int, path: list[tuple[int, int]], sector: int, nr: int = 8, rwbs: str = "R", tid: int = 10,
            later: int = 0, part: int = 0) -> list[Row]:  # fmt: skip
    """Return the events of one bio from the top of `path` (device, offset on the device above) to the disk at its end.

    With `later`, another thread passes it on after that time. The disk splits it into parts of `part` sectors.
    """
    rows, now = list[Row](), ts
    for dev, distance in path[:-1]:
        sector += distance
        rows.append(event(now, "queue", dev, sector, nr, rwbs, tid))
        now += 10
    disk, distance = path[-1]
    place, now, worker = sector + distance, now + later, 99 if later else tid
    parts = [(place + at, min(part or nr, nr - at)) for at in range(0, nr, part or nr)]
    for action in ("queue", "issue", "complete"):
        for start, count in parts:
            now += 10
            rows.append(event(now, action, disk, start, count, rwbs, worker))
    for dev, distance in reversed(path[:-1]):
        now += 10
        rows.append(event(now, "complete", dev, sector, nr, rwbs, worker))
        sector -= distance
    return rows


def link(rows: Iterable[Row]) -> requests.Requests:
    return requests.link(block_events(sorted(rows, key=lambda row: int(str(row["ts_ns"])))).lazy())


def many(path: list[tuple[int, int]], seed: int, count: int = 30, rwbs: str = "R", **how: int) -> list[Row]:
    chance = random.Random(seed)
    return [
        row
        for at in range(count)
        for row in through(1_000 * at + chance.randint(0, 500), path, 8 * chance.randint(0, 5_000),
                           8 * chance.randint(1, 8), rwbs, **how)
    ]  # fmt: skip


STACKS = {
    "one read": through(0, [(MAPPER, 0), (DISK, 5_000)], 100, 592, "RA"),
    "reads": many([(MAPPER, 0), (DISK, 5_000)], 1),
    "writes": many([(MAPPER, 0), (DISK, 5_000)], 2, rwbs="WS"),
    "at the same sectors": many([(MAPPER, 0), (DISK, 0)], 3),
    "two levels": many([(UPPER, 0), (MAPPER, 64), (DISK, 5_000)], 4),
    "over a partition far behind": many([(MAPPER, 0), (DISK, 50_000_000)], 5),
    "split": many([(MAPPER, 0), (DISK, 5_000)], 6, part=16),
    "encrypted, handed on late": many([(CRYPT, 0), (DISK, 4_096)], 7, rwbs="W", later=300),
    "two on one disk": many([(MAPPER, 0), (DISK, 5_000)], 8) + many([(UPPER, 0), (DISK, 500_000)], 9),
    "beside the disk's own": many([(MAPPER, 0), (DISK, 5_000)], 10) + many([(DISK, 900_000)], 11),
    "beside another disk": many([(MAPPER, 0), (DISK, 5_000)], 12) + many([(OTHER, 0)], 13),
}


@pytest.mark.parametrize("recorded", ["all", "no bios below", "completions", "no completions above"])
@pytest.mark.parametrize("name", STACKS)
def test_bytes_count_once_on_the_lowest_device(name: str, recorded: str) -> None:
    def is_recorded(row: Row) -> bool:
        is_above = int(str(row["dev"])) >> 20 == 254
        return {
            "all": True,
            "no bios below": is_above or row["action"] != "queue",
            "completions": row["action"] == "complete",
            "no completions above": not is_above or row["action"] != "complete",
        }[recorded]

    if recorded == "completions" and "split" in name:
        pytest.skip("the completion above follows the last part's")
    rows = list(filter(is_recorded, STACKS[name]))
    linked = link(rows)
    got = linked.requests.collect()
    want = sum(
        int(str(row["nr_sectors"])) for row in rows if int(str(row["dev"])) >> 20 == 8 and row["action"] == "complete"
    )
    assert got["nr_sectors"].sum() == want
    assert set(got["dev"]) <= {DISK, OTHER}
    assert linked.layers and all(layer.is_certain for layer in linked.layers)


@pytest.mark.parametrize("missing", [{"sector": 0, "nr_sectors": 0}, {"sector": None}], ids=["data", "location"])
def test_bios_without_data_or_location_hide_no_layer(missing: Row) -> None:
    """The disk's driver answers flushes itself, so those of the layer do not occur again below it."""
    flushes = [event(1_000 * at, "queue", MAPPER, 0, rwbs="FF") | missing for at in range(60)]
    linked = link(STACKS["reads"] + flushes)
    assert [(layer.dev, layer.below, layer.is_certain) for layer in linked.layers] == [(MAPPER, DISK, True)]


def test_a_request_names_the_topmost_device_and_who_queued_there() -> None:
    got = link(STACKS["two levels"]).requests.collect()
    assert got["part_dev"].unique().to_list() == [UPPER]
    assert (got["sector"] - got["part_sector"]).unique().to_list() == [5_064]
    got = link(STACKS["encrypted, handed on late"]).requests.collect()
    assert got["submit_tid"].unique().to_list() == [10], "and not the thread that encrypts"


DISKS = {
    "both issue": many([(DISK, 0)], 1) + many([(OTHER, 0)], 1),
    "both issue, at a distance": many([(DISK, 0)], 2) + many([(OTHER, 5_000)], 2),
    "a memory disk of other sectors": many([(DISK, 0)], 3)
    + [row | {"dev": MAPPER} for row in many([(DISK, 0)], 4) if row["action"] == "queue"],
}


@pytest.mark.parametrize("name", DISKS)
def test_independent_disks_stay_apart(name: str) -> None:
    linked = link(DISKS[name])
    assert linked.layers == ()
    devices = {row["dev"] for row in DISKS[name]}
    assert set(linked.requests.collect()["dev"]) == devices


def test_where_no_issue_tells_a_disk_from_a_layer_both_count_and_it_is_reported() -> None:
    rows = [row | {"event": "Q"} for row in STACKS["reads"] if row["action"] == "queue"]
    linked = link(rows)
    assert [(layer.dev, layer.below, layer.is_certain) for layer in linked.layers] == [(MAPPER, DISK, False)]
    assert set(linked.requests.collect()["dev"]) == {MAPPER, DISK}
    (loss,) = requests.layers.losses(linked.layers)
    assert "254:4 on 8:32" in loss.message and loss.tables == ()


@pytest.mark.parametrize("name", ["F8_dm_min", "F8b_dm_remap"])
@pytest.mark.filterwarnings("ignore::androstep_analysis.common.errors.LossWarning")
def test_a_field_recording_with_and_without_the_remap(name: str) -> None:
    got = requests.link(readers.read(corpus.path(f"field/{name}.txt")).block.lazy()).requests.collect()
    assert got.select(pl.col("nr_sectors").sum() * 512, "part_dev", "part_sector").rows() == [(303_104, MAPPER, 100)]
