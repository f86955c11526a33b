"""`androstep sql`: query the tables of a capture with SQL."""

from __future__ import annotations

import argparse

from androstep_analysis import capture
from androstep_analysis.commands.command import (
    add_classes,
    add_format,
    add_table_output,
    complete,
    keep_source,
    write_table,
)
from androstep_analysis.present import wide


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        `androstep tables CAPTURE --ddl` prints the tables and columns; docs/sql.md has twenty examples. The first
        rows of the result are printed. Columns named like those of the tables (…_ns, …_bytes, bytes) are printed with
        units. -o writes all rows with their plain values.

        example: androstep sql mycapture "select op, sum(bytes) as bytes from io group by op"
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("query", metavar="QUERY", help="query in the SQL dialect of polars")
    add_format(command)
    add_classes(command)
    add_table_output(command)


def run(arguments: argparse.Namespace) -> None:
    keep_source(arguments)
    answer = capture.open(arguments.path, format=arguments.format, classes=arguments.classes).sql(arguments.query)
    if arguments.output is None:
        print(wide.show(answer))
    else:
        write_table(answer.lazy(), arguments.output)
