"""Compare owners from the compiled pass with the same rules as window functions, on random events."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles import owner_rules as oracle

from androstep_analysis import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.link.owner import dirty_intervals, processes, rules
from androstep_analysis.link.owner.coverage import Coverage

pytestmark = pytest.mark.sanitized

DEVICES = (1, 2)
PAGE = 4096
SHOWN = (
    "at",
    "file_block",
    "via",
    "count",
    "tid",
    "pid",
    "comm",
    "ts_ns",
    "is_write_recorded",
    "is_complete",
    "is_within_write",
    "has_several_dirtiers",
    "is_clean",
    "file_dirtiers",
    "was_redirtied",
    "is_redirtied",
)
KINDS = {
    "ext4_da_write_begin": 5,
    "page_mkwrite": 2,
    "f2fs_vm_page_mkwrite": 1,
    "writeback_dirty_folio": 5,
    "mm_filemap_add_to_page_cache": 3,
    "mm_filemap_delete_from_page_cache": 1,
    "ext4_invalidate_folio": 1,
    "ext4_evict_inode": 1,
}


class Recording(NamedTuple):
    """Events of pages, the writebacks among them (of one or several blocks), and further facts."""

    fs_events: pl.DataFrame
    outs: pl.DataFrame
    bios: pl.DataFrame
    unplaced: pl.DataFrame
    sizes: dict[int, int]
    coverage: Coverage
    lost: Losses


def some(draw: random.Random) -> list[int]:
    return [dev for dev in DEVICES if draw.random() < 0.6]


def thread(draw: random.Random) -> dict[str, Any]:
    """Draw a process with several threads, a thread of an unknown process, a kernel thread, or an unknown thread."""
    if draw.random() < 0.03:
        return {"tid": None, "pid": None, "comm": None}
    tid = draw.choice([1, 2, 3, 4, 9])
    name = "kworker/u4:1" if tid == 9 else f"t{tid}"
    return {"tid": tid, "pid": {1: 1, 2: 1, 3: 3}.get(tid), "comm": None if draw.random() < 0.1 else name}


def event(draw: random.Random, names: list[str]) -> dict[str, Any]:
    """Draw an event of one of a few pages, or of a write to some or all bytes of it."""
    name, page = draw.choice(names), draw.randrange(3)
    row = {"event": name, "dev": draw.choice(DEVICES), "ino": draw.randrange(2), **thread(draw)}
    if name == "ext4_da_write_begin":
        begin = draw.randrange(6) * PAGE // 2
        row |= {"offset_bytes": begin, "nr_bytes": draw.choice([100, PAGE // 2, PAGE, 3 * PAGE - begin, 3 * PAGE])}
    elif name == "ext4_invalidate_folio":
        row |= {"page": page, "offset_bytes": draw.choice([0, PAGE // 2]), "nr_bytes": draw.choice([PAGE // 2, PAGE])}
    elif name != "ext4_evict_inode":
        row |= {"page": page, "page_order": draw.choice([None, 0, 0, 1]) if name.startswith("mm_") else None}
    if name == "page_mkwrite" and draw.random() < 0.6:
        row["offset_bytes"] = draw.randrange(1 << 16)
    return row


def write(draw: random.Random, begin: int, nr_bytes: int, then: list[str]) -> list[dict[str, Any]]:
    """Draw a write as the kernel reports it: the page is added, it becomes dirty, and a long write continues."""
    by = {"dev": 1, "ino": draw.randrange(2), **thread(draw)}
    rows: list[dict[str, Any]] = []
    for at in range(begin, begin + nr_bytes, PAGE):
        rows.append({"event": "ext4_da_write_begin", **by, "offset_bytes": at, "nr_bytes": begin + nr_bytes - at})
        page = {**by, "page": at // PAGE, "page_order": 0}
        rows += [{"event": name, **page} for name in then if draw.random() < 0.8]
    return rows


def recording(seed: int) -> Recording:
    """Draw events of a few blocks, many of them at the same time."""
    draw = random.Random(seed)
    most_ns = draw.choice([10, 10_000])
    names = draw.sample(list(KINDS), draw.randrange(2, len(KINDS) + 1), counts=None)
    weighted = [name for name in names for _ in range(KINDS[name])]
    rows: list[dict[str, Any]] = []
    for _ in range(draw.randrange(150)):
        if draw.random() < 0.3:
            then = ["mm_filemap_add_to_page_cache", "writeback_dirty_folio"]
            rows += write(draw, draw.randrange(2) * PAGE, draw.choice([PAGE, 2 * PAGE]), then)
        rows.append(event(draw, weighted))
    times = sorted(draw.randrange(most_ns) for _ in rows)
    types = schema.table("fs_events").polars
    events = [{name: row.get(name) for name in types} | {"ts_ns": at} for row, at in zip(rows, times, strict=True)]
    outs, bios = written(draw, most_ns)
    unplaced = pl.DataFrame(
        [{"dev": draw.choice(DEVICES), "ts_ns": draw.randrange(most_ns)} for _ in range(draw.randrange(5))],
        {"dev": pl.UInt32, "ts_ns": pl.Int64},
    ).sort("ts_ns")
    lost = [Loss("dropped", 1, "some", ("fs_events",), spans=((None, most_ns // 2),))] if draw.random() < 0.2 else ()
    sizes = {1: PAGE, **draw.choice([{2: PAGE}, {2: PAGE // 4}, {}])}
    if 2 not in sizes:  # sectors, as on FAT; one page is enough
        outs = outs.filter((pl.col("dev") == 1) | (pl.col("begin") == 0))
    return Recording(
        pl.DataFrame(events, types),
        outs,
        bios,
        unplaced,
        sizes,
        Coverage(*(some(draw) for _ in Coverage._fields)),
        Losses(lost),
    )


def written(draw: random.Random, most_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the writebacks, and the information about their bios."""
    outs: list[dict[str, Any]] = []
    bios: list[dict[str, Any]] = []
    for at in range(draw.randrange(60)):
        by, page = thread(draw), draw.randrange(3)
        tid, pid = (None, None) if draw.random() < 0.1 else (by["tid"], by["pid"])
        end = draw.choice([page + 1, 3]) * PAGE
        out = {"ts_ns": draw.randrange(most_ns), "piece": at, "dev": draw.choice(DEVICES), "ino": draw.randrange(2)}
        outs.append({**out, "begin": page * PAGE, "end": end, "tid": tid, "is_read": False})
        bios.append({
            "at": at, "dev": out["dev"], "ts_ns": out["ts_ns"], "submit_tid": tid, "submit_pid": pid,
            "is_by_process": draw.random() < 0.5, "is_pageless": draw.random() < 0.2,
            "is_direct": draw.choice([None, None, True, False]), "is_modified_later": draw.random() < 0.1,
        })  # fmt: skip
    flags = dict.fromkeys(("is_by_process", "is_pageless", "is_direct", "is_modified_later"), pl.Boolean)
    types = {"at": pl.Int64, "dev": pl.UInt32, "ts_ns": pl.Int64, "submit_tid": pl.Int32, "submit_pid": pl.Int32}
    table = pl.DataFrame(outs, schema.table("writebacks").polars).sort("ts_ns", maintain_order=True)
    return table, pl.DataFrame(bios, types | flags)


