"""The command line: `androstep ingest|tables|summary|lookup|report|export|bench|program|…` (docs/commands.md)."""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from androstep_analysis.common.errors import InputError, LossWarning
from androstep_analysis.common.markup import visible

EPILOG = """\
A capture is a directory made by `androstep ingest`. Every command also opens a trace file directly: trace.dat,
Perfetto, blktrace, text of ftrace or blkparse, strace, ioshark, CSV, compressed or not (docs/formats.md).

start here:
  androstep record --on usb -o mycapture --time 60  record the storage I/O of a phone
  androstep coldstart org.example.mail --on usb     how long an app takes to start, and the part of storage in it
  androstep top --on usb                            show live which processes use its storage
  androstep summary trace.txt                       what is in a trace
  androstep ingest trace.txt --image-after data.img -o mycapture
  androstep summary mycapture                       who caused which I/O, to which file
  androstep report mycapture -o report.html         the same as a page with figures
  androstep slow mycapture                          what was slow, and why
  androstep advise mycapture                        which I/O could be avoided, and what that would save
  androstep lookup data.img 81920                   which file holds sector 81920 of an image
  androstep bench /data -o mybench -- --rw randwrite  how fast the storage below a directory is
  androstep program app.strace -o app.rec           make a replay program of an app's system calls
  androstep replay app.rec /mnt/test -o myreplay    replay it in another directory
  androstep model build /data -o mydevice           measure the request times of a device
  androstep whatif mycapture --without sqlite-fsync --model mydevice  predict the time without these fsyncs
  androstep release mycapture -o mydataset          a dataset that others can open, check and cite
"""

COMMANDS = {
    "record": "Record the storage I/O of a phone, or of this machine.",
    "coldstart": "Measure the cold start of an app on a phone, and how much of it waited for storage.",
    "perfetto-config": "Print a Perfetto configuration that records storage I/O on a phone without root.",
    "ingest": "Make a capture directory from traces and filesystem images.",
    "tables": "List the tables of a capture, or write one of them.",
    "sql": "Query the tables of a capture with SQL.",
    "summary": "Summarise a capture: what was recorded, and which apps and files caused the I/O.",
    "measure": "Compute one measure of a capture, by app, file type or any other dimension.",
    "slow": "Show the slowest operations of a capture, and why each was slow.",
    "advise": "List I/O that an app could avoid, and what that would save.",
    "lookup": "Show which file or metadata the sectors of a filesystem image hold.",
    "report": "Write a capture's figures and tables as one self-contained HTML page.",
    "compare": "Compare captures by device, Android release, workload or any other fact.",
    "export": "Convert a capture to another tool's format.",
    "bench": "Measure the speed of the storage below a directory, or compare two measurements.",
    "program": "Make a replay program from recorded system calls or block requests.",
    "replay": "Replay a program in a directory or on a device, and measure it.",
    "model": "Measure the request times of a device, as input for whatif.",
    "whatif": "Predict the request times of a trace on a measured device, also after a change.",
    "top": "Show live which apps, processes and files use the storage of a phone, or of this machine.",
    "monitor": "Sample counters of the kernel and the processes of a phone, or of this machine.",
    "devices": "List the devices that --on can name.",
    "release": "Make a dataset of captures that others can open, check and cite.",
    "verify": "Check a released dataset: every byte, file, schema and row.",
    "fetch": "Print the directory of a dataset, and download it first if necessary.",
    "doctor": "Check this machine, a device, or a capture.",
}
"""The commands in the order of `androstep --help`, each with its one-line help.

`androstep --help` imports none of their modules.
"""


LEAST_ADDRESS_SPACE = 1 << 30
ADDRESS_SPACE_OF_THREAD = 128 << 20
"""Address space that a process maps at startup, and that each polars thread adds. Most of it is never touched."""

