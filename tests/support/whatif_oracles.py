"""Plain versions of androstep_analysis.whatif: translation layers, and a queue in front of a device."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.optimize import brentq

from androstep_analysis import whatif
from androstep_analysis.whatif.flash import Mapping, Policy
from androstep_analysis.whatif.translation import PAGE_BYTES
from support.made import DEV

PAGE_SECTORS = 8


@dataclass
class Layer:
    """A log-structured layer of dictionaries.

    `done` gets its actions: row, kind, op, page, device sector, sectors. `cleaned` gets each segment that is cleaned.
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
        """Execute a request of the host."""
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
    """An operation of a thread, and the operations that it waits for."""

    thread: int
    due: int
    service: int
    limit: int
    after: tuple[int, ...] = ()


def queue(operations: Sequence[Operation]) -> list[tuple[int, int, int]]:
    """Return when each operation is ready, begun and ended, simulated nanosecond by nanosecond."""
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


def amplification(
    pages: np.ndarray,
    in_use: int,
    spare: float,
    block_pages: int,
    policy: Policy = "greedy",
    mapping: Mapping = "page",
) -> float:
    """Return the write amplification of single-page writes in this order, in the second half (steady state)."""
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
            mapping=mapping,
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
    """Return flash over data, without the block that is kept free and half of the one that is being filled."""
    blocks = in_use // block_pages
    return (blocks + math.ceil(blocks * spare) - 1.5) / blocks


