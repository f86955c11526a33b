"""`androstep doctor`: what works here, and whether a capture is whole."""

from __future__ import annotations

import argparse
from pathlib import Path

from androstep_analysis import doctor, terminal
from androstep_analysis.commands.command import Commands, new_command


def add(commands: Commands) -> None:
    command = new_command(
        commands,
        run,
        "doctor",
        "Check this machine, or a capture.",
        """
        Says what works, what each thing that does not would prevent, and how to mend it. With a capture: whether its
        files are still those it was made from. Exit status 1 if something must be mended.

        example: androstep doctor mycapture
        """,
    )
    command.add_argument("path", nargs="?", metavar="CAPTURE", type=Path, help="capture directory to check")


def run(arguments: argparse.Namespace) -> int:
    findings = doctor.machine() if arguments.path is None else doctor.capture(arguments.path)
    rows = [["ok" if finding.ok else "NO", finding.what, finding.advice] for finding in findings]
    print(terminal.table(["", "what", "advice"], rows))
    return int(any(finding.needed and not finding.ok for finding in findings))