_REST_HINTS = {
    "bench": "options of iobench go",
    "replay": "options of ioreplay go",
    "record": "the command to record goes",
}
"""Commands that pass the words after ``--`` to a program on the device, with a hint for the error message."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns
    -------
    int
        Exit status: 0 done, 1 unusable input, 2 wrong usage, 128 + n after signal n.
    """
    if sys.stdout is None:  # The next file that is opened would become file descriptor 1.
        print("androstep: standard output is closed; redirect it to a file or to /dev/null", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):  # The terminal's encoding may lack characters of a file name.
        sys.stdout.reconfigure(errors="backslashreplace")
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    signals: list[int] = []
    # Polars, which is imported later, calls this handler of SIGINT and ends its queries.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, functools.partial(_end, signals))
    try:
        arguments = _parsed(sys.argv[1:] if argv is None else argv)
        warnings.simplefilter("always", LossWarning)
        warnings.showwarning = _show_warning
        _check_address_space()
        run: Callable[[argparse.Namespace], int | None] = arguments.run
        return run(arguments) or 0
    except InputError as error:
        print(f"androstep: {visible(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has seen enough, as in `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        print(f"androstep: {visible(reason)}; check the path, its permissions and the free space", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except MemoryError:
        print("androstep: not enough memory; raise its limit (ulimit -v), or use a shorter recording", file=sys.stderr)
        return 1
    except BaseException as error:
        # Polars may replace an exception that was raised in Python code it called: its text or its class.
        if signals and not isinstance(error, Exception):
            return 128 + signals[0]
        # Polars raises ComputeError if the disk is full. Importing the class here would slow down every command.
        if type(error).__name__ != "ComputeError" or "IO error" not in str(error):
            raise
        print(f"androstep: {visible(str(error))}; check the free space", file=sys.stderr)
        return 1


def _check_address_space() -> None:
    """Raise `InputError` if the address space is too small for polars to start its threads.

    A thread that gets no memory may wait for ever.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = LEAST_ADDRESS_SPACE + (os.cpu_count() or 1) * ADDRESS_SPACE_OF_THREAD
    if resource.RLIM_INFINITY != limit < needed:
        raise InputError(
            f"this process may map only {limit >> 20} MiB (ulimit -v) and needs {needed >> 20} MiB on this machine; "
            "raise the limit, or limit the memory of a cgroup instead (systemd-run -p MemoryMax=)"
        )


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Words after ``--`` of `bench`, `replay` and `record` are passed to the device unchanged."""
    rest_hint = _REST_HINTS.get(words[0]) if words else None
    end = words.index("--") if rest_hint is not None and "--" in words else len(words)
    parser, _ = parsers(words[0] if words else "")
    namespace = argparse.Namespace(options=list(words[end + 1 :]))
    arguments, unknown = parser.parse_known_args(words[:end], namespace)
    if unknown:
        hint = "" if rest_hint is None else f"; {rest_hint} after --"
        arguments.wrong_usage(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return arguments


def _complete() -> NoReturn:
    """Print what can follow on the line in the shell's environment (``COMP_LINE``), and exit."""
    import argcomplete
    import argcomplete.lexers

    _, _, _, words, _ = argcomplete.lexers.split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    name = words[1] if len(words) > 1 else ""
    parser, command = parsers(name)
    if command is not None:
        importlib.import_module("androstep_analysis.commands.completion").add(name, command._actions)
    argcomplete.autocomplete(parser)
    raise SystemExit(0)


def _end(signals: list[int], number: int, _frame: FrameType | None) -> None:
    """Record the signal and raise, so that partial output is removed on the way out.

    The second signal does not interrupt that: polars ends a query at Ctrl-C itself before it calls this handler. The
    third does.
    """
    is_leaving = isinstance(sys.exception(), KeyboardInterrupt | SystemExit)
    if not is_leaving:
        signals.clear()
    signals.append(number)
    if not is_leaving or len(signals) > 2:
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    kind = "warning" if issubclass(category, UserWarning) else category.__name__
    print(f"androstep: {kind}: {visible(str(message))}", file=sys.stderr)


class _Version(argparse.Action):
    """Print the version. It is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"androstep {version('androstep')}")
        parser.exit()


def parsers(chosen: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """Return the parser of all commands and the one of the chosen command (None if there is no such command).

    Only the chosen command gets its arguments, so that no other module is imported.
    """
    parser = argparse.ArgumentParser(
        prog="androstep",
        description="Which app, which file and which kind of block caused this storage I/O?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = {
        name: commands.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for name, summary in COMMANDS.items()
    }
    command = named.get(chosen)
    if command is not None:
        importlib.import_module(f"androstep_analysis.commands.{chosen.replace('-', '_')}").add(command)
    return parser, command
