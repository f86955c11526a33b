"""`androstep report`: figures and tables as one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.commands.command import Commands, new_command


def add(commands: Commands) -> None:
    command = new_command(
        commands,
        run,
        "report",
        "Write a capture's figures and tables as one self-contained HTML page.",
        """
        --figures also saves each figure as PDF and PNG with the CSV behind it and its provenance.

        example: androstep report mycapture -o report.html --figures figures
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    command.add_argument("-o", "--output", required=True, metavar="FILE.html", type=Path, help="page to write")
    command.add_argument("--figures", metavar="DIR", type=Path, help="directory for the figures")


def run(arguments: argparse.Namespace) -> None:
    from androstep_analysis import report  # matplotlib takes a second that no other command needs

    opened = capture.open(arguments.path)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    report.write(opened, arguments.output, figures=arguments.figures)
