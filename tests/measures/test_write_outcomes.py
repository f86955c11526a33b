"""Outcomes of written bytes: the compiled pass compared with plain Python that remembers every byte."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import polars as pl
import pytest
from support.in_parts import read_in_parts
from support.needs import left_to_prove

from androstep_analysis import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.measures import write_outcomes

PAGE = 4096
FILE_BYTES = 3 * PAGE
KINDS = {
    "ext4_da_write_begin": 8,
    "ext4_invalidate_folio": 2,
    "mm_filemap_delete_from_page_cache": 2,
    "ext4_evict_inode": 1,
    "ext4_allocate_inode": 1,
}

Row = dict[str, Any]


def event(draw: random.Random, name: str) -> Row:
    row: Row = {
        "event": name,
        "dev": draw.choice([1, 2]),
        "ino": draw.randrange(2),
        "tid": draw.choice([1, 1, 2, None]),
    }
    row |= {"pid": row["tid"], "comm": None if row["tid"] is None else f"t{row['tid']}"}
    begin = draw.choice([0, PAGE, 2 * PAGE, draw.randrange(FILE_BYTES)])
    length = draw.choice([1, 100, 512, PAGE, FILE_BYTES])
    if name == "ext4_da_write_begin":
        row |= {"offset_bytes": begin, "nr_bytes": min(length, FILE_BYTES - begin)}
    elif name == "ext4_invalidate_folio":
        row |= {"page": begin // PAGE, "offset_bytes": begin % PAGE, "nr_bytes": min(length, FILE_BYTES - begin)}
    elif name == "mm_filemap_delete_from_page_cache":
        row |= {"page": draw.randrange(2), "page_order": draw.choice([None, 0, 1])}
    elif name == "ext4_evict_inode":
        row |= {"nlink": draw.choice([0, 0, 1])}
    return row


def recording(seed: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, Losses]:
    """Draw events, writebacks, writes of unknown files, and losses."""
    draw = random.Random(seed)
    names = [name for name, weight in KINDS.items() for _ in range(weight) if seed % 3 or name != "ext4_allocate_inode"]
    rows: list[Row] = []
    for _ in range(draw.randrange(60)):
        rows.append(event(draw, draw.choice(names)))
        if rows[-1]["event"] == "ext4_da_write_begin" and draw.random() < 0.3:  # it was cut short, and goes on
            cut = draw.randrange(rows[-1]["nr_bytes"])
            rows.append(rows[-1] | {name: rows[-1][name] + sign * cut for name, sign in
                                    (("offset_bytes", 1), ("nr_bytes", -1))})  # fmt: skip
    types = schema.table("fs_events").polars
    times = sorted(draw.randrange(1000) for _ in rows)
    events = [{name: row.get(name) for name in types} | {"ts_ns": at} for row, at in zip(rows, times, strict=True)]
    outs = []
    for _ in range(draw.randrange(30)):
        first = draw.randrange(FILE_BYTES // 512)
        last = draw.randrange(first, FILE_BYTES // 512) + 1
        place = {"dev": draw.choice([1, 2]), "ino": draw.randrange(2), "begin": first * 512, "end": last * 512}
        outs.append({"ts_ns": draw.randrange(1000)} | place)
    outs.sort(key=lambda out: out["ts_ns"])
    span = draw.choice([None, (None, 500), (300, 600), (None, None)])
    lost = [] if span is None else [Loss("dropped", 1, "some", ("fs_events",), spans=(span,))]
    want: Any = dict.fromkeys(("ts_ns", "ino", "begin", "end"), pl.Int64) | {"dev": pl.UInt32}
    count = draw.choice([0, 0, 1, 3])
    unplaced = [{"ts_ns": at, "dev": draw.choice([1, 2])} for at in sorted(draw.sample(range(1000), count))]
    kinds = {"ts_ns": pl.Int64, "dev": pl.UInt32}
    return pl.DataFrame(events, types), pl.DataFrame(outs, want), pl.DataFrame(unplaced, kinds), Losses(lost)


def by_oracle(
    events: pl.DataFrame, outs: pl.DataFrame, unplaced: pl.DataFrame, lost: Losses
) -> tuple[dict[Any, Counter[str]], list[int]]:
    """Return the outcomes by device, inode, incarnation and thread, and the repeated bytes of each writeback."""
    dirty: dict[Any, dict[int, Any]] = defaultdict(dict)  # of each file: byte -> who wrote it
    was_out: dict[Any, set[int]] = defaultdict(set)
    doubtful: set[Any] = set()  # bytes that were dirty when something unknown went out
    lives: Counter[Any] = Counter()
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    before: dict[Any, tuple[int, int]] = {}
    repeated = []

    def settle(file: Any, places: range, fate: str | None) -> None:
        for place in places:
            writer = dirty[file].pop(place, None)
            if writer is not None and fate is not None:
                may_be_out = (*file, place) in doubtful
                found[writer]["unknown" if may_be_out and fate != "out" else fate] += 1
            doubtful.discard((*file, place))

    def settle_all(file: Any, fate: str) -> None:
        settle(file, range(FILE_BYTES * 2), fate)

    rows = [(row["ts_ns"], 0, row) for row in events.iter_rows(named=True)]
    rows += [(row["ts_ns"], 1, row) for row in outs.iter_rows(named=True)]
    rows += [(row["ts_ns"], 2, row) for row in unplaced.iter_rows(named=True)]
    for begin, end in lost.spans("fs_events"):
        ends = [] if begin is None else [begin]
        rows += [(time, 3, {}) for time in [*ends, 1 << 62 if end is None else end]]
    for _, kind, row in sorted(rows, key=lambda one: one[:2]):
        if kind == 2:
            doubtful.update((*file, place) for file in dirty for place in dirty[file] if file[0] == row["dev"])
            continue
        if kind == 3:
            for file in dirty:
                settle_all(file, "unknown")
            continue
        file = row["dev"], row["ino"]
        if kind == 1:
            places = range(row["begin"], row["end"])
            repeated.append(len(was_out[file].intersection(places)))
            was_out[file].update(places)
            settle(file, places, "out")
        elif row["event"] == "ext4_da_write_begin":
            begin, end = row["offset_bytes"], row["offset_bytes"] + row["nr_bytes"]
            writer = *file, lives[file], row["tid"]
            last = before.get(writer, (0, 0))
            is_rest = last[0] < begin < last[1] and end == last[1]
            settle(file, range(begin, end), None if is_rest else "overwritten")
            dirty[file].update(dict.fromkeys(range(begin, end), writer))
            before[writer] = begin, end
            found[writer]["writes"] += not is_rest
        elif row["event"] == "ext4_evict_inode" and row["nlink"]:
            pass
        elif row["event"] in ("ext4_evict_inode", "ext4_allocate_inode"):
            settle_all(file, "dropped")
            was_out[file].clear()
            lives[file] += 1
        elif row["event"] == "ext4_invalidate_folio":
            begin = row["page"] * PAGE + row["offset_bytes"]
            settle(file, range(begin, begin + row["nr_bytes"]), "dropped")
        else:
            begin = row["page"] * PAGE
            settle(file, range(begin, begin + (PAGE << (row["page_order"] or 0))), "dropped")
    telling = set(events.filter(pl.col("event").is_in(list(KINDS)[1:3]))["dev"])
    for file in dirty:
        settle_all(file, "kept" if file[0] in telling else "unknown")
    return found, repeated


@pytest.mark.sanitized
@pytest.mark.parametrize("rows", left_to_prove([None, 1, 7], {1, 7}.__contains__))
def test_fates_are_those_of_the_oracle(rows: int | None) -> None:
    every: Counter[str] = Counter()
    for seed in range(40 if rows is None else 10):
        events, outs, unplaced, lost = recording(seed)
        with read_in_parts(rows):
            writers, repeated = write_outcomes.follow(events.lazy(), outs, unplaced, page_bytes=PAGE, lost=lost)
        found, was_out = by_oracle(events, outs, unplaced, lost)
        assert repeated.to_list() == was_out, seed
        names = ("writes", *write_outcomes.OUTCOMES)
        told = {row[:4]: dict(zip(names, row[4:], strict=True)) for row in
                writers.select("dev", "ino", "life", "tid", *names).iter_rows()}  # fmt: skip
        assert told == {key: {name: counts[name] for name in names} for key, counts in found.items()}, seed
        every.update({name: count for counts in told.values() for name, count in counts.items() if count})
    assert every.keys() == set(names)


def test_a_thread_with_the_number_of_one_that_ended_is_another_writer() -> None:
    """No event shows that the file is a new one either, so both write to the same."""
    writer = {"event": "ext4_da_write_begin", "dev": 1, "ino": 12, "tid": 7, "pid": 7, "offset_bytes": 0}
    rows = [{"ts_ns": at, "comm": comm, "nr_bytes": 100 * at, **writer} for at, comm in ((1, "first"), (2, "second"))]
    columns = schema.empty("fs_events").collect_schema()
    events = pl.DataFrame(rows, schema_overrides={name: columns[name] for name in rows[0]}).lazy()
    outs, unplaced = (part.clear() for part in recording(0)[1:3])
    full = pl.concat([schema.empty("fs_events").lazy(), events], how="diagonal")
    writers, _ = write_outcomes.follow(full, outs, unplaced, page_bytes=4096, lost=Losses())
    assert dict(writers.select("comm", pl.sum_horizontal(write_outcomes.OUTCOMES)).rows()) == {
        "first": 100,
        "second": 200,
    }


def test_hostile_places_are_left_out() -> None:
    types = schema.table("fs_events").polars
    huge = {"event": "ext4_da_write_begin", "dev": 1, "ino": 1, "tid": 1}
    places = [(-1, 1), (0, 1 << 40), ((1 << 62), 100), (5, -5), (None, 1)]
    rows = [dict.fromkeys(types) | huge | {"ts_ns": 0, "offset_bytes": at, "nr_bytes": n} for at, n in places]
    nothing = (part.clear() for part in recording(0)[1:3])
    assert write_outcomes.follow(pl.LazyFrame(rows, types), *nothing, page_bytes=PAGE, lost=Losses())[0].is_empty()
