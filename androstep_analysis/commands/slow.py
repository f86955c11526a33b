"""`androstep slow`: show the slowest operations of a capture, and why each was slow."""

from __future__ import annotations

import argparse

from androstep_analysis import capture
from androstep_analysis.commands.command import add_classes, add_format, add_where, complete, positive
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.errors import InputError
from androstep_analysis.present.headline import Headline
from androstep_analysis.present.headline import slow as layout
from androstep_analysis.present.terminal.headline import has_colours, shown
from androstep_analysis.slowest import OPERATIONS, slow


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Prints for each of the slowest operations: its duration and time, how unusual it is, its process and file, its
        stages, and what else the device did in that time (docs/slow.md). By default these are the slowest waits: fsync
        calls, and requests that are not part of a listed fsync.

        example: androstep slow mycapture --op fsync --top 10 --where path=*.db
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    add_format(command)
    add_classes(command)
    command.add_argument("--op", choices=OPERATIONS, help="only these operations (default: the slowest waits)")
    command.add_argument("--top", metavar="N", type=positive, default=5, help="show N operations (default: 5)")
    add_where(command)
    command.add_argument("--json", action="store_true", help="print a JSON array of rows (schemas/answers/slow.json)")


def run(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path, format=arguments.format, classes=arguments.classes)
    table = slow(opened, arguments.op, arguments.top, where=arguments.where)
    if table.is_empty():
        raise InputError(f"{arguments.path}: {layout.nothing(opened, arguments.op)}")
    if arguments.json:
        print(to_json(table))
        return
    coloured = has_colours()
    print("\n\n".join(shown(Headline(block.sentences), coloured=coloured) for block in layout.blocks(table)))
