"""Serialize tables and Python objects as JSON for ``--json``.

The text is ASCII, so that names from a device cannot control a terminal and no reader has to guess an encoding.
Integers stay integers, NaN and infinities become null, and enum members become their values. A table becomes an array
with one object for each row. `schemas/answers/` has a JSON Schema for the output of each command.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import polars as pl


def to_json(answer: Any, *, indent: int | None = 2) -> str:
    """Return a result as JSON text, on one line if `indent` is None.

    Parameters
    ----------
    answer : any
        Polars tables, dataclasses, mappings, sequences and plain values, nested in any way.
    indent : int, optional
        Spaces for each level.

    Raises
    ------
    TypeError
        For a value that JSON cannot represent.
    """
    # DEL is the only control character that `json` does not escape.
    return json.dumps(plain(answer), indent=indent, allow_nan=False).replace("\x7f", "\\u007f")


def plain(answer: Any) -> Any:
    """Convert a result to dicts, lists, strings, integers, finite floats, bools and None."""
    if isinstance(answer, pl.LazyFrame):
        answer = answer.collect()
    if isinstance(answer, pl.DataFrame):
        return [plain(row) for row in answer.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)]
    if isinstance(answer, Enum):
        return plain(answer.value)
    if isinstance(answer, str | PurePath):
        # Python represents bytes of a path that are not UTF-8 as lone surrogates, which JSON text must not contain.
        return str(answer).encode(errors="backslashreplace").decode()
    if isinstance(answer, float):
        return answer if math.isfinite(answer) else None
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return {field.name: plain(getattr(answer, field.name)) for field in dataclasses.fields(answer)}
    if isinstance(answer, Mapping):
        return {plain(str(name)): plain(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(value) for value in answer]
    if answer is None or isinstance(answer, bool | int):
        return answer
    raise TypeError(f"{type(answer).__name__} cannot be written as JSON")
