"""Simulate a filesystem with fanotify: random operations, the events that the kernel queues, and the true names.

The queue follows the kernel (fs/notify/fanotify/fanotify.c, fanotify_merge). An event is merged with a queued one of
the same process, entry and inode, even if other events are between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from androstep_analysis.ingest import entries
from androstep_analysis.ingest.record import Records

DEV = 7 << 20
ROOT = 2
NAMES = ("a", "b", "c")

_TYPES = {
    "order": pl.UInt64,
    **dict.fromkeys(["empty_ns", "read_ns", "mono_offset_ns", "ino", "generation"], pl.Int64),
    **dict.fromkeys(["parent_ino", "parent_generation", "new_parent_ino", "new_parent_generation"], pl.Int64),
    **dict.fromkeys(["dev", "kinds"], pl.UInt32),
    **dict.fromkeys(["is_dir", "pid"], pl.Int32),
    **dict.fromkeys(["name", "new_name"], pl.String),
}


def records(rows: list[dict[str, Any]]) -> Records:
    """Return records of names from rows without null values; `order` is the event number on device 7:0."""
    full = [
        {"order": at, "dev": DEV, "pid": 1, "is_dir": 0, "mono_offset_ns": 0, "empty_ns": at, "read_ns": at} | row
        for at, row in enumerate(rows)
    ]
    return Records({}, {entries.TABLE: pl.DataFrame(full, schema=_TYPES)}, (), complete=True)


@dataclass(eq=False)
class Life:
    """The lifetime of an inode: its current directory and name, and all paths that it ever had."""

    ino: int
    incarnation: int
    generation: int
    is_dir: bool
    born_ns: int | None
    ended_ns: int | None = None
    links: list[tuple[Life, str]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    told: dict[tuple[Life, str], str | None] = field(default_factory=dict)
    """Links that events added and did not remove, in order, with the last path of each. A file that a rename replaces
    has no event of its own, so that its link stays."""

    def path(self) -> str | None:
        """Current path, or None if a parent directory was deleted."""
        if self.ino == ROOT:
            return ""
        if not self.links:
            return None
        above, name = self.links[-1]
        path = above.path()
        return None if path is None else f"{path}/{name}"


class Model:
    """A filesystem with random operations. It reads the queue from time to time, or after each one if `is_prompt`."""

    def __init__(self, seed: int, *, is_prompt: bool, has_nameless: bool) -> None:
        self.random = random.Random(seed)
        self.is_prompt, self.has_nameless = is_prompt, has_nameless
        self.now = self.empty_ns = 1
        self.root = Life(ROOT, 0, 0, True, None)
        self.lives: list[Life] = [self.root]
        self.queue: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.before: list[dict[str, Any]] = []
        for _ in range(self.random.randrange(6)):
            self._make(is_old=True)
        self.queue.clear()
        for life in self.lives:
            life.born_ns, life.incarnation, life.paths, life.told = None, 0, set(), {}
        self._look()
        # The listing before the first operation.
        self.before = [
            {"dev": DEV, "ino": life.ino, "incarnation": 0, "path": life.path() or "/", "names": [life.path() or "/"],
             "file_type": "directory", "name_encrypted": False, "source": "fiemap"}
            for life in self._alive() if life.is_dir
        ]  # fmt: skip

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.random.randrange(1, 4) * 1_000_000  # much more than the clocks may differ
            self.random.choice([self._make, self._make, self._link, self._rename, self._rename, self._remove])()
            self._look()
            if self.is_prompt or self.random.random() < 0.3:
                self._read(everything=self.is_prompt)
        self._read(everything=True)

    # -- what is done -------------------------------------------------------------------------------------------------

    def _alive(self) -> list[Life]:
        return [life for life in self.lives if life.ino == ROOT or life.links]

    def _directories(self) -> list[Life]:
        return [life for life in self._alive() if life.is_dir]

    def _free(self) -> list[tuple[Life, str]]:
        taken = {link for life in self._alive() for link in life.links}
        return [(above, name) for above in self._directories() for name in NAMES if (above, name) not in taken]

    def _look(self) -> None:
        """Record the current paths of all files."""
        for life in self._alive():
            for above, name in life.links:
                path = above.path()
                if path is not None:
                    life.paths.add(f"{path}/{name}")
                    if (above, name) in life.told:
                        life.told[above, name] = f"{path}/{name}"

    def _new(self, is_dir: bool) -> Life:
        used = {life.ino for life in self.lives if life.ended_ns is None}
        ino = next(ino for ino in range(ROOT + 1, 1000) if ino not in used)
        incarnation = 1 + max((life.incarnation for life in self.lives if life.ino == ino), default=0)
        life = Life(ino, incarnation, self.random.randrange(1 << 32), is_dir, self.now)
        self.lives.append(life)
        return life

    def _make(self, is_old: bool = False) -> None:
        free = self._free()
        if self.has_nameless and not is_old and self.random.random() < 0.2:
            life = self._new(False)
            self.now += 1_000_000
            life.ended_ns = self.now  # a file without a name (O_TMPFILE)
        elif free:
            above, name = self.random.choice(free)
            life = self._new(self.random.random() < 0.4)
            self.now += 300_000
            life.links.append((above, name))
            self._event(entries.CREATED, life, above, name)

    def _link(self) -> None:
        files = [life for life in self._alive() if not life.is_dir]
        free = self._free()
        if files and free:
            life, (above, name) = self.random.choice(files), self.random.choice(free)
            life.links.append((above, name))
            self._event(entries.CREATED, life, above, name)

    def _rename(self) -> None:
        movable = [life for life in self._alive() if life.ino != ROOT]
        if not movable:
            return
        life = self.random.choice(movable)
        old = self.random.choice(life.links)
        above, name = self.random.choice(self._directories()), self.random.choice(NAMES)
        inside = above
        while inside.ino != ROOT:
            if inside is life:
                return
            inside = inside.links[0][0]
        victim = next((other for other in self._alive() if (above, name) in other.links), None)
        if victim is life or (victim and (victim.is_dir or life.is_dir)):
            return
        life.links.remove(old)
        life.links.append((above, name))
        self._event(entries.RENAMED, life, *old, above, name)
        if victim:
            victim.links.remove((above, name))
            self._end(victim)

    def _remove(self) -> None:
        in_use = {above for life in self._alive() for above, _ in life.links}
        removable = [life for life in self._alive() if life.ino != ROOT and life not in in_use]
        if removable:
            life = self.random.choice(removable)
            above, name = self.random.choice(life.links)
            self._event(entries.DELETED, life, above, name)
            life.links.remove((above, name))
            self._end(life)

    def _end(self, life: Life) -> None:
        if not life.links:
            self.now += 300_000
            life.ended_ns = self.now

    # -- the kernel's events ------------------------------------------------------------------------------------------

    def _event(
        self, kind: int, life: Life, above: Life, name: str, new_above: Life | None = None, new_name: str | None = None
    ) -> None:
        self._look()
        if kind != entries.CREATED:
            life.told.pop((above, name), None)
        if kind != entries.DELETED:
            place = (above, name) if new_above is None or new_name is None else (new_above, new_name)
            life.told.pop(place, None)
            life.told[place] = f"{place[0].path()}/{place[1]}"
        event = {
            "ino": life.ino, "generation": life.generation, "parent_ino": above.ino, "is_dir": int(life.is_dir),
            "parent_generation": above.generation, "name": name, "pid": self.random.choice([1, 1, 1, 2]),
            "new_parent_ino": new_above and new_above.ino, "new_name": new_name,
            "new_parent_generation": new_above and new_above.generation,
        }  # fmt: skip
        for waiting in self.queue:
            if {key: value for key, value in waiting.items() if key != "kinds"} == event:
                waiting["kinds"] |= kind
                return
        self.queue.append({**event, "kinds": kind})

    def _read(self, everything: bool = False) -> None:
        count = len(self.queue) if everything or self.random.random() < 0.7 else self.random.randrange(4)
        read, self.queue = self.queue[:count], self.queue[count:]
        self.now += 1_000_000
        self.rows += [{**event, "empty_ns": self.empty_ns, "read_ns": self.now} for event in read]
        if not self.queue:
            self.now += 1_000_000
            self.empty_ns = self.now

    # -- for those who ask --------------------------------------------------------------------------------------------

    def entries(self) -> entries.Entries:
        return entries.entries(records(self.rows), "boot")

    def trace(self) -> pl.DataFrame:
        """Return the lifetimes that the trace shows, in the form of `tracepoints.lifetimes`."""
        told = [life for life in self.lives if life.born_ns is not None or life.ended_ns is not None]
        return pl.DataFrame(
            {
                "dev": [DEV] * len(told),
                "ino": [life.ino for life in told],
                "incarnation": [life.incarnation for life in told],
                "created_ns": [life.born_ns for life in told],
                "end_ns": [life.ended_ns for life in told],
                "block_type": ["unknown"] * len(told),
                "subtype": [None] * len(told),
            },
            schema={
                "dev": pl.UInt32, "ino": pl.Int64, "incarnation": pl.Int32, "created_ns": pl.Int64, "end_ns": pl.Int64,
                "block_type": pl.String, "subtype": pl.String,
            },
        )  # fmt: skip

    def named(self) -> Iterator[Life]:
        """Return the lifetimes with at least one event."""
        told = {(row["ino"], row["generation"]) for row in self.rows}
        return (life for life in self.lives if (life.ino, life.generation) in told)
