"""Complete a command line in the shell: commands, options, measures, dimensions, columns and values.

`cli` calls it at a press of the tab key. docs/install.md says how to switch completion on.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from androstep_analysis import capture, compare
from androstep_analysis.common import schema, units
from androstep_analysis.common.errors import InputError
from androstep_analysis.common.manifest import FILE_NAME
from androstep_analysis.measures import where
from androstep_analysis.measures.measure import DIMENSIONS, Measure
from androstep_analysis.measures.recording import Recording

MOST_VALUES: Final = 50
"""Maximum number of values of a column that are offered."""

_CONDITION: Final = re.compile(r"(([A-Za-z_][A-Za-z0-9_.]*)!?=).*", re.DOTALL)


def add(command: str, arguments: Iterable[argparse.Action]) -> None:
    """Give the arguments of a command the functions that complete them (attribute `completer` of argcomplete)."""
    for argument in arguments:
        if completer := _COMPLETERS.get((command, argument.dest)) or _COMPLETERS.get(("", argument.dest)):
            vars(argument)["completer"] = completer


def _measures(**_: object) -> Iterable[str]:
    return compare.measures()


def _measure(parsed_args: argparse.Namespace) -> Measure | None:
    """Return the measure that the line names, or None."""
    name = parsed_args.measure if "measure" in parsed_args else getattr(parsed_args, "name", None)
    return compare.measures().get(name or "")


def _dimensions(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the list on the line, which is separated by commas, with each dimension that can follow."""
    *before, _last = prefix.split(",")
    measure = _measure(parsed_args)
    names = () if measure is None else measure.dimensions
    return [",".join([*before, name]) for name in names if name not in before]


def _conditions(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the columns that a condition can use, or the values of its column in the capture on the line."""
    measure = _measure(parsed_args)
    table = "slow" if measure is None else measure.needs[0]
    if match := _CONDITION.fullmatch(prefix):
        return [match[1] + value for value in _values(parsed_args, table, match[2])]
    words = DIMENSIONS.get(table, ("app", "process", "file"))
    return [f"{name}=" for name in dict.fromkeys((*words, "time", "bytes", *schema.table(table).polars))]


def _values(parsed_args: argparse.Namespace, table: str, column: str) -> list[str]:
    """Return the most frequent values of a column. A trace file has none: it would have to be read first."""
    paths = parsed_args.paths if "paths" in parsed_args else [parsed_args.path]
    if not paths or not Path(paths[0] or "", FILE_NAME).is_file():
        return []
    try:
        tables = Recording.of(capture.open(paths[0])).by([column])
    except InputError:
        return []
    for name in (table, "io", "requests"):
        expressions = where.of_table(name, tables, None) if name in tables else {}
        if column in expressions:
            values = tables[name].select(expressions[column].alias("value"))
            counts = values.drop_nulls().group_by("value").len().sort("len", "value", descending=[True, False])
            found = counts.head(MOST_VALUES).collect()["value"].to_list()
            texts = (units.format_dev(value) if column in ("dev", "device") else _text(value) for value in found)
            return [text for text in texts if text.isprintable()]  # the shell splits at control characters
    return []


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_COMPLETERS: Final[Mapping[tuple[str, str], Callable[..., Iterable[str]]]] = {
    ("", "on"): lambda **_: ("usb", "adb", "local"),
    ("compare", "where"): _conditions,
    ("measure", "by"): _dimensions,
    ("measure", "name"): _measures,
    ("measure", "where"): _conditions,
    ("slow", "where"): _conditions,
}
"""The function that completes an argument of a command, or of all commands that have one of this name."""
