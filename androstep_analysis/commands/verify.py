"""`androstep verify`: check that a dataset is complete and unchanged since its release."""

from __future__ import annotations

import argparse

from androstep_analysis import datasets
from androstep_analysis.commands.command import add_json, complete
from androstep_analysis.common.answers import plain, to_json
from androstep_analysis.common.markup import visible


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Prints a line for each thing that is not as it was released, and then ends with status 1. Nothing outside of
        the directory is read. --no-strings-of searches the release for every name in these captures, for those who
        release them anonymised.

        example: androstep verify mydataset
        """,
    )
    command.add_argument("directory", metavar="DIR", help="directory that `androstep release` made")
    command.add_argument(
        "--no-strings-of", nargs="+", default=[], metavar="CAPTURE", help="no name in these captures may be in it"
    )
    command.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="a name that is not searched for; repeat"
    )
    add_json(command, "one JSON object with all sentences")


def run(arguments: argparse.Namespace) -> int:
    found = datasets.verify(arguments.directory, without=arguments.no_strings_of, allow=arguments.allow)
    if arguments.json:
        print(to_json({"directory": arguments.directory, "is_whole": not found.problems, **plain(found)}))
        return 1 if found.problems else 0
    for sentence in (*found.problems, *found.notes):
        print(visible(sentence))
    if not found.problems:
        searched = ", and no name of the captures is in it" if arguments.no_strings_of else ""
        print(f"{visible(arguments.directory)}: {found.files} files, all as released{searched}")
    return 1 if found.problems else 0
