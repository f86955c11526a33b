"""Bytes that were read and never requested, compared with plain Python that keeps every page as a set of words."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from support.in_parts import read_in_parts
from support.needs import left_to_prove

from androstep_analysis import measures, schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.common.losses import Losses
from androstep_analysis.fs import tracepoints
from androstep_analysis.measures.readahead import EVENTS, PARTS

PAGE = 4096
PAGES = 6
HUGE = 9
STEP = 1_000_000
"""Time from a step to the next [ns]."""
UNLOCK = 10
"""For so many steps behind a request's completion its pages may not be handed over yet."""
ADD, GONE, READ, FAULT, MAP = (
    "mm_filemap_add_to_page_cache",
    "mm_filemap_delete_from_page_cache",
    *("mm_filemap_get_pages", "mm_filemap_fault", "mm_filemap_map_pages"),
)
CALL, WRITE, DIRTY, DIRECT = "filemap_read", "ext4_da_write_begin", "writeback_dirty_folio", "iomap_dio_rw_begin"
TOLD = (*EVENTS, READ)
Row = dict[str, Any]

KINDS = [ADD, ADD, GONE, READ, READ, FAULT, MAP, WRITE, DIRTY, DIRECT, CALL]


def event(draw: random.Random, name: str) -> Row:
    row: Row = {"event": name, "dev": 1, "ino": draw.choice([5, 5, 5, 6]), "tid": draw.choice([1, 1, 2])}
    page = draw.randrange(PAGES)
    if name in (WRITE, DIRECT):
        begin = page * PAGE + draw.choice([0, 100])
        return row | {"offset_bytes": begin, "nr_bytes": draw.choice([1, PAGE, 3 * PAGE])}
    if name == CALL:
        size = {"nr_bytes": draw.choice([1, PAGE, 1 << 31]), "last_page": draw.randrange(PAGES)}
        return row | {"offset_bytes": page * PAGE + draw.choice([0, 100])} | size
    if name in (ADD, GONE):
        row["page_order"] = draw.choice([None, 0, 0, 0, 1, 2, HUGE])
    elif name in (READ, MAP):
        row["last_page"] = draw.choice([page, PAGES - 1, draw.randrange(page, PAGES + 1)])
    return row | {"page": page}


def piece(draw: random.Random) -> Row:
    begin = draw.randrange(PAGES) * PAGE + draw.choice([0, 0, 0, 1024])
    row: Row = {
        "ino": draw.choice([5, 5, 5, 6]),
        "tid": draw.choice([1, 1, 2]),
        "took": draw.choice([0, 1, 5, 20, None]),
    }
    row |= {"file_offset_bytes": draw.choice([begin] * 9 + [None]), "path": draw.choice(["/a", "/a", None])}
    return row | {"bytes": draw.choice([1024, PAGE, PAGE, 2 * PAGE, 4 * PAGE])}


def recording(seed: int) -> tuple[list[Row], Any]:
    """Draw events and losses. Some recordings have no write calls, and use the dirty events instead."""
    draw = random.Random(seed)
    kinds = [name for name in KINDS if name != WRITE or seed % 2]
    steps = [piece(draw) if draw.random() < 0.3 else event(draw, draw.choice(kinds)) for _ in range(draw.randrange(80))]
    return steps, draw.choice([None, None, (None, 10), (20, 45), (None, None)])


def tables(rows: Iterable[Row]) -> dict[str, pl.DataFrame]:
    events: list[Row] = []
    io: list[Row] = []
    requests: list[Row] = []
    types = {name: schema.table(name).polars for name in ("fs_events", "io", "requests")}
    for at, row in enumerate(rows):
        if "event" in row:
            events.append(dict.fromkeys(types["fs_events"]) | row | {"ts_ns": at * STEP})
            continue
        done = None if row["took"] is None else (at + row["took"]) * STEP
        times = {"queue_ns": at * STEP, "issue_ns": at * STEP, "complete_ns": done}
        common = {"request_id": at, "dev": 1, "op": "read", **times}
        mine = {name: row[name] for name in ("ino", "file_offset_bytes", "bytes", "path")}
        io.append(dict.fromkeys(types["io"]) | common | mine | {"block_type": "data", "nr_sectors": 1,
                                                                "map_source": "fiemap"})  # fmt: skip
        requests.append(dict.fromkeys(types["requests"]) | common | {"part_dev": 1, "submit_tid": row["tid"]})
    found = {"fs_events": events, "io": io, "requests": requests}
    return {name: pl.DataFrame(found[name], types[name]) for name in found}


