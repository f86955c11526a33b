"""A replay program: file operations of threads that `ioreplay` can repeat, in memory and as a file.

probes/FORMAT.md, “Programs”, describes the file format. Equal programs give equal bytes. A program has no contents of
files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from androstep_analysis.common import files, schema
from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.ingest.source import load
from androstep_analysis.replay import names as hashed_names
from androstep_analysis.replay.dependencies import dependencies

MAGIC = b"\xa7PROGRAM"
VERSION = 1

PATH_BYTES = 4095
"""The longest path in Linux (PATH_MAX, without the terminating NUL)."""


@dataclass(frozen=True)
class Program:
    """Operations of threads on files or on a device, in a form that `ioreplay` can repeat.

    Attributes
    ----------
    operations, files, threads, dependencies : polars.DataFrame
        Tables `operations`, `replay_files`, `replay_threads` and `replay_dependencies` (docs/tables.md).
    duration_ns : int
        Time from the start to the end of the last operation, as recorded.
    is_device : bool
        Whether it was made from the requests of a block device. Its only file is then ``device``.
    names : {"kept", "hashed"}
        Whether names of files are those that were recorded.
    source_sha256 : str, optional
        SHA-256 of the source, if that was one file.
    """

    operations: pl.DataFrame
    files: pl.DataFrame
    threads: pl.DataFrame
    dependencies: pl.DataFrame
    duration_ns: int
    is_device: bool = False
    names: str = "kept"
    source_sha256: str | None = None

    @classmethod
    def make(cls, operations: pl.DataFrame, files: pl.DataFrame, threads: pl.DataFrame, duration_ns: int) -> Program:
        """Return a program of files, with the dependencies that follow from its operations.

        Parameters
        ----------
        operations, files, threads : polars.DataFrame
            Tables `operations`, `replay_files` and `replay_threads`.
        duration_ns : int
            The attribute of that name.

        Returns
        -------
        Program
            The program, with `dependencies` of `operations`.

        Examples
        --------
        >>> recording = androstep.open("datasets/replay/app.strace.xz")
        >>> whole = replay.clean(recording.syscalls, recording.tables["tasks"]).program
        >>> replay.Program.make(whole.operations.head(100), whole.files, whole.threads, duration_ns=10**9)
        <Program: 100 operations of 7 threads, 1 files and directories at the start, 1.000 s>
        """
        return cls(operations, files, threads, dependencies(operations), duration_ns)

    def __repr__(self) -> str:
        contents = "one device" if self.is_device else f"{self.files.height:,} files and directories at the start"
        counts = f"{self.operations.height:,} operations of {self.threads.height:,} threads, {contents}"
        return f"<Program: {counts}, {self.duration_ns / 1e9:.3f} s>"

    def by_thread(self) -> pl.DataFrame:
        """Return the operations of each thread in order, without their times and without inserted operations.

        Two recordings of one run, such as one of strace and one of iotrace, give equal results.

        Returns
        -------
        polars.DataFrame
            Columns tid, call, path, path2, offset_bytes, offset2_bytes, bytes, flags, request, mode, failed, result.

        Examples
        --------
        >>> recording = androstep.open("datasets/replay/app.strace.xz")
        >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
        >>> program.by_thread()["tid"].is_sorted()
        True
        """
        recorded = self.operations.filter(~pl.col("inserted"))
        files = ("path", "path2", "offset_bytes", "offset2_bytes", "bytes", "flags", "request", "mode")
        columns = ("tid", "call", *files, "failed", "result")
        return (
            recorded.join(self.threads, on="thread", maintain_order="left")
            .select(columns)
            .sort("tid", maintain_order=True)
        )

    def hashed(self, salt: bytes) -> Program:
        """Return the program with every name replaced by a hash. The same salt gives the same names.

        Parameters
        ----------
        salt : bytes
            Key of the hash (HMAC-SHA-256).

        Returns
        -------
        Program
            The program, with the same directory structure and known suffixes, without processes and names of threads.

        Raises
        ------
        InputError
            For an empty salt.

        Examples
        --------
        >>> recording = androstep.open("datasets/replay/app.strace.xz")
        >>> program = replay.clean(recording.syscalls, recording.tables["tasks"]).program
        >>> paths = program.hashed(b"some random bytes").operations["path"]
        >>> "mnt/databases/messages.db-wal" in paths, paths.str.ends_with(".db-wal").any()
        (False, True)
        """
        own = hashed_names.hashed(_texts(self), salt)

        def renamed(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
            for column in columns:
                table = _looked_up(table, column, own, "name", "hashed")
            return table

        unnamed = [pl.lit(None, dtype).alias(name) for name, dtype in self.threads.schema.items() if name != "thread"]
        return replace(
            self,
            operations=renamed(self.operations, "path", "path2"),
            files=renamed(self.files, "path", "target"),
            threads=self.threads.with_columns(unnamed),
            names="hashed",
            source_sha256=None,
        )

    def write(self, path: str | Path) -> None:
        """Create or replace the program's file. Equal programs give equal bytes.

        Parameters
        ----------
        path : path-like
            The path of the file.

        Raises
        ------
        schema.SchemaError
            If a table does not conform to its schema.
        InputError
            If a path is too long or has a NUL, or if operations or threads are not numbered in order.

        References
        ----------
        ``probes/FORMAT.md``, Programs.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> program = replay.device.program(capture.requests)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     program.write(Path(place, "device.rec"))
        ...     again = replay.program.read(Path(place, "device.rec"))
        >>> again.operations.equals(program.operations)
        True
        """
        tables = {
            "operations": _threaded(schema.conform(self.operations, "operations")),
            "dependencies": schema.conform(self.dependencies, "replay_dependencies").sort("after", "operation"),
            "files": _with_first_names(schema.conform(self.files, "replay_files")),
            "threads": schema.conform(self.threads, "replay_threads"),
        }
        strings = _strings(self)
        stored = [_stored(table, _ROWS[name], strings).tobytes() for name, table in tables.items()]
        for name, column in (("operations", "operation"), ("threads", "thread")):
            if not (tables[name][column] == pl.int_range(tables[name].height, eager=True)).all():
                raise InputError(f"{name} of a program are numbered from 0 on, in their order; these are not")
        last = pl.max_horizontal(pl.col("descriptor", "descriptor2").max(), pl.lit(-1))
        fields = (
            *(self.duration_ns, self.is_device, self.names == "hashed", *(table.height for table in tables.values())),
            *(strings.height, int(self.operations.select(last).item()) + 1, (self.source_sha256 or "").encode()),
        )
        texts = "".join(f"{text}\0" for text in strings["text"]).encode()
        rest = b"".join((_HEADER.pack(*fields), *stored, texts))
        with files.replacing(Path(path)) as new:
            new.write_bytes(_START.pack(MAGIC, VERSION, zlib.crc32(rest)) + rest)


def sniff(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a program."""
    return head.startswith(MAGIC)


