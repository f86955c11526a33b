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
        Prints findings, the most costly first: the process, the file, the time, the cost, and the I/O that a fix would
        avoid. docs/advise.md explains the limits and their sources. A check for which the capture lacks data is
        reported as undecided, never as passed.

        example: androstep advise mycapture --all
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    add_format(command)
    command.add_argument(
        "--all", action="store_true", help="also list the checks that found nothing or lacked data, and why"
    )
    add_json(command, "one JSON array of all rows of androstep.advise")
    command.add_argument(
        "--model",
        metavar="MODEL",
        nargs="+",
        type=Path,
        help="predict the saved time on this device, with a model that `androstep model build` made",
    )


def run(arguments: argparse.Namespace) -> None:
    opened = capture.open(arguments.path, format=arguments.format)
    for failure in advice.failures():
        print(f"androstep: {visible(failure)}", file=sys.stderr)
    model = None if arguments.model is None else device_model(arguments.model)
    findings = advice.advise(opened, model)
    if arguments.json:
        print(to_json(findings))
        return
    lines = words.headline(findings, advice.triggers(), opened.first_ns, every=arguments.all)
    print(shown(lines, coloured=has_colours()))
    if opened.lost_events or opened.losses:
        print("\nEvents of this recording were lost: the findings hold, but others may be missing.")
