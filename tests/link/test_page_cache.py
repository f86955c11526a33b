"""Compare owners with a simulated page cache, in which whole classes of events are not recorded."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pytest
from support.owned import all_owned
from test_tracepoints import DEV, fs_events, pieces

from androstep_analysis import schema

PAGES = 4
EARLIER = 7
"""A process that wrote before the recording."""
FLUSHER = 90

CLASSES = {
    "write": ("ext4_da_write_begin", "f2fs_write_begin"),
    "dirty": ("writeback_dirty_folio",),
    "store": ("page_mkwrite", "f2fs_vm_page_mkwrite"),
    "add": ("mm_filemap_add_to_page_cache",),
    "delete": ("mm_filemap_delete_from_page_cache",),
    "invalidate": ("ext4_invalidate_folio",),
    "direct": ("iomap_dio_rw_begin", "f2fs_direct_IO_enter"),
}
"""The events that a recording may lack."""


@dataclass
class Page:
    """A page in the simulated cache: its block, and the writers since its last writeback."""

    is_cached: bool = False
    is_dirty: bool = False
    writers: set[int] = field(default_factory=set)


@dataclass
class Machine:
    """Files in a simulated page cache. Large folios hold two pages and are dirty as a whole."""

    fs: str
    order: int
    ino: int
    steps: list[tuple[str, int, int]] = field(default_factory=list)
    pages: list[Page] = field(default_factory=lambda: [Page() for _ in range(PAGES)])
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    writebacks: list[tuple[int, int, int, str, set[int]]] = field(default_factory=list)
    now: int = 0

    def record(self, kind: str, tid: int, **fields: int) -> None:
        names = CLASSES.get(kind, (kind,))
        name = names[-1 if self.fs == "f2fs" else 0]
        comm = {"comm": "kworker/u4:1"} if tid == FLUSHER else {}
        self.now += 1000
        self.events.append((self.now, name, {"ino": self.ino, "tid": tid, **comm, **fields}))

    def folio(self, page: int) -> list[int]:
        size = 1 << self.order
        return list(range(page // size * size, page // size * size + size))

    def cache(self, tid: int, page: int) -> None:
        """Read the folio of the page into the cache."""
        pages = self.folio(page)
        if not self.pages[page].is_cached:
            self.record("add", tid, page=pages[0], page_order=self.order)
            for other in pages:
                self.pages[other] = Page(is_cached=True)

    def dirty(self, tid: int, page: int, change: list[int]) -> None:
        """Modify pages of a folio, and mark the folio dirty."""
        pages = self.folio(page)
        was_dirty = any(self.pages[other].is_dirty for other in pages)
        for other in change:
            self.pages[other].is_dirty = True
        if not was_dirty:
            self.record("dirty", tid, page=pages[0])

    def submit(self, tid: int, page: int, op: str, writers: set[int]) -> None:
        self.now += 1000
        self.writebacks.append((self.now, page, tid, op, writers))

    def write_back(self, tid: int, page: int) -> None:
        """Write back the dirty pages of a folio."""
        for other in self.folio(page):
            if self.pages[other].is_dirty:
                self.submit(tid, other, "write", self.pages[other].writers)
                self.pages[other] = Page(is_cached=True)

    # ------------------------------------------------------------------------------------------------ operations

    def write(self, tid: int, page: int, is_written_first: bool) -> None:
        """Write to pages; with `is_written_first`, the flusher writes the page back before the data arrives."""
        self.record("write", tid, offset_bytes=page * 4096, nr_bytes=4096)
        if is_written_first:
            self.write_back(FLUSHER, page)
        self.cache(tid, page)
        self.pages[page].writers.add(tid)
        self.dirty(tid, page, [page])

    def store(self, tid: int, page: int) -> None:
        self.cache(tid, page)
        self.record("store", tid, page=page)
        self.pages[page].writers.add(tid)
        self.dirty(tid, page, [page])

    def read(self, tid: int, page: int) -> None:
        self.cache(tid, page)

    def sync(self, tid: int) -> None:
        for page in range(PAGES):
            self.write_back(tid, page)

    def sync_in_vain(self, tid: int, page: int) -> None:
        """Dirty a page again that cannot be written back: F2FS does so in fsync, other filesystems in the flusher."""
        if self.pages[page].is_dirty:
            self.record("dirty", tid if self.fs == "f2fs" else FLUSHER, page=self.folio(page)[0])

    def drop(self, tid: int, first: int) -> None:
        """Truncate a file. A large folio with a dirty part stays in the cache."""
        for page in range(first, PAGES):
            pages = self.folio(page)
            if pages[0] < first and any(self.pages[other].is_dirty for other in pages):
                self.record("invalidate", tid, page=pages[0], offset_bytes=(page - pages[0]) * 4096, nr_bytes=4096)
                self.pages[page] = Page(is_cached=True)
            elif page == pages[0] or pages[0] < first:
                self.leave(tid, page)

    def leave(self, tid: int, page: int) -> None:
        """Remove the folio from the cache."""
        pages = self.folio(page)
        if not self.pages[page].is_cached:
            return
        if any(self.pages[other].is_dirty for other in pages) and self.fs == "ext4":
            self.record("invalidate", tid, page=pages[0], offset_bytes=0, nr_bytes=4096 << self.order)
        self.record("delete", tid, page=pages[0], page_order=self.order)
        for other in pages:
            self.pages[other] = Page()

    def reclaim(self, tid: int, page: int) -> None:
        if not any(self.pages[other].is_dirty for other in self.folio(page)):
            self.leave(tid, page)

    def direct(self, tid: int, page: int) -> None:
        """Write with direct I/O: the folio is written back first, then dropped."""
        self.record("direct", tid, offset_bytes=page * 4096, nr_bytes=4096)
        self.write_back(tid, page)
        self.leave(tid, page)
        self.submit(tid, page, "write", {tid})

    def direct_read(self, tid: int, page: int) -> None:
        self.record("direct", tid, offset_bytes=page * 4096, nr_bytes=4096)
        self.write_back(tid, page)
        self.submit(tid, page, "read", set())

    def evict(self, tid: int, page: int) -> None:
        for other in range(PAGES):
            self.write_back(FLUSHER, other)
        for other in range(PAGES):
            self.leave(tid, other)
        self.record(f"{self.fs}_evict_inode", tid, nlink=1)


CHOICES = (
    *("write", "write", "store", "store", "read", "drop", "drop", "direct", "direct_read", "reclaim", "sync_in_vain"),
    *("evict", "sync", "sync", "sync", "sync", "sync"),
)


def simulated(fs: str, order: int, ino: int, seed: int) -> Machine:
    """Simulate random operations on files, some of which were dirty before the recording.

    Times are simulated. A thread writes to one file after the other.
    """
    choose = random.Random(seed)
    machine = Machine(fs, order, ino, now=ino * 1_000_000)
    if choose.random() < 0.5:
        machine.pages = [Page(True, True, {EARLIER}) if choose.random() < 0.5 else Page(True) for _ in range(PAGES)]
    else:
        machine.evict(1, 0)
    for _ in range(choose.randrange(1, 12)):
        tid, page, name = choose.randrange(1, 4), choose.randrange(PAGES), choose.choice(CHOICES)
        machine.steps.append((name, tid, page))
        if name == "write":
            machine.write(tid, page, choose.random() < 0.2)
        elif name == "sync":
            machine.sync(FLUSHER if choose.random() < 0.3 else tid)
        else:
            getattr(machine, name)(tid, page)
    machine.sync(2)
    return machine


def owners(machines: list[Machine], withheld: set[str], is_listed: bool) -> list[dict[str, Any]]:
    """Return the owner of each written block without some classes of events, in order of file and time."""
    lacking = {name for kind in withheld for name in CLASSES[kind]}
    fs = machines[0].fs
    kept = [(0, f"{fs}_evict_inode", {"ino": 2})]
    kept += [event for machine in machines for event in machine.events if event[1] not in lacking]
    kept.sort(key=lambda event: event[0])
    table = fs_events(*((name, fields) for _, name, fields in kept))
    table = table.with_columns(ts_ns=pl.Series([ts for ts, *_ in kept], dtype=pl.Int64))
    listed = {name for kind, names in CLASSES.items() if kind not in withheld for name in names}
    outs = [(ts, machine.ino, page, tid, op) for machine in machines for ts, page, tid, op, _ in machine.writebacks]
    out = pieces(*((ts, ino, page, 1, tid) for ts, ino, page, tid, _ in outs))
    comm = ["kworker/u4:1" if tid == FLUSHER else f"app{tid}" for *_, tid, _ in outs]
    out = out.with_columns(pl.Series("op", [op for *_, op in outs], dtype=out["op"].dtype), submit_comm=pl.Series(comm))
    recorded = listed | {f"{fs}_evict_inode"} if is_listed else ()
    found = all_owned(out, table, schema.empty("tasks"), {DEV: 4096}, recorded=recorded, page_bytes=4096)
    return found.sort("ino", "time").to_dicts()


SUBSETS = [set(subset) for size in range(len(CLASSES) + 1) for subset in itertools.combinations(CLASSES, size)]
MACHINES = 40


@pytest.mark.prove
@pytest.mark.parametrize("fs, order", [("ext4", 0), ("ext4", 1), ("f2fs", 0)])
def test_no_owner_is_wrong_whatever_was_not_recorded(fs, order):
    """Every owner that is a fact wrote to the block, and every `owner_count` equals the number of writers."""
    for number, withheld in enumerate(SUBSETS):
        machines = [simulated(fs, order, 12 + seed, 1000 * number + seed) for seed in range(MACHINES)]
        found = iter(owners(machines, withheld, is_listed=number % 2 == 0))
        for machine in machines:
            for (ts, page, tid, op, writers), row in zip(machine.writebacks, found, strict=False):
                assert row["time"] == ts
                if op == "write" and row["owner_via"] not in ("unknown", "inferred") and writers:
                    case = (ts, page, tid, row["owner_via"], row["owner_comm"], row["owner_count"], writers)
                    where = (withheld, number % 2 == 0, machine.steps, machine.events, case)
                    assert row["owner_comm"] in {f"app{writer}" for writer in writers}, where
                    assert row["owner_count"] in (None, len(writers)), where
