"""Answers as JSON (``--json``): one way from tables and Python objects to text that every program reads.

The text is ASCII: names from a device cannot steer a terminal, and no reader has to guess an encoding. Whole numbers
stay whole, a number that is none (NaN, infinite) is null, and values of enums are their texts. A table is an array with
an object for each row. `schemas/answers/` has a JSON Schema for what each command prints.
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
    """Return the answer as JSON; with no `indent` on one line.

    Parameters
    ----------
    answer : any
        Tables of polars, dataclasses, mappings, sequences and plain values, in each other.
    indent : int, optional
        Spaces of a level.

    Raises
    ------
    TypeError
        For a value that JSON has nothing for.
    """
    # The only control character that json leaves as it is.
    return json.dumps(plain(answer), indent=indent, allow_nan=False).replace("\x7f", "\\u007f")


def plain(answer: Any) -> Any:
    """Return the answer as dicts, lists, texts, whole numbers, finite floats, bools and None."""
    if isinstance(answer, pl.LazyFrame):
        answer = answer.collect()
    if isinstance(answer, pl.DataFrame):
        return [plain(row) for row in answer.with_columns(pl.col(pl.Enum).cast(pl.String)).iter_rows(named=True)]
    if isinstance(answer, Enum):
        return plain(answer.value)
    if isinstance(answer, str | PurePath):
        # A path that is no UTF-8 has bytes as lone surrogates, which are no text of JSON.
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
    raise TypeError(f"{type(answer).__name__} has no JSON")
