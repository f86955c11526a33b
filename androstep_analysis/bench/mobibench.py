"""Reader of Mobibench's output: one or more runs, each from its measurement setup to its result or its error."""

from __future__ import annotations

import re
from typing import Any, Final

from androstep_analysis.bench.tables import Part, foreign, names
from androstep_analysis.common.results import Results

SETUP: Final = "[mobibench measurement setup]"

TESTS: Final = {0: "seq_write", 1: "rand_write", 2: "seq_read", 3: "rand_read", 4: "append"}
"""Tests by access mode. For any other number, Mobibench 1.0.9 reads sequentially."""

SYNC_MODES: Final = (
    *("buffered", "osync", "fsync", "direct", "direct_osync", "mmap", "mmap_async", "mmap_sync"),
    *("fdatasync", "fbarrier", "fdatabarrier"),
)
"""Names of -y 0, 1, …"""

SQLITE_TESTS: Final = ("sqlite_insert", "sqlite_update", "sqlite_delete")

SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")
_TIME = re.compile(r"\[TIME\] : +(\d+) sec +(\d+)us\.\s+(.*)")


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is output of Mobibench."""
    return SETUP.encode() in head[: 1 << 12]


def read(text: str, origin: bytes) -> Results:
    """Return the runs in `text`. They are named after `origin`, the bytes of the file.

    The number of operations is the one that Mobibench had to do, from which it computes its rate. It reports neither
    completed operations nor latencies. A run with an error or without a result is invalid. Progress lines are skipped.
    """
    lines = re.split(r"[\r\n]+", text)
    starts = [number for number, line in enumerate(lines) if SETUP in line]
    blocks = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    runs = [_run(block) | {"run_id": name} for block, name in zip(blocks, names(origin), strict=False)]
    parts = [_parts(run) for run in runs]
    known = [{name: value for name, value in run.items() if name not in _RESULT} for run in runs]
    return foreign("Mobibench text", known, parts, ())


_RESULT = ("ops", "bytes", "switches")


def _run(lines: list[str]) -> dict[str, Any]:
    """Return a row of table bench_runs, and the data of its result (`_RESULT`)."""
    text = "\n".join(lines)
    sqlite = _number(r"Operation : (\d+)", text)
    described = _file(text) if sqlite is None else _sqlite(sqlite, text)
    time = _TIME.search(text)
    problem = _problem(text, finished=time is not None)
    return {
        "tool": "mobibench",
        "threads": _number(r"# of Threads : (\d+)", text) or 1,
        "duration_ns": None if time is None else (int(time[1]) * 1_000_000 + int(time[2])) * 1000,
        "valid": problem is None,
        "invalid": problem,
        "switches": _switches(text),
        **described,
    }


def _problem(text: str, *, finished: bool) -> str | None:
    """Return the reason why the run is invalid."""
    error = re.search(r"(?m)^(.*error!!!.*)$|^Err string : (?!No error)(.*)$", text)
    if error is not None:
        return f"Mobibench: {(error[1] or error[2]).strip()}"
    return None if finished else "Mobibench printed no result"


def _file(text: str) -> dict[str, Any]:
    """Return the setup of a test of files."""
    record = _kib(r"IO size : (\d+) KB", text)
    count = _number(r"IO count : (\d+)", text)
    access = _number(r"Access Mode (\d+)", text)
    sync = _number(r"Sync Mode (\d+)", text)
    threads = _number(r"# of Threads : (\d+)", text) or 1
    return {
        "workload": "file",
        "test": TESTS.get(0 if access is None else access, "seq_read"),
        "sync_mode": SYNC_MODES[sync] if sync is not None and sync < len(SYNC_MODES) else None,
        "block_bytes": record,
        "file_bytes": _kib(r"File size per thread : (\d+) KB", text),
        "ops": None if count is None else count * threads,
        "bytes": None if count is None or record is None else count * record * threads,
    }


def _sqlite(operation: int, text: str) -> dict[str, Any]:
    """Return the setup of a test of SQLite, with the settings of its first database."""
    transactions = _number(r"Transactions per thread: *(\d+)", text)
    threads = _number(r"# of Threads : (\d+)", text) or 1
    journal = re.search(r"journal_mode *= *(\w+)", text)
    synchronous = _number(r"synchronous *= *(\d+)", text)
    version = re.search(r"sqlite_version *= *(\S+)", text)
    return {
        "workload": "sqlite",
        "test": SQLITE_TESTS[min(operation, len(SQLITE_TESTS) - 1)],
        "journal_mode": None if journal is None else journal[1].upper(),
        "synchronous": None if synchronous is None else SYNCHRONOUS[min(synchronous, 3)],
        "page_bytes": _number(r"page_size *= *(\d+)", text),
        "tables": _number(r"# of Tables : (\d+)", text),
        "databases": _number(r"# of Databases : (\d+)", text),
        "sqlite_version": None if version is None else version[1],
        "ops": None if transactions is None else transactions * threads,
    }


def _parts(run: dict[str, Any]) -> list[Part]:
    """Return the result of all threads together, if the run has one. Mobibench does not report single threads."""
    if run["duration_ns"] is None:
        return []
    return [Part("op", ops=run["ops"], bytes=run.get("bytes"), known=run["switches"])]


def _switches(text: str) -> dict[str, Any]:
    """Return context switches. Mobibench prints all and the voluntary ones, and 0 for both if the kernel has none."""
    found = re.search(r"\[CON SWITCHES\] : (\d+) (\d+)", text)
    if found is None or int(found[1]) == 0:
        return {}
    return {"ctx_voluntary": int(found[2]), "ctx_involuntary": int(found[1]) - int(found[2])}


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return None if found is None else int(found[1])


def _kib(pattern: str, text: str) -> int | None:
    found = _number(pattern, text)
    return None if found is None else found * 1024
