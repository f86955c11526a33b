"""The same as androstep_analysis.whatif, in the plainest way: a log-structured layer, and a queue before a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.optimize import brentq

from androstep_analysis import whatif
from androstep_analysis.whatif.flash import Policy
from androstep_analysis.whatif.translation import PAGE_BYTES
from support.made import DEV

PAGE_SECTORS = 8


@dataclass
class Layer:
    """A log-structured layer of dictionaries; `done` gets what it does: row, kind, op, page, device sector, sectors.

    `cleaned` gets each segment that is cleaned.
    """

    pages: int
    segment_pages: int
    segments: int
    in_use: Sequence[int]
    policy: str = "greedy"
    done: list[tuple[int, str, str, int, int, int]] = field(default_factory=list)
    cleaned: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place = {page: page for page in self.in_use}
        filled = {page // self.segment_pages for page in self.in_use}
        self.free = [segment for segment in range(self.segments) if segment not in filled]
        self.head, self.next = self._take(self.segments - 1), 0
        self.filled: dict[int, int] = {}
        self.clock = 0

    def _take(self, behind: int) -> int:
        taken = min(self.free, key=lambda segment: (segment <= behind, segment))
        self.free.remove(taken)
        return taken

    def _held(self, segment: int) -> list[int]:
        held = [(place, page) for page, place in self.place.items() if place // self.segment_pages == segment]
        return [page for _, page in sorted(held)]

    def _put(self, row: int, kind: str, page: int) -> None:
        self.place[page] = self.head * self.segment_pages + self.next
        self.next += 1
        self.clock += 1
        self.filled[self.head] = self.clock
        self.done.append((row, kind, "write", page, self.place[page] * PAGE_SECTORS, PAGE_SECTORS))

    def _read(self, row: int, kind: str, page: int, first: int, sectors: int) -> None:
        if page in self.place:
            self.done.append((row, kind, "read", page, self.place[page] * PAGE_SECTORS + first, sectors))
        elif kind == "host":
            self.done.append((row, "unmapped", "read", page, page * PAGE_SECTORS + first, sectors))

    def _worth(self, segment: int) -> float:
        used = len(self._held(segment)) / self.segment_pages
        if used == 0:
            return math.inf
        age = self.clock - self.filled.get(segment, 0)
        return -used if self.policy == "greedy" else age * (1 - used) / (2 * used)

    def _clean(self, row: int) -> None:
        full = [segment for segment in range(self.segments) if segment != self.head and segment not in self.free]
        victim = max(full, key=lambda segment: (self._worth(segment), -segment))
        self.cleaned.append(victim)
        pages = self._held(victim)
        for page in pages:
            self._read(row, "cleaning", page, 0, PAGE_SECTORS)
        for page in pages:
            self._put(row, "cleaning", page)
        self.free = sorted([*self.free, victim])

    def request(self, row: int, op: str, sector: int, nr_sectors: int) -> None:
        """Do what the host asks."""
        end = sector + nr_sectors
        pages = range(sector // PAGE_SECTORS, (end - 1) // PAGE_SECTORS + 1)
        parts = {page: (max(sector, page * PAGE_SECTORS), min(end, (page + 1) * PAGE_SECTORS)) for page in pages}
        whole = {page for page, (first, last) in parts.items() if last - first == PAGE_SECTORS}
        if op == "discard":
            for page in whole:
                self.place.pop(page, None)
        elif op == "read":
            for page, (first, last) in parts.items():
                self._read(row, "host", page, first % PAGE_SECTORS, last - first)
        else:
            for page in pages:
                if page not in whole:
                    self._read(row, "partial", page, 0, PAGE_SECTORS)
            for page in pages:
                if self.next == self.segment_pages:
                    self.head, self.next = self._take(self.head), 0
                    if not self.free:
                        self._clean(row)
                self._put(row, "host", page)


@dataclass
class Operation:
    """One operation of a thread, and what it waits for."""

    thread: int
    due: int
    service: int
    limit: int
    after: tuple[int, ...] = ()


def queue(operations: Sequence[Operation]) -> list[tuple[int, int, int]]:
    """When each is asked for, begun and ended, nanosecond by nanosecond."""
    count = len(operations)
    ready: list[int | None] = [None] * count
    start: list[int | None] = [None] * count
    end: list[int | None] = [None] * count
    waits = [set(operation.after) for operation in operations]
    for number, operation in enumerate(operations):
        before = [other for other in range(number) if operations[other].thread == operation.thread]
        waits[number] |= set(before[-1:])
    line: list[int] = []
    now = 0
    while any(value is None or value > now for value in end):
        moved = True
        while moved:
            moved = False
            ended = {number for number in range(count) if (at := end[number]) is not None and at <= now}
            for number, operation in enumerate(operations):
                if ready[number] is None and waits[number] <= ended and operation.due <= now:
                    ready[number], moved = now, True
                    if operation.limit:
                        line.append(number)
                    else:
                        start[number], end[number] = now, now + operation.service
            served = [
                number
                for number in range(count)
                if start[number] is not None and number not in ended and operations[number].limit
            ]
            if line and len(served) < operations[line[0]].limit:
                first = line.pop(0)
                start[first], end[first], moved = now, now + operations[first].service, True
        now += 1
    return [(a or 0, b or 0, c or 0) for a, b, c in zip(ready, start, end, strict=True)]


def amplification(pages: np.ndarray, in_use: int, spare: float, block_pages: int, policy: Policy = "greedy") -> float:
    """Of single pages written in this order, in the second half, when what was there at first is forgotten."""
    half = len(pages) // 2
    io = pl.DataFrame(
        {
            "request_id": np.arange(len(pages)),
            **{
                "piece": 0,
                "dev": DEV,
                "op": "write",
                "nr_sectors": PAGE_SECTORS,
                "queue_ns": None,
                "complete_ns": None,
            },
            **{"sector": pages * PAGE_SECTORS, "issue_ns": np.arange(len(pages)), "owner_comm": None},
        }
    ).with_columns(pl.col("op").cast(pl.Enum(["read", "write", "discard", "secure_erase", "flush"])))
    whole, first = (
        whatif.flash(
            one,
            by=[],
            policy=policy,
            capacity_bytes=in_use * PAGE_BYTES,
            spare_ratio=spare,
            block_bytes=block_pages * PAGE_BYTES,
        )
        .costs.filter(metric="copied_bytes")["value"]
        .item()
        for one in (io, io.head(half))
    )
    return float(1 + (whole - first) / PAGE_BYTES / (len(pages) - half))


def physical(in_use: int, spare: float, block_pages: int) -> float:
    """Flash over data, without the block that is kept free and half of the one that is being filled."""
    blocks = in_use // block_pages
    return (blocks + math.ceil(blocks * spare) - 1.5) / blocks


def uniform(ratio: float, block_pages: int) -> float:
    """Greedy, uniform random writes, blocks of so many pages, blocks without number (mean field).

    Every block with i pages in use loses one at a rate of i, so as many blocks a time leave each number of pages for
    the next: there are 1 / i of them. Cleaned are blocks of v pages, and a part p of these loses one page more first.
    So ratio = b (H_b - H_v + p / v) / (b - v + p), H being harmonic numbers, and greedy is the v whose p is of 0 to 1
    (Van Houdt 2013, with d without limit; Bux and Iliadis 2010). Without limit of b this is Lambert's W.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, block_pages + 1))])
    for left in range(block_pages - 1, 0, -1):
        gone, free = harmonic[block_pages] - harmonic[left], block_pages - left
        # ratio (free + p) = b (gone + p / left)
        more = (block_pages * gone - ratio * free) / (ratio - block_pages / left)
        if 0 <= more <= 1:
            return float(block_pages / (free + more))
    raise ValueError(ratio)


def hot_and_cold(ratio: float, hot: float, share: float) -> float:
    """Blocks of pages without number; `hot` of the data get a `share` of the writes, and all go to one open block.

    After t writes a hot page is in use with probability exp(-share t / hot), a cold one likewise. A block takes (1 - v)
    new pages and v moved ones, and is cleaned when t = ratio (1 - v) (Desnoyers 2014, 5: what is cleaned first is what
    was written first, as with greedy where blocks are large).
    """

    def excess(left: float) -> float:
        age = ratio * (1 - left)
        parts = ((share, hot), (1 - share, 1 - hot))
        return sum(rate * (1 - left) / -math.expm1(-rate * age / size) for rate, size in parts) - 1

    return 1 / (1 - brentq(excess, 1e-6, 1 - 1e-6))


def hot_or_cold(in_use: int, hot: float, share: float, length: int) -> np.ndarray:
    """So many pages to write: a `share` of them to the first part, `hot`, of the data."""
    random = np.random.default_rng(2)
    nr_hot = int(in_use * hot)
    cold = random.integers(nr_hot, in_use, length)
    return np.where(random.random(length) < share, random.integers(0, nr_hot, length), cold)
