"""A replay program: what threads did to files, closed so that `ioreplay` can do it again, in memory and as a file.

A program's file is a record stream (probes/FORMAT.md, “Programs”). The same program makes the same bytes. Nothing of
the contents of files is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from androstep_analysis import schema
from androstep_analysis.errors import InputError, printable
from androstep_analysis.ingest import record
from androstep_analysis.replay import names as hashed_names
from androstep_analysis.replay.dependencies import dependencies
from androstep_analysis.replay.record_writer import Field, Type, write

PROBE = "androstep-program"
"""What the header of a program's file names as its writer."""

VERSION = "1"

PATH_BYTES = 4095
"""The longest path that Linux takes (PATH_MAX, without the NUL that ends it)."""


@dataclass(frozen=True)
class Program:
    """Tables `operations`, `replay_files`, `replay_threads` and `replay_dependencies` of one program.

    `duration_ns` is the time from its start to the end of its last operation, as recorded. `is_device`: it was made
    from the requests of a block device, and does everything to the one file called ``device``. `names` is ``kept`` or
    ``hashed``, `source_sha256` the SHA-256 of what it was made from, where that was one file.
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
        """A program of files, with the dependencies that follow from its operations."""
        return cls(operations, files, threads, dependencies(operations), duration_ns)

    def __repr__(self) -> str:
        places = "one device" if self.is_device else f"{self.files.height:,} files and directories at the start"
        counts = f"{self.operations.height:,} operations of {self.threads.height:,} threads, {places}"
        return f"<Program: {counts}, {self.duration_ns / 1e9:.3f} s>"

    def hashed(self, salt: bytes) -> Program:
        """The same program with every name replaced by a hash that `salt` keys; the same salt makes the same names.

        Directories stay directories, and known suffixes stay (`names.hashed`). Processes, threads and their names
        are left out. Raises `InputError` for an empty salt.
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
        """Make or replace the program's file.

        Raises `schema.SchemaError` where a table is not as its schema says, and `InputError` for a path that no system
        can have.
        """
        numbers = _numbered(self)
        tables = {
            "program": self._about(numbers.height),
            "path": numbers,
            "thread": schema.conform(self.threads, "replay_threads"),
            "file": _with_numbers(schema.conform(self.files, "replay_files"), numbers, "path", "target"),
            "operation": _with_numbers(schema.conform(self.operations, "operations"), numbers, "path", "path2"),
            "dependency": schema.conform(self.dependencies, "replay_dependencies"),
        }
        write(Path(path), PROBE, VERSION, [(TYPES[name], _as_stored(table)) for name, table in tables.items()])

    def _about(self, paths: int) -> pl.DataFrame:
        last = pl.max_horizontal(pl.col("descriptor", "descriptor2").max(), pl.lit(-1))
        return pl.DataFrame(
            {
                "kind": "device" if self.is_device else "files",
                "names": self.names,
                "duration_ns": self.duration_ns,
                "source_sha256": self.source_sha256,
                "operations": self.operations.height,
                "inserted": int(self.operations["inserted"].sum()),
                "dependencies": self.dependencies.height,
                "threads": self.threads.height,
                "files": self.files.height,
                "paths": paths,
                "descriptors": int(self.operations.select(last).item()) + 1,
            },
            schema={
                field.name: pl.String if field.dtype == "string" else pl.Int64 for field in TYPES["program"].fields
            },
        )


def read(path: str | Path) -> Program:
    """The program in a file. Raises `InputError` for what is none, and where not all of it can be read."""
    try:
        records = record.read(path)
    except InputError as error:
        raise InputError(f"{error}; a program is made by `androstep program`") from None
    if records.header.get("probe") != PROBE:
        probe = printable(str(records.header.get("probe")))
        raise InputError(f"{path}: a record stream of {probe}; a program is made by `androstep program`")
    if not records.complete:
        what = records.losses[0].message if records.losses else "the file is damaged"
        raise InputError(f"{path}: {what}; a program must be whole: make it again, or get another copy")
    tables = {name: _stored(path, records.tables, record_type) for name, record_type in TYPES.items()}
    about = _about(path, tables)
    paths = tables["path"]["name"]
    if not (tables["path"]["path"] == pl.int_range(paths.len(), eager=True)).all():
        raise _bad(path, "paths with numbers from 0 on")
    return Program(
        operations=_restored(path, tables["operation"], "operations", paths),
        files=_restored(path, tables["file"], "replay_files", paths),
        threads=_restored(path, tables["thread"], "replay_threads", paths),
        dependencies=_restored(path, tables["dependency"], "replay_dependencies", paths),
        duration_ns=about["duration_ns"],
        is_device=about["kind"] == "device",
        names=about["names"],
        source_sha256=about["source_sha256"],
    )


# -- record types -----------------------------------------------------------------------------------------------------

_POLARS = {"int32": pl.Int32, "int64": pl.Int64, "string": pl.String}
_STORED = {"int32": "int32", "int64": "int64", "string": "string", "enum": "string", "bool": "int32"}


def _of_table(name: str, meaning: str, table: str, *paths: str) -> Type:
    """The record type of a table of schemas/, with numbers of `path` records for its columns `paths`."""
    fields = []
    for column in schema.table(table).columns:
        if column.name in paths:
            numbered = f"Number of the `path` record. {column.meaning}"
            fields.append(Field(f"{column.name}_number", "int32", numbered, column.nullable))
        else:
            dtype = _STORED[column.dtype]
            fields.append(Field(column.name, dtype, column.meaning, column.nullable, column.unit))
    return Type(name, meaning, tuple(fields), table)


