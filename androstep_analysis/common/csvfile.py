"""Write CSV files, for spreadsheets and other programs that do not read Parquet."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from androstep_analysis.common import files

FORMULA = "^[=+\\-@\t\r]"
"""Characters at the beginning of text that a spreadsheet would evaluate as a formula (OWASP, CSV injection)."""

_CONTROL = [chr(code) for code in (*range(32), *range(127, 160))]
_ESCAPES = [f"\\x{ord(character):02x}" for character in _CONTROL]


def write(table: pl.DataFrame | pl.LazyFrame, path: Path) -> None:
    r"""Write a table as CSV with a header; a list becomes one cell with one value on each line.

    Names in a recording are untrusted. Text that a spreadsheet would evaluate as a formula (it begins with ``=``,
    ``+``, ``-`` or ``@``) gets an apostrophe in front, and control characters are written ``\xNN``. Parquet files hold
    the text unchanged.
    """
    with files.replacing(path) as new, new.open("wb") as file:
        table.lazy().with_columns(_cells(table.collect_schema())).sink_csv(file)


def text(table: pl.DataFrame) -> str:
    """Return the CSV text that `write` would write."""
    return table.with_columns(_cells(table.schema)).write_csv()


def _cells(columns: pl.Schema) -> list[pl.Expr]:
    lists = [
        pl.col(name).cast(pl.List(pl.String)).list.eval(guarded(pl.element())).list.join("\n")
        for name, dtype in columns.items()
        if isinstance(dtype, pl.List)
    ]
    return [*lists, *(guarded(pl.col(name)).alias(name) for name, dtype in columns.items() if dtype == pl.String)]


def guarded(text: pl.Expr) -> pl.Expr:
    """Return an expression that escapes text for a spreadsheet cell (see `write`)."""
    safe = pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text)
    return safe.str.replace_many(_CONTROL, _ESCAPES)
