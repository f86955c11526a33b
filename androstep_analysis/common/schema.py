"""Load the table schemas and check tables against them.

`schemas/*.json` is the only source of column names and types. Every stage passes its tables through `conform`, so that
a missing, misspelt or mistyped column fails in the stage that produces it.
"""

from __future__ import annotations

import functools
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


class SchemaError(TypeError):
    """A table does not have the columns that its schema requires."""


@dataclass(frozen=True)
class Column:
    """One column of a table, as its JSON file defines it."""

    name: str
    dtype: str
    unit: str | None
    nullable: bool
    meaning: str
    values: tuple[str, ...] = ()

    @functools.cached_property
    def polars(self) -> pl.DataType:
        """The polars type; an enum's categories are its `values`, in order."""
        if self.dtype == "enum":
            return pl.Enum(list(self.values))
        if self.dtype.startswith("list<"):
            return pl.List(_SCALARS[self.dtype[5:-1]][0])
        return _SCALARS[self.dtype][0]()

    @property
    def arrow(self) -> pa.DataType:
        """The pyarrow type; an enum is dictionary-encoded strings."""
        if self.dtype == "enum":
            return pa.dictionary(pa.int32(), pa.string())
        if self.dtype.startswith("list<"):
            return pa.list_(_SCALARS[self.dtype[5:-1]][1])
        return _SCALARS[self.dtype][1]

    @property
    def ddl(self) -> str:
        """The column definition for ``CREATE TABLE``; an enum is text with a check on its `values`."""
        name = f'"{self.name}"'
        base, is_list = self.dtype.removeprefix("list<").removesuffix(">"), self.dtype.startswith("list<")
        kind = "VARCHAR" if self.dtype == "enum" else _SCALARS[base][2]
        null = "" if self.nullable else " NOT NULL"
        values = ", ".join(f"'{value}'" for value in self.values)
        return f"{name} {kind}{'[]' if is_list else ''}{null}{f' CHECK ({name} IN ({values}))' if values else ''}"


_SCALARS: dict[str, tuple[type[pl.DataType], pa.DataType, str]] = {
    "int64": (pl.Int64, pa.int64(), "BIGINT"),
    "int32": (pl.Int32, pa.int32(), "INTEGER"),
    "uint32": (pl.UInt32, pa.uint32(), "BIGINT"),
    "bool": (pl.Boolean, pa.bool_(), "BOOLEAN"),
    "string": (pl.String, pa.string(), "VARCHAR"),
}


@dataclass(frozen=True)
class Table:
    """The schema of a table: its description and its columns in order."""

    name: str
    version: int
    description: str
    columns: tuple[Column, ...]

    @functools.cached_property
    def polars(self) -> pl.Schema:
        """Column names and polars types, in order; callers must not modify it."""
        return pl.Schema({column.name: column.polars for column in self.columns})

    @property
    def arrow(self) -> pa.Schema:
        """The same as a pyarrow schema, with unit and meaning of every column in its metadata."""
        return pa.schema(
            [pa.field(c.name, c.arrow, c.nullable, {"unit": c.unit or "", "meaning": c.meaning}) for c in self.columns]
        )

    @property
    def ddl(self) -> str:
        """A ``CREATE TABLE`` statement, with the descriptions of table and columns as comments."""
        lines = [f"-- {self.description}", f"CREATE TABLE {self.name} ("]
        for column in self.columns:
            comma = "" if column is self.columns[-1] else ","
            unit = f"[{column.unit}] " if column.unit else ""
            lines.append(f"  {column.ddl}{comma}  -- {unit}{column.meaning}")
        return "\n".join([*lines, ");"])

    def column(self, name: str) -> Column:
        """Return the column called `name`; `KeyError` if there is none."""
        return {column.name: column for column in self.columns}[name]


def directory() -> Path:
    """Return the directory of the schema files: inside an installed package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


@functools.cache
def table(name: str) -> Table:
    """Return the schema of table `name`; `KeyError` with all names if there is none."""
    if name not in names():
        raise KeyError(f"no table called {name!r}; there are {', '.join(names())}")
    return parsed((directory() / f"{name}.json").read_text(encoding="utf-8"))


def parsed(text: str) -> Table:
    """Parse the text of a schema file, of this or another version of AndroStep."""
    raw = json.loads(text)
    columns = tuple(Column(**{**column, "values": tuple(column.get("values", ()))}) for column in raw["columns"])
    return Table(raw["table"], raw["version"], raw["description"], columns)


@functools.cache
def names() -> tuple[str, ...]:
    """Return all table names, sorted."""
    return tuple(sorted(path.stem for path in directory().glob("*.json")))


@functools.cache
def definitions() -> dict[str, Any]:
    """Load `schemas/definitions.toml`: the definition of every measure, as reports print it."""
    return tomllib.loads((directory() / "definitions.toml").read_text(encoding="utf-8"))


def enum(table_name: str, column: str) -> pl.Enum:
    """Return the polars type of an enum column."""
    dtype = table(table_name).column(column).polars
    assert isinstance(dtype, pl.Enum)
    return dtype


@functools.cache
def empty(name: str) -> pl.DataFrame:
    """Return table `name` without rows."""
    return pl.DataFrame(schema=table(name).polars)


def is_of(column: str, have: pl.DataType, want: pl.DataType) -> bool:
    """Return whether a column has the type of its schema. In an open capture, file types may have more values."""
    if column == "file_type" and isinstance(have, pl.Enum) and isinstance(want, pl.Enum):
        return have.categories.head(len(want.categories)).equals(want.categories)
    return have == want


def conform(frame: Frame, name: str) -> Frame:
    """Check a table against its schema and return it with the columns in the schema's order.

    Raises `SchemaError` for additional, missing and mistyped columns, and for nulls in columns that are not nullable.
    It never casts: a cast that loses data belongs into the stage that decides on it. Of a LazyFrame only the schema is
    checked, without executing it.
    """
    want = table(name)
    have = frame.collect_schema()
    problems: list[str] = []
    if missing := [c.name for c in want.columns if c.name not in have]:
        problems.append(f"missing {', '.join(missing)}")
    if extra := [c for c in have if c not in want.polars]:
        problems.append(f"unexpected {', '.join(extra)}")
    for c in want.columns:
        if c.name in have and not is_of(c.name, have[c.name], c.polars):
            problems.append(f"{c.name} is {have[c.name]}, not {c.polars}")
    if not problems and isinstance(frame, pl.DataFrame):
        nulls = {c.name: frame[c.name].null_count() for c in want.columns if not c.nullable}
        problems = [f"{column} has {count} nulls" for column, count in nulls.items() if count]
    if problems:
        raise SchemaError(f"table {name} does not conform to schemas/{name}.json: {'; '.join(problems)}")
    return frame.select([c.name for c in want.columns])


def complete(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add what later versions of table `name` have, columns (as null) and values of enums, then `conform`."""
    dtypes, have = table(name).polars, frame.schema
    absent = [pl.lit(None, dtype).alias(column) for column, dtype in dtypes.items() if column not in have]
    fewer = [
        pl.col(column).cast(pl.String).cast(dtype)
        for column, dtype in dtypes.items()
        if isinstance(dtype, pl.Enum) and isinstance(of := have.get(column), pl.Enum)
        if set(of.categories) < set(dtype.categories)
    ]
    return conform(frame.with_columns(*absent, *fewer), name)
