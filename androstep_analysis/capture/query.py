"""SQL over the tables of a capture, by polars: no second engine, no copy of a table, and nothing but these tables.

DuckDB was measured beside it (docs/sql.md): polars answers the same from the LazyFrames that everything else reads, so
that a window of a capture needs no copy on disk.
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
"""What polars' functions that read files begin with."""

_FIRST: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(\w*)", re.DOTALL)
"""The first word, behind comments and parentheses."""

_QUERIES: Final = ("select", "with", "from", "values", "show", "explain")


def answer(query: str, tables: Mapping[str, pl.LazyFrame]) -> pl.DataFrame:
    """What a query gives over these tables and nothing else. Raises `InputError` where it is none, or reads a file.

    Categories are text, as people compare and sort them, and decimals are floats.
    """
    _refuse_files(query)
    first = _FIRST.match(query)
    if first is None or first[1].lower() not in _QUERIES:
        raise InputError(f"the query has to begin with one of {', '.join(_QUERIES)}: tables are asked, not changed")
    try:
        asked = {name: table.with_columns(cs.enum().cast(pl.String)) for name, table in tables.items()}
        with pl.SQLContext(asked) as context:
            found = context.execute(query).with_columns(cs.decimal().cast(pl.Float64))
            return found.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"the query has no answer: {_reason(error)}; {_there_are(query, tables)}") from None


def _refuse_files(query: str) -> None:
    """Even in a string or a comment: what is one is for polars to say, and no column is called so."""
    for word in _READING.findall(query):
        if word.lower() not in {column.name for name in schema.names() for column in schema.table(name).columns}:
            raise InputError(f"{word}: a query is answered from the capture's tables and reads no file; leave it out")


def _reason(error: Exception) -> str:
    """The first sentence of what polars says; the rest is the plan of the query, and the columns of some table."""
    return re.split(r"\n|; valid columns", str(error), maxsplit=1)[0].strip().rstrip(".")


def _there_are(query: str, tables: Mapping[str, pl.LazyFrame]) -> str:
    """The columns of the tables that it names, or else the tables."""
    named = [name for name in tables if re.search(rf"\b{name}\b", query)]
    columns = (f"{name} has {', '.join(tables[name].collect_schema().names())}" for name in named)
    return "; ".join(columns) if named else f"the tables are {', '.join(tables)}"
