"""Reader of AndroBench results: its database ``history.db``, rows of it from sqlite3, or the text of its screen.

AndroBench reports averages over its repetitions: MB/s of 1024 · 1024 B for files, operations per second for random
tests, and transactions per second of SQLite (AndroBench 3.4 to 4.1, HistoryDB.java and Result.java). A value of 0 was
not measured.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
import sqlite3
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from androstep_analysis.bench.tables import Part, foreign, names
from androstep_analysis.common.errors import InputError, Loss, printable
from androstep_analysis.common.results import Results

_COLUMNS: Final = (
    *("_id", "date", "target", "filesize_read", "filesize_write", "buffersize_seq", "buffersize_rnd", "use_buffer"),
    *("avg_mbps_sr", "avg_mbps_sw", "avg_mbps_rr", "avg_iops_rr", "avg_mbps_rw", "avg_iops_rw"),
    *("perf_sqlite_insert", "perf_sqlite_update", "perf_sqlite_delete"),
    *("macro_browser_time", "macro_market_time", "macro_camera_time", "macro_camcorder_time"),
    *("one_filesize", "num_thread"),
)
"""The columns of table history. Versions before 4.0 lack the last two."""

_OF_FILES: Final = (
    ("seq_read", "avg_mbps_sr", None, "buffersize_seq", "filesize_read"),
    ("seq_write", "avg_mbps_sw", None, "buffersize_seq", "filesize_write"),
    ("rand_read", "avg_mbps_rr", "avg_iops_rr", "buffersize_rnd", "filesize_read"),
    ("rand_write", "avg_mbps_rw", "avg_iops_rw", "buffersize_rnd", "filesize_write"),
)
"""For each test, the columns of its rates, of the size of a record in KB, and of its file size in MB."""

_OF_SQLITE: Final = {f"sqlite_{name}": f"perf_sqlite_{name}" for name in ("insert", "update", "delete")}

_DATABASE: Final = b"SQLite format 3\0"
_MOST_ROWS: Final = 100_000
_MOST_BYTES_OF_ROW: Final = 1 << 12
"""A row has some hundred bytes. In a forged database any number of rows may share the same pages."""

_ROW: Final = re.compile(r"(?m)^\d+([|,])\"?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\"?\1.*\1\"?(?:Yes\(Purge\)|No)\"?\1")
_NUMBER: Final = r"(?<![\d.,])(\d+(?:\.\d+)?)"
_FILE_LINE: Final = re.compile(
    rf"(?i)^\W*(seq(?:uential|\.)?|rand(?:om|\.)?) +(read|write)\b\D*?{_NUMBER} *MB/s"
    rf"(?:, *{_NUMBER} *IOPS *\((\d+) *KB\))?\W*$"
)
_SQLITE_LINE: Final = re.compile(
    rf"(?i)^\W*SQLite +(insert|update|delete)\b\D*?{_NUMBER} *TPS(?:, *\d+(?:\.\d+)? *sec)?\W*$"
)
_RATE: Final = re.compile(r"(?i)\d *(?:MB/s|TPS)\b")
_SIGNS: Final = re.compile(r"(?i)\bAndroBench\b|\d *MB/s, *[\d.,]+ *IOPS *\(\d+ *KB\)|\bSQLite +insert\b.*\d *TPS\b")
"""Text that only AndroBench prints. Other disk benchmarks print MB/s of 1000 · 1000 B."""


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is from AndroBench."""
    if head.startswith(_DATABASE):
        return b"avg_mbps_sr" in head
    text = head[: 1 << 12].decode("utf-8", "replace")
    if "avg_mbps_sr" in text.partition("\n")[0] or _ROW.match(text):
        return True
    return _SIGNS.search(text) is not None and any(_line(line) for line in text.splitlines())


def read(text: str, origin: bytes) -> Results:
    """Return the results in `text`, or in `origin` if that is a database. Each test is a run."""
    losses: list[Loss] = []
    if origin.startswith(_DATABASE):
        found = [run for row in _rows_of_database(origin) for run in _runs(row)]
    elif "avg_mbps_sr" in text.partition("\n")[0] or _ROW.match(text):
        found = [run for row in _rows_of_text(text) for run in _runs(row)]
    else:
        lines = text.splitlines()
        found = [run for line in lines if (run := _line(line)) is not None]
        strange = [line for line in lines if _RATE.search(line) and _line(line) is None]
        if strange:
            message = f"{len(strange)} lines of AndroBench are unknown: “{printable(strange[0].strip()[:60])}”"
            losses.append(Loss("unreadable", len(strange), message))
    if not found:
        raise InputError("contains no results of AndroBench; give history.db, its rows or the text of the screen")
    runs = [run | {"run_id": name} for (run, _), name in zip(found, names(origin), strict=False)]
    return foreign("AndroBench results", runs, [[part] for _, part in found], tuple(losses))


