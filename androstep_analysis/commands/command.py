"""What the commands share: how one is made, and what several take."""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from androstep_analysis import units
from androstep_analysis.errors import InputError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds itself to the command line."""


def new_command(
    commands: Commands,
    run: Callable[[argparse.Namespace], int | None],
    name: str,
    summary: str,
    details: str,
) -> argparse.ArgumentParser:
    """A command's parser, which a command gives its arguments; `run` gets them, and `wrong_usage` is among them.

    `summary` stands in the list of commands, `details` below it in the command's own help, with an example to copy.
    """
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{summary}\n\n{textwrap.dedent(details).strip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, wrong_usage=command.error)
    return command


def keep_source(arguments: argparse.Namespace) -> None:
    """Raises `InputError` where the file to write is the one that is read."""
    output, source = arguments.output, Path(arguments.path)
    if output is not None and output.exists() and source.exists() and output.samefile(source):
        raise InputError(f"{output}: is the recording itself; name another file with -o")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """`path` opened to write and read bytes; removed again if anything goes wrong."""
    with path.open("w+b" if path.is_file() or not path.exists() else "wb") as file:
        try:
            yield file
        except BaseException:
            if path.is_file():
                path.unlink()
            raise


def block_device(text: str) -> str:
    """An argument ``MAJ:MIN``."""
    try:
        units.parse_dev(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
