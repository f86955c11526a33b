"""`androstep advise`: list I/O of a capture that could be avoided, its cost, and what avoiding it would save."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.commands.command import add_format, add_json, complete
from androstep_analysis.commands.whatif import device_model
from androstep_analysis.common.answers import to_json
from androstep_analysis.common.markup import visible
from androstep_analysis.present import advice
from androstep_analysis.present.advice import words
from androstep_analysis.present.terminal.headline import has_colours, shown


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Findings, the most costly first: who did what to which file and when, what it cost, what mending it would leave
        out. Limits and their sources are in docs/advise.md. What the capture cannot tell is said, never taken as good.

        example: androstep advise mycapture --all
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    add_format(command)
    command.add_argument("--all", action="store_true", help="also why what found nothing, or cannot tell, does so")
    add_json(command, "one JSON array of all rows of androstep.advise")
    command.add_argument(
        "--model",
        metavar="MODEL",
        nargs="+",
        type=Path,
        help="predict times on this device, as `androstep whatif` does",
    )


def run(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path, format=arguments.format)
    for failure in advice.failures():
        print(f"androstep: {visible(failure)}", file=sys.stderr)
    model = None if arguments.model is None else device_model(arguments.model)
    found = advice.advise(opened, model)
    if arguments.json:
        print(to_json(found))
        return
    told = words.told(found, advice.triggers(), opened.first_ns, every=arguments.all)
    print(shown(told, coloured=has_colours()))
    if opened.lost_events or opened.losses:
        print("\nThe recording has losses: what was found is there, what was not found may be.")
