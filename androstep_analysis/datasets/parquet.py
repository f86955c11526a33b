"""Write and read the tables of a release as Parquet."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from androstep_analysis.common import pages, schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.replay import names

DIRECTORY = "tables"

CAPTURE = schema.Column("capture_id", "string", None, False, "Capture that the row is of (table captures).")

MISSING = "unknown"
"""Partition value for an unknown fact.

Hive's own word for null is not used: pyarrow cannot open a table if one of its columns has no other value.
"""

PARTITIONS = {"capture_device": "device", "capture_release": "android_release", "capture_workload": "workload"}
"""Partition columns and their facts.

The columns are not named like the facts, because tables bench_runs, replay_runs and commands have columns of these
names with another meaning.
"""

_ROWS_IN_GROUP = 1 << 20
_LONGEST = 100
"""Limit of bytes of a value in a directory name.

Filesystems allow 255 for a name, and Windows little more for a path.
"""


def released(table: schema.Table) -> schema.Table:
    """Return the table's schema in releases: column capture_id comes first."""
    others = tuple(column for column in table.columns if column.name != CAPTURE.name)
    return schema.Table(table.name, table.version, table.description, (CAPTURE, *others))


def arrow(table: schema.Table) -> pa.Schema:
    """Return the Arrow schema of a released table's files: enums are strings, and there is no metadata."""
    plain = [(c.name, pa.string() if c.dtype == "enum" else c.arrow, c.nullable) for c in released(table).columns]
    return pa.schema([pa.field(name, dtype, nullable) for name, dtype, nullable in plain])


def place(table: str, facts: dict[str, object]) -> Path:
    """Return the path in a release for the rows of a capture with these facts."""
    directories = [f"{column}={_value(facts[fact])}" for column, fact in PARTITIONS.items()]
    return Path(DIRECTORY, table, *directories, f"part-{facts['capture_id']}.parquet")


def _value(fact: object) -> str:
    """Encode a fact as a directory name: percent-encoded (RFC 3986), and shortened with a hash if it is too long."""
    if fact is None or fact == "":
        return MISSING
    text = str(fact)
    start = text[:_LONGEST]
    while len(quote(start, safe="")) > _LONGEST:
        start = start[:-1]
    return quote(start, safe="") + ("" if start == text else f"~{names.digest(text, b'androstep')}")


def write(frame: pl.DataFrame, name: str, capture_id: str, path: Path) -> None:
    """Write the rows of one capture (in the schema of table `name`). Equal rows in any order give equal bytes."""
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
    """Return all options of the Parquet writer. Defaults might change with its version."""
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
    """Return the tables of a release by name, in the types of the schemas, with column capture_id first.

    Table `captures` has device, Android release and workload of each capture. Raises `InputError` if the directory is
    not a release.
    """
    root = Path(directory)
    if not (root / DIRECTORY).is_dir():
        raise InputError(f"{root}: has no directory {DIRECTORY}; give a release made by `androstep release`")
    found = [path.name for path in (root / DIRECTORY).iterdir() if path.name in schema.names()]
    return {name: _scan(root / DIRECTORY / name, name) for name in sorted(found)}


def _scan(root: Path, name: str) -> pl.LazyFrame:
    files = sorted(root.rglob("*.parquet"))
    for path in files:
        pages.check(path)
    rows = pl.scan_parquet(files, glob=False, hive_partitioning=False)
    present = rows.collect_schema()
    # Earlier releases lack columns that were added since.
    return rows.select(
        (pl.col(c.name) if c.name in present or not c.nullable else pl.lit(None)).cast(c.polars).alias(c.name)
        for c in released(schema.table(name)).columns
    )
