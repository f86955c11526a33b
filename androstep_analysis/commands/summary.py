"""`androstep summary`: summarise a capture in about ten lines."""

from __future__ import annotations

import argparse

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, add_json, complete
from androstep_analysis.common.answers import to_json
from androstep_analysis.datasets import export
from androstep_analysis.datasets.export import most_viewer as most
from androstep_analysis.present import terminal
from androstep_analysis.present.summary import summary


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        About ten lines: what was recorded and how complete it is, who moved most, which files, which kinds of blocks,
        in which order, how long it took, and what is unusual. --all prints every table below them, --json one stable
        object (docs/summary.md). --compat most counts as the MOST Viewer did and prints its eight data files.

        example: androstep summary trace.po --all
        """,
    )
    command.add_argument("path", metavar="PATH", help="capture directory or trace file")
    add_format(command)
    command.add_argument("--all", action="store_true", help="also every table")
    add_json(command, "one JSON object with all counts")
    command.add_argument("--compat", choices=["most"], help="count as this older tool did")


def run(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path, format=arguments.format)
    if arguments.json:
        print(to_json(summary(opened, compat=arguments.compat)))
    elif arguments.compat == "most":
        for name, content in most.viewer_tables(most.counts(export.most.lines(opened))).items():
            print(f"{name}\n{content}")
    else:
        print(terminal.summary(opened, arguments.path))
        if arguments.all:
            print(f"\n{terminal.tables(opened)}")
