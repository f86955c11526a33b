"""Read the workloads of AOSP's ioshark (``*.wl``): the file operations of one thread, compiled from a strace log.

A workload is a header, a table of files with their initial sizes, and a table of operations (system/extras,
ioshark/ioshark.h). There are three layouts:

- 2017-01: C structs as on x86-64, little-endian, with 16 bytes per file.
- 2017-03: the same with 24 bytes per file, including the index of its name.
- Version 2, 2018: packed 64-bit numbers in network byte order.

Each thread has a workload, which is named after it. Given any of them, all workloads in the directory are read.

`delta_us` counts from the start of the whole recording, although its comment says from the previous operation
(compile_ioshark.c, ``get_delta_ts``). Files have only numbers and get the names that ioshark_bench gives them. If the
name table ``ioshark_filenames`` is in the directory, they get their original names. Results are not recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import schema
from androstep_analysis.common.errors import Loss
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

_CALLS = (
    "lseek",
    "_llseek",
    "pread64",
    "pwrite64",
    "read",
    "write",
    "mmap",
    "mmap2",
    "open",
    "fsync",
    "fdatasync",
    "close",
    "mapped_pread",
    "mapped_pwrite",
)
"""enum file_op, by number. The last two are accesses to mapped memory, derived from page faults."""

_SEEKS = (0, 1)
_WITH_OFFSET = (2, 3, 6, 7, 12, 13)
_STREAMS = (4, 5)
_MAPS = (6, 7)
_OPEN = 8

_WHENCES = ("SEEK_SET", "SEEK_CUR", "SEEK_END")
_PROTECTIONS = {0x1: "PROT_READ", 0x2: "PROT_WRITE"}
_OPEN_FLAGS = {
    0o100: "O_CREAT",
    0o200: "O_EXCL",
    0o400: "O_NOCTTY",
    0o1000: "O_TRUNC",
    0o2000: "O_APPEND",
    0o4000: "O_NONBLOCK",
    0o40000: "O_DIRECT",
    0o100000: "O_LARGEFILE",
    0o200000: "O_DIRECTORY",
    0o400000: "O_NOFOLLOW",
    0o1000000: "O_NOATIME",
    0o2000000: "O_CLOEXEC",
}
"""asm-generic/fcntl.h: workloads contain the numbers of the x86-64 host that compiled them."""

_SYNC, _DSYNC = 0o4010000, 0o10000
_ACCESS = ("O_RDONLY", "O_WRONLY", "O_RDWR")
_US_NS = 1000
_LATEST_US = (1 << 63) // _US_NS - 1

_NAMES = "ioshark_filenames"
_NAME_BYTES = 512
_WORKLOAD = re.compile(r"\.wl$")
_OF_THREAD = re.compile(r"\.(\d{1,7})\.wl$")


@dataclass(frozen=True)
class _Layout:
    """The binary layout of the three parts in one version."""

    header: np.dtype[np.void]
    file: np.dtype[np.void]
    operation: np.dtype[np.void]


def _struct(*fields: tuple[str, str]) -> np.dtype[np.void]:
    return np.dtype(list(fields))


_HOST_HEADER = _struct(("files", "<i4"), ("operations", "<i4"))
_HOST_OPERATION = _struct(
    ("us", "<u8"), ("call", "<i4"), ("file", "<i4"), ("first", "<i8"), ("second", "<i8"), ("third", "<i8")
)
_LAYOUTS = (
    _Layout(
        _struct(("version", ">u8"), ("files", ">u8"), ("operations", ">u8")),
        _struct(("file", ">u8"), ("size", ">u8"), ("name", ">u8")),
        _struct(("us", ">u8"), ("call", ">u4"), ("file", ">u8"), ("first", ">i8"), ("second", ">i8"), ("third", ">u4")),
    ),
    _Layout(_HOST_HEADER, _struct(("file", "<i4"), ("pad", "<i4"), ("size", "<u8")), _HOST_OPERATION),
    _Layout(
        _HOST_HEADER,
        _struct(("file", "<i4"), ("pad", "<i4"), ("size", "<u8"), ("name", "<i4"), ("pad2", "<i4")),
        _HOST_OPERATION,
    ),
)
"""The layouts, newest first."""


def sniff(head: bytes) -> bool:
    """Return whether `head` begins a workload."""
    return _layout(head) is not None


def _layout(head: bytes) -> _Layout | None:
    """Return the layout with which the files and the first operations are plausible."""
    return next((layout for layout in _LAYOUTS if _fits(head, layout)), None)


def _fits(head: bytes, layout: _Layout) -> bool:
    counts = _counts(head, layout)
    if counts is None:
        return False
    files, operations = counts
    table = _rows(head, layout.header.itemsize, layout.file, files)
    start = layout.header.itemsize + files * layout.file.itemsize
    first = _rows(head, start, layout.operation, operations)
    numbers = table["file"].astype(np.int64)
    pads = [table[name] for name in layout.file.names or () if name.startswith("pad")]
    return bool(
        len(table)
        and np.all((numbers >= 1) & (numbers <= files))
        and len(np.unique(numbers)) == len(numbers)
        and not any(pad.any() for pad in pads[:1])
        and np.all(first["call"].astype(np.int64) < len(_CALLS))
        and np.all(first["call"].astype(np.int64) >= 0)
        and np.all((first["file"].astype(np.int64) >= 1) & (first["file"].astype(np.int64) <= files))
    )


def _counts(head: bytes, layout: _Layout) -> tuple[int, int] | None:
    """Return the number of files and operations in the header; None if it is not a header."""
    if len(head) < layout.header.itemsize:
        return None
    header = np.frombuffer(head, layout.header, 1)[0]
    files, operations = int(header["files"]), int(header["operations"])
    is_plausible = 0 < files < 1 << 24 and 0 < operations < 1 << 31
    return (
        (files, operations)
        if is_plausible and ("version" not in (layout.header.names or ()) or header["version"] == 2)
        else None
    )


def _rows(data: bytes, start: int, dtype: np.dtype[np.void], count: int) -> npt.NDArray[np.void]:
    """Return up to `count` rows, as many as `data` holds."""
    available = max(0, min(count, (len(data) - start) // dtype.itemsize))
    return np.frombuffer(data, dtype, available, start) if available else np.empty(0, dtype)


def read(source: Source, spool: Spool) -> Staging:
    """Read all workloads in the directory as system calls. `events` counts them by call."""
    siblings = [name for name in source.siblings if _WORKLOAD.search(name) and name != source.path.name]
    loaded = [source, *(source.load_sibling(name) for name in sorted(siblings))]
    workloads = sorted((part for part in loaded if sniff(part.head)), key=lambda part: part.path.name)
    names = _names(source)
    events: Counter[str] = Counter()
    losses: list[Loss] = []
    spans: list[int] = []
    for workload in workloads:
        rows, lost = _read(workload, names)
        spool.append("syscalls", rows)
        counts = rows["call"].value_counts()
        events.update(dict(zip(counts["call"].to_list(), counts["count"].to_list(), strict=True)))
        losses += lost
        # In a damaged file, the first and the last row need not have the extreme times.
        spans += rows.select(pl.min("ts_ns"), pl.max("ts_ns").alias("last")).row(0) if rows.height else ()
    tids = [int(name[1]) for part in workloads if (name := _OF_THREAD.search(part.path.name))]
    return Staging(
        format="ioshark",
        events=dict(sorted(events.items())),
        first_ns=min(spans, default=None),
        last_ns=max(spans, default=None),
        tasks=schema.complete(_tasks(tids), "tasks"),
        clock="since the start",
        losses=tuple(losses),
    )


def _tasks(tids: list[int]) -> pl.DataFrame:
    kind = pl.lit("other", schema.enum("tasks", "kind")).alias("kind")
    return pl.DataFrame({"tid": tids}, {"tid": pl.Int32}).with_columns(kind)


def _names(source: Source) -> list[str]:
    """Return the names in the table of file names, if there is one in the directory."""
    if _NAMES not in source.siblings:
        return []
    data = source.load_sibling(_NAMES).data
    parts = (data[at : at + _NAME_BYTES].split(b"\0")[0] for at in range(0, len(data), _NAME_BYTES))
    return [part.decode(errors="backslashreplace") for part in parts]


def _read(source: Source, names: list[str]) -> tuple[pl.DataFrame, list[Loss]]:
    """Return table `syscalls` of one workload, and its losses."""
    layout = _layout(source.head)
    assert layout is not None  # it was sniffed
    data = source.data
    counts = _counts(data, layout)
    assert counts is not None
    files = _rows(data, layout.header.itemsize, layout.file, counts[0])
    start = layout.header.itemsize + counts[0] * layout.file.itemsize
    operations = _rows(data, start, layout.operation, counts[1])
    is_valid = (operations["call"].astype(np.int64) < len(_CALLS)) & (operations["us"] <= _LATEST_US)
    losses = []
    if len(operations) < counts[1]:
        missing = counts[1] - len(operations)
        losses.append(Loss("torn", missing, f"{missing} of {counts[1]} operations are missing at the end"))
    if not is_valid.all():
        unknown = int((~is_valid).sum())
        losses.append(Loss("unreadable", unknown, f"{unknown} operations have an invalid call number or time"))
    table = _table(operations[is_valid], np.flatnonzero(is_valid) + 1, _files(files, source, names))
    return table.with_columns(tid=pl.lit(_tid(source), pl.Int32)).pipe(schema.complete, "syscalls"), losses


def _tid(source: Source) -> int | None:
    name = _OF_THREAD.search(source.path.name)
    return int(name[1]) if name else None


def _files(files: npt.NDArray[np.void], source: Source, names: list[str]) -> pl.DataFrame:
    """Return number, path and size of each file in a workload."""
    stem = _WORKLOAD.sub("", source.path.name)
    numbers = files["file"].astype(np.int64).tolist()
    name_indexes = files["name"].astype(np.int64).tolist() if "name" in (files.dtype.names or ()) else [-1] * len(files)
    paths = [
        names[index] if 0 <= index < len(names) else f"{stem}/ioshark.{number}"
        for number, index in zip(numbers, name_indexes, strict=True)
    ]
    sizes = files["size"].astype(np.uint64).view(np.int64)
    return pl.DataFrame(
        {"file": numbers, "path": paths, "size": sizes}, {"file": pl.Int64, "path": pl.String, "size": pl.Int64}
    )


def _table(operations: npt.NDArray[np.void], lines: npt.NDArray[np.int64], files: pl.DataFrame) -> pl.DataFrame:
    raw = pl.DataFrame(
        {name: operations[name].astype(np.int64) for name in ("us", "call", "file", "first", "second", "third")}
    ).with_columns(line=pl.Series(lines, dtype=pl.Int64))
    number = pl.col("call")
    low, high = pl.col("first") % (1 << 32), pl.col("first") // (1 << 32)
    if operations.dtype["first"].byteorder == ">":
        low, high = high % (1 << 32), low  # two 32-bit numbers in file order
        whence, protection = pl.col("second") // (1 << 32), pl.col("third")
    else:
        whence, protection = pl.col("second") % (1 << 32), pl.col("third") % (1 << 32)
    request = (
        pl.when(number.is_in(_SEEKS))
        .then(whence.replace_strict(dict(enumerate(_WHENCES)), default=None, return_dtype=pl.String))
        .when(number.is_in(_MAPS))
        .then(_words(protection, _PROTECTIONS, "PROT_NONE"))
    )
    return raw.join(files, on="file", how="left", maintain_order="left").select(
        "line",
        "path",
        "size",
        ts_ns=pl.col("us") * _US_NS,
        call=number.replace_strict(dict(enumerate(_CALLS)), return_dtype=pl.String),
        state=pl.lit("whole", schema.enum("syscalls", "state")),
        offset_bytes=pl.when(number.is_in(_SEEKS + _WITH_OFFSET)).then("first"),
        bytes=pl.when(number.is_in(_WITH_OFFSET)).then("second").when(number.is_in(_STREAMS)).then("first"),
        request=request,
        flags=pl.when(number == _OPEN).then(_open_flags(low)),
        mode=pl.when((number == _OPEN) & (high < 1 << 16)).then(high).cast(pl.Int32),
    )


def _words(value: pl.Expr, names: dict[int, str], none: str) -> pl.Expr:
    """Return the names of the bits in `value`, joined by ``|``."""
    words = pl.concat_str(
        [pl.when(value // bit % 2 == 1).then(pl.lit(name)) for bit, name in names.items()],
        separator="|",
        ignore_nulls=True,
    )
    return pl.when(words == "").then(pl.lit(none)).otherwise(words)


def _open_flags(value: pl.Expr) -> pl.Expr:
    access = (value % 4).replace_strict(dict(enumerate(_ACCESS)), default="O_ACCMODE", return_dtype=pl.String)
    is_sync = value // _DSYNC % 2 == 1
    sync = (
        pl.when(is_sync & (value // (_SYNC - _DSYNC) % 2 == 1))
        .then(pl.lit("O_SYNC"))
        .when(is_sync)
        .then(pl.lit("O_DSYNC"))
    )
    words = [pl.when(value // bit % 2 == 1).then(pl.lit(name)) for bit, name in _OPEN_FLAGS.items()]
    return pl.concat_str([access, *words, sync], separator="|", ignore_nulls=True)
