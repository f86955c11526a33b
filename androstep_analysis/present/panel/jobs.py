"""The jobs of the panel: settings, the options of iobench that they become, and an estimate of their cost."""

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
"""Tests of files, and their names in iobench."""

SQLITE_TESTS: Final = {"SQLite insert": "insert", "SQLite update": "update", "SQLite delete": "delete"}
"""Tests of SQLite, and their names in iobench."""

TITLES: Final = {
    **{"seq_write": "Sequential write", "rand_write": "Random write", "seq_read": "Sequential read"},
    **{"rand_read": "Random read", "append": "Append", "postmark": "PostMark"},
    **{f"sqlite_{word}": test for test, word in SQLITE_TESTS.items()},
}
"""Titles of the tests in results."""

ALL: Final = (*FILE_TESTS, *SQLITE_TESTS)

SYNC_MODES: Final = ("buffered", "osync", "fsync", "direct", "mmap", "fdatasync", "odsync", "mmap_sync")
JOURNAL_MODES: Final = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")

_WRITES: Final = ("write", "randwrite")
_UNSYNCED: Final = ("buffered", "mmap")

_TRANSACTION_BYTES: Final = 24 << 10
"""Bytes that a small transaction writes, including its journal (measured): pages of 4 KiB and filesystem blocks."""

_FAST, _SLOW = (
    {"synced": 5_000, "unsynced": 200_000, "read": 20_000, "transaction": 1_000},
    {"synced": 100, "unsynced": 5_000, "read": 1_000, "transaction": 25},
)
"""Operations per second of a good SSD and of a slow memory card, for estimates on unknown storage."""

_REPETITION_S: Final = 0.1
"""Overhead of a repetition: creating files, dropping the page cache, and checks."""


@dataclass(frozen=True)
class Job:
    """The settings of a measurement. The defaults are those of the released results in datasets/bench.

    Sizes are in KiB, as in Mobibench's app. Writes end after `records` per repetition or `seconds`, whichever comes
    first; without limits (0), when all of the file is written. Reads read the whole file once.
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
        """Return the options of iobench for each of its runs, in the order of `of_runs`."""
        shared = [f"--numjobs={self.threads}", f"--repeats={self.repeats}", f"--directory={directory}"]
        sizes = [f"--size={self.file_kib}k", f"--bs={self.record_kib}k", f"--mode={self.sync_mode}"]
        limits = [f"--runtime={round(self.seconds * 1000)}ms"] * (self.seconds > 0)
        if self.records or self.seconds:  # with a time limit alone, iobench would write the file repeatedly
            limits.append(f"--number_ios={self._records}")
        modes = [f"--journal-mode={self.journal_mode}", f"--synchronous={self.synchronous}"]
        of_sqlite = [f"--transactions={self.transactions}", "--tables=1", *modes]
        parameters = {
            "writes": ("file", "rw", [*sizes, *limits]),
            "reads": ("file", "rw", sizes),
            "sqlite": ("sqlite", "sqlite-op", of_sqlite),
        }
        words = FILE_TESTS | SQLITE_TESTS
        return {
            name: [parameters[name][0], f"--sweep={parameters[name][1]}={','.join(words[test] for test in tests)}",
                   *parameters[name][2], *shared]
            for name, tests in self.of_runs().items()
        }  # fmt: skip

    def of_runs(self) -> dict[str, tuple[str, ...]]:
        """Return the tests of each run, in order."""
        kinds = {
            "writes": tuple(test for test, word in FILE_TESTS.items() if word in _WRITES),
            "reads": tuple(test for test, word in FILE_TESTS.items() if word not in _WRITES),
            "sqlite": tuple(SQLITE_TESTS),
        }
        chosen = {name: tuple(test for test in tests if test in self.tests) for name, tests in kinds.items()}
        return {name: tests for name, tests in chosen.items() if tests}

    @property
    def room_bytes(self) -> int:
        """Free space needed: the files of all workers, or the databases and journals of SQLite."""
        of_files = self._file_bytes * any(test in FILE_TESTS for test in self.tests)
        of_sqlite = (self.transactions * 1024 + (1 << 20)) * self.threads
        return max(of_files, of_sqlite * any(test in SQLITE_TESTS for test in self.tests))

    @property
    def written_bytes(self) -> int:
        """Approximate number of bytes written, including files created in advance."""
        written = 0
        for name, tests in self.of_runs().items():
            moved = {"writes": self._file_bytes + self._records * self.record_kib * 1024, "reads": self._file_bytes}
            # Updates and deletes first insert as many rows, in one transaction.
            of_test = moved.get(name, self.transactions * _TRANSACTION_BYTES)
            written += of_test * len(tests) * self.repeats
        return written

    def seconds_taken(self) -> tuple[float, float]:
        """Return the approximate duration on a good SSD, and on a slow memory card."""
        fast, slow = (self._seconds_at(rates) for rates in (_FAST, _SLOW))
        return fast, slow

    def words(self) -> list[str]:
        """Return a description in sentences."""
        runs = self.of_runs()
        sentences = []
        if tests := runs.get("writes"):
            limit = f" for at most {self.seconds:g} s" if self.seconds else ""
            how = "" if self.sync_mode in _UNSYNCED else f", made durable by {self.sync_mode}"
            records = f"up to {self._records:,} records of {quantities.size(self.record_kib * 1024)}"
            sentences.append(f"{_listed(tests)}: {records}{how}{limit}, in {self._files()}.")
        if tests := runs.get("reads"):
            sentences.append(f"{_listed(tests)}: all of {self._files()}, with a cold cache.")
        if tests := runs.get("sqlite"):
            modes = f"journal mode {self.journal_mode}, synchronous {self.synchronous}"
            sentences.append(f"{_listed(tests)}: {self.transactions:,} transactions each ({modes}).")
        return sentences

    @property
    def _file_bytes(self) -> int:
        return self.file_kib * 1024 * self.threads

    @property
    def _records(self) -> int:
        """Maximum number of records that a repetition writes."""
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
        seconds = sum((of_test[name] + _REPETITION_S) * len(tests) for name, tests in self.of_runs().items())
        return seconds * self.repeats


PRESETS: Final = {
    "All seven tests": Job(),
    "Files": Job(tests=tuple(FILE_TESTS)),
    "SQLite": Job(tests=tuple(SQLITE_TESTS)),
}
"""The jobs of Mobibench's buttons, with the settings of the released results, so that results can be ranked among
them."""


def _listed(tests: Sequence[str]) -> str:
    """List tests of one kind: "Sequential and random write", "SQLite insert, update and delete"."""
    first, *others = tests
    rest = [other.removeprefix("SQLite ").lower() for other in others]
    if first in FILE_TESTS and others:
        first = first.split(" ")[0]
    return first + "".join(f", {word}" for word in rest[:-1]) + (f" and {rest[-1]}" if rest else "")
