"""Running a program of probes/ on this machine, with a bar that shows its progress."""

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
"""Runs a probe with these options, wherever that is, and brings its records to a path: the options say nothing of
records. Calls the function with each line that the probe writes to standard error, without its end. Returns the probe's
exit status. What is raised meanwhile ends the probe as Ctrl-C does, and is raised on when it has cleaned up."""

_KEPT_HERE = ("-o", "--record")


def local(name: str, *operands: str | Path) -> Runner:
    """`Runner` on this machine, with `operands` behind the options.

    What the probe prints is shown only where it writes no records, as for ``--help``.
    """
    return partial(_run_here, name, operands)


def record(name: str, options: Sequence[str], path: Path, runner: Runner, *, of: str = "") -> int:
    """Run a probe by `runner` with a bar that shows its progress, its records kept at `path`; its exit status.

    `of` stands beside the bar's name. Raises `InputError` where the options name another place for the records.
    """
    if given := next((word for word in options if word.startswith(_KEPT_HERE)), None):
        raise InputError(f"{given}: the records are kept in the capture; name that with -o before --")
    with tqdm(total=100, unit="%", desc=f"{name}{of}", disable=None, leave=False) as bar:
        return runner(options, path, _show(name, bar))


def this_machine(name: str, options: Sequence[str]) -> dict[str, Any]:
    """What is known of the machine that a probe ran on, where it is this one (`manifest.FACTS`)."""
    return {
        "device": platform.node() or None,
        "kernel": platform.release(),
        "rooted": os.geteuid() == 0,
        "workload": " ".join([name, *options]),
    }


def progress(name: str, line: str) -> tuple[int, str] | None:
    """How many per cent are done, and of what, where this is how probe `name` tells of its progress."""
    found = re.fullmatch(rf"{re.escape(name)}: +(\d+) % (.*)", line)
    return None if found is None else (int(found[1]), found[2])


def _show(name: str, bar: tqdm[Any]) -> Callable[[str], None]:
    """Moves the bar by the probe's progress, and passes on everything else that it says."""

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
    """SIGINT and SIGTERM wait from now on, for what is called where they may come.

    A program that has begun while `Popen` has not yet returned would belong to nobody.
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
    """The program at work; it has ended, and removed its files, when this is left by whatever way."""
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
        process.stderr.read()  # a full pipe would keep it from ending
        raise
    finally:
        process.wait()
        process.stderr.close()
