"""What the commands share: how one is made, and what several take."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from androstep_analysis.common import conditions, csvfile, files, manifest, schema, units
from androstep_analysis.common.errors import InputError


def complete(command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int | None], details: str) -> None:
    """Gives a command its function, which gets the arguments (`wrong_usage` is among them), and the rest of its help.

    `details` stand below the command's summary (`cli.COMMANDS`), with an example to copy.
    """
    command.description = f"{command.description}\n\n{textwrap.dedent(details).strip()}"
    command.set_defaults(run=run, wrong_usage=command.error)


def add_on(command: argparse.ArgumentParser) -> None:
    """Argument --on, for commands that also work on a device (`device.connect`)."""
    command.add_argument(
        "--on",
        metavar="WHERE",
        help="on this device: HOST:PORT, usb, usb:SERIAL, adb, adb:SERIAL or local (docs/device.md)",
    )


def add_json(command: argparse.ArgumentParser, what: str) -> None:
    """Argument --json, for commands that also print their answer as JSON (`answers.to_json`).

    `schemas/answers/` has a schema for each of them, which tests hold against what they print.
    """
    command.add_argument("--json", action="store_true", help=f"{what}, as schemas/answers/ has it")


def add_traced_device(command: argparse.ArgumentParser) -> None:
    """Argument --device, for commands that record."""
    command.add_argument(
        "--device",
        metavar="PATH",
        action="append",
        default=[],
        help="trace this storage device (path or MAJ:MIN) or that of a file; may be given again (default: all)",
    )


def add_format(command: argparse.ArgumentParser, *, is_alone: bool = False) -> None:
    """Argument --trace-format, for commands that open traces; also called --format, unless it is to be alone."""
    command.add_argument(
        "--trace-format",
        *([] if is_alone else ["--format"]),
        metavar="TITLE",
        dest="format",
        help="format of the trace, as 'blkparse text', where its first bytes mislead",
    )


def add_rest(command: argparse.ArgumentParser, rest: str) -> None:
    """Show in the usage what stands behind ``--`` (`cli`). Call it when all arguments are added."""
    command.usage = f"{command.format_usage().removeprefix('usage: ').rstrip()} [-- {rest}]"


def add_where(command: argparse.ArgumentParser) -> None:
    """Argument --where, for commands that filter rows (`conditions.matching`)."""
    command.add_argument(
        "--where",
        metavar="COLUMN=VALUE",
        type=_condition,
        action="append",
        default=[],
        help="only what has this value: patterns as path=*.db, != >= <= > <, and times from the start of the recording"
        " as time=2s..5s; all that are given must hold",
    )


def _condition(text: str) -> conditions.Condition:
    try:
        return conditions.parse(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def keep_source(arguments: argparse.Namespace) -> None:
    """Raises `InputError` where the file to write is the one that is read."""
    output, source = arguments.output, Path(arguments.path)
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: is the recording itself; name another file with -o")


def add_table_output(command: argparse.ArgumentParser) -> None:
    """Argument --output, for commands that give one table (`write_table`)."""
    command.add_argument("-o", "--output", metavar="FILE", type=_table_file, help="FILE.parquet or FILE.csv")


def _table_file(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".parquet", ".csv"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .parquet or .csv")
    return path


def write_table(table: pl.LazyFrame, path: Path) -> None:
    """Write all rows, their values as they are."""
    if path.suffix == ".csv":
        csvfile.write(table, path)
    else:
        # polars names a long path only in part where it cannot be opened.
        with files.replacing(path) as new, new.open("wb") as file:
            table.sink_parquet(file, compression="zstd")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open `path` to write and read bytes; it is replaced at the end, and stays as it was where anything goes wrong."""
    with files.replacing(path) as new, new.open("wb" if new == path else "w+b") as file:
        yield file


def block_device(text: str) -> str:
    """An argument ``MAJ:MIN``."""
    try:
        units.parse_dev(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def positive(text: str) -> int:
    """An argument that counts seconds or times."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 100,000,000")
    return int(text)


def fact(text: str) -> tuple[str, Any]:
    """An argument ``NAME=VALUE``: something known of a recording (`manifest.FACTS`), in its type."""
    name, equals, value = text.partition("=")
    names = [known for known in manifest.FACTS if known != "clock"]  # which is the trace's own
    if not equals or not value or name not in names:
        raise argparse.ArgumentTypeError(f"{text!r} is no fact; write NAME=VALUE with one of {', '.join(names)}")
    python = schema.table("captures").column(name).polars.to_python()
    if python is str:
        return name, value
    values = {"true": True, "false": False} if python is bool else {value: int(value)} if value.isdecimal() else {}
    if value not in values:
        expected = "true or false" if python is bool else "a whole number"
        raise argparse.ArgumentTypeError(f"{name} is {expected}, not {value!r}")
    return name, values[value]


def duration(text: str) -> int:
    """An argument such as ``10s``, ``500ms`` or ``2min``, in nanoseconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s|min|h)", text)
    nanoseconds = 0 if match is None else round(Fraction(match[1]) * units.NS[match[2]])
    if nanoseconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time; write 10s, 500ms, 2min or 1h")
    return nanoseconds