def read(path: str | Path) -> Program:
    """Return the program in a file.

    Parameters
    ----------
    path : path-like
        A file from `Program.write` or `androstep program`, plain or compressed.

    Returns
    -------
    Program
        The program.

    Raises
    ------
    InputError
        If the file is not a program, or is damaged, inconsistent or of another version.

    References
    ----------
    ``probes/FORMAT.md``, Programs.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "device.rec")
    ...     replay.device.program(capture.requests).write(file)
    ...     replay.program.read(file)
    <Program: 4,556 operations of 52 threads, one device, 9.757 s>
    """
    source = load(Path(path))
    data = source.data
    if not sniff(data):
        raise InputError(f"{source.name}: not a replay program; make one with `androstep program`")
    whole = len(data) >= _START.size + _HEADER.size and not source.losses
    _, version, crc = _START.unpack_from(data) if whole else (MAGIC, VERSION, 0)
    if version != VERSION:
        raise InputError(f"{source.name}: program version {version}, expected {VERSION}; make it again")
    if not whole or zlib.crc32(memoryview(data)[_START.size :]) != crc:
        raise InputError(f"{source.name}: the program is truncated or damaged; make it again, or get another copy")
    try:
        return _program(data)
    except (ValueError, IndexError, pl.exceptions.PolarsError, schema.SchemaError) as error:
        what = printable(str(error).partition("\n")[0])
        raise InputError(f"{source.name}: the program is inconsistent ({what}); make it again") from error


# -- the file ---------------------------------------------------------------------------------------------------------

_START = struct.Struct("<8sII")
_HEADER = struct.Struct("<qII6I64s")
_NONE, _NO_VALUE = -(1 << 31), 255
"""Null of 32-bit integers, and of the indices of enums."""

_ROWS: dict[str, Any] = {
    "operations": [
        *((name, "<i8") for name in ("ts_ns", "duration_ns", "offset_bytes", "offset2_bytes", "bytes", "result")),
        *(("flags", "<i8"), ("thread", "<i4"), ("index", "<u4"), ("descriptor", "<i4"), ("descriptor2", "<i4")),
        *((name, "<i4") for name in ("file", "file2", "path", "path2", "request", "mode")),
        *(("call", "u1"), ("inserted", "u1"), ("failed", "i1"), ("reserved", "V5")),
    ],
    "dependencies": [("operation", "<u4"), ("after", "<u4")],
    "files": [
        *(("size_bytes", "<i8"), ("path", "<i4"), ("target", "<i4"), ("file", "<i4"), ("first", "<i4")),
        *(("mode", "<i4"), ("inode_type", "u1"), ("size_from", "u1"), ("reserved", "V2")),
    ],
    "threads": [("pid", "<i4"), ("tid", "<i4"), ("comm", "<i4")],
}
"""The rows of each table in the file, in its order: the structures of probes/ioreplay/program.h."""

_NULLS = {"<i8": -(1 << 63), "<i4": _NONE, "u1": _NO_VALUE, "i1": -1}


def _threaded(operations: pl.DataFrame) -> pl.DataFrame:
    """Return the operations with `index`, the position of each in its thread."""
    return operations.with_columns(index=pl.int_range(pl.len()).over("thread"))