_ABOUT = Type(
    "program",
    "The program as a whole: one record.",
    (
        Field("kind", "string", "files, or device: made from the requests of a block device."),
        Field("names", "string", "kept, or hashed: names are hashes of what they were."),
        Field("duration_ns", "int64", "From the start to the end of the last operation, as recorded.", unit="ns"),
        Field("source_sha256", "string", "SHA-256 of the recording, where it was one file.", nullable=True),
        Field("operations", "int64", "Records of type operation.", unit="operations"),
        Field("inserted", "int64", "How many of them the cleaner inserted.", unit="operations"),
        Field("dependencies", "int64", "Records of type dependency."),
        Field("threads", "int64", "Records of type thread."),
        Field("files", "int64", "Records of type file.", unit="files"),
        Field("paths", "int64", "Records of type path."),
        Field("descriptors", "int64", "More than any number of a descriptor."),
    ),
)

_PATH = Type(
    "path",
    "A path, or what a link says.",
    (
        Field("path", "int32", "Number, from 0, in this order."),
        Field("name", "string", "The path without leading slash, or what the link says."),
    ),
)

TYPES = {
    "program": _ABOUT,
    "path": _PATH,
    "thread": _of_table("thread", schema.table("replay_threads").description, "replay_threads"),
    "file": _of_table("file", schema.table("replay_files").description, "replay_files", "path", "target"),
    "operation": _of_table("operation", schema.table("operations").description, "operations", "path", "path2"),
    "dependency": _of_table("dependency", schema.table("replay_dependencies").description, "replay_dependencies"),
}
"""The record types of a program's file, in their order."""


def _as_stored(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.col(pl.Boolean).cast(pl.Int32))


# -- paths ------------------------------------------------------------------------------------------------------------


def _texts(program: Program) -> pl.Series:
    """Every path and every target of a link, once, in the order of their first use."""
    columns = [program.files["path"], program.files["target"], program.operations["path"], program.operations["path2"]]
    return pl.concat([column.rename("name") for column in columns]).drop_nulls().unique(maintain_order=True)


def _numbered(program: Program) -> pl.DataFrame:
    """Columns path: Int32 (a number), name: String."""
    texts = _texts(program)
    for name in texts.filter((texts.str.len_bytes() > PATH_BYTES) | texts.str.contains("\0", literal=True)).head(1):
        shown = printable(name[:80])
        raise InputError(f"path “{shown}…”: Linux has none longer than {PATH_BYTES} bytes or with a NUL; leave it out")
    return pl.DataFrame({"path": pl.int_range(texts.len(), dtype=pl.Int32, eager=True), "name": texts})


def _with_numbers(table: pl.DataFrame, numbers: pl.DataFrame, *columns: str) -> pl.DataFrame:
    for column in columns:
        table = _looked_up(table, column, numbers, "name", "path").rename({column: f"{column}_number"})
    return table


def _looked_up(table: pl.DataFrame, column: str, given: pl.DataFrame, key: str, value: str) -> pl.DataFrame:
    """`table` with what `given` has as `value` where its `key` is what stood in `column`; null stays null."""
    asked = table.select(pl.col(column).alias(key))
    found = asked.join(given.select(key, value), on=key, how="left", maintain_order="left")
    return table.with_columns(found[value].alias(column))


# -- reading ----------------------------------------------------------------------------------------------------------


def _bad(path: str | Path, expected: str) -> InputError:
    return InputError(f"{path}: a program was expected to have {expected}; make it again with `androstep program`")


def _stored(path: str | Path, tables: Mapping[str, pl.DataFrame], record_type: Type) -> pl.DataFrame:
    """The records of one type, with the fields that a program has; others are of no concern."""
    table = tables.get(record_type.name)
    fields = {field.name: _POLARS[field.dtype] for field in record_type.fields}
    if table is None or any(table.schema.get(name) != dtype for name, dtype in fields.items()):
        raise _bad(path, f"records of type {record_type.name} with {', '.join(fields)}")
    required = [field.name for field in record_type.fields if not field.nullable]
    if any(table[name].null_count() for name in required):
        raise _bad(path, f"no {record_type.name} without one of {', '.join(required)}")
    return table.select(list(fields))


def _about(path: str | Path, tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """The one record of type program, whose counts are right."""
    if tables["program"].height != 1:
        raise _bad(path, "one record of type program")
    about: dict[str, Any] = tables["program"].row(0, named=True)
    for name in ("operation", "thread", "file", "path"):
        if about[f"{name}s"] != tables[name].height:
            raise _bad(path, f"{about[f'{name}s']} records of type {name}, as it says")
    if about["dependencies"] != tables["dependency"].height:
        raise _bad(path, f"{about['dependencies']} records of type dependency, as it says")
    return about


def _restored(path: str | Path, stored: pl.DataFrame, name: str, paths: pl.Series) -> pl.DataFrame:
    """Table `name` of its records."""
    for column in schema.table(name).columns:
        if column.name not in stored.columns:
            numbers = stored[f"{column.name}_number"]
            if not numbers.drop_nulls().is_between(0, paths.len() - 1).all():
                raise _bad(path, f"numbers of paths from 0 to {paths.len() - 1}")
            stored = stored.with_columns(paths.gather(numbers).alias(column.name))
        elif column.dtype == "enum":
            words = stored[column.name]
            if not words.drop_nulls().is_in(list(column.values)).all():
                raise _bad(path, f"{column.name} that is one of {', '.join(column.values)}")
        stored = stored.with_columns(pl.col(column.name).cast(column.polars))
    return schema.conform(stored.select([column.name for column in schema.table(name).columns]), name)
