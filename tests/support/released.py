"""Shared helpers of the tests of releases: table rows with defaults, and captures with hostile names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import capture, schema
from support.tree import ROOT

CAPTURES = (
    ROOT / "datasets/demo",
    ROOT / "datasets/bench/f2fs_guest/modes.rec.xz",
    ROOT / "datasets/replay/ext4_disk/replay-0.rec.xz",
)
"""Captures of the repository with different tables."""

HOSTILE = {
    "device": "Pixel 6a; rm -rf /",
    "android_release": "13",
    "workload": "<b>../../étude</b> | `x` %2F *?[a] =1+1 über alle Maße lang " + "ü" * 60,
    "build_fingerprint": "google/bluejay/bluejay:13/TQ3A/geheim:user/release-keys",
    "kernel": "5.10.107-android13-4-00003-gdeadbeef",
    "storage_model": "KLUDG4UHGC-B0E1",
}

_APP = "/data/data/com.alice.diary"

_CALLS = (
    r'execve("/data/app/com.alice.diary/run", ["run", "--for", "alice@example.org"], 0x7f) = 0',
    rf'openat(AT_FDCWD, "{_APP}/databases/geheim.db", O_RDWR|O_CREAT, 0600) = 3',
    rf'openat(AT_FDCWD, "{_APP}/files/\377\376na\303\257ve.jpg", O_RDWR) = 4',
    rf'openat(AT_FDCWD, "{_APP}/files/../=HYPERLINK(\"http://x\").db-wal", O_RDWR) = 5',
    r'openat(AT_FDCWD, "/sdcard/DCIM/Camera/IMG_20240229_urlaub.jpg", O_RDONLY) = 6',
    r'openat(AT_FDCWD, "/data/data/com.bob/tm", O_RDONLY) = -1 ENOENT (No such file or directory)',
    r'pwrite64(3, "x"..., 4096, 0) = 4096',
    rf'rename("{_APP}/files/a", "{_APP}/files/<script>.xml") = 0',
)

STRACE = "".join(f"1234 1700000000.{number:06} {call} <0.000010>\n" for number, call in enumerate(_CALLS, 100))


def hostile_capture(directory: Path) -> Path:
    """Make a capture of system calls with private names and names that try to break something."""
    log = directory / "alice-phone.strace"
    log.write_text(STRACE, encoding="utf-8")
    made = directory / "hostile"
    capture.create([log], made, capture.Description(facts=HOSTILE))
    return made


def rows(name: str, given: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Complete rows of table `name`; missing values are null, or empty if null is not allowed."""
    columns = schema.table(name).columns
    empty = {c.name: None if c.nullable else _nothing(c) for c in columns}
    return schema.conform(pl.DataFrame([empty | row for row in given], schema=schema.table(name).polars), name)


def _nothing(column: schema.Column) -> Any:
    if column.dtype == "enum":
        return column.values[0]
    return {"string": "", "bool": False, "list<string>": []}.get(column.dtype, 0)


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file of a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
