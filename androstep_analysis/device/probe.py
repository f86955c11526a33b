"""Run a program of probes/ on this machine with a progress bar."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tqdm.auto import tqdm

from androstep_analysis.common.errors import InputError
from androstep_analysis.common.markup import visible
from androstep_analysis.device import programs

Runner: TypeAlias = Callable[[Sequence[str], Path, Callable[[str], None]], int]
"""A function that runs a probe and stores its records.

It is called with the probe's options (without those for the records), the path for the records and a function that gets
each line of the probe's standard error, without the line's end. It returns the probe's exit status. An exception during
the run ends the probe like Ctrl-C, and is raised again after the probe has cleaned up.
"""

_KEPT_HERE = ("-o", "--record")


def local(name: str, *operands: str | Path) -> Runner:
    """Return a `Runner` on this machine that passes `operands` after the options.

    The probe's standard output is printed only if it writes no records, as with ``--help``.
    """
    return partial(_run_here, name, operands)


def record(name: str, options: Sequence[str], path: Path, runner: Runner, *, of: str = "") -> int:
    """Run a probe by `runner` with a progress bar, store its records at `path` and return its exit status.

    `of` is appended to the bar's name. Raises `InputError` if the options set the path of the records.
    """
    if given := next((word for word in options if word.startswith(_KEPT_HERE)), None):
        raise InputError(f"{given}: the records are part of the capture; name the capture with -o before --")
    with tqdm(total=100, unit="%", desc=f"{name}{of}", disable=None, leave=False) as bar:
        return runner(options, path, _show(name, bar))


def this_machine(name: str, options: Sequence[str]) -> dict[str, Any]:
    """Return the facts of this machine (`manifest.FACTS`) for a capture of a probe that ran here."""
    return {
        "device": platform.node() or None,
        "kernel": platform.release(),
        "rooted": os.geteuid() == 0,
        "workload": " ".join([name, *options]),
    }


def progress(name: str, line: str) -> tuple[int, str] | None:
    """Return the percentage and the activity in a progress line of probe `name`; None for any other line."""
    found = re.fullmatch(rf"{re.escape(name)}: +(\d+) % (.*)", line)
    return None if found is None else (int(found[1]), found[2])


def _show(name: str, bar: tqdm[Any]) -> Callable[[str], None]:
    """Return a function that updates the bar from progress lines, and prints all other lines."""

    def show(line: str) -> None:
        if found := progress(name, line):
            bar.set_postfix_str(visible(found[1]), refresh=False)
            bar.update(found[0] - bar.n)
        else:
            with bar.external_write_mode():
                print(visible(line), file=sys.stderr)

    return show


def _run_here(
    name: str, operands: Sequence[str | Path], options: Sequence[str], path: Path, progress: Callable[[str], None]
) -> int:
    command = [str(word) for word in (programs.for_this_machine(name), *options, "--record", path, *operands)]
    with tempfile.TemporaryFile() as printed:
        with _running(command, printed.fileno()) as process:
            assert process.stderr is not None
            for line in process.stderr:
                progress(line.rstrip("\n"))
        if not path.exists():
            printed.seek(0)
            sys.stdout.write(printed.read().decode("utf-8", "replace"))
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def _signals_wait() -> Callable[[], None]:
    """Defer SIGINT and SIGTERM; return a function that stops deferring and delivers those received.

    Without this, a signal between the start of the program and the return of `Popen` would leave it running without
    owner.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    caught: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: caught.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }

    def begin() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        for due in caught:
            signal.raise_signal(due)

    return begin


@contextlib.contextmanager
def _running(command: Sequence[str], output: int) -> Iterator[subprocess.Popen[str]]:
    """Run a program; on leaving the block, by exception or not, it has ended and removed its files."""
    begin = _signals_wait()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except BaseException:
        begin()
        raise
    assert process.stderr is not None
    try:
        begin()
        yield process
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.stderr.read()  # the program cannot end while the pipe is full
        raise
    finally:
        process.wait()
        process.stderr.close()
