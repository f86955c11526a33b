"""`androstep sql`: query the tables of a capture with SQL."""

from __future__ import annotations

import argparse

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, add_table_output, complete, keep_source, write_table
from androstep_analysis.present import wide


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        `androstep tables CAPTURE --ddl` prints tables and columns; docs/sql.md has twenty questions and their answers.
        The first rows of the answer are printed, in units that people read where a column is named as those of the
        tables are (…_ns, …_bytes, bytes); -o writes all of them as they are.

        example: androstep sql mycapture "select op, sum(bytes) as bytes from io group by op"
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("query", metavar="QUERY", help="what to ask, as polars' SQL has it")
    add_format(command)
    add_table_output(command)


def run(arguments: argparse.Namespace) -> None:
    keep_source(arguments)
    answer = capture.open(arguments.path, format=arguments.format).sql(arguments.query)
    if arguments.output is None:
        print(wide.show(answer))
    else:
        write_table(answer.lazy(), arguments.output)
