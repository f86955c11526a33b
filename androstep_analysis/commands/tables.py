"""`androstep tables`: list the tables of a capture, print one, or write it to a file."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable

from androstep_analysis import bench, capture
from androstep_analysis.capture import derivation
from androstep_analysis.commands.command import add_format, add_table_output, complete, keep_source, write_table
from androstep_analysis.common import schema
from androstep_analysis.common.errors import InputError
from androstep_analysis.present import terminal
from androstep_analysis.replay.tables import TABLES as REPLAY_TABLES


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        docs/tables.md explains every column. Without -o the first rows of a table are printed, with units. Files have
        all rows with their plain values.

        example: androstep tables mycapture io -o io.parquet
        """,
    )
    command.add_argument("path", metavar="CAPTURE", nargs="?", help="capture directory or trace file")
    add_format(command)
    command.add_argument(
        "table",
        nargs="?",
        choices=_TABLES,
        metavar="TABLE",
        help=f"table to print or write: {', '.join(_TABLES)} (default: list them)",
    )
    add_table_output(command)
    command.add_argument(
        "--ddl",
        action="store_true",
        help="print CREATE TABLE statements that explain each column; without CAPTURE those of all tables",
    )


_TABLES = (*derivation.TABLES, *bench.TABLES, *REPLAY_TABLES)


def run(arguments: argparse.Namespace) -> None:
    if arguments.output is not None and arguments.table is None:
        arguments.wrong_usage("-o writes one table; name it before -o")
    if arguments.ddl and arguments.output is not None:
        arguments.wrong_usage("--ddl is printed; -o writes the rows of a table")
    if arguments.path is None:
        if not arguments.ddl:
            arguments.wrong_usage("name a capture; without one there is --ddl")
        print(_ddl(schema.names()))
        return
    keep_source(arguments)
    opened = capture.open(arguments.path, format=arguments.format)
    if arguments.table is not None and arguments.table not in opened.tables:
        raise InputError(f"{arguments.path}: has no table {arguments.table}; it has {', '.join(opened.tables)}")
    if arguments.ddl:
        print(_ddl(opened.tables if arguments.table is None else [arguments.table]))
    elif arguments.table is None:
        rows = [
            [
                name,
                f"{opened.about['rows'][name]:,}",
                textwrap.shorten(schema.table(name).description.removeprefix("Staging: "), 58, placeholder=" …"),
            ]
            for name in opened.tables
        ]
        print(terminal.table(["table", "rows", "one row is"], rows))
    elif arguments.output is None:
        print(terminal.rows(arguments.table, opened.tables[arguments.table]))
    else:
        write_table(opened.tables[arguments.table], arguments.output)


def _ddl(names: Iterable[str]) -> str:
    return "\n\n".join(schema.table(name).ddl for name in names)