def uniform(ratio: float, block_pages: int) -> float:
    """Return the write amplification of greedy cleaning and uniform random writes.

    This is the mean field for infinitely many blocks. Every block with i pages in use loses one at a rate of i, so
    equally many blocks per time leave each number of pages for the next: there are 1 / i of them. Cleaned blocks have v
    pages, and a share p of these loses one page more first. So ratio = b (H_b - H_v + p / v) / (b - v + p), with
    harmonic numbers H, and greedy is the v whose p is between 0 and 1 (Van Houdt 2013, with d unlimited; Bux and
    Iliadis 2010). For unlimited b this is Lambert's W.
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
    """Return the write amplification of hot and cold data in one open block, for infinitely many pages in a block.

    `hot` is the part of the data that gets a `share` of the writes. After t writes a hot page is in use with
    probability exp(-share t / hot), a cold one likewise. A block takes (1 - v) new pages and v moved ones, and is
    cleaned when t = ratio (1 - v) (Desnoyers 2014, 5: the oldest block is cleaned first, as with greedy if blocks are
    large).
    """

    def excess(left: float) -> float:
        age = ratio * (1 - left)
        parts = ((share, hot), (1 - share, 1 - hot))
        return sum(rate * (1 - left) / -math.expm1(-rate * age / size) for rate, size in parts) - 1

    return 1 / (1 - brentq(excess, 1e-6, 1 - 1e-6))


def hot_or_cold(in_use: int, hot: float, share: float, length: int) -> np.ndarray:
    """Draw `length` pages to write: a `share` of them in the first part, `hot`, of the data."""
    random = np.random.default_rng(2)
    nr_hot = int(in_use * hot)
    cold = random.integers(nr_hot, in_use, length)
    return np.where(random.random(length) < share, random.integers(0, nr_hot, length), cold)


def in_use_before(asked: Sequence[tuple[str, int, int]], pages: int) -> list[int]:
    """Return pages that are read, or written in part, before they are written or discarded as a whole."""
    first: dict[int, bool] = {}
    for op, sector, length in asked:
        for page in range(pages):
            inside = range(max(sector, page * PAGE_SECTORS), min(sector + length, (page + 1) * PAGE_SECTORS))
            is_whole = len(inside) == PAGE_SECTORS and op != "read"
            if is_whole or (inside and op != "discard"):
                first.setdefault(page, not is_whole)
    return [page for page, is_read in first.items() if is_read]


@dataclass
class Fast:
    """A device of hybrid mapping in dictionaries.

    It holds the page at each offset of each block, and the newest copy of each page.
    """

    pages: int
    block_pages: int
    blocks: int
    in_use: Sequence[int]
    writer: dict[int, str | None] = field(default_factory=dict)
    written: Counter[str | None] = field(default_factory=Counter)
    copied: Counter[str | None] = field(default_factory=Counter)
    erases: Counter[int] = field(default_factory=Counter)
    merges: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.most_log = self.blocks - math.ceil(self.pages / self.block_pages) - 2
        self.data = {page // self.block_pages: page // self.block_pages for page in self.in_use}
        self.free = [block for block in range(self.blocks) if block not in self.data]
        self.holds: dict[int, dict[int, int]] = {block: {} for block in range(self.blocks)}
        self.newest: dict[int, tuple[int, int]] = {}
        self.sequence: tuple[int, int] | None = None
        self.log: list[int] = []
        for page in self.in_use:
            self._program(self.data[page // self.block_pages], page % self.block_pages, page)

    def _program(self, block: int, offset: int, page: int) -> None:
        assert offset not in self.holds[block], "a page is programmed once between erases"
        self.holds[block][offset] = page
        self.newest[page] = (block, offset)

    def _erase(self, block: int) -> None:
        assert not any(where == block for where, _ in self.newest.values()), "what is erased is not needed"
        self.holds[block] = {}
        self.erases[block] += 1
        self.free.append(block)

    def _of(self, owner: int) -> range:
        return range(owner * self.block_pages, min((owner + 1) * self.block_pages, self.pages))

    def _merge(self, owner: int, kind: str, block: int, but: int | None) -> None:
        for page in self._of(owner):
            if page in self.newest and self.newest[page][0] not in (block, but):
                self._program(block, page % self.block_pages, page)
                self.copied[self.writer.get(page)] += 1
        self._erase(self.data[owner])
        self.data[owner] = block
        self.merges[kind] += 1

    def _end_sequence(self) -> None:
        if self.sequence:
            block, owner = self.sequence
            self._merge(owner, "switch" if len(self.holds[block]) == len(self._of(owner)) else "partial", block, None)
            self.sequence = None

    def _append(self, page: int) -> None:
        if not self.log or len(self.holds[self.log[-1]]) == self.block_pages:
            if len(self.log) == self.most_log:
                oldest = self.log.pop(0)
                for offset, held in self.holds[oldest].items():
                    if self.newest.get(held) == (oldest, offset):
                        owner = held // self.block_pages
                        but = self.sequence[0] if self.sequence else None
                        self._merge(owner, "full", self.free.pop(0), but)
                self._erase(oldest)
            self.log.append(self.free.pop(0))
        self._program(self.log[-1], len(self.holds[self.log[-1]]), page)

    def _write(self, page: int) -> None:
        owner, offset = divmod(page, self.block_pages)
        is_owner = self.sequence is not None and self.sequence[1] == owner
        block = self.sequence[0] if self.sequence else -1
        if owner not in self.data:
            self.data[owner] = self.free.pop(0)
        if offset not in self.holds[self.data[owner]] and not (is_owner and offset in self.holds[block]):
            self._program(self.data[owner], offset, page)
        elif offset == 0:
            self._end_sequence()
            self.sequence = (self.free.pop(0), owner)
            self._program(self.sequence[0], 0, page)
        elif is_owner and offset == len(self.holds[block]):
            self._program(block, offset, page)
        else:
            if is_owner:
                self._end_sequence()
            self._append(page)

    def request(self, op: str, sector: int, nr_sectors: int, who: str | None) -> None:
        """Execute a request of the host."""
        end = sector + nr_sectors
        if op == "discard":
            for page in range(-(-sector // PAGE_SECTORS), end // PAGE_SECTORS):
                self.newest.pop(page, None)
        for page in range(sector // PAGE_SECTORS, -(-end // PAGE_SECTORS) if op == "write" else 0):
            self._write(page)
            self.writer[page] = who
            self.written[who] += 1


def hybrid_uniform(data_blocks: int, log_blocks: int, block_pages: int) -> float:
    """Return the write amplification of FAST for uniform random writes of single pages, with all pages in use.

    Derived as a renewal process of one data block, of N, with K log blocks in addition to that of the sequence. One
    write in P (pages of a block) is of a first page: it begins a sequence, and the previous one is merged with P - 1
    copies. Of the other writes, r = 1 - 1/P, each P fill a log block, in a round. A round hits the data block with q =
    1 - (1 - 1/N)^P. That page is still the newest when its log block is emptied, K - 1 rounds later, with s = exp(-(K -
    1/2) / (r N)); then the data block is merged with P copies. Otherwise the next page that hits it is waited for, at
    the latest that newer version: D rounds, the lesser of one that is uniform up to K and of one that is exponential
    with rate q. All this begins again at a merge for a sequence, with rate k = 1 / (r N) in a round. So f = E exp(-k
    (rounds until the full merge)) of the cycles end with a full merge, and a cycle takes (1 - f) / k rounds of P / r
    writes: with N blocks that is f / (1 - f) copies for a write, and 1 + r + f / (1 - f) in total.
    """
    share = 1 - 1 / block_pages
    rate = 1 / (share * data_blocks)
    hit = 1 - (1 - 1 / data_blocks) ** block_pages
    newest = math.exp(-(log_blocks - 0.5) * rate)
    both = rate + hit
    again = 1 - rate * (1 / both - (1 - math.exp(-both * log_blocks)) / (both**2 * log_blocks))
    first = hit * math.exp(-rate) / (1 - (1 - hit) * math.exp(-rate))
    full = first * math.exp(-rate * (log_blocks - 1)) * newest / (1 - (1 - newest) * again)
    return 1 + share + full / (1 - full)
