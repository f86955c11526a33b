"""What all text formats share: splitting into lines, lines that cannot be read, and the table of block events."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pyarrow as pa

from androstep_analysis import schema, units
from androstep_analysis.errors import Loss
from androstep_analysis.ingest.source import printable

SECONDS = "[0-8]?[0-9]{1,9}"
"""Regular expression of seconds whose nanoseconds fit an Int64 (to the year 2255, if they are CLOCK_REALTIME)."""


def lines(data: bytes, complete: str | None = None) -> tuple[pl.Series, tuple[Loss, ...]]:
    """The lines of `data` (String series `line`, without the newline) and the torn last line as a `Loss`.

    A last line without a newline is torn and dropped, unless it matches the regular expression `complete`, with
    which a format proves that nothing of it is missing. Only LF ends a line; bytes that are no UTF-8 become
    ``\\xNN``.
    """
    losses: tuple[Loss, ...] = ()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        if complete is not None and re.search(complete, data[end:].decode(errors="backslashreplace")):
            data += b"\n"
        else:
            message = f"the last line has no end and was dropped: {_quoted(data[end:])}"
            losses = (Loss("torn", 1, message),)
            data = data[:end]
    text = _utf8(data)
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    array = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets.data), pa.py_buffer(text))
    return pl.Series("line", array, pl.String).str.strip_suffix("\n"), losses


def unreadable(rows: pl.Series, what: str) -> tuple[Loss, ...]:
    """The lines `rows`, which cannot be read as `what`, as a `Loss`; nothing if there are none."""
    if rows.is_empty():
        return ()
    count = "1 line" if len(rows) == 1 else f"{len(rows)} lines"
    message = f"{count} cannot be read as {what}; the first: {_quoted(rows[0].encode())}"
    return (Loss("unreadable", len(rows), message),)


def block_events(frame: pl.DataFrame) -> pl.DataFrame:
    """Table `block_events` from the columns a format has; the others are null.

    Sorted by `ts_ns`; equal times keep the order of `frame`.
    """
    return schema.complete(frame.sort("ts_ns", maintain_order=True), "block_events")


def number(column: str, dtype: type[pl.Int32 | pl.Int64]) -> pl.Expr:
    """The number a column holds as text; null where there is none or where it does not fit.

    The all-ones sector of an empty flush is one that does not fit.
    """
    return pl.col(column).cast(dtype, strict=False)


def device(major: str, minor: str) -> pl.Expr:
    """`dev` of two columns that hold major and minor number as text."""
    numbers = pl.col(major).cast(pl.UInt32, strict=False), pl.col(minor).cast(pl.UInt32, strict=False)
    return numbers[0] * (1 << units.MINOR_BITS) + numbers[1]


def span(times: pl.Series) -> tuple[int | None, int | None]:
    """First and last of Int64 times; None for none."""
    first, last = times.min(), times.max()
    return (first, last) if isinstance(first, int) and isinstance(last, int) else (None, None)


def counts(names: pl.Series) -> dict[str, int]:
    """How often each name occurs, in alphabetical order."""
    table = names.value_counts(name="n").sort(names.name)
    return dict(zip(table[names.name].to_list(), table["n"].to_list(), strict=True))


def _quoted(text: bytes) -> str:
    """The start of a line, for messages."""
    shown = printable(text[:60].decode(errors="backslashreplace"))
    return f"“{shown}{'…' if len(text) > 60 else ''}”"


def _utf8(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace").encode()
    return data