def decided(given: Recording, draw: random.Random) -> pl.DataFrame:
    """Return the results of the compiled pass, which gets the events in batches of any size."""
    flags = {
        dirty_intervals.RECORDS_DIRTY: given.coverage.dirtying,
        dirty_intervals.HAS_LARGE_FOLIOS: given.coverage.large_folios,
        dirty_intervals.DIRTIES_BEFORE_STORE: given.coverage.redirties,
    }
    devices = {
        dev: (given.sizes.get(dev, 512), sum(flag for flag, of in flags.items() if dev in of)) for dev in DEVICES
    }
    intervals = dirty_intervals.DirtyIntervals(devices, PAGE, processes.Processes(schema.empty("tasks")))
    events = intervals.page_events(given.fs_events.lazy()).collect()
    writebacks, parts = given.outs, []
    while events.height:
        length = draw.choice([1, 2, 7, 100])
        part, events = events[:length], events[length:]
        end = int(writebacks["ts_ns"].search_sorted(part["ts_ns"][-1], "left"))
        parts.append(intervals.process(part, writebacks[:end]))
        writebacks = writebacks[end:]
    parts += [intervals.process(events, writebacks), intervals.finish()]
    table = pl.concat(parts).rename({"piece": "at"}).sort("at", "file_block")
    return table.join(given.bios, on="at", how="left", maintain_order="left")


def by_oracle(given: Recording) -> pl.DataFrame:
    lived = oracle.lifetimes(given.fs_events)
    touched = oracle.touched(lived, given.sizes, given.coverage, PAGE)
    threads = processes.Processes(schema.empty("tasks")).of_threads(
        touched.select("ts_ns", "tid", "pid", "comm").unique(["tid", "pid", "comm"], keep="first")
    )
    created = lived.filter(pl.col("begins")).select("ts_ns", "dev", "ino", "life")
    rows = given.outs.join_asof(created, on="ts_ns", by=["dev", "ino"], check_sortedness=False)
    rows = rows.with_columns(pl.col("life").fill_null(0)).rename({"piece": "at"})
    rows = rows.join(given.bios.drop("dev", "ts_ns"), on="at", how="left", maintain_order="left")
    blocks = oracle.each_block(rows, given.sizes)
    return oracle.name_modifiers(blocks, touched, given.unplaced, given.coverage, threads, given.lost)


@pytest.mark.prove
@settings(max_examples=150)
@given(st.integers(0, 1 << 32))
def test_dirty_intervals_are_those_of_the_oracle(seed: int) -> None:
    made = recording(seed)
    found = rules.name_modifiers(decided(made, random.Random(seed)), made.unplaced, made.coverage, made.lost)
    expected = by_oracle(made)
    shown = found.select(SHOWN)
    assert shown.equals(expected.select(SHOWN).cast(shown.schema))
    modifiers = pl.DataFrame({"number": found["modifiers"], "text": expected["modifiers"]}).unique()
    assert modifiers["number"].n_unique() == modifiers["text"].n_unique() == modifiers.height
