"""What to measure: the words of the panel, the options of iobench that they mean, and what doing it will cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from androstep_analysis.common import quantities
from androstep_analysis.present.headline.results import RELIABLE

FILE_TESTS: Final = {
    "Sequential write": "write",
    "Random write": "randwrite",
    "Sequential read": "read",
    "Random read": "randread",
}
"""Tests of files, and iobench's words for them."""

SQLITE_TESTS: Final = {"SQLite insert": "insert", "SQLite update": "update", "SQLite delete": "delete"}
"""Tests of SQLite, likewise."""

TITLES: Final = {
    **{"seq_write": "Sequential write", "rand_write": "Random write", "seq_read": "Sequential read"},
    **{"rand_read": "Random read", "append": "Append", "postmark": "PostMark"},
    **{f"sqlite_{word}": test for test, word in SQLITE_TESTS.items()},
}
"""What the tests of results are called here."""

ALL: Final = (*FILE_TESTS, *SQLITE_TESTS)

SYNC_MODES: Final = ("buffered", "osync", "fsync", "direct", "mmap", "fdatasync", "odsync", "mmap_sync")
JOURNAL_MODES: Final = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")

_WRITES: Final = ("write", "randwrite")
_UNSYNCED: Final = ("buffered", "mmap")

_TRANSACTION_BYTES: Final = 24 << 10
"""What a small transaction writes with its journal: pages of 4 KiB and blocks of the filesystem, as was measured."""

_FAST, _SLOW = (
    {"synced": 5_000, "unsynced": 200_000, "read": 20_000, "transaction": 1_000},
    {"synced": 100, "unsynced": 5_000, "read": 1_000, "transaction": 25},
)
"""Operations per second of a good SSD and of a slow memory card: what is assumed of storage that is not known yet."""

_REPETITION_S: Final = 0.1
"""What a repetition takes besides: files are laid out, the page cache is emptied, and all is checked."""


