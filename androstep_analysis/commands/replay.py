"""`androstep replay`: replay a program and measure it."""

from __future__ import annotations

import argparse

from androstep_analysis import device
from androstep_analysis.commands.command import add_new_capture, add_on, add_rest, complete, new_capture
from androstep_analysis.common.markup import visible
from androstep_analysis.device import runs
from androstep_analysis.present import terminal


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Runs ioreplay in DIRECTORY and saves program and results as a capture. DIRECTORY must be empty or not exist, and
        is left so; nothing outside of it is changed. For a program of block requests, DIRECTORY is the file or device
        to write to. Options after -- are those of ioreplay, as --mode as-fast, --mode scaled --scale 2 or --dry-run
        (docs/replay.md). The exit status is 0 only if every operation was done.

        example: androstep replay app.rec /mnt/test -o build/ext4 --repeats 5 -- --mode as-fast
        """,
    )
    command.add_argument("program", metavar="PROGRAM", help="file that `androstep program` made")
    command.add_argument("directory", metavar="DIRECTORY", help="where to replay it")
    add_new_capture(command, "replay")
    add_on(command)
    command.add_argument("--repeats", metavar="N", type=_count, default=1, help="replay it N times (default: 1)")
    add_rest(command, "OPTION…")


def run(arguments: argparse.Namespace) -> int:
    out = new_capture(arguments, "replay")
    program, directory, options, repeats = (
        getattr(arguments, name) for name in ("program", "directory", "options", "repeats")
    )
    if arguments.on:
        with device.connect(arguments.on) as connected:
            done = connected.replay(program, directory, out, options, repeats=repeats)
    else:
        done = runs.replay(program, directory, options, out=out, repeats=repeats)
    if done.capture is not None:
        print(f"{terminal.summary(done.capture, str(out))}\n\nkept in {visible(str(out))}")
    return done.status


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10,000")
    return int(text)
