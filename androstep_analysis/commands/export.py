"""`androstep export`: convert a capture to another tool's format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, complete, keep_source, new_file
from androstep_analysis.common.markup import visible
from androstep_analysis.datasets import export

_OPTIONS = {"block_bytes": "--block-size", "objects": "--objects", "op": "--op"}
"""Arguments that only some formats take, and their options."""


def add(command: argparse.ArgumentParser) -> None:
    targets = "\n".join(
        f"{name}\n    {target.purpose}\n    not included: {target.lost}" for name, target in export.TARGETS.items()
    )
    complete(
        command,
        run,
        f"""
docs/export.md shows how to use each format. The formats:

{targets}

example: androstep export mycapture --to perfetto -o trace.pftrace
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    add_format(command)
    command.add_argument(
        "--to", required=True, choices=export.TARGETS, metavar="FORMAT", help=f"one of {', '.join(export.TARGETS)}"
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", type=_file, help="file to write (default for text: standard output)"
    )
    caches = command.add_argument_group("for oraclegeneral")
    caches.add_argument(
        "--block-size", metavar="BYTES", type=_positive, dest="block_bytes", help="size of an object (default: 4096)"
    )
    caches.add_argument(
        "--objects", choices=["blocks", "files"], help="cache blocks of the device (default), or of files if known"
    )
    caches.add_argument("--op", choices=["read", "write"], help="export only reads, or only writes")


def run(arguments: argparse.Namespace) -> None:
    target = export.TARGETS[arguments.to]
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(_OPTIONS[name] for name in set(options) - set(target.options)):
        arguments.wrong_usage(f"{arguments.to} takes no {', '.join(unknown)}: for oraclegeneral only")
    if arguments.output is None and not target.is_text:
        arguments.wrong_usage(f"{arguments.to} is no text; name a file with -o")
    keep_source(arguments)
    opened = capture.open(arguments.path, format=arguments.format)
    if not opened.about["rows"][target.rows_of]:
        print(
            f"androstep: note: table {target.rows_of} of {visible(opened.title)} has no rows: the {arguments.to} file"
            " is empty",
            file=sys.stderr,
        )
    if arguments.output is None:
        target.write(opened, sys.stdout.buffer, **options)
        return
    with new_file(arguments.output) as file:
        target.write(opened, file, **options)


def _file(text: str) -> Path | None:
    return None if text == "-" else Path(text)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)
