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
        Prints one line for each difference from the release; the exit status is then 1. Reads no files outside of DIR.
        Before you publish an anonymised release, check with --no-strings-of that no name is left in it.

        example: androstep verify mydataset
        """,
    )
    command.add_argument("directory", metavar="DIR", help="directory that `androstep release` made")
    command.add_argument(
        "--no-strings-of",
        nargs="+",
        default=[],
        metavar="CAPTURE",
        help="search the release for every name in these captures; each one that is found is a problem",
    )
    command.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="do not search for this name; repeat for several"
    )
    add_json(command, "print one JSON object with all problems and notes")


def run(arguments: argparse.Namespace) -> int:
    result = datasets.verify(arguments.directory, without=arguments.no_strings_of, allow=arguments.allow)
    if arguments.json:
        print(to_json({"directory": arguments.directory, "is_whole": not result.problems, **plain(result)}))
        return 1 if result.problems else 0
    for sentence in (*result.problems, *result.notes):
        print(visible(sentence))
    if not result.problems:
        searched = ", and no name of the captures is in it" if arguments.no_strings_of else ""
        print(f"{visible(arguments.directory)}: {result.files} files, all as released{searched}")
    return 1 if result.problems else 0