@dataclass(frozen=True)
class Job:
    """What iobench is asked for: by default what the released results of datasets/bench were measured with.

    Sizes are in KiB, as in Mobibench's app. Writes end after `records` of each repetition or `seconds`, whichever comes
    first; without a limit (0) when all of the file is written. Reads read all of it once.
    """

    tests: tuple[str, ...] = ALL
    threads: int = 1
    file_kib: int = 8192
    record_kib: int = 4
    records: int = 1024
    seconds: float = 0.3
    sync_mode: str = "fsync"
    transactions: int = 100
    journal_mode: str = "TRUNCATE"
    synchronous: str = "FULL"
    repeats: int = RELIABLE

    def options(self, directory: str) -> dict[str, list[str]]:
        """Options of iobench for each run that it takes, in the order of `of_runs`."""
        shared = [f"--numjobs={self.threads}", f"--repeats={self.repeats}", f"--directory={directory}"]
        sizes = [f"--size={self.file_kib}k", f"--bs={self.record_kib}k", f"--mode={self.sync_mode}"]
        limits = [f"--runtime={round(self.seconds * 1000)}ms"] * (self.seconds > 0)
        if self.records or self.seconds:  # with time alone the file would be written over and over
            limits.append(f"--number_ios={self._records}")
        modes = [f"--journal-mode={self.journal_mode}", f"--synchronous={self.synchronous}"]
        of_sqlite = [f"--transactions={self.transactions}", "--tables=1", *modes]
        given = {
            "writes": ("file", "rw", [*sizes, *limits]),
            "reads": ("file", "rw", sizes),
            "sqlite": ("sqlite", "sqlite-op", of_sqlite),
        }
        words = FILE_TESTS | SQLITE_TESTS
        return {
            name: [given[name][0], f"--sweep={given[name][1]}={','.join(words[test] for test in tests)}",
                   *given[name][2], *shared]
            for name, tests in self.of_runs().items()
        }  # fmt: skip

    def of_runs(self) -> dict[str, tuple[str, ...]]:
        """The tests of each run, in the order in which they are done."""
        kinds = {
            "writes": tuple(test for test, word in FILE_TESTS.items() if word in _WRITES),
            "reads": tuple(test for test, word in FILE_TESTS.items() if word not in _WRITES),
            "sqlite": tuple(SQLITE_TESTS),
        }
        chosen = {name: tuple(test for test in tests if test in self.tests) for name, tests in kinds.items()}
        return {name: tests for name, tests in chosen.items() if tests}

    @property
    def room_bytes(self) -> int:
        """Room that it needs at once: the files of all workers, and as much for what SQLite keeps beside its own."""
        of_files = self._file_bytes * any(test in FILE_TESTS for test in self.tests)
        of_sqlite = (self.transactions * 1024 + (1 << 20)) * self.threads
        return max(of_files, of_sqlite * any(test in SQLITE_TESTS for test in self.tests))

    @property
    def written_bytes(self) -> int:
        """About what it writes in all, with the files that are laid out before."""
        written = 0
        for name, tests in self.of_runs().items():
            moved = {"writes": self._file_bytes + self._records * self.record_kib * 1024, "reads": self._file_bytes}
            # Updates and deletes have as many rows put there before, in one transaction.
            of_test = moved.get(name, self.transactions * _TRANSACTION_BYTES)
            written += of_test * len(tests) * self.repeats
        return written

    def seconds_taken(self) -> tuple[float, float]:
        """About how long it takes on a good SSD, and on a slow memory card."""
        fast, slow = (self._seconds_at(rates) for rates in (_FAST, _SLOW))
        return fast, slow

    def words(self) -> list[str]:
        """What it does, in sentences."""
        runs = self.of_runs()
        said = []
        if tests := runs.get("writes"):
            limit = f" for at most {self.seconds:g} s" if self.seconds else ""
            how = "" if self.sync_mode in _UNSYNCED else f", made durable by {self.sync_mode}"
            records = f"up to {self._records:,} records of {quantities.size(self.record_kib * 1024)}"
            said.append(f"{_listed(tests)}: {records}{how}{limit}, in {self._files()}.")
        if tests := runs.get("reads"):
            said.append(f"{_listed(tests)}: all of {self._files()}, with a cold cache.")
        if tests := runs.get("sqlite"):
            modes = f"journal mode {self.journal_mode}, synchronous {self.synchronous}"
            said.append(f"{_listed(tests)}: {self.transactions:,} transactions each ({modes}).")
        return said

    @property
    def _file_bytes(self) -> int:
        return self.file_kib * 1024 * self.threads

    @property
    def _records(self) -> int:
        """The most records that a repetition writes; those of whole files are all."""
        return self.records or max(1, self.file_kib // self.record_kib) * self.threads

    def _files(self) -> str:
        size = quantities.size(self.file_kib * 1024)
        return f"a file of {size}" if self.threads == 1 else f"{self.threads} files of {size}"

    def _seconds_at(self, rates: dict[str, int]) -> float:
        kind = "unsynced" if self.sync_mode in _UNSYNCED else "synced"
        of_test = {
            "writes": min(self._records / rates[kind], self.seconds or math.inf),
            "reads": self._file_bytes / (self.record_kib * 1024) / rates["read"],
            "sqlite": self.transactions / rates["transaction"],
        }
        taken = sum((of_test[name] + _REPETITION_S) * len(tests) for name, tests in self.of_runs().items())
        return taken * self.repeats


PRESETS: Final = {
    "All seven tests": Job(),
    "Files": Job(tests=tuple(FILE_TESTS)),
    "SQLite": Job(tests=tuple(SQLITE_TESTS)),
}
"""The jobs of Mobibench's buttons, with the settings of the released results, beside which they can be ranked."""


def _listed(tests: Sequence[str]) -> str:
    """Tests of one kind: "Sequential and random write", "SQLite insert, update and delete"."""
    first, *others = tests
    rest = [other.removeprefix("SQLite ").lower() for other in others]
    if first in FILE_TESTS and others:
        first = first.split(" ")[0]
    return first + "".join(f", {word}" for word in rest[:-1]) + (f" and {rest[-1]}" if rest else "")
