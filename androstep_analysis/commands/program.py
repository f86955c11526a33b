"""`androstep program`: make a replay program from recorded system calls or block requests."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from androstep_analysis import capture, measures
from androstep_analysis.commands.command import add_format, binary_file, block_device, complete, keep_source
from androstep_analysis.common import units
from androstep_analysis.common.errors import InputError
from androstep_analysis.ingest import recording
from androstep_analysis.present import terminal
from androstep_analysis.replay import device as device_replay
from androstep_analysis.replay.clean import clean
from androstep_analysis.replay.processes import descendants
from androstep_analysis.replay.program import Program
from androstep_analysis.replay.statistics import statistics


def add(command: argparse.ArgumentParser) -> None:
    complete(
        command,
        run,
        """
        Reads system calls (of strace, iotrace, ioshark or MobiGen) and keeps those on files. Adds the files and
        directories that they need, so that `androstep replay` can run the program in an empty directory. Prints a
        summary, and which calls were left out and why.

        With --device the program has the requests of that block device instead, to replay them on a device or in a
        file. A program never holds file contents. See docs/replay.md.

        example: androstep program app.strace -o app.rec
        """,
    )
    command.add_argument("path", metavar="SOURCE", help="capture directory or trace file")
    add_format(command)
    command.add_argument(
        "-o", "--output", required=True, metavar="FILE", type=binary_file, help="program to make (.rec)"
    )
    command.add_argument(
        "--device", metavar="MAJ:MIN", type=block_device, help="use the requests of this device, not the system calls"
    )
    command.add_argument(
        "--process",
        metavar="PID",
        type=_process,
        action="append",
        help="keep only this process; repeat for several; all keeps every process (default: in a recording of iotrace"
        " the recorded command and its children, else all)",
    )
    command.add_argument(
        "--unknown-as-files",
        action="store_true",
        help="treat descriptors whose open was not recorded as files without a name (default: leave them out)",
    )
    command.add_argument(
        "--hash-names",
        metavar="KEYFILE",
        type=Path,
        help="replace all names by hashes keyed with this file's bytes, and remove process names",
    )


def run(arguments: argparse.Namespace) -> None:
    if arguments.device and (arguments.process or arguments.unknown_as_files):
        arguments.wrong_usage("--process and --unknown-as-files select system calls, which --device does not use")
    keep_source(arguments)
    salt = arguments.hash_names.read_bytes() if arguments.hash_names else None
    opened = capture.open(arguments.path, format=arguments.format)
    program, description = (
        _device_program(opened, arguments.device) if arguments.device else _cleaned(opened, arguments)
    )
    digests = [source.sha256 for source in opened.manifest.sources if source.role == "trace"]
    program = replace(program, source_sha256=digests[0] if len(digests) == 1 else None)
    program = program if salt is None else program.hashed(salt)
    if program.operations.is_empty():
        print(description)
        raise InputError(f"{arguments.path}: contains no operations on files; record the app while it uses files")
    program.write(arguments.output)
    print(description)


def _device_program(opened: capture.Capture, device: str) -> tuple[Program, str]:
    requests, dev = measures.counted(opened.requests), units.parse_dev(device)
    program = device_replay.program(requests, dev=dev)
    return program, terminal.program(program, None, device_replay.left_out(requests, dev=dev))


def _cleaned(opened: capture.Capture, arguments: argparse.Namespace) -> tuple[Program, str]:
    if not opened.about["rows"]["syscalls"]:
        hint = "name a block device with --device" if opened.about["rows"]["requests"] else "record them with strace"
        raise InputError(f"{arguments.path}: contains no system calls; {hint}")
    processes = _processes(opened, Path(arguments.path), arguments.process)
    cleaned = clean(
        opened.syscalls,
        opened.tables["tasks"],
        processes=processes,
        unknown="files" if arguments.unknown_as_files else "leave out",
        page_bytes=opened.facts["page_bytes"],
    )
    if processes is not None and cleaned.program.operations.is_empty():
        named = ", ".join(map(str, processes))
        raise InputError(
            f"{arguments.path}: no file operation of process {named} was recorded; --process all includes all processes"
        )
    measured = statistics(opened.syscalls, cleaned.program.operations)
    description = terminal.program(cleaned.program, measured, cleaned.left_out, cleaned.conflicts)
    kept = (
        ""
        if processes is None
        else f"Kept: process {', '.join(map(str, processes))}; --process all keeps every one\n\n"
    )
    return cleaned.program, kept + description


def _processes(opened: capture.Capture, path: Path, asked: Sequence[int | None] | None) -> list[int] | None:
    """Return the processes to keep of the capture at `path`, or None for all."""
    if asked:
        return None if None in asked else [pid for pid in asked if pid is not None]
    recordings = [source.path for source in opened.manifest.sources if source.role == "recording"]
    pid = recording.command_pid(path / recordings[0]) if recordings else None
    return None if pid is None else descendants(opened.syscalls, opened.tables["tasks"], pid)


def _process(text: str) -> int | None:
    """Parse a process ID, or ``all`` as None."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit() and 0 <= int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r} is not a process number; write a number or all")
    return int(text)