class Oracle:
    """The page cache as sets of words for each page, from the steps themselves."""

    def __init__(self, lost: list[int]) -> None:
        self.lost, self.losses = lost, 0
        self.words: dict[Any, set[str]] = defaultdict(set)  # of (inode, page)
        self.heard: dict[Any, int] = {}
        self.read: dict[Any, tuple[Any, int, float]] = {}  # of (inode, page): path, bytes, when it was done
        self.order: dict[Any, int] = {}
        self.begin: dict[Any, int] = {}  # of (inode, page): the first page of its folio
        self.calls: dict[int, tuple[int, int, int, int, int]] = {}  # of a thread: inode, first, limit, gap, ins
        self.asked_at: dict[int, float] = defaultdict(lambda: -math.inf)
        self.brought: dict[int, Any] = {}  # of a thread: the first page that it brought in since it last asked
        self.ins: Counter[int] = Counter()
        self.direct: dict[int, tuple[int, int, int, int]] = {}
        self.has_writes = False
        self.found: Counter[Any] = Counter()

    def hear(self, key: Any) -> None:
        if self.heard.get(key, self.losses) != self.losses and "asked" not in self.words[key]:
            self.words[key].add("doubt")
        self.heard[key] = self.losses

    def settle(self, key: Any, unasked: str) -> None:
        self.hear(key)
        words, (path, size, _) = self.words.pop(key), self.read.pop(key, (None, 0, 0))
        part = unasked
        if "doubt" in words:
            part = "unknown"
        elif "asked" in words:
            part = "asked"
        elif "perhaps" in words or self.order.get(key, 0) >= HUGE:
            part = "unknown"
        elif "mapped" in words:
            part = "mapped"
        self.found[path, part] += size
        for told in (self.heard, self.order, self.begin):
            told.pop(key, None)

    def mark(self, inode: int, pages: Iterable[int], word: str) -> list[int]:
        """Return the pages that are not in the cache."""
        missing = []
        for number in pages:
            if "in" in self.words.get((inode, number), ()):
                self.hear((inode, number))
                self.words[inode, number].add(word)
            else:
                missing.append(number)
        return missing

    def run(self, rows: list[Row]) -> Counter[Any]:
        self.has_writes = any(row.get("event") == WRITE for row in rows)
        for at, row in enumerate(rows):
            self.losses = sum(1 for time in self.lost if time < at)
            if "event" in row:
                self.take(at, row)
            else:
                self.take_read(at, row)
        self.losses = len(self.lost)
        for key in list(self.words):
            self.settle(key, "pending")
        return Counter({key: size for key, size in self.found.items() if size})

    def take(self, at: int, row: Row) -> None:
        inode, thread, name = row["ino"], row["tid"], row["event"]
        if name in (WRITE, DIRECT, CALL):
            begin, end = row["offset_bytes"], row["offset_bytes"] + row["nr_bytes"]
        if name == DIRECT:
            self.direct[thread] = inode, begin, end, self.losses
        elif name == WRITE:
            self.want(inode, range(begin // PAGE, (end - 1) // PAGE + 1))
        elif name == CALL:
            self.want(inode, range(begin // PAGE, min((end - 1) // PAGE, row["last_page"]) + 1))
        elif name == FAULT:
            self.want(inode, [row["page"]])
        elif name == MAP:
            self.mark(inode, range(row["page"], row["last_page"] + 1), "mapped")
        elif name == DIRTY:
            order = self.order.get((inode, row["page"]), 0)
            if not self.has_writes and "in" in self.words.get((inode, row["page"]), ()):
                pages = range(row["page"], row["page"] + (1 << order))
                self.mark(inode, pages, "perhaps" if order else "asked")
        elif name == READ:
            self.ask(at, thread, inode, row["page"], row["last_page"] + 1)
        else:
            for number in range(row["page"], row["page"] + (1 << (row["page_order"] or 0))):
                if name == ADD:
                    self.come(inode, number, row["page"], row["page_order"] or 0)
                elif (inode, number) in self.words:
                    self.settle((inode, number), "dropped")
            if name == ADD:
                self.brought.setdefault(thread, (inode, row["page"]))
                self.direct.pop(thread, None)
                self.ins[inode] += 1

    def come(self, inode: int, number: int, begin: int, order: int) -> None:
        key = inode, number
        words = self.words.get(key, set())
        is_wanted = words == {"asked"} and self.heard[key] == self.losses
        if "in" in words:
            self.settle(key, "unknown")
        self.words[key] = {"in", "asked"} if is_wanted else {"in"}
        self.heard[key], self.order[key], self.begin[key] = self.losses, order, begin

    def want(self, inode: int, pages: Iterable[int]) -> None:
        for number in pages:
            self.hear((inode, number))
            self.words[inode, number].add("asked")

    def ask(self, at: int, thread: int, inode: int, first: int, limit: int) -> None:
        begin = first
        known, before, end, gap, ins = self.calls.get(thread, (None, 0, 0, 0, 0))
        goes_on = (known, end) == (inode, limit) and first > before
        if not goes_on:
            self.ask_before(thread, inode, first)
        elif gap < first:
            begin = gap
        if not goes_on or ins != self.ins[inode]:
            gap = min(self.mark(inode, range(begin, limit), "asked"), default=limit)
        self.calls[thread] = inode, first, limit, gap, self.ins[inode]
        self.asked_at[thread] = at
        self.brought.pop(thread, None)

    def ask_before(self, thread: int, inode: int, first: int) -> None:
        begin = self.begin.get((inode, first), first)
        folio = [(inode, begin + at) for at in range(1 << self.order.get((inode, first), 0))]
        done = max(
            (self.read[key][2] for key in folio if key in self.read and self.begin[key] == begin), default=-math.inf
        )
        if done + UNLOCK <= self.asked_at[thread] or self.brought.get(thread) == (inode, begin):
            return
        for number in range(first - 1, -1, -1):
            words = self.words.get((inode, number), set())
            if "in" not in words or words & {"asked", "perhaps"}:
                return
            self.mark(inode, [number], "perhaps")

    def take_read(self, at: int, row: Row) -> None:
        begin, size, path = row["file_offset_bytes"], row["bytes"], row["path"]
        if begin is None:
            self.found[path, "unknown"] += size
            return
        end, done = begin + size, math.inf if row["took"] is None else at + row["took"]
        inode, from_, to, losses = self.direct.get(row["tid"], (0, 0, 0, 0))
        if (inode, losses) == (row["ino"], self.losses) and from_ <= begin and end <= to:
            self.found[path, "direct"] += size
            return
        for number in range(begin // PAGE, (end - 1) // PAGE + 1):
            part = min(end, (number + 1) * PAGE) - max(begin, number * PAGE)
            key = row["ino"], number
            whose, before, last = self.read.get(key, (path, 0, 0.0))
            if "in" in self.words.get(key, ()) and before + part <= PAGE and whose == path:
                self.hear(key)
                self.read[key] = path, before + part, max(last, done)
            else:
                self.found[path, "unknown"] += part


@pytest.mark.sanitized
@pytest.mark.parametrize("rows", left_to_prove([None, 7], {7}.__contains__))
def test_parts_are_those_of_the_oracle(rows: int | None) -> None:
    every: set[str] = set()
    for seed in range(200 if rows is None else 50):
        done, span = recording(seed)
        lost = [] if span is None else [tuple(None if time is None else time * STEP for time in span)]
        losses = Losses([Loss("dropped", 1, "some", ("fs_events",), spans=(one,)) for one in lost])
        with read_in_parts(rows):
            found = measures.readahead(tables(done), by=("path",), page_bytes=PAGE, recorded=TOLD, lost=losses)
        told = found.filter(metric="bytes").select("path", pl.col("part").cast(pl.String), "value").rows()
        times = [] if span is None else [time for time in (span[0], 1 << 62 if span[1] is None else span[1]) if time]
        assert {row[:2]: row[2] for row in told} == Oracle(times).run(done), seed
        assert sum(row[2] for row in told) == sum(row["bytes"] for row in done if "bytes" in row), seed
        every |= {row[1] for row in told}
    assert every == set(PARTS)


def read_ahead(*asked: Row) -> list[Row]:
    """Four pages enter the cache, and events show which are requested."""
    place = {"dev": 1, "ino": 5, "tid": 1}
    came = [{"event": ADD, "page": at, "page_order": 0, **place} for at in range(4)]
    read = {"ino": 5, "tid": 1, "file_offset_bytes": 0, "bytes": 4 * PAGE, "path": "/a", "took": 1}
    return [*came, read, *({**place, **one} for one in asked)]


def parts(done: list[Row], **how: Any) -> dict[str, float]:
    choices: dict[str, Any] = {"page_bytes": PAGE, "recorded": TOLD} | how
    table = measures.readahead(tables(done), **choices)
    return dict(table.filter(metric="bytes").select("part", pl.col("value") / PAGE).rows())


def test_each_part() -> None:
    read, fault = {"event": READ, "page": 0, "last_page": 0}, {"event": FAULT, "page": 1}
    mapped = {"event": MAP, "page": 1, "last_page": 2}
    gone = {"event": GONE, "page": 3, "page_order": 0}
    assert parts(read_ahead(read, fault, mapped, gone)) == {"asked": 2, "mapped": 1, "dropped": 1}
    assert parts(read_ahead(read)) == {"asked": 1, "pending": 3}


def test_nothing_is_told_without_all_events() -> None:
    done = read_ahead({"event": READ, "page": 0, "last_page": 3})
    for one in TOLD:
        rest = [row for row in done if row.get("event") != one]
        assert parts(rest, recorded=[name for name in TOLD if name != one]) == {"unknown": 4}
    assert parts(done[:-1], recorded=[*EVENTS, CALL]) == {"pending": 4}
    assert parts(done, page_bytes=None) == {"unknown": 4}
    assert parts([]) == {}


def test_offsets_of_text_are_pages() -> None:
    """The kernel prints bytes; how many a page has must be known."""
    place = {"dev": 1, "ino": 5, "tid": 1}
    come = [{"event": ADD, "offset_bytes": at * PAGE, "page_order": 0, **place} for at in range(4)]
    read = read_ahead()[4]
    ask = {"event": READ, "offset_bytes": 0, "nr_bytes": 2 * PAGE, **place}
    assert parts([*come, read, ask, {"event": FAULT, "offset_bytes": 2 * PAGE, **place}]) == {"asked": 3, "pending": 1}


@pytest.mark.sanitized
def test_a_call_without_end_takes_no_longer() -> None:
    """A hostile event of 2^47 pages ends where pages are known."""
    assert parts(read_ahead({"event": READ, "page": 0, "last_page": (1 << 47) - 1})) == {"asked": 4}
    assert parts(read_ahead({"event": READ, "page": -1, "last_page": 3})) == {"pending": 4}
    whole = {"event": CALL, "offset_bytes": PAGE, "nr_bytes": (1 << 31) - PAGE, "last_page": 1 << 50}
    assert parts(read_ahead(whole)) == {"asked": 3, "pending": 1}
    huge = {"event": WRITE, "offset_bytes": 0, "nr_bytes": 1 << 60}
    assert parts(read_ahead(huge)) == {"pending": 4}


def test_the_events_have_their_names() -> None:
    assert (tracepoints.CACHED, tracepoints.UNCACHED, *tracepoints.ASKED) == (ADD, GONE, CALL, READ, FAULT, MAP)
    assert set(PARTS) == {"asked", "mapped", "dropped", "pending", "direct", "unknown"}
