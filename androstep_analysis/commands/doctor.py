"""`androstep doctor`: check this machine, a device, or the files of a capture."""

from __future__ import annotations

import argparse
from pathlib import Path

from androstep_analysis import device
from androstep_analysis.commands.command import add_json, add_on, complete
from androstep_analysis.common.answers import to_json
from androstep_analysis.device import doctor
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Lists what works here, and for each problem what it prevents and how to fix it. With CAPTURE it checks that the
        capture's files are unchanged since it was made. With --on it checks what can be recorded on the device. The
        exit status is 1 if a necessary check failed.

        example: androstep doctor mycapture
        """,
    )
    command.add_argument("path", nargs="?", metavar="CAPTURE", type=Path, help="capture directory to check")
    add_on(command)
    add_json(command, "print a JSON array of all checks")


def run(arguments: argparse.Namespace) -> int:
    if arguments.on and arguments.path:
        arguments.wrong_usage("--on checks a device; leave out CAPTURE")
    if arguments.on:
        with device.connect(arguments.on) as connected:
            findings = connected.doctor()
    else:
        findings = doctor.machine() if arguments.path is None else doctor.capture(arguments.path)
    status = int(any(finding.needed and not finding.ok for finding in findings))
    if arguments.json:
        print(to_json(findings))
        return status
    rows = [["ok" if finding.ok else "NO", finding.what, finding.advice] for finding in findings]
    print(terminal.table(["", "what", "advice"], rows, is_whole=True))
    return status