def _with_first_names(files: pl.DataFrame) -> pl.DataFrame:
    """Return the files with `first`: for a further name of a file, the row of its first name."""
    is_name = (pl.col("inode_type") == "file") & pl.col("file").is_not_null()
    first = pl.col("row").min().over("inode_type", "file")
    return files.with_row_index("row").with_columns(first=pl.when(is_name & (first < pl.col("row"))).then(first))


def _strings(program: Program) -> pl.DataFrame:
    """Return columns number and text: every path, link target and thread name once, in the order of first use."""
    texts = pl.concat([_texts(program), program.threads["comm"].drop_nulls()]).unique(maintain_order=True)
    for text in texts.filter((texts.str.len_bytes() > PATH_BYTES) | texts.str.contains("\0", literal=True)).head(1):
        shown = printable(text[:80])
        raise InputError(f"name “{shown}…”: Linux has none longer than {PATH_BYTES} bytes or with a NUL; leave it out")
    return texts.rename("text").to_frame().with_row_index("number")


def _stored(table: pl.DataFrame, fields: Sequence[tuple[str, str]], strings: pl.DataFrame) -> npt.NDArray[np.void]:
    """Return a table in the layout of the file."""
    rows = np.zeros(table.height, np.dtype(list(fields)))
    for name, dtype in fields:
        if name in table.columns:
            column = table[name]
            if column.dtype == pl.String:
                column = _looked_up(table.select(name), name, strings, "text", "number")[name].cast(pl.Int32)
            elif isinstance(column.dtype, pl.Enum):
                column = column.to_physical()
            elif column.dtype == pl.Boolean:
                column = column.cast(pl.Int8)
            rows[name] = column.fill_null(_NULLS[dtype]).to_numpy() if column.null_count() else column.to_numpy()
    return rows


def _program(data: bytes) -> Program:
    """Return the program in a file with a correct checksum. Raises various errors for inconsistent contents."""
    duration_ns, is_device, is_hashed, *counts, nr_strings, _, source = _HEADER.unpack_from(data, _START.size)
    offset = _START.size + _HEADER.size
    rows = {}
    for (name, fields), count in zip(_ROWS.items(), counts, strict=True):
        rows[name] = np.frombuffer(data, np.dtype(list(fields)), count, offset)
        offset += rows[name].nbytes
    *strings, end = data[offset:].decode().split("\0")
    if len(strings) != nr_strings or end:
        raise ValueError(f"{len(strings)} strings, and {nr_strings} were expected")
    texts = pl.Series(strings, dtype=pl.String)
    return Program(
        operations=_restored("operations", rows["operations"], texts, "operation"),
        files=_restored("replay_files", rows["files"], texts),
        threads=_restored("replay_threads", rows["threads"], texts, "thread"),
        dependencies=_restored("replay_dependencies", rows["dependencies"], texts).sort("operation", "after"),
        duration_ns=duration_ns,
        is_device=bool(is_device),
        names="hashed" if is_hashed else "kept",
        source_sha256=source.rstrip(b"\0").decode() or None,
    )


def _restored(name: str, rows: npt.NDArray[np.void], texts: pl.Series, number: str = "") -> pl.DataFrame:
    """Return table `name` from its rows. Column `number` is their index."""
    dtypes: Mapping[str, Any] = rows.dtype.fields or {}
    columns = []
    for column in schema.table(name).columns:
        if column.name == number:
            values = pl.int_range(len(rows), eager=True)
        else:
            values = pl.Series(column.name, np.ascontiguousarray(rows[column.name]))
            null = _NULLS.get(dtypes[column.name][0].str.replace("|", ""))
            if column.nullable:
                values = values.set(values == null, None)
            if column.dtype == "string":
                values = texts.gather(_numbers(values, len(texts)))
            elif column.dtype == "enum":
                values = pl.Series(column.values, dtype=pl.String).gather(_numbers(values, len(column.values)))
        columns.append(values.cast(column.polars).alias(column.name))
    return schema.conform(pl.DataFrame(columns), name)


def _numbers(values: pl.Series, count: int) -> pl.Series:
    """Return `values` as indices of a list of `count` items, or null."""
    if not values.drop_nulls().is_between(0, count - 1).all():
        raise ValueError(f"{values.name} from 0 to {count - 1} was expected")
    return values.cast(pl.UInt32)


# -- names -----------------------------------------------------------------------------------------------------------


def _texts(program: Program) -> pl.Series:
    """Return every path and every link target once, in the order of first use."""
    columns = [program.files["path"], program.files["target"], program.operations["path"], program.operations["path2"]]
    return pl.concat([column.rename("name") for column in columns]).drop_nulls().unique(maintain_order=True)


def _looked_up(table: pl.DataFrame, column: str, mapping: pl.DataFrame, key: str, value: str) -> pl.DataFrame:
    """Return `table` with `column` replaced by the `value` of `given` for the same `key`. Null stays null."""
    keys = table.select(pl.col(column).alias(key))
    values = keys.join(mapping.select(key, value), on=key, how="left", maintain_order="left")[value]
    return table.with_columns(values.alias(column))
