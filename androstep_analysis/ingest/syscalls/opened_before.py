"""Describe the files that processes had open when the recording of their calls began, as rows of table `syscalls`.

iotrace lists open files before it records. Each row is the return of a call before the recording (state `resumed`):

- openat for a descriptor, regardless of the call that created it, with the flags from /proc/PID/fdinfo;
- lseek for a file with a position other than 0;
- chdir for the working directory.

If a file is open more than once, it is unknown which descriptors share a position. No lseek is then reported.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence

import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.ingest.syscalls import words

TABLE = "descriptor"
"""The records of before.rec that list open files."""

_WORKING_DIRECTORY = -100
_CLOEXEC = 0o2000000
_TYPE_BITS = 0o170000
_DELETED = " (deleted)"


def rows(listed: pl.DataFrame, machine: str | None, recorder: int | None, command: int | None) -> pl.DataFrame:
    """Return rows of `syscalls` without times for the records `listed`.

    The openat of a descriptor precedes its other rows.

    The recorded command (process `command`) was started by the `recorder`. It inherits the open files of the recorder,
    except those that exec closes.
    """
    inherited = listed.filter(pl.col("pid").eq_missing(recorder), (pl.col("flags").fill_null(0) & _CLOEXEC) == 0)
    own = listed.filter(pl.col("pid").ne_missing(recorder), pl.col("pid").ne_missing(command))
    descriptors = pl.concat([inherited.with_columns(pid=pl.lit(command, pl.Int32)), own]).drop_nulls(
        ["pid", "fd", "path"]
    )
    is_file = pl.col("fd") >= 0
    texts = {flags: _text(flags, machine) for flags in descriptors["flags"].drop_nulls().unique()}
    flags = pl.col("flags").replace_strict(texts, default=None, return_dtype=pl.String)
    path = pl.when(~pl.col("path").str.ends_with(_DELETED)).then("path")
    opened = descriptors.filter(is_file).select(
        "pid", "mode", "dev", "ino", call=pl.lit("openat"), result=pl.col("fd"), result_path=path, flags=flags
    )
    is_alone = ((pl.col("mode") & _TYPE_BITS) == stat.S_IFREG) & ~pl.struct("dev", "ino").is_duplicated()
    positions = descriptors.filter(is_file, pl.col("position") > 0, is_alone).select(
        "pid", "fd", call=pl.lit("lseek"), result=pl.col("position"), request=pl.lit("SEEK_SET")
    )
    working_directories = descriptors.filter(pl.col("fd") == _WORKING_DIRECTORY).select(
        "pid", "path", call=pl.lit("chdir"), result=pl.lit(0, pl.Int64)
    )
    types = schema.table("syscalls").polars
    parts = [
        part.cast({name: types[name] for name in part.columns}) for part in (opened, positions, working_directories)
    ]
    all_rows = pl.concat(parts, how="diagonal").with_columns(
        tid=pl.col("pid"), state=pl.lit("resumed").cast(types["state"])
    )
    return schema.complete(all_rows, "syscalls")


def of_processes(opened: pl.DataFrame, pids: Sequence[int], ts_ns: int) -> pl.DataFrame:
    """Return the rows of `opened` that belong to these processes, at the given time."""
    return opened.filter(pl.col("pid").is_in(pids)).with_columns(ts_ns=pl.lit(ts_ns, pl.Int64))


def _text(flags: int, machine: str | None) -> str:
    """Return the flags of an open file as words joined with ``|``. Bits without a word are appended as a number."""
    named: list[str] = []
    rest = flags
    for word in words.words("open", machine):
        if rest & word.mask == word.value and (word.value or not named):
            named.append(word.name)
            rest &= ~word.mask
    return "|".join([*named, *([hex(rest)] if rest else [])])
