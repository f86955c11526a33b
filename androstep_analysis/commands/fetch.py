"""`androstep fetch`: print the directory of a named dataset, downloading it if necessary."""

from __future__ import annotations

import argparse

from androstep_analysis.commands.command import complete
from androstep_analysis.common.markup import visible
from androstep_analysis.common.quantities import size
from androstep_analysis.datasets.fetch import entries, fetch
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Without NAME it lists the available datasets. A downloaded dataset is checked as with `androstep verify`. Set
        ANDROSTEP_DATASETS to a directory or address to search first, ANDROSTEP_DATASETS_CACHE to the directory for
        downloads, and ANDROSTEP_OFFLINE=1 to use no network (docs/datasets.md).

        example: androstep summary "$(androstep fetch demo)"
        """,
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="name of a dataset (default: list them)")


def run(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        rows = [
            [entry.name, entry.version, size(entry.bytes) if entry.file else "here", entry.licence, entry.about]
            for entry in entries().values()
        ]
        print(terminal.table(["dataset", "version", "download", "licence", "what it is"], rows, is_whole=True))
    else:
        print(visible(str(fetch(arguments.name))))
