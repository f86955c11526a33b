"""`androstep report`: write the figures and tables of a capture as one page."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

from androstep_analysis import capture
from androstep_analysis.commands.command import add_classes, add_format, complete, keep_source, text_file
from androstep_analysis.common.errors import InputError


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        The page needs no network and no other files. --figures also saves each figure as PDF and PNG, with its data as
        CSV and its provenance.

        example: androstep report mycapture -o report.html --figures figures
        """,
    )
    command.add_argument("path", metavar="CAPTURE", help="capture directory or trace file")
    add_format(command)
    add_classes(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE.html", type=text_file, help="page to write")
    command.add_argument("--figures", metavar="DIR", type=Path, help="also save the figures in this directory")


def run(arguments: argparse.Namespace) -> None:
    from androstep_analysis.present import report  # importing matplotlib takes a second

    keep_source(arguments)
    if arguments.output.is_dir():
        raise InputError(f"{arguments.output}: is a directory; name the page to write")
    if arguments.figures is not None and arguments.figures.exists() and not arguments.figures.is_dir():
        raise InputError(f"{arguments.figures}: is not a directory; name another with --figures")
    opened = capture.open(arguments.path, format=arguments.format, classes=arguments.classes)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(arguments.output if arguments.output.exists() else arguments.output.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(arguments.output))  # before minutes of work
    report.write(opened, arguments.output, figures=arguments.figures)
