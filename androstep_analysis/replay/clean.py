"""The trace cleaner: it reduces traced system calls to the file operations that can be replayed in an empty directory.

Calls are processed in the order in which they begin. Their effects on names and descriptor numbers count from their end
(for close from its begin), because no other thread can rely on them before. If calls of several threads overlap on one
open file, their file offsets are unknown and stay null, but the offset after them is known. If their results show in
which order they accessed a name, they are put in that order (``replay/overlaps.py``).

- The file of a path follows from all calls that create, rename, link and remove names. Symbolic links are followed if
  symlink or readlink recorded their target. If the recording has the file of a descriptor (strace -y), it takes
  precedence.
- A descriptor refers to a file if a call for files made it, if the recording says so, or if a call succeeded that works
  on files only (lseek, pread, ftruncate, getdents, mmap, …). Calls on other descriptors are left out, and
  counted by kind.
- A file that was used and not created existed at the start. For a file that open with O_CREAT created or found, this
  requires evidence: its size or contents before the first write, or an earlier call that found it.
- Files that appear or disappear between recorded calls are created (with the size that later reads and stats show) or
  removed by inserted operations, and counted. If a call failed for no recorded reason, its file did not exist.
- Calls that change names and failed for lack of permission or space, or for no recorded reason, are left out: in an
  empty directory of one's own they would succeed.
- ``/dev/shm`` is memory. Nothing in ``/dev``, ``/proc`` and ``/sys`` is a file. chroot and mounts are not followed.

In logs without times, calls are 1 µs apart.
"""

from __future__ import annotations

import ctypes
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.native import Strings, Table
from androstep_analysis.native import library as _library
from androstep_analysis.replay import overlaps
from androstep_analysis.replay.program import PATH_BYTES, Program
from androstep_analysis.replay.words import FLAGS, REQUESTS

REASONS = (
    *("socket", "pipe", "eventfd/anon", "memfd", "ashmem", "device", "proc/sys", "memory", "unknown descriptor"),
    *("unknown path", "process", "unsupported call", "no effect on files", "unfinished", "filtered"),
)
"""Reasons to leave out rows, in the order of ``enum left`` of native/calls/left.h, which begins with: not left out."""

UNNAMED = ".unnamed"
"""Directory of files without a known name."""

STEP_NS = 1000
"""Time from one call to the next in logs without times."""

_NO_CODE = (1 << 8) - 1
_NO_STRING = (1 << 32) - 1
_NO_INT32 = -(1 << 31)
_NO_INT64 = -(1 << 63)
_NO_TID = -1

_ON_FILES = (
    *("close", "read", "write", "pread64", "pwrite64", "lseek", "_llseek", "fsync", "fdatasync", "mmap", "mmap2"),
    *("mapped_pread", "mapped_pwrite"),
)
"""Calls on descriptors in a recording that names files instead of descriptors (ioshark)."""

_PATHS = ("path", "path2", "fd_path", "fd2_path", "result_path")
_LAST_ERRNO = 4095
"""Results from minus this value on are errors (linux/err.h, MAX_ERRNO)."""

_TRANSFERS = (
    r"^(?:(?:mapped_)?p?(?:read|write)(?:v2?|64)?|send(?:to|m?msg|file|file64)?|recv(?:from|m?msg)?"
    r"|splice|copy_file_range)$"
)
"""Calls that return a number of bytes."""


@dataclass(frozen=True, repr=False)
class Cleaned:
    """The result of cleaning table `syscalls`.

    Attributes
    ----------
    program : Program
        The remaining operations.
    left_out : polars.DataFrame
        Columns reason (String, one of `REASONS`), call (String, as recorded), count (Int64, rows), bytes (Int64, moved
        by them). The number of rows of `syscalls` is the number of operations that are not inserted plus the sum of
        count.
    conflicts : int
        The number of contradictions in the recorded calls. A file exists after its removal, or is missing without a
        removal (inserted operations create or remove it), or a descriptor number is opened while it is open.
    """

    program: Program
    left_out: pl.DataFrame
    conflicts: int

    def __repr__(self) -> str:
        return f"<Cleaned: {self.program!r}, {self.left_out['count'].sum()} rows left out, {self.conflicts} conflicts>"


_SMALLEST_PAGE = 4096


