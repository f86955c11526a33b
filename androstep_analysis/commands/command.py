"""Helpers that several commands share: shared options, types of arguments, and output files."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import polars as pl

from androstep_analysis.common import conditions, csvfile, files, manifest, schema, units
from androstep_analysis.common.errors import InputError

if TYPE_CHECKING:
    from androstep_analysis.device.record.monitoring import Monitoring
    from androstep_analysis.device.record.recording import Recording
    from androstep_analysis.device.record.stock import StockRecording


def complete(command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int | None], details: str) -> None:
    """Set the function of a command and the rest of its help.

    The function gets the parsed arguments; `arguments.wrong_usage` prints a usage error and exits. `details` follow the
    one-line summary (`cli.COMMANDS`) and end with an example to copy.
    """
    command.description = f"{command.description}\n\n{textwrap.dedent(details).strip()}"
    command.set_defaults(run=run, wrong_usage=command.error)


def add_on(command: argparse.ArgumentParser) -> None:
    """Add --on, for commands that also work on a device (`device.connect`)."""
    command.add_argument(
        "--on",
        metavar="WHERE",
        help="the device to use: HOST:PORT, usb, usb:SERIAL, adb, adb:SERIAL or local (docs/device.md)",
    )


def add_json(command: argparse.ArgumentParser, what: str) -> None:
    """Add --json, for commands that also print their result as JSON (`answers.to_json`).

    Each of them has a schema in `schemas/answers/`; tests validate the output against it.
    """
    command.add_argument("--json", action="store_true", help=f"{what} (schemas/answers/)")


def add_new_capture(command: argparse.ArgumentParser, kind: str) -> None:
    """Add --output, for commands that make a capture (`new_capture`)."""
    command.add_argument(
        "-o",
        "--output",
        metavar="CAPTURE",
        type=new_directory,
        help=f"directory to make (default: {kind}-DATE-TIME, in UTC)",
    )


def new_capture(arguments: argparse.Namespace, kind: str) -> Path:
    """Return the directory that --output names, or else one with the time in its name."""
    return arguments.output or Path(f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}")


def add_traced_device(command: argparse.ArgumentParser) -> None:
    """Add --device, for commands that record."""
    command.add_argument(
        "--device",
        metavar="PATH",
        action="append",
        default=[],
        help="record only this storage device (path or MAJ:MIN), or the device of this file; repeat for several"
        " (default: all)",
    )


def add_format(command: argparse.ArgumentParser, *, is_alone: bool = False) -> None:
    """Add --trace-format, for commands that open traces.

    Its short form is --format, unless the command uses that itself.
    """
    command.add_argument(
        "--trace-format",
        *([] if is_alone else ["--format"]),
        metavar="TITLE",
        dest="format",
        help="format of the trace, such as 'blkparse text', if the detected one is wrong (docs/formats.md)",
    )


def add_classes(command: argparse.ArgumentParser) -> None:
    """Add --classes, for commands that show types of files and apps (`capture.open`)."""
    command.add_argument(
        "--classes", metavar="FILE.toml", help="use your own types of files and names of apps (docs/classes.md)"
    )


def add_rest(command: argparse.ArgumentParser, rest: str) -> None:
    """Show in the usage which words may follow ``--`` (`cli`). Call it after all arguments are added."""
    command.usage = f"{command.format_usage().removeprefix('usage: ').rstrip()} [-- {rest}]"


def add_where(command: argparse.ArgumentParser) -> None:
    """Add --where, for commands that filter rows (`conditions.matching`)."""
    command.add_argument(
        "--where",
        metavar="COLUMN=VALUE",
        type=_condition,
        action="append",
        default=[],
        help="only rows with this value, such as op=write; also patterns (path=*.db), != >= <= > <, and times since the"
        " start of the recording (time=2s..5s); repeat to combine conditions",
    )


def _condition(text: str) -> conditions.Condition:
    try:
        return conditions.parse(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def keep_source(arguments: argparse.Namespace) -> None:
    """Raise `InputError` if the output file is the recording itself."""
    output, source = arguments.output, Path(arguments.path)
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: is the input; name another file with -o")


def text_file(text: str) -> Path:
    """Parse the name of an output file of text; ``-`` is standard output."""
    return files.STDOUT if text == "-" else Path(text)


def new_directory(text: str) -> Path:
    """Parse the name of a directory that a command makes."""
    return Path(_no_stdout(text, "a directory is made; name one"))


def binary_file(text: str) -> Path:
    """Parse the name of an output file that is no text."""
    return Path(_no_stdout(text, "the file is no text; name one"))


def _no_stdout(text: str, reason: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError(f"cannot write to standard output: {reason}")
    return text


def add_table_output(command: argparse.ArgumentParser) -> None:
    """Add --output, for commands whose result is one table (`write_table`)."""
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_table_file,
        help="write all rows to FILE.parquet or FILE.csv (-: CSV to standard output)",
    )


def _table_file(text: str) -> Path:
    path = text_file(text)
    if path != files.STDOUT and path.suffix not in (".parquet", ".csv"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .parquet or .csv")
    return path


def write_table(table: pl.LazyFrame, path: Path) -> None:
    """Write all rows to a Parquet or CSV file, without rounding or units."""
    if path.suffix == ".csv" or path == files.STDOUT:
        csvfile.write(table, path)
    else:
        # The error message of polars for a file that cannot be opened truncates long paths.
        with files.replacing(path) as new, new.open("wb") as file:
            table.sink_parquet(file, compression="zstd")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes. It is replaced at the end, and unchanged if an error occurs before."""
    with files.replacing(path) as new, new.open("wb" if new == path else "w+b") as file:
        yield file


@contextlib.contextmanager
def kept_at_ctrl_c(recording: Recording | StockRecording | Monitoring) -> Iterator[None]:
    """Record while the block runs. Ctrl-C anywhere in the block ends and keeps the recording."""
    try:
        with recording:
            yield
    except KeyboardInterrupt:
        if recording.capture is None:
            raise


def block_device(text: str) -> str:
    """Check an argument of the form ``MAJ:MIN`` and return it."""
    try:
        units.parse_dev(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def positive(text: str) -> int:
    """Parse a positive whole number."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 100,000,000")
    return int(text)


def fact(text: str) -> tuple[str, Any]:
    """Parse an argument ``NAME=VALUE``: a fact about a recording (`manifest.FACTS`), converted to its type."""
    name, equals, value = text.partition("=")
    names = [known for known in manifest.FACTS if known != "clock"]  # the clock follows from the trace
    if not equals or not value or name not in names:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a fact; write NAME=VALUE with one of these names: {', '.join(names)}"
        )
    python = schema.table("captures").column(name).polars.to_python()
    if python is str:
        return name, value
    values = {"true": True, "false": False} if python is bool else {value: int(value)} if value.isdecimal() else {}
    if value not in values:
        expected = "true or false" if python is bool else "a whole number"
        raise argparse.ArgumentTypeError(f"{name} is {expected}, not {value!r}")
    return name, values[value]


def duration(text: str) -> int:
    """Parse a duration such as ``10s``, ``500ms`` or ``2min``. Return nanoseconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s|min|h)", text)
    nanoseconds = 0 if match is None else round(Fraction(match[1]) * units.NS[match[2]])
    if nanoseconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 10s, 500ms, 2min or 1h")
    return nanoseconds
