"""What to measure, and how: the words of the panel, and the options of iobench that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FILE_TESTS: Final = {
    "Sequential write": "write",
    "Sequential read": "read",
    "Random write": "randwrite",
    "Random read": "randread",
}
"""Tests of files, and iobench's words for them."""

SQLITE_TESTS: Final = {"SQLite insert": "insert", "SQLite update": "update", "SQLite delete": "delete"}
"""Tests of SQLite, likewise."""

SYNC_MODES: Final = ("buffered", "osync", "fsync", "direct", "mmap", "fdatasync", "odsync", "mmap_sync")
JOURNAL_MODES: Final = ("DELETE", "TRUNCATE", "PERSIST", "WAL", "MEMORY", "OFF")
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")


@dataclass(frozen=True)
class Settings:
    """What iobench is asked for. Sizes are in KiB, as in Mobibench's app; `directory` "" is where iobench starts.

    Of fewer than six repetitions there is no interval of 95 %, and so no comparison.
    """

    directory: str = ""
    threads: int = 1
    file_kib: int = 10240
    record_kib: int = 4
    sync_mode: str = "fsync"
    transactions: int = 100
    journal_mode: str = "TRUNCATE"
    synchronous: str = "FULL"
    repeats: int = 6

    def options(self, tests: Sequence[str]) -> list[list[str]]:
        """Options of iobench, for each run that it takes to do these tests."""
        files = ",".join(word for test, word in FILE_TESTS.items() if test in tests)
        statements = ",".join(word for test, word in SQLITE_TESTS.items() if test in tests)
        runs = []
        if files:
            sizes = [f"--size={self.file_kib}k", f"--bs={self.record_kib}k"]
            runs.append(["file", f"--sweep=rw={files}", *sizes, f"--mode={self.sync_mode}", *self._shared()])
        if statements:
            modes = [f"--journal-mode={self.journal_mode}", f"--synchronous={self.synchronous}"]
            count = f"--transactions={self.transactions}"
            runs.append(["sqlite", f"--sweep=sqlite-op={statements}", count, *modes, *self._shared()])
        return runs

    def _shared(self) -> list[str]:
        place = [f"--directory={self.directory}"] if self.directory else []
        return [f"--numjobs={self.threads}", f"--repeats={self.repeats}", *place]
