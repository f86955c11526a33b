"""The same as androstep_analysis.whatif, in the plainest way: a log-structured layer, and a queue before a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

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
