"""Read a listing that adb's shell made of a phone without root (device/record/shell_listing.py).

The first line is `MAGIC` and a random token. Each record begins on a new line with the token:

| record | fields |
|---|---|
| `clock`, `end` | CLOCK_REALTIME, and the contents of /proc/uptime, when the listing began and ended |
| `mounts` | /proc/self/mountinfo, from the next line on |
| `filesystem` | st_dev and block size of /data |
| `file` | st_dev, inode, st_mode in hexadecimal, size, time of the last change in UTC, path |

The result has the records of extmap's listings, without extents, generations and times of creation. Only files whose
device is that of /data are kept: elsewhere the number is not known to be that of the traced inode.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis.common.errors import InputError, Loss
from androstep_analysis.fs import fiemap
from androstep_analysis.ingest import source
from androstep_analysis.ingest.record import Records

MAGIC = "androstep shell listing 1"

_NS = 1_000_000_000
_CLOCK = r"([0-9]{1,10})\.([0-9]{1,9}) ([0-9]{1,9})\.([0-9]{1,9})\b"
_FILE = (
    r"(?s)^file (?<st_dev>[0-9]{1,18}) (?<ino>[0-9]{1,18}) (?<mode>[0-9a-f]{1,8}) (?<size_bytes>[0-9]{1,18})"
    r" (?<changed>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{9}) \+0000 (?<path>/.*)$"
)
_UNMOUNTED = "files whose place on /data is unknown are not used"


def is_one(path: Path) -> bool:
    """Return whether a file, plain or compressed, begins like a listing of adb's shell."""
    return source.head(path).startswith(MAGIC.encode())


def read(path: Path) -> Records:
    """Return a listing as records of extmap (`fiemap.listings`).

    Raises
    ------
    InputError
        If the file is damaged in its first records. If it is truncated later, the rest is returned with a loss.
    """
    loaded = source.load(path)
    text = loaded.data.decode(errors="backslashreplace")
    losses = list(loaded.losses)
    token = text.partition("\n")[0].rpartition(" ")[2]
    first, *records = text.removesuffix("\n").split(f"\n{token} ")
    if not first.startswith(MAGIC) or not re.fullmatch(r"[0-9a-f]{32}", token, re.ASCII):
        raise InputError(f"{path}: not a listing of adb's shell, which begins with {MAGIC!r}")
    by_kind = {record.split(maxsplit=1)[0]: record for record in reversed(records) if record[:1].isalpha()}
    begin = _clock(by_kind.get("clock", ""))
    filesystem = re.fullmatch(r"filesystem ([0-9]{1,10}) ([1-9][0-9]{2,8})", by_kind.get("filesystem", ""), re.ASCII)
    if begin is None or filesystem is None:
        raise InputError(f"{path}: damaged: it lacks the clock or the filesystem; record again, or leave it out")
    end = _clock(by_kind.get("end", "")) or begin
    if "end" not in by_kind:
        losses.append(Loss("truncated", 1, "the listing of files ends early; the names of further files are missing"))
        records = records[:-1]
    st_dev = int(filesystem[1])
    dev = os.major(st_dev) << 20 | os.minor(st_dev)
    mounts = _mounts(by_kind.get("mounts", ""), f"{os.major(st_dev)}:{os.minor(st_dev)}")
    listed = pl.Series("record", records, pl.String)
    listed = listed.filter(listed.str.starts_with("file "))
    rows = listed.str.extract_groups(_FILE).struct.unnest()
    path_below = _from_root(pl.col("path"), mounts)
    own = rows.filter(pl.col("st_dev") == filesystem[1]).with_columns(path=path_below)
    placed = own.drop_nulls("path")
    if unused := listed.len() - placed.height:
        losses.append(Loss("unplaced", unused, f"{unused} {_UNMOUNTED}"))
    files = placed.with_columns(
        pl.col("ino", "size_bytes").cast(pl.Int64),
        pl.col("mode").str.to_integer(base=16, dtype=pl.Int64),
        changed_ns=pl.col("changed")
        .str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
        .cast(pl.Int64),
        dev=dev,
        listed_ns=end[1],
        attributes=0,
    )
    about = pl.DataFrame(
        {"dev": dev, "fs_type": next(iter(mounts))[2] if mounts else None, "block_bytes": int(filesystem[2])}
    ).with_columns(listed_ns=begin[1])
    tables = {"filesystem": about, "file": files.unique(["ino", "path"], maintain_order=True)}
    header = {"realtime_offset_ns": begin[0] - begin[1], "monotonic_offset_ns": None, "is_whole": False}
    return Records(header, fiemap.completed(tables), tuple(losses), complete="end" in by_kind)


def _clock(record: str) -> tuple[int, int] | None:
    """Return CLOCK_REALTIME and CLOCK_BOOTTIME in ns."""
    found = re.match(rf"[a-z]+ {_CLOCK}", record, re.ASCII)
    if found is None:
        return None
    real, boot = (int(found[n]) * _NS + int(found[n + 1].ljust(9, "0")) for n in (1, 3))
    return real, boot


def _mounts(record: str, device: str) -> list[tuple[str, str, str]]:
    """Return the mounts of a device, the innermost first: mount point, the directory mounted there, type (proc(5))."""
    found: list[tuple[str, str, str]] = []
    for line in record.split("\n")[1:]:
        words = line.split(" ")
        if len(words) > 6 and words[2] == device and "-" in words[6:-1]:
            root, point = (_unescaped(word).rstrip("/") for word in words[3:5])
            found.insert(0, (point, root, words[words.index("-", 6) + 1]))  # the last of several at one place counts
    return sorted(found, key=lambda mount: len(mount[0]), reverse=True)


def _unescaped(text: str) -> str:
    r"""Decode octal escapes such as ``\040``."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), text)


def _from_root(path: pl.Expr, mounts: list[tuple[str, str, str]]) -> pl.Expr:
    """Return paths from the root of the filesystem; null if a path is below no mount."""
    parts: list[Any] = [
        pl.when((path + "/").str.starts_with(f"{point}/")).then(pl.lit(root) + path.str.slice(len(point)))
        for point, root, _ in mounts
    ]
    return pl.coalesce(*parts, pl.lit(None, pl.String)).replace("", "/")
