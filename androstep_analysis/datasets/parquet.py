"""The tables of a release: how they are written as Parquet, and how they are read again."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay import names

DIRECTORY = "tables"

CAPTURE = schema.Column("capture_id", "string", None, False, "Capture that the row is of (table captures).")

MISSING = "unknown"
"""The word for a fact that is not known. Not Hive's own word for null: where a column has no other value, pyarrow
refuses to open the table."""

PARTITIONS = {"capture_device": "device", "capture_release": "android_release", "capture_workload": "workload"}
"""Columns that the names of directories tell, and the facts that they tell. Not by the names of the facts: tables
bench_runs, replay_runs and commands have columns of these names, with another meaning."""

_ROWS_IN_GROUP = 1 << 20
_LONGEST = 100
"""Bytes of a value in the name of a directory: filesystems take 255 for a name, and Windows little more for a path."""


def released(table: schema.Table) -> schema.Table:
    """The table as releases have it: which capture a row is of comes first."""
    others = tuple(column for column in table.columns if column.name != CAPTURE.name)
    return schema.Table(table.name, table.version, table.description, (CAPTURE, *others))


def arrow(table: schema.Table) -> pa.Schema:
    """The columns of a released table as its files have them: enums are strings, and there is no metadata."""
    plain = [(c.name, pa.string() if c.dtype == "enum" else c.arrow, c.nullable) for c in released(table).columns]
    return pa.schema([pa.field(name, dtype, nullable) for name, dtype, nullable in plain])


def place(table: str, facts: dict[str, object]) -> Path:
    """Where in a release the rows of a capture with these facts are."""
    directories = [f"{column}={_value(facts[fact])}" for column, fact in PARTITIONS.items()]
    return Path(DIRECTORY, table, *directories, f"part-{facts['capture_id']}.parquet")


def _value(fact: object) -> str:
    """A fact as the name of a directory: percent-encoded (RFC 3986), and ended by a hash where it is too long."""
    if fact is None or fact == "":
        return MISSING
    text = str(fact)
    start = text[:_LONGEST]
    while len(quote(start, safe="")) > _LONGEST:
        start = start[:-1]
    return quote(start, safe="") + ("" if start == text else f"~{names.digest(text, b'androstep')}")


def write(frame: pl.DataFrame, name: str, capture_id: str, path: Path) -> None:
    """Write the rows of one capture (in the schema of table `name`): equal rows in any order give equal bytes."""
    columns = released(schema.table(name))
    plain = frame.with_columns(pl.col(pl.Enum).cast(pl.String), pl.lit(capture_id).alias(CAPTURE.name))
    order = [
        pl.col(c.name).cast(pl.List(pl.String)).list.join("\0") if c.dtype.startswith("list<") else pl.col(c.name)
        for c in columns.columns
    ]
    table = plain.select(c.name for c in columns.columns).sort(order, nulls_last=False).to_arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.cast(arrow(schema.table(name))), path, **options(columns))


def options(table: schema.Table) -> dict[str, Any]:
    """How Parquet is written, all of it: what is left open may change with the writer's version."""
    return {
        "version": "2.6",
        "data_page_version": "1.0",
        "row_group_size": _ROWS_IN_GROUP,
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": [c.name for c in table.columns if c.dtype in ("string", "enum")],
        "column_encoding": {c.name: "DELTA_BINARY_PACKED" for c in table.columns if c.dtype in _INTEGERS},
        "store_schema": False,
    }


_INTEGERS = ("int64", "int32", "uint32")


def tables(directory: str | PathLike[str]) -> dict[str, pl.LazyFrame]:
    """The tables of a release by name, in the types of the schemas, each with column capture_id first.

    Table `captures` tells device, Android release and workload of each. `InputError` where the directory is no release.
    """
    root = Path(directory)
    if not (root / DIRECTORY).is_dir():
        raise InputError(f"{root}: no directory {DIRECTORY} in it; give one that `androstep release` made")
    found = [path.name for path in (root / DIRECTORY).iterdir() if path.name in schema.names()]
    return {name: _scan(root / DIRECTORY / name, name) for name in sorted(found)}


def _scan(root: Path, name: str) -> pl.LazyFrame:
    files = sorted(root.rglob("*.parquet"))
    rows = pl.scan_parquet(files, glob=False, hive_partitioning=False)
    present = rows.collect_schema()
    # Earlier releases have not all columns of today.
    return rows.select(
        (pl.col(c.name) if c.name in present or not c.nullable else pl.lit(None)).cast(c.polars).alias(c.name)
        for c in released(schema.table(name)).columns
    )
