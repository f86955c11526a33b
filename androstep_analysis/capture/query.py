"""Run SQL queries over the tables of a capture with polars.

A query can read only these tables. Polars runs it on the same LazyFrames as everything else, so that a window of a
capture needs no copy on disk. docs/sql.md compares it with DuckDB, which gives the same results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl
from polars import selectors as cs

from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError

_READING: Final = re.compile(r"read_\w+", re.IGNORECASE)
"""Functions of polars' SQL that read files."""

_FIRST: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(\w*)", re.DOTALL)
"""The first word after comments and parentheses."""

_QUERIES: Final = ("select", "with", "from", "values", "show", "explain")


def run(query: str, tables: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
    """Run a query over these tables; `InputError` if it fails, is not a query, or reads a file.

    Enum columns are cast to text, so that they compare and sort alphabetically. Decimals in the result become floats.
    """
    _refuse_files(query)
    first = _FIRST.match(query)
    if first is None or first[1].lower() not in _QUERIES:
        raise InputError(f"the query must begin with one of {', '.join(_QUERIES)}; it can only read tables")
    try:
        readable = {name: table.with_columns(cs.enum().cast(pl.String)) for name, table in tables.items()}
        with pl.SQLContext(readable) as context:
            result = context.execute(query).with_columns(cs.decimal().cast(pl.Float64))
            return result.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"the query failed: {_reason(error)}; {_existing(query, tables)}") from None


def _refuse_files(query: str) -> None:
    """Raise `InputError` for a function that reads files.

    Strings and comments are searched as well, because only polars' parser can recognize them. Names of columns are
    allowed.
    """
    for word in _READING.findall(query):
        if word.lower() not in {column.name for name in schema.names() for column in schema.table(name).columns}:
            raise InputError(f"{word}: a query cannot read files; use only the capture's tables")


def _reason(error: Exception) -> str:
    """Return the first sentence of polars' message. The rest is the query plan and the columns of some table."""
    return re.split(r"\n|; valid columns", str(error), maxsplit=1)[0].strip().rstrip(".")


def _existing(query: str, tables: Mapping[str, pl.LazyFrame]) -> str:
    """List the columns of the tables that the query names, or the tables if it names none."""
    named = [name for name in tables if re.search(rf"\b{name}\b", query)]
    columns = (f"{name} has {', '.join(tables[name].collect_schema().names())}" for name in named)
    return "; ".join(columns) if named else f"the tables are {', '.join(tables)}"