def _rows_of_database(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of table history. A database in WAL mode is read without its log."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data[:18] + b"\1\1" + data[20:])
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES_OF_ROW)
        try:
            database.execute("PRAGMA trusted_schema = OFF")
            kinds = database.execute("SELECT type FROM sqlite_master WHERE name = 'history'").fetchall()
            if kinds != [("table",)]:
                raise InputError("this database has no table history of AndroBench")
            rows = database.execute("SELECT * FROM history")
            columns = [column[0] for column in rows.description]
            for row in itertools.islice(rows, _MOST_ROWS):
                yield dict(zip(columns, row, strict=True))
        except sqlite3.Error as error:
            raise InputError(f"a damaged database ({printable(str(error))}); copy history.db again") from None


def _rows_of_text(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows that sqlite3 printed, with or without a header."""
    first = text.partition("\n")[0]
    rows = csv.reader(text.splitlines(), delimiter="|" if "|" in first else ",")
    columns = list(_COLUMNS)
    for row in rows:
        if "avg_mbps_sr" in row:
            columns = [name.strip() for name in row]
        elif len(row) in (len(columns), len(columns) - 2):
            yield dict(zip(columns, row, strict=False))
        elif row:
            raise ValueError(f"a row of {len(row)} columns")


def _runs(row: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Part]]:
    """Yield the tests of a row of table history that have a result."""
    target = re.fullmatch(r"(.*?)(?: \(([^,()]*),[^()]*\))?", str(row.get("target", "")))
    filesystem = target[2].strip() if target is not None and target[2] else None
    machine = {
        "directory": None if target is None else target[1] or None,
        "fs_type": None if filesystem in (None, "-", "unknown") else filesystem,
    }
    for test, rate, ops, record, size in _OF_FILES:
        mbps = _value(row, rate)
        if not mbps:
            continue
        record_bytes = int(_value(row, record)) << 10
        file_mb = _value(row, "one_filesize") or _value(row, size)
        iops = _value(row, ops) if ops else mbps * (1 << 20) / record_bytes if record_bytes else None
        known = {
            "threads": max(1, int(_value(row, "num_thread"))),
            "block_bytes": record_bytes or None,
            "file_bytes": int(file_mb) << 20 or None,
            "sync_mode": "buffered" if str(row.get("use_buffer", "")).startswith("Yes") else None,
        }
        yield _file_run(test, mbps, iops, machine | known)
    for test, rate in _OF_SQLITE.items():
        if tps := _value(row, rate):
            yield _sqlite_run(test, tps, machine)


def _value(row: Mapping[str, Any], name: str) -> Decimal:
    """Return a number of a row; 0 if it is missing."""
    text = str(row.get(name) or 0)
    value = Decimal(text) if re.fullmatch(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", text) else None
    if value is None or value > 1 << 40:
        raise ValueError(f"{name} is {text!r}")
    return value


def _line(line: str) -> tuple[dict[str, Any], Part] | None:
    """Return the test in a line of the screen; None if there is none."""
    if found := _FILE_LINE.match(line):
        test = f"{found[1][:4].lower().strip('.').replace('sequ', 'seq')}_{found[2].lower()}"
        iops = None if found[4] is None else Decimal(found[4])
        return _file_run(test, Decimal(found[3]), iops, {"block_bytes": int(found[5]) << 10 if found[5] else None})
    if found := _SQLITE_LINE.match(line):
        return _sqlite_run(f"sqlite_{found[1].lower()}", Decimal(found[2]), {})
    return None


_TOOL: Final = {"tool": "androbench", "threads": 1, "valid": True}


def _file_run(test: str, mbps: Decimal, iops: Decimal | None, known: dict[str, Any]) -> tuple[dict[str, Any], Part]:
    rates = {
        "stated_ops_rate": None if iops is None else round(iops * 1000),
        "stated_bytes_rate": round(mbps * (1 << 20)),
    }
    return {**_TOOL, "workload": "file", "test": test, **known}, Part("op", known=rates)


def _sqlite_run(test: str, tps: Decimal, known: dict[str, Any]) -> tuple[dict[str, Any], Part]:
    return {**_TOOL, "workload": "sqlite", "test": test, "engine": "sqlite", **known}, Part(
        "op", known={"stated_ops_rate": round(tps * 1000)}
    )
