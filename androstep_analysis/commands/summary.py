"""`androstep summary`: summarise a capture in about ten lines."""

from __future__ import annotations

import argparse

from androstep_analysis import capture
from androstep_analysis.commands.command import add_classes, add_format, add_json, complete
from androstep_analysis.common.answers import to_json
from androstep_analysis.present import terminal
from androstep_analysis.present.summary import summary


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Prints about ten lines: what was recorded and how complete it is, the processes, files and block types with the
        most I/O, access patterns, latencies, and what is unusual (docs/summary.md).

        example: androstep summary trace.po --all
        """,
    )
    command.add_argument("path", metavar="PATH", help="capture directory or trace file")
    add_format(command)
    add_classes(command)
    command.add_argument("--all", action="store_true", help="also print every table")
    add_json(command, "print one JSON object with all counts; its keys are stable")
    command.add_argument(
        "--compat", choices=["most"], help="count like the MOST Viewer, and print its eight data files"
    )


def run(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path, format=arguments.format, classes=arguments.classes)
    if arguments.json:
        print(to_json(summary(opened, compat=arguments.compat)))
    elif arguments.compat == "most":
        from androstep_analysis.datasets import export  # package datasets imports what fetches over a network
        from androstep_analysis.datasets.export import most_viewer as most

        for name, content in most.viewer_tables(most.counts(export.most.lines(opened))).items():
            print(f"{name}\n{content}")
    else:
        print(terminal.summary(opened, arguments.path))
        if arguments.all:
            print(f"\n{terminal.tables(opened)}")