class _CInput(ctypes.Structure):
    """``struct calls_input`` of native/calls/input.h."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("ts_ns", "duration_ns", "tid", "pid", "call", "state", "fd_kind", "failed", "fd", "fd2"),
                *("request", "mode", "path", "path2", "fd_path", "fd2_path", "result_path", "dev", "flags"),
                *("offset_bytes", "offset2_bytes", "bytes", "address", "ino", "size", "result"),
                *("text", "text_starts"),
            )
        ),
        ("nr_texts", ctypes.c_size_t),
        ("page_bytes", ctypes.c_uint64),
    )


class _CCounts(ctypes.Structure):
    """``struct calls_counts`` of native/calls/output.h."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("operations", "files", "threads")),
        ("conflicts", ctypes.c_uint64),
        ("unnamed", ctypes.c_uint32),
    )


def clean(
    syscalls: pl.DataFrame | pl.LazyFrame,
    tasks: pl.DataFrame | pl.LazyFrame,
    *,
    processes: Sequence[int] | None = None,
    unknown: Literal["leave out", "files"] = "leave out",
    page_bytes: int | None = None,
) -> Cleaned:
    """Return the program of table `syscalls`: the file operations of the traced threads, made replayable.

    Parameters
    ----------
    syscalls : DataFrame or LazyFrame
        Table `syscalls`, in order of time. If no row has a time, calls are 1 µs apart.
    tasks : DataFrame or LazyFrame
        Table `tasks`: the processes and names of threads.
    processes : sequence of int, optional
        Keep only the operations of these processes; by default of all. The effects of other processes on names and
        descriptors are still tracked. If a kept process depends on their open or dup, it is inserted.
    unknown : {"leave out", "files"}
        How to treat descriptors of unknown kind: leave them out, or make each a file ``.unnamed/N``.
    page_bytes : int, optional
        Mappings are whole pages of this size; by default 4096, the smallest page size.

    Returns
    -------
    Cleaned
        The program, and the rows that were left out.

    Raises
    ------
    InputError
        If rows are not in order of time, only some have times, or they are too far apart; or if `processes` is empty.
    ValueError
        If `unknown` has another value.

    Notes
    -----
    The head of ``replay/clean.py`` has the rules for the kinds of descriptors, the files at the start, and inserted
    operations.

    References
    ----------
    Jeong et al., Future Internet 5(4), 2013, Figure 5 (trace cleaner).

    Examples
    --------
    >>> recording = androstep.open("datasets/replay/app.strace.xz")
    >>> replay.clean(recording.syscalls, recording.tables["tasks"])
    <Cleaned: <Program: 841 operations of 7 threads, 1 files and directories at the start, 4.410 s>, 856 rows left out,
    0 conflicts>
    """
    if unknown not in ("leave out", "files"):
        raise ValueError(f"unknown: {unknown!r} is neither 'leave out' nor 'files'")
    rows, known = _with_descriptors(_timed(syscalls.lazy().collect())), tasks.lazy().collect()
    columns = _columns(rows, known)
    reasons = np.zeros(rows.height, np.uint8)
    strings = Strings()
    pids = np.array(sorted(set(processes or ())), np.int32)
    if processes is not None and not len(pids):
        raise InputError("processes is empty; omit it to include all")
    c_input, texts = _input(rows, columns)
    c_input.page_bytes = page_bytes or _SMALLEST_PAGE
    state = _library().calls_clean(
        ctypes.byref(c_input), strings.handle, reasons.ctypes.data, pids.ctypes.data, len(pids), unknown == "files"
    )
    if not state:
        raise MemoryError
    try:
        operations, files, threads, conflicts = _tables(state, strings)
    finally:
        _library().calls_free(state)
        texts.clear()
    end = operations.select((pl.col("ts_ns") + pl.col("duration_ns").fill_null(0).clip(0, 1 << 62)).max()).item()
    populated = _populated(files)
    operations = overlaps.settled(operations, populated["path"])
    if processes is not None:
        populated = _used(populated, operations)
    program = Program.make(operations, populated, _named(threads, known), int(end or 0))
    return Cleaned(program, _left_out(rows, reasons), conflicts)


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return `rows` with a time in each."""
    if rows["ts_ns"].null_count() == rows.height:
        return rows.with_columns(ts_ns=pl.int_range(pl.len(), dtype=pl.Int64) * STEP_NS)
    times = rows["ts_ns"]
    if times.null_count():
        raise InputError("syscalls: some rows have no time; give times to all, or to none")
    if not times.is_sorted():
        raise InputError("syscalls: rows are not in order of time; sort them by ts_ns")
    if rows.height and int(times[-1]) - int(times[0]) >= 1 << 62:
        raise InputError("syscalls: times are more than 146 years apart; split the recording")
    return rows


def _with_descriptors(rows: pl.DataFrame) -> pl.DataFrame:
    """Return `rows` with a descriptor for each file of a thread, if calls name files instead (ioshark)."""
    names_files = pl.col("fd").is_null() & pl.col("path").is_not_null() & pl.col("call").is_in(_ON_FILES)
    if not rows.select(names_files.any()).item():
        return rows
    is_open = pl.col("call") == "open"
    named = names_files | is_open
    path = "/" + pl.col("path")
    return rows.with_columns(
        fd=pl.when(named).then(pl.col("path").rank("dense").over("tid").cast(pl.Int32)).otherwise("fd"),
        path=pl.when(is_open).then(path).when(~named).then("path"),
        fd_path=pl.when(names_files).then(path).otherwise("fd_path"),
    )


def _columns(rows: pl.DataFrame, tasks: pl.DataFrame) -> dict[str, npt.NDArray[np.generic]]:
    """Return the columns of ``struct calls_input`` except the texts."""
    failed = pl.col("error").is_not_null() | pl.col("result").is_between(-_LAST_ERRNO, -1)
    is_known = failed | pl.col("result").is_not_null()
    prepared = rows.select(
        *(_filled(name, pl.Int64, _NO_INT64) for name in ("ts_ns", "duration_ns", "bytes", "address", "ino", "size")),
        *(_filled(name, pl.Int64, _NO_INT64) for name in ("offset_bytes", "offset2_bytes", "result")),
        *(_filled(name, pl.Int32, _NO_INT32) for name in ("fd", "fd2", "mode")),
        _filled("tid", pl.Int32, _NO_TID),
        _filled("dev", pl.UInt32, _NO_STRING),
        pl.col("state").to_physical().cast(pl.UInt8),
        pl.col("fd_kind").to_physical().cast(pl.UInt8).fill_null(_NO_CODE),
        pl.when(is_known).then(failed.cast(pl.UInt8)).otherwise(_NO_CODE).cast(pl.UInt8).alias("failed"),
    )
    columns = {name: prepared[name].to_numpy() for name in prepared.columns}
    columns["pid"] = _pids(rows, tasks)
    columns["call"] = _numbered(rows["call"], lambda name: _library().calls_number(name.encode()), np.uint8, _NO_CODE)
    columns["flags"] = _numbered(rows["flags"], FLAGS.number, np.int64, _NO_INT64)
    columns["request"] = _numbered(rows["request"], REQUESTS.number, np.int32, _NO_INT32)
    return {name: np.ascontiguousarray(values) for name, values in columns.items()}


def _filled(name: str, dtype: type[pl.DataType], none: int) -> pl.Expr:
    return pl.col(name).cast(dtype).fill_null(pl.lit(none, dtype))


def _numbered(
    texts: pl.Series, number: Callable[[str], int], dtype: type[np.generic], none: int
) -> npt.NDArray[np.generic]:
    """Return `number` of each text. It is called once for each distinct text."""
    words = texts.drop_nulls().unique().sort()
    numbers = np.array([*map(number, words), none], dtype)
    return numbers[_codes(texts, words, len(words))]


def _codes(texts: pl.Series, words: pl.Series, none: int) -> npt.NDArray[np.uint32]:
    """Return the index of each text in `words`."""
    codes = texts.cast(pl.Enum(words)).to_physical().cast(pl.UInt32).fill_null(none)
    return np.ascontiguousarray(codes.to_numpy())


def _pids(rows: pl.DataFrame, tasks: pl.DataFrame) -> npt.NDArray[np.generic]:
    """Return the process of each row, from the row or from its thread in table `tasks`."""
    known = tasks.drop_nulls(["pid", "tid"]).group_by("tid").agg(pl.col("pid").unique())
    of_threads = known.filter(pl.col("pid").list.len() == 1)
    pids = of_threads.select(pl.col("tid").cast(pl.Int32), known=pl.col("pid").list.first().cast(pl.Int32))
    joined = rows.select("tid", "pid").join(pids, on="tid", how="left", maintain_order="left")
    return joined.select(pl.coalesce("pid", "known").fill_null(pl.lit(_NO_INT32, pl.Int32)))["pid"].to_numpy()


def _input(rows: pl.DataFrame, columns: dict[str, npt.NDArray[np.generic]]) -> tuple[_CInput, list[object]]:
    """Return ``struct calls_input``, and the objects that must live as long as it does."""
    texts = pl.concat([rows[name].rename("text").unique() for name in _PATHS]).drop_nulls().unique().sort()
    columns |= {name: _codes(rows[name], texts, _NO_STRING) for name in _PATHS}
    letters = np.frombuffer("".join(texts).encode() or b"\0", np.uint8)
    starts = np.concatenate(([0], texts.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy())).astype(np.int64)
    c_input = _CInput(rows=rows.height, nr_texts=len(texts), text=letters.ctypes.data, text_starts=starts.ctypes.data)
    for name, values in columns.items():
        setattr(c_input, name, values.ctypes.data)
    return c_input, [letters, starts, columns]


def _tables(state: int, strings: Strings) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, int]:
    counts = _CCounts()
    _library().calls_count(state, ctypes.byref(counts))
    operations = Table("operations", counts.operations, strings)
    files = Table("replay_files", counts.files, strings)
    threads = Table("replay_threads", counts.threads, strings)
    if not _library().calls_tables(state, operations.pointer, files.pointer, threads.pointer):
        raise MemoryError
    # conflicts with the files at the start are found while the tables are made
    _library().calls_count(state, ctypes.byref(counts))
    tables = [
        schema.conform(pl.DataFrame(table.arrow()).cast(schema.table(name).polars), name)
        for name, table in (("operations", operations), ("replay_files", files), ("replay_threads", threads))
    ]
    return tables[0], tables[1], tables[2], int(counts.conflicts)


def _populated(files: pl.DataFrame) -> pl.DataFrame:
    """Return table `replay_files` with each path once, as first seen, and directories before their contents."""
    once = files.filter(pl.col("path").str.len_bytes() <= PATH_BYTES).unique("path", keep="first", maintain_order=True)
    unnamed = once.filter(pl.col("path").str.starts_with(f"{UNNAMED}/"))
    if unnamed.height:  # a recorded file of that name must not prevent the directory
        once = once.filter((pl.col("path") != UNNAMED) | (pl.col("inode_type") == "directory"))
    if unnamed.height and UNNAMED not in once["path"]:
        inode_type = pl.Series("inode_type", ["directory"], schema.enum("replay_files", "inode_type"))
        directory = pl.DataFrame({"path": [UNNAMED], "inode_type": inode_type})
        once = pl.concat([once, schema.complete(directory, "replay_files")])
    while True:  # a path below a file cannot be created: two files were seen at its parent path
        directories = once.filter(pl.col("inode_type") == "directory")["path"]
        parent = pl.col("path").str.extract(r"(?s)^(.*)/[^/]*$")
        with_parents = once.filter(parent.is_null() | parent.is_in(directories.implode()))
        if with_parents.height == once.height:
            return with_parents.sort("path")
        once = with_parents


def _used(files: pl.DataFrame, operations: pl.DataFrame) -> pl.DataFrame:
    """Return `files` without directories that contain no path of `operations` and no other file."""
    links = files.filter(pl.col("inode_type") == "symlink").select("path", "target").iter_rows()
    led_to = [posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target))[1:] for path, target in links]
    others = files.filter(pl.col("inode_type") != "directory")["path"]
    named = pl.concat([others, operations["path"], operations["path2"]]).drop_nulls().unique()
    used: set[str] = set()
    for path in (*named, *led_to):
        while path and path not in used:
            used.add(path)
            path = posixpath.dirname(path)
    return files.filter((pl.col("inode_type") != "directory") | pl.col("path").is_in(list(used)))


def _named(threads: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return table `replay_threads` with the last name of each thread."""
    names = tasks.drop_nulls("comm").unique("tid", keep="last", maintain_order=True).select("tid", name="comm")
    named = threads.with_columns(tid=pl.when(pl.col("tid") != _NO_TID).then("tid"))
    named = named.join(names, on="tid", how="left", maintain_order="left")
    named = named.with_columns(comm=pl.coalesce("comm", "name"))
    return named.drop("name").sort("thread")


def _left_out(rows: pl.DataFrame, reasons: npt.NDArray[np.uint8]) -> pl.DataFrame:
    moved = pl.when(pl.col("call").str.contains(_TRANSFERS)).then(pl.col("result").clip(0)).fill_null(0)
    numbers = pl.Series("reason", reasons)
    counted = (
        rows.select("call", moved.alias("bytes"))
        .with_columns(numbers)
        .filter(pl.col("reason") > 0)
        .group_by("reason", "call")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("bytes").sum())
        .sort("reason", "call")
    )
    names = pl.col("reason").replace_strict(range(1, len(REASONS) + 1), REASONS, return_dtype=pl.String)
    return counted.select(names, "call", "count", "bytes")
