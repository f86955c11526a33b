"""The iobench program on this machine: where it is, and running it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from androstep_analysis.errors import InputError

Runner: TypeAlias = Callable[[Sequence[str], Path, Callable[[str], None]], int]
"""Runs iobench with these options, wherever that is, and brings its records to a path: the options say nothing of
records. Calls the function with each line that iobench writes to standard error, without its end. Returns iobench's
exit status. What is raised meanwhile ends iobench as Ctrl-C does, and is raised on when it has cleaned up."""

_PROGRAM = "build/probes/native/iobench"


def find() -> Path:
    """The program: $ANDROSTEP_IOBENCH, that of the checkout, or that on PATH; `InputError` where there is none."""
    named = os.environ.get("ANDROSTEP_IOBENCH")
    if named:
        if not os.access(named, os.X_OK):
            raise InputError(f"{named}: named by ANDROSTEP_IOBENCH, but no program; build one with `make probes`")
        return Path(named)
    built = Path(__file__).parents[2] / _PROGRAM
    on_path = shutil.which("iobench")
    if os.access(built, os.X_OK):
        return built
    if on_path is None:
        raise InputError("there is no program iobench; build it with `make probes`, or name it in ANDROSTEP_IOBENCH")
    return Path(on_path)


def local(options: Sequence[str], record: Path, progress: Callable[[str], None]) -> int:
    """`Runner` on this machine. What iobench prints is shown only where it writes no records, as for ``--help``."""
    command = [str(find()), *options, "--record", str(record)]
    with tempfile.TemporaryFile() as printed:
        with _running(command, printed.fileno()) as process:
            assert process.stderr is not None
            for line in process.stderr:
                progress(line.rstrip("\n"))
        if not record.exists():
            printed.seek(0)
            sys.stdout.write(printed.read().decode("utf-8", "replace"))
    return 128 - process.returncode if process.returncode < 0 else process.returncode


@contextlib.contextmanager
def _running(command: Sequence[str], output: int) -> Iterator[subprocess.Popen[str]]:
    """The program at work; it has ended, and removed its files, when this is left by whatever way."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
    )
    assert process.stderr is not None
    try:
        yield process
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.stderr.read()  # a full pipe would keep it from ending
        raise
    finally:
        process.wait()
        process.stderr.close()
